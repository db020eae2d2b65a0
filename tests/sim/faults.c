/* faults.c - what kind of world a seed makes, and what goes wrong in it. Some
 * faults are traps: they wait until a worker comes into a certain state and
 * kill it there. At the horizon everything is healed: enough slots are there
 * and stay, so that the job must end. */
#include <stdio.h>
#include <string.h>

#include "world.h"

enum fault {
    FAULT_KILL,
    FAULT_KILL_TWO,
    FAULT_TRAP,
    FAULT_STOP,
    FAULT_PAUSE,
    FAULT_AGENT,
    FAULT_AGENT_SILENT,
    FAULT_HOST_ADDED,
    FAULT_HOST_REMOVED,
    FAULT_SLOTS,
    FAULT_FLAP,
    FAULT_DISCOVERY_BAD,
    FAULT_ACCUSE,
    FAULT_PARTITION,
    FAULT_DRAIN,
    FAULT_STALL,
    /* from here on they end most jobs: rare */
    FAULT_LAYOUT,
    FAULT_INTERRUPT,
    FAULT_USER_ERROR,
    N_FAULTS,
    FAULT_SETTLE
};

static void add_host(struct sim *s, uint32_t slots, bool home)
{
    struct sim_host *host;

    if (!array_reserve(&s->hosts, &s->hosts_max, s->n_hosts + 1))
        abort();
    host = &s->hosts[s->n_hosts];
    snprintf(host->name, sizeof(host->name), "h%zu", s->n_hosts);
    s->n_hosts++;
    host->slots = host->slots_now = slots;
    host->home = home;
}

static void plan_fault(struct sim *s, uint64_t at, enum fault fault)
{
    queue_push(&s->queue, at, EV_FAULT)->sub = (uint8_t)fault;
}

/* ---- the world ----------------------------------------------------------- */

static void plan_driver(struct sim *s)
{
    struct driver_config *c = &s->driver_config;

    c->job = 77;
    c->term = 1;
    c->reset_limit = -1;
    c->slot_restarts = 3;
    c->elastic_timeout_us = 30 * SEC;
    c->start_timeout_us = 20 * SEC;
    c->drain_timeout_us = 5 * SEC;
    c->heartbeat_us = 1 * SEC;
    c->heartbeat_timeout_us = 5 * SEC;
    c->connect_timeout_us = 10 * SEC;
    c->seed = s->options.seed;
}

static void plan_base(struct sim *s)
{
    struct sim_plan *p = &s->plan;

    *p = (struct sim_plan){
        .horizon_us = 600 * MSEC,
        .limit_us = 300 * SEC,
        .steps = 10,
        .step_us = 20 * MSEC,
        .load_us = 30 * MSEC,
        .spawn_us = 5 * MSEC,
        .kill_us = 3 * MSEC,
        .delay_us = s->options.seed % 2 ? 3000 : 300,
        .tail_us = 1,
        .agent_ping_us = SEC,
        .discovery_us = 50 * MSEC,
        .op_mix = 70,
        .commit_in = 2,
    };
    s->driver_config.np = 4;
    s->driver_config.min_np = 2;
    s->driver_config.max_np = 5;
    s->driver_config.heartbeat_timeout_us = 3 * SEC;
    add_host(s, 2, true);
    add_host(s, 2, true);
    if (s->options.seed % 3 > 0)
        plan_fault(s, 90 * MSEC, FAULT_HOST_ADDED);
    if (s->options.seed % 3 > 1)
        plan_fault(s, 300 * MSEC, FAULT_HOST_REMOVED);
}

static const uint64_t losses[] = {0, 0, 0, 100, 20, 6};

static void plan_network(struct sim *s)
{
    struct sim_plan *p = &s->plan;

    p->delay_us = sim_uniform(s, 100, 800);
    p->tail_in = sim_one_in(s, 2) ? 0 : sim_uniform(s, 3, 40);
    p->tail_us = sim_uniform(s, MSEC, 400 * MSEC);
    p->loss_in = losses[random_below(&s->random, ARRAY_SIZE(losses))];
    p->duplicate_in = losses[random_below(&s->random, ARRAY_SIZE(losses))];
    p->agent_ping_us = 500 * MSEC;
    p->op_mix = (uint32_t)sim_uniform(s, 0, 100);
    p->commit_in = (uint32_t)sim_uniform(s, 1, 4);
}

