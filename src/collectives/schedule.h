/* collectives/schedule.h - who sends what to whom, and when.
 *
 * A schedule is a list of steps with a sending and a receiving half. The halves
 * run independently, each in the order of the list; what ties them together is
 * in the step. Step k of the sender is step k of the receiver: lists are padded
 * with idle halves (peer -1) to make it so. Offsets and sizes are bytes, of the
 * operation's source (send) and target (receive).
 *
 *   allreduce       small: recursive doubling, ranks over a power of two folded
 *                   in first; large: ring, reduce-scatter then allgather
 *   broadcast       small: binomial tree; large: a chain, so that every rank
 *                   sends each byte once and all links are busy at a time
 *   reduce_scatter  ring          allgather(v)  ring
 *   alltoall(v)     pairwise      barrier       dissemination
 *
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005; ring: Patarasuk &
 * Yuan, JPDC 69(2), 2009; dissemination: Hensgen, Finkel & Manber, IJPP 17(1),
 * 1988.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_SCHEDULE_H
#define COLLECTIVES_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

enum { SCHEDULE_SMALL_MAX = 32 << 10, SCHEDULE_FRAME_NBYTES = 256 << 10 };

enum {
    SCHEDULE_REDUCE = 1,    /* combine what arrives with the target */
    SCHEDULE_DIVIDE = 2,    /* the sum is complete: AVERAGE divides here */
    SCHEDULE_SENT_FIRST = 4 /* combine only when this step's send is gone */
};

enum { SCHEDULE_FREE = -1 };

struct schedule_step {
    int send_peer; /* -1: none */
    int recv_peer; /* -1: none */
    /* The send waits for this step's receive: frame by frame when it sends the
     * same region (stream), else for all of it. SCHEDULE_FREE: for nothing. */
    int send_after;
    uint32_t flags;
    size_t send_offset, send_nbytes;
    size_t recv_offset, recv_nbytes;
};

struct schedule_call {
    int kind; /* enum collective_kind */
    int rank, size, root;
    size_t count; /* elements, as in the public call */
    size_t elem_nbytes;
    const size_t *sendcounts, *sdispls, *recvcounts, *rdispls;
};

/* Steps that a schedule of `size` ranks never exceeds. */
size_t schedule_steps_max(int size);

/* steps [schedule_steps_max(call->size)]; returns their number. size > 1. */
size_t schedule_build(const struct schedule_call *call,
                      struct schedule_step *steps);

#endif
