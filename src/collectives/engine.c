/* collectives/engine.c - the operation in flight: two cursors over its
 * schedule, the loop that moves them, and the judgement of frames that do not
 * fit.
 *
 * Each turn does what can be done without waiting: the send that is due, the
 * read that is needed. Then poll(2) on everything: the abort eventfd, all
 * connections, the endpoint.
 *
 * Threads: the issuing thread. Memory: none of its own. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include <xxhash.h>

#include "base/array.h"
#include "base/clock.h"
#include "collectives/call.h"
#include "collectives/comm_impl.h"
#include "collectives/reduce.h"

enum {
    ANNOUNCE_FIRST_US = 200000,
    ANNOUNCE_AGAIN_US = 1000000,
    TURNS_MAX = 64,
    SPIN_US = 50 /* a few round trips over loopback */
};

static bool needs_send(const struct comm *comm, int peer)
{
    const struct operation *op = &comm->op;
    const struct connection *c = comm_link(comm, op->channel, peer);

    for (size_t i = op->send_i; i < op->n_steps; i++) {
        bool gone = i == op->send_i && op->send_begun &&
                    op->send_off == op->steps[i].send_nbytes && c != NULL &&
                    connection_idle(c);

        if (op->steps[i].send_peer == peer && !gone)
            return true;
    }
    return false;
}

static bool needs_recv(const struct operation *op, int peer)
{
    /* what waits in the bounce buffer has arrived */
    size_t first = op->recv_i + (op->apply_pending ? 1 : 0);

    for (size_t i = first; i < op->n_steps; i++)
        if (op->steps[i].recv_peer == peer)
            return true;
    return false;
}

/* --- the sentences of a mismatch --- */

static hvd_status_t disagree(struct comm *comm, int peer,
                             const struct frame *theirs,
                             const struct frame *mine)
{
    char a[CALL_TEXT_MAX], b[CALL_TEXT_MAX];

    call_describe(theirs, a);
    call_describe(mine, b);
    return comm_fail(comm, HVD_ERR_MISMATCH,
                     "rank %d calls %s, rank %d calls %s", peer, a,
                     comm->config.rank, b);
}

static hvd_status_t disagree_bytes(struct comm *comm,
                                   const struct connection *c, size_t expected)
{
    char text[CALL_TEXT_MAX];

    call_describe(&comm->op.head, text);
    return comm_fail(comm, HVD_ERR_MISMATCH,
                     "%s: rank %d sends %u bytes at offset %llu of step %u, "
                     "rank %d expects %zu at %zu of %zu",
                     text, c->peer, c->frame.nbytes,
                     (unsigned long long)c->frame.offset, c->frame.step,
                     comm->config.rank, expected, comm->op.recv_off,
                     comm->op.recv_i);
}

/* The call that this rank made under the peer's number, if it is remembered. */
static const struct frame *past_call(const struct comm *comm, uint64_t sequence)
{
    const struct frame *f = &comm->history[sequence % COMM_HISTORY];

    return f->sequence == sequence && sequence != 0 ? f : NULL;
}

hvd_status_t engine_left(struct comm *comm, struct connection *c)
{
    const struct operation *op = &comm->op;
    unsigned long long sequence = op->head.sequence;
    uint64_t passed = atomic_load_explicit(&comm->boundary,
                                           memory_order_relaxed);
    const char *kind = call_kind_name(op->head.kind);

    if (!op->active || (!needs_recv(op, c->peer) && !needs_send(comm, c->peer)))
        return HVD_OK;
    /* Another connection of that peer is not in order with the one in use,
     * which may even wait to be accepted: what was sent before the goodbye may
     * still be on its way there. */
    if (c->channel != op->channel) {
        endpoint_drive(comm->config.endpoint);
        if (c->channel == CHANNEL_TRANSFER ||
            comm_link(comm, op->channel, c->peer) != NULL)
            return HVD_OK;
    }
    if (c->leave_kind == FRAME_LEAVE_DONE)
        return comm_fail(comm, HVD_ERR_MISMATCH,
                         "rank %d has finished, rank %d calls %s #%llu",
                         c->peer, comm->config.rank, kind, sequence);
    return comm_fail(comm, HVD_ERR_MISMATCH,
                     "rank %d left at boundary %llu, this rank is in %s #%llu "
                     "after %llu boundaries: ranks must commit equally often",
                     c->peer, (unsigned long long)c->leave_boundary, kind,
                     sequence, (unsigned long long)passed);
}

