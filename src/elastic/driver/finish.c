/* elastic/driver/finish.c - the end of a job: release, verdict, interrupt, and
 * the wait until every worker and agent is gone. M14. See core.h. Pure. */
#include <signal.h>
#include <string.h>

#include "elastic/driver/core_internal.h"

static void begin_stopping(struct driver *d, int exit_status, const char *text)
{
    struct text t = text_into(d->verdict, sizeof(d->verdict));

    driver_move(d, DRIVER_STOPPING);
    d->change = CHANGE_NONE;
    d->exit_status = exit_status;
    text_add(&t, text);
    d->recheck = d->replace = true;
}

static void dismiss(struct driver *d, struct driver_worker *w,
                    enum shutdown_reason reason, hvd_status_t status,
                    const char *text)
{
    if (!worker_is_here(w))
        return;
    if (w->life == LIFE_UP) {
        say_farewell(d, w, MSG_SHUTDOWN, reason, status, text);
    } else {
        worker_move(w, LIFE_ENDING);
        action_kill(d, w, STOP_GRACE_MS);
    }
}

void job_stop(struct driver *d, int exit_status, hvd_status_t status,
              const char *text)
{
    enum shutdown_reason reason = status == HVD_REMOVED ? SHUTDOWN_DRAINED
                                                        : SHUTDOWN_FAILED;

    if (d->phase >= DRIVER_STOPPING)
        return;
    begin_stopping(d, exit_status, text);
    d->give_up_us = d->now_us + STOP_LIMIT_US;
    for (size_t i = 0; i < d->n_workers; i++)
        dismiss(d, &d->workers[i], reason, status, d->verdict);
    members_recount(d);
}

void job_stop_unstarted(struct driver *d, const struct driver_worker *w,
                        const char *why)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    text_add(&t, "host ");
    text_add(&t, host_of(d, w)->name);
    text_add(&t, ": ");
    text_add(&t, why);
    job_stop(d, 1, HVD_ERR_JOB_FAILED, buf);
}

void job_stop_failed(struct driver *d, const char *text)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    text_add(&t, text);
    if (d->last_failure[0] != '\0') {
        text_add(&t, "; last failure: ");
        text_add(&t, d->last_failure);
    }
    job_stop(d, 1, HVD_ERR_JOB_FAILED, buf);
}

void finish_note_failed(struct driver *d, const struct driver_worker *w)
{
    bool member = worker_is_enlisted(w);

    if (!worker_is_here(w) || d->phase >= DRIVER_STOPPING)
        return;
    if (d->first_failed != 0 && (d->first_was_member || !member))
        return;
    d->first_failed = w->id;
    d->first_was_member = member;
}

/* Limits of 0 are none. */
static uint64_t after(const struct driver *d, uint64_t limit_us)
{
    return limit_us > 0 ? d->now_us + limit_us : DRIVER_NEVER;
}

static void release(struct driver *d)
{
    size_t n_members = d->counts.members;

    begin_stopping(d, 0, "finished");
    d->released = true;
    /* their epilogue is their own */
    d->exit_deadline_us = after(d, d->config.exit_timeout_us);
    d->linger_us = after(d, LINGER_WARN_US);
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (is_member(w)) {
            say_farewell(d, w, MSG_RELEASE, SHUTDOWN_FINISHED, 0, "");
            w->kill_us = 0;
        } else {
            dismiss(d, w, SHUTDOWN_FINISHED, HVD_OK, "the job has finished");
        }
    }
    members_recount(d);
    record_add(d, RECORD_RELEASED)->n = n_members;
}

void finish_dismiss(struct driver *d, struct driver_worker *w)
{
    say_farewell(d, w, MSG_SHUTDOWN, SHUTDOWN_FINISHED, HVD_OK,
                 "the job has finished");
}

void finish_await(struct driver *d, struct driver_worker *w)
{
    say_farewell(d, w, MSG_RELEASE, SHUTDOWN_FINISHED, 0, "");
    w->kill_us = 0;
    d->give_up_us = DRIVER_NEVER;
}

/* A member had called long before it was released. */
static void leave_inherited(struct driver *d, struct driver_worker *w)
{
    if (!d->released)
        say_farewell(d, w, MSG_SHUTDOWN, SHUTDOWN_FAILED, HVD_ERR_JOB_FAILED,
                     d->verdict);
    else if (w->life == LIFE_UP || d->unsure)
        finish_await(d, w);
    else
        finish_dismiss(d, w);
}

/* What was said is said again to everybody who is still there, as they say
 * HELLO. */
static void stop_inherited(struct driver *d, int exit_status, bool released,
                           const char *verdict)
{
    begin_stopping(d, exit_status, verdict);
    d->released = released;
    if (released) {
        d->exit_deadline_us = after(d, d->config.exit_timeout_us);
        d->linger_us = after(d, LINGER_WARN_US);
    } else {
        d->give_up_us = d->now_us + STOP_LIMIT_US;
    }
    for (size_t i = 0; i < d->n_workers; i++)
        if (worker_is_here(&d->workers[i]))
            leave_inherited(d, &d->workers[i]);
}

