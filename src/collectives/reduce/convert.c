/* collectives/reduce/convert.c - see convert.h. By tiles that stay in cache,
 * in binary64, so that each type is read and written by one loop of its own.
 * User memory need not be aligned. Built with -O3. Pure. */
#include "collectives/reduce/convert.h"

#include <stdint.h>
#include <string.h>

#include "collectives/reduce/dtype.h"
#include "collectives/reduce/float_env.h"

enum { TILE = 256 };

static void load_floats(double *v, const uint8_t *src, size_t n)
{
    float tile[TILE];

    memcpy(tile, src, n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        v[i] = (double)tile[i];
}

static void load(double *v, hvd_dtype_t dtype, const uint8_t *src, size_t n)
{
    if (dtype == HVD_FLOAT64)
        memcpy(v, src, n * sizeof(double));
    else
        load_floats(v, src, n);
}

static void store_floats(uint8_t *dst, const double *v, size_t n)
{
    float tile[TILE];

    for (size_t i = 0; i < n; i++)
        tile[i] = (float)v[i];
    memcpy(dst, tile, n * sizeof(float));
}

static void store(hvd_dtype_t dtype, uint8_t *dst, const double *v, size_t n)
{
    if (dtype == HVD_FLOAT64)
        memcpy(dst, v, n * sizeof(double));
    else
        store_floats(dst, v, n);
}

static void narrow(hvd_dtype_t wire, uint16_t *q, const double *v, size_t n)
{
    if (wire == HVD_FLOAT16)
        for (size_t i = 0; i < n; i++)
            q[i] = half_of_float((float)v[i]);
    else
        for (size_t i = 0; i < n; i++)
            q[i] = bfloat_of_float((float)v[i]);
}

static void widen(double *v, hvd_dtype_t wire, const uint16_t *q, size_t n)
{
    if (wire == HVD_FLOAT16)
        for (size_t i = 0; i < n; i++)
            v[i] = (double)half_to_float(q[i]);
    else
        for (size_t i = 0; i < n; i++)
            v[i] = (double)bfloat_to_float(q[i]);
}

static void multiply(double *v, size_t n, double factor)
{
    for (size_t i = 0; i < n; i++)
        v[i] *= factor;
}

static void add(double *v, const double *more, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] += more[i];
}

/* v minus what has become of it; of infinity and NaN nothing is kept. */
static void keep_rest(double *v, const double *rounded, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double rest = v[i] - rounded[i];

        v[i] = rest - rest == 0 ? rest : 0;
    }
}

/* q [n] and what is left of v for the next time. */
static void narrow_with(hvd_dtype_t wire, uint16_t *q, double *v, size_t n,
                        hvd_dtype_t dtype, uint8_t *residual)
{
    double tile[TILE];

    load(tile, dtype, residual, n);
    add(v, tile, n);
    narrow(wire, q, v, n);
    widen(tile, wire, q, n);
    keep_rest(v, tile, n);
    store(dtype, residual, v, n);
}

static size_t tile_at(size_t at, size_t count)
{
    return count - at < TILE ? count - at : TILE;
}

void convert_narrow(hvd_dtype_t wire, void *dst, hvd_dtype_t dtype,
                    const void *src, size_t count, double factor,
                    void *residual)
{
    size_t elem = hvd_dtype_size(dtype);
    uint64_t env = float_env_enter();

    for (size_t at = 0, n; at < count; at += n) {
        uint8_t *rest = residual;
        double v[TILE];
        uint16_t q[TILE];

        n = tile_at(at, count);
        load(v, dtype, (const uint8_t *)src + at * elem, n);
        multiply(v, n, factor);
        if (rest)
            narrow_with(wire, q, v, n, dtype, rest + at * elem);
        else
            narrow(wire, q, v, n);
        memcpy((uint8_t *)dst + at * sizeof(*q), q, n * sizeof(*q));
    }
    float_env_leave(env);
}

void convert_widen(hvd_dtype_t dtype, void *dst, hvd_dtype_t wire,
                   const void *src, size_t count, double factor)
{
    size_t elem = hvd_dtype_size(dtype);
    uint64_t env = float_env_enter();

    for (size_t at = 0, n; at < count; at += n) {
        double v[TILE];
        uint16_t q[TILE];

        n = tile_at(at, count);
        memcpy(q, (const uint8_t *)src + at * sizeof(*q), n * sizeof(*q));
        widen(v, wire, q, n);
        multiply(v, n, factor);
        store(dtype, (uint8_t *)dst + at * elem, v, n);
    }
    float_env_leave(env);
}
