/* elastic/agent/spawn.c - fork and exec of a worker. See spawn.h.
 *
 * struct plan is all that the child needs, computed before the fork; between
 * fork and exec the child calls async-signal-safe functions only, because
 * libzmq's threads may have held any lock.
 *
 * Threads: main thread only. Memory: the plan, freed when the fork has
 * returned. */
#include "elastic/agent/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/inherited.h"
#include "elastic/agent/nccl_env.h"
#include "elastic/wire/env.h"
#include "elastic/wire/socket.h"

enum {
    N_OWN = 5,
    OWN_MAX = WIRE_HOST_MAX + 32,
    EXIT_NOT_STARTED = 127,
    FIRST_FREE_FD = 64 /* our ends of pipes lie above all of the worker's */
};

struct list {
    char **items; /* [n], NULL-terminated by list_add */
    size_t n, max;
};

struct plan {
    struct list argv; /* items[0] is kept free for a shell's name */
    struct list env;
    char own[N_OWN][OWN_MAX];
    char driver[sizeof(ENV_DRIVER) + WIRE_ENDPOINTS_MAX];
    char job_dir[sizeof(ENV_JOB_DIR) + PATH_MAX];
    char interfaces[NCCL_ENV_INTERFACES_MAX];
    char *paths; /* candidates, each with its NUL, then an empty one */
    const char *cwd;
    pid_t parent;
    int stdin_fd, stdout_fd, stderr_fd, report_fd;
    char passed[PASSED_ENTRY_MAX];
    char numbers[PASSED_MAX][64]; /* NAME=60 .. */
    char socket[sizeof(ENV_CLAIM_SOCKET) + 64];
    int passed_fds[PASSED_MAX];
};

/* What the child writes to the report pipe instead of starting. */
struct failure {
    struct program_failure exec;
    int in_chdir;
};

/* ---- the plan ------------------------------------------------------------ */

static bool list_add(struct list *list, const char *item)
{
    if (!array_reserve(&list->items, &list->max, list->n + 2))
        return false;
    /* exec's prototype wants char *; nobody writes to it */
    memcpy(&list->items[list->n++], &item, sizeof(item));
    list->items[list->n] = NULL;
    return true;
}

/* "NAME=...": the item of that name; NULL: none. */
static char **env_find(const struct list *env, const char *entry)
{
    size_t n_name = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < env->n; i++)
        if (strncmp(env->items[i], entry, n_name) == 0)
            return &env->items[i];
    return NULL;
}

/* NAME=value; replaces an earlier one of that name. */
static bool env_set(struct list *env, const char *entry)
{
    char **item;

    if (strcspn(entry, "=") == 0 || !strchr(entry, '='))
        return true; /* not an assignment: nothing a program could read */
    item = env_find(env, entry);
    if (!item)
        return list_add(env, entry);
    memcpy(item, &entry, sizeof(entry));
    return true;
}

/* Unless it is set. */
static bool env_default(struct list *env, const char *entry)
{
    return env_find(env, entry) || list_add(env, entry);
}

static bool is_inherited(const char *entry)
{
    return strncmp(entry, "HVD_", 4) != 0 ||
           strncmp(entry, ENV_LOG_LEVEL "=", sizeof(ENV_LOG_LEVEL)) == 0;
}

static const char *addresses_of(const struct msg_spawn *spawn)
{
    return spawn->addresses[0] ? spawn->addresses : "127.0.0.1";
}

