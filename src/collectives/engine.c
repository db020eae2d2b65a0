/* collectives/engine.c - the operation in flight: its phases one after the
 * other, the loop that moves them, and the judgement of frames that do not fit.
 *
 * A phase does what it can without waiting. Then a short while of looking
 * again, then poll(2) on everything: the abort eventfd, all connections, the
 * endpoint.
 *
 * Threads: whoever drives the comm. Memory: none of its own. */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/array.h"
#include "base/clock.h"
#include "collectives/by_name.h"
#include "collectives/call.h"
#include "collectives/comm_impl.h"

enum {
    ANNOUNCE_FIRST_US = 200000,
    ANNOUNCE_AGAIN_US = 1000000,
    OVERTAKEN_US = 10000000 /* what was said before it comes, or is lost */
};

/* Will the phase at `at`, which has not begun? */
static bool will_need(const struct comm *comm, int at, int peer)
{
    const struct phase *phases = comm->op.phases;
    unsigned n = 0;

    for (int i = comm->op.phase_i + 1; i <= at; i++)
        n += phases[i].ops == phases[at].ops;
    return phases[at].ops->will_need(comm, &phases[at], peer, n);
}

/* Where the operation still waits for this peer, or will: a channel; -1: it
 * does not. */
static int awaited_on(const struct comm *comm, int peer)
{
    const struct operation *op = &comm->op;

    if (engine_done(comm) || engine_ops(comm)->own_pace)
        return -1;
    if (engine_ops(comm)->needs(comm, peer))
        return engine_phase(op)->channel;
    for (int i = op->phase_i + 1; i < op->n_phases; i++)
        if (will_need(comm, i, peer))
            return op->phases[i].channel;
    return -1;
}

/* Another connection of a peer is not in order with the one that is waited for,
 * which may even wait to be accepted: will that one tell? Memory that is shared
 * already is ahead of all connections. */
static bool is_elsewhere(struct comm *comm, const struct connection *c,
                         int channel)
{
    const struct connection *other;

    if (c->channel == channel)
        return false;
    endpoint_drive(comm->config.endpoint, &comm->user);
    other = comm_link(comm, channel, c->peer);
    if (other == NULL || channel != CHANNEL_LOCAL)
        return other != NULL;
    return other->state < CONNECTION_OPEN ||
           awaited_on(comm, c->peer) != channel;
}

/* --- the sentences of a mismatch --- */

hvd_status_t engine_disagree(struct comm *comm, int peer,
                             const struct frame *theirs,
                             const struct frame *mine)
{
    char a[CALL_TEXT_MAX], b[CALL_TEXT_MAX];

    call_describe(theirs, a);
    call_describe(mine, b);
    return comm_fail(comm, HVD_ERR_MISMATCH,
                     "rank %d calls %s, rank %d calls %s%s", peer, a,
                     comm->config.rank, b,
                     call_is_commit(theirs) == call_is_commit(mine)
                         ? ""
                         : ": ranks must commit equally often");
}

/* The call that this rank made under the peer's number, if it is remembered. */
static const struct frame *past_call(const struct comm *comm, uint64_t sequence)
{
    const struct frame *f = &comm->history[sequence % COMM_HISTORY];

    return f->sequence == sequence && sequence != 0 ? f : NULL;
}

/* The peer says that it has such a connection, of which nothing has come: its
 * goodbye has overtaken that on the way. Judged OVERTAKEN_US later, true until
 * then. */
static bool put_off_overtaken(const struct comm *comm, struct connection *c,
                              int channel)
{
    if ((c->leave_channels >> channel & 1) == 0 ||
        comm_link(comm, channel, c->peer) != NULL)
        return false;
    if (c->judge_us == 0)
        c->judge_us = clock_now_us() + OVERTAKEN_US;
    return c->judge_us != CLOCK_NEVER;
}

uint64_t engine_boundaries_passed(const struct comm *comm)
{
    while (comm->family.world != NULL)
        comm = comm->family.world;
    return atomic_load_explicit(&comm->boundary, memory_order_relaxed);
}

