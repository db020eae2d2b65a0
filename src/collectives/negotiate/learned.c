/* collectives/negotiate/learned.c - see learned.h. Pure. */
#include "collectives/negotiate/learned.h"

#include "base/array.h"

void learned_init(struct learned *l)
{
    *l = (struct learned){.n_needed = LEARNED_CYCLES,
                          .n_to_follow = LEARNED_FOLLOWED};
}

void learned_fini(struct learned *l)
{
    array_free(&l->now.calls, &l->now.max);
    for (size_t i = 0; i < LEARNED_CYCLES; i++)
        array_free(&l->equal[i].calls, &l->equal[i].max);
    array_free(&l->seen, &l->seen_max);
    array_free(&l->at, &l->at_max);
}

bool learned_reserve(struct learned *l, size_t n_places)
{
    for (size_t i = 0; i < LEARNED_CYCLES; i++)
        if (!array_reserve(&l->equal[i].calls, &l->equal[i].max, n_places))
            return false;
    return array_reserve(&l->now.calls, &l->now.max, n_places) &&
           array_reserve(&l->seen, &l->seen_max, n_places) &&
           array_reserve(&l->at, &l->at_max, n_places);
}

/* --- cycles --- */

static void append(struct learned *l, int place)
{
    struct learned_cycle *now = &l->now;

    HVD_ASSERT(now->n < now->max);
    l->n_common += l->n_equal > 0 && l->seen[place] == l->n_cycles;
    l->seen[place] = l->n_cycles + 1;
    now->calls[now->n++] = (struct learned_call){.place = place};
}

static void end_stretch(struct learned_cycle *cycle)
{
    struct learned_call *call = &cycle->calls[cycle->n - 1];

    cycle->n_stretches += !call->ends;
    call->ends = true;
}

/* The equal one that ended k ago. */
static struct learned_cycle *ended(struct learned *l, size_t k)
{
    return &l->equal[(l->n_equal - 1 - k) % LEARNED_CYCLES];
}

/* The cycle under way has all names of the last one, and no others. */
static bool is_equal(struct learned *l)
{
    return l->n_equal > 0 && l->now.n == ended(l, 0)->n &&
           l->n_common == l->now.n;
}

static void begin_cycle(struct learned *l)
{
    l->now.n = l->now.n_stretches = l->n_common = 0;
    l->n_cycles++;
}

static void end_cycle(struct learned *l)
{
    struct learned_cycle now = l->now;

    end_stretch(&now);
    l->n_equal = is_equal(l) ? l->n_equal + 1 : 1;
    l->now = *ended(l, 0);
    *ended(l, 0) = now;
    begin_cycle(l);
}

/* --- following --- */

/* By its stretches: any round may have come at an odd moment. */
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

static void find_stretch(struct learned *l)
{
    const struct learned_call *calls = l->followed->calls + l->next;

    l->n_stretch = 1;
    while (!calls[l->n_stretch - 1].ends)
        l->n_stretch++;
}

static void follow(struct learned *l)
{
    l->followed = middling(l);
    for (size_t i = 0; i < l->followed->n; i++)
        l->at[l->followed->calls[i].place] = i;
    l->next = l->n_followed = 0;
    find_stretch(l);
}

void learned_decided(struct learned *l, const int *places, size_t n)
{
    HVD_ASSERT(!learned_follows(l));
    for (size_t i = 0; i < n; i++) {
        if (l->seen[places[i]] == l->n_cycles + 1)
            end_cycle(l);
        append(l, places[i]);
        if (is_equal(l))
            end_cycle(l);
    }
    if (l->now.n > 0)
        end_stretch(&l->now);
    else if (l->n_equal >= l->n_needed)
        follow(l);
}

void learned_forget(struct learned *l)
{
    l->followed = NULL;
    l->n_equal = 0;
    begin_cycle(l);
}

const struct learned_call *learned_ahead(const struct learned *l, size_t *n_p)
{
    *n_p = l->followed->n - l->next;
    return l->followed->calls + l->next;
}

bool learned_find(const struct learned *l, int place, size_t *k_p)
{
    size_t at = l->at[place];

    *k_p = at - l->next;
    return at < l->followed->n && l->followed->calls[at].place == place;
}

static void end_followed(struct learned *l)
{
    l->next = 0;
    if (++l->n_followed < l->n_to_follow)
        return;
    if (l->n_to_follow < LEARNED_FOLLOWED_MAX)
        l->n_to_follow *= 2;
    l->n_needed = LEARNED_CYCLES;
    learned_forget(l);
}

void learned_ran(struct learned *l, size_t k)
{
    HVD_ASSERT(k <= l->followed->n - l->next);
    l->next += k;
    if (l->next == l->followed->n)
        end_followed(l);
    if (!learned_follows(l))
        return;
    if (k < l->n_stretch)
        l->n_stretch -= k;
    else
        find_stretch(l);
}

void learned_deviated(struct learned *l)
{
    bool suited = l->n_followed >= LEARNED_FOLLOWED;

    l->n_needed = suited ? LEARNED_CYCLES : 2 * l->n_needed;
    if (l->n_needed > LEARNED_CYCLES_MAX)
        l->n_needed = LEARNED_CYCLES_MAX;
    learned_forget(l);
}
