/* collectives/descriptors.h - room for descriptors under RLIMIT_NOFILE, before
 * they are opened: what fails for the lack of one in the middle of a call takes
 * the call with it.
 *
 * Threads: one. */
#ifndef COLLECTIVES_DESCRIPTORS_H
#define COLLECTIVES_DESCRIPTORS_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/status.h>

/* Of a comm. */
struct descriptors_need {
    size_t least; /* what every job needs */
    size_t most;  /* when every rank has to do with every other (alltoall) */
};

/* n_here: ranks of this host, which share memory, or not. connections: between
 * two ranks. Pure. */
struct descriptors_need descriptors_needed(size_t size, size_t n_here,
                                           bool shares, size_t connections);

/* Raise the soft limit so that `most` more can be opened, or as many as the
 * hard limit has. newest: a descriptor that was opened just now, or -1; if it
 * shows that half of the limit is free, nothing is counted. *room_p, `most` at
 * most: how many can be opened. HVD_ERR_SYSTEM: not even `least`. The sentence
 * begins with `who`. */
hvd_status_t descriptors_reserve(const char *who, struct descriptors_need need,
                                 int newest, size_t *room_p) HVD_MUST_CHECK;

#endif
