/* elastic/driver/stall.c - calls by name that some members wait for and others
 * have not posted: who they are, and what comes of it. See core.h. Pure.
 *
 * A member says which of its calls wait (WAITING), with each heartbeat from the
 * first on. Who does not say so of a name has not posted it, or less than two
 * heartbeats ago. Of those, who waits for others itself is merely behind. */
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "elastic/driver/core_internal.h"

enum { HEARTBEATS = 3, RANKS_NAMED = 8 };

/* ---- what members say ---------------------------------------------------- */

/* It is shown to people. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

void on_waiting(struct driver *d, struct driver_worker *w,
                const struct msg_waiting *waiting)
{
    size_t max = w->waiting ? 1 : 0;

    if (!is_member(w) || waiting->generation != d->generation)
        return;
    /* without memory nobody is named, that is all */
    if (!array_reserve(&w->waiting, &max, 1))
        return;
    *w->waiting = *waiting;
    make_printable(w->waiting->name);
    make_printable(w->waiting->others);
}

static bool is_waiting(const struct driver *d, const struct driver_worker *w)
{
    return w->waiting && w->waiting->generation == d->generation &&
           w->waiting->n_names > 0;
}

static bool has_posted(const struct driver *d, const struct driver_worker *w,
                       uint32_t name)
{
    if (!is_waiting(d, w))
        return false;
    for (uint32_t i = 0; i < w->waiting->n_names; i++)
        if (w->waiting->names[i] == name)
            return true;
    return w->waiting->more; /* it may be among those */
}

/* ---- the stall ----------------------------------------------------------- */

struct stall {
    const struct driver_worker *by; /* has waited longest; NULL: nobody waits */
    uint32_t name;
    uint64_t waited_us;
    size_t n_missing; /* members that have not posted it */
};

static bool lacks(const struct driver *d, const struct stall *stall,
                  const struct driver_worker *w)
{
    return is_member(w) && !has_posted(d, w, stall->name);
}

static struct stall find_stall(const struct driver *d)
{
    struct stall stall = {.by = NULL};

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!is_member(w) || !is_waiting(d, w) ||
            w->waiting->waited_ms * 1000 <= stall.waited_us)
            continue;
        stall.by = w;
        stall.waited_us = w->waiting->waited_ms * 1000;
    }
    if (!stall.by)
        return stall;
    stall.name = stall.by->waiting->names[0];
    for (size_t i = 0; i < d->n_workers; i++)
        stall.n_missing += lacks(d, &stall, &d->workers[i]);
    return stall;
}

static bool lasts(const struct driver *d, const struct stall *stall,
                  uint64_t limit_us)
{
    return limit_us > 0 && stall->n_missing > 0 &&
           stall->waited_us >= limit_us + HEARTBEATS * d->config.heartbeat_us;
}

/* "ranks 2, 5 and 3 others" */
static void name_missing(struct text *t, const struct driver *d,
                         const struct stall *stall)
{
    size_t n = 0;

    text_add(t, stall->n_missing == 1 ? "rank " : "ranks ");
    for (size_t i = 0; i < d->n_workers && n < RANKS_NAMED; i++) {
        if (!lacks(d, stall, &d->workers[i]))
            continue;
        text_add(t, n++ > 0 ? ", " : "");
        text_u64(t, d->workers[i].rank);
    }
    if (n == stall->n_missing)
        return;
    text_add(t, " and ");
    text_u64(t, stall->n_missing - n);
    text_add(t, " others");
}

/* "63.4 s" */
static void add_seconds(struct text *t, uint64_t us)
{
    text_u64(t, us / 1000000);
    text_add(t, ".");
    text_u64(t, us / 100000 % 10);
    text_add(t, " s");
}

/* "'a' has waited 63.4 s for rank 2, which has not posted it; rank 0 waits also
 * for 'b', 'c'" */
static void describe(struct text *t, const struct driver *d,
                     const struct stall *stall)
{
    const struct msg_waiting *waiting = stall->by->waiting;

    text_add(t, "'");
    text_add(t, waiting->name);
    text_add(t, "' has waited ");
    add_seconds(t, stall->waited_us);
    text_add(t, " for ");
    name_missing(t, d, stall);
    text_add(t, stall->n_missing == 1 ? ", which has not posted it"
                                      : ", which have not posted it");
    if (waiting->others[0] == '\0')
        return;
    text_add(t, "; rank ");
    text_u64(t, stall->by->rank);
    text_add(t, " waits also for ");
    text_add(t, waiting->others);
}

/* ---- what comes of it ---------------------------------------------------- */

/* Its sentence. */
static const char *record(struct driver *d, const struct stall *stall)
{
    struct driver_record *r = record_add(d, RECORD_STALL);
    struct text t = text_into(r->text, sizeof(r->text));

    r->duration_us = stall->waited_us;
    describe(&t, d, stall);
    return r->text;
}

/* Each name once in a generation, as long as it is the oldest. */
static void warn(struct driver *d, const struct stall *stall)
{
    if (d->stall_warned == d->generation && d->stall_name == stall->name)
        return;
    d->stall_warned = d->generation;
    d->stall_name = stall->name;
    record(d, stall);
}

/* Not one that waits itself, or has said that it would be long. */
static bool is_culprit(const struct driver *d, const struct stall *stall,
                       const struct driver_worker *w)
{
    return lacks(d, stall, w) && !is_waiting(d, w) && w->ping.busy_ms == 0;
}

static bool evict_culprits(struct driver *d, const struct stall *stall)
{
    bool any = false;

    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (!is_culprit(d, stall, w))
            continue;
        worker_evict(d, w,
                     "has not posted what others wait for within "
                     "--stall-shutdown-time");
        any = true;
    }
    return any;
}

static bool anybody_is_busy(const struct driver *d, const struct stall *stall)
{
    for (size_t i = 0; i < d->n_workers; i++)
        if (lacks(d, stall, &d->workers[i]) && d->workers[i].ping.busy_ms > 0)
            return true;
    return false;
}

/* Where each waits for another nobody is at fault: they begin again. */
static void shut_down(struct driver *d, const struct stall *stall)
{
    if (!evict_culprits(d, stall) && !anybody_is_busy(d, stall))
        end_by_loss(d, ABORT_LOST, 0, record(d, stall));
}

void stall_tick(struct driver *d)
{
    struct stall stall;

    if (d->generation == 0 || d->aborted || d->phase >= DRIVER_STOPPING)
        return;
    stall = find_stall(d);
    if (lasts(d, &stall, d->config.stall_check_us))
        warn(d, &stall);
    if (lasts(d, &stall, d->config.stall_shutdown_us))
        shut_down(d, &stall);
}
