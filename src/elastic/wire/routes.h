/* elastic/wire/routes.h - routing ids of ROUTER peers and the numbers by which
 * the rest of the driver knows them. A number is never used again: what is
 * meant for a peer that was forgotten cannot reach its successor. Only who has
 * proven its token gets one: ids that strangers make up fill no memory.
 *
 * Threads: one owner. Memory: its own arrays. */
#ifndef ELASTIC_WIRE_ROUTES_H
#define ELASTIC_WIRE_ROUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elastic/wire/message.h"

enum { ROUTE_ID_MAX = 64 };

struct route {
    uint64_t number; /* 0: unused */
    uint32_t next;   /* same bucket, or free list: index + 1; 0: the end */
    uint8_t nbytes;
    uint8_t id[ROUTE_ID_MAX];
    uint8_t token[WIRE_TOKEN_NBYTES]; /* that of the peer */
};

struct routes {
    struct route *items; /* [items_max], n_used of them touched so far */
    size_t items_max;
    size_t n_used;
    size_t n;          /* in use now */
    uint32_t *buckets; /* [n_buckets] index + 1 of a chain's first; 0: none */
    size_t n_buckets;  /* a power of two */
    uint32_t free_list;
    uint64_t serial;
};

/* Zeroed memory is an empty registry. */
void routes_fini(struct routes *routes);

/* The number of id [nbytes]; 0: it has none. */
uint64_t routes_number(const struct routes *routes, const uint8_t *id,
                       size_t nbytes);

/* The same, given now if it has none yet; 0: out of memory, or the id is empty
 * or longer than ROUTE_ID_MAX. */
uint64_t routes_add(struct routes *routes, const uint8_t *id, size_t nbytes,
                    const uint8_t *token);

/* NULL: no such number (any more). Valid until the next routes_add. */
const struct route *routes_find(const struct routes *routes, uint64_t number);

void routes_forget(struct routes *routes, uint64_t number);

#endif
