/* elastic/driver/members.c - workers from SPAWN to exit: deaths, and what their
 * messages say. What their agents say is in exits.c. See core.h. Pure. */
#include <string.h>

#include "base/stall.h"
#include "elastic/driver/core_internal.h"

/* ---- states -------------------------------------------------------------- */

void worker_move(struct driver_worker *w, enum worker_life to)
{
    static const unsigned moves[] = {
        [LIFE_STARTING] = MOVE(LIFE_UP) | MOVE(LIFE_ENDING) | MOVE(LIFE_DEAD),
        [LIFE_UP] = MOVE(LIFE_ENDING) | MOVE(LIFE_DEAD),
        [LIFE_ENDING] = MOVE(LIFE_DEAD),
        [LIFE_DEAD] = MOVE(LIFE_GONE),
        [LIFE_GONE] = 0,
    };

    HVD_ASSERT(moves_allow(moves, w->life, to));
    w->life = to;
}

void worker_stand(struct driver_worker *w, enum worker_standing to)
{
    static const unsigned moves[] = {
        [STAND_OUT] = MOVE(STAND_WAITING),
        [STAND_WAITING] = MOVE(STAND_RUNNING),
        [STAND_RUNNING] = MOVE(STAND_DONE) | MOVE(STAND_READY),
        [STAND_DONE] = MOVE(STAND_RUNNING) | MOVE(STAND_READY),
        [STAND_READY] = MOVE(STAND_RUNNING) | MOVE(STAND_WAITING),
    };

    HVD_ASSERT(to == w->standing || to == STAND_OUT ||
               moves_allow(moves, w->standing, to));
    w->standing = to;
}

bool is_member(const struct driver_worker *w)
{
    return worker_is_enlisted(w) && !worker_is_dead(w);
}

bool is_released(const struct driver_worker *w)
{
    return w->life == LIFE_ENDING && w->farewell.type == MSG_RELEASE;
}

bool is_newcomer(const struct driver_worker *w)
{
    return w->standing == STAND_WAITING && worker_is_live(w);
}

void members_recount(struct driver *d)
{
    struct driver_counts c = {0};

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (is_member(w)) {
            c.members++;
            c.ready += w->standing == STAND_READY;
            c.held += w->held;
            c.done += w->standing == STAND_DONE;
            c.going += w->first_collective;
            c.draining += w->drain != DRAIN_NONE;
        }
        c.newcomers += is_newcomer(w);
        c.live += worker_is_live(w);
        c.released += is_released(w);
    }
    d->counts = c;
    d->recheck = d->replace = true;
}

/* ---- death --------------------------------------------------------------- */

/* Everybody else is DONE with one id: nothing is lost, they will be released.
 */
static bool others_are_done(const struct driver *d)
{
    const struct driver_worker *first = NULL;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!is_member(w))
            continue;
        if (w->standing != STAND_DONE)
            return false;
        if (!first)
            first = w;
        else if (!state_id_equal(first->done_id, w->done_id))
            return false;
    }
    return first != NULL;
}

/* The others of a static job exit because of the loss: their peers' word says
 * whose loss it was. */
static void stop_static(struct driver *d, uint64_t id, const char *how)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    text_add(&t, "a static job cannot go on after a loss: ");
    text_add(&t, d->aborted && !is_accused(d, id) ? d->abort.text : how);
    job_stop(d, 1, HVD_ERR_JOB_FAILED, buf);
}

static void member_died(struct driver *d, uint64_t id, const char *how)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    d->death = true;
    if (state_is_gone(d)) {
        text_add(&t, d->interrupts > 0 ? "interrupted, and " : "");
        text_add(&t, "nobody is left who holds the state: ");
        text_add(&t, how);
        job_stop(d, d->interrupts > 0 ? d->exit_status : 1, HVD_ERR_JOB_FAILED,
                 buf);
    } else if (d->kind == READY_STATIC && !others_are_done(d)) {
        stop_static(d, id, how);
    } else if (!others_are_done(d)) {
        end_by_loss(d, ABORT_LOST, id, how);
    }
}

