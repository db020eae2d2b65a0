/* faults.c - what goes wrong in a run: what each fault does (plan.c says when),
 * and what discovery answers. Some faults are traps: they wait until a worker
 * comes into a certain state and kill it there. */
#include <stdio.h>
#include <string.h>

#include "world.h"

/* ---- discovery ----------------------------------------------------------- */

void faults_discovery(struct sim *s)
{
    struct driver_event ev = {.type = DRIVER_EV_HOSTS, .u.hosts = &s->listed};

    queue_push(&s->queue, s->now_us + s->plan.discovery_us, EV_DISCOVERY);
    if (s->hosts_bad_until_us > s->now_us) {
        ev.type = DRIVER_EV_DISCOVERY_BAD;
        ev.u.discovery.text = "the script exited with 1";
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
        if (w && process_runs(w))
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
        plan_host(s, (uint32_t)sim_uniform(s, 1, s->options.large ? 8 : 3),
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

/* A cluster gives many hosts at once; and takes them back. */
static void storm(struct sim *s)
{
    uint64_t n = sim_uniform(s, 8, 24);

    TRACE(s, "discovery: %llu hosts appear at once", (unsigned long long)n);
    sim_cover(s, COVER_join_storm);
    while (n-- > 0)
        plan_host(s, (uint32_t)sim_uniform(s, 1, 3), false);
}

static struct sim_agent *pick_agent(struct sim *s)
{
    for (int tries = 0; tries < 20 && s->n_agents > 0; tries++) {
        struct sim_agent *agent =
            s->agents[random_below(&s->random, s->n_agents)];

        if (agent && agent->runs && !agent->stopped)
            return agent;
    }
    return NULL;
}

/* Up to a tenth of a second, some seconds, or longer than most timeouts. */
static uint64_t draw_pause_us(struct sim *s)
{
    switch (random_below(&s->random, 4)) {
    case 0:
        return sim_uniform(s, 10, 100) * MSEC;
    case 1:
        return sim_uniform(s, 100, 2000) * MSEC;
    case 2:
        return sim_uniform(s, 2, 12) * SEC;
    default:
        return sim_uniform(s, 12, 40) * SEC;
    }
}

static void strike_agent(struct sim *s, enum fault fault)
{
    struct sim_agent *agent = pick_agent(s);
    bool silent = fault == FAULT_AGENT_SILENT && s->plan.remote;

    if (!agent)
        return;
    if (fault == FAULT_AGENT_STOP) {
        agents_stop(s, agent,
                    sim_one_in(s, 4) ? TIME_NEVER
                                     : s->now_us + draw_pause_us(s));
        return;
    }
    sim_cover(s, silent ? COVER_agent_silent : COVER_agent_died);
    agents_die(s, agent, silent);
}

/* Each direction for itself: one may be cut while the other is not. */
static void partition(struct sim *s)
{
    struct sim_host *host = pick_host(s);
    uint64_t until_us = s->now_us + (sim_one_in(s, 2)
                                         ? sim_uniform(s, 1, 3000) * MSEC
                                         : sim_uniform(s, 3, 20) * SEC);
    uint64_t which = random_below(&s->random, 4);

    s->cuts_overlap |= host->cut_up_us > s->now_us;
    if (which != 1 && host->cut_up_us < until_us)
        host->cut_up_us = until_us;
    if (which != 2 && host->cut_down_us < until_us)
        host->cut_down_us = until_us;
    host->cut_keeps = sim_one_in(s, 2);
    faults_last(s, until_us);
    TRACE(s, "%s is cut off (%s) for %llu ms", host->name,
          which == 1   ? "hears nothing"
          : which == 2 ? "is not heard"
                       : "both ways",
          (unsigned long long)((until_us - s->now_us) / MSEC));
    sim_cover(s, which == 1 || which == 2 ? COVER_partition_one_way
                                          : COVER_partition);
    for (size_t i = 0; i < s->n_workers; i++) {
        struct sim_worker *w = sim_worker(s, i);

        if (w && process_runs(w) && &s->hosts[w->host] == host &&
            sim_one_in(s, 2))
            plane_lose(s, w);
    }
}

static void cut_host(struct sim *s, struct sim_host *host, uint64_t until_us,
                     bool keeps)
{
    s->cuts_overlap |= host->cut_up_us > s->now_us;
    if (host->cut_up_us < until_us)
        host->cut_up_us = until_us;
    if (host->cut_down_us < until_us)
        host->cut_down_us = until_us;
    host->cut_keeps = keeps;
}

/* Connections die: each process dials again when it has missed a word of the
 * driver, and says HELLO; data connections break. */
static void forget_connections(struct sim *s)
{
    sim_cover(s, COVER_connections_died);
    for (size_t i = 0; i < s->n_workers; i++)
        if (sim_worker(s, i) && sim_one_in(s, 2))
            plane_lose(s, sim_worker(s, i));
    for (size_t i = 0; i < s->n_agents; i++)
        if (s->agents[i] && s->agents[i]->runs)
            s->agents[i]->forgotten = true;
}

/* All hosts are cut off from the driver at once: its cable is out; the switch
 * is away, and workers do not reach each other either; a firewall has forgotten
 * all connections. */
static void cut_all(struct sim *s, enum fault fault)
{
    const struct driver_config *c = &s->driver_config;
    uint64_t us = sim_one_in(s, 3) ? sim_uniform(s, 3, 40) * SEC
                                   : sim_uniform(s, 100, 6000) * MSEC;
    bool keeps = sim_one_in(s, 2);

    if (fault == FAULT_FLOWS) {
        us = c->heartbeat_us + c->heartbeat_timeout_us / 4;
        keeps = false;
        forget_connections(s);
    } else {
        sim_cover(s, fault == FAULT_CUT_ALL ? COVER_all_cut : COVER_driver_cut);
    }
    TRACE(s, "all are cut off from the driver%s for %llu ms",
          fault == FAULT_CUT_ALL ? ", and from each other" : "",
          (unsigned long long)(us / MSEC));
    for (size_t i = 0; i < s->n_hosts; i++)
        cut_host(s, &s->hosts[i], s->now_us + us, keeps);
    if (fault == FAULT_CUT_ALL)
        s->plane_cut_us = s->now_us + us;
    faults_last(s, s->now_us + us);
}

static void interrupt(struct sim *s)
{
    struct driver_event ev = {.type = DRIVER_EV_INTERRUPT, .u.signal = 2};

    if (s->stalled_until_us > s->now_us) {
        plan_fault(s, s->stalled_until_us, FAULT_INTERRUPT);
        return;
    }
    if (s->driver_dead)
        return;
    TRACE(s, "Ctrl-C");
    sim_cover(s, COVER_interrupted);
    sim_driver_step(s, &ev);
    if (sim_one_in(s, 3))
        plan_fault(s, s->now_us + sim_uniform(s, 1, 500) * MSEC,
                   FAULT_INTERRUPT);
}

/* ---- absence ------------------------------------------------------------- */

/* Not driver_step() is slow: its whole process does not run. */
static void stall(struct sim *s, uint64_t until_us)
{
    if (s->stalled_until_us < until_us)
        s->stalled_until_us = until_us;
    faults_last(s, until_us);
    TRACE(s, "the driver stalls for %llu ms",
          (unsigned long long)((s->stalled_until_us - s->now_us) / MSEC));
    sim_cover(s, COVER_driver_stalled);
}

/* Its machine is busy, or its disk: it runs, but late. */
static void slow_down(struct sim *s)
{
    s->slow_until_us = s->now_us + sim_uniform(s, 100, 5000) * MSEC;
    s->slow_us = sim_uniform(s, 1, 30) * MSEC;
    faults_last(s, s->slow_until_us);
    TRACE(s, "the driver is slow for %llu ms",
          (unsigned long long)((s->slow_until_us - s->now_us) / MSEC));
    sim_cover(s, COVER_driver_slow);
}

/* They go on in any order. */
static void pause_host(struct sim *s, uint32_t host, uint64_t until_us)
{
    for (size_t i = 0; i < s->n_agents; i++)
        if (s->agents[i] && s->agents[i]->host == host)
            agents_stop(s, s->agents[i],
                        until_us + random_below(&s->random, 20 * MSEC));
    for (size_t i = 0; i < s->n_workers; i++)
        if (s->workers[i] && s->workers[i]->host == host)
            process_stop(s, s->workers[i],
                         until_us + random_below(&s->random, 20 * MSEC));
}

/* docker pause: of a host, or of the whole job. */
static void pause_all(struct sim *s, bool whole_job)
{
    uint64_t until_us = s->now_us + draw_pause_us(s);

    if (!whole_job) {
        sim_cover(s, COVER_host_paused);
        pause_host(s, (uint32_t)random_below(&s->random, s->n_hosts), until_us);
        return;
    }
    sim_cover(s, COVER_all_paused);
    for (uint32_t i = 0; i < s->n_hosts; i++)
        pause_host(s, i, until_us);
    stall(s, until_us + random_below(&s->random, 20 * MSEC));
}

/* A virtual machine was suspended, or moved: its clock is ahead at once. */
static void step_clock(struct sim *s)
{
    uint64_t us = sim_one_in(s, 2) ? sim_uniform(s, 1, 5000) * MSEC
                                   : sim_uniform(s, 5, 3600) * SEC;
    uint32_t host = (uint32_t)random_below(&s->random, s->n_hosts);

    sim_cover(s, COVER_clock_stepped);
    TRACE(s, "a clock jumps by %llu ms", (unsigned long long)(us / MSEC));
    if (sim_one_in(s, 3)) {
        s->driver_clock_us += us;
        return;
    }
    s->hosts[host].clock_us += us;
    for (size_t i = 0; i < s->n_agents; i++)
        if (s->agents[i] && s->agents[i]->host == host)
            agents_look(s, s->agents[i]);
    for (size_t i = 0; i < s->n_workers; i++)
        if (s->workers[i] && s->workers[i]->host == host)
            control_look(s, s->workers[i]);
}

static void strike_absence(struct sim *s, enum fault fault)
{
    switch (fault) {
    case FAULT_STALL:
        stall(s, s->now_us + draw_pause_us(s));
        break;
    case FAULT_SLOW:
        slow_down(s);
        break;
    case FAULT_CLOCK:
        step_clock(s);
        break;
    default:
        pause_all(s, fault == FAULT_ALL_PAUSE);
        break;
    }
}

static void strike_worker(struct sim *s, enum fault fault)
{
    struct sim_worker *w = pick(s), *other;
    struct worker_event event;

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
        process_stop(s, w, s->now_us + draw_pause_us(s));
        break;
    case FAULT_ACCUSE:
        w->slanders = sim_uniform(s, 1, 3);
        plane_lose(s, w);
        break;
    case FAULT_DRAIN:
        sim_cover(s, COVER_drain_requested);
        event = control_event(w, WORKER_EV_DRAIN);
        control_feed(s, w, &event);
        break;
    case FAULT_STUCK: /* a disk that hangs; and then it is told to go */
        process_stick(s, w, s->now_us + draw_pause_us(s));
        if (sim_one_in(s, 2))
            process_kill(s, w);
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
    for (size_t i = 0; i < s->n_workers; i++)
        if (sim_worker(s, i))
            sim_worker(s, i)->slanders = 0;
    for (size_t i = 0; i < s->n_hosts; i++)
        if (s->hosts[i].home)
            s->hosts[i].slots_now = s->hosts[i].slots;
    if (s->options.base)
        return;
    plan_host(s, need < HOSTS_SLOTS_MAX ? need : HOSTS_SLOTS_MAX, true);
}

void faults_strike(struct sim *s, const struct event *event)
{
    enum fault fault = (enum fault)event->sub;

    if (s->now_us > s->plan.horizon_us)
        return;
    s->result->n_faults += fault != FAULT_SETTLE;
    switch (fault) {
    case FAULT_SETTLE:
        settle(s);
        break;
    case FAULT_TRAP:
        s->armed[1 + random_below(&s->random, TRAP_COMMIT)]++;
        break;
    case FAULT_AGENT:
    case FAULT_AGENT_SILENT:
    case FAULT_AGENT_STOP:
        strike_agent(s, fault);
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
    case FAULT_CUT_DRIVER:
    case FAULT_CUT_ALL:
    case FAULT_FLOWS:
        cut_all(s, fault);
        break;
    case FAULT_INTERRUPT:
        interrupt(s);
        break;
    case FAULT_LAYOUT:
        s->odd_layouts++;
        break;
    case FAULT_STORM:
        storm(s);
        break;
    case FAULT_NOTICE:
        notice_strike(s);
        break;
    case FAULT_BOOT:
    case FAULT_NO_PROGRAM:
    case FAULT_BAD_SLOT:
        trouble_strike(s, fault);
        break;
    case FAULT_DRIVER:
        succession_strike(s);
        break;
    case FAULT_STALL:
    case FAULT_SLOW:
    case FAULT_CLOCK:
    case FAULT_HOST_PAUSE:
    case FAULT_ALL_PAUSE:
        strike_absence(s, fault);
        break;
    default:
        strike_worker(s, fault);
        break;
    }
}