hvd_status_t engine_left(struct comm *comm, struct connection *c)
{
    const struct operation *op = &comm->op;
    unsigned long long sequence = op->head.sequence;
    uint64_t passed = engine_boundaries_passed(comm);
    const char *kind = call_name(&op->head);
    int channel = op->active ? awaited_on(comm, c->peer) : -1;

    if (channel < 0)
        return HVD_OK;
    /* what was sent before the goodbye may still be on its way */
    if (is_elsewhere(comm, c, channel) ||
        (c->channel == CHANNEL_TRANSFER && channel != CHANNEL_TRANSFER) ||
        put_off_overtaken(comm, c, channel))
        return HVD_OK;
    if (c->leave_kind == FRAME_LEAVE_DONE)
        return comm_fail(comm, HVD_ERR_MISMATCH,
                         "rank %d has finished, rank %d calls %s #%llu",
                         c->peer, comm->config.rank, kind, sequence);
    if (comm->by_name != NULL)
        return by_name_part(comm, c);
    return comm_fail(comm, HVD_ERR_MISMATCH,
                     "rank %d left at boundary %llu, this rank is in %s #%llu "
                     "after %llu boundaries: ranks must commit equally often",
                     c->peer, (unsigned long long)c->leave_boundary, kind,
                     sequence, (unsigned long long)passed);
}

static const char *levels_of(const struct frame *f)
{
    return f->algorithm & FRAME_TWO_LEVELS ? "two levels" : "one level";
}

static const char *algorithm_of(const struct frame *f)
{
    return algorithm_name(f->algorithm & (FRAME_ON_DEVICE - 1u));
}

static const char *memory_of(const struct frame *f)
{
    return f->algorithm & FRAME_ON_DEVICE ? "on a device" : "in host memory";
}

/* Their schedules have little to do with each other: ranks would wait for ever,
 * or take some bytes for others of the same length. */
hvd_status_t engine_same_algorithm(struct comm *comm,
                                   const struct connection *c)
{
    const struct frame *theirs = &c->frame, *mine = &comm->op.head;
    const char *kind = call_name(mine);
    unsigned long long sequence = mine->sequence;

    if (theirs->algorithm == mine->algorithm)
        return HVD_OK;
    if ((theirs->algorithm ^ mine->algorithm) & FRAME_ON_DEVICE)
        return comm_fail(comm, HVD_ERR_MISMATCH,
                         "%s #%llu: buffers of rank %d are %s, of rank %d %s",
                         kind, sequence, c->peer, memory_of(theirs),
                         comm->config.rank, memory_of(mine));
    if ((theirs->algorithm ^ mine->algorithm) & FRAME_TWO_LEVELS)
        return comm_fail(comm, HVD_ERR_MISMATCH,
                         "rank %d does %s #%llu in %s, rank %d in %s: "
                         "HVD_ALGORITHM or the abilities of a host differ",
                         c->peer, kind, sequence, levels_of(theirs),
                         comm->config.rank, levels_of(mine));
    return comm_fail(comm, HVD_ERR_MISMATCH,
                     "rank %d does %s #%llu by %s, rank %d by %s: "
                     "HVD_ALGORITHM or the version of libhvd differs",
                     c->peer, kind, sequence, algorithm_of(theirs),
                     comm->config.rank, algorithm_of(mine));
}

/* --- frames --- */

/* A call of the peer's that is not the one in flight. A later one is fine
 * unless this operation still waits for the peer: connections are first in,
 * first out. */
