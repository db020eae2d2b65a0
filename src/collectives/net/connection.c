/* collectives/net/connection.c - see connection.h. The only waits are the
 * caller's.
 */
#include "collectives/net/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/moves.h"

void connection_move(struct connection *c, enum connection_state to)
{
    static const unsigned moves[] = {
        [CONNECTION_RETRY] = MOVE(CONNECTION_RETRY) | MOVE(CONNECTION_DIALING) |
                             MOVE(CONNECTION_GREETED) | MOVE(CONNECTION_OPEN),
        [CONNECTION_DIALING] = MOVE(CONNECTION_RETRY) |
                               MOVE(CONNECTION_GREETED),
        [CONNECTION_GREETED] = MOVE(CONNECTION_RETRY) | MOVE(CONNECTION_OPEN) |
                               MOVE(CONNECTION_LEFT),
        [CONNECTION_OPEN] = MOVE(CONNECTION_LEFT),
        [CONNECTION_LEFT] = 0,
    };

    HVD_ASSERT(moves_allow(moves, c->state, to));
    c->state = to;
    if (to == CONNECTION_GREETED)
        c->greeted_us = clock_now_us();
}

void connection_read_on(struct connection *c, enum connection_reading to)
{
    static const unsigned moves[] = {
        [READING_REPLY] = MOVE(READING_REPLY) | MOVE(READING_HEADER) |
                          MOVE(READING_SHARE),
        [READING_HEADER] = MOVE(READING_HELD),
        [READING_HELD] = MOVE(READING_PAYLOAD),
        [READING_PAYLOAD] = MOVE(READING_HEADER),
        [READING_SHARE] = 0,
    };

    HVD_ASSERT(moves_allow(moves, c->reading, to));
    c->reading = to;
}

void connection_read_first(struct connection *c)
{
    connection_read_on(c, connection_is_stripe(c) ? READING_SHARE
                                                  : READING_HEADER);
}

struct connection *connection_create(int peer, int channel)
{
    struct connection *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->fd = -1;
    c->peer = peer;
    c->channel = channel;
    c->in = c->in_small;
    c->in_max = sizeof(c->in_small);
    return c;
}

void connection_close(struct connection *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    unix_socket_fds_close(c->fds, &c->n_fds);
}

void connection_destroy(struct connection *c)
{
    if (c == NULL)
        return;
    connection_close(c);
    sealed_destroy(c->sealed);
    if (c->in != c->in_small)
        free(c->in);
    free(c);
}

void connection_socket_options(int fd)
{
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static bool set_control(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name,
                      (socklen_t)strlen(name)) == 0;
}

void connection_near_options(int fd)
{
    /* in every kernel, and allowed unless somebody has taken it away */
    static const char by_losses[] = "reno";
    int queue = CONNECTION_QUEUE_NBYTES;

    (void)set_control(fd, by_losses);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &queue, sizeof(queue));
}

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15; older ones refuse it */
#endif

/* Between two attempts of the kernel; it takes 1 s to 120 s. */
static int longest_pause_ms(uint64_t silence_us)
{
    uint64_t ms = silence_us / 4000;

    if (silence_us == 0 || ms > 120000)
        return 120000;
    return ms < 1000 ? 1000 : (int)ms;
}

bool connection_control_is_there(const char *name)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there;

    if (fd < 0)
        fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    there = fd >= 0 && set_control(fd, name);
    if (fd >= 0)
        close(fd);
    return there;
}

void connection_far_options(int fd, uint64_t silence_us, bool asks,
                            const char *control)
{
    int on = 1, asked = asks, pause_ms = longest_pause_ms(silence_us);
    int second = 1, most = 127; /* a keepalive that gives up at last */

    (void)setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on,
                     sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &pause_ms,
                     sizeof(pause_ms));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof(second));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof(second));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &most, sizeof(most));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &asked, sizeof(asked));
    if (control != NULL)
        (void)set_control(fd, control);
}

