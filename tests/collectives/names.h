/* tests/collectives/names.h - names and what they mean, for tests of the
 * negotiator. */
#ifndef TESTS_COLLECTIVES_NAMES_H
#define TESTS_COLLECTIVES_NAMES_H

#include "collectives/negotiate/negotiator.h"
#include "collectives/schedule/kinds.h"
#include "support.h"

static inline struct name_id name_of(int i)
{
    /* few buckets, long chains */
    return (struct name_id){(uint64_t)i % 5, (uint64_t)i + 1};
}

static inline struct signature sum_of(uint64_t count)
{
    return (struct signature){.kind = COLLECTIVE_ALLREDUCE,
                              .dtype = HVD_FLOAT32,
                              .op = HVD_SUM,
                              .count = count};
}

#endif
