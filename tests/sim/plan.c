/* plan.c - what kind of world a seed makes: hosts, workers, the options of the
 * job, the network, and which faults come when. What they do is faults.c. At
 * the horizon everything is healed: enough slots are there and stay, so that
 * the job must end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

void plan_host(struct sim *s, uint32_t slots, bool home)
{
    struct sim_host *host;

    if (!array_reserve(&s->hosts, &s->hosts_max, s->n_hosts + 1))
        abort();
    host = &s->hosts[s->n_hosts];
    snprintf(host->name, sizeof(host->name), "h%zu", s->n_hosts);
    s->n_hosts++;
    host->slots = host->slots_now = slots;
    host->home = home;
    host->clock_us = random_below(&s->random, 1000000 * SEC);
}

/* By its number: the rules ask at each event. */
struct sim_host *plan_host_of(struct sim *s, const char *name)
{
    size_t i = strtoul(name + 1, NULL, 10);

    return i < s->n_hosts && strcmp(s->hosts[i].name, name) == 0 ? &s->hosts[i]
                                                                 : NULL;
}

void plan_fault(struct sim *s, uint64_t at, enum fault fault)
{
    const struct sim_less *less = &s->options.less;
    uint32_t number = fault == FAULT_SETTLE ? SIM_FAULTS_MAX : s->n_planned++;

    if (number < SIM_FAULTS_MAX) {
        if (less->faults >> number & 1)
            return;
        at += less->put_off_ms[number] * MSEC;
    }
    queue_push(&s->queue, at, EV_FAULT)->sub = (uint8_t)fault;
}

/* ---- the job's options --------------------------------------------------- */

/* As options.c has them. */
static void plan_driver(struct sim *s)
{
    s->driver_config = (struct driver_config){
        .job = 77,
        .term = 1,
        .reset_limit = -1,
        .slot_restarts = 3,
        .blacklist = {true, 10 * SEC, 600 * SEC},
        .elastic_timeout_us = 600 * SEC,
        .start_timeout_us = 300 * SEC,
        .drain_timeout_us = 30 * SEC,
        .exit_timeout_us = 3600 * SEC,
        .commit_timeout_us = 3600 * SEC,
        .heartbeat_us = SEC,
        .heartbeat_timeout_us = 2 * SEC,
        .driver_timeout_us = 600 * SEC,
        .connect_timeout_us = 10 * SEC,
        .seed = s->options.seed,
    };
}

/* Short or long: each as likely in a range of so many times its low end. */
static uint64_t between(struct sim *s, uint64_t low, uint64_t high)
{
    uint64_t us = low;

    while (2 * us < high && !sim_one_in(s, 3))
        us *= 2;
    return sim_uniform(s, us, 2 * us < high ? 2 * us : high);
}

/* A timeout is the product's own, or drawn. */
static void draw(struct sim *s, uint64_t *timeout_us_p, uint64_t low,
                 uint64_t high)
{
    if (!sim_one_in(s, 3))
        *timeout_us_p = between(s, low, high);
}

uint64_t plan_slack_us(const struct sim *s)
{
    return 300 * MSEC + (s->plan.tail_in ? s->plan.tail_us : 0);
}

/* What options_check.c refuses is not drawn; nor a timeout that the network of
 * this world alone would break. */
static void plan_heartbeats(struct sim *s)
{
    struct driver_config *c = &s->driver_config;
    if (!sim_one_in(s, 3)) {
        c->heartbeat_us = between(s, 200 * MSEC, 3 * SEC);
        c->heartbeat_timeout_us = c->heartbeat_us * 2 + plan_slack_us(s) +
                                  random_below(&s->random, 8 * SEC);
    }
    draw(s, &c->driver_timeout_us, 4 * c->heartbeat_us + plan_slack_us(s),
         60 * SEC);
}

static void plan_timeouts(struct sim *s)
{
    struct driver_config *c = &s->driver_config;

    plan_heartbeats(s);
    /* a READY that was lost is repeated with a heartbeat */
    draw(s, &c->elastic_timeout_us,
         2 * SEC + 3 * c->heartbeat_us + plan_slack_us(s), 60 * SEC);
    draw(s, &c->start_timeout_us, 4 * SEC, 60 * SEC);
    draw(s, &c->drain_timeout_us, 200 * MSEC, 30 * SEC);
    /* a RELEASE that was lost is repeated with a heartbeat */
    draw(s, &c->exit_timeout_us, 3 * c->heartbeat_us + plan_slack_us(s),
         60 * SEC);
    draw(s, &c->commit_timeout_us, 5 * SEC, 60 * SEC);
    if (sim_one_in(s, 10))
        c->exit_timeout_us = 0; /* none */
    if (sim_one_in(s, 10))
        c->commit_timeout_us = 0;
    if (sim_one_in(s, 4))
        c->hang_timeout_us = c->heartbeat_us * 2 + plan_slack_us(s) +
                             between(s, 4 * SEC, 60 * SEC);
}

/* By then the job must have ended, whatever has happened: each of its timeouts
 * has passed, and some of them twice. */
static uint64_t limit_us(const struct sim *s)
{
    const struct driver_config *c = &s->driver_config;

    return s->plan.horizon_us + 400 * SEC + 2 * c->elastic_timeout_us +
           2 * c->start_timeout_us + 2 * c->drain_timeout_us +
           c->exit_timeout_us + c->hang_timeout_us + c->driver_timeout_us;
}

/* ---- the world ----------------------------------------------------------- */

/* Nobody's clock begins at 0, nor when another's does. */
static void plan_clocks(struct sim *s)
{
    s->driver_clock_us = random_below(&s->random, 1000000 * SEC);
}

