/* collectives/net/endpoint_impl.h - what comm and endpoint know of each other;
 * for this room only.
 *
 * A comm is a user of its endpoint: connections of its generation and set are
 * handed to it, the sockets it leaves behind linger here, and its goodbye is
 * remembered for peers that come late.
 *
 * Several comms of a generation may be driven by as many threads at once. Who
 * accepts a connection of another user's lays it into that one's inbox and
 * wakes it: `take` runs on the thread that drives the user, and no other.
 *
 * Threads: any; a user's fields and functions whoever drives that user. */
#ifndef COLLECTIVES_NET_ENDPOINT_IMPL_H
#define COLLECTIVES_NET_ENDPOINT_IMPL_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/net/arrival.h"
#include "collectives/net/endpoint.h"
#include "collectives/net/frame.h"
#include "collectives/net/handshake.h"

enum { ENDPOINT_GOODBYE_MAX = FRAME_HEADER_NBYTES + FRAME_TEXT_MAX };

struct endpoint_user {
    uint64_t generation;
    uint32_t set; /* 0: the one that every generation has, driven by the thread
                     that calls endpoint_serve() */
    const uint8_t *key;
    bool sealed; /* encrypts what goes over TCP */
    int size;
    bool open; /* takes connections */
    void *arg;
    /* Take a verified connection: true, and fd and the descriptors that came
     * with the hello, fds [n_fds], are the user's. */
    bool (*take)(void *arg, int fd, const struct handshake *hello,
                 const int *fds, size_t n_fds);
    /* Close every descriptor. Async-signal-safe. */
    void (*fds_close)(void *arg);
    /* Something has come for it. Any thread, never blocks. */
    void (*wake)(void *arg);

    /* the endpoint's */
    struct delivery *inbox;
    struct endpoint_user *next;
};

/* Connections that arrived early are handed over at once; those of another set
 * than 0 are kept for it as long as the generation's first user is open. */
void endpoint_add_user(struct endpoint *ep, struct endpoint_user *user);
void endpoint_remove_user(struct endpoint *ep, struct endpoint_user *user);

uint64_t endpoint_worker(const struct endpoint *ep);
const uint8_t *endpoint_job_key(const struct endpoint *ep);

/* It listens for workers of this host as well. */
bool endpoint_has_local(const struct endpoint *ep);

/* The user takes no more connections; late ones get this frame [nbytes <=
 * ENDPOINT_GOODBYE_MAX] behind the handshake. */
void endpoint_remember(struct endpoint *ep, struct endpoint_user *user,
                       const uint8_t *goodbye, size_t nbytes);

/* The same without a word. */
void endpoint_shut(struct endpoint *ep, struct endpoint_user *user);

/* And its LEAVE tells this worker on which channels it was greeted (frame.h);
 * the others, that on none. */
void endpoint_remember_greeted(struct endpoint *ep,
                               const struct endpoint_user *user,
                               uint64_t worker, uint64_t channels);

/* Which addresses of a worker to try last, a bit each: they were refused or
 * silent, and others have not been since. Kept over generations, for ten
 * minutes. */
uint8_t endpoint_avoided(struct endpoint *ep, uint64_t worker, uint64_t now_us);
void endpoint_avoid(struct endpoint *ep, uint64_t worker, unsigned address_i,
                    uint64_t now_us);
/* It has answered there. */
void endpoint_reached(struct endpoint *ep, uint64_t worker, unsigned address_i);

/* Take over a socket: write rest [nbytes] (heap, taken; NULL: nothing), shut
 * down writing, throw away what arrives, close as endpoint.h says. */
void endpoint_linger(struct endpoint *ep, int fd, uint8_t *rest, size_t nbytes);

/* For a caller's poll(2): how many descriptors there are, which, of them [max]
 * (more may have come since), and by when to call endpoint_drive() at the
 * latest. */
size_t endpoint_fds_count(struct endpoint *ep);
size_t endpoint_fds_fill(struct endpoint *ep, struct pollfd *pfds, size_t max);
uint64_t endpoint_deadline(struct endpoint *ep);

/* Accept, judge, linger: whatever can be done without waiting. Then `user` is
 * handed what has come for it; NULL: all of set 0 are. */
void endpoint_drive(struct endpoint *ep, struct endpoint_user *user);

/* Has something come for it that it was not handed yet? */
bool endpoint_has_mail(struct endpoint *ep, const struct endpoint_user *user);

#endif
