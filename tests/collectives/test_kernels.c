/* tests/collectives/test_kernels.c - the kernels whatever the application has
 * done: buffers off the alignment of their elements, another rounding mode,
 * subnormals flushed, traps enabled. Every instruction set gives the bits that
 * it gives for aligned buffers in the environment that a thread starts with. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/random.h"
#include "collectives/reduce/dtype.h"
#include "collectives/reduce/reduce.h"
#include "collectives/reduce/scale.h"
#include "support.h"

enum { COUNT_MAX = 1100, SOURCES = 3, OFFSETS = 9, NBYTES_MAX = COUNT_MAX * 8 };

/* Around a vector, a block, and where vectors begin to be aligned. */
static const size_t counts[] = {1, 2, 7, 16, 65, 255, 257, 300, 1100};

struct operands {
    struct reduce_shape shape;
    uint8_t srcs[SOURCES][NBYTES_MAX];
    uint8_t expected[NBYTES_MAX];
    size_t count, nbytes;
};

static struct operands o;

/* Any bits, as they come: subnormals and NaNs among them. */
static void fill(uint64_t seed)
{
    struct random_state random = {.s = seed};

    for (int s = 0; s < SOURCES; s++)
        for (size_t i = 0; i < NBYTES_MAX; i += 8) {
            uint64_t bits = random_u64(&random);

            if (i % 24 == 0) /* all exponents zero: subnormals */
                bits &= 0x800f83ff007f03ffu;
            memcpy(o.srcs[s] + i, &bits, 8);
        }
}

static void reduce_at(size_t src_off, size_t dst_off, uint8_t *out)
{
    static _Alignas(64) uint8_t srcs[SOURCES][NBYTES_MAX + OFFSETS];
    static _Alignas(64) uint8_t dst[NBYTES_MAX + OFFSETS];
    const void *at[SOURCES];

    for (int s = 0; s < SOURCES; s++) {
        memcpy(srcs[s] + src_off, o.srcs[s], o.nbytes);
        at[s] = srcs[s] + src_off;
    }
    reduce_many(&o.shape, dst + dst_off, at, SOURCES, o.count);
    memcpy(out, dst + dst_off, o.nbytes);
}

static void check_offsets(enum reduce_isa isa)
{
    static uint8_t got[NBYTES_MAX];

    for (size_t off = 0; off < OFFSETS * OFFSETS; off++) {
        reduce_at(off % OFFSETS, off / OFFSETS, got);
        if (memcmp(got, o.expected, o.nbytes) != 0)
            ck_abort_msg("%s %s %s: %zu elements, sources + %zu, result + %zu",
                         reduce_isa_name(isa),
                         dtype_name((unsigned)o.shape.dtype),
                         op_name((unsigned)o.shape.op), o.count, off % OFFSETS,
                         off / OFFSETS);
    }
}

typedef void check_fn(enum reduce_isa isa);

/* For the op, on each instruction set, of each type and count. */
static void for_all(hvd_op_t op, check_fn *check)
{
    enum reduce_isa best = reduce_isa_in_use();

    for (unsigned k = 0; k < DTYPE_COUNT * (sizeof(counts) / sizeof(*counts));
         k++) {
        o.shape = (struct reduce_shape){
            .dtype = (hvd_dtype_t)(DTYPE_FIRST + k % DTYPE_COUNT),
            .op = op,
            .divisor = op == HVD_AVERAGE ? 3 : 0,
            .nontemporal = k % 2 == 0};
        o.count = counts[k / DTYPE_COUNT];
        o.nbytes = o.count * hvd_dtype_size(o.shape.dtype);
        reduce_isa_use(REDUCE_SCALAR);
        reduce_at(0, 0, o.expected);
        for (unsigned isa = 0; isa < REDUCE_ISA_COUNT; isa++) {
            if (!reduce_isa_supported((enum reduce_isa)isa))
                continue;
            reduce_isa_use((enum reduce_isa)isa);
            check((enum reduce_isa)isa);
        }
    }
    reduce_isa_use(best);
}

START_TEST(reduce_any_address_gives_the_same_bits)
{
    fill((uint64_t)_i + 1);
    for_all((hvd_op_t)_i, check_offsets);
}
END_TEST

/* --- the same result in several places --- */

enum { RESULTS = 4, AROUND = 0xa5 };

