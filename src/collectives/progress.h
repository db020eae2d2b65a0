/* collectives/progress.h - who drives a comm: the lock of its engine, the queue
 * of posted calls, and the thread that runs them while nobody waits.
 *
 * The lock is held by whoever drives. A thread takes it with progress_take(),
 * which sends the progress thread out of the engine, in the middle of an
 * operation if need be; what is unfinished stays where it is for the next
 * driver. Until progress_give() that thread keeps out. A second taker waits
 * until the first gives.
 *
 * Threads: the issuing thread, of calls by name any; and the thread made here,
 * which blocks all signals. Memory: one struct from the first comm_post() to
 * comm_destroy(). */
#ifndef COLLECTIVES_PROGRESS_H
#define COLLECTIVES_PROGRESS_H

#include <hvd/status.h>

struct comm;

/* Unless it is there already. */
hvd_status_t progress_start(struct comm *comm) HVD_MUST_CHECK;
/* There is work that the thread does not know of: it goes on, unless somebody
 * waits. */
void progress_signal(struct comm *comm);

/* Nothing, if the comm has no progress thread. */
void progress_take(struct comm *comm);
void progress_give(struct comm *comm);

/* Taken: complete what is queued. */
void progress_run(struct comm *comm);

/* Not taken: end what is queued, join the thread. */
void progress_stop(struct comm *comm);

#endif
