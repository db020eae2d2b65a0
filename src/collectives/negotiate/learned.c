/* collectives/negotiate/learned.c - see learned.h. Pure. */
#include "collectives/negotiate/learned.h"

#include "base/array.h"

void learned_init(struct learned *l)
{
    *l = (struct learned){.n_needed = LEARNED_CYCLES};
}

void learned_fini(struct learned *l)
{
    array_free(&l->now.calls, &l->now.max);
    for (size_t i = 0; i < LEARNED_CYCLES; i++)
        array_free(&l->equal[i].calls, &l->equal[i].max);
    array_free(&l->at, &l->at_max);
}

bool learned_reserve(struct learned *l, size_t n_places)
{
    for (size_t i = 0; i < LEARNED_CYCLES; i++)
        if (!array_reserve(&l->equal[i].calls, &l->equal[i].max, n_places))
            return false;
    return array_reserve(&l->now.calls, &l->now.max, n_places) &&
           array_reserve(&l->at, &l->at_max, n_places);
}

/* --- cycles --- */

static bool is_in(const struct learned *l, const struct learned_cycle *cycle,
                  int place)
{
    size_t at = l->at[place];

    return at < cycle->n && cycle->calls[at].place == place;
}

static void append(struct learned *l, int place)
{
    struct learned_cycle *now = &l->now;

    HVD_ASSERT(now->n < now->max);
    l->at[place] = now->n;
    now->calls[now->n++] = (struct learned_call){.place = place};
}

static void end_stretch(struct learned_cycle *cycle)
{
    struct learned_call *call = &cycle->calls[cycle->n - 1];

    cycle->n_stretches += !call->ends;
    call->ends = true;
}

/* `a` is at most as long. */
static bool begins_alike(const struct learned_cycle *a,
                         const struct learned_cycle *b)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->calls[i].place != b->calls[i].place)
            return false;
    return true;
}

/* The equal one that ended k ago. */
static struct learned_cycle *ended(struct learned *l, size_t k)
{
    return &l->equal[(l->n_equal - 1 - k) % LEARNED_CYCLES];
}

static void empty(struct learned_cycle *cycle)
{
    cycle->n = cycle->n_stretches = 0;
}

static void end_cycle(struct learned *l)
{
    const struct learned_cycle *last = l->n_equal > 0 ? ended(l, 0) : NULL;
    struct learned_cycle now = l->now;

    end_stretch(&now);
    if (last == NULL || last->n != now.n || !begins_alike(&now, last))
        l->n_equal = 0;
    l->n_equal++;
    l->now = *ended(l, 0);
    *ended(l, 0) = now;
    empty(&l->now);
}

static const struct learned_cycle *middling(struct learned *l)
{
    const struct learned_cycle *a = ended(l, 0), *b = ended(l, 1);
    const struct learned_cycle *c = ended(l, 2), *swap;

    if (a->n_stretches > b->n_stretches) {
        swap = a;
        a = b;
        b = swap;
    }
    if (c->n_stretches >= b->n_stretches)
        return b;
    return c->n_stretches > a->n_stretches ? c : a;
}

/* --- following --- */

static void find_stretch(struct learned *l, size_t from)
{
    const struct learned_cycle *cycle = l->followed;

    l->next = from;
    l->n_next = 1;
    while (!cycle->calls[from++].ends)
        l->n_next++;
}

static void follow(struct learned *l)
{
    l->followed = middling(l);
    l->n_followed = 0;
    find_stretch(l, l->now.n % l->followed->n);
}

void learned_decided(struct learned *l, const int *places, size_t n)
{
    HVD_ASSERT(!learned_follows(l));
    for (size_t i = 0; i < n; i++) {
        if (is_in(l, &l->now, places[i]))
            end_cycle(l);
        append(l, places[i]);
    }
    if (n == 0)
        return;
    end_stretch(&l->now);
    if (l->n_equal >= l->n_needed && l->now.n <= ended(l, 0)->n &&
        begins_alike(&l->now, ended(l, 0)))
        follow(l);
}

void learned_forget(struct learned *l)
{
    l->followed = NULL;
    l->n_equal = 0;
    empty(&l->now);
}

const struct learned_call *learned_stretch(const struct learned *l, size_t *n_p)
{
    *n_p = l->n_next;
    return l->followed->calls + l->next;
}

bool learned_has(const struct learned *l, int place)
{
    return is_in(l, l->followed, place);
}

bool learned_is_next(const struct learned *l, int place)
{
    return learned_has(l, place) && l->at[place] - l->next < l->n_next;
}

void learned_ran(struct learned *l)
{
    size_t next = l->next + l->n_next;

    if (next < l->followed->n) {
        find_stretch(l, next);
        return;
    }
    find_stretch(l, 0);
    if (++l->n_followed < LEARNED_FOLLOWED_MAX)
        return;
    l->n_needed = LEARNED_CYCLES;
    learned_forget(l);
}

void learned_deviated(struct learned *l)
{
    bool was_right = l->n_followed >= LEARNED_STEADY;

    l->n_needed = was_right ? LEARNED_CYCLES : 2 * l->n_needed;
    if (l->n_needed > LEARNED_CYCLES_MAX)
        l->n_needed = LEARNED_CYCLES_MAX;
    learned_forget(l);
}
