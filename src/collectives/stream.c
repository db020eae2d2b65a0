/* collectives/stream.c - a phase whose bytes travel on connections: two cursors
 * over the steps of its schedule.
 *
 * Each turn does what can be done without waiting: the send that is due, the
 * read that is needed.
 *
 * Threads: whoever drives the comm. Memory: none of its own. */
#include <sched.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "collectives/call.h"
#include "collectives/comm_impl.h"
#include "collectives/reduce/reduce.h"
#include "collectives/stripes.h"

enum {
    TURNS_MAX = 64,
    SPIN_US = 50 /* a few round trips over loopback */
};

static bool stream_done(const struct comm *comm)
{
    const struct stream *st = &comm->op.stream;

    return st->send_i == st->n_steps && st->recv_i == st->n_steps;
}

static bool needs_send(const struct comm *comm, int peer)
{
    const struct stream *st = &comm->op.stream;
    const struct connection *c = comm_link(comm, st->channel, peer);

    for (size_t i = st->send_i; i < st->n_steps; i++) {
        bool gone = i == st->send_i && st->send_begun &&
                    st->send_off == st->steps[i].send_nbytes && c != NULL &&
                    stripes_idle(comm, c);

        if (st->steps[i].send_peer == peer && !gone)
            return true;
    }
    return false;
}

/* The next frame of a step of which `off` bytes are done. */
static size_t frame_of(const struct stream *st, size_t nbytes, size_t off)
{
    return nbytes - off < st->frame_nbytes ? nbytes - off : st->frame_nbytes;
}

static size_t due_frame(const struct stream *st)
{
    return frame_of(st, st->steps[st->recv_i].recv_nbytes, st->recv_off);
}

static bool needs_recv(const struct stream *st, int peer)
{
    size_t first = st->recv_i;

    /* what waits in the bounce buffer has arrived */
    if (st->apply_pending &&
        st->recv_off + due_frame(st) == st->steps[first].recv_nbytes)
        first++;

    for (size_t i = first; i < st->n_steps; i++)
        if (st->steps[i].recv_peer == peer)
            return true;
    return false;
}

static bool stream_needs(const struct comm *comm, int peer)
{
    return needs_recv(&comm->op.stream, peer) || needs_send(comm, peer);
}

static bool stream_will_need(const struct comm *comm, const struct phase *phase,
                             int peer, unsigned n)
{
    (void)comm, (void)n;
    HVD_ASSERT(phase->steps != NULL);
    for (size_t i = 0; i < phase->n_steps; i++)
        if (phase->steps[i].send_peer == peer ||
            phase->steps[i].recv_peer == peer)
            return true;
    return false;
}

/* Those that the next receive and the next send are about. */
static void stream_waits(const struct comm *comm, int peers[2])
{
    const struct stream *st = &comm->op.stream;

    peers[0] = peers[1] = -1;
    if (st->recv_i < st->n_steps)
        peers[0] = st->steps[st->recv_i].recv_peer;
    if (st->send_i < st->n_steps)
        peers[1] = st->steps[st->send_i].send_peer;
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
                     comm->config.rank, expected, comm->op.stream.recv_off,
                     comm->op.stream.recv_i);
}

static struct frame expected_head(const struct comm *comm,
                                  const struct connection *c)
{
    struct frame head = comm->op.head;

    if (comm->op.stream.recvcounts != NULL)
        head.count = comm->op.stream.recvcounts[c->peer];
    if (comm->op.stream.channel == CHANNEL_TRANSFER)
        head.sequence = c->n_received;
    return head;
}

static hvd_status_t claim(struct comm *comm, struct connection *c)
{
    const struct stream *st = &comm->op.stream;
    const struct schedule_step *step = &st->steps[st->recv_i];
    size_t n = due_frame(st);

    if (c->frame.step != st->recv_i || c->frame.offset != st->recv_off ||
        c->frame.nbytes != n)
        return disagree_bytes(comm, c, n);
    operation_arrived(&comm->op);
    return stripes_claim(comm, c,
                         step->flags & SCHEDULE_REDUCE
                             ? comm->bounce
                             : st->dst + step->recv_offset + st->recv_off);
}

/* The phases before the stream's still go on: what does not fit is said now.
 */
static hvd_status_t look_ahead(struct comm *comm, const struct connection *c)
{
    const struct operation *op = &comm->op;

    if (c->channel != CHANNEL_DATA || op->n_phases == 1)
        return HVD_OK;
    if (c->frame.sequence != op->head.sequence)
        return engine_other_call(comm, c);
    if (!frame_same_call(&c->frame, &op->head))
        return engine_disagree(comm, c->peer, &c->frame, &op->head);
    return engine_same_algorithm(comm, c);
}

