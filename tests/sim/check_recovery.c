/* check_recovery.c - the invariants of time, in the timeouts of the job's own
 * options:
 *   - who is silent is given up within --heartbeat-timeout, or twice that if
 *     its agent was silent as well (M5)
 *   - who is missing, when there is room and nothing fails any more, is there
 *     within --start-timeout, and a little
 *   - once nobody is missing, absent or in the user's code, a generation that
 *     has lost a member is followed by the next one within a heartbeat: deaths
 *     are told, not waited for, and a message that comes late, or never, costs
 *     one heartbeat (M2, M4, M6).
 * What may take longer is looked at at each step of the driver; time counts
 * from the last moment at which there was any of it. */
#include "world.h"

#define ULL(x) ((unsigned long long)(x))

enum { TICK_US = 100000 };

/* A message that is overtaken, or was lost in a partition, is said again with
 * the next heartbeat. So is one that is lost by chance, but then that one may
 * be lost as well: so many in a row are to be had in a few thousand runs. */
enum { BEATS = 1, BEATS_IF_LOST = 10 };

static bool is_member_of(const struct driver_worker *dw)
{
    return worker_is_enlisted(dw) && !worker_is_dead(dw);
}

/* Its agent tells of its end at once: it runs, and has found the driver. */
static bool is_watched(struct sim *s, const struct sim_worker *w)
{
    const struct sim_agent *agent = sim_agent(s, w->agent);

    if (w->unheld && s->now_us < w->gone_us)
        return false;
    return agent->runs && !agent->stopped && agent->met &&
           agent->dialled == s->driver_config.term;
}

/* It answers what it is told: it neither computes nor is on its way out. */
static bool attends(const struct sim *s, const struct sim_worker *w)
{
    return process_runs(w) && w->app != APP_COMPUTING && w->app != APP_GONE &&
           w->core.phase != WORKER_LEFT &&
           w->core.term == s->driver_config.term;
}

/* A generation has ended, or a member has, which nobody may know yet. */
static bool is_due(struct sim *s)
{
    const struct driver *d = &s->driver;

    for (size_t i = 0; i < d->n_workers && d->phase == DRIVER_RUNNING; i++)
        if (is_member_of(&d->workers[i]) &&
            !sim_worker(s, d->workers[i].id)->alive)
            return true;
    return d->phase == DRIVER_RENDEZVOUS && d->generation > 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* When the driver was away last, or slow: it has taken no step then. */
static uint64_t away_us(const struct sim *s)
{
    uint64_t us = later(s->stalled_until_us, s->slow_until_us);

    return us < s->now_us ? us : s->now_us;
}

/* For how long this has been so. */
static uint64_t lasts_us(const struct sim *s, uint64_t since_us)
{
    return s->now_us - later(since_us, away_us(s));
}

/* Some member cannot come, or cannot be heard. */
static bool is_somebody_away(struct sim *s)
{
    const struct driver *d = &s->driver;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct sim_worker *w = sim_worker(s, d->workers[i].id);

        if (!is_member_of(&d->workers[i]))
            continue;
        if (network_is_cut(s, w->host) ||
            !(w->alive ? attends(s, w) : is_watched(s, w)))
            return true;
    }
    return false;
}

static uint64_t limit_us(const struct sim *s)
{
    bool lossy = s->plan.loss_in > 0 && s->in_the_way_us < s->plan.horizon_us;
    uint64_t n_beats = lossy ? BEATS_IF_LOST : BEATS;

    return n_beats * s->driver_config.heartbeat_us + 2 * plan_slack_us(s);
}

static bool is_in_the_way(struct sim *s)
{
    const struct driver_counts *c = &s->driver.counts;

    return s->driver.interrupts > 0 || s->driver.withheld ||
           c->members + c->newcomers < s->driver.config.min_np ||
           check_may_pause(s, c->members) || is_somebody_away(s);
}

/* ---- who is silent, who is missing --------------------------------------- */

/* Twice as long, if its agent was silent as well, and is heard again. */
static uint64_t silence_limit(struct sim *s, const struct sim_worker *w)
{
    const struct driver_worker *dw = driver_worker(&s->driver, w->id);
    uint64_t limit_us = s->driver_config.heartbeat_timeout_us;

    if (dw && driver_host_of(&s->driver, dw)->back_us > dw->heard_us)
        limit_us *= 2;
    return limit_us + plan_slack_us(s) + 2 * TICK_US;
}

/* A driver that was away itself forgives as much. */
static void check_silent(struct sim *s, struct sim_worker *w)
{
    if (process_runs(w) || network_is_cut(s, w->host))
        w->heard_us = s->now_us;
    if (lasts_us(s, w->heard_us) > silence_limit(s, w) &&
        !check_may_wait(s, lasts_us(s, w->heard_us)))
        check_fail(s, "w%llu is silent for %llu ms, and is not given up",
                   ULL(w->id), ULL(lasts_us(s, w->heard_us) / MSEC));
}

/* Some slots stay closed, for good. */
static bool are_slots_closed(const struct sim *s)
{
    const uint64_t *cover = s->result->cover;

    return cover[COVER_layout_differs] + cover[COVER_cannot_enter] +
               cover[COVER_size_differs] + cover[COVER_damaged_sync] >
           0;
}

/* A slot is another's as long as its agent, or its worker, may come up
 * (--start-timeout); whoever is started instead does. */
static void check_missing(struct sim *s)
{
    const struct driver *d = &s->driver;
    uint64_t calm_us = s->calm_us + s->driver_config.heartbeat_timeout_us;
    size_t n = d->counts.members + d->counts.newcomers;

    if (n >= (d->generation > 0 ? d->config.min_np : d->config.np) ||
        s->now_us < calm_us || d->interrupts > 0 || d->withheld ||
        d->phase > DRIVER_RUNNING || are_slots_closed(s))
        s->enough_us = s->now_us;
    if (lasts_us(s, s->enough_us) >
        s->driver_config.start_timeout_us + CHECK_COME_UP_US)
        check_fail(s,
                   "only %zu workers are there for %llu ms, and room for more",
                   n, ULL(lasts_us(s, s->enough_us) / MSEC));
}

/* ---- all together -------------------------------------------------------- */

void check_recovery(struct sim *s)
{
    const struct driver *d = &s->driver;

    check_context(s);
    for (size_t i = 0; i < d->n_workers; i++) {
        struct sim_worker *w = sim_worker(s, d->workers[i].id);

        if (w && d->workers[i].life == LIFE_UP && d->phase < DRIVER_ADOPTING)
            check_silent(s, w);
        else if (w)
            w->heard_us = s->now_us;
    }
    check_missing(s);
    if (!is_due(s) || is_in_the_way(s))
        s->in_the_way_us = s->now_us;
    if (lasts_us(s, s->in_the_way_us) > limit_us(s))
        check_fail(s,
                   "generation %llu has ended, and %llu ms later there is no "
                   "other, though nothing is in the way",
                   ULL(s->driver.generation),
                   ULL(lasts_us(s, s->in_the_way_us) / MSEC));
}
