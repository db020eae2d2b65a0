/* collectives/net/connection.h - one nonblocking socket to a peer: frames out,
 * frames in. Knows nothing of operations: who decides what a frame means is the
 * engine.
 *
 *   RETRY --> DIALING --> GREETED --(reply)--> OPEN --(LEAVE)--> LEFT
 *     ^----------'-----------' |                ^                 ^
 *              (refused)       |                '-- taken from    |
 *                              |                    the endpoint  |
 *                              '--(reply without memory, LEAVE)---'
 *
 * Frames may be sent from DIALING on; none is believed before OPEN, but the
 * LEAVE of a peer whose reply came without the memory that it was asked for.
 *
 * Reading goes through a small buffer, so that a small frame costs one system
 * call; the payload of a large one goes straight to its destination. A frame
 * that nobody wants yet is HELD: its header is kept and nothing more is read,
 * unless the peer has shut down writing: then the rest is absorbed into memory
 * to find the goodbye in it.
 *
 *   REPLY --> HEADER --(DATA)--> HELD --(claimed)--> PAYLOAD --> HEADER
 *     |
 *     '-----> SHARE, of a stripe
 *
 * An encrypted one (sealed.h) has records behind its handshake, and the same
 * frames in them. Who is told here that nothing more has come may rely on it:
 * what was read from the socket, and can be taken, has been. connection_pull()
 * is for what could not.
 *
 * Over AF_UNIX the hello and the reply each carry descriptors with their first
 * byte, and go out whole or not at all. Descriptors that come later are closed
 * by the kernel: nobody asks for them.
 *
 * Threads: whoever drives the comm. Memory: payloads are borrowed until sent.
 */
#ifndef COLLECTIVES_NET_CONNECTION_H
#define COLLECTIVES_NET_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#include "collectives/net/addresses.h"
#include "collectives/net/frame.h"
#include "collectives/net/handshake.h"
#include "collectives/net/sealed.h"
#include "collectives/net/silence.h"
#include "collectives/net/unix_socket.h"

enum {
    CONNECTION_OUT_MAX = 1024,
    CONNECTION_IN_MAX = 8 << 10, /* a page of payload and its header, too */
    CONNECTION_ABSORB_MAX = 64 << 20,

    /* On one host (the kernel doubles it, and caps it at net.core.wmem_max). It
     * must hold several segments, which have 64 KiB there, or it waits for
     * acknowledgements that are delayed by 40 ms. */
    CONNECTION_QUEUE_NBYTES = 256 << 10
};

enum connection_state {
    CONNECTION_RETRY,
    CONNECTION_DIALING,
    CONNECTION_GREETED,
    CONNECTION_OPEN,
    CONNECTION_LEFT
};

enum connection_reading {
    READING_REPLY, /* the listener's handshake */
    READING_HEADER,
    READING_HELD,    /* header in `frame`, payload not claimed */
    READING_PAYLOAD, /* to dest [dest_n left] */
    READING_SHARE    /* the same, of a stripe: nothing else ever comes */
};

enum io { IO_DONE, IO_AGAIN, IO_END };

struct connection {
    int fd; /* -1: none */
    int peer;
    int channel;
    enum connection_state state;     /* connection_move() */
    enum connection_reading reading; /* connection_read_on() */
    bool ended;     /* nothing more can be read from the socket */
    bool shut;      /* nothing more may be written */
    bool data_sent; /* DATA was queued: no second attempt */
    uint8_t leave_kind;
    uint64_t leave_boundary;
    uint64_t leave_channels; /* a bit each: frame.h */
    uint64_t judge_us; /* LEFT: judged again then; 0: not put off, CLOCK_NEVER:
                          nothing more is waited for */

    bool dialled; /* by us, over TCP */
    uint64_t dial_deadline_us, retry_us;
    /* of a peer that has several addresses (links.c): */
    unsigned address_i; /* the one that is dialled, or was at last */
    uint8_t tried;      /* a bit each: since the last pause */
    uint64_t attempt_deadline_us;

    struct silence silence; /* of a peer on another host (watch.c) */
    uint64_t greeted_us;    /* when it was last GREETED */
    unsigned n_retries;
    uint8_t nonce[HANDSHAKE_NONCE_NBYTES];

    struct sealed *sealed; /* NULL: not encrypted, or not dialled yet */

    bool local;    /* AF_UNIX */
    int fds_errno; /* why descriptors could not be passed; 0: they could */
    int fds[UNIX_FDS_MAX]; /* [n_fds], came with the reply; ours */
    size_t n_fds;

    uint8_t out[CONNECTION_OUT_MAX]; /* handshake, headers, control frames */
    size_t out_off, out_n;
    const uint8_t *payload; /* goes out behind `out` */
    size_t payload_n;

    struct frame frame;
    uint8_t *dest;
    size_t dest_n;
    uint8_t *in; /* in_small, or heap once absorbed */
    size_t in_off, in_n, in_max;
    uint8_t in_small[CONNECTION_IN_MAX];

    uint64_t n_sent, n_received; /* transfers: their sequence numbers */

    /* CHANNEL_DATA, see stripes.c */
    const uint8_t *sent_end; /* of the frame queued last, if it was cut */
    uint8_t *shares_dest;    /* of the frame being read, if it is cut */
    unsigned shares_claimed; /* by connections that exist */
    bool stripe_broken;

    uint64_t broken_us; /* a stripe: lost by then; 0: not broken */
};

/* NULL: out of memory. */
struct connection *connection_create(int peer, int channel);