hvd_status_t engine_other_call(struct comm *comm, const struct connection *c)
{
    const struct operation *op = &comm->op;
    const struct frame *f = &c->frame, *past;

    if (f->sequence > op->head.sequence) {
        int channel = awaited_on(comm, c->peer);

        if (channel < 0 || is_elsewhere(comm, c, channel))
            return HVD_OK;
        return engine_disagree(comm, c->peer, f, &op->head);
    }
    /* ANNOUNCE: a slower peer that still waits for others; or it did long ago,
     * and all calls since went through memory while nobody looked here */
    past = past_call(comm, f->sequence);
    if (f->type == FRAME_ANNOUNCE && (past == NULL || frame_same_call(f, past)))
        return HVD_OK;
    return engine_disagree(comm, c->peer, f, past != NULL ? past : &op->head);
}

hvd_status_t engine_announced(struct comm *comm, struct connection *c)
{
    const struct operation *op = &comm->op;

    if (!op->active || engine_done(comm) ||
        engine_phase(op)->channel == CHANNEL_TRANSFER)
        return HVD_OK;
    /* not in order with the data connection, which tells the same */
    if (c->channel == CHANNEL_ASK &&
        comm_link(comm, CHANNEL_DATA, c->peer) != NULL)
        return HVD_OK;
    /* between two calls, it is the one before or the next */
    if (c->frame.sequence != op->head.sequence ||
        engine_ops(comm) == &await_phase)
        return engine_other_call(comm, c);
    if (!frame_same_call(&c->frame, &op->head))
        return engine_disagree(comm, c->peer, &c->frame, &op->head);
    return engine_same_algorithm(comm, c);
}

/* --- waiting --- */

/* A peer above us that never dialled may wait for us elsewhere, or be gone. */
static hvd_status_t ask_above(struct comm *comm, int peer, bool *dialled_p)
{
    int channel = engine_phase(&comm->op)->channel;

    if (peer <= comm->config.rank || comm_link(comm, channel, peer) != NULL ||
        comm_link(comm, CHANNEL_ASK, peer) != NULL)
        return HVD_OK;
    *dialled_p = true;
    return links_dial(comm, peer, CHANNEL_ASK);
}

hvd_status_t engine_announce_to(struct comm *comm, struct connection *c)
{
    struct frame f = comm->op.head;

    f.type = FRAME_ANNOUNCE;
    if (c->state < CONNECTION_GREETED || c->state == CONNECTION_LEFT ||
        !connection_idle(c) || !connection_queue(c, &f, NULL))
        return HVD_OK;
    return links_flush(comm, c);
}

static hvd_status_t announce(struct comm *comm, uint64_t now_us)
{
    struct operation *op = &comm->op;
    bool dialled = false;
    int peers[2];

    engine_ops(comm)->waits(comm, peers);
    HVD_TRY(ask_above(comm, peers[0], &dialled));
    HVD_TRY(ask_above(comm, peers[1], &dialled));
    op->announce_us = now_us +
                      (dialled ? ANNOUNCE_FIRST_US : ANNOUNCE_AGAIN_US);
    if (engine_phase(op)->channel == CHANNEL_TRANSFER)
        return HVD_OK;
    for (size_t i = 0; i < comm->n_live; i++) {
        struct connection *c = comm->live[i];

        if (c->channel == CHANNEL_TRANSFER || connection_is_stripe(c) ||
            (c->channel == CHANNEL_ASK &&
             comm_link(comm, CHANNEL_DATA, c->peer) != NULL))
            continue;
        HVD_TRY(engine_announce_to(comm, c));
    }
    return HVD_OK;
}

static uint64_t wait_deadline(const struct comm *comm)
{
    uint64_t a = comm->op.announce_us, b = links_deadline(comm);
    uint64_t c = endpoint_deadline(comm->config.endpoint);

    a = comm->op.watch_us < a ? comm->op.watch_us : a;
    if (comm->op.until_us != 0 && comm->op.until_us < a)
        a = comm->op.until_us;
    a = b < a ? b : a;
    return c < a ? c : a;
}

