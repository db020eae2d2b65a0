/* elastic/worker/collective.c - what surrounds a wait for peers. See
 * collective.h. */
#include "elastic/worker/collective.h"

#include <stdatomic.h>

#include "base/error.h"
#include "collectives/comm.h"
#include "elastic/worker/membership.h"
#include "elastic/worker/process.h"
#include "elastic/worker/static.h"

/* One thread at a time writes each: that of a call in order, and app. */
static void deeper(_Atomic int *n, int levels)
{
    int now = atomic_load_explicit(n, memory_order_relaxed);

    atomic_store_explicit(n, now + levels, memory_order_release);
}

void collective_enter(void)
{
    deeper(&process_self.in_order, 1);
    if (process_self.kind == PROGRAM_STATIC)
        static_let_in();
}

void collective_exit(void)
{
    deeper(&process_self.in_order, -1);
}

static hvd_status_t over(hvd_status_t status, void (*failed)(hvd_status_t))
{
    if (status == HVD_OK) {
        membership_report_collective();
        return HVD_OK;
    }
    if (process_self.left)
        process_self.went_on = true;
    failed(status);
    return status;
}

hvd_status_t collective_leave(hvd_status_t status)
{
    collective_exit();
    return over(status, static_failed);
}

void collective_enter_by_name(void)
{
    deeper(&process_self.by_name, 1);
}

void collective_exit_by_name(void)
{
    deeper(&process_self.by_name, -1);
}

hvd_status_t collective_leave_by_name(hvd_status_t status)
{
    collective_exit_by_name();
    return over(status, static_failed_by_name);
}

hvd_status_t collective_drain(void)
{
    hvd_status_t status;

    if (!process_self.comm)
        return HVD_OK;
    collective_enter();
    status = comm_drain(process_self.comm);
    if (status != HVD_OK && !atomic_load(&process_self.remains))
        return collective_leave(status);
    collective_exit(); /* what is left of the run has no say in a commit */
    return HVD_OK;
}