/* It is about to die: as members_recount() would find afterwards. */
static void uncount(struct driver *d, const struct driver_worker *w)
{
    struct driver_counts *c = &d->counts;

    if (is_member(w)) {
        c->members--;
        c->ready -= w->standing == STAND_READY;
        c->held -= w->held;
        c->done -= w->standing == STAND_DONE;
        c->going -= w->first_collective;
        c->draining -= w->drain != DRAIN_NONE;
    }
    c->newcomers -= is_newcomer(w);
    c->live -= worker_is_live(w);
    c->released -= is_released(w);
    d->recheck = d->replace = true;
}

void worker_dies(struct driver *d, struct driver_worker *w, const char *how,
                 bool failure)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));
    bool was_member = worker_is_enlisted(w), was_ending = !worker_is_here(w);
    uint64_t id = w->id;
    uint32_t host = w->host, slot = w->slot;

    if (worker_is_dead(w))
        return;
    text_worker(&t, d, w);
    text_add(&t, " ");
    text_add(&t, how);
    /* M11: it, or its host, was about to go anyhow */
    failure &= w->drain == DRAIN_NONE && !host_leaves(host_of(d, w));
    if (failure)
        finish_note_failed(d, w);
    uncount(d, w);
    worker_move(w, LIFE_DEAD);
    worker_stand(w, was_member ? STAND_RUNNING : STAND_OUT);
    w->held = false;
    if (was_ending || d->phase >= DRIVER_STOPPING)
        return;
    if (failure) /* else it only shares the fate of one that failed */
        memcpy(d->last_failure, buf, t.n + 1);
    t = text_into(record_add_worker(d, RECORD_WORKER_LOST, w)->text,
                  WIRE_TEXT_MAX);
    text_add(&t, how);
    /* survivors first: nothing else may be on the path of a recovery */
    if (was_member)
        member_died(d, id, buf);
    if (was_member && others_are_done(d))
        return; /* success is certain: nobody's host is taken away now */
    if (failure && d->phase < DRIVER_STOPPING)
        slot_failed(d, &d->hosts[host], slot, buf);
}

void worker_forget_unstarted(struct driver *d, struct driver_worker *w)
{
    uncount(d, w);
    if (!worker_is_dead(w))
        worker_move(w, LIFE_DEAD);
    worker_stand(w, STAND_OUT);
    worker_remove(d, w);
}

static void send_farewell(struct driver *d, const struct driver_worker *w)
{
    struct msg_shutdown *m = &action_send(d, w, w->farewell.type)->u.shutdown;
    struct text t;

    if (w->farewell.type != MSG_SHUTDOWN)
        return;
    m->reason = w->farewell.reason;
    m->status = w->farewell.status;
    t = text_into(m->text, sizeof(m->text));
    text_add(&t, w->farewell.text);
}

void say_farewell(struct driver *d, struct driver_worker *w,
                  enum message_type type, enum shutdown_reason reason,
                  int64_t status, const char *text)
{
    w->farewell = (struct driver_farewell){type, (uint8_t)reason, status, text};
    send_farewell(d, w);
    worker_move(w, LIFE_ENDING);
    w->kill_us = d->now_us + FAREWELL_US;
}

/* The text of its farewell is its own. */
static const char *keep_refusal(struct driver_worker *w, const char *text)
{
    size_t n = strlen(text) + 1, max = 0;

    if (!w->refusal && array_reserve(&w->refusal, &max, n))
        memcpy(w->refusal, text, n);
    return w->refusal ? w->refusal : "it was refused: see the driver's words";
}

void worker_refuse(struct driver *d, struct driver_worker *w,
                   hvd_status_t status, const char *text)
{
    say_farewell(d, w, MSG_SHUTDOWN, SHUTDOWN_FAILED, status,
                 keep_refusal(w, text));
    members_recount(d);
}