static size_t fill_pfds(struct comm *comm)
{
    const struct phase_ops *ops = engine_ops(comm);
    int doorbell = ops->doorbell != NULL ? ops->doorbell(comm) : -1;
    size_t n = 0;

    comm->pfds[n++] = (struct pollfd){comm->verdict.wake_fd, POLLIN, 0};
    for (size_t i = 0; i < comm->n_live; i++) {
        const struct connection *c = comm->live[i];
        int fd = c->ended ? -1 : c->fd;

        comm->pfds[n++] = (struct pollfd){fd, links_events(c), 0};
    }
    n += endpoint_fds_fill(comm->config.endpoint, comm->pfds + n,
                           comm->pfds_max - n - 1);
    comm->pfds[n++] = (struct pollfd){doorbell, POLLIN, 0};
    return n;
}

static hvd_status_t after_poll(struct comm *comm, size_t n_pfds, size_t n_links,
                               uint64_t deadline_us)
{
    bool endpoint_ready = false;
    uint64_t now_us;

    for (size_t i = 0; i < n_links; i++)
        if (comm->pfds[1 + i].revents != 0 && !engine_done(comm))
            HVD_TRY(
                links_ready(comm, comm->live[i], comm->pfds[1 + i].revents));
    for (size_t i = 1 + n_links; i + 1 < n_pfds; i++) /* last, the doorbell */
        endpoint_ready |= comm->pfds[i].revents != 0;
    if (endpoint_ready)
        endpoint_drive(comm->config.endpoint, &comm->user);
    now_us = clock_now_us();
    if (now_us < deadline_us)
        return HVD_OK;
    endpoint_drive(comm->config.endpoint, &comm->user);
    HVD_TRY(links_retry_due(comm, now_us));
    if (now_us >= comm->op.watch_us)
        HVD_TRY(watch_look(comm, now_us));
    return now_us >= comm->op.announce_us ? announce(comm, now_us) : HVD_OK;
}

static hvd_status_t advance(struct comm *comm, bool *more_p);

/* Who shares memory with us rings only if we sleep, so we look once more after
 * saying so. What is there counts before a goodbye on a connection. The phase
 * may be another one when we wake. */
static hvd_status_t poll_asleep(struct comm *comm, size_t n_pfds,
                                int timeout_ms, bool *moved_p)
{
    const struct phase_ops *ops = engine_ops(comm);
    hvd_status_t status;

    ops->sleep(comm);
    status = advance(comm, moved_p);
    if (status == HVD_OK && !*moved_p && !engine_done(comm)) {
        if (poll(comm->pfds, n_pfds, timeout_ms) < 0 && errno != EINTR)
            status = comm_fail(comm, HVD_ERR_SYSTEM, "poll: %s",
                               strerror(errno));
        ops->wake(comm);
        return status == HVD_OK ? advance(comm, moved_p) : status;
    }
    ops->wake(comm);
    return status;
}

static hvd_status_t judge_left(struct comm *comm)
{
    for (size_t i = 0; i < comm->n_live; i++)
        if (comm->live[i]->state == CONNECTION_LEFT)
            HVD_TRY(engine_left(comm, comm->live[i]));
    return HVD_OK;
}

/* By an abort, by who wants to drive, whose word stands, or since something has
 * come to the endpoint. */
static hvd_status_t woken(struct comm *comm)
{
    eventfd_t ignored;

    (void)eventfd_read(comm->verdict.wake_fd, &ignored);
    if (comm_kicked(comm) || comm_status(comm, NULL) != HVD_OK)
        (void)eventfd_write(comm->verdict.wake_fd, 1);
    endpoint_drive(comm->config.endpoint, &comm->user);
    return comm_check(comm);
}

