/* state/snapshot.c - the two copies of the state, and what moves between them
 * and live memory.
 *
 *   save     live -> spare snapshot, flip
 *   restore  current snapshot -> live
 *
 * In the steady state a save allocates nothing and enters the kernel nowhere:
 * the memory of a snapshot only grows.
 *
 * Memory: anonymous mappings, huge pages where the kernel has them, not
 * inherited by fork. Threads: the training thread; state_id_of and
 * hvd_state_version any. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "base/round.h"
#include "state/device_entries.h"
#include "state/internal.h"

enum {
    HUGE_PAGE_NBYTES = 2 << 20,
    PAGE_NBYTES = 4096,
    PIECE_NBYTES = 8 << 20 /* of a copy */
};

static void unmap(void *bytes, size_t nbytes)
{
    if (nbytes > 0)
        munmap(bytes, nbytes);
}

/* [nbytes], a multiple of the huge page, starting at one: a mapping that starts
 * anywhere would get small pages at both ends. */
static void *map_huge(size_t nbytes)
{
    size_t whole = nbytes + HUGE_PAGE_NBYTES;
    uint8_t *bytes = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;

    if (bytes == MAP_FAILED)
        return NULL;
    before = round_up_to((uintptr_t)bytes, HUGE_PAGE_NBYTES) - (uintptr_t)bytes;
    unmap(bytes, before);
    unmap(bytes + before + nbytes, HUGE_PAGE_NBYTES - before);
    /* advice: a kernel without huge pages is as good */
    (void)madvise(bytes + before, nbytes, MADV_HUGEPAGE);
    return bytes + before;
}

static void *map_small(size_t nbytes)
{
    void *bytes = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return bytes == MAP_FAILED ? NULL : bytes;
}

static void unmap_bytes(hvd_state_t *state, struct snapshot *s)
{
    if (device_entries_let_go(state, s))
        unmap(s->bytes, s->capacity);
    s->capacity = 0;
}

/* What is in it is lost when it grows. A quarter more than asked for when it
 * does so again: an object that grows a little at every commit must not map
 * each time. */
static hvd_status_t reserve(hvd_state_t *state, struct snapshot *s,
                            size_t nbytes)
{
    size_t capacity = nbytes;

    if (nbytes <= s->capacity)
        return HVD_OK;
    if (nbytes > SIZE_MAX / 4)
        return error_set(HVD_ERR_NOMEM, "snapshot of %zu bytes", nbytes);
    if (s->capacity > 0)
        capacity += nbytes / 4;
    capacity = round_up_to(capacity, capacity >= HUGE_PAGE_NBYTES
                                         ? HUGE_PAGE_NBYTES
                                         : PAGE_NBYTES);
    unmap_bytes(state, s);
    s->bytes = capacity >= HUGE_PAGE_NBYTES ? map_huge(capacity)
                                            : map_small(capacity);
    if (!s->bytes)
        return error_set(HVD_ERR_NOMEM, "snapshot of %zu bytes: out of memory",
                         nbytes);
    s->capacity = capacity;
    (void)madvise(s->bytes, capacity, MADV_DONTFORK);
    return HVD_OK;
}

void snapshot_fini(hvd_state_t *state, struct snapshot *snapshot)
{
    unmap_bytes(state, snapshot);
    if (snapshot->coming.n == 0)
        free(snapshot->coming.items);
    free(snapshot->records);
    memset(snapshot, 0, sizeof(*snapshot));
}

/* Lay out the shared or the local entries from `offset` on. false: overflow. */
static bool lay_out(struct snapshot *s, bool shared, size_t *offset_p)
{
    size_t offset = *offset_p;

    for (size_t i = 0; i < s->n_records; i++) {
        struct record *record = &s->records[i];

        if (record->shared != shared)
            continue;
        record->offset = offset;
        if (record->nbytes > SIZE_MAX / 4 - offset)
            return false;
        offset = round_up_to(offset + record->nbytes, ENTRY_ALIGN);
    }
    *offset_p = offset;
    return true;
}

static struct record record_for(const struct entry *entry, size_t nbytes)
{
    return (struct record){.serial = entry->serial,
                           .nbytes = nbytes,
                           .shared = entry_is_shared(entry),
                           .device = entry->kind == ENTRY_DEVICE};
}

