/* tests/driver/fixture.c - see fixture.h. */
#include "driver/fixture.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { ACTIONS_MAX = 1 << 16, TICK_MS = 100, ENTRIES_MAX = 4096 };

static struct fixture the_fixture;

static void step(struct fixture *f, const struct driver_event *ev);

/* The driver may have started another one there by now. */
char *agent_host(struct fixture *f, uint64_t agent)
{
    ck_assert_uint_lt(agent, FIXTURE_AGENTS_MAX);
    return f->agent_hosts[agent];
}

/* What the ranks learn of each other. */
static void check_table(const struct driver *d)
{
    for (size_t i = 0; i < d->table.n_entries; i++) {
        const struct assign_entry *e = &d->table.entries[i];
        const struct driver_worker *w = driver_worker(d, e->worker);

        ck_assert_ptr_nonnull(w);
        ck_assert_uint_eq(w->rank, i);
        ck_assert_uint_eq(e->host, d->hosts[w->host].order);
        ck_assert_uint_eq(e->slot, w->slot);
        ck_assert_uint_eq(e->port, w->port);
        ck_assert_str_eq(e->address, w->address);
    }
}

/* ---- machinery that works ------------------------------------------------ */

static void say_hello(struct fixture *f, uint64_t id, uint16_t port)
{
    struct message m = {.type = MSG_HELLO, .job = FIXTURE_JOB, .worker = id};

    m.u.hello.pid = (int64_t)(100 + id);
    m.u.hello.port = port ? port : (uint16_t)(1000 + id);
    strcpy(m.u.hello.address, "127.0.0.1");
    step(f, &(struct driver_event){.type = DRIVER_EV_MESSAGE, .u.message = &m});
}

/* The agent that runs it; 0: it is gone. */
static uint64_t own_agent(const struct fixture *f, uint64_t id)
{
    const struct driver_worker *w = driver_worker(&f->driver, id);

    return w ? driver_host_of(&f->driver, w)->agent : 0;
}

static void spawned(struct fixture *f, uint64_t id)
{
    struct driver_event ev = {.type = DRIVER_EV_SPAWNED,
                              .by = own_agent(f, id)};

    ck_assert_uint_lt(id, FIXTURE_WORKERS_MAX);
    ev.u.spawned.worker = id;
    ev.u.spawned.pid = (int64_t)(100 + id);
    step(f, &ev);
    if (!f->slow_workers)
        say_hello(f, id, 0);
}

static void agent_is(struct fixture *f, uint64_t agent,
                     enum driver_event_type type, const char *text)
{
    struct driver_event ev = {.type = type};

    ev.u.agent.agent = agent;
    ev.u.agent.pid = (int64_t)(10 + agent);
    ev.u.agent.host = agent_host(f, agent);
    ev.u.agent.text = text;
    ev.u.agent.n_alive = UINT64_MAX; /* whatever the driver thinks */
    step(f, &ev);
}

/* PING: n of its workers live; NOTICE: n ms are left, if it knows. */
static void agent_tells(struct fixture *f, uint64_t agent,
                        enum driver_event_type type, int n)
{
    struct driver_event ev = {.type = type};

    ev.u.agent.agent = agent;
    ev.u.agent.n_alive = (uint64_t)n;
    ev.u.agent.left_us = n < 0 ? DRIVER_NEVER : (uint64_t)n * 1000;
    ev.u.agent.text = n < 0 ? "" : "the cloud wants it";
    step(f, &ev);
}

/* Who gets ASSIGN is synced at once, unless the test says holds(). */
static void take_assign(struct fixture *f, uint64_t id, const struct message *m)
{
    uint64_t version = m->u.assign.base.version;

    f->workers[id].id = (struct state_id){m->generation, version ? version : 1};
}

