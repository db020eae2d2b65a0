/* elastic/driver/launch.c - the agents that this driver has started or adopted.
 * See launch.h. */
#include "elastic/driver/launch.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"

enum { END_GRACE_US = 3000000 };

void launch_init(struct launch *l, const struct launch_ops *ops,
                 const struct launch_config *config)
{
    *l = (struct launch){.ops = ops, .config = *config, .due_us = CLOCK_NEVER};
}

hvd_status_t launch_start(struct launch *l, uint64_t agent, const char *host,
                          int *pidfd_p)
{
    struct launched *item;

    if (!array_reserve(&l->items, &l->max, l->n + 1))
        return error_set(HVD_ERR_NOMEM, "no memory for another agent");
    item = &l->items[l->n];
    HVD_TRY(l->ops->start(&l->config, agent, host, item));
    item->started = proc_started(item->pid);
    l->n++;
    *pidfd_p = item->pidfd;
    return HVD_OK;
}

static struct launched *find(struct launch *l, uint64_t agent)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].agent == agent)
            return &l->items[i];
    return NULL;
}

const struct launched *launch_find(const struct launch *l, uint64_t agent)
{
    return find((struct launch *)(uintptr_t)l, agent);
}

hvd_status_t launch_adopt(struct launch *l, uint64_t agent, pid_t pid,
                          uint64_t started, int *pidfd_p)
{
    int pidfd;

    if (!array_reserve(&l->items, &l->max, l->n + 1))
        return error_set(HVD_ERR_NOMEM, "no memory for another agent");
    pidfd = proc_open(pid, started);
    if (pidfd < 0)
        return HVD_PEER_LOST;
    l->items[l->n++] = (struct launched){.agent = agent,
                                         .pid = pid,
                                         .started = started,
                                         .adopted = true,
                                         .pidfd = pidfd,
                                         .lifeline_fd = -1};
    *pidfd_p = pidfd;
    return HVD_OK;
}

/* The second but last word. Who outlives a driver is told by a signal. */
static void cut_lifeline(const struct launch *l, struct launched *item)
{
    if (l->config.job_dir)
        proc_signal(item->pidfd, SIGTERM);
    fd_close(&item->lifeline_fd);
}

void launch_stop(struct launch *l, uint64_t agent, uint64_t deadline_us)
{
    struct launched *item = find(l, agent);

    if (!item || item->kill_us != 0)
        return;
    item->kill_us = deadline_us;
    if (deadline_us < l->due_us)
        l->due_us = deadline_us;
}

void launch_postpone(struct launch *l, uint64_t agent, uint64_t deadline_us)
{
    for (size_t i = 0; i < l->n; i++) {
        struct launched *item = &l->items[i];

        if (item->agent == agent && !item->cut && item->kill_us != 0 &&
            item->kill_us < deadline_us)
            item->kill_us = deadline_us;
    }
}

uint64_t launch_tick(struct launch *l, uint64_t now_us)
{
    if (now_us < l->due_us)
        return l->due_us;
    l->due_us = CLOCK_NEVER;
    for (size_t i = 0; i < l->n; i++) {
        struct launched *item = &l->items[i];

        if (item->kill_us != 0 && now_us >= item->kill_us) {
            if (item->cut)
                proc_signal(item->pidfd, SIGKILL);
            else
                cut_lifeline(l, item);
            item->cut = true;
            item->kill_us = now_us + END_GRACE_US;
        }
        if (item->kill_us != 0 && item->kill_us < l->due_us)
            l->due_us = item->kill_us;
    }
    return l->due_us;
}

/* ---- workers' process groups --------------------------------------------- */

void launch_spawned(struct launch *l, uint64_t agent, int64_t pid)
{
    struct launched *item = find(l, agent);

    if (!item || !l->ops->same_machine || pid <= 1 || pid > INT32_MAX)
        return;
    launch_exited(l, agent, pid); /* it may be told twice */
    /* without memory for it, only what a worker forks may outlive its agent */
    if (array_reserve(&item->groups, &item->groups_max, item->n_groups + 1))
        item->groups[item->n_groups++] = (struct launched_group){
            (pid_t)pid, proc_started((pid_t)pid)};
}