hvd_status_t snapshot_prepare(struct snapshot *s, hvd_state_t *state,
                              const size_t *sizes)
{
    size_t offset = 0;

    if (device_entries_await(state, s) != HVD_OK)
        log_debug("snapshot: %s", error_text()); /* it is overwritten */
    s->in_shadow = s->torn = false;
    s->n_records = 0;
    s->n_shared = 0;
    if (!array_reserve(&s->records, &s->records_max, state->n_entries))
        return error_set(HVD_ERR_NOMEM, "snapshot: out of memory");
    for (size_t i = 0; i < state->n_entries; i++) {
        s->records[i] = record_for(&state->entries[i], sizes[i]);
        s->n_shared += s->records[i].shared;
    }
    s->n_records = state->n_entries;
    if (!lay_out(s, true, &offset))
        goto overflow;
    s->shared_nbytes = offset;
    if (!lay_out(s, false, &offset))
        goto overflow;
    s->nbytes = offset;
    memcpy(s->layout, state->layout, sizeof(s->layout));
    return reserve(state, s, s->nbytes);

overflow:
    return error_set(HVD_ERR_NOMEM, "the entries' sizes overflow");
}

hvd_status_t state_enter(hvd_state_t *state, const char *what)
{
    if (state->in_call)
        return error_set(HVD_ERR_STATE,
                         "%s: called from a callback of the same state", what);
    state->in_call = true;
    state_settle(state);
    return HVD_OK;
}

void state_leave(hvd_state_t *state)
{
    state->in_call = false;
    state->frozen = false;
}

static hvd_status_t size_now(const struct entry *entry, size_t *nbytes_p)
{
    *nbytes_p = entry->nbytes;
    if (entry->kind == ENTRY_SAMPLER)
        *nbytes_p = SAMPLER_CURSOR_NBYTES;
    if (entry->kind != ENTRY_OBJECT)
        return HVD_OK;
    *nbytes_p = entry->ops.size(entry->arg);
    if (*nbytes_p > OBJECT_NBYTES_MAX)
        return error_set(HVD_ERR_INVALID,
                         "object '%s' has %zu bytes, at most %d are allowed",
                         entry->name, *nbytes_p, OBJECT_NBYTES_MAX);
    return HVD_OK;
}

static hvd_status_t sizes_now(hvd_state_t *state)
{
    if (!array_reserve(&state->sizes, &state->sizes_max, state->n_entries))
        return error_set(HVD_ERR_NOMEM, "snapshot: out of memory");
    for (size_t i = 0; i < state->n_entries; i++)
        HVD_TRY(size_now(&state->entries[i], &state->sizes[i]));
    return HVD_OK;
}

static void copy(hvd_state_t *state, uint8_t *to, const uint8_t *from,
                 size_t nbytes)
{
    for (size_t at = 0; at < nbytes; at += PIECE_NBYTES) {
        size_t rest = nbytes - at;

        memcpy(to + at, from + at, rest < PIECE_NBYTES ? rest : PIECE_NBYTES);
        atomic_fetch_add_explicit(&state->moves, 1, memory_order_relaxed);
    }
}

uint64_t state_moves(const hvd_state_t *state)
{
    return atomic_load_explicit(&state->moves, memory_order_relaxed);
}

static hvd_status_t copy_in(hvd_state_t *state, const struct entry *entry,
                            struct snapshot *spare, const struct record *record)
{
    uint8_t *to = snapshot_at(spare, record);
    size_t nbytes = record->nbytes;
    hvd_status_t status;

    switch (entry->kind) {
    case ENTRY_SHARED:
    case ENTRY_LOCAL:
        copy(state, to, entry->ptr, nbytes);
        return HVD_OK;
    case ENTRY_SAMPLER:
        sampler_save(entry->sampler, to);
        return HVD_OK;
    case ENTRY_OBJECT:
        error_clear();
        status = entry->ops.serialize(to, nbytes, entry->arg);
        if (status != HVD_OK)
            return callback_failed(status, "serialize of object", entry->name);
        return HVD_OK;
    case ENTRY_DEVICE:
        return device_entry_save(state, spare, entry, record);
    }
    abort();
}

