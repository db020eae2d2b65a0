/* tests/collectives/test_reduce.c - the kernels against a scalar reference in
 * double, and the 16-bit floats exhaustively. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "collectives/dtype.h"
#include "collectives/reduce.h"
#include "support.h"

enum { N = 1003 };

/* Check writes a message per assertion: too slow for 65,536 values. */
#define CHECK(condition)                    \
    do {                                    \
        if (!(condition))                   \
            ck_abort_msg("%s", #condition); \
    } while (0)

/* 11 bits of precision, 2^-24 the smallest: by hand, in double. */
static double half_value(unsigned half)
{
    int exponent = (int)(half >> 10) & 31;
    double mantissa = (double)(half & 0x3ff);
    double value;

    if (exponent == 31)
        value = mantissa != 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(mantissa, -24);
    else
        value = ldexp(1024 + mantissa, exponent - 25);
    return half & 0x8000 ? -value : value;
}

START_TEST(half_every_value_round_trips)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        double expected = half_value(h);
        float got = half_to_float((uint16_t)h);

        if (isnan(expected)) {
            CHECK(isnan(got));
            CHECK(half_of_float(got) == 0x7e00);
            continue;
        }
        CHECK(got == (float)expected);
        CHECK(!signbit(got) == !signbit(expected));
        CHECK(half_of_float(got) == h);
    }
}
END_TEST

/* Between two neighbours: below the middle down, above it up, in it to even. */
START_TEST(half_between_values_rounds_to_nearest_even)
{
    for (unsigned h = 0; h < 0x7c00; h++) {
        float low = half_to_float((uint16_t)h);
        float high = h == 0x7bff ? 65536.0f : half_to_float((uint16_t)(h + 1));
        float middle = (low + high) / 2;

        CHECK(half_of_float(middle) == (h + (h & 1)));
        CHECK(half_of_float(nextafterf(middle, 0)) == h);
        CHECK(half_of_float(nextafterf(middle, INFINITY)) == (h + 1));
        CHECK(half_of_float(-middle) == (0x8000 | (h + (h & 1))));
    }
}
END_TEST

START_TEST(bfloat_between_values_rounds_to_nearest_even)
{
    for (unsigned h = 0; h < 0x7f80; h++) {
        float low = bfloat_to_float((uint16_t)h);
        float middle = float_of_bits((h << 16) | 0x8000u);

        CHECK(bfloat_of_float(low) == h);
        CHECK(bfloat_of_float(middle) == (h + (h & 1)));
        CHECK(bfloat_of_float(nextafterf(middle, 0)) == h);
        CHECK(bfloat_of_float(nextafterf(middle, INFINITY)) == (h + 1));
    }
    CHECK(bfloat_of_float(NAN) == 0x7fc0);
}
END_TEST

static double reference(hvd_op_t op, double a, double b)
{
    switch (op) {
    case HVD_MIN:
        return a < b ? a : b;
    case HVD_MAX:
        return a > b ? a : b;
    case HVD_PRODUCT:
        return a * b;
    default:
        return a + b;
    }
}

static void put(hvd_dtype_t dtype, void *buf, size_t i, double v)
{
    float f = (float)v;
    int8_t i8 = (int8_t)v;
    uint8_t u8 = (uint8_t)v;
    int32_t i32 = (int32_t)v;
    int64_t i64 = (int64_t)v;
    uint16_t h = half_of_float(f), b = bfloat_of_float(f);
    const void *values[DTYPE_COUNT] = {&i8, &u8, &i32, &i64, &h, &b, &f, &v};
    size_t n = hvd_dtype_size(dtype);

    memcpy((uint8_t *)buf + i * n, values[dtype], n);
}

static double get(hvd_dtype_t dtype, const void *buf, size_t i)
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
        return half_to_float(((const uint16_t *)buf)[i]);
    case HVD_BFLOAT16:
        return bfloat_to_float(((const uint16_t *)buf)[i]);
    case HVD_FLOAT32:
        return ((const float *)buf)[i];
    default:
        return ((const double *)buf)[i];
    }
}

