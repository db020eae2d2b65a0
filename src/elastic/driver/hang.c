/* elastic/driver/hang.c - members that report and get nowhere (M10): whose
 * fault it is, and what comes of it. See core.h. Pure.
 *
 * Who computes while others wait for it is at fault, and is evicted. Where all
 * wait, in collective calls, none of them is: the generation ends, and they
 * begin again at the last commit. Where all compute the job is at fault. */
#include "base/text.h"
#include "elastic/driver/core_internal.h"

bool worker_waits(const struct driver_worker *w)
{
    const struct msg_ping *ping = &w->ping;

    return worker_is_ready(w) || ping->phase == WORKER_HELD ||
           ping->phase == WORKER_DONE || ping->in_collective ||
           ping->called > ping->operation;
}

/* Through with the generation: it waits for all of the others. */
static bool is_through(const struct driver_worker *w)
{
    return worker_is_ready(w) || w->standing == STAND_DONE;
}

/* A generation that has ended keeps nobody waiting: they have to come. */
static bool holds_up(const struct driver *d, const struct driver_worker *w)
{
    return d->aborted || !worker_waits(w);
}

/* At most since it could get on. */
bool worker_is_stuck(const struct driver_worker *w, uint64_t limit_us)
{
    return w->pinged_us > w->progress_us + limit_us;
}

/* The members under way: not through. */
struct census {
    size_t n, waiting, stuck;
    size_t calling; /* who say that they wait, if only for the lost */
    bool any_through;
    bool any_ordered; /* a call of the program's order was completed */
    const struct driver_worker *last; /* has completed least */
};

static struct census take_census(const struct driver *d, uint64_t limit_us)
{
    struct census c = {.n = 0};

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!is_member(w))
            continue;
        if (is_through(w)) {
            c.any_through = true;
            continue;
        }
        c.n++;
        c.any_ordered |= w->ping.operation > 0;
        c.stuck += worker_is_stuck(w, limit_us);
        if (!c.last || w->ping.operation < c.last->ping.operation)
            c.last = w;
        c.waiting += !holds_up(d, w);
        c.calling += worker_waits(w);
    }
    return c;
}

static bool all_wait(const struct census *c)
{
    return c->n > 0 && c->stuck == c->n && c->waiting == c->n;
}

static bool all_compute(const struct census *c)
{
    return c->n > 0 && c->stuck == c->n && c->calling == 0 && !c->any_through;
}

/* It has been where it waits for the other since before that one's newest word.
 * A newer word says nothing of it: meanwhile the other may have got on as well,
 * and has yet to say so. */
static bool awaits(const struct driver *d, const struct driver_worker *w,
                   const struct driver_worker *other)
{
    if (!is_member(w) || w->there_us > other->pinged_us)
        return false;
    if (is_through(w))
        return w->ping.phase != WORKER_RUNNING;
    return !holds_up(d, w) && w->ping.called > other->ping.called;
}

/* Somebody waits for it. */
static bool is_awaited(const struct driver *d, const struct census *c,
                       const struct driver_worker *w)
{
    if (c->calling > 0 && c->stuck == c->n)
        return true;
    for (size_t i = 0; i < d->n_workers; i++)
        if (awaits(d, &d->workers[i], w))
            return true;
    return false;
}

/* "all workers wait in collective calls, and none has got on `how`; ..." */
static void describe_wait(struct text *t, const struct driver *d,
                          const struct census *c, const char *how)
{
    text_add(t, "all workers wait in collective calls, and none has got on ");
    text_add(t, how);
    if (!c->any_ordered) /* calls by name: stall.c reports who lacks which */
        return;
    text_add(t, "; the last is ");
    text_worker(t, d, c->last);
    text_add(t, ", which has completed ");
    text_u64(t, c->last->ping.operation);
}

static void evict_stuck(struct driver *d, const struct census *c)
{
    uint64_t limit_us = d->config.hang_timeout_us;

    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (is_member(w) && !is_through(w) && holds_up(d, w) &&
            worker_is_stuck(w, limit_us) && is_awaited(d, c, w))
            worker_evict(d, w, "made no progress within --hang-timeout");
    }
}

