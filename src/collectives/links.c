/* collectives/links.c - the connections of a comm: how they come to be, what is
 * read from them, how they end. What a frame of data means is engine.c's.
 *
 * Threads: whoever drives the comm. Memory: connections live until
 * comm_destroy(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mac.h"
#include "base/stall.h"
#include "base/text.h"
#include "collectives/comm_impl.h"
#include "collectives/encryption.h"
#include "collectives/net/addresses.h"
#include "collectives/stripes.h"

enum {
    RETRY_FIRST_US = 1000,
    RETRY_MAX_US = 50000,
    STRIPE_RETRIES_MAX = 20, /* a second */
    WHERE_MAX = 160
};

static struct connection *add_link(struct comm *comm, int peer, int channel)
{
    struct connection *c = connection_create(peer, channel);

    if (c == NULL)
        return NULL;
    comm->links[channel * comm->config.size + peer] = c;
    comm->live[comm->n_live++] = c;
    return c;
}

/* The one added last. */
static void drop_link(struct comm *comm, struct connection *c)
{
    HVD_ASSERT(comm->live[comm->n_live - 1] == c);
    comm->links[c->channel * comm->config.size + c->peer] = NULL;
    comm->n_live--;
    connection_destroy(c);
}

bool links_near(const struct comm *comm, int peer)
{
    return comm->peers[peer].host == comm->peers[comm->config.rank].host;
}

static int rank_of(const struct comm *comm, uint64_t worker)
{
    for (int i = 0; i < comm->config.size; i++)
        if (comm->peers[i].worker == worker)
            return i;
    return -1;
}

static bool is_expected(const struct comm *comm, int peer, int channel)
{
    int rank = comm->config.rank;
    bool from_above = channel != CHANNEL_ASK;

    return peer >= 0 && peer != rank && (peer > rank) == from_above &&
           comm_link(comm, channel, peer) == NULL &&
           (channel != CHANNEL_LOCAL ||
            comm->peers[peer].host == comm->peers[rank].host) &&
           (channel < CHANNEL_STRIPE ||
            (channel - CHANNEL_STRIPE + 1 < comm->config.tcp_connections &&
             comm_link(comm, CHANNEL_DATA, peer) != NULL));
}

/* Ranks of a host must use the same way between them. One that does not is
 * answered all the same: the reason is told to it as the comm ends. */
static void compare_transports(struct comm *comm, int peer, int channel)
{
    int rank = comm->config.rank;
    bool theirs = channel == CHANNEL_LOCAL;
    bool both = comm->local != NULL && !comm_shares_all(comm);

    if ((channel != CHANNEL_LOCAL && channel != CHANNEL_DATA) ||
        comm->peers[peer].host != comm->peers[rank].host ||
        theirs == comm->uses_local || (both && !theirs))
        return;
    (void)comm_fail(comm, HVD_ERR_MISMATCH,
                    "rank %d uses %s, rank %d uses %s: they were told "
                    "different abilities of their host",
                    peer, theirs ? "shm" : "tcp", rank, theirs ? "tcp" : "shm");
}

/* fds [n_fds] are taken on success. */
static bool take_local(struct comm *comm, struct connection *c, int fd,
                       const uint8_t *reply, const int *fds, size_t n_fds)
{
    bool shares = comm->uses_local;
    int own[UNIX_FDS_MAX];
    size_t n_own;
    hvd_status_t status;

    HVD_ASSERT(!shares || comm->local_ops != NULL);
    n_own = shares ? comm->local_ops->fds(comm, own) : 0;
    if (shares && n_fds != n_own) {
        log_debug("rank %d hands over %zu descriptors instead of %zu -> closed",
                  c->peer, n_fds, n_own);
        return false;
    }
    if (!connection_take_local(c, fd, reply, own, n_own)) {
        log_debug("reply to rank %d: %s -> closed", c->peer, strerror(errno));
        return false;
    }
    if (!shares) { /* all that follows is a goodbye */
        unix_socket_fds_close(fds, &n_fds);
        return true;
    }
    status = comm->local_ops->map(comm, c->peer, fds, n_fds);
    if (status != HVD_OK)
        (void)comm_fail(comm, status, "%s", error_text());
    return true;
}

