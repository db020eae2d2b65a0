/* app.c - the training program inside each virtual worker, and the data plane
 * between them. It follows the run loop of docs/protocol.md: READY, ASSIGN,
 * sync, steps of {collective or none; commit or check; boundary}, DONE.
 *
 * A collective completes when all members (a broadcast: its root) have entered
 * it. Who dies or leaves as lost breaks the generation: who waits for him
 * returns HVD_PEER_LOST; an operation that all had entered may still complete
 * on some ranks. Operations and boundaries depend on the step alone, so that
 * all ranks agree. */
#include <string.h>

#include "app.h"

static void look(struct sim *s, struct sim_worker *w);

static uint64_t mix(uint64_t a, uint64_t b)
{
    struct random_state r = {a * UINT64_C(0x9e3779b97f4a7c15) + b};

    return random_u64(&r);
}

/* ---- the core and its actions -------------------------------------------- */

struct worker_event app_event(const struct sim_worker *w,
                              enum worker_event_type type)
{
    return (struct worker_event){
        .type = type,
        .id = w->id_of,
        .boundary = w->boundary,
        .operation = w->operation,
        .called = w->operation + (w->app == APP_IN_OP),
        .in_collective = w->app == APP_IN_OP || w->app == APP_SYNCING,
    };
}

void app_set_timer(struct sim *s, struct sim_worker *w, uint64_t delay_us)
{
    struct event *event = queue_push(&s->queue, s->now_us + delay_us, EV_APP);

    event->a = w->id;
    event->b = ++w->serial;
}

uint64_t app_due_us(const struct sim *s, const struct sim_worker *w)
{
    uint64_t at = worker_deadline(&w->core);
    uint64_t ahead_us = s->hosts[w->host].clock_us;

    at = at > ahead_us ? at - ahead_us : 0;
    return at > s->now_us ? at : s->now_us;
}

static void keep_tick(struct sim *s, struct sim_worker *w)
{
    uint64_t at = app_due_us(s, w);

    if (!w->alive || at >= w->tick_us)
        return;
    w->tick_us = at;
    queue_push(&s->queue, at, EV_TICK)->a = w->id;
}

void app_look(struct sim *s, struct sim_worker *w)
{
    keep_tick(s, w);
}

/* The hold word was set; now the counter is read, at once or a little later:
 * the application runs meanwhile. */
static void on_hold_action(struct sim *s, struct sim_worker *w)
{
    struct event *event;

    w->hold = s->options.bug != BUG_deafhold || w->id % 2 == 0;
    w->counting = true;
    event = queue_push(
        &s->queue,
        s->now_us + (sim_one_in(s, 2) ? 0 : random_below(&s->random, MSEC)),
        EV_COUNTED);
    event->a = w->id;
    event->b = w->boundary;
}

static void on_abort_action(struct sim *s, struct sim_worker *w)
{
    w->comm_aborted = true;
    if (w->app == APP_IN_OP && w->completing && sim_one_in(s, 2))
        return; /* the abort crosses completion */
    if (w->app == APP_IN_OP || w->app == APP_SYNCING) {
        w->completing = false;
        app_set_timer(s, w, sim_uniform(s, 10, 2 * MSEC));
    }
}

static void feed(struct sim *s, struct sim_worker *w,
                 const struct worker_event *event)
{
    const struct worker_action *actions;
    size_t n;
    bool wake = false;
    uint64_t fence = w->core.fence;
    enum worker_verdict was = w->core.verdict;
    hvd_status_t status = worker_step(&w->core, event, host_now(s, w->host),
                                      &actions, &n);

    if (status != HVD_OK)
        check_fail(s, "w%llu: its core rejects event %d in phase %d",
                   (unsigned long long)w->id, (int)event->type,
                   (int)w->core.phase);
    if (w->core.fence < fence)
        check_fail(s, "w%llu: its fence fell", (unsigned long long)w->id);
    for (size_t i = 0; i < n; i++) {
        switch (actions[i].type) {
        case WORKER_ACT_SEND:
            network_to_driver(s, w, &actions[i].u.message);
            break;
        case WORKER_ACT_ABORT:
            on_abort_action(s, w);
            break;
        case WORKER_ACT_HOLD:
            on_hold_action(s, w);
            break;
        case WORKER_ACT_UNHOLD:
            w->hold = false;
            break;
        default:
            wake = true;
            break;
        }
    }
    keep_tick(s, w);
    if (w->core.verdict == WORKER_DRIVER_GONE && was != WORKER_DRIVER_GONE &&
        w->app != APP_GONE && driver_hears(s, w))
        check_driver_is_lost(s, w->host, "a worker");
    if (wake)
        look(s, w);
}

