/* hvd/state.h - what must survive: registered memory, its snapshots, and the
 * boundary.
 *
 * A state is a list of entries. A *shared* entry is equal on all ranks, and is
 * sent to newcomers. A *local* entry (a random number generator, a loader's
 * position) is never sent: after a loss each worker has the one of its own last
 * commit, also if it gets the shared entries from a peer then; a newcomer keeps
 * the one that it came with. Names, order and kinds of entries are the
 * *layout*, which is equal on all workers. The size of an object travels with
 * the snapshot; sizes of other entries are equal on all workers, too.
 *
 * Ownership  The caller owns registered memory, and keeps it valid until the
 *            entry is removed or bound to other memory, or the state is
 *            destroyed. Names are copied.
 * Threads    one: the thread that trains. */
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

/* hvd_state_create - an empty state. *state_p belongs to the caller until
 * hvd_state_destroy(), for which NULL is fine. Returns HVD_OK; HVD_ERR_INVALID:
 * state_p is NULL; HVD_ERR_NOMEM, and *state_p is NULL. */
HVD_API hvd_status_t hvd_state_create(hvd_state_t **state_p) HVD_MUST_CHECK;
HVD_API void hvd_state_destroy(hvd_state_t *state);

/* hvd_state_add, hvd_state_add_local - register [nbytes] at ptr under a unique
 * name (1..127 bytes). nbytes may be 0. Call them before hvd_elastic_run(), and
 * alike on all workers: an entry that is added or removed later keeps newcomers
 * out. Returns HVD_OK; HVD_ERR_INVALID: the name is empty, too long or taken,
 * or state, name or ptr is NULL; HVD_ERR_STATE: within a callback that copies
 * the state; HVD_ERR_NOMEM. */
HVD_API hvd_status_t hvd_state_add(hvd_state_t *state, const char *name,
                                   void *ptr, size_t nbytes) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_state_add_local(hvd_state_t *state, const char *name,
                                         void *ptr,
                                         size_t nbytes) HVD_MUST_CHECK;

/* hvd_state_rebind - the entry's memory has moved, or has another size. It
 * takes effect at the next commit, by which all ranks have bound it to the same
 * size. A restore before that commit puts the committed bytes at the start of
 * the new memory, and zeros behind them; on a device the rest stays as it was.
 * A restore to memory that is too small for the committed bytes fails with
 * HVD_ERR_LAYOUT, which ends the job after a loss, unless another rank's state
 * replaces the snapshot: make an entry smaller right before a commit. A sync
 * from another rank needs equal sizes, unless the entry has grown since this
 * rank's own commit. Returns HVD_OK; HVD_ERR_INVALID: there is no such entry of
 * memory, or ptr is NULL; HVD_ERR_STATE. */
HVD_API hvd_status_t hvd_state_rebind(hvd_state_t *state, const char *name,
                                      void *ptr, size_t nbytes) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_state_remove(hvd_state_t *state,
                                      const char *name) HVD_MUST_CHECK;

/* An object is an entry without fixed memory: a commit writes it, and a restore
 * or sync reads it back. */
typedef struct hvd_state_object_ops {
    size_t struct_size; /* sizeof(hvd_state_object_ops_t) */
    /* How many bytes serialize() needs now, 1 GiB at most. Each commit calls
     * it first. */
    size_t (*size)(void *arg);
    /* Write exactly nbytes to buf. Anything but HVD_OK fails the commit, and
     * the older snapshot stays. */
    hvd_status_t (*serialize)(void *buf, size_t nbytes, void *arg);
    /* Become what buf [nbytes] says. buf is borrowed until return. */
    hvd_status_t (*deserialize)(const void *buf, size_t nbytes, void *arg);
} hvd_state_object_ops_t;

/* hvd_state_add_object - a shared entry with callbacks. *ops is copied; arg is
 * passed to the callbacks, and borrowed until the entry is removed. */
HVD_API hvd_status_t hvd_state_add_object(hvd_state_t *state, const char *name,
                                          const hvd_state_object_ops_t *ops,
                                          void *arg) HVD_MUST_CHECK;

/* hvd_state_add_sampler - register a sampler's cursor as a shared entry (see
 * hvd/sampler.h). The sampler must live until the entry is removed or the state
 * is destroyed. */
HVD_API hvd_status_t hvd_state_add_sampler(hvd_state_t *state, const char *name,
                                           hvd_sampler_t *sampler)
    HVD_MUST_CHECK;

