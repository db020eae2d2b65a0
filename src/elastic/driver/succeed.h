/* elastic/driver/succeed.h - hvd-elastic as the successor of another driver:
 * --resume and --standby.
 *
 * The job's workers train meanwhile, so a successor that cannot begin is no
 * verdict: it tries again each second. --resume refuses at once what a person
 * has to decide (jobdir_inherit()); a standby that has seen its job refuses
 * nothing. Either gives up when --driver-timeout is over and no agent of the job
 * is known to live.
 *
 * Threads: the main thread. */
#ifndef ELASTIC_DRIVER_SUCCEED_H
#define ELASTIC_DRIVER_SUCCEED_H

#include "elastic/driver/options.h"

/* Take the job over that given->resume or given->standby names. Returns the exit
 * status. */
int succeed(struct options *given);

#endif
