/* elastic/driver/failures.c - what a failure costs (M11 of docs/protocol.md).
 * See core.h. Pure.
 *
 *   A start failed: no process of the program has run (no name, no ssh, no
 *   agent, fork or exec refused), or the host was lost as a whole. Such things
 *   pass. The host rests, for longer each time, and nothing else follows.
 *
 *   A worker failed: it uses up the budget of its slot. Then the slot is closed
 *   for a while, and its host's other slots go on.
 *
 * With --strict-blacklist one failed worker takes its host away. */
#include <errno.h>
#include <string.h>

#include "elastic/driver/core_internal.h"

enum {
    REST_FIRST_US = 1000000,
    REST_MAX_US = 30000000,
    TELL_FIRST_US = 60000000, /* the same failure is told again then, */
    TELL_MAX_US = 600000000,  /* and, the longer it lasts, more seldom */
    LASTS_US = 10000000       /* the job has not begun, and a person may wait */
};

/* ---- a start failed ------------------------------------------------------ */

/* A quarter longer each time, so that a host that was away for some time is
 * started within about a quarter of that time. From the beginning if nothing
 * has failed for a while. A host that was in use is tried again at once. */
static uint64_t next_rest(const struct driver *d,
                          const struct driver_host *host, bool ran)
{
    uint64_t rest_us = host->rest_ms * UINT64_C(1000);

    if (host->start_us == 0 || d->now_us > host->start_us + REST_MAX_US)
        return ran ? 0 : REST_FIRST_US;
    if (rest_us < REST_FIRST_US)
        return REST_FIRST_US;
    return rest_us < REST_MAX_US * 4 / 5 ? rest_us * 5 / 4 : REST_MAX_US;
}

static void record_start_failed(struct driver *d, struct driver_host *host,
                                const char *how)
{
    struct driver_record *r = record_add(d, RECORD_START_FAILED);
    uint64_t lasts_us = d->now_us - host->failing_us;
    struct text t = text_into(r->text, sizeof(r->text));

    text_add(&t, how);
    r->host = host->name;
    r->duration_us = host->start_us - d->now_us;
    r->quiet = d->now_us < host->tell_us;
    if (r->quiet)
        return;
    lasts_us = later_of(lasts_us, TELL_FIRST_US);
    host->tell_us = d->now_us +
                    (lasts_us < TELL_MAX_US ? lasts_us : TELL_MAX_US);
}

void host_failed(struct driver *d, const struct driver_host *host,
                 const char *how)
{
    struct text t = text_into(d->last_failure, sizeof(d->last_failure));

    text_add(&t, "host ");
    text_add(&t, host->name);
    text_add(&t, ": ");
    text_add(&t, how);
    d->recheck = d->replace = true;
}

void start_failed(struct driver *d, struct driver_host *host, const char *how,
                  bool ran)
{
    uint64_t rest_us;

    host_failed(d, host, how);
    if (d->now_us < host->start_us)
        return; /* the same try: another slot of it */
    rest_us = next_rest(d, host, ran);
    host->rest_ms = (uint16_t)(rest_us / 1000);
    host->start_us = d->now_us + rest_us;
    if (rest_us > 0) /* thousands are not to come back at once */
        host->start_us -= random_below(&d->random, rest_us / 4);
    if (host->failing_us == 0)
        host->failing_us = d->now_us;
    if (!ran)
        record_start_failed(d, host, how);
}

void host_works(struct driver_host *host)
{
    host->failing_us = host->tell_us = 0;
}

/* No other try would mend it. */
static bool is_lasting(int64_t error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES ||
           error == ENOEXEC || error == EISDIR || error == ELOOP ||
           error == ENAMETOOLONG || error == E2BIG || error == EINVAL ||
           error == EPERM;
}

/* The host's agent is on its way, or may be later. */
static bool has_yet_to_try(const struct driver_host *host)
{
    return host->agent_phase == AGENT_STARTING ||
           (host->agent_phase == AGENT_NONE && host->failing_us != 0);
}

/* The program has been started nowhere, and each host that was asked has
 * answered. */
bool start_is_hopeless(const struct driver *d,
                       const struct driver_worker *failed, int64_t error)
{
    if (!is_lasting(error) || d->spawned_once || !d->config.hosts_fixed)
        return false;
    for (size_t i = 0; i < d->n_hosts; i++)
        if (has_yet_to_try(&d->hosts[i]))
            return false;
    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (w != failed && w->life == LIFE_STARTING &&
            d->hosts[w->host].failing_us == 0)
            return false;
    }
    return true;
}

