/* collectives/net/avoided.h - which addresses of other workers were refused or
 * silent, for as long as that may still be so.
 *
 * Bounded: of more workers than AVOIDED_MAX the oldest entry is forgotten,
 * which costs an attempt. Pure. Threads: as endpoint.h. Memory: the caller's.
 */
#ifndef COLLECTIVES_NET_AVOIDED_H
#define COLLECTIVES_NET_AVOIDED_H

#include <stddef.h>
#include <stdint.h>

enum { AVOIDED_MAX = 256, AVOIDED_US = 600000000 };

struct avoided {
    size_t n;
    struct {
        uint64_t worker;
        uint64_t since_us;  /* of the newest bit */
        uint8_t addresses;  /* a bit each */
    } entries[AVOIDED_MAX]; /* [n] */
};

uint8_t avoided_get(const struct avoided *a, uint64_t worker, uint64_t now_us);
void avoided_set(struct avoided *a, uint64_t worker, unsigned address_i,
                 uint64_t now_us);
void avoided_clear(struct avoided *a, uint64_t worker, unsigned address_i);

/* Of n addresses, n <= 8, the next to try: none of those `tried` (a bit each),
 * in their order, but those that are avoided last. n: all were tried. */
unsigned avoided_pick(unsigned n, uint8_t tried, uint8_t avoided);

#endif
