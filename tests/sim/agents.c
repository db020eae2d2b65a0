/* agents.c - virtual agents and the processes they start: birth, death,
 * SIGSTOP. What an agent says reaches the driver late but in order; an agent
 * that dies takes its processes with it. */
#include <stdio.h>
#include <string.h>

#include "world.h"

static struct sim_agent *agent_of(struct sim *s, uint64_t id)
{
    return id < s->n_agents ? s->agents[id] : NULL;
}

static void say(struct sim *s, struct sim_agent *agent,
                enum driver_event_type type, uint64_t worker, int64_t code,
                int64_t signal, uint64_t delay_us)
{
    uint64_t at = s->now_us + delay_us;
    uint64_t cut_until_us = s->hosts[agent->host].cut_until_us;
    struct event *event;

    if (cut_until_us == TIME_NEVER)
        return;
    if (at < cut_until_us) /* the connection itself repeats what was lost */
        at = cut_until_us;
    if (at <= agent->last_out_us)
        at = agent->last_out_us + 1;
    agent->last_out_us = at;
    event = queue_push(&s->queue, at, EV_AGENT_SAYS);
    event->sub = (uint8_t)type;
    event->a = agent->id;
    event->b = worker;
    event->c = (uint64_t)code;
    event->d = (uint64_t)signal;
}

static uint64_t chat_us(struct sim *s)
{
    return sim_uniform(s, 20, s->plan.delay_us + 50);
}

static uint32_t host_index(struct sim *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_hosts; i++)
        if (strcmp(s->hosts[i].name, name) == 0)
            return i;
    check_fail(s, "the driver names host \"%s\" that never was", name);
}

/* Whatever can fail by itself does so only while faults are allowed. */
static bool fails_now(struct sim *s, uint64_t one_in)
{
    if (s->options.base || s->options.large || s->now_us >= s->plan.horizon_us)
        return false;
    return sim_one_in(s, one_in);
}

void agents_start(struct sim *s, uint64_t id, const char *host)
{
    struct sim_agent *agent;

    if (id == 0 || agent_of(s, id))
        check_fail(s, "agent id %llu is used twice", (unsigned long long)id);
    if (!array_reserve(&s->agents, &s->agents_max, id + 1))
        abort();
    if (s->n_agents <= id)
        s->n_agents = id + 1;
    agent = s->agents[id] = calloc(1, sizeof(*agent));
    if (!agent)
        abort();
    agent->id = id;
    agent->host = host_index(s, host);
    if (fails_now(s, 60)) {
        agent->gone = true; /* could not be started */
        say(s, agent, DRIVER_EV_AGENT_GONE, 0, 0, 0, 5 * MSEC);
        return;
    }
    agent->up = true;
    say(s, agent, DRIVER_EV_AGENT_UP, 0, 0, 0,
        sim_uniform(s, MSEC, s->plan.spawn_us + MSEC));
    queue_push(&s->queue, agent->last_out_us + s->plan.agent_ping_us,
               EV_AGENT_PING)
        ->a = id;
}

void agents_command(struct sim *s, uint64_t id, enum agent_cmd cmd,
                    uint64_t worker, uint64_t arg)
{
    struct sim_agent *agent = agent_of(s, id);
    struct event *event;
    uint64_t at;

    if (!agent)
        check_fail(s, "a command for agent %llu that never was",
                   (unsigned long long)id);
    agent->stopping |= cmd == CMD_STOP;
    at = s->now_us + chat_us(s);
    if (s->hosts[agent->host].cut_until_us == TIME_NEVER)
        return;
    if (at < s->hosts[agent->host].cut_until_us)
        at = s->hosts[agent->host].cut_until_us;
    if (at <= agent->last_in_us)
        at = agent->last_in_us + 1;
    agent->last_in_us = at;
    event = queue_push(&s->queue, at, EV_AGENT_CMD);
    event->sub = (uint8_t)cmd;
    event->a = id;
    event->b = worker;
    event->c = arg;
}

/* ---- processes ----------------------------------------------------------- */

static void core_begin(struct sim *s, struct sim_worker *w)
{
    struct worker_config config = {
        .job = s->driver_config.job,
        .worker = w->id,
        .heartbeat_us = s->driver_config.heartbeat_us / 4,
        .driver_timeout_us = 0,
    };

    config.hello.pid = (int64_t)w->pid;
    snprintf(config.hello.version, sizeof(config.hello.version), "sim");
    snprintf(config.hello.address, sizeof(config.hello.address), "127.0.0.1");
    config.hello.port = (uint16_t)(1024 + w->id % 60000);
    worker_core_init(&w->core, &config, s->now_us);
    w->tick_us = s->now_us;
    queue_push(&s->queue, s->now_us, EV_TICK)->a = w->id;
}