void app_feed(struct sim *s, struct sim_worker *w,
              const struct worker_event *event)
{
    feed(s, w, event);
}

static void feed_type(struct sim *s, struct sim_worker *w,
                      enum worker_event_type type)
{
    struct worker_event event = app_event(w, type);

    feed(s, w, &event);
}

void app_counted(struct sim *s, struct sim_worker *w, uint64_t boundary)
{
    struct worker_event event = app_event(w, WORKER_EV_COUNTED);

    w->counting = false;
    event.boundary = boundary;
    feed(s, w, &event);
}

void app_report(struct sim *s, struct sim_worker *w, enum report_what what)
{
    struct worker_event event = app_event(w, WORKER_EV_REPORT);

    event.u.report.generation = w->generation;
    event.u.report.what = (uint8_t)what;
    event.u.report.duration_ns = 1000;
    feed(s, w, &event);
}

/* ---- snapshots ----------------------------------------------------------- */

static void commit(struct sim *s, struct sim_worker *w)
{
    if (w->out || w->generation == 0)
        check_fail(s, "w%llu commits after it has left generation %llu",
                   (unsigned long long)w->id,
                   (unsigned long long)w->generation);
    if (w->comm_aborted)
        sim_cover(s, COVER_late_commit);
    w->snap = w->live;
    w->id_of.generation = s->options.bug == BUG_version ? 0 : w->generation;
    w->id_of.version++;
    check_stamp(s, w);
    TRACE(s, "w%llu commits step %llu as (%llu, %llu)",
          (unsigned long long)w->id, (unsigned long long)w->snap.steps,
          (unsigned long long)w->id_of.generation,
          (unsigned long long)w->id_of.version);
    if (!w->committed_here) {
        w->committed_here = true;
        app_report(s, w, REPORT_FIRST_COMMIT);
    }
}

void app_restamp(struct sim *s, struct sim_worker *w, uint64_t version)
{
    w->id_of.generation = s->options.bug == BUG_version ? w->id_of.generation
                                                        : w->generation;
    w->id_of.version = version;
    check_stamp(s, w);
}

/* ---- leaving a generation ------------------------------------------------ */

static void no_generation(struct sim_worker *w)
{
    w->out = true;
    w->completing = false;
    w->hold = false;
    w->loss_pending = false;
    w->ignored = IGNORED_NOTHING;
}

/* Whoever is in a collective that will never be complete hears of it. */
static void break_generation(struct sim *s, struct sim_generation *g)
{
    if (g->broken)
        return;
    g->broken = true;
    for (uint32_t rank = 0; rank < g->size; rank++) {
        struct sim_worker *w = sim_worker(s, g->members[rank]);

        if (!w || !w->alive || w->out || w->generation != g->generation ||
            w->app != APP_IN_OP)
            continue;
        if (w->completing && sim_one_in(s, 2))
            continue;
        w->completing = false;
        app_set_timer(s, w, sim_uniform(s, 100, 10 * MSEC));
    }
}

void app_peer_gone(struct sim *s, struct sim_worker *w)
{
    struct sim_generation *g = sim_generation(s, w->generation);

    if (!g || w->out)
        return;
    if (g->n_dead < ARRAY_SIZE(g->dead))
        g->dead[g->n_dead++] = w->rank;
    no_generation(w);
    break_generation(s, g);
}

void app_leave_lost(struct sim *s, struct sim_worker *w)
{
    struct sim_generation *g = sim_generation(s, w->generation);
    struct worker_event event;

    no_generation(w);
    w->live = w->snap;
    w->app = APP_JOINING;
    w->serial++;
    event = app_event(w, WORKER_EV_LOST);
    app_accuse(s, w, g, &event.u.lost);
    TRACE(s, "w%llu leaves generation %llu: peer lost",
          (unsigned long long)w->id, (unsigned long long)w->generation);
    feed(s, w, &event);
    break_generation(s, g);
    if (s->options.bug == BUG_latecommit) {
        w->out = false;
        w->live.hash = mix(w->live.hash, w->generation);
        w->live.steps++;
        commit(s, w);
        w->out = true;
    }
    if (!faults_trap(s, w, TRAP_READY))
        look(s, w);
}

