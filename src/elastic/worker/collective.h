/* elastic/worker/collective.h - what api_collectives.c, api_async.c and run.c
 * do around waits for peers. Threads: app. */
#ifndef ELASTIC_WORKER_COLLECTIVE_H
#define ELASTIC_WORKER_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include <hvd/state.h>
#include <hvd/status.h>

/* Around what waits for others: the driver may want to know where this worker
 * hangs. A callback in between may call collectives of its own. */
void collective_enter(void);
void collective_exit(void);

/* Exit of a call that is over: the first success of a generation is reported,
 * and in a static program the first loss. Returns `status`. */
hvd_status_t collective_leave(hvd_status_t status) HVD_MUST_CHECK;

/* A snapshot that one rank makes (`saves`) for all: the others run the
 * on_commit callbacks too, so that collectives in them meet. By all ranks. */
hvd_status_t collective_save(hvd_state_t *state, bool saves,
                             uint64_t generation, int size) HVD_MUST_CHECK;

#endif
