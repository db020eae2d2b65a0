/* sim.c - one run: the clock, the event loop and the driver's actions. See
 * sim.h and world.h. */
#include "sim.h"

#include <stdio.h>
#include <string.h>

#include "world.h"

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

uint64_t sim_uniform(struct sim *s, uint64_t low, uint64_t high)
{
    return low + random_below(&s->random, high - low + 1);
}

bool sim_one_in(struct sim *s, uint64_t n)
{
    return n > 0 && random_below(&s->random, n) == 0;
}

struct sim_worker *sim_worker(struct sim *s, uint64_t id)
{
    return id < s->n_workers ? s->workers[id] : NULL;
}

struct sim_generation *sim_generation(struct sim *s, uint64_t generation)
{
    return generation < s->n_generations ? s->generations[generation] : NULL;
}

/* ---- the driver ---------------------------------------------------------- */

static void on_record(struct sim *s, const struct driver_record *r)
{
    switch (r->type) {
    case RECORD_HOST_BLACKLISTED:
        sim_cover(s, COVER_blacklisted);
        break;
    case RECORD_WORKER_DRAINED:
        sim_cover(s, COVER_drained);
        break;
    case RECORD_WORKER_LOST:
        check_eviction(s, r);
        if (strncmp(r->text, "has stopped", 11) == 0)
            sim_cover(s, COVER_expired);
        break;
    default:
        break;
    }
}

/* What a released process does is its own affair, and nobody watches it any
 * more. If it was stopped for good, a person has to end it. */
static void end_stopped(struct sim *s)
{
    for (size_t i = 0; i < s->n_workers; i++) {
        struct sim_worker *w = sim_worker(s, i);

        if (w && w->alive && w->stopped && w->resume_us == TIME_NEVER)
            process_end_later(s, w);
    }
}

static void on_send(struct sim *s, const struct driver_action *a)
{
    struct sim_worker *w = sim_worker(s, a->worker);

    if (!w)
        check_fail(s, "%s for w%llu that never was",
                   message_type_name(a->u.message.type),
                   (unsigned long long)a->worker);
    if (a->u.message.type == MSG_HOLD)
        check_hold(s, &a->u.message);
    if (a->u.message.type == MSG_RELEASE && !s->released) {
        s->released = true;
        check_release(s);
        end_stopped(s);
    }
    if (a->u.message.type == MSG_CUT &&
        a->u.message.u.cut.boundary == CUT_NEVER)
        sim_cover(s, COVER_cut_never);
    network_send_to(s, w, &a->u.message);
}

static void perform(struct sim *s, const struct driver_action *a)
{
    if (s->options.trace)
        trace_action(s, a);
    switch (a->type) {
    case DRIVER_ACT_START_AGENT:
        agents_start(s, a->agent, a->host);
        break;
    case DRIVER_ACT_STOP_AGENT:
    case DRIVER_ACT_KILL_AGENT:
        agents_command(s, a->agent, CMD_STOP, 0, 0);
        break;
    case DRIVER_ACT_SPAWN:
        agents_command(s, a->agent, CMD_SPAWN, a->worker, a->slot);
        break;
    case DRIVER_ACT_KILL:
        agents_command(s, a->agent, CMD_KILL, a->worker, a->u.grace_ms);
        break;
    case DRIVER_ACT_SEND:
        on_send(s, a);
        break;
    case DRIVER_ACT_RECORD:
        on_record(s, &a->u.record);
        break;
    case DRIVER_ACT_FINISH:
        check_finish(s, a->u.finish.status, a->u.finish.text);
        break;
    }
}

static void cover_ending(struct sim *s, bool aborted)
{
    struct driver *d = &s->driver;

    if (d->aborted && !aborted)
        sim_cover(s, COVER_ended_lost);
    if (d->generation > 1 && !aborted &&
        sim_generation(s, d->generation - 1)->left_any)
        sim_cover(s, COVER_ended_updated);
}

static bool all_blacklisted(const struct sim *s)
{
    const struct driver *d = &s->driver;

    for (size_t i = 0; i < d->n_hosts; i++)
        if (d->hosts[i].listed && !d->hosts[i].blacklist.listed)
            return false;
    return true;
}

