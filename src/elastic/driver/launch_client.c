/* elastic/driver/launch_client.c - see launch_client.h. */
#include "elastic/driver/launch_client.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "elastic/driver/launch_process.h"
#include "elastic/wire/env.h"

enum {
    CONNECT_MAX_S = 10,
    CONNECT_PART = 3, /* of --start-timeout */
    READ_MAX = 4096,  /* of stderr, at once */
    LAST_READS = 16   /* when the client has ended */
};

uint64_t launch_connect_time(const struct launch_config *config)
{
    uint64_t s = config->start_timeout_us / 1000000 / CONNECT_PART;

    s = s < 1 ? 1 : s < CONNECT_MAX_S ? s : CONNECT_MAX_S;
    return s * 1000000;
}

/* ---- the command line ---------------------------------------------------- */

hvd_status_t launch_client_find(struct launch_client *c,
                                const struct launch_config *config,
                                const char *program)
{
    strcpy(c->agent, config->paths->elsewhere);
    strcpy(c->path, config->paths->client);
    if (c->path[0] || launch_find_program(program, c->path))
        return HVD_OK;
    return error_set(HVD_ERR_SYSTEM, "there is no %s in PATH here", program);
}

void launch_client_add(struct launch_client *c, const char *word)
{
    HVD_ASSERT(c->n < LAUNCH_CLIENT_WORDS);
    memcpy(&c->argv[c->n++], &word, sizeof(word)); /* nobody writes to it */
}

/* ---- what it is ---------------------------------------------------------- */

static hvd_status_t say_environment(struct launch_client *c,
                                    bool (*is_kept)(const char *entry))
{
    size_t n = 0, k = 0;

    while (environ[n])
        n++;
    c->envp = calloc(n + 1, sizeof(char *));
    if (!c->envp)
        return error_set(HVD_ERR_NOMEM, "no memory for an environment");
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "HVD_", 4) != 0 &&
            (!is_kept || is_kept(environ[i])))
            c->envp[k++] = environ[i];
    return HVD_OK;
}

/* What is relative is meant from here; there it would be from a home. */
static const char *absolute(const char *path, char *buf)
{
    char here[PATH_MAX];
    int n;

    if (!path || *path == '/' || !getcwd(here, sizeof(here)))
        return path;
    n = snprintf(buf, PATH_MAX, "%s/%s", here, path);
    return n > 0 && n < PATH_MAX ? buf : path;
}

/* Where the driver is for an agent on another machine. */
static void set_endpoints(struct handover_word *words,
                          const struct launch_config *config)
{
    bool far = config->far_endpoints != NULL;

    words[0] = (struct handover_word){ENV_DRIVER, far ? config->far_endpoints
                                                      : config->endpoint};
    words[1] = (struct handover_word){
        ENV_OUTPUT, far ? config->far_outputs : config->output_endpoint};
}

/* The job's directory is the agent's to look for a successor, if it sees it. */
static hvd_status_t say_header(struct launch_client *c,
                               const struct launch_config *config,
                               const struct launched *item)
{
    char job[24], id[24], term[24];
    struct wire_secrets secrets;
    struct handover_word words[] = {
        {0},
        {0},
        {ENV_JOB, job},
        {ENV_AGENT, id},
        {ENV_TERM, term},
        {ENV_HOST, item->host},
        {ENV_NETWORK, config->network},
        {ENV_OUTLIVES, config->job_dir},
        {ENV_DATA_PORTS, config->data_ports},
        {ENV_LOG_LEVEL, launch_level_name(config->log_level)},
        {ENV_NOTICE_SCRIPT, absolute(config->notice_script, c->notice)}};

    snprintf(job, sizeof(job), "%" PRIu64, config->job);
    snprintf(id, sizeof(id), "%" PRIu64, item->agent);
    snprintf(term, sizeof(term), "%" PRIu64, config->term);
    set_endpoints(words, config);
    launch_secrets(config, item->agent, &secrets);
    c->header_nbytes = handover_write(c->header, words, ARRAY_SIZE(words),
                                      &secrets);
    explicit_bzero(&secrets, sizeof(secrets));
    if (c->header_nbytes == 0)
        return error_set(HVD_ERR_INVALID, "its agent cannot be told where "
                                          "--notice-script is");
    return HVD_OK;
}

