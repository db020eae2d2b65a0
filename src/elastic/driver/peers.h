/* elastic/driver/peers.h - who is behind a route of a socket, and which route
 * leads to an agent or a worker. A connection speaks for one alone, and of
 * those that have proven that they have its token the newest speaks for it. On
 * the socket for output the one before it does as well until the newest has
 * sent its first OUTPUT, as the driver may not have read all that it brought.
 *
 * Memory: two sorted arrays; lookups are binary searches. Threads: the loop. */
#ifndef ELASTIC_DRIVER_PEERS_H
#define ELASTIC_DRIVER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elastic/wire/socket.h"

enum peer_kind {
    PEER_AGENT = 1,
    PEER_WORKER = 2,
    PEER_AGENT_BEFORE = 3 /* an agent's connection before the newest */
};

struct peer {
    enum peer_kind kind;
    uint64_t id;
    uint64_t route;
    uint64_t connection; /* its number, of those that the peer has made */
};

struct peers {
    struct peer *by_id, *by_route; /* the same [n] rows in two orders */
    size_t n, max_by_id, max_by_route;
    bool overlaps; /* of an agent, the connection before the newest speaks, too,
                      as PEER_AGENT_BEFORE, until it is parted from */
};

void peers_fini(struct peers *p);

/* May the sender of the HELLO that the router received last, whose proof was
 * right, speak as `who` (kind, id, connection)? It gets a route if nobody else
 * does or if this connection is newer, which takes the place of the other;
 * who->route is what it has, 0: a stranger. false: somebody else speaks, or it
 * does for somebody else, or there is no memory. */
bool peers_meet(struct peers *p, struct wire_router *router,
                const struct peer *who, const uint8_t *token);

/* It does no longer, and its route is forgotten. */
void peers_part(struct peers *p, struct wire_router *router,
                enum peer_kind kind, uint64_t id);

/* NULL: unknown. Valid until the next change. */
const struct peer *peers_by_id(const struct peers *p, enum peer_kind kind,
                               uint64_t id);
const struct peer *peers_by_route(const struct peers *p, uint64_t route);

#endif
