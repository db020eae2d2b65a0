/* elastic/worker/process.c - who this process is, from its environment; and
 * what becomes of a forked child. See process.h.
 *
 * Threads: app, except the fork handler. Memory: static. */
#include "elastic/worker/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "collectives/call.h"
#include "collectives/local/arena.h"
#include "collectives/ragged.h"
#include "elastic/wire/address.h"
#include "elastic/wire/claim.h"
#include "elastic/wire/env.h"
#include "elastic/wire/socket.h"
#include "elastic/worker/knobs.h"
#include "timeline/timeline.h"

struct process process_self = {.kick_fd = -1, .self = {.lifeline_fd = -1}};

hvd_status_t process_check(const char *call)
{
    if (atomic_load_explicit(&process_self.forked, memory_order_relaxed))
        return error_set(HVD_ERR_INVALID, "%s: called in a forked child", call);
    if (!atomic_load_explicit(&process_self.initialised, memory_order_relaxed))
        return error_set(HVD_ERR_STATE, "%s: hvd_init was not called", call);
    if (ragged_is_placing())
        return error_set(HVD_ERR_STATE, "%s: called by a place function", call);
    return HVD_OK;
}

static hvd_status_t env_number(const char *name, uint64_t max,
                               uint64_t *value_p)
{
    const char *text = getenv(name);
    char *end;
    unsigned long long value;

    if (!text)
        return error_set(HVD_ERR_INVALID, "%s is not set", name);
    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || text[0] == '-' ||
        value > max)
        return error_set(HVD_ERR_INVALID, "%s: \"%s\" is not a number", name,
                         text);
    *value_p = value;
    return HVD_OK;
}

static hvd_status_t env_string(const char *name, const char *otherwise,
                               char *out, size_t max)
{
    const char *text = getenv(name);
    size_t n;

    if (!text)
        text = otherwise;
    if (!text)
        return error_set(HVD_ERR_INVALID, "%s is not set", name);
    n = strlen(text);
    if (n >= max)
        return error_set(HVD_ERR_INVALID, "%s: longer than %zu bytes", name,
                         max - 1);
    memcpy(out, text, n + 1);
    return HVD_OK;
}

/* As the driver has checked it; unset: 0 and 0. */
static hvd_status_t env_ports(uint16_t *low_p, uint16_t *high_p)
{
    const char *text = getenv(ENV_DATA_PORTS);

    *low_p = *high_p = 0;
    if (text && !address_ports(text, low_p, high_p))
        return error_set(HVD_ERR_INVALID, "%s: '%s' is not LOW-HIGH",
                         ENV_DATA_PORTS, text);
    return HVD_OK;
}

/* Ask the agent for descriptors that a program in between has closed. */
static hvd_status_t claim(uint64_t worker, const char *lacks, int *fds)
{
    const char *name = getenv(ENV_CLAIM_SOCKET);
    enum claim_verdict verdict = CLAIM_STRANGER;
    hvd_status_t status = HVD_ERR_INVALID;

    if (name)
        status = claim_ask(name, worker, &verdict, fds);
    else
        error_set(status, "%s is not set either", ENV_CLAIM_SOCKET);
    if (status == HVD_OK && verdict == CLAIM_GRANTED)
        return HVD_OK;
    if (status == HVD_OK && verdict == CLAIM_TAKEN)
        return error_set(HVD_ERR_INVALID,
                         "a child of worker %" PRIu64 " of a job, or a second "
                         "program in its place -> `env -u HVD_DRIVER` makes "
                         "it a world of one",
                         worker);
    if (status == HVD_OK)
        status = error_set(HVD_ERR_INVALID,
                           "its agent has not started this process as worker "
                           "%" PRIu64,
                           worker);
    return error_prefix(status,
                        "%s=%s was closed by the program that started this "
                        "one (keep it open, pass_fds in Python, or `env -u "
                        "HVD_DRIVER` makes it a world of one)",
                        lacks, getenv(lacks));
}

/* Without one the agent learns of this worker's death from its exit. */
static struct robust *take_robust(int fd)
{
    struct robust *robust = robust_attach(fd);

    if (!robust)
        log_debug("no lock in %s -> a death is noticed later", ENV_ROBUST_FD);
    return robust;
}

/* The secrets lie in a sealed memfd that every child would inherit: closed as
 * soon as they are read. A lifeline need not be, nor the lock. */
static hvd_status_t take_passed(struct process_identity *self)
{
    int fds[PASSED_MAX];
    const char *lacks = NULL;
    hvd_status_t status;

    for (unsigned i = 0; i < PASSED_MAX; i++) {
        fds[i] = -1;
        if (i > PASSED_SECRET && !getenv(passed_places[i].name))
            continue;
        HVD_TRY(passed_find((enum passed)i, &fds[i]));
        if (fds[i] < 0 && !lacks && i != PASSED_ROBUST)
            lacks = passed_places[i].name;
    }
    if (lacks) {
        for (unsigned i = 0; i < PASSED_MAX; i++)
            fd_close(&fds[i]);
        HVD_TRY(claim(self->worker, lacks, fds));
    } else if (getenv(ENV_CLAIM_SOCKET)) {
        claim_tell(getenv(ENV_CLAIM_SOCKET), self->worker);
    }
    self->lifeline_fd = fds[PASSED_LIFELINE];
    self->robust = take_robust(fds[PASSED_ROBUST]);
    fd_close(&fds[PASSED_ROBUST]);
    status = wire_secret_read(fds[PASSED_SECRET], &self->secrets,
                              sizeof(self->secrets));
    fd_close(&fds[PASSED_SECRET]);
    return status;
}

