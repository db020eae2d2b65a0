/* tests/integration/readers.h - what the readers of hvd/world.h say at each
 * time of chaos_worker; it prints WRONG and aborts where they say something
 * else. Threads: one. */
#ifndef TESTS_INTEGRATION_READERS_H
#define TESTS_INTEGRATION_READERS_H

/* Behind hvd_init(): the slot is known, the world is not. */
void readers_check_before(void);

/* A training function begins. */
void readers_begin(void);

/* Within it, and as it ends: they say what they said when it began. */
void readers_check(void);

#endif
