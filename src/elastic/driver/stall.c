/* elastic/driver/stall.c - calls by name that some members wait for and others
 * have not posted: who they are, and what comes of it. See core.h. Pure.
 *
 * A member says which of its calls wait (WAITING), with each heartbeat from the
 * first on. Who does not say so of a name has not posted it, or less than two
 * heartbeats ago. At fault is of those who has computed for all of the limit
 * and nothing else: who waits for others itself, or has got on, is merely
 * behind. */
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "elastic/driver/core_internal.h"

enum { HEARTBEATS = 3, RANKS_NAMED = 8, TRIES = 16 };

#define MS_MAX (UINT64_MAX / 2000)

/* ---- what members say ---------------------------------------------------- */

/* It is shown to people. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

static bool is_waiting(const struct driver *d, const struct driver_worker *w)
{
    return w->waiting && w->waiting->generation == d->generation &&
           (w->waiting->n_names > 0 || w->waiting->more);
}

/* WAITING follows PING. */
void stall_forget(struct driver_worker *w)
{
    if (!w->waiting || w->waiting_us >= w->pinged_us)
        return;
    w->waiting->n_names = 0;
    w->waiting->more = false;
}

void on_waiting(struct driver *d, struct driver_worker *w,
                const struct msg_waiting *waiting)
{
    size_t max = w->waiting ? 1 : 0;

    if (!is_member(w) || waiting->generation != d->generation)
        return;
    if (!is_waiting(d, w))
        w->waiting_since_us = d->now_us;
    /* without memory nobody is named, that is all */
    if (!array_reserve(&w->waiting, &max, 1))
        return;
    *w->waiting = *waiting;
    w->waiting_us = d->now_us;
    if (waiting->waited_ms > MS_MAX)
        w->waiting->waited_ms = MS_MAX;
    make_printable(w->waiting->name);
    make_printable(w->waiting->others);
}

static bool says(const struct driver_worker *w, uint32_t name)
{
    for (uint32_t i = 0; i < w->waiting->n_names; i++)
        if (w->waiting->names[i] == name)
            return true;
    return false;
}

/* It has not said so, and it need not have. */
static bool may_have_posted(const struct driver *d,
                            const struct driver_worker *w, uint32_t name)
{
    return is_waiting(d, w) && !says(w, name) && w->waiting->more &&
           name > w->waiting->up_to;
}

static bool has_posted(const struct driver *d, const struct driver_worker *w,
                       uint32_t name)
{
    return is_waiting(d, w) && (says(w, name) || may_have_posted(d, w, name));
}

/* ---- the stall ----------------------------------------------------------- */

struct stall {
    const struct driver_worker *by; /* has waited longest; NULL: nobody waits */
    uint32_t name;
    uint64_t waited_us;
    size_t n_missing; /* members that have not posted it */
};

/* It is to post what `by` waits for. */
static bool concerns(const struct msg_waiting *waiting,
                     const struct driver_worker *w)
{
    for (uint32_t i = 0; i < waiting->n_ranks; i++)
        if (waiting->ranks[i] == w->rank)
            return true;
    return waiting->n_ranks == 0;
}

static bool lacks(const struct driver *d, const struct stall *stall,
                  const struct driver_worker *w)
{
    return is_member(w) && concerns(stall->by->waiting, w) &&
           !has_posted(d, w, stall->name);
}

static void count_missing(const struct driver *d, struct stall *stall)
{
    for (size_t i = 0; i < d->n_workers; i++)
        stall->n_missing += lacks(d, stall, &d->workers[i]);
}

/* What w waits for, if that is longer than this one's. */
static bool waits_longer(const struct driver *d, const struct driver_worker *w,
                         const struct stall *than, struct stall *stall_p)
{
    if (!is_member(w) || !is_waiting(d, w) || w->waiting->n_names == 0 ||
        w->waiting->waited_ms * 1000 <= than->waited_us)
        return false;
    *stall_p = (struct stall){.by = w,
                              .name = w->waiting->names[0],
                              .waited_us = w->waiting->waited_ms * 1000};
    return true;
}