/* ---- start --------------------------------------------------------------- */

/* ours_p: does not block; the other one is for the child. */
static hvd_status_t open_pipe(int fds[2], int ours)
{
    if (pipe2(fds, O_CLOEXEC) < 0 || fcntl(fds[ours], F_SETFL, O_NONBLOCK) < 0)
        return error_errno("cannot make a pipe");
    return HVD_OK;
}

/* A pipe takes at least a page, and this is the first there is in it. */
static hvd_status_t write_header(const struct launch_client *c, int fd)
{
    ssize_t n = write(fd, c->header, c->header_nbytes);

    if (n == (ssize_t)c->header_nbytes)
        return HVD_OK;
    return n < 0 ? error_errno("cannot write to a pipe")
                 : error_set(HVD_ERR_SYSTEM, "a pipe takes %zd bytes alone", n);
}

static hvd_status_t run(const struct launch_client *c, bool outlives,
                        int stdin_fds[2], int stderr_fds[2],
                        struct launched *item)
{
    struct launch_image image = {.path = c->path,
                                 .argv = (char **)(uintptr_t)c->argv,
                                 .envp = c->envp,
                                 .stdin_fd = -1,
                                 .stderr_fd = -1,
                                 .kept = {-1, -1},
                                 .apart = true,
                                 .outlives = outlives};

    HVD_TRY(open_pipe(stdin_fds, 1));
    HVD_TRY(open_pipe(stderr_fds, 0));
    HVD_TRY(write_header(c, stdin_fds[1]));
    image.stdin_fd = stdin_fds[0];
    image.stderr_fd = stderr_fds[1];
    HVD_TRY(launch_process(&image, item));
    item->lifeline_fd = stdin_fds[1];
    item->stderr_fd = stderr_fds[0];
    stdin_fds[1] = stderr_fds[0] = -1;
    return HVD_OK;
}

static hvd_status_t open_and_run(struct launch_client *c, bool outlives,
                                 struct launched *item)
{
    int stdin_fds[2] = {-1, -1}, stderr_fds[2] = {-1, -1};
    hvd_status_t status = run(c, outlives, stdin_fds, stderr_fds, item);

    for (int i = 0; i < 2; i++) {
        fd_close(&stdin_fds[i]);
        fd_close(&stderr_fds[i]);
    }
    return status;
}

hvd_status_t launch_client_start(struct launch_client *c,
                                 const struct launch_config *config,
                                 bool (*is_kept)(const char *entry),
                                 struct launched *item)
{
    hvd_status_t status = say_environment(c, is_kept);

    if (status == HVD_OK)
        status = say_header(c, config, item);
    if (status == HVD_OK)
        status = open_and_run(c, config->job_dir != NULL, item);
    free(c->envp);
    c->envp = NULL;
    explicit_bzero(c->header, sizeof(c->header));
    return status;
}

/* ---- what it prints on stderr -------------------------------------------- */

static void tell(void *arg, const char *line)
{
    const struct launched *item = arg;

    if (item->up)
        log_warn("host %s: %s", item->host, line);
    else
        log_debug("host %s: %s", item->host, line);
}

bool launch_client_hear(struct launched *item, uint64_t now_us)
{
    char buf[READ_MAX];
    ssize_t n = item->stderr_fd < 0 ? 0
                                    : read(item->stderr_fd, buf, sizeof(buf));

    if (n > 0)
        words_feed(item->words, buf, (size_t)n, now_us, tell, item);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        fd_close(&item->stderr_fd);
    return n > 0;
}

void launch_client_hear_last(struct launched *item)
{
    uint64_t now_us = clock_now_us();
    int n = 0;

    if (!item->words)
        return;
    while (n++ < LAST_READS && launch_client_hear(item, now_us))
        continue;
    words_end(item->words, tell, item);
}
