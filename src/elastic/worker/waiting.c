/* elastic/worker/waiting.c - see waiting.h. */
#include "elastic/worker/waiting.h"

#include <string.h>

#include "base/text.h"
#include "collectives/by_name.h"
#include "collectives/process_set.h"

/* Whole names, as many as fit. */
static void name_others(struct msg_waiting *waiting,
                        const struct by_name_wait *waits)
{
    struct text t = text_into(waiting->others, sizeof(waiting->others));

    for (uint32_t i = 0; i < waiting->n_names; i++) {
        if (waits[i].digest == waiting->names[0])
            continue;
        if (t.n + strlen(waits[i].name) + sizeof(", ''") > t.max) {
            text_add(&t, t.n + 6 < t.max ? ", ..." : "");
            return;
        }
        text_add(&t, t.n > 0 ? ", '" : "'");
        text_add(&t, waits[i].name);
        text_add(&t, "'");
    }
}

/* Ranks of the first one's set; none: of the world. */
static void name_ranks(struct comm *comm, const struct by_name_wait *first,
                       struct msg_waiting *waiting)
{
    size_t n = 0;

    if (first->set > 0)
        n = process_sets_ranks(comm, first->set, waiting->ranks,
                               WIRE_WAITING_MAX);
    if (first->set > 0 && n == 0)
        waiting->n_names = 0; /* the set has gone this moment */
    waiting->n_ranks = (uint32_t)(n < WIRE_WAITING_MAX ? n : WIRE_WAITING_MAX);
}

static void describe(struct msg_waiting *waiting,
                     const struct by_name_wait *first, uint64_t now_us)
{
    _Static_assert(sizeof(first->name) == sizeof(waiting->name), "names");
    if (now_us > first->since_us)
        waiting->waited_ms = (now_us - first->since_us) / 1000;
    memcpy(waiting->name, first->name, sizeof(waiting->name));
}

static void gather(struct comm *comm, struct by_name_waits *all)
{
    by_name_add_waits(comm, all);
    process_sets_add_waits(comm, all);
}

/* There are more than a message names. If each rank named its oldest, the
 * driver would find none of them among another's, and could not know whether
 * that one has posted it. The least digests mean the same on all ranks: what is
 * below the greatest of them and is not there has not been posted. So the first
 * is the least of those that have waited for at least half as long as the
 * oldest. */
static void choose_least(struct comm *comm, struct by_name_waits *all,
                         struct msg_waiting *waiting, uint64_t now_us)
{
    uint64_t oldest_us = all->waits[0].since_us;
    struct by_name_waits again = {.old_us = oldest_us +
                                            (now_us - oldest_us) / 2};

    if (now_us < oldest_us)
        return;
    gather(comm, &again);
    if (again.old.since_us == 0)
        return; /* they have been decided meanwhile */
    all->waits[0] = again.old;
    waiting->names[0] = again.old.digest;
    memcpy(waiting->names + 1, all->least,
           (WIRE_WAITING_MAX - 1) * sizeof(*all->least));
    waiting->up_to = waiting->names[WIRE_WAITING_MAX - 1];
}

const struct msg_waiting *
waiting_sample(struct comm *comm, struct msg_waiting *waiting, uint64_t now_us)
{
    struct by_name_wait waits[WIRE_WAITING_MAX];
    uint32_t least[WIRE_WAITING_MAX];
    struct by_name_waits all = {
        .waits = waits, .max = WIRE_WAITING_MAX, .least = least};

    if (!comm)
        return NULL;
    memset(waiting, 0, sizeof(*waiting));
    gather(comm, &all);
    waiting->more = all.joined || all.n_all > all.max;
    waiting->n_names = (uint32_t)(all.n_all < all.max ? all.n_all : all.max);
    for (uint32_t i = 0; i < waiting->n_names; i++)
        waiting->names[i] = waits[i].digest;
    if (all.n_all == 0)
        return waiting;
    if (all.n_all > all.max && !all.joined)
        choose_least(comm, &all, waiting, now_us);
    describe(waiting, &waits[0], now_us);
    name_others(waiting, waits);
    name_ranks(comm, &waits[0], waiting);
    return waiting;
}