static bool plan_own_env(struct plan *plan, const struct spawn_site *site,
                         const struct msg_spawn *spawn)
{
    snprintf(plan->driver, sizeof(plan->driver), ENV_DRIVER "=%s",
             site->driver);
    if (!env_set(&plan->env, plan->driver))
        return false;
    snprintf(plan->own[0], OWN_MAX, ENV_JOB "=%" PRIu64, site->job);
    snprintf(plan->own[1], OWN_MAX, ENV_HOST "=%s", site->host);
    snprintf(plan->own[2], OWN_MAX, ENV_WORKER "=%" PRIu64, spawn->worker);
    snprintf(plan->own[3], OWN_MAX, ENV_SLOT "=%" PRIu32, spawn->slot);
    snprintf(plan->own[4], OWN_MAX, ENV_ADDRESS "=%s", addresses_of(spawn));
    for (size_t i = 0; i < N_OWN; i++)
        if (!env_set(&plan->env, plan->own[i]))
            return false;
    if (!site->job_dir)
        return true;
    snprintf(plan->job_dir, sizeof(plan->job_dir), ENV_JOB_DIR "=%s",
             site->job_dir);
    return env_set(&plan->env, plan->job_dir);
}

/* Once they are open. */
static bool plan_passed(struct plan *plan, const struct spawn_site *site)
{
    for (size_t i = 0; i < PASSED_MAX; i++) {
        snprintf(plan->numbers[i], sizeof(plan->numbers[i]), "%s=%d",
                 passed_places[i].name, passed_places[i].fd);
        if (!env_set(&plan->env, plan->numbers[i]))
            return false;
    }
    passed_describe(plan->passed_fds, plan->passed);
    snprintf(plan->socket, sizeof(plan->socket), ENV_CLAIM_SOCKET "=%s",
             site->socket);
    return env_set(&plan->env, plan->passed) &&
           (!*site->socket || env_set(&plan->env, plan->socket));
}

static bool plan_nccl(struct plan *plan, const char *addresses)
{
    for (size_t i = 0; nccl_env[i]; i++)
        if (!env_default(&plan->env, nccl_env[i]))
            return false;
    if (!nccl_env_interfaces(addresses, plan->interfaces,
                             sizeof(plan->interfaces)))
        return true;
    return env_default(&plan->env, plan->interfaces);
}

static bool plan_env(struct plan *plan, const struct spawn_site *site,
                     const struct msg_spawn *spawn)
{
    const char *env = spawn->env.data;

    for (char **e = environ; *e; e++)
        if (is_inherited(*e) && !list_add(&plan->env, *e))
            return false;
    for (size_t at = 0; at < spawn->env.nbytes; at += strlen(env + at) + 1)
        if (!env_set(&plan->env, env + at))
            return false;
    return plan_own_env(plan, site, spawn) &&
           plan_nccl(plan, addresses_of(spawn));
}

static bool plan_argv(struct plan *plan, const struct msg_spawn *spawn)
{
    const char *arg = spawn->argv.data;
    const char *end = arg + spawn->argv.nbytes;

    if (!list_add(&plan->argv, "/bin/sh"))
        return false;
    for (; arg < end; arg += strlen(arg) + 1)
        if (!list_add(&plan->argv, arg))
            return false;
    return true;
}

static const char *env_get(const struct list *env, const char *name_equals)
{
    char **item = env_find(env, name_equals);

    return item ? *item + strlen(name_equals) : NULL;
}

/* Where execvp would look, in the worker's own PATH; relative directories are
 * meant from its own working directory. */
static bool plan_paths(struct plan *plan)
{
    const char *name = plan->argv.items[1];
    const char *path = env_get(&plan->env, "PATH=");
    size_t n_name = strlen(name), n_entries = 1, used = 0;

    if (strchr(name, '/'))
        path = "";
    else if (!path)
        path = "/usr/local/bin:/usr/bin:/bin";
    for (const char *p = path; *p; p++)
        n_entries += *p == ':';
    plan->paths = calloc(1, strlen(path) + n_entries * (n_name + 2) + 1);
    if (!plan->paths)
        return false;
    while (n_entries-- > 0) {
        size_t n_dir = strcspn(path, ":");

        memcpy(plan->paths + used, path, n_dir);
        used += n_dir;
        if (n_dir > 0)
            plan->paths[used++] = '/';
        memcpy(plan->paths + used, name, n_name);
        used += n_name + 1;
        path += n_dir + (path[n_dir] == ':');
    }
    return true;
}

static void plan_fini(struct plan *plan)
{
    free(plan->argv.items);
    free(plan->env.items);
    free(plan->paths);
}

