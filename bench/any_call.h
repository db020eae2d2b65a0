/* bench/any_call.h - a collective as a value: its kind and all arguments. For
 * programs that go through all kinds in one loop. */
#ifndef BENCH_ANY_CALL_H
#define BENCH_ANY_CALL_H

#include <hvd/hvd.h>

enum any_kind {
    ANY_ALLREDUCE,
    ANY_BROADCAST,
    ANY_ALLGATHER,
    ANY_ALLGATHERV,
    ANY_REDUCE_SCATTER,
    ANY_ALLTOALL,
    ANY_ALLTOALLV,
    ANY_BARRIER,
    ANY_KINDS
};

/* What the kind does not take is ignored. */
struct any_call {
    enum any_kind kind;
    const void *sendbuf;
    void *recvbuf;
    size_t count;
    const size_t *sendcounts, *sdispls, *recvcounts, *rdispls;
    hvd_dtype_t dtype;
    hvd_op_t op;
    int root;
};

/* options, request_p: as hvd/collectives.h. */
hvd_status_t any_call_issue(const struct any_call *call,
                            const hvd_options_t *options,
                            hvd_request_t **request_p) HVD_MUST_CHECK;

#endif
