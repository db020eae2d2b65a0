/* state/sync_devices.c - what a state has on devices, to all ranks by NCCL:
 * from the memory of one device to that of the others, ahead of the rest, which
 * sync.c sends through memory of the host.
 *
 *   allgather   what each has there, by its digest, and whether it has room for
 *               as much again; ranks that differ go the other way, where the
 *               entry that differs is named
 *   meet        as at the first collective on devices (on_device.h)
 *   broadcast   of the root's shadow (device_entries.h), to the others' shadows
 *
 * Live memory is not touched, and what a rank has committed is in its host's
 * memory, whole, before its shadow is overwritten. Of what has come nothing is
 * believed yet: sync.c compares it with the digests of a source, and who is a
 * source itself leaves it where it is until its next commit.
 *
 * Threads: the training thread. Memory: the votes, for one call. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/comm.h"
#include "state/device_entries.h"
#include "state/internal.h"

enum {
    VOTE_NBYTES = 16,        /* u64 digest, u64: 1, this rank can */
    PIECE_NBYTES = 256 << 20 /* heartbeats tell that it moves */
};

/* What lies on the device, in the order of a shadow. */
struct cargo {
    uint64_t digest; /* of the layout, and which entries, of which size */
    size_t nbytes;   /* of the shadow */
};

static void add(struct cargo *c, size_t index, size_t nbytes)
{
    uint8_t numbers[16];

    bytes_put(numbers, index, 8);
    bytes_put(numbers + 8, nbytes, 8);
    c->digest = XXH3_64bits_withSeed(numbers, sizeof(numbers), c->digest);
    c->nbytes += device_entries_room(nbytes);
}

/* Of the snapshot that is served. */
static struct cargo cargo_of_snapshot(const struct snapshot *s)
{
    struct cargo c = {.digest = XXH3_64bits(s->layout, sizeof(s->layout))};

    for (size_t i = 0; i < s->n_records; i++)
        if (s->records[i].device)
            add(&c, i, s->records[i].nbytes);
    return c;
}

/* Of one that would be received. */
static struct cargo cargo_of_entries(const hvd_state_t *state)
{
    struct cargo c = {
        .digest = XXH3_64bits(state->layout, sizeof(state->layout))};

    for (size_t i = 0; i < state->n_entries; i++)
        if (state->entries[i].kind == ENTRY_DEVICE)
            add(&c, i, state->entries[i].nbytes);
    return c;
}

/* --- the vote --- */

static struct snapshot *served(hvd_state_t *state,
                               const struct state_devices *d)
{
    if (!d->is_source || state->current == SNAPSHOT_NONE)
        return NULL;
    return &state->snapshots[state->current];
}

static hvd_status_t make_ready(hvd_state_t *state,
                               const struct state_devices *d, size_t nbytes)
{
    const struct snapshot *s = served(state, d);

    if (state->device.n_by_hosts > 0) {
        state->device.n_by_hosts--;
        return error_set(HVD_ERR_UNSUPPORTED, "it has not come by NCCL before");
    }
    if (d->rank == d->root && !(s && s->in_shadow))
        return error_set(HVD_ERR_STATE, "the root has no second copy of it");
    return device_entries_make_room(state, nbytes);
}

static void vote(hvd_state_t *state, const struct state_devices *d,
                 const struct cargo *c, uint8_t *mine)
{
    hvd_status_t status = HVD_ERR_UNSUPPORTED;

    if (c->nbytes > 0 && c->nbytes >= d->min_nbytes) {
        status = make_ready(state, d, c->nbytes);
        if (status != HVD_OK)
            log_info("sync of devices: %s -> through the hosts' memory",
                     error_text());
    }
    bytes_put(mine, c->digest, 8);
    bytes_put(mine + 8, status == HVD_OK, 8);
}

/* Can all, and have they the same? */
static bool is_unanimous(const uint8_t *votes, int size)
{
    for (int i = 0; i < size; i++) {
        const uint8_t *v = votes + (size_t)i * VOTE_NBYTES;

        if (bytes_get(v + 8, 8) != 1 || memcmp(v, votes, 8) != 0)
            return false;
    }
    return true;
}

static hvd_status_t gather(struct comm *comm, const struct state_devices *d,
                           const uint8_t *mine, bool *all_p)
{
    uint8_t *votes = malloc((size_t)d->size * VOTE_NBYTES);
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHER,
                                   .sendbuf = mine,
                                   .recvbuf = votes,
                                   .count = VOTE_NBYTES,
                                   .dtype = HVD_UINT8,
                                   .memory = HVD_MEMORY_HOST};
    hvd_status_t status;

    if (!votes)
        return error_set(HVD_ERR_NOMEM, "%d votes: out of memory", d->size);
    status = comm_run(comm, &args);
    *all_p = status == HVD_OK && is_unanimous(votes, d->size);
    free(votes);
    return status;
}

/* --- the broadcast --- */

static hvd_status_t broadcast(hvd_state_t *state, struct comm *comm, int root,
                              size_t nbytes)
{
    struct collective_args args = {.kind = COLLECTIVE_BROADCAST,
                                   .dtype = HVD_UINT8,
                                   .root = root,
                                   .memory = HVD_MEMORY_DEVICE};

    for (size_t at = 0; at < nbytes; at += args.count) {
        args.recvbuf = (uint8_t *)state->device.shadow + at;
        args.sendbuf = args.recvbuf;
        args.count = nbytes - at < PIECE_NBYTES ? nbytes - at : PIECE_NBYTES;
        HVD_TRY(comm_run(comm, &args));
    }
    return HVD_OK;
}

/* What has failed, by a dead peer say, goes through the hosts the next time,
 * and is tried again after that. Where ranks have met and NCCL could not be
 * had, it is not tried again: that may have cost a deadline. */
static hvd_status_t send_all(hvd_state_t *state, struct comm *comm,
                             const struct state_devices *d, size_t nbytes,
                             bool *sent_p)
{
    bool by_nccl;

    state->device.n_by_hosts = 1;
    HVD_TRY(comm_meet_on_devices(comm, &by_nccl));
    if (!by_nccl) {
        state->device.n_by_hosts = INT_MAX;
        return HVD_OK;
    }
    if (d->rank != d->root)
        device_entries_begin_receive(state);
    HVD_TRY(broadcast(state, comm, d->root, nbytes));
    state->device.n_by_hosts = 0;
    log_info("sync: %zu bytes on devices by NCCL", nbytes);
    *sent_p = true;
    return HVD_OK;
}

hvd_status_t state_sync_devices(hvd_state_t *state, struct comm *comm,
                                const struct state_devices *d, bool *apart_p)
{
    const struct snapshot *s = served(state, d);
    uint8_t mine[VOTE_NBYTES];
    hvd_status_t status;
    struct cargo c;
    bool all = false;

    *apart_p = false;
    state_settle(state);
    c = s ? cargo_of_snapshot(s) : cargo_of_entries(state);
    vote(state, d, &c, mine);
    status = gather(comm, d, mine, &all);
    if (status == HVD_OK && all)
        status = send_all(state, comm, d, c.nbytes, apart_p);
    return error_prefix(status, "sync of devices");
}