/* ---- what workers tell --------------------------------------------------- */

static void send_welcome(struct driver *d, struct driver_worker *w)
{
    struct msg_welcome *welcome = &action_send(d, w, MSG_WELCOME)->u.welcome;

    welcome->heartbeat_ms = d->config.heartbeat_us / 1000;
    welcome->driver_timeout_ms = d->config.driver_timeout_us / 1000;
    welcome->connect_timeout_ms = d->config.connect_timeout_us / 1000;
    welcome->silence_ms = d->config.heartbeat_timeout_us / 1000;
    welcome->encrypt_data = d->config.encrypt_data;
    if (d->phase == DRIVER_ADOPTING)
        plan_hosts(d); /* a successor has placed nobody yet */
    plan_for(d, w, &welcome->plan);
}

static void text_address(struct text *t, int64_t pid, const char *address,
                         uint64_t port)
{
    text_add(t, "pid ");
    text_u64(t, (uint64_t)pid);
    text_add(t, " at ");
    text_add(t, address);
    text_add(t, ":");
    text_u64(t, port);
}

/* Its peers have been told where it is, or will be: another process that says
 * it is the same one (a script may start two) is not the worker. */
bool driver_is_another(const struct driver_worker *w,
                       const struct msg_hello *hello)
{
    return w->called &&
           (w->called_pid != hello->pid || w->port != hello->port ||
            strcmp(w->address, hello->address) != 0);
}

static void contradict(struct driver *d, struct driver_worker *w,
                       const struct msg_hello *hello)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (w->contradicted)
        return;
    w->contradicted = true;
    text_worker(&t, d, w);
    text_add(&t, " is ");
    text_address(&t, w->called_pid, w->address, w->port);
    text_add(&t, ": HELLO of ");
    text_address(&t, hello->pid, hello->address, hello->port);
    text_add(&t, " is refused");
    record_warning(d, buf);
}

static void on_hello(struct driver *d, struct driver_worker *w,
                     const struct msg_hello *hello)
{
    if (w->life == LIFE_STARTING)
        worker_move(w, LIFE_UP);
    d->spawned_once = true; /* SPAWNED may be on its way, or lost */
    if (!w->spawned)
        w->pid = hello->pid; /* its agent's word, on its way, counts more */
    w->called = true;
    w->called_pid = hello->pid;
    memcpy(w->address, hello->address, sizeof(w->address));
    w->port = hello->port;
    send_welcome(d, w);
    adopt_greeting(d, w, &hello->where);
}

/* The version that the members of this generation have begun with. Version 1 is
 * that of before the training. */
static uint64_t first_version(const struct driver *d)
{
    return state_id_is_none(d->base) ? 1 : d->base.version;
}

void note_committed(struct driver *d, struct driver_worker *w,
                    struct state_id id)
{
    note_state(w, id);
    if (id.version > 1)
        d->ever_committed = true;
    if (!d->committed && worker_is_enlisted(w) &&
        id.generation == d->generation && id.version > first_version(d)) {
        d->committed = true;
        d->recheck = true;
    }
}

static void on_report(struct driver *d, struct driver_worker *w,
                      const struct msg_report *report)
{
    uint64_t own_us = report->duration_ns / 1000;
    struct driver_record *r;

    if (!is_member(w) || report->generation != d->generation)
        return;
    w->progress_us = d->now_us; /* newer than its newest ping */
    if (report->what == REPORT_FIRST_COMMIT) {
        note_committed(d, w,
                       (struct state_id){d->generation, first_version(d) + 1});
    } else if (report->what == REPORT_SYNCED && !w->synced) {
        w->synced = true;
        note_state(w, d->base);
        r = record_add_worker(d, RECORD_STATE_SYNCED, w);
        r->nbytes = report->nbytes;
        r->n = report->sources;
        r->duration_us = own_us;
    } else if (report->what == REPORT_FIRST_COLLECTIVE &&
               !w->first_collective) {
        w->first_collective = w->entered = true;
        if (++d->counts.going == d->counts.members)
            d->recheck = d->replace = true;
        r = record_add_worker(d, RECORD_FIRST_COLLECTIVE, w);
        r->duration_us = own_us + (d->formed_us - d->opened_us);
    }
}