hvd_status_t process_identify(bool *solo_p)
{
    struct process_identity *self = &process_self.self;
    uint64_t slot;

    memset(self, 0, sizeof(*self));
    self->lifeline_fd = -1;
    *solo_p = getenv(ENV_DRIVER) == NULL;
    if (*solo_p)
        return HVD_OK;
    HVD_TRY(env_string(ENV_DRIVER, NULL, self->driver, sizeof(self->driver)));
    HVD_TRY(env_string(ENV_HOST, "localhost", self->host, sizeof(self->host)));
    HVD_TRY(env_string(ENV_ADDRESS, "127.0.0.1", self->address,
                       sizeof(self->address)));
    HVD_TRY(env_ports(&self->port_low, &self->port_high));
    HVD_TRY(env_string(ENV_JOB_DIR, "", self->job_dir, sizeof(self->job_dir)));
    HVD_TRY(env_number(ENV_JOB, UINT64_MAX, &self->job));
    HVD_TRY(env_number(ENV_WORKER, UINT64_MAX, &self->worker));
    HVD_TRY(env_number(ENV_SLOT, INT_MAX, &slot));
    self->slot = (int)slot;
    return take_passed(self);
}

/* Async-signal-safe: the child may be in the middle of anything. A copy of our
 * sockets would hide this process's death from its peers. */
static void in_child(void)
{
    struct endpoint *endpoint = atomic_load(&process_self.endpoint);

    atomic_store(&process_self.forked, true);
    atomic_store(&process_self.kick_fd, -1);
    timeline_forked();
    arena_forked();
    if (endpoint)
        endpoint_fds_close(endpoint);
    if (process_self.self.lifeline_fd >= 0)
        close(process_self.self.lifeline_fd);
}

static int guard_error;

static void guard(void)
{
    guard_error = pthread_atfork(NULL, NULL, in_child);
}

hvd_status_t process_guard_fork(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, guard);
    errno = guard_error;
    return guard_error ? error_errno("pthread_atfork") : HVD_OK;
}

void process_hold(void)
{
    struct process_identity *self = &process_self.self;

    if (!self->robust || robust_lock(self->robust))
        return;
    robust_detach(self->robust);
    self->robust = NULL;
}

void process_let_go(void)
{
    struct process_identity *self = &process_self.self;

    if (!self->robust)
        return;
    robust_unlock(self->robust);
    robust_detach(self->robust);
    self->robust = NULL;
}

void process_timeline_open(void)
{
    const struct process_identity *self = &process_self.self;
    struct timeline_config config = {.path = getenv(ENV_TIMELINE),
                                     .job = self->job,
                                     .worker = self->worker,
                                     .host = self->host,
                                     .slot = self->slot,
                                     .words = &call_words};

    if (!config.path || config.path[0] == '\0')
        return;
    if (config.host[0] == '\0')
        config.host = "localhost";
    if (timeline_open(&config) == HVD_OK)
        return;
    log_warn("%s -> this worker has none", error_text());
    error_clear();
}

/* A stream that has been written to already keeps to its old buffer's limits,
 * unless it gets another buffer: that one it keeps until the process ends. */
void process_stdout_init(void)
{
    size_t used = __fbufsize(stdout);
    char *buffer = NULL;
    struct stat st;

    if (process_self.solo || !knobs_line_buffering() || used == 1 ||
        __flbf(stdout) || fileno(stdout) < 0 ||
        fstat(fileno(stdout), &st) != 0 || !S_ISFIFO(st.st_mode))
        return;
    if (used > 0)
        buffer = malloc(BUFSIZ);
    if (used == 0 || buffer)
        setvbuf(stdout, buffer, _IOLBF, buffer ? BUFSIZ : 0);
}

static hvd_config_t log_config;

static void pass_line(enum log_level level, const char *line, void *arg)
{
    (void)arg;
    log_config.log_fn((hvd_log_level_t)level, line, log_config.log_arg);
}

void process_log_fini(void)
{
    log_set_sink(NULL, NULL);
}

void process_log_init(const hvd_config_t *config)
{
    enum log_level level = LOG_LEVEL_WARN;
    const char *name = getenv(ENV_LOG_LEVEL);
    bool known = !name || log_level_parse(name, &level);

    log_init("hvd", level);
    log_config = *config;
    log_set_sink(config->log_fn ? pass_line : NULL, NULL);
    if (!known)
        log_warn("%s: \"%s\" is none of error, warn, info, debug, trace",
                 ENV_LOG_LEVEL, name);
}

void process_log_prefix(uint64_t generation, int rank)
{
    const struct process_identity *self = &process_self.self;
    char prefix[WIRE_HOST_MAX + 64];

    if (generation == 0)
        snprintf(prefix, sizeof(prefix), "%s:%d", self->host, self->slot);
    else
        snprintf(prefix, sizeof(prefix), "gen %" PRIu64 " rank %d %s:%d",
                 generation, rank, self->host, self->slot);
    log_set_prefix(prefix);
}
