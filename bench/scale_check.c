/* bench/scale_check.c - what must hold of each generation that is formed: ranks
 * are exactly 0..size-1, rank 0 is an oldest, the ranks of a host are side by
 * side, all members are in the same one, and what they read in its table is
 * what the driver wrote. See scale.h.
 *
 * The table is decoded once for all: a hundred thousand times it would be all
 * that this program does. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elastic/wire/codec.h"
#include "scale.h"

static bool is_same_row(const struct assign_entry *a,
                        const struct assign_entry *b)
{
    return a->worker == b->worker && a->host == b->host && a->slot == b->slot &&
           a->port == b->port && a->source == b->source &&
           strcmp(a->address, b->address) == 0;
}

static void compare(const struct assign_table *read,
                    const struct assign_table *written)
{
    if (read->n_entries != written->n_entries)
        scale_fail("a table has lost rows");
    for (size_t i = 0; i < read->n_entries; i++)
        if (!is_same_row(&read->entries[i], &written->entries[i]))
            scale_fail("a row is not what was written");
}

/* s->known becomes the table of this generation. */
static void learn(struct scale *s, uint64_t generation, enum scale_table which)
{
    const struct scale_bytes *bytes = &s->tables[which];
    struct assign_table read = s->spare;
    int rc = table_decode(bytes->data, bytes->n, &s->known, &read);

    if (rc != CODEC_OK)
        scale_fail(codec_strerror(rc));
    compare(&read, driver_table(&s->driver));
    read.generation = generation;
    s->spare = s->known;
    s->known = read;
}

bool check_table(struct scale *s, struct scale_worker *w,
                 const struct message *m, enum scale_table which)
{
    const struct msg_assign *a = &m->u.assign;

    if (which == TABLE_NONE || m->generation != s->driver.generation)
        scale_fail("an ASSIGN is not of this generation");
    if (which == TABLE_CHANGE &&
        w->table != driver_table_before(&s->driver)->generation)
        return false; /* it is READY still, and is told all */
    if (s->known.generation != m->generation)
        learn(s, m->generation, which);
    if (a->size != s->known.n_entries || a->rank >= a->size ||
        s->known.entries[a->rank].worker != w->id)
        scale_fail("a row is not of its worker");
    w->table = m->generation;
    return true;
}

static bool is_in(const struct scale *s, const struct scale_worker *w)
{
    return w->core.phase == WORKER_RUNNING && !w->core.aborted &&
           !w->core.hold && w->core.generation == s->driver.generation;
}

bool generation_stands(const struct scale *s, size_t size)
{
    const struct assign_table *table = driver_table(&s->driver);

    if (s->driver.phase != DRIVER_RUNNING || table->n_entries != size ||
        s->driver.change != CHANGE_NONE)
        return false;
    for (size_t i = 0; i < size; i++) {
        const struct scale_worker *w = crowd_worker(s,
                                                    table->entries[i].worker);

        if (!w || !is_in(s, w))
            return false;
    }
    return true;
}

/* By what the workers were told, each in its own ASSIGN. */
static void check_neighbours(const struct scale_worker *w,
                             const struct scale_worker *before)
{
    bool same_host = before && before->agent == w->agent;
    uint32_t local = same_host ? before->core.assign.local_rank + 1 : 0;

    if (w->core.assign.local_rank != local)
        scale_fail("the ranks of a host are not side by side");
}

/* Who was told to leave, and has not heard it, is where it was. */
static bool is_leaving(const struct scale *s, const struct scale_worker *w)
{
    const struct driver_worker *row = driver_worker(&s->driver, w->id);

    return !row || !worker_is_here(row);
}

static const struct scale_worker **by_rank(const struct scale *s, size_t size)
{
    const struct scale_worker **ranks = calloc(size, sizeof(*ranks));

    if (!ranks)
        scale_fail("out of memory");
    for (size_t id = 0; id < s->workers_max; id++) {
        const struct scale_worker *w = s->workers[id];

        if (!w || w->core.joined == 0 || is_leaving(s, w))
            continue;
        if (!is_in(s, w) || w->core.assign.size != size)
            scale_fail("somebody is in another generation");
        if (w->core.assign.rank >= size || ranks[w->core.assign.rank])
            scale_fail("two have the same rank");
        ranks[w->core.assign.rank] = w;
    }
    return ranks;
}

void check_generation(const struct scale *s, size_t size)
{
    const struct scale_worker **ranks = by_rank(s, size);

    for (size_t i = 0; i < size; i++) {
        if (!ranks[i])
            scale_fail("nobody has a rank");
        if (ranks[i]->core.joined < ranks[0]->core.joined)
            scale_fail("rank 0 is not an oldest");
        check_neighbours(ranks[i], i > 0 ? ranks[i - 1] : NULL);
    }
    free(ranks);
}
