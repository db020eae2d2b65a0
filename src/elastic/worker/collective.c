/* elastic/worker/collective.c - what surrounds a wait for peers. See
 * collective.h. */
#include "elastic/worker/collective.h"

#include "base/error.h"
#include "collectives/comm.h"
#include "elastic/worker/membership.h"
#include "elastic/worker/process.h"
#include "elastic/worker/static.h"

/* Two threads may wait: one in a call in order, one for a call by name. */
static void deeper(int levels)
{
    atomic_fetch_add_explicit(&process_self.in_collective, levels,
                              memory_order_relaxed);
}

void collective_enter(void)
{
    deeper(1);
}

void collective_exit(void)
{
    deeper(-1);
}

hvd_status_t collective_leave(hvd_status_t status)
{
    collective_exit();
    if (status == HVD_OK) {
        membership_report_collective();
    } else {
        if (process_self.left)
            process_self.went_on = true;
        static_failed(status);
    }
    return status;
}

hvd_status_t collective_drain(void)
{
    hvd_status_t status;

    if (!process_self.comm)
        return HVD_OK;
    collective_enter();
    status = comm_drain(process_self.comm);
    if (status != HVD_OK)
        return collective_leave(status);
    collective_exit();
    return HVD_OK;
}
