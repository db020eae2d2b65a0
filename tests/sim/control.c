/* control.c - the control thread of each virtual worker, and its door for the
 * application's (src/elastic/worker/control.h): it feeds the real core and
 * performs its actions, as worker/control.c does with threads and sockets. */
#include <string.h>

#include "app.h"
#include "base/clock.h"

/* ---- the core and its actions -------------------------------------------- */

struct worker_event control_event(const struct sim_worker *w,
                                  enum worker_event_type type)
{
    const struct process *p = &w->process;

    return (struct worker_event){
        .type = type,
        .id = p->state ? w->id_of : (struct state_id){0, 0},
        .boundary = atomic_load(&p->boundary),
        .operation = p->comm ? w->operation : 0,
        .called = p->comm ? w->entered : 0,
        .moves = w->moves,
        .in_collective = atomic_load(&p->in_order) > 0,
    };
}

uint64_t control_due_us(const struct sim *s, const struct sim_worker *w)
{
    uint64_t at = worker_deadline(&w->core);
    uint64_t ahead_us = s->hosts[w->host].clock_us;

    at = at > ahead_us ? at - ahead_us : 0;
    return at > s->now_us ? at : s->now_us;
}

void control_look(struct sim *s, struct sim_worker *w)
{
    uint64_t at = control_due_us(s, w);

    if (!w->alive || at >= w->tick_us)
        return;
    w->tick_us = at;
    queue_push(&s->queue, at, EV_TICK)->a = w->id;
}

/* The hold word was set; now the counter is read, at once or a little later:
 * the application runs meanwhile. */
static void on_hold(struct sim *s, struct sim_worker *w)
{
    uint64_t delay_us = sim_one_in(s, 2) ? 0 : random_below(&s->random, MSEC);
    struct event *event = queue_push(&s->queue, s->now_us + delay_us,
                                     EV_COUNTED);

    atomic_store(&w->process.hold,
                 s->options.bug != BUG_deafhold || w->id % 2 == 0);
    w->counting = true;
    event->a = w->id;
    event->b = atomic_load(&w->process.boundary);
}

/* A generation begins. */
static void on_begin(struct sim_worker *w)
{
    atomic_store(&w->process.boundary, 0);
    atomic_store(&w->process.hold, 0);
    w->counting = false;
}

static void on_abort(struct sim_worker *w, const struct worker_action *a)
{
    if (w->process.comm && w->comm.generation == a->u.abort.generation)
        comm_abort(w->process.comm, a->u.abort.status, a->u.abort.text);
}

/* What waits for the core looks again, at once or a little later. */
static void wake(struct sim *s, struct sim_worker *w)
{
    if (s->running == w || w->sleep != SLEEP_CORE)
        return;
    if (!w->waits_for(&w->core, w->waits_arg) && !control_final(&w->core, 0))
        return;
    if (sim_one_in(s, 3))
        app_set_timer(s, w, sim_uniform(s, 1, 300));
    else
        thread_run(s, w);
}

static bool perform(struct sim *s, struct sim_worker *w,
                    const struct worker_action *actions, size_t n)
{
    bool woken = false;

    for (size_t i = 0; i < n; i++) {
        switch (actions[i].type) {
        case WORKER_ACT_SEND:
            network_to_driver(s, w, &actions[i].u.message);
            break;
        case WORKER_ACT_ABORT:
            on_abort(w, &actions[i]);
            break;
        case WORKER_ACT_HOLD:
            on_hold(s, w);
            break;
        case WORKER_ACT_BEGIN:
            on_begin(w);
            break;
        case WORKER_ACT_UNHOLD:
            atomic_store(&w->process.hold, 0);
            break;
        case WORKER_ACT_WAKE:
            woken = true;
            break;
        }
    }
    return woken;
}

static hvd_status_t step(struct sim *s, struct sim_worker *w,
                         const struct worker_event *event)
{
    const struct worker_action *actions;
    size_t n;
    uint64_t fence = w->core.fence;
    enum worker_verdict verdict = w->core.verdict;
    hvd_status_t status = worker_step(&w->core, event, host_now(s, w->host),
                                      &actions, &n);
    bool woken = perform(s, w, actions, n);

    if (w->core.fence < fence)
        check_fail(s, "w%llu: its fence fell", (unsigned long long)w->id);
    control_look(s, w);
    if (w->core.verdict == WORKER_DRIVER_GONE && verdict == WORKER_GO_ON &&
        driver_hears(s, w))
        check_driver_is_lost(s, w->host, w->absent_us, "a worker");
    if (woken)
        wake(s, w);
    return status;
}

