/* elastic/agent/core.c - the agent's state machine. See core.h.
 *
 * One step handles its event and then advances all deadlines, so a late TICK
 * loses nothing. Not here: processes, sockets, clocks (loop.c, children.c).
 *
 * Pure. Threads: none. Memory: two arrays, grown in agent_core_reserve() only.
 */
#include "elastic/agent/core.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/array.h"
#include "base/moves.h"
#include "base/stall.h"

/* Per child one step can ask for SIGTERM, SIGCONT, SIGKILL and a report, which
 * may be two messages, and once more say that it is dying. */
enum { ACTIONS_PER_CHILD = 6, ACTIONS_BESIDES = 8 };

/* What tells a successor of a child may be lost, and it cannot ask for whom it
 * does not know. */
enum { RETELLS = 5 };
enum { SCRIPT_US = 20000 }; /* it ends soon, if its worker is gone */

/* So long the driver, which answers each ping, has to be heard when the
 * lifeline has ended. */
enum { CUT_BEATS = 10, UNREAD_BEATS = 2 /* a word may have been on its way */ };

/* ---- small helpers ------------------------------------------------------- */

static struct agent_action *emit(struct agent_core *core,
                                 enum agent_action_type type)
{
    struct agent_action *action;

    HVD_ASSERT(core->n_actions < core->actions_max);
    action = &core->actions[core->n_actions++];
    memset(action, 0, sizeof(*action));
    action->type = type;
    return action;
}

static void send_message(struct agent_core *core, enum message_type type,
                         uint64_t worker)
{
    struct agent_action *action = emit(core, AGENT_DO_SEND);

    action->message = type;
    action->worker = worker;
}

static void signal_group(struct agent_core *core,
                         const struct agent_child *child, int signo)
{
    struct agent_action *action;

    if (child->pid == 0)
        return; /* never forked: nobody to signal */
    action = emit(core, AGENT_DO_SIGNAL);
    action->worker = child->worker;
    action->pid = child->pid;
    action->signo = signo;
}

static void move(struct agent_core *core, enum agent_phase to)
{
    static const unsigned moves[] = {
        [AGENT_CONTACT] = MOVE(AGENT_RUNNING) | MOVE(AGENT_ENDING),
        [AGENT_RUNNING] = MOVE(AGENT_ENDING),
        [AGENT_ENDING] = MOVE(AGENT_ENDING) | MOVE(AGENT_ENDED),
        [AGENT_ENDED] = 0,
    };

    HVD_ASSERT(moves_allow(moves, core->phase, to));
    core->phase = to;
}

static void move_child(struct agent_core *core, struct agent_child *child,
                       enum agent_child_state to)
{
    static const unsigned moves[] = {
        [CHILD_SPAWNED] = MOVE(CHILD_ALIVE) | MOVE(CHILD_KILLED) |
                          MOVE(CHILD_REAPED),
        [CHILD_ALIVE] = MOVE(CHILD_KILLED) | MOVE(CHILD_REAPED),
        [CHILD_KILLED] = MOVE(CHILD_REAPED),
        [CHILD_REAPED] = 0,
    };

    HVD_ASSERT(moves_allow(moves, child->state, to));
    child->state = to;
    if (to == CHILD_REAPED) {
        HVD_ASSERT(core->n_live > 0);
        core->n_live--;
        child->kill_us = AGENT_NEVER;
    }
}

static struct agent_child *find(struct agent_core *core, uint64_t worker)
{
    for (size_t i = core->n_children; i > 0; i--)
        if (core->children[i - 1].worker == worker)
            return &core->children[i - 1];
    return NULL;
}

/* Who lives in this slot; NULL: nobody. */
static struct agent_child *occupant(struct agent_core *core, uint32_t slot)
{
    for (size_t i = 0; i < core->n_children; i++)
        if (core->children[i].slot == slot &&
            core->children[i].state != CHILD_REAPED)
            return &core->children[i];
    return NULL;
}

static struct agent_child *add(struct agent_core *core, uint64_t worker)
{
    struct agent_child *child;

    HVD_ASSERT(core->n_children < core->children_max);
    child = &core->children[core->n_children++];
    memset(child, 0, sizeof(*child));
    child->worker = worker;
    child->kill_us = child->retry_us = AGENT_NEVER;
    core->n_live++;
    return child;
}

/* Which message says how this child is; MSG_NONE while there is nothing. */
static enum message_type report_of(const struct agent_child *child)
{
    if (child->state == CHILD_SPAWNED)
        return MSG_NONE;
    if (child->state != CHILD_REAPED)
        return MSG_SPAWNED;
    return child->failed ? MSG_SPAWN_FAILED : MSG_WORKER_EXITED;
}

