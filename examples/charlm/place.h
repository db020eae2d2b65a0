/* examples/charlm/place.h - where the model lies: in memory of the host
 * (place.c), or on a device (charlm_cuda/place_cuda.c). The elastic parts of
 * charlm and charlm_cuda differ in nothing else. Threads: one. */
#ifndef CHARLM_PLACE_H
#define CHARLM_PLACE_H

#include <hvd/hvd.h>

/* After hvd_init, before there is a model. */
hvd_status_t place_open(void) HVD_MUST_CHECK;

/* Register `count` numbers of the model. */
hvd_status_t place_register(hvd_state_t *state, const char *name,
                            float *numbers, size_t count) HVD_MUST_CHECK;

#endif
