/* elastic/agent/loop_children.c - what happens to workers: started, dying,
 * exited. See loop_internal.h.
 *
 * Threads: the loop's. Memory: none of its own. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "elastic/agent/loop_internal.h"

enum {
    PIPE_LINGER_US = 1000000 /* pipes of a dead worker that somebody who left
                                 its group keeps open */
};

/* ---- begin --------------------------------------------------------------- */

static bool watch_child(struct loop *l, const struct child *child)
{
    return loop_watch(l, child->pidfd, KIND_PIDFD, child->worker) &&
           loop_watch(l, child->report_fd, KIND_REPORT, child->worker) &&
           loop_watch(l, child->stream_fds[0], KIND_STDOUT, child->worker) &&
           loop_watch(l, child->stream_fds[1], KIND_STDERR, child->worker);
}

static void start_failed(struct loop *l, uint64_t worker,
                         const struct program_failure *why, const char *what,
                         const char *name)
{
    char text[WIRE_TEXT_MAX];
    struct agent_event ev = {.type = AGENT_EV_START_FAILED,
                             .worker = worker,
                             .error = why->error,
                             .text = text};

    snprintf(text, sizeof(text), "cannot %s \"%s\": %s", what, name,
             program_why(why));
    log_debug("worker %" PRIu64 ": %s", worker, text);
    loop_feed(l, &ev);
}

void loop_start(struct loop *l, const struct msg_spawn *spawn)
{
    struct agent_event ev = {.type = AGENT_EV_FORKED, .worker = spawn->worker};
    struct program_failure failure = {.error = ENOMEM};
    struct child *child;

    if (!orphans_add(l->orphans, spawn->worker) ||
        children_start(&l->children, &l->site, spawn, &child, &failure.error) !=
            HVD_OK) {
        orphans_end(l->orphans, spawn->worker);
        start_failed(l, spawn->worker, &failure, "start",
                     spawn->argv.nbytes > 0 ? spawn->argv.data : "");
        return;
    }
    if (child->robust &&
        !deaths_watch(l->deaths, child->worker, child->pid, child->robust))
        log_debug("worker %" PRIu64 ": its exit alone will tell of its death",
                  child->worker);
    child->robust = NULL;
    if (!watch_child(l, child)) {
        failure.error = errno;
        deaths_forget(l->deaths, child->worker);
        kill(-child->pid, SIGKILL);
        child_reap(child);
        children_remove(&l->children, child);
        orphans_end(l->orphans, spawn->worker);
        start_failed(l, spawn->worker, &failure, "watch", spawn->argv.data);
        return;
    }
    ev.pid = child->pid;
    loop_feed(l, &ev);
}

/* ---- end ----------------------------------------------------------------- */

/* What has ended may have left orphans of its own. */
void loop_reap(struct loop *l)
{
    l->reaping = children_reap_strangers(&l->children);
    orphans_look(l->orphans, clock_now_us());
}

void loop_on_report(struct loop *l, struct child *child)
{
    struct agent_event ev = {.type = AGENT_EV_STARTED, .worker = child->worker};
    bool in_chdir = false;
    struct program_failure failure;

    switch (spawn_result(child->report_fd, &failure, &in_chdir)) {
    case SPAWN_PENDING:
        return;
    case SPAWN_RUNS:
        loop_feed(l, &ev);
        break;
    case SPAWN_FAILED:
        child->failed = true;
        start_failed(l, child->worker, &failure, in_chdir ? "enter" : "execute",
                     in_chdir ? child->cwd : child->program);
        break;
    }
    close(child->report_fd);
    child->report_fd = -1;
}

/* The kernel has yet to free the memory of these workers, but the others wait
 * for the news: it is told with as much as is known of the exit. */
void loop_on_deaths(struct loop *l)
{
    struct agent_event ev = {.type = AGENT_EV_DYING};
    struct death death;
    struct child_exit status;
    struct child *child;

    while (deaths_next(l->deaths, &death)) {
        child = children_find(&l->children, death.worker);
        if (!child || child->pid == 0)
            continue;
        if (child->report_fd >= 0)
            loop_on_report(l, child);
        child_ends(child, &status);
        ev.worker = child->worker;
        ev.code = status.code;
        ev.signal = status.signal;
        ev.core = status.core;
        ev.direct = death.direct;
        ev.gone = status.code == EXIT_UNKNOWN && child_is_bereft(child);
        if (!child->failed)
            loop_feed(l, &ev);
    }
}

void loop_on_pidfd(struct loop *l, struct child *child)
{
    struct agent_event ev = {.type = AGENT_EV_EXITED, .worker = child->worker};
    struct child_exit status;

    if (!child_exited(child, &status))
        return;
    if (child->report_fd >= 0)
        loop_on_report(l, child);
    if (!child->failed) {
        ev.code = status.code;
        ev.signal = status.signal;
        ev.core = status.core;
        loop_feed(l, &ev);
    }
    deaths_forget(l->deaths, child->worker);
    if (child->pid > 0) /* else the core has ended and all were reaped */
        child_reap(child);
    if (!l->ended)
        child->linger_us = clock_now_us() + PIPE_LINGER_US;
    orphans_end(l->orphans, child->worker);
    loop_reap(l);
}

void loop_watch_deaths(struct loop *l)
{
    l->deaths = deaths_create(false);
    if (l->deaths && !loop_watch(l, deaths_fd(l->deaths), KIND_DEATHS, 0)) {
        deaths_destroy(l->deaths);
        l->deaths = NULL;
    }
    if (!l->deaths)
        log_warn("deaths are noticed when the kernel has freed the memory of "
                 "a worker, not before");
}