/* --- frames --- */

/* A call of the peer's that is not the one in flight. A later one is fine
 * unless this operation still waits for the peer: connections are first in,
 * first out. */
static hvd_status_t other_call(struct comm *comm, const struct connection *c)
{
    const struct operation *op = &comm->op;
    const struct frame *f = &c->frame, *past;

    if (f->sequence > op->head.sequence) {
        if (needs_recv(op, c->peer) || needs_send(comm, c->peer))
            return disagree(comm, c->peer, f, &op->head);
        return HVD_OK;
    }
    past = past_call(comm, f->sequence);
    if (past == NULL)
        past = &op->head;
    /* ANNOUNCE: a slower peer that still waits for others */
    if (f->type == FRAME_ANNOUNCE && frame_same_call(f, past))
        return HVD_OK;
    return disagree(comm, c->peer, f, past);
}

hvd_status_t engine_announced(struct comm *comm, struct connection *c)
{
    const struct operation *op = &comm->op;

    if (!op->active || op->channel != CHANNEL_DATA)
        return HVD_OK;
    /* not in order with the data connection, which tells the same */
    if (c->channel == CHANNEL_ASK &&
        comm_link(comm, CHANNEL_DATA, c->peer) != NULL)
        return HVD_OK;
    if (c->frame.sequence != op->head.sequence)
        return other_call(comm, c);
    if (!frame_same_call(&c->frame, &op->head))
        return disagree(comm, c->peer, &c->frame, &op->head);
    return HVD_OK;
}

static struct frame expected_head(const struct comm *comm,
                                  const struct connection *c)
{
    struct frame head = comm->op.head;

    if (comm->op.recvcounts != NULL)
        head.count = comm->op.recvcounts[c->peer];
    if (comm->op.channel == CHANNEL_TRANSFER)
        head.sequence = c->n_received;
    return head;
}

static hvd_status_t claim(struct comm *comm, struct connection *c)
{
    struct operation *op = &comm->op;
    const struct schedule_step *step = &op->steps[op->recv_i];
    size_t left = step->recv_nbytes - op->recv_off;
    size_t n = left < op->frame_nbytes ? left : op->frame_nbytes;

    if (c->frame.step != op->recv_i || c->frame.offset != op->recv_off ||
        c->frame.nbytes != n)
        return disagree_bytes(comm, c, n);
    connection_claim(c, step->flags & SCHEDULE_REDUCE
                            ? comm->bounce
                            : op->dst + step->recv_offset + op->recv_off);
    return HVD_OK;
}

hvd_status_t engine_held(struct comm *comm, struct connection *c)
{
    struct operation *op = &comm->op;
    struct frame mine;

    if (!op->active || c->channel != op->channel)
        return HVD_OK;
    /* the peer's next transfer, here before this one has ended */
    if (op->channel == CHANNEL_TRANSFER && !needs_recv(op, c->peer))
        return HVD_OK;
    mine = expected_head(comm, c);
    if (c->frame.sequence != mine.sequence && op->channel == CHANNEL_DATA)
        return other_call(comm, c);
    if (c->frame.sequence != mine.sequence ||
        !frame_same_call(&c->frame, &mine))
        return disagree(comm, c->peer, &c->frame, &mine);
    if (op->apply_pending || op->recv_i == op->n_steps ||
        op->steps[op->recv_i].recv_peer != c->peer)
        return HVD_OK;
    return claim(comm, c);
}

