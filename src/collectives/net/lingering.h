/* collectives/net/lingering.h - a connection whose comm has ended: its last
 * words go out, writing is shut down, what still arrives is thrown away; closed
 * at the peer's end, or when its kernel has all of it and 1 s has passed; ten
 * minutes at most.
 *
 * Threads: as endpoint.h. Memory: the caller's; rest is the heap's. */
#ifndef COLLECTIVES_NET_LINGERING_H
#define COLLECTIVES_NET_LINGERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lingering {
    int fd;
    uint8_t *rest; /* [n], written up to off */
    size_t off, n;
    uint64_t deadline_us, unheard_until_us;
};

/* Takes fd, and rest [nbytes] (heap; NULL: nothing). */
void lingering_init(struct lingering *l, int fd, uint8_t *rest, size_t nbytes,
                    uint64_t now_us);
void lingering_fini(struct lingering *l);

/* Whatever can be done without waiting. true: it is over. */
bool lingering_step(struct lingering *l, uint64_t now_us);

#endif
