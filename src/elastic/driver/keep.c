/* elastic/driver/keep.c - from rows of the core to entries. See keep.h. Pure.
 * */
#include "elastic/driver/keep.h"

#include <string.h>

#include "base/array.h"

/* ---- the job as a whole -------------------------------------------------- */

static uint64_t limit_of(uint64_t next, uint64_t limit, uint64_t step)
{
    return next + step / 2 > limit ? ((next + step / 2) / step + 1) * step
                                   : limit;
}

/* Of the same size, and zeroed. */
static void copy_text(char *to, const char *text)
{
    memcpy(to, text, strlen(text));
}

static void fill_numbers(const struct driver *d, const struct entry_state *was,
                         struct entry_state *state)
{
    uint64_t generation = d->generation > d->generation_floor
                              ? d->generation
                              : d->generation_floor;
    uint64_t hold = d->hold_sequence > d->hold_floor ? d->hold_sequence
                                                     : d->hold_floor;

    state->workers_limit = limit_of(d->next_worker, was->workers_limit,
                                    KEEP_NUMBERS);
    state->agents_limit = limit_of(d->next_agent, was->agents_limit,
                                   KEEP_NUMBERS);
    state->generations_limit = limit_of(generation, was->generations_limit,
                                        KEEP_GENERATIONS);
    state->holds_limit = limit_of(hold, was->holds_limit, KEEP_NUMBERS);
}

static void fill_end(const struct driver *d, struct entry_state *state)
{
    state->stopping = d->phase >= DRIVER_STOPPING;
    state->ended = d->phase == DRIVER_STOPPED;
    state->exit_status = (uint32_t)d->exit_status;
    if (!state->stopping)
        return;
    state->released = d->released;
    state->unsure = d->unsure;
    copy_text(state->verdict, d->verdict);
}

static void keep_state(const struct keep *k, const struct driver *d)
{
    const struct entry_state *was = &k->memory->state;
    struct entry entry;
    struct entry_state *state = &entry.u.state;

    memset(&entry, 0, sizeof(entry));
    entry.type = ENTRY_STATE;
    state->term = d->config.term;
    state->machine = was->machine;
    fill_numbers(d, was, state);
    state->generation = d->generation;
    state->kind = d->kind;
    memcpy(state->layout, d->layout, sizeof(state->layout));
    copy_text(state->layout_text, d->layout_text);
    state->ever_committed = d->ever_committed;
    state->fruitless = d->fruitless;
    state->alike = d->alike;
    state->fruitless_us = d->fruitless_us;
    state->resets = d->resets;
    state->interrupted = d->interrupts > 0;
    copy_text(state->last_failure, d->last_failure);
    fill_end(d, state);
    if (memcmp(state, was, sizeof(*state)) != 0)
        k->put(k->arg, &entry);
}

/* ---- rows ---------------------------------------------------------------- */

static void keep_host(const struct keep *k, const struct driver_host *host)
{
    const struct entry_host *was = memory_host(k->memory, host->name);
    struct entry entry;
    struct entry_host *row = &entry.u.host;

    memset(&entry, 0, sizeof(entry));
    entry.type = ENTRY_HOST;
    copy_text(row->name, host->name);
    copy_text(row->user, host->user);
    row->listed = host->listed;
    row->n_slots = host->n_slots;
    row->order = host->order;
    row->blacklisted = host->blacklist.listed;
    row->n_blacklisted = host->blacklist.count;
    row->blacklisted_until_us = host->blacklist.until_us;
    row->agent = host->agent_phase == AGENT_NONE ? 0 : host->agent;
    row->stopping = host->agent_phase == AGENT_STOPPING;
    row->sees_dir = row->agent != 0 && host->sees_dir;
    if (host->notice == NOTICE_STANDS)
        row->noticed_until_us = host->notice_until_us;
    if (was && was->agent == row->agent) {
        row->pid = was->pid;
        row->started = was->started;
    }
    if (was ? memcmp(was, row, sizeof(*row)) != 0
            : row->listed || row->agent != 0)
        k->put(k->arg, &entry);
}

