/* agents.c - the agents: the real core of each (src/elastic/agent/core.c), its
 * process, and what its loop does around it. How a worker's process lives and
 * dies is process.c. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

struct sim_agent *sim_agent(struct sim *s, uint64_t id)
{
    return id < s->n_agents ? s->agents[id] : NULL;
}

bool agents_fail_now(struct sim *s, uint64_t one_in)
{
    if (s->options.base || s->options.large || s->now_us >= s->plan.horizon_us)
        return false;
    return sim_one_in(s, one_in) && sim_befalls(s, MISHAP_NO_START);
}

static uint32_t host_index(struct sim *s, const char *name)
{
    const struct sim_host *host = plan_host_of(s, name);

    if (host)
        return (uint32_t)(host - s->hosts);
    check_fail(s, "the driver names host \"%s\" that never was", name);
}

static struct event *push(struct sim *s, const struct sim_agent *agent,
                          enum agent_news news, uint64_t at)
{
    struct event *event = queue_push(&s->queue, at, EV_AGENT);

    event->sub = (uint8_t)news;
    event->a = agent->id;
    return event;
}

/* ---- birth --------------------------------------------------------------- */

static struct sim_agent *create(struct sim *s, uint64_t id, const char *host)
{
    struct sim_agent *agent;

    if (id == 0 || sim_agent(s, id))
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
    agent->launched = agent->dialled = s->driver_config.term;
    agent->tick_us = TIME_NEVER;
    return agent;
}

void agents_start(struct sim *s, uint64_t id, const char *host)
{
    struct sim_agent *agent = create(s, id, host);

    if (s->now_us < s->hosts[agent->host].boots_until_us ||
        agents_fail_now(s, 60)) { /* could not be started */
        agents_end_is_told(s, agent, 5 * MSEC);
        return;
    }
    agent->runs = true;
    push(s, agent, AGENT_BORN,
         s->now_us + sim_uniform(s, MSEC, s->plan.spawn_us + MSEC));
}

static void keep_tick(struct sim *s, struct sim_agent *agent)
{
    uint64_t at = agent_core_deadline(&agent->core);
    uint64_t ahead_us = s->hosts[agent->host].clock_us;

    if (at == AGENT_NEVER || !agent->runs)
        return;
    at = at > ahead_us ? at - ahead_us : 0;
    if (at < s->now_us)
        at = s->now_us;
    if (at >= agent->tick_us)
        return;
    agent->tick_us = at;
    push(s, agent, AGENT_TICK, at);
}

static void born(struct sim *s, struct sim_agent *agent)
{
    struct agent_config config = AGENT_CONFIG_DEFAULTS;

    config.job = s->driver_config.job;
    config.survives = s->plan.survives;
    config.remote = s->plan.remote;
    config.hello.agent = agent->id;
    config.hello.pid = 100 + (int64_t)agent->id;
    if (!agent_core_init(&agent->core, &config, host_now(s, agent->host)))
        abort();
    keep_tick(s, agent);
}

/* ---- the core's actions -------------------------------------------------- */

static void send(struct sim *s, struct sim_agent *agent,
                 const struct agent_action *action)
{
    struct message m;

    agent_core_message(&agent->core, action, &m);
    if (agents_fail_now(s, 300)) { /* its socket does not take it */
        sim_cover(s, COVER_agent_unsent);
        agent_core_unsent(&agent->core, action);
        return;
    }
    network_from_agent(s, agent, &m);
}

static void start_failed(struct sim *s, struct sim_agent *agent, uint64_t id,
                         int error)
{
    struct agent_event ev = {.type = AGENT_EV_START_FAILED,
                             .worker = id,
                             .error = error,
                             .text = "cannot start"};

    TRACE(s, "agent %llu: spawn of w%llu fails", (unsigned long long)agent->id,
          (unsigned long long)id);
    sim_cover(s, COVER_spawn_failed);
    agents_feed(s, agent, &ev);
}

static void start(struct sim *s, struct sim_agent *agent, uint64_t id)
{
    struct agent_event ev = {.type = AGENT_EV_FORKED, .worker = id};

    if (s->now_us < s->hosts[agent->host].barren_until_us) {
        start_failed(s, agent, id, s->hosts[agent->host].start_error);
        return;
    }
    if (agents_fail_now(s, 100)) {
        start_failed(s, agent, id, ENOMEM);
        return;
    }
    if (!array_reserve(&agent->workers, &agent->workers_max,
                       agent->n_workers + 1))
        abort();
    agent->workers[agent->n_workers++] = id;
    process_begin(s, agent, id);
    ev.pid = (int64_t)sim_worker(s, id)->pid;
    agents_feed(s, agent, &ev);
    push(s, agent, AGENT_CHILD_RUNS, s->now_us + sim_uniform(s, 20, 3 * MSEC))
        ->b = id;
}

