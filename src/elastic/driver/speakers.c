/* elastic/driver/speakers.c - whose output is still to come. See speakers.h.
 *
 * Thousands end one by one: a row of one that is gone stays until there are
 * more of those than others. */
#include "elastic/driver/speakers.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { ALL_OPEN = (1 << OUTPUT_STREAMS) - 1 };

void speakers_fini(struct speakers *s)
{
    free(s->items);
    memset(s, 0, sizeof(*s));
}

static bool is_gone(const struct speaker *speaker)
{
    return speaker->exited && speaker->open == 0;
}

static void compact(struct speakers *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        if (!is_gone(&s->items[i]))
            s->items[n++] = s->items[i];
    s->n = n;
    s->n_gone = 0;
}

/* First row that is not below it. */
static size_t lower_bound(const struct speakers *s, uint64_t worker)
{
    size_t low = 0, high = s->n;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (s->items[mid].worker < worker)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* *row is copied; one that is there stays as it is. */
static bool add(struct speakers *s, const struct speaker *row)
{
    size_t at;

    if (s->n_gone > s->n / 2)
        compact(s);
    at = lower_bound(s, row->worker);
    if (at < s->n && s->items[at].worker == row->worker)
        return true;
    if (!array_reserve(&s->items, &s->max, s->n + 1))
        return false;
    memmove(&s->items[at + 1], &s->items[at], (s->n++ - at) * sizeof(*row));
    s->items[at] = *row;
    for (unsigned i = 0; i < OUTPUT_STREAMS; i++)
        s->n_streams += row->open >> i & 1u;
    return true;
}

static struct speaker speaker_of(uint64_t worker, uint64_t agent, uint32_t slot,
                                 const char *host)
{
    struct speaker row = {
        .worker = worker, .agent = agent, .rank = -1, .slot = slot};

    memcpy(row.host, host, strnlen(host, sizeof(row.host) - 1));
    return row;
}

bool speakers_add(struct speakers *s, uint64_t worker, uint64_t agent,
                  uint32_t slot, const char *host)
{
    struct speaker row = speaker_of(worker, agent, slot, host);

    row.open = ALL_OPEN;
    return add(s, &row);
}

bool speakers_add_exited(struct speakers *s, uint64_t worker, uint64_t agent,
                         uint32_t slot, unsigned open, const char *host)
{
    struct speaker row = speaker_of(worker, agent, slot, host);

    row.open = open & ALL_OPEN;
    row.exited = true;
    return row.open == 0 || add(s, &row);
}

struct speaker *speakers_find(struct speakers *s, uint64_t worker)
{
    size_t at = lower_bound(s, worker);

    if (at == s->n || s->items[at].worker != worker || is_gone(&s->items[at]))
        return NULL;
    return &s->items[at];
}

void speakers_end(struct speakers *s, struct speaker *speaker, unsigned stream)
{
    unsigned bit = 1u << stream;

    if (!(speaker->open & bit))
        return;
    s->n_streams--;
    speaker->open &= ~bit;
    s->n_gone += is_gone(speaker);
}

void speakers_exit(struct speakers *s, struct speaker *speaker)
{
    if (speaker->exited)
        return;
    speaker->exited = true;
    s->n_gone += is_gone(speaker);
}

void speakers_remove(struct speakers *s, struct speaker *speaker)
{
    for (unsigned i = 0; i < OUTPUT_STREAMS; i++)
        speakers_end(s, speaker, i);
    speakers_exit(s, speaker);
}
