/* bench/cases.h - what is measured: a collective, its shapes, and values by
 * which a wrong result shows. Shared by hvd-perf and the programs of the
 * peers, so that all of them move the same bytes.
 *
 * The size of a case is that of its greatest buffer, as in nccl-tests: the
 * operand of allreduce, broadcast and reduce_scatter, the result of allgather
 * and alltoall. Where it is divided among the ranks it is rounded up to a whole
 * element for each.
 *
 * Values are small whole numbers, exact in every dtype, and results too, so
 * that one wrong bit is a wrong element. What is only moved is different on
 * each rank and from element to element; what is combined differs between
 * neighbours and averages to a whole number.
 *
 * Threads: any; nothing is kept. Memory: the caller's. */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/collectives.h>

#ifdef __cplusplus
extern "C" {
#endif

enum case_kind {
    CASE_ALLREDUCE,
    CASE_BROADCAST,
    CASE_ALLGATHER,
    CASE_REDUCE_SCATTER,
    CASE_ALLTOALL,
    CASE_BARRIER, /* has neither operand nor result */
    CASE_KINDS
};

struct bench_case {
    enum case_kind kind;
    hvd_dtype_t dtype;
    hvd_op_t op; /* of allreduce and reduce_scatter */
    int root;    /* of a broadcast */
    int rank, size;
    size_t each;  /* bytes of an element */
    size_t count; /* elements, as the call counts them: of the whole buffer, or
                     of one rank's block where there are blocks */
};

const char *case_name(enum case_kind kind);
bool case_parse(const char *name, enum case_kind *kind_p);

/* Sets each and count for a size in bytes; the other fields are set. */
void case_resize(struct bench_case *c, size_t nbytes);

/* Bytes of the operand, of the result, and of the greater of the two. A
 * broadcast has one buffer, which is its result. */
size_t case_send_nbytes(const struct bench_case *c);
size_t case_recv_nbytes(const struct bench_case *c);
size_t case_nbytes(const struct bench_case *c);

/* Bytes that the busiest link carries for each byte of the size: what makes
 * bus bandwidths comparable over sizes of the world. Source: nccl-tests,
 * doc/PERFORMANCE.md. */
double case_bus_factor(const struct bench_case *c);

/* Are all sums on the way exact, and unwrapped before they are divided? If not,
 * results cannot be checked. */
bool case_is_exact(const struct bench_case *c);

/* send [case_send_nbytes]: this rank's operand; recv [case_recv_nbytes] is
 * written only by a broadcast. */
void case_fill(const struct bench_case *c, void *send, void *recv);

/* Wrong elements of recv [case_recv_nbytes]. */
int64_t case_count_wrong(const struct bench_case *c, const void *recv);

#ifdef __cplusplus
}
#endif
#endif
