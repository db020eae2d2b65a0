/* elastic/driver/peers.c - routes and identities. See peers.h. */
#include "elastic/driver/peers.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static int compare_id(const struct peer *a, const struct peer *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

static int compare_route(const struct peer *a, const struct peer *b)
{
    return (a->route > b->route) - (a->route < b->route);
}

typedef int (*peer_order)(const struct peer *a, const struct peer *b);

/* First row that is not below *key. */
static size_t lower_bound(const struct peer *rows, size_t n,
                          const struct peer *key, peer_order order)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (order(&rows[mid], key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static const struct peer *search(const struct peer *rows, size_t n,
                                 const struct peer *key, peer_order order)
{
    size_t i = lower_bound(rows, n, key, order);

    return i < n && order(&rows[i], key) == 0 ? &rows[i] : NULL;
}

static void insert(struct peer *rows, size_t n, const struct peer *row,
                   peer_order order)
{
    size_t i = lower_bound(rows, n, row, order);

    memmove(rows + i + 1, rows + i, (n - i) * sizeof(*rows));
    rows[i] = *row;
}

static void erase(struct peer *rows, size_t n, const struct peer *row,
                  peer_order order)
{
    size_t i = lower_bound(rows, n, row, order);

    memmove(rows + i, rows + i + 1, (n - i - 1) * sizeof(*rows));
}

void peers_fini(struct peers *p)
{
    free(p->by_id);
    free(p->by_route);
    memset(p, 0, sizeof(*p));
}

/* false: out of memory. */
static bool add(struct peers *p, const struct peer *row)
{
    if (!array_reserve(&p->by_id, &p->max_by_id, p->n + 1) ||
        !array_reserve(&p->by_route, &p->max_by_route, p->n + 1))
        return false;
    insert(p->by_id, p->n, row, compare_id);
    insert(p->by_route, p->n, row, compare_route);
    p->n++;
    return true;
}

static void remove_row(struct peers *p, const struct peer *row)
{
    erase(p->by_id, p->n, row, compare_id);
    erase(p->by_route, p->n, row, compare_route);
    p->n--;
}

/* A newer connection speaks for it from now on. With `overlaps` one older
 * connection is kept, the oldest: more than one could be many. */
static void step_back(struct peers *p, struct wire_router *router,
                      const struct peer *known)
{
    struct peer row = *known;

    if (!p->overlaps || row.kind != PEER_AGENT ||
        peers_by_id(p, PEER_AGENT_BEFORE, row.id)) {
        peers_part(p, router, row.kind, row.id);
        return;
    }
    remove_row(p, &row);
    row.kind = PEER_AGENT_BEFORE;
    HVD_ASSERT(p->n < p->max_by_id && p->n < p->max_by_route);
    (void)add(p, &row);
}

/* A word of an older connection may come late. */
bool peers_meet(struct peers *p, struct wire_router *router,
                const struct peer *who, const uint8_t *token)
{
    const struct peer *known = peers_by_id(p, who->kind, who->id);
    struct peer row = *who;

    if (who->route != 0)
        return known && known->route == who->route;
    if (known && known->connection >= who->connection)
        return false;
    row.route = wire_router_admit(router, token);
    if (row.route == 0)
        return false;
    if (known)
        step_back(p, router, known);
    if (add(p, &row))
        return true;
    wire_router_forget(router, row.route);
    return false;
}

void peers_part(struct peers *p, struct wire_router *router,
                enum peer_kind kind, uint64_t id)
{
    const struct peer *found = peers_by_id(p, kind, id);
    struct peer row;

    if (!found)
        return;
    row = *found;
    remove_row(p, &row);
    wire_router_forget(router, row.route);
}

const struct peer *peers_by_id(const struct peers *p, enum peer_kind kind,
                               uint64_t id)
{
    struct peer key = {.kind = kind, .id = id};

    return search(p->by_id, p->n, &key, compare_id);
}

const struct peer *peers_by_route(const struct peers *p, uint64_t route)
{
    struct peer key = {.route = route};

    return search(p->by_route, p->n, &key, compare_route);
}