static void plan_large(struct sim *s)
{
    struct sim_plan *p = &s->plan;
    uint64_t n_faults = sim_uniform(s, 2, 6);

    for (int i = 0; i < 512; i++)
        add_host(s, 8, true);
    plan_network(s);
    p->codec_in = 500;
    p->horizon_us = 3 * SEC;
    p->limit_us = 300 * SEC;
    p->steps = sim_uniform(s, 3, 6);
    p->step_us = sim_uniform(s, 100, 500) * MSEC;
    p->load_us = 300 * MSEC;
    p->spawn_us = 50 * MSEC;
    p->kill_us = 20 * MSEC;
    p->discovery_us = SEC;
    s->driver_config.np = (uint32_t)sim_uniform(s, 3900, 4096);
    s->driver_config.min_np = (uint32_t)sim_uniform(s, 3000, 3800);
    if (p->loss_in && p->loss_in < 100)
        p->loss_in = 100;
    for (uint64_t i = 0; i < n_faults; i++) {
        static const uint8_t faults[] = {
            FAULT_KILL,       FAULT_KILL,         FAULT_KILL_TWO, FAULT_TRAP,
            FAULT_STOP,       FAULT_PAUSE,        FAULT_AGENT,    FAULT_SLOTS,
            FAULT_HOST_ADDED, FAULT_HOST_REMOVED, FAULT_FLAP};

        plan_fault(s, sim_uniform(s, 400 * MSEC, p->horizon_us),
                   faults[random_below(&s->random, ARRAY_SIZE(faults))]);
    }
}

static void plan_small(struct sim *s)
{
    struct sim_plan *p = &s->plan;
    struct driver_config *c = &s->driver_config;
    uint32_t n_slots = 0;
    uint64_t n_faults = random_below(&s->random, 9);
    uint64_t n_hosts = sim_uniform(s, 1, 4);

    for (uint64_t i = 0; i < n_hosts; i++)
        add_host(s, (uint32_t)sim_uniform(s, 1, 3), true);
    for (size_t i = 0; i < s->n_hosts; i++)
        n_slots += s->hosts[i].slots;
    plan_network(s);
    p->codec_in = 50;
    p->horizon_us = sim_uniform(s, 1, 8) * SEC;
    p->limit_us = p->horizon_us + 400 * SEC;
    p->steps = sim_uniform(s, 2, 24);
    p->step_us = p->horizon_us / p->steps * sim_uniform(s, 1, 8) / 8;
    p->long_step_in = sim_one_in(s, 5) ? 10 : 0;
    p->load_us = sim_uniform(s, 1, 800) * MSEC;
    p->spawn_us = sim_uniform(s, 1, 60) * MSEC;
    p->kill_us = sim_uniform(s, 1, 60) * MSEC;
    p->discovery_us = sim_uniform(s, 50, 600) * MSEC;
    c->np = (uint32_t)sim_uniform(s, 1, n_slots);
    c->min_np = (uint32_t)sim_uniform(s, 1, c->np);
    if (sim_one_in(s, 2))
        c->max_np = c->np + (uint32_t)random_below(&s->random, 3);
    c->strict_blacklist = sim_one_in(s, 8);
    if (sim_one_in(s, 3))
        c->blacklist = (struct blacklist_config){true, SEC, 4 * SEC};
    if (sim_one_in(s, 20))
        c->reset_limit = (int64_t)random_below(&s->random, 5);
    for (uint64_t i = 0; i < n_faults; i++) {
        enum fault fault = (enum fault)random_below(&s->random, N_FAULTS);

        if (fault >= FAULT_LAYOUT && !sim_one_in(s, 6))
            fault = FAULT_TRAP;
        plan_fault(s, random_below(&s->random, p->horizon_us), fault);
        if (sim_one_in(s, 4))
            plan_fault(s, random_below(&s->random, p->horizon_us), FAULT_TRAP);
    }
}

void faults_plan(struct sim *s)
{
    plan_driver(s);
    if (s->options.base)
        plan_base(s);
    else if (s->options.large)
        plan_large(s);
    else
        plan_small(s);
    plan_fault(s, s->plan.horizon_us, FAULT_SETTLE);
    queue_push(&s->queue, 0, EV_DISCOVERY);
}

