/* collectives/flying.h - calls by name that are in flight, by their names.
 * Threads: one at a time, but for the count. Memory: an array of buckets. */
#ifndef COLLECTIVES_FLYING_H
#define COLLECTIVES_FLYING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "collectives/negotiate/signature.h"

struct hvd_request;

struct flying {
    struct hvd_request **buckets; /* [n_buckets], a power of two, or none */
    size_t n_buckets, buckets_max;
    atomic_size_t n;
};

void flying_fini(struct flying *f);

/* NULL: none. */
struct hvd_request *flying_find(const struct flying *f,
                                const struct name_id *id);
/* r->id says where. false: no memory. */
bool flying_add(struct flying *f, struct hvd_request *r);
void flying_remove(struct flying *f, struct hvd_request *r);
/* Any one; NULL: there is none. */
struct hvd_request *flying_any(const struct flying *f);

/* All of them, in whatever order. */
void flying_visit(const struct flying *f,
                  void (*visit)(const struct hvd_request *r, void *arg),
                  void *arg);

/* Any thread. */
static inline size_t flying_count(const struct flying *f)
{
    return atomic_load_explicit(&f->n, memory_order_acquire);
}

#endif
