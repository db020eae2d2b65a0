/* elastic/driver/placement.c - where workers run: hosts as discovered, one
 * agent on each, a worker in each slot, and the hosts that are not to be used.
 * M7, M11. See core.h. Pure. */
#include <string.h>

#include "elastic/driver/core_internal.h"

bool host_usable(const struct driver_host *host)
{
    return host->used && host->listed && !host->blacklist.listed;
}

struct driver_host *host_of_agent(struct driver *d, uint64_t agent)
{
    for (size_t i = 0; i < d->n_hosts; i++)
        if (d->hosts[i].agent_phase != AGENT_NONE && d->hosts[i].agent == agent)
            return &d->hosts[i];
    return NULL;
}

static bool host_empty(const struct driver_host *host)
{
    for (size_t i = 0; i < host->slots_max; i++)
        if (host->slots[i].worker != 0)
            return false;
    return true;
}

/* ---- discovery ----------------------------------------------------------- */

struct driver_host *host_named(struct driver *d, const char *name)
{
    for (size_t i = 0; i < d->n_hosts; i++)
        if (strcmp(d->hosts[i].name, name) == 0)
            return &d->hosts[i];
    return NULL;
}

static size_t total_slots(const struct driver *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n_hosts; i++)
        n += d->hosts[i].slots_max;
    return n;
}

bool driver_reserve(struct driver *d, size_t n_hosts, size_t n_slots)
{
    /* rows of workers live until their exit, in their slot; per step a worker
     * costs a few actions, a host likewise */
    size_t workers = total_slots(d) + n_slots, hosts = d->n_hosts + n_hosts;

    return array_reserve(&d->hosts, &d->hosts_max, hosts) &&
           array_reserve(&d->workers, &d->workers_max, workers) &&
           array_reserve(&d->candidates, &d->candidates_max, workers + 1) &&
           array_reserve(&d->scratch, &d->scratch_max, 4 * (workers + 1)) &&
           array_reserve(&d->table.entries, &d->table.entries_max, workers) &&
           array_reserve(&d->actions, &d->actions_max,
                         10 * workers + 7 * hosts + 64);
}

struct driver_host *host_add(struct driver *d, const char *name)
{
    size_t n = strnlen(name, HOSTS_NAME_MAX - 1);
    struct driver_host *row;

    if (!driver_reserve(d, 1, 0))
        return NULL;
    row = &d->hosts[d->n_hosts++];
    memset(row, 0, sizeof(*row));
    memcpy(row->name, name, n);
    row->used = true;
    row->order = d->next_order++;
    return row;
}

bool host_furnish(struct driver *d, struct driver_host *host, size_t n_slots)
{
    return array_reserve(&host->slots, &host->slots_max, n_slots) &&
           driver_reserve(d, 0, 0);
}

static bool reserve_rows(struct driver *d, const struct hosts *hosts)
{
    size_t n_slots = 0;

    for (size_t i = 0; i < hosts->n; i++)
        n_slots += hosts->items[i].slots;
    if (!driver_reserve(d, hosts->n, n_slots))
        return false;
    for (size_t i = 0; i < hosts->n; i++) {
        struct driver_host *row = host_named(d, hosts->items[i].name);

        if (!row) /* not listed yet: harmless if we fail later */
            row = host_add(d, hosts->items[i].name);
        if (!row ||
            !array_reserve(&row->slots, &row->slots_max, hosts->items[i].slots))
            return false;
    }
    return driver_reserve(d, 0, 0); /* slots grow in powers of two */
}

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

    row->listed = now != NULL;
    row->n_slots = now ? now->slots : 0;
    if (was_listed == row->listed && before == row->n_slots)
        return false;
    if (row->listed)
        record_host(d, row, RECORD_HOST_ADDED);
    else
        record_host(d, row, RECORD_HOST_REMOVED);
    if (row->listed && !was_listed)
        row->order = d->next_order++; /* back, but no longer old */
    for (size_t i = before; i < row->n_slots; i++)
        row->slots[i].closed = false; /* a new place */
    return true;
}

