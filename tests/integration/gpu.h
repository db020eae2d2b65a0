/* tests/integration/gpu.h - a device for trainer: what it adds up goes there,
 * is combined there, and comes back; what it must not forget lies there.
 * Threads: one. */
#ifndef TESTS_INTEGRATION_GPU_H
#define TESTS_INTEGRATION_GPU_H

#include <stdint.h>

#include <hvd/hvd.h>

/* values [count] of at most 256 bytes, in place. Exits with a sentence where
 * there is no driver. */
hvd_status_t gpu_allreduce(void *values, size_t count, hvd_dtype_t dtype,
                           hvd_op_t op);

/* An entry of the state on the device: a word that is what was stored last.
 * After hvd_init. */
hvd_status_t gpu_keep(hvd_state_t *state);
void gpu_store(uint64_t word);
uint64_t gpu_stored(void);

#endif