hvd_status_t stream_held(struct comm *comm, struct connection *c)
{
    const struct operation *op = &comm->op;
    const struct stream *st = &op->stream;
    struct frame mine;

    if (!op->active)
        return HVD_OK;
    if (engine_ops(comm) != &stream_phase)
        return look_ahead(comm, c);
    if (c->channel != st->channel)
        return HVD_OK;
    /* the peer's next transfer, here before this one has ended */
    if (st->channel == CHANNEL_TRANSFER && !needs_recv(st, c->peer))
        return HVD_OK;
    mine = expected_head(comm, c);
    if (c->frame.sequence != mine.sequence && st->channel == CHANNEL_DATA)
        return engine_other_call(comm, c);
    if (c->frame.sequence != mine.sequence ||
        !frame_same_call(&c->frame, &mine))
        return engine_disagree(comm, c->peer, &c->frame, &mine);
    HVD_TRY(engine_same_algorithm(comm, c));
    if (st->apply_pending || st->recv_i == st->n_steps ||
        st->steps[st->recv_i].recv_peer != c->peer)
        return HVD_OK;
    return claim(comm, c);
}

/* SENT_FIRST: has the kernel what this rank sends of the region that the due
 * frame changes? */
static bool given_away(const struct comm *comm)
{
    const struct stream *st = &comm->op.stream;
    const struct connection *c;

    if (st->send_i != st->recv_i)
        return st->send_i > st->recv_i;
    c = comm_link(comm, st->channel, st->steps[st->send_i].send_peer);
    return c != NULL && st->send_begun &&
           st->send_off - stripes_unsent(comm, c) >=
               st->recv_off + due_frame(st);
}

/* What has arrived becomes part of the result. */
static void apply(struct comm *comm, size_t nbytes)
{
    struct operation *op = &comm->op;
    struct stream *st = &op->stream;
    const struct schedule_step *step = &st->steps[st->recv_i];
    uint8_t *dst = st->dst + step->recv_offset + st->recv_off;
    size_t count = nbytes / op->elem_nbytes;

    if (step->flags & SCHEDULE_REDUCE)
        reduce_combine(op->dtype, op->op, dst, comm->bounce, count);
    if ((step->flags & SCHEDULE_DIVIDE) && op->op == HVD_AVERAGE)
        reduce_divide(op->dtype, dst, count, comm->config.size);
    comm_move_on(comm);
    st->apply_pending = false;
    st->recv_off += nbytes;
    if (st->recv_off < step->recv_nbytes)
        return;
    st->recv_off = 0;
    st->recv_i++;
}

hvd_status_t stream_complete(struct comm *comm, struct connection *c)
{
    struct stream *st = &comm->op.stream;
    const struct schedule_step *step = &st->steps[st->recv_i];

    if ((step->flags & SCHEDULE_SENT_FIRST) && !given_away(comm)) {
        st->apply_pending = true;
        return HVD_OK;
    }
    apply(comm, c->frame.nbytes);
    return HVD_OK;
}

/* --- sending --- */

/* May the next n bytes of this step go? */
static bool may_send(const struct stream *st, const struct schedule_step *step,
                     size_t n)
{
    size_t after;

    if (step->send_after == SCHEDULE_FREE)
        return true;
    after = (size_t)step->send_after;
    if (st->recv_i != after)
        return st->recv_i > after;
    return n > 0 && st->send_off + n <= st->recv_off &&
           step->send_offset == st->steps[after].recv_offset &&
           step->send_nbytes == st->steps[after].recv_nbytes;
}

static hvd_status_t queue_data(struct comm *comm, struct connection *c,
                               size_t n)
{
    struct stream *st = &comm->op.stream;
    const struct schedule_step *step = &st->steps[st->send_i];
    const uint8_t *data = st->src + step->send_offset + st->send_off;
    struct frame f = comm->op.head;

    f.type = FRAME_DATA;
    f.step = (uint32_t)st->send_i;
    f.offset = st->send_off;
    f.nbytes = (uint32_t)n;
    if (st->sendcounts != NULL)
        f.count = st->sendcounts[c->peer];
    if (st->channel == CHANNEL_TRANSFER)
        f.sequence = c->n_sent;
    comm_move_on(comm);
    st->send_off += n;
    st->send_begun = true;
    return stripes_queue(comm, c, &f, data);
}

static void next_send(struct stream *st)
{
    st->send_i++;
    st->send_off = 0;
    st->send_begun = false;
}

/* One frame at most: a peer that takes them as fast as they come must not keep
 * this rank from hearing of an abort. */
static hvd_status_t send_due(struct comm *comm, bool *moved_p)
{
    struct stream *st = &comm->op.stream;

    while (st->send_i < st->n_steps) {
        const struct schedule_step *step = &st->steps[st->send_i];
        size_t n = frame_of(st, step->send_nbytes, st->send_off);
        struct connection *c;

        if (step->send_peer >= 0) {
            c = comm_link(comm, st->channel, step->send_peer);
            if (c == NULL || c->state < CONNECTION_GREETED || c->shut)
                return HVD_OK;
            HVD_TRY(stripes_flush(comm, c));
            if (!stripes_idle(comm, c) || c->shut)
                return HVD_OK;
            if (!st->send_begun || n > 0) {
                if (!may_send(st, step, n))
                    return HVD_OK;
                HVD_TRY(queue_data(comm, c, n));
                *moved_p = true;
                return stripes_flush(comm, c);
            }
        }
        next_send(st);
        *moved_p = true;
    }
    return HVD_OK;
}

