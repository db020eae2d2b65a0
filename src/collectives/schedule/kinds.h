/* collectives/schedule/kinds.h - what there is to know of each kind of
 * collective, in one table. Who names, checks, measures or schedules a call
 * asks here. How operands move within a host is not in it: local/plan.c,
 * blocks.c and run.c tell the kinds apart themselves.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_SCHEDULE_KINDS_H
#define COLLECTIVES_SCHEDULE_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include <hvd/collectives.h>

/* Inside, the public descriptor and its kinds go by shorter names. */
#define collective_args           hvd_collective_args
#define collective_kind           hvd_collective_kind
#define COLLECTIVE_ALLREDUCE      HVD_COLLECTIVE_ALLREDUCE
#define COLLECTIVE_BROADCAST      HVD_COLLECTIVE_BROADCAST
#define COLLECTIVE_ALLGATHER      HVD_COLLECTIVE_ALLGATHER
#define COLLECTIVE_ALLGATHERV     HVD_COLLECTIVE_ALLGATHERV
#define COLLECTIVE_REDUCE_SCATTER HVD_COLLECTIVE_REDUCE_SCATTER
#define COLLECTIVE_ALLTOALL       HVD_COLLECTIVE_ALLTOALL
#define COLLECTIVE_ALLTOALLV      HVD_COLLECTIVE_ALLTOALLV
#define COLLECTIVE_BARRIER        HVD_COLLECTIVE_BARRIER

enum { KINDS_MAX = COLLECTIVE_BARRIER + 1 }; /* 0 is none */

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

/* kind  enum collective_kind; else NULL */
const struct kind *kind_of(int kind);

/* Blocks of several ranks, where they are told one by one? */
static inline bool kind_is_varied(const struct kind *kind)
{
    return kind->recv == KIND_VARIED;
}

#endif