/* ---- discovery ----------------------------------------------------------- */

void faults_discovery(struct sim *s)
{
    struct driver_event ev = {.type = DRIVER_EV_HOSTS, .u.hosts = &s->listed};

    queue_push(&s->queue, s->now_us + s->plan.discovery_us, EV_DISCOVERY);
    if (s->hosts_bad_until_us > s->now_us && s->driver.discovered) {
        ev.type = DRIVER_EV_DISCOVERY_BAD;
        ev.u.text = "the script exited with 1";
        sim_driver_step(s, &ev);
        return;
    }
    if (!array_reserve(&s->listed.items, &s->listed.max, s->n_hosts))
        abort();
    s->listed.n = 0;
    for (size_t i = 0; i < s->n_hosts; i++) {
        struct host *to = &s->listed.items[s->listed.n];

        if (s->hosts[i].slots_now == 0)
            continue;
        memcpy(to->name, s->hosts[i].name, sizeof(to->name));
        to->slots = s->hosts[i].slots_now;
        s->listed.n++;
    }
    sim_driver_step(s, &ev);
}

/* ---- strikes ------------------------------------------------------------- */

static struct sim_worker *pick(struct sim *s)
{
    struct sim_worker *w = NULL;

    for (int tries = 0; tries < 20 && s->n_workers > 0; tries++) {
        w = sim_worker(s, random_below(&s->random, s->n_workers));
        if (w && w->alive && !w->stopped)
            return w;
    }
    return NULL;
}

bool faults_trap(struct sim *s, struct sim_worker *w, enum trap trap)
{
    struct sim_worker *other;

    if (s->armed[trap] == 0 || !sim_one_in(s, 2))
        return false;
    s->armed[trap]--;
    TRACE(s, "a trap of kind %d closes on w%llu", (int)trap,
          (unsigned long long)w->id);
    process_kill(s, w);
    other = sim_one_in(s, 4) ? pick(s) : NULL;
    if (other)
        process_kill(s, other);
    return true;
}

static struct sim_host *pick_host(struct sim *s)
{
    return &s->hosts[random_below(&s->random, s->n_hosts)];
}

static void strike_host(struct sim *s, enum fault fault)
{
    struct sim_host *host = pick_host(s);

    switch (fault) {
    case FAULT_HOST_ADDED:
        add_host(s, (uint32_t)sim_uniform(s, 1, s->options.large ? 8 : 3),
                 false);
        TRACE(s, "discovery: %s appears", s->hosts[s->n_hosts - 1].name);
        break;
    case FAULT_HOST_REMOVED:
        TRACE(s, "discovery: %s disappears", host->name);
        host->slots_now = 0;
        break;
    case FAULT_SLOTS:
        host->slots_now = (uint32_t)random_below(&s->random, 5);
        TRACE(s, "discovery: %s has %u slots", host->name, host->slots_now);
        break;
    default: /* it flaps: changes now and again later */
        host->slots_now = host->slots_now ? 0 : host->slots;
        TRACE(s, "discovery: %s flaps to %u slots", host->name,
              host->slots_now);
        if (s->now_us < s->plan.horizon_us && !sim_one_in(s, 4))
            plan_fault(s, s->now_us + sim_uniform(s, 0, 2 * SEC), FAULT_FLAP);
        break;
    }
}

static void strike_agent(struct sim *s, bool silent)
{
    for (int tries = 0; tries < 20 && s->n_agents > 0; tries++) {
        uint64_t id = random_below(&s->random, s->n_agents);
        struct sim_agent *agent = s->agents[id];

        if (!agent || agent->gone)
            continue;
        agents_die(s, agent, silent);
        return;
    }
}

static void partition(struct sim *s)
{
    struct sim_host *host = pick_host(s);
    uint64_t us = sim_one_in(s, 2) ? sim_uniform(s, 1, 3000) * MSEC
                                   : sim_uniform(s, 3, 20) * SEC;

    if (host->cut_until_us < s->now_us + us)
        host->cut_until_us = s->now_us + us;
    TRACE(s, "%s is cut off for %llu ms", host->name,
          (unsigned long long)(us / MSEC));
    sim_cover(s, COVER_partition);
    for (size_t i = 0; i < s->n_workers; i++) {
        struct sim_worker *w = sim_worker(s, i);

        if (w && w->alive && &s->hosts[w->host] == host && sim_one_in(s, 2))
            app_lose(s, w, false);
    }
}

