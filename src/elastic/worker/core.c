/* elastic/worker/core.c - the worker's half of the membership protocol. See
 * core.h for the drawing; M2, M3 ...: the rules of docs/protocol.md. Pure. */
#include "elastic/worker/core.h"

#include <string.h>

#include "base/array.h"
#include "base/moves.h"
#include "base/stall.h"
#include "base/text.h"
#include "elastic/worker/said.h"

enum { FIRST_ANSWER_US = 600000 }; /* who answers may have to be dialled */

static void act_abort(struct worker_core *core, hvd_status_t status,
                      const char *text)
{
    struct worker_action *a = worker_act(core, WORKER_ACT_ABORT);

    a->u.abort.generation = core->generation;
    a->u.abort.status = status;
    worker_copy_text(a->u.abort.text, text);
}

/* Each state may lead to LEFT; see the drawing. */
static void move(struct worker_core *core, enum worker_phase to)
{
    static const unsigned moves[] = {
        [WORKER_CONTACT] = MOVE(WORKER_IDLE),
        [WORKER_IDLE] = MOVE(WORKER_JOINING),
        [WORKER_JOINING] = MOVE(WORKER_RUNNING),
        [WORKER_RUNNING] = MOVE(WORKER_RUNNING) | MOVE(WORKER_HELD) |
                           MOVE(WORKER_JOINING) | MOVE(WORKER_DONE),
        [WORKER_HELD] = MOVE(WORKER_HELD) | MOVE(WORKER_RUNNING) |
                        MOVE(WORKER_JOINING),
        [WORKER_DONE] = MOVE(WORKER_JOINING),
        [WORKER_LEFT] = 0,
    };

    HVD_ASSERT(to == WORKER_LEFT || moves_allow(moves, core->phase, to));
    core->phase = to;
}

/* ---- endings ------------------------------------------------------------- */

static void finish(struct worker_core *core, enum worker_verdict verdict,
                   hvd_status_t status, const char *text)
{
    if (worker_in_generation(core))
        act_abort(core, HVD_PEER_LOST, text);
    move(core, WORKER_LEFT);
    core->verdict = verdict;
    core->status = status;
    worker_copy_text(core->text, text);
    core->drain_wanted = false;
    worker_act(core, WORKER_ACT_WAKE);
}

/* Who was away itself has yet to read what came meanwhile: it judges with its
 * next tick. */
static bool driver_is_gone(const struct worker_core *core, uint64_t away_us,
                           uint64_t now_us)
{
    return core->phase != WORKER_LEFT && core->driver_timeout_us > 0 &&
           away_us == 0 &&
           now_us - core->last_heard_us > core->driver_timeout_us;
}

static void tick(struct worker_core *core, const struct worker_event *ev,
                 uint64_t now_us)
{
    uint64_t away_us = stall_of(core->next_tick_us, now_us);

    core->last_heard_us = stall_forgive(core->last_heard_us, away_us, now_us);
    core->next_tick_us = now_us + core->heartbeat_us;
    if (away_us > 0)
        core->ran_since_us = now_us;
    if (driver_is_gone(core, away_us, now_us)) {
        finish(core, WORKER_DRIVER_GONE, HVD_ERR_DRIVER_LOST,
               "the driver has not answered within its time");
        return;
    }
    worker_beat(core, ev, now_us);
}

/* ---- messages from the driver -------------------------------------------- */

static void join(struct worker_core *core)
{
    move(core, WORKER_JOINING);
    worker_send_ready(core);
}