/* What has arrived becomes part of the result. */
static void apply(struct comm *comm, size_t nbytes)
{
    struct operation *op = &comm->op;
    const struct schedule_step *step = &op->steps[op->recv_i];
    uint8_t *dst = op->dst + step->recv_offset + op->recv_off;
    size_t count = nbytes / op->elem_nbytes;

    if (step->flags & SCHEDULE_REDUCE)
        reduce_combine(op->dtype, op->op, dst, comm->bounce, count);
    if ((step->flags & SCHEDULE_DIVIDE) && op->op == HVD_AVERAGE)
        reduce_divide(op->dtype, dst, count, comm->config.size);
    op->apply_pending = false;
    op->recv_off += nbytes;
    if (op->recv_off < step->recv_nbytes)
        return;
    op->recv_off = 0;
    op->recv_i++;
}

hvd_status_t engine_complete(struct comm *comm, struct connection *c)
{
    struct operation *op = &comm->op;
    const struct schedule_step *step = &op->steps[op->recv_i];
    const uint8_t *place;

    if (op->channel == CHANNEL_TRANSFER) {
        place = op->dst + step->recv_offset + op->recv_off;
        if (XXH3_64bits(place, c->frame.nbytes) != c->frame.value) {
            comm_accuse(comm, c->peer);
            return comm_fail(comm, HVD_PEER_LOST,
                             "state from rank %d arrived corrupt (%u bytes at "
                             "offset %zu)",
                             c->peer, c->frame.nbytes, op->recv_off);
        }
    }
    if ((step->flags & SCHEDULE_SENT_FIRST) && op->send_i <= op->recv_i) {
        op->apply_pending = true;
        return HVD_OK;
    }
    apply(comm, c->frame.nbytes);
    return HVD_OK;
}

/* --- sending --- */

/* May the next n bytes of this step go? */
static bool may_send(const struct operation *op,
                     const struct schedule_step *step, size_t n)
{
    size_t after;

    if (step->send_after == SCHEDULE_FREE)
        return true;
    after = (size_t)step->send_after;
    if (op->recv_i != after)
        return op->recv_i > after;
    return n > 0 && op->send_off + n <= op->recv_off &&
           step->send_offset == op->steps[after].recv_offset &&
           step->send_nbytes == op->steps[after].recv_nbytes;
}

static void queue_data(struct comm *comm, struct connection *c, size_t n)
{
    struct operation *op = &comm->op;
    const struct schedule_step *step = &op->steps[op->send_i];
    const uint8_t *data = op->src + step->send_offset + op->send_off;
    struct frame f = op->head;
    bool queued;

    f.type = FRAME_DATA;
    f.step = (uint32_t)op->send_i;
    f.offset = op->send_off;
    f.nbytes = (uint32_t)n;
    if (op->sendcounts != NULL)
        f.count = op->sendcounts[c->peer];
    if (op->channel == CHANNEL_TRANSFER) {
        f.sequence = c->n_sent;
        f.value = XXH3_64bits(data, n);
    }
    queued = connection_queue(c, &f, data);
    HVD_ASSERT(queued);
    op->send_off += n;
    op->send_begun = true;
}

static void next_send(struct operation *op)
{
    op->send_i++;
    op->send_off = 0;
    op->send_begun = false;
}

static hvd_status_t send_due(struct comm *comm, bool *moved_p)
{
    struct operation *op = &comm->op;

    while (op->send_i < op->n_steps) {
        const struct schedule_step *step = &op->steps[op->send_i];
        size_t left = step->send_nbytes - op->send_off;
        size_t n = left < op->frame_nbytes ? left : op->frame_nbytes;
        struct connection *c;

        if (step->send_peer >= 0) {
            c = comm_link(comm, op->channel, step->send_peer);
            if (c == NULL || c->state < CONNECTION_GREETED || c->shut)
                return HVD_OK;
            HVD_TRY(links_flush(comm, c));
            if (!connection_idle(c) || c->shut)
                return HVD_OK;
            if (!op->send_begun || left > 0) {
                if (!may_send(op, step, n))
                    return HVD_OK;
                queue_data(comm, c, n);
                *moved_p = true;
                continue;
            }
        }
        next_send(op);
        *moved_p = true;
    }
    return HVD_OK;
}

