/* elastic/driver/abilities.c - what the ranks of a host can do together: the
 * worker that can least decides for all of them. See core_internal.h. Pure. */
#include "elastic/driver/core_internal.h"

static uint8_t abilities_of(const struct driver *d, size_t rank)
{
    const struct driver_worker *w = d->candidates[rank].owner;

    return w->offer.abilities;
}

/* Where the ranks of this one's host end: they are host-major (M13). */
static size_t end_of_host(const struct driver *d, size_t rank)
{
    const struct assign_entry *entries = d->table.entries;
    size_t end = rank + 1;

    while (end < d->table.n_entries && entries[end].host == entries[rank].host)
        end++;
    return end;
}

void abilities_pool(struct driver *d)
{
    for (size_t first = 0, end; first < d->table.n_entries; first = end) {
        uint8_t all = UINT8_MAX;

        end = end_of_host(d, first);
        for (size_t i = first; i < end; i++)
            all &= abilities_of(d, i);
        for (size_t i = first; i < end; i++)
            d->table.entries[i].abilities = all;
    }
}

static void note_cause(struct driver *d, const struct driver_worker *w)
{
    struct driver_record *r = record_add(d, RECORD_NOTE);
    struct text t = text_into(r->text, sizeof(r->text));

    text_worker(&t, d, w);
    text_add(&t, " cannot share memory -> the ranks of its host use TCP");
}

void abilities_note(struct driver *d)
{
    for (size_t first = 0, end; first < d->table.n_entries; first = end) {
        size_t n_share = 0, cause = first;

        end = end_of_host(d, first);
        for (size_t i = first; i < end; i++)
            n_share += (abilities_of(d, i) & READY_CAN_SHARE) != 0;
        while (cause < end && abilities_of(d, cause) & READY_CAN_SHARE)
            cause++;
        if (n_share > 0 && cause < end)
            note_cause(d, d->candidates[cause].owner);
    }
}
