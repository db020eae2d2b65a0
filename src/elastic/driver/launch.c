/* elastic/driver/launch.c - the agents that this driver has started or adopted.
 * See launch.h. */
#include "elastic/driver/launch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/proc.h"
#include "base/text.h"
#include "elastic/driver/launch_client.h"
#include "elastic/driver/launch_groups.h"
#include "elastic/driver/launch_process.h"
#include "elastic/wire/handover.h"

enum {
    END_GRACE_US = 3000000,
    SILENT_US = 5000000, /* until one that has not come up is named */
    PLACES_MAX = 32,     /* clients that are on their way at once */
    EVENTS_MAX = 64
};

/* What an event of the epoll set is about: an agent, and of it: */
enum { OF_PROCESS, OF_STDERR, OF_REPORT, N_OF };

hvd_status_t launch_init(struct launch *l, const struct launch_config *config)
{
    *l = (struct launch){.config = *config, .due_us = CLOCK_NEVER};
    l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll_fd < 0)
        return error_errno("cannot watch agents");
    launch_paths_find(&l->paths, config->ops ? config->ops : &launch_ssh);
    l->config.paths = &l->paths;
    local_init(&l->local, LOCAL_HOSTS_FILE);
    return HVD_OK;
}

static struct launched *find(const struct launch *l, uint64_t agent)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].agent == agent)
            return &l->items[i];
    return NULL;
}

const struct launched *launch_find(const struct launch *l, uint64_t agent)
{
    return find(l, agent);
}

/* NULL: no memory, with the sentence. It counts with l->n. */
static struct launched *make_room(struct launch *l)
{
    if (array_reserve(&l->items, &l->max, l->n + 1))
        return &l->items[l->n];
    error_set(HVD_ERR_NOMEM, "no memory for another agent");
    return NULL;
}