/* ---- a worker failed ----------------------------------------------------- */

static void end_worker(struct driver *d, struct driver_worker *w,
                       const char *how)
{
    action_kill(d, w, STOP_GRACE_MS);
    worker_dies(d, w, how, false);
}

/* Nothing is lost with the workers of this host. */
static bool is_dispensable(const struct driver *d,
                           const struct driver_host *host)
{
    return !d->ever_committed || base_is_held(d, host);
}

void host_end_workers(struct driver *d, const struct driver_host *host,
                      const char *how)
{
    bool spare = !is_dispensable(d, host);
    struct driver_worker *w = NULL;

    while ((w = next_on_host(d, host, w)) != NULL)
        if (!worker_is_dead(w) && !(spare && worker_may_have_state(w)))
            end_worker(d, w, how);
}

void blacklist_enforce(struct driver *d, const struct driver_host *host)
{
    struct driver_worker *w = NULL;
    bool changed = false, spare;

    if (!host->blacklist.listed)
        return;
    spare = !is_dispensable(d, host);
    while ((w = next_on_host(d, host, w)) != NULL)
        if (spare && worker_may_have_state(w))
            continue;
        else if (is_member(w))
            changed |= worker_drain(d, w, DRIVER_NEVER);
        else if (worker_is_live(w))
            end_worker(d, w, "is on a blacklisted host");
    if (changed)
        members_recount(d);
}

void blacklist_host(struct driver *d, struct driver_host *host, const char *why)
{
    char fate[WIRE_TEXT_MAX]; /* names the cause: it may end the job */
    struct driver_record *r;
    struct text t;

    if (host->blacklist.listed)
        return;
    blacklist_add(&host->blacklist, &d->config.blacklist, d->now_us,
                  &d->random);
    r = record_add(d, RECORD_HOST_BLACKLISTED);
    r->host = host->name;
    r->until_us = host->blacklist.until_us;
    t = text_into(r->text, sizeof(r->text));
    text_add(&t, why);
    t = text_into(fate, sizeof(fate));
    text_add(&t, "is on a blacklisted host: ");
    text_add(&t, why);
    host_end_workers(d, host, fate);
}

void slot_close(struct driver *d, const struct driver_host *host, uint32_t slot,
                const char *why)
{
    struct driver_slot *s = slot_at(d, host, slot);
    struct driver_record *r = record_add(d, RECORD_SLOT_CLOSED);
    struct text t = text_into(r->text, sizeof(r->text));

    d->wave++; /* nobody waits for who is tried there later (M7) */
    s->n_closed += s->n_closed < UINT32_MAX;
    s->next_start_us = blacklist_until(&d->config.blacklist, s->n_closed,
                                       d->now_us, &d->random);
    text_add(&t, why);
    r->host = host->name;
    r->slot = slot;
    r->until_us = s->next_start_us;
}

/* A slot that was closed is on probation, until a worker has lived there for as
 * long as failures count. */
static bool is_on_probation(const struct driver *d, struct driver_slot *s)
{
    if (d->now_us > s->next_start_us &&
        d->now_us - s->next_start_us > BUDGET_WINDOW_US)
        s->n_closed = 0;
    return s->n_closed > 0;
}

/* A program that has nowhere become ready fails by itself: twice is enough. */
static uint32_t allowance(const struct driver *d)
{
    uint32_t n = restarts_allowed(d);

    return d->layout_known || n == 0 ? n : 1;
}

void slot_failed(struct driver *d, struct driver_host *host, uint32_t slot,
                 const char *how)
{
    struct driver_slot *s = slot_at(d, host, slot);
    struct budget budget = {s->failed_us, s->n_failed};
    uint64_t delay_us = 0;

    d->recheck = d->replace = true;
    if (d->config.strict_blacklist) {
        blacklist_host(d, host, how);
    } else if (!is_on_probation(d, s) &&
               budget_fail(&budget, allowance(d), d->now_us, &delay_us)) {
        s->n_failed = budget.n;
        s->next_start_us = d->now_us + delay_us;
        d->wave++; /* its replacement is a wave of its own */
    } else {
        slot_close(d, host, slot, how);
    }
}

/* ---- and is forgiven ----------------------------------------------------- */

