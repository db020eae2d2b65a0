/* elastic/worker/control.h - the control thread, and the door through which the
 * application's thread talks to the membership machine (core.h).
 *
 *        app                        lock                     control
 *   control_post(event) --> worker_step, actions <-- messages of the driver,
 *   control_wait(...)   <-- app_wake (eventfd)       ticks
 *                           outbox, kick (eventfd) --> DEALER socket
 *
 * A step runs under the lock on whichever thread brings the event, so that
 * ABORT reaches the communicator and HOLD the boundary without a thread switch.
 * Only control touches the socket. What the socket does not take is dropped:
 * the core repeats what the driver lacks.
 *
 * The end of the lifeline ends the process: its agent, and so its driver, is
 * gone.
 *
 * Threads: control_start .. control_wait from app. One lock, held for
 * microseconds and never while waiting; but for control_with_comm(), under
 * which the first call by name makes a comm, and a world of one copies. Memory:
 * static, but for the table of the generation. */
#ifndef ELASTIC_WORKER_CONTROL_H
#define ELASTIC_WORKER_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include <hvd/state.h>
#include <hvd/status.h>

#include "collectives/comm.h"
#include "elastic/worker/core.h"

/* How an ASSIGN looked when it was accepted; valid until app gives the
 * generation up (LOST, LEFT, FAILED). */
struct control_assignment {
    struct msg_assign assign; /* its table span is empty */
    uint64_t generation;
    const struct assign_entry *entries; /* [assign.size] */
    uint64_t connect_timeout_us, silence_us;
    bool encrypt_data;    /* as WELCOME says, for all generations */
    uint64_t assigned_ns; /* clock_now_ns() when it arrived */
};

struct control_verdict {
    enum worker_verdict verdict;
    hvd_status_t status; /* what the program gets */
    char text[WIRE_TEXT_MAX];
};

/* Start the thread and say HELLO; process_self.self and .endpoint are set. */
hvd_status_t control_start(void) HVD_MUST_CHECK;

/* Stop and join it, close its descriptors. Harmless when it does not run. */
void control_stop(void);

/* Feed one event: its sampled fields are filled in here. HVD_ERR_STATE: it does
 * not fit the phase. */
hvd_status_t control_post(struct worker_event *ev);

/* call(comm, arg) of the current generation's comm, which stays meanwhile. Any
 * thread; the lock is held, so it may not wait. HVD_ERR_STATE: there is none.
 */
hvd_status_t control_with_comm(hvd_status_t (*call)(struct comm *comm,
                                                    void *arg),
                               void *arg) HVD_MUST_CHECK;

/* Conditions of the core that app waits for; called under the lock. */
typedef bool (*control_condition)(const struct worker_core *core,
                                  uint64_t argument);
bool control_welcome(const struct worker_core *core, uint64_t ignored);
bool control_final(const struct worker_core *core, uint64_t ignored);
bool control_assigned(const struct worker_core *core, uint64_t above);
bool control_done_over(const struct worker_core *core, uint64_t generation);
bool control_at_cut(const struct worker_core *core, uint64_t boundary);

/* Wait for one of them or for a verdict, serving the endpoint meanwhile.
 * HVD_OK, HVD_ERR_TIMEOUT, HVD_ERR_SYSTEM. */
hvd_status_t control_wait(control_condition condition, uint64_t argument,
                          uint64_t deadline_us) HVD_MUST_CHECK;

/* look(core, arg), under the lock: it may not wait. Any thread. */
void control_read(void (*look)(const struct worker_core *core, void *arg),
                  void *arg);

/* What is so now. */
bool control_is(control_condition condition, uint64_t argument);
enum worker_boundary control_boundary(uint64_t boundary);
void control_verdict(struct control_verdict *verdict_p);
void control_assignment(struct control_assignment *assignment_p);
uint64_t control_fence(void);
void control_plan(struct msg_plan *plan_p);

/* Give the communicator (NULL: take it away) of `generation` and the state to
 * the control thread. A comm whose generation has been aborted is aborted at
 * once. */
void control_attach(struct comm *comm, uint64_t generation);
void control_watch_state(hvd_state_t *state);

#endif