static void drain_or_keep(struct driver *d, struct driver_worker *w)
{
    const struct driver_host *host = host_of(d, w);

    if (!worker_is_here(w))
        return;
    if (!host->listed || w->slot >= host->n_slots)
        worker_drain(d, w);
    else if (w->drain != DRAIN_NONE && !slot_of(d, w)->closed)
        worker_undrain(w); /* it came back before it had gone */
}

hvd_status_t on_hosts(struct driver *d, const struct hosts *hosts)
{
    bool changed = d->review_hosts;

    if (d->phase == DRIVER_ADOPTING)
        return HVD_OK; /* it is asked again, when it is known who is there */
    if (!reserve_rows(d, hosts))
        return HVD_ERR_NOMEM;
    d->discovered = true;
    d->review_hosts = false;
    for (size_t i = 0; i < d->n_hosts; i++) {
        long found = hosts_find(hosts, d->hosts[i].name);

        changed |= update_row(d, &d->hosts[i],
                              found < 0 ? NULL : &hosts->items[found]);
    }
    if (!changed)
        return HVD_OK;
    d->wave++;
    for (size_t i = 0; i < d->n_workers; i++)
        drain_or_keep(d, &d->workers[i]);
    members_recount(d);
    return HVD_OK;
}

/* ---- failures and the blacklist ------------------------------------------ */

static void blacklist_host(struct driver *d, struct driver_host *host,
                           const char *why)
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
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (&d->hosts[w->host] != host || worker_is_dead(w))
            continue;
        action_kill(d, w, STOP_GRACE_MS);
        worker_dies(d, w, fate, false);
    }
}

void slot_failed(struct driver *d, struct driver_host *host, uint32_t slot,
                 const char *how)
{
    struct driver_slot *s = &host->slots[slot];
    uint32_t restarts = d->config.strict_blacklist ? 0
                                                   : d->config.slot_restarts;
    uint64_t delay_us = 0;

    d->recheck = d->replace = true;
    if (budget_fail(&s->budget, restarts, d->now_us, &delay_us)) {
        s->next_start_us = d->now_us + delay_us;
        d->wave++; /* its replacement is a wave of its own */
    } else {
        blacklist_host(d, host, how);
    }
}

static void forgive(struct driver *d, struct driver_host *host)
{
    for (size_t i = 0; i < host->slots_max; i++) {
        budget_reset(&host->slots[i].budget);
        host->slots[i].next_start_us = 0;
    }
    host->order = d->next_order++;
    d->wave++;
    d->recheck = d->replace = true;
    if (host->listed)
        record_host(d, host, RECORD_HOST_ADDED);
}

/* ---- agents -------------------------------------------------------------- */

void agent_move(struct driver_host *host, enum host_agent_phase to)
{
    static const unsigned moves[] = {
        [AGENT_NONE] = MOVE(AGENT_STARTING),
        [AGENT_STARTING] = MOVE(AGENT_UP) | MOVE(AGENT_STOPPING) |
                           MOVE(AGENT_NONE),
        [AGENT_UP] = MOVE(AGENT_STOPPING) | MOVE(AGENT_NONE),
        [AGENT_STOPPING] = MOVE(AGENT_STOPPING) | MOVE(AGENT_NONE),
    };

    HVD_ASSERT(moves_allow(moves, host->agent_phase, to));
    host->agent_phase = to;
}

void agent_set(struct driver *d, struct driver_host *host, uint64_t agent)
{
    host->agent = agent;
    agent_move(host, AGENT_STARTING);
    host->agent_since_us = host->agent_heard_us = d->now_us;
    host->wave = d->wave;
    host->inherited = false;
    if (d->next_agent <= agent)
        d->next_agent = agent + 1;
}

static void start_agent(struct driver *d, struct driver_host *host)
{
    struct driver_action *a = action_add(d, DRIVER_ACT_START_AGENT);

    agent_set(d, host, d->next_agent);
    a->agent = host->agent;
    a->host = host->name;
}