bool links_take(void *arg, int fd, const struct handshake *hello,
                const int *fds, size_t n_fds)
{
    struct comm *comm = arg;
    int peer = rank_of(comm, hello->worker);
    uint8_t reply[HANDSHAKE_NBYTES];
    struct connection *c;
    bool taken;

    if (!is_expected(comm, peer, hello->channel) ||
        !encryption_can_read(hello)) {
        log_debug("connection of worker %llu: not expected -> closed",
                  (unsigned long long)hello->worker);
        return false;
    }
    compare_transports(comm, peer, hello->channel);
    c = add_link(comm, peer, hello->channel);
    if (c == NULL)
        return false;
    if (hello->channel == CHANNEL_LOCAL) {
        (void)handshake_reply(hello, false, comm->config.key, reply);
        taken = take_local(comm, c, fd, reply, fds, n_fds);
    } else {
        taken = encryption_take(comm, c, fd, hello);
    }
    if (!taken)
        drop_link(comm, c);
    if (!taken || hello->channel == CHANNEL_LOCAL)
        return taken;
    if (links_near(comm, peer))
        connection_near_options(fd);
    else
        connection_far_options(fd, comm->config.silence_us, false,
                               comm->config.congestion);
    /* a failure shows again at the next read */
    (void)connection_flush(c);
    return true;
}

/* A hello or a reply of the peer's own, on any connection. */
static bool has_answered(const struct comm *comm, int peer)
{
    for (size_t i = 0; i < comm->n_live; i++)
        if (comm->live[i]->peer == peer &&
            comm->live[i]->reading != READING_REPLY)
            return true;
    return false;
}

static hvd_status_t lose(struct comm *comm, struct connection *c, bool proven,
                         const char *how)
{
    const struct comm_peer *peer = &comm->peers[c->peer];
    char where[WHERE_MAX];
    struct text t = text_into(where, sizeof(where));

    addresses_text(&t, peer->addresses, peer->port);
    comm_accuse(comm, c->peer, proven);
    return comm_fail(comm, HVD_PEER_LOST,
                     "rank %d (worker %llu, %s) is lost to rank %d: %s",
                     c->peer, (unsigned long long)peer->worker, where,
                     comm->config.rank, how);
}

hvd_status_t links_lost(struct comm *comm, struct connection *c,
                        const char *how)
{
    return lose(comm, c, has_answered(comm, c->peer), how);
}

/* Descriptors could not be passed. Only a flood is the peer's fault. */
static hvd_status_t fds_failed(struct comm *comm, struct connection *c)
{
    if (c->fds_errno == EPROTO)
        return links_lost(comm, c,
                          "its handshake carries too many descriptors");
    if (c->fds_errno == EPERM)
        return comm_fail(comm, HVD_ERR_SYSTEM,
                         "rank %d is of another user than rank %d, or a "
                         "sandbox is between them: they cannot share memory "
                         "(HVD_TRANSPORT=tcp does without)",
                         c->peer, comm->config.rank);
    return comm_fail(comm, HVD_ERR_SYSTEM,
                     "rank %d, descriptors %s rank %d: %s", comm->config.rank,
                     c->fds_errno == ETOOMANYREFS ? "for" : "from", c->peer,
                     strerror(c->fds_errno));
}

static void go_without(struct comm *comm, struct connection *c)
{
    log_debug("rank %d: no further connection to rank %d -> fewer serve",
              comm->config.rank, c->peer);
    c->retry_us = CLOCK_NEVER;
    stripes_end(comm, c);
}

static hvd_status_t never_accepted(struct comm *comm, struct connection *c)
{
    double seconds = (double)comm->config.connect_timeout_us * 1e-6;
    char how[64];

    snprintf(how, sizeof(how), "it accepts no connection for %.3g s", seconds);
    return lose(comm, c, true, how);
}