/* ---- the child ----------------------------------------------------------- */

/* All sources lie above all targets, so no move can overwrite one. */
static bool place_fds(const struct plan *plan)
{
    for (size_t i = 0; i < PASSED_MAX; i++)
        if (plan->passed_fds[i] >= 0 &&
            dup2(plan->passed_fds[i], passed_places[i].fd) < 0)
            return false;
    return dup2(plan->stdin_fd, STDIN_FILENO) >= 0 &&
           dup2(plan->stdout_fd, STDOUT_FILENO) >= 0 &&
           dup2(plan->stderr_fd, STDERR_FILENO) >= 0 &&
           dup3(plan->report_fd, SPAWN_REPORT_FD, O_CLOEXEC) >= 0;
}

/* *failure: the errno that execvp would leave. */
static void exec_program(const struct plan *plan,
                         struct program_failure *failure)
{
    int error, kept = ENOENT;

    for (char *path = plan->paths; *path; path += strlen(path) + 1) {
        error = program_exec(path, plan->argv.items, plan->env.items, failure);
        if (error == EACCES) {
            kept = EACCES; /* if nothing better is found */
        } else if (error != ENOENT && error != ENOTDIR) {
            *failure->why = '\0'; /* of an earlier one */
            return;
        }
    }
    failure->error = kept;
}

static _Noreturn void child_main(const struct plan *plan)
{
    struct failure failure = {0};
    int report_fd = plan->report_fd;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != plan->parent)
        _exit(EXIT_NOT_STARTED); /* the agent died before the line above */
    if (!place_fds(plan)) {
        failure.exec.error = errno;
    } else {
        report_fd = SPAWN_REPORT_FD;
        fd_close_all(STDERR_FILENO + 1, passed_places[0].fd - 1);
        fd_close_all(plan->passed_fds[PASSED_ROBUST] < 0
                         ? SPAWN_REPORT_FD + 1
                         : passed_places[PASSED_ROBUST].fd + 1,
                     INT_MAX);
        if (*plan->cwd && chdir(plan->cwd) != 0) {
            failure.exec.error = errno;
            failure.in_chdir = 1;
        }
    }
    inherited_restore(); /* below some of our descriptors: they are closed */
    if (failure.exec.error == 0)
        exec_program(plan, &failure.exec);
    if (write(report_fd, &failure, sizeof(failure)) < 0)
        _exit(EXIT_NOT_STARTED); /* the exit is all that is left to say */
    _exit(EXIT_NOT_STARTED);
}

/* ---- the parent ---------------------------------------------------------- */

/* The same descriptor at a number out of the way of the child's. */
static int lift(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    int error = errno;

    close(fd);
    errno = error;
    return high;
}

/* *read_p stays here, non-blocking; *write_p goes to the child. */
static bool open_pipe(int *read_p, int *write_p)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    *read_p = ends[0];
    *write_p = lift(ends[1]);
    return *write_p >= 0 && fcntl(*read_p, F_SETFL, O_NONBLOCK) == 0;
}

/* -1: errno says why. */
static int open_secret(const struct spawn_site *site, uint64_t worker)
{
    struct wire_secrets secrets = *site->secrets;
    int fd;

    wire_token_derive(site->secrets->token, WIRE_TOKEN_WORKER, worker,
                      secrets.token);
    if (wire_secret_create(&secrets, sizeof(secrets), &fd) != HVD_OK)
        return -1;
    return lift(fd);
}

/* Without one the worker's exit is what tells of its death. */
static void open_robust(struct plan *plan, struct spawned *spawned)
{
    int fd;

    if (robust_create(&spawned->robust, &fd) == HVD_OK)
        plan->passed_fds[PASSED_ROBUST] = lift(fd);
    if (plan->passed_fds[PASSED_ROBUST] >= 0)
        return;
    robust_detach(spawned->robust);
    spawned->robust = NULL;
}