static void plan_base(struct sim *s)
{
    struct sim_plan *p = &s->plan;

    *p = (struct sim_plan){
        .horizon_us = 600 * MSEC,
        .steps = 10,
        .step_us = 20 * MSEC,
        .load_us = 30 * MSEC,
        .spawn_us = 5 * MSEC,
        .kill_us = 3 * MSEC,
        .delay_us = s->options.seed % 2 ? 3000 : 300,
        .tail_us = 1,
        .agent_beat_us = SEC,
        .discovery_us = 50 * MSEC,
        .op_mix = 70,
        .commit_in = 2,
    };
    p->survives = s->options.succeed_event > 0;
    s->driver_config.np = 4;
    s->driver_config.min_np = 2;
    s->driver_config.max_np = 5;
    s->driver_config.heartbeat_timeout_us = 5 * SEC;
    s->driver_config.start_timeout_us = 20 * SEC;
    s->driver_config.drain_timeout_us = 5 * SEC;
    s->driver_config.elastic_timeout_us = 30 * SEC;
    plan_host(s, 2, true);
    plan_host(s, 2, true);
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
    p->agent_beat_us = s->options.large ? SEC : 200 * MSEC;
    p->remote = sim_one_in(s, 2);
    s->driver_config.answers = s->driver_config.answers_agents = p->remote;
    p->move_in = p->remote
                     ? losses[random_below(&s->random, ARRAY_SIZE(losses))]
                     : 0;
    p->op_mix = (uint32_t)sim_uniform(s, 0, 100);
    p->commit_in = (uint32_t)sim_uniform(s, 1, 4);
}

static void plan_large(struct sim *s)
{
    struct sim_plan *p = &s->plan;
    uint64_t n_faults = sim_uniform(s, 2, 6);

    for (int i = 0; i < 512; i++)
        plan_host(s, 8, true);
    plan_network(s);
    p->codec_in = 500;
    p->horizon_us = 3 * SEC;
    p->steps = sim_uniform(s, 3, 6);
    p->step_us = sim_uniform(s, 100, 500) * MSEC;
    p->load_us = 300 * MSEC;
    p->spawn_us = 50 * MSEC;
    p->kill_us = 20 * MSEC;
    p->discovery_us = SEC;
    s->driver_config.heartbeat_timeout_us = 5 * SEC;
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

static void plan_small_faults(struct sim *s)
{
    uint64_t n_faults = random_below(&s->random, 9);

    for (uint64_t i = 0; i < n_faults; i++) {
        enum fault fault = (enum fault)random_below(&s->random, N_FAULTS);

        if (fault >= FAULT_LAYOUT && !sim_one_in(s, 6))
            fault = FAULT_TRAP;
        plan_fault(s, random_below(&s->random, s->plan.horizon_us), fault);
        if (sim_one_in(s, 4))
            plan_fault(s, random_below(&s->random, s->plan.horizon_us),
                       FAULT_TRAP);
    }
}

static void plan_small_hosts(struct sim *s)
{
    struct driver_config *c = &s->driver_config;
    uint64_t n_hosts = sim_uniform(s, 1, 4);
    uint32_t n_slots = 0;

    for (uint64_t i = 0; i < n_hosts; i++) {
        plan_host(s, (uint32_t)sim_uniform(s, 1, 3), true);
        n_slots += s->hosts[i].slots;
    }
    c->np = (uint32_t)sim_uniform(s, 1, n_slots);
    c->min_np = (uint32_t)sim_uniform(s, 1, c->np);
    if (sim_one_in(s, 2))
        c->max_np = c->np + (uint32_t)random_below(&s->random, 3);
    c->strict_blacklist = sim_one_in(s, 8);
    c->hosts_fixed = sim_one_in(s, 3);
    if (c->strict_blacklist)
        c->blacklist.cooldown = false;
    if (sim_one_in(s, 3))
        c->blacklist = (struct blacklist_config){true, SEC, 4 * SEC};
    if (sim_one_in(s, 20))
        c->reset_limit = (int64_t)random_below(&s->random, 5);
}

static void plan_small(struct sim *s)
{
    struct sim_plan *p = &s->plan;

    plan_small_hosts(s);
    plan_network(s);
    p->codec_in = 50;
    p->horizon_us = sim_uniform(s, 1, 8) * SEC;
    p->steps = sim_uniform(s, 2, 24);
    p->step_us = p->horizon_us / p->steps * sim_uniform(s, 1, 8) / 8;
    p->long_step_in = sim_one_in(s, 5) ? 10 : 0;
    p->load_us = sim_uniform(s, 1, 800) * MSEC;
    p->spawn_us = sim_uniform(s, 1, 60) * MSEC;
    p->kill_us = sim_uniform(s, 1, 60) * MSEC;
    p->discovery_us = sim_uniform(s, 50, 600) * MSEC;
    plan_timeouts(s);
    if (p->agent_beat_us > s->driver_config.heartbeat_timeout_us / 5)
        p->agent_beat_us = s->driver_config.heartbeat_timeout_us / 5;
    p->survives = sim_one_in(s, 2);
    plan_small_faults(s);
}

void plan_make(struct sim *s)
{
    plan_driver(s);
    plan_clocks(s);
    if (s->options.base)
        plan_base(s);
    else if (s->options.large)
        plan_large(s);
    else
        plan_small(s);
    s->plan.limit_us = limit_us(s);
    faults_last(s, s->plan.horizon_us);
    plan_fault(s, s->plan.horizon_us, FAULT_SETTLE);
    queue_push(&s->queue, 0, EV_DISCOVERY);
}
