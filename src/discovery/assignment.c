/* discovery/assignment.c - ranks out of who is there. See assignment.h.
 *
 * The result fields of a candidate hold the sort keys while the work is going
 * on: first the age of its host (rank and local_rank: the two halves of a u64),
 * then nothing but results. Every order ends in the worker id, so equal inputs
 * in another order give equal results. */
#include "discovery/assignment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static uint64_t age(const struct candidate *c)
{
    return c->joined ? c->joined : UINT64_MAX; /* a newcomer is youngest */
}

static uint64_t host_age(const struct candidate *c)
{
    return (uint64_t)c->rank << 32 | c->local_rank;
}

static int order_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Within a host: members by age, then newcomers by slot. */
static int by_age(const struct candidate *a, const struct candidate *b)
{
    int order = order_u64(age(a), age(b));

    if (order == 0)
        order = order_u64(a->slot, b->slot);
    return order ? order : order_u64(a->worker, b->worker);
}

static int by_host_index(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    int order = order_u64(a->host, b->host);

    return order ? order : by_age(a, b);
}

static int by_host_age(const struct candidate *a, const struct candidate *b)
{
    int order = order_u64(host_age(a), host_age(b));

    return order ? order : order_u64(a->host, b->host);
}

/* Who is let in: members by age, then newcomers where members are oldest. */
static int by_seniority(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    int order = order_u64(age(a), age(b));

    if (order == 0)
        order = by_host_age(a, b);
    return order ? order : by_age(a, b);
}

static int by_rank(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    int order = by_host_age(a, b);

    return order ? order : by_age(a, b);
}

static void sort(struct candidate *candidates, size_t n,
                 int (*order)(const void *, const void *))
{
    if (n > 1)
        qsort(candidates, n, sizeof(*candidates), order);
}

/* Every candidate learns the age of the oldest member of its host. */
static void set_host_ages(struct candidate *candidates, size_t n)
{
    uint64_t oldest = 0;

    sort(candidates, n, by_host_index);
    for (size_t i = 0; i < n; i++) {
        struct candidate *c = &candidates[i];

        if (i == 0 || candidates[i - 1].host != c->host)
            oldest = age(c);
        c->rank = (uint32_t)(oldest >> 32);
        c->local_rank = (uint32_t)oldest;
    }
}

/* chosen [n] in rank order. n_with [n]: hosts so far with that local rank. */
static void set_ranks(struct candidate *chosen, size_t n, uint32_t *n_with)
{
    size_t first = 0; /* of the same host */

    for (size_t i = 0; i < n; i++)
        n_with[i] = 0;
    for (size_t i = 0; i < n; i++) {
        if (chosen[i].host != chosen[first].host)
            first = i;
        chosen[i].rank = (uint32_t)i;
        chosen[i].local_rank = (uint32_t)(i - first);
        chosen[i].cross_rank = n_with[i - first]++;
    }
    for (size_t i = n; i-- > 0;) {
        struct candidate *c = &chosen[i];
        bool last = i + 1 == n || chosen[i + 1].host != c->host;

        c->local_size = last ? c->local_rank + 1 : chosen[i + 1].local_size;
        c->cross_size = n_with[c->local_rank];
    }
}

size_t assignment_compute(struct candidate *candidates, size_t n, size_t max,
                          uint32_t *scratch)
{
    size_t n_chosen = n < max ? n : max;

    HVD_ASSERT(n == 0 || (candidates && scratch));
    set_host_ages(candidates, n);
    sort(candidates, n, by_seniority);
    sort(candidates, n_chosen, by_rank);
    set_ranks(candidates, n_chosen, scratch);
    return n_chosen;
}