static void interrupt(struct sim *s)
{
    struct driver_event ev = {.type = DRIVER_EV_INTERRUPT, .u.signal = 2};

    if (s->stalled_until_us > s->now_us) {
        plan_fault(s, s->stalled_until_us, FAULT_INTERRUPT);
        return;
    }
    TRACE(s, "Ctrl-C");
    sim_cover(s, COVER_interrupted);
    sim_driver_step(s, &ev);
    if (sim_one_in(s, 3))
        plan_fault(s, s->now_us + sim_uniform(s, 1, 500) * MSEC,
                   FAULT_INTERRUPT);
}

/* Not driver_step() is slow: its whole process does not run. */
static void stall(struct sim *s)
{
    s->stalled_until_us = s->now_us + sim_uniform(s, 100, 20000) * MSEC;
    TRACE(s, "the driver stalls for %llu ms",
          (unsigned long long)((s->stalled_until_us - s->now_us) / MSEC));
    sim_cover(s, COVER_driver_stalled);
}

static void strike_worker(struct sim *s, enum fault fault)
{
    struct sim_worker *w = pick(s), *other;
    struct worker_event event;
    uint64_t us;

    if (!w)
        return;
    switch (fault) {
    case FAULT_KILL_TWO:
        other = pick(s);
        process_kill(s, w);
        if (other)
            process_kill(s, other);
        break;
    case FAULT_STOP:
        process_stop(s, w, TIME_NEVER);
        break;
    case FAULT_PAUSE:
        us = sim_one_in(s, 2) ? sim_uniform(s, 10, 2000) * MSEC
                              : sim_uniform(s, 3, 12) * SEC;
        process_stop(s, w, s->now_us + us);
        break;
    case FAULT_ACCUSE:
        app_lose(s, w, true);
        break;
    case FAULT_DRAIN:
        sim_cover(s, COVER_drain_requested);
        event = app_event(w, WORKER_EV_DRAIN);
        app_feed(s, w, &event);
        break;
    case FAULT_USER_ERROR:
        app_fail(s, w);
        break;
    default:
        process_kill(s, w);
        break;
    }
}

/* From now on nothing goes wrong and there is room for everybody. */
static void settle(struct sim *s)
{
    uint32_t need = s->driver_config.np;

    TRACE(s, "everything is healed");
    memset(s->armed, 0, sizeof(s->armed));
    s->hosts_bad_until_us = 0;
    for (size_t i = 0; i < s->n_hosts; i++)
        if (s->hosts[i].home)
            s->hosts[i].slots_now = s->hosts[i].slots;
    if (s->options.base)
        return;
    add_host(s, need < HOSTS_SLOTS_MAX ? need : HOSTS_SLOTS_MAX, true);
}

void faults_strike(struct sim *s, const struct event *event)
{
    enum fault fault = (enum fault)event->sub;

    if (s->now_us > s->plan.horizon_us)
        return;
    switch (fault) {
    case FAULT_SETTLE:
        settle(s);
        break;
    case FAULT_TRAP:
        s->armed[1 + random_below(&s->random, TRAP_COMMIT)]++;
        break;
    case FAULT_AGENT:
    case FAULT_AGENT_SILENT:
        strike_agent(s, fault == FAULT_AGENT_SILENT);
        break;
    case FAULT_HOST_ADDED:
    case FAULT_HOST_REMOVED:
    case FAULT_SLOTS:
    case FAULT_FLAP:
        strike_host(s, fault);
        break;
    case FAULT_DISCOVERY_BAD:
        s->hosts_bad_until_us = s->now_us + sim_uniform(s, 1, 3) * SEC;
        break;
    case FAULT_PARTITION:
        partition(s);
        break;
    case FAULT_INTERRUPT:
        interrupt(s);
        break;
    case FAULT_LAYOUT:
        s->odd_layouts++;
        break;
    case FAULT_STALL:
        stall(s);
        break;
    default:
        strike_worker(s, fault);
        break;
    }
}
