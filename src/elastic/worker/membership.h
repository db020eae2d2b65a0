/* elastic/worker/membership.h - what entering and leaving a generation takes,
 * for the run loop (run.c) and for static programs (static.c).
 *
 * Threads: app. */
#ifndef ELASTIC_WORKER_MEMBERSHIP_H
#define ELASTIC_WORKER_MEMBERSHIP_H

#include <hvd/status.h>

#include "elastic/worker/control.h"

enum { GOODBYE_US = 2000000 }; /* LEAVING waits so long for its answer */

/* Tell the driver READY(start), as an elastic program with `state` or, with
 * NULL, as a static one. */
hvd_status_t membership_enter(hvd_state_t *state) HVD_MUST_CHECK;

/* Wait for a generation above `above`, and make its comm. HVD_OK: *a_p and
 * process_self.comm are valid; else what the program gets in the end. */
hvd_status_t membership_await(uint64_t above,
                              struct control_assignment *a_p) HVD_MUST_CHECK;

/* hvd_rank() and its siblings. */
void membership_show(const struct control_assignment *a);

/* Tell the driver that `generation` is lost to this worker: first the peers,
 * who may wait for us in a collective, then LOST and READY(lost). With
 * mismatch: LOST alone, `text` is the sentence that ends the job. */
void membership_lost(uint64_t generation, bool mismatch, const char *text);

/* Give the comm of the generation back and raise the endpoint's fence. */
void membership_close(void);

/* The driver has released all members of `a`, and their comm is closed. They
 * get another one, for what their programs call until hvd_shutdown(); if it
 * cannot be made, those calls fail. */
void membership_remain(const struct control_assignment *a);

/* A comm that remains is about to be closed: say goodbye to the others. */
void membership_part(void);

/* Wait a moment for the driver's verdict on the job. */
void membership_hear(void);

/* LEAVING(status, text), and wait a moment for its answer. With alone, the
 * others go on. */
void membership_fail(hvd_status_t status, const char *text, bool alone);

/* The driver's last word as the program gets it, with its sentence;
 * WORKER_GO_ON: HVD_OK and *final_p false. */
hvd_status_t membership_verdict(bool *final_p);

void membership_report(enum report_what what, uint64_t generation,
                       uint64_t since_ns, uint64_t nbytes, uint32_t sources);

/* A collective or a commit has succeeded: is it the first of the generation? */
void membership_report_collective(void);
void membership_report_commit(void);

#endif
