/* elastic/driver/rows.c - the tables of the driver's core: rows of hosts, their
 * slots, agents and workers; who finds them, who makes room for them, when they
 * are freed. See core.h. Pure.
 *
 * A host that is only listed is a row. Its slots come with the first agent that
 * is started there, and stay as long as something counts that is in them. */
#include <string.h>

#include "elastic/driver/core_internal.h"

enum {
    ACTIONS_PER_WORKER = 11, /* in one step, at the most */
    ACTIONS_PER_AGENT = 6,
    ACTIONS_PER_HOST = 2, /* without one */
    ACTIONS_BESIDES = 64,
    COMPLAIN_US = 10000000 /* between two lines about memory */
};

/* ---- finding ------------------------------------------------------------- */

size_t worker_bound(const struct driver *d, uint64_t id)
{
    size_t low = 0, high = d->n_workers;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (d->workers[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct driver_worker *worker_find(struct driver *d, uint64_t id)
{
    size_t low = worker_bound(d, id);

    if (low == d->n_workers || d->workers[low].id != id ||
        d->workers[low].life == LIFE_GONE)
        return NULL;
    return &d->workers[low];
}

struct driver_host *host_of(struct driver *d, const struct driver_worker *w)
{
    return &d->hosts[w->host];
}

/* Every slot has room for the failures that its budget allows. */
static size_t slot_nbytes(const struct driver *d)
{
    return sizeof(struct driver_slot) + restarts_allowed(d) * sizeof(uint64_t);
}

struct driver_slot *slot_at(const struct driver *d,
                            const struct driver_host *host, size_t i)
{
    HVD_ASSERT(i < host->slots_max);
    return (void *)((char *)host->slots + i * slot_nbytes(d));
}

struct driver_slot *slot_of(struct driver *d, const struct driver_worker *w)
{
    return slot_at(d, host_of(d, w), w->slot);
}

struct driver_worker *next_on_host(struct driver *d,
                                   const struct driver_host *host,
                                   const struct driver_worker *w)
{
    uint64_t before = w ? w->id : 0, next = UINT64_MAX;

    for (size_t i = 0; i < host->slots_max; i++) {
        uint64_t id = slot_at(d, host, i)->worker;

        if (id > before && id < next)
            next = id;
    }
    return worker_find(d, next);
}

struct driver_host *host_named(struct driver *d, const char *name)
{
    for (size_t i = 0; i < d->n_hosts; i++)
        if (strcmp(d->hosts[i].name, name) == 0)
            return &d->hosts[i];
    return NULL;
}

static bool is_current(const struct driver *d, const struct driver_agent *a)
{
    const struct driver_host *host = &d->hosts[a->host];

    return host->agent == a->id && host->agent_phase != AGENT_NONE;
}

/* Row of the first agent that is not below this one. */
static size_t agent_bound(const struct driver *d, uint64_t agent)
{
    size_t low = 0, high = d->n_agents;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (d->agents[mid].id < agent)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

const struct driver_host *driver_host_of_agent(const struct driver *d,
                                               uint64_t agent)
{
    size_t low = agent_bound(d, agent);

    if (low == d->n_agents || d->agents[low].id != agent ||
        !is_current(d, &d->agents[low]))
        return NULL;
    return &d->hosts[d->agents[low].host];
}

struct driver_host *host_of_agent(struct driver *d, uint64_t agent)
{
    const struct driver_host *host = driver_host_of_agent(d, agent);

    return host ? &d->hosts[host - d->hosts] : NULL;
}

bool driver_expects_agent(const struct driver *d, uint64_t agent)
{
    return driver_adopts(d) || driver_host_of_agent(d, agent);
}

/* ---- room ---------------------------------------------------------------- */

static bool make_room_to_act(struct driver *d, size_t n_hosts, size_t n_workers)
{
    return array_reserve_unset(
        &d->actions, &d->actions_max,
        ACTIONS_PER_WORKER * n_workers + ACTIONS_PER_AGENT * d->agents_max +
            ACTIONS_PER_HOST * n_hosts + ACTIONS_BESIDES);
}

static bool make_room(struct driver *d, size_t n_hosts, size_t n_workers)
{
    return array_reserve(&d->hosts, &d->hosts_max, n_hosts) &&
           array_reserve(&d->workers, &d->workers_max, n_workers) &&
           array_reserve(&d->candidates, &d->candidates_max, n_workers + 1) &&
           array_reserve(&d->scratch, &d->scratch_max,
                         4 * (n_workers + 1) + n_hosts) &&
           array_reserve(&d->table.entries, &d->table.entries_max, n_workers) &&
           array_reserve(&d->table_before.entries, &d->table_before.entries_max,
                         n_workers) &&
           make_room_to_act(d, n_hosts, n_workers);
}

bool rows_init(struct driver *d)
{
    return make_room(d, 1, 1);
}

static void free_words(struct driver_worker *w)
{
    free(w->refusal);
    free(w->waiting);
    w->refusal = NULL;
    w->waiting = NULL;
}

void rows_fini(struct driver *d)
{
    for (size_t i = 0; i < d->n_hosts; i++)
        free(d->hosts[i].slots);
    for (size_t i = 0; i < d->n_workers; i++)
        free_words(&d->workers[i]);
    free(d->hosts);
    free(d->agents);
    free(d->workers);
    free(d->table.entries);
    free(d->table_before.entries);
    free(d->candidates);
    free(d->scratch);
    free(d->actions);
}

/* Now and then it is said. */
static bool has_memory(struct driver *d, bool has, const char *what)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (has || d->now_us < d->complain_us)
        return has;
    text_add(&t, "no memory for ");
    text_add(&t, what);
    text_add(&t, " -> it is tried again");
    record_warning(d, buf);
    d->complain_us = d->now_us + COMPLAIN_US;
    return false;
}

static void drop_ended_agents(struct driver *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n_agents; i++)
        if (is_current(d, &d->agents[i]))
            d->agents[n++] = d->agents[i];
    d->n_agents = n;
}

bool host_furnish(struct driver *d, struct driver_host *host, size_t n_slots)
{
    if (d->n_agents == d->agents_max)
        drop_ended_agents(d);
    if (host->slots_max >= n_slots && d->n_agents < d->agents_max)
        return true;
    return has_memory(
        d,
        array_reserve_bytes(&host->slots, &host->slots_max, n_slots,
                            slot_nbytes(d)) &&
            array_reserve(&d->agents, &d->agents_max, d->n_agents + 1) &&
            make_room_to_act(d, d->n_hosts, d->n_workers),
        "the slots of another host");
}

void agent_add(struct driver *d, struct driver_host *host, uint64_t agent)
{
    size_t at = agent_bound(d, agent);

    HVD_ASSERT(d->n_agents < d->agents_max);
    memmove(&d->agents[at + 1], &d->agents[at],
            (d->n_agents - at) * sizeof(*d->agents));
    d->agents[at] = (struct driver_agent){agent, (uint32_t)(host - d->hosts)};
    d->n_agents++;
    host->agent = agent;
}

struct driver_worker *worker_add(struct driver *d, uint64_t id,
                                 struct driver_host *host, uint32_t slot)
{
    struct driver_worker *w;
    size_t at;

    if (d->n_workers == d->workers_max && d->n_gone > 0)
        workers_compact(d);
    if (!has_memory(d, make_room(d, d->n_hosts, d->n_workers + 1),
                    "another worker"))
        return NULL;
    at = worker_bound(d, id);
    w = &d->workers[at];
    memmove(w + 1, w, (d->n_workers - at) * sizeof(*w));
    d->n_workers++;
    memset(w, 0, sizeof(*w));
    w->id = id;
    if (d->next_worker <= id)
        d->next_worker = id + 1;
    w->host = (uint32_t)(host - d->hosts);
    w->slot = slot;
    slot_at(d, host, slot)->worker = w->id;
    host->n_workers++;
    return w;
}

/* ---- hosts that are listed ----------------------------------------------- */

/* known [n of the list]: a row has this name. Returns how many have. */
static size_t mark_known(const struct driver *d,
                         const struct hosts_index *index, uint32_t *known)
{
    size_t n_known = 0;

    for (size_t i = 0; i < d->n_hosts; i++) {
        long at = hosts_index_find(index, d->hosts[i].name);

        if (at < 0)
            continue;
        known[at] = 1;
        n_known++;
    }
    return n_known;
}

/* There is room for it. */
static struct driver_host *add_row(struct driver *d, const char *name)
{
    struct driver_host *row = &d->hosts[d->n_hosts++];

    memset(row, 0, sizeof(*row));
    memcpy(row->name, name, strnlen(name, sizeof(row->name) - 1));
    row->order = d->next_order++;
    return row;
}

struct driver_host *host_add(struct driver *d, const char *name)
{
    if (!make_room(d, d->n_hosts + 1, d->n_workers))
        return NULL;
    return add_row(d, name);
}

bool hosts_add(struct driver *d, const struct hosts *hosts,
               const struct hosts_index *index)
{
    size_t n_known;

    if (!array_reserve(&d->scratch, &d->scratch_max, hosts->n))
        return false;
    memset(d->scratch, 0, hosts->n * sizeof(*d->scratch));
    n_known = mark_known(d, index, d->scratch);
    if (!make_room(d, d->n_hosts + hosts->n - n_known, d->n_workers))
        return false;
    for (size_t i = 0; i < hosts->n; i++)
        if (!d->scratch[i])
            add_row(d, hosts->items[i].name);
    return true;
}

/* ---- who is gone --------------------------------------------------------- */

/* The row stays, dead, until rows may move: thousands exit one by one, and each
 * move of all rows costs more than all their other events. */
void worker_remove(struct driver *d, struct driver_worker *w)
{
    worker_move(w, LIFE_GONE);
    slot_of(d, w)->worker = 0;
    host_of(d, w)->n_workers--;
    free_words(w);
    w->kill_us = 0;
    d->n_gone++;
    d->recheck = d->replace = true;
}

void workers_compact(struct driver *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n_workers; i++) {
        if (d->workers[i].life == LIFE_GONE)
            continue;
        if (n != i)
            d->workers[n] = d->workers[i];
        n++;
    }
    d->n_workers = n;
    d->n_gone = 0;
}

/* Nobody is there or may come. Nothing counts of it: if it is listed again it
 * may be another one. */
static bool is_forgotten(const struct driver_host *host)
{
    return !host->listed && host->agent_phase == AGENT_NONE &&
           host->n_workers == 0;
}

/* to [n_hosts]: the new row of each. */
static void renumber(struct driver *d, const uint32_t *to)
{
    drop_ended_agents(d);
    for (size_t i = 0; i < d->n_agents; i++)
        d->agents[i].host = to[d->agents[i].host];
    for (size_t i = 0; i < d->n_workers; i++)
        d->workers[i].host = to[d->workers[i].host];
}

void hosts_compact(struct driver *d)
{
    uint32_t *to = d->scratch, n = 0;
    bool any = false;

    HVD_ASSERT(d->n_gone == 0);
    for (size_t i = 0; i < d->n_hosts; i++) {
        bool forgotten = is_forgotten(&d->hosts[i]);

        if (forgotten)
            array_free(&d->hosts[i].slots, &d->hosts[i].slots_max);
        to[i] = n;
        n += !forgotten;
        any |= forgotten;
    }
    if (!any)
        return;
    renumber(d, to);
    for (size_t i = 0; i < d->n_hosts; i++) {
        uint32_t after = i + 1 < d->n_hosts ? to[i + 1] : n;

        if (after > to[i] && to[i] != i)
            d->hosts[to[i]] = d->hosts[i];
    }
    d->n_hosts = n;
}