/* Its workers end with it, as their lifelines do. */
static void ends(struct sim *s, struct sim_agent *agent)
{
    agent->runs = false;
    queue_drop(&s->queue, &agent->parked);
    for (size_t i = 0; i < agent->n_workers; i++) {
        struct sim_worker *w = sim_worker(s, agent->workers[i]);

        if (w)
            process_kill(s, w);
    }
    if (!agent->silent)
        agents_end_is_told(s, agent, sim_uniform(s, 100, s->plan.kill_us));
}

/* As the agent's loop does: a spawn comes last, it feeds events of its own. */
static void perform(struct sim *s, struct sim_agent *agent,
                    const struct agent_action *actions, size_t n)
{
    uint64_t spawned = 0;
    bool exits = false;

    for (size_t i = 0; i < n; i++) {
        const struct agent_action *a = &actions[i];

        switch (a->type) {
        case AGENT_DO_SEND:
            send(s, agent, a);
            break;
        case AGENT_DO_SIGNAL:
            process_signal(s, sim_worker(s, a->worker), a->signo);
            break;
        case AGENT_DO_SPAWN:
            spawned = a->worker;
            break;
        case AGENT_DO_EXIT:
            exits = true;
            break;
        }
    }
    if (exits && agent->core.noticed && !agent->lifeline_cut)
        sim_cover(s, COVER_left_in_time);
    if (exits)
        ends(s, agent);
    else if (spawned != 0)
        start(s, agent, spawned);
}

void agents_feed(struct sim *s, struct sim_agent *agent, struct agent_event *ev)
{
    const struct agent_action *actions;
    size_t n;
    bool was_lost = agent->core.driver_lost;

    ev->now_us = host_now(s, agent->host);
    if (agent_core_step(&agent->core, ev, &actions, &n) != HVD_OK)
        check_fail(s, "agent %llu rejects %s", (unsigned long long)agent->id,
                   ev->message ? message_type_name(ev->message->type)
                               : "an event");
    if (agent->core.driver_lost && !was_lost && !agent->lifeline_cut)
        check_driver_is_lost(s, agent->host, agent->absent_us, "an agent");
    perform(s, agent, actions, n);
    keep_tick(s, agent);
}

/* ---- events -------------------------------------------------------------- */

static void child_exited(struct sim *s, struct sim_agent *agent,
                         const struct event *event)
{
    struct agent_event ev = {.type = AGENT_EV_EXITED,
                             .worker = event->b,
                             .code = (int64_t)event->c,
                             .signal = (int64_t)event->d};

    if (s->options.bug == BUG_mute && event->d == SIGKILL)
        return; /* its heartbeats stop: that is noticed, in the end */
    agents_feed(s, agent, &ev);
}

static void child_dying(struct sim *s, struct sim_agent *agent,
                        const struct event *event)
{
    struct agent_event ev = {.type = AGENT_EV_DYING,
                             .worker = event->b,
                             .code = (int64_t)event->c,
                             .signal = (int64_t)event->d,
                             .direct = !sim_one_in(s, 4)};

    ev.gone = !ev.direct && ev.code == EXIT_UNKNOWN;
    if (s->options.bug != BUG_mute && s->options.bug != BUG_unheld)
        agents_feed(s, agent, &ev);
}

static void child_runs(struct sim *s, struct sim_agent *agent, uint64_t id)
{
    struct agent_event ev = {.type = AGENT_EV_STARTED, .worker = id};

    agents_feed(s, agent, &ev);
}

static void follow(struct sim *s, struct sim_agent *agent)
{
    struct agent_event ev = {.type = AGENT_EV_SUCCESSOR,
                             .term = s->driver_config.term};

    agent->dialled = ev.term;
    agents_feed(s, agent, &ev);
}

/* Another connection: it says HELLO there, and all again when that is
 * answered. */
static void tell_by_another(struct sim *s, struct sim_agent *agent)
{
    struct agent_action hello = {.type = AGENT_DO_SEND,
                                 .message = MSG_AGENT_HELLO};
    struct agent_event ev = {.type = AGENT_EV_MOVED};
    struct message m;

    agent->forgotten = false;
    if (agent->core.phase != AGENT_RUNNING)
        return;
    agent_core_message(&agent->core, &hello, &m);
    network_from_agent(s, agent, &m);
    agents_feed(s, agent, &ev);
}

