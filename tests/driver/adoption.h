/* tests/driver/adoption.h - where workers are that say HELLO to a successor,
 * and a job that trains, for the transcripts of M15. */
#ifndef TESTS_DRIVER_ADOPTION_H
#define TESTS_DRIVER_ADOPTION_H

#include "driver/fixture.h"

/* A member of generation g with `size` ranks; greets() gives them theirs. */
static inline struct msg_where member(enum worker_phase phase, uint64_t g,
                                      uint32_t size)
{
    return (struct msg_where){.phase = (uint8_t)phase,
                              .generation = g,
                              .size = size,
                              .joined = 1,
                              .kind = READY_ELASTIC};
}

static inline struct msg_where training(uint64_t g, uint32_t size)
{
    return member(WORKER_RUNNING, g, size);
}

static inline struct msg_where joining(enum ready_reason reason, uint64_t g,
                                       uint64_t fence, uint32_t size)
{
    struct msg_where where = member(WORKER_JOINING, g, size);

    where.reason = (uint8_t)reason;
    where.fence = fence;
    return where;
}

static inline struct msg_where newcomer(enum worker_phase phase)
{
    return (struct msg_where){.phase = (uint8_t)phase, .reason = READY_START};
}

/* Generation 1 on two hosts, committed. */
static inline struct fixture *trains(const char *workers)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "a:2 b:2");
    at(f, 100, commits(workers));
    forget(f);
    return f;
}

#define ALL "w1 w2 w3 w4"

static inline void agents_back(struct fixture *f, uint64_t ms)
{
    agent_back(f, ms, "a", 1, "w1@0 w2@1");
    agent_back(f, ms, "b", 2, "w3@0 w4@1");
}

#endif