enum io connection_dial(struct connection *c, const struct sockaddr_storage *to,
                        bool near, const uint8_t *hello, hvd_status_t *status_p)
{
    HVD_ASSERT(c->fd < 0 && c->state == CONNECTION_RETRY);
    *status_p = HVD_OK;
    c->fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                   0);
    if (c->fd < 0 && errno == EAFNOSUPPORT) /* no IPv6 here */
        return IO_END;
    if (c->fd < 0) {
        *status_p = error_errno("socket for rank %d", c->peer);
        return IO_END;
    }
    connection_socket_options(c->fd);
    if (near)
        connection_near_options(c->fd);
    connection_read_on(c, READING_REPLY);
    memcpy(c->out, hello, HANDSHAKE_NBYTES);
    c->out_n = HANDSHAKE_NBYTES;
    if (connect(c->fd, (const struct sockaddr *)to, address_len(to)) == 0)
        connection_move(c, CONNECTION_GREETED);
    else if (errno == EINPROGRESS || errno == EINTR)
        connection_move(c, CONNECTION_DIALING);
    else
        return IO_END;
    return IO_DONE;
}

/* Nobody listens, or he is busy, or too much is under way: that may change. */
static hvd_status_t dial_local_failed(struct connection *c)
{
    if (errno == ENOMEM || errno == EBADF)
        return error_errno("hello to rank %d", c->peer);
    if (errno == ETOOMANYREFS || errno == EPERM)
        c->fds_errno = errno;
    return HVD_OK;
}

enum io connection_dial_local(struct connection *c,
                              const struct unix_name *name,
                              const uint8_t *hello, const int *fds,
                              size_t n_fds, hvd_status_t *status_p)
{
    HVD_ASSERT(c->fd < 0 && c->state == CONNECTION_RETRY);
    *status_p = HVD_OK;
    c->local = true;
    c->fds_errno = 0;
    connection_read_on(c, READING_REPLY);
    c->fd = unix_socket_open();
    if (c->fd < 0) {
        *status_p = error_errno("socket for rank %d", c->peer);
        return IO_END;
    }
    if (!unix_socket_connect(c->fd, name) ||
        !unix_socket_send(c->fd, hello, HANDSHAKE_NBYTES, fds, n_fds)) {
        *status_p = dial_local_failed(c);
        return IO_END;
    }
    connection_move(c, CONNECTION_GREETED);
    return IO_DONE;
}

enum io connection_dialed(struct connection *c)
{
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 ||
        error != 0)
        return IO_END;
    connection_move(c, CONNECTION_GREETED);
    return IO_DONE;
}

void connection_reset(struct connection *c)
{
    connection_close(c);
    connection_move(c, CONNECTION_RETRY);
    connection_read_on(c, READING_REPLY);
    sealed_destroy(c->sealed);
    c->sealed = NULL;
    c->out_off = c->out_n = c->payload_n = 0;
    c->in_off = c->in_n = c->dest_n = 0;
    c->ended = c->shut = false;
}

void connection_take(struct connection *c, int fd, const uint8_t *reply)
{
    HVD_ASSERT(c->fd < 0);
    c->fd = fd;
    connection_move(c, CONNECTION_OPEN);
    connection_read_first(c);
    memcpy(c->out, reply, HANDSHAKE_NBYTES);
    c->out_off = 0;
    c->out_n = HANDSHAKE_NBYTES;
}

bool connection_take_local(struct connection *c, int fd, const uint8_t *reply,
                           const int *fds, size_t n_fds)
{
    HVD_ASSERT(c->fd < 0);
    if (!unix_socket_send(fd, reply, HANDSHAKE_NBYTES, fds, n_fds))
        return false;
    c->local = true;
    c->fd = fd;
    connection_move(c, CONNECTION_OPEN);
    connection_read_first(c);
    return true;
}

void connection_seal(struct connection *c, struct sealed *sealed)
{
    HVD_ASSERT(c->sealed == NULL && c->payload_n == 0);
    sealed_put_clear(sealed, c->out + c->out_off, c->out_n - c->out_off);
    c->out_off = c->out_n = 0;
    c->sealed = sealed;
}

size_t connection_fds_take(struct connection *c, int *fds)
{
    size_t n = c->n_fds;

    memcpy(fds, c->fds, n * sizeof(*fds));
    c->n_fds = 0;
    return n;
}

static bool is_empty(const struct connection *c)
{
    return c->out_off == c->out_n && c->payload_n == 0;
}

bool connection_idle(const struct connection *c)
{
    return is_empty(c) && (c->sealed == NULL || sealed_idle(c->sealed));
}

bool connection_owes(const struct connection *c)
{
    return c->payload_n > 0 || (c->sealed != NULL && sealed_owes(c->sealed));
}

void connection_drop(struct connection *c)
{
    c->out_off = c->out_n = c->payload_n = 0;
    if (c->sealed != NULL)
        c->sealed->out_off = c->sealed->out_n = 0;
}

