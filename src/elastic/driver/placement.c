/* elastic/driver/placement.c - where workers run: hosts as discovered, one
 * agent on each, a worker in each slot, and the hosts that are not to be used.
 * M7, M11. See core.h. Pure. */
#include <string.h>

#include "base/text.h"
#include "elastic/driver/core_internal.h"

enum {
    EMPTY_ANSWERS = 3, /* in a row, until one counts */
    EMPTY_MIN_US = 2000000,
    EMPTY_QUIET_US = 60000000
};

bool host_usable(const struct driver_host *host)
{
    return host->listed && !host->blacklist.listed && !host_leaves(host);
}

/* ---- discovery ----------------------------------------------------------- */

static void record_host(struct driver *d, const struct driver_host *host,
                        enum driver_record_type type)
{
    struct driver_record *r = record_add(d, type);

    r->host = host->name;
    r->n = host->n_slots;
}

/* true: something changed. */
static bool update_row(struct driver *d, struct driver_host *row,
                       const struct host *now)
{
    bool was_listed = row->listed;
    uint32_t before = row->n_slots;
    bool turned = leaving_listed(d, row, now);

    row->listed = now != NULL;
    row->n_slots = now ? now->slots : 0;
    if (now)
        memcpy(row->user, now->user, sizeof(row->user));
    if (was_listed == row->listed && before == row->n_slots && !turned)
        return false;
    d->n_listed += (size_t)row->listed - (size_t)was_listed;
    if (!row->listed)
        host_forgive(d, row); /* it may be another one when it is back */
    else
        slots_forgive(d, row, row->n_slots);
    if (!row->listed)
        record_host(d, row, RECORD_HOST_REMOVED);
    else if (!host_leaves(row))
        record_host(d, row, RECORD_HOST_ADDED);
    if (row->listed && !was_listed)
        row->order = d->next_order++; /* back, but no longer old */
    return true;
}

static bool update_rows(struct driver *d, const struct hosts_index *index)
{
    bool changed = d->review_hosts;

    d->review_hosts = false;
    for (size_t i = 0; i < d->n_hosts; i++) {
        long found = hosts_index_find(index, d->hosts[i].name);

        changed |= update_row(d, &d->hosts[i],
                              found < 0 ? NULL : &index->items[found]);
    }
    return changed;
}

/* A script whose first command has failed prints nothing, with status 0: that
 * there is no host any more counts when it is said again and again. */
static bool is_doubtful(struct driver *d, const struct hosts *hosts)
{
    if (hosts->n > 0 || d->n_listed == 0) {
        d->n_empty = 0;
        return false;
    }
    if (d->n_empty++ == 0)
        d->empty_us = d->now_us;
    return d->n_empty < EMPTY_ANSWERS || d->now_us - d->empty_us < EMPTY_MIN_US;
}

static void tell_doubtful(struct driver *d)
{
    if (d->now_us < d->empty_quiet_us)
        return;
    d->empty_quiet_us = d->now_us + EMPTY_QUIET_US;
    record_warning(d, "discovery listed no hosts -> the last ones are kept "
                      "until it has done so three times in a row");
}

hvd_status_t on_hosts(struct driver *d, const struct hosts *hosts)
{
    struct hosts_index index;
    bool changed = false, room;

    if (d->phase == DRIVER_ADOPTING)
        return HVD_OK; /* it is asked again, when it is known who is there */
    if (is_doubtful(d, hosts)) {
        tell_doubtful(d);
        return HVD_OK;
    }
    hosts_index_init(&index, hosts);
    room = hosts_add(d, hosts, &index);
    if (room)
        changed = update_rows(d, &index);
    hosts_index_fini(&index);
    if (!room)
        return HVD_ERR_NOMEM;
    if (!d->discovered)
        d->last_failure[0] = '\0'; /* discovery's own */
    d->discovered = true;
    d->quiet_us = 0;
    if (!changed)
        return HVD_OK;
    d->wave++;
    for (size_t i = 0; i < d->n_workers; i++)
        drain_or_keep(d, &d->workers[i]);
    members_recount(d);
    return HVD_OK;
}

/* It may be used again. */
static void come_back(struct driver *d, struct driver_host *host)
{
    struct driver_worker *w = NULL;

    while ((w = next_on_host(d, host, w)) != NULL)
        drain_or_keep(d, w);
    members_recount(d);
    host->order = d->next_order++;
    d->wave++;
    if (host->listed)
        record_host(d, host, RECORD_HOST_ADDED);
}

/* ---- agents -------------------------------------------------------------- */

