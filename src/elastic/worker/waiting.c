/* elastic/worker/waiting.c - see waiting.h. */
#include "elastic/worker/waiting.h"

#include <string.h>

#include "base/text.h"
#include "collectives/by_name.h"

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

const struct msg_waiting *waiting_sample(const struct comm *comm,
                                         struct msg_waiting *waiting,
                                         uint64_t now_us)
{
    struct by_name_wait waits[WIRE_WAITING_MAX];
    size_t n;

    if (!comm)
        return NULL;
    memset(waiting, 0, sizeof(*waiting));
    n = by_name_waits(comm, waits, WIRE_WAITING_MAX);
    waiting->more = n > WIRE_WAITING_MAX;
    waiting->n_names = (uint32_t)(waiting->more ? WIRE_WAITING_MAX : n);
    for (uint32_t i = 0; i < waiting->n_names; i++)
        waiting->names[i] = waits[i].digest;
    if (n > 0)
        describe(waiting, waits, now_us);
    return waiting;
}
