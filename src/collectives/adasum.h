/* collectives/adasum.h - an allreduce by adaptive summation: a request of
 * several parts (request.h), each a call that there is.
 *
 *   1       alltoall   each rank has one piece of every rank's vector
 *   levels  allreduce  of the products of the pieces of each pair; then each
 *                      pair is one vector, one that is left over stays:
 *                      ((0 1) (2 3)) ((4 5) 6)
 *   1       allgather  of the pieces of the one that is left
 *
 * As many bytes travel as in a ring's allreduce.
 *
 * Threads: the driver, but for adasum_prepare(). Memory: the vector twice, kept
 * with the request. */
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

struct adasum {
    bool on;
    size_t piece;    /* elements; of ranks [size] */
    uint8_t *whole;  /* [size][piece] of dtype: this rank's; in the end all */
    uint8_t *pieces; /* [size][piece] of dtype: one of each; [n_left] count */
    size_t whole_max, pieces_max, n_left;
    struct adasum_products *products; /* [size / 2] */
    size_t products_max;
};

/* A request that is filled in: if it is one, it has more parts from here on.
 * HVD_ERR_INVALID, HVD_ERR_UNSUPPORTED, HVD_ERR_NOMEM. */
hvd_status_t adasum_prepare(struct hvd_request *request,
                            bool group) HVD_MUST_CHECK;
void adasum_fini(struct adasum *adasum);

/* The part that is next: its arguments, the buffers filled. Else than HVD_OK:
 * an abort has come meanwhile. */
hvd_status_t adasum_begin(struct comm *comm, struct hvd_request *request,
                          struct collective_args *args_p,
                          struct call *call_p) HVD_MUST_CHECK;
/* It has run. Likewise. */
hvd_status_t adasum_end(struct comm *comm,
                        struct hvd_request *request) HVD_MUST_CHECK;

#endif
