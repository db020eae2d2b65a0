/* collectives/reduce_kernels.h - one reduce_many() per instruction set, between
 * reduce.c, which picks one, and the files that hold them. The contract is that
 * of reduce_many(), arguments checked. The processor has the instructions. All
 * of them give the same bits.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_REDUCE_KERNELS_H
#define COLLECTIVES_REDUCE_KERNELS_H

#include "collectives/reduce.h"

typedef void reduce_many_fn(const struct reduce_shape *shape, void *dst,
                            const void *const *srcs, int n_srcs, size_t count);

reduce_many_fn reduce_many_scalar;
reduce_many_fn reduce_many_avx2;   /* x86-64, with F16C */
reduce_many_fn reduce_many_avx512; /* x86-64: F, BW, DQ, VL */
reduce_many_fn reduce_many_neon;   /* aarch64 */

#endif