static void on_done(struct driver *d, struct driver_worker *w,
                    const struct msg_done *done)
{
    if (!is_member(w) || d->aborted || done->generation != d->generation ||
        w->standing != STAND_RUNNING)
        return;
    worker_stand(w, STAND_DONE);
    w->done_id = done->id;
    d->counts.done++;
    note_committed(d, w, done->id);
    if (d->counts.done + d->counts.ready >= d->counts.members)
        d->recheck = true;
}

static bool has_elders(const struct driver *d, const struct driver_worker *w)
{
    for (size_t i = 0; i < d->n_workers; i++)
        if (is_member(&d->workers[i]) && d->workers[i].joined < w->joined)
            return true;
    return false;
}

/* M11: too few descriptors, no memory, an entry of another size, a file that is
 * not there: what keeps a newcomer from entering is its own trouble, and no
 * reason to end what the others do. It may pass: another one is tried. */
static bool is_own_trouble(const struct driver *d,
                           const struct driver_worker *w,
                           const struct msg_leaving *leaving)
{
    return d->kind == READY_ELASTIC && is_member(w) && !w->entered &&
           leaving->generation == d->generation && has_elders(d, w);
}

static void leave_out(struct driver *d, struct driver_worker *w,
                      const struct msg_leaving *leaving, const char *text)
{
    struct text t = text_into(d->last_failure, sizeof(d->last_failure));

    text_add(&t, text);
    d->death = true; /* it explains the end of this generation */
    worker_stand(w, STAND_OUT);
    end_by_loss(d, ABORT_LOST, w->id, text);
    worker_refuse(d, w, (hvd_status_t)leaving->status, text);
    record_warning(d, text);
    if (leaving->status == HVD_ERR_LAYOUT) /* so will the next */
        slot_close(d, host_of(d, w), w->slot, text);
    else if (!host_leaves(host_of(d, w)))
        slot_failed(d, host_of(d, w), w->slot, text);
}

/* It says itself that it dies, and is answered as long as it asks. */
static void give_up(struct driver *d, struct driver_worker *w,
                    const struct msg_leaving *leaving)
{
    char how[WIRE_TEXT_MAX];
    struct text t = text_into(how, sizeof(how));

    text_add(&t, "gave up: ");
    text_add(&t, leaving->text);
    worker_dies(d, w, how, true);
    w->farewell = (struct driver_farewell){
        MSG_SHUTDOWN, SHUTDOWN_FAILED, leaving->status, keep_refusal(w, how)};
    w->kill_us = d->now_us + FAREWELL_US;
    send_farewell(d, w);
}

static void on_leaving(struct driver *d, struct driver_worker *w,
                       const struct msg_leaving *leaving)
{
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (worker_is_here(w) && leaving->alone) {
        give_up(d, w, leaving);
    } else if (worker_is_here(w)) {
        if (d->kind == READY_STATIC && leaving->status == HVD_PEER_LOST &&
            is_member(w)) { /* the failure is another's: finish_tick() */
            end_by_loss(d, ABORT_LOST, 0, leaving->text);
            return;
        }
        text_worker(&t, d, w);
        text_add(&t, " failed: ");
        text_add(&t, leaving->text);
        finish_note_failed(d, w);
        if (is_own_trouble(d, w, leaving))
            leave_out(d, w, leaving, buf);
        else /* M11: user errors end the job */
            job_stop(d, 1, HVD_ERR_JOB_FAILED, buf);
    } else if (w->farewell.type == MSG_SHUTDOWN) {
        send_farewell(d, w);
    }
}

/* Did the worker get on since its last PING? Outside its training it waits for
 * the driver, or is being ended. */
