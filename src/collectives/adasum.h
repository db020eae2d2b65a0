/* collectives/adasum.h - an allreduce by adaptive summation: a request of
 * several parts (request.h), each a call that there is.
 *
 *   1       alltoall   each rank has one piece of every rank's vector
 *   levels  allreduce  of the products of the pieces of each pair; then each
 *                      pair is one vector, one that is left over stays:
 *                      ((0 1) (2 3)) ((4 5) 6)
 *   1       allgather  of the pieces of the one that is left
 *
 * A group is one vector, tensor behind tensor, and each tensor of it has
 * products of its own: it becomes what it would by itself. As many bytes travel
 * as in a ring's allreduce.
 *
 * Threads: the driver, but for adasum_admit() and adasum_prepare(). Memory: the
 * vector twice, kept by the comm. */
#ifndef COLLECTIVES_ADASUM_H
#define COLLECTIVES_ADASUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/collectives.h>
#include <hvd/status.h>

#include "collectives/call.h"
#include "collectives/reduce/adasum.h"

struct comm;
struct hvd_request;

/* Of a request. */
struct adasum {
    bool on;
    size_t piece;  /* elements of each rank */
    size_t n_left; /* vectors */
};

/* Of a comm: of the one that is under way. */
struct adasum_memory {
    uint8_t *whole;  /* [size][piece] of dtype: this rank's; in the end all */
    uint8_t *pieces; /* [size][piece] of dtype: one of each; [n_left] count */
    size_t nbytes;   /* of each of the two */
    struct adasum_products *products; /* [n_left / 2][n_tensors] */
    size_t products_max;
};

/* Ahead of all else. HVD_OK: it is none, or can be one; HVD_ERR_INVALID. */
hvd_status_t adasum_admit(const struct collective_args *args) HVD_MUST_CHECK;
/* A request that is filled in: if it is one, it has more parts from here on. */
void adasum_prepare(struct hvd_request *request);
void adasum_fini(struct adasum_memory *memory);

/* The part that is next: its arguments, the buffers filled. Else than HVD_OK:
 * the comm has ended, since there is no memory, or an abort has come. */
hvd_status_t adasum_begin(struct comm *comm, struct hvd_request *request,
                          struct collective_args *args_p,
                          struct call *call_p) HVD_MUST_CHECK;
/* It has run. Likewise. */
hvd_status_t adasum_end(struct comm *comm,
                        struct hvd_request *request) HVD_MUST_CHECK;

#endif