static bool watch(const struct launch *l, uint64_t agent, int fd, int what)
{
    struct epoll_event ev = {.events = EPOLLIN,
                             .data.u64 = agent * N_OF + (uint64_t)what};

    return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static void forget(struct launch *l, struct launched *item)
{
    fd_close(&item->lifeline_fd);
    fd_close(&item->stderr_fd);
    fd_close(&item->report_fd);
    fd_close(&item->pidfd);
    array_free(&item->groups, &item->groups_max);
    free(item->words);
    *item = l->items[--l->n];
}

/* To be looked at with the next tick. */
static void soon(struct launch *l)
{
    l->due_us = 0;
}

bool launch_lives(const struct launch *l)
{
    for (size_t i = 0; i < l->n; i++) {
        struct pollfd fd = {.fd = l->items[i].pidfd, .events = POLLIN};

        if (fd.fd < 0 || poll(&fd, 1, 0) == 0)
            return true;
    }
    return l->n == 0;
}

/* ---- starting ------------------------------------------------------------ */

static const struct launch_ops *ops_for(const struct launch *l,
                                        const char *host)
{
    if (l->config.ops)
        return l->config.ops;
    return local_has(&l->local, host) ? &launch_local : &launch_ssh;
}

static hvd_status_t start(struct launch *l, struct launched *item)
{
    HVD_TRY(item->ops->start(&l->config, item));
    item->silent_us = clock_now_us() + SILENT_US;
    soon(l);
    item->started = proc_started(item->pid);
    if (watch(l, item->agent, item->pidfd, OF_PROCESS) &&
        watch(l, item->agent, item->report_fd, OF_REPORT) &&
        (item->stderr_fd < 0 ||
         watch(l, item->agent, item->stderr_fd, OF_STDERR)))
        return HVD_OK;
    (void)error_errno("cannot watch an agent");
    proc_signal(item->pidfd, SIGKILL);
    waitpid(item->pid, NULL, 0);
    fd_close(&item->pidfd);
    return HVD_ERR_SYSTEM;
}

hvd_status_t launch_start(struct launch *l, uint64_t agent, const char *host,
                          const char *user)
{
    struct launched *item = make_room(l);
    hvd_status_t status = HVD_OK;

    if (!item)
        return HVD_ERR_NOMEM;
    *item = (struct launched){.ops = ops_for(l, host),
                              .stage = LAUNCHED_RUNS,
                              .agent = agent,
                              .pidfd = -1,
                              .lifeline_fd = -1,
                              .stderr_fd = -1,
                              .report_fd = -1};
    snprintf(item->host, sizeof(item->host), "%s", host);
    snprintf(item->user, sizeof(item->user), "%s", user);
    l->n++;
    if (!item->ops->client) {
        status = start(l, item);
    } else {
        item->stage = LAUNCHED_WAITS;
        item->asked_us = clock_now_us();
        item->words = calloc(1, sizeof(*item->words));
        if (!item->words)
            status = error_set(HVD_ERR_NOMEM, "no memory for another agent");
        soon(l);
    }
    if (status != HVD_OK)
        forget(l, item);
    return status;
}

hvd_status_t launch_adopt(struct launch *l, uint64_t agent, pid_t pid,
                          uint64_t started)
{
    struct launched *item = make_room(l);
    int pidfd;

    if (!item)
        return HVD_ERR_NOMEM;
    pidfd = proc_open(pid, started);
    if (pidfd < 0)
        return HVD_PEER_LOST;
    *item = (struct launched){.ops = &launch_local,
                              .stage = LAUNCHED_RUNS,
                              .agent = agent,
                              .pid = pid,
                              .started = started,
                              .adopted = true,
                              .pidfd = pidfd,
                              .lifeline_fd = -1,
                              .stderr_fd = -1,
                              .report_fd = -1};
    l->n++;
    if (watch(l, agent, pidfd, OF_PROCESS))
        return HVD_OK;
    (void)error_errno("cannot watch an agent");
    forget(l, item);
    return HVD_ERR_SYSTEM;
}

hvd_status_t launch_adopt_far(struct launch *l, uint64_t agent,
                              const char *host)
{
    bool client = l->config.ops && l->config.ops->client;
    struct launched *item = make_room(l);

    if (!item)
        return HVD_ERR_NOMEM;
    *item = (struct launched){.ops = client ? l->config.ops : &launch_ssh,
                              .stage = LAUNCHED_RUNS,
                              .agent = agent,
                              .up = true,
                              .adopted = true,
                              .pidfd = -1,
                              .lifeline_fd = -1,
                              .stderr_fd = -1,
                              .report_fd = -1};
    snprintf(item->host, sizeof(item->host), "%s", host);
    l->n++;
    return HVD_OK;
}

/* ---- places -------------------------------------------------------------- */

static void is_over(struct launch *l, struct launched *item, const char *why)
{
    snprintf(item->words->last, sizeof(item->words->last), "%s", why);
    item->stage = LAUNCHED_IS_OVER;
    l->n_over++;
    soon(l);
}

static size_t count(const struct launch *l, enum launched_stage stage)
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        n += l->items[i].stage == stage;
    return n;
}

/* Who was asked for first. */
static struct launched *next_waiting(const struct launch *l)
{
    struct launched *first = NULL;

    for (size_t i = 0; i < l->n; i++)
        if (l->items[i].stage == LAUNCHED_WAITS &&
            (!first || l->items[i].agent < first->agent))
            first = &l->items[i];
    return first;
}

/* Of one that does not answer: so short that all who wait now have had their
 * turn when the first of them has waited for half of what it has to come up. */
static uint64_t place_time(const struct launch *l, const struct launched *first,
                           size_t n_waiting, uint64_t now_us)
{
    uint64_t by_us = first->asked_us + l->config.start_timeout_us / 2;
    uint64_t fair = by_us > now_us ? (by_us - now_us) * PLACES_MAX / n_waiting
                                   : 0;
    uint64_t full = launch_connect_time(&l->config);

    return fair < full ? fair : full;
}

static void start_waiting(struct launch *l, uint64_t now_us)
{
    size_t n_waiting = count(l, LAUNCHED_WAITS);
    size_t n_come = n_waiting > 0 ? count(l, LAUNCHED_COMES) : 0;

    for (; n_waiting > 0 && n_come < PLACES_MAX; n_waiting--) {
        struct launched *item = next_waiting(l);
        uint64_t place_us = place_time(l, item, n_waiting, now_us);

        if (start(l, item) != HVD_OK) {
            is_over(l, item, error_text());
            continue;
        }
        item->stage = LAUNCHED_COMES;
        item->place_us = now_us + place_us;
        if (item->place_us < l->due_us)
            l->due_us = item->place_us;
        n_come++;
    }
}

