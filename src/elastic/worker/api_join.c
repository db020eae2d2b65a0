/* elastic/worker/api_join.c - hvd_join() and hvd_comm_join(). Threads: app.
 * Memory: none. */
#include <hvd/comm.h>

#include "base/error.h"
#include "collectives/by_name.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "elastic/worker/static.h"

static hvd_status_t join(const char *call, hvd_comm_t *set, int *last_rank_p)
{
    hvd_collective_args_t args = {.struct_size = sizeof(args), .comm = set};
    struct comm *comm;
    int last;
    hvd_status_t status;

    HVD_TRY(process_check(call));
    if (!process_is_app())
        return error_set(HVD_ERR_STATE, "%s: not on the issuing thread", call);
    HVD_TRY(static_world(call));
    HVD_TRY(error_prefix(sets_find(&args, &comm), "%s", call));
    collective_enter();
    status = error_prefix(by_name_join(comm, &last), "%s", call);
    if (status == HVD_OK && last_rank_p)
        *last_rank_p = last;
    return collective_leave(status);
}

hvd_status_t hvd_join(int *last_rank_p)
{
    return join("hvd_join", NULL, last_rank_p);
}

hvd_status_t hvd_comm_join(hvd_comm_t *comm, int *last_rank_p)
{
    return join("hvd_comm_join", comm, last_rank_p);
}
