/* collectives/reduce/reduce.h - how elements of several buffers become one.
 *
 * Every combination of two is commutative bit for bit, so ranks that combine
 * the same two operands in either order get the same result: a NaN result is
 * always the canonical quiet one, MIN of -0 and +0 is -0, MAX is +0. It is not
 * associative: the order of hops is the schedule's.
 *
 * FLOAT16 and BFLOAT16 are combined in binary32 and rounded once per hop, that
 * is after each combination of two and after the division.
 *
 * The instructions are picked at run time; every choice gives the same bits, at
 * any address (buffers need no alignment) and in any floating-point environment
 * of the calling thread (float_env.h).
 *
 * Threads: any. */
#ifndef COLLECTIVES_REDUCE_REDUCE_H
#define COLLECTIVES_REDUCE_REDUCE_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/collectives.h>

struct reduce_shape {
    hvd_dtype_t dtype;
    hvd_op_t op;
    int divisor;      /* AVERAGE: the sum of all is divided by it; else 0 */
    bool nontemporal; /* a hint: the result is not read soon, so pass the
                         caches by */
};

/* dst[i] = srcs[0][i] op srcs[1][i] op ..., left to right, then divided if
 * shape->divisor > 0 (integers toward 0); i < count.
 *
 * dst     [count] of dtype. May be exactly one of the sources (the same
 *         address); overlaps none otherwise.
 * srcs    [n_srcs] buffers of [count] of dtype, n_srcs >= 1. They may overlap
 *         one another. A single one without a divisor is copied.
 *
 * nontemporal pays when sources and result together do not fit in the caches
 * of a core; it costs time when they do. Without effect when dst is a source
 * (it has just been read) and for small results. bench/README.md has figures.
 *
 * The result can be seen by whoever is told of it after the call, also with
 * `nontemporal`. */
void reduce_many(const struct reduce_shape *shape, void *dst,
                 const void *const *srcs, int n_srcs, size_t count);

/* The same result in several places, written in the one pass that reads the
 * sources.
 *
 * dsts    [n_dsts] buffers of [count] of dtype, n_dsts >= 1, that do not
 *         overlap one another; each as dst above.
 *
 * nontemporal is without effect also where they are not all aligned alike. */
void reduce_to_all(const struct reduce_shape *shape, void *const *dsts,
                   int n_dsts, const void *const *srcs, int n_srcs,
                   size_t count);

/* acc[i] = acc[i] op in[i], i < count. AVERAGE adds; see reduce_divide(). */
void reduce_combine(hvd_dtype_t dtype, hvd_op_t op, void *acc, const void *in,
                    size_t count);

/* buf[i] = buf[i] / size, integers toward 0. size > 0. */
void reduce_divide(hvd_dtype_t dtype, void *buf, size_t count, int size);

/* Instruction sets, the better ones last among those of one processor. */
enum reduce_isa {
    REDUCE_SCALAR,
    REDUCE_AVX2,
    REDUCE_AVX512,
    REDUCE_NEON,
    REDUCE_ISA_COUNT,
};

/* Compiled in, and this processor and its system have it. */
bool reduce_isa_supported(enum reduce_isa isa);

/* "avx512"; "?" for an unknown one. */
const char *reduce_isa_name(enum reduce_isa isa);

/* What every call of this process uses: the best supported one unless
 * reduce_isa_use() said otherwise (isa must be supported). Atomic: calls under
 * way end as they began. */
enum reduce_isa reduce_isa_in_use(void);
void reduce_isa_use(enum reduce_isa isa);

#endif
