/* tests/agent/fake.c - the driver that a test plays. See fake.h. */
#include "fake.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/inherited.h"
#include "base/mac.h"
#include "elastic/wire/beacon.h"
#include "elastic/wire/env.h"
#include "elastic/wire/socket.h"

enum { JOB = 77, AGENT = 5 };

/* ---- messages in --------------------------------------------------------- */

static hvd_status_t try_send(const struct fake *fake,
                             struct wire_router *router, uint64_t route,
                             struct message *m)
{
    m->job = JOB;
    m->term = fake->term;
    return wire_router_send(router, route, m);
}

static void send_to(const struct fake *fake, struct wire_router *router,
                    uint64_t route, struct message *m)
{
    ck_assert_int_eq(try_send(fake, router, route, m), HVD_OK);
}

/* The agent may have closed its end after the words that are answered. */
static void answer_to(const struct fake *fake, struct wire_router *router,
                      uint64_t route, struct message *m)
{
    hvd_status_t status = try_send(fake, router, route, m);

    ck_assert(status == HVD_OK || status == HVD_PEER_LOST);
}

static struct fake_worker *worker_of(struct fake *fake, uint64_t worker)
{
    ck_assert_uint_lt(worker, FAKE_WORKERS);
    return &fake->workers[worker];
}

static void on_hello(struct fake *fake, uint64_t route, const struct message *m)
{
    struct message welcome = {.type = MSG_AGENT_WELCOME};

    fake->n_routes += route == 0;
    fake->hello = true;
    fake->route = route ? route
                        : wire_router_admit(fake->control, fake->secrets.token);
    fake->hello_said = m->u.agent_hello;
    if (fake->n_unheard-- <= 0)
        send_to(fake, fake->control, fake->route, &welcome);
}

static void on_control(struct fake *fake, uint64_t route, struct message *m)
{
    struct message answer = {.type = MSG_AGENT_PONG};
    struct fake_worker *w;

    switch (m->type) {
    case MSG_AGENT_HELLO:
        on_hello(fake, route, m);
        break;
    case MSG_AGENT_PING:
        fake->n_pings++;
        if (fake->mute)
            break;
        answer.u.pong.stamp_us = m->u.agent_ping.stamp_us;
        answer_to(fake, fake->control, route, &answer);
        break;
    case MSG_NOTICE:
        fake->n_notices++;
        fake->notice = m->u.notice;
        break;
    case MSG_SPAWNED:
        w = worker_of(fake, m->u.spawned.worker);
        w->n_spawned++;
        w->spawned = m->u.spawned;
        break;
    case MSG_SPAWN_FAILED:
        w = worker_of(fake, m->u.spawn_failed.worker);
        w->n_failed++;
        w->failed = m->u.spawn_failed;
        break;
    case MSG_WORKER_EXITED:
        w = worker_of(fake, m->u.worker_exited.worker);
        w->n_exited++;
        w->exited = m->u.worker_exited;
        break;
    default:
        ck_abort_msg("the agent said %s", message_type_name(m->type));
    }
}

static void on_bytes(struct fake_stream *stream, struct wire_span bytes)
{
    ck_assert(array_reserve(&stream->text, &stream->text_max,
                            stream->n_text + bytes.nbytes + 1));
    if (bytes.nbytes > 0)
        memcpy(stream->text + stream->n_text, bytes.data, bytes.nbytes);
    stream->n_text += bytes.nbytes;
    stream->text[stream->n_text] = 0;
}

static void grant_stream(struct fake *fake, uint64_t worker, unsigned stream)
{
    struct fake_stream *s = &fake->workers[worker].streams[stream - 1];
    struct message m = {.type = MSG_CREDIT,
                        .u.credit = {.nbytes = s->n_owed,
                                     .worker = worker,
                                     .taken = s->n_text,
                                     .stream = (uint8_t)stream,
                                     .eof = s->eof}};

    if (!s->owed)
        return;
    answer_to(fake, fake->output, fake->output_route, &m);
    s->owed = false;
    s->n_owed = 0;
}