static void note_progress(struct driver *d, struct driver_worker *w,
                          const struct msg_ping *ping)
{
    const struct msg_ping *before = &w->ping;
    bool moved = ping->boundary != before->boundary ||
                 ping->operation != before->operation ||
                 ping->called != before->called ||
                 ping->generation != before->generation;

    if (moved || ping->phase != before->phase ||
        ping->in_collective != before->in_collective)
        w->there_us = d->now_us;
    if (moved || ping->moves != before->moves ||
        ping->phase != WORKER_RUNNING || before->busy_ms > 0)
        w->progress_us = d->now_us; /* the end of a busy phase, too */
    if (ping->busy_ms > 0)
        w->progress_us = d->now_us + ping->busy_ms * 1000;
}

/* A member that only looks for changes of hosts commits where it leaves: from
 * its first boundary on it has something to keep. */
static void note_boundary(struct driver *d, const struct msg_ping *ping)
{
    if (d->bounded || ping->boundary == 0)
        return;
    d->bounded = true;
    d->recheck = true;
}

/* Workers are being started that are to join, or members are to leave. */
static bool expects_change(const struct driver *d)
{
    return d->counts.live > d->counts.members || d->counts.draining > 0;
}

/* A member whose last PONG said otherwise is answered at once. */
static void answer(struct driver *d, struct driver_worker *w,
                   const struct msg_ping *ping)
{
    bool trains = is_member(w) && ping->phase != WORKER_LEFT;
    bool expects = trains && expects_change(d);
    struct msg_pong *pong;

    w->ping = *ping;
    w->pinged_us = d->now_us;
    if (d->now_us - w->pong_us < pong_every(d) &&
        (!trains || ping->expects == expects))
        return;
    w->pong_us = d->now_us;
    pong = &action_send(d, w, MSG_PONG)->u.pong;
    pong->stamp_us = ping->stamp_us;
    pong->expects = expects;
}

/* M2: PING says where a worker is; answer with what it lacks. */
static void on_ping(struct driver *d, struct driver_worker *w,
                    const struct msg_ping *ping)
{
    bool in_generation = ping->phase == WORKER_RUNNING ||
                         ping->phase == WORKER_HELD ||
                         ping->phase == WORKER_DONE;

    note_progress(d, w, ping);
    stall_forget(w);
    note_committed(d, w, ping->id);
    answer(d, w, ping);
    if (w->inherited && !worker_is_enlisted(w) && in_generation &&
        ping->fence < ping->generation && d->phase != DRIVER_ADOPTING)
        send_abort(d, w, ping->generation); /* it came too late for that one */
    if (!is_member(w) || ping->generation > d->generation)
        return;
    if (ping->phase == WORKER_JOINING && ping->fence < d->generation) {
        if (d->aborted)
            send_abort(d, w, d->generation);
        else if (!worker_is_ready(w))
            repeat_assign(d, w);
    } else if (in_generation && ping->fence < d->generation && d->aborted) {
        send_abort(d, w, d->generation);
    } else if (in_generation && ping->generation == d->generation) {
        bool answered = ping->held && ping->hold_sequence == d->hold_sequence;

        note_boundary(d, ping);
        if (d->change == CHANGE_HOLDING && !answered)
            send_hold(d, w);
        else if ((d->change == CHANGE_CUTTING || d->change == CHANGE_OVER) &&
                 answered && !ping->cut)
            send_cut(d, w);
    }
}

/* While it was not heard it may not have run. */
static void forgive_silence(const struct driver *d, struct driver_worker *w)
{
    uint64_t due_us = w->heard_us + d->config.heartbeat_us;

    if (w->progress_us < d->now_us)
        w->progress_us = stall_forgive(w->progress_us,
                                       stall_of(due_us, d->now_us), d->now_us);
}

/* Whom a successor took for one of those that were released, as it did not know
 * where he was; he is DONE if he is one, or says that he was. */
