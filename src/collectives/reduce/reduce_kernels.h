/* collectives/reduce/reduce_kernels.h - one reduce_to_all() per instruction
 * set, between reduce.c, which picks one, and the files that hold them. The
 * contract is that of reduce_to_all(), arguments checked. The processor has the
 * instructions. All of them give the same bits.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_REDUCE_REDUCE_KERNELS_H
#define COLLECTIVES_REDUCE_REDUCE_KERNELS_H

#include "collectives/reduce/reduce.h"

typedef void reduce_to_all_fn(const struct reduce_shape *shape,
                              void *const *dsts, int n_dsts,
                              const void *const *srcs, int n_srcs,
                              size_t count);

reduce_to_all_fn reduce_to_all_scalar;
reduce_to_all_fn reduce_to_all_avx2;   /* x86-64, with F16C */
reduce_to_all_fn reduce_to_all_avx512; /* x86-64: F, BW, DQ, VL */
reduce_to_all_fn reduce_to_all_neon;   /* aarch64 */

#endif