static void on_welcome(struct worker_core *core, const struct message *m,
                       uint64_t now_us)
{
    if (core->phase != WORKER_CONTACT && !core->greeting) {
        core->next_tick_us = now_us; /* by another connection: likewise */
        core->first_again = true;    /* it may be lost with the one before */
        return;
    }
    core->greeting = false;
    if (m->u.welcome.heartbeat_ms > 0)
        core->heartbeat_us = m->u.welcome.heartbeat_ms * 1000;
    core->driver_timeout_us = m->u.welcome.driver_timeout_ms * 1000;
    core->connect_timeout_ms = m->u.welcome.connect_timeout_ms;
    core->silence_ms = m->u.welcome.silence_ms;
    core->encrypt_data = m->u.welcome.encrypt_data;
    if (core->phase != WORKER_CONTACT) {
        core->next_tick_us = now_us; /* what stands is due at once */
        return;
    }
    core->next_tick_us = now_us + core->heartbeat_us;
    core->plan = m->u.welcome.plan;
    move(core, WORKER_IDLE);
    worker_act(core, WORKER_ACT_WAKE);
    if (core->ready.kind != 0)
        join(core);
}

static void on_assign(struct worker_core *core, const struct message *m)
{
    /* M3: only who is READY, and never at or below the fence */
    if (core->phase != WORKER_JOINING || m->generation <= core->fence)
        return;
    core->generation = m->generation;
    if (core->joined == 0)
        core->joined = m->generation;
    core->assign = m->u.assign;
    core->assign.table = (struct wire_span){NULL, 0};
    core->aborted = core->explained = core->expects = false;
    move(core, WORKER_RUNNING);
    worker_act(core, WORKER_ACT_BEGIN);
    worker_act(core, WORKER_ACT_WAKE);
}

static void on_abort(struct worker_core *core, const struct message *m)
{
    if (m->generation > core->fence) {
        core->fence = m->generation;
        if (core->phase == WORKER_JOINING) {
            /* never saw that ASSIGN: a newer promise is due */
            core->ready.fence = core->fence;
            core->ready.reason = READY_LOST;
        }
        if (worker_in_generation(core) && core->generation <= core->fence) {
            core->aborted = true;
            core->explained = m->u.abort.worker != 0;
            act_abort(core,
                      m->u.abort.reason == ABORT_MISMATCH ? HVD_ERR_MISMATCH
                                                          : HVD_PEER_LOST,
                      m->u.abort.text);
            worker_act(core, WORKER_ACT_WAKE);
        }
    }
    /* the driver lacks this READY, or refused an older one (M3) */
    if (core->phase == WORKER_JOINING)
        worker_send_ready(core);
}

/* Is the message about the generation this worker lives in? */
static bool is_current(const struct worker_core *core, const struct message *m)
{
    return worker_in_generation(core) && m->generation == core->generation &&
           core->generation > core->fence;
}

static void on_hold(struct worker_core *core, const struct message *m)
{
    uint64_t sequence = m->u.hold.sequence;

    if (!is_current(core, m) || sequence < core->hold_sequence)
        return;
    if (sequence == core->hold_sequence && core->held) {
        if (!core->cut_known)
            worker_send_held(core);
        return;
    }
    core->hold_sequence = sequence;
    core->hold = true;
    core->held = core->cut_known = false;
    worker_act(core, WORKER_ACT_HOLD);
}

static void on_cut(struct worker_core *core, const struct message *m)
{
    const struct msg_cut *cut = &m->u.cut;

    if (!is_current(core, m) || cut->sequence != core->hold_sequence ||
        !core->held || core->cut_known)
        return;
    if (cut->boundary <= core->held_boundary)
        return; /* no driver of ours says that: it may have been passed */
    core->cut = cut->boundary;
    core->cut_known = true;
    if (cut->boundary == CUT_NEVER) {
        core->hold = false;
        worker_act(core, WORKER_ACT_UNHOLD);
    }
    worker_act(core, WORKER_ACT_WAKE);
}

static void on_release(struct worker_core *core, const struct message *m)
{
    if (core->phase != WORKER_DONE || m->generation != core->generation)
        return;
    move(core, WORKER_LEFT); /* not finish(): nothing is aborted */
    core->verdict = WORKER_RELEASED;
    core->drain_wanted = false;
    worker_act(core, WORKER_ACT_WAKE);
}

