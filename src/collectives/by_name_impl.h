/* collectives/by_name_impl.h - the inside of calls by name, shared by by_name.c
 * (posts, waits, the end) and by_name_run.c (what the driver does). */
#ifndef COLLECTIVES_BY_NAME_IMPL_H
#define COLLECTIVES_BY_NAME_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/by_name.h"
#include "collectives/flying.h"
#include "collectives/negotiate/batches.h"
#include "collectives/negotiate/negotiator.h"
#include "collectives/request.h"

enum stage {
    STAGE_BETWEEN,  /* nothing is under way */
    STAGE_AWAIT,    /* a round is to begin here or elsewhere */
    STAGE_ROUND,    /* who has posted what? */
    STAGE_EXCHANGE, /* names that are new */
    STAGE_BATCH     /* calls that all have posted */
};

struct by_name {
    struct comm *comm;  /* theirs */
    struct comm *world; /* to which they are posted */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* one is complete, or nobody drives any more */
    struct flying flying;
    struct hvd_request *posted, *posted_last; /* the driver has not seen them */
    bool over;                                /* nothing is posted any more */
    bool led;     /* a thread that waits drives for all */
    int n_inside; /* threads that wait; guarded by `door` */

    atomic_bool failed;    /* their comm has ended, and some were in flight */
    atomic_bool has_posts; /* `posted` is not empty, or `over` is news */
    atomic_bool sleeping;

    uint64_t fusion_nbytes; /* constant */

    /* the driver's */
    struct negotiator *negotiator;
    enum stage stage;
    struct hvd_request *step; /* ROUND, EXCHANGE, BATCH: what is under way */
    struct hvd_request *own;  /* the same, unless it is a caller's; or NULL */
    uint8_t *round, *records;
    size_t round_max, records_max;
    struct batches batches;
    const void **sendbufs; /* of a fused one's tensors */
    void **recvbufs;
    size_t *counts;
    size_t sendbufs_max, recvbufs_max, counts_max;
};

/* All that is in flight is over, or this one. */
static inline bool by_name_is_over(const struct by_name *b,
                                   const struct hvd_request *r)
{
    return r != NULL ? request_done(r) : flying_count(&b->flying) == 0;
}

/* Drive until then, or until the thread is kicked out. */
void by_name_run_until(struct by_name *b, const struct hvd_request *r);

#endif
