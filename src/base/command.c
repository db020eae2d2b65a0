/* base/command.c - one run of somebody's program. See command.h.
 *
 *   command_start: fork -> own group, PDEATHSIG, stdout = pipe -> exec
 *   command_step:  read stdout; exited -> judge; deadline -> kill the group and
 *                 wait for the pidfd as for any other end, so long; then it is
 *                 left behind
 *
 * A run ends when the program itself has exited and what it wrote has been
 * read: a process that it left behind with the pipe open holds nothing up. If
 * exec fails, the child writes why to a pipe that a successful exec closes.
 *
 * Memory: `output` grows to 4 MiB at most and is kept from run to run. */
#include "base/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/inherited.h"
#include "base/log.h"
#include "base/program.h"
#include "base/text.h"

#define WHO "%s: \"%s\""

enum {
    OUTPUT_MAX = 4 << 20,
    READ_STEP = 1 << 16,
    DEATH_US = 5000000,
    WORDS_READS = 16,
    FINI_MS = 1000
};

hvd_status_t command_init(struct command *c, const char *who, const char *path,
                          uint64_t timeout_us)
{
    struct stat st;

    *c = (struct command){.who = who,
                          .path = path,
                          .timeout_us = timeout_us,
                          .death_us = DEATH_US,
                          .epoll_fd = -1,
                          .pidfd = -1,
                          .out_fd = -1,
                          .words_fds = {-1, -1},
                          .error_fd = -1,
                          .deadline_us = CLOCK_NEVER};
    if (stat(path, &st) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return error_set(HVD_ERR_INVALID, WHO " does not exist", who, path);
        return error_set(HVD_ERR_INVALID, WHO ": %s", who, path,
                         strerror(errno));
    }
    if (S_ISDIR(st.st_mode))
        return error_set(HVD_ERR_INVALID, WHO " is a directory", who, path);
    if (!S_ISREG(st.st_mode))
        return error_set(HVD_ERR_INVALID, WHO " is not a regular file", who,
                         path);
    if (access(path, X_OK) != 0)
        return error_set(HVD_ERR_INVALID, WHO " is not executable", who, path);
    return HVD_OK;
}

/* ---- runs that cannot be killed ------------------------------------------ */

static void leave_behind(struct command *c)
{
    HVD_ASSERT(c->n_stuck < COMMAND_STUCK_MAX);
    c->stuck[c->n_stuck++] = c->pid;
}

static void reap_stuck(struct command *c)
{
    for (size_t i = c->n_stuck; i-- > 0;)
        if (waitpid(c->stuck[i], NULL, WNOHANG) != 0)
            c->stuck[i] = c->stuck[--c->n_stuck];
}

static bool may_start(struct command *c)
{
    reap_stuck(c);
    if (c->n_stuck < COMMAND_STUCK_MAX)
        return true;
    error_set(HVD_ERR_SYSTEM,
              WHO ": %zu runs of it cannot be killed -> none is started until "
                  "one has ended",
              c->who, c->path, c->n_stuck);
    return false;
}

/* ---- start -------------------------------------------------------------- */

/* In the child: only calls that are safe after fork. */
static void exec_command(const struct command *c, pid_t parent, int out,
                         int error)
{
    char *sh_argv[] = {(char *)(uintptr_t) "/bin/sh",
                       (char *)(uintptr_t)c->path, NULL};
    struct program_failure failure = {0};
    int null = open("/dev/null", O_RDONLY);

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before prctl */
        _exit(127);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
        dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(c->words_fds[1], STDERR_FILENO) >= 0) {
        if (null > STDERR_FILENO)
            close(null);
        inherited_restore();
        program_exec(c->path, sh_argv, environ, &failure);
    } else {
        failure.error = errno;
    }
    if (write(error, &failure, sizeof(failure)) < 0)
        _exit(126);
    _exit(127);
}

static bool watch(int epoll_fd, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data = {.fd = fd}};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static void end_run(struct command *c)
{
    fd_close(&c->epoll_fd);
    fd_close(&c->pidfd);
    fd_close(&c->out_fd);
    fd_close(&c->error_fd);
    c->running = false;
    c->pid = 0;
    c->deadline_us = CLOCK_NEVER;
}

static void kill_group(const struct command *c)
{
    kill(-c->pid, SIGKILL);
    kill(c->pid, SIGKILL); /* it may not have its group yet */
}

/* The parent's half: everything that must be there to watch the child. */
static bool watch_child(struct command *c)
{
    setpgid(c->pid, c->pid); /* either side may be first */
    c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0u);
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return c->pidfd >= 0 && c->epoll_fd >= 0 && watch(c->epoll_fd, c->pidfd) &&
           watch(c->epoll_fd, c->out_fd) && watch(c->epoll_fd, c->words_fds[0]);
}

