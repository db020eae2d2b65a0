/* tests/agent/core_fixture.c - see core_fixture.h. */
#include "agent/core_fixture.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

struct agent_core core;
char transcript[LOG_MAX];
static size_t n_transcript;
bool socket_full;

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(transcript + n_transcript, LOG_MAX - n_transcript, fmt, ap);
    va_end(ap);
    ck_assert(n >= 0 && (size_t)n < LOG_MAX - n_transcript);
    n_transcript += (size_t)n;
}

static void say_send(const struct agent_action *action)
{
    struct message m;

    agent_core_message(&core, action, &m);
    ck_assert_uint_eq(m.job, JOB);
    if (socket_full) {
        agent_core_unsent(&core, action);
        return;
    }
    say(" %s", message_type_name(m.type));
    if (m.type == MSG_SPAWNED)
        say(" %" PRIu64 " pid %" PRId64, m.u.spawned.worker, m.u.spawned.pid);
    else if (m.type == MSG_NOTICE && m.u.notice.left_ms == NOTICE_UNKNOWN)
        say(" soon");
    else if (m.type == MSG_NOTICE)
        say(" %" PRIu64 " %s", m.u.notice.left_ms, m.u.notice.text);
    else if (m.type == MSG_SPAWN_FAILED)
        say(" %" PRIu64 " error %" PRId64 " %s", m.u.spawn_failed.worker,
            m.u.spawn_failed.error, m.u.spawn_failed.text);
    else if (m.type == MSG_WORKER_EXITED || m.type == MSG_WORKER_DYING)
        say(" %" PRIu64 " code %" PRId64 " signal %" PRId64 "%s",
            m.u.worker_exited.worker, m.u.worker_exited.code,
            m.u.worker_exited.signal, m.u.worker_exited.core ? " core" : "");
}

static void say_signal(const struct agent_action *action)
{
    /* 0 would be everybody in the agent's own group */
    ck_assert_int_eq(action->pid, 1000 + (int64_t)action->worker);
    say(" %s %" PRIu64,
        action->signo == SIGTERM   ? "TERM"
        : action->signo == SIGCONT ? "CONT"
                                   : "KILL",
        action->worker);
}

static void say_action(const struct agent_action *action)
{
    if (action->type == AGENT_DO_SEND)
        say_send(action);
    else if (action->type == AGENT_DO_SPAWN)
        say(" spawn %" PRIu64, action->worker);
    else if (action->type == AGENT_DO_EXIT)
        say(" exit %d", action->status);
    else
        say_signal(action);
}

hvd_status_t at(uint64_t ms, struct agent_event ev)
{
    const struct agent_action *actions;
    hvd_status_t status;
    size_t n;

    ev.now_us = ms * 1000;
    ck_assert(agent_core_reserve(&core));
    status = agent_core_step(&core, &ev, &actions, &n);
    if (n == 0)
        return status;
    say("[%6" PRIu64 "]", ms);
    for (size_t i = 0; i < n; i++)
        say_action(&actions[i]);
    say("\n");
    return status;
}

hvd_status_t hear(uint64_t ms, struct message m)
{
    m.job = JOB;
    m.term = m.term ? m.term : TERM;
    return at(ms,
              (struct agent_event){.type = AGENT_EV_MESSAGE, .message = &m});
}

void happens(uint64_t ms, enum agent_event_type type)
{
    ck_assert_int_eq(at(ms, (struct agent_event){.type = type}), HVD_OK);
}

void pass(uint64_t ms, bool driver_lives)
{
    uint64_t due;

    while ((due = agent_core_deadline(&core)) <= ms * 1000) {
        happens(due / 1000, AGENT_EV_TICK);
        if (driver_lives && core.phase != AGENT_ENDED)
            ck_assert_int_eq(
                hear(due / 1000, (struct message){.type = MSG_AGENT_PONG}),
                HVD_OK);
    }
}

void spawn(uint64_t ms, uint64_t worker)
{
    struct message m = {
        .type = MSG_SPAWN,
        .u.spawn = {.worker = worker, .slot = (uint32_t)worker}};

    ck_assert_int_eq(hear(ms, m), HVD_OK);
}

void kill_worker(uint64_t ms, uint64_t worker, uint64_t grace_ms)
{
    struct message m = {.type = MSG_KILL, .u.kill = {worker, grace_ms}};

    ck_assert_int_eq(hear(ms, m), HVD_OK);
}

void exits(uint64_t ms, uint64_t worker, int64_t code, int64_t signo)
{
    struct agent_event ev = {.type = AGENT_EV_EXITED,
                             .worker = worker,
                             .code = code,
                             .signal = signo};

    ck_assert_int_eq(at(ms, ev), HVD_OK);
}

void starts(uint64_t ms, uint64_t worker)
{
    struct agent_event forked = {.type = AGENT_EV_FORKED,
                                 .worker = worker,
                                 .pid = 1000 + (int64_t)worker};
    struct agent_event started = {.type = AGENT_EV_STARTED, .worker = worker};

    ck_assert_int_eq(at(ms, forked), HVD_OK);
    ck_assert_int_eq(at(ms, started), HVD_OK);
}

void forget_transcript(void)
{
    n_transcript = 0;
    transcript[0] = 0;
}

void expect(const char *text)
{
    ck_assert_str_eq(transcript, text);
    forget_transcript();
}

void setup(void)
{
    struct agent_config config = AGENT_CONFIG_DEFAULTS;

    config.job = JOB;
    forget_transcript();
    socket_full = false;
    ck_assert(agent_core_init(&core, &config, 0));
}

void teardown(void)
{
    agent_core_fini(&core);
}

/* An agent that has been welcomed and pings from now on only when asked to. */
void setup_welcome(void)
{
    setup();
    core.config.beat_us = 3600ULL * 1000000;
    core.config.driver_timeout_us = 7200ULL * 1000000;
    hear(0, (struct message){.type = MSG_AGENT_WELCOME});
    forget_transcript();
}
