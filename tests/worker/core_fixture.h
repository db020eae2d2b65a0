/* tests/worker/core_fixture.h - a worker's core without a worker: what happens
 * goes in, what it does comes out in words. ABORT(g) HOLD UNHOLD BEGIN WAKE are
 * for the application; messages are HELLO READY(reason,fence) LOST
 * HELD(boundary) DONE LEAVING PING REPORT DRAIN_ME.
 *
 * One core per process: the memory is static. */
#ifndef TESTS_WORKER_CORE_FIXTURE_H
#define TESTS_WORKER_CORE_FIXTURE_H

#include "elastic/worker/core.h"
#include "support.h"

enum { JOB = 7, WORKER = 11, GENERATION = 5, N_PHASES = 7 };

extern struct worker_core core;
extern uint64_t now_us;  /* of the next step */
extern char words[1024]; /* what the last step did */

/* A core in this phase. RUNNING, HELD, DONE, LEFT: in GENERATION; HELD: at
 * boundary 3, having answered HOLD 1; JOINING: a newcomer; LEFT: released. */
void begin(void); /* CONTACT */
void stand_in(enum worker_phase phase);

/* Messages of GENERATION, but for the first. */
struct message message(enum message_type type, uint64_t generation);
struct message hold(uint64_t sequence);
struct message cut(uint64_t sequence, uint64_t boundary);
struct message end(enum shutdown_reason reason);

/* An event at boundary 3 of GENERATION, with state (GENERATION, 2). */
struct worker_event event(enum worker_event_type type);

hvd_status_t step(const struct worker_event *ev);
void hear(struct message m, const char *expected);
void happens(enum worker_event_type type, const char *expected);
void refused(enum worker_event_type type); /* HVD_ERR_STATE, all unchanged */
/* A driver of this term was dialled. */
void succeed(uint64_t term, const char *expected);
/* ... and the worker's HELLO said so much. */
const struct msg_where *where_said(void);
void at_boundary(uint64_t boundary, enum worker_boundary expected);

#endif