static void grant(struct fake *fake)
{
    for (uint64_t i = 0; !fake->withhold && i < FAKE_WORKERS; i++) {
        grant_stream(fake, i, OUTPUT_STDOUT);
        grant_stream(fake, i, OUTPUT_STDERR);
    }
}

static void on_output(struct fake *fake, uint64_t route, struct message *m)
{
    struct message welcome = {.type = MSG_AGENT_WELCOME};
    struct fake_stream *stream;

    if (m->type == MSG_AGENT_HELLO) {
        ck_assert(wire_router_proven(fake->output, fake->secrets.token,
                                     m->u.agent_hello.proof));
        fake->output_hello = true;
        fake->output_route = route ? route
                                   : wire_router_admit(fake->output,
                                                       fake->secrets.token);
        send_to(fake, fake->output, fake->output_route, &welcome);
        return;
    }
    ck_assert_int_eq(m->type, MSG_OUTPUT);
    ck_assert(fake->output_hello);
    stream =
        &worker_of(fake, m->u.output.worker)->streams[m->u.output.stream - 1];
    ck_assert(!stream->eof);
    on_bytes(stream, m->u.output.bytes);
    ck_assert_uint_eq(m->u.output.at + m->u.output.bytes.nbytes,
                      stream->n_text);
    stream->eof = m->u.output.eof;
    stream->owed = true;
    stream->n_owed += m->u.output.bytes.nbytes;
    grant(fake);
}

static bool receive(struct fake *fake, struct wire_router *router,
                    void (*heard)(struct fake *, uint64_t, struct message *))
{
    enum wire_receipt receipt;
    struct message m;
    uint64_t route;
    bool any = false;

    while ((receipt = wire_router_receive(router, &route, &m)) !=
           WIRE_NOTHING) {
        ck_assert_int_eq(receipt, WIRE_MESSAGE);
        heard(fake, route, &m);
        any = true;
    }
    return any;
}

static void drain(struct fake *fake)
{
    bool moved;

    do {
        moved = receive(fake, fake->control, on_control);
        moved |= receive(fake, fake->output, on_output);
    } while (moved);
}

void fake_wait(struct fake *fake, bool (*done)(struct fake *fake, void *arg),
               void *arg)
{
    uint64_t deadline_us = clock_now_us() + FAKE_TIMEOUT_MS * 1000ULL;
    struct pollfd fds[3] = {
        {.fd = wire_router_fd(fake->control), .events = POLLIN},
        {.fd = wire_router_fd(fake->output), .events = POLLIN},
        {.fd = fake->agent_pidfd, .events = POLLIN},
    };

    drain(fake);
    while (!done(fake, arg)) {
        ck_assert_msg(clock_now_us() < deadline_us, "waited in vain");
        if (fds[2].revents) {
            /* its last words may still be on their way into the socket */
            fds[2].fd = -1;
        }
        poll(fds, 3, clock_poll_ms(clock_now_us(), deadline_us));
        drain(fake);
    }
}

/* ---- ready-made waits ---------------------------------------------------- */

struct wanted {
    uint64_t worker;
    const char *text;
};

static bool has_hellos(struct fake *fake, void *arg)
{
    return fake->hello && fake->output_hello;
}

static bool has_spawned(struct fake *fake, void *arg)
{
    return worker_of(fake, *(uint64_t *)arg)->n_spawned > 0;
}

static bool has_exited(struct fake *fake, void *arg)
{
    return worker_of(fake, *(uint64_t *)arg)->n_exited > 0;
}

static bool has_failed(struct fake *fake, void *arg)
{
    return worker_of(fake, *(uint64_t *)arg)->n_failed > 0;
}

static bool has_eof(struct fake *fake, void *arg)
{
    struct fake_worker *w = worker_of(fake, *(uint64_t *)arg);

    return w->streams[0].eof && w->streams[1].eof;
}

static bool has_text(struct fake *fake, void *arg)
{
    struct wanted *wanted = arg;

    return strstr(fake_stdout(fake, wanted->worker), wanted->text) != NULL;
}

