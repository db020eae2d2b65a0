/* tests/worker/job.c - the driver that a test plays. See job.h. */
#include "job.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/mac.h"
#include "elastic/wire/codec.h"
#include "elastic/wire/env.h"
#include "elastic/wire/socket.h"

char *job_program;

static struct job_worker *worker_at(struct job *job, int index)
{
    ck_assert_int_ge(index, 0);
    ck_assert_int_lt(index, JOB_WORKERS);
    return &job->workers[index];
}

struct job *job_create(void)
{
    static const uint8_t secret[WIRE_TOKEN_NBYTES] = {9};
    struct job *job = calloc(1, sizeof(*job));

    ck_assert_ptr_nonnull(job);
    ck_assert_int_eq(mac_init(), HVD_OK);
    mac_random(&job->secrets, sizeof(job->secrets));
    wire_driver_key(secret, job->secrets.driver_key);
    ck_assert_int_eq(wire_context_create(&job->context), HVD_OK);
    ck_assert_int_eq(wire_gate_create(job->context, secret, &job->gate),
                     HVD_OK);
    ck_assert(wire_gate_allow(job->gate, 1, 1, job->secrets.token));
    ck_assert_int_eq(wire_router_create(job->context, job->gate, "127.0.0.1",
                                        job->endpoint, sizeof(job->endpoint),
                                        &job->router),
                     HVD_OK);
    job->heartbeat_ms = 1000;
    job->connect_timeout_ms = 10000;
    for (int i = 0; i < JOB_WORKERS; i++)
        job->workers[i] = (struct job_worker){
            .id = (uint64_t)i + 1, .out = -1, .lifeline = -1};
    return job;
}

void job_destroy(struct job *job)
{
    for (int i = 0; i < JOB_WORKERS; i++) {
        struct job_worker *w = &job->workers[i];

        if (w->pid > 0) {
            kill(w->pid, SIGKILL);
            waitpid(w->pid, NULL, 0);
        }
        if (w->out >= 0)
            close(w->out);
        if (w->lifeline >= 0)
            close(w->lifeline);
    }
    wire_router_destroy(job->router);
    wire_gate_destroy(job->gate);
    wire_context_destroy(job->context);
    free(job);
}

/* ---- starting workers ---------------------------------------------------- */

static void set_number(const char *name, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    setenv(name, text, 1);
}

/* `options` are words with single spaces between them. */
static void split_words(const char *options, char *words, size_t max,
                        char **argv)
{
    int n = 1;

    argv[0] = job_program;
    snprintf(words, max, "%s", options);
    for (char *word = strtok(words, " "); word && n < JOB_ARGS - 1;
         word = strtok(NULL, " "))
        argv[n++] = word;
    argv[n] = NULL;
}

/* Before the fork: libzmq's threads run here, and what one of them held in that
 * moment, an allocator's lock say, would stay held in the child for ever. (For
 * the same reason the child asserts nothing: Check allocates.) */
static void tell_worker(const struct job *job, const struct job_worker *w,
                        int secret, int lifeline)
{
    setenv(ENV_DRIVER, job->endpoint, 1);
    setenv(ENV_HOST, "testhost", 1);
    set_number(ENV_JOB, JOB_ID);
    set_number(ENV_WORKER, w->id);
    set_number(ENV_SLOT, w->id - 1);
    set_number(ENV_SECRET_FD, (uint64_t)secret);
    set_number(ENV_LIFELINE_FD, (uint64_t)lifeline);
}

static _Noreturn void exec_worker(char **argv, int secret, int lifeline,
                                  int out)
{
    fcntl(secret, F_SETFD, 0);
    fcntl(lifeline, F_SETFD, 0);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(argv[0], argv);
    _exit(127);
}