static void keep_slot(const struct keep *k, const struct driver *d,
                      const struct driver_host *host, uint32_t number)
{
    const struct entry_slot *was = memory_slot(k->memory, host->name, number);
    const struct driver_slot *slot = driver_slot(d, host, number);
    struct entry entry;
    struct entry_slot *row = &entry.u.slot;

    if (!slot)
        return;
    memset(&entry, 0, sizeof(entry));
    entry.type = ENTRY_SLOT;
    copy_text(row->host, host->name);
    row->slot = number;
    row->closed = slot->closed;
    row->next_start_us = slot->next_start_us;
    row->n_closed = slot->n_closed;
    row->n_failed = slot->n_failed;
    for (uint32_t i = 0; i < row->n_failed; i++)
        row->failed_s[i] = (uint32_t)(slot->failed_us[i] / 1000000);
    if (was ? memcmp(was, row, sizeof(*row)) != 0
            : row->closed || row->n_closed > 0 || row->n_failed > 0)
        k->put(k->arg, &entry);
}

static void fill_worker(const struct driver *d, const struct driver_worker *w,
                        struct entry_worker *row)
{
    const struct driver_host *host = driver_host_of(d, w);

    copy_text(row->host, host->name);
    row->slot = w->slot;
    row->agent = host->agent;
    row->pid = w->spawned || w->inherited ? w->pid : 0;
    row->up = w->life != LIFE_STARTING;
    row->going = w->life == LIFE_ENDING;
    row->dying = worker_is_dead(w);
    row->released = w->farewell.type == MSG_RELEASE;
}

static void keep_worker(const struct keep *k, const struct driver *d,
                        uint64_t id)
{
    const struct driver_worker *w = driver_worker(d, id);
    const struct entry_worker *was = memory_worker(k->memory, id);
    struct entry entry;
    struct entry_worker *row = &entry.u.worker;

    if (!w && !was)
        return;
    memset(&entry, 0, sizeof(entry));
    entry.type = ENTRY_WORKER;
    row->worker = id;
    row->gone = !w;
    if (w)
        fill_worker(d, w, row);
    if (was && was->pid == row->pid)
        row->started = was->started;
    if (!was || memcmp(was, row, sizeof(*row)) != 0)
        k->put(k->arg, &entry);
    if (w)
        keep_slot(k, d, driver_host_of(d, w), w->slot);
}

/* ---- after a step -------------------------------------------------------- */

/* The core's own words: the name is that in the host's row. */
static const struct driver_host *host_of_name(const struct driver *d,
                                              const char *name)
{
    size_t row = (size_t)(name - d->hosts[0].name) / sizeof(*d->hosts);

    HVD_ASSERT(row < d->n_hosts && d->hosts[row].name == name);
    return &d->hosts[row];
}

static void keep_host_named(const struct keep *k, const struct driver *d,
                            const char *name)
{
    keep_host(k, host_of_name(d, name));
}

/* What counted of its slots may count no longer. */
static void keep_slots_of(const struct keep *k, const struct driver *d,
                          const char *name)
{
    const struct driver_host *host = host_of_name(d, name);

    for (uint32_t i = 0; i < host->slots_max; i++)
        keep_slot(k, d, host, i);
}

static void keep_record(const struct keep *k, const struct driver *d,
                        const struct driver_record *r)
{
    switch (r->type) {
    case RECORD_HOST_ADDED:
    case RECORD_HOST_REMOVED:
        keep_slots_of(k, d, r->host);
        keep_host_named(k, d, r->host);
        break;
    case RECORD_SLOT_CLOSED:
        keep_slot(k, d, host_of_name(d, r->host), r->slot);
        break;
    case RECORD_HOST_BLACKLISTED:
    case RECORD_START_FAILED:
    case RECORD_HOST_LEAVING:
    case RECORD_AGENT_STARTED:
    case RECORD_AGENT_LOST:
        keep_host_named(k, d, r->host);
        break;
    case RECORD_WORKER_SPAWNED:
    case RECORD_WORKER_EXITED:
    case RECORD_WORKER_LOST:
        keep_worker(k, d, r->worker);
        break;
    default:
        break;
    }
}