/* Somebody the driver can count on holds a state. */
static bool state_left(struct sim *s)
{
    for (size_t i = 0; i < s->n_workers; i++) {
        const struct sim_worker *w = sim_worker(s, i);
        const struct driver_worker *dw = driver_worker(&s->driver, i);

        if (w && w->alive && dw && worker_is_here(dw) && w->id_of.version > 1)
            return true;
    }
    return false;
}

void sim_driver_step(struct sim *s, const struct driver_event *event)
{
    struct driver *d = &s->driver;
    const struct driver_action *actions;
    uint64_t generation = d->generation;
    enum driver_phase phase = d->phase;
    bool aborted = d->aborted;
    size_t n;
    hvd_status_t status = driver_step(d, event, s->now_us, &actions, &n);

    if (status != HVD_OK)
        check_fail(s, "the driver rejects event %d", (int)event->type);
    if (d->phase >= DRIVER_STOPPING && phase < DRIVER_STOPPING) {
        s->all_blacklisted = all_blacklisted(s);
        s->state_left = state_left(s);
    }
    if (d->generation < generation)
        check_fail(s, "the generation falls");
    if (d->generation != generation)
        check_formed(s, actions, n);
    if (d->aborted != aborted || d->generation != generation)
        cover_ending(s, aborted);
    if (!s->options.large)
        check_driver(s);
    for (size_t i = 0; i < n; i++)
        perform(s, &actions[i]);
}

/* ---- events -------------------------------------------------------------- */

static void forge(struct sim *s, struct message *m)
{
    const struct driver_worker *dw;

    if (m->type == MSG_READY && s->options.bug == BUG_anylayout)
        memset(m->u.ready.layout, 0, sizeof(m->u.ready.layout));
    if (m->type == MSG_READY && s->options.bug == BUG_boast)
        m->u.ready.abilities = READY_CAN_ALL;
    if (m->type == MSG_READY && s->options.bug == BUG_nofence) {
        dw = driver_worker(&s->driver, m->worker);
        m->u.ready.fence = dw ? dw->named : 0;
    }
}

static void to_driver(struct sim *s, struct event *event)
{
    struct driver_event ev = {.type = DRIVER_EV_MESSAGE,
                              .u.message = event->message};

    network_through_codec(s, event->message);
    if (s->options.bug != BUG_none)
        forge(s, event->message);
    if (s->options.trace && event->message->type != MSG_PING)
        trace_message(s, "got: ", event->message, false, event->a);
    s->in_heartbeat = event->message->type == MSG_PING;
    sim_driver_step(s, &ev);
    s->in_heartbeat = false;
}

static void to_worker(struct sim *s, struct sim_worker *w, struct event *event)
{
    struct worker_event ev = app_event(w, WORKER_EV_MESSAGE);

    network_through_codec(s, event->message);
    if (s->options.trace && event->message->type != MSG_PONG)
        trace_message(s, "got: ", event->message, true, event->a);
    ev.u.message = event->message;
    app_feed(s, w, &ev);
}

static void on_tick(struct sim *s, struct sim_worker *w)
{
    struct worker_event ev = app_event(w, WORKER_EV_TICK);
    uint64_t at = worker_deadline(&w->core);

    w->tick_us = TIME_NEVER;
    if (at <= s->now_us) {
        s->in_heartbeat = true;
        app_feed(s, w, &ev);
        s->in_heartbeat = false;
        return;
    }
    w->tick_us = at;
    queue_push(&s->queue, at, EV_TICK)->a = w->id;
}

static void resume(struct sim *s, struct sim_worker *w)
{
    if (!w->stopped)
        return;
    w->stopped = false;
    TRACE(s, "w%llu goes on", (unsigned long long)w->id);
    if (w->alive)
        sim_cover(s, COVER_zombie_continued);
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
        app_counted(s, w, event->b);
        break;
    default:
        break;
    }
}

/* A stopped process does nothing; its messages wait. While its control thread
 * reads the boundary counter, so do they. true: the event was put off. */