static void answer(struct fixture *f, const struct driver_action *a)
{
    if (a->type == DRIVER_ACT_START_AGENT && strcmp(a->host, f->slow_host) != 0)
        agent_is(f, a->agent, DRIVER_EV_AGENT_UP, "");
    else if (a->type == DRIVER_ACT_STOP_AGENT && f->n_stops_lost-- <= 0)
        agent_is(f, a->agent, DRIVER_EV_AGENT_GONE, "was stopped");
    else if (a->type == DRIVER_ACT_SPAWN && !f->no_spawns)
        spawned(f, a->worker);
    else if (a->type == DRIVER_ACT_SEND && a->u.message.type == MSG_ASSIGN)
        take_assign(f, a->worker, &a->u.message);
}

/* What counts.* say must be what the rows say, after every event. */
static void check_counts(const struct driver *d)
{
    size_t n_hosts_in[AGENT_STOPPING + 1] = {0};
    struct driver_counts c = {0};

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];
        bool member = worker_is_enlisted(w) && !worker_is_dead(w);

        c.members += member;
        c.ready += member && w->standing == STAND_READY;
        c.held += member && w->held;
        c.done += member && w->standing == STAND_DONE;
        c.going += member && w->first_collective;
        c.draining += member && w->drain != DRAIN_NONE;
        c.newcomers += w->standing == STAND_WAITING && worker_is_here(w) &&
                       w->drain == DRAIN_NONE;
        c.live += worker_is_here(w) && w->drain == DRAIN_NONE;
        c.released += w->life == LIFE_ENDING && w->farewell.type == MSG_RELEASE;
        ck_assert(i == 0 || d->workers[i - 1].id < w->id);
        if (w->life != LIFE_GONE)
            ck_assert_uint_eq(
                driver_slot(d, &d->hosts[w->host], w->slot)->worker, w->id);
    }
    ck_assert_mem_eq(&c, &d->counts, sizeof(c));
    for (size_t i = 0; i < d->n_hosts; i++)
        n_hosts_in[d->hosts[i].agent_phase]++;
    n_hosts_in[AGENT_NONE] = 0;
    ck_assert_mem_eq(n_hosts_in, d->n_hosts_in, sizeof(n_hosts_in));
}

static void put(void *arg, struct entry *entry)
{
    struct fixture *f = arg;

    if (f->no_journal)
        return;
    ck_assert(memory_fold(&f->memory, entry));
    ck_assert(array_reserve(&f->entries, &f->entries_max, f->n_entries + 1));
    f->entries[f->n_entries++] = *entry;
}

static void step(struct fixture *f, const struct driver_event *ev)
{
    const struct driver_action *actions;
    struct driver_action *copy;
    hvd_status_t status;
    size_t n;

    status = driver_step(&f->driver, ev, f->now_us, &actions, &n);
    if (!f->may_refuse || status != HVD_ERR_NOMEM)
        ck_assert_int_eq(status, HVD_OK);
    keep_step(&f->keep, &f->driver, actions, n);
    check_counts(&f->driver);
    if (f->driver.formed_us == f->now_us)
        check_table(&f->driver);
    ck_assert_uint_lt(n, ACTIONS_MAX);
    copy = calloc(n + 1, sizeof(*copy));
    ck_assert_ptr_nonnull(copy);
    for (size_t i = 0; i < n; i++) {
        transcribe(f, &actions[i]);
        copy[i] = actions[i];
    }
    for (size_t i = 0; i < n; i++)
        answer(f, &copy[i]);
    free(copy);
}

/* ---- the fixture --------------------------------------------------------- */

static uint64_t us_or(uint64_t ms, uint64_t otherwise_ms)
{
    return (ms ? ms : otherwise_ms) * 1000;
}

struct fixture *fixture_new(const struct fixture_options *o)
{
    struct fixture *f = &the_fixture;
    struct driver_config c = {.job = FIXTURE_JOB, .term = FIXTURE_TERM};

