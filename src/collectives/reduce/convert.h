/* collectives/reduce/convert.h - floating point to 16 bits and back, for calls
 * that are compressed on the way. Pure. Threads: any. */
#ifndef COLLECTIVES_REDUCE_CONVERT_H
#define COLLECTIVES_REDUCE_CONVERT_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/collectives.h>

static inline bool convert_applies(hvd_dtype_t dtype)
{
    return dtype == HVD_FLOAT32 || dtype == HVD_FLOAT64;
}

/* dst [count] of `wire`, a 16-bit float, = factor * src, of dtype, to which
 * convert_applies(); rounded to binary32, and from there. What does not fit is
 * infinite.
 *
 * residual [count] of dtype, or NULL: it is added before, and what rounding
 * takes away is in it after; 0 where the result is not finite. */
void convert_narrow(hvd_dtype_t wire, void *dst, hvd_dtype_t dtype,
                    const void *src, size_t count, double factor,
                    void *residual);

/* dst [count] of dtype = factor * src, of `wire`. Rounded once. */
void convert_widen(hvd_dtype_t dtype, void *dst, hvd_dtype_t wire,
                   const void *src, size_t count, double factor);

#endif