static void on_shutdown(struct worker_core *core, const struct message *m)
{
    const struct msg_shutdown *s = &m->u.shutdown;
    hvd_status_t status = (hvd_status_t)s->status;

    if (core->is_leaving) { /* the answer to LEAVING */
        core->is_leaving = false;
        worker_act(core, WORKER_ACT_WAKE);
        return;
    }
    if (s->reason == SHUTDOWN_FAILED)
        finish(core, WORKER_JOB_FAILED,
               status < 0 ? status : HVD_ERR_JOB_FAILED, s->text);
    else
        finish(core, WORKER_DRAINED, HVD_REMOVED, s->text);
}

static void on_message(struct worker_core *core, const struct message *m,
                       uint64_t now_us)
{
    if (m->job != core->config.job ||
        (core->term != 0 && m->term != core->term))
        return; /* M1; another driver is heard when it was dialled */
    core->term = m->term;
    core->last_heard_us = now_us;
    if (core->phase == WORKER_LEFT && m->type == MSG_RELEASE)
        core->greeting = false; /* a successor's answer to HELLO */
    if (core->phase == WORKER_LEFT && !core->is_leaving &&
        m->type != MSG_WELCOME)
        return;
    switch (m->type) {
    case MSG_WELCOME:
        on_welcome(core, m, now_us);
        break;
    case MSG_ASSIGN:
        on_assign(core, m);
        break;
    case MSG_ABORT:
        on_abort(core, m);
        break;
    case MSG_HOLD:
        on_hold(core, m);
        break;
    case MSG_CUT:
        on_cut(core, m);
        break;
    case MSG_RELEASE:
        on_release(core, m);
        break;
    case MSG_SHUTDOWN:
        on_shutdown(core, m);
        break;
    case MSG_PONG:
        core->expects = m->u.pong.expects;
        break;
    default:
        break;
    }
}

/* ---- what the application does ------------------------------------------- */

static void copy_settings(struct worker_core *core, const char *from)
{
    struct text t = text_into(core->ready.settings, WIRE_SETTINGS_MAX);

    text_add(&t, from ? from : "");
}

static hvd_status_t on_enter(struct worker_core *core,
                             const struct worker_event *ev)
{
    if (core->phase == WORKER_LEFT)
        return HVD_OK; /* the verdict is already there */
    if (core->phase != WORKER_CONTACT && core->phase != WORKER_IDLE)
        return HVD_ERR_STATE;
    core->ready = (struct msg_ready){.kind = ev->u.enter.kind,
                                     .reason = READY_START,
                                     .fence = core->fence,
                                     .id = ev->id,
                                     .abilities = ev->u.enter.abilities,
                                     .user = ev->u.enter.user};
    memcpy(core->ready.layout, ev->u.enter.layout, WIRE_DIGEST_NBYTES);
    worker_copy_text(core->ready.layout_text, ev->u.enter.layout_text);
    copy_settings(core, ev->settings);
    if (core->phase == WORKER_IDLE)
        join(core);
    return HVD_OK;
}

/* Promise never to act in the current generation again, and be READY (M3). */
static void leave(struct worker_core *core, const struct worker_event *ev,
                  enum ready_reason reason)
{
    if (core->fence < core->generation)
        core->fence = core->generation;
    core->ready.reason = (uint8_t)reason;
    core->ready.fence = core->fence;
    core->ready.id = ev->id;
    core->ready.boundary = ev->boundary;
    core->ready.operation = ev->operation;
    core->ready.abilities &= (uint8_t)~ev->gone;
    copy_settings(core, ev->settings);
    core->hold = core->held = core->cut_known = false;
    join(core);
}

/* An ABORT that has overtaken this worker says that the driver knows: but not
 * whom this worker accuses (M5), unless somebody's death was the reason. */
