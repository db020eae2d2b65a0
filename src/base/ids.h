/* base/ids.h - the numbers that name things on the wire and in snapshots.
 *
 * generation  u64, incremented by every rendezvous that sends ASSIGN; 0: none
 * term        u64, incarnation of the driver; the first is 1
 * worker id   u64, never reused within a job; the first is 1, so 0 means nobody
 * state id    (generation, version), compared in that order; (0, 0) means none.
 *             Equal ids mean equal shared state.
 *
 * Pure. */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include <stdbool.h>
#include <stdint.h>

struct state_id {
    uint64_t generation;
    uint64_t version;
};

static inline int state_id_compare(struct state_id a, struct state_id b)
{
    if (a.generation != b.generation)
        return a.generation < b.generation ? -1 : 1;
    if (a.version != b.version)
        return a.version < b.version ? -1 : 1;
    return 0;
}

static inline bool state_id_equal(struct state_id a, struct state_id b)
{
    return state_id_compare(a, b) == 0;
}

static inline bool state_id_is_none(struct state_id id)
{
    return id.generation == 0 && id.version == 0;
}

#endif
