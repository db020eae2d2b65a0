/* elastic/worker/collective.h - what api_collectives.c and api_async.c do
 * around every wait for peers. Threads: app. */
#ifndef ELASTIC_WORKER_COLLECTIVE_H
#define ELASTIC_WORKER_COLLECTIVE_H

#include <hvd/status.h>

/* The driver may want to know where this worker hangs. */
void collective_enter(void);
void collective_exit(void);

/* Exit of a call that is over: the first success of a generation is reported,
 * and in a static program the first loss. Returns `status`. */
hvd_status_t collective_leave(hvd_status_t status) HVD_MUST_CHECK;

#endif
