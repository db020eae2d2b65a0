/* elastic/driver/main.c - hvd-elastic: from a command line to an exit status.
 *
 * 0: every member finished. 1: the job failed, one sentence says why. 2: usage.
 * 128 + n: interrupted by signal n. */
#include "base/log.h"
#include "elastic/driver/loop.h"
#include "elastic/driver/options.h"

int main(int argc, char **argv)
{
    struct options options;
    int exit_status;

    if (!options_parse(argc, argv, &options, &exit_status))
        return exit_status;
    log_init("hvd-elastic", options.log_level);
    exit_status = loop_run(&options);
    options_fini(&options);
    return exit_status;
}