static bool agent_ended(struct fake *fake, void *arg)
{
    struct pollfd fd = {.fd = fake->agent_pidfd, .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

void fake_wait_spawned(struct fake *fake, uint64_t worker)
{
    fake_wait(fake, has_spawned, &worker);
}

void fake_wait_exited(struct fake *fake, uint64_t worker)
{
    fake_wait(fake, has_exited, &worker);
}

void fake_wait_failed(struct fake *fake, uint64_t worker)
{
    fake_wait(fake, has_failed, &worker);
}

void fake_wait_eof(struct fake *fake, uint64_t worker)
{
    fake_wait(fake, has_eof, &worker);
}

void fake_wait_text(struct fake *fake, uint64_t worker, const char *text)
{
    struct wanted wanted = {worker, text};

    fake_wait(fake, has_text, &wanted);
}

int fake_wait_agent(struct fake *fake)
{
    int status = -1;

    fake_wait(fake, agent_ended, NULL);
    ck_assert_int_eq(waitpid(fake->agent, &status, 0), fake->agent);
    fake->agent = 0;
    return status;
}

const char *fake_stdout(const struct fake *fake, uint64_t worker)
{
    const struct fake_stream *stream = &fake->workers[worker].streams[0];

    return stream->text ? stream->text : "";
}

const char *fake_stderr(const struct fake *fake, uint64_t worker)
{
    const struct fake_stream *stream = &fake->workers[worker].streams[1];

    return stream->text ? stream->text : "";
}

/* ---- messages out -------------------------------------------------------- */

void fake_spawn(struct fake *fake, uint64_t worker, struct wire_strings argv,
                struct wire_strings env, const char *cwd)
{
    struct message m = {.type = MSG_SPAWN,
                        .u.spawn = {.worker = worker,
                                    .slot = (uint32_t)worker + 100,
                                    .argv = argv,
                                    .env = env}};

    if (cwd)
        m.u.spawn.cwd = (struct wire_strings){cwd, (uint32_t)strlen(cwd) + 1};
    send_to(fake, fake->control, fake->route, &m);
}

void fake_spawn_sh(struct fake *fake, uint64_t worker, const char *script)
{
    char argv[4096];
    int n = snprintf(argv, sizeof(argv), "/bin/sh%c-c%c%s", 0, 0, script);

    ck_assert(n > 0 && (size_t)n < sizeof(argv));
    fake_spawn(fake, worker, (struct wire_strings){argv, (uint32_t)n + 1},
               (struct wire_strings){NULL, 0}, NULL);
}

void fake_kill(struct fake *fake, uint64_t worker, uint64_t grace_ms)
{
    struct message m = {.type = MSG_KILL, .u.kill = {worker, grace_ms}};

    send_to(fake, fake->control, fake->route, &m);
}

void fake_shutdown(struct fake *fake)
{
    struct message m = {.type = MSG_AGENT_SHUTDOWN};

    send_to(fake, fake->control, fake->route, &m);
}

void fake_hold(struct fake *fake, uint64_t hold_ms)
{
    struct message m = {.type = MSG_AGENT_WELCOME,
                        .u.welcome.output_hold_ms = hold_ms};

    send_to(fake, fake->control, fake->route, &m);
}

void fake_grant(struct fake *fake)
{
    fake->withhold = false;
    grant(fake);
}

/* ---- start and stop ------------------------------------------------------ */

static void set_number(const char *name, int64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRId64, value);
    setenv(name, text, 1);
}

/* Before the fork: libzmq's threads run here, and what one of them held in that
 * moment, an allocator's lock say, would stay held in the child for ever. */
static void tell_agent(const struct fake *fake, const char *job_dir,
                       int secret_fd, int lifeline_fd)
{
    if (job_dir)
        setenv(ENV_JOB_DIR, job_dir, 1);
    else
        unsetenv(ENV_JOB_DIR);
    set_number(ENV_JOB, JOB);
    set_number(ENV_AGENT, AGENT);
    set_number(ENV_TERM, 1);
    set_number(ENV_SECRET_FD, secret_fd);
    set_number(ENV_LIFELINE_FD, lifeline_fd);
    setenv(ENV_DRIVER, fake->control_endpoint, 1);
    setenv(ENV_OUTPUT, fake->output_endpoint, 1);
    setenv(ENV_HOST, "127.0.0.9", 1);
    setenv("HVD_STRAY", "1", 1);
}

static _Noreturn void exec_agent(const char *program, int secret_fd,
                                 int lifeline_fd)
{
    setpgid(0, 0); /* Check kills the group of a test that fails: not ours */
    inherited_restore(); /* however these tests were started */
    fcntl(secret_fd, F_SETFD, 0);
    fcntl(lifeline_fd, F_SETFD, 0);
    execl(program, "hvd-agent", (char *)NULL);
    _exit(127);
}

static void open_sockets(struct fake *fake)
{
    ck_assert_int_eq(wire_context_create(&fake->context), HVD_OK);
    ck_assert_int_eq(wire_gate_create(fake->context, fake->secret, &fake->gate),
                     HVD_OK);
    ck_assert(wire_gate_allow(fake->gate, 1, 0, fake->secrets.token));
    ck_assert_int_eq(wire_router_create(fake->context, fake->gate, "127.0.0.1",
                                        fake->control_endpoint,
                                        sizeof(fake->control_endpoint),
                                        &fake->control),
                     HVD_OK);
    ck_assert_int_eq(wire_router_create(fake->context, fake->gate, "127.0.0.1",
                                        fake->output_endpoint,
                                        sizeof(fake->output_endpoint),
                                        &fake->output),
                     HVD_OK);
}

void fake_show(struct fake *fake, const char *job_dir, const char *endpoint,
               uint64_t term)
{
    struct beacon b = {.job = JOB, .term = term, .pid = getpid()};

    snprintf(b.endpoint, sizeof(b.endpoint), "%s",
             endpoint ? endpoint : fake->control_endpoint);
    snprintf(b.output_endpoint, sizeof(b.output_endpoint), "%s",
             endpoint ? endpoint : fake->output_endpoint);
    ck_assert_int_eq(beacon_write(job_dir, &b), HVD_OK);
}

void fake_start(struct fake *fake, const char *program)
{
    fake_start_in(fake, program, NULL, 0);
}

void fake_start_in(struct fake *fake, const char *program, const char *job_dir,
                   int n_unheard)
{
    int lifeline[2], secret_fd;

    memset(fake, 0, sizeof(*fake));
    fake->term = 1;
    fake->n_unheard = n_unheard;
    ck_assert_int_eq(mac_init(), HVD_OK);
    mac_random(&fake->secrets, sizeof(fake->secrets));
    mac_random(fake->secret, sizeof(fake->secret));
    wire_driver_key(fake->secret, fake->secrets.driver_key);
    open_sockets(fake);
    if (job_dir)
        fake_show(fake, job_dir, NULL, fake->term);
    ck_assert_int_eq(
        wire_secret_create(&fake->secrets, sizeof(fake->secrets), &secret_fd),
        HVD_OK);
    ck_assert_int_eq(pipe2(lifeline, O_CLOEXEC), 0);
    tell_agent(fake, job_dir, secret_fd, lifeline[0]);
    fake->agent = fork();
    if (fake->agent == 0) /* it asserts nothing: see tests/worker/job.c */
        exec_agent(program, secret_fd, lifeline[0]);
    ck_assert_int_gt(fake->agent, 0);
    fake->agent_pidfd = (int)syscall(SYS_pidfd_open, fake->agent, 0);
    ck_assert_int_ge(fake->agent_pidfd, 0);
    fake->lifeline = lifeline[1];
    close(lifeline[0]);
    close(secret_fd);
    fake_wait(fake, has_hellos, NULL);
}

void fake_stop(struct fake *fake)
{
    if (fake->lifeline >= 0)
        close(fake->lifeline);
    if (fake->agent > 0)
        waitpid(fake->agent, NULL, 0);
    close(fake->agent_pidfd);
    for (size_t i = 0; i < FAKE_WORKERS; i++)
        for (size_t s = 0; s < 2; s++)
            free(fake->workers[i].streams[s].text);
    wire_router_destroy(fake->control);
    wire_router_destroy(fake->output);
    wire_gate_destroy(fake->gate);
    wire_context_destroy(fake->context);
}
