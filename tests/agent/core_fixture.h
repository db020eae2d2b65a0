/* tests/agent/core_fixture.h - the agent's core by transcripts: what it does
 * and when, no process involved.
 *
 * Times are milliseconds from the start; each step's actions become one line:
 *   [   200] PING            a message to the driver (worker behind it)
 *   [   200] spawn 1         TERM 1 / CONT 1 / KILL 1: a signal to its group
 *   [   200] exit 0          the end, with its status
 *
 * One core per process: the memory is static. */
#ifndef TESTS_AGENT_CORE_FIXTURE_H
#define TESTS_AGENT_CORE_FIXTURE_H

#include "elastic/agent/core.h"
#include "support.h"

enum { JOB = 77, TERM = 3, LOG_MAX = 8192 };

extern struct agent_core core;
extern char transcript[LOG_MAX];
extern bool socket_full; /* it takes no message */

/* A core that has just begun, or one that has been welcomed and pings from now
 * on only when asked to. */
void setup(void);
void setup_welcome(void);
void teardown(void);

hvd_status_t at(uint64_t ms, struct agent_event ev);
/* A message of the driver of term TERM, if it says none. */
hvd_status_t hear(uint64_t ms, struct message m);
void happens(uint64_t ms, enum agent_event_type type);
/* All ticks that are due up to `ms`, the driver answering pings if it lives. */
void pass(uint64_t ms, bool driver_lives);
void spawn(uint64_t ms, uint64_t worker);
void kill_worker(uint64_t ms, uint64_t worker, uint64_t grace_ms);
void exits(uint64_t ms, uint64_t worker, int64_t code, int64_t signo);
void starts(uint64_t ms, uint64_t worker); /* forked, and its exec succeeded */

/* Compare with the transcript since the last call, and forget it. */
void expect(const char *text);
void forget_transcript(void);

#endif
