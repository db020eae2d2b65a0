/* collectives/schedule/schedule_impl.h - what the schedules are made of:
 * regions of a vector, halves of a step. Peers are indices 0..size-1 in here; a
 * broadcast's root is index 0.
 *
 * Pure. Threads: any. */
#ifndef COLLECTIVES_SCHEDULE_SCHEDULE_IMPL_H
#define COLLECTIVES_SCHEDULE_SCHEDULE_IMPL_H

#include <stddef.h>
#include <stdint.h>

#include "collectives/schedule/kinds.h"
#include "collectives/schedule/schedule.h"
#include "collectives/schedule/slices.h"

struct region {
    size_t offset, nbytes;
};

static inline int around(int rank, int size)
{
    return ((rank % size) + size) % size;
}

static inline struct schedule_step idle_step(void)
{
    return (struct schedule_step){
        .send_peer = -1, .recv_peer = -1, .send_after = SCHEDULE_FREE};
}

static inline void set_send(struct schedule_step *step, int peer,
                            struct region region, int after)
{
    step->send_peer = peer;
    step->send_offset = region.offset;
    step->send_nbytes = region.nbytes;
    step->send_after = after;
}

static inline void set_recv(struct schedule_step *step, int peer,
                            struct region region, uint32_t flags)
{
    step->recv_peer = peer;
    step->recv_offset = region.offset;
    step->recv_nbytes = region.nbytes;
    step->flags = flags;
}

static inline struct region whole(const struct schedule_call *call)
{
    return (struct region){0, call->count * call->elem_nbytes};
}

/* Where block `index` of `n` begins; index n: where the last one ends.
 * allreduce and broadcast cut one vector into nearly equal blocks; the others
 * have n blocks of count. */
static inline size_t block_begin(const struct schedule_call *call, int n,
                                 int index)
{
    const struct kind *kind = kind_of(call->kind);

    if (kind->send != KIND_BLOCK || kind->recv != KIND_BLOCK)
        return (size_t)index * call->count * call->elem_nbytes;
    return slice_begin(call->count, n, index) * call->elem_nbytes;
}

/* Blocks first .. end-1 of n. */
static inline struct region blocks(const struct schedule_call *call, int n,
                                   int first, int end)
{
    size_t begin = block_begin(call, n, first);

    return (struct region){begin, block_begin(call, n, end) - begin};
}

/* Block `index` of as many as there are ranks. */
static inline struct region block(const struct schedule_call *call, int index)
{
    int i = around(index, call->size);

    if (call->kind == COLLECTIVE_ALLGATHERV)
        return (struct region){call->rdispls[i] * call->elem_nbytes,
                               call->recvcounts[i] * call->elem_nbytes};
    return blocks(call, call->size, i, i + 1);
}

/* Each adds steps behind the first n and returns how many there are then. */

/* --- schedule_reduce.c --- */

size_t schedule_ring_reduce(const struct schedule_call *call,
                            struct schedule_step *steps, size_t n);
size_t schedule_pairwise_reduce(const struct schedule_call *call,
                                struct schedule_step *steps, size_t n);
size_t schedule_doubling(const struct schedule_call *call,
                         struct schedule_step *steps, size_t n);
/* allreduce, or reduce_scatter of a power of two ranks. */
size_t schedule_halving(const struct schedule_call *call,
                        struct schedule_step *steps, size_t n);

/* --- schedule_move.c --- */

/* Every rank starts with its own block. */
size_t schedule_ring_gather(const struct schedule_call *call,
                            struct schedule_step *steps, size_t n);
size_t schedule_bruck(const struct schedule_call *call,
                      struct schedule_step *steps, size_t n);
size_t schedule_chain(const struct schedule_call *call,
                      struct schedule_step *steps, size_t n);
size_t schedule_star(const struct schedule_call *call,
                     struct schedule_step *steps, size_t n);
size_t schedule_tree(const struct schedule_call *call,
                     struct schedule_step *steps, size_t n);
/* Block i of index 0's vector to rank i. */
size_t schedule_scatter(const struct schedule_call *call,
                        struct schedule_step *steps, size_t n);
size_t schedule_pairwise(const struct schedule_call *call,
                         struct schedule_step *steps, size_t n);
size_t schedule_dissemination(const struct schedule_call *call,
                              struct schedule_step *steps, size_t n);

#endif
