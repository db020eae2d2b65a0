/* elastic/worker/collective.h - what is done around waits for peers. Threads:
 * app. */
#ifndef ELASTIC_WORKER_COLLECTIVE_H
#define ELASTIC_WORKER_COLLECTIVE_H

#include <hvd/status.h>

struct collective_args;
struct comm_group;

/* Around what waits for others: the driver may want to know where this worker
 * hangs. A callback in between may call collectives of its own. */
void collective_enter(void);
void collective_exit(void);

/* Exit of a call that is over: the first success of a generation is reported,
 * and in a static program the first loss. Returns `status`. */
hvd_status_t collective_leave(hvd_status_t status) HVD_MUST_CHECK;

/* args->memory, unless the caller has said it: where its buffers lie, or the
 * group's. HVD_ERR_INVALID: at several places. Costs a load where no device is
 * used. */
hvd_status_t collective_look(struct collective_args *args,
                             const struct comm_group *group) HVD_MUST_CHECK;

/* Complete what was posted. Else than HVD_OK: some of it has failed, now or
 * before; the comm's reason. */
hvd_status_t collective_drain(void) HVD_MUST_CHECK;

#endif
