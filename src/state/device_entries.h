/* state/device_entries.h - entries whose memory is the device's, on their way
 * into a snapshot and back.
 *
 *     live --1--> shadow --2--> snapshot --3--> live    3 also from the shadow
 *
 * A save queues 1 and 2 and returns: what the program puts on the entry's
 * stream from then on waits for 1 alone, which is over in a fraction of 2's
 * time. Where the device has no room for a shadow, 1 goes to the snapshot. So a
 * snapshot is current, and may be restored, before its bytes are there; whoever
 * reads them awaits them first.
 *
 * Threads: the training thread. Memory: the shadow is the state's; a snapshot
 * is not unmapped before what is on its way to it is over. */
#ifndef STATE_DEVICE_ENTRIES_H
#define STATE_DEVICE_ENTRIES_H

#include <stdbool.h>

#include <hvd/status.h>

#include "base/round.h"
#include "state/internal.h"

/* What an entry takes of a shadow, where they lie in registration order. */
static inline size_t device_entries_room(size_t nbytes)
{
    return round_up_to(nbytes, 256);
}

/* The bytes of s are there. */
hvd_status_t device_entries_await(hvd_state_t *state,
                                  struct snapshot *s) HVD_MUST_CHECK;

/* Live -> spare, which is prepared: begin, each entry, end with what has become
 * of them. HVD_ERR_UNSUPPORTED: a stream is being captured, or there is no
 * device; HVD_ERR_NOMEM; HVD_ERR_SYSTEM. */
hvd_status_t device_entries_begin_save(hvd_state_t *state,
                                       struct snapshot *spare) HVD_MUST_CHECK;
hvd_status_t device_entry_save(hvd_state_t *state, struct snapshot *spare,
                               const struct entry *entry,
                               const struct record *record) HVD_MUST_CHECK;
hvd_status_t device_entries_end_save(hvd_state_t *state, struct snapshot *spare,
                                     hvd_status_t status) HVD_MUST_CHECK;

/* A shadow of [nbytes], from or to which a peer's can be broadcast: what is in
 * it is whole, and in the snapshots, too. HVD_ERR_NOMEM: there is no room;
 * HVD_ERR_UNSUPPORTED, HVD_ERR_SYSTEM as begin_save. */
hvd_status_t device_entries_make_room(hvd_state_t *state,
                                      size_t nbytes) HVD_MUST_CHECK;
/* It is overwritten from now on: what was there is in the snapshots alone. */
void device_entries_begin_receive(hvd_state_t *state);
/* All of it has come: into spare, which is prepared for it, too. */
hvd_status_t device_entries_receive(hvd_state_t *state,
                                    struct snapshot *spare) HVD_MUST_CHECK;

/* s -> live, where it is behind the end. */
hvd_status_t device_entries_begin_load(hvd_state_t *state,
                                       struct snapshot *s) HVD_MUST_CHECK;
hvd_status_t device_entry_load(hvd_state_t *state, const struct snapshot *s,
                               const struct entry *entry,
                               const struct record *record) HVD_MUST_CHECK;
hvd_status_t device_entries_end_load(hvd_state_t *state,
                                     hvd_status_t status) HVD_MUST_CHECK;

/* The memory of s is about to be unmapped. false: the device may still write
 * there. */
bool device_entries_let_go(hvd_state_t *state,
                           struct snapshot *s) HVD_MUST_CHECK;

/* At the end of a state whose snapshots are gone. */
void device_entries_release(hvd_state_t *state);

#endif
