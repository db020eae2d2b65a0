/* collectives/local_choice.c - see local_choice.h. Memory: a table per group,
 * allocated with the first choice; without it everything is staged. */
#include "collectives/local_choice.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "collectives/comm.h"

/* Two ways, alternating; the first of each brings in pages and caches. A lead
 * of a quarter is one after fewer tries. */
enum {
    WAYS = 2,
    TRIES = 6,
    TRIES_LEAD = 4,
    KINDS = COLLECTIVE_BARRIER + 1,
    SIZES = 64
};

struct score {
    unsigned n;
    uint64_t best_ns[WAYS];
};

struct local_choice {
    struct score scores[KINDS][SIZES];
    struct score *trial; /* of the call in flight; NULL: none */
    int way;
    uint64_t begun_ns;
};

static const uint8_t ways[WAYS] = {MAILBOX_STAGED, MAILBOX_ATTACH};

static bool all_attach(const struct local *local)
{
    for (int i = 0; i < local->size; i++) {
        const struct mailbox *box = local->peers[i].box;

        if (box == NULL || atomic_load(&box->attaches) != 1)
            return false;
    }
    return true;
}

static int size_class(size_t nbytes)
{
    return nbytes == 0 ? 0 : 63 - __builtin_clzll(nbytes);
}

static bool is_decided(const struct score *s)
{
    const uint64_t *ns = s->best_ns;

    if (s->n < (unsigned)(WAYS * TRIES_LEAD))
        return false;
    return s->n >= (unsigned)(WAYS * TRIES) || ns[0] > ns[1] + ns[1] / 4 ||
           ns[1] > ns[0] + ns[0] / 4;
}

uint8_t local_choose(struct local *local, int kind, size_t nbytes)
{
    struct local_choice *c = local->choice;
    struct score *s;

    if (local->forced_way == MAILBOX_STAGED || !all_attach(local))
        return MAILBOX_STAGED;
    if (local->forced_way != MAILBOX_NONE)
        return local->forced_way;
    if (c == NULL) {
        c = local->choice = calloc(1, sizeof(*c));
        if (c == NULL)
            return MAILBOX_STAGED;
    }
    s = &c->scores[kind][size_class(nbytes)];
    if (is_decided(s))
        return ways[s->best_ns[1] < s->best_ns[0]];
    c->trial = s;
    c->way = (int)(s->n++ % WAYS);
    c->begun_ns = clock_now_ns();
    return ways[c->way];
}

void local_chosen(struct local *local)
{
    struct local_choice *c = local->choice;
    uint64_t ns;

    if (c == NULL || c->trial == NULL)
        return;
    ns = clock_now_ns() - c->begun_ns;
    if (c->trial->n > WAYS &&
        (c->trial->best_ns[c->way] == 0 || ns < c->trial->best_ns[c->way]))
        c->trial->best_ns[c->way] = ns;
    c->trial = NULL;
}
