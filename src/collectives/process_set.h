/* collectives/process_set.h - comms of some ranks of another one, which is
 * called their world here: each has connections, memory and a thread of its
 * own, and waits for nobody but its own calls.
 *
 * They live with their world. What ends it ends them, and what ends one of them
 * ends the world, in whose ranks is said who was lost: a generation is whole or
 * it is over. Draining the world drains them, leaving it leaves them.
 *
 *   comm_abort()  from any thread, down to them and up to their world
 *   leave, drain  first they, then their world
 *
 * Threads: the issuing one, but for what is said to be any. Memory: a comm
 * each. */
#ifndef COLLECTIVES_PROCESS_SET_H
#define COLLECTIVES_PROCESS_SET_H

#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#include "collectives/by_name.h"
#include "collectives/comm.h"

/* Do all ranks of the comm name the same numbers? A collective. Else than
 * HVD_OK: HVD_ERR_MISMATCH on all of them, "`what`: rank 0 names (0, 1), rank 2
 * names (0, 2)", or what comm_run() returns. */
hvd_status_t process_set_agree(struct comm *world, const char *what,
                               const int *numbers, size_t n) HVD_MUST_CHECK;

/* Of a set that its members make without a word to each other: a digest, above
 * all numbers that are counted. */
uint32_t process_set_number(const char *name, const int *ranks, int n);

/* ranks [n], the world's, each once, the own one among them: the rank in the
 * set is the place in this list. number: 1 and up, of the sets that this world
 * has had, equal on all its members. Any thread, while the world is there.
 * Errors as comm_create(), and the world has ended; why it has; HVD_ERR_STATE:
 * this rank has finished. */
hvd_status_t process_set_create(struct comm *world, uint32_t number,
                                const int *ranks, int n,
                                struct comm **set_p) HVD_MUST_CHECK;

/* A collective of the set, behind its calls; it is gone in every case. Else
 * than HVD_OK: one of them has failed, or this one, and the world has ended. */
hvd_status_t process_set_destroy(struct comm *set) HVD_MUST_CHECK;

/* Of this rank in the list; -1: it is not there. */
static inline int process_set_place(int rank, const int *ranks, int n)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] == rank)
            return i;
    return -1;
}

/* --- for the comm that has them, or is one: nothing if it is not so --- */

/* Any thread. */
void process_sets_abort(struct comm *world, hvd_status_t reason,
                        const char *text);
uint64_t process_sets_moves(struct comm *world);
/* Of their calls by name, those that wait (by_name.h). Any thread. */
void process_sets_add_waits(struct comm *world, struct by_name_waits *all);
/* ranks [max]: those of this set, as they fit; returns how many it has, 0: it
 * is not there. Any thread. */
size_t process_sets_ranks(struct comm *world, uint32_t set, uint32_t *ranks,
                          size_t max);
/* It has ended, for this reason: so has its world. Any thread. */
void process_set_tell(struct comm *set, hvd_status_t reason, const char *text);

hvd_status_t process_sets_drain(struct comm *world) HVD_MUST_CHECK;
/* As comm_whole(), of all of them. */
hvd_status_t process_sets_whole(struct comm *world) HVD_MUST_CHECK;
/* As comm_unwaited(), of all of them. */
hvd_status_t process_sets_unwaited(struct comm *world) HVD_MUST_CHECK;
/* There will be no more, and no more calls by name in them. Any other may be
 * left only behind this. */
void process_sets_close(struct comm *world, enum comm_leave_kind kind);
void process_sets_leave(struct comm *world, enum comm_leave_kind kind,
                        uint64_t boundary);
/* Who was lost there is accused here. By whoever drives `world`. */
void process_sets_accuse(struct comm *world);
void process_sets_destroy(struct comm *world);

#endif
