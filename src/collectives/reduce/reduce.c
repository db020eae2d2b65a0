/* collectives/reduce/reduce.c - which kernels run: the one word of this process
 * that says so, and the doors to them. The kernels themselves are pure, see
 * reduce_kernels.h. */
#include "collectives/reduce/reduce.h"

#include <stdatomic.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/array.h"
#include "collectives/reduce/dtype.h"
#include "collectives/reduce/float_env.h"
#include "collectives/reduce/reduce_kernels.h"

static const struct {
    const char *name;
    reduce_to_all_fn *to_all; /* NULL: not compiled in */
} isas[REDUCE_ISA_COUNT] = {
    [REDUCE_SCALAR] = {"scalar", reduce_to_all_scalar},
#if defined(__x86_64__)
    [REDUCE_AVX2] = {"avx2", reduce_to_all_avx2},
    [REDUCE_AVX512] = {"avx512", reduce_to_all_avx512},
#else
    [REDUCE_AVX2] = {"avx2", NULL},
    [REDUCE_AVX512] = {"avx512", NULL},
#endif
#if defined(__aarch64__)
    [REDUCE_NEON] = {"neon", reduce_to_all_neon},
#else
    [REDUCE_NEON] = {"neon", NULL},
#endif
};

/* The instruction set in use + 1; 0: nobody has asked yet. Relaxed: any thread
 * that finds 0 finds out the same. */
static atomic_uint in_use;

#if defined(__x86_64__)
/* Clang 14 does not know "f16c" to __builtin_cpu_supports(). */
static bool has_f16c(void)
{
    unsigned a, b, c, d;

    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

/* Asks the processor and what the system saves of it between threads. */
bool reduce_isa_supported(enum reduce_isa isa)
{
    if ((unsigned)isa >= REDUCE_ISA_COUNT || isas[isa].to_all == NULL)
        return false;
#if defined(__x86_64__)
    if (isa == REDUCE_AVX2)
        return __builtin_cpu_supports("avx2") && has_f16c();
    if (isa == REDUCE_AVX512)
        return __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return true;
}

const char *reduce_isa_name(enum reduce_isa isa)
{
    return (unsigned)isa < REDUCE_ISA_COUNT ? isas[isa].name : "?";
}

void reduce_isa_use(enum reduce_isa isa)
{
    HVD_ASSERT(reduce_isa_supported(isa));
    atomic_store_explicit(&in_use, (unsigned)isa + 1, memory_order_relaxed);
}

enum reduce_isa reduce_isa_in_use(void)
{
    unsigned isa = atomic_load_explicit(&in_use, memory_order_relaxed);
    unsigned none = 0;

    if (isa != 0)
        return (enum reduce_isa)(isa - 1);
    isa = REDUCE_ISA_COUNT;
    while (!reduce_isa_supported((enum reduce_isa)(isa - 1)))
        isa--;
    /* only if nobody has chosen meanwhile */
    if (!atomic_compare_exchange_strong(&in_use, &none, isa))
        isa = none;
    return (enum reduce_isa)(isa - 1);
}

void reduce_to_all(const struct reduce_shape *shape, void *const *dsts,
                   int n_dsts, const void *const *srcs, int n_srcs,
                   size_t count)
{
    uint64_t env;

    HVD_ASSERT((int)shape->dtype >= DTYPE_FIRST &&
               (int)shape->dtype < DTYPE_END &&
               (unsigned)shape->op < OP_COUNT && n_srcs >= 1 && n_dsts >= 1);
    HVD_ASSERT(shape->divisor == 0 ||
               (shape->op == HVD_AVERAGE && shape->divisor > 0));
    env = float_env_enter();
    isas[reduce_isa_in_use()].to_all(shape, dsts, n_dsts, srcs, n_srcs, count);
    float_env_leave(env);
}

void reduce_many(const struct reduce_shape *shape, void *dst,
                 const void *const *srcs, int n_srcs, size_t count)
{
    reduce_to_all(shape, &dst, 1, srcs, n_srcs, count);
}

void reduce_combine(hvd_dtype_t dtype, hvd_op_t op, void *acc, const void *in,
                    size_t count)
{
    struct reduce_shape shape = {.dtype = dtype, .op = op};
    const void *srcs[2] = {acc, in};

    reduce_many(&shape, acc, srcs, 2, count);
}

void reduce_divide(hvd_dtype_t dtype, void *buf, size_t count, int size)
{
    struct reduce_shape shape = {
        .dtype = dtype, .op = HVD_AVERAGE, .divisor = size};
    const void *srcs[1] = {buf};

    HVD_ASSERT(size > 0);
    reduce_many(&shape, buf, srcs, 1, count);
}
