/* entry.c - how a virtual worker enters a generation: connect, and get the
 * state if it does not hold the base. See app.c for the rest of its life. */
#include "app.h"

void app_begin(struct sim *s, struct sim_worker *w)
{
    const struct msg_assign *assign = &w->core.assign;

    w->generation = w->core.generation;
    w->rank = assign->rank;
    w->out = false;
    w->comm_aborted = w->core.aborted;
    w->loss_pending = w->slanders > 0;
    w->hold = w->completing = false;
    w->ignored = IGNORED_NOTHING;
    w->distrusts = 0;
    w->committed_here = w->reported_op = false;
    w->boundary = w->operation = w->entered = 0;
    w->sync_since_us = s->now_us;
    w->app = APP_SYNCING;
    w->serial++;
    if (assign->source) {
        if (!state_id_is_none(assign->base) &&
            !state_id_equal(assign->base, w->id_of))
            check_fail(s, "w%llu is a source of (%llu, %llu), has (%llu, %llu)",
                       (unsigned long long)w->id,
                       (unsigned long long)assign->base.generation,
                       (unsigned long long)assign->base.version,
                       (unsigned long long)w->id_of.generation,
                       (unsigned long long)w->id_of.version);
        if (state_id_is_none(assign->base))
            w->snap = w->live;
        app_restamp(s, w,
                    state_id_is_none(assign->base) ? 1 : assign->base.version);
    }
    if (faults_trap(s, w,
                    !assign->sync    ? TRAP_ASSIGNED
                    : assign->source ? TRAP_SOURCE
                                     : TRAP_RECEIVER) ||
        faults_trap(s, w, TRAP_ASSIGNED))
        return;
    app_set_timer(s, w,
                  assign->source ? sim_uniform(s, 200, 3 * MSEC)
                                 : sim_uniform(s, MSEC, 20 * MSEC));
}

enum serving { SERVES, SERVES_LATER, SERVES_NEVER };

static enum serving serving(struct sim *s, const struct sim_generation *g,
                            uint32_t rank)
{
    const struct sim_worker *w = sim_worker(s, g->members[rank]);

    if (!g->sources[rank] || !w || !w->alive)
        return SERVES_NEVER;
    if (w->generation == g->generation)
        return w->out ? SERVES_NEVER : SERVES;
    return w->generation > g->generation || w->core.fence >= g->generation
               ? SERVES_NEVER
               : SERVES_LATER;
}

static enum serving find_source(struct sim *s, const struct sim_generation *g)
{
    uint32_t first = (uint32_t)random_below(&s->random, g->size);
    enum serving best = SERVES_NEVER;

    for (uint32_t i = 0; i < g->size && best != SERVES; i++) {
        enum serving it = serving(s, g, (first + i) % g->size);

        if (it < best)
            best = it;
    }
    return best;
}

/* Now and then a state does not arrive as it was sent; to some workers never.
 * Not drawn from the world's numbers. */
static bool arrives_damaged(struct sim *s, const struct sim_worker *w,
                            const struct sim_generation *g)
{
    struct random_state never = {s->options.seed * 4517 + w->id};
    struct random_state now = {s->options.seed * 3613 + w->id * 17 +
                               g->generation};

    if (s->options.base || s->options.large)
        return false;
    return random_below(&never, 60) == 0 || random_below(&now, 60) == 0;
}

static void distrust(struct sim *s, struct sim_worker *w,
                     const struct sim_generation *g)
{
    sim_cover(s, COVER_damaged_sync);
    w->distrusts = g->root + 1;
    TRACE(s, "w%llu: its state arrived damaged", (unsigned long long)w->id);
    app_leave_lost(s, w);
}

static void get_state(struct sim *s, struct sim_worker *w)
{
    struct state_id base = w->core.assign.base;

    if (state_id_is_none(base))
        base = (struct state_id){
            s->options.bug == BUG_version ? 0 : w->generation, 1};
    if (s->options.bug != BUG_nosync)
        w->live = w->snap = check_content(s, base);
    app_restamp(s, w, base.version);
    TRACE(s, "w%llu has synced step %llu", (unsigned long long)w->id,
          (unsigned long long)w->snap.steps);
    app_report(s, w, REPORT_SYNCED);
}

/* A newcomer now and then cannot enter: too few descriptors. Not drawn from the
 * world's numbers. */
static bool cannot_enter(struct sim *s, struct sim_worker *w)
{
    struct random_state r = {s->options.seed * 7919 + w->id};
    struct worker_event event = app_event(w, WORKER_EV_FAILED);

    if (s->options.base || s->options.large || w->generation == 1 ||
        w->joined != w->generation || random_below(&r, 40) > 0)
        return false;
    event.u.failed.status = HVD_ERR_SYSTEM;
    event.u.failed.text = "cannot enter";
    sim_cover(s, COVER_cannot_enter);
    app_feed(s, w, &event);
    app_go(s, w);
    return true;
}

void app_connected(struct sim *s, struct sim_worker *w)
{
    struct sim_generation *g = sim_generation(s, w->generation);

    if (w->core.verdict != WORKER_GO_ON) {
        app_go(s, w);
        return;
    }
    if (w->comm_aborted || w->loss_pending) {
        app_leave_lost(s, w);
        return;
    }
    if (cannot_enter(s, w))
        return;
    if (!w->core.assign.source) {
        switch (find_source(s, g)) {
        case SERVES_LATER:
            if (s->now_us - w->sync_since_us < 10 * SEC) {
                app_set_timer(s, w, 5 * MSEC);
                return;
            } /* fall through */
        case SERVES_NEVER:
            app_leave_lost(s, w);
            return;
        case SERVES:
            if (arrives_damaged(s, w, g)) {
                distrust(s, w, g);
                return;
            }
            get_state(s, w);
            break;
        }
    }
    if (w->joined < w->generation && g->generation > 1)
        w->reset_once = true;
    app_compute(s, w);
}