static void report(struct agent_core *core, struct agent_child *child)
{
    enum message_type type = report_of(child);

    child->retry_us = AGENT_NEVER;
    if (type == MSG_NONE)
        return;
    send_message(core, type, child->worker);
    if (type == MSG_SPAWNED && child->dying)
        send_message(core, MSG_WORKER_DYING, child->worker);
    core->reported = true;
}

/* ---- ending children ----------------------------------------------------- */

/* SIGTERM now, SIGKILL at kill_us; a second call can only make it sooner. */
static void terminate(struct agent_core *core, struct agent_child *child,
                      uint64_t kill_us)
{
    if (child->state == CHILD_REAPED)
        return;
    if (child->state != CHILD_KILLED)
        move_child(core, child, CHILD_KILLED);
    else if (child->kill_us == AGENT_NEVER)
        return; /* SIGKILL is out already */
    if (kill_us < child->kill_us)
        child->kill_us = kill_us;
    if (child->kill_us <= core->now_us || child->term_sent)
        return;
    child->term_sent = true;
    signal_group(core, child, SIGTERM);
    signal_group(core, child, SIGCONT); /* a stopped one must hear it too */
}

static uint64_t later(uint64_t now_us, uint64_t delay_us)
{
    return delay_us < AGENT_NEVER - now_us ? now_us + delay_us
                                           : AGENT_NEVER - 1;
}

static void end(struct agent_core *core, uint64_t grace_us)
{
    uint64_t kill_us = later(core->now_us, grace_us);
    uint64_t give_up_us = later(kill_us, core->config.reap_us);

    if (core->phase == AGENT_ENDED)
        return;
    move(core, AGENT_ENDING);
    if (give_up_us < core->give_up_us)
        core->give_up_us = give_up_us;
    for (size_t i = 0; i < core->n_children; i++)
        terminate(core, &core->children[i], kill_us);
}

static void lose_driver(struct agent_core *core)
{
    if (core->driver_lost)
        return;
    core->driver_lost = true;
    core->orphan_us = later(core->now_us, core->config.orphan_us);
}

static void lose_lifeline(struct agent_core *core)
{
    if (core->config.survives)
        return;
    if (core->config.remote && core->welcome)
        core->cut_us = core->now_us;
    else
        lose_driver(core);
}

/* ---- the host will go ---------------------------------------------------- */

/* Before there is a driver that listens nothing is said: with the ping that
 * follows its answer it is. */
static void say_notice(struct agent_core *core)
{
    if (core->noticed && core->phase == AGENT_RUNNING && !core->greeting)
        send_message(core, MSG_NOTICE, 0);
}

/* Of several times the soonest is the one to be kept. */
static void note(struct agent_core *core, uint64_t go_us, const char *text)
{
    size_t n = strnlen(text, sizeof(core->notice) - 1);

    if (go_us < core->go_us)
        core->go_us = go_us;
    if (!core->noticed) {
        memcpy(core->notice, text, n);
        core->notice[n] = 0;
    }
    core->noticed = true;
    say_notice(core);
}

static void on_terminate(struct agent_core *core)
{
    bool again = core->terminated;

    core->terminated = true;
    if (again || core->phase >= AGENT_ENDING)
        end(core, core->config.grace_us);
    else
        note(core, AGENT_NEVER, "");
}

/* ---- events -------------------------------------------------------------- */

static void refuse(struct agent_core *core, struct agent_child *child,
                   const char *text)
{
    child->failed = true;
    child->error = ECANCELED;
    memcpy(child->text, text, strlen(text) + 1);
    move_child(core, child, CHILD_REAPED);
    report(core, child);
}

/* A worker is started once, however often the driver repeats itself: what is as
 * old as those that are forgotten may be one of them. Nor is it started where
 * another lives: a driver that has taken over may not know of that one. It is
 * told, and says SPAWN again, until the slot is free. */
static void on_spawn(struct agent_core *core, const struct msg_spawn *spawn)
{
    struct agent_child *child = find(core, spawn->worker);

    if (!child)
        child = occupant(core, spawn->slot);
    if (child) {
        report(core, child);
        return;
    }
    child = add(core, spawn->worker);
    child->slot = spawn->slot;
    if (core->phase == AGENT_ENDING)
        refuse(core, child, "the agent is ending");
    else if (spawn->worker <= core->forgotten)
        refuse(core, child, "the agent has forgotten this worker");
    else
        emit(core, AGENT_DO_SPAWN)->worker = spawn->worker;
}