    memset(f, 0, sizeof(*f));
    f->keep = (struct keep){&f->memory, put, f};
    f->no_journal = o->no_journal;
    c.np = o->np ? o->np : 2;
    c.min_np = o->min_np ? o->min_np : c.np;
    c.max_np = o->max_np;
    c.reset_limit = o->no_resets || o->reset_limit ? (int64_t)o->reset_limit
                                                   : -1;
    c.slot_restarts = o->slot_restarts ? o->slot_restarts : 3;
    c.strict_blacklist = o->strict_blacklist;
    c.blacklist.cooldown = o->cooldown_high_ms > 0;
    c.blacklist.low_us = o->cooldown_low_ms * 1000;
    c.blacklist.high_us = o->cooldown_high_ms * 1000;
    c.hosts_fixed = !o->script;
    c.elastic_timeout_us = us_or(o->elastic_ms, 600000);
    c.start_timeout_us = us_or(o->start_ms, 60000);
    c.drain_timeout_us = us_or(o->drain_ms, 30000);
    c.hang_timeout_us = o->hang_ms * 1000;
    c.exit_timeout_us = o->exit_ms * 1000;
    c.commit_timeout_us = o->commit_ms * 1000;
    c.heartbeat_us = 1000000;
    c.heartbeat_timeout_us = 2000000;
    c.driver_timeout_us = 600000000;
    c.connect_timeout_us = 5000000;
    ck_assert(driver_init(&f->driver, &c, 0));
    return f;
}

void fixture_free(struct fixture *f)
{
    driver_fini(&f->driver);
    memory_fini(&f->memory);
    array_free(&f->entries, &f->entries_max);
}

void succeed(struct fixture *f, uint64_t ms, size_t n_lost)
{
    struct driver_config config = f->driver.config;

    config.term++;
    f->now_us = ms * 1000;
    driver_fini(&f->driver);
    memory_fini(&f->memory);
    ck_assert_uint_le(n_lost, f->n_entries);
    f->n_entries -= n_lost;
    for (size_t i = 0; i < f->n_entries; i++)
        ck_assert(memory_fold(&f->memory, &f->entries[i]));
    ck_assert(driver_init(&f->driver, &config, f->now_us));
    ck_assert(driver_inherit(&f->driver, &f->memory));
    check_counts(&f->driver);
    keep_sweep(&f->keep, &f->driver);
    forget(f);
}

static uint64_t next_worker(const char **list_p)
{
    char *end;
    uint64_t id;

    while (**list_p == ' ')
        ++*list_p;
    if (**list_p == '\0')
        return 0;
    ck_assert_int_eq(**list_p, 'w');
    id = strtoull(*list_p + 1, &end, 10);
    *list_p = end;
    return id;
}

const struct driver_worker *worker(struct fixture *f, const char *name)
{
    return driver_worker(&f->driver, next_worker(&name));
}

void nothing_failed(const struct fixture *f, size_t host)
{
    const struct driver_host *h = &f->driver.hosts[host];

    ck_assert_uint_eq(h->failing_us, 0);
    ck_assert_uint_eq(h->start_us, 0);
    for (uint32_t i = 0; i < h->slots_max; i++)
        ck_assert_uint_eq(driver_slot(&f->driver, h, i)->n_failed, 0);
}

void holds(struct fixture *f, const char *workers, uint64_t generation,
           uint64_t version)
{
    uint64_t id;

    while ((id = next_worker(&workers)))
        f->workers[id].id = (struct state_id){generation, version};
}

/* ---- from words to events ------------------------------------------------ */

/* Fill in what a correct worker would say. */
static void complete(struct fixture *f, uint64_t id, bool raw_fence,
                     struct message *m)
{
    const struct driver_worker *w = driver_worker(&f->driver, id);
    struct driver *d = &f->driver;

    m->job = FIXTURE_JOB;
    m->worker = id;
    if (m->type == MSG_READY) {
        m->u.ready.id = f->workers[id].id;
        if (!raw_fence && w)
            m->u.ready.fence = w->named;
    } else if (m->type == MSG_HELD) {
        m->u.held.generation = d->generation;
        m->u.held.sequence = d->hold_sequence;
    } else if (m->type == MSG_DONE) {
        m->u.done.generation = d->generation;
        m->u.done.id = f->workers[id].id;
    } else if (m->type == MSG_LEAVING) {
        m->u.leaving.generation = d->generation;
    } else if (m->type == MSG_PING) {
        m->u.ping.generation = d->generation;
        m->u.ping.id = f->workers[id].id;
        m->u.ping.expects = f->workers[id].expects;
    }
}