static bool put_off(struct sim *s, const struct sim_worker *w,
                    struct event *event)
{
    if (w->stopped && w->resume_us != TIME_NEVER) {
        queue_again(&s->queue,
                    (w->resume_us > s->now_us ? w->resume_us : s->now_us) + 1,
                    event);
        return true;
    }
    if (w->counting &&
        (event->type == EV_TO_WORKER || event->type == EV_TICK)) {
        queue_again(&s->queue, s->now_us + 50, event);
        return true;
    }
    return false;
}

/* A stopped process ends later, or never: then a person has to end it. */
static void put_off_exit(struct sim *s, const struct sim_worker *w,
                         struct event *event)
{
    uint64_t at = w->resume_us;

    if (at == TIME_NEVER) {
        at = s->now_us + 60 * SEC;
        event->c = 9;
    }
    queue_again(&s->queue, at > s->now_us ? at : s->now_us + 1, event);
}

static bool is_for_driver(const struct event *event)
{
    return event->type == EV_TO_DRIVER || event->type == EV_AGENT_SAYS ||
           event->type == EV_DISCOVERY;
}

static void dispatch(struct sim *s, struct event *event)
{
    struct sim_worker *w = sim_worker(s, event->a);

    if (s->stalled_until_us > s->now_us && is_for_driver(event)) {
        queue_again(&s->queue, s->stalled_until_us, event);
        return;
    }
    switch (event->type) {
    case EV_TO_DRIVER:
        to_driver(s, event);
        break;
    case EV_TO_WORKER:
    case EV_TICK:
    case EV_APP:
    case EV_COUNTED:
        if (!w->alive || (w->stopped && w->resume_us == TIME_NEVER))
            break;
        if (put_off(s, w, event))
            return;
        worker_event(s, w, event);
        break;
    case EV_EXIT:
        if (w->stopped && event->c != 9) {
            put_off_exit(s, w, event);
            return;
        }
        process_exit(s, w, (int64_t)event->b, (int64_t)event->c);
        break;
    case EV_AGENT_CMD:
        agents_obey(s, event);
        break;
    case EV_AGENT_SAYS:
        agents_says(s, event);
        break;
    case EV_AGENT_PING:
        agents_ping(s, event->a);
        break;
    case EV_DISCOVERY:
        faults_discovery(s);
        break;
    case EV_FAULT:
        faults_strike(s, event);
        break;
    case EV_RESUME:
        resume(s, w);
        break;
    }
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

    driver_waiting_for(&s->driver, s->now_us, waiting, sizeof(waiting));
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

/* true: this event does not happen now. */
static bool meddle(struct sim *s, struct event *event)
{
    const struct sim_options *o = &s->options;

    if (o->meddle == MEDDLE_NOT || s->result->n_events != o->meddle_event ||
        (event->type != EV_TO_DRIVER && event->type != EV_TO_WORKER))
        return false;
    if (o->trace)
        trace_message(s, "meddled:", event->message,
                      event->type == EV_TO_WORKER, event->a);
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
        network_deliver(s, event->type, event->a, event->message);
        return false;
    }
}

static void loop(struct sim *s)
{
    while (!s->finished) {
        uint64_t deadline = driver_deadline(&s->driver);
        struct event *event;

        if (++s->result->n_events == s->options.kill_event)
            kill_as_told(s);
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
}

/* ---- a run --------------------------------------------------------------- */

static void fini(struct sim *s)
{
    queue_fini(&s->queue);
    driver_fini(&s->driver);
    for (size_t i = 0; i < s->n_workers; i++)
        free(s->workers[i]);
    for (size_t i = 0; i < s->n_agents; i++) {
        if (s->agents[i])
            free(s->agents[i]->workers);
        free(s->agents[i]);
    }
    for (size_t i = 1; i < s->n_generations; i++) {
        free(s->generations[i]->members);
        free(s->generations[i]->sources);
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
    s->options = *options;
    s->options.trace |= options->print;
    s->result = result;
    s->random.s = options->seed * 2 + options->large;
    result->ok = true;
    faults_plan(s);
    if (!driver_init(&s->driver, &s->driver_config, 0))
        abort();
    if (setjmp(s->violated) == 0)
        loop(s);
    result->end_us = s->now_us;
    fini(s);
}
