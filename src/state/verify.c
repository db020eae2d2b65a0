/* state/verify.c - do all ranks have the same state? A collective, at commits
 * that every rank makes.
 *
 *   allgather  a digest of each rank's layout, and one of the digests of its
 *              shared entries. All are equal: that is all
 *   broadcast  rank 0's digests of the entries; each rank finds the first entry
 *              that it has otherwise
 *   allgather  those; the first entry of all is what differs
 *   allgather  each rank's digest of that entry, or a sampler's cursor
 *
 * All ranks have the same rows, so all come to the same sentence.
 *
 * Threads: the training thread. Memory: rows, for one call. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "collectives/comm.h"
#include "state/device_entries.h"
#include "state/internal.h"
#include "state/verify_text.h"

enum {
    ROW_NBYTES = 16,       /* two u64 */
    PIECE_NBYTES = 1 << 20 /* heartbeats tell that it moves */
};

/* One call. */
struct check {
    hvd_state_t *state;
    const struct snapshot *snapshot;
    struct comm *comm;
    uint8_t *digests; /* [n_shared] of u64 */
    uint8_t *rows;    /* [size] rows of SAMPLER_CURSOR_NBYTES at most */
    int size;
};

static hvd_status_t gather(struct check *c, const uint8_t *mine, size_t nbytes)
{
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHER,
                                   .sendbuf = mine,
                                   .recvbuf = c->rows,
                                   .count = nbytes,
                                   .op = (hvd_op_t)COMM_OP_COMMIT,
                                   .dtype = HVD_UINT8,
                                   .memory = HVD_MEMORY_HOST};

    return comm_run(c->comm, &args);
}

static hvd_status_t broadcast(struct check *c, uint8_t *buf, size_t nbytes)
{
    struct collective_args args = {.kind = COLLECTIVE_BROADCAST,
                                   .sendbuf = buf,
                                   .recvbuf = buf,
                                   .count = nbytes,
                                   .op = (hvd_op_t)COMM_OP_COMMIT,
                                   .dtype = HVD_UINT8,
                                   .memory = HVD_MEMORY_HOST};

    return comm_run(c->comm, &args);
}

/* An entry is cut at its own beginning: behind an object that is longer on one
 * rank, equal entries lie elsewhere there. */
static uint64_t digest_of(struct check *c, const struct record *r)
{
    const uint8_t *bytes = c->snapshot->bytes + r->offset;
    uint64_t digest = 0;

    for (size_t at = 0, n; at < r->nbytes; at += n) {
        n = r->nbytes - at < PIECE_NBYTES ? r->nbytes - at : PIECE_NBYTES;
        digest = XXH3_64bits_withSeed(bytes + at, n, digest);
        /* a rank that digests much is not hung */
        atomic_fetch_add_explicit(&c->state->moves, 1, memory_order_relaxed);
    }
    return digest;
}

static void digest(struct check *c)
{
    const struct snapshot *s = c->snapshot;
    size_t n = 0;

    for (size_t i = 0; i < s->n_records; i++)
        if (s->records[i].shared)
            bytes_put(c->digests + 8 * n++, digest_of(c, &s->records[i]), 8);
}

/* Do all ranks have the same row there? column: 0, or 1. */
static bool are_equal(const struct check *c, int column)
{
    for (int i = 1; i < c->size; i++)
        if (memcmp(c->rows + i * ROW_NBYTES + 8 * column, c->rows + 8 * column,
                   8) != 0)
            return false;
    return true;
}

static uint64_t least(const struct check *c, int column)
{
    uint64_t found = UINT64_MAX;

    for (int i = 0; i < c->size; i++) {
        uint64_t own = bytes_get(c->rows + i * ROW_NBYTES + 8 * column, 8);

        found = own < found ? own : found;
    }
    return found;
}

static hvd_status_t gather_summaries(struct check *c)
{
    const struct snapshot *s = c->snapshot;
    uint8_t mine[ROW_NBYTES];

    bytes_put(mine,
              XXH3_64bits_withSeed(s->layout, sizeof(s->layout), s->n_shared),
              8);
    bytes_put(mine + 8, XXH3_64bits(c->digests, 8 * s->n_shared), 8);
    return gather(c, mine, sizeof(mine));
}

/* The index of the first entry whose digest is another than rank 0's, of those
 * that are no object, and of objects. */
static void find_first(const struct check *c, const uint8_t *theirs,
                       uint64_t first[2])
{
    size_t n = 0;

    first[0] = first[1] = UINT64_MAX;
    for (size_t i = 0; i < c->state->n_entries; i++) {
        const struct entry *entry = &c->state->entries[i];
        uint64_t *own = &first[entry->kind == ENTRY_OBJECT];

        if (!entry_is_shared(entry))
            continue;
        if (*own == UINT64_MAX &&
            memcmp(theirs + 8 * n, c->digests + 8 * n, 8) != 0)
            *own = i;
        n++;
    }
}

