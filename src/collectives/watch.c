/* collectives/watch.c - a peer on another host is silent: the network between
 * is cut, and no packet will say so. A reader would never learn of it, a writer
 * after a quarter of an hour.
 *
 * A rank looks at its connections each fifth of config.silence_us while it
 * waits. To a peer that the phase waits for, it sends a frame that says nothing
 * if the connection is idle, for the peer's kernel to acknowledge
 * (net/silence.h). Every other one is judged by what is under way on it: the
 * rank has sent all that this peer needs, which may not have arrived, and then
 * waits for a third that waits for that peer. So are stripes, which carry no
 * frames. A connection whose handshake is not answered yet is kept alive by the
 * kernel. Ranks of one host have no network between them.
 *
 * Threads: whoever drives the comm. Memory: none of its own. */
#include "base/clock.h"
#include "collectives/comm_impl.h"

uint64_t watch_first(const struct comm *comm, uint64_t now_us)
{
    uint64_t silence_us = comm->config.silence_us;

    /* soon: what was cut before is counted from the first look on */
    return silence_us == 0 ? CLOCK_NEVER
                           : now_us + silence_interval(silence_us) / 4;
}

static hvd_status_t ask(struct comm *comm, struct connection *c)
{
    struct frame f = {.type = FRAME_ALIVE};

    if (c->state != CONNECTION_OPEN || connection_is_stripe(c) ||
        !connection_idle(c) || !connection_queue(c, &f, NULL))
        return HVD_OK;
    return links_flush(comm, c);
}

/* The time is up between two looks, or is, but for what is granted on top. */
static void look_in_time(struct comm *comm, uint64_t now_us, uint64_t silent_us)
{
    uint64_t timeout_us = comm->config.silence_us;
    uint64_t left_us = silent_us < timeout_us ? timeout_us - silent_us
                                              : timeout_us / 20;

    if (now_us + left_us < comm->op.watch_us)
        comm->op.watch_us = now_us + left_us;
}

/* This process hears nobody. The time of a peer begins anew when it does, but
 * not for a moment in which the driver is dialled at another address. */
static bool is_excused(const struct comm *comm, struct connection *c,
                       uint64_t silent_us, uint64_t now_us)
{
    bool cut_off = comm->config.is_cut_off && comm->config.is_cut_off(now_us);

    if (!cut_off ||
        (!c->silence.excused && silent_us < comm->config.silence_us / 4 * 3)) {
        c->silence.excused &= cut_off;
        return false;
    }
    c->silence = (struct silence){
        .watched_us = now_us, .looked_us = now_us, .excused = true};
    return true;
}

static hvd_status_t look_at(struct comm *comm, struct connection *c,
                            uint64_t now_us, bool waited_for)
{
    uint64_t silent_us;
    struct heard heard;
    enum silence_verdict verdict;

    if (c->fd < 0 || c->ended ||
        (c->state != CONNECTION_GREETED && c->state != CONNECTION_OPEN) ||
        !silence_hear(c->fd, now_us, &heard))
        return HVD_OK;
    verdict = silence_judge(&c->silence, &heard, comm->config.silence_us,
                            now_us, &silent_us);
    if (is_excused(comm, c, silent_us, now_us))
        return HVD_OK;
    switch (verdict) {
    case SILENCE_FINE:
        look_in_time(comm, now_us, silent_us);
        return HVD_OK;
    case SILENCE_ASK:
        return waited_for ? ask(comm, c) : HVD_OK;
    case SILENCE_STUCK:
        return links_silent(comm, c, "data sent to it has not arrived",
                            silent_us);
    case SILENCE_LOST:
        break;
    }
    return links_silent(comm, c, "nothing has come from it", silent_us);
}

hvd_status_t watch_look(struct comm *comm, uint64_t now_us)
{
    int peers[2];

    comm->op.watch_us = now_us + silence_interval(comm->config.silence_us);
    engine_ops(comm)->waits(comm, peers);
    for (size_t i = 0; i < comm->n_live; i++) {
        struct connection *c = comm->live[i];

        if (c->channel == CHANNEL_LOCAL || links_near(comm, c->peer))
            continue;
        HVD_TRY(look_at(comm, c, now_us,
                        c->peer == peers[0] || c->peer == peers[1]));
    }
    return HVD_OK;
}