static void forgive_slot(struct driver_slot *s)
{
    s->n_failed = s->n_closed = 0;
    s->next_start_us = 0;
    s->closed = false;
}

void slots_forgive(struct driver *d, struct driver_host *host, size_t from)
{
    for (size_t i = from; i < host->slots_max; i++)
        forgive_slot(slot_at(d, host, i));
}

void host_forgive(struct driver *d, struct driver_host *host)
{
    host->blacklist = (struct blacklist){0};
    host->start_us = host->rest_ms = 0;
    host->n_apart = 0;
    host_works(host);
    slots_forgive(d, host, 0);
}

/* ---- nobody can be started any more -------------------------------------- */

static bool is_slot_closed(const struct driver *d, const struct driver_slot *s)
{
    return s &&
           (s->closed || (s->n_closed > 0 && d->now_us < s->next_start_us));
}

static bool is_closed(const struct driver *d, const struct driver_host *host)
{
    if (host->blacklist.listed || d->config.strict_blacklist)
        return host->blacklist.listed;
    for (uint32_t i = 0; i < host->n_slots; i++)
        if (!is_slot_closed(d, driver_slot(d, host, i)))
            return false;
    return host->n_slots > 0;
}

/* Hosts were there, and each slot of them is closed. */
static bool all_closed(const struct driver *d)
{
    bool any = false;

    for (size_t i = 0; i < d->n_hosts; i++) {
        const struct driver_host *host = &d->hosts[i];

        if (!host->listed)
            continue;
        if (!is_closed(d, host))
            return false;
        any = true;
    }
    return any;
}

/* Fork or exec has been refused for a while: here, or by the host's agent. What
 * cannot be reached may still boot. */
static bool refuses_to_start(const struct driver *d,
                             const struct driver_host *host)
{
    return host->failing_us != 0 && d->now_us - host->failing_us > LASTS_US &&
           (host->fails_here || host->agent_phase == AGENT_UP);
}

/* Closed twice: after a cooldown it failed again. */
static bool is_slot_lost(const struct driver_slot *s)
{
    return s && s->n_closed > 1;
}

static size_t slots_open(const struct driver *d, const struct driver_host *host)
{
    size_t n = 0;

    for (uint32_t i = 0; i < host->n_slots; i++) {
        const struct driver_slot *s = driver_slot(d, host, i);

        n += s && s->worker != 0
                 ? 1
                 : !refuses_to_start(d, host) && !is_slot_lost(s);
    }
    return n;
}

/* Nothing has been computed yet, and the hosts stay the same. A successor may
 * not know of a generation that the driver before has formed. */
static bool cannot_begin(const struct driver *d)
{
    size_t n_open = 0;

    if (!d->config.hosts_fixed || d->generation > 0 ||
        d->generation_floor > 0 || slots_listed(d) < d->config.min_np)
        return false;
    for (size_t i = 0; i < d->n_hosts && n_open < d->config.min_np; i++)
        n_open += slots_open(d, &d->hosts[i]);
    return n_open < d->config.min_np;
}

/* A worker of this host has asked to leave. */
static bool was_left(const struct driver *d, const struct driver_host *host)
{
    for (uint32_t i = 0; i < host->n_slots; i++) {
        const struct driver_slot *s = driver_slot(d, host, i);

        if (s && s->closed)
            return true;
    }
    return false;
}

/* The program has been started, no worker became ready, and each slot was
 * closed by a failure: a worker that asks to leave has not failed. */
static bool fails_by_itself(const struct driver *d)
{
    if (!d->spawned_once || d->layout_known)
        return false;
    for (size_t i = 0; i < d->n_hosts; i++)
        if (was_left(d, &d->hosts[i]))
            return false;
    return true;
}

/* Hosts that discovery may list are waited for, but not if the program fails by
 * itself, nor by Horovod's rule, where a host is blacklisted for good. */
const char *failures_verdict(const struct driver *d)
{
    bool strict = d->config.strict_blacklist;
    bool final = strict ? !d->config.blacklist.cooldown
                        : d->config.hosts_fixed || fails_by_itself(d);

    if (!strict && d->last_failure[0] != '\0' && cannot_begin(d))
        return "too few slots can be used for the job to begin";
    if (!final || d->counts.live > 0 || d->counts.members > 0 || !all_closed(d))
        return NULL;
    if (strict)
        return "every host is blacklisted";
    return fails_by_itself(d) ? "no worker became ready to train"
                              : "every slot is closed";
}
