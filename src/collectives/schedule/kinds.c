/* collectives/schedule/kinds.c - see kinds.h. Pure. */
#include "collectives/schedule/kinds.h"

#include <stddef.h>

#include "collectives/schedule/algorithm.h"

#define BIT(algorithm) (1u << ALGORITHM_##algorithm)

enum { SHARED = BIT(FLAT) | BIT(TWO_LEVEL) };

static const struct kind kinds[KINDS_MAX] = {
    [COLLECTIVE_ALLREDUCE] = {.name = "allreduce",
                              .title = "ALLREDUCE",
                              .send = KIND_BLOCK,
                              .recv = KIND_BLOCK,
                              .reduces = true,
                              .two_level = true,
                              .fallback = ALGORITHM_RING,
                              .algorithms = BIT(RING) | BIT(DOUBLING) |
                                            BIT(HALVING) | SHARED},
    [COLLECTIVE_BROADCAST] = {.name = "broadcast",
                              .title = "BROADCAST",
                              .send = KIND_BLOCK,
                              .recv = KIND_BLOCK,
                              .rooted = true,
                              .two_level = true,
                              .fallback = ALGORITHM_CHAIN,
                              .algorithms = BIT(STAR) | BIT(TREE) | BIT(CHAIN) |
                                            BIT(SCATTER) | SHARED},
    [COLLECTIVE_ALLGATHER] = {.name = "allgather",
                              .title = "ALLGATHER",
                              .send = KIND_BLOCK,
                              .recv = KIND_BLOCKS,
                              .fallback = ALGORITHM_RING,
                              .algorithms = BIT(RING) | BIT(BRUCK) | SHARED},
    [COLLECTIVE_ALLGATHERV] = {.name = "allgatherv",
                               .title = "ALLGATHERV",
                               .send = KIND_BLOCK,
                               .recv = KIND_VARIED,
                               .fallback = ALGORITHM_RING,
                               .algorithms = BIT(RING) | SHARED},
    [COLLECTIVE_REDUCE_SCATTER] = {.name = "reduce_scatter",
                                   .title = "REDUCE_SCATTER",
                                   .send = KIND_BLOCKS,
                                   .recv = KIND_BLOCK,
                                   .reduces = true,
                                   .fallback = ALGORITHM_RING,
                                   .algorithms = BIT(RING) | BIT(HALVING) |
                                                 BIT(PAIRWISE) | SHARED},
    [COLLECTIVE_ALLTOALL] = {.name = "alltoall",
                             .title = "ALLTOALL",
                             .send = KIND_BLOCKS,
                             .recv = KIND_BLOCKS,
                             .fallback = ALGORITHM_PAIRWISE,
                             .algorithms = BIT(PAIRWISE) | SHARED},
    [COLLECTIVE_ALLTOALLV] = {.name = "alltoallv",
                              .title = "ALLTOALLV",
                              .send = KIND_VARIED,
                              .recv = KIND_VARIED,
                              .fallback = ALGORITHM_PAIRWISE,
                              .algorithms = BIT(PAIRWISE) | SHARED},
    [COLLECTIVE_BARRIER] = {.name = "barrier",
                            .title = "BARRIER",
                            .two_level = true,
                            .fallback = ALGORITHM_DISSEMINATION,
                            .algorithms = BIT(DISSEMINATION) | SHARED},
};

const struct kind *kind_of(int kind)
{
    return kind > 0 && kind < KINDS_MAX ? &kinds[kind] : NULL;
}