/* A worker that is not known here was never spawned or is forgotten: it is
 * gone, and a SPAWN of it that comes late must not start it. */
static void on_kill(struct agent_core *core, const struct msg_kill *kill)
{
    struct agent_child *child = find(core, kill->worker);

    if (!child) {
        child = add(core, kill->worker);
        child->signal = SIGKILL;
        move_child(core, child, CHILD_REAPED);
    }
    if (child->state == CHILD_REAPED) {
        report(core, child);
        return;
    }
    terminate(core, child,
              kill->grace_ms == 0
                  ? core->now_us
                  : later(core->now_us, kill->grace_ms < UINT32_MAX
                                            ? kill->grace_ms * 1000
                                            : AGENT_NEVER));
}

/* The ping, behind all the rest, says that this was all. */
static void report_all(struct agent_core *core)
{
    for (size_t i = 0; i < core->n_children; i++)
        report(core, &core->children[i]);
    send_message(core, MSG_AGENT_PING, 0);
}

static void on_welcome(struct agent_core *core,
                       const struct msg_welcome *welcome)
{
    if (welcome->heartbeat_ms > 0)
        core->config.beat_us = welcome->heartbeat_ms * 1000;
    if (welcome->driver_timeout_ms > 0)
        core->config.driver_timeout_us = welcome->driver_timeout_ms * 1000;
    core->config.output_hold_us = welcome->output_hold_ms * 1000;
    if (!core->welcome)
        core->beat_us = core->now_us;
    core->welcome = true;
    if (core->phase == AGENT_CONTACT)
        move(core, AGENT_RUNNING);
    if (core->greeting) {
        core->n_retells = RETELLS;
        report_all(core);
    }
    core->greeting = false;
}

static hvd_status_t on_message(struct agent_core *core, const struct message *m)
{
    if (m->job != core->config.job ||
        (core->term != 0 && m->term != core->term)) /* M1 */
        return HVD_ERR_PROTOCOL;
    switch (m->type) {
    case MSG_AGENT_WELCOME:
        on_welcome(core, &m->u.welcome);
        break;
    case MSG_SPAWN:
        on_spawn(core, &m->u.spawn);
        break;
    case MSG_KILL:
        on_kill(core, &m->u.kill);
        break;
    case MSG_AGENT_SHUTDOWN:
        end(core, core->config.grace_us);
        break;
    case MSG_AGENT_PONG:
        break;
    default:
        return HVD_ERR_PROTOCOL;
    }
    core->term = m->term;
    core->heard_us = core->word_us = core->now_us;
    return HVD_OK;
}

static void on_started(struct agent_core *core, struct agent_child *child)
{
    if (child->state == CHILD_SPAWNED)
        move_child(core, child, CHILD_ALIVE);
    if (child->state != CHILD_REAPED)
        report(core, child);
}

static void on_start_failed(struct agent_core *core, struct agent_child *child,
                            const struct agent_event *ev)
{
    size_t n = strnlen(ev->text, sizeof(child->text) - 1);

    if (child->state == CHILD_REAPED)
        return;
    child->failed = true;
    child->error = ev->error;
    memcpy(child->text, ev->text, n);
    child->text[n] = 0;
    move_child(core, child, CHILD_REAPED);
    report(core, child);
}

/* Others wait for this word. Without a bad status its process may go on. */
static void on_dying(struct agent_core *core, struct agent_child *child,
                     const struct agent_event *ev)
{
    if (child->state == CHILD_REAPED || child->dying)
        return;
    child->dying = true;
    child->code = ev->code;
    child->signal = ev->signal;
    child->core = ev->core;
    if (ev->gone) {
        child->retry_us = later(core->now_us, SCRIPT_US);
        return;
    }
    send_message(core, MSG_WORKER_DYING, child->worker);
    core->reported = true;
    if (ev->direct && (ev->signal != 0 || ev->code > 0))
        signal_group(core, child, SIGKILL);
}

/* The report goes first: others wait for it. Then the rest of the group, while
 * the unreaped leader still keeps its number from being used again. */
static void on_exited(struct agent_core *core, struct agent_child *child,
                      const struct agent_event *ev)
{
    if (child->state == CHILD_REAPED)
        return;
    child->code = ev->code;
    child->signal = ev->signal;
    child->core = ev->core;
    move_child(core, child, CHILD_REAPED);
    report(core, child);
    signal_group(core, child, SIGKILL);
}

