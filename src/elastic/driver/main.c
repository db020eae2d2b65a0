/* elastic/driver/main.c - hvd-elastic: from a command line to an exit status.
 *
 * 0: every member finished. 1: the job failed, one sentence says why. 2: usage.
 * 3: another driver has taken the job over. 128 + n: interrupted by signal n.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/inherited.h"
#include "base/log.h"
#include "elastic/driver/loop.h"
#include "elastic/driver/options.h"

/* ---- a successor --------------------------------------------------------- */

/* What is given anew is meant from here, the job's own from where it began. */
static bool make_absolute(const char **path_p, char *buf)
{
    char here[PATH_MAX];
    int n;

    if (!*path_p || **path_p == '/')
        return true;
    if (!getcwd(here, sizeof(here)))
        return false;
    n = snprintf(buf, PATH_MAX, "%s/%s", here, *path_p);
    *path_p = buf;
    return n > 0 && n < PATH_MAX;
}

static bool take_paths(struct options *given, char bufs[2][PATH_MAX])
{
    return make_absolute(&given->event_log, bufs[0]) &&
           make_absolute(&given->output_dir, bufs[1]);
}

/* Agents that it starts have the same as those that are there. */
static bool take_environment(const struct wire_strings *all)
{
    size_t at = 0;

    clearenv();
    while (at < all->nbytes) {
        char *word = strdup(all->data + at); /* the environment's from now on */

        if (!word || putenv(word) != 0)
            return false;
        at += strlen(word) + 1;
    }
    return true;
}

static int go_on(struct options *given, const char *dir, struct heir *heir)
{
    static char bufs[2][PATH_MAX];
    const struct entry_job *job = &heir->memory.job;
    struct options options;
    int exit_status;

    if (!take_paths(given, bufs) || chdir(job->cwd) != 0) {
        options_refuse(stderr,
                       "the directory of the job, \"%s\", cannot be "
                       "entered",
                       job->cwd);
        return 1;
    }
    if (!take_environment(&job->environment)) {
        options_refuse(stderr, "no memory for the environment");
        return 1;
    }
    if (!options_inherit(job->argv.data, job->argv.nbytes, given, &options,
                         stderr))
        return 1;
    options.job_dir = dir;
    log_init("hvd-elastic", options.log_level);
    log_info("driver of term %" PRIu64 ", after that of process %" PRId64,
             heir->term, heir->before.pid);
    if (heir->cut > 0)
        log_warn("the journal's last %zu bytes are damaged -> left out",
                 heir->cut);
    exit_status = loop_run(&options, heir);
    options_fini(&options);
    return exit_status;
}

static int ended(const struct heir *heir)
{
    const struct entry_state *state = &heir->memory.state;

    fprintf(stderr, "hvd-elastic: the job has ended without this driver: %s\n",
            state->verdict);
    return (int)state->exit_status;
}

static int succeed(struct options *given)
{
    const char *name = given->resume ? given->resume : given->standby;
    char dir[PATH_MAX];
    struct heir heir;
    hvd_status_t status;
    bool has_ended = false;
    int exit_status;

    if (!realpath(name, dir)) {
        options_refuse(stderr, "\"%s\": there is no such directory", name);
        return OPTIONS_EXIT_USAGE;
    }
    status = given->resume ? jobdir_inherit(dir, given->take_over, &heir)
                           : jobdir_await(dir, &heir, &has_ended);
    if (status != HVD_OK) {
        options_refuse(stderr, "%s", error_text());
        return OPTIONS_EXIT_USAGE;
    }
    exit_status = has_ended ? ended(&heir) : go_on(given, dir, &heir);
    heir_fini(&heir);
    return exit_status;
}

/* ---- a driver from the beginning ----------------------------------------- */

static int begin(struct options *options)
{
    char dir[PATH_MAX];
    int lock_fd = -1, exit_status;

    if (options->job_dir) {
        if (jobdir_begin(options->job_dir, dir, &lock_fd) != HVD_OK) {
            options_refuse(stderr, "--job-dir: %s", error_text());
            return OPTIONS_EXIT_USAGE;
        }
        options->job_dir = dir;
    }
    exit_status = loop_run(options, NULL);
    if (lock_fd >= 0)
        close(lock_fd);
    return exit_status;
}

int main(int argc, char **argv)
{
    struct options options;
    int exit_status;

    inherited_take();
    if (!options_parse(argc, argv, &options, &exit_status))
        return exit_status;
    log_init("hvd-elastic", options.log_level);
    exit_status = options.resume || options.standby ? succeed(&options)
                                                    : begin(&options);
    options_fini(&options);
    return exit_status;
}