static struct stall find_oldest(const struct driver *d)
{
    struct stall stall = {.by = NULL};

    for (size_t i = 0; i < d->n_workers; i++)
        (void)waits_longer(d, &d->workers[i], &stall, &stall);
    if (stall.by)
        count_missing(d, &stall);
    return stall;
}

static bool is_uncertain(const struct driver *d, const struct stall *stall)
{
    bool any = false;

    for (size_t i = 0; i < d->n_workers && !any; i++)
        any = is_member(&d->workers[i]) &&
              concerns(stall->by->waiting, &d->workers[i]) &&
              may_have_posted(d, &d->workers[i], stall->name);
    return any;
}

/* The oldest, or, where it is not known who has not posted that, another one.
 */
static struct stall find_stall(const struct driver *d)
{
    struct stall oldest = find_oldest(d), stall = {.by = NULL}, next;

    if (!oldest.by || oldest.n_missing > 0 || !is_uncertain(d, &oldest))
        return oldest;
    for (size_t i = 0, n = 0; i < d->n_workers && n < TRIES; i++) {
        if (!waits_longer(d, &d->workers[i], &stall, &next))
            continue;
        n++;
        count_missing(d, &next);
        if (next.n_missing > 0)
            stall = next;
    }
    return stall.by ? stall : oldest;
}

/* All others have been heard since it began to say so. */
static bool lasts(const struct driver *d, const struct stall *stall,
                  uint64_t limit_us)
{
    uint64_t grace_us = HEARTBEATS * d->config.heartbeat_us;

    return stall->by && limit_us > 0 &&
           stall->waited_us >= limit_us + grace_us &&
           d->now_us >= stall->by->waiting_since_us + grace_us;
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

/* Several wait for as long, each is the oldest at times: one will do, and again
 * while it lasts. */
static void warn(struct driver *d, const struct stall *stall)
{
    if (d->stall_warned == d->generation &&
        d->now_us < d->stall_us + d->config.stall_check_us)
        return;
    d->stall_warned = d->generation;
    d->stall_us = d->now_us;
    record(d, stall);
}

static bool is_behind(const struct driver *d, const struct driver_worker *w)
{
    return is_waiting(d, w) || worker_waits(w);
}

/* hvd_busy_begin() counts as getting on. */
static bool is_culprit(const struct driver *d, const struct stall *stall,
                       const struct driver_worker *w)
{
    return lacks(d, stall, w) && !is_behind(d, w) &&
           worker_is_stuck(w, d->config.stall_shutdown_us);
}

static bool evict_culprits(struct driver *d, const struct stall *stall)
{
    bool any = false;

    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (!is_culprit(d, stall, w))
            continue;
        worker_evict(d, w,
                     "has not posted the calls that others wait for within "
                     "--stall-shutdown-time");
        any = true;
    }
    return any;
}

/* Whoever is missing waits as well, and does not get on. */
static bool all_are_behind(const struct driver *d, const struct stall *stall)
{
    uint64_t limit_us = d->config.stall_shutdown_us;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (lacks(d, stall, w) &&
            !(is_behind(d, w) && worker_is_stuck(w, limit_us)))
            return false;
    }
    return true;
}

/* Where each waits for another nobody is at fault: they begin again. */
static void shut_down(struct driver *d, const struct stall *stall)
{
    if (!evict_culprits(d, stall) && all_are_behind(d, stall))
        end_by_loss(d, ABORT_LOST, 0, record(d, stall));
}

void stall_tick(struct driver *d)
{
    struct stall stall;
    bool named, over;

    if (d->generation == 0 || d->aborted || d->phase >= DRIVER_STOPPING)
        return;
    stall = find_stall(d);
    named = lasts(d, &stall, d->config.stall_check_us);
    over = lasts(d, &stall, d->config.stall_shutdown_us);
    if (!named && !over)
        return;
    if (named && stall.n_missing > 0)
        warn(d, &stall);
    if (over && stall.n_missing > 0)
        shut_down(d, &stall);
}
