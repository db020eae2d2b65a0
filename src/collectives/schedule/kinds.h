/* collectives/schedule/kinds.h - what there is to know of each kind of
 * collective, in one table. Who names, checks, measures or schedules a call
 * asks here. How operands move within a host is not in it: local/plan.c,
 * blocks.c and run.c tell the kinds apart themselves.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_SCHEDULE_KINDS_H
#define COLLECTIVES_SCHEDULE_KINDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/collectives.h>

#include "base/collective_kind.h"

enum { KINDS_MAX = COLLECTIVE_BARRIER + 1 };

/* A call: the arguments of its kind, and the options of hvd/collectives.h. */
struct collective_args {
    enum collective_kind kind;
    const void *sendbuf; /* broadcast: recvbuf is sent */
    void *recvbuf;
    size_t count; /* the count argument of the call; alltoallv has none */
    /* alltoallv: all four; allgatherv: the last two; [size] each */
    const size_t *sendcounts, *sdispls, *recvcounts, *rdispls;
    hvd_dtype_t dtype;
    hvd_op_t op; /* AVERAGE_OF_ALL: HVD_AVERAGE, and of_all */
    bool of_all;
    int root;
    hvd_memory_t memory;
    void *stream;
    bool ordered;           /* HVD_STREAM_ORDERED */
    const char *name;       /* of a call by name: its key */
    const char *label;      /* in the timeline; NULL: the name */
    hvd_dtype_t wire_dtype; /* HVD_DTYPE_SAME: no other */
    bool scaled;            /* the factors count; else they are 1 */
    double prescale, postscale;
    void *residual;    /* [count], of wire_dtype; NULL: none */
    const char *match; /* of a call by name; NULL: none */
    /* allgatherv, alltoallv without recvbuf, recvcounts and rdispls */
    hvd_place_fn place;
    void *place_arg;
};

/* What a buffer of a rank holds. */
enum kind_buffer {
    KIND_NOTHING, /* there is none */
    KIND_BLOCK,   /* `count` elements */
    KIND_BLOCKS,  /* `count` for each rank */
    KIND_VARIED   /* as counts and displacements say */
};

struct kind {
    const char *name;  /* "allreduce" */
    const char *title; /* "ALLREDUCE", in the timeline */
    enum kind_buffer send, recv;
    bool reduces;        /* it has an op */
    bool rooted;         /* it has a root, whose recvbuf is what is sent */
    bool two_level;      /* two_level.c has a plan for it */
    uint8_t fallback;    /* enum algorithm: serves any size */
    unsigned algorithms; /* 1 << enum algorithm: can do it */
};

/* kind  enum collective_kind; of another number: NULL */
const struct kind *kind_of(int kind);

/* Blocks of several ranks, where they are told one by one? */
static inline bool kind_is_varied(const struct kind *kind)
{
    return kind->recv == KIND_VARIED;
}

#endif
