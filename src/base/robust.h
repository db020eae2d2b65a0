/* base/robust.h - a lock in memory that two processes share, by which one of
 * them learns at once that a thread of the other has ended: a robust futex.
 *
 *   watcher                              holder, another process
 *   robust_create -- descriptor, inherited --> robust_attach
 *   robust_look: FREE                          a thread: robust_lock
 *                HELD                          it ends, or its process does,
 *                DIED <------- the kernel ---- or that runs another program
 *
 * The kernel lets go of the lock before it frees the memory of a process that
 * ends. Its pidfd and its connections tell afterwards, for 1 GB of small pages
 * a tenth of a second later. That the thread has ended says nothing of the
 * other threads of its process: they may run for a moment, or go on.
 *
 * What the holder writes there is not believed: it can only say wrong things
 * about itself. The file is sealed, so no page goes away under the watcher.
 *
 * Linux alone (get_robust_list(2), memfd_create(2)). Threads: any; one lock for
 * a thread, one at a time for a process. Memory: one page for each lock. */
#ifndef BASE_ROBUST_H
#define BASE_ROBUST_H

#include <stdbool.h>
#include <stdint.h>

#include <hvd/status.h>

enum robust_state {
    ROBUST_FREE, /* nobody holds it: not yet, or not any more */
    ROBUST_HELD,
    ROBUST_DIED /* its thread has ended without unlocking it */
};

struct robust; /* a mapping: of the watcher, for reading, or of the holder */

/* The watcher's. *fd_p is CLOEXEC, for the holder to inherit. HVD_ERR_SYSTEM:
 * the system has no such thing. */
hvd_status_t robust_create(struct robust **robust_p, int *fd_p) HVD_MUST_CHECK;

/* The holder's, which no child of a fork has. NULL: the descriptor is not that
 * of such a lock, and stays open; else it may be closed. */
struct robust *robust_attach(int fd);

void robust_detach(struct robust *robust);

/* For the calling thread, until it ends or unlocks it. False: somebody else has
 * it, or the system has no such thing. */
bool robust_lock(struct robust *robust) HVD_MUST_CHECK;
void robust_unlock(struct robust *robust);

/* *word_p: the value of the futex word; *thread_p: HELD: the thread, by its
 * number in its own namespace. */
enum robust_state robust_look(const struct robust *robust, uint32_t *word_p,
                              int *thread_p);

/* A futex shared between processes: it is woken when the state changes to HELD
 * or DIED. */
const uint32_t *robust_word(const struct robust *robust);

#endif
