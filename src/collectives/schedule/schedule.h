/* collectives/schedule/schedule.h - who sends what to whom, and when.
 *
 * A schedule is a list of steps with a sending and a receiving half. The halves
 * run independently, each in the order of the list; what ties them together is
 * in the step. Step k of the sender is step k of the receiver: lists are padded
 * with idle halves (peer -1) to make it so. Offsets and sizes are bytes, of the
 * operation's source (send) and target (receive).
 *
 *   allreduce       doubling  everybody has everything after log2(n) exchanges
 *                   halving   halves of halves are reduced, then gathered
 *                   ring      blocks go round: each rank sends 2 (n-1)/n of it
 *   broadcast       star      the root sends to each
 *                   tree      binomial
 *                   scatter   a block to each rank by a tree, then a ring
 *                   chain     frame by frame through all ranks
 *   allgather       bruck     what a rank has doubles with each exchange
 *                   ring
 *   reduce_scatter  pairwise  each block straight to its owner
 *                   halving   (a number of ranks that is no power of two:
 *                             pairwise)
 *                   ring
 *   alltoall(v)     pairwise  barrier  dissemination  allgatherv  ring
 *
 * doubling and halving fold ranks over a power of two in first. Every rank gets
 * the same bits: an element is combined in one place, or by exchanges in which
 * both sides combine the same two operands (reduce.h: commutative bit by bit).
 *
 * Source: Thakur, Rabenseifner & Gropp, IJHPCA 19(1), 2005; ring: Patarasuk &
 * Yuan, JPDC 69(2), 2009; bruck: Bruck et al., IEEE TPDS 8(11), 1997; scatter:
 * Barnett et al., SHPCC 1994; dissemination: Hensgen, Finkel & Manber, IJPP
 * 17(1), 1988.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_SCHEDULE_SCHEDULE_H
#define COLLECTIVES_SCHEDULE_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

#include "collectives/schedule/algorithm.h"

enum { SCHEDULE_FRAME_NBYTES = 256 << 10 };

enum {
    SCHEDULE_REDUCE = 1,    /* combine what arrives with the target */
    SCHEDULE_DIVIDE = 2,    /* the sum is complete: AVERAGE divides here */
    SCHEDULE_SENT_FIRST = 4 /* this step sends the region that it receives:
                               combine only what of it is gone */
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
    int kind;                 /* enum collective_kind */
    enum algorithm algorithm; /* AUTO, FLAT, TWO_LEVEL: by the table */
    int rank, size, root;     /* indices into group */
    const int *group;         /* [size], ranks of the comm; NULL: 0, 1, ... */
    size_t count;             /* elements, as in the public call */
    size_t elem_nbytes;
    const size_t *sendcounts, *sdispls, *recvcounts, *rdispls;
};

/* Steps that a schedule of `size` ranks never exceeds. */
size_t schedule_steps_max(int size);

/* What schedule_build() makes of call->algorithm: one of a schedule. */
enum algorithm schedule_algorithm(const struct schedule_call *call);

/* steps [schedule_steps_max(call->size)]; returns their number, the same on
 * every rank. Peers are ranks of the comm. size > 1; the algorithm fits the
 * kind. */
size_t schedule_build(const struct schedule_call *call,
                      struct schedule_step *steps);

#endif
