/* collectives/net/lingering.h - a connection whose comm has ended: its last
 * words go out, writing is shut down, what still arrives is thrown away; closed
 * at the peer's end, or when its kernel has all of it and 1 s has passed; ten
 * minutes at most.
 *
 * Threads: one at a time. Memory: the caller's; rest is the heap's. */
#ifndef COLLECTIVES_NET_LINGERING_H
#define COLLECTIVES_NET_LINGERING_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

struct lingering;

struct lingerings {
    struct lingering *all; /* [n] */
    size_t n, max;
};

void lingerings_fini(struct lingerings *l);

/* Takes fd, and rest [nbytes] (heap; NULL: nothing). */
void lingerings_add(struct lingerings *l, int fd, uint8_t *rest, size_t nbytes,
                    uint64_t now_us);

/* Whatever can be done without waiting. */
void lingerings_drive(struct lingerings *l, uint64_t now_us);

/* For poll(2): pfds [l->n]; and when to drive at the latest. */
void lingerings_fill(const struct lingerings *l, struct pollfd *pfds);
uint64_t lingerings_deadline(const struct lingerings *l);

/* In a forked child. Async-signal-safe. */
void lingerings_fds_close(const struct lingerings *l);

#endif