static hvd_status_t find_entry(struct check *c, uint8_t *theirs,
                               size_t *index_p)
{
    size_t nbytes = 8 * c->snapshot->n_shared;
    uint64_t first[2];
    uint8_t mine[ROW_NBYTES];

    memcpy(theirs, c->digests, nbytes);
    HVD_TRY(broadcast(c, theirs, nbytes));
    find_first(c, theirs, first);
    bytes_put(mine, first[0], 8);
    bytes_put(mine + 8, first[1], 8);
    HVD_TRY(gather(c, mine, sizeof(mine)));
    first[0] = least(c, 0);
    *index_p = (size_t)(first[0] != UINT64_MAX ? first[0] : least(c, 1));
    return HVD_OK;
}

static size_t shared_index(const hvd_state_t *state, size_t index)
{
    size_t n = 0;

    for (size_t i = 0; i < index; i++)
        n += entry_is_shared(&state->entries[i]);
    return n;
}

static const char *remedy_for(enum entry_kind kind)
{
    switch (kind) {
    case ENTRY_SAMPLER:
        return " -> create and call it alike on all ranks";
    case ENTRY_OBJECT:
        return " -> its serialize() has to write equal bytes on all ranks";
    default:
        return " -> register all data that must survive, and change it on all "
               "ranks alike (padding counts); data that differs between ranks "
               "is for hvd_state_add_local";
    }
}

static hvd_status_t describe_entry(struct check *c, size_t index,
                                   struct text *t)
{
    const struct entry *entry = &c->state->entries[index];
    bool samples = entry->kind == ENTRY_SAMPLER;
    struct verify_rows rows = {.bytes = c->rows, .size = c->size};
    const uint8_t *mine = c->digests + 8 * shared_index(c->state, index);

    rows.nbytes = samples ? (size_t)SAMPLER_CURSOR_NBYTES : 8;
    if (samples)
        mine = snapshot_at(c->snapshot, &c->snapshot->records[index]);
    HVD_TRY(gather(c, mine, rows.nbytes));
    text_add(t, samples ? "sampler '" : "entry '");
    text_add(t, entry->name);
    text_add(t, "' differs: ");
    if (samples)
        verify_text_sampler(t, &rows);
    else
        verify_text_ranks(t, &rows);
    text_add(t, remedy_for(entry->kind));
    return HVD_OK;
}

static hvd_status_t find_difference(struct check *c, struct text *t,
                                    enum state_difference *difference_p)
{
    uint8_t *theirs = malloc(8 * c->snapshot->n_shared + 1);
    hvd_status_t status = HVD_ERR_NOMEM;
    size_t index = 0;

    if (!theirs)
        return error_set(status, "out of memory");
    HVD_TRY_GOTO(find_entry(c, theirs, &index), free_theirs);
    HVD_ASSERT(index < c->state->n_entries);
    status = describe_entry(c, index, t);
    *difference_p = c->state->entries[index].kind == ENTRY_OBJECT
                        ? STATE_OBJECT_DIFFERS
                        : STATE_DIFFERS;

free_theirs:
    free(theirs);
    return status;
}

static hvd_status_t run(struct check *c, struct text *t,
                        enum state_difference *difference_p)
{
    struct verify_rows rows = {c->rows, ROW_NBYTES, c->size};

    digest(c);
    HVD_TRY(gather_summaries(c));
    *difference_p = STATE_EQUAL;
    if (!are_equal(c, 0)) {
        *difference_p = STATE_DIFFERS;
        text_add(t, "the registered entries differ: ");
        verify_text_ranks(t, &rows);
        text_add(t, remedy_for(ENTRY_SHARED));
        return HVD_OK;
    }
    return are_equal(c, 1) ? HVD_OK : find_difference(c, t, difference_p);
}

hvd_status_t state_verify(hvd_state_t *state, struct comm *comm, int size,
                          struct text *t, enum state_difference *difference_p)
{
    struct check c = {.state = state, .comm = comm, .size = size};
    struct snapshot *s = &state->snapshots[state->current];
    hvd_status_t status = HVD_ERR_NOMEM;

    HVD_ASSERT(state->current != SNAPSHOT_NONE &&
               s->n_records == state->n_entries);
    HVD_TRY(device_entries_await(state, s));
    c.snapshot = s;
    c.digests = calloc(8, s->n_shared + 1);
    c.rows = malloc((size_t)size * SAMPLER_CURSOR_NBYTES);
    if (c.digests && c.rows)
        status = run(&c, t, difference_p);
    else
        error_set(status, "%d rows: out of memory", size);
    free(c.rows);
    free(c.digests);
    return status;
}
