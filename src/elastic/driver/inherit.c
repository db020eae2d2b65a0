/* elastic/driver/inherit.c - what the driver before wrote down (memory.h)
 * becomes rows of the core again. See core.h and adopt.c. Pure. */
#include <stdlib.h>
#include <string.h>

#include "elastic/driver/core_internal.h"

enum {
    ADOPT_MIN_US = 5000000,  /* to find the successor and dial it */
    ADOPT_FAR_US = 10000000, /* ... where it is called each 1.2 s */
    BEATS_TO_NOTICE = 2
};

/* ---- rows out of what was written down ----------------------------------- */

/* What was written down in another life of the machine lies in the future. */
static uint64_t not_after(uint64_t us, uint64_t now_us)
{
    return us < now_us ? us : now_us;
}

/* Nor is it as far away as in that other life. */
static uint64_t not_beyond(uint64_t us, uint64_t limit_us)
{
    return us < limit_us ? us : limit_us;
}

bool inherit_agent(struct driver *d, struct driver_host *host, uint64_t agent,
                   bool stopping)
{
    if (!host_furnish(d, host, 0))
        return false;
    agent_set(d, host, agent);
    host->inherited = true;
    if (stopping)
        agent_move(d, host, AGENT_STOPPING);
    return true;
}

static bool inherit_host(struct driver *d, const struct entry_host *entry)
{
    struct driver_host *host = host_add(d, entry->name);

    if (!host || !host_furnish(d, host, entry->n_slots))
        return false;
    memcpy(host->user, entry->user, sizeof(host->user));
    host->listed = entry->listed;
    d->n_listed += entry->listed;
    host->n_slots = entry->listed ? entry->n_slots : 0;
    host->order = entry->order;
    host->blacklist = (struct blacklist){
        entry->blacklisted, entry->n_blacklisted, entry->blacklisted_until_us};
    if (host->blacklist.until_us != UINT64_MAX) /* for good */
        host->blacklist.until_us = not_beyond(
            host->blacklist.until_us, d->now_us + d->config.blacklist.high_us);
    leaving_inherit(d, host, entry->noticed_until_us);
    if (d->next_order <= host->order)
        d->next_order = host->order + 1;
    return true;
}

static int by_order(const void *a, const void *b)
{
    const struct driver_host *x = a, *y = b;

    return (x->order > y->order) - (x->order < y->order);
}

static bool inherit_hosts(struct driver *d, const struct memory *m)
{
    for (size_t i = 0; i < m->n_hosts; i++)
        if (!inherit_host(d, &m->hosts[i]))
            return false;
    qsort(d->hosts, d->n_hosts, sizeof(*d->hosts), by_order);
    for (size_t i = 0; i < m->n_hosts; i++) {
        struct driver_host *host = host_named(d, m->hosts[i].name);

        if (m->hosts[i].agent == 0)
            continue;
        if (!inherit_agent(d, host, m->hosts[i].agent, m->hosts[i].stopping))
            return false;
        host->sees_dir = m->hosts[i].sees_dir;
    }
    d->discovered = true; /* the first answer was its predecessor's matter */
    d->knows_nobody = true;
    for (size_t i = 0; i < d->n_hosts; i++)
        d->knows_nobody &= !d->hosts[i].inherited;
    d->review_hosts = true;
    return true;
}

/* The newest, if this driver allows fewer. */
static void inherit_failures(const struct driver *d, struct driver_slot *slot,
                             const struct entry_slot *entry)
{
    uint32_t allowed = restarts_allowed(d), k = 0;

    if (entry->n_failed > allowed)
        k = entry->n_failed - allowed;
    for (; k < entry->n_failed; k++)
        slot->failed_us[slot->n_failed++] = not_after(
            entry->failed_s[k] * UINT64_C(1000000), d->now_us);
}

static uint64_t inherit_start(const struct driver *d,
                              const struct entry_slot *entry)
{
    uint64_t limit_us = entry->n_closed > 0 ? d->config.blacklist.high_us
                                            : BUDGET_DELAY_MAX_US;

    if (entry->next_start_us == UINT64_MAX) /* for good */
        return UINT64_MAX;
    return not_beyond(entry->next_start_us, d->now_us + limit_us);
}

static bool inherit_slots(struct driver *d, const struct memory *m)
{
    for (size_t i = 0; i < m->n_slots; i++) {
        const struct entry_slot *entry = &m->slots[i];
        struct driver_host *host = host_named(d, entry->host);
        struct driver_slot *slot;

        if (!host)
            continue;
        if (!host_furnish(d, host, entry->slot + 1))
            return false;
        slot = slot_at(d, host, entry->slot);
        slot->closed = entry->closed;
        slot->n_closed = entry->n_closed;
        slot->next_start_us = inherit_start(d, entry);
        inherit_failures(d, slot, entry);
    }
    return true;
}

/* Whoever was in the slot has ended, and the word of it was lost. */
static void vacate(struct driver *d, uint64_t occupant)
{
    struct driver_worker *w = worker_find(d, occupant);

    if (!w)
        return;
    worker_dies(d, w, "has ended unseen", false);
    worker_remove(d, w);
}