static hvd_status_t on_successor(struct agent_core *core, uint64_t term)
{
    if (term <= core->term)
        return HVD_ERR_PROTOCOL;
    core->term = term;
    core->greeting = true; /* it is told all, also if no other one ever was */
    core->heard_us = core->now_us; /* it has its own time to answer */
    core->beat_us = core->now_us;  /* AGENT_HELLO at once */
    return HVD_OK;
}

static hvd_status_t on_child(struct agent_core *core,
                             const struct agent_event *ev)
{
    struct agent_child *child = find(core, ev->worker);

    HVD_ASSERT(child);
    if (ev->type == AGENT_EV_FORKED)
        child->pid = ev->pid;
    else if (ev->type == AGENT_EV_STARTED)
        on_started(core, child);
    else if (ev->type == AGENT_EV_START_FAILED)
        on_start_failed(core, child, ev);
    else if (ev->type == AGENT_EV_DYING)
        on_dying(core, child, ev);
    else
        on_exited(core, child, ev);
    return HVD_OK;
}

static hvd_status_t on_event(struct agent_core *core,
                             const struct agent_event *ev)
{
    switch (ev->type) {
    case AGENT_EV_MESSAGE:
        return on_message(core, ev->message);
    case AGENT_EV_FORKED:
    case AGENT_EV_STARTED:
    case AGENT_EV_START_FAILED:
    case AGENT_EV_DYING:
    case AGENT_EV_EXITED:
        return on_child(core, ev);
    case AGENT_EV_DRIVER_LOST:
        lose_lifeline(core);
        break;
    case AGENT_EV_SUCCESSOR:
        return on_successor(core, ev->term);
    case AGENT_EV_MOVED:
        core->n_retells = RETELLS;
        report_all(core);
        break;
    case AGENT_EV_NOTICE:
        note(core, later(core->now_us, ev->left_us), ev->text);
        break;
    case AGENT_EV_TERMINATE:
        on_terminate(core);
        break;
    case AGENT_EV_INTERRUPT:
        end(core, core->config.grace_us);
        break;
    case AGENT_EV_TICK:
        break;
    }
    return HVD_OK;
}

/* ---- deadlines ----------------------------------------------------------- */

static uint64_t cut_deadline(const struct agent_core *core)
{
    return core->cut_us == AGENT_NEVER
               ? AGENT_NEVER
               : later(core->cut_us, CUT_BEATS * core->config.beat_us);
}

/* Said once, it may be lost, and the exit may be a long time in coming. */
static void say_dying(struct agent_core *core)
{
    for (size_t i = 0; i < core->n_children; i++)
        if (core->children[i].dying && core->children[i].state != CHILD_REAPED)
            send_message(core, MSG_WORKER_DYING, core->children[i].worker);
}

static void advance_driver(struct agent_core *core)
{
    uint64_t timeout_us = core->config.driver_timeout_us;
    uint64_t beat_us = core->config.beat_us;

    if (core->now_us >= cut_deadline(core)) {
        if (core->word_us < later(core->cut_us, UNREAD_BEATS * beat_us))
            lose_driver(core);
        core->cut_us = AGENT_NEVER;
    }
    if (core->now_us >= later(core->heard_us, timeout_us))
        lose_driver(core);
    if (core->driver_lost && core->now_us >= core->orphan_us) {
        core->orphan_us = AGENT_NEVER;
        end(core, 0);
    }
    if (core->now_us < core->beat_us)
        return;
    core->beat_us = later(core->now_us, core->config.beat_us);
    if (!core->welcome || core->greeting) {
        send_message(core, MSG_AGENT_HELLO, 0);
    } else if (core->n_retells > 0) {
        core->n_retells--;
        report_all(core);
    } else {
        say_dying(core);
        send_message(core, MSG_AGENT_PING, 0);
    }
    say_notice(core);
}

static void advance_children(struct agent_core *core)
{
    for (size_t i = 0; i < core->n_children; i++) {
        struct agent_child *child = &core->children[i];

        if (core->now_us >= child->kill_us) {
            child->kill_us = AGENT_NEVER;
            signal_group(core, child, SIGKILL);
        }
        if (core->now_us >= child->retry_us)
            report(core, child);
    }
}

static bool owes_report(const struct agent_core *core)
{
    for (size_t i = 0; i < core->n_children; i++)
        if (core->children[i].retry_us != AGENT_NEVER)
            return true;
    return false;
}

