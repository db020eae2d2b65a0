/* check_silence.c - the invariants of silence (M5), judged by what is, not by
 * what the driver has heard:
 *   - while most hosts are cut off from the driver it gives up nobody for
 *     silence before --driver-timeout
 *   - it does not give up for silence the last worker that holds the state
 *   - it waits for silent workers only while most hosts are silent, or no
 *     holder of the state can be heard, and a moment longer; or for a moment
 *     only, as agents that stop make a host look silent at first
 *   - it names no released worker as stopped that runs and can be heard. */
#include <stdio.h>
#include <string.h>

#include "world.h"

#define ULL(x) ((unsigned long long)(x))

/* The driver grants as much to hosts that are heard later than others; and it
 * looks at the time with each tick. */
enum { RETURN_US = 5000000, TICKS_US = 300000 };

static bool is_cut(struct sim *s, const char *name)
{
    const struct sim_host *host = plan_host_of(s, name);

    return host && host->cut_up_us > s->now_us;
}

/* A worker whose run has returned sends nothing, if its process goes on. */
static bool speaks(const struct sim_worker *w)
{
    return process_runs(w) &&
           (w->core.phase != WORKER_LEFT || w->core.is_leaving);
}

/* No process there can be heard. */
static bool is_mute(struct sim *s, const struct driver_host *host)
{
    const struct sim_agent *agent = host->agent < s->n_agents
                                        ? s->agents[host->agent]
                                        : NULL;

    if (is_cut(s, host->name))
        return true;
    if (agent && agent->runs && !agent->stopped)
        return false;
    for (size_t i = 0; i < s->n_workers; i++)
        if (s->workers[i] && s->workers[i]->agent == host->agent &&
            speaks(s->workers[i]))
            return false;
    return true;
}

static bool holds_state(const struct sim_worker *w)
{
    return w && w->alive && w->id_of.version > 1;
}

static bool can_be_heard(const struct sim *s, const struct sim_worker *w)
{
    return w && speaks(w) && s->hosts[w->host].cut_up_us <= s->now_us;
}

/* A worker that is silenced before its next heartbeat was not heard. */
static void note_spoken(struct sim *s, struct sim_worker *w)
{
    uint64_t beat_us = s->driver_config.heartbeat_us + plan_slack_us(s);

    if (!can_be_heard(s, w))
        w->mute_us = s->now_us;
    else if (s->now_us - w->mute_us > beat_us)
        w->spoke_us = s->now_us;
}

static void note_agent(struct sim *s, const struct driver_host *host)
{
    struct sim_agent *agent = sim_agent(s, host->agent);

    if (!agent)
        return;
    if (!agent->runs || agent->stopped || is_cut(s, host->name))
        agent->mute_us = s->now_us;
    else if (s->now_us - agent->mute_us >
             s->plan.agent_beat_us + plan_slack_us(s))
        agent->spoke_us = s->now_us;
}

/* Notes who can be heard, too. What a worker sent before it was stopped may
 * come later. */
static bool is_state_heard(struct sim *s)
{
    const struct driver *d = &s->driver;
    bool any = false;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *dw = &d->workers[i];
        struct sim_worker *w = sim_worker(s, dw->id);

        if (!w)
            continue;
        note_spoken(s, w);
        any |= (can_be_heard(s, w) || dw->heard_us == d->now_us) &&
               !state_id_is_none(w->id_of) && worker_is_here(dw);
    }
    return any;
}

/* While the driver stands still no time of a worker passes, and it does not see
 * that hosts are silent. */
static void forgive_driver(struct sim *s)
{
    uint64_t us = s->stalled_until_us > s->slow_until_us ? s->stalled_until_us
                                                         : s->slow_until_us;

    if (us >= s->together_us)
        s->together_us = s->now_us;
    if (us >= s->in_context_us)
        s->in_context_us = s->now_us;
    if (us >= s->state_heard_us)
        s->state_heard_us = s->now_us;
}

static void check_waits(struct sim *s)
{
    uint64_t timeout_us = s->driver_config.heartbeat_timeout_us;
    uint64_t late_us = plan_slack_us(s) + TICKS_US;

    sim_cover(s, COVER_silence_withheld);
    if (s->now_us - s->in_context_us > 2 * timeout_us + late_us &&
        s->now_us - s->heeded_us > timeout_us + late_us && s->plan.loss_in == 0)
        check_fail(s, "the driver waits for silent workers for no reason");
}

