/* base/collective_kind.h - the kinds of collectives, as they are numbered on
 * the wire and in timelines. What there is to know of each:
 * collectives/schedule/kinds.h. Pure. */
#ifndef BASE_COLLECTIVE_KIND_H
#define BASE_COLLECTIVE_KIND_H

enum collective_kind {
    COLLECTIVE_NONE = 0,
    COLLECTIVE_ALLREDUCE = 1,
    COLLECTIVE_BROADCAST = 2,
    COLLECTIVE_ALLGATHER = 3,
    COLLECTIVE_ALLGATHERV = 4,
    COLLECTIVE_REDUCE_SCATTER = 5,
    COLLECTIVE_ALLTOALL = 6,
    COLLECTIVE_ALLTOALLV = 7,
    COLLECTIVE_BARRIER = 8
};

#endif
