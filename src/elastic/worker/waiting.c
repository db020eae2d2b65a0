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

    for (uint32_t i = 1; i < waiting->n_names; i++) {
        if (t.n + strlen(waits[i].name) + sizeof(", ''") > t.max) {
            text_add(&t, t.n + 6 < t.max ? ", ..." : "");
            return;
        }
        text_add(&t, i > 1 ? ", '" : "'");
        text_add(&t, waits[i].name);
        text_add(&t, "'");
    }
}

/* Ranks of the oldest one's set; none: of the world. */
static void name_ranks(struct comm *comm, const struct by_name_wait *oldest,
                       struct msg_waiting *waiting)
{
    size_t n = 0;

    if (oldest->set > 0)
        n = process_sets_ranks(comm, oldest->set, waiting->ranks,
                               WIRE_WAITING_MAX);
    if (oldest->set > 0 && n == 0)
        waiting->n_names = 0; /* the set has gone this moment */
    waiting->n_ranks = (uint32_t)(n < WIRE_WAITING_MAX ? n : WIRE_WAITING_MAX);
}

static void describe(struct msg_waiting *waiting,
                     const struct by_name_wait *waits, uint64_t now_us)
{
    const struct by_name_wait *oldest = &waits[0];

    _Static_assert(sizeof(oldest->name) == sizeof(waiting->name), "names");
    if (now_us > oldest->since_us)
        waiting->waited_ms = (now_us - oldest->since_us) / 1000;
    memcpy(waiting->name, oldest->name, sizeof(waiting->name));
    name_others(waiting, waits);
}

const struct msg_waiting *
waiting_sample(struct comm *comm, struct msg_waiting *waiting, uint64_t now_us)
{
    struct by_name_wait waits[WIRE_WAITING_MAX];
    struct by_name_waits all = {waits, WIRE_WAITING_MAX, 0, false};

    if (!comm)
        return NULL;
    memset(waiting, 0, sizeof(*waiting));
    by_name_add_waits(comm, &all);
    process_sets_add_waits(comm, &all);
    waiting->more = all.joined || all.n_all > all.max;
    waiting->n_names = (uint32_t)(all.n_all < all.max ? all.n_all : all.max);
    for (uint32_t i = 0; i < waiting->n_names; i++)
        waiting->names[i] = waits[i].digest;
    if (all.n_all == 0)
        return waiting;
    describe(waiting, waits, now_us);
    name_ranks(comm, &waits[0], waiting);
    return waiting;
}