void agent_move(struct driver *d, struct driver_host *host,
                enum host_agent_phase to)
{
    static const unsigned moves[] = {
        [AGENT_NONE] = MOVE(AGENT_STARTING),
        [AGENT_STARTING] = MOVE(AGENT_UP) | MOVE(AGENT_STOPPING) |
                           MOVE(AGENT_NONE),
        [AGENT_UP] = MOVE(AGENT_STOPPING) | MOVE(AGENT_NONE),
        [AGENT_STOPPING] = MOVE(AGENT_STOPPING) | MOVE(AGENT_NONE),
    };

    HVD_ASSERT(moves_allow(moves, host->agent_phase, to));
    if (host->agent_phase != AGENT_NONE)
        d->n_hosts_in[host->agent_phase]--;
    if (to != AGENT_NONE)
        d->n_hosts_in[to]++;
    host->agent_phase = to;
}

void agent_set(struct driver *d, struct driver_host *host, uint64_t agent)
{
    agent_add(d, host, agent);
    agent_move(d, host, AGENT_STARTING);
    host->agent_since_us = host->agent_heard_us = d->now_us;
    host->wave = d->wave;
    host->inherited = host->meddled = host->sees_dir = false;
    if (d->next_agent <= agent)
        d->next_agent = agent + 1;
}

static void start_agent(struct driver *d, struct driver_host *host)
{
    struct driver_action *a = action_add(d, DRIVER_ACT_START_AGENT);

    agent_set(d, host, d->next_agent);
    a->agent = host->agent;
    a->host = host->name;
    a->user = host->user;
}

void agent_stop(struct driver *d, struct driver_host *host)
{
    action_add(d, DRIVER_ACT_STOP_AGENT)->agent = host->agent;
    agent_move(d, host, AGENT_STOPPING);
}

/* ---- agents: what they say ----------------------------------------------- */

void on_agent_up(struct driver *d, uint64_t agent, int64_t pid,
                 const char *name)
{
    struct driver_host *host = host_of_agent(d, agent);
    struct driver_record *r;

    if (!host)
        host = adopt_agent(d, agent, name);
    if (!host) { /* given up, or its record was lost: nobody waits for it */
        action_add(d, DRIVER_ACT_STOP_AGENT)->agent = agent;
        return;
    }
    agent_is_heard(d, host);
    if (host->agent_phase == AGENT_STOPPING) /* it could not be told before */
        agent_stop(d, host);
    if (host->agent_phase == AGENT_UP && host->doubted_by != 0)
        doubt_answered(d, host);
    if (host->agent_phase != AGENT_STARTING)
        return;
    agent_move(d, host, AGENT_UP);
    host->n_apart = 0;
    host->failing_us = 0; /* the time of a boot is no refusal (M11) */
    host->fresh = d->recheck = true;
    d->came_up = agent;
    r = record_add(d, RECORD_AGENT_STARTED);
    r->host = host->name;
    r->pid = pid;
}

/* Who was killed is asked for by each KILL, and by that alone: if he was never
 * started SPAWN would start him. Who was told to go is killed later. */
static bool is_asked_for(const struct driver *d, const struct driver_worker *w)
{
    if (!worker_is_here(w) && w->kill_us != 0)
        return w->farewell.type != MSG_NONE && w->pid != 0;
    return w->pid != 0 || d->now_us - w->told_us >= ASK_AGAIN_US;
}

/* A SPAWN has been lost, unless it is on its way, or how its worker ended (M2):
 * a repeated one is answered with what the agent knows. */
static void ask_again(struct driver *d, const struct driver_host *host)
{
    for (size_t i = 0; i < host->slots_max; i++) {
        struct driver_worker *w = worker_find(d, slot_at(d, host, i)->worker);

        if (w && is_asked_for(d, w))
            worker_spawn(d, w);
    }
}

static void answer_agent(struct driver *d, struct driver_host *host,
                         uint64_t stamp_us)
{
    struct driver_action *a;

    if (!d->config.answers_agents && d->now_us - host->pong_us < pong_every(d))
        return;
    host->pong_us = d->now_us;
    a = action_add(d, DRIVER_ACT_PONG);
    a->agent = host->agent;
    a->u.stamp_us = stamp_us;
}

void on_agent_ping(struct driver *d, const struct driver_event *ev)
{
    struct driver_host *host = host_of_agent(d, ev->u.agent.agent);
    uint64_t n_alive = ev->u.agent.n_alive;

    if (!host)
        return;
    agent_is_heard(d, host);
    host->sees_dir |= ev->u.agent.sees_dir;
    if (host->agent_phase == AGENT_STOPPING) /* that word was lost (M2) */
        agent_stop(d, host);
    else
        answer_agent(d, host, ev->u.agent.stamp_us);
    if (host->inherited && host->agent_phase != AGENT_STARTING)
        adopt_accounted(d, host, n_alive);
    if (host->agent_phase == AGENT_UP && n_alive < host->n_workers)
        ask_again(d, host);
}

