/* elastic/wire/passed.h - the descriptors that an agent passes to a worker: its
 * secrets, a lifeline, and the lock whose end tells of its death (an agent may
 * have none). A worker inherits them under numbers that variables
 * name. HVD_PASSED says which files are open there, as a program between agent
 * and worker may close them and open others. A worker that has not got them
 * asks its agent (claim.h).
 *
 * Threads: any. Memory: none. */
#ifndef ELASTIC_WIRE_PASSED_H
#define ELASTIC_WIRE_PASSED_H

#include <hvd/status.h>

enum passed { PASSED_SECRET, PASSED_LIFELINE, PASSED_ROBUST, PASSED_MAX };

/* "HVD_PASSED=" and for each 2^64:2^64, */
enum { PASSED_ENTRY_MAX = 16 + 42 * PASSED_MAX };

/* The variable of a descriptor, and its number in a worker: out of the way of
 * scripts, which use 3 to 9, and of shells, which use 10 upwards. */
struct passed_place {
    const char *name;
    int fd;
};

extern const struct passed_place passed_places[PASSED_MAX];

/* HVD_PASSED for fds [PASSED_MAX]: DEVICE:INODE of each, in order. */
void passed_describe(const int *fds, char entry[PASSED_ENTRY_MAX]);

/* *fd_p: the descriptor that the variable names, CLOEXEC from now on; -1:
 * nothing, or another file, is open there by now. HVD_ERR_INVALID: the variable
 * is not set, or no number. */
hvd_status_t passed_find(enum passed which, int *fd_p) HVD_MUST_CHECK;

#endif
