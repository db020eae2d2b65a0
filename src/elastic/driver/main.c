/* elastic/driver/main.c - hvd-elastic: from a command line to an exit status.
 *
 * 0: every member finished. 1: the job failed, one sentence says why. 2: usage.
 * 3: another driver has taken the job over. 128 + n: interrupted by signal n.
 */
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/inherited.h"
#include "base/log.h"
#include "elastic/driver/loop.h"
#include "elastic/driver/options.h"
#include "elastic/driver/succeed.h"

/* ---- a driver from the beginning ----------------------------------------- */

static int begin(struct options *options)
{
    char dir[PATH_MAX];
    int lock_fd = -1, exit_status;

    if (!options_check(options, stderr))
        return OPTIONS_EXIT_USAGE;
    if (options->job_dir) {
        if (jobdir_begin(options->job_dir, options->resume_auto, dir,
                         &lock_fd) != HVD_OK) {
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
    if (options.resume || options.standby || succeed_goes_on(&options))
        exit_status = succeed(&options);
    else
        exit_status = begin(&options);
    options_fini(&options);
    return exit_status;
}