/* Most processes can do everything. Not drawn from the world's numbers: what
 * else happens does not depend on it. */
static uint8_t draw_abilities(const struct sim *s, uint64_t id)
{
    struct random_state r = {s->options.seed * 1000003 + id};

    if (random_below(&r, 8) > 0)
        return READY_CAN_ALL;
    return (uint8_t)random_below(&r, READY_CAN_ALL);
}

static void spawn(struct sim *s, struct sim_agent *agent, uint64_t id,
                  uint32_t slot)
{
    struct sim_worker *w;

    if (sim_worker(s, id))
        check_fail(s, "worker id %llu is used twice", (unsigned long long)id);
    if (!array_reserve(&s->workers, &s->workers_max, id + 1) ||
        !array_reserve(&agent->workers, &agent->workers_max,
                       agent->n_workers + 1))
        abort();
    w = malloc(sizeof(*w));
    if (!w)
        abort();
    memset(w, 0, sizeof(*w));
    if (s->n_workers <= id)
        s->n_workers = id + 1;
    s->workers[id] = w;
    agent->workers[agent->n_workers++] = id;
    w->id = id;
    w->pid = 1000 + id;
    w->agent = agent->id;
    w->host = agent->host;
    w->slot = slot;
    w->alive = true;
    w->live.hash = 1;
    w->abilities = draw_abilities(s, id);
    s->result->n_workers++;
    core_begin(s, w);
    say(s, agent, DRIVER_EV_SPAWNED, id, (int64_t)w->pid, 0, chat_us(s));
}

static void on_spawn(struct sim *s, struct sim_agent *agent,
                     const struct event *event)
{
    if (fails_now(s, 100)) {
        TRACE(s, "agent %llu: spawn of w%llu fails",
              (unsigned long long)agent->id, (unsigned long long)event->b);
        say(s, agent, DRIVER_EV_SPAWN_FAILED, event->b, 12, 0, chat_us(s));
        return;
    }
    spawn(s, agent, event->b, (uint32_t)event->c);
}

/* The process has ended: nothing of it acts any more. */
void process_exit(struct sim *s, struct sim_worker *w, int64_t code,
                  int64_t signal)
{
    struct sim_agent *agent = agent_of(s, w->agent);

    if (!w->alive)
        return;
    w->alive = false;
    w->serial++;
    TRACE(s, "w%llu ends (%s %lld)", (unsigned long long)w->id,
          signal ? "signal" : "code", (long long)(signal ? signal : code));
    app_peer_gone(s, w);
    if (agent && !agent->gone)
        say(s, agent, DRIVER_EV_EXITED, w->id, code, signal,
            sim_uniform(s, 100, s->plan.kill_us));
}

static void cover_death(struct sim *s, const struct sim_worker *w)
{
    static const enum sim_counter by_state[] = {
        [APP_INIT] = COVER_died_before_ready,
        [APP_LOADING] = COVER_died_before_ready,
        [APP_JOINING] = COVER_died_ready,
        [APP_SYNCING] = COVER_died_assigned,
        [APP_COMPUTING] = COVER_died_computing,
        [APP_IN_OP] = COVER_died_in_collective,
        [APP_HELD] = COVER_died_held,
        [APP_DONE] = COVER_died_done,
        [APP_GONE] = COVER_deaths,
    };
    struct sim_generation *g = sim_generation(s, w->generation);

    sim_cover(s, COVER_deaths);
    sim_cover(s, by_state[w->app]);
    if (w->app == APP_SYNCING && !w->core.assign.source)
        sim_cover(s, COVER_receiver_died_in_sync);
    if (g && !w->out && g->sources[w->rank] && w->core.assign.sync &&
        s->now_us - g->formed_us < 100 * MSEC)
        sim_cover(s, COVER_source_died_in_sync);
    if (s->now_us - s->last_death_us < MSEC && s->last_death_us > 0)
        sim_cover(s, COVER_two_at_once);
    s->last_death_us = s->now_us;
}

void process_kill(struct sim *s, struct sim_worker *w)
{
    if (!w->alive)
        return;
    TRACE(s, "w%llu is killed with -9", (unsigned long long)w->id);
    cover_death(s, w);
    process_exit(s, w, 0, 9);
}

void process_end_later(struct sim *s, const struct sim_worker *w)
{
    struct event *event = queue_push(&s->queue, s->now_us + 60 * SEC, EV_EXIT);

    event->a = w->id;
    event->c = 9;
}

