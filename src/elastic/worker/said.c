/* elastic/worker/said.c - see said.h. Pure. */
#include "elastic/worker/said.h"

#include <string.h>

#include "base/array.h"
#include "base/text.h"

/* ---- actions ------------------------------------------------------------- */

struct worker_action *worker_act(struct worker_core *core,
                                 enum worker_action_type type)
{
    struct worker_action *a;

    HVD_ASSERT(core->n_actions < WORKER_ACTIONS_MAX);
    a = &core->actions[core->n_actions++];
    memset(a, 0, sizeof(*a));
    a->type = type;
    return a;
}

static void begin_message(const struct worker_core *core,
                          enum message_type type, struct message *m)
{
    memset(m, 0, sizeof(*m));
    m->type = type;
    m->job = core->config.job;
    m->term = core->term;
    m->worker = core->config.worker;
}

struct message *worker_send(struct worker_core *core, enum message_type type)
{
    struct message *m = &worker_act(core, WORKER_ACT_SEND)->u.message;

    begin_message(core, type, m);
    return m;
}

void worker_copy_text(char *to, const char *from)
{
    struct text t = text_into(to, WIRE_TEXT_MAX);

    text_add(&t, from ? from : "");
}

/* ---- standing messages (M2) ---------------------------------------------- */

void worker_send_ready(struct worker_core *core)
{
    worker_send(core, MSG_READY)->u.ready = core->ready;
}

void worker_send_held(struct worker_core *core)
{
    struct msg_held *held = &worker_send(core, MSG_HELD)->u.held;

    held->generation = core->generation;
    held->sequence = core->hold_sequence;
    held->boundary = core->held_boundary;
    held->done = core->phase == WORKER_DONE;
}

static void send_ping(struct worker_core *core, const struct worker_event *ev,
                      uint64_t now_us)
{
    struct msg_ping *ping = &worker_send(core, MSG_PING)->u.ping;

    ping->stamp_us = now_us;
    ping->phase = (uint8_t)core->phase;
    ping->generation = core->generation;
    ping->fence = core->fence;
    ping->id = ev->id;
    ping->boundary = ev->boundary;
    ping->held = core->held;
    ping->hold_sequence = core->hold_sequence;
    ping->cut = core->cut_known;
    ping->busy_ms = ev->busy_ms;
    ping->operation = ev->operation;
    ping->called = ev->called;
    ping->moves = ev->moves;
    ping->in_collective = ev->in_collective;
    ping->expects = core->expects;
}

/* A call that waits for a heartbeat may be late; most are done long before.
 * What others could not do while nothing ran counts for nothing. */
static void send_waiting(struct worker_core *core,
                         const struct msg_waiting *waiting, uint64_t now_us)
{
    bool joined = waiting && waiting->n_names == 0 && waiting->more;
    bool waits = waiting && core->phase == WORKER_RUNNING &&
                 (joined || (waiting->n_names > 0 &&
                             waiting->waited_ms * 1000 >= core->heartbeat_us));
    uint64_t ran_ms = (now_us - core->ran_since_us) / 1000;
    struct message *m;

    if (!waits && !core->said_waiting)
        return;
    core->said_waiting = waits;
    m = worker_send(core, MSG_WAITING);
    if (waits)
        m->u.waiting = *waiting;
    m->u.waiting.generation = core->generation;
    if (m->u.waiting.waited_ms > ran_ms)
        m->u.waiting.waited_ms = ran_ms;
}

static void say_where(const struct worker_core *core, struct state_id id,
                      struct msg_where *where)
{
    where->phase = (uint8_t)core->phase;
    where->fence = core->fence;
    where->id = id;
    where->generation = core->generation;
    where->rank = core->assign.rank;
    where->size = core->assign.size;
    where->base = core->assign.base;
    where->joined = core->joined;
    where->hold_sequence = core->hold_sequence;
    where->held = core->held;
    where->has_cut = core->cut_known;
    where->cut = core->cut_known ? core->cut : 0;
    where->released = core->verdict == WORKER_RELEASED;
    where->kind = core->ready.kind;
    memcpy(where->layout, core->ready.layout, sizeof(where->layout));
    worker_copy_text(where->layout_text, core->ready.layout_text);
    if (core->phase != WORKER_JOINING)
        return;
    where->reason = core->ready.reason;
    where->boundary = core->ready.boundary;
}

void worker_send_hello(struct worker_core *core, struct state_id id)
{
    struct msg_hello *hello = &worker_send(core, MSG_HELLO)->u.hello;

    *hello = core->config.hello;
    say_where(core, id, &hello->where);
}

void worker_report(struct worker_core *core, const struct msg_report *report)
{
    if (!worker_in_generation(core))
        return;
    worker_send(core, MSG_REPORT)->u.report = *report;
    if (report->what == REPORT_FIRST_COLLECTIVE)
        core->first = *report;
}

static void repeat_report(struct worker_core *core)
{
    if (core->first_again && core->first.generation == core->generation)
        worker_send(core, MSG_REPORT)->u.report = core->first;
    core->first_again = false;
}

static void send_standing(struct worker_core *core, struct state_id id)
{
    if (core->phase == WORKER_CONTACT || core->greeting)
        worker_send_hello(core, id);
    if (core->greeting)
        return; /* the rest is heard after HELLO only */
    if (core->phase == WORKER_JOINING)
        worker_send_ready(core);
    if (worker_in_generation(core))
        repeat_report(core);
    if (worker_in_generation(core) && core->held && !core->cut_known)
        worker_send_held(core);
    if (core->phase == WORKER_DONE)
        worker_send(core, MSG_DONE)->u.done = core->done;
    if (core->is_leaving)
        worker_send(core, MSG_LEAVING)->u.leaving = core->leaving;
    if (core->drain_wanted && core->phase != WORKER_CONTACT)
        worker_send(core, MSG_DRAIN_ME);
}

void worker_beat(struct worker_core *core, const struct worker_event *ev,
                 uint64_t now_us)
{
    send_standing(core, ev->id);
    if (core->phase != WORKER_CONTACT && !core->greeting &&
        (core->phase != WORKER_LEFT || core->verdict == WORKER_RELEASED)) {
        send_ping(core, ev, now_us);
        send_waiting(core, ev->waiting, now_us);
    }
}

void worker_hello(const struct worker_core *core, struct message *m)
{
    begin_message(core, MSG_HELLO, m);
    m->u.hello = core->config.hello;
    if (core->verdict == WORKER_RELEASED)
        say_where(core, core->done.id, &m->u.hello.where);
}

bool worker_goodbye(const struct worker_core *core, struct message *m)
{
    begin_message(core, MSG_PING, m);
    m->u.ping.phase = (uint8_t)core->phase;
    m->u.ping.generation = core->generation;
    m->u.ping.fence = core->fence;
    m->u.ping.id = core->done.id;
    m->u.ping.last = true;
    return core->verdict == WORKER_RELEASED;
}
