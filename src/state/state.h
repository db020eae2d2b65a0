/* state/state.h - what the run loop needs of a state beyond the public calls
 * (hvd/state.h).
 *
 * Memory: the live entries (the user's) + two snapshots. A commit copies live
 * into the snapshot that is *not* current, then flips; an error half way leaves
 * the older one whole. A sync receives into the snapshot that is not current,
 * verifies, flips, and copies to live.
 *
 * Threads: the training thread, except state_id_of() (an atomic copy of the
 * last flip) and state_moves(), for heartbeats. */
#ifndef STATE_STATE_H
#define STATE_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/state.h>

#include "base/ids.h"
#include "collectives/comm.h"

struct text;

enum { STATE_DIGEST_NBYTES = 16, STATE_LAYOUT_TEXT_MAX = 400 };

/* Names, order and kinds -> digest [16]; text: "weights shared, rng local, ..."
 * for the sentence (truncated with "..."). */
void state_layout(hvd_state_t *state, uint8_t *digest, char *text,
                  size_t text_max);

/* Id of the current snapshot, (0, 0) when there is none. Any thread. */
struct state_id state_id_of(const hvd_state_t *state);

/* Grows while entries are copied: that takes seconds where they are large, and
 * is no hang. Any thread. */
uint64_t state_moves(const hvd_state_t *state);

/* Snapshot the live memory as (generation, version + 1). The on_commit
 * callbacks have run before. On an error the older snapshot is current and
 * intact. In generation 0 (no world yet) it can be restored but has no id:
 * nobody else has anything equal. */
hvd_status_t state_save(hvd_state_t *state, uint64_t generation,
                        int world_size) HVD_MUST_CHECK;

/* The on_commit callbacks, before state_save(). */
hvd_status_t state_run_on_commit(hvd_state_t *state) HVD_MUST_CHECK;

/* Current snapshot -> live, then the on_restore callbacks. HVD_ERR_STATE:
 * none. */
hvd_status_t state_restore(hvd_state_t *state) HVD_MUST_CHECK;

/* Of a snapshot that does not fit any more: the local entries that do, to live
 * memory. A sync brings the shared ones, and keeps these. */
void state_restore_local(hvd_state_t *state);

/* Give the current snapshot another id: ASSIGN(generation) restamps the
 * base. */
void state_stamp(hvd_state_t *state, struct state_id id);

/* Has it entries on a device? */
bool state_is_on_device(const hvd_state_t *state);

/* Of the ranks that sync what they have on devices. */
struct state_devices {
    int rank, size, root; /* the root is a source */
    bool is_source;       /* the current snapshot is what is to be synced */
    uint64_t min_nbytes;  /* or it is not worth it: each rank has a vote */
};

/* Ahead of a sync, a collective of all ranks: what lies on devices goes to all
 * of them by NCCL, if all can; *apart_p, the same everywhere: it has gone. Then
 * it is left out below. A failure is the comm's; live memory, and the snapshot
 * that is current, are as they were. */
hvd_status_t state_sync_devices(hvd_state_t *state, struct comm *comm,
                                const struct state_devices *devices,
                                bool *apart_p) HVD_MUST_CHECK;

/* Serve the current snapshot's shared entries to rank `peer` of comm; the local
 * ones are not sent, nor those on devices if these went apart. Returns as
 * comm_transfer_send. */
hvd_status_t state_sync_send(hvd_state_t *state, struct comm *comm, int peer,
                             bool apart) HVD_MUST_CHECK;

/* Receive the state `id` from rank `source` into the inactive snapshot, verify,
 * flip, copy to live (local entries: as they are live now), then on_sync
 * callbacks. *nbytes_p: bytes received. HVD_ERR_LAYOUT names an entry whose
 * size differs. HVD_PEER_LOST: a loss, or it is not that state, or did not
 * arrive as it was, by the digest of an entry, which is named: the comm has
 * ended then. A failure half way leaves the own snapshot current and live
 * untouched. */
hvd_status_t state_sync_receive(hvd_state_t *state, struct comm *comm,
                                int source, struct state_id id, bool apart,
                                uint64_t *nbytes_p) HVD_MUST_CHECK;

/* Who sends to whom, pure (sync_plan.c): is_source [size] (not all false). Rank
 * r that is no source is served by the returned rank; stale ranks are dealt
 * round to the sources in rank order. -1 for a source. */
int sync_plan_source_of(const bool *is_source, int size, int rank);
/* The first rank above `after` (-1: from the first on) that `source` serves;
 * -1: none. */
int sync_plan_next(const bool *is_source, int size, int source, int after);

/* The world size that made the current snapshot; 0 unknown. */
int state_committed_size(const hvd_state_t *state);

enum state_difference {
    STATE_EQUAL,
    STATE_OBJECT_DIFFERS, /* objects alone, which may write the same differently
                             on two ranks */
    STATE_DIFFERS
};

/* A collective of `size` ranks, behind a save of each: are the shared entries
 * of their current snapshots equal? t: which entry differs, and on which ranks,
 * the same words on all of them. Returns as comm_run, or HVD_ERR_NOMEM; the
 * comm lives on if they differ. */
hvd_status_t state_verify(hvd_state_t *state, struct comm *comm, int size,
                          struct text *t,
                          enum state_difference *difference_p) HVD_MUST_CHECK;

/* Rewind the samplers to what is committed, then run the reset callbacks, in
 * registration order. */
void state_reset(hvd_state_t *state, const hvd_reset_info_t *info);

#endif