static void lose_workers(struct driver *d, struct driver_host *host)
{
    static const char how[] = "died with its agent";

    struct driver_worker *w = NULL;

    while ((w = next_on_host(d, host, w)) != NULL) {
        if (is_released(w))
            finish_is_spoiled(d, w, how);
        worker_dies(d, w, how, false);
    }
    while ((w = next_on_host(d, host, NULL)) != NULL)
        worker_remove(d, w);
}

void on_agent_gone(struct driver *d, uint64_t agent, const char *how, bool here)
{
    struct driver_host *host = host_of_agent(d, agent);
    bool expected, ran, leaves;
    struct driver_record *r;
    struct text t;

    if (!host)
        return;
    expected = host->agent_phase == AGENT_STOPPING;
    ran = host->agent_phase != AGENT_STARTING || host->inherited;
    agent_move(d, host, AGENT_NONE);
    doubt_forget(d, host);
    host->fails_here = here;
    d->recheck = d->replace = true;
    if (!expected && ran) {
        r = record_add(d, RECORD_AGENT_LOST);
        r->host = host->name;
        t = text_into(r->text, sizeof(r->text));
        text_add(&t, how);
    }
    lose_workers(d, host);
    leaves = host_leaves(host);
    leaving_agent_gone(host);
    if (!expected && !leaves && d->phase < DRIVER_STOPPING)
        start_failed(d, host, how, ran); /* M11: no slot's failure */
}

/* ---- workers ------------------------------------------------------------- */

void worker_spawn(struct driver *d, struct driver_worker *w)
{
    struct driver_action *a = action_add(d, DRIVER_ACT_SPAWN);
    const struct driver_host *host = host_of(d, w);

    w->told_us = d->now_us;
    a->agent = host->agent;
    a->worker = w->id;
    a->slot = w->slot;
    a->host = host->name;
}

static void spawn(struct driver *d, struct driver_host *host, uint32_t slot)
{
    struct driver_worker *w = worker_add(d, d->next_worker, host, slot);

    if (!w)
        return;
    w->wave = host->fresh ? host->wave : d->wave;
    w->spawned_us = w->heard_us = d->now_us;
    worker_spawn(d, w);
    d->counts.live++;
}

static bool slot_free(const struct driver *d, const struct driver_host *host,
                      uint32_t i)
{
    const struct driver_slot *s = slot_at(d, host, i);

    return s->worker == 0 && !s->closed && d->now_us >= s->next_start_us &&
           d->now_us >= host->start_us;
}

/* Starting a process costs the cores that the survivors recover on: it waits
 * until each of them has completed a collective (no process start on
 * the path of a recovery), unless the job cannot go on without it. */
static bool recovering(const struct driver *d)
{
    const struct driver_counts *c = &d->counts;

    if (d->reason != READY_LOST || d->generation == 0)
        return false;
    if (d->phase == DRIVER_RENDEZVOUS)
        return c->members >= rendezvous_gate(d) &&
               d->now_us - d->opened_us < RECOVERY_US;
    return d->phase == DRIVER_RUNNING && c->going < c->members &&
           d->now_us - d->formed_us < RECOVERY_US;
}

/* It takes its time: meanwhile others are started instead. */
static bool is_late(const struct driver *d, const struct driver_host *host)
{
    return host->agent_phase == AGENT_STARTING &&
           d->now_us - host->agent_since_us > start_limit(d);
}

/* Returns how many of its slots, at most `room`, somebody is started in or wait
 * for its agent. */
static size_t fill_host(struct driver *d, struct driver_host *host, size_t room)
{
    size_t n = 0;

    if (room > 0 && !host_furnish(d, host, host->n_slots))
        return 0;
    if (agent_stands_still(d, host))
        return 0; /* it is kept for its workers, and starts nobody */
    for (uint32_t i = 0; i < host->n_slots && n < room; i++) {
        if (!slot_free(d, host, i) || host->doubted_by != 0)
            continue;
        if (host->agent_phase == AGENT_NONE)
            start_agent(d, host);
        if (host->agent_phase == AGENT_UP)
            spawn(d, host, i);
        n += host->agent_phase != AGENT_STOPPING;
    }
    if (host->agent_phase == AGENT_UP)
        host->fresh = false;
    host->promised = (uint32_t)n;
    return is_late(d, host) ? 0 : n;
}

/* In the order of the hosts, not of their agents. */
static void fill_start(struct driver *d, size_t room)
{
    for (size_t i = 0; i < d->n_hosts; i++)
        if (host_usable(&d->hosts[i]))
            room -= fill_host(d, &d->hosts[i], room);
}

/* Whoever is up. For what is missing then agents are started, for as much again
 * as it takes, as some may not come up: whoever is up first fills a gap. Not
 * all there are: that may be thousands. */