void agent_stop(struct driver *d, struct driver_host *host)
{
    action_add(d, DRIVER_ACT_STOP_AGENT)->agent = host->agent;
    agent_move(host, AGENT_STOPPING);
}

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
    host->agent_heard_us = d->now_us;
    if (host->agent_phase == AGENT_STOPPING) /* it could not be told before */
        agent_stop(d, host);
    if (host->agent_phase != AGENT_STARTING)
        return;
    agent_move(host, AGENT_UP);
    host->fresh = true;
    d->recheck = d->replace = true;
    r = record_add(d, RECORD_AGENT_STARTED);
    r->host = host->name;
    r->pid = pid;
}

static void send_spawn(struct driver *d, const struct driver_host *host,
                       const struct driver_worker *w)
{
    struct driver_action *a = action_add(d, DRIVER_ACT_SPAWN);

    a->agent = host->agent;
    a->worker = w->id;
    a->slot = w->slot;
    a->host = host->name;
}

static size_t n_occupied(const struct driver_host *host)
{
    size_t n = 0;

    for (size_t i = 0; i < host->slots_max; i++)
        n += host->slots[i].worker != 0;
    return n;
}

/* A SPAWN has been lost, or how it ended (M2): a repeated one is answered with
 * what the agent knows. So is a KILL, which is repeated anyhow. */
static void ask_again(struct driver *d, const struct driver_host *host)
{
    for (size_t i = 0; i < host->slots_max; i++) {
        uint64_t id = host->slots[i].worker;
        const struct driver_worker *w = id ? worker_find(d, id) : NULL;

        if (w && (worker_is_here(w) || w->kill_us == 0))
            send_spawn(d, host, w);
    }
}

void on_agent_ping(struct driver *d, uint64_t agent, uint64_t n_alive)
{
    struct driver_host *host = host_of_agent(d, agent);

    if (!host)
        return;
    host->agent_heard_us = d->now_us;
    if (host->inherited && host->agent_phase != AGENT_STARTING)
        adopt_accounted(d, host, n_alive);
    if (host->agent_phase == AGENT_UP && n_alive < n_occupied(host))
        ask_again(d, host);
}

static void lose_workers(struct driver *d, struct driver_host *host)
{
    static const char how[] = "died with its agent";

    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (&d->hosts[w->host] != host)
            continue;
        if (is_released(w))
            finish_is_spoiled(d, w, how);
        worker_dies(d, w, how, true);
    }
    for (size_t i = d->n_workers; i-- > 0;)
        if (&d->hosts[d->workers[i].host] == host &&
            d->workers[i].life != LIFE_GONE)
            worker_remove(d, &d->workers[i]);
}

void on_agent_gone(struct driver *d, uint64_t agent, const char *how)
{
    struct driver_host *host = host_of_agent(d, agent);
    bool expected, had_workers;
    struct driver_record *r;
    struct text t;

    if (!host)
        return;
    expected = host->agent_phase == AGENT_STOPPING;
    had_workers = !host_empty(host);
    agent_move(host, AGENT_NONE);
    d->recheck = d->replace = true;
    if (!expected) {
        r = record_add(d, RECORD_AGENT_LOST);
        r->host = host->name;
        t = text_into(r->text, sizeof(r->text));
        text_add(&t, how);
    }
    lose_workers(d, host);
    if (expected || had_workers || d->phase >= DRIVER_STOPPING)
        return;
    t = text_into(d->last_failure, sizeof(d->last_failure));
    text_add(&t, "the agent on ");
    text_add(&t, host->name);
    text_add(&t, " ");
    text_add(&t, how);
    for (uint32_t i = 0; i < host->n_slots; i++) /* M11: each of its slots */
        slot_failed(d, host, i, how);
}

/* ---- workers ------------------------------------------------------------- */

