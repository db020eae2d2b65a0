/* elastic/worker/static.h - programs that use collectives without
 * hvd_elastic_run: they join once, and a loss ends them.
 *
 * Threads: whichever is in a call in order, unless it says otherwise. */
#ifndef ELASTIC_WORKER_STATIC_H
#define ELASTIC_WORKER_STATIC_H

#include <hvd/status.h>

/* Make sure that there is a comm to run a collective on, joining the world if
 * the program has not decided yet. `call` names the caller in sentences. */
hvd_status_t static_world(const char *call) HVD_MUST_CHECK;

/* A collective has failed: tell the driver of a static job, and leave the comm.
 * A call by name of any thread has: if another thread is in a call in order,
 * that one meets the loss too, and does it, for it uses the comm. */
void static_failed(hvd_status_t status);
void static_failed_by_name(hvd_status_t status);

/* A call in order has been counted in process_self.in_order: returns when no
 * thread is in static_failed_by_name() that may not have seen it. */
void static_let_in(void);

/* hvd_shutdown of a static program: DONE, and wait for the others. HVD_OK, or
 * what ended the job instead. */
hvd_status_t static_finish(void) HVD_MUST_CHECK;

#endif
