/* device/life.c - see life.h. Pure. */
#include "device/life.h"

#include "base/clock.h"
#include "base/moves.h"

static void move(struct life *life, enum life_state to, uint64_t deadline_us)
{
    static const unsigned moves[] = {
        [LIFE_JOINING] = MOVE(LIFE_WARMING) | MOVE(LIFE_REVOKING) |
                         MOVE(LIFE_ABORTING),
        [LIFE_WARMING] = MOVE(LIFE_READY) | MOVE(LIFE_REVOKING) |
                         MOVE(LIFE_ABORTING),
        [LIFE_READY] = MOVE(LIFE_REVOKING) | MOVE(LIFE_ABORTING),
        [LIFE_REVOKING] = MOVE(LIFE_ABORTING),
        [LIFE_ABORTING] = MOVE(LIFE_GONE) | MOVE(LIFE_ABANDONED),
        [LIFE_GONE] = 0,
        [LIFE_ABANDONED] = 0,
    };

    HVD_ASSERT(moves_allow(moves, life->state, to));
    life->state = to;
    life->deadline_us = deadline_us;
}

void life_begin(struct life *life, const struct life_limits *limits,
                uint64_t now_us)
{
    *life = (struct life){.state = LIFE_JOINING,
                          .limits = *limits,
                          .deadline_us = now_us + limits->join_us};
}

static void begin_abort(struct life *life, uint64_t now_us)
{
    uint64_t us = life->quiet ? life->limits.quiet_us : life->limits.abort_us;

    move(life, LIFE_ABORTING, now_us + us);
}

static void turn_back(struct life *life, bool revocable, uint64_t now_us)
{
    if (revocable)
        move(life, LIFE_REVOKING, now_us + life->limits.revoke_us);
    else
        begin_abort(life, now_us);
}

/* Up to READY. Joining and warming have one deadline. */
static bool go_on(struct life *life, enum life_said said, struct life_wish wish,
                  uint64_t now_us)
{
    bool late = now_us >= life->deadline_us;

    if (wish.cancelled || said == LIFE_FAILED ||
        (said == LIFE_PENDING && late)) {
        life->failed = !wish.cancelled;
        life->late = life->failed && said == LIFE_PENDING;
        turn_back(life, wish.revocable, now_us);
        return true;
    }
    if (said == LIFE_PENDING || life->state == LIFE_READY)
        return false;
    if (life->state == LIFE_JOINING)
        move(life, LIFE_WARMING, life->deadline_us);
    else
        move(life, LIFE_READY, CLOCK_NEVER);
    return true;
}

void life_silenced(struct life *life, uint64_t now_us)
{
    HVD_ASSERT(life->state == LIFE_REVOKING || life->state == LIFE_ABORTING);
    life->quiet = true;
    if (life->state == LIFE_ABORTING && life->deadline_us != CLOCK_NEVER)
        life->deadline_us = now_us + life->limits.quiet_us;
}

void life_aborted(struct life *life)
{
    HVD_ASSERT(life->state == LIFE_ABORTING);
    life->deadline_us = CLOCK_NEVER;
}

bool life_step(struct life *life, enum life_said said, struct life_wish wish,
               uint64_t now_us)
{
    bool due = said != LIFE_PENDING || now_us >= life->deadline_us;

    switch (life->state) {
    case LIFE_JOINING:
    case LIFE_WARMING:
    case LIFE_READY:
        return go_on(life, said, wish, now_us);
    case LIFE_REVOKING:
        life->quiet |= said == LIFE_OK;
        if (due)
            begin_abort(life, now_us);
        return due;
    case LIFE_ABORTING:
        if (said != LIFE_PENDING)
            life->quiet = true;
        if (due)
            move(life, said == LIFE_PENDING ? LIFE_ABANDONED : LIFE_GONE,
                 CLOCK_NEVER);
        return due;
    case LIFE_GONE:
    case LIFE_ABANDONED:
        break;
    }
    return false;
}