void finish_inherit(struct driver *d, const struct entry_state *state)
{
    d->unsure = state->unsure;
    stop_inherited(d, (int)state->exit_status, state->released, state->verdict);
}

/* All its members were written down before it was, and that they had called. */
void finish_adopt(struct driver *d, const struct msg_where *released)
{
    d->unsure = d->generation != released->generation;
    d->generation = released->generation; /* RELEASE of another is not heard */
    stop_inherited(d, 0, true, "finished");
    members_recount(d);
    record_add(d, RECORD_RELEASED)->n = released->size;
}

static void stop_ends_differ(struct driver *d, const struct driver_worker *a,
                             const struct driver_worker *b)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    text_worker(&t, d, a);
    text_add(&t, " finished after commit ");
    text_u64(&t, a->done_id.version);
    text_add(&t, ", ");
    text_worker(&t, d, b);
    text_add(&t, " after commit ");
    text_u64(&t, b->done_id.version);
    text_add(&t, ": ranks must commit equally often");
    job_stop(d, 1, HVD_ERR_MISMATCH, buf);
}

static bool ends_agree(struct driver *d)
{
    const struct driver_worker *first = NULL;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!is_member(w))
            continue;
        if (!first)
            first = w;
        if (!state_id_equal(first->done_id, w->done_id)) {
            stop_ends_differ(d, first, w);
            return false;
        }
    }
    return true;
}

/* Some have finished, the others have left at the cut: they will never meet. */
static void stop_cut_missed(struct driver *d)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!is_member(w) || w->standing != STAND_DONE)
            continue;
        text_worker(&t, d, w);
        break;
    }
    text_add(&t, " finished before boundary ");
    text_u64(&t, d->cut);
    text_add(&t, ", where the others left: ranks must commit equally often");
    job_stop(d, 1, HVD_ERR_MISMATCH, buf);
}

static void finish(struct driver *d)
{
    struct driver_record *r = record_add(d, RECORD_JOB_FINISHED);
    struct driver_action *a;
    struct text t = text_into(r->text, sizeof(r->text));

    r->status = d->exit_status;
    text_add(&t, d->verdict);
    a = action_add(d, DRIVER_ACT_FINISH);
    a->u.finish.status = d->exit_status;
    t = text_into(a->u.finish.text, sizeof(a->u.finish.text));
    text_add(&t, d->verdict);
    driver_move(d, DRIVER_STOPPED);
}

/* ---- who does not end ---------------------------------------------------- */

static void kill_all(struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++)
        action_kill(d, &d->workers[i], 0);
    if (d->give_up_us > d->now_us + STOP_LIMIT_US)
        d->give_up_us = d->now_us + STOP_LIMIT_US;
}

static const struct driver_worker *find_released(const struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++)
        if (is_released(&d->workers[i]))
            return &d->workers[i];
    return NULL;
}

static void warn_left(struct driver *d, const char *what)
{
    for (size_t i = 0; i < d->n_workers; i++) {
        char buf[WIRE_TEXT_MAX];
        struct text t = text_into(buf, sizeof(buf));

        if (d->workers[i].life == LIFE_GONE)
            continue;
        text_worker(&t, d, &d->workers[i]);
        text_add(&t, ", pid ");
        text_u64(&t, (uint64_t)d->workers[i].pid);
        text_add(&t, ", ");
        text_add(&t, what);
        record_warning(d, buf);
    }
}

/* A verdict that comes later than that of the job, which was success. */
static void spoil(struct driver *d, int exit_status, const char *text)
{
    struct text t = text_into(d->verdict, sizeof(d->verdict));

    HVD_ASSERT(d->phase == DRIVER_STOPPING && d->exit_status == 0);
    d->exit_status = exit_status;
    text_add(&t, text);
}

void finish_is_spoiled(struct driver *d, const struct driver_worker *w,
                       const char *how)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    text_worker(&t, d, w);
    text_add(&t, " had finished, but then ");
    text_add(&t, how);
    if (d->exit_status == 0) {
        d->first_failed = w->id;
        spoil(d, 1, buf);
    } else {
        record_warning(d, buf);
    }
}

/* Who was told to go earlier, or evicted, is still being waited for. */
static uint64_t last_kill(const struct driver *d)
{
    uint64_t last_us = d->now_us;

    for (size_t i = 0; i < d->n_workers; i++)
        if (d->workers[i].kill_us > last_us)
            last_us = d->workers[i].kill_us;
    return last_us;
}