static hvd_status_t retry_later(struct comm *comm, struct connection *c)
{
    uint64_t now_us = clock_now_us();
    unsigned doublings = c->n_retries < 6 ? c->n_retries : 6;
    uint64_t pause_us = (uint64_t)RETRY_FIRST_US << doublings;

    attempt_fail(comm, c, now_us);
    if (connection_is_stripe(c) && c->n_retries >= STRIPE_RETRIES_MAX) {
        go_without(comm, c);
        return HVD_OK;
    }
    if (now_us >= c->dial_deadline_us && c->fds_errno != 0)
        return fds_failed(comm, c);
    if (now_us >= c->dial_deadline_us)
        return never_accepted(comm, c);
    c->retry_us = now_us;
    if (attempt_again(comm, c))
        return HVD_OK;
    c->n_retries++;
    c->retry_us += pause_us < RETRY_MAX_US ? pause_us : RETRY_MAX_US;
    return HVD_OK;
}

hvd_status_t links_silent(struct comm *comm, struct connection *c,
                          const char *what, uint64_t silent_us)
{
    char how[64];

    if (c->dialled)
        attempt_avoid(comm, c, clock_now_us());
    if (c->state == CONNECTION_GREETED && !c->data_sent)
        return retry_later(comm, c);
    snprintf(how, sizeof(how), "%s for %.1f s", what, (double)silent_us * 1e-6);
    return links_lost(comm, c, how);
}

static enum io dial(struct comm *comm, struct connection *c,
                    const uint8_t *hello, hvd_status_t *status_p)
{
    const struct comm_peer *peer = &comm->peers[c->peer];
    struct unix_name name = {comm->config.job, peer->worker, peer->port};
    int fds[UNIX_FDS_MAX];
    size_t n_fds;

    if (c->channel != CHANNEL_LOCAL)
        return attempt_dial(comm, c, hello, status_p);
    HVD_ASSERT(comm->local_ops != NULL);
    n_fds = comm->local_ops->fds(comm, fds);
    return connection_dial_local(c, &name, hello, fds, n_fds, status_p);
}

static hvd_status_t dial_once(struct comm *comm, struct connection *c)
{
    struct handshake hello = {
        .role = HANDSHAKE_HELLO,
        .channel = (uint8_t)c->channel,
        .flags = encryption_flags(comm, c->peer, c->channel),
        .job = comm->config.job,
        .generation = comm->config.generation,
        .worker = endpoint_worker(comm->config.endpoint),
        .peer = comm->peers[c->peer].worker,
        .set = comm->config.set,
    };
    uint8_t bytes[HANDSHAKE_NBYTES];
    hvd_status_t status;
    enum io io;

    mac_random(c->nonce, sizeof(c->nonce));
    memcpy(hello.nonce, c->nonce, sizeof(hello.nonce));
    handshake_encode(&hello, endpoint_job_key(comm->config.endpoint),
                     comm->config.key, bytes);
    io = dial(comm, c, bytes, &status);
    if (io == IO_DONE)
        status = encryption_dialed(comm, c, &hello);
    if (status != HVD_OK && connection_is_stripe(c)) {
        connection_reset(c); /* descriptors may be scarce */
        go_without(comm, c);
        return HVD_OK;
    }
    if (status != HVD_OK)
        return comm_fail(comm, status, "%s", error_text());
    if (io == IO_DONE) /* on one host it is connected by now */
        io = connection_flush(c);
    return io == IO_END ? retry_later(comm, c) : HVD_OK;
}

hvd_status_t links_dial(struct comm *comm, int peer, int channel)
{
    struct connection *c = comm_link(comm, channel, peer);

    if (c != NULL)
        return HVD_OK;
    c = add_link(comm, peer, channel);
    if (c == NULL)
        return comm_fail(comm, HVD_ERR_NOMEM, "connection to rank %d", peer);
    c->dial_deadline_us = clock_now_us() + comm->config.connect_timeout_us;
    if (connection_is_stripe(c)) /* no call waits for it, nobody looks at it */
        c->dial_deadline_us = CLOCK_NEVER;
    c->attempt_deadline_us = CLOCK_NEVER;
    return dial_once(comm, c);
}