static hvd_status_t copy_all_in(hvd_state_t *state, struct snapshot *spare)
{
    for (size_t i = 0; i < state->n_entries; i++)
        HVD_TRY(copy_in(state, &state->entries[i], spare, &spare->records[i]));
    return HVD_OK;
}

static hvd_status_t fill(hvd_state_t *state, struct snapshot *spare)
{
    state->frozen = true;
    HVD_TRY(sizes_now(state));
    HVD_TRY(snapshot_prepare(spare, state, state->sizes));
    if (state->n_device == 0)
        return copy_all_in(state, spare);
    HVD_TRY(device_entries_begin_save(state, spare));
    return device_entries_end_save(state, spare, copy_all_in(state, spare));
}

hvd_status_t state_save(hvd_state_t *state, uint64_t generation, int world_size)
{
    int index = snapshot_spare(state);
    /* before the first generation nothing is shared with anybody: no id */
    struct state_id id = {0, 0};
    hvd_status_t status;

    HVD_TRY(state_enter(state, "save"));
    status = fill(state, &state->snapshots[index]);
    if (status == HVD_OK) {
        if (generation > 0)
            id = (struct state_id){generation, hvd_state_version(state) + 1};
        state->snapshots[index].committed_size = world_size;
        snapshot_flip(state, index, id);
    }
    state_leave(state);
    return status;
}

hvd_status_t state_run_on_commit(hvd_state_t *state)
{
    hvd_status_t status;

    HVD_TRY(state_enter(state, "save"));
    status = callbacks_run(&state->on_commit, "on_commit");
    state_leave(state);
    return status;
}

const struct record *snapshot_record(const struct snapshot *s,
                                     const struct entry *entry, size_t *at_p)
{
    while (*at_p < s->n_records && s->records[*at_p].serial < entry->serial)
        (*at_p)++;
    if (*at_p < s->n_records && s->records[*at_p].serial == entry->serial)
        return &s->records[*at_p];
    return NULL;
}

static hvd_status_t check_entry(const struct snapshot *s,
                                const struct entry *entry,
                                const struct record *record)
{
    if (!record)
        return error_set(HVD_ERR_LAYOUT,
                         "entry '%s' was added after the last commit",
                         entry->name);
    if (entry->kind == ENTRY_SAMPLER)
        return error_prefix(
            sampler_check(entry->sampler, snapshot_at(s, record)),
            "sampler '%s'", entry->name);
    if (entry->kind != ENTRY_OBJECT && record->nbytes > entry->nbytes)
        return error_set(HVD_ERR_LAYOUT,
                         "entry '%s' has %zu bytes, %zu in the snapshot",
                         entry->name, entry->nbytes, record->nbytes);
    return HVD_OK;
}

hvd_status_t snapshot_check(const hvd_state_t *state, const struct snapshot *s)
{
    size_t at = 0;

    for (size_t i = 0; i < state->n_entries; i++) {
        const struct entry *entry = &state->entries[i];

        HVD_TRY(check_entry(s, entry, snapshot_record(s, entry, &at)));
    }
    return HVD_OK;
}

static hvd_status_t copy_out(hvd_state_t *state, const struct entry *entry,
                             const struct snapshot *s,
                             const struct record *record)
{
    const uint8_t *from = snapshot_at(s, record);
    size_t nbytes = record->nbytes;
    hvd_status_t status;

    switch (entry->kind) {
    case ENTRY_SHARED:
    case ENTRY_LOCAL:
        copy(state, entry->ptr, from, nbytes);
        return HVD_OK;
    case ENTRY_SAMPLER:
        sampler_load(entry->sampler, from);
        return HVD_OK;
    case ENTRY_OBJECT:
        error_clear();
        status = entry->ops.deserialize(from, nbytes, entry->arg);
        if (status != HVD_OK)
            return callback_failed(status, "deserialize of object",
                                   entry->name);
        return HVD_OK;
    case ENTRY_DEVICE:
        return device_entry_load(state, s, entry, record);
    }
    abort();
}

