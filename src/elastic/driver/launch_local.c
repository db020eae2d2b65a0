/* elastic/driver/launch_local.c - agents as child processes on this machine,
 * one for each host name. See launch.h.
 *
 * The child gets: its own process group (Ctrl-C at a terminal is the driver's
 * business), the death signal, the lifeline's read end, the secret's
 * descriptor, and its names in the environment (wire/env.h). It is made by
 * vfork(2): to copy the page tables of a driver with thousands of connections
 * takes milliseconds for each agent, and all of its threads then take faults.
 * Between vfork and exec only async-signal-safe calls, and nothing is written
 * but the child's own stack: everything is put together before. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/rlimits.h"
#include "base/signals.h"
#include "elastic/driver/launch.h"
#include "elastic/wire/env.h"
#include "elastic/wire/socket.h"

enum { ENV_OWN = 8, ENV_TEXT = 160 };

struct child_image {
    char path[PATH_MAX];
    char *argv[2];
    char own[ENV_OWN][ENV_TEXT];
    size_t n_own;
    char job_dir[sizeof(ENV_JOB_DIR) + PATH_MAX];
    char notice_script[sizeof(ENV_NOTICE_SCRIPT) + PATH_MAX];
    char **envp; /* heap; strings are environ's and own's */
};

static bool find_beside(const char *directory, const char *relative, char *path)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", directory, relative);

    return n > 0 && n < PATH_MAX && access(path, X_OK) == 0;
}

/* Installed beside the driver, or where the build tree has it. */
static hvd_status_t find_agent(char *path)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *directory;

    if (n < 0)
        return error_errno("cannot find out where hvd-elastic lies");
    self[n] = '\0';
    directory = dirname(self);
    if (find_beside(directory, "hvd-agent", path) ||
        find_beside(directory, "../agent/hvd-agent", path))
        return HVD_OK;
    return error_set(HVD_ERR_SYSTEM, "no hvd-agent beside \"%s/hvd-elastic\"",
                     directory);
}

static void set_env(struct child_image *image, const char *name,
                    const char *value)
{
    HVD_ASSERT(image->n_own < ENV_OWN);
    snprintf(image->own[image->n_own++], ENV_TEXT, "%s=%s", name, value);
}

static void set_env_u64(struct child_image *image, const char *name,
                        uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    set_env(image, name, text);
}

static const char *level_name(enum log_level level)
{
    static const char *const names[] = {"error", "warn", "info", "debug",
                                        "trace"};

    return names[level];
}

static hvd_status_t build_env(struct child_image *image)
{
    size_t n = 0, k = 0;

    while (environ[n])
        n++;
    image->envp = calloc(n + image->n_own + 3, sizeof(char *));
    if (!image->envp)
        return error_set(HVD_ERR_NOMEM, "no memory for an environment");
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "HVD_", 4) != 0)
            image->envp[k++] = environ[i];
    for (size_t i = 0; i < image->n_own; i++)
        image->envp[k++] = image->own[i];
    if (image->job_dir[0])
        image->envp[k++] = image->job_dir;
    if (image->notice_script[0])
        image->envp[k++] = image->notice_script;
    return HVD_OK;
}

static hvd_status_t image_init(struct child_image *image,
                               const struct launch_config *config,
                               uint64_t agent, const char *host, int secret_fd,
                               int lifeline_fd)
{
    memset(image, 0, sizeof(*image));
    HVD_TRY(find_agent(image->path));
    image->argv[0] = image->path;
    set_env(image, ENV_DRIVER, config->endpoint);
    set_env(image, ENV_OUTPUT, config->output_endpoint);
    set_env_u64(image, ENV_JOB, config->job);
    set_env_u64(image, ENV_AGENT, agent);
    set_env(image, ENV_HOST, host);
    set_env_u64(image, ENV_SECRET_FD, (uint64_t)secret_fd);
    set_env_u64(image, ENV_LIFELINE_FD, (uint64_t)lifeline_fd);
    set_env(image, ENV_LOG_LEVEL, level_name(config->log_level));
    if (config->job_dir)
        snprintf(image->job_dir, sizeof(image->job_dir), ENV_JOB_DIR "=%s",
                 config->job_dir);
    if (config->notice_script)
        snprintf(image->notice_script, sizeof(image->notice_script),
                 ENV_NOTICE_SCRIPT "=%s", config->notice_script);
    return build_env(image);
}