static hvd_status_t receive_due(struct comm *comm, bool *moved_p)
{
    struct stream *st = &comm->op.stream;
    struct connection *c;

    while (st->recv_i < st->n_steps && st->steps[st->recv_i].recv_peer < 0) {
        st->recv_i++;
        *moved_p = true;
    }
    if (st->apply_pending && given_away(comm)) {
        apply(comm, due_frame(st));
        *moved_p = true;
        return HVD_OK;
    }
    if (st->apply_pending || st->recv_i == st->n_steps)
        return HVD_OK;
    c = comm_link(comm, st->channel, st->steps[st->recv_i].recv_peer);
    if (c == NULL)
        return HVD_OK;
    HVD_TRY(links_read(comm, c, moved_p));
    return stripes_read(comm, c, moved_p);
}

/* Bounded, so that others are heard in the middle of a large operation. An
 * abort is heard at each turn: they are slow where ranks share cores. */
static hvd_status_t stream_advance(struct comm *comm, bool *more_p)
{
    *more_p = true;
    for (int i = 0; i < TURNS_MAX && *more_p && !stream_done(comm); i++) {
        *more_p = false;
        HVD_TRY(comm_check(comm));
        HVD_TRY(send_due(comm, more_p));
        HVD_TRY(receive_due(comm, more_p));
    }
    return HVD_OK;
}

static size_t position(const struct stream *st)
{
    return st->recv_i + st->recv_off + st->send_i + st->send_off;
}

/* A peer on another core answers sooner than poll(2) can sleep and wake; one on
 * this core needs it. So: look again a few times, and let others run between.
 */
static hvd_status_t stream_look_again(struct comm *comm, bool *more_p)
{
    const struct stream *st = &comm->op.stream;
    uint64_t until_us = clock_now_us() + SPIN_US;

    while (clock_now_us() < until_us) {
        size_t before = position(st);

        HVD_TRY(comm_check(comm));
        if (comm_kicked(comm))
            break;
        sched_yield();
        HVD_TRY(stream_advance(comm, more_p));
        if (*more_p || stream_done(comm))
            break;
        if (position(st) != before)
            until_us = clock_now_us() + SPIN_US;
    }
    return HVD_OK;
}

/* --- beginning --- */

static hvd_status_t dial_below(struct comm *comm)
{
    const struct stream *st = &comm->op.stream;

    for (size_t i = 0; i < st->n_steps; i++) {
        int to = st->steps[i].send_peer, from = st->steps[i].recv_peer;

        if (to >= 0 && to < comm->config.rank)
            HVD_TRY(links_dial(comm, to, st->channel));
        if (from >= 0 && from < comm->config.rank)
            HVD_TRY(links_dial(comm, from, st->channel));
    }
    return HVD_OK;
}

static bool sends_before(const struct stream *st, int peer, size_t step)
{
    for (size_t i = 0; i <= step; i++)
        if (st->steps[i].send_peer == peer)
            return true;
    return false;
}

/* Whom a frame of ours reaches hears of the call by that. Not who is waited for
 * before: he is told. */
static hvd_status_t call_others(struct comm *comm)
{
    const struct stream *st = &comm->op.stream;

    for (size_t i = 0; i < st->n_steps; i++) {
        int peer = st->steps[i].recv_peer;
        struct connection *c = peer < 0 ? NULL
                                        : comm_link(comm, st->channel, peer);

        if (c != NULL && !sends_before(st, peer, i))
            HVD_TRY(engine_announce_to(comm, c));
    }
    return HVD_OK;
}

/* Connects at once to all peers below that its steps name. */
static hvd_status_t stream_begin(struct comm *comm, const struct phase *phase)
{
    struct operation *op = &comm->op;
    struct stream *st = &op->stream;
    bool each = phase->shape.kind == COLLECTIVE_ALLTOALLV;
    bool transfer = phase->channel == CHANNEL_TRANSFER;

    *st = (struct stream){
        .channel = phase->channel,
        .frame_nbytes = transfer ? FRAME_PAYLOAD_MAX : SCHEDULE_FRAME_NBYTES,
        .sendcounts = each ? phase->shape.sendcounts : NULL,
        .recvcounts = each ? phase->shape.recvcounts : NULL,
        .src = phase->src,
        .dst = phase->dst,
        .steps = phase->steps,
        .n_steps = phase->n_steps,
    };
    if (st->steps == NULL) {
        st->steps = comm->steps;
        st->n_steps = schedule_build(&phase->shape, comm->steps);
    }
    HVD_TRY(dial_below(comm));
    return op->calls ? call_others(comm) : HVD_OK;
}

static const char *stream_algorithm(const struct phase *phase)
{
    return phase->shape.size > 1
               ? algorithm_name(schedule_algorithm(&phase->shape))
               : NULL;
}

const struct phase_ops stream_phase = {
    .begin = stream_begin,
    .advance = stream_advance,
    .done = stream_done,
    .look_again = stream_look_again,
    .needs = stream_needs,
    .will_need = stream_will_need,
    .waits = stream_waits,
    .uses_links = true,
    .algorithm = stream_algorithm,
};
