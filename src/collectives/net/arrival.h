/* collectives/net/arrival.h - a connection that nobody has taken yet: its hello
 * on the way, or complete and of a comm that is to come. Threads: one at a
 * time. Memory: the caller's; descriptors are the arrival's. */
#ifndef COLLECTIVES_NET_ARRIVAL_H
#define COLLECTIVES_NET_ARRIVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/net/handshake.h"
#include "collectives/net/unix_socket.h"

struct arrival {
    int fd;
    bool local; /* AF_UNIX */
    bool held;  /* its hello is complete */
    size_t n;
    uint64_t deadline_us;
    uint8_t hello[HANDSHAKE_NBYTES];
    int fds[UNIX_FDS_MAX]; /* [n_fds], came with its first byte */
    size_t n_fds;
};

enum arrival_read { ARRIVAL_COMPLETE, ARRIVAL_LATER, ARRIVAL_OVER };

/* What there is of the hello. OVER: it ended, or its deadline has passed;
 * *why_p: or its descriptors are no good, and the sentence's end; else NULL. */
enum arrival_read arrival_read(struct arrival *a, uint64_t now_us,
                               const char **why_p);

void arrival_close(struct arrival *a);

/* --- for the user that it belongs to --- */

/* A verified connection that its user has not seen yet. */
struct delivery {
    int fd;
    struct handshake hello;
    int fds[UNIX_FDS_MAX]; /* [n_fds] */
    size_t n_fds;
    struct delivery *next;
};

/* At the end of *inbox_p, which has its descriptors then. false: no memory. */
bool delivery_add(struct delivery **inbox_p, const struct arrival *a,
                  const struct handshake *hello);

/* Nobody wants it. It stays the caller's to free. */
void delivery_close(struct delivery *d);

#endif