static bool has_memory(const struct entry *entry)
{
    return entry->kind != ENTRY_OBJECT && entry->kind != ENTRY_SAMPLER;
}

/* An entry that has grown since the commit keeps its new size, as the program
 * may not set it again: what lies behind the committed bytes is zero, and so
 * the same on all ranks. */
static void clear_rest(const struct entry *entry, size_t nbytes)
{
    if (entry->nbytes == nbytes)
        return;
    log_info("entry '%s' has grown from %zu to %zu bytes since the last commit "
             "-> the rest of it is cleared",
             entry->name, nbytes, entry->nbytes);
    if (entry->kind != ENTRY_DEVICE)
        memset((uint8_t *)entry->ptr + nbytes, 0, entry->nbytes - nbytes);
}

static hvd_status_t copy_all_out(hvd_state_t *state, const struct snapshot *s)
{
    size_t at = 0;

    for (size_t i = 0; i < state->n_entries; i++) {
        const struct entry *entry = &state->entries[i];
        const struct record *record = snapshot_record(s, entry, &at);

        HVD_TRY(copy_out(state, entry, s, record));
        if (has_memory(entry))
            clear_rest(entry, record->nbytes);
    }
    return HVD_OK;
}

static hvd_status_t apply(hvd_state_t *state, struct snapshot *s)
{
    if (state->n_device == 0)
        return copy_all_out(state, s);
    HVD_TRY(device_entries_begin_load(state, s));
    return device_entries_end_load(state, copy_all_out(state, s));
}

hvd_status_t snapshot_apply(hvd_state_t *state)
{
    hvd_status_t status;

    state->frozen = true;
    status = apply(state, &state->snapshots[state->current]);
    state->frozen = false;
    return status;
}

hvd_status_t state_restore(hvd_state_t *state)
{
    hvd_status_t status;

    if (state->current == SNAPSHOT_NONE)
        return error_set(HVD_ERR_STATE, "restore: nothing was committed yet");
    HVD_TRY(state_enter(state, "restore"));
    HVD_TRY_GOTO(snapshot_check(state, &state->snapshots[state->current]),
                 leave);
    HVD_TRY_GOTO(snapshot_apply(state), leave);
    status = callbacks_run(&state->on_restore, "on_restore");

leave:
    state_leave(state);
    return status == HVD_OK ? status : error_prefix(status, "restore");
}

void state_restore_local(hvd_state_t *state)
{
    const struct snapshot *s = &state->snapshots[state->current];
    size_t at = 0;

    HVD_ASSERT(state->current != SNAPSHOT_NONE);
    for (size_t i = 0; i < state->n_entries; i++) {
        const struct entry *entry = &state->entries[i];
        const struct record *record = snapshot_record(s, entry, &at);

        if (entry->kind != ENTRY_LOCAL || !record ||
            record->nbytes > entry->nbytes)
            continue;
        copy(state, entry->ptr, snapshot_at(s, record), record->nbytes);
        clear_rest(entry, record->nbytes);
    }
}

void snapshot_flip(hvd_state_t *state, int index, struct state_id id)
{
    state->current = index;
    state_stamp(state, id);
}

void state_stamp(hvd_state_t *state, struct state_id id)
{
    uint64_t sequence = atomic_load(&state->published.sequence);

    HVD_ASSERT(state->current != SNAPSHOT_NONE);
    atomic_store(&state->published.sequence, sequence + 1);
    atomic_store(&state->published.generation, id.generation);
    atomic_store(&state->published.version, id.version);
    atomic_store(&state->published.sequence, sequence + 2);
}

struct state_id state_id_of(const hvd_state_t *state)
{
    struct state_id id;
    uint64_t before, after;

    do {
        before = atomic_load(&state->published.sequence);
        id.generation = atomic_load(&state->published.generation);
        id.version = atomic_load(&state->published.version);
        after = atomic_load(&state->published.sequence);
    } while (before != after || before % 2 != 0);
    return id;
}

int state_committed_size(const hvd_state_t *state)
{
    if (state->current == SNAPSHOT_NONE)
        return 0;
    return state->snapshots[state->current].committed_size;
}

uint64_t hvd_state_version(const hvd_state_t *state)
{
    return state ? state_id_of(state).version : 0;
}