void job_spawn(struct job *job, int index, const char *options)
{
    struct job_worker *w = worker_at(job, index);
    int lifeline[2], out[2], secret;
    char words[1024], *argv[JOB_ARGS];

    ck_assert_int_eq(w->pid, 0);
    ck_assert_int_eq(pipe2(lifeline, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    ck_assert_int_eq(
        wire_secret_create(&job->secrets, sizeof(job->secrets), &secret),
        HVD_OK);
    split_words(options, words, sizeof(words), argv);
    tell_worker(job, w, secret, lifeline[0]);
    w->pid = fork();
    if (w->pid == 0)
        exec_worker(argv, secret, lifeline[0], out[1]);
    ck_assert_int_gt(w->pid, 0);
    close(secret);
    close(lifeline[0]);
    close(out[1]);
    w->lifeline = lifeline[1];
    w->out = out[0];
}

/* ---- messages ------------------------------------------------------------ */

void job_send(struct job *job, int index, struct message *m)
{
    struct job_worker *w = worker_at(job, index);

    ck_assert(w->heard);
    m->job = JOB_ID;
    m->term = JOB_TERM;
    /* a worker that has died reads nothing: that is for the test to see */
    if (wire_router_send(job->router, w->route, m) != HVD_OK)
        w->heard = false;
}

static void answer_ping(struct job *job, int index, const struct message *m)
{
    struct message pong = {.type = MSG_PONG};

    pong.u.pong.stamp_us = m->u.ping.stamp_us;
    /* several of a worker that has died may be left */
    if (!job->silent && worker_at(job, index)->heard)
        job_send(job, index, &pong);
}

static void on_message(struct job *job, uint64_t route, const struct message *m)
{
    int index = (int)m->worker - 1;
    struct job_worker *w = worker_at(job, index);

    ck_assert_uint_eq(m->job, JOB_ID);
    if (m->type == MSG_HELLO) {
        ck_assert(wire_router_proven(job->router, job->secrets.token,
                                     m->u.hello.proof));
        w->hello = m->u.hello;
        w->route = route ? route
                         : wire_router_admit(job->router, job->secrets.token);
        w->heard = true;
        route = w->route;
    }
    ck_assert(!w->heard || w->route == route);
    if (m->type == MSG_READY)
        w->abilities = m->u.ready.abilities;
    if (m->type == MSG_PING)
        answer_ping(job, index, m);
    if (w->n == JOB_QUEUE) {
        w->first = (w->first + 1) % JOB_QUEUE;
        w->n--;
    }
    w->queue[(w->first + w->n++) % JOB_QUEUE] = *m;
}

/* The router's descriptor tells of changes only: look, sleep briefly, look. */
static void receive(struct job *job)
{
    struct pollfd pfd = {.fd = wire_router_fd(job->router), .events = POLLIN};
    enum wire_receipt receipt;
    struct message m;
    uint64_t route;
    bool any = false;

    while ((receipt = wire_router_receive(job->router, &route, &m)) !=
           WIRE_NOTHING) {
        ck_assert_int_eq(receipt, WIRE_MESSAGE);
        on_message(job, route, &m);
        any = true;
    }
    if (!any)
        poll(&pfd, 1, 10);
}

static bool pop(struct job_worker *w, struct message *m)
{
    if (w->n == 0)
        return false;
    *m = w->queue[w->first];
    w->first = (w->first + 1) % JOB_QUEUE;
    w->n--;
    return true;
}

static bool read_some(struct job_worker *w, size_t *n_p)
{
    ssize_t got = read(w->out, w->text + *n_p, sizeof(w->text) - 1 - *n_p);

    if (got > 0)
        *n_p += (size_t)got;
    return got > 0;
}

/* End the test with what became of the worker that it waits for. */
static void give_up(struct job_worker *w, enum message_type type)
{
    struct pollfd pfd = {.fd = w->out, .events = POLLIN};
    size_t n = 0;
    int status = 0;
    bool ended = waitpid(w->pid, &status, WNOHANG) == w->pid;

    while (poll(&pfd, 1, 0) > 0 && read_some(w, &n))
        continue;
    if (ended)
        w->pid = 0;
    ck_abort_msg("worker %" PRIu64 " did not send %s; %s %x, it printed: %s",
                 w->id, message_type_name(type),
                 ended ? "it has ended with wait status"
                       : "it still runs, status",
                 (unsigned)status, w->text);
}

struct message job_expect(struct job *job, int index, enum message_type type)
{
    struct job_worker *w = worker_at(job, index);
    uint64_t deadline_us = clock_now_us() + JOB_PATIENCE_US;
    struct message m = {.type = MSG_NONE};

    while (clock_now_us() < deadline_us) {
        while (pop(w, &m))
            if (m.type == type)
                return m;
        receive(job);
    }
    give_up(w, type);
    return m;
}

struct msg_ready job_expect_ready(struct job *job, int index,
                                  enum ready_reason reason)
{
    struct message m;

    do
        m = job_expect(job, index, MSG_READY);
    while (m.u.ready.reason != reason);
    return m.u.ready;
}

struct msg_report job_expect_report(struct job *job, int index,
                                    enum report_what what)
{
    struct message m;

    do
        m = job_expect(job, index, MSG_REPORT);
    while (m.u.report.what != what);
    return m.u.report;
}

void job_welcome(struct job *job, int index)
{
    struct message welcome = {.type = MSG_WELCOME};

    job_expect(job, index, MSG_HELLO);
    welcome.u.welcome.heartbeat_ms = job->heartbeat_ms;
    welcome.u.welcome.driver_timeout_ms = job->driver_timeout_ms;
    welcome.u.welcome.connect_timeout_ms = job->connect_timeout_ms;
    job_send(job, index, &welcome);
}

void job_start(struct job *job, int n, const char *options)
{
    for (int i = 0; i < n; i++)
        job_spawn(job, i, options);
    for (int i = 0; i < n; i++)
        job_welcome(job, i);
    for (int i = 0; i < n; i++)
        job_expect_ready(job, i, READY_START);
}

/* ---- ASSIGN -------------------------------------------------------------- */

static uint32_t encode_table(struct job *job, uint64_t generation,
                             const int *indices, int n, unsigned sources,
                             uint8_t *buf, size_t max)
{
    struct assign_entry entries[JOB_WORKERS] = {0};
    struct assign_table table = {.entries = entries, .n_entries = (size_t)n};
    uint8_t abilities = UINT8_MAX;
    long nbytes;

    for (int rank = 0; rank < n; rank++)
        abilities &= worker_at(job, indices[rank])->abilities;
    for (int rank = 0; rank < n; rank++) {
        const struct job_worker *w = worker_at(job, indices[rank]);

        entries[rank].worker = w->id;
        entries[rank].slot = (uint32_t)w->id - 1;
        entries[rank].port = w->hello.port;
        entries[rank].abilities = abilities;
        entries[rank].source = sources >> rank & 1;
        memcpy(entries[rank].address, w->hello.address, WIRE_ADDRESS_MAX);
    }
    nbytes = job->changes ? table_encode_change(&table, &job->before, buf, max)
                          : table_encode(&table, buf, max);
    ck_assert_int_gt(nbytes, 0);
    memcpy(job->rows, entries, sizeof(entries));
    job->before = (struct assign_table){
        .entries = job->rows, .n_entries = (size_t)n, .generation = generation};
    return (uint32_t)nbytes;
}

void job_assign(struct job *job, uint64_t generation, const int *indices, int n,
                struct state_id base, unsigned sources,
                enum ready_reason reason)
{
    uint8_t table[4096];
    uint32_t nbytes = encode_table(job, generation, indices, n, sources, table,
                                   sizeof(table));
    struct message m = {.type = MSG_ASSIGN, .generation = generation};
    struct msg_assign *assign = &m.u.assign;

    mac_random(assign->key, sizeof(assign->key));
    assign->size = assign->local_size = (uint32_t)n;
    assign->cross_size = 1;
    assign->base = base;
    assign->sync = sources != (1u << n) - 1;
    assign->reason = (uint8_t)reason;
    assign->table = (struct wire_span){table, nbytes};
    while (!(sources >> assign->root & 1))
        assign->root++;
    for (int rank = 0; rank < n; rank++) {
        assign->rank = assign->local_rank = (uint32_t)rank;
        assign->source = sources >> rank & 1;
        job_send(job, indices[rank], &m);
    }
}

/* ---- the other messages -------------------------------------------------- */

void job_abort(struct job *job, int index, uint64_t generation)
{
    struct message m = {.type = MSG_ABORT, .generation = generation};

    m.u.abort.reason = ABORT_LOST;
    snprintf(m.u.abort.text, sizeof(m.u.abort.text), "the test says so");
    job_send(job, index, &m);
}

void job_hold(struct job *job, int index, uint64_t generation,
              uint64_t sequence)
{
    struct message m = {.type = MSG_HOLD, .generation = generation};

    m.u.hold.sequence = sequence;
    m.u.hold.flags = HOSTS_ADDED;
    job_send(job, index, &m);
}

void job_cut(struct job *job, int index, uint64_t generation, uint64_t sequence,
             uint64_t boundary)
{
    struct message m = {.type = MSG_CUT, .generation = generation};

    m.u.cut.sequence = sequence;
    m.u.cut.boundary = boundary;
    job_send(job, index, &m);
}

void job_release(struct job *job, int index, uint64_t generation)
{
    struct message m = {.type = MSG_RELEASE, .generation = generation};

    job_send(job, index, &m);
}

void job_shutdown(struct job *job, int index, enum shutdown_reason reason,
                  int64_t status, const char *text)
{
    struct message m = {.type = MSG_SHUTDOWN};

    m.u.shutdown.reason = (uint8_t)reason;
    m.u.shutdown.status = status;
    snprintf(m.u.shutdown.text, sizeof(m.u.shutdown.text), "%s", text);
    job_send(job, index, &m);
}

/* ---- the end of a worker ------------------------------------------------- */

void job_kill(struct job *job, int index, int signo)
{
    struct job_worker *w = worker_at(job, index);

    ck_assert_int_gt(w->pid, 0);
    ck_assert_int_eq(kill(w->pid, signo), 0);
}

int job_wait(struct job *job, int index)
{
    struct job_worker *w = worker_at(job, index);
    uint64_t deadline_us = clock_now_us() + JOB_PATIENCE_US;
    struct pollfd pfd = {.fd = w->out, .events = POLLIN};
    size_t n = 0;

    for (;;) {
        ck_assert_msg(clock_now_us() < deadline_us, "worker %d hangs", index);
        if (poll(&pfd, 1, 10) > 0 && !read_some(w, &n))
            break;
        receive(job); /* the others go on talking */
    }
    ck_assert_int_eq(waitpid(w->pid, &w->status, 0), w->pid);
    w->pid = 0;
    return WIFEXITED(w->status) ? WEXITSTATUS(w->status) : -WTERMSIG(w->status);
}
