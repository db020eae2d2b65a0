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

enum {
    ENV_OWN = 9,
    ENV_TEXT = sizeof(ENV_HOST) + HOSTS_NAME_MAX,
    NETWORK_TEXT = 320
};

struct child_image {
    char path[PATH_MAX];
    char *argv[2];
    char own[ENV_OWN][ENV_TEXT];
    size_t n_own;
    char network[sizeof(ENV_NETWORK) + NETWORK_TEXT];
    char job_dir[sizeof(ENV_JOB_DIR) + PATH_MAX];
    char notice_script[sizeof(ENV_NOTICE_SCRIPT) + PATH_MAX];
    char **envp; /* heap; strings are environ's and own's */
};

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

static hvd_status_t build_env(struct child_image *image)
{
    size_t n = 0, k = 0;

    while (environ[n])
        n++;
    image->envp = calloc(n + image->n_own + 4, sizeof(char *));
    if (!image->envp)
        return error_set(HVD_ERR_NOMEM, "no memory for an environment");
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "HVD_", 4) != 0)
            image->envp[k++] = environ[i];
    for (size_t i = 0; i < image->n_own; i++)
        image->envp[k++] = image->own[i];
    if (image->network[0])
        image->envp[k++] = image->network;
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
    strcpy(image->path, config->paths->agent);
    if (!image->path[0])
        HVD_TRY(launch_find_agent(image->path));
    image->argv[0] = image->path;
    set_env(image, ENV_DRIVER, config->endpoint);
    set_env(image, ENV_OUTPUT, config->output_endpoint);
    set_env_u64(image, ENV_JOB, config->job);
    set_env_u64(image, ENV_AGENT, agent);
    set_env_u64(image, ENV_TERM, config->term);
    set_env(image, ENV_HOST, host);
    set_env_u64(image, ENV_SECRET_FD, (uint64_t)secret_fd);
    set_env_u64(image, ENV_LIFELINE_FD, (uint64_t)lifeline_fd);
    set_env(image, ENV_LOG_LEVEL, launch_level_name(config->log_level));
    if (config->data_ports)
        set_env(image, ENV_DATA_PORTS, config->data_ports);
    if (config->network)
        snprintf(image->network, sizeof(image->network), ENV_NETWORK "=%s",
                 config->network);
    if (config->job_dir)
        snprintf(image->job_dir, sizeof(image->job_dir), ENV_JOB_DIR "=%s",
                 config->job_dir);
    if (config->notice_script)
        snprintf(image->notice_script, sizeof(image->notice_script),
                 ENV_NOTICE_SCRIPT "=%s", config->notice_script);
    return build_env(image);
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
    free(image->envp);
close_lifeline:
    close_pair(lifeline);
free_image:
    free(image);
    return status;
}

const struct launch_ops launch_local = {
    .name = "local", .same_machine = true, .start = start_local};
