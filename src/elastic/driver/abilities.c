/* elastic/driver/abilities.c - what the ranks of a host can do together: the
 * worker that can least decides for all of them. See core_internal.h. Pure. */
#include "elastic/driver/core_internal.h"

static const struct driver_offer *offer_of(const struct driver *d, size_t rank)
{
    const struct driver_worker *w = d->candidates[rank].owner;

    return &w->offer;
}

static uint8_t abilities_of(const struct driver *d, size_t rank)
{
    return offer_of(d, rank)->abilities;
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

/* The first rank that another user runs than the rank `first`, or `end`: they
 * would refuse each other's memory. */
static size_t other_user(const struct driver *d, size_t first, size_t end)
{
    uint32_t user = offer_of(d, first)->user;
    size_t i = first + 1;

    while (i < end && offer_of(d, i)->user == user)
        i++;
    return i;
}

void abilities_pool(struct driver *d)
{
    for (size_t first = 0, end; first < d->table.n_entries; first = end) {
        uint8_t all = UINT8_MAX;

        end = end_of_host(d, first);
        for (size_t i = first; i < end; i++)
            all &= abilities_of(d, i);
        if (other_user(d, first, end) < end)
            all &= (uint8_t)~READY_CAN_SHARE;
        for (size_t i = first; i < end; i++)
            d->table.entries[i].abilities = all;
    }
}

static void note_cause(struct driver *d, size_t rank, const char *what)
{
    struct driver_record *r = record_add(d, RECORD_NOTE);
    struct text t = text_into(r->text, sizeof(r->text));

    text_worker(&t, d, d->candidates[rank].owner);
    text_add(&t, what);
    text_add(&t, " -> the ranks of its host use TCP");
}

static void note_host(struct driver *d, size_t first, size_t end)
{
    size_t n_share = 0, cause = first, other = other_user(d, first, end);

    for (size_t i = first; i < end; i++)
        n_share += (abilities_of(d, i) & READY_CAN_SHARE) != 0;
    while (cause < end && abilities_of(d, cause) & READY_CAN_SHARE)
        cause++;
    if (n_share > 0 && cause < end)
        note_cause(d, cause, " cannot share memory");
    else if (n_share > 0 && other < end)
        note_cause(d, other, " is of another user than others there");
}

void abilities_note(struct driver *d)
{
    for (size_t first = 0, end; first < d->table.n_entries; first = end) {
        end = end_of_host(d, first);
        note_host(d, first, end);
    }
}
