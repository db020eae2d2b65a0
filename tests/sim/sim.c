/* sim.c - one run: the clock and the event loop. See
 * sim.h and world.h. */
#include "sim.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "app.h"

#define SIM_NAME(name, where) #name,
const char *const sim_counter_names[N_COVER] = {SIM_COVERAGE_TABLE(SIM_NAME)};
#undef SIM_NAME
#define SIM_WHERE(name, where) where,
const unsigned sim_counter_where[N_COVER] = {SIM_COVERAGE_TABLE(SIM_WHERE)};
#undef SIM_WHERE

enum sim_bug sim_bug_find(const char *name)
{
#define SIM_FIND(bug, text)      \
    if (strcmp(name, #bug) == 0) \
        return BUG_##bug;
    SIM_BUG_TABLE(SIM_FIND)
#undef SIM_FIND
    return BUG_none;
}

const char *sim_bug_name(enum sim_bug bug)
{
#define SIM_NAME(name, text) #name,
    static const char *const names[] = {SIM_BUG_TABLE(SIM_NAME)};
#undef SIM_NAME

    return names[bug];
}

const char *sim_bug_text(enum sim_bug bug)
{
#define SIM_TEXT(name, text) text,
    static const char *const texts[] = {SIM_BUG_TABLE(SIM_TEXT)};
#undef SIM_TEXT

    return texts[bug];
}

uint64_t sim_uniform(struct sim *s, uint64_t low, uint64_t high)
{
    return low + random_below(&s->random, high - low + 1);
}

bool sim_one_in(struct sim *s, uint64_t n)
{
    return n > 0 && random_below(&s->random, n) == 0;
}

bool sim_befalls(struct sim *s, enum sim_mishap what)
{
    if (s->options.less.mishaps >> what & 1)
        return false;
    s->result->n_faults++;
    return true;
}

struct sim_worker *sim_worker(struct sim *s, uint64_t id)
{
    return id < s->n_workers ? s->workers[id] : NULL;
}

struct sim_generation *sim_generation(struct sim *s, uint64_t generation)
{
    return generation < s->n_generations ? s->generations[generation] : NULL;
}

/* ---- events -------------------------------------------------------------- */

static void to_worker(struct sim *s, struct sim_worker *w, struct event *event)
{
    struct worker_event ev = control_event(w, WORKER_EV_MESSAGE);

    network_through_codec(s, event->message);
    if (s->options.trace && event->message->type != MSG_PONG)
        trace_message(s, "got: ", event->message, true, event->a);
    ev.u.message = event->message;
    control_feed(s, w, &ev);
}

/* By another connection; what was lost with the one before the driver asks for,
 * and it tells. */
static void tell_by_another(struct sim *s, struct sim_worker *w)
{
    struct message m;

    if (!worker_has_words(&w->core))
        return;
    worker_hello(&w->core, &m);
    network_to_driver(s, w, &m);
}

static void on_tick(struct sim *s, struct sim_worker *w)
{
    struct worker_event ev = control_event(w, WORKER_EV_TICK);
    uint64_t at = control_due_us(s, w);

    w->tick_us = TIME_NEVER;
    if (at <= s->now_us) {
        succession_look_worker(s, w);
        if (network_moves(s))
            tell_by_another(s, w);
        s->in_heartbeat = true;
        control_feed(s, w, &ev);
        s->in_heartbeat = false;
        return;
    }
    w->tick_us = at;
    queue_push(&s->queue, at, EV_TICK)->a = w->id;
}

static void worker_event(struct sim *s, struct sim_worker *w,
                         struct event *event)
{
    switch (event->type) {
    case EV_TO_WORKER:
        to_worker(s, w, event);
        break;
    case EV_TICK:
        on_tick(s, w);
        break;
    case EV_APP:
        if (event->b == w->serial)
            app_timer(s, w);
        break;
    case EV_COUNTED:
        control_counted(s, w, event->b);
        break;
    default:
        break;
    }
}

/* A stopped process does nothing; what is for it waits. While its control
 * thread reads the boundary counter, so do its messages. true: put off. */
static bool put_off(struct sim *s, struct sim_worker *w, struct event *event)
{
    if (w->stopped) {
        queue_park(&s->queue, &w->parked, event);
        return true;
    }
    if (w->counting &&
        (event->type == EV_TO_WORKER || event->type == EV_TICK)) {
        queue_again(&s->queue, s->now_us + 50, event);
        return true;
    }
    return false;
}

/* true: the event was put off. */
static bool for_worker(struct sim *s, struct event *event)
{
    struct sim_worker *w = sim_worker(s, event->a);

    if (event->type == EV_RESUME) {
        process_resume(s, w);
    } else if (event->type == EV_EXIT) {
        if (w->alive && event->c != SIGKILL && put_off(s, w, event))
            return true;
        process_end(s, w, event);
    } else if (w->alive && !w->doomed) {
        if (put_off(s, w, event))
            return true;
        worker_event(s, w, event);
    }
    return false;
}

static bool for_agent(struct sim *s, struct event *event)
{
    struct sim_agent *agent = sim_agent(s, event->a);

    if (!agent->runs)
        return false;
    if (event->type == EV_AGENT && event->sub == AGENT_RESUME) {
        agents_event(s, event);
        return false;
    }
    if (agent->stopped) {
        queue_park(&s->queue, &agent->parked, event);
        return true;
    }
    if (event->type == EV_AGENT)
        agents_event(s, event);
    else if (agent->core.children) /* else it is not born yet */
        agents_hear(s, event);
    return false;
}

/* What is for a dead one is lost; the script belongs to nobody. */
static void for_nobody(struct sim *s, const struct event *event)
{
    if (event->type == EV_DISCOVERY)
        queue_push(&s->queue, s->now_us + s->plan.discovery_us, EV_DISCOVERY);
}

static bool for_driver(struct sim *s, struct event *event)
{
    if (s->driver_dead) {
        for_nobody(s, event);
        return false;
    }
    if (s->stalled_until_us > s->now_us) {
        queue_again(&s->queue, s->stalled_until_us, event);
        return true;
    }
    if (event->type == EV_TO_DRIVER)
        driver_hear(s, event);
    else if (event->type == EV_FROM_AGENT)
        driver_hear_agent(s, event);
    else if (event->type == EV_LAUNCHER)
        driver_launcher(s, event);
    else
        faults_discovery(s);
    return false;
}

static void dispatch(struct sim *s, struct event *event)
{
    bool later = false;

    switch (event->type) {
    case EV_TO_DRIVER:
    case EV_FROM_AGENT:
    case EV_LAUNCHER:
    case EV_DISCOVERY:
        later = for_driver(s, event);
        break;
    case EV_TO_AGENT:
    case EV_AGENT:
        later = for_agent(s, event);
        break;
    case EV_FAULT:
        faults_strike(s, event);
        break;
    case EV_SUCCESSION:
        succession_end(s, event);
        break;
    default:
        later = for_worker(s, event);
        break;
    }
    if (!later)
        queue_release(&s->queue, event);
}

static void timeout(struct sim *s, uint64_t at)
{
    struct driver_event ev = {.type = DRIVER_EV_TIMEOUT};

    if (at > s->now_us) {
        s->now_us = at;
        s->spins = 0;
    } else if (++s->spins > 100) {
        check_fail(s, "the driver's deadline does not move on");
    }
    sim_driver_step(s, &ev);
}

static void stuck(struct sim *s)
{
    char waiting[WIRE_TEXT_MAX];

    driver_waiting_for(&s->driver, driver_now(s), waiting, sizeof(waiting));
    check_fail(s, "the job has not ended (phase %d, change %d): %s",
               (int)s->driver.phase, (int)s->driver.change, waiting);
}

static void kill_as_told(struct sim *s)
{
    const struct sim_options *o = &s->options;
    struct sim_worker *w = sim_worker(s, o->kill_worker);
    struct sim_worker *too = sim_worker(s, o->kill_worker_too);

    if (w)
        process_kill(s, w);
    if (too)
        process_kill(s, too);
}

static void trace_meddling(struct sim *s, const struct event *event)
{
    if (event->type == EV_TO_AGENT || event->type == EV_FROM_AGENT)
        trace_agent(s, "meddled:", event->message, event->type == EV_TO_AGENT,
                    event->a);
    else
        trace_message(s, "meddled:", event->message,
                      event->type == EV_TO_WORKER, event->a);
}

/* true: this event does not happen now. */
static bool meddle(struct sim *s, struct event *event)
{
    const struct sim_options *o = &s->options;

    if (o->meddle == MEDDLE_NOT || s->result->n_events != o->meddle_event ||
        !event->message)
        return false;
    if (o->trace)
        trace_meddling(s, event);
    switch (o->meddle) {
    case MEDDLE_DROP:
        sim_cover(s, COVER_message_lost);
        queue_release(&s->queue, event);
        return true;
    case MEDDLE_DELAY:
        sim_cover(s, COVER_message_reordered);
        queue_again(&s->queue, s->now_us + o->meddle_us, event);
        return true;
    default:
        sim_cover(s, COVER_message_duplicated);
        network_deliver(s, event->type, event->a, event->message, 0);
        return false;
    }
}

/* The driver has ended; nobody takes over. Whatever it has left behind ends by
 * itself: nobody waits without a deadline. */
static void aftermath(struct sim *s)
{
    uint64_t until_us = s->now_us > s->calm_us ? s->now_us : s->calm_us;

    until_us += 2 * s->driver_config.driver_timeout_us + 200 * SEC;
    s->driver_dead = true;
    succession_cut_lifelines(s);
    if (check_is_left(s))
        sim_cover(s, COVER_left_behind);
    while (s->queue.n > 0 && s->now_us < until_us && check_is_left(s))
        dispatch(s, queue_pop(&s->queue, &s->now_us));
    check_aftermath(s);
}

static void loop(struct sim *s)
{
    while (!s->finished) {
        uint64_t deadline = driver_due_us(s);
        struct event *event;

        if (++s->result->n_events == s->options.kill_event)
            kill_as_told(s);
        if (s->result->n_events == s->options.succeed_event)
            succession_begin(s, s->options.succeed_us, s->options.succeed_lost);
        if (s->queue.n == 0 || s->now_us > s->plan.limit_us)
            stuck(s);
        if (deadline <= s->stalled_until_us) /* messages first */
            deadline = s->stalled_until_us + 1;
        if (deadline < s->queue.items[0].at) {
            timeout(s, deadline);
            continue;
        }
        s->spins = 0;
        event = queue_pop(&s->queue, &s->now_us);
        if (!meddle(s, event))
            dispatch(s, event);
    }
    check_end(s);
    if (!s->options.large && !s->options.base)
        aftermath(s);
}

/* ---- a run --------------------------------------------------------------- */

static void drop_parked(struct sim *s)
{
    for (size_t i = 0; i < s->n_workers; i++)
        if (s->workers[i])
            queue_drop(&s->queue, &s->workers[i]->parked);
    for (size_t i = 0; i < s->n_agents; i++)
        if (s->agents[i])
            queue_drop(&s->queue, &s->agents[i]->parked);
}

static void fini(struct sim *s)
{
    drop_parked(s);
    queue_fini(&s->queue);
    driver_fini(&s->driver);
    memory_fini(&s->memory);
    free(s->entries);
    for (size_t i = 0; i < s->n_workers; i++) {
        if (s->workers[i])
            thread_end(s, s->workers[i]);
        free(s->workers[i]);
    }
    for (size_t i = 0; i < s->n_agents; i++) {
        if (!s->agents[i])
            continue;
        agent_core_fini(&s->agents[i]->core);
        free(s->agents[i]->workers);
        free(s->agents[i]);
    }
    for (size_t i = 1; i < s->n_generations; i++) {
        if (!s->generations[i])
            continue; /* a number that a successor has skipped */
        free(s->generations[i]->members);
        free(s->generations[i]->sources);
        free(s->generations[i]->entries);
        free(s->generations[i]->entered);
        free(s->generations[i]);
    }
    free(s->workers);
    free(s->agents);
    free(s->generations);
    free(s->hosts);
    free(s->contents);
    hosts_fini(&s->listed);
    free(s);
}

void sim_run(const struct sim_options *options, struct sim_result *result)
{
    struct sim *s = calloc(1, sizeof(*s));

    if (!s)
        abort();
    memset(result, 0, sizeof(*result));
    sim_current = s;
    s->options = *options;
    s->options.trace |= options->print;
    s->result = result;
    s->random.s = options->seed * 2 + options->large;
    result->ok = true;
    plan_make(s);
    if (!sim_driver_init(s))
        abort();
    if (setjmp(s->violated) == 0)
        loop(s);
    result->end_us = s->now_us;
    fini(s);
}
