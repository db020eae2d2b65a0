/* tests/integration/posted.h - steps of chaos_worker whose collectives are
 * posted and not always waited for. Threads: one. */
#ifndef TESTS_INTEGRATION_POSTED_H
#define TESTS_INTEGRATION_POSTED_H

#include <stdint.h>

#include <hvd/hvd.h>

/* Wait for those of the step before; post those of this one. Every other step
 * leaves them in flight. */
hvd_status_t posted_exchange(uint64_t step);

/* Behind a boundary that returned HVD_OK: all are complete. */
void posted_check_drained(void);

/* A callback of commits: posts an allreduce whose result, an entry of the
 * state, is *step (a uint64_t, equal on all ranks), and does not wait. */
hvd_status_t posted_on_commit(void *step);

/* Its entry. */
extern uint64_t posted_entry;

/* When the job is over. */
hvd_status_t posted_finish(void);

#endif
