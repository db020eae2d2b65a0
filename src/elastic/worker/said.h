/* elastic/worker/said.h - what a worker's core sends: actions and messages, of
 * which some are repeated with each heartbeat until the driver has moved on
 * (M2). Inside the core only; see core.h. Pure. */
#ifndef ELASTIC_WORKER_SAID_H
#define ELASTIC_WORKER_SAID_H

#include "elastic/worker/core.h"

static inline bool worker_in_generation(const struct worker_core *core)
{
    return core->phase == WORKER_RUNNING || core->phase == WORKER_HELD ||
           core->phase == WORKER_DONE;
}

/* Adds an action to this step, all zero but for its type. */
struct worker_action *worker_act(struct worker_core *core,
                                 enum worker_action_type type);

/* A message to the driver, whose own fields are left to fill in. */
struct message *worker_send(struct worker_core *core, enum message_type type);

/* to [WIRE_TEXT_MAX]; from may be NULL. */
void worker_copy_text(char *to, const char *from);

/* Nothing of a generation that is over. */
void worker_report(struct worker_core *core, const struct msg_report *report);
void worker_send_ready(struct worker_core *core);
void worker_send_held(struct worker_core *core);
void worker_send_hello(struct worker_core *core, struct state_id id);

/* Sends the heartbeat: the standing messages, and PING. */
void worker_beat(struct worker_core *core, const struct worker_event *ev,
                 uint64_t now_us);

#endif
