/* bench/any_call.c - see any_call.h. */
#include "any_call.h"

hvd_status_t any_call_issue(const struct any_call *c,
                            const hvd_options_t *options,
                            hvd_request_t **request_p)
{
    switch (c->kind) {
    case ANY_ALLREDUCE:
        return hvd_allreduce_with(c->sendbuf, c->recvbuf, c->count, c->dtype,
                                  c->op, options, request_p);
    case ANY_BROADCAST:
        return hvd_broadcast_with(c->recvbuf, c->count, c->dtype, c->root,
                                  options, request_p);
    case ANY_ALLGATHER:
        return hvd_allgather_with(c->sendbuf, c->recvbuf, c->count, c->dtype,
                                  options, request_p);
    case ANY_ALLGATHERV:
        return hvd_allgatherv_with(c->sendbuf, c->count, c->recvbuf,
                                   c->recvcounts, c->rdispls, c->dtype, options,
                                   request_p);
    case ANY_REDUCE_SCATTER:
        return hvd_reduce_scatter_with(c->sendbuf, c->recvbuf, c->count,
                                       c->dtype, c->op, options, request_p);
    case ANY_ALLTOALL:
        return hvd_alltoall_with(c->sendbuf, c->recvbuf, c->count, c->dtype,
                                 options, request_p);
    case ANY_ALLTOALLV:
        return hvd_alltoallv_with(c->sendbuf, c->sendcounts, c->sdispls,
                                  c->recvbuf, c->recvcounts, c->rdispls,
                                  c->dtype, options, request_p);
    default:
        return hvd_barrier_with(options, request_p);
    }
}
