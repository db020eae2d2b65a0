/* train.c - the program in each virtual worker: hvd_init, its data, then the
 * product's hvd_elastic_run with a training function of steps {collective or
 * none; commit or check}, and its end. Operations and boundaries depend on the
 * step alone, so that all ranks agree. */
#include <stdio.h>
#include <string.h>

#include <hvd/elastic.h>

#include "app.h"
#include "base/clock.h"
#include "base/error.h"
#include "elastic/worker/membership.h"

#define ULL(x) ((unsigned long long)(x))

enum op_kind { OP_NONE, OP_ALLREDUCE, OP_BROADCAST };

static uint64_t mix(uint64_t a, uint64_t b)
{
    struct random_state r = {a * UINT64_C(0x9e3779b97f4a7c15) + b};

    return random_u64(&r);
}

/* ---- sleep and death on its own thread ----------------------------------- */

void app_set_timer(struct sim *s, struct sim_worker *w, uint64_t delay_us)
{
    struct event *event = queue_push(&s->queue, s->now_us + delay_us, EV_APP);

    event->a = w->id;
    event->b = ++w->serial;
}

void app_sleep(struct sim *s, struct sim_worker *w, uint64_t us)
{
    app_set_timer(s, w, us);
    w->sleep = SLEEP_TIME;
    thread_sleep(s);
}

void app_trap(struct sim *s, struct sim_worker *w, enum trap trap)
{
    if (trap != TRAP_NONE && faults_trap(s, w, trap) && !process_runs(w))
        thread_die(s);
}

void app_timer(struct sim *s, struct sim_worker *w)
{
    if (w->thread)
        thread_run(s, w);
    else if (w->app == APP_INIT)
        thread_begin(s, w);
}

/* ---- training ------------------------------------------------------------ */

static enum op_kind op_of(const struct sim *s, uint64_t step)
{
    uint64_t x = mix(s->options.seed, step) % 100;

    if (x < s->plan.op_mix)
        return OP_ALLREDUCE;
    return x % 2 ? OP_BROADCAST : OP_NONE;
}

static bool commits(const struct sim *s, uint64_t step)
{
    return mix(s->options.seed, step * 7 + 1) % s->plan.commit_in == 0;
}

/* The user's part of a step. */
static void compute(struct sim *s, struct sim_worker *w)
{
    uint64_t us = s->plan.step_us;

    w->app = APP_COMPUTING;
    us = us / 2 + random_below(&s->random, us + 1);
    if (sim_one_in(s, s->plan.long_step_in) && sim_befalls(s, MISHAP_LONG))
        us += 3 * SEC;
    if (us >= s->driver_config.hang_timeout_us)
        sim_cover(s, COVER_computed_long); /* if there is such a timeout */
    w->busy_since_us = s->now_us;
    app_sleep(s, w, w->live.steps >= s->plan.steps ? 50 : us);
    w->busy_until_us = s->now_us;
    w->computed_us = w->busy_until_us - w->busy_since_us;
}

static hvd_status_t operate(struct sim *s, struct sim_worker *w)
{
    float sum = 1;

    switch (op_of(s, w->live.steps)) {
    case OP_ALLREDUCE:
        return hvd_allreduce(&sum, &sum, 1, HVD_FLOAT32, HVD_SUM);
    case OP_BROADCAST:
        return hvd_broadcast(&sum, 1, HVD_FLOAT32,
                             (int)sim_generation(s, w->generation)->root);
    default:
        return HVD_OK;
    }
}

static hvd_status_t one_step(struct sim *s, struct sim_worker *w,
                             hvd_state_t *state)
{
    uint64_t step = w->live.steps;

    HVD_TRY(operate(s, w));
    state_train_step(w);
    return commits(s, step) ? hvd_state_commit(state)
                            : hvd_state_check_host_updates(state);
}

/* Some programs do not look at a status, now and then. Not drawn from the
 * world's numbers. */
static bool ignores(struct sim *s, const struct sim_worker *w,
                    hvd_status_t status)
{
    struct random_state r = {s->options.seed * 6007 + w->id * 31 +
                             w->generation};

    if (s->options.base || s->options.large || random_below(&r, 10) > 0)
        return false;
    return (status == HVD_PEER_LOST || status == HVD_HOSTS_UPDATED) &&
           sim_befalls(s, MISHAP_HEEDLESS);
}

/* It goes on for a step more where it should return; then it returns what it
 * should have, or what that step's commit said. */
