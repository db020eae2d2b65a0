/* state/sync_pieces.c - see sync_pieces.h. */
#include "state/sync_pieces.h"

#include "base/round.h"

static size_t end_of(const struct record *r)
{
    return round_up_to(r->offset + r->nbytes, ENTRY_ALIGN);
}

/* The shared record that has the byte at `from`, which there is. */
static const struct record *find_record(struct sync_pieces *p)
{
    const struct record *records = p->snapshot->records;

    while (!records[p->record].shared || end_of(&records[p->record]) <= p->from)
        p->record++;
    return &records[p->record];
}

/* Where the next record of the other kind begins, if that is before `to`. */
static size_t change_before(const struct sync_pieces *p, size_t to)
{
    const struct snapshot *s = p->snapshot;

    for (size_t i = p->record; i < s->n_records; i++) {
        const struct record *r = &s->records[i];

        if (!r->shared || r->nbytes == 0)
            continue;
        if (r->offset >= to || r->device != p->goes_apart)
            return r->offset < to ? r->offset : to;
    }
    return to;
}

bool sync_pieces_next(struct sync_pieces *p)
{
    size_t rest = p->snapshot->shared_nbytes - p->to;

    p->from = p->to;
    if (rest == 0)
        return false;
    if (rest > SYNC_PIECE_NBYTES)
        rest = SYNC_PIECE_NBYTES;
    p->to = p->from + rest;
    if (!p->apart)
        return true;
    p->goes_apart = find_record(p)->device;
    p->to = change_before(p, p->to);
    return true;
}