static bool open_fds(struct plan *plan, const struct spawn_site *site,
                     uint64_t worker, struct spawned *spawned)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (null_fd < 0)
        return false;
    plan->stdin_fd = lift(null_fd);
    open_robust(plan, spawned);
    plan->passed_fds[PASSED_SECRET] = open_secret(site, worker);
    plan->passed_fds[PASSED_LIFELINE] = fcntl(
        site->lifeline_fd, F_DUPFD_CLOEXEC, (int)FIRST_FREE_FD);
    return plan->stdin_fd >= 0 && plan->passed_fds[PASSED_SECRET] >= 0 &&
           plan->passed_fds[PASSED_LIFELINE] >= 0 &&
           open_pipe(&spawned->stdout_fd, &plan->stdout_fd) &&
           open_pipe(&spawned->stderr_fd, &plan->stderr_fd) &&
           open_pipe(&spawned->report_fd, &plan->report_fd);
}

static void close_child_fds(struct plan *plan)
{
    fd_close(&plan->stdin_fd);
    fd_close(&plan->stdout_fd);
    fd_close(&plan->stderr_fd);
    fd_close(&plan->report_fd);
}

static void close_own_fds(struct spawned *spawned)
{
    fd_close(&spawned->pidfd);
    fd_close(&spawned->report_fd);
    fd_close(&spawned->stdout_fd);
    fd_close(&spawned->stderr_fd);
    for (size_t i = 0; i < PASSED_MAX; i++)
        fd_close(&spawned->passed_fds[i]);
    robust_detach(spawned->robust);
}

static bool fork_child(const struct plan *plan, struct spawned *spawned)
{
    int error;

    spawned->pid = fork();
    if (spawned->pid == 0)
        child_main(plan);
    if (spawned->pid < 0)
        return false;
    /* here too: a KILL may come before the child has run */
    setpgid(spawned->pid, spawned->pid);
    spawned->pidfd = (int)syscall(SYS_pidfd_open, spawned->pid, 0);
    if (spawned->pidfd >= 0)
        return true;
    error = errno;
    kill(spawned->pid, SIGKILL);
    while (waitpid(spawned->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    errno = error;
    return false;
}

hvd_status_t spawn_worker(const struct spawn_site *site,
                          const struct msg_spawn *spawn,
                          struct spawned *spawned_p, int *error_p)
{
    struct plan plan = {.cwd = spawn->cwd.nbytes > 0 ? spawn->cwd.data : "",
                        .parent = getpid(),
                        .stdin_fd = -1,
                        .stdout_fd = -1,
                        .stderr_fd = -1,
                        .report_fd = -1,
                        .passed_fds = {-1, -1, -1}};
    struct spawned spawned = {-1, -1, -1, -1, -1, {-1, -1, -1}, NULL};
    bool good = false;

    errno = ENOMEM;
    if (spawn->argv.nbytes <= 1) /* no program, or an empty name */
        errno = EINVAL;
    else if (plan_argv(&plan, spawn) && plan_env(&plan, site, spawn) &&
             plan_paths(&plan))
        good = open_fds(&plan, site, spawn->worker, &spawned) &&
               plan_passed(&plan, site) && fork_child(&plan, &spawned);
    *error_p = errno;
    memcpy(spawned.passed_fds, plan.passed_fds, sizeof(plan.passed_fds));
    close_child_fds(&plan);
    plan_fini(&plan);
    if (!good) {
        close_own_fds(&spawned);
        errno = *error_p;
        return error_errno("cannot start a process");
    }
    *spawned_p = spawned;
    return HVD_OK;
}

enum spawn_outcome
spawn_result(int report_fd, struct program_failure *failure_p, bool *chdir_p)
{
    struct failure failure;
    ssize_t n = read(report_fd, &failure, sizeof(failure));

    if (n < 0)
        return SPAWN_PENDING; /* EAGAIN: not decided yet */
    if ((size_t)n < sizeof(failure))
        return SPAWN_RUNS; /* exec closed the other end */
    *failure_p = failure.exec;
    *chdir_p = failure.in_chdir != 0;
    return SPAWN_FAILED;
}
