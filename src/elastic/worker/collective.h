/* elastic/worker/collective.h - what is done around waits for peers. Threads:
 * whichever is in the call. */
#ifndef ELASTIC_WORKER_COLLECTIVE_H
#define ELASTIC_WORKER_COLLECTIVE_H

#include <hvd/status.h>

struct collective_args;
struct comm_group;

/* Call these around each wait for other ranks: heartbeats tell the driver that
 * this worker waits. A callback in between may call collectives of its own. */
void collective_enter(void);
void collective_exit(void);

/* Exit of a call that is over: the first success of a generation is reported,
 * and in a static program the first loss. Returns `status`. */
hvd_status_t collective_leave(hvd_status_t status) HVD_MUST_CHECK;

/* The same around the wait of app for a call by name, beside which another
 * thread may be in a call in order. */
void collective_enter_by_name(void);
void collective_exit_by_name(void);
hvd_status_t collective_leave_by_name(hvd_status_t status) HVD_MUST_CHECK;

/* args->memory, unless the caller has said it: where its buffers lie, or the
 * group's. HVD_ERR_INVALID: at several places. Costs a load where no device is
 * used. */
hvd_status_t collective_look(struct collective_args *args,
                             const struct comm_group *group) HVD_MUST_CHECK;

/* Complete what was posted. Else than HVD_OK: some of it has failed, now or
 * before; the comm's reason. */
hvd_status_t collective_drain(void) HVD_MUST_CHECK;

#endif
