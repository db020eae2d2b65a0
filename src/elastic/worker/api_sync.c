/* elastic/worker/api_sync.c - hvd_state_sync(), the call of hvd/state.h that is
 * a collective.
 *
 * Threads: app. Memory: none. */
#include <hvd/collectives.h>
#include <hvd/state.h>

#include "base/error.h"
#include "base/world.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/commit.h"
#include "elastic/worker/process.h"
#include "elastic/worker/static.h"
#include "state/state.h"

static hvd_status_t serve_all(hvd_state_t *state, int size)
{
    for (int rank = 1; rank < size; rank++)
        HVD_TRY(state_sync_send(state, process_self.comm, rank, false));
    return HVD_OK;
}

static hvd_status_t receive_from_root(hvd_state_t *state, struct state_id id)
{
    hvd_status_t status;
    uint64_t nbytes;

    process_self.in_sync = true;
    status = state_sync_receive(state, process_self.comm, 0, id, false,
                                &nbytes);
    process_self.in_sync = false;
    return status;
}

/* The root's next version names the snapshot on all ranks: they may have
 * counted differently. */
hvd_status_t hvd_state_sync(hvd_state_t *state)
{
    struct world world;
    struct state_id id;

    if (!state)
        return error_set(HVD_ERR_INVALID, "hvd_state_sync: state is NULL");
    HVD_TRY(static_world("hvd_state_sync"));
    world_get(&world);
    HVD_TRY(world.rank == 0 ? commit_save(state) : commit_prepare(state));
    id.generation = world.generation;
    id.version = hvd_state_version(state);
    HVD_TRY(hvd_broadcast(&id.version, 1, HVD_INT64, 0));
    collective_enter();
    return collective_leave(world.rank == 0 ? serve_all(state, world.size)
                                            : receive_from_root(state, id));
}
