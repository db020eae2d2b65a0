/* state/sync.c - a snapshot from one worker to another, over the state channel
 * of a comm. Decides nothing: who sends to whom is the run loop's word.
 *
 * The receiver believes nothing: whether the id is that of the base; count,
 * layout and sizes against its own registry before it makes room, so that a
 * wrong number cannot balloon it; and each entry by its digest. It writes only
 * its spare snapshot until everything has arrived.
 *
 * Threads: the training thread. Blocks in comm_transfer_*. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/error.h"
#include "collectives/comm.h"
#include "state/device_entries.h"
#include "state/internal.h"
#include "state/sync_digest.h"
#include "state/sync_pieces.h"
#include "state/sync_wire.h"

/* One more: malloc(0) may be NULL. */
static uint8_t *list_create(size_t n)
{
    uint8_t *list = calloc(1, sync_list_nbytes(n) + 1);

    if (!list)
        error_set(HVD_ERR_NOMEM, "%zu entries: out of memory", n);
    return list;
}

/* ---- sending ------------------------------------------------------------- */

static hvd_status_t send_list(struct comm *comm, int peer, uint8_t *list,
                              size_t n)
{
    if (n == 0)
        return HVD_OK;
    sync_list_seal(list, n);
    return comm_transfer_send(comm, peer, list, sync_list_nbytes(n));
}

static hvd_status_t send_header(const hvd_state_t *state,
                                const struct snapshot *s, struct comm *comm,
                                int peer)
{
    uint8_t buf[SYNC_HEADER_NBYTES];
    struct state_id id = state_id_of(state);
    struct sync_header header = {.n_shared = s->n_shared,
                                 .shared_nbytes = s->shared_nbytes,
                                 .generation = id.generation,
                                 .version = id.version,
                                 .committed_size = (uint32_t)s->committed_size};

    memcpy(header.layout, s->layout, sizeof(header.layout));
    sync_header_encode(&header, buf);
    return comm_transfer_send(comm, peer, buf, sizeof(buf));
}

static void list_sizes(const struct snapshot *s, uint8_t *list)
{
    for (size_t i = 0; i < s->n_records; i++) {
        if (!s->records[i].shared)
            continue;
        bytes_put(list, s->records[i].nbytes, 8);
        list += 8;
    }
}

/* While a piece is digested here, the one before is on its way. */
static hvd_status_t send_bytes(const struct snapshot *s, struct comm *comm,
                               int peer, bool apart, uint8_t *list)
{
    struct sync_digests digests = {.snapshot = s, .list = list};
    struct sync_pieces p = {.snapshot = s, .apart = apart};

    memset(list, 0, sync_list_nbytes(s->n_shared));
    while (sync_pieces_next(&p)) {
        sync_digests_add(&digests, p.from, p.to);
        if (!p.goes_apart)
            HVD_TRY(comm_transfer_send(comm, peer, s->bytes + p.from,
                                       p.to - p.from));
    }
    return HVD_OK;
}

hvd_status_t state_sync_send(hvd_state_t *state, struct comm *comm, int peer,
                             bool apart)
{
    struct snapshot *s;
    hvd_status_t status = HVD_ERR_NOMEM;
    uint8_t *list;

    if (state->current == SNAPSHOT_NONE)
        return error_set(HVD_ERR_STATE, "sync: nothing to send to rank %d",
                         peer);
    s = &state->snapshots[state->current];
    HVD_TRY(device_entries_await(state, s));
    list = list_create(s->n_shared);
    if (!list)
        goto free_list;
    HVD_TRY_GOTO(send_header(state, s, comm, peer), free_list);
    list_sizes(s, list);
    HVD_TRY_GOTO(send_list(comm, peer, list, s->n_shared), free_list);
    HVD_TRY_GOTO(send_bytes(s, comm, peer, apart, list), free_list);
    status = send_list(comm, peer, list, s->n_shared);

free_list:
    free(list);
    return error_prefix(status, "sync to rank %d", peer);
}

/* ---- receiving ----------------------------------------------------------- */

struct provider {
    int source;
    bool apart; /* what lies on devices has come by NCCL */
};

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

/* Else it would be trained under an id that names something else. */
static hvd_status_t check_id(const struct sync_header *header,
                             struct state_id id)
{
    if (header->generation == id.generation && header->version == id.version)
        return HVD_OK;
    return error_set(HVD_ERR_CORRUPT,
                     "it serves state (%" PRIu64 ", %" PRIu64
                     "), the base is (%" PRIu64 ", %" PRIu64 ")",
                     header->generation, header->version, id.generation,
                     id.version);
}

static hvd_status_t receive_header(hvd_state_t *state, struct comm *comm,
                                   int source, struct state_id id,
                                   struct sync_header *header_p)
{
    uint8_t buf[SYNC_HEADER_NBYTES];

    HVD_TRY(comm_transfer_recv(comm, source, buf, sizeof(buf)));
    if (!sync_header_decode(buf, header_p))
        return error_set(HVD_ERR_PROTOCOL, "not a state of version %d",
                         SYNC_WIRE_VERSION);
    if (!sync_header_is_whole(buf))
        return error_set(HVD_ERR_CORRUPT, "the header arrived damaged");
    HVD_TRY(check_id(header_p, id));
    return check_header(state, header_p);
}

static hvd_status_t receive_list(struct comm *comm, int source, uint8_t *list,
                                 size_t n, const char *what)
{
    if (n == 0)
        return HVD_OK;
    HVD_TRY(comm_transfer_recv(comm, source, list, sync_list_nbytes(n)));
    if (sync_list_is_whole(list, n))
        return HVD_OK;
    return error_set(HVD_ERR_CORRUPT, "the entries' %s arrived damaged", what);
}

