/* collectives/local/local.h - the ranks of a comm that share this host: the
 * memory that they show each other, and a phase that works in it.
 *
 * Each rank owns
 *
 *   a mailbox  sealed memfd of this comm: what it calls and when, how far it
 *              is, whether it sleeps, writes elsewhere or has left
 *   an arena   sealed memfd of the process (arena.h): hvd_alloc and staging
 *   a doorbell eventfd of this comm: the others write it when it sleeps
 *
 * and hands their descriptors to each rank of its host with the handshake of a
 * CHANNEL_LOCAL connection. Mailboxes are written by their owners alone, and so
 * are arenas with two exceptions: an allreduce whose results all lie in arenas
 * pushes them there, and the root of a large broadcast its slice to readers
 * whose buffers lie there.
 *
 * After an abort nobody may write into, nor believe, the memory of a rank that
 * has returned to user code (docs/protocol.md):
 *
 *   reading  what was read counts only if its owner's "left" word is clear when
 *            the reading is over; in what was staged with a card, if that
 *            memory is still the same comm's
 *   writing  a writer says to whom in its own mailbox and then looks whether he
 *            has left; who leaves says so and then waits until nobody writes
 *            to him any more, or the writer is dead (pidfd, or the end of
 *            its connection): a stopped one is killed by its agent once its
 *            heartbeats are missed
 *
 * Tickets number the local phases of a comm, equally on all its ranks. A rank
 * shows ticket m when its call begins; who has shown m has finished m - 1.
 *
 * Threads: whoever drives the comm. */
#ifndef COLLECTIVES_LOCAL_LOCAL_H
#define COLLECTIVES_LOCAL_LOCAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#include "base/verdict.h"
#include "collectives/net/connection.h"
#include "collectives/net/endpoint.h"
#include "collectives/net/frame.h"
#include "collectives/net/peer.h"
#include "collectives/schedule/phase.h"

struct comm;
struct local;

enum {
    LOCAL_FDS = 3,
    LOCAL_SIZE_MAX = 256, /* an alltoallv card has room for 512 */
    LOCAL_BOUNCE_NBYTES = 2 * SCHEDULE_FRAME_NBYTES
};

/* What a group needs of the comm that it is part of. Everything is borrowed
 * until local_destroy(); `comm` is for the functions, which may not wait and
 * return HVD_OK or the verdict. */
struct local_owner {
    struct comm *comm;
    struct verdict *verdict;
    const atomic_bool *kick;   /* let go of the phase where it stands */
    const bool *in_background; /* another thread of ours needs this core */
    uint8_t *bounce;           /* [LOCAL_BOUNCE_NBYTES], while a phase lasts */
    struct connection **links; /* [size] of CHANNEL_LOCAL; NULL: none yet */

    hvd_status_t (*dial)(struct comm *comm, int rank);
    /* Take in what the connection has for us. */
    hvd_status_t (*read)(struct comm *comm, struct connection *c);
    /* Ranks call different things: the verdict is a mismatch. */
    hvd_status_t (*disagree)(struct comm *comm, int rank,
                             const struct frame *theirs,
                             const struct frame *mine);
    /* All whom the phase waits for have come to it. */
    void (*arrived)(struct comm *comm);
};

struct local_config {
    struct local_owner owner;
    const struct endpoint *endpoint;
    uint64_t generation;
    int rank, size;                /* of the comm */
    const struct comm_peer *peers; /* [size], borrowed like all above */
    uint8_t forced_way; /* enum mailbox_way; MAILBOX_NONE: by measurement */
};

/* *local_p: NULL if no others of own host are among the peers, or they cannot
 * share memory. HVD_ERR_SYSTEM: it cannot be made all the same. */
hvd_status_t local_create(const struct local_config *config,
                          struct local **local_p) HVD_MUST_CHECK;
/* Unmaps everything. NULL is fine. */
void local_destroy(struct local *local);

/* Ranks of the group, this one included. */
int local_size(const struct local *local);

/* This rank goes: nothing it shows may be believed from now on, and after this
 * call nobody writes into its memory. Waits for who is at it: a block, or the
 * death of a stopped writer. */
void local_leave(struct local *local);

/* In a forked child. Async-signal-safe. */
void local_fds_close(const struct local *local);

/* --- the memory of others --- */

/* fds [LOCAL_FDS]: what every peer is handed, borrowed until the next call of
 * anything here. Returns how many. */
size_t local_fds(const struct local *local, int *fds);
/* A peer's, which are taken, also on failure: HVD_ERR_SYSTEM. Once per peer,
 * when its connection becomes OPEN. */
hvd_status_t local_map_peer(struct local *local, int rank,
                            const int *fds) HVD_MUST_CHECK;

/* Arenas of other processes that are still mapped, with a descriptor each. Any
 * thread. */
size_t local_arenas_held(void);

/* Have arenas of other processes unmapped that no comm has used for a while, by
 * a thread for that, which lives until local_shutdown(). Whenever there is
 * time; any thread. */
void local_tidy(void);

/* The process needs no comm any more, and no thread calls local_tidy(): give
 * back what outlives them, that is mappings of other processes, staging memory
 * and the arena's descriptor. */
void local_shutdown(void);

/* --- a phase; see phase_ops.h --- */

/* phase, head: borrowed until it is done. */
hvd_status_t local_begin(struct local *local, const struct phase *phase,
                         const struct frame *head) HVD_MUST_CHECK;
hvd_status_t local_advance(struct local *local, bool *more_p) HVD_MUST_CHECK;
bool local_done(const struct local *local);
hvd_status_t local_look_again(struct local *local, bool *more_p) HVD_MUST_CHECK;
bool local_needs(const struct local *local, int rank);
/* Will the n-th phase after the one begun last (n > 0)? A peer that is there
 * already is not waited for. */
bool local_will_need(const struct local *local, int rank, unsigned n);
/* Who shows no memory yet; -1: nobody. */
int local_missing(const struct local *local);
/* Between phases: has another rank begun the next one? */
bool local_is_called(const struct local *local);
void local_sleep(struct local *local);
void local_wake(struct local *local);
int local_doorbell(const struct local *local);

#endif
