/* device/life.h - how long a communicator of NCCL lives, and what its thread
 * has to do next.
 *
 *   JOINING --ok--> WARMING --ok--> READY
 *      '------+--------'--------------'     failed, cancelled, deadline
 *             v
 *          REVOKING --over, failed, too long--> ABORTING --over--> GONE
 *                                                  '--deadline--> ABANDONED
 *
 * One that cannot be revoked, by this NCCL or just now, is aborted at once.
 * It is quiet once no kernel of it runs any more: soon after it is told to end,
 * long before NCCL has ended its threads (half a second: they look that often),
 * or at the latest when it is GONE. One that is ABANDONED before may never be:
 * nobody knows.
 *
 * Pure: each step is told what the calls of NCCL have said, and the time. */
#ifndef DEVICE_LIFE_H
#define DEVICE_LIFE_H

#include <stdbool.h>
#include <stdint.h>

enum life_state {
    LIFE_JOINING, /* ncclCommInitRankConfig is under way */
    LIFE_WARMING, /* a first allreduce is: all connections are made */
    LIFE_READY,
    LIFE_REVOKING, /* ncclCommRevoke is under way */
    LIFE_ABORTING, /* ncclCommAbort is, on a thread of its own */
    LIFE_GONE,
    LIFE_ABANDONED /* ... which did not return */
};

/* What the call of the state has come to. */
enum life_said { LIFE_PENDING, LIFE_OK, LIFE_FAILED };

struct life_limits {
    uint64_t join_us; /* JOINING and WARMING together */
    uint64_t revoke_us;
    uint64_t abort_us;
    uint64_t quiet_us; /* an abort that nobody waits for any more */
};

struct life_wish {
    bool cancelled; /* nobody wants it any more; once true it stays so */
    bool revocable; /* if it is to end now */
};

struct life {
    enum life_state state;
    struct life_limits limits;
    uint64_t deadline_us; /* of the state; CLOCK_NEVER: none */
    bool failed;          /* by itself: not cancelled */
    bool late;            /* ... as a deadline passed */
    bool quiet;           /* no kernel runs, or ever will */
};

void life_begin(struct life *life, const struct life_limits *limits,
                uint64_t now_us);

/* true: the state has changed, and its call is to be made. */
bool life_step(struct life *life, enum life_said said, struct life_wish wish,
               uint64_t now_us);

/* REVOKING or ABORTING: no kernel runs any more, nor will. */
void life_silenced(struct life *life, uint64_t now_us);

/* ABORTING: the call has come back. What its stream still has to do is the
 * program's, and takes its time. */
void life_aborted(struct life *life);

static inline bool life_is_over(enum life_state state)
{
    return state >= LIFE_GONE;
}

#endif
