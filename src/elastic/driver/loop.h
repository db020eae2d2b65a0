/* elastic/driver/loop.h - the driver's one loop: it feeds the pure core with
 * what the world says and does what the core answers. It decides nothing.
 *
 * Threads: the main thread (libzmq adds its two, signals blocked). */
#ifndef ELASTIC_DRIVER_LOOP_H
#define ELASTIC_DRIVER_LOOP_H

#include "elastic/driver/options.h"

/* Run the job that the options describe to its end. Returns the exit status; a
 * failure has been told in one line on stderr. */
int loop_run(const struct options *options);

#endif
