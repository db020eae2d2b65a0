/* elastic/driver/launch_local.c - agents as child processes on this machine,
 * one for each host name. See launch.h.
 *
 * The child gets: its own process group (Ctrl-C at a terminal is the driver's
 * business), the death signal, the lifeline's read end, the secret's
 * descriptor, and its names in the environment (wire/env.h). */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/fd.h"
#include "elastic/driver/launch_process.h"
#include "elastic/wire/env.h"
#include "elastic/wire/socket.h"

struct child_image {
    char path[PATH_MAX];
    char *argv[2];
    /* Heap, ends with NULL: n_own strings of the heap, then environ's. */
    char **envp;
    size_t n_own, max_env;
};

/* value: NULL leaves the variable out. */
static hvd_status_t set_env(struct child_image *image, const char *name,
                            const char *value)
{
    if (!value)
        return HVD_OK;
    if (!array_reserve(&image->envp, &image->max_env, image->n_own + 1) ||
        asprintf(&image->envp[image->n_own], "%s=%s", name, value) < 0)
        return error_set(HVD_ERR_NOMEM, "no memory for an environment");
    image->n_own++;
    return HVD_OK;
}

static hvd_status_t set_env_u64(struct child_image *image, const char *name,
                                uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    return set_env(image, name, text);
}

/* What this process has in its environment, without any HVD_ variable. */
static hvd_status_t inherit_env(struct child_image *image)
{
    size_t n = 0, k = image->n_own;

    while (environ[n])
        n++;
    if (!array_reserve(&image->envp, &image->max_env, k + n + 1))
        return error_set(HVD_ERR_NOMEM, "no memory for an environment");
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "HVD_", 4) != 0)
            image->envp[k++] = environ[i];
    image->envp[k] = NULL;
    return HVD_OK;
}

static void image_free(struct child_image *image)
{
    for (size_t i = 0; i < image->n_own; i++)
        free(image->envp[i]);
    array_free(&image->envp, &image->max_env);
    free(image);
}

static hvd_status_t image_init(struct child_image *image,
                               const struct launch_config *config,
                               uint64_t agent, const char *host, int secret_fd,
                               int lifeline_fd)
{
    strcpy(image->path, config->paths->agent);
    if (!image->path[0])
        HVD_TRY(launch_find_agent(image->path));
    image->argv[0] = image->path;
    HVD_TRY(set_env(image, ENV_DRIVER, config->endpoint));
    HVD_TRY(set_env(image, ENV_OUTPUT, config->output_endpoint));
    HVD_TRY(set_env_u64(image, ENV_JOB, config->job));
    HVD_TRY(set_env_u64(image, ENV_AGENT, agent));
    HVD_TRY(set_env_u64(image, ENV_TERM, config->term));
    HVD_TRY(set_env(image, ENV_HOST, host));
    HVD_TRY(set_env_u64(image, ENV_SECRET_FD, (uint64_t)secret_fd));
    HVD_TRY(set_env_u64(image, ENV_LIFELINE_FD, (uint64_t)lifeline_fd));
    HVD_TRY(
        set_env(image, ENV_LOG_LEVEL, launch_level_name(config->log_level)));
    HVD_TRY(set_env(image, ENV_DATA_PORTS, config->data_ports));
    HVD_TRY(set_env(image, ENV_NETWORK, config->network));
    HVD_TRY(set_env(image, ENV_JOB_DIR, config->job_dir));
    HVD_TRY(set_env(image, ENV_NOTICE_SCRIPT, config->notice_script));
    return inherit_env(image);
}

static void close_pair(int fds[2])
{
    fd_close(&fds[0]);
    fd_close(&fds[1]);
}

/* *fd_p: with what the agent says who it is. */
static hvd_status_t open_secret(const struct launch_config *config,
                                uint64_t agent, int *fd_p)
{
    struct wire_secrets secrets;

    launch_secrets(config, agent, &secrets);
    return wire_secret_create(&secrets, sizeof(secrets), fd_p);
}

static hvd_status_t start_local(const struct launch_config *config,
                                struct launched *item)
{
    struct child_image *image = calloc(1, sizeof(*image));
    int lifeline[2] = {-1, -1}, secret_fd;
    hvd_status_t status;

    if (!image)
        return error_set(HVD_ERR_NOMEM, "no memory for an agent");
    if (pipe2(lifeline, O_CLOEXEC) < 0) {
        status = error_errno("cannot make a pipe");
        goto free_image;
    }
    HVD_TRY_GOTO(open_secret(config, item->agent, &secret_fd), close_lifeline);
    HVD_TRY_GOTO(image_init(image, config, item->agent, item->host, secret_fd,
                            lifeline[0]),
                 close_secret);
    HVD_TRY_GOTO(
        launch_process(&(struct launch_image){.path = image->path,
                                              .argv = image->argv,
                                              .envp = image->envp,
                                              .stdin_fd = -1,
                                              .stderr_fd = -1,
                                              .kept = {secret_fd, lifeline[0]}},
                       item),
        close_secret);
    item->lifeline_fd = lifeline[1];
    lifeline[1] = -1;
close_secret:
    close(secret_fd);
close_lifeline:
    close_pair(lifeline);
free_image:
    image_free(image);
    return status;
}

const struct launch_ops launch_local = {
    .name = "local", .same_machine = true, .start = start_local};
