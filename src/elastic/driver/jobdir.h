/* elastic/driver/jobdir.h - the directory of --job-dir, in which a job outlives
 * its driver:
 *
 *   journal.T   what the driver of term T knows (journal.h)
 *   driver      where it is (wire/beacon.h)
 *   lock.T      locked as long as it lives: the kernel unlocks it
 *
 * It is its owner's alone (0700). A successor takes the next term, by the lock
 * of that term, so that of two only one can.
 *
 * Several machines may see it. No pid tells whether a driver on another machine
 * lives, and a file server may keep the lock of a machine that died. But each
 * driver touches DIR/driver every second: a standby calls a driver silent when
 * it has seen no change for 10 s. A driver has ended if a standby has seen its
 * lock held, and sees that the lock is free.
 *
 * Touches the world. Threads: the driver's main thread. */
#ifndef ELASTIC_DRIVER_JOBDIR_H
#define ELASTIC_DRIVER_JOBDIR_H

#include <stdbool.h>

#include <hvd/status.h>

#include "elastic/driver/memory.h"
#include "elastic/wire/beacon.h"

/* What a successor begins with. */
struct heir {
    struct memory memory;
    struct beacon before;    /* the driver that it comes after */
    bool elsewhere;          /* the driver before was on another machine */
    bool may_live;           /* the driver before is silent, not surely dead */
    uint64_t term;           /* its own */
    int lock_fd;             /* of that; -1: none */
    size_t cut;              /* bytes of the journal that were damaged */
    bool leads;              /* it has taken the job over: loop_run() */
    char why[WIRE_TEXT_MAX]; /* ... or why it could not */
};

/* A new job: the directory is made if it is not there, and term 1 is ours. What
 * an ended job has left is written over; anew: so is a job that has not ended,
 * if none of its agents lives. dir [PATH_MAX]: its absolute path. The
 * sentence says what is in the way. */
hvd_status_t jobdir_begin(const char *name, bool anew, char *dir,
                          int *lock_fd_p) HVD_MUST_CHECK;

/* Take over the job of `dir`. take_over: even if its driver lives. The sentence
 * says why not: none is there, it has ended, its driver lives, its journal
 * cannot be read. */
hvd_status_t jobdir_inherit(const char *dir, bool take_over,
                            struct heir *heir) HVD_MUST_CHECK;

/* Is there a job in `dir`, and where is its driver? The sentence says why
 * not. */
hvd_status_t jobdir_find(const char *dir, struct beacon *b) HVD_MUST_CHECK;

/* Does that driver live? On another machine: does anybody hold its lock? */
hvd_status_t jobdir_driver_lives(const char *dir, const struct beacon *b,
                                 bool *lives_p) HVD_MUST_CHECK;

/* Do agents of the job of `dir` live? Those of other machines cannot be looked
 * at. */
enum jobdir_life { JOBDIR_NOBODY, JOBDIR_ELSEWHERE, JOBDIR_LIVES };
enum jobdir_life jobdir_life(const char *dir);

/* Wait until its driver has ended, and take over; if another one does, wait for
 * the end of that. *ended_p: the job has ended well or not, which
 * heir->memory.state says. */
hvd_status_t jobdir_await(const char *dir, struct heir *heir,
                          bool *ended_p) HVD_MUST_CHECK;

/* The lock's file is kept from those who remove what is old; if it is gone
 * it is made and locked again, *fd_p (-1: not before). By one thread alone. */
void jobdir_keep_lock(const char *dir, uint64_t term, int *fd_p);

void heir_fini(struct heir *heir);

#endif
