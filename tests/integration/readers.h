/* tests/integration/readers.h - what the readers of hvd/world.h say at each
 * time of chaos_worker; it prints WRONG and aborts where they say something
 * else. Threads: one. */
#ifndef TESTS_INTEGRATION_READERS_H
#define TESTS_INTEGRATION_READERS_H

#include <hvd/status.h>

/* Behind hvd_init(): the slot is known, the world is not. */
void readers_check_before(void);

/* A training function begins. */
void readers_begin(void);

/* Within it, and as it ends: they say what they said when it began. */
void readers_check(void);

/* ... with this status of the library. */
void readers_check_end(hvd_status_t status);

/* A line for each change of hosts that is pending, the first time that it is in
 * a generation: "gen 2: hosts expected", "gen 2: hosts due". */
void readers_say_pending(void);

/* "plan 0/3 0/2 is 0/3 0/2": rank and size, local ones; as planned, and in this
 * generation. */
void readers_say_plan(void);

#endif