static void judge(struct driver *d)
{
    struct census c = take_census(d, d->config.hang_timeout_us);
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (all_compute(&c)) {
        job_stop(d, 1, HVD_ERR_JOB_FAILED,
                 "no worker has made progress within --hang-timeout, and none "
                 "waits for another (hvd_busy_begin() announces a long phase)");
    } else if (all_wait(&c)) {
        describe_wait(&t, d, &c, "within --hang-timeout");
        record_warning(d, buf);
        end_by_loss(d, ABORT_LOST, 0, buf);
    } else {
        evict_stuck(d, &c);
    }
}

/* Each once in a generation. */
static void warn_of_one(struct driver *d, struct driver_worker *w)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    w->hang_warned = true;
    text_worker(&t, d, w);
    text_add(&t, " has made no progress for 60 s");
    record_warning(d, buf);
}

static void warn(struct driver *d)
{
    struct census c = take_census(d, HANG_WARN_US);
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (all_wait(&c) && !d->hang_warned) {
        d->hang_warned = true;
        describe_wait(&t, d, &c, "for 60 s");
        record_warning(d, buf);
    }
    for (size_t i = 0; c.stuck > 0 && i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (is_member(w) && !is_through(w) && holds_up(d, w) &&
            !w->hang_warned && worker_is_stuck(w, HANG_WARN_US))
            warn_of_one(d, w);
    }
}

/* ---- newcomers that wait for a boundary (M7) ----------------------------- */

/* Only the members keep it out, and not because they finish. */
static bool shuts_out(const struct driver *d)
{
    size_t max = d->config.max_np ? d->config.max_np : SIZE_MAX;

    return d->phase == DRIVER_RUNNING && d->kind != READY_STATIC &&
           d->counts.newcomers > 0 && d->counts.done == 0 &&
           d->counts.members - d->counts.draining < max &&
           (d->change != CHANGE_NONE || !d->committed);
}

static void name_newcomer(struct text *t, const struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++) {
        if (!is_newcomer(&d->workers[i]))
            continue;
        text_worker(t, d, &d->workers[i]);
        return;
    }
}

/* The member that has come to the fewest boundaries. */
static void name_last(struct text *t, const struct driver *d)
{
    const struct driver_worker *last = NULL;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (is_member(w) && (!last || w->ping.boundary < last->ping.boundary))
            last = w;
    }
    if (!last)
        return;
    text_add(t, "; the last is ");
    text_worker(t, d, last);
}

static void warn_of_newcomer(struct driver *d)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    name_newcomer(&t, d);
    text_add(&t, " has waited 60 s to join: ");
    if (d->change != CHANGE_NONE) {
        text_add(&t, "not all ranks have come to the next hvd_state_commit or "
                     "hvd_state_check_host_updates");
        name_last(&t, d);
    } else {
        text_add(&t, "no rank has come to hvd_state_commit in generation ");
        text_u64(&t, d->generation);
        text_add(&t, " -> it joins at the first commit or "
                     "hvd_state_check_host_updates behind it");
    }
    record_warning(d, buf);
}

/* shut_out_us: since then a newcomer has waited; 0: none does; DRIVER_NEVER: it
 * was reported. */
static void boundary_tick(struct driver *d)
{
    if (!shuts_out(d)) {
        d->shut_out_us = 0;
    } else if (d->shut_out_us == 0) {
        d->shut_out_us = d->now_us;
    } else if (d->now_us > d->shut_out_us &&
               d->now_us - d->shut_out_us >= HANG_WARN_US) {
        d->shut_out_us = DRIVER_NEVER;
        warn_of_newcomer(d);
    }
}

void hang_tick(struct driver *d)
{
    if (d->generation == 0 || d->phase >= DRIVER_STOPPING)
        return;
    if (d->config.hang_timeout_us > 0)
        judge(d);
    warn(d);
    boundary_tick(d);
}