bool connection_queue(struct connection *c, const struct frame *frame,
                      const void *payload)
{
    if (is_empty(c))
        c->out_off = c->out_n = 0;
    if (c->shut || c->payload_n > 0 ||
        sizeof(c->out) - c->out_n < FRAME_HEADER_NBYTES)
        return false;
    frame_encode(frame, c->out + c->out_n);
    c->out_n += FRAME_HEADER_NBYTES;
    c->payload = payload;
    c->payload_n = frame_inline(frame);
    if (frame->type == FRAME_DATA)
        c->data_sent = true;
    return true;
}

void connection_queue_share(struct connection *c, const void *payload,
                            size_t nbytes)
{
    HVD_ASSERT(connection_idle(c) && !c->shut);
    c->out_off = c->out_n = 0;
    c->payload = payload;
    c->payload_n = nbytes;
}

static void advance_out(struct connection *c, size_t n)
{
    size_t head = c->out_n - c->out_off;

    if (n < head)
        head = n;
    c->out_off += head;
    n -= head;
    if (n > 0)
        c->payload += n;
    c->payload_n -= n;
}

/* IO_AGAIN: nothing more fits, or not yet; IO_DONE: *n_p bytes, 0 if it was
 * interrupted. */
static enum io send_some(struct connection *c, struct iovec *iov, size_t n_iov,
                         size_t *n_p)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n_iov};
    ssize_t n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);

    *n_p = n > 0 ? (size_t)n : 0;
    if (n < 0 && errno == EINTR)
        return IO_DONE;
    if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
        return IO_AGAIN;
    if (n < 0)
        return IO_END;
    if (c->state == CONNECTION_DIALING)
        connection_move(c, CONNECTION_GREETED);
    return IO_DONE;
}

/* The payload is encrypted as the socket takes it: by then its peer opens what
 * went before. */
static void seal_some(struct connection *c)
{
    size_t head_n = c->out_n - c->out_off, payload_n = c->payload_n;

    sealed_put(c->sealed, c->out + c->out_off, &head_n, c->payload, &payload_n);
    c->out_off = c->out_n - head_n;
    if (payload_n < c->payload_n)
        c->payload += c->payload_n - payload_n;
    c->payload_n = payload_n;
}

static enum io flush_sealed(struct connection *c)
{
    struct sealed *s = c->sealed;

    while (!connection_idle(c)) {
        struct iovec iov;
        enum io io;
        size_t n;

        if (sealed_idle(s))
            seal_some(c);
        iov = (struct iovec){s->out_bytes + s->out_off, s->out_n - s->out_off};
        io = send_some(c, &iov, 1, &n);
        if (io != IO_DONE)
            return io;
        s->out_off += n;
    }
    return IO_DONE;
}

enum io connection_flush(struct connection *c)
{
    if (c->state == CONNECTION_RETRY || c->fd < 0)
        return IO_AGAIN;
    if (c->sealed != NULL)
        return flush_sealed(c);
    while (!is_empty(c)) {
        struct iovec iov[2] = {
            {c->out + c->out_off, c->out_n - c->out_off},
            {(void *)(uintptr_t)c->payload, c->payload_n},
        };
        size_t n;
        enum io io = send_some(c, iov, 2, &n);

        if (io != IO_DONE)
            return io;
        advance_out(c, n);
    }
    return IO_DONE;
}

/* Unread bytes to the front, so that there is room behind them. */
static void compact(struct connection *c)
{
    if (c->in_off == 0)
        return;
    memmove(c->in, c->in + c->in_off, c->in_n - c->in_off);
    c->in_n -= c->in_off;
    c->in_off = 0;
}

/* The first bytes over AF_UNIX, and what they carry. */
static ssize_t read_first(struct connection *c)
{
    ssize_t n = unix_socket_recv(c->fd, c->in, c->in_max, c->fds, &c->n_fds);

    if (n < 0 && (errno == EMFILE || errno == EPROTO))
        c->fds_errno = errno;
    return n;
}

/* What `in` may take now. */
static size_t room_behind(const struct connection *c)
{
    if (c->reading == READING_SHARE)
        return 0;
    if (c->reading == READING_REPLY && c->sealed != NULL)
        return HANDSHAKE_NBYTES - c->in_n;
    return c->in_max - c->in_n;
}

