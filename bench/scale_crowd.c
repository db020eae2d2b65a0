/* bench/scale_crowd.c - the agents and workers: the real cores of both, and of
 * the processes around them what the protocol sees. See scale.h.
 *
 * A worker's program is READY at once, completes a collective and commits, in
 * each generation, and leaves at the cut. A signal ends it. What everybody says
 * lies in s->up, one agent's words side by side. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "elastic/wire/codec.h"
#include "scale.h"

struct scale_worker *crowd_worker(const struct scale *s, uint64_t id)
{
    return id < s->workers_max ? s->workers[id] : NULL;
}

struct scale_agent *crowd_agent(const struct scale *s, uint64_t id)
{
    return id < s->agents_max ? s->agents[id] : NULL;
}

static void say(struct scale *s, uint64_t agent, const struct message *m)
{
    mail_add(&s->up, (struct letter){.agent = agent, .worker = m->worker}, m);
}

/* ---- a worker ------------------------------------------------------------ */

static void feed(struct scale *s, struct scale_worker *w,
                 struct worker_event *ev);

static void perform(struct scale *s, struct scale_worker *w,
                    const struct worker_action *a)
{
    struct worker_event ev = {.type = WORKER_EV_COUNTED,
                              .boundary = 1 + w->id % 3};

    if (a->type == WORKER_ACT_SEND)
        say(s, w->agent, &a->u.message);
    else if (a->type == WORKER_ACT_HOLD)
        feed(s, w, &ev);
}

static void feed(struct scale *s, struct scale_worker *w,
                 struct worker_event *ev)
{
    struct worker_action copy[WORKER_ACTIONS_MAX];
    const struct worker_action *actions;
    size_t n;

    ev->id = w->state;
    if (worker_step(&w->core, ev, s->now_us, &actions, &n) != HVD_OK)
        scale_fail("a worker rejects an event");
    memcpy(copy, actions, n * sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        perform(s, w, &copy[i]);
}

static void report(struct scale *s, struct scale_worker *w,
                   enum report_what what)
{
    struct worker_event ev = {.type = WORKER_EV_REPORT};

    ev.u.report.generation = w->core.generation;
    ev.u.report.what = (uint8_t)what;
    ev.u.report.duration_ns = 1000;
    feed(s, w, &ev);
}

static void enter(struct scale *s, struct scale_worker *w)
{
    struct worker_event ev = {.type = WORKER_EV_ENTER};

    ev.u.enter.kind = READY_ELASTIC;
    ev.u.enter.abilities = READY_CAN_ALL;
    ev.u.enter.layout_text = "weights float32 [1024]";
    feed(s, w, &ev);
}

static void train(struct scale *s, struct scale_worker *w)
{
    if (w->state.generation == w->core.generation)
        return;
    report(s, w, REPORT_FIRST_COLLECTIVE);
    w->state = (struct state_id){w->core.generation,
                                 w->core.assign.base.version + 2};
    report(s, w, REPORT_FIRST_COMMIT);
}

static void leave(struct scale *s, struct scale_worker *w,
                  enum worker_event_type how)
{
    struct worker_event ev = {.type = how, .boundary = w->core.cut};

    if (w->left == w->core.generation)
        return;
    w->left = w->core.generation;
    ev.u.lost.generation = w->core.generation;
    feed(s, w, &ev);
}

/* What its program does now. */
static void live(struct scale *s, struct scale_worker *w)
{
    const struct worker_core *core = &w->core;
    struct worker_event done = {.type = WORKER_EV_DONE};

    if (core->phase == WORKER_IDLE)
        enter(s, w);
    if (core->phase != WORKER_RUNNING)
        return;
    if (core->aborted)
        leave(s, w, WORKER_EV_LOST);
    else if (core->hold && core->cut_known)
        leave(s, w, WORKER_EV_LEFT);
    else if (!core->hold)
        train(s, w);
    if (s->trained && core->phase == WORKER_RUNNING && !core->aborted)
        feed(s, w, &done);
}

static void tick_worker(struct scale *s, struct scale_worker *w)
{
    struct worker_event ev = {.type = WORKER_EV_TICK};

    feed(s, w, &ev);
    live(s, w);
}

static void create_worker(struct scale *s, const struct scale_agent *a,
                          uint64_t id)
{
    struct worker_config config = {.job = SCALE_JOB,
                                   .worker = id,
                                   .heartbeat_us = SCALE_HEARTBEAT_US,
                                   .driver_timeout_us = 600000000};
    struct scale_worker *w = calloc(1, sizeof(*w));
    struct msg_hello *hello = &config.hello;

    if (!w || !array_reserve(&s->workers, &s->workers_max, (size_t)id + 1))
        scale_fail("out of memory");
    w->id = id;
    w->agent = a->id;
    hello->pid = (int64_t)id;
    hello->port = 40000;
    snprintf(hello->address, sizeof(hello->address), "10.%u.%u.7",
             (unsigned)(a->id >> 8 & 255), (unsigned)a->id & 255);
    snprintf(hello->version, sizeof(hello->version), "0");
    worker_core_init(&w->core, &config, s->now_us);
    s->workers[id] = w;
}

static void call(struct scale *s, struct scale_worker *w)
{
    if (w->called)
        return;
    w->called = true;
    tick_worker(s, w);
}

/* ---- an agent ------------------------------------------------------------ */

static void feed_agent(struct scale *s, struct scale_agent *a,
                       struct agent_event *ev);

static void forget_worker(struct scale *s, struct scale_agent *a, uint64_t id)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n; i++)
        if (a->workers[i] != id)
            a->workers[n++] = a->workers[i];
    a->n = n;
    free(s->workers[id]);
    s->workers[id] = NULL;
}

