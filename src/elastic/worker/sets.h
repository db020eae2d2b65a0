/* elastic/worker/sets.h - communicators: what hvd/comm.h promises, above
 * collectives/process_set.h.
 *
 * A communicator is known by a handle, which outlives generations. Its comm is
 * made when it is first used in one.
 *
 * Threads: app, but for sets_comm(). Memory: a handle each. */
#ifndef ELASTIC_WORKER_SETS_H
#define ELASTIC_WORKER_SETS_H

#include <hvd/comm.h>
#include <hvd/status.h>

#include "collectives/comm.h"

/* A generation begins: numbers are given anew. Before anybody makes
 * communicators. */
void sets_begin(void);

/* It is entered: rules are asked. A collective, if there are some. */
hvd_status_t sets_enter(void) HVD_MUST_CHECK;

/* Its comm is about to be destroyed, and no other thread knows it any more. */
void sets_leave(void);

/* On shutdown: all handles. */
void sets_release(void);

/* The comm of this communicator; HVD_WORLD: `world`. Under control's lock,
 * which control_with_comm() takes; any thread. */
hvd_status_t sets_comm(struct comm *world, hvd_comm_t *set,
                       struct comm **comm_p) HVD_MUST_CHECK;

/* The same, for who has not taken that lock. Threads: app. */
hvd_status_t sets_find(hvd_comm_t *set, struct comm **comm_p) HVD_MUST_CHECK;

#endif