/* kept: of this rank's own snapshot, or NULL. An entry that has grown since
 * then may have its old size at the source. */
static hvd_status_t check_size(const struct entry *entry,
                               const struct record *kept, uint64_t nbytes)
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
    else if (kept && nbytes == kept->nbytes && nbytes < own)
        return HVD_OK;
    if (nbytes != own)
        return error_set(HVD_ERR_LAYOUT,
                         "entry '%s' has %" PRIu64 " bytes here, %" PRIu64
                         " at the source",
                         entry->name, own, nbytes);
    return HVD_OK;
}

/* Sizes of all entries for the spare snapshot: the shared ones as the source
 * says, the local ones as they are. */
static hvd_status_t take_sizes(hvd_state_t *state, const uint8_t *list)
{
    const struct snapshot *own = state->current != SNAPSHOT_NONE
                                     ? &state->snapshots[state->current]
                                     : NULL;
    size_t at = 0;

    if (!array_reserve(&state->sizes, &state->sizes_max, state->n_entries))
        return error_set(HVD_ERR_NOMEM, "snapshot: out of memory");
    for (size_t i = 0; i < state->n_entries; i++) {
        const struct entry *entry = &state->entries[i];
        const struct record *kept = own ? snapshot_record(own, entry, &at)
                                        : NULL;
        uint64_t nbytes = entry->nbytes;

        if (entry_is_shared(entry)) {
            nbytes = bytes_get(list, 8);
            list += 8;
            HVD_TRY(check_size(entry, kept, nbytes));
        }
        state->sizes[i] = (size_t)nbytes;
    }
    return HVD_OK;
}

static hvd_status_t receive_bytes(struct comm *comm,
                                  const struct provider *from,
                                  struct snapshot *spare, uint8_t *list)
{
    struct sync_digests digests = {.snapshot = spare, .list = list};
    struct sync_pieces p = {.snapshot = spare, .apart = from->apart};

    while (sync_pieces_next(&p)) {
        if (!p.goes_apart)
            HVD_TRY(comm_transfer_recv(comm, from->source,
                                       spare->bytes + p.from, p.to - p.from));
        sync_digests_add(&digests, p.from, p.to);
    }
    return HVD_OK;
}

/* Of what is here, and of what the source has. */
static hvd_status_t check_digests(const hvd_state_t *state, const uint8_t *here,
                                  const uint8_t *there)
{
    for (size_t i = 0; i < state->n_entries; i++) {
        const struct entry *entry = &state->entries[i];

        if (!entry_is_shared(entry))
            continue;
        if (memcmp(here, there, 8) != 0)
            return error_set(HVD_ERR_CORRUPT,
                             "entry '%s' (%zu bytes) arrived damaged",
                             entry->name, state->sizes[i]);
        here += 8;
        there += 8;
    }
    return HVD_OK;
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

/* lists: two of them. */
static hvd_status_t receive_entries(hvd_state_t *state, struct comm *comm,
                                    const struct provider *from,
                                    const struct sync_header *header,
                                    struct snapshot *spare, uint8_t *lists)
{
    size_t n = (size_t)header->n_shared;
    uint8_t *theirs = lists, *own = lists + sync_list_nbytes(n);

    HVD_TRY(receive_list(comm, from->source, theirs, n, "sizes"));
    HVD_TRY(take_sizes(state, theirs));
    HVD_TRY(snapshot_prepare(spare, state, state->sizes));
    if (spare->shared_nbytes != header->shared_nbytes)
        return error_set(HVD_ERR_PROTOCOL,
                         "state of %" PRIu64 " bytes, its entries make %zu",
                         header->shared_nbytes, spare->shared_nbytes);
    if (from->apart)
        HVD_TRY(device_entries_receive(state, spare));
    HVD_TRY(receive_bytes(comm, from, spare, own));
    HVD_TRY(receive_list(comm, from->source, theirs, n, "digests"));
    return check_digests(state, own, theirs);
}

static hvd_status_t receive(hvd_state_t *state, struct comm *comm,
                            const struct provider *from, struct state_id id,
                            struct snapshot *spare)
{
    struct sync_header header;
    hvd_status_t status = HVD_ERR_NOMEM;
    uint8_t *lists;

    HVD_TRY(receive_header(state, comm, from->source, id, &header));
    lists = list_create(2 * (size_t)header.n_shared + 1);
    if (!lists)
        return status;
    status = receive_entries(state, comm, from, &header, spare, lists);
    free(lists);
    HVD_TRY(status);
    fill_local(state, spare);
    spare->committed_size = (int)header.committed_size;
    return snapshot_check(state, spare);
}

hvd_status_t state_sync_receive(hvd_state_t *state, struct comm *comm,
                                int source, struct state_id id, bool apart,
                                uint64_t *nbytes_p)
{
    const struct provider from = {source, apart};
    int index = snapshot_spare(state);
    struct snapshot *spare = &state->snapshots[index];
    hvd_status_t status;

    HVD_TRY(state_enter(state, "sync"));
    state->frozen = true;
    HVD_TRY_GOTO(receive(state, comm, &from, id, spare), leave);
    snapshot_flip(state, index, id);
    HVD_TRY_GOTO(snapshot_apply(state), leave);
    HVD_TRY_GOTO(callbacks_run(&state->on_sync, "on_sync"), leave);
    *nbytes_p = SYNC_HEADER_NBYTES + 2 * sync_list_nbytes(spare->n_shared) +
                spare->shared_nbytes;

leave:
    state_leave(state);
    (void)error_prefix(status, "sync from rank %d", source);
    if (status == HVD_ERR_CORRUPT)
        return comm_distrust(comm, source, error_text());
    return status;
}