void launch_exited(struct launch *l, uint64_t agent, int64_t pid)
{
    struct launched *item = find(l, agent);

    for (size_t i = item ? item->n_groups : 0; i-- > 0;)
        if (item->groups[i].pid == (pid_t)pid)
            item->groups[i] = item->groups[--item->n_groups];
}

/* A number is not used anew while anybody is left in its group; but nobody may
 * be left, and we may hear of it late. When the worker began is not known if it
 * had ended before: of what agents of another driver have told us that may be
 * long ago. */
static bool is_its_own(const struct launched *item,
                       const struct launched_group *group)
{
    uint64_t now;

    if (group->started == 0)
        return !item->adopted;
    now = proc_started(group->pid);
    return now == 0 || now == group->started;
}

static void kill_groups(struct launched *item)
{
    for (size_t i = 0; i < item->n_groups; i++)
        if (is_its_own(item, &item->groups[i]))
            kill(-item->groups[i].pid, SIGKILL);
    array_free(&item->groups, &item->groups_max);
    item->n_groups = 0;
}

void launch_kill(struct launch *l, uint64_t agent)
{
    struct launched *item = find(l, agent);

    if (!item)
        return;
    proc_signal(item->pidfd, SIGKILL);
    kill_groups(item);
    fd_close(&item->lifeline_fd);
}

static void describe(const siginfo_t *info, char *how, size_t how_max)
{
    if (info->si_code == CLD_EXITED)
        snprintf(how, how_max, "exited with status %d", info->si_status);
    else
        snprintf(how, how_max, "was killed by signal %d", info->si_status);
}

static bool has_ended(const struct launched *item, char *how, size_t how_max)
{
    struct pollfd fd = {.fd = item->pidfd, .events = POLLIN};
    siginfo_t info = {0};

    if (item->adopted) { /* how is its parent's to know */
        snprintf(how, how_max, "has ended");
        return poll(&fd, 1, 0) > 0;
    }
    if (waitid(P_PID, (id_t)item->pid, &info, WEXITED | WNOHANG) < 0 ||
        info.si_pid == 0)
        return false;
    describe(&info, how, how_max);
    return true;
}

/* Reap items[i] if it has ended. */
static uint64_t reap(struct launch *l, size_t i, char *how, size_t how_max)
{
    struct launched *item = &l->items[i];
    uint64_t agent = item->agent;

    if (!has_ended(item, how, how_max))
        return 0;
    kill_groups(item);
    fd_close(&item->lifeline_fd);
    close(item->pidfd);
    *item = l->items[--l->n];
    return agent;
}

uint64_t launch_reap(struct launch *l, int pidfd, char *how, size_t how_max)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].pidfd == pidfd)
            return reap(l, i, how, how_max);
    return 0;
}

static void wait_one(struct launch *l, uint64_t deadline_us)
{
    struct pollfd fd = {.fd = l->items[0].pidfd, .events = POLLIN};
    char how[64];

    if (poll(&fd, 1, clock_poll_ms(clock_now_us(), deadline_us)) <= 0)
        proc_signal(fd.fd, SIGKILL); /* its death is waited for below */
    poll(&fd, 1, 1000);
    if (reap(l, 0, how, sizeof(how)) != 0)
        return;
    kill_groups(&l->items[0]); /* unkillable: the kernel's business */
    l->items[0] = l->items[--l->n];
}

void launch_fini(struct launch *l)
{
    uint64_t deadline_us = clock_now_us() + END_GRACE_US;

    for (size_t i = 0; i < l->n; i++)
        cut_lifeline(l, &l->items[i]);
    while (l->n > 0)
        wait_one(l, deadline_us);
    free(l->items);
    *l = (struct launch){0};
}

void launch_abandon(struct launch *l)
{
    for (size_t i = 0; i < l->n; i++) {
        fd_close(&l->items[i].pidfd);
        fd_close(&l->items[i].lifeline_fd);
        array_free(&l->items[i].groups, &l->items[i].groups_max);
    }
    free(l->items);
    *l = (struct launch){0};
}
