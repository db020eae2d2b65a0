/* elastic/worker/static.c - static programs. See static.h. */
#include "elastic/worker/static.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <hvd/world.h>

#include "base/clock.h"
#include "base/error.h"
#include "elastic/worker/control.h"
#include "elastic/worker/membership.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"

static uint64_t generation; /* joined; 0: none */

/* A thread that waited by name leaves the comm. It sets `leaving` and then
 * reads in_order; a call in order counts itself in and then reads `leaving`. */
static struct {
    pthread_mutex_t lock;
    atomic_bool on;
} leaving = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The driver counts on this worker, and hears that it fails. */
static hvd_status_t say_failed(hvd_status_t status)
{
    char text[WIRE_TEXT_MAX];

    snprintf(text, sizeof(text), "%s", error_text());
    membership_fail(status, text, false);
    return error_set(status, "%s", text);
}

static hvd_status_t join(void)
{
    struct control_assignment a;
    hvd_status_t status;

    process_self.kind = PROGRAM_STATIC;
    HVD_TRY(membership_enter(NULL));
    status = membership_await(0, &a);
    if (status != HVD_OK)
        return say_failed(status);
    process_self.first_collective_due = true;
    generation = a.generation;
    membership_show(&a);
    sets_begin();
    return sets_enter();
}

hvd_status_t static_world(const char *call)
{
    HVD_TRY(process_check(call));
    if (process_self.in_sync)
        return error_set(HVD_ERR_STATE,
                         "%s: in a callback of a sync, which not all ranks run",
                         call);
    if (process_self.comm)
        return HVD_OK;
    if (process_self.kind == PROGRAM_UNDECIDED)
        return error_prefix(join(), "%s: joining the world", call);
    return error_set(HVD_ERR_STATE, "%s: there is no world %s", call,
                     process_self.kind == PROGRAM_STATIC
                         ? "any more"
                         : "outside of the training function");
}

hvd_status_t hvd_world_start(void)
{
    HVD_TRY(process_check("hvd_world_start"));
    if (process_self.kind == PROGRAM_ELASTIC)
        return error_set(HVD_ERR_STATE,
                         "hvd_world_start: this is an elastic program");
    return static_world("hvd_world_start");
}

/* Has the world of a static program ended with this call? */
static bool is_loss(hvd_status_t status)
{
    if (process_self.kind != PROGRAM_STATIC || process_self.lost_posted)
        return false;
    if (status != HVD_PEER_LOST && status != HVD_ERR_MISMATCH)
        return false;
    /* if not, one call by name has failed, and the generation lives on */
    return !process_self.comm || comm_status(process_self.comm, NULL) != HVD_OK;
}

void static_failed(hvd_status_t status)
{
    char text[WIRE_TEXT_MAX];

    if (!is_loss(status) || atomic_exchange(&process_self.lost_posted, true))
        return;
    snprintf(text, sizeof(text), "%s", error_text());
    membership_lost(generation, status == HVD_ERR_MISMATCH, text);
    /* The program is about to exit. Were the driver to hear of that before it
     * hears why, this worker would be the cause. */
    membership_hear();
    error_set(status, "%s", text);
}

void static_failed_by_name(hvd_status_t status)
{
    if (!is_loss(status))
        return;
    pthread_mutex_lock(&leaving.lock);
    atomic_store(&leaving.on, true);
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&process_self.in_order) == 0)
        static_failed(status);
    atomic_store(&leaving.on, false);
    pthread_mutex_unlock(&leaving.lock);
}

void static_let_in(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load_explicit(&leaving.on, memory_order_acquire))
        return;
    pthread_mutex_lock(&leaving.lock);
    pthread_mutex_unlock(&leaving.lock);
}

static hvd_status_t leave_done(void)
{
    struct worker_event ev = {.type = WORKER_EV_DONE};
    hvd_status_t status;
    bool final;

    status = comm_drain(process_self.comm);
    if (status != HVD_OK) {
        static_failed(status);
        return status;
    }
    if (control_post(&ev) != HVD_OK)
        return error_set(HVD_PEER_LOST, "the static job has lost a worker");
    comm_leave(process_self.comm, COMM_LEAVE_DONE,
               atomic_load(&process_self.boundary));
    HVD_TRY(control_wait(control_done_over, generation, CLOCK_NEVER));
    status = membership_verdict(&final);
    if (final)
        return status;
    return error_set(HVD_PEER_LOST, "the static job has lost a worker");
}

hvd_status_t static_finish(void)
{
    hvd_status_t status = HVD_PEER_LOST;

    if (!process_self.comm)
        return HVD_OK;
    if (!process_self.lost_posted)
        status = leave_done();
    if (status == HVD_OK)
        return HVD_OK;
    return say_failed(status);
}
