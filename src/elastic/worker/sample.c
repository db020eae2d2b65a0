/* elastic/worker/sample.c - see sample.h. */
#include "elastic/worker/sample.h"

#include "elastic/worker/process.h"
#include "state/state.h"

void worker_sample(struct worker_event *ev, uint64_t now_us)
{
    const struct process *p = &process_self;
    uint64_t busy_us = atomic_load(&p->busy_until_us);

    ev->id = (struct state_id){0, 0};
    ev->moves = 0;
    if (p->state) {
        ev->id = state_id_of(p->state);
        ev->moves = state_moves(p->state);
    }
    ev->boundary = atomic_load(&p->boundary);
    if (p->comm) { /* of the completed first: not more than were called */
        ev->operation = comm_operations(p->comm);
        ev->called = comm_called(p->comm);
        ev->moves += comm_moves(p->comm);
    }
    ev->in_collective =
        atomic_load_explicit(&p->in_order, memory_order_relaxed) > 0 ||
        atomic_load_explicit(&p->by_name, memory_order_relaxed) > 0;
    ev->busy_ms = busy_us > now_us ? (busy_us - now_us + 999) / 1000 : 0;
}