hvd_status_t command_start(struct command *c, uint64_t now_us)
{
    int out[2], err[2];
    pid_t parent = getpid();

    HVD_ASSERT(!c->running);
    if (!may_start(c))
        return HVD_ERR_SYSTEM;
    if (c->words_fds[0] < 0 && pipe2(c->words_fds, O_CLOEXEC) != 0)
        return error_errno(WHO ": pipe", c->who, c->path);
    if (pipe2(out, O_CLOEXEC) != 0)
        return error_errno(WHO ": pipe", c->who, c->path);
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return error_errno(WHO ": pipe", c->who, c->path);
    }
    c->pid = fork();
    if (c->pid == 0)
        exec_command(c, parent, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    c->out_fd = out[0];
    c->error_fd = err[0];
    c->n_output = 0;
    c->wait_status = 0;
    c->eof = c->exited = c->killed = c->too_long = false;
    if (c->pid < 0 || fcntl(c->out_fd, F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(c->error_fd, F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(c->words_fds[0], F_SETFL, O_NONBLOCK) != 0 || !watch_child(c)) {
        hvd_status_t status = error_errno(WHO ": cannot start", c->who,
                                          c->path);

        if (c->pid > 0) {
            kill_group(c);
            leave_behind(c); /* until it is dead */
        }
        end_run(c);
        return status;
    }
    c->running = true;
    c->deadline_us = now_us + c->timeout_us;
    return HVD_OK;
}

void command_fini(struct command *c)
{
    struct pollfd end = {.fd = c->pidfd, .events = POLLIN};

    if (c->running && !c->exited) {
        kill_group(c);
        poll(&end, 1, FINI_MS);
        leave_behind(c);
    }
    reap_stuck(c);
    end_run(c);
    fd_close(&c->words_fds[0]);
    fd_close(&c->words_fds[1]);
    free(c->output);
    c->output = NULL;
    c->n_output = c->output_max = 0;
}

/* ---- step --------------------------------------------------------------- */

static void kill_run(struct command *c, uint64_t now_us)
{
    kill_group(c);
    c->killed = true;
    c->deadline_us = now_us + c->death_us; /* the pidfd tells of its end */
}

static void read_output(struct command *c, uint64_t now_us)
{
    while (!c->eof) {
        ssize_t n;

        if (c->n_output >= OUTPUT_MAX ||
            !array_reserve(&c->output, &c->output_max,
                           c->n_output + READ_STEP)) {
            c->too_long = true;
            kill_run(c, now_us);
            n = 0;
        } else {
            n = read(c->out_fd, c->output + c->n_output, READ_STEP);
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) { /* out of the epoll set: an end is readable for ever */
            c->eof = true;
            fd_close(&c->out_fd);
        } else {
            c->n_output += (size_t)n;
        }
    }
}

static void tell(void *arg, const char *line)
{
    const struct command *c = arg;

    log_warn("%s: %s", c->who, line);
}

/* No more than this at a time: others are waiting. */
static void read_words(struct command *c, uint64_t now_us)
{
    char some[4096];
    ssize_t n = 1;

    for (int i = 0; i < WORDS_READS && n > 0; i++) {
        n = read(c->words_fds[0], some, sizeof(some));
        if (n > 0)
            words_feed(&c->words, some, (size_t)n, now_us, tell, c);
    }
    if (c->exited)
        words_end(&c->words, tell, c);
}

static void reap(struct command *c)
{
    pid_t pid = waitpid(c->pid, &c->wait_status, WNOHANG);

    if (pid == c->pid)
        c->exited = true;
}

static hvd_status_t killed_by(const struct command *c, int signo)
{
    char how[128];
    struct text t = text_into(how, sizeof(how));

    text_killed(&t, signo);
    return error_set(HVD_ERR_INVALID, WHO " %s", c->who, c->path, how);
}

/* How it ended, in words; HVD_OK: exit status 0. */
static hvd_status_t judge_end(struct command *c)
{
    struct program_failure failure;

    if (c->too_long)
        return error_set(HVD_ERR_INVALID, WHO " printed more than 4 MiB",
                         c->who, c->path);
    if (c->killed)
        return error_set(HVD_ERR_TIMEOUT, WHO " did not finish within %g s",
                         c->who, c->path, (double)c->timeout_us / 1e6);
    if (read(c->error_fd, &failure, sizeof(failure)) ==
        (ssize_t)sizeof(failure))
        return error_set(HVD_ERR_INVALID, WHO " cannot be run: %s", c->who,
                         c->path, program_why(&failure));
    if (WIFSIGNALED(c->wait_status))
        return killed_by(c, WTERMSIG(c->wait_status));
    if (WEXITSTATUS(c->wait_status) != 0)
        return error_set(HVD_ERR_INVALID, WHO " exited with status %d", c->who,
                         c->path, WEXITSTATUS(c->wait_status));
    return HVD_OK;
}

/* It was killed, and has not ended: nobody waits for it any more. */
static hvd_status_t give_up(struct command *c)
{
    pid_t pid = c->pid;

    leave_behind(c);
    end_run(c);
    if (c->too_long)
        return error_set(HVD_ERR_INVALID,
                         WHO " printed more than 4 MiB and cannot be killed "
                             "-> process %d is left behind",
                         c->who, c->path, (int)pid);
    return error_set(HVD_ERR_TIMEOUT,
                     WHO " did not finish within %g s and cannot be killed -> "
                         "process %d is left behind",
                     c->who, c->path, (double)c->timeout_us / 1e6, (int)pid);
}

/* true: nobody waits for this run any more. */
static bool is_given_up(struct command *c, uint64_t now_us)
{
    if (now_us < c->deadline_us)
        return false;
    if (c->killed)
        return give_up(c) != HVD_OK;
    kill_run(c, now_us);
    return false;
}

enum command_result command_step(struct command *c, uint64_t now_us)
{
    hvd_status_t status;

    HVD_ASSERT(c->running);
    reap(c); /* before reading: what it wrote before its end is then complete */
    read_output(c, now_us);
    read_words(c, now_us);
    if (!c->exited)
        return is_given_up(c, now_us) ? COMMAND_FAILED : COMMAND_RUNNING;
    status = judge_end(c);
    end_run(c);
    return status == HVD_OK ? COMMAND_DONE : COMMAND_FAILED;
}
