/* elastic/worker/api_device.c - the calls of hvd/device.h. hvd_state_add_device
 * is the state's.
 *
 * Threads: app. Memory: none. */
#include <hvd/device.h>

#include "base/error.h"
#include "base/struct_size.h"
#include "collectives/comm.h"
#include "device/device.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/process.h"
#include "elastic/worker/static.h"

hvd_status_t hvd_device_set(int ordinal)
{
    HVD_TRY(process_check("hvd_device_set"));
    return error_prefix(device_set(ordinal), "hvd_device_set");
}

hvd_status_t hvd_device_info(hvd_device_info_t *info)
{
    hvd_device_info_t own;

    HVD_TRY(error_prefix(struct_check(info, "info"), "hvd_device_info"));
    device_inform(&own);
    struct_give(info, &own, sizeof(own));
    return HVD_OK;
}

hvd_status_t hvd_confirm(void)
{
    HVD_TRY(static_world("hvd_confirm"));
    collective_enter();
    HVD_TRY(collective_leave(comm_confirm(process_self.comm)));
    return comm_unwaited(process_self.comm);
}
