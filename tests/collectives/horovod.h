/* tests/collectives/horovod.h - what tests of Horovod's cases share. Threads:
 * as group.h. */
#ifndef TESTS_COLLECTIVES_HOROVOD_H
#define TESTS_COLLECTIVES_HOROVOD_H

#include "named.h"

enum { EDGE = 17, LIST = 5 };

static inline struct collective_args args_of(enum collective_kind kind,
                                             hvd_dtype_t dtype,
                                             const void *send, void *recv,
                                             size_t count)
{
    return (struct collective_args){.kind = kind,
                                    .sendbuf = send,
                                    .recvbuf = recv,
                                    .count = count,
                                    .dtype = dtype,
                                    .op = HVD_SUM,
                                    .name = "tensor"};
}

static inline hvd_status_t call(struct comm *comm,
                                const struct collective_args *args)
{
    struct hvd_request *r;

    HVD_TRY(by_name_post(comm, args, NULL, &r));
    return request_wait(r);
}

/* With 2 and with 4 ranks. */
static inline void play(rank_fn *fn, int arg)
{
    struct group g;

    for (int size = 2; size <= 4; size += 2) {
        group_init(&g, size);
        group_run(&g, fn, &arg);
        group_fini(&g);
    }
}

#endif
