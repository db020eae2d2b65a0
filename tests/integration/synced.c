/* tests/integration/synced.c - see synced.h. Memory: static. */
#include "synced.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <hvd/hvd.h>

enum { VALUES = 5000 };

static struct {
    uint64_t values[VALUES]; /* shared: first + i */
    uint64_t own;            /* local */
    int n_commits, n_syncs;  /* callbacks */
} model;

static void expect(const char *what, uint64_t got, uint64_t want)
{
    if (got == want)
        return;
    fprintf(stderr,
            "WRONG: %s of the synced state, rank %d: %" PRIu64
            " instead of %" PRIu64 "\n",
            what, hvd_rank(), got, want);
    abort();
}

static void set_values(uint64_t first)
{
    for (uint64_t i = 0; i < VALUES; i++)
        model.values[i] = first + i;
}

static void expect_values(uint64_t first)
{
    for (uint64_t i = 0; i < VALUES; i++)
        expect("a value", model.values[i], first + i);
    expect("the local entry", model.own, (uint64_t)hvd_rank());
}

/* It succeeds only if all ranks are in it. */
static hvd_status_t on_commit(void *arg)
{
    model.n_commits++;
    return hvd_barrier();
}

/* Live memory is the snapshot already. */
static hvd_status_t on_sync(void *arg)
{
    expect_values(*(const uint64_t *)arg);
    model.n_syncs++;
    return HVD_OK;
}

static hvd_status_t sync_from_rank_0(hvd_state_t *state, uint64_t *first,
                                     uint64_t version)
{
    set_values(hvd_rank() == 0 ? *first : 100000);
    HVD_TRY(hvd_state_sync(state));
    expect_values(*first);
    expect("the version", hvd_state_version(state), version);
    set_values(3);
    HVD_TRY(hvd_state_restore(state));
    expect_values(*first);
    return HVD_OK;
}

static hvd_status_t check(hvd_state_t *state)
{
    uint64_t first = 7;

    model.own = (uint64_t)hvd_rank();
    HVD_TRY(hvd_state_add(state, "values", model.values, sizeof(model.values)));
    HVD_TRY(hvd_state_add_local(state, "own", &model.own, sizeof(model.own)));
    HVD_TRY(hvd_state_on_commit(state, on_commit, NULL));
    HVD_TRY(hvd_state_on_sync(state, on_sync, &first));
    HVD_TRY(sync_from_rank_0(state, &first, 1));
    HVD_TRY(hvd_state_save(state));
    expect("the version", hvd_state_version(state), 2);
    first = 900;
    HVD_TRY(sync_from_rank_0(state, &first, 3));
    expect("on_commit calls", (uint64_t)model.n_commits, 3);
    expect("on_sync calls", (uint64_t)model.n_syncs, hvd_rank() > 0 ? 2 : 0);
    return HVD_OK;
}

hvd_status_t synced_check(void)
{
    hvd_state_t *state;
    hvd_status_t status;

    HVD_TRY(hvd_state_create(&state));
    status = check(state);
    hvd_state_destroy(state);
    return status;
}