void launch_up(struct launch *l, uint64_t agent)
{
    struct launched *item = find(l, agent);

    if (!item || item->up)
        return;
    item->up = true;
    item->silent_us = 0;
    if (item->words) /* what was odd on the way is no reason for its end */
        *item->words = (struct words){0};
    if (item->stage == LAUNCHED_COMES) {
        item->stage = LAUNCHED_RUNS;
        soon(l);
    }
}

/* ---- what clients say ---------------------------------------------------- */

/* An agent that says too much is heard later. On the way to it a login may
 * print what it likes: a full pipe would keep it there. */
static void hear(struct launch *l, struct launched *item, uint64_t now_us)
{
    uint64_t wait_us;

    if (!item->words)
        return;
    (void)launch_client_hear(item, now_us);
    wait_us = item->up ? words_wait(item->words, now_us) : 0;
    if (wait_us == 0 || item->stderr_fd < 0)
        return;
    epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, item->stderr_fd, NULL);
    item->unheard_us = wait_us;
    if (wait_us < l->due_us)
        l->due_us = wait_us;
}

static void hear_again(struct launch *l, struct launched *item)
{
    item->unheard_us = 0;
    if (!watch(l, item->agent, item->stderr_fd, OF_STDERR))
        fd_close(&item->stderr_fd);
}

/* ---- ending -------------------------------------------------------------- */

/* The second but last word. Who outlives a driver is told by a signal. */
static void cut_lifeline(const struct launch *l, struct launched *item)
{
    if (l->config.job_dir && item->ops->same_machine)
        proc_signal(item->pidfd, SIGTERM);
    if (l->config.job_dir && item->lifeline_fd >= 0 && item->ops->client &&
        write(item->lifeline_fd, &(char){HANDOVER_STOP}, 1) < 0)
        log_debug("host %s: its %s has ended", item->host, item->ops->name);
    fd_close(&item->lifeline_fd);
}

/* Not only the client: a script in its place may have children. But srun has
 * one that ends what srun has started. */
static void kill_process(const struct launched *item)
{
    proc_signal(item->pidfd, SIGKILL);
    if (item->ops->client && !item->ops->shepherd && item->pid > 1)
        kill(-item->pid, SIGKILL);
}

/* At the other end of a client is an agent that its end alone does not end. */
static bool outlives(const struct launch *l, const struct launched *item)
{
    return l->config.job_dir && item->ops->client && item->up;
}

void launch_stop(struct launch *l, uint64_t agent, uint64_t deadline_us)
{
    struct launched *item = find(l, agent);

    if (!item || item->kill_us != 0)
        return;
    if (item->stage == LAUNCHED_WAITS) {
        is_over(l, item, "not needed any more");
        return;
    }
    if (item->ops->client && !item->up) { /* there is nobody to be asked */
        fd_close(&item->lifeline_fd);
        kill_process(item);
    }
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

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return b != 0 && b < a ? b : a;
}

static void name_silent(struct launch *l, struct launched *item)
{
    const char *last = item->words ? item->words->last : "";

    item->silent_us = 0;
    log_warn("host %s: nothing from its agent for %d s -> it has %g s in all "
             "(--start-timeout)%s%s",
             item->host, SILENT_US / 1000000,
             (double)l->config.start_timeout_us / 1e6,
             *last ? "; last words: " : "", last);
}

/* When something of it is due. */
static uint64_t tick(struct launch *l, struct launched *item, uint64_t now_us)
{
    uint64_t due_us = CLOCK_NEVER;

    if (item->stage == LAUNCHED_IS_OVER)
        return now_us; /* to be told */
    if (item->kill_us != 0 && now_us >= item->kill_us) {
        if (item->cut)
            kill_process(item);
        else
            cut_lifeline(l, item);
        item->cut = true;
        item->kill_us = now_us + END_GRACE_US;
    }
    if (item->silent_us != 0 && item->kill_us != 0)
        item->silent_us = 0;
    if (item->silent_us != 0 && now_us >= item->silent_us)
        name_silent(l, item);
    if (item->unheard_us != 0 && now_us >= item->unheard_us)
        hear_again(l, item);
    if (item->stage == LAUNCHED_COMES && now_us >= item->place_us)
        item->stage = LAUNCHED_RUNS;
    if (item->stage == LAUNCHED_COMES)
        due_us = item->place_us;
    due_us = earliest(earliest(due_us, item->kill_us), item->unheard_us);
    return earliest(due_us, item->silent_us);
}

