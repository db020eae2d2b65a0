/* state.c - the state of each virtual worker: what state.h promises, of a
 * content that is two numbers. Every snapshot is compared with all others of
 * its id (check.c). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "state/state.h"

#define ULL(x) ((unsigned long long)(x))

static uint64_t mix(uint64_t a, uint64_t b)
{
    struct random_state r = {a * UINT64_C(0x9e3779b97f4a7c15) + b};

    return random_u64(&r);
}

void state_train_step(struct sim_worker *w)
{
    w->live.hash = mix(w->live.hash, w->generation);
    w->live.steps++;
}

void state_stray_step(struct sim_worker *w)
{
    w->live.hash = mix(w->live.hash, w->id);
    w->live.steps++;
    w->live.spoilt = true;
}

/* ---- snapshots ----------------------------------------------------------- */

struct state_id state_id_of(const hvd_state_t *state)
{
    return state->owner->id_of;
}

uint64_t hvd_state_version(const hvd_state_t *state)
{
    return state->owner->id_of.version;
}

static void stamp(struct sim *s, struct sim_worker *w, struct state_id id)
{
    if (s->options.bug == BUG_version)
        id.generation = 0;
    w->id_of = id;
    check_stamp(s, w);
}

static void flip(struct sim *s, struct sim_worker *w, uint64_t generation)
{
    if (w->comm.status != HVD_OK)
        sim_cover(s, COVER_late_commit);
    w->snap = w->live;
    stamp(s, w, (struct state_id){generation, w->id_of.version + 1});
    TRACE(s, "w%llu commits step %llu as (%llu, %llu)", ULL(w->id),
          ULL(w->snap.steps), ULL(w->id_of.generation), ULL(w->id_of.version));
    w->committed_here |= w->app == APP_COMPUTING;
}

/* Copying takes its time: the process may die, the generation may end. */
hvd_status_t state_save(hvd_state_t *state, uint64_t generation, int world_size)
{
    struct sim *s = sim_current;
    struct sim_worker *w = state->owner;

    (void)world_size;
    app_trap(s, w, TRAP_COMMIT);
    if (sim_one_in(s, 4))
        app_sleep(s, w, sim_uniform(s, 1, 500));
    if (w->out || generation != w->generation)
        check_fail(s, "w%llu commits after it has left generation %llu",
                   ULL(w->id), ULL(w->generation));
    flip(s, w, generation);
    return HVD_OK;
}

void state_late_commit(struct sim *s, struct sim_worker *w)
{
    state_train_step(w);
    flip(s, w, w->generation);
}

void state_heedless_commit(struct sim *s, struct sim_worker *w)
{
    flip(s, w, w->generation);
}

hvd_status_t state_run_on_commit(hvd_state_t *state)
{
    (void)state;
    return HVD_OK;
}

hvd_status_t state_restore(hvd_state_t *state)
{
    state->owner->live = state->owner->snap;
    return HVD_OK;
}

/* Snapshots fit here. */
void state_restore_local(hvd_state_t *state)
{
    (void)state;
}

void state_stamp(hvd_state_t *state, struct state_id id)
{
    stamp(sim_current, state->owner, id);
}

uint64_t state_moves(const hvd_state_t *state)
{
    (void)state;
    return 0;
}

int state_committed_size(const hvd_state_t *state)
{
    (void)state;
    return 0;
}

void state_reset(hvd_state_t *state, const hvd_reset_info_t *info)
{
    (void)state;
    (void)info;
}

void state_layout(hvd_state_t *state, uint8_t *digest, char *text,
                  size_t text_max)
{
    memset(digest, state->owner->layout, STATE_DIGEST_NBYTES);
    snprintf(text, text_max, "w");
}

/* ---- sync ---------------------------------------------------------------- */

/* Of devices the simulator knows nothing. */
bool state_is_on_device(const hvd_state_t *state)
{
    (void)state;
    return false;
}

hvd_status_t state_sync_devices(hvd_state_t *state, struct comm *comm,
                                const struct state_devices *devices,
                                bool *apart_p)
{
    (void)state, (void)comm, (void)devices, (void)apart_p;
    abort();
}

/* What is equal is check.c's to find out: here it takes the ranks' time. */
hvd_status_t state_verify(hvd_state_t *state, struct comm *comm, int size,
                          struct text *t, enum state_difference *difference_p)
{
    const struct collective_args args = {.kind = COLLECTIVE_ALLGATHER};

    (void)state;
    (void)size;
    (void)t;
    *difference_p = STATE_EQUAL;
    return comm_run(comm, &args);
}

hvd_status_t state_sync_send(hvd_state_t *state, struct comm *comm, int peer,
                             bool apart)
{
    (void)apart;
    app_trap(sim_current, state->owner, TRAP_SOURCE);
    return plane_transfer(comm, peer);
}

/* Now and then a state does not arrive as it was sent; to some workers never.
 * Not drawn from the world's numbers. */
static bool arrives_damaged(struct sim *s, const struct sim_worker *w)
{
    struct random_state never = {s->options.seed * 4517 + w->id};
    struct random_state now = {s->options.seed * 3613 + w->id * 17 +
                               w->generation};

    if (s->options.base || s->options.large)
        return false;
    return (random_below(&never, 60) == 0 || random_below(&now, 60) == 0) &&
           sim_befalls(s, MISHAP_DAMAGED);
}

/* The program of a newcomer is now and then another version. Not drawn from the
 * world's numbers. */
static bool has_other_sizes(struct sim *s, const struct sim_worker *w)
{
    struct random_state r = {s->options.seed * 2741 + w->id};

    if (s->options.base || s->options.large || w->generation == 1 ||
        w->joined != w->generation || random_below(&r, 60) > 0 ||
        !sim_befalls(s, MISHAP_SIZES))
        return false;
    sim_cover(s, COVER_size_differs);
    return true;
}

static void take_state(struct sim *s, struct sim_worker *w, struct state_id id)
{
    struct state_id base = w->core.assign.base;

    if (state_id_is_none(base))
        base = id;
    if (s->options.bug == BUG_version)
        base.generation = 0;
    if (s->options.bug != BUG_nosync)
        w->live = w->snap = check_content(s, base);
    stamp(s, w, id);
    TRACE(s, "w%llu has synced step %llu", ULL(w->id), ULL(w->snap.steps));
}

hvd_status_t state_sync_receive(hvd_state_t *state, struct comm *comm,
                                int source, struct state_id id, bool apart,
                                uint64_t *nbytes_p)
{
    struct sim *s = sim_current;
    struct sim_worker *w = state->owner;
    hvd_status_t status;

    (void)apart;
    app_trap(s, w, TRAP_RECEIVER);
    status = plane_transfer(comm, source);
    if (status != HVD_OK)
        return status;
    if (has_other_sizes(s, w))
        return error_set(HVD_ERR_LAYOUT, "entry 'w' has 2048 bytes here");
    if (arrives_damaged(s, w)) {
        sim_cover(s, COVER_damaged_sync);
        return comm_distrust(comm, source, "its state arrived damaged");
    }
    take_state(s, w, id);
    *nbytes_p = 16;
    return HVD_OK;
}