/* By these alone the states change; each move is one of the drawings'. */
void connection_move(struct connection *c, enum connection_state to);
void connection_read_on(struct connection *c, enum connection_reading to);
/* The handshake is over: frames follow, or the bytes of a stripe. */
void connection_read_first(struct connection *c);
/* Closes the socket. NULL is fine. */
void connection_destroy(struct connection *c);

/* Close the socket and the descriptors that came over it, keep the rest.
 * Async-signal-safe. */
void connection_close(struct connection *c);

/* Start connecting; the hello [HANDSHAKE_NBYTES] goes first. near: on this
 * host, see connection_near_options(). IO_DONE: under way. IO_END: refused at
 * once. HVD_ERR_SYSTEM through *status_p: own resources. */
enum io connection_dial(struct connection *c, const struct sockaddr_storage *to,
                        bool near, const uint8_t *hello,
                        hvd_status_t *status_p);

/* The same to a peer of this host: connected at once, and the hello is sent
 * with fds [n_fds, borrowed]. IO_END: also when the listener's queue is full,
 * or by c->fds_errno too many descriptors are under way (ETOOMANYREFS), or the
 * listener is another user's (EPERM). */
enum io connection_dial_local(struct connection *c,
                              const struct unix_name *name,
                              const uint8_t *hello, const int *fds,
                              size_t n_fds, hvd_status_t *status_p);

/* DIALING and writable: did it succeed? IO_END: no. */
enum io connection_dialed(struct connection *c);

/* Close the socket and forget everything queued or read: back to RETRY. */
void connection_reset(struct connection *c);

/* Become OPEN with a socket whose hello was accepted. */
void connection_take(struct connection *c, int fd, const uint8_t *reply);

/* The same over AF_UNIX: the reply is sent at once with fds [n_fds, borrowed].
 * false: it could not be (errno), nothing changed and fd is still the caller's.
 */
bool connection_take_local(struct connection *c, int fd, const uint8_t *reply,
                           const int *fds, size_t n_fds);

/* Encrypt what is queued from now on, behind the handshake, which has been, and
 * what comes behind the peer's. `sealed` is taken. */
void connection_seal(struct connection *c, struct sealed *sealed);

/* The descriptors that came with the reply become the caller's: fds
 * [UNIX_FDS_MAX]; returns how many. */
size_t connection_fds_take(struct connection *c, int *fds);

/* Nothing queued. */
bool connection_idle(const struct connection *c);
/* More than a handshake is, if no header is: of a stripe, some share. */
bool connection_owes(const struct connection *c);
/* Forget what is queued. */
void connection_drop(struct connection *c);

/* Queue a frame; payload [frame_inline()] is borrowed until sent. false: no
 * room
 * (something with a payload is still queued). */
bool connection_queue(struct connection *c, const struct frame *frame,
                      const void *payload);

/* Write what is queued. IO_DONE: all of it. IO_END: the peer takes no more;
 * what it said last may still be readable. */
enum io connection_flush(struct connection *c);

/* Read once. IO_DONE: something arrived. IO_END: no more will, or what came is
 * not what was sent (connection_is_forged()). */
enum io connection_fill(struct connection *c);

/* Take what was read before and had no room then. Whether there was any. */
bool connection_pull(struct connection *c);

/* Forget what has been read. */
void connection_skip(struct connection *c);

static inline bool connection_is_forged(const struct connection *c)
{
    return c->sealed != NULL && c->sealed->forged;
}

/* Grows with what is taken. */
static inline uint64_t connection_taken(const struct connection *c)
{
    return c->sealed != NULL ? c->sealed->n_given : 0;
}

static inline bool connection_is_stripe(const struct connection *c)
{
    return c->channel >= CHANNEL_STRIPE;
}

/* Bytes buffered and not yet consumed. */
static inline size_t connection_buffered(const struct connection *c)
{
    return c->in_n - c->in_off;
}

static inline const uint8_t *connection_peek(const struct connection *c)
{
    return c->in + c->in_off;
}

/* Claim the HELD frame: what follows it goes to dest [frame_inline()]. */
void connection_claim(struct connection *c, void *dest);

/* The same for a stripe: its next nbytes go to dest. */
void connection_claim_share(struct connection *c, void *dest, size_t nbytes);

/* Queue nbytes without a header; borrowed until sent. Idle ones only. */
void connection_queue_share(struct connection *c, const void *payload,
                            size_t nbytes);

/* HELD, and the peer has shut down writing: read all that is left into memory.
 * false: too much, or out of memory. */
bool connection_absorb(struct connection *c);

/* Options that every data socket over TCP has. */
void connection_socket_options(int fd);

/* For a socket between two processes of a host, where no network is between
 * them that could be congested: whatever congestion control the host has for
 * its networks, this socket goes by losses alone. (BBR goes by the bandwidth
 * that it has seen: with ranks that wait for each other it settles now and
 * then at a third of what there is.) And what is read while it is in the
 * caches of who wrote it costs half of what it costs later: its queue is
 * short. TCP; the dialling side calls it before it connects. */
void connection_near_options(int fd);

/* For a socket to another host: what is not acknowledged is sent again often
 * enough that a network that heals within silence_us (0: nobody judges) is
 * noticed in time. asks: the kernel asks an idle peer each second whether it is
 * there, as long as nothing of ours may be said to it. It gives nobody up.
 * control: the congestion control, NULL: the host's.
 *
 * Not TCP_USER_TIMEOUT, nor a keepalive that ends connections: the former ends
 * also those whose peer answers, and has stopped reading. */
void connection_far_options(int fd, uint64_t silence_us, bool asks,
                            const char *control);

/* May this process have a congestion control of this name? */
bool connection_control_is_there(const char *name);

#endif