uint64_t launch_tick(struct launch *l, uint64_t now_us)
{
    if (now_us < l->due_us)
        return l->due_us;
    l->due_us = CLOCK_NEVER;
    for (size_t i = 0; i < l->n; i++)
        l->due_us = earliest(l->due_us, tick(l, &l->items[i], now_us));
    start_waiting(l, now_us);
    return l->due_us;
}

/* ---- workers' process groups --------------------------------------------- */

void launch_spawned(struct launch *l, uint64_t agent, int64_t pid)
{
    struct launched *item = find(l, agent);

    if (item && item->ops->same_machine && pid > 1 && pid <= INT32_MAX)
        launch_groups_add(item, (pid_t)pid);
}

void launch_exited(struct launch *l, uint64_t agent, int64_t pid)
{
    struct launched *item = find(l, agent);

    if (item)
        launch_groups_remove(item, (pid_t)pid);
}

void launch_kill(struct launch *l, uint64_t agent)
{
    struct launched *item = find(l, agent);

    if (!item)
        return;
    if (!item->up && item->words && item->words->last[0])
        log_warn("host %s: %s", item->host, item->words->last);
    if (item->pidfd < 0) { /* nobody waits for it any more */
        l->n_over -= item->stage == LAUNCHED_IS_OVER;
        forget(l, item);
        return;
    }
    cut_lifeline(l, item);
    if (!outlives(l, item)) /* else the word has to get there */
        kill_process(item);
    launch_groups_kill(item);
    item->cut = true; /* it is not asked about any more */
    item->kill_us = clock_now_us() + END_GRACE_US;
}

/* ---- ends ---------------------------------------------------------------- */

static void describe_exit(const struct launched *item, const siginfo_t *info,
                          char *how, size_t how_max)
{
    const char *what = item->ops->client && !item->up ? item->ops->name : "";
    struct text t = text_into(how, how_max);

    text_add(&t, what);
    text_add(&t, *what ? " " : "");
    if (info->si_code == CLD_EXITED) {
        text_add(&t, "exited with status ");
        text_u64(&t, (uint64_t)info->si_status);
    } else {
        text_killed(&t, info->si_status);
    }
}

/* The report pipe closes by itself when execve(2) succeeds. */
static void hear_report(struct launched *item)
{
    struct program_failure failure;
    ssize_t n = item->report_fd < 0
                    ? 0
                    : read(item->report_fd, &failure, sizeof(failure));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n == (ssize_t)sizeof(failure))
        item->failure = failure;
    fd_close(&item->report_fd);
}

/* What a client has said last is why it has ended. */
static void describe(const struct launched *item, const siginfo_t *info,
                     char *how, size_t how_max)
{
    const char *last = item->words ? item->words->last : "";
    char exit[128];

    describe_exit(item, info, exit, sizeof(exit));
    if (item->failure.error != 0)
        snprintf(how, how_max, "could not be started: cannot execute %s: %s",
                 item->ops->client ? item->ops->name : "hvd-agent",
                 program_why(&item->failure));
    else if (!item->ops->client)
        snprintf(how, how_max, "%s", exit);
    else if (!item->up)
        snprintf(how, how_max, "could not be started: %s%s",
                 *last ? last : exit, words_hint(last));
    else
        snprintf(how, how_max, *last ? "%s: %s" : "%s", exit, last);
}