static hvd_status_t receive_due(struct comm *comm, bool *moved_p)
{
    struct operation *op = &comm->op;
    struct connection *c;

    while (op->recv_i < op->n_steps && op->steps[op->recv_i].recv_peer < 0) {
        op->recv_i++;
        *moved_p = true;
    }
    if (op->apply_pending && op->send_i > op->recv_i) {
        apply(comm, op->steps[op->recv_i].recv_nbytes);
        *moved_p = true;
        return HVD_OK;
    }
    if (op->apply_pending || op->recv_i == op->n_steps)
        return HVD_OK;
    c = comm_link(comm, op->channel, op->steps[op->recv_i].recv_peer);
    return c == NULL ? HVD_OK : links_read(comm, c, moved_p);
}

/* What needs no waiting; false when nothing is left of it. Bounded, so that an
 * abort is heard in the middle of a large operation. */
static hvd_status_t advance(struct comm *comm, bool *more_p)
{
    *more_p = true;
    for (int i = 0; i < TURNS_MAX && *more_p && !engine_done(&comm->op); i++) {
        *more_p = false;
        HVD_TRY(send_due(comm, more_p));
        HVD_TRY(receive_due(comm, more_p));
    }
    return HVD_OK;
}

/* --- waiting --- */

/* A peer above us that never dialled may wait for us elsewhere, or be gone. */
static hvd_status_t ask_above(struct comm *comm, int peer, bool *dialled_p)
{
    int channel = comm->op.channel;

    if (peer <= comm->config.rank || comm_link(comm, channel, peer) != NULL ||
        comm_link(comm, CHANNEL_ASK, peer) != NULL)
        return HVD_OK;
    *dialled_p = true;
    return links_dial(comm, peer, CHANNEL_ASK);
}

static hvd_status_t announce(struct comm *comm, uint64_t now_us)
{
    struct operation *op = &comm->op;
    struct frame f = op->head;
    bool dialled = false;

    f.type = FRAME_ANNOUNCE;
    if (op->recv_i < op->n_steps)
        HVD_TRY(ask_above(comm, op->steps[op->recv_i].recv_peer, &dialled));
    if (op->send_i < op->n_steps)
        HVD_TRY(ask_above(comm, op->steps[op->send_i].send_peer, &dialled));
    op->announce_us = now_us +
                      (dialled ? ANNOUNCE_FIRST_US : ANNOUNCE_AGAIN_US);
    for (size_t i = 0; i < comm->n_live; i++) {
        struct connection *c = comm->live[i];

        if (op->channel != CHANNEL_DATA || c->channel == CHANNEL_TRANSFER ||
            c->state < CONNECTION_GREETED || c->state == CONNECTION_LEFT ||
            (c->channel == CHANNEL_ASK &&
             comm_link(comm, CHANNEL_DATA, c->peer) != NULL))
            continue;
        if (connection_idle(c) && connection_queue(c, &f, NULL))
            HVD_TRY(links_flush(comm, c));
    }
    return HVD_OK;
}

static uint64_t wait_deadline(const struct comm *comm)
{
    uint64_t a = comm->op.announce_us, b = links_deadline(comm);
    uint64_t c = endpoint_deadline(comm->config.endpoint);

    a = b < a ? b : a;
    return c < a ? c : a;
}

static size_t fill_pfds(struct comm *comm)
{
    size_t n = 0;

    comm->pfds[n++] = (struct pollfd){comm->wake_fd, POLLIN, 0};
    for (size_t i = 0; i < comm->n_live; i++) {
        const struct connection *c = comm->live[i];
        int fd = c->ended ? -1 : c->fd;

        comm->pfds[n++] = (struct pollfd){fd, links_events(c), 0};
    }
    return n + endpoint_fds_fill(comm->config.endpoint, comm->pfds + n);
}