static bool is_news(const struct worker_core *core, const struct msg_lost *lost)
{
    return !core->aborted || (lost->n_accused > 0 && !core->explained);
}

static hvd_status_t on_lost(struct worker_core *core,
                            const struct worker_event *ev)
{
    if (core->phase == WORKER_LEFT)
        return HVD_OK;
    if (!worker_in_generation(core) ||
        ev->u.lost.generation != core->generation)
        return HVD_ERR_STATE;
    if (is_news(core, &ev->u.lost))
        worker_send(core, MSG_LOST)->u.lost = ev->u.lost;
    if (!ev->u.lost.mismatch)
        leave(core, ev, READY_LOST);
    return HVD_OK;
}

static hvd_status_t on_boundary(struct worker_core *core,
                                const struct worker_event *ev)
{
    if (core->phase == WORKER_LEFT)
        return HVD_OK;
    if (core->phase != WORKER_RUNNING && core->phase != WORKER_HELD)
        return HVD_ERR_STATE;
    move(core, worker_at_boundary(core, ev->boundary) == WORKER_BOUNDARY_WAIT
                   ? WORKER_HELD
                   : WORKER_RUNNING);
    return HVD_OK;
}

static hvd_status_t on_left(struct worker_core *core,
                            const struct worker_event *ev)
{
    if (core->phase == WORKER_LEFT)
        return HVD_OK;
    if (core->phase != WORKER_RUNNING || !core->cut_known ||
        ev->boundary != core->cut)
        return HVD_ERR_STATE;
    leave(core, ev, READY_UPDATED);
    return HVD_OK;
}

static hvd_status_t on_done(struct worker_core *core,
                            const struct worker_event *ev)
{
    if (core->phase == WORKER_LEFT)
        return HVD_OK;
    if (core->phase != WORKER_RUNNING || core->generation <= core->fence)
        return HVD_ERR_STATE;
    move(core, WORKER_DONE);
    core->done.generation = core->generation;
    core->done.id = ev->id;
    worker_send(core, MSG_DONE)->u.done = core->done;
    return HVD_OK;
}

static hvd_status_t on_failed(struct worker_core *core,
                              const struct worker_event *ev)
{
    if (core->phase == WORKER_LEFT)
        return HVD_OK;
    core->leaving.generation = core->generation;
    core->leaving.status = ev->u.failed.status;
    core->leaving.alone = ev->u.failed.alone;
    worker_copy_text(core->leaving.text, ev->u.failed.text);
    core->is_leaving = true;
    if (core->fence < core->generation)
        core->fence = core->generation;
    move(core, WORKER_LEFT);
    core->verdict = WORKER_JOB_FAILED;
    core->status = (hvd_status_t)ev->u.failed.status;
    worker_copy_text(core->text, ev->u.failed.text);
    worker_send(core, MSG_LEAVING)->u.leaving = core->leaving;
    return HVD_OK;
}

static hvd_status_t on_counted(struct worker_core *core,
                               const struct worker_event *ev)
{
    if (!core->hold || core->held || !worker_in_generation(core))
        return HVD_OK; /* overtaken by an abort */
    core->held = true;
    core->held_boundary = ev->boundary;
    worker_send_held(core);
    return HVD_OK;
}

static hvd_status_t on_drain(struct worker_core *core)
{
    if (core->phase == WORKER_LEFT)
        return HVD_OK;
    core->drain_wanted = true; /* repeated with each heartbeat */
    if (core->phase != WORKER_CONTACT)
        worker_send(core, MSG_DRAIN_ME);
    return HVD_OK;
}

/* Phase, generation and fence stay: only who drives has changed (M15). */
static hvd_status_t on_successor(struct worker_core *core,
                                 const struct worker_event *ev, uint64_t now_us)
{
    if (ev->u.term <= core->term)
        return HVD_ERR_STATE;
    core->term = ev->u.term;
    core->last_heard_us = now_us; /* it has its own time to answer */
    if (!worker_has_words(core))
        return HVD_OK;
    core->greeting = core->phase != WORKER_CONTACT;
    worker_send_hello(core, ev->id);
    return HVD_OK;
}

