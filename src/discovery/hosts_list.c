/* discovery/hosts_list.c - lists of hosts: copied, compared, and put into the
 * order of an older one. See hosts.h. */
#include "discovery/hosts.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void hosts_fini(struct hosts *hosts)
{
    free(hosts->items);
    *hosts = (struct hosts){0};
}

bool hosts_copy(const struct hosts *from, struct hosts *to)
{
    struct hosts next = {0};

    if (!array_reserve(&next.items, &next.max, from->n))
        return false;
    if (from->n > 0)
        memcpy(next.items, from->items, from->n * sizeof(*from->items));
    next.n = from->n;
    hosts_fini(to);
    *to = next;
    return true;
}

unsigned hosts_diff(const struct hosts *before, const struct hosts *after)
{
    enum { REMOVED = 1, ADDED = 2 };
    unsigned flags = 0;
    size_t n_same = 0;
    struct hosts_index x;

    hosts_index_init(&x, before);
    for (size_t i = 0; i < after->n; i++) {
        long old = hosts_index_find(&x, after->items[i].name);

        if (old < 0) {
            flags |= ADDED;
            continue;
        }
        n_same++;
        if (after->items[i].slots > before->items[old].slots)
            flags |= ADDED;
        else if (after->items[i].slots < before->items[old].slots)
            flags |= REMOVED;
    }
    hosts_index_fini(&x);
    return n_same < before->n ? flags | REMOVED : flags;
}

bool hosts_order(const struct hosts *previous, struct hosts *available)
{
    struct hosts next = {0};
    struct hosts_index x;

    if (!array_reserve(&next.items, &next.max, available->n))
        return false;
    hosts_index_init(&x, available);
    for (size_t i = 0; i < previous->n; i++) {
        long at = hosts_index_find(&x, previous->items[i].name);

        if (at >= 0)
            next.items[next.n++] = available->items[at];
    }
    hosts_index_fini(&x);
    hosts_index_init(&x, previous);
    for (size_t i = 0; i < available->n; i++)
        if (hosts_index_find(&x, available->items[i].name) < 0)
            next.items[next.n++] = available->items[i];
    hosts_index_fini(&x);
    HVD_ASSERT(next.n == available->n);
    hosts_fini(available);
    *available = next;
    return true;
}