static void on_tick(struct sim *s, struct sim_agent *agent)
{
    struct agent_event ev = {.type = AGENT_EV_TICK};

    agent->tick_us = TIME_NEVER;
    if (succession_look_agent(s, agent))
        follow(s, agent);
    if (network_moves(s) ||
        (agent->forgotten && !network_is_cut(s, agent->host)))
        tell_by_another(s, agent);
    agents_feed(s, agent, &ev);
}

static void on_lifeline(struct sim *s, struct sim_agent *agent)
{
    struct agent_event ev = {.type = AGENT_EV_DRIVER_LOST};

    if (!agent->core.children) { /* not born yet: it will find it so */
        push(s, agent, AGENT_LIFELINE, s->now_us + MSEC);
        return;
    }
    agent->lifeline_cut = true;
    agents_feed(s, agent, &ev);
}

static void resume(struct sim *s, struct sim_agent *agent)
{
    agent->stopped = false;
    agent->absent_us += s->now_us;
    queue_unpark(&s->queue, &agent->parked, s->now_us);
    TRACE(s, "agent %llu goes on", (unsigned long long)agent->id);
}

void agents_event(struct sim *s, const struct event *event)
{
    struct sim_agent *agent = sim_agent(s, event->a);

    switch ((enum agent_news)event->sub) {
    case AGENT_BORN:
        born(s, agent);
        break;
    case AGENT_TICK:
        on_tick(s, agent);
        break;
    case AGENT_CHILD_RUNS:
        child_runs(s, agent, event->b);
        break;
    case AGENT_CHILD_DYING:
        child_dying(s, agent, event);
        break;
    case AGENT_CHILD_EXITED:
        child_exited(s, agent, event);
        break;
    case AGENT_LIFELINE:
        on_lifeline(s, agent);
        break;
    case AGENT_HOST_GOES:
        notice_host_goes(s, agent);
        break;
    case AGENT_RESUME:
        resume(s, agent);
        break;
    }
}

void agents_hear(struct sim *s, struct event *event)
{
    struct sim_agent *agent = sim_agent(s, event->a);
    struct agent_event ev = {.type = AGENT_EV_MESSAGE,
                             .message = event->message};

    if (event->message->term != agent->dialled)
        return; /* the connection that it was sent by is closed */
    network_through_codec(s, event->message);
    if (s->options.trace && event->message->type != MSG_AGENT_PONG)
        trace_agent(s, "got: ", event->message, true, event->a);
    if (!agent_core_reserve(&agent->core))
        abort();
    agents_feed(s, agent, &ev);
}

/* ---- what befalls it ----------------------------------------------------- */

void agents_end_is_told(struct sim *s, const struct sim_agent *agent,
                        uint64_t delay_us)
{
    uint64_t at = s->now_us + delay_us;
    uint64_t cut_us = s->hosts[agent->host].cut_up_us;
    struct event *event;

    if (s->plan.remote && at < cut_us)
        at = cut_us;
    event = queue_push(&s->queue, at, EV_LAUNCHER);
    event->sub = LAUNCH_ENDED;
    event->a = agent->id;
    event->d = agent->launched;
}

void agents_die(struct sim *s, struct sim_agent *agent, bool silent)
{
    if (!agent->runs)
        return;
    TRACE(s, "agent %llu on %s dies%s", (unsigned long long)agent->id,
          s->hosts[agent->host].name, silent ? ", nobody sees it" : "");
    agent->silent = silent;
    ends(s, agent);
}

void agents_cut_lifeline(struct sim *s, struct sim_agent *agent)
{
    uint64_t at = s->now_us + sim_uniform(s, 20, MSEC);

    if (!agent->runs || s->options.bug == BUG_orphan)
        return;
    if (s->plan.remote && at < s->hosts[agent->host].cut_down_us)
        at = s->hosts[agent->host].cut_down_us;
    push(s, agent, AGENT_LIFELINE, at);
}

void agents_go_in(struct sim *s, const struct sim_agent *agent,
                  uint64_t delay_us)
{
    push(s, agent, AGENT_HOST_GOES, s->now_us + delay_us);
}

void agents_stop(struct sim *s, struct sim_agent *agent, uint64_t resume_us)
{
    if (!agent->runs || agent->stopped)
        return;
    TRACE(s, "agent %llu is stopped%s", (unsigned long long)agent->id,
          resume_us == TIME_NEVER ? "" : " for a while");
    sim_cover(s, COVER_agent_stopped);
    agent->stopped = true;
    agent->absent_us -= s->now_us; /* until it goes on */
    faults_last(s, resume_us);
    if (resume_us != TIME_NEVER)
        push(s, agent, AGENT_RESUME, resume_us);
}

void agents_look(struct sim *s, struct sim_agent *agent)
{
    if (agent->runs && agent->core.children)
        keep_tick(s, agent);
}