void process_stop(struct sim *s, struct sim_worker *w, uint64_t resume_us)
{
    if (!w->alive || w->stopped)
        return;
    TRACE(s, "w%llu is stopped%s", (unsigned long long)w->id,
          resume_us == TIME_NEVER ? "" : " for a while");
    sim_cover(s, COVER_stopped);
    w->stopped = true;
    w->resume_us = resume_us;
    if (resume_us != TIME_NEVER)
        queue_push(&s->queue, resume_us, EV_RESUME)->a = w->id;
    else if (s->released)
        process_end_later(s, w);
}

/* ---- commands ------------------------------------------------------------ */

static void signal_process(struct sim *s, const struct sim_worker *w,
                           uint64_t signal, uint64_t delay_us)
{
    struct event *end = queue_push(&s->queue, s->now_us + delay_us, EV_EXIT);

    end->a = w->id;
    end->c = signal;
}

/* TERM ends a process that runs; a stopped one sees only KILL. */
static void on_kill(struct sim *s, const struct event *event)
{
    struct sim_worker *w = sim_worker(s, event->b);

    if (!w || !w->alive)
        return;
    if (event->c > 0)
        signal_process(s, w, 15, sim_uniform(s, 100, 5 * MSEC));
    signal_process(s, w, 9, event->c * MSEC + sim_uniform(s, 100, 5 * MSEC));
}

static void on_stop(struct sim *s, struct sim_agent *agent)
{
    for (size_t i = 0; i < agent->n_workers; i++) {
        struct sim_worker *w = sim_worker(s, agent->workers[i]);

        if (w)
            process_exit(s, w, 0, 9);
    }
    say(s, agent, DRIVER_EV_AGENT_GONE, 0, 0, 0, chat_us(s));
    agent->gone = true;
}

void agents_obey(struct sim *s, const struct event *event)
{
    struct sim_agent *agent = agent_of(s, event->a);

    if (agent->gone)
        return;
    switch ((enum agent_cmd)event->sub) {
    case CMD_SPAWN:
        on_spawn(s, agent, event);
        break;
    case CMD_KILL:
        on_kill(s, event);
        break;
    case CMD_STOP:
        on_stop(s, agent);
        break;
    }
}

void agents_die(struct sim *s, struct sim_agent *agent, bool silent)
{
    if (agent->gone)
        return;
    TRACE(s, "agent %llu on %s dies%s", (unsigned long long)agent->id,
          s->hosts[agent->host].name, silent ? ", nobody sees it" : "");
    sim_cover(s, silent ? COVER_agent_silent : COVER_agent_died);
    if (!silent)
        say(s, agent, DRIVER_EV_AGENT_GONE, 0, 0, 0,
            sim_uniform(s, 100, s->plan.kill_us));
    agent->gone = true; /* first: it tells of no exits any more */
    agent->silent = silent;
    for (size_t i = 0; i < agent->n_workers; i++) {
        struct sim_worker *w = sim_worker(s, agent->workers[i]);

        if (w)
            process_kill(s, w);
    }
}

void agents_ping(struct sim *s, uint64_t id)
{
    struct sim_agent *agent = agent_of(s, id);

    if (agent->gone)
        return;
    if (s->hosts[agent->host].cut_until_us <= s->now_us)
        say(s, agent, DRIVER_EV_AGENT_PING, 0, 0, 0, chat_us(s));
    queue_push(&s->queue, s->now_us + s->plan.agent_ping_us, EV_AGENT_PING)->a =
        id;
}

void agents_says(struct sim *s, const struct event *event)
{
    struct driver_event ev = {.type = (enum driver_event_type)event->sub};

    switch (ev.type) {
    case DRIVER_EV_SPAWNED:
        ev.u.spawned.worker = event->b;
        ev.u.spawned.pid = (int64_t)event->c;
        break;
    case DRIVER_EV_SPAWN_FAILED:
        ev.u.spawn_failed.worker = event->b;
        ev.u.spawn_failed.error = (int64_t)event->c;
        snprintf(ev.u.spawn_failed.text, WIRE_TEXT_MAX, "cannot fork");
        break;
    case DRIVER_EV_EXITED:
        ev.u.exited.worker = event->b;
        ev.u.exited.pid = 1000 + (int64_t)event->b;
        ev.u.exited.code = (int64_t)event->c;
        ev.u.exited.signal = (int64_t)event->d;
        break;
    default:
        ev.u.agent.agent = event->a;
        ev.u.agent.pid = 100 + (int64_t)event->a;
        ev.u.agent.text = "its process ended";
        break;
    }
    sim_driver_step(s, &ev);
}