static hvd_status_t after_poll(struct comm *comm, size_t n_pfds, size_t n_links,
                               uint64_t deadline_us)
{
    bool endpoint_ready = false;
    uint64_t now_us;

    for (size_t i = 0; i < n_links; i++)
        if (comm->pfds[1 + i].revents != 0 && !engine_done(&comm->op))
            HVD_TRY(
                links_ready(comm, comm->live[i], comm->pfds[1 + i].revents));
    for (size_t i = 1 + n_links; i < n_pfds; i++)
        endpoint_ready |= comm->pfds[i].revents != 0;
    if (endpoint_ready)
        endpoint_drive(comm->config.endpoint);
    now_us = clock_now_us();
    if (now_us < deadline_us)
        return HVD_OK;
    endpoint_drive(comm->config.endpoint);
    HVD_TRY(links_retry_due(comm, now_us));
    return now_us >= comm->op.announce_us ? announce(comm, now_us) : HVD_OK;
}

/* `more`: only look, there is work to do. */
static hvd_status_t wait_events(struct comm *comm, bool more)
{
    size_t n_links = comm->n_live, n_pfds;
    uint64_t deadline_us = wait_deadline(comm);
    int timeout_ms = more ? 0 : clock_poll_ms(clock_now_us(), deadline_us);
    size_t need = 1 + n_links + endpoint_fds_count(comm->config.endpoint);

    if (!array_reserve(&comm->pfds, &comm->pfds_max, need))
        return comm_fail(comm, HVD_ERR_NOMEM, "poll set");
    n_pfds = fill_pfds(comm);
    if (poll(comm->pfds, n_pfds, timeout_ms) < 0 && errno != EINTR)
        return comm_fail(comm, HVD_ERR_SYSTEM, "poll: %s", strerror(errno));
    if (comm->pfds[0].revents != 0)
        return comm_check(comm);
    return after_poll(comm, n_pfds, n_links, deadline_us);
}

/* --- the operation --- */

/* Connect at once to all peers below that the schedule names, and look at what
 * has been held back for this operation. */
static hvd_status_t prepare(struct comm *comm)
{
    struct operation *op = &comm->op;

    for (size_t i = 0; i < op->n_steps; i++) {
        int to = op->steps[i].send_peer, from = op->steps[i].recv_peer;

        if (to >= 0 && to < comm->config.rank)
            HVD_TRY(links_dial(comm, to, op->channel));
        if (from >= 0 && from < comm->config.rank)
            HVD_TRY(links_dial(comm, from, op->channel));
    }
    for (size_t i = 0; i < comm->n_live; i++) {
        struct connection *c = comm->live[i];

        if (c->state == CONNECTION_LEFT)
            HVD_TRY(engine_left(comm, c));
        else
            HVD_TRY(links_digest(comm, c));
    }
    return HVD_OK;
}

/* A peer on another core answers sooner than poll(2) can sleep and wake; one on
 * this core needs it. So: look again a few times, and let others run between.
 */
static hvd_status_t look_again(struct comm *comm, bool *more_p)
{
    const struct operation *op = &comm->op;
    uint64_t until_us = clock_now_us() + SPIN_US;

    while (clock_now_us() < until_us) {
        size_t before = op->recv_i + op->recv_off + op->send_i + op->send_off;

        HVD_TRY(comm_check(comm));
        sched_yield();
        HVD_TRY(advance(comm, more_p));
        if (*more_p || engine_done(op))
            break;
        if (op->recv_i + op->recv_off + op->send_i + op->send_off != before)
            until_us = clock_now_us() + SPIN_US;
    }
    return HVD_OK;
}

static hvd_status_t drive(struct comm *comm)
{
    bool more;

    HVD_TRY(prepare(comm));
    for (;;) {
        HVD_TRY(advance(comm, &more));
        if (!more && !engine_done(&comm->op))
            HVD_TRY(look_again(comm, &more));
        if (engine_done(&comm->op))
            return HVD_OK;
        HVD_TRY(comm_check(comm));
        HVD_TRY(wait_events(comm, more));
    }
}

hvd_status_t engine_run(struct comm *comm)
{
    hvd_status_t status;

    comm->op.active = true;
    comm->op.announce_us = clock_now_us() + ANNOUNCE_FIRST_US;
    status = drive(comm);
    comm->op.active = false;
    return status == HVD_OK ? HVD_OK : comm_end(comm);
}
