/* elastic/driver/leaving.c - hosts that are about to go, and who is drained
 * from them: what discovery says (drain=SECONDS), and what a host's own agent
 * says (NOTICE). M9 of docs/protocol.md. See core.h. Pure.
 *
 * Until it has gone nothing has failed there. Nobody is started on it any more;
 * its workers leave at the next boundary, and its agent is stopped when the
 * last of them has exited. */
#include "elastic/driver/core_internal.h"

/* When nobody says in what time: as if its host were removed. */
static uint64_t moment_of(const struct driver *d, uint64_t left_us)
{
    return d->now_us +
           (left_us == DRIVER_NEVER ? d->config.drain_timeout_us : left_us);
}

bool host_leaves(const struct driver_host *host)
{
    return host->drains || host->notice != NOTICE_NONE;
}

static void record_leaving(struct driver *d, const struct driver_host *host,
                           const char *why)
{
    struct driver_record *r = record_add(d, RECORD_HOST_LEAVING);
    struct text t = text_into(r->text, sizeof(r->text));

    r->host = host->name;
    r->duration_us = host->go_us - d->now_us;
    text_add(&t, why);
}

/* ---- workers ------------------------------------------------------------- */

/* Who has to leave, by when. Half of the time is for others to come in its
 * place, where it cannot be spared; the other half for the step in which it is
 * then. */
static struct drain_times times_until(const struct driver *d, uint64_t go_us)
{
    uint64_t limit_us = d->config.drain_timeout_us, left_us;
    uint64_t end_us = d->now_us + limit_us;

    if (go_us == DRIVER_NEVER)
        return (struct drain_times){end_us, end_us, limit_us};
    left_us = go_us > d->now_us ? go_us - d->now_us : 0;
    return (struct drain_times){d->now_us + left_us / 2, d->now_us + left_us,
                                0};
}

/* What is said later, or again, counts as far as it is sooner. */
static void hasten(struct drain_times *times, const struct drain_times *by)
{
    if (by->deadline_us < times->deadline_us) {
        times->deadline_us = by->deadline_us;
        times->patience_us = by->patience_us;
    }
    if (by->spare_us < times->spare_us)
        times->spare_us = by->spare_us;
}

const char *drain_reason(struct driver *d, const struct driver_worker *w)
{
    const struct driver_host *host = host_of(d, w);

    if (host_leaves(host))
        return "its host is about to go";
    if (host->blacklist.listed)
        return "its host is blacklisted";
    return w->slot < host->n_slots ? "it asked to leave"
                                   : "its host was removed";
}

bool worker_drain(struct driver *d, struct driver_worker *w, uint64_t go_us)
{
    struct drain_times by = times_until(d, go_us);

    if (!worker_is_here(w))
        return false;
    if (w->drain != DRAIN_NONE) {
        hasten(&w->drain_by, &by);
        return false;
    }
    w->drain = DRAIN_WANTED;
    w->drain_by = by;
    if (!worker_is_enlisted(w)) { /* nobody needs it: it goes at once */
        if (w->life == LIFE_UP) {
            say_farewell(d, w, MSG_SHUTDOWN, SHUTDOWN_DRAINED, 0,
                         drain_reason(d, w));
        } else {
            worker_move(w, LIFE_ENDING);
            action_kill(d, w, STOP_GRACE_MS);
        }
    }
    return true;
}

void worker_undrain(struct driver_worker *w)
{
    if (worker_is_here(w))
        w->drain = DRAIN_NONE;
}

void drain_or_keep(struct driver *d, struct driver_worker *w)
{
    const struct driver_host *host = host_of(d, w);

    if (host_leaves(host))
        worker_drain(d, w, host->go_us);
    else if (w->slot >= host->n_slots) /* none, if it is not listed */
        worker_drain(d, w, DRIVER_NEVER);
    else if (!slot_of(d, w)->closed && !host->blacklist.listed)
        worker_undrain(w); /* it came back before it had gone */
}

void on_drain_me(struct driver *d, struct driver_worker *w)
{
    if (w->drain != DRAIN_NONE || !worker_is_here(w))
        return;
    slot_of(d, w)->closed = true; /* it asked for its place to be gone */
    worker_drain(d, w, DRIVER_NEVER);
    members_recount(d);
}

static void drain_host(struct driver *d, const struct driver_host *host)
{
    bool changed = false;

    for (size_t i = 0; i < host->slots_max; i++) {
        struct driver_worker *w = worker_find(d, slot_at(d, host, i)->worker);

        if (w)
            changed |= worker_drain(d, w, host->go_us);
    }
    if (changed)
        members_recount(d);
}

/* ---- hosts --------------------------------------------------------------- */

/* It goes then. A time that was said before stands if it is sooner. */
static void goes_by(struct driver_host *host, bool before, uint64_t go_us)
{
    if (!before || go_us < host->go_us)
        host->go_us = go_us;
    if (host->notice == NOTICE_STANDS)
        host->notice_until_us = host->go_us + NOTICE_COOLDOWN_US;
}

bool leaving_listed(struct driver *d, struct driver_host *host,
                    const struct host *now)
{
    bool before = host_leaves(host), drained = host->drains;

    host->drains = now && now->drains;
    if (!now && host->notice == NOTICE_STANDS)
        host->notice = host->agent_phase == AGENT_NONE ? NOTICE_NONE
                                                       : NOTICE_PASSES;
    if (host->drains) {
        goes_by(host, before, moment_of(d, now->drain_s * UINT64_C(1000000)));
        if (drained)
            drain_host(d, host); /* it may be sooner than it was */
        if (!before)
            record_leaving(d, host, "discovery says so");
    }
    return host->drains != drained;
}

/* Said again with each beat of the agent, until it is stopped: by who has been
 * adopted since, or heard nothing before, too. */
void on_notice(struct driver *d, uint64_t agent, uint64_t left_us,
               const char *text)
{
    struct driver_host *host = host_of_agent(d, agent);
    bool before;

    if (!host || d->phase >= DRIVER_ADOPTING)
        return;
    before = host_leaves(host);
    if (host->notice == NOTICE_NONE)
        host->notice = host->listed ? NOTICE_STANDS : NOTICE_PASSES;
    goes_by(host, before, moment_of(d, left_us));
    if (!before) {
        record_leaving(d, host, text[0] != '\0' ? text : "it had SIGTERM");
        d->recheck = d->replace = true;
    }
    drain_host(d, host);
}

/* In another life of the machine that may have been far in the future. */
void leaving_inherit(const struct driver *d, struct driver_host *host,
                     uint64_t until_us)
{
    uint64_t most_us = d->now_us + NOTICE_COOLDOWN_US;

    if (until_us == 0)
        return;
    host->notice = NOTICE_STANDS;
    host->notice_until_us = until_us < most_us ? until_us : most_us;
    host->go_us = until_us > NOTICE_COOLDOWN_US ? until_us - NOTICE_COOLDOWN_US
                                                : 0;
}

void leaving_agent_gone(struct driver_host *host)
{
    if (host->notice == NOTICE_PASSES)
        host->notice = NOTICE_NONE;
}

bool leaving_expires(const struct driver *d, struct driver_host *host)
{
    if (host->notice != NOTICE_STANDS || host->agent_phase != AGENT_NONE ||
        d->now_us < host->notice_until_us)
        return false;
    host->notice = NOTICE_NONE;
    return !host_leaves(host);
}