static bool is_overdue(struct driver *d)
{
    bool released = d->counts.released > 0;

    if (released && d->now_us >= d->exit_deadline_us) {
        d->exit_deadline_us = DRIVER_NEVER;
        finish_is_spoiled(d, find_released(d),
                          "did not exit within --exit-timeout");
        kill_all(d);
    }
    if (!released && d->give_up_us == DRIVER_NEVER)
        d->give_up_us = last_kill(d) + STOP_LIMIT_US;
    if (d->now_us < d->give_up_us)
        return false;
    warn_left(d, "could not be killed, and is left behind");
    return true;
}

/* Whoever it runs ends with it: it has to have told of them. */
static bool is_useless(const struct driver *d, const struct driver_host *h,
                       bool nobody)
{
    return nobody && h->agent_phase == AGENT_UP && !(d->unsure && h->inherited);
}

static void stop_agents(struct driver *d, bool nobody)
{
    for (size_t i = 0; i < d->n_hosts; i++) {
        struct driver_host *h = &d->hosts[i];

        if (is_useless(d, h, nobody) ||
            (h->agent_phase == AGENT_STARTING && !h->inherited))
            agent_stop(d, h);
    }
}

/* With each exit, and at the end each agent's: the hosts are gone through only
 * if there is an agent to be told. */
static void stopping_progress(struct driver *d)
{
    const size_t *n_in = d->n_hosts_in;
    bool nobody = d->n_workers == d->n_gone;

    if (n_in[AGENT_STARTING] > 0 || (nobody && n_in[AGENT_UP] > 0))
        stop_agents(d, nobody);
    nobody &= n_in[AGENT_STARTING] + n_in[AGENT_UP] + n_in[AGENT_STOPPING] == 0;
    if (nobody || is_overdue(d))
        finish(d);
}

void finish_progress(struct driver *d)
{
    struct driver_counts *c = &d->counts;

    if (d->phase == DRIVER_STOPPING) {
        stopping_progress(d);
        return;
    }
    if (d->phase > DRIVER_RUNNING || d->aborted || c->members == 0)
        return;
    if (c->done == c->members) {
        if (ends_agree(d))
            release(d);
    } else if (d->change == CHANGE_CUTTING && c->done > 0 &&
               c->done + c->ready == c->members) {
        stop_cut_missed(d);
    }
}

/* No exit has explained the loss: what its peers say must do. */
static void stop_static(struct driver *d)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    text_add(&t, "a static job cannot go on after a loss: ");
    text_add(&t, d->abort.text);
    job_stop(d, 1, HVD_ERR_JOB_FAILED, buf);
}

/* The worker counts as finished, so the job waits for its exit, and a person
 * must know why. */
static void name_silent(struct driver *d, struct driver_worker *w)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    w->told_silent = true;
    text_worker(&t, d, w);
    text_add(&t, ", pid ");
    text_u64(&t, (uint64_t)w->pid);
    text_add(&t, ", has finished training, but sends no heartbeats any more: "
                 "it is stopped (SIGSTOP, a debugger), or hangs -> the job "
                 "waits for its exit; continue or kill it");
    record_warning(d, buf);
}

static void released_tick(struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (!w->told_silent && worker_stands_still(d, w))
            name_silent(d, w);
    }
}

void finish_tick(struct driver *d)
{
    if (d->phase == DRIVER_STOPPING && d->counts.released > 0)
        released_tick(d);
    if (d->phase == DRIVER_STOPPING && d->now_us >= d->linger_us) {
        d->linger_us = DRIVER_NEVER;
        warn_left(d, "has not exited 60 s after the end of training");
    }
    if (d->kind == READY_STATIC && d->aborted && d->phase < DRIVER_STOPPING &&
        d->now_us - d->opened_us >= CAUSE_US)
        stop_static(d);
    if (d->interrupts > 0 && d->phase < DRIVER_STOPPING &&
        d->now_us >= d->drained_us)
        job_stop(
            d, d->exit_status, HVD_REMOVED,
            "interrupted; the workers did not drain within --drain-timeout");
}

bool driver_heeds(const struct driver *d, int signal, uint64_t now_us)
{
    if (d->interrupts == 0 || signal == SIGINT)
        return true;
    return signal != SIGHUP && now_us - d->interrupted_us >= MOMENT_US;
}

void on_interrupt(struct driver *d, int signal)
{
    if (!driver_heeds(d, signal, d->now_us))
        return;
    if (d->interrupts++ == 0)
        d->interrupted_us = d->now_us;
    d->recheck = d->replace = true;
    if (d->interrupts == 1 && d->phase >= DRIVER_STOPPING)
        return; /* what workers do when they have finished is theirs */
    if (d->interrupts == 1) {
        d->exit_status = 128 + signal;
        d->drained_us = d->now_us + d->config.drain_timeout_us;
        if (d->phase == DRIVER_WAITING || d->kind == READY_STATIC)
            job_stop(d, d->exit_status, HVD_REMOVED, "interrupted");
        return;
    }
    job_stop(d, 128 + signal, HVD_REMOVED, "interrupted twice");
    if (d->exit_status == 0 && find_released(d))
        spoil(d, 128 + signal, "interrupted twice");
    kill_all(d);
}
