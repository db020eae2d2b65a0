/* elastic/worker/solo.c - a world of one. See solo.h. Threads: app. */
#include "elastic/worker/solo.h"

#include "base/error.h"
#include "base/world.h"
#include "elastic/worker/commit.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "state/state.h"

static void show(uint64_t generation)
{
    world_set(&(struct world){
        .generation = generation, .size = 1, .local_size = 1, .cross_size = 1});
}

hvd_status_t solo_init(void)
{
    struct comm_config config = {.generation = 1, .rank = 0, .size = 1};
    struct comm_peer self = {.worker = 1};

    config.peers = &self;
    HVD_TRY(comm_create(&config, &process_self.comm));
    atomic_store(&process_self.boundary, 0);
    atomic_store(&process_self.hold, 0);
    world_set_slot(0);
    show(1);
    return HVD_OK;
}

void solo_fini(void)
{
    sets_leave();
    comm_destroy(process_self.comm);
    process_self.comm = NULL;
}

static hvd_status_t begin(hvd_state_t *state, uint64_t generation)
{
    hvd_reset_info_t info = {.struct_size = sizeof(info),
                             .generation = generation,
                             .reason = HVD_RESET_PEER_LOST,
                             .size = 1};

    if (state_id_is_none(state_id_of(state)))
        return commit_save(state);
    info.committed_size = state_committed_size(state);
    if (generation > 1)
        state_reset(state, &info);
    return HVD_OK;
}

static hvd_status_t train_once(hvd_state_t *state, hvd_train_fn train,
                               void *arg)
{
    hvd_status_t status;

    error_clear();
    process_self.left = false;
    process_self.went_on = false;
    status = train(state, arg);
    if (process_self.left) {
        process_self.left = false;
        atomic_store(&process_self.hold, 0);
        return error_set(HVD_REMOVED, "this worker was drained");
    }
    return status;
}

hvd_status_t solo_run(hvd_state_t *state, hvd_train_fn train, void *arg)
{
    struct world world;
    uint64_t generation;
    hvd_status_t status;

    world_get(&world);
    generation = world.generation;
    HVD_TRY(begin(state, generation));
    for (;;) {
        status = train_once(state, train, arg);
        if (status != HVD_PEER_LOST)
            break;
        process_self.in_sync = true; /* as in a job, where ranks differ */
        status = state_restore(state);
        process_self.in_sync = false;
        HVD_TRY(status);
        show(++generation);
        HVD_TRY(begin(state, generation));
    }
    if (status == HVD_OK)
        return commit_save(state);
    if (error_text()[0] == '\0')
        error_set(status, "the training function returned %d (%s)", (int)status,
                  hvd_strerror(status));
    return status;
}
