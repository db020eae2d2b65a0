/* collectives/reduce/adasum.c - see adasum.h. Pure. */
#include "collectives/reduce/adasum.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "collectives/reduce/dtype.h"
#include "collectives/reduce/float_env.h"

enum { AT_ONCE = 512 }; /* elements, widened */

static void widen(hvd_dtype_t dtype, double *to, const void *from, size_t at,
                  size_t n)
{
    const uint16_t *bits = (const uint16_t *)from + at;

    switch (dtype) {
    case HVD_FLOAT16:
        for (size_t i = 0; i < n; i++)
            to[i] = (double)half_to_float(bits[i]);
        return;
    case HVD_BFLOAT16:
        for (size_t i = 0; i < n; i++)
            to[i] = (double)bfloat_to_float(bits[i]);
        return;
    case HVD_FLOAT32:
        for (size_t i = 0; i < n; i++)
            to[i] = (double)((const float *)from)[at + i];
        return;
    default:
        memcpy(to, (const double *)from + at, n * sizeof(*to));
        return;
    }
}

static void narrow(hvd_dtype_t dtype, void *to, size_t at, const double *from,
                   size_t n)
{
    uint16_t *bits = (uint16_t *)to + at;

    switch (dtype) {
    case HVD_FLOAT16:
        for (size_t i = 0; i < n; i++)
            bits[i] = half_of_float((float)from[i]);
        return;
    case HVD_BFLOAT16:
        for (size_t i = 0; i < n; i++)
            bits[i] = bfloat_of_float((float)from[i]);
        return;
    case HVD_FLOAT32:
        for (size_t i = 0; i < n; i++)
            ((float *)to)[at + i] = (float)from[i];
        return;
    default:
        memcpy((double *)to + at, from, n * sizeof(*from));
        return;
    }
}

static size_t next(size_t at, size_t count)
{
    return count - at < AT_ONCE ? count - at : AT_ONCE;
}

void adasum_add_products(hvd_dtype_t dtype, const void *a, const void *b,
                         size_t count, struct adasum_products *products)
{
    double x[AT_ONCE], y[AT_ONCE];
    struct adasum_products sum = *products;
    uint64_t env = float_env_enter();

    for (size_t at = 0, n; at < count; at += n) {
        n = next(at, count);
        widen(dtype, x, a, at, n);
        widen(dtype, y, b, at, n);
        for (size_t i = 0; i < n; i++) {
            sum.ab += x[i] * y[i];
            sum.aa += x[i] * x[i];
            sum.bb += y[i] * y[i];
        }
    }
    float_env_leave(env);
    *products = sum;
}

/* Beside a vector of zeros the other stays, whatever is in it. */
static double factor_of(const struct adasum_products *p, double square)
{
    bool sums = p->aa <= 0 || p->bb <= 0 || isinf(p->aa) || isinf(p->bb);

    return sums ? 1 : 1 - p->ab / square / 2;
}

void adasum_combine(hvd_dtype_t dtype, void *dst, const void *a, const void *b,
                    size_t count, const struct adasum_products *products)
{
    double x[AT_ONCE], y[AT_ONCE];
    uint64_t env = float_env_enter();
    double of_a = factor_of(products, products->aa);
    double of_b = factor_of(products, products->bb);

    for (size_t at = 0, n; at < count; at += n) {
        n = next(at, count);
        widen(dtype, x, a, at, n);
        widen(dtype, y, b, at, n);
        for (size_t i = 0; i < n; i++)
            x[i] = of_a * x[i] + of_b * y[i];
        narrow(dtype, dst, at, x, n);
    }
    float_env_leave(env);
}