struct driver_worker *inherit_row(struct driver *d, uint64_t id,
                                  struct driver_host *host, uint32_t slot)
{
    struct driver_worker *w;

    if (!host_furnish(d, host, slot + 1))
        return NULL;
    if (slot_at(d, host, slot)->worker != 0)
        vacate(d, slot_at(d, host, slot)->worker);
    w = worker_add(d, id, host, slot);
    if (!w)
        return NULL;
    w->inherited = true;
    w->wave = d->wave;
    w->spawned_us = w->heard_us = w->progress_us = d->now_us;
    return w;
}

/* Who had been told to go is told again, and killed if it does not. */
static void send_off(struct driver *d, struct driver_worker *w)
{
    say_farewell(d, w, MSG_SHUTDOWN, SHUTDOWN_DRAINED, 0, drain_reason(d, w));
    w->kill_us = d->now_us + d->config.drain_timeout_us;
}

static void go_again(struct driver *d, struct driver_worker *w,
                     const struct entry_worker *entry,
                     const struct entry_state *state)
{
    if (!state->stopping)
        send_off(d, w);
    else if (state->released && !entry->released)
        finish_dismiss(d, w);
}

static bool inherit_worker(struct driver *d, const struct entry_worker *entry,
                           const struct entry_state *state)
{
    struct driver_host *host = host_named(d, entry->host);
    struct driver_worker *w;

    if (!host || host->agent != entry->agent)
        return true; /* it died with its agent */
    w = inherit_row(d, entry->worker, host, entry->slot);
    if (!w)
        return false;
    w->pid = entry->pid;
    d->spawned_once |= entry->pid != 0 || entry->up;
    if (entry->up)
        worker_move(w, LIFE_UP);
    if (entry->going)
        go_again(d, w, entry, state);
    if (entry->dying) {
        worker_move(w, LIFE_DEAD);
        w->kill_us = d->now_us; /* the KILL may be lost */
    }
    return true;
}

static bool inherit_workers(struct driver *d, const struct memory *m)
{
    for (size_t i = 0; i < m->n_workers; i++)
        if (!inherit_worker(d, &m->workers[i], &m->state))
            return false;
    return true;
}

/* ---- the job as a whole -------------------------------------------------- */

static void inherit_numbers(struct driver *d, const struct entry_state *state)
{
    d->next_worker = later_of(d->next_worker, state->workers_limit + 1);
    d->next_agent = later_of(d->next_agent, state->agents_limit + 1);
    d->generation_floor = state->generations_limit;
    d->hold_floor = state->holds_limit;
    d->generation = state->generation;
}

static void inherit_state(struct driver *d, const struct entry_state *state)
{
    inherit_numbers(d, state);
    d->kind = state->kind;
    d->layout_known = state->kind != 0;
    memcpy(d->layout, state->layout, sizeof(d->layout));
    memcpy(d->layout_text, state->layout_text, sizeof(d->layout_text));
    d->ever_committed = state->ever_committed;
    d->fruitless = state->fruitless;
    d->alike = state->alike;
    d->fruitless_us = not_after(state->fruitless_us, d->now_us);
    d->resets = state->resets;
    d->spawned_once |= state->generation > 0;
    memcpy(d->last_failure, state->last_failure, sizeof(d->last_failure));
    if (state->interrupted) {
        d->interrupts = 1;
        d->interrupted_us = d->now_us;
        d->drained_us = d->now_us + d->config.drain_timeout_us;
        d->exit_status = (int)state->exit_status;
    }
}

bool driver_has_far_agents(const struct memory *m)
{
    for (size_t i = 0; i < m->n_hosts; i++)
        if (m->hosts[i].agent != 0 && m->hosts[i].pid < 0)
            return true;
    return false;
}

static uint64_t adopt_limit(const struct driver *d, const struct memory *m)
{
    uint64_t limit_us = d->config.heartbeat_timeout_us +
                        BEATS_TO_NOTICE * d->config.heartbeat_us;

    return later_of(limit_us,
                    driver_has_far_agents(m) ? ADOPT_FAR_US : ADOPT_MIN_US);
}

void driver_adopt_longer(struct driver *d, uint64_t now_us)
{
    if (d->phase == DRIVER_ADOPTING && d->adopt_us < now_us + ADOPT_FAR_US)
        d->adopt_us = now_us + ADOPT_FAR_US;
}

bool driver_inherit(struct driver *d, const struct memory *m)
{
    HVD_ASSERT(d->n_workers == 0 && d->n_hosts == 0);
    if (!inherit_hosts(d, m) || !inherit_slots(d, m) || !inherit_workers(d, m))
        return false;
    inherit_state(d, &m->state);
    if (m->state.stopping) {
        finish_inherit(d, &m->state);
    } else {
        driver_move(d, DRIVER_ADOPTING);
        d->adopt_us = d->now_us + adopt_limit(d, m);
    }
    members_recount(d);
    return true;
}
