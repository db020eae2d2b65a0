/* elastic/driver/patience.c - which workers are given up, and when: silence
 * (M5), a start or a leave that takes too long (M9, M10). See core.h. Pure. */
#include "elastic/driver/core_internal.h"

static void worker_give_up(struct driver *d, struct driver_worker *w,
                           const char *how, bool failure)
{
    action_kill(d, w, 0);
    worker_dies(d, w, how, failure);
}

void worker_evict(struct driver *d, struct driver_worker *w, const char *how)
{
    worker_give_up(d, w, how, true);
}

/* Its agent is not heard either: that is the host's trouble, or the network's.
 * A worker's beats are half of the timeout apart at most, its agent's are
 * many. */
static bool is_cut_off(const struct driver *d, const struct driver_worker *w)
{
    return d->now_us - d->hosts[w->host].agent_heard_us >
           d->config.heartbeat_timeout_us / 4;
}

/* M9: a worker that stays, and is heard, holds the base. */
static bool stayer_holds_base(const struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++)
        if (d->workers[i].drain == DRAIN_NONE &&
            worker_is_reliable(d, &d->workers[i]))
            return true;
    return false;
}

static bool all_that_stay_wait(const struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (is_member(w) && w->drain == DRAIN_NONE && !worker_waits(w))
            return false;
    }
    return true;
}

/* It has to leave, computes, and the others have waited for it as long as they
 * have to (M9), by its own newest word. As long as they compute too, it delays
 * nobody. */
static bool leaves_too_late(const struct driver *d,
                            const struct driver_worker *w)
{
    return w->drain != DRAIN_NONE && d->now_us >= w->drain_by.deadline_us &&
           w->pinged_us >= w->progress_us + w->drain_by.patience_us &&
           is_member(w) && w->standing == STAND_RUNNING && !worker_waits(w) &&
           d->kind == READY_ELASTIC && all_that_stay_wait(d) &&
           stayer_holds_base(d);
}

/* In user code before its training, and not bracketed by hvd_busy_begin(). */
static bool starts_too_late(const struct driver *d,
                            const struct driver_worker *w)
{
    return !w->was_ready && w->ping.busy_ms == 0 &&
           d->now_us - w->spawned_us > d->config.start_timeout_us;
}

/* Why it is to go now; NULL: it is not. */
static const char *verdict_on(const struct driver *d,
                              const struct driver_worker *w)
{
    if (worker_is_silent(d, w))
        return "has stopped sending heartbeats";
    if (w->life == LIFE_STARTING && !w->spawned && d->withholds_us == 0 &&
        agent_stands_still(d, &d->hosts[w->host]))
        return "was not started: its agent has stopped sending heartbeats";
    if (starts_too_late(d, w))
        return w->life == LIFE_STARTING
                   ? "did not call hvd_init within --start-timeout"
                   : "was not ready to train within --start-timeout";
    if (leaves_too_late(d, w))
        return host_leaves(&d->hosts[w->host])
                   ? "did not leave before its host was to go"
                   : "did not leave within --drain-timeout";
    return NULL;
}

/* M2: SPAWN, or the answer to it, may have been lost. */
static void repeat_spawn(struct driver *d, struct driver_worker *w)
{
    if (!w->spawned && d->now_us - w->told_us >= ASK_AGAIN_US)
        worker_spawn(d, w);
}

void members_tick(struct driver *d)
{
    /* rows may not move here: nobody is removed, only marked */
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];
        const char *how;

        if (w->kill_us != 0 && d->now_us >= w->kill_us)
            action_kill(d, w, STOP_GRACE_MS);
        if (!worker_is_here(w))
            continue;
        repeat_spawn(d, w);
        how = verdict_on(d, w);
        if (how)
            worker_give_up(d, w, how, !is_cut_off(d, w));
    }
    hang_tick(d);
    stall_tick(d);
}
