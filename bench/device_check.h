/* bench/device_check.h - are the results of collectives on devices right? Every
 * kind, dtype and op, in place and not, beside a plain loop over what all ranks
 * put in, which each rank knows.
 *
 * Values are small whole numbers, so that sums and products are exact in every
 * dtype: a result is right or it is not. An average may be off by a last bit.
 *
 * Threads: one. Memory: buffers for the largest case, freed on return. */
#ifndef BENCH_DEVICE_CHECK_H
#define BENCH_DEVICE_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include <hvd/hvd.h>

enum { DEVICE_CHECK_RANKS_MAX = 8 };

struct device_check { /* of this rank */
    int64_t n_cases, n_elements, n_wrong;
    int64_t n_refused; /* cases that NCCL does not have, as device.h says */
    char first[128];   /* what is wrong first; "" */
};

/* With so many elements to a block: 1, some, count_max. HVD_OK, or why a call
 * has failed. Open device (gpu.h). */
hvd_status_t device_check_all(size_t count_max,
                              struct device_check *found) HVD_MUST_CHECK;

#endif
