/* collectives/reduce/scale.h - a multiple of floating point elements. Pure.
 * Threads: any. */
#ifndef COLLECTIVES_REDUCE_SCALE_H
#define COLLECTIVES_REDUCE_SCALE_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/collectives.h>

static inline bool scale_applies(hvd_dtype_t dtype)
{
    return dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16 ||
           dtype == HVD_FLOAT32 || dtype == HVD_FLOAT64;
}

/* dst = factor * src, [count] of a floating dtype each; may be the same.
 * Computed in binary64, the 16-bit types in binary32; rounded once. */
void scale(hvd_dtype_t dtype, void *dst, const void *src, size_t count,
           double factor);

#endif