/* Small whole numbers: exact in every type, and so is what comes of them. */
START_TEST(combine_every_dtype_and_op_as_reference)
{
    hvd_dtype_t dtype = (hvd_dtype_t)(_i / OP_COUNT);
    hvd_op_t op = (hvd_op_t)(_i % OP_COUNT);
    struct random_state random = {.s = (uint64_t)_i + 1};
    double a[N], b[N];
    void *acc = malloc(N * 8), *in = malloc(N * 8);

    for (size_t i = 0; i < N; i++) {
        bool negative = dtype != HVD_UINT8 && random_below(&random, 2) == 1;

        a[i] = (double)random_below(&random, 11);
        b[i] = (double)random_below(&random, 11);
        a[i] = negative ? -a[i] : a[i];
        put(dtype, acc, i, a[i]);
        put(dtype, in, i, b[i]);
    }
    reduce_combine(dtype, op, acc, in, N);
    for (size_t i = 0; i < N; i++)
        ck_assert_msg(get(dtype, acc, i) == reference(op, a[i], b[i]),
                      "%s %s: %g %g", dtype_name((unsigned)dtype),
                      op_name((unsigned)op), a[i], b[i]);
    reduce_divide(dtype, in, N, 3);
    for (size_t i = 0; i < N; i++) {
        double third = dtype <= HVD_INT64 ? trunc(b[i] / 3) : b[i] / 3;

        ck_assert(fabs(get(dtype, in, i) - third) < 0.02);
    }
    free(acc);
    free(in);
}
END_TEST

static const uint32_t odd[] = {0,           0x80000000u, 0x7fc00000u,
                               0xffc00001u, 0x7fa00000u, 0x7f800000u,
                               0xff800000u, 1,           0x80000001u,
                               0x3f800000u, 0xbf800000u, 0x7f7fffffu};

enum { ODD = sizeof(odd) / sizeof(odd[0]) };

/* In either order, alone (scalar code) and in a long row (vector code). */
START_TEST(combine_odd_floats_commutes_bit_for_bit)
{
    hvd_op_t op = (hvd_op_t)_i;
    uint32_t a[64], b[64], one_a, one_b;

    for (size_t i = 0; i < ODD; i++)
        for (size_t j = 0; j < ODD; j++) {
            for (size_t k = 0; k < 64; k++) {
                a[k] = odd[i];
                b[k] = odd[j];
            }
            one_a = odd[i];
            one_b = odd[j];
            reduce_combine(HVD_FLOAT32, op, a, &b[0], 64);
            reduce_combine(HVD_FLOAT32, op, &one_b, &one_a, 1);
            for (size_t k = 0; k < 64; k++)
                CHECK(a[k] == one_b);
            if (isnan(float_of_bits(odd[i])) || isnan(float_of_bits(odd[j])))
                ck_assert_uint_eq(one_b, 0x7fc00000u);
        }
}
END_TEST

START_TEST(combine_zeros_min_is_minus_max_is_plus)
{
    double plus = 0.0, minus = -0.0, got = plus;

    reduce_combine(HVD_FLOAT64, HVD_MIN, &got, &minus, 1);
    ck_assert(signbit(got));
    got = minus;
    reduce_combine(HVD_FLOAT64, HVD_MAX, &got, &plus, 1);
    ck_assert(!signbit(got));
}
END_TEST

START_TEST(combine_integers_wrap_and_truncate)
{
    int8_t a8 = 127, b8 = 1;
    int64_t a64 = INT64_MAX, b64 = 2, seven = -7;

    reduce_combine(HVD_INT8, HVD_SUM, &a8, &b8, 1);
    ck_assert_int_eq(a8, -128);
    reduce_combine(HVD_INT64, HVD_PRODUCT, &a64, &b64, 1);
    ck_assert_int_eq(a64, -2);
    reduce_divide(HVD_INT64, &seven, 1, 2);
    ck_assert_int_eq(seven, -3);
}
END_TEST

START_TEST(half_sum_rounded_once)
{
    uint16_t a = half_of_float(2048), b = half_of_float(1);

    reduce_combine(HVD_FLOAT16, HVD_SUM, &a, &b, 1);
    ck_assert(half_to_float(a) == 2048); /* tie, to even */
    b = half_of_float(3);
    reduce_combine(HVD_FLOAT16, HVD_SUM, &a, &b, 1);
    ck_assert(half_to_float(a) == 2052);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reduce");
    TCase *tc = tcase_create("reduce");

    tcase_add_test(tc, half_every_value_round_trips);
    tcase_add_test(tc, half_between_values_rounds_to_nearest_even);
    tcase_add_test(tc, bfloat_between_values_rounds_to_nearest_even);
    tcase_add_loop_test(tc, combine_every_dtype_and_op_as_reference, 0,
                        DTYPE_COUNT * OP_COUNT);
    tcase_add_loop_test(tc, combine_odd_floats_commutes_bit_for_bit, 0,
                        OP_COUNT);
    tcase_add_test(tc, combine_zeros_min_is_minus_max_is_plus);
    tcase_add_test(tc, combine_integers_wrap_and_truncate);
    tcase_add_test(tc, half_sum_rounded_once);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
