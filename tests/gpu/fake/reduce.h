/* reduce.h - elements of ranks combined, in the types that NCCL has and we use.
 * Threads: any. */
#ifndef TESTS_GPU_REDUCE_H
#define TESTS_GPU_REDUCE_H

#include <stddef.h>

#include <nccl.h>

size_t fake_size_of(ncclDataType_t type);

/* dst [count] = dst op src */
void fake_reduce(void *dst, const void *src, size_t count, ncclDataType_t type,
                 ncclRedOp_t op);

#endif
