/* elastic/driver/launch_process.c - see launch_process.h.
 *
 * A child is made by fork(2), and nobody waits for its execve(2): a scanner or
 * a file server may take seconds for it, and the loop has others to hear.
 * (vfork(2), which copies no page tables, would wait.) The child reports by a
 * pipe if it fails. Between fork and exec only async-signal-safe calls:
 * everything is put together before. */
#include "elastic/driver/launch_process.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/inherited.h"

/* ---- where the agent lies ------------------------------------------------ */

/* self [PATH_MAX] */
static char *own_directory(char *self)
{
    ssize_t n = readlink("/proc/self/exe", self, PATH_MAX - 1);

    if (n < 0)
        return NULL;
    self[n] = '\0';
    return dirname(self);
}

bool launch_find_beside(const char *const *relative, size_t n, char *path)
{
    char self[PATH_MAX];
    const char *directory = own_directory(self);

    for (size_t i = 0; directory && i < n; i++) {
        int got = snprintf(path, PATH_MAX, "%s/%s", directory, relative[i]);

        if (got > 0 && got < PATH_MAX && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

hvd_status_t launch_find_agent(char *path)
{
    static const char *const relative[] = {"hvd-agent", "../agent/hvd-agent"};
    char self[PATH_MAX];
    const char *directory = own_directory(self);

    if (!directory)
        return error_errno("cannot find out where hvd-elastic lies");
    if (launch_find_beside(relative, 2, path))
        return HVD_OK;
    return error_set(HVD_ERR_SYSTEM, "no hvd-agent beside \"%s/hvd-elastic\"",
                     directory);
}

bool launch_find_program(const char *name, char *path)
{
    const char *dirs = getenv("PATH");

    for (dirs = dirs ? dirs : "/usr/bin:/bin"; *dirs; dirs += *dirs == ':') {
        int n_dir = (int)strcspn(dirs, ":");
        int n = snprintf(path, PATH_MAX, "%.*s/%s", n_dir, dirs, name);

        if (n_dir > 0 && n > 0 && n < PATH_MAX && access(path, X_OK) == 0)
            return true;
        dirs += n_dir;
    }
    return false;
}

void launch_paths_find(struct launch_paths *paths, const struct launch_ops *ops)
{
    if (launch_find_agent(paths->agent) != HVD_OK)
        paths->agent[0] = '\0';
    error_clear(); /* it is told where one is to be started */
    if (!paths->agent[0] || !realpath(paths->agent, paths->elsewhere))
        strcpy(paths->elsewhere, "hvd-agent"); /* PATH is left */
    if (!ops->program || !launch_find_program(ops->program(), paths->client))
        paths->client[0] = '\0';
}

/* ---- a child ------------------------------------------------------------- */

/* All that it needs lies above the three standard descriptors. */
static bool place_fds(const struct launch_image *image)
{
    int null_fd = open("/dev/null", O_RDWR);
    int stdin_fd = image->stdin_fd < 0 ? null_fd : image->stdin_fd;

    if (null_fd < 0 || dup2(stdin_fd, STDIN_FILENO) < 0)
        return false;
    if (image->stderr_fd >= 0 && (dup2(null_fd, STDOUT_FILENO) < 0 ||
                                  dup2(image->stderr_fd, STDERR_FILENO) < 0))
        return false;
    for (int i = 0; i < 2; i++)
        if (image->kept[i] >= 0 && fcntl(image->kept[i], F_SETFD, 0) < 0)
            return false;
    return null_fd <= STDERR_FILENO || close(null_fd) == 0;
}

__attribute__((noreturn)) static void
child_main(const struct launch_image *image, int error_fd, pid_t parent)
{
    struct program_failure failure = {0};

    if (image->apart)
        setsid();
    else
        setpgid(0, 0);
    if (!image->outlives)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it died before the line above */
    if (place_fds(image)) {
        inherited_restore(); /* last: the limit may leave no room to open */
        execve(image->path, image->argv, image->envp);
    }
    failure.error = errno;
    program_explain(image->path, &failure);
    if (write(error_fd, &failure, sizeof(failure)) < 0)
        _exit(126);
    _exit(127);
}

static void end_child(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0); /* it has no other program yet: it dies at once */
}

hvd_status_t launch_process(const struct launch_image *image,
                            struct launched *item)
{
    pid_t parent = getpid(), pid;
    int report[2], pidfd;

    if (pipe2(report, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno("cannot make a pipe");
    pid = fork();
    if (pid == 0)
        child_main(image, report[1], parent);
    close(report[1]);
    pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (pidfd >= 0) {
        item->pid = pid;
        item->pidfd = pidfd;
        item->report_fd = report[0];
        return HVD_OK;
    }
    (void)error_errno("cannot fork an agent");
    if (pid > 0)
        end_child(pid);
    close(report[0]);
    return HVD_ERR_SYSTEM;
}

/* ---- what it is told ----------------------------------------------------- */

void launch_secrets(const struct launch_config *config, uint64_t agent,
                    struct wire_secrets *secrets)
{
    wire_token_derive(config->secret, WIRE_TOKEN_AGENT, agent, secrets->token);
    wire_token_derive(config->secret, WIRE_TOKEN_JOB, config->job,
                      secrets->job_key);
    wire_driver_key(config->secret, secrets->driver_key);
}

const char *launch_level_name(enum log_level level)
{
    static const char *const names[] = {"error", "warn", "info", "debug",
                                        "trace"};

    return names[level];
}
