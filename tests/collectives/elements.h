/* tests/collectives/elements.h - elements of any dtype, as numbers. Threads:
 * any. */
#ifndef TESTS_COLLECTIVES_ELEMENTS_H
#define TESTS_COLLECTIVES_ELEMENTS_H

#include "collectives/reduce/dtype.h"

static inline void store(hvd_dtype_t dtype, void *buf, size_t i, double x)
{
    switch (dtype) {
    case HVD_INT8:
        ((int8_t *)buf)[i] = (int8_t)x;
        return;
    case HVD_UINT8:
        ((uint8_t *)buf)[i] = (uint8_t)x;
        return;
    case HVD_INT32:
        ((int32_t *)buf)[i] = (int32_t)x;
        return;
    case HVD_INT64:
        ((int64_t *)buf)[i] = (int64_t)x;
        return;
    case HVD_FLOAT16:
        ((uint16_t *)buf)[i] = half_of_float((float)x);
        return;
    case HVD_BFLOAT16:
        ((uint16_t *)buf)[i] = bfloat_of_float((float)x);
        return;
    case HVD_FLOAT32:
        ((float *)buf)[i] = (float)x;
        return;
    default:
        ((double *)buf)[i] = x;
    }
}

static inline double load(hvd_dtype_t dtype, const void *buf, size_t i)
{
    switch (dtype) {
    case HVD_INT8:
        return ((const int8_t *)buf)[i];
    case HVD_UINT8:
        return ((const uint8_t *)buf)[i];
    case HVD_INT32:
        return ((const int32_t *)buf)[i];
    case HVD_INT64:
        return (double)((const int64_t *)buf)[i];
    case HVD_FLOAT16:
        return (double)half_to_float(((const uint16_t *)buf)[i]);
    case HVD_BFLOAT16:
        return (double)bfloat_to_float(((const uint16_t *)buf)[i]);
    case HVD_FLOAT32:
        return (double)((const float *)buf)[i];
    default:
        return ((const double *)buf)[i];
    }
}

#endif
