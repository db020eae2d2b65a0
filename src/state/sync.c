/* state/sync.c - a snapshot from one worker to another, over the state channel
 * of a comm. Decides nothing: who sends to whom is the run loop's word.
 *
 * The receiver checks count, layout and sizes against its own registry before
 * it makes room, so that a wrong number cannot balloon it; it writes only its
 * spare snapshot until everything has arrived.
 *
 * Threads: the training thread. Blocks in comm_transfer_*. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/error.h"
#include "collectives/comm.h"
#include "state/internal.h"
#include "state/sync_wire.h"

static hvd_status_t send_sizes(const struct snapshot *s, struct comm *comm,
                               int peer)
{
    size_t nbytes = s->n_shared * 8, at = 0;
    hvd_status_t status;
    uint8_t *buf;

    if (nbytes == 0)
        return HVD_OK;
    buf = malloc(nbytes);
    if (!buf)
        return error_set(HVD_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < s->n_records; i++) {
        if (!s->records[i].shared)
            continue;
        bytes_put(buf + at, s->records[i].nbytes, 8);
        at += 8;
    }
    status = comm_transfer_send(comm, peer, buf, nbytes);
    free(buf);
    return status;
}

hvd_status_t state_sync_send(hvd_state_t *state, struct comm *comm, int peer)
{
    uint8_t buf[SYNC_HEADER_NBYTES];
    const struct snapshot *s;
    struct sync_header header;
    hvd_status_t status;

    if (state->current == SNAPSHOT_NONE)
        return error_set(HVD_ERR_STATE, "sync: nothing to send to rank %d",
                         peer);
    s = &state->snapshots[state->current];
    header = (struct sync_header){
        .n_shared = s->n_shared,
        .shared_nbytes = s->shared_nbytes,
        .generation = state_id_of(state).generation,
        .version = state_id_of(state).version,
        .committed_size = (uint32_t)s->committed_size};
    memcpy(header.layout, s->layout, sizeof(header.layout));
    sync_header_encode(&header, buf);
    HVD_TRY_GOTO(comm_transfer_send(comm, peer, buf, sizeof(buf)), failed);
    HVD_TRY_GOTO(send_sizes(s, comm, peer), failed);
    if (s->shared_nbytes > 0)
        HVD_TRY_GOTO(comm_transfer_send(comm, peer, s->bytes, s->shared_nbytes),
                     failed);
    return HVD_OK;

failed:
    return error_prefix(status, "sync to rank %d", peer);
}

static size_t count_shared(const hvd_state_t *state)
{
    size_t n = 0;

    for (size_t i = 0; i < state->n_entries; i++)
        n += entry_is_shared(&state->entries[i]);
    return n;
}

static hvd_status_t check_header(const hvd_state_t *state,
                                 const struct sync_header *header)
{
    if (header->n_shared != count_shared(state))
        return error_set(HVD_ERR_LAYOUT,
                         "%zu shared entries here, %" PRIu64 " at the source",
                         count_shared(state), header->n_shared);
    if (memcmp(header->layout, state->layout, sizeof(state->layout)) != 0)
        return error_set(HVD_ERR_LAYOUT,
                         "names, order or kinds of the entries differ");
    if (header->committed_size > INT32_MAX)
        return error_set(HVD_ERR_PROTOCOL, "committed by %" PRIu32 " ranks",
                         header->committed_size);
    return HVD_OK;
}

static hvd_status_t receive_header(hvd_state_t *state, struct comm *comm,
                                   int source, struct sync_header *header_p)
{
    uint8_t buf[SYNC_HEADER_NBYTES];

    HVD_TRY(comm_transfer_recv(comm, source, buf, sizeof(buf)));
    if (!sync_header_decode(buf, header_p))
        return error_set(HVD_ERR_PROTOCOL, "not a state of version %d",
                         SYNC_WIRE_VERSION);
    return check_header(state, header_p);
}

static hvd_status_t check_size(const struct entry *entry, uint64_t nbytes)
{
    uint64_t own = entry->nbytes;

    if (entry->kind == ENTRY_OBJECT) {
        if (nbytes <= OBJECT_NBYTES_MAX)
            return HVD_OK;
        return error_set(HVD_ERR_PROTOCOL,
                         "object '%s' claims %" PRIu64 " bytes, at most %d",
                         entry->name, nbytes, OBJECT_NBYTES_MAX);
    }
    if (entry->kind == ENTRY_SAMPLER)
        own = SAMPLER_CURSOR_NBYTES;
    if (nbytes != own)
        return error_set(HVD_ERR_LAYOUT,
                         "entry '%s' has %" PRIu64 " bytes here, %" PRIu64
                         " at the source",
                         entry->name, own, nbytes);
    return HVD_OK;
}

/* Sizes of all entries for the spare snapshot: the shared ones as the source
 * says, the local ones as they are. */
