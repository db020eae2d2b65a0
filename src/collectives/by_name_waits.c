/* collectives/by_name_waits.c - calls by name that other ranks have yet to
 * post, for the driver to find out who has not. See by_name.h.
 *
 * Threads: any. Memory: the caller's. */
#include <stdio.h>

#include "collectives/by_name_impl.h"
#include "collectives/comm_impl.h"

/* Where one belongs that waits since then, of those before it; max: nowhere. */
static size_t make_place(struct by_name_waits *all, uint64_t since_us)
{
    size_t at = all->n_all < all->max ? all->n_all : all->max;

    all->n_all++;
    for (; at > 0 && all->waits[at - 1].since_us > since_us; at--)
        if (at < all->max)
            all->waits[at] = all->waits[at - 1];
    return at;
}

static void note_least(struct by_name_waits *all, uint32_t digest)
{
    size_t at = all->n_least;

    if (all->least == NULL || all->max == 0)
        return;
    if (at == all->max) {
        if (digest >= all->least[--at])
            return;
    } else {
        all->n_least++;
    }
    for (; at > 0 && all->least[at - 1] > digest; at--)
        all->least[at] = all->least[at - 1];
    all->least[at] = digest;
}

static void describe_wait(const struct hvd_request *r, uint32_t digest,
                          struct by_name_wait *wait)
{
    wait->since_us = r->waits_us;
    wait->set = r->comm->config.set - 1; /* the names' is the next one */
    wait->digest = digest;
    snprintf(wait->name, sizeof(wait->name), "%s", r->name);
}

static void add_wait(const struct hvd_request *r, void *arg)
{
    uint32_t digest = (uint32_t)r->id.low + r->comm->config.set - 1;
    struct by_name_waits *all = arg;
    size_t at;

    if (atomic_load_explicit(&r->decided, memory_order_relaxed))
        return;
    note_least(all, digest);
    if (r->waits_us <= all->old_us &&
        (all->old.since_us == 0 || digest < all->old.digest))
        describe_wait(r, digest, &all->old);
    at = make_place(all, r->waits_us);
    if (at < all->max)
        describe_wait(r, digest, &all->waits[at]);
}

/* Nobody waits for a rank that has joined, and it waits for all to join. */
void by_name_add_waits(const struct comm *comm, struct by_name_waits *all)
{
    const struct comm *names = atomic_load(&comm->names);

    if (names == NULL)
        return;
    pthread_mutex_lock(&names->by_name->lock);
    if (names->by_name->joined)
        all->joined = true;
    else
        flying_visit(&names->by_name->flying, add_wait, all);
    pthread_mutex_unlock(&names->by_name->lock);
}