static void exits(struct scale *s, struct scale_agent *a, uint64_t id,
                  int signal)
{
    struct agent_event ev = {
        .type = AGENT_EV_EXITED, .worker = id, .signal = signal};

    forget_worker(s, a, id);
    feed_agent(s, a, &ev);
}

static void spawn(struct scale *s, struct scale_agent *a, uint64_t id)
{
    struct agent_event forked = {
        .type = AGENT_EV_FORKED, .worker = id, .pid = (int64_t)id};
    struct agent_event started = {.type = AGENT_EV_STARTED, .worker = id};

    create_worker(s, a, id);
    if (!array_reserve(&a->workers, &a->max, a->n + 1))
        scale_fail("out of memory");
    a->workers[a->n++] = id;
    feed_agent(s, a, &forked);
    feed_agent(s, a, &started);
    if (!s->slow_start)
        call(s, s->workers[id]);
}

static void obey_signals(struct scale *s, struct scale_agent *a)
{
    for (size_t i = 0; i < a->n;) {
        const struct scale_worker *w = s->workers[a->workers[i]];
        int signal = w->signal;

        if (signal != 0) /* which may end others as well */
            exits(s, a, w->id, signal);
        i = signal != 0 ? 0 : i + 1;
    }
}

static uint64_t perform_agent(struct scale *s, struct scale_agent *a,
                              const struct agent_action *action)
{
    struct scale_worker *w = crowd_worker(s, action->worker);
    struct message m;

    switch (action->type) {
    case AGENT_DO_SEND:
        agent_core_message(&a->core, action, &m);
        say(s, a->id, &m);
        break;
    case AGENT_DO_SIGNAL:
        if (w && action->signo != SIGCONT)
            w->signal = action->signo;
        break;
    case AGENT_DO_SPAWN:
        return action->worker;
    case AGENT_DO_EXIT:
        a->over = true;
        break;
    }
    return 0;
}

static void feed_agent(struct scale *s, struct scale_agent *a,
                       struct agent_event *ev)
{
    const struct agent_action *actions;
    uint64_t spawned = 0;
    size_t n;

    ev->now_us = s->now_us;
    if (agent_core_step(&a->core, ev, &actions, &n) != HVD_OK)
        scale_fail("an agent rejects an event");
    for (size_t i = 0; i < n; i++)
        spawned |= perform_agent(s, a, &actions[i]);
    if (spawned != 0)
        spawn(s, a, spawned);
    obey_signals(s, a);
}

static void tick_agent(struct scale *s, struct scale_agent *a)
{
    struct agent_event ev = {.type = AGENT_EV_TICK};

    feed_agent(s, a, &ev);
}

/* Its process is gone, and those that it ran with it; the launcher sees it. */
static void ends(struct scale *s, struct scale_agent *a)
{
    while (a->n > 0)
        forget_worker(s, a, a->workers[0]);
    ids_add(&s->ended, a->id);
    s->agents[a->id] = NULL;
    agent_core_fini(&a->core);
    free(a->workers);
    free(a);
}

static void end_if_over(struct scale *s, uint64_t agent)
{
    struct scale_agent *a = crowd_agent(s, agent);

    if (a && a->over)
        ends(s, a);
}

