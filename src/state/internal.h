/* state/internal.h - the inside of hvd_state_t, for the files of this room.
 *
 *   registry.c   entries and callbacks: what the user registered
 *   snapshot.c   the two copies, and what moves between them and live memory
 *   device_entries.c  what lies on a device, on its way there and back
 *   sync.c       a snapshot from one worker to another
 *   sync_pieces.c  what goes at once
 *   sync_devices.c  what lies on devices, from one to the others
 *   sync_digest.c  what says that it has arrived as it was
 *
 * Layout of a snapshot: the shared entries in registration order, then the
 * local ones, each at a multiple of 64 bytes; so that what is sent is one run
 * of bytes.
 *
 *     | shared 0 | shared 1 | ... | local 0 | ... |
 *     |<----- shared_nbytes ----->|
 *
 * Threads: the training thread, but for `published` and `moves`. */
#ifndef STATE_INTERNAL_H
#define STATE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/state.h>

#include "base/ids.h"
#include "device/device.h"
#include "state/sampler.h"
#include "state/state.h"

enum {
    ENTRY_NAME_MAX = 127,
    ENTRY_ALIGN = 64,
    OBJECT_NBYTES_MAX = 1 << 30,
    SNAPSHOT_NONE = -1
};

enum entry_kind {
    ENTRY_SHARED,
    ENTRY_LOCAL,
    ENTRY_OBJECT,
    ENTRY_SAMPLER,
    ENTRY_DEVICE /* shared: a peer without a device may have it in its host's
                    memory */
};

struct entry {
    char *name; /* NULL: removed, and in the list until state_settle() */
    enum entry_kind kind;
    uint64_t serial; /* unique within the state, grows in registration order */
    void *ptr;       /* SHARED, LOCAL, DEVICE: [nbytes], the user's */
    size_t nbytes;
    void *stream;               /* DEVICE: CUstream, NULL: the legacy one */
    hvd_state_object_ops_t ops; /* OBJECT */
    void *arg;
    hvd_sampler_t *sampler; /* SAMPLER, the user's */
};

/* Where an entry lies in a snapshot; kept there, because entries come, go and
 * change their size between commits. */
struct record {
    uint64_t serial;
    size_t offset, nbytes;
    size_t shadow_offset; /* device */
    bool shared, device;
};

/* Copies that the device has been told of, each a task of its own. */
struct transfers {
    struct transfer {
        struct device_task task;
        struct device_copy copy;
    } * items; /* [max]; the first n are posted and have not been awaited */
    size_t n, max;
};

struct snapshot {
    uint8_t *bytes; /* mmap, [capacity] */
    size_t capacity;
    bool pinned;             /* all of it */
    bool pin_refused;        /* it cannot be */
    bool in_shadow;          /* its device entries lie there, too */
    bool torn;               /* what was on its way to it has not arrived */
    struct transfers coming; /* to its bytes */
    struct record *records;  /* in registration order */
    size_t n_records, records_max;
    size_t n_shared, shared_nbytes, nbytes;
    int committed_size;
    uint8_t layout[STATE_DIGEST_NBYTES];
};

struct callback {
    hvd_state_fn function;
    void *arg;
};

struct callbacks {
    struct callback *items;
    size_t n, max;
};

struct reset_callback {
    hvd_reset_fn function;
    void *arg;
};

/* What a state with entries on the device has besides. */
struct device_part {
    bool opened;  /* the doorbell is */
    int doorbell; /* of all tasks; eventfd */
    void *shadow; /* [shadow_nbytes] on the device, or NULL: no room */
    size_t shadow_nbytes;
    size_t refused_nbytes;  /* for which there was none; 0: never */
    struct transfers calls; /* that the save or load under way waits for */
    int n_by_hosts;         /* syncs to come in which this rank wants no NCCL */
};

struct hvd_state {
    struct entry *entries;
    size_t n_entries, entries_max;
    size_t n_removed; /* of them */
    size_t *index;    /* [n_index], a power of two: where the names are in
                         `entries`, 1 + that; 0: free */
    size_t n_index, index_max;
    size_t n_device; /* entries */
    uint64_t next_serial;
    uint8_t layout[STATE_DIGEST_NBYTES]; /* once it is settled */
    size_t *sizes; /* of the entries, while a snapshot is prepared */
    size_t sizes_max;
    struct callbacks on_commit, on_restore, on_sync;
    struct reset_callback *on_reset;
    size_t n_reset, reset_max;

    struct device_part device;
    struct snapshot snapshots[2];
    int current;  /* index, or SNAPSHOT_NONE */
    bool in_call; /* save, restore or sync runs: user code may not nest them */
    bool frozen;  /* entries are being copied: user code may not change them */

    /* The id of the current snapshot, for any thread: a sequence lock, odd
     * while the training thread writes. */
    struct {
        _Atomic uint64_t sequence, generation, version;
    } published;
    _Atomic uint64_t moves; /* pieces of entries copied; for any thread */
};

static inline bool entry_is_shared(const struct entry *entry)
{
    return entry->kind != ENTRY_LOCAL;
}

/* Strike the removed entries from the list. Ahead of all that visits it: where
 * a save, restore or sync begins (state_enter), so that a program may remove
 * many at the cost of one. */
void state_settle(hvd_state_t *state);

/* Memory and records for `state`'s entries as they are now: sizes [n_entries]
 * in registration order. HVD_ERR_NOMEM: the snapshot holds nothing any more. */
hvd_status_t snapshot_prepare(struct snapshot *snapshot, hvd_state_t *state,
                              const size_t *sizes) HVD_MUST_CHECK;
void snapshot_fini(hvd_state_t *state, struct snapshot *snapshot);

/* The bytes of `record` in its snapshot. */
static inline uint8_t *snapshot_at(const struct snapshot *snapshot,
                                   const struct record *record)
{
    return snapshot->bytes + record->offset;
}

/* Index of the snapshot that is not current. */
static inline int snapshot_spare(const hvd_state_t *state)
{
    return state->current == 0 ? 1 : 0;
}

/* May `snapshot` become live? HVD_ERR_LAYOUT names the entry that it does not
 * fit. Changes nothing. */
hvd_status_t snapshot_check(const hvd_state_t *state,
                            const struct snapshot *snapshot) HVD_MUST_CHECK;

/* The current snapshot, which snapshot_check() has accepted, -> live memory.
 * HVD_OK, or what a failing deserialize makes of it. */
hvd_status_t snapshot_apply(hvd_state_t *state) HVD_MUST_CHECK;

/* Make snapshot `index` the current one, under `id`. */
void snapshot_flip(hvd_state_t *state, int index, struct state_id id);

/* Run `list` in order up to the first that fails; `what` names it in the
 * sentence. */
hvd_status_t callbacks_run(const struct callbacks *list,
                           const char *what) HVD_MUST_CHECK;

/* What a failing user callback makes of the call it happened in: its own code
 * if that is the user's, HVD_PEER_LOST (it called a collective), else
 * HVD_ERR_CALLBACK; with the sentence "<what> '<name>' returned ...". name may
 * be NULL. */
hvd_status_t callback_failed(hvd_status_t status, const char *what,
                             const char *name);

/* The record of `entry`, looking from records[*at_p] on: both lists are in the
 * order of their serials. NULL: added after the snapshot was made. */
const struct record *snapshot_record(const struct snapshot *snapshot,
                                     const struct entry *entry, size_t *at_p);

/* Enter and leave save, restore or sync; HVD_ERR_STATE inside one. */
hvd_status_t state_enter(hvd_state_t *state, const char *what) HVD_MUST_CHECK;
void state_leave(hvd_state_t *state);

#endif
