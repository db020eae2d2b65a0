/* discovery/script.c - one run of the discovery script. See script.h.
 *
 *   script_start: fork -> own group, PDEATHSIG, stdout = pipe -> exec
 *   script_step:  read stdout; exited -> judge; deadline -> kill the group and
 *                 wait for the pidfd as for any other end, so long; then it is
 *                 left behind
 *
 * A run ends when the script itself has exited and what it wrote has been read:
 * a process that it left behind with the pipe open does not hold up the list.
 * If exec fails, the child writes errno to a pipe that a successful exec
 * closes.
 *
 * Memory: `output` grows to 4 MiB at most and is kept from run to run. */
#include "discovery/script.h"

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
#include "base/rlimits.h"
#include "base/signals.h"

#define WHO "--host-discovery-script: \"%s\""

enum {
    OUTPUT_MAX = 4 << 20,
    READ_STEP = 1 << 16,
    DEATH_US = 5000000,
    FINI_MS = 1000
};

hvd_status_t script_init(struct script *s, const char *path,
                         uint64_t timeout_us)
{
    struct stat st;

    *s = (struct script){.path = path,
                         .timeout_us = timeout_us,
                         .death_us = DEATH_US,
                         .epoll_fd = -1,
                         .pidfd = -1,
                         .out_fd = -1,
                         .error_fd = -1,
                         .deadline_us = CLOCK_NEVER};
    if (stat(path, &st) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return error_set(HVD_ERR_INVALID, WHO " does not exist", path);
        return error_set(HVD_ERR_INVALID, WHO ": %s", path, strerror(errno));
    }
    if (S_ISDIR(st.st_mode))
        return error_set(HVD_ERR_INVALID, WHO " is a directory", path);
    if (!S_ISREG(st.st_mode))
        return error_set(HVD_ERR_INVALID, WHO " is not a regular file", path);
    if (access(path, X_OK) != 0)
        return error_set(HVD_ERR_INVALID, WHO " is not executable", path);
    return HVD_OK;
}

/* ---- runs that cannot be killed ------------------------------------------ */

static void leave_behind(struct script *s)
{
    HVD_ASSERT(s->n_stuck < SCRIPT_STUCK_MAX);
    s->stuck[s->n_stuck++] = s->pid;
}

static void reap_stuck(struct script *s)
{
    for (size_t i = s->n_stuck; i-- > 0;)
        if (waitpid(s->stuck[i], NULL, WNOHANG) != 0)
            s->stuck[i] = s->stuck[--s->n_stuck];
}

static bool may_start(struct script *s)
{
    reap_stuck(s);
    if (s->n_stuck < SCRIPT_STUCK_MAX)
        return true;
    error_set(HVD_ERR_SYSTEM,
              WHO ": %zu runs of it cannot be killed -> none is started until "
                  "one has ended",
              s->path, s->n_stuck);
    return false;
}

/* ---- start -------------------------------------------------------------- */

/* In the child: only calls that are safe after fork. */
static void exec_script(const char *path, pid_t parent, int out, int error)
{
    char *argv[] = {(char *)(uintptr_t)path, NULL};
    char *sh_argv[] = {(char *)(uintptr_t) "/bin/sh", argv[0], NULL};
    int null = open("/dev/null", O_RDONLY);
    int saved;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it died before prctl */
        _exit(127);
    signals_reset();
    rlimits_restore();
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
        dup2(out, STDOUT_FILENO) >= 0) {
        if (null > STDERR_FILENO)
            close(null);
        execv(path, argv);
        if (errno == ENOEXEC) /* no #! line: as every shell does */
            execv(sh_argv[0], sh_argv);
    }
    saved = errno;
    if (write(error, &saved, sizeof(saved)) < 0)
        _exit(126);
    _exit(127);
}

static bool watch(int epoll_fd, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data = {.fd = fd}};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

static void end_run(struct script *s)
{
    fd_close(&s->epoll_fd);
    fd_close(&s->pidfd);
    fd_close(&s->out_fd);
    fd_close(&s->error_fd);
    s->running = false;
    s->pid = 0;
    s->deadline_us = CLOCK_NEVER;
}

static void kill_group(const struct script *s)
{
    kill(-s->pid, SIGKILL);
    kill(s->pid, SIGKILL); /* it may not have its group yet */
}

/* The parent's half: everything that must be there to watch the child. */
static bool watch_child(struct script *s)
{
    setpgid(s->pid, s->pid); /* either side may be first */
    s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0u);
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return s->pidfd >= 0 && s->epoll_fd >= 0 && watch(s->epoll_fd, s->pidfd) &&
           watch(s->epoll_fd, s->out_fd);
}