static void say_message(struct fixture *f, const struct happening *h,
                        uint64_t id)
{
    struct message m = h->message;

    if (h->commits) {
        f->workers[id].id.generation = f->driver.generation;
        f->workers[id].id.version++;
    }
    complete(f, id, h->raw_fence, &m);
    step(f, &(struct driver_event){.type = DRIVER_EV_MESSAGE, .u.message = &m});
}

static uint64_t agent_on(const struct fixture *f, const char *host)
{
    for (size_t i = 0; i < f->driver.n_hosts; i++)
        if (strcmp(f->driver.hosts[i].name, host) == 0)
            return f->driver.hosts[i].agent;
    ck_abort_msg("no host %s", host);
    return 0;
}

static void about_worker(struct fixture *f, const struct happening *h,
                         uint64_t id)
{
    struct driver_event ev = {.type = h->type};

    ev.by = h->agent ? agent_on(f, h->agent) : own_agent(f, id);
    if (h->type == DRIVER_EV_MESSAGE && h->message.type == MSG_HELLO) {
        say_hello(f, id, h->message.u.hello.port);
    } else if (h->type == DRIVER_EV_MESSAGE) {
        say_message(f, h, id);
    } else if (h->type == DRIVER_EV_EXITED || h->type == DRIVER_EV_DYING) {
        ev.u.exited.worker = id;
        ev.u.exited.pid = (int64_t)(100 + id);
        ev.u.exited.code = h->number;
        ev.u.exited.signal = h->kill ? 9 : 0;
        step(f, &ev);
    } else if (h->type == DRIVER_EV_SPAWNED && h->number == 0) {
        spawned(f, id);
    } else if (h->type == DRIVER_EV_SPAWNED) {
        ev.u.spawned.worker = id;
        ev.u.spawned.pid = h->number;
        step(f, &ev);
    } else if (h->type == DRIVER_EV_UNFIT) {
        ev.by = id;
        ev.u.unfit = h->text;
        step(f, &ev);
    } else {
        ck_assert_int_eq(h->type, DRIVER_EV_SPAWN_FAILED);
        ev.u.spawn_failed.worker = id;
        ev.u.spawn_failed.error = h->number;
        snprintf(ev.u.spawn_failed.text, WIRE_TEXT_MAX, "%s", h->text);
        step(f, &ev);
    }
}

/* ---- a successor --------------------------------------------------------- */

void agent_back(struct fixture *f, uint64_t ms, const char *host,
                uint64_t agent, const char *workers)
{
    struct driver_event ev = {.type = DRIVER_EV_SPAWNED, .by = agent};
    uint64_t n = 0;
    char *end;

    f->now_us = ms * 1000;
    snprintf(agent_host(f, agent), HOSTS_NAME_MAX, "%s", host);
    agent_is(f, agent, DRIVER_EV_AGENT_UP, "");
    while ((ev.u.spawned.worker = next_worker(&workers))) {
        ck_assert_int_eq(*workers, '@');
        ev.u.spawned.slot = (uint32_t)strtoul(workers + 1, &end, 10);
        workers = end;
        ev.u.spawned.pid = (int64_t)(100 + ev.u.spawned.worker);
        step(f, &ev);
        n++;
    }
    ev = (struct driver_event){.type = DRIVER_EV_AGENT_PING};
    ev.u.agent.agent = agent;
    ev.u.agent.n_alive = n;
    step(f, &ev);
}

void greets(struct fixture *f, uint64_t ms, const char *workers,
            struct msg_where where)
{
    struct message m = {.type = MSG_HELLO, .job = FIXTURE_JOB};
    uint64_t id;

    f->now_us = ms * 1000;
    while ((id = next_worker(&workers))) {
        m.worker = id;
        m.u.hello.pid = (int64_t)(100 + id);
        m.u.hello.port = (uint16_t)(1000 + id);
        strcpy(m.u.hello.address, "127.0.0.1");
        m.u.hello.where = where;
        if (where.id.version == 0)
            m.u.hello.where.id = f->workers[id].id;
        step(f, &(struct driver_event){.type = DRIVER_EV_MESSAGE,
                                       .u.message = &m});
        where.rank++;
    }
}

