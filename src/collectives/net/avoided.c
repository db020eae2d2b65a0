/* collectives/net/avoided.c - see avoided.h. */
#include "collectives/net/avoided.h"

#include <stdbool.h>

static size_t find(const struct avoided *a, uint64_t worker)
{
    size_t i = 0;

    while (i < a->n && a->entries[i].worker != worker)
        i++;
    return i;
}

static size_t oldest(const struct avoided *a)
{
    size_t at = 0;

    for (size_t i = 1; i < a->n; i++)
        if (a->entries[i].since_us < a->entries[at].since_us)
            at = i;
    return at;
}

uint8_t avoided_get(const struct avoided *a, uint64_t worker, uint64_t now_us)
{
    size_t i = find(a, worker);

    if (i == a->n || now_us - a->entries[i].since_us >= AVOIDED_US)
        return 0;
    return a->entries[i].addresses;
}

void avoided_set(struct avoided *a, uint64_t worker, unsigned address_i,
                 uint64_t now_us)
{
    uint8_t before = avoided_get(a, worker, now_us);
    size_t i = find(a, worker);

    if (i == AVOIDED_MAX)
        i = oldest(a);
    else if (i == a->n)
        a->n++;
    a->entries[i].worker = worker;
    a->entries[i].since_us = now_us;
    a->entries[i].addresses = (uint8_t)(before | 1u << address_i);
}

void avoided_clear(struct avoided *a, uint64_t worker, unsigned address_i)
{
    size_t i = find(a, worker);

    if (i == a->n)
        return;
    a->entries[i].addresses &= (uint8_t) ~(1u << address_i);
    if (a->entries[i].addresses == 0)
        a->entries[i] = a->entries[--a->n];
}

unsigned avoided_pick(unsigned n, uint8_t tried, uint8_t avoided)
{
    unsigned last = n;

    for (unsigned i = 0; i < n; i++) {
        if (tried >> i & 1)
            continue;
        if (!(avoided >> i & 1))
            return i;
        last = last == n ? i : last;
    }
    return last;
}
