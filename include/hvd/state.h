/* hvd/state.h - what must survive: registered memory, its snapshots, and the
 * boundary.
 *
 * A state is a list of entries. *Shared* entries are equal on all ranks and are
 * sent to newcomers; *local* ones (an RNG, a loader's position) are never sent:
 * after a loss each worker has those of its own last commit, also one that gets
 * the shared entries from a peer then; a newcomer has them as it brought them.
 * Names, order and kinds are the *layout*; it must be equal on all workers.
 * Sizes travel with the snapshot.
 *
 * Ownership  the caller owns registered memory and keeps it valid until the
 *            entry is removed or re-pointed or the state is destroyed. Names
 *            are copied.
 * Threads    one thread: the one that trains. */
#ifndef HVD_STATE_H
#define HVD_STATE_H

#include <stddef.h>
#include <stdint.h>

#include <hvd/sampler.h>
#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hvd_state hvd_state_t;

/* NULL only when memory is exhausted. destroy(NULL) is fine. */
HVD_API hvd_state_t *hvd_state_create(void);
HVD_API void hvd_state_destroy(hvd_state_t *state);

/* hvd_state_add, hvd_state_add_local - register [nbytes] at ptr under a unique
 * name (1..127 bytes). nbytes may be 0. Not between hvd_elastic_run's start and
 * its first reset. Returns HVD_OK, HVD_ERR_INVALID (name empty, too long or
 * taken; ptr NULL), HVD_ERR_NOMEM. */
HVD_API hvd_status_t hvd_state_add(hvd_state_t *state, const char *name,
                                   void *ptr, size_t nbytes) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_state_add_local(hvd_state_t *state, const char *name,
                                         void *ptr,
                                         size_t nbytes) HVD_MUST_CHECK;

/* hvd_state_set - the entry's memory has moved or changed its size; takes
 * effect at the next commit. A restore before that puts the committed bytes at
 * the start of the new memory; the rest of it is zero, on a device as it was.
 * All ranks have to have set the same size by the next commit. Memory that is
 * too small for the committed bytes is HVD_ERR_LAYOUT, which ends the job: make
 * an entry smaller right before a commit. A sync from another rank needs equal
 * sizes, but for an entry that has grown since this rank's own commit. */
HVD_API hvd_status_t hvd_state_set(hvd_state_t *state, const char *name,
                                   void *ptr, size_t nbytes) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_state_remove(hvd_state_t *state,
                                      const char *name) HVD_MUST_CHECK;

/* An object is an entry that has no fixed memory: it is written at a commit and
 * read back at a restore or sync. */
typedef struct hvd_state_object_ops {
    size_t struct_size; /* sizeof(hvd_state_object_ops_t) */
    /* nbytes needed by serialize now. Called at each commit, before it. */
    size_t (*size)(void *arg);
    /* write exactly nbytes to buf; anything but HVD_OK fails the commit, the
     * older snapshot stays. */
    hvd_status_t (*serialize)(void *buf, size_t nbytes, void *arg);
    /* become what buf [nbytes] says; buf is borrowed until return. */
    hvd_status_t (*deserialize)(const void *buf, size_t nbytes, void *arg);
} hvd_state_object_ops_t;

/* hvd_state_add_object - a shared entry with callbacks; *ops is copied, arg is
 * handed to them. */
HVD_API hvd_status_t hvd_state_add_object(hvd_state_t *state, const char *name,
                                          const hvd_state_object_ops_t *ops,
                                          void *arg) HVD_MUST_CHECK;

/* hvd_state_add_sampler - register a sampler's cursor as a shared entry (see
 * hvd/sampler.h). The sampler must outlive the state. */
HVD_API hvd_status_t hvd_state_add_sampler(hvd_state_t *state, const char *name,
                                           hvd_sampler_t *sampler)
    HVD_MUST_CHECK;

/* What user code does besides copying bytes; called in registration order, on
 * the training thread: on_commit just before bytes are copied into the
 * snapshot, on_restore and on_sync just after the snapshot was copied to the
 * live memory. on_commit runs on all ranks whenever it runs (in commits, in
 * hvd_state_sync, before the job's first state is handed out), and may call
 * collectives; what it posts is complete before bytes are copied. After a loss
 * each rank that has committed runs on_restore, and each that is synced runs
 * on_sync, behind it; as ranks differ in that, a collective there is
 * HVD_ERR_STATE. Anything but HVD_OK fails the call it happened in: with that
 * status if it is HVD_PEER_LOST or a user code, else with HVD_ERR_CALLBACK. No
 * callback may save, restore or sync the same state (HVD_ERR_STATE). */