static void correct_farewell(struct driver *d, struct driver_worker *w,
                             const struct msg_where *where)
{
    if (!w->inherited || w->farewell.type != MSG_RELEASE ||
        where->phase == WORKER_DONE || where->released)
        return;
    d->counts.released -= is_released(w);
    w->farewell = (struct driver_farewell){MSG_SHUTDOWN, SHUTDOWN_FINISHED,
                                           HVD_OK, "the job has finished"};
    w->kill_us = d->now_us + FAREWELL_US;
}

/* A released worker lives. */
static void on_epilogue(struct driver *d, struct driver_worker *w,
                        const struct msg_ping *ping)
{
    w->told_silent = false;
    w->parted |= ping->last;
    answer(d, w, ping);
}

/* From a worker that was told to go: it did not hear that. A worker that had
 * not called yet was not told. */
static void on_late_message(struct driver *d, struct driver_worker *w,
                            const struct message *m)
{
    if (m->type == MSG_PING && m->u.ping.phase == WORKER_LEFT) {
        on_epilogue(d, w, &m->u.ping);
        return;
    }
    if (m->type == MSG_HELLO)
        correct_farewell(d, w, &m->u.hello.where);
    if (m->type != MSG_REPORT && w->farewell.type != MSG_NONE)
        send_farewell(d, w);
}

/* The worker's control thread has ended, and now its process calls hvd_init
 * again: it has run a program by exec. */
static void explain_again(struct driver *d, struct driver_worker *w,
                          const struct msg_hello *hello)
{
    static const char how[] = "has called exec after hvd_init, which ends a "
                              "worker -> call exec first";
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (!w->unexplained || !w->called || w->called_pid != hello->pid ||
        !driver_is_another(w, hello))
        return;
    worker_explain(d, w, how);
    text_worker(&t, d, w);
    text_add(&t, " ");
    text_add(&t, how);
    record_warning(d, buf);
    w->unexplained = false;
    w->kill_us = d->now_us;
}

void on_worker_message(struct driver *d, const struct message *m)
{
    struct driver_worker *w = worker_find(d, m->worker);

    if (w)
        host_of(d, w)->heard_us = d->now_us;
    if (!w || worker_is_dead(w)) { /* a ghost of an older incarnation */
        if (w && m->type == MSG_HELLO)
            explain_again(d, w, &m->u.hello);
        if (w && m->type == MSG_LEAVING && w->farewell.type == MSG_SHUTDOWN)
            send_farewell(d, w); /* it gave up, and has heard nothing */
        return;
    }
    if (m->type == MSG_HELLO && driver_is_another(w, &m->u.hello)) {
        contradict(d, w, &m->u.hello);
        return;
    }
    forgive_silence(d, w);
    w->heard_us = d->now_us;
    if (d->phase == DRIVER_ADOPTING && m->type != MSG_HELLO &&
        m->type != MSG_PING)
        return; /* it is said again */
    if (m->type == MSG_LEAVING) {
        on_leaving(d, w, &m->u.leaving);
        return;
    }
    if (!worker_is_here(w)) {
        on_late_message(d, w, m);
        return;
    }
    switch (m->type) {
    case MSG_HELLO:
        on_hello(d, w, &m->u.hello);
        break;
    case MSG_READY:
        note_committed(d, w, m->u.ready.id);
        on_ready(d, w, &m->u.ready);
        break;
    case MSG_LOST:
        on_lost(d, w, &m->u.lost);
        break;
    case MSG_HELD:
        on_held(d, w, &m->u.held);
        break;
    case MSG_REPORT:
        on_report(d, w, &m->u.report);
        break;
    case MSG_DONE:
        on_done(d, w, &m->u.done);
        break;
    case MSG_PING:
        on_ping(d, w, &m->u.ping);
        break;
    case MSG_WAITING:
        on_waiting(d, w, &m->u.waiting);
        break;
    case MSG_DRAIN_ME:
        on_drain_me(d, w);
        break;
    default:
        break;
    }
}