/* READY(updated), from the state of the cut. */
static void depart(struct sim *s, struct sim_worker *w)
{
    struct worker_event event = app_event(w, WORKER_EV_LEFT);

    no_generation(w);
    w->live = w->snap;
    w->app = APP_JOINING;
    w->serial++;
    TRACE(s, "w%llu leaves generation %llu at boundary %llu",
          (unsigned long long)w->id, (unsigned long long)w->generation,
          (unsigned long long)w->boundary);
    feed(s, w, &event);
    if (!faults_trap(s, w, TRAP_READY))
        look(s, w);
}

/* ---- programs that go on where they should return ------------------------ */

/* Some do, now and then. Not drawn from the world's numbers. */
static bool ignores(struct sim *s, struct sim_worker *w, enum ignored what)
{
    struct random_state r = {s->options.seed * 6007 + w->id * 31 +
                             w->generation};

    if (s->options.base || s->options.large || random_below(&r, 10) > 0)
        return false;
    w->ignored = what;
    w->completing = false;
    sim_cover(s, what == IGNORED_CUT ? COVER_ignored_cut : COVER_ignored_loss);
    TRACE(s, "w%llu goes on where it should return", (unsigned long long)w->id);
    app_compute(s, w);
    return true;
}

/* A call has returned HVD_PEER_LOST; the peers hear of it at once. */
static void call_failed(struct sim *s, struct sim_worker *w)
{
    if (ignores(s, w, IGNORED_LOSS))
        break_generation(s, sim_generation(s, w->generation));
    else
        app_leave_lost(s, w);
}

/* M9: it may compute, but not commit. */
static void stray(struct sim *s, struct sim_worker *w)
{
    bool at_cut = w->ignored == IGNORED_CUT;

    w->live.hash = mix(w->live.hash, w->id);
    w->live.steps++;
    w->live.spoilt = true;
    if (s->options.bug == BUG_heedless)
        commit(s, w);
    if (at_cut && w->core.fence < w->generation)
        depart(s, w);
    else
        app_leave_lost(s, w);
}

/* ---- leaving at the cut -------------------------------------------------- */

static void leave_updated(struct sim *s, struct sim_worker *w)
{
    struct sim_generation *g = sim_generation(s, w->generation);

    if (w->live.steps != w->snap.steps || w->live.hash != w->snap.hash)
        commit(s, w);
    if (g->left_any && g->left_boundary != w->boundary)
        check_fail(s,
                   "generation %llu is left at two boundaries: %llu, and "
                   "%llu by w%llu",
                   (unsigned long long)g->generation,
                   (unsigned long long)g->left_boundary,
                   (unsigned long long)w->boundary, (unsigned long long)w->id);
    if (g->entered_most > w->entered && !g->broken)
        check_fail(s, "w%llu leaves at boundary %llu, a peer waits for it",
                   (unsigned long long)w->id, (unsigned long long)w->boundary);
    g->left_any = true;
    g->left_boundary = w->boundary;
    g->left_entered = w->entered;
    if (!ignores(s, w, IGNORED_CUT))
        depart(s, w);
}

void app_go(struct sim *s, struct sim_worker *w)
{
    int64_t code = w->core.verdict == WORKER_RELEASED  ? 0
                   : w->core.verdict == WORKER_DRAINED ? 3
                                                       : 1;

    if (w->app == APP_GONE)
        return;
    if (w->core.verdict == WORKER_RELEASED) {
        w->released = true;
        if (w->app != APP_DONE)
            check_fail(s, "w%llu is released before it is done",
                       (unsigned long long)w->id);
    }
    if (!w->out && w->generation > 0) {
        struct sim_generation *g = sim_generation(s, w->generation);

        no_generation(w);
        if (!w->released)
            break_generation(s, g);
    }
    w->app = APP_GONE;
    w->serial++;
    process_exit_in(s, w, code, sim_uniform(s, 100, 20 * MSEC));
}

/* ---- steps --------------------------------------------------------------- */

static enum op_kind op_of(const struct sim *s, uint64_t step)
{
    uint64_t x = mix(s->options.seed, step) % 100;

    if (x < s->plan.op_mix)
        return OP_ALLREDUCE;
    return x % 2 ? OP_BROADCAST : OP_NONE;
}

