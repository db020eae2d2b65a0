/* collectives/await_phase.c - a phase without bytes: until another rank has
 * begun the next call, or this one has posted more by name. Where this one has
 * to post more before it takes part in that call, for so long alone.
 *
 * Nobody is waited for, so nobody is asked or watched; but who has left will
 * never post what this rank has.
 *
 * Threads: whoever drives the comm. Memory: none. */
#include <sched.h>

#include "base/clock.h"
#include "collectives/by_name.h"
#include "collectives/comm_impl.h"

enum { LOOK_US = 30 };

static hvd_status_t begin(struct comm *comm, const struct phase *phase)
{
    (void)phase;
    comm->op.announce_us = comm->op.watch_us = CLOCK_NEVER;
    return HVD_OK;
}

/* Its frame waits until the call is this rank's as well, or told of it. */
static bool brings_next(const struct comm *comm, const struct connection *c)
{
    return c->state == CONNECTION_OPEN && c->channel == CHANNEL_DATA &&
           (c->reading == READING_HELD || c->frame.type == FRAME_ANNOUNCE) &&
           c->frame.sequence > comm->op.head.sequence;
}

static bool done(const struct comm *comm)
{
    if (by_name_has_posts(comm))
        return true;
    if (comm->op.until_us != 0)
        return clock_now_us() >= comm->op.until_us;
    if (comm->local != NULL && local_is_called(comm->local))
        return true;
    for (size_t i = 0; i < comm->n_live; i++)
        if (brings_next(comm, comm->live[i]))
            return true;
    return false;
}

static hvd_status_t left(struct comm *comm, const struct connection *c)
{
    if (c->leave_kind != FRAME_LEAVE_DONE)
        return by_name_part(comm, c);
    return comm_fail(comm, HVD_ERR_MISMATCH,
                     "rank %d has finished, rank %d waits for calls by name",
                     c->peer, comm->config.rank);
}

static hvd_status_t advance(struct comm *comm, bool *more_p)
{
    *more_p = false;
    for (size_t i = 0; i < comm->n_live; i++)
        if (comm->live[i]->state == CONNECTION_LEFT)
            return left(comm, comm->live[i]);
    return HVD_OK;
}

/* In the background somebody else needs the core. */
static hvd_status_t look_again(struct comm *comm, bool *more_p)
{
    uint64_t until_us = clock_now_us() + LOOK_US;

    *more_p = false;
    while (!comm->in_background && !comm_kicked(comm) && !done(comm) &&
           clock_now_us() < until_us)
        sched_yield();
    return comm_check(comm);
}

static bool needs(const struct comm *comm, int peer)
{
    (void)comm;
    (void)peer;
    return false;
}

static bool will_need(const struct comm *comm, const struct phase *phase,
                      int peer, unsigned n)
{
    (void)comm;
    (void)phase;
    (void)peer;
    (void)n;
    return false;
}

static void waits(const struct comm *comm, int peers[2])
{
    (void)comm;
    peers[0] = peers[1] = -1;
}

static void fall_asleep(struct comm *comm)
{
    by_name_sleep(comm);
    if (comm->local != NULL)
        local_sleep(comm->local);
}

static void wake_up(struct comm *comm)
{
    by_name_wake(comm);
    if (comm->local != NULL)
        local_wake(comm->local);
}

static int doorbell(const struct comm *comm)
{
    return comm->local != NULL ? local_doorbell(comm->local) : -1;
}

const struct phase_ops await_phase = {
    .begin = begin,
    .advance = advance,
    .done = done,
    .look_again = look_again,
    .needs = needs,
    .will_need = will_need,
    .waits = waits,
    .own_pace = true,
    .uses_links = true,
    .sleep = fall_asleep,
    .wake = wake_up,
    .doorbell = doorbell,
};
