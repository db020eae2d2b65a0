/* elastic/worker/commit.c - see commit.h.
 *
 * That a call has failed is the comm's to know (comm_whole): a collective whose
 * status was ignored, a posted one that nobody has waited for, one in a
 * callback. It is asked behind the callbacks, just before bytes are copied.
 *
 * Threads: app. */
#include "elastic/worker/commit.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/world.h"
#include "elastic/worker/collective.h"
#include "elastic/worker/process.h"
#include "state/state.h"

/* The boundary is not counted: where it left is what this rank will say. */
static hvd_status_t has_left(struct process *p)
{
    p->went_on = true;
    return error_set(HVD_HOSTS_UPDATED,
                     "this rank has left generation %" PRIu64
                     " at boundary %" PRIu64 ": nothing more is committed",
                     comm_generation(p->comm), atomic_load(&p->boundary));
}

hvd_status_t commit_check(void)
{
    struct process *p = &process_self;

    if (!p->comm || p->remains)
        return HVD_OK;
    if (p->left)
        return has_left(p);
    HVD_TRY(error_prefix(comm_whole(p->comm),
                         "a call has failed in generation %" PRIu64
                         ", nothing more is committed",
                         comm_generation(p->comm)));
    return error_prefix(comm_unwaited(p->comm),
                        "nothing is committed before hvd_wait has returned "
                        "this");
}

static hvd_status_t settle(void)
{
    HVD_TRY(collective_drain());
    return commit_check();
}

hvd_status_t commit_prepare(hvd_state_t *state)
{
    HVD_TRY(settle());
    HVD_TRY(state_run_on_commit(state));
    return settle();
}

hvd_status_t commit_save(hvd_state_t *state)
{
    struct world world;

    HVD_TRY(commit_prepare(state));
    world_get(&world);
    return state_save(state, world.generation, world.size);
}

/* A forked child has no snapshots. */
hvd_status_t hvd_state_restore(hvd_state_t *state)
{
    if (!state)
        return error_set(HVD_ERR_INVALID, "hvd_state_restore: NULL");
    if (atomic_load(&process_self.forked))
        return process_check("hvd_state_restore");
    return state_restore(state);
}

hvd_status_t hvd_state_save(hvd_state_t *state)
{
    if (!state)
        return error_set(HVD_ERR_INVALID, "hvd_state_save: NULL");
    if (atomic_load(&process_self.forked))
        return process_check("hvd_state_save");
    return commit_save(state);
}