static void spawn(struct driver *d, struct driver_host *host, uint32_t slot)
{
    struct driver_worker *w;

    if (d->n_workers == d->workers_max)
        workers_compact(d);
    HVD_ASSERT(d->n_workers < d->workers_max);
    w = &d->workers[d->n_workers++];
    memset(w, 0, sizeof(*w));
    w->id = d->next_worker++;
    w->host = (uint32_t)(host - d->hosts);
    w->slot = slot;
    w->wave = host->fresh ? host->wave : d->wave;
    w->spawned_us = w->heard_us = d->now_us;
    host->slots[slot].worker = w->id;
    send_spawn(d, host, w);
    d->counts.live++;
}

static bool slot_free(const struct driver *d, const struct driver_host *host,
                      uint32_t i)
{
    const struct driver_slot *s = &host->slots[i];

    return s->worker == 0 && !s->closed && d->now_us >= s->next_start_us;
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

/* How many of its slots wait for its agent. */
static size_t fill_host(struct driver *d, struct driver_host *host, size_t max)
{
    size_t waiting = 0;

    for (uint32_t i = 0; i < host->n_slots && d->counts.live + waiting < max;
         i++) {
        if (!slot_free(d, host, i))
            continue;
        if (host->agent_phase == AGENT_NONE)
            start_agent(d, host);
        if (host->agent_phase == AGENT_UP)
            spawn(d, host, i);
        else
            waiting += host->agent_phase == AGENT_STARTING;
    }
    if (host->agent_phase == AGENT_UP)
        host->fresh = false;
    return waiting;
}

/* Hosts were there, and none can ever be used again. */
static bool all_blacklisted(const struct driver *d)
{
    bool any = false;

    for (size_t i = 0; i < d->n_hosts; i++) {
        const struct driver_host *h = &d->hosts[i];

        if (!h->listed)
            continue;
        if (!h->blacklist.listed || h->blacklist.until_us != UINT64_MAX)
            return false;
        any = true;
    }
    return any && d->counts.live == 0 && d->counts.members == 0;
}

void placement_progress(struct driver *d)
{
    size_t max = d->config.max_np ? d->config.max_np : SIZE_MAX;

    if (d->phase >= DRIVER_ADOPTING || !d->discovered || d->interrupts > 0)
        return;
    if (all_blacklisted(d)) {
        job_stop_failed(d, "every host is blacklisted");
        return;
    }
    /* The start is in the order of the hosts, not of their agents. Later
     * whoever is up first fills a gap. */
    for (size_t i = 0; i < d->n_hosts; i++) {
        struct driver_host *host = &d->hosts[i];
        size_t waiting = 0;

        if (host->agent_phase == AGENT_UP && !host_usable(host) &&
            host_empty(host))
            agent_stop(d, host);
        /* who is finishing needs nobody new; a static job takes nobody */
        if (host_usable(host) && d->counts.done == 0 && !recovering(d) &&
            (d->kind != READY_STATIC || d->generation == 0))
            waiting = fill_host(d, host, max);
        if (d->generation == 0)
            max -= waiting;
    }
}

void give_up_agent(struct driver *d, struct driver_host *host, const char *how)
{
    action_add(d, DRIVER_ACT_KILL_AGENT)->agent = host->agent;
    on_agent_gone(d, host->agent, how);
}

void placement_tick(struct driver *d)
{
    for (size_t i = 0; i < d->n_hosts; i++) {
        struct driver_host *host = &d->hosts[i];
        uint64_t silent_us = d->now_us - host->agent_heard_us;

        if (host->blacklist.listed &&
            blacklist_expire(&host->blacklist, d->now_us))
            forgive(d, host);
        if ((host->agent_phase == AGENT_UP ||
             host->agent_phase == AGENT_STOPPING) && /* died on its way out */
            silent_us > d->config.heartbeat_timeout_us) {
            give_up_agent(d, host, "has stopped sending heartbeats");
        } else if (host->agent_phase == AGENT_STARTING &&
                   silent_us > start_limit(d)) {
            give_up_agent(d, host, "did not come up in time");
        }
    }
}