void control_feed(struct sim *s, struct sim_worker *w,
                  const struct worker_event *event)
{
    if (step(s, w, event) != HVD_OK)
        check_fail(s, "w%llu: its core rejects event %d in phase %d",
                   (unsigned long long)w->id, (int)event->type,
                   (int)w->core.phase);
}

void control_counted(struct sim *s, struct sim_worker *w, uint64_t boundary)
{
    struct worker_event event = control_event(w, WORKER_EV_COUNTED);

    w->counting = false;
    event.boundary = boundary;
    control_feed(s, w, &event);
}

/* ---- the door for app ---------------------------------------------------- */

bool control_is(control_condition condition, uint64_t argument)
{
    return condition(&sim_self()->core, argument);
}

/* Its sampled fields are filled in here. */
hvd_status_t control_post(struct worker_event *ev)
{
    struct sim_worker *w = sim_self();
    struct worker_event event = control_event(w, ev->type);
    hvd_status_t status;

    event.gone = ev->gone;
    event.settings = ev->settings;
    event.u = ev->u;
    status = step(sim_current, w, &event);
    if (status == HVD_OK &&
        (ev->type == WORKER_EV_ENTER || ev->type == WORKER_EV_LOST ||
         ev->type == WORKER_EV_LEFT))
        w->app = APP_JOINING;
    if (ev->type == WORKER_EV_LOST &&
        sim_current->options.bug == BUG_latecommit)
        state_late_commit(sim_current, w);
    return status;
}

static enum app_state state_of_wait(control_condition condition,
                                    enum app_state otherwise)
{
    if (condition == control_welcome)
        return APP_INIT;
    if (condition == control_assigned)
        return APP_JOINING;
    if (condition == control_at_cut)
        return APP_HELD;
    return condition == control_done_over ? APP_DONE : otherwise;
}

static enum trap trap_of(enum app_state state)
{
    return state == APP_JOINING ? TRAP_READY
           : state == APP_HELD  ? TRAP_HELD
           : state == APP_DONE  ? TRAP_DONE
                                : TRAP_NONE;
}

/* false: the deadline has passed. */
static bool sleep_until(struct sim *s, struct sim_worker *w,
                        uint64_t deadline_us)
{
    uint64_t now_us = host_now(s, w->host);

    if (deadline_us <= now_us)
        return false;
    w->serial++; /* of no timer but this one */
    if (deadline_us != CLOCK_NEVER)
        app_set_timer(s, w, deadline_us - now_us);
    w->sleep = SLEEP_CORE;
    thread_sleep(s);
    return true;
}

hvd_status_t control_wait(control_condition condition, uint64_t argument,
                          uint64_t deadline_us)
{
    struct sim *s = sim_current;
    struct sim_worker *w = sim_self();
    enum app_state before = w->app;

    w->app = state_of_wait(condition, before);
    app_trap(s, w, trap_of(w->app));
    w->waits_for = condition;
    w->waits_arg = argument;
    while (!condition(&w->core, argument) && !control_final(&w->core, 0))
        if (!sleep_until(s, w, deadline_us))
            return HVD_ERR_TIMEOUT;
    if (w->app == APP_HELD)
        w->app = before;
    return HVD_OK;
}

enum worker_boundary control_boundary(uint64_t boundary)
{
    struct sim_worker *w = sim_self();
    struct worker_event event = control_event(w, WORKER_EV_BOUNDARY);

    (void)step(sim_current, w, &event);
    return worker_at_boundary(&w->core, boundary);
}

void control_verdict(struct control_verdict *verdict_p)
{
    const struct worker_core *core = &sim_self()->core;

    verdict_p->verdict = core->verdict;
    verdict_p->status = core->status;
    memcpy(verdict_p->text, core->text, sizeof(verdict_p->text));
}

void control_assignment(struct control_assignment *assignment_p)
{
    struct sim_worker *w = sim_self();
    const struct worker_core *core = &w->core;

    assignment_p->assign = core->assign;
    assignment_p->generation = core->generation;
    assignment_p->entries =
        sim_generation(sim_current, core->generation)->entries;
    assignment_p->connect_timeout_us = core->connect_timeout_ms * 1000;
    assignment_p->encrypt_data = core->encrypt_data;
    assignment_p->assigned_ns = clock_now_ns();
}

uint64_t control_fence(void)
{
    return sim_self()->core.fence;
}

void control_attach(struct comm *comm, uint64_t generation)
{
    struct sim_worker *w = sim_self();

    w->process.comm = comm;
    if (comm && (w->core.phase == WORKER_LEFT || w->core.fence >= generation))
        comm_abort(comm, HVD_PEER_LOST, "the generation has ended");
}

/* There are no devices that could fail. */
void control_stop(void)
{
    abort();
}

void control_watch_state(hvd_state_t *state)
{
    sim_self()->process.state = state;
}