/* Of records as much as there is; the reply in front of them is none. */
static ssize_t read_sealed(struct connection *c)
{
    size_t room;
    uint8_t *to = sealed_room(c->sealed, &room);
    ssize_t n;

    if (c->reading == READING_REPLY)
        return read(c->fd, c->in + c->in_n, room_behind(c));
    HVD_ASSERT(room > 0);
    n = read(c->fd, to, room);
    if (n > 0)
        sealed_arrived(c->sealed, (size_t)n);
    return n;
}

static ssize_t read_some(struct connection *c)
{
    struct iovec iov[2] = {
        {c->dest, c->dest_n},
        {c->in + c->in_n, c->in_max - c->in_n},
    };

    if (c->sealed != NULL)
        return read_sealed(c);
    if (c->local && c->reading == READING_REPLY && c->in_n == 0)
        return read_first(c);
    if (c->reading == READING_SHARE)
        return readv(c->fd, iov, 1);
    return readv(c->fd, c->dest_n > 0 ? iov : iov + 1, c->dest_n > 0 ? 2 : 1);
}

bool connection_pull(struct connection *c)
{
    struct sealed_target t = {.dest = c->dest, .dest_n = c->dest_n};
    bool any;

    if (c->sealed == NULL || c->reading == READING_REPLY)
        return false;
    compact(c);
    t.in = c->in + c->in_n;
    t.in_n = room_behind(c);
    any = sealed_get(c->sealed, &t);
    c->dest = t.dest;
    c->dest_n = t.dest_n;
    c->in_n += room_behind(c) - t.in_n;
    return any;
}

void connection_skip(struct connection *c)
{
    c->in_off = c->in_n;
    if (c->sealed != NULL)
        sealed_skip(c->sealed);
}

static enum io pull_read(struct connection *c)
{
    (void)connection_pull(c);
    if (connection_is_forged(c))
        c->ended = true;
    return c->ended ? IO_END : IO_DONE;
}

enum io connection_fill(struct connection *c)
{
    ssize_t n;

    if (c->fd < 0 || c->ended)
        return IO_END;
    if (c->sealed != NULL && (c->sealed->forged || connection_pull(c)))
        return pull_read(c);
    compact(c);
    if (c->dest_n + room_behind(c) == 0)
        return IO_AGAIN;
    do
        n = read_some(c);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == ENOTCONN))
        return IO_AGAIN;
    if (n <= 0) {
        c->ended = true;
        return IO_END;
    }
    if (c->sealed != NULL && c->reading != READING_REPLY)
        return pull_read(c);
    if ((size_t)n <= c->dest_n) {
        c->dest += n;
        c->dest_n -= (size_t)n;
        return IO_DONE;
    }
    c->in_n += (size_t)n - c->dest_n;
    c->dest_n = 0;
    return IO_DONE;
}

static void direct(struct connection *c, void *dest, size_t nbytes)
{
    size_t n = connection_buffered(c);

    if (n > nbytes)
        n = nbytes;
    if (n > 0)
        memcpy(dest, connection_peek(c), n);
    c->in_off += n;
    c->dest = n < nbytes ? (uint8_t *)dest + n : NULL;
    c->dest_n = nbytes - n;
    if (c->dest_n > 0)
        (void)connection_pull(c);
}

void connection_claim(struct connection *c, void *dest)
{
    HVD_ASSERT(c->reading == READING_HELD);
    direct(c, dest, frame_inline(&c->frame));
    connection_read_on(c, READING_PAYLOAD);
}

void connection_claim_share(struct connection *c, void *dest, size_t nbytes)
{
    HVD_ASSERT(c->reading == READING_SHARE && c->dest_n == 0);
    direct(c, dest, nbytes);
}

static bool grow(struct connection *c)
{
    size_t max = c->in_max * 4;
    uint8_t *in;

    if (c->in_max == CONNECTION_ABSORB_MAX)
        return false;
    if (max > CONNECTION_ABSORB_MAX)
        max = CONNECTION_ABSORB_MAX;
    in = malloc(max);
    if (in == NULL)
        return false;
    memcpy(in, c->in, c->in_n);
    if (c->in != c->in_small)
        free(c->in);
    c->in = in;
    c->in_max = max;
    return true;
}

bool connection_absorb(struct connection *c)
{
    HVD_ASSERT(c->dest_n == 0);
    for (;;) {
        compact(c);
        if (c->in_n == c->in_max && !grow(c))
            return false;
        switch (connection_fill(c)) {
        case IO_DONE:
            break;
        case IO_AGAIN: /* the peer's end has not arrived after all */
            return true;
        case IO_END:
            return true;
        }
    }
}
