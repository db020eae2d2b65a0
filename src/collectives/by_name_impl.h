/* collectives/by_name_impl.h - the inside of calls by name, shared by by_name.c
 * (posts, waits, the end) and by_name_run.c (what the driver does). */
#ifndef COLLECTIVES_BY_NAME_IMPL_H
#define COLLECTIVES_BY_NAME_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/autotune.h"
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
    STAGE_CARRIER,  /* an order is followed: how much of it have all? */
    STAGE_MEETING,  /* how do buffers on devices travel? (on_device.h) */
    STAGE_BATCH     /* calls that all have posted */
};

/* Small calls that travel with the question how many of those that are next all
 * ranks have, in comm->fusion: tensors one after the other, and behind them an
 * element for each of the calls that are next, 0 of a rank that has it and all
 * before it. */
struct carrier {
    bool *carried; /* [n]: of what is next */
    size_t n, carried_max;
    size_t question_at, elem_nbytes;
    size_t delivered_nbytes;       /* up to here they are where they belong */
    uint64_t begun_ns, decided_ns; /* timeline_call_clock() */
};

struct by_name {
    struct comm *comm;  /* theirs */
    struct comm *world; /* to which they are posted */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* one is complete, or nobody drives any more */
    struct flying flying;
    struct hvd_request *posted, *posted_last; /* the driver has not seen them */
    bool over;                                /* nothing is posted any more */
    bool joined;                              /* ... until all others have */
    struct hvd_request *refused; /* have failed alone, and nobody has waited */
    struct flying alone; /* of a world of one: nobody has waited for them yet */
    bool led;            /* a thread that waits drives for all */
    int n_inside;        /* threads that wait; guarded by `door` */

    atomic_bool failed;    /* their comm has ended, and some were in flight */
    atomic_bool leaves;    /* this rank is at a boundary where all leave */
    atomic_bool has_posts; /* `posted` is not empty, or `over` is news */
    atomic_bool sleeping;

    uint64_t fusion_nbytes;    /* constant, the default */
    struct autotune *autotune; /* constant; NULL: none here */

    /* the driver's */
    struct negotiator *negotiator;
    struct autotune_setting setting; /* in force */
    enum stage stage;
    struct hvd_request *step; /* ROUND, EXCHANGE, BATCH: what is under way */
    struct hvd_request *own;  /* the same, unless it is a caller's; or NULL */
    uint8_t *round, *records;
    size_t round_max, records_max;
    struct batches batches;
    struct carrier carrier;
    uint64_t waits_us; /* since when this rank has something posted, and not
                          what is next; 0: it is not known yet */
    struct hvd_request *join; /* this rank joins; NULL */
    size_t n_joined;          /* ranks, while batches run: nothing is fused */
    uint8_t *stand_in;        /* by_name_joined.c */
    size_t stand_in_max;
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

/* --- by_name_joined.c: while ranks have joined --- */

/* Does a call like this run, or is it refused on all ranks, with the sentence?
 */
bool by_name_runs_joined(const struct signature *signature);
hvd_status_t by_name_refuse_joined(const struct by_name *b,
                                   const struct hvd_request *r) HVD_MUST_CHECK;
/* A call of one tensor, which runs as it is, on a device staged: before it is
 * begun. */
void by_name_begin_joined(const struct by_name *b,
                          const struct batch_item *item);
/* Another rank's, or a group: what runs in its place. Else than HVD_OK: the
 * comm has ended. */
hvd_status_t by_name_stand_in(struct by_name *b, const struct batch_item *item,
                              struct collective_args *args_p) HVD_MUST_CHECK;
/* It has run: the result is where it belongs, or the comm has ended. */
hvd_status_t
by_name_finish_joined(const struct by_name *b,
                      const struct batch_item *item) HVD_MUST_CHECK;

/* --- by_name_learned.c: an order is followed --- */

/* The question about what is next, and what is carried with it. ready: this
 * rank has the first. Else than HVD_OK: the comm has ended. */
hvd_status_t
by_name_load_carrier(struct by_name *b, bool ready,
                     struct collective_args *args_p) HVD_MUST_CHECK;
/* It has arrived: so many of what is next all ranks have. */
size_t by_name_answer(const struct by_name *b);
/* Is the k-th call that is decided done with that? Of a round's: no. */
bool by_name_is_carried(const struct by_name *b, size_t k);
/* Carried ones, each once, in order. */
void by_name_deliver(struct by_name *b, struct hvd_request *r);

/* --- by_name_run.c --- */

/* The comm ends. Returns the reason. */
hvd_status_t by_name_no_memory(struct by_name *b);

/* Drive until then, or until the thread is kicked out. */
void by_name_run_until(struct by_name *b, const struct hvd_request *r);

#endif
