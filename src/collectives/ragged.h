/* collectives/ragged.h - an allgatherv or alltoallv whose ranks know only what
 * they send: a request of two parts (request.h), each a call that there is.
 *
 *   1   allgather of how many elements each rank has; alltoall of how many it
 *       has for each. The program then says where they go (args.place)
 *   2   the call as it was asked for, with those counts
 *
 * Threads: the driver, but for ragged_admit(), ragged_prepare() and
 * ragged_run_alone(). Memory: the
 * counts are the request's. */
#ifndef COLLECTIVES_RAGGED_H
#define COLLECTIVES_RAGGED_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/collectives.h>
#include <hvd/status.h>

#include "collectives/call.h"

struct comm;
struct hvd_request;

/* Of a request. */
struct ragged {
    bool on;
    int size; /* of its comm, which may end before a world of one's runs */
    size_t *counts; /* [size]: what each rank sends to this one */
    size_t own;     /* elements that this rank has, of an allgatherv */
    void *result;   /* of ragged_own_place: from hvd_alloc(); NULL: none yet */
    /* where hvd_wait_result() wants them: */
    void **result_p;
    size_t *counts_p; /* [size]; NULL: not wanted */
};

/* Ahead of all else. HVD_OK: it is none, or can be one; HVD_ERR_INVALID,
 * HVD_ERR_UNSUPPORTED. */
hvd_status_t ragged_admit(const struct collective_args *args) HVD_MUST_CHECK;
/* A request that is filled in, and has room for the counts: if it is one, it
 * has its parts from here on. */
void ragged_prepare(struct hvd_request *request);

/* The part that is next: its arguments. Else than HVD_OK: the comm has ended.
 */
hvd_status_t ragged_begin(struct comm *comm, const struct hvd_request *request,
                          struct collective_args *args_p,
                          struct call *call_p) HVD_MUST_CHECK;
/* It has run. Likewise: there is no place, say. */
hvd_status_t ragged_end(struct comm *comm,
                        struct hvd_request *request) HVD_MUST_CHECK;

/* In a world of one a posted call is over as it is posted; not this one, which
 * asks the program for a place, while who posts by name holds locks. Whoever
 * has posted it or waits for it: it is done when this has returned. Nothing, if
 * it was, or is no such call. */
void ragged_run_alone(struct hvd_request *request);

/* Stands for memory of the library's as args.place, and is never called. */
void *ragged_own_place(const size_t *counts, int size, void *arg);
/* It is done and was successful: the caller of hvd_wait_result() gets it. */
void ragged_hand_over(struct hvd_request *request);
/* Free a result that nobody has taken. */
void ragged_drop(struct hvd_request *request);

/* Is this thread asking the program for a place just now? It holds locks, and
 * the others wait for it: it may call nothing that waits. */
bool ragged_is_placing(void);

#endif