static hvd_status_t dispatch(struct worker_core *core,
                             const struct worker_event *ev, uint64_t now_us)
{
    switch (ev->type) {
    case WORKER_EV_MESSAGE:
        on_message(core, ev->u.message, now_us);
        return HVD_OK;
    case WORKER_EV_TICK:
        tick(core, ev, now_us);
        return HVD_OK;
    case WORKER_EV_ENTER:
        return on_enter(core, ev);
    case WORKER_EV_LOST:
        return on_lost(core, ev);
    case WORKER_EV_BOUNDARY:
        return on_boundary(core, ev);
    case WORKER_EV_LEFT:
        return on_left(core, ev);
    case WORKER_EV_COUNTED:
        return on_counted(core, ev);
    case WORKER_EV_DONE:
        return on_done(core, ev);
    case WORKER_EV_FAILED:
        return on_failed(core, ev);
    case WORKER_EV_REPORT:
        worker_report(core, &ev->u.report);
        return HVD_OK;
    case WORKER_EV_DRAIN:
        return on_drain(core);
    case WORKER_EV_SUCCESSOR:
        return on_successor(core, ev, now_us);
    }
    return HVD_ERR_STATE;
}

/* ---- the door ------------------------------------------------------------ */

enum worker_boundary worker_at_boundary(const struct worker_core *core,
                                        uint64_t boundary)
{
    if (core->phase == WORKER_LEFT || core->generation <= core->fence)
        return WORKER_BOUNDARY_LOST;
    if (!core->hold)
        return WORKER_BOUNDARY_PASS;
    if (!core->cut_known)
        return WORKER_BOUNDARY_WAIT;
    HVD_ASSERT(boundary <= core->cut); /* nobody can have passed it */
    return boundary == core->cut ? WORKER_BOUNDARY_LEAVE : WORKER_BOUNDARY_PASS;
}

void worker_core_init(struct worker_core *core,
                      const struct worker_config *config, uint64_t now_us)
{
    memset(core, 0, sizeof(*core));
    core->config = *config;
    core->term = config->term;
    core->heartbeat_us = config->heartbeat_us;
    core->driver_timeout_us = config->driver_timeout_us;
    core->next_tick_us = now_us; /* HELLO at once */
    core->last_heard_us = now_us;
}

hvd_status_t worker_step(struct worker_core *core,
                         const struct worker_event *ev, uint64_t now_us,
                         const struct worker_action **actions_p, size_t *n_p)
{
    hvd_status_t status;

    core->n_actions = 0;
    status = dispatch(core, ev, now_us);
    HVD_ASSERT(status == HVD_OK || core->n_actions == 0);
    *actions_p = core->actions;
    *n_p = core->n_actions;
    return status;
}

/* Of the verdict nobody else may know. */
bool worker_has_words(const struct worker_core *core)
{
    return core->phase != WORKER_LEFT || core->is_leaving ||
           core->verdict == WORKER_RELEASED;
}

uint64_t worker_slack(const struct worker_core *core)
{
    uint64_t silence_us = core->silence_ms * 1000;

    return silence_us > core->heartbeat_us
               ? (silence_us - core->heartbeat_us) / 3
               : core->heartbeat_us / 2;
}

uint64_t worker_patience(const struct worker_core *core)
{
    uint64_t slack_us = worker_slack(core);

    if (core->phase == WORKER_CONTACT)
        return FIRST_ANSWER_US;
    if (slack_us > core->heartbeat_us / 2)
        slack_us = core->heartbeat_us / 2;
    return core->heartbeat_us + slack_us;
}

uint64_t worker_deadline(const struct worker_core *core)
{
    return core->next_tick_us;
}
