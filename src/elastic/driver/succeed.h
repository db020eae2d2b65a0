/* elastic/driver/succeed.h - hvd-elastic as the successor of another driver:
 * --resume and --standby.
 *
 * The job's workers train meanwhile, so a successor that cannot begin is no
 * verdict: it tries again each second. --resume refuses at once what a person
 * has to decide (jobdir_inherit()); a standby that has seen its job refuses
 * nothing. Either gives up when --driver-timeout is over and no agent of the
 * job is known to live.
 *
 * Threads: the main thread. */
#ifndef ELASTIC_DRIVER_SUCCEED_H
#define ELASTIC_DRIVER_SUCCEED_H

#include "elastic/driver/options.h"

/* A command line with --job-dir: has it to resume what lives there? With
 * --resume auto if anybody of that job may; without if it was started by the
 * same command line, as a service manager runs the same one again. True:
 * given->resume is that directory. */
bool succeed_goes_on(struct options *given);

/* Take the job over that given->resume or given->standby names. Returns the
 * exit status. */
int succeed(struct options *given);

#endif
