/* tests/collectives/between.h - somebody who sits between two ranks: all that
 * rank 1 sends to rank 0 over TCP, and the reverse, goes through a thread that
 * keeps it, and does to one piece of it what it likes.
 *
 * A piece is a record, or a frame with its payload where nothing is encrypted;
 * they are counted from 0 behind the handshake, in each direction. */
#ifndef TESTS_COLLECTIVES_BETWEEN_H
#define TESTS_COLLECTIVES_BETWEEN_H

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "collectives/comm_impl.h"
#include "group.h"

enum damage {
    DAMAGE_NONE,
    DAMAGE_LENGTH, /* a bit of it */
    DAMAGE_TEXT,   /* a bit in the middle */
    DAMAGE_TAG,    /* the last bit */
    DAMAGE_DROP,
    DAMAGE_DOUBLE,
    DAMAGE_SWAP, /* with the next one */
    DAMAGE_CUT,  /* the connection ends before it */
    DAMAGE_HALF  /* ... in the middle of it */
};

enum { KEPT_MAX = 8 << 20, FROM_DIALER = 0, FROM_LISTENER = 1 };

/* Of one direction of the first connection: what has come [n], of which `done`
 * bytes were passed on. */
struct passing {
    uint8_t bytes[KEPT_MAX];
    size_t n, done;
    int piece;
};

struct between {
    pthread_t thread;
    pthread_mutex_t lock; /* of what has passed */
    uint16_t port;        /* where rank 0 listens */
    bool sealed;
    int listen_fd, fds[2]; /* of the dialer, of the listener */
    enum damage damage;
    int direction, piece; /* to which */
    bool over;
    struct passing passing[2];
};

/* The piece at bytes [n]; 0: not all of it has come. */
static inline size_t piece_size(const struct between *b, const uint8_t *bytes,
                                size_t n)
{
    size_t size = b->sealed ? RECORD_HEAD_NBYTES : FRAME_HEADER_NBYTES;

    if (n < size)
        return 0;
    size = b->sealed ? records_peek(bytes, n)
                     : size + (size_t)bytes_get(bytes + 28, 3);
    return n < size ? 0 : size;
}

static inline void pass(const struct between *b, int direction,
                        const uint8_t *bytes, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(b->fds[!direction], bytes, n, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        bytes += sent;
        n -= (size_t)sent;
    }
}

static inline void pass_damaged(struct between *b, const uint8_t *bytes,
                                size_t n)
{
    uint8_t *copy = malloc(n);
    size_t middle = n > FRAME_HEADER_NBYTES * 2 ? n - n / 4 : n / 2;

    memcpy(copy, bytes, n);
    copy[0] ^= b->damage == DAMAGE_LENGTH;
    copy[middle] ^= b->damage == DAMAGE_TEXT ? 0x10 : 0;
    copy[n - 1] ^= b->damage == DAMAGE_TAG ? 0x80 : 0;
    b->over = b->damage == DAMAGE_CUT || b->damage == DAMAGE_HALF;
    if (b->damage == DAMAGE_HALF)
        pass(b, b->direction, copy, n / 2);
    else if (b->damage != DAMAGE_DROP && b->damage != DAMAGE_CUT)
        pass(b, b->direction, copy, n);
    if (b->damage == DAMAGE_DOUBLE)
        pass(b, b->direction, copy, n);
    free(copy);
}

/* What of it is whole. */
static inline void pass_on(struct between *b, int direction)
{
    struct passing *p = &b->passing[direction];

    while (!b->over) {
        const uint8_t *at = p->bytes + p->done;
        size_t n = p->n - p->done, size, next = 0;
        bool here = direction == b->direction && p->piece == b->piece;

        if (p->done == 0)
            size = n < HANDSHAKE_NBYTES ? 0 : HANDSHAKE_NBYTES;
        else
            size = piece_size(b, at, n);
        if (size > 0 && here && b->damage == DAMAGE_SWAP && p->done > 0)
            next = piece_size(b, at + size, n - size);
        if (size == 0 ||
            (here && b->damage == DAMAGE_SWAP && p->done > 0 && next == 0))
            return;
        if (p->done == 0 || !here)
            pass(b, direction, at, size);
        else if (next > 0)
            pass(b, direction, at + size, next), pass(b, direction, at, size);
        else
            pass_damaged(b, at, size);
        p->piece += p->done > 0 ? 1 + (next > 0) : 0;
        p->done += size + next;
    }
}

static inline int dial_port(uint16_t port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* One connection, to its end. */
static void *between_main(void *arg)
{
    struct between *b = arg;

    b->fds[0] = accept4(b->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    b->fds[1] = b->fds[0] < 0 ? -1 : dial_port(b->port);
    b->over = b->fds[1] < 0;
    while (!b->over) {
        struct pollfd pfds[2] = {{b->fds[0], POLLIN, 0},
                                 {b->fds[1], POLLIN, 0}};

        (void)poll(pfds, 2, -1);
        pthread_mutex_lock(&b->lock);
        for (int i = 0; i < 2 && !b->over; i++) {
            struct passing *p = &b->passing[i];
            ssize_t n;

            if (pfds[i].revents == 0)
                continue;
            n = recv(b->fds[i], p->bytes + p->n, sizeof(p->bytes) - p->n, 0);
            b->over = n <= 0;
            p->n += n > 0 ? (size_t)n : 0;
            pass_on(b, i);
        }
        pthread_mutex_unlock(&b->lock);
    }
    for (int i = 0; i < 2; i++)
        if (b->fds[i] >= 0)
            close(b->fds[i]);
    return NULL;
}

/* Rank 1 of the group, whose comms have yet to be used, dials it from now on in
 * the place of rank 0. */
static inline void between_start(struct between *b, struct group *g)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    socklen_t len = sizeof(in);

    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    pthread_mutex_init(&b->lock, NULL);
    b->sealed = g->encrypt;
    b->port = g->peers[0].port;
    b->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(b->listen_fd, (void *)&in, len), 0);
    ck_assert_int_eq(listen(b->listen_fd, 8), 0);
    ck_assert_int_eq(getsockname(b->listen_fd, (void *)&in, &len), 0);
    g->comms[1]->peers[0].port = ntohs(in.sin_port);
    ck_assert_int_eq(pthread_create(&b->thread, NULL, between_main, b), 0);
}

/* Both ends are gone, or nobody will dial. */
static inline void between_stop(struct between *b)
{
    (void)shutdown(b->listen_fd, SHUT_RDWR);
    pthread_join(b->thread, NULL);
    close(b->listen_fd);
    pthread_mutex_destroy(&b->lock);
}

static inline bool between_heard(struct between *b, const void *words,
                                 size_t nbytes)
{
    bool heard = false;

    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < 2; i++)
        heard |= memmem(b->passing[i].bytes, b->passing[i].n, words, nbytes) !=
                 NULL;
    pthread_mutex_unlock(&b->lock);
    return heard;
}

/* What has come from there, at most max bytes: how many. */
static inline size_t between_said(struct between *b, int direction,
                                  uint8_t *bytes, size_t max)
{
    const struct passing *p = &b->passing[direction];
    size_t n;

    pthread_mutex_lock(&b->lock);
    n = p->n < max ? p->n : max;
    memcpy(bytes, p->bytes, n);
    pthread_mutex_unlock(&b->lock);
    return n;
}

#endif