typedef hvd_status_t (*hvd_state_callback_t)(void *arg);
HVD_API hvd_status_t hvd_state_on_commit(hvd_state_t *state,
                                         hvd_state_callback_t callback,
                                         void *arg) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_state_on_restore(hvd_state_t *state,
                                          hvd_state_callback_t callback,
                                          void *arg) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_state_on_sync(hvd_state_t *state,
                                       hvd_state_callback_t callback,
                                       void *arg) HVD_MUST_CHECK;

typedef enum hvd_reset_reason {
    HVD_RESET_PEER_LOST = 0,     /* the generation before ended by a loss */
    HVD_RESET_HOSTS_UPDATED = 1, /* ... by a change of hosts */
    HVD_RESET_JOINED = 2,        /* this worker is new in a running job */
    HVD_RESET_REASON_FORCE_INT = 0x7fffffff
} hvd_reset_reason_t;

typedef struct hvd_reset_info {
    size_t struct_size;
    uint64_t generation;
    hvd_reset_reason_t reason;
    int size; /* of the new generation */
    /* of the generation that made the snapshot; 0: unknown */
    int committed_size;
} hvd_reset_info_t;

/* hvd_state_on_reset - called in every generation after the first, on every
 * member, after the sync and before the training function. Must be an
 * idempotent function of (state, world): lr = base_lr * hvd_size(), never lr *=
 * new / old. Its effect is not part of the snapshot. */
typedef void (*hvd_reset_callback_t)(const hvd_reset_info_t *info, void *arg);
HVD_API hvd_status_t hvd_state_on_reset(hvd_state_t *state,
                                        hvd_reset_callback_t callback,
                                        void *arg) HVD_MUST_CHECK;

/* hvd_state_commit - snapshot the live memory; then a boundary.
 *
 * After HVD_HOSTS_UPDATED, and after a call that has failed, nothing more is
 * saved until the training function has returned: what it computes then its
 * peers do not have. The snapshot stays what it was, and the call says again
 * what was to be returned. (A refused argument, HVD_ERR_INVALID, is not meant.)
 *
 * All ranks make equal numbers of commits. The first two of each generation,
 * and every N-th with --verify-state N, are collectives: ranks compare digests
 * of their shared entries, byte by byte: set the padding of structs, or
 * register their members. What each rank has for itself is for
 * hvd_state_add_local().
 *
 * Returns    HVD_OK
 *            HVD_ERR_MISMATCH   shared entries differ between ranks: return it,
 *                               the job ends. Something that has to survive a
 *                               change of workers is not registered
 *            HVD_HOSTS_UPDATED  hosts change: return it from the training
 *                               function, with the state as it is; all ranks
 *                               get it at the same boundary, nothing is lost
 *            HVD_PEER_LOST      a peer is gone: return it. The snapshot was
 *                               saved, unless a call had failed before
 *            HVD_ERR_*          the older snapshot is intact (a callback
 *                               failed, no memory; HVD_ERR_MISMATCH: a call had
 *                               failed with it) */
HVD_API hvd_status_t hvd_state_commit(hvd_state_t *state) HVD_MUST_CHECK;

/* hvd_state_check_host_updates - a boundary without a snapshot: costs a few
 * loads and stores, no message and no system call, unless hosts change, and
 * then commits before it returns HVD_HOSTS_UPDATED.
 * Same returns as hvd_state_commit. */
HVD_API hvd_status_t hvd_state_check_host_updates(hvd_state_t *state)
    HVD_MUST_CHECK;

/* hvd_state_save, hvd_state_restore - the two halves, without a boundary: live
 * -> snapshot, snapshot -> live (HVD_ERR_STATE: nothing was saved yet). Like a
 * commit, a save is for all ranks at the same place: equal numbers of them must
 * mean equal state; and it is refused where a commit is. */
HVD_API hvd_status_t hvd_state_save(hvd_state_t *state) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_state_restore(hvd_state_t *state) HVD_MUST_CHECK;

/* hvd_state_sync - a collective: every rank gets rank 0's live state, as
 * snapshot and live; refused where a commit is. For static programs and for
 * initial values; hvd_elastic_run syncs by itself whoever needs it. */
HVD_API hvd_status_t hvd_state_sync(hvd_state_t *state) HVD_MUST_CHECK;

/* hvd_state_version - number of commits in the history of this state; 0: none
 * yet. */
HVD_API uint64_t hvd_state_version(const hvd_state_t *state);

#ifdef __cplusplus
}
#endif
#endif