static hvd_status_t aborted_by(struct comm *comm, const struct frame *f,
                               const uint8_t *bytes)
{
    hvd_status_t reason = (int64_t)f->count == HVD_ERR_MISMATCH
                              ? HVD_ERR_MISMATCH
                              : HVD_PEER_LOST;
    char text[FRAME_TEXT_MAX + 1];

    memcpy(text, bytes, f->nbytes);
    text[f->nbytes] = '\0';
    return comm_fail(comm, reason, "%s", text);
}

/* The peer has said its last word. Look through what is still unread for the
 * goodbye: an ABORT counts now, a LEAVE when its turn comes. */
static hvd_status_t ended(struct comm *comm, struct connection *c)
{
    size_t off = c->in_off;
    struct frame f;

    if (c->state == CONNECTION_LEFT) {
        connection_close(c); /* the peer waits for our end */
        return HVD_OK;
    }
    if (connection_is_forged(c))
        return links_lost(comm, c, "its data is not authentic");
    if (c->reading == READING_SHARE) {
        stripes_end(comm, c);
        return HVD_OK;
    }
    if (c->reading == READING_REPLY && c->fds_errno != 0)
        return fds_failed(comm, c);
    if (c->reading == READING_REPLY && !c->data_sent)
        return retry_later(comm, c);
    if (c->reading == READING_REPLY)
        return links_lost(comm, c, "it closed the connection unanswered");
    off += c->reading == READING_HELD ? frame_inline(&c->frame) : c->dest_n;
    while (off + FRAME_HEADER_NBYTES <= c->in_n) {
        if (!frame_decode(c->in + off, &f))
            break;
        off += FRAME_HEADER_NBYTES;
        if (f.type == FRAME_LEAVE)
            return HVD_OK;
        if (f.type == FRAME_ABORT && off + f.nbytes <= c->in_n)
            return aborted_by(comm, &f, c->in + off);
        off += frame_inline(&f);
    }
    return links_lost(comm, c, "its connection ended without a goodbye");
}

/* The reply of a CHANNEL_LOCAL is accepted. Without descriptors it comes from
 * somebody who has no memory to share any more: the connection does not become
 * OPEN, and a goodbye must follow. */
static hvd_status_t take_memory(struct comm *comm, struct connection *c)
{
    int fds[UNIX_FDS_MAX];
    size_t n_own = comm->local_ops->fds(comm, fds);
    size_t n = connection_fds_take(c, fds);
    hvd_status_t status;

    if (n == n_own) {
        connection_move(c, CONNECTION_OPEN);
        status = comm->local_ops->map(comm, c->peer, fds, n);
        return status == HVD_OK ? HVD_OK
                                : comm_fail(comm, status, "%s", error_text());
    }
    if (n == 0)
        return HVD_OK;
    unix_socket_fds_close(fds, &n);
    return links_lost(comm, c, "its handshake carries the wrong descriptors");
}

static hvd_status_t read_reply(struct comm *comm, struct connection *c,
                               bool *more_p)
{
    const uint8_t *bytes = connection_peek(c);
    struct handshake reply;

    *more_p = connection_buffered(c) >= HANDSHAKE_NBYTES;
    if (!*more_p)
        return HVD_OK;
    if (!handshake_decode(bytes, &reply) ||
        !handshake_verify(bytes, comm->config.key) ||
        reply.role != HANDSHAKE_REPLY || reply.channel != c->channel ||
        reply.job != comm->config.job ||
        reply.generation != comm->config.generation ||
        reply.set != comm->config.set ||
        reply.worker != comm->peers[c->peer].worker ||
        memcmp(reply.in_reply, c->nonce, sizeof(c->nonce)) != 0)
        return links_lost(comm, c, "its handshake is not authentic");
    c->in_off += HANDSHAKE_NBYTES;
    connection_read_first(c);
    if (c->channel == CHANNEL_LOCAL)
        return take_memory(comm, c);
    connection_move(c, CONNECTION_OPEN);
    if (!links_near(comm, c->peer))
        connection_far_options(c->fd, comm->config.silence_us, false,
                               comm->config.congestion);
    endpoint_reached(comm->config.endpoint, comm->peers[c->peer].worker,
                     c->address_i);
    return encryption_answered(comm, c, &reply);
}