static void fill_gaps(struct driver *d, size_t room)
{
    size_t at_most;

    for (size_t i = 0; i < d->n_hosts; i++)
        if (host_usable(&d->hosts[i]) && d->hosts[i].agent_phase == AGENT_UP)
            room -= fill_host(d, &d->hosts[i], room);
    at_most = room < SIZE_MAX / 2 ? 2 * room : room;
    for (size_t i = 0; i < d->n_hosts && at_most > 0; i++)
        if (host_usable(&d->hosts[i]) && d->hosts[i].agent_phase != AGENT_UP)
            at_most -= fill_host(d, &d->hosts[i],
                                 room < at_most ? room : at_most);
}

uint64_t slots_listed(const struct driver *d)
{
    uint64_t n = 0;

    for (size_t i = 0; i < d->n_hosts; i++)
        n += d->hosts[i].n_slots;
    return n;
}

/* Who is finishing needs nobody new; a static job takes nobody. */
static bool may_fill(const struct driver *d)
{
    return d->counts.done == 0 && !recovering(d) &&
           (d->kind != READY_STATIC || d->generation == 0);
}

static bool may_place(const struct driver *d)
{
    return d->phase < DRIVER_ADOPTING && d->discovered && d->interrupts == 0;
}

static size_t room_left(const struct driver *d)
{
    size_t max = d->config.max_np ? d->config.max_np : SIZE_MAX;

    return max > d->counts.live ? max - d->counts.live : 0;
}

static void stop_if_useless(struct driver *d, struct driver_host *host)
{
    if (host->agent_phase == AGENT_UP && !host_usable(host) &&
        host->n_workers == 0)
        agent_stop(d, host);
}

void placement_progress(struct driver *d)
{
    const char *verdict;

    if (!may_place(d))
        return;
    verdict = failures_verdict(d);
    if (verdict) {
        job_stop_failed(d, verdict);
        return;
    }
    for (size_t i = 0; i < d->n_hosts; i++)
        stop_if_useless(d, &d->hosts[i]);
    if (may_fill(d) && d->generation == 0)
        fill_start(d, room_left(d));
    else if (may_fill(d))
        fill_gaps(d, room_left(d));
    plan_hosts(d);
}

/* The others are as they were when all were gone through last: they are full,
 * or wait for their agents, and of those that are started in excess of what is
 * missing this was one. Ten thousand come up one by one. */
void placement_came_up(struct driver *d, uint64_t agent)
{
    struct driver_host *host = host_of_agent(d, agent);
    size_t room = room_left(d);

    if (!host || !may_place(d))
        return;
    stop_if_useless(d, host);
    if (!may_fill(d) || !host_usable(host))
        return; /* a tick looks again */
    if (d->generation == 0 && host->promised < room)
        room = host->promised; /* those before it are to get the rest */
    fill_host(d, host, room);
}

void give_up_agent(struct driver *d, struct driver_host *host, const char *how)
{
    action_add(d, DRIVER_ACT_KILL_AGENT)->agent = host->agent;
    on_agent_gone(d, host->agent, how, false);
}

/* The agent, or a worker of its host, is of another build. Reported once for
 * each host. */
void on_other_build(struct driver *d, uint64_t agent, const char *how)
{
    struct driver_host *host = host_of_agent(d, agent);
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (!host || host->other_build)
        return;
    host->other_build = true;
    text_add(&t, "host ");
    text_add(&t, host->name);
    text_add(&t, ": ");
    text_add(&t, how);
    record_warning(d, buf);
}

/* Its host would only say the same again. */
void on_agent_refused(struct driver *d, uint64_t agent, const char *how)
{
    struct driver_host *host = host_of_agent(d, agent);

    action_add(d, DRIVER_ACT_KILL_AGENT)->agent = agent;
    if (!host)
        return;
    if (host->agent_phase == AGENT_STARTING && !host->inherited) {
        agent_move(d, host, AGENT_NONE);
        host_failed(d, host, how);
    } else {
        on_agent_gone(d, agent, how, false);
    }
    if (d->phase < DRIVER_STOPPING)
        blacklist_host(d, host, how);
}

void placement_tick(struct driver *d)
{
    for (size_t i = 0; i < d->n_hosts; i++) {
        struct driver_host *host = &d->hosts[i];
        uint64_t silent_us = d->now_us - host->agent_heard_us;

        blacklist_enforce(d, host); /* spared workers may be needed no more */
        if (host->blacklist.listed &&
            blacklist_expire(&host->blacklist, d->now_us))
            come_back(d, host);
        if (leaving_expires(d, host))
            come_back(d, host);
        doubt_tick(d, host);
        if (agent_is_silent(d, host)) {
            give_up_agent(d, host, "has stopped sending heartbeats");
        } else if (host->agent_phase == AGENT_STARTING &&
                   silent_us > d->config.start_timeout_us) {
            give_up_agent(d, host, "did not come up in time");
        }
    }
}