static _Alignas(64) uint8_t places[RESULTS][64 + NBYTES_MAX + 64];

/* Result d lies at places[d] + 64 + off * d. The first `in_place` of them are
 * sources too, the last ones first. */
static void reduce_into_all(size_t off, int in_place)
{
    const void *srcs[SOURCES];
    void *dsts[RESULTS];

    memset(places, AROUND, sizeof(places));
    for (int d = 0; d < RESULTS; d++)
        dsts[d] = places[d] + 64 + off * (size_t)d;
    for (int s = 0; s < SOURCES; s++) {
        srcs[s] = o.srcs[s];
        if (SOURCES - 1 - s < in_place)
            srcs[s] = memcpy(dsts[SOURCES - 1 - s], o.srcs[s], o.nbytes);
    }
    reduce_to_all(&o.shape, dsts, RESULTS, srcs, SOURCES, o.count);
}

/* The result where it belongs, and nothing around it. */
static bool placed(int d, size_t off)
{
    static uint8_t expected[sizeof(places[0])];
    size_t at = 64 + off * (size_t)d;

    memset(expected, AROUND, sizeof(expected));
    memcpy(expected + at, o.expected, o.nbytes);
    return memcmp(places[d], expected, sizeof(expected)) == 0;
}

static void check_places(enum reduce_isa isa)
{
    static const size_t offsets[] = {0, 1, 16};

    for (int k = 0; k < 3 * (SOURCES + 1); k++) {
        size_t off = offsets[k % 3];

        reduce_into_all(off, k / 3);
        for (int d = 0; d < RESULTS; d++)
            ck_assert_msg(
                placed(d, off),
                "%s %s %s: %zu elements, result %d + %zu, %d in "
                "place",
                reduce_isa_name(isa), dtype_name((unsigned)o.shape.dtype),
                op_name((unsigned)o.shape.op), o.count, d, off, k / 3);
    }
}

START_TEST(reduce_to_all_writes_the_same_bits_everywhere)
{
    fill((uint64_t)_i + 31);
    for_all((hvd_op_t)_i, check_places);
}
END_TEST

/* --- the application's floating-point environment --- */

/* What one may find: FTZ and DAZ, each rounding mode, all traps. */
#if defined(__x86_64__)
static const unsigned environments[] = {0x8040, 0x2000, 0x4000, 0x6000, 0xe040};

static unsigned enter(unsigned bits)
{
    unsigned saved = __builtin_ia32_stmxcsr();

    __builtin_ia32_ldmxcsr((saved & ~0x3fu) | bits);
    return saved;
}

/* false: the call did not leave what it had found. */
static bool leave(unsigned saved, unsigned bits)
{
    bool same = (__builtin_ia32_stmxcsr() & ~0x3fu) ==
                ((saved & ~0x3fu) | bits);

    __builtin_ia32_ldmxcsr(saved);
    return same;
}
#elif defined(__aarch64__)
static const unsigned environments[] = {1u << 24, 1u << 22, 2u << 22, 3u << 22,
                                        1u << 25};

static unsigned enter(unsigned bits)
{
    uint64_t saved;

    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" ::"r"(saved | bits));
    return (unsigned)saved;
}

static bool leave(unsigned saved, unsigned bits)
{
    uint64_t now;

    __asm__ volatile("mrs %0, fpcr" : "=r"(now));
    __asm__ volatile("msr fpcr, %0" ::"r"((uint64_t)saved));
    return now == ((uint64_t)saved | bits);
}
#else
static const unsigned environments[] = {0};

static unsigned enter(unsigned bits)
{
    return bits;
}

static bool leave(unsigned saved, unsigned bits)
{
    return saved == bits;
}
#endif

enum { ENVIRONMENTS = sizeof(environments) / sizeof(*environments) };

static void check_environments(enum reduce_isa isa)
{
    static uint8_t got[NBYTES_MAX];

    for (int e = 0; e < ENVIRONMENTS; e++) {
        unsigned saved = enter(environments[e]);

        reduce_at(0, 0, got);
        ck_assert(leave(saved, environments[e]));
        if (memcmp(got, o.expected, o.nbytes) != 0)
            ck_abort_msg(
                "%s %s %s: %zu elements, environment %x", reduce_isa_name(isa),
                dtype_name((unsigned)o.shape.dtype),
                op_name((unsigned)o.shape.op), o.count, environments[e]);
    }
}

