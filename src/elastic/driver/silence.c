/* elastic/driver/silence.c - what silence means, by how many are silent (M5).
 *
 * One host that is silent among others that are heard is given up. When most
 * hosts are silent at once, the network of this machine is at fault, or one
 * that the hosts share. Nor does silence show that a state is lost: the workers
 * that hold it may live. In both cases the driver gives up nobody for silence
 * until hosts are heard again; those that are still silent then get some time
 * more, as they dial anew after growing pauses (wire/redial.h). The limit is
 * --driver-timeout: agents and workers end when they have not heard the driver
 * for so long. See core.h. Pure. */
#include "elastic/driver/core_internal.h"

enum {
    RETURN_US = 5000000 /* the longest pause between two dials, and a little */
};

static uint64_t since(const struct driver *d, uint64_t us)
{
    return d->now_us > us ? d->now_us - us : 0;
}

/* A worker's heartbeats are half of the timeout apart, its agent's are a fifth:
 * when the first worker's time is over, the agents of all hosts that are cut
 * off have been quiet for that long. */
static uint64_t quiet_limit(const struct driver *d)
{
    return 3 * (d->config.heartbeat_timeout_us / 8);
}

/* An agent may be stopped, and its workers heard. */
static bool is_quiet(const struct driver *d, const struct driver_host *host)
{
    uint64_t agent_us = since(d, host->agent_heard_us);
    uint64_t workers_us = since(d, host->heard_us);

    return agent_us > quiet_limit(d) &&
           (agent_us <= d->config.heartbeat_timeout_us ||
            workers_us > d->config.heartbeat_us + quiet_limit(d));
}

static bool is_overdue(const struct driver *d, uint64_t heard_us)
{
    return since(d, heard_us) > d->config.heartbeat_timeout_us &&
           d->now_us >= d->spared_us;
}

/* A process that was silent for so long is given up in any case. */
static bool is_gone(const struct driver *d, uint64_t heard_us)
{
    return since(d, heard_us) > later_of(d->config.driver_timeout_us,
                                         d->config.heartbeat_timeout_us);
}

/* Longer than between two heartbeats of an agent. */
static bool was_pause(const struct driver *d, uint64_t heard_us)
{
    return since(d, heard_us) > d->config.heartbeat_timeout_us / 4;
}

/* A worker that was silent together with its agent was so because of the path.
 * The path may have come back for the agent alone: TCP sends what was lost of
 * the worker's after a pause as long as all the time before. The worker's time
 * begins when its agent is heard again, once: twice the timeout is the most. */
void agent_is_heard(const struct driver *d, struct driver_host *host)
{
    if (was_pause(d, host->agent_heard_us))
        host->back_us = d->now_us;
    host->agent_heard_us = d->now_us;
}

static bool worker_is_overdue(const struct driver *d,
                              const struct driver_worker *w)
{
    uint64_t silent_us = since(d, w->heard_us);
    uint64_t back_us = since(d, d->hosts[w->host].back_us);

    return is_overdue(d, w->heard_us) &&
           (silent_us < back_us ||
            silent_us > 2 * d->config.heartbeat_timeout_us ||
            back_us > d->config.heartbeat_timeout_us);
}

/* When the first worker of a host that is cut off is overdue, the others have
 * been quiet for that long as well. While the driver withholds its judgement,
 * a message must show that a worker is there: its host may be heard first. That
 * a worker has its time again, as its agent is back, does not make it heard. */
bool worker_is_heard(const struct driver *d, const struct driver_worker *w)
{
    if (since(d, w->heard_us) <= quiet_limit(d))
        return true;
    return d->withholds_us == 0 && !is_quiet(d, &d->hosts[w->host]) &&
           !is_overdue(d, w->heard_us) && !is_gone(d, w->heard_us);
}

/* A worker that is heard has a state, on another host than `but`; or there is
 * none to save: no worker has committed yet, or none may have one. */
static bool state_is_heard(const struct driver *d,
                           const struct driver_host *but)
{
    bool held = false;

    if (!d->ever_committed || d->phase >= DRIVER_STOPPING)
        return true;
    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!worker_may_have_state(w))
            continue;
        held = true;
        if (&d->hosts[w->host] != but && worker_has_state(w) &&
            worker_is_heard(d, w))
            return true;
    }
    return !held;
}

/* Hosts whose agents are up; how many of them are quiet; and of how many the
 * agent is, even if their workers are heard. */
struct census {
    size_t n_hosts, n_quiet, n_mute;
};

static bool are_most(size_t n, const struct census *c)
{
    return n > 1 && 2 * n > c->n_hosts;
}