static bool changes_worker(enum message_type type)
{
    return type == MSG_WELCOME || type == MSG_SHUTDOWN || type == MSG_RELEASE;
}

void keep_step(const struct keep *k, const struct driver *d,
               const struct driver_action *actions, size_t n)
{
    keep_state(k, d);
    for (size_t i = 0; i < n; i++) {
        const struct driver_action *a = &actions[i];

        if (a->type == DRIVER_ACT_RECORD)
            keep_record(k, d, &a->u.record);
        else if (a->type == DRIVER_ACT_START_AGENT)
            keep_host_named(k, d, a->host);
        else if (a->type == DRIVER_ACT_SPAWN || a->type == DRIVER_ACT_KILL ||
                 (a->type == DRIVER_ACT_SEND &&
                  changes_worker(a->u.message.type)))
            keep_worker(k, d, a->worker);
    }
}

/* ---- what the core has forgotten ----------------------------------------- */

static const struct driver_host *find_host(const struct driver *d,
                                           const char *name)
{
    for (size_t i = 0; i < d->n_hosts; i++)
        if (strcmp(d->hosts[i].name, name) == 0)
            return &d->hosts[i];
    return NULL;
}

/* As new: `memory` drops it. */
static void forget_host(const struct keep *k, const char *name)
{
    struct entry entry;

    memset(&entry, 0, sizeof(entry));
    entry.type = ENTRY_HOST;
    copy_text(entry.u.host.name, name);
    k->put(k->arg, &entry);
}

static void forget_slot(const struct keep *k, const char *name, uint32_t slot)
{
    struct entry entry;

    memset(&entry, 0, sizeof(entry));
    entry.type = ENTRY_SLOT;
    copy_text(entry.u.slot.host, name);
    entry.u.slot.slot = slot;
    k->put(k->arg, &entry);
}

/* From behind: rows are taken out of `memory`. Each is looked for among all
 * that the core has; so only when there are more than it has. */
static void drop_hosts(const struct keep *k, const struct driver *d)
{
    for (size_t i = k->memory->n_hosts; i-- > 0;)
        if (!find_host(d, k->memory->hosts[i].name))
            forget_host(k, k->memory->hosts[i].name);
}

static void drop_slots(const struct keep *k, const struct driver *d)
{
    for (size_t i = k->memory->n_slots; i-- > 0;) {
        const struct entry_slot *row = &k->memory->slots[i];
        const struct driver_host *host = find_host(d, row->host);

        if (!host || !driver_slot(d, host, row->slot))
            forget_slot(k, row->host, row->slot);
    }
}

static void drop_workers(const struct keep *k, const struct driver *d)
{
    for (size_t i = k->memory->n_workers; i-- > 0;)
        if (!driver_worker(d, k->memory->workers[i].worker))
            keep_worker(k, d, k->memory->workers[i].worker);
}

/* ---- all of it ----------------------------------------------------------- */

/* How many of them are written down. */
static size_t sweep_slots(const struct keep *k, const struct driver *d,
                          const struct driver_host *host)
{
    size_t n_kept = 0;

    for (uint32_t n = 0; n < host->slots_max; n++) {
        keep_slot(k, d, host, n);
        n_kept += memory_slot(k->memory, host->name, n) != NULL;
    }
    return n_kept;
}

void keep_sweep(const struct keep *k, const struct driver *d)
{
    size_t n_hosts = 0, n_slots = 0;

    keep_state(k, d);
    for (size_t i = 0; i < d->n_hosts; i++) {
        keep_host(k, &d->hosts[i]);
        n_hosts += memory_host(k->memory, d->hosts[i].name) != NULL;
        n_slots += sweep_slots(k, d, &d->hosts[i]);
    }
    for (size_t i = 0; i < d->n_workers; i++)
        keep_worker(k, d, d->workers[i].id);
    if (k->memory->n_hosts > n_hosts)
        drop_hosts(k, d);
    if (k->memory->n_slots > n_slots)
        drop_slots(k, d);
    drop_workers(k, d);
}
