/* tests/integration/synced.h - hvd_state_sync() in the world of a static
 * program. Threads: one. */
#ifndef TESTS_INTEGRATION_SYNCED_H
#define TESTS_INTEGRATION_SYNCED_H

#include <hvd/status.h>

/* Called by all ranks, which begin with values of their own and end with those
 * of rank 0. What is not so it prints as WRONG, and aborts. */
hvd_status_t synced_check(void) HVD_MUST_CHECK;

#endif
