/* elastic/agent/children.c - the processes of an agent. See children.h.
 *
 * Threads: the main thread only. Memory: the list of children. */
#include "elastic/agent/children.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "elastic/agent/orphans.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

enum {
    KILL_ROUND_MS = 10,
    REAPED_MAX = 64 /* in a turn of the loop */
};

/* For a sentence: may be cut. */
static void copy_name(char *name, const char *from)
{
    size_t n = strnlen(from, PROGRAM_MAX - 1);

    memcpy(name, from, n);
    name[n] = 0;
}

hvd_status_t children_start(struct children *children,
                            const struct spawn_site *site,
                            const struct msg_spawn *spawn,
                            struct child **child_p, int *error_p)
{
    struct child *child = calloc(1, sizeof(*child));
    struct spawned spawned;
    hvd_status_t status;

    if (!child) {
        *error_p = ENOMEM;
        return error_set(HVD_ERR_NOMEM, "out of memory for a child");
    }
    status = spawn_worker(site, spawn, &spawned, error_p);
    if (status != HVD_OK) {
        free(child);
        return status;
    }
    child->worker = spawn->worker;
    child->pid = spawned.pid;
    child->pidfd = spawned.pidfd;
    child->report_fd = spawned.report_fd;
    child->stream_fds[OUTPUT_STDOUT - 1] = spawned.stdout_fd;
    child->stream_fds[OUTPUT_STDERR - 1] = spawned.stderr_fd;
    memcpy(child->passed_fds, spawned.passed_fds, sizeof(spawned.passed_fds));
    child->robust = spawned.robust;
    child->linger_us = child->held_us = CLOCK_NEVER;
    output_init(&child->output, spawn->worker, OUTPUT_KEEP_MAX);
    copy_name(child->program, spawn->argv.data);
    copy_name(child->cwd, spawn->cwd.nbytes > 0 ? spawn->cwd.data : "");
    child->next = children->first;
    children->first = child;
    children->n++;
    *child_p = child;
    return HVD_OK;
}

static void close_passed(struct child *child)
{
    for (size_t i = 0; i < PASSED_MAX; i++)
        fd_close(&child->passed_fds[i]);
}

void children_remove(struct children *children, struct child *child)
{
    struct child **link = &children->first;

    HVD_ASSERT(child->pid == 0);
    while (*link != child)
        link = &(*link)->next;
    *link = child->next;
    children->n--;
    fd_close(&child->pidfd);
    fd_close(&child->report_fd);
    child_close_stream(child, OUTPUT_STDOUT);
    child_close_stream(child, OUTPUT_STDERR);
    close_passed(child);
    output_fini(&child->output);
    free(child);
}

struct child *children_find(const struct children *children, uint64_t worker)
{
    struct child *child = children->first;

    while (child && child->worker != worker)
        child = child->next;
    return child;
}

bool child_exited(const struct child *child, struct child_exit *exit_p)
{
    siginfo_t info = {0};

    if (child->pid == 0 ||
        waitid((idtype_t)P_PIDFD, (id_t)child->pidfd, &info,
               WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return false;
    memset(exit_p, 0, sizeof(*exit_p));
    if (info.si_code == CLD_EXITED)
        exit_p->code = info.si_status;
    else
        exit_p->signal = info.si_status;
    exit_p->core = info.si_code == CLD_DUMPED;
    return true;
}

void child_ends(const struct child *child, struct child_exit *exit_p)
{
    int status = proc_exit_status(child->taken > 0 ? child->taken : child->pid);

    memset(exit_p, 0, sizeof(*exit_p));
    if (status < 0)
        exit_p->code = EXIT_UNKNOWN;
    else if (WIFEXITED(status))
        exit_p->code = WEXITSTATUS(status);
    else if (WIFSIGNALED(status))
        exit_p->signal = WTERMSIG(status);
    exit_p->core = status > 0 && WCOREDUMP(status);
}

bool child_is_bereft(const struct child *child)
{
    return child->taken > 0 && child->taken != child->pid &&
           proc_started(child->taken) == 0;
}

void child_reap(struct child *child)
{
    siginfo_t info;

    while (waitid((idtype_t)P_PIDFD, (id_t)child->pidfd, &info, WEXITED) != 0 &&
           errno == EINTR)
        ;
    child->pid = 0;
    fd_close(&child->pidfd);
    close_passed(child);
}

void child_close_stream(struct child *child, unsigned stream)
{
    fd_close(&child->stream_fds[stream - 1]);
}

void child_signal(pid_t pid, int signo)
{
    kill(-pid, signo);
    if (getpgid(pid) != pid)
        kill(pid, signo);
}

/* ---- strangers ----------------------------------------------------------- */

static bool is_helper(const struct command *helper, pid_t pid)
{
    for (size_t i = 0; helper && i < helper->n_stuck; i++)
        if (helper->stuck[i] == pid)
            return true;
    return helper && helper->pid == pid;
}

static bool is_ours(const struct children *children, pid_t pid)
{
    for (const struct child *c = children->first; c; c = c->next)
        if (c->pid == pid)
            return true;
    return is_helper(children->helper, pid);
}

bool children_reap_strangers(const struct children *children)
{
    siginfo_t info = {0};

    /* one of ours in front hides those behind it until its pidfd was handled;
     * then this is called again */
    for (int n = 0; n < REAPED_MAX; n++) {
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0 || is_ours(children, info.si_pid) ||
            waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG) != 0)
            return false;
        info.si_pid = 0;
    }
    return true;
}

static void kill_one(void *arg, pid_t pid)
{
    (void)arg;
    kill(pid, SIGKILL);
}

/* False: nobody is left. */
static bool reap_all(void)
{
    siginfo_t info = {0};

    do {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) != 0)
            return errno != ECHILD;
    } while (info.si_pid != 0);
    return true;
}

bool children_kill_all(struct children *children, int timeout_ms)
{
    uint64_t deadline_us = clock_now_us() + (uint64_t)timeout_ms * 1000;
    bool left;

    for (struct child *c = children->first; c; c = c->next)
        if (c->pid > 0)
            kill(-c->pid, SIGKILL);
    /* orphans of orphans become ours as soon as their parents die: a few
     * rounds reach everybody */
    while ((left = reap_all()) && clock_now_us() < deadline_us) {
        orphans_visit(kill_one, NULL);
        poll(NULL, 0, KILL_ROUND_MS);
    }
    for (struct child *c = children->first; c; c = c->next) {
        c->pid = 0;
        fd_close(&c->pidfd); /* else it would stay readable */
    }
    return !left;
}