static hvd_status_t read_header(struct comm *comm, struct connection *c,
                                bool *more_p)
{
    size_t n = connection_buffered(c);
    const uint8_t *bytes = connection_peek(c);

    *more_p = n >= FRAME_HEADER_NBYTES;
    if (!*more_p)
        return HVD_OK;
    if (!frame_decode(bytes, &c->frame) ||
        (c->frame.shares > 1 && c->channel != CHANNEL_DATA))
        return links_lost(comm, c, "it sent a malformed frame");
    if (c->frame.type == FRAME_ABORT) {
        *more_p = n >= FRAME_HEADER_NBYTES + c->frame.nbytes;
        if (!*more_p)
            return HVD_OK;
        return aborted_by(comm, &c->frame, bytes + FRAME_HEADER_NBYTES);
    }
    if (c->state < CONNECTION_OPEN && c->frame.type != FRAME_LEAVE)
        return links_lost(comm, c, "its handshake carries no descriptors");
    c->in_off += FRAME_HEADER_NBYTES;
    switch (c->frame.type) {
    case FRAME_ANNOUNCE:
        return engine_announced(comm, c);
    case FRAME_ALIVE: /* its arrival was the answer, by the kernel */
        return HVD_OK;
    case FRAME_LEAVE:
        connection_move(c, CONNECTION_LEFT);
        c->leave_kind = c->frame.kind;
        c->leave_boundary = c->frame.value;
        c->leave_channels = c->frame.count;
        return engine_left(comm, c);
    default:
        connection_read_on(c, READING_HELD);
        return HVD_OK;
    }
}

/* Nothing of it is to be looked at now. */
static bool is_through(const struct comm *comm, const struct connection *c)
{
    return c->state == CONNECTION_LEFT || engine_done(comm);
}

static hvd_status_t digest(struct comm *comm, struct connection *c)
{
    bool more = true;

    while (more && !is_through(comm, c))
        switch (c->reading) {
        case READING_REPLY:
            HVD_TRY(read_reply(comm, c, &more));
            break;
        case READING_HEADER:
            HVD_TRY(read_header(comm, c, &more));
            break;
        case READING_HELD:
            HVD_TRY(stream_held(comm, c));
            more = c->reading != READING_HELD;
            break;
        case READING_PAYLOAD:
            more = c->dest_n == 0 && stripes_complete(comm, c);
            if (!more)
                break;
            connection_read_on(c, READING_HEADER);
            HVD_TRY(stream_complete(comm, c));
            break;
        case READING_SHARE:
            return stripes_digest(comm, c);
        }
    return HVD_OK;
}

static bool holds_back(const struct connection *c)
{
    return c->reading == READING_HELD && c->state == CONNECTION_OPEN;
}

hvd_status_t links_digest(struct comm *comm, struct connection *c)
{
    HVD_TRY(digest(comm, c));
    while (c->sealed != NULL && !is_through(comm, c) && !holds_back(c) &&
           connection_pull(c))
        HVD_TRY(digest(comm, c));
    if (c->state == CONNECTION_LEFT)
        connection_skip(c);
    else if (connection_is_forged(c))
        return links_lost(comm, c, "its data is not authentic");
    return HVD_OK;
}

hvd_status_t links_read(struct comm *comm, struct connection *c, bool *moved_p)
{
    size_t before = connection_buffered(c);
    enum connection_reading reading = c->reading;
    uint64_t taken = connection_taken(c);

    if (c->fd < 0 || c->state < CONNECTION_GREETED)
        return HVD_OK;
    /* a frame that was held back may have its turn now */
    HVD_TRY(links_digest(comm, c));
    if (connection_buffered(c) != before || c->reading != reading ||
        connection_taken(c) != taken) {
        *moved_p = true;
        return HVD_OK;
    }
    if (c->ended || stripes_silent(c) || holds_back(c))
        return HVD_OK;
    switch (connection_fill(c)) {
    case IO_AGAIN:
        return HVD_OK;
    case IO_DONE:
        *moved_p = true;
        return links_digest(comm, c);
    case IO_END:
        break;
    }
    return ended(comm, c);
}

