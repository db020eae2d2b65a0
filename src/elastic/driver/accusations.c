/* elastic/driver/accusations.c - M5: workers report that a peer is lost, and
 * the driver decides whether to evict one of the two. See core.h.
 *
 * An accused worker may be alive. The accuser may be right, or may be cut off
 * itself; or a third process has filled the queue of connections, or has taken
 * a port that a worker has left. So an accusation counts if it is proven: the
 * accused had answered in that generation and then stopped without a goodbye,
 * or the accuser tried to connect for the whole connect timeout. Only the
 * accuser can tell, as it does not count the time between two generations.
 * Pure. */
#include <string.h>

#include "elastic/driver/core_internal.h"

static struct driver_accusation *find(struct driver_accusation *list, size_t n,
                                      uint64_t by, uint64_t of)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].by == by && list[i].of == of)
            return &list[i];
    return NULL;
}

static bool same_pair(const struct driver_accusation *a,
                      const struct driver_accusation *b)
{
    return (a->by == b->by && a->of == b->of) ||
           (a->by == b->of && a->of == b->by);
}

/* Once per generation, however often the network repeats it. */
void accuse(struct driver *d, uint64_t by, uint64_t of, bool proven)
{
    struct driver_accusation *a = find(d->accused, d->n_accused, by, of);

    if (a) {
        a->proven |= proven;
        return;
    }
    if (d->n_accused == DRIVER_ACCUSATIONS_MAX)
        return;
    d->accused[d->n_accused++] = (struct driver_accusation){by, of, proven};
}

/* By a peer: a worker that cannot tell which of two is at fault accuses both,
 * and so itself. */
bool is_accused(const struct driver *d, uint64_t id)
{
    for (size_t i = 0; i < d->n_accused; i++)
        if (d->accused[i].of == id && d->accused[i].by != id)
            return true;
    return false;
}

/* A worker that receives damaged data accuses the sender and itself, as either
 * may be at fault. */
static bool is_of_damage(struct driver *d, const struct driver_accusation *a)
{
    return find(d->accused, d->n_accused, a->by, a->by) != NULL;
}

static bool is_dead(struct driver *d, uint64_t id)
{
    const struct driver_worker *w = worker_find(d, id);

    return !w || worker_is_dead(w);
}

/* Any death explains why a peer was lost. It explains damaged data only if the
 * dead worker is one of the two that may have damaged it. */
static bool is_explained(struct driver *d, const struct driver_accusation *a)
{
    return d->death &&
           (!is_of_damage(d, a) || is_dead(d, a->by) || is_dead(d, a->of));
}

bool accusation_counts(struct driver *d, const struct driver_accusation *a)
{
    return a->proven && !is_of_damage(d, a) && !is_explained(d, a);
}

/* Its generation has committed: neither the worker nor its host is suspected
 * any more. */
static void forgive(struct driver *d, struct driver_worker *w)
{
    struct driver_host *host = host_of(d, w);

    w->suspected_us = 0;
    if (!is_member(w))
        return;
    host->n_evicted = 0;
    host->rest_due = false;
}

void accusations_turn(struct driver *d)
{
    for (size_t i = 0; d->committed && i < d->n_workers; i++)
        forgive(d, &d->workers[i]);
    d->n_accused_before = 0;
    for (size_t i = 0; i < d->n_accused; i++)
        if (!is_explained(d, &d->accused[i]))
            d->accused_before[d->n_accused_before++] = d->accused[i];
    d->n_accused = 0;
}

/* How many workers have accused it in this generation or in the one before,
 * itself included: in one alone some may have reported nothing. */
static size_t accusers_of(struct driver *d, uint64_t id)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n_accused; i++)
        n += d->accused[i].of == id && d->accused[i].proven;
    for (size_t i = 0; i < d->n_accused_before; i++) {
        const struct driver_accusation *a = &d->accused_before[i];
        const struct driver_accusation *again = find(d->accused, d->n_accused,
                                                     a->by, id);

        n += a->of == id && a->proven && !(again && again->proven);
    }
    return n;
}