static void new_hosts(struct fixture *f, const char *text)
{
    struct hosts list = {0};
    char lines[1024], error[HOSTS_ERROR_MAX];

    snprintf(lines, sizeof(lines), "%s", text);
    for (char *c = lines; *c; c++)
        *c = *c == ' ' ? '\n' : *c == '+' ? ' ' : *c;
    ck_assert_msg(
        hosts_parse(lines, strlen(lines), HOSTS_LINES, 1, &list, error), "%s",
        error);
    step(f, &(struct driver_event){.type = DRIVER_EV_HOSTS, .u.hosts = &list});
    hosts_fini(&list);
}

void at_list(struct fixture *f, uint64_t ms, const struct hosts *list)
{
    f->now_us = ms * 1000;
    step(f, &(struct driver_event){.type = DRIVER_EV_HOSTS, .u.hosts = list});
}

static void about_job(struct fixture *f, const struct happening *h)
{
    struct driver_event ev = {.type = h->type};

    if (h->type == DRIVER_EV_HOSTS) {
        new_hosts(f, h->text);
    } else if (h->agent) { /* what has become of it */
        agent_is(f, agent_on(f, h->text), h->type, h->agent);
    } else if (h->type == DRIVER_EV_AGENT_PING || h->type == DRIVER_EV_NOTICE) {
        agent_tells(f, agent_on(f, h->text), h->type, h->number);
    } else {
        if (h->type == DRIVER_EV_DISCOVERY_BAD) {
            ev.u.discovery.text = h->text;
            ev.u.discovery.lasts = h->number != 0;
        } else if (h->type == DRIVER_EV_UNSAYABLE) {
            ev.u.unsayable.generation = (uint64_t)h->number;
            ev.u.unsayable.text = h->text;
        } else {
            ev.u.signal = h->number;
        }
        step(f, &ev);
    }
}

void at(struct fixture *f, uint64_t ms, struct happening h)
{
    const char *list = h.workers;
    uint64_t id;

    ck_assert_uint_ge(ms * 1000, f->now_us);
    f->now_us = ms * 1000;
    if (!list)
        about_job(f, &h);
    else
        while ((id = next_worker(&list)))
            about_worker(f, &h, id);
}

void at_raw(struct fixture *f, uint64_t ms, const struct message *m)
{
    f->now_us = ms * 1000;
    step(f, &(struct driver_event){.type = DRIVER_EV_MESSAGE, .u.message = m});
}

/* A heartbeat of who lacks nothing: the driver has nothing to repeat. */
static void heartbeats(struct fixture *f)
{
    struct driver *d = &f->driver;

    for (size_t i = 0; i < d->n_hosts; i++)
        if (d->hosts[i].agent_phase == AGENT_UP &&
            strstr(f->silent_host, d->hosts[i].name) == NULL)
            agent_is(f, d->hosts[i].agent, DRIVER_EV_AGENT_PING, "");
    for (uint64_t id = 1; id < d->next_worker; id++) {
        const struct driver_worker *w = driver_worker(d, id);
        bool released = w && w->life == LIFE_ENDING &&
                        w->farewell.type == MSG_RELEASE;
        struct happening h = ping("", released ? WORKER_LEFT : WORKER_IDLE, 0);

        if (w && (w->life == LIFE_UP || released) && !f->workers[id].silent)
            say_message(f, &h, id);
    }
}

void pass(struct fixture *f, uint64_t ms)
{
    while (f->now_us + (uint64_t)TICK_MS * 1000 <= ms * 1000) {
        f->now_us += (uint64_t)TICK_MS * 1000;
        heartbeats(f);
        step(f, &(struct driver_event){.type = DRIVER_EV_TIMEOUT});
    }
    f->now_us = ms * 1000;
}

void run(struct fixture *f, const char *text)
{
    char all[512] = "";
    size_t n = 0;

    at(f, 0, hosts(text));
    for (uint64_t id = 1; id < f->driver.next_worker; id++)
        n += (size_t)snprintf(all + n, sizeof(all) - n, "w%" PRIu64 " ", id);
    at(f, 0, ready(all));
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    forget(f);
}
