/* app.h - what the parts of a virtual worker share: its control thread
 * (control.c), its application's thread (thread.c, train.c), its data plane
 * (plane.c) and its state (state.c), between which the product's own run loop,
 * membership and boundary run. */
#ifndef TESTS_SIM_APP_H
#define TESTS_SIM_APP_H

#include "base/error.h"
#include "world.h"

/* What the product's code is called for: one worker of one run at a time. */
extern struct sim *sim_current;
extern struct process *sim_process; /* process_self, there */
struct sim_worker *sim_self(void);

/* thread.c: a thread is made and runs until it first sleeps; runs on; gives way
 * until it is let run. */
void thread_begin(struct sim *s, struct sim_worker *w);
void thread_run(struct sim *s, struct sim_worker *w);
void thread_sleep(struct sim *s);

/* train.c. On its own thread. */
void app_sleep(struct sim *s, struct sim_worker *w, uint64_t us);
/* On its own thread: does not return if the trap kills it. */
void app_trap(struct sim *s, struct sim_worker *w, enum trap trap);
void train_main(struct sim *s, struct sim_worker *w);

/* accuse.c: of one more rank; of all, when a generation has ended for it. */
void accuse_rank(struct comm *comm, uint32_t rank, bool proven);
void accuse_all(struct sim *s, struct comm *comm);

/* plane.c. On its own thread: one end of a transfer of state. */
hvd_status_t plane_transfer(struct comm *comm, int peer);

/* state.c */
void state_train_step(struct sim_worker *w);
/* A step that nobody else computes. */
void state_stray_step(struct sim_worker *w);
/* BUG_latecommit: it has promised not to; BUG_heedless: it was told not to. */
void state_late_commit(struct sim *s, struct sim_worker *w);
void state_heedless_commit(struct sim *s, struct sim_worker *w);

/* run.c: what the product keeps for its process is put away, and brought back,
 * when another worker's thread runs. */
struct run_kept {
    char text[ERROR_TEXT_MAX];
    uint64_t assigned_ns, shown;
};
/* It has found its sources. */
void run_begins(uint64_t generation);
void run_put_away(struct run_kept *kept_p);
void run_bring_back(const struct run_kept *kept, const struct sim_worker *w);

#endif
