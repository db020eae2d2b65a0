/* tests/collectives/test_reduce.c - the kernels against a scalar reference in
 * double, and the 16-bit floats exhaustively. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "collectives/reduce/copy.h"
#include "collectives/reduce/reduce.h"
#include "elements.h"
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

/* Small whole numbers: exact in every type, and so is what comes of them. */
START_TEST(combine_every_dtype_and_op_as_reference)
{
    hvd_dtype_t dtype = (hvd_dtype_t)(DTYPE_FIRST + _i / OP_COUNT);
    hvd_op_t op = (hvd_op_t)(_i % OP_COUNT);
    struct random_state random = {.s = (uint64_t)_i + 1};
    double a[N], b[N];
    void *acc = malloc(N * 8), *in = malloc(N * 8);

    for (size_t i = 0; i < N; i++) {
        bool negative = dtype != HVD_UINT8 && random_below(&random, 2) == 1;

        a[i] = (double)random_below(&random, 11);
        b[i] = (double)random_below(&random, 11);
        a[i] = negative ? -a[i] : a[i];
        store(dtype, acc, i, a[i]);
        store(dtype, in, i, b[i]);
    }
    reduce_combine(dtype, op, acc, in, N);
    for (size_t i = 0; i < N; i++)
        ck_assert_msg(load(dtype, acc, i) == reference(op, a[i], b[i]),
                      "%s %s: %g %g", dtype_name((unsigned)dtype),
                      op_name((unsigned)op), a[i], b[i]);
    reduce_divide(dtype, in, N, 3);
    for (size_t i = 0; i < N; i++) {
        double third = dtype <= HVD_INT64 ? trunc(b[i] / 3) : b[i] / 3;

        ck_assert(fabs(load(dtype, in, i) - third) < 0.02);
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

/* Is it NaN on either side, alone and in a long row? */
static void check_nan(hvd_dtype_t dtype, hvd_op_t op)
{
    double a[64], b[64];

    for (size_t count = 1; count <= 64; count += 63)
        for (size_t first = 0; first < 2; first++) {
            for (size_t i = 0; i < count; i++) {
                store(dtype, a, i, i % 2 == first ? (double)NAN : 1);
                store(dtype, b, i, i % 2 == first ? 1 : (double)NAN);
            }
            reduce_combine(dtype, op, a, b, count);
            for (size_t i = 0; i < count; i++)
                ck_assert_msg(isnan(load(dtype, a, i)), "%s %s: %g",
                              dtype_name((unsigned)dtype),
                              op_name((unsigned)op), load(dtype, a, i));
        }
}

START_TEST(combine_least_and_most_with_nan_are_nan)
{
    static const hvd_dtype_t dtypes[] = {HVD_FLOAT16, HVD_BFLOAT16, HVD_FLOAT32,
                                         HVD_FLOAT64};
    enum reduce_isa best = reduce_isa_in_use();

    for (unsigned isa = 0; isa < REDUCE_ISA_COUNT; isa++) {
        if (!reduce_isa_supported((enum reduce_isa)isa))
            continue;
        reduce_isa_use((enum reduce_isa)isa);
        for (size_t t = 0; t < sizeof(dtypes) / sizeof(dtypes[0]); t++) {
            check_nan(dtypes[t], HVD_MIN);
            check_nan(dtypes[t], HVD_MAX);
        }
    }
    reduce_isa_use(best);
}
END_TEST

/* The sum wraps around before it is divided. */
START_TEST(many_average_of_integers_is_of_what_wrapped)
{
    struct reduce_shape shape = {
        .dtype = HVD_UINT8, .op = HVD_AVERAGE, .divisor = 2};
    uint8_t a[64], b[64], mean[64];
    const void *srcs[] = {a, b};

    memset(a, 200, sizeof(a));
    memset(b, 200, sizeof(b));
    reduce_many(&shape, mean, srcs, 2, 64);
    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(mean[i], 72);
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

/* Every instruction set against the scalar kernel, element by element. */

enum { COUNT_MAX = 1300, SOURCES_MAX = 5, GUARD = 64 };

static const struct {
    uint64_t sign, exponent, one;
} layouts[DTYPE_END] = {
    [HVD_INT8] = {0x80, 0, 0},
    [HVD_UINT8] = {0x80, 0, 0},
    [HVD_INT32] = {0x80000000u, 0, 0},
    [HVD_INT64] = {1ull << 63, 0, 0},
    [HVD_FLOAT16] = {0x8000, 0x7c00, 0x3c00},
    [HVD_BFLOAT16] = {0x8000, 0x7f80, 0x3f80},
    [HVD_FLOAT32] = {0x80000000u, 0x7f800000u, 0x3f800000u},
    [HVD_FLOAT64] = {1ull << 63, 0x7ffull << 52, 0x3ffull << 52},
};

/* Any bits; often those that are easily got wrong. */
static uint64_t odd_bits(struct random_state *random, hvd_dtype_t dtype)
{
    uint64_t bits = random_u64(random), exponent = layouts[dtype].exponent;

    switch (random_below(random, 8)) {
    case 0:
        return bits & ~exponent; /* subnormal */
    case 1:
        return bits | exponent; /* not a number */
    case 2:
        return (bits & layouts[dtype].sign) | exponent;
    case 3:
        return bits & layouts[dtype].sign;
    case 4:
    case 5: /* between 1 and 2: sums and products are rounded */
        return (bits & ~exponent) | layouts[dtype].one;
    default:
        return bits;
    }
}

static void fill(struct random_state *random, hvd_dtype_t dtype, uint8_t *buf,
                 size_t count)
{
    size_t elem = hvd_dtype_size(dtype);

    for (size_t i = 0; i < count; i++) {
        uint64_t bits = odd_bits(random, dtype);

        memcpy(buf + i * elem, &bits, elem);
    }
}

/* Left to right, one element and one hop at a time. */
static void fold(const struct reduce_shape *shape, uint8_t *out,
                 uint8_t *const *srcs, int n_srcs, size_t count)
{
    size_t elem = hvd_dtype_size(shape->dtype);

    reduce_isa_use(REDUCE_SCALAR);
    memcpy(out, srcs[0], count * elem);
    for (size_t i = 0; i < count; i++) {
        uint8_t *one = out + i * elem;

        for (int s = 1; s < n_srcs; s++)
            reduce_combine(shape->dtype, shape->op, one, srcs[s] + i * elem, 1);
        if (shape->divisor > 0)
            reduce_divide(shape->dtype, one, 1, shape->divisor);
    }
}

/* Source s is the last `count` elements of a buffer that ends there: what is
 * read behind it is found by the address sanitizer. */
struct many {
    struct reduce_shape shape;
    int n_srcs;
    uint8_t *bufs[SOURCES_MAX];
    uint8_t *ends[SOURCES_MAX];
    uint8_t *expected; /* [COUNT_MAX], of the last ones of each buffer */
};

static void many_init(struct many *many, struct random_state *random)
{
    size_t nbytes = COUNT_MAX * hvd_dtype_size(many->shape.dtype);
    uint8_t *firsts[SOURCES_MAX];

    for (int s = 0; s < SOURCES_MAX; s++) {
        size_t gap = 8 * (size_t)s;

        many->bufs[s] = malloc(nbytes + gap);
        many->ends[s] = many->bufs[s] + gap + nbytes;
        firsts[s] = many->bufs[s] + gap;
        fill(random, many->shape.dtype, firsts[s], COUNT_MAX);
    }
    many->expected = malloc(nbytes);
    fold(&many->shape, many->expected, firsts, many->n_srcs, COUNT_MAX);
}

static void many_fini(struct many *many)
{
    for (int s = 0; s < SOURCES_MAX; s++)
        free(many->bufs[s]);
    free(many->expected);
}

/* dst is one of the sources, or apart for alias == n_srcs: then `offset`
 * elements into a buffer whose other bytes stay as they are. */
static void many_check(struct many *many, size_t count, int alias,
                       size_t offset)
{
    size_t elem = hvd_dtype_size(many->shape.dtype), nbytes = count * elem;
    static uint8_t apart[2 * GUARD + (COUNT_MAX + 64) * 8];
    static uint8_t saved[COUNT_MAX * 8];
    const void *srcs[SOURCES_MAX];
    uint8_t *dst = apart + GUARD + offset * elem;
    bool same;

    for (int s = 0; s < many->n_srcs; s++)
        srcs[s] = many->ends[s] - nbytes;
    if (alias < many->n_srcs) {
        dst = many->ends[alias] - nbytes;
        memcpy(saved, dst, nbytes);
    } else {
        memset(dst - GUARD, 0xa5, nbytes + 2 * GUARD);
    }
    reduce_many(&many->shape, dst, srcs, many->n_srcs, count);
    same = memcmp(dst, many->expected + COUNT_MAX * elem - nbytes, nbytes) == 0;
    if (alias < many->n_srcs)
        memcpy(dst, saved, nbytes);
    for (size_t i = 1; alias == many->n_srcs && i <= GUARD; i++)
        same = same && dst[-(ptrdiff_t)i] == 0xa5 &&
               dst[nbytes + i - 1] == 0xa5;
    if (!same)
        ck_abort_msg("%s %s %s/%d of %d: %zu at %d, offset %zu, nontemporal %d",
                     reduce_isa_name(reduce_isa_in_use()),
                     dtype_name((unsigned)many->shape.dtype),
                     op_name((unsigned)many->shape.op), many->shape.divisor,
                     many->n_srcs, count, alias, offset,
                     many->shape.nontemporal);
}

/* Small ones one by one, then around every vector and block of the large. */
static void many_check_counts(struct many *many)
{
    size_t elem = hvd_dtype_size(many->shape.dtype);

    for (size_t i = 0; i < 180; i++) {
        size_t count = i <= 130 ? i : 1024 / elem + (i - 133) * 5;

        many->shape.nontemporal = i % 2 == 0 || i > 130;
        for (int alias = 0; alias <= many->n_srcs; alias++)
            many_check(many, count, alias, i % 7);
        many->shape.nontemporal = false;
        many_check(many, count, many->n_srcs, i % 64);
    }
}

START_TEST(many_every_isa_equals_scalar)
{
    static const int divisors[] = {0, 0, 1, 2, 3, 7, 64, 128, 256, 1000003};
    hvd_dtype_t dtype = (hvd_dtype_t)(DTYPE_FIRST + _i / OP_COUNT);
    hvd_op_t op = (hvd_op_t)(_i % OP_COUNT);
    struct random_state random = {.s = (uint64_t)_i + 77};
    enum reduce_isa best = reduce_isa_in_use();

    for (int n = 0; n < 2 * SOURCES_MAX; n++) {
        struct many many = {.shape = {.dtype = dtype, .op = op},
                            .n_srcs = 1 + n % SOURCES_MAX};

        if (op == HVD_AVERAGE)
            many.shape.divisor = divisors[n];
        else if (n >= SOURCES_MAX)
            break;
        many_init(&many, &random);
        for (unsigned isa = 0; isa < REDUCE_ISA_COUNT; isa++) {
            if (!reduce_isa_supported((enum reduce_isa)isa))
                continue;
            reduce_isa_use((enum reduce_isa)isa);
            many_check_counts(&many);
        }
        many_fini(&many);
    }
    reduce_isa_use(best);
}
END_TEST

/* All values of a 16-bit float, each with sixteen others. */
START_TEST(short_floats_every_value_every_isa_equals_scalar)
{
    hvd_dtype_t dtype = _i < OP_COUNT ? HVD_FLOAT16 : HVD_BFLOAT16;
    struct reduce_shape shape = {.dtype = dtype,
                                 .op = (hvd_op_t)(_i % OP_COUNT)};
    uint16_t *buf = malloc(4 * 0x10000 * sizeof(*buf)), *other = buf + 0x10000;
    uint16_t *expected = other + 0x10000, *got = expected + 0x10000;
    struct random_state random = {.s = (uint64_t)_i + 5};
    enum reduce_isa best = reduce_isa_in_use();
    const void *srcs[] = {buf, other};

    for (int round = 0; round < 16; round++) {
        if (shape.op == HVD_AVERAGE)
            shape.divisor = round + 1;
        fill(&random, dtype, (uint8_t *)other, 0x10000);
        for (unsigned h = 0; h < 0x10000; h++)
            buf[h] = (uint16_t)h;
        reduce_isa_use(REDUCE_SCALAR);
        reduce_many(&shape, expected, srcs, 2, 0x10000);
        for (unsigned isa = 1; isa < REDUCE_ISA_COUNT; isa++) {
            if (!reduce_isa_supported((enum reduce_isa)isa))
                continue;
            reduce_isa_use((enum reduce_isa)isa);
            reduce_many(&shape, got, srcs, 2, 0x10000);
            CHECK(memcmp(got, expected, 0x10000 * sizeof(*got)) == 0);
        }
    }
    reduce_isa_use(best);
    free(buf);
}
END_TEST

/* In a program built with -ffast-math. */
START_TEST(least_of_subnormals_flushed_to_zero_is_exact)
{
#if defined(__x86_64__)
    enum { FLUSH = 0x8040 };
    unsigned saved = __builtin_ia32_stmxcsr();
    enum reduce_isa best = reduce_isa_in_use();
    uint32_t a[40], b[40];
    uint64_t one = 1, two = 2;

    for (unsigned isa = 0; isa < REDUCE_ISA_COUNT; isa++) {
        if (!reduce_isa_supported((enum reduce_isa)isa))
            continue;
        reduce_isa_use((enum reduce_isa)isa);
        for (size_t i = 0; i < 40; i++) {
            a[i] = 1;
            b[i] = 2;
        }
        __builtin_ia32_ldmxcsr(saved | FLUSH);
        reduce_combine(HVD_FLOAT32, HVD_MIN, b, a, 40);
        reduce_combine(HVD_FLOAT64, HVD_MAX, &one, &two, 1);
        __builtin_ia32_ldmxcsr(saved);
        for (size_t i = 0; i < 40; i++)
            ck_assert_uint_eq(b[i], 1);
        ck_assert_uint_eq(one, 2);
    }
    reduce_isa_use(best);
#endif
}
END_TEST

START_TEST(isa_names_and_default)
{
    enum reduce_isa best = reduce_isa_in_use();

    ck_assert(reduce_isa_supported(REDUCE_SCALAR));
    ck_assert(reduce_isa_supported(best));
    for (unsigned isa = (unsigned)best + 1; isa < REDUCE_ISA_COUNT; isa++)
        ck_assert(!reduce_isa_supported((enum reduce_isa)isa));
    ck_assert_str_eq(reduce_isa_name(REDUCE_AVX512), "avx512");
    ck_assert_str_eq(reduce_isa_name(REDUCE_ISA_COUNT), "?");
    ck_assert(!reduce_isa_supported(REDUCE_ISA_COUNT));
}
END_TEST

START_TEST(copy_every_isa_copies)
{
    static const size_t sizes[] = {0, 1, 63, 4095, 4096, 4097, 70001};
    enum reduce_isa best = reduce_isa_in_use();
    uint8_t *src = malloc(70100), *dst = malloc(70100);

    for (size_t i = 0; i < 70100; i++)
        src[i] = (uint8_t)(i * 7 + (i >> 8));
    for (unsigned isa = 0; isa < REDUCE_ISA_COUNT; isa++) {
        if (!reduce_isa_supported((enum reduce_isa)isa))
            continue;
        reduce_isa_use((enum reduce_isa)isa);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            for (size_t offset = 0; offset < 5; offset++) {
                memset(dst, 0xa5, 70100);
                copy_memory(dst + offset, src + 3, sizes[i], offset < 4);
                CHECK(memcmp(dst + offset, src + 3, sizes[i]) == 0);
                CHECK(dst[offset + sizes[i]] == 0xa5);
                CHECK(offset == 0 || dst[offset - 1] == 0xa5);
            }
    }
    reduce_isa_use(best);
    free(src);
    free(dst);
}
END_TEST

#if defined(__x86_64__)
/* Does the system name all of these, with a blank on both sides? */
static bool system_names(const char *const *flags, size_t n)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[8192] = "";

    if (f == NULL)
        return false;
    while (strncmp(line, "flags", 5) != 0 && fgets(line, sizeof(line), f))
        continue;
    fclose(f);
    line[strcspn(line, "\n")] = ' ';
    for (size_t i = 0; i < n; i++)
        if (strstr(line, flags[i]) == NULL)
            return false;
    return true;
}

/* Results are the same with fewer instructions. */
START_TEST(isa_that_the_processor_has_is_used)
{
    static const char *const flags[] = {" avx2 ",     " f16c ",
                                        " avx512f ",  " avx512bw ",
                                        " avx512dq ", " avx512vl "};

    if (system_names(flags, 2))
        ck_assert(reduce_isa_supported(REDUCE_AVX2));
    if (system_names(flags, 6))
        ck_assert(reduce_isa_supported(REDUCE_AVX512));
}
END_TEST
#endif

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
    tcase_add_test(tc, combine_least_and_most_with_nan_are_nan);
    tcase_add_test(tc, many_average_of_integers_is_of_what_wrapped);
    tcase_add_test(tc, combine_integers_wrap_and_truncate);
    tcase_add_test(tc, half_sum_rounded_once);
    tcase_add_test(tc, isa_names_and_default);
    tcase_add_loop_test(tc, many_every_isa_equals_scalar, 0,
                        DTYPE_COUNT * OP_COUNT);
    tcase_add_loop_test(tc, short_floats_every_value_every_isa_equals_scalar, 0,
                        2 * OP_COUNT);
    tcase_add_test(tc, least_of_subnormals_flushed_to_zero_is_exact);
    tcase_add_test(tc, copy_every_isa_copies);
#if defined(__x86_64__)
    tcase_add_test(tc, isa_that_the_processor_has_is_used);
#endif
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
