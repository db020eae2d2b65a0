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
 * Live memory is not touched, and the snapshot of a rank in which it ends half
 * way is in its host's memory. Of what has come nothing is believed yet: sync.c
 * compares it with the digests of a source.
 *
 * Threads: the training thread. Memory: the votes, for one call. */
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
    struct snapshot *s = served(state, d);

    if (d->rank != d->root)
        return device_entries_begin_receive(state, nbytes);
    if (!s || !s->in_shadow)
        return error_set(HVD_ERR_NOMEM, "the device has no room for a shadow");
    return device_entries_await(state, s); /* the shadow is whole as well */
}

static void vote(hvd_state_t *state, const struct state_devices *d,
                 const struct cargo *c, uint8_t *mine)
{
    hvd_status_t status = HVD_ERR_UNSUPPORTED;

    if (c->nbytes > 0 && c->nbytes >= d->min_nbytes) {
        status = make_ready(state, d, c->nbytes);
        if (status != HVD_OK)
            log_info("sync of devices: %s", error_text());
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
    struct collective_args args = {.struct_size = sizeof(args),
                                   .kind = COLLECTIVE_ALLGATHER,
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
    struct collective_args args = {.struct_size = sizeof(args),
                                   .kind = COLLECTIVE_BROADCAST,
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

hvd_status_t state_sync_devices(hvd_state_t *state, struct comm *comm,
                                const struct state_devices *d, bool *apart_p)
{
    struct snapshot *s = served(state, d);
    struct cargo c = s ? cargo_of_snapshot(s) : cargo_of_entries(state);
    uint8_t mine[VOTE_NBYTES];
    bool all = false, by_nccl;

    *apart_p = false;
    vote(state, d, &c, mine);
    HVD_TRY(error_prefix(gather(comm, d, mine, &all), "sync of devices"));
    if (!all)
        return HVD_OK;
    HVD_TRY(comm_meet_on_devices(comm, &by_nccl));
    if (!by_nccl)
        return HVD_OK;
    HVD_TRY(error_prefix(broadcast(state, comm, d->root, c.nbytes),
                         "sync of devices"));
    if (s)
        s->in_shadow = true;
    log_info("sync: %zu bytes on devices by NCCL", c.nbytes);
    *apart_p = true;
    return HVD_OK;
}
