/* state/sync_digest.c - see sync_digest.h. */
#include "state/sync_digest.h"

#include <xxhash.h>

#include "base/bytes.h"

/* What of the record lies in the piece. */
static void add_part(struct sync_digests *d, const struct record *r,
                     size_t from, size_t to)
{
    size_t end = r->offset + r->nbytes;
    uint8_t *digest = d->list + 8 * d->n;

    from = r->offset > from ? r->offset : from;
    to = end < to ? end : to;
    if (from < to)
        bytes_put(digest,
                  XXH3_64bits_withSeed(d->snapshot->bytes + from, to - from,
                                       bytes_get(digest, 8)),
                  8);
}

void sync_digests_add(struct sync_digests *d, size_t from, size_t to)
{
    const struct snapshot *s = d->snapshot;

    for (; d->record < s->n_records; d->record++) {
        const struct record *r = &s->records[d->record];

        if (!r->shared)
            continue;
        add_part(d, r, from, to);
        if (r->offset + r->nbytes > to)
            return; /* goes on in the next piece */
        d->n++;
    }
}
