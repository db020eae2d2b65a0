/* collectives/reduce/reduce_scalar.c - the kernels as plain loops: what the
 * others are compared with, and what runs where there are no others. No
 * branches in them, so that the compiler makes of them what the baseline of the
 * processor has (this file is built with -O3). See reduce.h. Pure. */
#include <stdint.h>
#include <string.h>

#include "base/array.h"
#include "collectives/reduce/dtype.h"
#include "collectives/reduce/reduce_kernels.h"

static inline double double_of_bits(uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Which NaN an addition returns depends on the order of its operands, which the
 * compiler may swap: name one. */
static inline float quiet32(float value)
{
    return value != value ? float_of_bits(0x7fc00000u) : value;
}

static inline double quiet64(double value)
{
    return value != value ? double_of_bits(0x7ff8000000000000u) : value;
}

/* MIN and MAX of floats by their bits, without arithmetic: what is flushed to
 * zero by a program built with -ffast-math stays what it is. The order of
 * integers is that of floats of the same bits, -0 below +0, once the magnitude
 * of the negative ones is turned round. */
#define LEAST_FLOATS(name, type, magnitude, infinity, quiet)            \
    static inline type turn_##name(type a)                              \
    {                                                                   \
        return (type)(a ^ (a < 0 ? (magnitude) : 0));                   \
    }                                                                   \
    static inline type min_##name(type a, type b)                       \
    {                                                                   \
        type least = turn_##name(a) < turn_##name(b) ? a : b;           \
                                                                        \
        least = (a & (magnitude)) > (infinity) ? (type)(quiet) : least; \
        return (b & (magnitude)) > (infinity) ? (type)(quiet) : least;  \
    }                                                                   \
    static inline type max_##name(type a, type b)                       \
    {                                                                   \
        type most = turn_##name(a) > turn_##name(b) ? a : b;            \
                                                                        \
        most = (a & (magnitude)) > (infinity) ? (type)(quiet) : most;   \
        return (b & (magnitude)) > (infinity) ? (type)(quiet) : most;   \
    }

LEAST_FLOATS(half, int16_t, 0x7fff, 0x7c00, 0x7e00)
LEAST_FLOATS(bfloat, int16_t, 0x7fff, 0x7f80, 0x7fc0)
LEAST_FLOATS(bits32, int32_t, 0x7fffffff, 0x7f800000, 0x7fc00000)
LEAST_FLOATS(bits64, int64_t, INT64_MAX, 0x7ff0000000000000, 0x7ff8000000000000)

#define KERNEL(name, type, expression)                                \
    static void name(void *restrict acc_p, const void *restrict in_p, \
                     size_t count)                                    \
    {                                                                 \
        type *restrict acc = acc_p;                                   \
        const type *restrict in = in_p;                               \
                                                                      \
        for (size_t i = 0; i < count; i++) {                          \
            type a = acc[i], b = in[i];                               \
                                                                      \
            acc[i] = (type)(expression);                              \
        }                                                             \
    }

/* Integers wrap: in an unsigned type of at least their width. */
#define INTEGER_KERNELS(name, type, wide)                       \
    KERNEL(sum_##name, type, (wide)a + (wide)b)                 \
    KERNEL(min_##name, type, a < b ? a : b)                     \
    KERNEL(max_##name, type, a > b ? a : b)                     \
    KERNEL(product_##name, type, (wide)a *(wide)b)              \
    static void divide_##name(void *buf_p, size_t count, int n) \
    {                                                           \
        type *buf = buf_p;                                      \
                                                                \
        for (size_t i = 0; i < count; i++)                      \
            buf[i] = (type)(buf[i] / n);                        \
    }

INTEGER_KERNELS(int8, int8_t, uint32_t)
INTEGER_KERNELS(uint8, uint8_t, uint32_t)
INTEGER_KERNELS(int32, int32_t, uint32_t)
INTEGER_KERNELS(int64, int64_t, uint64_t)

#define FLOAT_KERNELS(name, type, bits)                         \
    KERNEL(sum_##name, type, quiet##bits(a + b))                \
    KERNEL(min_##name, int##bits##_t, min_bits##bits(a, b))     \
    KERNEL(max_##name, int##bits##_t, max_bits##bits(a, b))     \
    KERNEL(product_##name, type, quiet##bits(a *b))             \
    static void divide_##name(void *buf_p, size_t count, int n) \
    {                                                           \
        type *buf = buf_p;                                      \
                                                                \
        for (size_t i = 0; i < count; i++)                      \
            buf[i] = quiet##bits(buf[i] / (type)n);             \
    }

FLOAT_KERNELS(float32, float, 32)
FLOAT_KERNELS(float64, double, 64)

#define SHORT_KERNEL(name, kind, expression)                          \
    static void name(void *restrict acc_p, const void *restrict in_p, \
                     size_t count)                                    \
    {                                                                 \
        uint16_t *restrict acc = acc_p;                               \
        const uint16_t *restrict in = in_p;                           \
                                                                      \
        for (size_t i = 0; i < count; i++) {                          \
            float a = kind##_to_float(acc[i]);                        \
            float b = kind##_to_float(in[i]);                         \
                                                                      \
            acc[i] = kind##_of_float(expression);                     \
        }                                                             \
    }

#define SHORT_KERNELS(name, kind)                                         \
    SHORT_KERNEL(sum_##name, kind, a + b)                                 \
    KERNEL(min_##name, int16_t, min_##kind(a, b))                         \
    KERNEL(max_##name, int16_t, max_##kind(a, b))                         \
    SHORT_KERNEL(product_##name, kind, a *b)                              \
    static void divide_##name(void *buf_p, size_t count, int n)           \
    {                                                                     \
        uint16_t *buf = buf_p;                                            \
                                                                          \
        for (size_t i = 0; i < count; i++)                                \
            buf[i] = kind##_of_float(kind##_to_float(buf[i]) / (float)n); \
    }

SHORT_KERNELS(float16, half)
SHORT_KERNELS(bfloat16, bfloat)

typedef void combine_fn(void *restrict acc, const void *restrict in,
                        size_t count);
typedef void divide_fn(void *buf, size_t count, int n);

#define ROW(name)                                                      \
    {                                                                  \
        sum_##name, sum_##name, min_##name, max_##name, product_##name \
    }

static combine_fn *const combines[DTYPE_END][OP_COUNT] = {
    [HVD_INT8] = ROW(int8),       [HVD_UINT8] = ROW(uint8),
    [HVD_INT32] = ROW(int32),     [HVD_INT64] = ROW(int64),
    [HVD_FLOAT16] = ROW(float16), [HVD_BFLOAT16] = ROW(bfloat16),
    [HVD_FLOAT32] = ROW(float32), [HVD_FLOAT64] = ROW(float64),
};

static divide_fn *const divides[DTYPE_END] = {
    [HVD_INT8] = divide_int8,       [HVD_UINT8] = divide_uint8,
    [HVD_INT32] = divide_int32,     [HVD_INT64] = divide_int64,
    [HVD_FLOAT16] = divide_float16, [HVD_BFLOAT16] = divide_bfloat16,
    [HVD_FLOAT32] = divide_float32, [HVD_FLOAT64] = divide_float64,
};

/* All sources of a tile are read before its results are written: these may be
 * any of them. A tile fits in the first cache with room for its sources. */
enum { TILE_BYTES = 2048 };

/* The loops above read elements: those that lie across their alignment are
 * copied to where they do not. */
static const void *aligned(const uint8_t *src, size_t elem, size_t nbytes,
                           uint8_t *copy)
{
    return (uintptr_t)src % elem == 0 ? src : memcpy(copy, src, nbytes);
}

/* Elements [at, at + n) of the result, in `acc`. */
static void run_tile(const struct reduce_shape *shape, void *acc,
                     const void *const *srcs, int n_srcs, size_t at, size_t n)
{
    combine_fn *combine = combines[shape->dtype][shape->op];
    size_t elem = hvd_dtype_size(shape->dtype), offset = at * elem;
    _Alignas(64) uint8_t copy[TILE_BYTES];

    memcpy(acc, (const uint8_t *)srcs[0] + offset, n * elem);
    for (int s = 1; s < n_srcs; s++)
        combine(
            acc,
            aligned((const uint8_t *)srcs[s] + offset, elem, n * elem, copy),
            n);
    if (shape->divisor > 0)
        divides[shape->dtype](acc, n, shape->divisor);
}

void reduce_to_all_scalar(const struct reduce_shape *shape, void *const *dsts,
                          int n_dsts, const void *const *srcs, int n_srcs,
                          size_t count)
{
    size_t elem = hvd_dtype_size(shape->dtype), tile_max = TILE_BYTES / elem;
    _Alignas(64) uint8_t tile[TILE_BYTES];

    for (size_t at = 0; at < count; at += tile_max) {
        size_t n = count - at < tile_max ? count - at : tile_max;

        run_tile(shape, tile, srcs, n_srcs, at, n);
        for (int d = 0; d < n_dsts; d++)
            memcpy((uint8_t *)dsts[d] + at * elem, tile, n * elem);
    }
}
