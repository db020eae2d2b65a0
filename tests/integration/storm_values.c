/* tests/integration/storm_values.c - the elements that ranks contribute and
 * what an op makes of them, computed here and not by the library. See storm.h.
 *
 * Integers are any of their width, and wrap. Floating point is small whole
 * numbers: sums and products of a few ranks are exact in all formats, whatever
 * the order, and only an average is rounded. */
#include "storm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_float(hvd_dtype_t dtype)
{
    return dtype >= HVD_FLOAT16;
}

/* ---- elements as bytes --------------------------------------------------- */

/* Whole numbers below 2048 are normal binary16, or 0: nothing is rounded. */
static uint16_t half_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if (value == 0)
        return 0;
    return (uint16_t)((bits >> 16 & 0x8000) |
                      ((bits & 0x7fffffff) - (112u << 23)) >> 13);
}

static double half_value(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double magnitude;

    if (exponent == 31)
        magnitude = fraction == 0 ? INFINITY : NAN;
    else if (exponent == 0)
        magnitude = ldexp(fraction, -24);
    else
        magnitude = ldexp(1024 + fraction, exponent - 25);
    return half & 0x8000 ? -magnitude : magnitude;
}

static uint16_t bfloat_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static double bfloat_value(uint16_t bfloat)
{
    uint32_t bits = (uint32_t)bfloat << 16;
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void store_float(hvd_dtype_t dtype, double value, unsigned char *p)
{
    float single = (float)value;
    uint16_t half = dtype == HVD_FLOAT16 ? half_of(single) : bfloat_of(single);

    if (dtype == HVD_FLOAT64)
        memcpy(p, &value, sizeof(value));
    else if (dtype == HVD_FLOAT32)
        memcpy(p, &single, sizeof(single));
    else
        memcpy(p, &half, sizeof(half));
}

static double load_float(hvd_dtype_t dtype, const unsigned char *p)
{
    double value;
    float single;
    uint16_t half;

    if (dtype == HVD_FLOAT64) {
        memcpy(&value, p, sizeof(value));
        return value;
    }
    if (dtype == HVD_FLOAT32) {
        memcpy(&single, p, sizeof(single));
        return single;
    }
    memcpy(&half, p, sizeof(half));
    return dtype == HVD_FLOAT16 ? half_value(half) : bfloat_value(half);
}

/* What is left of a sum in the width of its type. */
static int64_t wrapped(hvd_dtype_t dtype, int64_t value)
{
    switch (dtype) {
    case HVD_INT8:
        return (int8_t)value;
    case HVD_UINT8:
        return (uint8_t)value;
    case HVD_INT32:
        return (int32_t)value;
    default:
        return value;
    }
}

static void store_integer(hvd_dtype_t dtype, int64_t value, unsigned char *p)
{
    int32_t word = (int32_t)value;
    unsigned char byte = (unsigned char)value;

    if (dtype == HVD_INT64)
        memcpy(p, &value, sizeof(value));
    else if (dtype == HVD_INT32)
        memcpy(p, &word, sizeof(word));
    else
        *p = byte;
}

static int64_t load_integer(hvd_dtype_t dtype, const unsigned char *p)
{
    int64_t value;
    int32_t word;

    if (dtype == HVD_INT64) {
        memcpy(&value, p, sizeof(value));
        return value;
    }
    if (dtype == HVD_INT32) {
        memcpy(&word, p, sizeof(word));
        return word;
    }
    return wrapped(dtype, *p);
}

static void show(hvd_dtype_t dtype, const unsigned char *p, char *text)
{
    if (is_float(dtype))
        snprintf(text, VALUE_TEXT_MAX, "%.17g", load_float(dtype, p));
    else
        snprintf(text, VALUE_TEXT_MAX, "%" PRId64, load_integer(dtype, p));
}

/* ---- sequences ----------------------------------------------------------- */

static int64_t element(uint64_t key, int rank, size_t i, hvd_dtype_t dtype,
                       hvd_op_t op)
{
    static const int64_t factors[] = {-1, 1, 2};
    uint64_t x = mix2(key + (uint64_t)rank, i);

    if (!is_float(dtype))
        return wrapped(dtype, (int64_t)x);
    if (op == HVD_PRODUCT)
        return factors[x % 3];
    if (dtype <= HVD_BFLOAT16)
        return (int64_t)(x % 16) - 8;
    return (int64_t)(x % 200003) - 100001;
}

static int64_t combine(hvd_op_t op, int64_t a, int64_t b)
{
    switch (op) {
    case HVD_MIN:
        return a < b ? a : b;
    case HVD_MAX:
        return a > b ? a : b;
    case HVD_PRODUCT:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    default:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

static void put(struct values *v, size_t i, int64_t value)
{
    unsigned char *p = v->bytes + i * hvd_dtype_size(v->dtype);

    if (is_float(v->dtype))
        store_float(v->dtype, (double)value, p);
    else
        store_integer(v->dtype, value, p);
}

void values_of_rank(struct values *v, uint64_t key, int rank, hvd_dtype_t dtype,
                    hvd_op_t op)
{
    v->dtype = dtype;
    v->tolerance = 0;
    for (size_t i = 0; i < VALUES_PERIOD; i++)
        put(v, i, element(key, rank, i, dtype, op));
}

/* One rounding of the quotient, and one more of a reciprocal. */
static double tolerance_of(hvd_dtype_t dtype)
{
    switch (dtype) {
    case HVD_FLOAT16:
        return 0x1p-9;
    case HVD_BFLOAT16:
        return 0x1p-6;
    case HVD_FLOAT32:
        return 0x1p-21;
    default:
        return 0x1p-50;
    }
}

void values_reduced(struct values *v, uint64_t key, int size, hvd_dtype_t dtype,
                    hvd_op_t op)
{
    bool quotients = op == HVD_AVERAGE && is_float(dtype);

    v->dtype = dtype;
    v->tolerance = quotients ? tolerance_of(dtype) : 0;
    for (size_t i = 0; i < VALUES_PERIOD; i++) {
        int64_t value = element(key, 0, i, dtype, op);

        for (int rank = 1; rank < size; rank++)
            value = combine(op, value, element(key, rank, i, dtype, op));
        if (quotients)
            v->wanted[i] = (double)value / size;
        else if (op == HVD_AVERAGE)
            put(v, i, wrapped(dtype, value) / size);
        else
            put(v, i, value);
    }
}

static size_t until_end(size_t at, size_t count)
{
    return count < VALUES_PERIOD - at ? count : VALUES_PERIOD - at;
}

void values_fill(const struct values *v, size_t first, void *buf, size_t count)
{
    size_t width = hvd_dtype_size(v->dtype), at = first % VALUES_PERIOD, n;
    unsigned char *p = buf;

    for (; count > 0; at = 0, count -= n, p += n * width) {
        n = until_end(at, count);
        memcpy(p, v->bytes + at * width, n * width);
    }
}

/* NaN is not near anything. */
static bool is_near(const struct values *v, size_t at, const unsigned char *p)
{
    double off = fabs(load_float(v->dtype, p) - v->wanted[at]);

    return off <= v->tolerance * fabs(v->wanted[at]);
}

static bool is_right(const struct values *v, size_t at, const unsigned char *p)
{
    size_t width = hvd_dtype_size(v->dtype);

    if (v->tolerance > 0)
        return is_near(v, at, p);
    return memcmp(p, v->bytes + at * width, width) == 0;
}

static void describe(const struct values *v, size_t at, const unsigned char *p,
                     struct difference *d)
{
    show(v->dtype, p, d->got);
    if (v->tolerance > 0)
        snprintf(d->wanted, VALUE_TEXT_MAX, "%.17g", v->wanted[at]);
    else
        show(v->dtype, v->bytes + at * hvd_dtype_size(v->dtype), d->wanted);
}

bool values_differ(const struct values *v, size_t first, const void *buf,
                   size_t count, struct difference *difference_p)
{
    size_t width = hvd_dtype_size(v->dtype), at = first % VALUES_PERIOD, n;
    const unsigned char *p = buf;

    for (size_t done = 0; done < count; done += n, at = 0, p += n * width) {
        n = until_end(at, count - done);
        if (v->tolerance == 0 && !memcmp(p, v->bytes + at * width, n * width))
            continue;
        for (size_t i = 0; i < n; i++) {
            if (is_right(v, at + i, p + i * width))
                continue;
            difference_p->index = done + i;
            describe(v, at + i, p + i * width, difference_p);
            return true;
        }
    }
    return false;
}
