/* collectives/local_choice.c - see local_choice.h. Memory: a table per group,
 * allocated with the first choice; without it everything is staged. */
#include "collectives/local_choice.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "collectives/choice.h"
#include "collectives/comm.h"

enum { KINDS = COLLECTIVE_BARRIER + 1, SIZES = 64 };

struct local_choice {
    struct choice choices[KINDS][SIZES];
    struct choice *timed; /* the call in flight is; NULL: it is not */
    int way;
    uint64_t begun_ns;
};

static const uint8_t ways[CHOICE_WAYS] = {MAILBOX_STAGED, MAILBOX_ATTACH};

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

uint8_t local_choose(struct local *local, int kind, size_t nbytes)
{
    struct local_choice *c = local->choice;
    struct choice *choice;
    bool timed;

    if (local->forced_way == MAILBOX_STAGED || !all_attach(local))
        return MAILBOX_STAGED;
    if (local->forced_way != MAILBOX_NONE)
        return local->forced_way;
    if (c == NULL) {
        c = local->choice = calloc(1, sizeof(*c));
        if (c == NULL)
            return MAILBOX_STAGED;
    }
    choice = &c->choices[kind][size_class(nbytes)];
    c->way = choice_next(choice, &timed);
    c->timed = timed ? choice : NULL;
    return ways[c->way];
}

void local_choice_begins(struct local *local)
{
    struct local_choice *c = local->choice;

    if (c != NULL && c->timed != NULL)
        c->begun_ns = clock_now_ns();
}

void local_choice_ends(struct local *local)
{
    struct local_choice *c = local->choice;

    if (c == NULL || c->timed == NULL)
        return;
    choice_time(c->timed, c->way, clock_now_ns() - c->begun_ns);
    c->timed = NULL;
}