/* `more`: only look, there is work to do. */
static hvd_status_t wait_events(struct comm *comm, bool more)
{
    bool sleeps = engine_ops(comm)->sleep != NULL && !more;
    size_t n_links = comm->n_live, n_pfds;
    size_t need = 2 + n_links + endpoint_fds_count(comm->config.endpoint);
    uint64_t now_us = clock_now_us(), deadline_us;
    bool moved = false;
    int timeout_ms;

    if (comm->op.announce_us == 0) {
        comm->op.announce_us = now_us + ANNOUNCE_FIRST_US;
        comm->op.watch_us = watch_first(comm, now_us);
    }
    deadline_us = wait_deadline(comm);
    timeout_ms = more ? 0 : clock_poll_ms(now_us, deadline_us);
    if (!array_reserve(&comm->pfds, &comm->pfds_max, need))
        return comm_fail(comm, HVD_ERR_NOMEM, "poll set");
    n_pfds = fill_pfds(comm);
    if (sleeps) {
        HVD_TRY(judge_left(comm));
        HVD_TRY(poll_asleep(comm, n_pfds, timeout_ms, &moved));
        if (moved || engine_done(comm))
            return comm_check(comm);
    } else if (poll(comm->pfds, n_pfds, timeout_ms) < 0 && errno != EINTR) {
        return comm_fail(comm, HVD_ERR_SYSTEM, "poll: %s", strerror(errno));
    }
    if (comm->pfds[0].revents != 0)
        return woken(comm);
    return after_poll(comm, n_pfds, n_links, deadline_us);
}

/* --- the operation --- */

/* Begin the phase and look at what has been held back for it. */
static hvd_status_t begin(struct comm *comm)
{
    const struct phase *phase = engine_phase(&comm->op);

    HVD_TRY(phase->ops->begin(comm, phase));
    if (!phase->ops->uses_links && comm->op.n_phases == 1)
        return HVD_OK;
    for (size_t i = 0; i < comm->n_live; i++) {
        struct connection *c = comm->live[i];

        if (c->state == CONNECTION_LEFT)
            HVD_TRY(engine_left(comm, c));
        else
            HVD_TRY(links_digest(comm, c));
    }
    return HVD_OK;
}

/* The phase in flight is over, and it is not the last. */
static bool next_is_due(const struct comm *comm)
{
    const struct operation *op = &comm->op;

    return op->phase_i + 1 < op->n_phases && engine_ops(comm)->done(comm);
}

/* A stream counts its frames: what a connection brings may be something else.
 */
static void note_move(struct comm *comm, bool moved)
{
    if (moved && !engine_ops(comm)->uses_links)
        comm_move_on(comm);
}

static hvd_status_t advance(struct comm *comm, bool *more_p)
{
    struct operation *op = &comm->op;

    HVD_TRY(engine_ops(comm)->advance(comm, more_p));
    note_move(comm, *more_p);
    while (next_is_due(comm)) {
        if (op->begun_ns != 0)
            op->ended_ns[op->phase_i] = timeline_clock_now();
        op->phase_i++;
        HVD_TRY(begin(comm));
        *more_p = true;
    }
    return HVD_OK;
}

/* Until it is over or the progress thread is to let go. */
static hvd_status_t drive(struct comm *comm)
{
    bool more;

    while (!comm_kicked(comm)) {
        HVD_TRY(comm_check(comm));
        HVD_TRY(advance(comm, &more));
        if (!more && !engine_done(comm)) {
            HVD_TRY(engine_ops(comm)->look_again(comm, &more));
            note_move(comm, more);
        }
        if (engine_done(comm)) {
            comm->op.active = false;
            return HVD_OK;
        }
        if (next_is_due(comm))
            continue;
        if (!more || engine_ops(comm)->uses_links)
            HVD_TRY(wait_events(comm, more));
    }
    return HVD_OK;
}

static hvd_status_t end_unless_ok(struct comm *comm, hvd_status_t status)
{
    if (status == HVD_OK)
        return HVD_OK;
    comm->op.active = false;
    return comm_end(comm);
}

hvd_status_t engine_start(struct comm *comm)
{
    comm->op.active = true;
    comm->op.announce_us = 0; /* from the first wait on */
    return end_unless_ok(comm, begin(comm));
}

hvd_status_t engine_continue(struct comm *comm)
{
    return end_unless_ok(comm, drive(comm));
}

hvd_status_t engine_run(struct comm *comm)
{
    HVD_TRY(engine_start(comm));
    return engine_continue(comm);
}
