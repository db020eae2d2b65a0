/* collectives/local.h - the ranks of a comm that share this host: the memory
 * that they show each other, and a phase that works in it.
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
 * are arenas with one exception: an allreduce whose results all lie in arenas
 * pushes them there.
 *
 * After an abort nobody may write into, nor believe, the memory of a rank that
 * has returned to user code (docs/protocol.md):
 *
 *   reading  what was read counts only if its owner's "left" word is clear when
 *            the reading is over; in what was staged with a post, if that
 *            memory is still the same comm's
 *   writing  a writer says so in its own mailbox and then looks whether anybody
 *            has left; who leaves says so and then waits until nobody of this
 *            host writes any more, or the writer is dead (pidfd, or the end of
 *            its connection): a stopped one is killed by its agent once its
 *            heartbeats are missed
 *
 * Tickets number the local phases of a comm, equally on all its ranks. A rank
 * posts ticket m when its call begins; who has posted m has finished m - 1.
 *
 * Threads: whoever drives the comm. */
#ifndef COLLECTIVES_LOCAL_H
#define COLLECTIVES_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

struct comm;
struct phase;

enum {
    LOCAL_FDS = 3,
    LOCAL_SIZE_MAX = 256 /* an alltoallv post has room for 512 */
};

/* Sets comm->local, and comm->local_ops for CHANNEL_LOCAL, if ranks of own host
 * are among config.peers, and can share memory. HVD_ERR_SYSTEM: it cannot be
 * made all the same. */
hvd_status_t local_create(struct comm *comm) HVD_MUST_CHECK;
/* Unmaps everything. NULL is fine. */
void local_destroy(struct comm *comm);

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

/* Does the group consist of the whole comm? */
bool local_is_all(const struct comm *comm);

/* This rank goes: nothing it shows may be believed from now on, and behind this
 * call nobody writes into its memory. Waits for who is at it: a block, or the
 * death of a stopped writer. */
void local_leave(struct comm *comm);

/* In a forked child. Async-signal-safe. */
void local_fds_close(struct comm *comm);

/* --- a phase --- */

hvd_status_t local_begin(struct comm *comm,
                         const struct phase *phase) HVD_MUST_CHECK;
/* What needs no waiting; *more_p: something was done, and it was stopped so
 * that an abort is heard. */
hvd_status_t local_advance(struct comm *comm, bool *more_p) HVD_MUST_CHECK;
bool local_done(const struct comm *comm);
/* Does the phase still wait for this peer? */
bool local_needs(const struct comm *comm, int peer);
/* Will the n-th phase after the one begun last (n > 0)? A peer that is there
 * already is not waited for. */
bool local_will_need(const struct comm *comm, int peer, unsigned n);
/* A peer of this host without a connection; -1: none. */
int local_missing(const struct comm *comm);

/* Look again for a short while, in the manner that suits the number of cores.
 */
hvd_status_t local_spin(struct comm *comm, bool *more_p) HVD_MUST_CHECK;

/* Between these a peer that publishes anything makes local_doorbell() readable.
 * After local_sleep() everything has to be looked at once more. */
void local_sleep(struct comm *comm);
void local_wake(struct comm *comm);
int local_doorbell(const struct comm *comm);

#endif