static bool has_ended(struct launched *item, char *how, size_t how_max)
{
    struct pollfd fd = {.fd = item->pidfd, .events = POLLIN};
    siginfo_t info = {0};

    if (item->adopted) { /* how is its parent's to know */
        snprintf(how, how_max, "has ended");
        return poll(&fd, 1, 0) > 0;
    }
    if (waitid(P_PID, (id_t)item->pid, &info, WEXITED | WNOHANG | WNOWAIT) <
            0 ||
        info.si_pid == 0)
        return false;
    if (item->ops->client) /* while the number is still its own */
        kill_process(item);
    if (waitid(P_PID, (id_t)item->pid, &info, WEXITED | WNOHANG) < 0)
        return false;
    launch_client_hear_last(item);
    hear_report(item);
    describe(item, &info, how, how_max);
    return true;
}

/* A client's connection may break where its agent is still heard, by another
 * network say. What a shepherd has started ends with it. */
static bool may_live_on(const struct launched *item)
{
    return item->ops->client && !item->ops->shepherd && item->up &&
           item->kill_us == 0;
}

static void let_go_of_client(struct launched *item)
{
    fd_close(&item->lifeline_fd);
    fd_close(&item->stderr_fd);
    fd_close(&item->report_fd);
    fd_close(&item->pidfd);
    item->pid = 0;
    item->unheard_us = 0;
}

/* False: it has not ended. */
static bool reap(struct launch *l, struct launched *item,
                 struct launch_end *end)
{
    end->agent = item->agent;
    if (!has_ended(item, end->how, sizeof(end->how)))
        return false;
    end->client = may_live_on(item);
    if (end->client) {
        let_go_of_client(item);
        return true;
    }
    if (item->stage == LAUNCHED_COMES)
        soon(l);
    launch_groups_kill(item);
    forget(l, item);
    return true;
}

static size_t tell_over(struct launch *l, struct launch_end *ends, size_t max)
{
    size_t n = 0;

    for (size_t i = l->n; i-- > 0 && n < max;) {
        struct launched *item = &l->items[i];

        if (item->stage != LAUNCHED_IS_OVER)
            continue;
        ends[n].agent = item->agent;
        ends[n].client = false;
        snprintf(ends[n].how, sizeof(ends[n].how), "could not be started: %s",
                 item->words->last);
        n++;
        l->n_over--;
        forget(l, item);
    }
    return n;
}

size_t launch_ended(struct launch *l, struct launch_end *ends, size_t max)
{
    struct epoll_event events[EVENTS_MAX];
    size_t n = l->n_over > 0 ? tell_over(l, ends, max) : 0;
    int most = max - n < EVENTS_MAX ? (int)(max - n) : EVENTS_MAX;
    int n_events = most > 0 ? epoll_wait(l->epoll_fd, events, most, 0) : 0;
    uint64_t now_us = clock_now_us();

    for (int i = 0; i < n_events; i++) {
        struct launched *item = find(l, events[i].data.u64 / N_OF);

        if (item && events[i].data.u64 % N_OF == OF_STDERR)
            hear(l, item, now_us);
        else if (item && events[i].data.u64 % N_OF == OF_REPORT)
            hear_report(item);
        else if (item && reap(l, item, &ends[n]))
            n++;
    }
    return n;
}

static void wait_one(struct launch *l, uint64_t deadline_us)
{
    struct launched *item = &l->items[0];
    struct pollfd fd = {.fd = item->pidfd, .events = POLLIN};
    struct launch_end end;

    if (item->pidfd < 0) {
        forget(l, item);
        return;
    }
    if (poll(&fd, 1, clock_poll_ms(clock_now_us(), deadline_us)) <= 0)
        kill_process(item); /* its death is waited for below */
    poll(&fd, 1, 1000);
    if (reap(l, item, &end))
        return;
    launch_groups_kill(item); /* unkillable: the kernel's business */
    forget(l, item);
}

static void fini(struct launch *l)
{
    free(l->items);
    local_fini(&l->local);
    if (l->epoll_fd > 0)
        close(l->epoll_fd);
    *l = (struct launch){0};
}

void launch_fini(struct launch *l)
{
    uint64_t deadline_us = clock_now_us() + END_GRACE_US;

    for (size_t i = 0; i < l->n; i++)
        cut_lifeline(l, &l->items[i]);
    while (l->n > 0)
        wait_one(l, deadline_us);
    fini(l);
}

void launch_abandon(struct launch *l)
{
    while (l->n > 0)
        forget(l, &l->items[l->n - 1]);
    fini(l);
}
