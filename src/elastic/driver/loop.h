/* elastic/driver/loop.h - the driver's one loop: it feeds the pure core with
 * what the world says and does what the core answers. It decides nothing.
 *
 * Threads: the main thread (libzmq adds its two, signals blocked). */
#ifndef ELASTIC_DRIVER_LOOP_H
#define ELASTIC_DRIVER_LOOP_H

#include "elastic/driver/jobdir.h"
#include "elastic/driver/options.h"

enum { LOOP_REPLACED = 3 }; /* exit status: another driver has taken over */

/* Run the job that the options describe to its end; heir: go on with it where
 * another driver has left it. NULL: from its beginning. Returns the exit
 * status; a failure has been told in one line on stderr. */
int loop_run(const struct options *options, struct heir *heir);

#endif