START_TEST(reduce_any_float_environment_gives_the_same_bits)
{
    fill((uint64_t)_i + 11);
    for_all((hvd_op_t)_i, check_environments);
}
END_TEST

#if defined(__x86_64__)
/* Of signalling NaNs and overflows: the application asked to be told of its
 * own mistakes, not of what other ranks send. */
START_TEST(reduce_with_traps_enabled_does_not_trap)
{
    uint32_t a[64], b[64];
    unsigned saved;

    for (int i = 0; i < 64; i++) {
        a[i] = i % 2 == 0 ? 0x7f800001u : 0x7f7fffffu;
        b[i] = 0x7f7fffffu;
    }
    saved = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0); /* no exception is masked */
    reduce_combine(HVD_FLOAT32, HVD_SUM, a, b, 64);
    ck_assert_uint_eq(__builtin_ia32_stmxcsr(), 0);
    __builtin_ia32_ldmxcsr(saved);
    ck_assert_uint_eq(a[0], 0x7fc00000u);
    ck_assert_uint_eq(a[1], 0x7f800000u);
}
END_TEST
#endif

/* --- scaling --- */

static void scale_at(hvd_dtype_t dtype, size_t off, uint8_t *out)
{
    static _Alignas(64) uint8_t src[NBYTES_MAX + OFFSETS];
    static _Alignas(64) uint8_t dst[NBYTES_MAX + OFFSETS];
    size_t nbytes = COUNT_MAX * hvd_dtype_size(dtype);

    memcpy(src + off, o.srcs[0], nbytes);
    scale(dtype, dst + (OFFSETS - 1 - off), src + off, COUNT_MAX, 1.0 / 3);
    memcpy(out, dst + (OFFSETS - 1 - off), nbytes);
}

/* What the product is, and not what the factor is, has to be in range. */
START_TEST(scale_takes_factors_beyond_float)
{
    static const struct {
        float value;
        double factor;
        float product;
    } cases[] = {{0x1p100f, 0x1p-160, 0x1p-60f}, {0x1p-110f, 0x1p130, 0x1p20f}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        uint16_t bits = bfloat_of_float(cases[i].value);

        scale(HVD_BFLOAT16, &bits, &bits, 1, cases[i].factor);
        ck_assert(bfloat_to_float(bits) == cases[i].product);
    }
    for (int up = 0; up < 2; up++) {
        uint16_t bits = half_of_float(up ? 0x1p-14f : 0x1p10f);

        scale(HVD_FLOAT16, &bits, &bits, 1, up ? 0x1.8p20 : 0x1.8p-20);
        ck_assert(half_to_float(bits) == (up ? 0x1.8p6f : 0x1.8p-10f));
    }
}
END_TEST

START_TEST(scale_any_address_and_environment_gives_the_same_bits)
{
    static uint8_t expected[NBYTES_MAX], got[NBYTES_MAX];
    hvd_dtype_t dtype = (hvd_dtype_t)(HVD_FLOAT16 + _i);
    size_t nbytes = COUNT_MAX * hvd_dtype_size(dtype);

    fill((uint64_t)_i + 21);
    scale_at(dtype, 0, expected);
    for (size_t off = 0; off < OFFSETS; off++) {
        unsigned bits = environments[off % ENVIRONMENTS], saved = enter(bits);

        scale_at(dtype, off, got);
        ck_assert(leave(saved, bits));
        ck_assert_msg(memcmp(got, expected, nbytes) == 0,
                      "%s at + %zu, environment %x",
                      dtype_name((unsigned)dtype), off, bits);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tc = tcase_create("kernels");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, reduce_any_address_gives_the_same_bits, 0,
                        OP_COUNT);
    tcase_add_loop_test(tc, reduce_to_all_writes_the_same_bits_everywhere, 0,
                        OP_COUNT);
    tcase_add_loop_test(tc, reduce_any_float_environment_gives_the_same_bits, 0,
                        OP_COUNT);
#if defined(__x86_64__)
    tcase_add_test(tc, reduce_with_traps_enabled_does_not_trap);
#endif
    tcase_add_test(tc, scale_takes_factors_beyond_float);
    tcase_add_loop_test(tc,
                        scale_any_address_and_environment_gives_the_same_bits,
                        0, HVD_FLOAT64 - HVD_FLOAT16 + 1);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