void crowd_start_agent(struct scale *s, uint64_t agent)
{
    struct agent_config config = AGENT_CONFIG_DEFAULTS;
    struct scale_agent *a = calloc(1, sizeof(*a));

    if (!a || !array_reserve(&s->agents, &s->agents_max, (size_t)agent + 1))
        scale_fail("out of memory");
    a->id = agent;
    config.job = SCALE_JOB;
    config.hello.agent = agent;
    config.hello.pid = (int64_t)agent;
    snprintf(config.hello.host, sizeof(config.hello.host), "host");
    if (!agent_core_init(&a->core, &config, s->now_us))
        scale_fail("out of memory");
    s->agents[agent] = a;
    tick_agent(s, a);
}

/* ---- what they hear ------------------------------------------------------ */

static void worker_hears(struct scale *s, uint64_t id, const struct message *m,
                         enum scale_table table)
{
    struct worker_event ev = {.type = WORKER_EV_MESSAGE, .u.message = m};
    struct scale_worker *w = crowd_worker(s, id);

    if (!w || (m->type == MSG_ASSIGN && !check_table(s, w, m, table)))
        return;
    feed(s, w, &ev);
    live(s, w);
    if (w->core.phase == WORKER_LEFT) /* and its program ends */
        exits(s, crowd_agent(s, w->agent), id, 0);
}

static void agent_hears(struct scale *s, struct scale_agent *a,
                        const struct message *m)
{
    struct agent_event ev = {.type = AGENT_EV_MESSAGE, .message = m};

    if (!agent_core_reserve(&a->core))
        scale_fail("out of memory");
    feed_agent(s, a, &ev);
}

static void decode(const uint8_t *bytes, size_t nbytes, struct message *m)
{
    if (codec_decode(bytes, nbytes, m, NULL) != CODEC_OK)
        scale_fail("a message cannot be decoded");
}

void crowd_hears(struct scale *s, const struct letter *letter,
                 const uint8_t *bytes)
{
    struct scale_agent *a = crowd_agent(s, letter->agent);
    struct message m;

    if (!a)
        return;
    decode(bytes, letter->nbytes, &m);
    if (letter->worker != 0)
        worker_hears(s, letter->worker, &m, letter->table);
    else
        agent_hears(s, a, &m);
    end_if_over(s, letter->agent);
}

/* The agent hands on what is in it. */
void crowd_hears_batch(struct scale *s, const struct letter *first,
                       const uint8_t *bytes, size_t nbytes)
{
    const struct letter *letter = first;
    uint64_t agent = first->agent;
    struct batch_item item;
    struct batch batch;
    struct message m;

    batch_open(&batch, bytes, nbytes);
    while (batch_next_for(&batch, &item)) {
        decode(item.bytes, item.nbytes, &m);
        for (uint32_t i = 0; i < item.n_whom && crowd_agent(s, agent); i++) {
            if (item.whom[i] != 0)
                worker_hears(s, item.whom[i], &m, letter->table);
            else
                agent_hears(s, crowd_agent(s, agent), &m);
            if (letter->next > 0)
                letter = &s->down.letters[letter->next - 1];
        }
    }
    end_if_over(s, agent);
}

/* ---- what befalls them --------------------------------------------------- */

void crowd_host_dies(struct scale *s, uint64_t agent)
{
    ends(s, crowd_agent(s, agent));
}

void crowd_worker_dies(struct scale *s, uint64_t worker, int signal)
{
    exits(s, crowd_agent(s, s->workers[worker]->agent), worker, signal);
}

static void for_each(struct scale *s,
                     void (*deed)(struct scale *s, struct scale_worker *w))
{
    for (size_t i = 0; i < s->agents_max; i++)
        for (size_t k = 0; s->agents[i] && k < s->agents[i]->n; k++)
            deed(s, s->workers[s->agents[i]->workers[k]]);
}

void crowd_loads(struct scale *s)
{
    s->slow_start = false;
    for_each(s, call);
}

void crowd_finishes(struct scale *s)
{
    s->trained = true;
    for_each(s, live);
}

static void beat(struct scale *s, struct scale_worker *w)
{
    if (w->called)
        tick_worker(s, w);
}

void crowd_beats(struct scale *s)
{
    for (size_t i = 0; i < s->agents_max; i++) {
        struct scale_agent *a = s->agents[i];

        if (!a)
            continue;
        a->over |= a->stopping; /* by its launcher: it was told long ago */
        tick_agent(s, a);
        for (size_t k = 0; k < a->n; k++)
            beat(s, s->workers[a->workers[k]]);
        end_if_over(s, i);
    }
}

void crowd_fini(struct scale *s)
{
    for (size_t i = 0; i < s->agents_max; i++)
        if (s->agents[i])
            ends(s, s->agents[i]);
    free(s->agents);
    free(s->workers);
    assign_table_fini(&s->known);
    assign_table_fini(&s->spare);
}