static hvd_status_t take_sizes(hvd_state_t *state, const uint8_t *buf)
{
    for (size_t i = 0; i < state->n_entries; i++) {
        const struct entry *entry = &state->entries[i];
        uint64_t nbytes = entry->nbytes;

        if (entry_is_shared(entry)) {
            nbytes = bytes_get(buf, 8);
            buf += 8;
            HVD_TRY(check_size(entry, nbytes));
        }
        state->sizes[i] = (size_t)nbytes;
    }
    return HVD_OK;
}

static hvd_status_t receive_sizes(hvd_state_t *state, struct comm *comm,
                                  int source, size_t n_shared)
{
    hvd_status_t status = HVD_ERR_NOMEM;
    /* one more: malloc(0) may be NULL */
    uint8_t *buf = malloc(n_shared * 8 + 1);

    if (!buf ||
        !array_reserve(&state->sizes, &state->sizes_max, state->n_entries)) {
        error_set(HVD_ERR_NOMEM, "out of memory");
        goto free_buf;
    }
    if (n_shared > 0)
        HVD_TRY_GOTO(comm_transfer_recv(comm, source, buf, n_shared * 8),
                     free_buf);
    status = take_sizes(state, buf);

free_buf:
    free(buf);
    return status;
}

/* What a snapshot of ours would hold of entries that are not sent. */
static void fill_local(const hvd_state_t *state, struct snapshot *spare)
{
    for (size_t i = 0; i < state->n_entries; i++) {
        const struct entry *entry = &state->entries[i];
        const struct record *record = &spare->records[i];

        if (!entry_is_shared(entry) && record->nbytes > 0)
            memcpy(snapshot_at(spare, record), entry->ptr, record->nbytes);
    }
}

static hvd_status_t receive(hvd_state_t *state, struct comm *comm, int source,
                            struct snapshot *spare)
{
    struct sync_header header;

    HVD_TRY(receive_header(state, comm, source, &header));
    HVD_TRY(receive_sizes(state, comm, source, (size_t)header.n_shared));
    HVD_TRY(snapshot_prepare(spare, state, state->sizes));
    if (spare->shared_nbytes != header.shared_nbytes)
        return error_set(HVD_ERR_PROTOCOL,
                         "state of %" PRIu64 " bytes, its entries make %zu",
                         header.shared_nbytes, spare->shared_nbytes);
    if (spare->shared_nbytes > 0)
        HVD_TRY(comm_transfer_recv(comm, source, spare->bytes,
                                   spare->shared_nbytes));
    fill_local(state, spare);
    spare->committed_size = (int)header.committed_size;
    return snapshot_check(state, spare);
}

hvd_status_t state_sync_receive(hvd_state_t *state, struct comm *comm,
                                int source, struct state_id id,
                                uint64_t *nbytes_p)
{
    int index = snapshot_spare(state);
    struct snapshot *spare = &state->snapshots[index];
    hvd_status_t status;

    HVD_TRY(state_enter(state, "sync"));
    state->frozen = true;
    HVD_TRY_GOTO(receive(state, comm, source, spare), leave);
    snapshot_flip(state, index, id);
    HVD_TRY_GOTO(snapshot_apply(state), leave);
    HVD_TRY_GOTO(callbacks_run(&state->on_sync, "on_sync"), leave);
    *nbytes_p = SYNC_HEADER_NBYTES + spare->n_shared * 8 + spare->shared_nbytes;

leave:
    state_leave(state);
    return status == HVD_OK ? status
                            : error_prefix(status, "sync from rank %d", source);
}