__attribute__((noreturn)) static void
child_main(const struct child_image *image, int secret_fd, int lifeline_fd,
           int error_fd, pid_t parent)
{
    int null_fd, error;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it died before the line above */
    signals_reset();
    null_fd = open("/dev/null", O_RDONLY);
    if (null_fd >= 0 && dup2(null_fd, STDIN_FILENO) >= 0 &&
        fcntl(secret_fd, F_SETFD, 0) == 0 &&
        fcntl(lifeline_fd, F_SETFD, 0) == 0) {
        /* last, as nothing can be opened then: the agent raises it as we did,
         * its workers have it */
        rlimits_restore();
        execve(image->path, image->argv, image->envp);
    }
    error = errno;
    if (write(error_fd, &error, sizeof(error)) < 0)
        _exit(126);
    _exit(127);
}

/* The error pipe closes by itself when exec succeeds. */
static int exec_error(int fd)
{
    int error = 0;
    ssize_t n;

    do
        n = read(fd, &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(error) ? error : 0;
}

static void close_pair(int fds[2])
{
    if (fds[0] >= 0)
        close(fds[0]);
    if (fds[1] >= 0)
        close(fds[1]);
}

static hvd_status_t fork_agent(const struct child_image *image, int secret_fd,
                               int lifeline[2], struct launched *launched_p)
{
    int errors[2];
    pid_t parent = getpid(), pid;
    int error, pidfd;

    if (pipe2(errors, O_CLOEXEC) < 0)
        return error_errno("cannot make a pipe");
    pid = vfork();
    if (pid == 0)
        child_main(image, secret_fd, lifeline[0], errors[1], parent);
    close(errors[1]);
    errors[1] = -1;
    if (pid < 0) {
        close_pair(errors);
        return error_errno("cannot fork an agent");
    }
    error = exec_error(errors[0]);
    close_pair(errors);
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    launched_p->pid = pid;
    launched_p->pidfd = pidfd;
    if (error == 0 && pidfd >= 0)
        return HVD_OK;
    if (error == 0)
        return error_errno("cannot watch an agent");
    errno = error;
    return error_errno("cannot execute \"%s\"", image->path);
}

/* *fd_p: with what the agent says who it is. */
static hvd_status_t open_secret(const struct launch_config *config,
                                uint64_t agent, int *fd_p)
{
    struct wire_secrets secrets;

    wire_token_derive(config->secret, WIRE_TOKEN_AGENT, agent, secrets.token);
    wire_token_derive(config->secret, WIRE_TOKEN_JOB, config->job,
                      secrets.job_key);
    wire_driver_key(config->secret, secrets.driver_key);
    return wire_secret_create(&secrets, sizeof(secrets), fd_p);
}

static hvd_status_t start_local(const struct launch_config *config,
                                uint64_t agent, const char *host,
                                struct launched *launched_p)
{
    struct child_image *image = calloc(1, sizeof(*image));
    int lifeline[2] = {-1, -1}, secret_fd;
    hvd_status_t status;

    if (!image)
        return error_set(HVD_ERR_NOMEM, "no memory for an agent");
    *launched_p = (struct launched){.agent = agent, .lifeline_fd = -1};
    if (pipe2(lifeline, O_CLOEXEC) < 0) {
        status = error_errno("cannot make a pipe");
        goto free_image;
    }
    HVD_TRY_GOTO(open_secret(config, agent, &secret_fd), close_lifeline);
    HVD_TRY_GOTO(image_init(image, config, agent, host, secret_fd, lifeline[0]),
                 close_secret);
    HVD_TRY_GOTO(fork_agent(image, secret_fd, lifeline, launched_p),
                 close_secret);
    launched_p->lifeline_fd = lifeline[1];
    lifeline[1] = -1;
close_secret:
    close(secret_fd);
    free(image->envp);
close_lifeline:
    close_pair(lifeline);
free_image:
    free(image);
    return status;
}

const struct launch_ops launch_local = {
    .name = "local", .same_machine = true, .start = start_local};
