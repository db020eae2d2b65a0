/* elastic/driver/peers.h - who is behind a route of the control socket, and
 * which route leads to an agent or a worker.
 *
 * Memory: two sorted arrays; lookups are binary searches. Threads: the loop. */
#ifndef ELASTIC_DRIVER_PEERS_H
#define ELASTIC_DRIVER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum peer_kind { PEER_AGENT = 1, PEER_WORKER = 2 };

struct peer {
    enum peer_kind kind;
    uint64_t id;
    uint64_t route;
};

struct peers {
    struct peer *by_id, *by_route; /* the same [n] rows in two orders */
    size_t n, max_by_id, max_by_route;
};

void peers_fini(struct peers *p);

/* false: out of memory. An id that is there already keeps its first route. */
bool peers_add(struct peers *p, enum peer_kind kind, uint64_t id,
               uint64_t route);

/* The route is forgotten; 0 if there was none. */
uint64_t peers_remove(struct peers *p, enum peer_kind kind, uint64_t id);

/* NULL: unknown. Valid until the next change. */
const struct peer *peers_by_id(const struct peers *p, enum peer_kind kind,
                               uint64_t id);
const struct peer *peers_by_route(const struct peers *p, uint64_t route);

#endif
