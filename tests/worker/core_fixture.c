/* tests/worker/core_fixture.c - see core_fixture.h. */
#include "worker/core_fixture.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct worker_core core;
uint64_t now_us;
char words[1024];
static size_t n_words;
static struct msg_where where;

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *fmt, ...)
{
    va_list ap;
    int n;

    if (n_words > 0)
        words[n_words++] = ' ';
    va_start(ap, fmt);
    n = vsnprintf(words + n_words, sizeof(words) - n_words, fmt, ap);
    va_end(ap);
    ck_assert(n >= 0 && (size_t)n < sizeof(words) - n_words);
    n_words += (size_t)n;
}

static void say_message(const struct message *m)
{
    static const char *const reasons[] = {"?", "start", "lost", "updated"};

    ck_assert_uint_eq(m->job, JOB);
    ck_assert_uint_eq(m->worker, WORKER);
    ck_assert_uint_eq(m->term, core.term);
    if (m->type == MSG_READY)
        say("READY(%s,%" PRIu64 ")", reasons[m->u.ready.reason & 3],
            m->u.ready.fence);
    else if (m->type == MSG_HELD)
        say("HELD(%" PRIu64 "%s)", m->u.held.boundary,
            m->u.held.done ? ",done" : "");
    else
        say("%s", message_type_name(m->type));
    if (m->type == MSG_HELLO)
        where = m->u.hello.where;
}

static void say_action(const struct worker_action *a)
{
    static const char *const names[] = {"",      "",       "HOLD",
                                        "BEGIN", "UNHOLD", "WAKE"};

    if (a->type == WORKER_ACT_SEND)
        say_message(&a->u.message);
    else if (a->type == WORKER_ACT_ABORT)
        say("ABORT(%" PRIu64 ")", a->u.abort.generation);
    else
        say("%s", names[a->type]);
}

hvd_status_t step(const struct worker_event *ev)
{
    const struct worker_action *actions;
    hvd_status_t status;
    size_t n;

    n_words = 0;
    words[0] = '\0';
    status = worker_step(&core, ev, now_us, &actions, &n);
    for (size_t i = 0; i < n; i++)
        say_action(&actions[i]);
    return status;
}

/* ---- what happens -------------------------------------------------------- */

void hear(struct message m, const char *expected)
{
    struct worker_event ev = {.type = WORKER_EV_MESSAGE, .u.message = &m};

    m.job = JOB;
    m.term = m.term ? m.term : 1;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ck_assert_str_eq(words, expected);
}

struct message message(enum message_type type, uint64_t generation)
{
    return (struct message){.type = type, .generation = generation};
}

struct message hold(uint64_t sequence)
{
    struct message m = message(MSG_HOLD, GENERATION);

    m.u.hold.sequence = sequence;
    return m;
}

struct message cut(uint64_t sequence, uint64_t boundary)
{
    struct message m = message(MSG_CUT, GENERATION);

    m.u.cut.sequence = sequence;
    m.u.cut.boundary = boundary;
    return m;
}

struct message end(enum shutdown_reason reason)
{
    struct message m = message(MSG_SHUTDOWN, GENERATION);

    m.u.shutdown.reason = (uint8_t)reason;
    m.u.shutdown.status = HVD_ERR_MISMATCH;
    strcpy(m.u.shutdown.text, "a sentence");
    return m;
}

struct worker_event event(enum worker_event_type type)
{
    struct worker_event ev = {.type = type, .id = {GENERATION, 2}};

    ev.boundary = 3;
    if (type == WORKER_EV_ENTER)
        ev.u.enter.kind = READY_ELASTIC;
    if (type == WORKER_EV_LOST)
        ev.u.lost.generation = GENERATION;
    if (type == WORKER_EV_FAILED)
        ev.u.failed.status = HVD_ERR_STATE;
    return ev;
}

void happens(enum worker_event_type type, const char *expected)
{
    struct worker_event ev = event(type);

    ck_assert_int_eq(step(&ev), HVD_OK);
    ck_assert_str_eq(words, expected);
}

void refused(enum worker_event_type type)
{
    struct worker_core before = core;
    struct worker_event ev = event(type);

    ck_assert_int_eq(step(&ev), HVD_ERR_STATE);
    ck_assert_str_eq(words, "");
    before.n_actions = core.n_actions;
    ck_assert_mem_eq(&before, &core, sizeof(core));
}

void succeed(uint64_t term, const char *expected)
{
    struct worker_event ev = event(WORKER_EV_SUCCESSOR);

    ev.u.term = term;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ck_assert_str_eq(words, expected);
}

const struct msg_where *where_said(void)
{
    return &where;
}

void at_boundary(uint64_t boundary, enum worker_boundary expected)
{
    struct worker_event ev = event(WORKER_EV_BOUNDARY);

    ev.boundary = boundary;
    ck_assert_int_eq(worker_at_boundary(&core, boundary), expected);
    ck_assert_int_eq(step(&ev), HVD_OK);
}

/* ---- a core in each phase ------------------------------------------------ */

void begin(void)
{
    struct worker_config config = {.job = JOB, .worker = WORKER};

    config.heartbeat_us = 1000000;
    now_us = 1;
    worker_core_init(&core, &config, now_us);
}

/* RUNNING, HELD and DONE: in generation 5. HELD: at boundary 3, answered HOLD
 * 1. JOINING: a newcomer. */
void stand_in(enum worker_phase phase)
{
    begin();
    if (phase >= WORKER_IDLE)
        hear(message(MSG_WELCOME, 0), "WAKE");
    if (phase >= WORKER_JOINING)
        happens(WORKER_EV_ENTER, "READY(start,0)");
    if (phase >= WORKER_RUNNING)
        hear(message(MSG_ASSIGN, GENERATION), "BEGIN WAKE");
    if (phase == WORKER_HELD) {
        hear(hold(1), "HOLD");
        happens(WORKER_EV_COUNTED, "HELD(3)");
        at_boundary(3, WORKER_BOUNDARY_WAIT);
    }
    if (phase >= WORKER_DONE)
        happens(WORKER_EV_DONE, "DONE");
    if (phase >= WORKER_LEFT)
        hear(message(MSG_RELEASE, GENERATION), "WAKE");
    ck_assert_int_eq(core.phase, phase);
}
