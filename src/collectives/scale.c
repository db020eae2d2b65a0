/* collectives/scale.c - see scale.h. Pure. */
#include "collectives/scale.h"

#include "collectives/dtype.h"

static void scale_half(uint16_t *dst, const uint16_t *src, size_t count,
                       float factor)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = half_of_float(half_to_float(src[i]) * factor);
}

static void scale_bfloat(uint16_t *dst, const uint16_t *src, size_t count,
                         float factor)
{
    for (size_t i = 0; i < count; i++)
        dst[i] = bfloat_of_float(bfloat_to_float(src[i]) * factor);
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

void scale(hvd_dtype_t dtype, void *dst, const void *src, size_t count,
           double factor)
{
    switch (dtype) {
    case HVD_FLOAT16:
        scale_half(dst, src, count, (float)factor);
        return;
    case HVD_BFLOAT16:
        scale_bfloat(dst, src, count, (float)factor);
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
