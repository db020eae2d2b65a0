/* collectives/reduce/scale.c - see scale.h. Pure. */
#include "collectives/reduce/scale.h"

#include <stdint.h>
#include <string.h>

#include "collectives/reduce/dtype.h"
#include "collectives/reduce/float_env.h"

/* By way of float32, where the factor is one: of others, which may be beyond
 * its range, the product is rounded to it first. */
static void scale_half(uint16_t *dst, const uint16_t *src, size_t count,
                       double factor)
{
    const float narrow = (float)factor;

    if ((double)narrow == factor) {
        for (size_t i = 0; i < count; i++)
            dst[i] = half_of_float(half_to_float(src[i]) * narrow);
        return;
    }
    for (size_t i = 0; i < count; i++)
        dst[i] = half_of_float((float)((double)half_to_float(src[i]) * factor));
}

static void scale_bfloat(uint16_t *dst, const uint16_t *src, size_t count,
                         double factor)
{
    const float narrow = (float)factor;

    if ((double)narrow == factor) {
        for (size_t i = 0; i < count; i++)
            dst[i] = bfloat_of_float(bfloat_to_float(src[i]) * narrow);
        return;
    }
    for (size_t i = 0; i < count; i++)
        dst[i] = bfloat_of_float(
            (float)((double)bfloat_to_float(src[i]) * factor));
}

static void scale_float(float *dst, const float *src, size_t count,
                        double factor)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = (float)((double)src[i] * factor);
}

static void scale_double(double *dst, const double *src, size_t count,
                         double factor)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = src[i] * factor;
}

static void scale_aligned(hvd_dtype_t dtype, void *dst, const void *src,
                          size_t count, double factor)
{
    switch (dtype) {
    case HVD_FLOAT16:
        scale_half(dst, src, count, factor);
        return;
    case HVD_BFLOAT16:
        scale_bfloat(dst, src, count, factor);
        return;
    case HVD_FLOAT32:
        scale_float(dst, src, count, factor);
        return;
    case HVD_FLOAT64:
        scale_double(dst, src, count, factor);
        return;
    default:
        return;
    }
}

/* Elements that lie across their alignment: through memory where they do not.
 */
static void scale_unaligned(hvd_dtype_t dtype, uint8_t *dst, const uint8_t *src,
                            size_t count, double factor)
{
    enum { TILE_BYTES = 1024 };
    _Alignas(64) uint8_t tile[TILE_BYTES];
    size_t elem = hvd_dtype_size(dtype), nbytes = count * elem;

    for (size_t at = 0; at < nbytes; at += TILE_BYTES) {
        size_t n = nbytes - at < TILE_BYTES ? nbytes - at : TILE_BYTES;

        memcpy(tile, src + at, n);
        scale_aligned(dtype, tile, tile, n / elem, factor);
        memcpy(dst + at, tile, n);
    }
}

void scale(hvd_dtype_t dtype, void *dst, const void *src, size_t count,
           double factor)
{
    uintptr_t either = (uintptr_t)dst | (uintptr_t)src;
    uint64_t env = float_env_enter();

    if (either % hvd_dtype_size(dtype) == 0)
        scale_aligned(dtype, dst, src, count, factor);
    else
        scale_unaligned(dtype, dst, src, count, factor);
    float_env_leave(env);
}