/* Work of the program besides copying bytes. The library calls these functions
 * in the order of their registration, on the training thread:
 * on_commit just before it copies bytes into the snapshot, on_restore and
 * on_sync just after it has copied the snapshot to the live memory.
 *
 * on_commit runs on all ranks whenever it runs (in commits, in
 * hvd_state_sync(), before the job's first state is handed out), and may call
 * collectives; what it issues is complete before bytes are copied. After a
 * loss, each rank that has computed since its last commit runs on_restore, and
 * each rank that is synced then runs on_sync. Ranks differ in that, so a
 * collective there is HVD_ERR_STATE.
 *
 * Anything but HVD_OK fails the call in which it happened: with that status if
 * it is HVD_PEER_LOST or a program's own value, else with HVD_ERR_CALLBACK. No
 * callback may save, restore, commit or sync the same state (HVD_ERR_STATE). */
typedef hvd_status_t (*hvd_state_fn)(void *arg);
HVD_API hvd_status_t hvd_state_on_commit(hvd_state_t *state,
                                         hvd_state_fn callback,
                                         void *arg) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_state_on_restore(hvd_state_t *state,
                                          hvd_state_fn callback,
                                          void *arg) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_state_on_sync(hvd_state_t *state,
                                       hvd_state_fn callback,
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

/* hvd_state_on_reset - the library calls it in every generation after the
 * first, on every member, after the sync and before the training function. It
 * must be an idempotent function of the state and the world: lr = base_lr *
 * hvd_size(), never lr *= new / old. Its changes are not part of the
 * snapshot. */
typedef void (*hvd_reset_fn)(const hvd_reset_info_t *info, void *arg);
HVD_API hvd_status_t hvd_state_on_reset(hvd_state_t *state,
                                        hvd_reset_fn callback,
                                        void *arg) HVD_MUST_CHECK;

/* hvd_state_commit - save the live memory as the snapshot; then a boundary.
 *
 * All ranks make equal numbers of commits. Unless --verify-state is off, the
 * first two of each generation, and every N-th with --verify-state N, are
 * collectives: the ranks compare digests of their shared entries, byte by byte.
 * So set the padding of structs, or register their members; an entry of each
 * rank's own belongs in hvd_state_add_local().
 *
 * After HVD_HOSTS_UPDATED, and after a collective that has failed, nothing more
 * is saved until the training function has returned: the peers do not have what
 * it computes then. The snapshot stays what it was, and the call returns again
 * what the program should have returned. (A call that was refused does not
 * count, nor does a call by name that has failed alone, once hvd_wait() has
 * returned it.)
 *
 * Returns    HVD_OK
 *            HVD_ERR_MISMATCH   shared entries differ between ranks (objects
 *                               alone: a warning), or ranks differ in another
 *                               call: return it, and the job ends. Something
 *                               that must survive a change of workers is not
 *                               registered. The snapshot was saved
 *            HVD_HOSTS_UPDATED  hosts change: return it from the training
 *                               function, with the state as it is. All ranks
 *                               get it at the same boundary; nothing is lost
 *            HVD_PEER_LOST      a peer is gone: return it. The snapshot was
 *                               saved, unless a call had failed before
 *            another HVD_ERR_*  the older snapshot is intact: a callback has
 *                               failed, there is no memory, or a call had
 *                               failed with this status before */
HVD_API hvd_status_t hvd_state_commit(hvd_state_t *state) HVD_MUST_CHECK;

/* hvd_state_check_host_updates - a boundary without a snapshot. If no call is
 * in flight, it costs a few loads and stores, no message and no system call,
 * unless hosts change: then it commits before it returns HVD_HOSTS_UPDATED.
 * Returns what hvd_state_commit() returns. */
HVD_API hvd_status_t hvd_state_check_host_updates(hvd_state_t *state)
    HVD_MUST_CHECK;

/* hvd_state_save, hvd_state_restore - the two halves, without a boundary: live
 * memory to snapshot, snapshot to live memory (HVD_ERR_STATE: nothing was saved
 * yet; HVD_ERR_LAYOUT: it does not fit; or the status of a callback). All ranks
 * save at the same place, as they commit: equal numbers of saves must mean
 * equal state. A save is refused where a commit is. */
HVD_API hvd_status_t hvd_state_save(hvd_state_t *state) HVD_MUST_CHECK;
HVD_API hvd_status_t hvd_state_restore(hvd_state_t *state) HVD_MUST_CHECK;

/* hvd_state_sync - a collective: every rank gets rank 0's live state, as
 * snapshot and as live memory. It is refused where a commit is. For static
 * programs and for initial values; hvd_elastic_run() syncs by itself each rank
 * that needs it. */
HVD_API hvd_status_t hvd_state_sync(hvd_state_t *state) HVD_MUST_CHECK;

/* hvd_state_version - number of the current snapshot in the job: the first
 * state, each commit, save and sync count, and the library's own when training
 * has finished. 0: none, or saved before the world was joined. */
HVD_API uint64_t hvd_state_version(const hvd_state_t *state);

#ifdef __cplusplus
}
#endif
#endif