static void boundary(struct sim *s, struct sim_worker *w)
{
    enum worker_boundary what;

    if (w->core.verdict != WORKER_GO_ON) {
        app_go(s, w);
        return;
    }
    if (w->comm_aborted || w->loss_pending) {
        call_failed(s, w);
        return;
    }
    if (!w->hold && w->app != APP_HELD) {
        app_compute(s, w);
        return;
    }
    feed_type(s, w, WORKER_EV_BOUNDARY);
    what = worker_at_boundary(&w->core, w->boundary);
    switch (what) {
    case WORKER_BOUNDARY_WAIT:
        w->app = APP_HELD;
        w->serial++;
        (void)faults_trap(s, w, TRAP_HELD);
        break;
    case WORKER_BOUNDARY_LEAVE:
        leave_updated(s, w);
        break;
    case WORKER_BOUNDARY_LOST:
        call_failed(s, w);
        break;
    case WORKER_BOUNDARY_PASS:
        app_compute(s, w);
        break;
    }
}

/* The step's operation is complete: the step counts; then its boundary. */
static void advance(struct sim *s, struct sim_worker *w)
{
    uint64_t step = w->live.steps;

    w->live.hash = mix(w->live.hash, w->generation);
    w->live.steps++;
    w->app = APP_COMPUTING;
    if (mix(s->options.seed, step * 7 + 1) % s->plan.commit_in == 0) {
        if (faults_trap(s, w, TRAP_COMMIT))
            return;
        commit(s, w);
    }
    w->boundary++;
    boundary(s, w);
}

static void complete(struct sim *s, struct sim_worker *w)
{
    w->operation++;
    w->completing = false;
    if (!w->reported_op) {
        w->reported_op = true;
        app_report(s, w, REPORT_FIRST_COLLECTIVE);
    }
    advance(s, w);
}

static void will_complete(struct sim *s, struct sim_worker *w)
{
    w->completing = true;
    app_set_timer(s, w, sim_uniform(s, 5, 300));
}

/* Everybody who waits in operation k may go on. */
static void wake_op(struct sim *s, struct sim_generation *g, uint64_t k)
{
    for (uint32_t rank = 0; rank < g->size; rank++) {
        struct sim_worker *w = sim_worker(s, g->members[rank]);

        if (w && w->alive && !w->out && w->generation == g->generation &&
            w->app == APP_IN_OP && w->entered == k && !w->completing &&
            !w->comm_aborted)
            will_complete(s, w);
    }
}

static void count_entry(struct sim *s, struct sim_worker *w,
                        struct sim_generation *g)
{
    if (!array_reserve(&g->entered, &g->entered_max, w->entered + 1))
        abort();
    g->entered[w->entered]++;
    if (g->entered_most < w->entered)
        g->entered_most = w->entered;
    if (g->left_any && w->entered > g->left_entered && !g->broken)
        check_fail(s,
                   "w%llu is in operation %llu of generation %llu; a peer has "
                   "left it at boundary %llu",
                   (unsigned long long)w->id, (unsigned long long)w->entered,
                   (unsigned long long)g->generation,
                   (unsigned long long)g->left_boundary);
}

static void enter(struct sim *s, struct sim_worker *w, enum op_kind op)
{
    struct sim_generation *g = sim_generation(s, w->generation);

    w->entered++;
    w->app = APP_IN_OP;
    w->serial++;
    count_entry(s, w, g);
    if (faults_trap(s, w, TRAP_IN_OP))
        return;
    if (g->broken) {
        app_set_timer(s, w, sim_uniform(s, 100, 5 * MSEC));
    } else if (op == OP_BROADCAST && w->rank == g->root) {
        g->root_entered = w->entered;
        wake_op(s, g, w->entered);
    } else if (op == OP_BROADCAST && g->root_entered >= w->entered) {
        will_complete(s, w);
    } else if (op == OP_ALLREDUCE && g->entered[w->entered] == g->size) {
        wake_op(s, g, w->entered);
    }
}

static void finish(struct sim *s, struct sim_worker *w)
{
    commit(s, w);
    if (w->comm_aborted || w->loss_pending) {
        app_leave_lost(s, w);
        return;
    }
    w->app = APP_DONE;
    w->serial++;
    feed_type(s, w, WORKER_EV_DONE);
    (void)faults_trap(s, w, TRAP_DONE);
}