/* Nothing is left to wait for: all are reaped and, if there is anybody to hear
 * it, the driver knows. */
static bool is_through(const struct agent_core *core)
{
    return core->phase == AGENT_ENDING && core->n_live == 0 &&
           (core->driver_lost || !owes_report(core));
}

/* A report of this very step may yet come back as unsent: then the end waits
 * for the next one, which agent_core_deadline() calls for at once. */
static void advance(struct agent_core *core)
{
    if (core->phase == AGENT_ENDED)
        return;
    advance_driver(core);
    advance_children(core);
    if ((core->reported || !is_through(core)) &&
        core->now_us < core->give_up_us)
        return;
    move(core, AGENT_ENDED);
    emit(core, AGENT_DO_EXIT)->status = core->n_live > 0 || !core->welcome;
}

/* Before the event: it may put the next beat, by which an absence is seen,
 * somewhere else. */
static void forgive_absence(struct agent_core *core)
{
    core->heard_us = stall_forgive(
        core->heard_us, stall_of(core->beat_us, core->now_us), core->now_us);
}

/* ---- the door ------------------------------------------------------------ */

bool agent_core_init(struct agent_core *core, const struct agent_config *config,
                     uint64_t now_us)
{
    memset(core, 0, sizeof(*core));
    core->config = *config;
    core->now_us = core->heard_us = core->beat_us = now_us;
    core->orphan_us = core->give_up_us = core->go_us = AGENT_NEVER;
    core->cut_us = AGENT_NEVER;
    return agent_core_reserve(core);
}

void agent_core_fini(struct agent_core *core)
{
    array_free(&core->children, &core->children_max);
    array_free(&core->actions, &core->actions_max);
    memset(core, 0, sizeof(*core));
}

/* Reaped children in excess of AGENT_REMEMBERED, oldest first. */
static void forget(struct agent_core *core)
{
    size_t n_reaped = core->n_children - core->n_live, n_kept = 0;

    if (n_reaped <= 2 * AGENT_REMEMBERED)
        return; /* in lumps: compacting is linear */
    n_reaped -= AGENT_REMEMBERED;
    for (size_t i = 0; i < core->n_children; i++) {
        struct agent_child *child = &core->children[i];

        if (n_reaped > 0 && child->state == CHILD_REAPED &&
            child->retry_us == AGENT_NEVER) {
            n_reaped--;
            if (child->worker > core->forgotten)
                core->forgotten = child->worker;
            continue;
        }
        core->children[n_kept++] = *child;
    }
    core->n_children = n_kept;
}

bool agent_core_reserve(struct agent_core *core)
{
    forget(core);
    return array_reserve(&core->children, &core->children_max,
                         core->n_children + 1) &&
           array_reserve(&core->actions, &core->actions_max,
                         core->children_max * ACTIONS_PER_CHILD +
                             ACTIONS_BESIDES);
}

hvd_status_t agent_core_step(struct agent_core *core,
                             const struct agent_event *ev,
                             const struct agent_action **actions_p, size_t *n_p)
{
    hvd_status_t status;

    HVD_ASSERT(ev->now_us >= core->now_us);
    core->n_actions = 0;
    core->reported = false;
    core->now_us = ev->now_us;
    forgive_absence(core);
    status = on_event(core, ev);
    if (status == HVD_OK)
        advance(core);
    *actions_p = core->actions;
    *n_p = core->n_actions;
    return status;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t agent_core_deadline(const struct agent_core *core)
{
    uint64_t t = AGENT_NEVER;

    if (core->phase == AGENT_ENDED)
        return t;
    if (is_through(core))
        return core->now_us;
    t = earlier(core->beat_us, core->give_up_us);
    t = earlier(t, cut_deadline(core));
    if (core->driver_lost)
        t = earlier(t, core->orphan_us);
    else
        t = earlier(t, later(core->heard_us, core->config.driver_timeout_us));
    for (size_t i = 0; i < core->n_children; i++)
        t = earlier(
            t, earlier(core->children[i].kill_us, core->children[i].retry_us));
    return t;
}

void agent_core_unsent(struct agent_core *core,
                       const struct agent_action *action)
{
    uint64_t retry_us = later(core->now_us, core->config.retry_us);
    struct agent_child *child;

    if (action->message == MSG_AGENT_HELLO) {
        core->beat_us = earlier(core->beat_us, retry_us);
        return;
    }
    child = action->worker ? find(core, action->worker) : NULL;
    if (child)
        child->retry_us = retry_us;
    /* a ping is not repeated: the next one follows soon enough */
}