void check_context(struct sim *s)
{
    const struct driver *d = &s->driver;
    size_t n = 0, n_cut = 0, n_mute = 0;

    for (size_t i = 0; i < d->n_hosts; i++) {
        if (d->hosts[i].agent_phase != AGENT_UP)
            continue;
        n++;
        note_agent(s, &d->hosts[i]);
        n_cut += is_cut(s, d->hosts[i].name);
        n_mute += is_mute(s, &d->hosts[i]);
    }
    if (n_cut < 2 || 2 * n_cut <= n)
        s->together_us = s->now_us;
    if (is_state_heard(s))
        s->state_heard_us = s->now_us;
    if ((n_mute > 1 && 2 * n_mute > n) ||
        (d->ever_committed && s->state_heard_us < s->now_us))
        s->in_context_us = s->now_us;
    forgive_driver(s);
    if (d->withholds_us != 0 ||
        (d->phase == DRIVER_ADOPTING && d->now_us < d->spared_us))
        s->withheld_until_us = s->now_us;
    if (d->withheld)
        check_waits(s);
    else
        s->heeded_us = s->now_us;
}

bool check_may_wait(const struct sim *s, uint64_t silent_us)
{
    const struct driver_config *c = &s->driver_config;
    uint64_t after_us = RETURN_US + c->heartbeat_timeout_us + TICKS_US;

    return s->now_us - s->withheld_until_us <= after_us &&
           silent_us <= c->driver_timeout_us + c->heartbeat_timeout_us +
                            plan_slack_us(s) + TICKS_US;
}

void check_standstill(struct sim *s, const struct driver_record *r)
{
    uint64_t beat_us = s->driver_config.heartbeat_us + plan_slack_us(s);
    unsigned long long id;
    const struct sim_worker *w;

    if (!strstr(r->text, "sends no heartbeats any more") ||
        sscanf(r->text, "worker %llu ", &id) != 1)
        return;
    sim_cover(s, COVER_stood_still);
    w = sim_worker(s, id);
    if (w && w->core.verdict == WORKER_DRIVER_GONE)
        return; /* the driver was away too long: its RELEASE is not heard */
    if (can_be_heard(s, w) && s->now_us - w->mute_us > beat_us &&
        s->plan.loss_in == 0)
        check_fail(s, "w%llu is said to stand still, and runs", id);
}

static bool is_of_silence(const struct sim *s, const struct driver_record *r)
{
    return starts_with(r->text, "has stopped") ||
           (s->agent_is_silent && starts_with(r->text, "died with its agent"));
}

/* Its own, or that of the agent with which it dies. */
bool check_time_is_over(struct sim *s, const struct sim_worker *w,
                        const struct driver_record *r)
{
    const struct sim_agent *agent = sim_agent(s, w->agent);
    bool of_agent = agent && starts_with(r->text, "died with its agent");
    uint64_t came_us = of_agent && agent->came_us < w->came_us ? agent->came_us
                                                               : w->came_us;

    return s->now_us - came_us + plan_slack_us(s) + TICKS_US >
           s->driver_config.driver_timeout_us;
}

/* How long most hosts may be cut off before the driver must see that they are
 * silent. If the agent was stopped before, its host counts as silent only when
 * its workers have missed a heartbeat. */
static uint64_t notice_limit(struct sim *s, const struct sim_worker *w)
{
    const struct driver_config *c = &s->driver_config;
    const struct sim_agent *agent = sim_agent(s, w->agent);
    uint64_t late_us = s->plan.agent_beat_us + plan_slack_us(s) + TICKS_US;

    if (agent && agent->spoke_us + late_us < s->together_us)
        return c->heartbeat_us + c->heartbeat_timeout_us / 2 + late_us;
    return c->heartbeat_timeout_us / 2 + late_us;
}

void check_silence(struct sim *s, const struct driver_record *r)
{
    const struct driver_config *c = &s->driver_config;
    const struct sim_worker *w = sim_worker(s, r->worker);
    uint64_t apart_us = s->now_us - s->together_us;

    if (s->options.large) /* check_context() is not played there */
        return;
    if (!w || !w->alive || s->plan.loss_in > 0 || !is_of_silence(s, r) ||
        check_time_is_over(s, w, r))
        return;
    if (!s->cuts_overlap && apart_us > notice_limit(s, w))
        check_fail(s, "w%llu is given up for silence, and most are cut off",
                   ULL(w->id));
    /* the driver takes a worker that was stopped just now to be heard */
    if (s->driver.ever_committed && holds_state(w) &&
        s->now_us - s->state_heard_us >
            c->heartbeat_timeout_us + plan_slack_us(s) + TICKS_US)
        check_fail(s,
                   "w%llu is given up for silence, which alone has the "
                   "state",
                   ULL(w->id));
}