/* The end of the user's part of a step. Without a collective in it nothing
 * tells of a loss before the commit, which still saves. */
static void step(struct sim *s, struct sim_worker *w)
{
    uint64_t last = s->plan.steps - (s->options.bug == BUG_earlydone);
    bool is_last = w->live.steps >= last;
    enum op_kind op = is_last ? OP_NONE : op_of(s, w->live.steps);

    if (w->core.verdict != WORKER_GO_ON)
        app_go(s, w);
    else if (w->ignored != IGNORED_NOTHING)
        stray(s, w);
    else if (is_last)
        finish(s, w);
    else if (op == OP_NONE)
        advance(s, w);
    else if (w->comm_aborted || w->loss_pending)
        call_failed(s, w);
    else
        enter(s, w, op);
}

void app_compute(struct sim *s, struct sim_worker *w)
{
    uint64_t us = s->plan.step_us;

    w->app = APP_COMPUTING;
    w->busy_since_us = s->now_us;
    us = us / 2 + random_below(&s->random, us + 1);
    if (sim_one_in(s, s->plan.long_step_in))
        us += 3 * SEC;
    if (w->live.steps >= s->plan.steps)
        us = 50;
    app_set_timer(s, w, us);
}

/* ---- the doors ----------------------------------------------------------- */

static void load(struct sim *s, struct sim_worker *w)
{
    uint64_t us = sim_uniform(s, MSEC, s->plan.load_us + MSEC);

    w->app = APP_LOADING;
    if (!s->options.base && !s->options.large && sim_one_in(s, 20))
        us += 2 * SEC;
    if (!faults_trap(s, w, TRAP_LOADING))
        app_set_timer(s, w, us);
}

static void join(struct sim *s, struct sim_worker *w)
{
    struct worker_event event = app_event(w, WORKER_EV_ENTER);

    event.u.enter.kind = READY_ELASTIC;
    w->layout = 7;
    if (s->odd_layouts > 0) {
        s->odd_layouts--;
        w->layout = 8;
        sim_cover(s, COVER_layout_differs);
    }
    event.u.enter.abilities = w->abilities;
    memset(event.u.enter.layout, w->layout, sizeof(event.u.enter.layout));
    event.u.enter.layout_text = "w";
    w->app = APP_JOINING;
    feed(s, w, &event);
    if (!faults_trap(s, w, TRAP_READY))
        look(s, w);
}

/* Something that a waiting application looks at has changed. */
static void look(struct sim *s, struct sim_worker *w)
{
    if (!w->alive || w->app == APP_COMPUTING || w->app == APP_GONE)
        return;
    if (w->core.verdict != WORKER_GO_ON) {
        app_go(s, w);
        return;
    }
    switch (w->app) {
    case APP_INIT:
        if (w->core.phase == WORKER_IDLE)
            load(s, w);
        break;
    case APP_JOINING:
        if (w->core.phase == WORKER_RUNNING)
            app_begin(s, w);
        break;
    case APP_HELD:
        boundary(s, w);
        break;
    case APP_DONE:
        if (w->comm_aborted)
            app_leave_lost(s, w);
        break;
    default:
        break;
    }
}

void app_timer(struct sim *s, struct sim_worker *w)
{
    switch (w->app) {
    case APP_LOADING:
        join(s, w);
        break;
    case APP_SYNCING:
        app_connected(s, w);
        break;
    case APP_COMPUTING:
        w->busy_until_us = s->now_us;
        step(s, w);
        break;
    case APP_IN_OP:
        if (w->core.verdict != WORKER_GO_ON)
            app_go(s, w);
        else if (w->completing)
            complete(s, w);
        else
            call_failed(s, w);
        break;
    default:
        break;
    }
}

void app_lose(struct sim *s, struct sim_worker *w)
{
    if (!w->alive || w->out || w->generation == 0 || w->app == APP_GONE)
        return;
    w->loss_pending = true;
    if (w->app == APP_IN_OP && !w->completing)
        app_leave_lost(s, w);
}

void app_fail(struct sim *s, struct sim_worker *w)
{
    struct worker_event event = app_event(w, WORKER_EV_FAILED);

    if (w->app != APP_COMPUTING || w->core.verdict != WORKER_GO_ON)
        return;
    event.u.failed.status = -1234;
    event.u.failed.text = "the user's own error";
    sim_cover(s, COVER_user_failed);
    feed(s, w, &event);
    app_go(s, w);
}