hvd_status_t links_flush(struct comm *comm, struct connection *c)
{
    if (connection_flush(c) != IO_END)
        return HVD_OK;
    /* what it said last may still be unread: let the reading side judge */
    stripes_shut(comm, c);
    c->shut = true;
    connection_drop(c);
    return HVD_OK;
}

short links_events(const struct connection *c)
{
    short events = connection_idle(c) ? 0 : POLLOUT;

    if (c->state == CONNECTION_DIALING)
        return POLLOUT;
    if (holds_back(c))
        return (short)(events | POLLRDHUP);
    return stripes_silent(c) ? events : (short)(events | POLLIN);
}

/* Nothing is read from a connection that holds a frame of a later operation,
 * until its peer is gone: then there may be a goodbye behind it. */
static hvd_status_t absorb(struct comm *comm, struct connection *c)
{
    if (!connection_absorb(c))
        return links_lost(comm, c, "its last frames do not fit into memory");
    return c->ended ? ended(comm, c) : HVD_OK;
}

hvd_status_t links_ready(struct comm *comm, struct connection *c, short revents)
{
    bool moved;

    if (c->state == CONNECTION_DIALING) {
        if (connection_dialed(c) == IO_END)
            return retry_later(comm, c);
        return links_flush(comm, c);
    }
    if (revents & POLLOUT)
        HVD_TRY(links_flush(comm, c));
    if (!(revents & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)))
        return HVD_OK;
    if (holds_back(c))
        return absorb(comm, c);
    if (revents & (POLLHUP | POLLERR))
        stripes_hung_up(comm, c);
    return links_read(comm, c, &moved);
}

/* Whoever was away looks once more before it gives up: what has come meanwhile
 * has yet to be read. */
static hvd_status_t dial_due(struct comm *comm, struct connection *c,
                             uint64_t now_us)
{
    uint64_t late_us;

    if (c->state == CONNECTION_RETRY && now_us >= c->retry_us) {
        attempt_put_off(c, stall_of(c->retry_us, now_us));
        return dial_once(comm, c);
    }
    if (c->state != CONNECTION_DIALING || now_us < attempt_end_us(c))
        return HVD_OK;
    late_us = stall_of(attempt_end_us(c), now_us);
    attempt_put_off(c, late_us);
    return late_us > 0 ? HVD_OK : retry_later(comm, c);
}

hvd_status_t links_retry_due(struct comm *comm, uint64_t now_us)
{
    for (size_t i = 0; i < comm->n_live; i++) {
        struct connection *c = comm->live[i];

        HVD_TRY(dial_due(comm, c, now_us));
        if (c->broken_us != 0 && now_us >= c->broken_us)
            return links_lost(comm, c, "one of its connections broke");
        if (c->judge_us != 0 && now_us >= c->judge_us) {
            c->judge_us = CLOCK_NEVER;
            HVD_TRY(engine_left(comm, c));
        }
    }
    return HVD_OK;
}

uint64_t links_deadline(const struct comm *comm)
{
    uint64_t deadline_us = CLOCK_NEVER;

    for (size_t i = 0; i < comm->n_live; i++) {
        const struct connection *c = comm->live[i];
        uint64_t until_us = CLOCK_NEVER;

        if (c->state == CONNECTION_RETRY)
            until_us = c->retry_us;
        else if (c->state == CONNECTION_DIALING)
            until_us = attempt_end_us(c);
        if (c->broken_us != 0 && c->broken_us < until_us)
            until_us = c->broken_us;
        if (c->judge_us != 0 && c->judge_us < until_us)
            until_us = c->judge_us;
        deadline_us = until_us < deadline_us ? until_us : deadline_us;
    }
    return deadline_us;
}
