/* collectives/compression.h - an allreduce that travels as 16-bit floats: what
 * the caller has is narrowed to memory of the request, combined there as any
 * other call of that dtype, and widened to the caller's at the end.
 *
 * Threads: as request.h. Memory: the request's, kept for the next. */
#ifndef COLLECTIVES_COMPRESSION_H
#define COLLECTIVES_COMPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/collectives.h>
#include <hvd/status.h>

#include "collectives/negotiate/signature.h"

struct comm;
struct hvd_request;
struct lent;

/* Of a request: the caller's side of the call. */
struct compression {
    bool on;
    hvd_dtype_t dtype;
    const uint8_t *send; /* [count] of dtype */
    uint8_t *recv;       /* likewise */
    uint8_t *residual;   /* likewise, or NULL */
    double prescale, postscale;
    struct lent *wire; /* [count] of 16 bits; NULL: not taken */
};

/* A request that is filled in and checked, of a group or not: if it is to be
 * compressed, it is a call on `wire` from here on. HVD_ERR_INVALID,
 * HVD_ERR_NOMEM. */
hvd_status_t compression_prepare(struct hvd_request *request,
                                 bool group) HVD_MUST_CHECK;
/* The request is over. */
void compression_drop(struct compression *compression);

/* By whoever drives, before the call on the wire and behind it. Else than
 * HVD_OK: an abort has come meanwhile. */
hvd_status_t compression_begin(struct comm *comm,
                               struct hvd_request *request) HVD_MUST_CHECK;
hvd_status_t compression_finish(struct comm *comm,
                                struct hvd_request *request) HVD_MUST_CHECK;

#endif
