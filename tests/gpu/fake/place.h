/* place.h - where a rank of NCCL is: a device of a host. Two that are at one
 * place are refused.
 *
 * Threads: any. */
#ifndef TESTS_GPU_PLACE_H
#define TESTS_GPU_PLACE_H

#include <stdbool.h>
#include <stdint.h>

/* The device of the context that is current, and the host as NCCL_HOSTID names
 * it; all processes without that are on one. */
uint64_t place_of_this(void);

/* places [n] */
bool places_differ(const uint64_t *places, int n);

#endif