/* For as long as a failure counts (M11). */
static bool is_suspected(const struct driver *d, const struct driver_worker *w)
{
    return w->suspected_us != 0 &&
           d->now_us - w->suspected_us < BUDGET_WINDOW_US;
}

static struct driver_worker *guilty(struct driver *d,
                                    const struct driver_accusation *pair)
{
    struct driver_worker *a = worker_find(d, pair->by),
                         *b = worker_find(d, pair->of);
    size_t n_a = accusers_of(d, pair->by), n_b = accusers_of(d, pair->of);

    if (!a || !b || worker_is_dead(a) || worker_is_dead(b))
        return NULL;
    if (worker_is_last_holder(d, a) || worker_is_last_holder(d, b))
        return worker_is_last_holder(d, a) ? b : a;
    if (is_suspected(d, a) != is_suspected(d, b))
        return is_suspected(d, a) ? a : b;
    if (n_a != n_b)
        return n_a > n_b ? a : b;
    if (a->joined != b->joined)
        return a->joined > b->joined ? a : b;
    return a->id > b->id ? a : b;
}

/* The worker that stays may be the one at fault, or the network between the
 * two. */
static void suspect_other(struct driver *d, const struct driver_accusation *a,
                          const struct driver_worker *w)
{
    struct driver_worker *other = worker_find(d,
                                              a->by == w->id ? a->of : a->by);

    if (!other)
        return;
    other->suspected_us = d->now_us;
    if (other->host != w->host)
        host_doubt(d, host_of(d, w), host_of(d, other));
}

static bool same_before(const struct driver *d,
                        const struct driver_accusation *a)
{
    for (size_t i = 0; i < d->n_accused_before; i++)
        if (same_pair(a, &d->accused_before[i]) && d->accused_before[i].proven)
            return true;
    return false;
}

/* The accuser received damaged data: it has accused itself as well. */
static bool is_damage(struct driver_accusation *list, size_t n,
                      const struct driver_accusation *a)
{
    return a->by != a->of && find(list, n, a->by, a->by);
}

static bool damaged_before(struct driver *d, uint64_t id)
{
    for (size_t i = 0; i < d->n_accused_before; i++) {
        const struct driver_accusation *a = &d->accused_before[i];

        if ((a->by == id || a->of == id) &&
            is_damage(d->accused_before, d->n_accused_before, a))
            return true;
    }
    return false;
}

/* Data was damaged twice, between two pairs: the worker that both have. */
static struct driver_worker *guilty_of_damage(struct driver *d,
                                              const struct driver_accusation *a)
{
    bool by = damaged_before(d, a->by), of = damaged_before(d, a->of);
    struct driver_worker *w;

    if (!is_damage(d->accused, d->n_accused, a) || (!by && !of))
        return NULL;
    if (by && of)
        return guilty(d, a);
    w = worker_find(d, by ? a->by : a->of);
    if (w && worker_is_last_holder(d, w))
        return guilty(d, a);
    return w && !worker_is_dead(w) ? w : NULL;
}

/* The worker that this accusation evicts; NULL: none. */
static struct driver_worker *convict(struct driver *d,
                                     const struct driver_accusation *a)
{
    if (!a->proven || is_explained(d, a) || a->by == a->of) /* it takes two */
        return NULL;
    return same_before(d, a) ? guilty(d, a) : guilty_of_damage(d, a);
}

/* Then its host is in doubt, and no slot has failed. */
static bool may_be_network(struct driver *d, const struct driver_accusation *a)
{
    return d->config.doubts &&
           worker_find(d, a->by)->host != worker_find(d, a->of)->host &&
           !is_damage(d->accused, d->n_accused, a);
}

bool accusations_judge(struct driver *d)
{
    if (!d->aborted)
        return false;
    for (size_t i = 0; i < d->n_accused; i++) {
        struct driver_worker *w = convict(d, &d->accused[i]);
        bool failure;

        if (!w)
            continue;
        failure = !may_be_network(d, &d->accused[i]);
        suspect_other(d, &d->accused[i], w);
        d->n_accused = 0; /* it is judged */
        action_kill(d, w, 0);
        worker_dies(d, w, "was accused by its peers twice in a row", failure);
        return true;
    }
    return false;
}