static struct census take_census(const struct driver *d)
{
    struct census c = {0};

    for (size_t i = 0; i < d->n_hosts; i++)
        if (d->hosts[i].agent_phase == AGENT_UP) {
            c.n_hosts++;
            c.n_quiet += is_quiet(d, &d->hosts[i]);
            c.n_mute += since(d, d->hosts[i].agent_heard_us) > quiet_limit(d);
        }
    return c;
}

static bool somebody_is_overdue(const struct driver *d)
{
    for (size_t i = 0; i < d->n_hosts; i++)
        if (d->hosts[i].agent_phase == AGENT_UP &&
            is_overdue(d, d->hosts[i].agent_heard_us))
            return true;
    for (size_t i = 0; i < d->n_workers; i++)
        if (d->workers[i].life == LIFE_UP &&
            worker_is_overdue(d, &d->workers[i]))
            return true;
    return false;
}

static void tell_begin(struct driver *d, const struct census *c, bool most)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (most) {
        text_u64(&t, c->n_quiet);
        text_add(&t, " of ");
        text_u64(&t, c->n_hosts);
        text_add(&t, " hosts are silent at once: the network of this machine "
                     "may be cut");
    } else {
        text_add(&t, "no worker that holds the state is heard");
    }
    text_add(&t, " -> nobody is given up before --driver-timeout");
    record_warning(d, buf);
}

uint64_t return_limit(const struct driver *d)
{
    return RETURN_US + d->config.heartbeat_timeout_us;
}

static void tell_end(struct driver *d, uint64_t lasted_us)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    text_add(&t, "hosts are heard again after ");
    text_seconds(&t, lasted_us - lasted_us % 1000000);
    text_add(&t, " -> a host that stays silent is given up");
    record_warning(d, buf);
}

/* Some hosts are heard later than others: TCP sends again, and agents and
 * workers dial again, after pauses about as long as the time before. An outage
 * that ended before anybody was overdue counts, but not one after the other;
 * agents that stay silent were stopped. */
static void end(struct driver *d, const struct census *c)
{
    uint64_t lasted_us = since(d, d->withholds_us) + quiet_limit(d);
    uint64_t most_us = return_limit(d);

    if (d->withheld || (!are_most(c->n_mute, c) && d->now_us >= d->spared_us))
        d->spared_us = d->now_us +
                       (2 * lasted_us < most_us ? 2 * lasted_us : most_us);
    if (!d->withheld)
        return;
    d->patience_us = d->now_us;
    tell_end(d, lasted_us);
}

static void begin(struct driver *d, const struct census *c, bool most)
{
    d->withheld = true;
    tell_begin(d, c, most);
}

void silence_tick(struct driver *d)
{
    struct census c = take_census(d);
    bool most = are_most(c.n_quiet, &c);

    if (!most && state_is_heard(d, NULL)) {
        if (d->withholds_us != 0)
            end(d, &c);
        d->withheld = false;
        d->withholds_us = 0;
        return;
    }
    if (d->withholds_us == 0)
        d->withholds_us = d->now_us;
    if (!d->withheld && somebody_is_overdue(d))
        begin(d, &c, most);
}

bool worker_is_silent(const struct driver *d, const struct driver_worker *w)
{
    return w->life == LIFE_UP &&
           (is_gone(d, w->heard_us) ||
            (d->withholds_us == 0 && worker_is_overdue(d, w)));
}

/* The host is heard, so its network is not the reason. A worker that a
 * successor has not heard may have said goodbye to the driver before. */
bool worker_stands_still(const struct driver *d, const struct driver_worker *w)
{
    return is_released(w) && !w->parted &&
           (!w->inherited || w->pinged_us != 0) && d->withholds_us == 0 &&
           worker_is_overdue(d, w) &&
           since(d, d->hosts[w->host].agent_heard_us) <= quiet_limit(d);
}

/* Its workers are heard, so its network is not the reason. */
bool agent_stands_still(const struct driver *d, const struct driver_host *host)
{
    return host->agent_phase == AGENT_UP &&
           is_overdue(d, host->agent_heard_us) &&
           since(d, host->heard_us) <= quiet_limit(d);
}

/* Nobody waits for an agent that was told to go. */
bool agent_is_silent(const struct driver *d, const struct driver_host *host)
{
    uint64_t heard_us = host->agent_heard_us;

    if (host->agent_phase == AGENT_STOPPING)
        return since(d, heard_us) > d->config.heartbeat_timeout_us;
    return host->agent_phase == AGENT_UP &&
           (is_gone(d, heard_us) ||
            (d->withholds_us == 0 && is_overdue(d, heard_us) &&
             state_is_heard(d, host)));
}
