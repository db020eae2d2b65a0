/* elastic/wire/routes.c - see routes.h. A number is (serial << INDEX_BITS |
 * index of its item), so finding it costs one load.
 *
 * Threads: one owner. Memory: its own arrays, kept until routes_fini. */
#include "elastic/wire/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { INDEX_BITS = 24, N_ROUTES_MAX = 1 << INDEX_BITS };

/* Source: FNV-1a, Fowler, Noll & Vo. Who forges ids to collide has to have a
 * token. */
static uint32_t hash(const uint8_t *id, size_t nbytes)
{
    uint32_t h = 2166136261u;

    for (size_t i = 0; i < nbytes; i++)
        h = (h ^ id[i]) * 16777619u;
    return h;
}

static uint32_t *bucket(const struct routes *routes, const uint8_t *id,
                        size_t nbytes)
{
    return &routes->buckets[hash(id, nbytes) & (routes->n_buckets - 1)];
}

void routes_fini(struct routes *routes)
{
    free(routes->items);
    free(routes->buckets);
    memset(routes, 0, sizeof(*routes));
}

static void link_item(struct routes *routes, uint32_t index)
{
    struct route *item = &routes->items[index];
    uint32_t *head = bucket(routes, item->id, item->nbytes);

    item->next = *head;
    *head = index + 1;
}

static bool grow_buckets(struct routes *routes)
{
    size_t n_buckets = routes->n_buckets ? 2 * routes->n_buckets : 64;
    uint32_t *buckets = calloc(n_buckets, sizeof(*buckets));

    if (!buckets)
        return false;
    free(routes->buckets);
    routes->buckets = buckets;
    routes->n_buckets = n_buckets;
    for (size_t i = 0; i < routes->n_used; i++)
        if (routes->items[i].number)
            link_item(routes, (uint32_t)i);
    return true;
}

/* Index + 1 of an unused item; 0: out of memory. */
static uint32_t take_item(struct routes *routes)
{
    uint32_t index = routes->free_list;

    if (index) {
        routes->free_list = routes->items[index - 1].next;
        return index;
    }
    if (routes->n_used == N_ROUTES_MAX ||
        !array_reserve(&routes->items, &routes->items_max, routes->n_used + 1))
        return 0;
    return (uint32_t)++routes->n_used;
}

static uint64_t add(struct routes *routes, const uint8_t *id, size_t nbytes,
                    const uint8_t *token)
{
    struct route *item;
    uint32_t index;

    if (routes->n >= routes->n_buckets && !grow_buckets(routes))
        return 0;
    index = take_item(routes);
    if (index == 0)
        return 0;
    item = &routes->items[--index];
    item->number = ++routes->serial << INDEX_BITS | index;
    item->nbytes = (uint8_t)nbytes;
    memcpy(item->id, id, nbytes);
    memcpy(item->token, token, sizeof(item->token));
    link_item(routes, index);
    routes->n++;
    return item->number;
}

uint64_t routes_number(const struct routes *routes, const uint8_t *id,
                       size_t nbytes)
{
    uint32_t at = routes->n_buckets ? *bucket(routes, id, nbytes) : 0;

    while (at) {
        const struct route *item = &routes->items[at - 1];

        if (item->nbytes == nbytes && memcmp(item->id, id, nbytes) == 0)
            return item->number;
        at = item->next;
    }
    return 0;
}

uint64_t routes_add(struct routes *routes, const uint8_t *id, size_t nbytes,
                    const uint8_t *token)
{
    uint64_t number;

    if (nbytes == 0 || nbytes > ROUTE_ID_MAX)
        return 0;
    number = routes_number(routes, id, nbytes);
    return number ? number : add(routes, id, nbytes, token);
}

const struct route *routes_find(const struct routes *routes, uint64_t number)
{
    size_t index = (size_t)(number & (N_ROUTES_MAX - 1));

    if (number == 0 || index >= routes->n_used ||
        routes->items[index].number != number)
        return NULL;
    return &routes->items[index];
}

void routes_forget(struct routes *routes, uint64_t number)
{
    uint32_t index = (uint32_t)(number & (N_ROUTES_MAX - 1));
    struct route *item;
    uint32_t *link;

    if (!routes_find(routes, number))
        return;
    item = &routes->items[index];
    link = bucket(routes, item->id, item->nbytes);
    while (*link != index + 1)
        link = &routes->items[*link - 1].next;
    *link = item->next;
    item->number = 0;
    item->next = routes->free_list;
    routes->free_list = index + 1;
    routes->n--;
}