static hvd_status_t go_on(struct sim *s, struct sim_worker *w,
                          hvd_state_t *state, hvd_status_t status)
{
    struct random_state r = {s->options.seed * 5003 + w->id};
    hvd_status_t again;

    sim_cover(s, status == HVD_HOSTS_UPDATED ? COVER_ignored_cut
                                             : COVER_ignored_loss);
    TRACE(s, "w%llu goes on where it should return", ULL(w->id));
    w->strays = true;
    compute(s, w);
    w->strays = false;
    (void)operate(s, w);
    state_stray_step(w);
    if (s->options.bug == BUG_heedless)
        state_heedless_commit(s, w);
    again = hvd_state_commit(state);
    if (again == HVD_OK)
        check_fail(s, "w%llu commits what nobody else has", ULL(w->id));
    return random_below(&r, 2) ? again : status;
}

/* Does it die of itself now, and say so? Not drawn from the world's numbers. */
static bool gives_up(struct sim *s, const struct sim_worker *w)
{
    struct random_state r = {s->options.seed * 4001 + w->id * 17 +
                             w->live.steps};

    if (s->options.base || s->options.large ||
        s->now_us >= s->plan.horizon_us || random_below(&r, 600) > 0)
        return false;
    return sim_befalls(s, MISHAP_GIVES_UP);
}

static hvd_status_t give_up(struct sim *s, const struct sim_worker *w)
{
    sim_cover(s, COVER_gave_up);
    TRACE(s, "w%llu gives up", ULL(w->id));
    membership_fail(HVD_ERR_JOB_FAILED, "it gives up", true);
    return error_set((hvd_status_t)-1235, "it has given up");
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    struct sim *s = sim_current;
    struct sim_worker *w = arg;
    uint64_t last = s->plan.steps - (s->options.bug == BUG_earlydone);
    hvd_status_t status;

    while (1) {
        compute(s, w);
        if (w->fails)
            return error_set((hvd_status_t)-1234, "the user's own error");
        if (gives_up(s, w))
            return give_up(s, w);
        if (w->live.steps >= last)
            return HVD_OK;
        status = one_step(s, w, state);
        if (ignores(s, w, status))
            status = go_on(s, w, state, status);
        HVD_TRY(status);
    }
}

/* ---- a program's life ---------------------------------------------------- */

static hvd_status_t init(void)
{
    bool final;

    HVD_TRY(control_wait(control_welcome, 0, CLOCK_NEVER));
    return membership_verdict(&final);
}

static void load(struct sim *s, struct sim_worker *w)
{
    uint64_t us = sim_uniform(s, MSEC, s->plan.load_us + MSEC);

    w->app = APP_LOADING;
    if (!s->options.base && !s->options.large && sim_one_in(s, 20) &&
        sim_befalls(s, MISHAP_LONG))
        us += 2 * SEC;
    app_trap(s, w, TRAP_LOADING);
    app_sleep(s, w, us);
    w->layout = 7;
    if (s->odd_layouts > 0) {
        s->odd_layouts--;
        w->layout = 8;
        sim_cover(s, COVER_layout_differs);
    }
}

static void check_result(struct sim *s, const struct sim_worker *w,
                         hvd_status_t status)
{
    if (status == HVD_OK && w->snap.steps != s->plan.steps)
        check_fail(s, "w%llu: its run is over after %llu steps of %llu",
                   ULL(w->id), ULL(w->snap.steps), ULL(s->plan.steps));
}

/* What a program does after its run: now and then it hangs, for longer than
 * most timeouts. Not drawn from the world's numbers. */
static uint64_t epilogue_us(struct sim *s, const struct sim_worker *w)
{
    struct random_state r = {s->options.seed * 1931 + w->id};
    uint64_t us = sim_uniform(s, 100, 20 * MSEC);

    if (s->options.base || s->options.large || random_below(&r, 60) > 0 ||
        !sim_befalls(s, MISHAP_EPILOGUE))
        return us;
    sim_cover(s, COVER_hung_epilogue);
    TRACE(s, "w%llu does not end", ULL(w->id));
    return us + 90 * SEC;
}

void train_main(struct sim *s, struct sim_worker *w)
{
    hvd_status_t status = init();

    if (status == HVD_OK) {
        load(s, w);
        status = hvd_elastic_run(&w->state, train, w);
        check_result(s, w, status);
    }
    TRACE(s, "w%llu: its run returns %d", ULL(w->id), (int)status);
    w->app = APP_GONE;
    process_exit_in(s, w,
                    status == HVD_OK        ? 0
                    : status == HVD_REMOVED ? 3
                                            : 1,
                    epilogue_us(s, w));
}

void app_fail(struct sim *s, struct sim_worker *w)
{
    if (w->app != APP_COMPUTING || w->core.verdict != WORKER_GO_ON)
        return;
    w->fails = true;
    sim_cover(s, COVER_user_failed);
}