hvd_status_t script_start(struct script *s, uint64_t now_us)
{
    int out[2], err[2];
    pid_t parent = getpid();

    HVD_ASSERT(!s->running);
    if (!may_start(s))
        return HVD_ERR_SYSTEM;
    if (pipe2(out, O_CLOEXEC) != 0)
        return error_errno(WHO ": pipe", s->path);
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return error_errno(WHO ": pipe", s->path);
    }
    s->pid = fork();
    if (s->pid == 0)
        exec_script(s->path, parent, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    s->out_fd = out[0];
    s->error_fd = err[0];
    s->n_output = 0;
    s->eof = s->exited = s->killed = s->too_long = false;
    if (s->pid < 0 || fcntl(s->out_fd, F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(s->error_fd, F_SETFL, O_NONBLOCK) != 0 || !watch_child(s)) {
        hvd_status_t status = error_errno(WHO ": cannot start", s->path);

        if (s->pid > 0) {
            kill_group(s);
            leave_behind(s); /* until it is dead */
        }
        end_run(s);
        return status;
    }
    s->running = true;
    s->deadline_us = now_us + s->timeout_us;
    return HVD_OK;
}

void script_fini(struct script *s)
{
    struct pollfd end = {.fd = s->pidfd, .events = POLLIN};

    if (s->running && !s->exited) {
        kill_group(s);
        poll(&end, 1, FINI_MS);
        leave_behind(s);
    }
    reap_stuck(s);
    end_run(s);
    free(s->output);
    s->output = NULL;
    s->n_output = s->output_max = 0;
}

/* ---- step --------------------------------------------------------------- */

static void kill_run(struct script *s, uint64_t now_us)
{
    kill_group(s);
    s->killed = true;
    s->deadline_us = now_us + s->death_us; /* the pidfd tells of its end */
}

static void read_output(struct script *s, uint64_t now_us)
{
    while (!s->eof) {
        ssize_t n;

        if (s->n_output >= OUTPUT_MAX ||
            !array_reserve(&s->output, &s->output_max,
                           s->n_output + READ_STEP)) {
            s->too_long = true;
            kill_run(s, now_us);
            n = 0;
        } else {
            n = read(s->out_fd, s->output + s->n_output, READ_STEP);
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) { /* out of the epoll set: an end is readable for ever */
            s->eof = true;
            fd_close(&s->out_fd);
        } else {
            s->n_output += (size_t)n;
        }
    }
}

static void reap(struct script *s)
{
    pid_t pid = waitpid(s->pid, &s->wait_status, WNOHANG);

    if (pid == s->pid)
        s->exited = true;
}

/* How it ended, in words; HVD_OK: exit status 0. */
static hvd_status_t judge_end(struct script *s)
{
    int exec_errno;

    if (s->too_long)
        return error_set(HVD_ERR_INVALID, WHO " printed more than 4 MiB",
                         s->path);
    if (s->killed)
        return error_set(HVD_ERR_TIMEOUT, WHO " did not finish within %g s",
                         s->path, (double)s->timeout_us / 1e6);
    if (read(s->error_fd, &exec_errno, sizeof(exec_errno)) ==
        (ssize_t)sizeof(exec_errno))
        return error_set(HVD_ERR_INVALID, WHO " cannot be run: %s", s->path,
                         strerror(exec_errno));
    if (WIFSIGNALED(s->wait_status))
        return error_set(HVD_ERR_INVALID, WHO " was killed by signal %d (%s)",
                         s->path, WTERMSIG(s->wait_status),
                         strsignal(WTERMSIG(s->wait_status)));
    if (WEXITSTATUS(s->wait_status) != 0)
        return error_set(HVD_ERR_INVALID, WHO " exited with status %d", s->path,
                         WEXITSTATUS(s->wait_status));
    return HVD_OK;
}

/* It was killed, and has not ended: nobody waits for it any more. */
static hvd_status_t give_up(struct script *s)
{
    pid_t pid = s->pid;

    leave_behind(s);
    end_run(s);
    if (s->too_long)
        return error_set(HVD_ERR_INVALID,
                         WHO " printed more than 4 MiB and cannot be killed "
                             "-> process %d is left behind",
                         s->path, (int)pid);
    return error_set(HVD_ERR_TIMEOUT,
                     WHO " did not finish within %g s and cannot be killed -> "
                         "process %d is left behind",
                     s->path, (double)s->timeout_us / 1e6, (int)pid);
}

/* true: nobody waits for this run any more. */
static bool is_given_up(struct script *s, uint64_t now_us)
{
    if (now_us < s->deadline_us)
        return false;
    if (s->killed)
        return give_up(s) != HVD_OK;
    kill_run(s, now_us);
    return false;
}

enum script_result script_step(struct script *s, uint64_t now_us,
                               uint32_t default_slots, struct hosts *hosts)
{
    char sentence[HOSTS_ERROR_MAX];
    hvd_status_t status;

    HVD_ASSERT(s->running);
    reap(s); /* before reading: what it wrote before its end is then complete */
    read_output(s, now_us);
    if (!s->exited)
        return is_given_up(s, now_us) ? SCRIPT_FAILED : SCRIPT_RUNNING;
    status = judge_end(s);
    end_run(s);
    if (status != HVD_OK)
        return SCRIPT_FAILED;
    if (!hosts_parse(s->output ? s->output : "", s->n_output, HOSTS_LINES,
                     default_slots, hosts, sentence)) {
        error_set(HVD_ERR_INVALID, WHO ": %s", s->path, sentence);
        return SCRIPT_FAILED;
    }
    return SCRIPT_HOSTS;
}
