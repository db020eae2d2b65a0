/* collectives/schedule/schedule_move.c - the schedules that combine nothing.
 * See schedule.h. Pure. */
#include <stdbool.h>

#include "collectives/schedule/schedule_impl.h"

/* The last step before n, or nothing. */
static int before(size_t n)
{
    return n == 0 ? SCHEDULE_FREE : (int)n - 1;
}

/* Does this rank have the block before the ring starts? After a scatter also
 * those that it handed on. */
static bool has(const struct schedule_call *call, int rank, int index)
{
    int i = around(index, call->size), r = around(rank, call->size);

    if (call->kind != COLLECTIVE_BROADCAST)
        return i == r;
    return r == 0 || (i >= r && i < r + (r & -r));
}

size_t schedule_ring_gather(const struct schedule_call *call,
                            struct schedule_step *steps, size_t n)
{
    int rank = call->rank, size = call->size;

    for (int k = 0; k < size - 1; k++, n++) {
        steps[n] = idle_step();
        if (!has(call, rank + 1, rank - k))
            set_send(&steps[n], around(rank + 1, size), block(call, rank - k),
                     before(n));
        if (!has(call, rank, rank - 1 - k))
            set_recv(&steps[n], around(rank - 1, size),
                     block(call, rank - 1 - k), 0);
    }
    return n;
}

/* Blocks first .. first+n-1, round the end: the part before it or behind it. */
static struct region part(const struct schedule_call *call, int first, int n,
                          bool behind)
{
    int end = first + n, size = call->size;

    if (behind)
        return blocks(call, size, 0, end > size ? end - size : 0);
    return blocks(call, size, first, end > size ? size : end);
}

/* Before each exchange a rank has `have` blocks from its own on, round the end.
 * They go to the rank `have` below in two parts; the second is often empty, and
 * is no message then. */
size_t schedule_bruck(const struct schedule_call *call,
                      struct schedule_step *steps, size_t n)
{
    int rank = call->rank, size = call->size;

    for (int have = 1; have < size; have *= 2) {
        int n_blocks = have < size - have ? have : size - have;
        int to = around(rank - have, size), from = around(rank + have, size);
        int after = before(n);

        for (int half = 0; half < 2; half++, n++) {
            steps[n] = idle_step();
            if (half == 0 || rank + n_blocks > size)
                set_send(&steps[n], to, part(call, rank, n_blocks, half == 1),
                         after);
            if (half == 0 || from + n_blocks > size)
                set_recv(&steps[n], from, part(call, from, n_blocks, half == 1),
                         0);
        }
    }
    return n;
}

size_t schedule_chain(const struct schedule_call *call,
                      struct schedule_step *steps, size_t n)
{
    int rank = call->rank;

    steps[n] = idle_step();
    if (rank > 0)
        set_recv(&steps[n], rank - 1, whole(call), 0);
    if (rank < call->size - 1)
        set_send(&steps[n], rank + 1, whole(call),
                 rank > 0 ? (int)n : SCHEDULE_FREE);
    return n + 1;
}

/* Step k is between the root and the rank k + 1 behind it. */
size_t schedule_star(const struct schedule_call *call,
                     struct schedule_step *steps, size_t n)
{
    for (int other = 1; other < call->size; other++, n++) {
        steps[n] = idle_step();
        if (call->rank == 0)
            set_send(&steps[n], other, whole(call), SCHEDULE_FREE);
        else if (call->rank == other)
            set_recv(&steps[n], 0, whole(call), 0);
    }
    return n;
}

/* Round k doubles the number of ranks that have it: those below 2^k send to
 * the one 2^k above. */
size_t schedule_tree(const struct schedule_call *call,
                     struct schedule_step *steps, size_t n)
{
    int size = call->size, rank = call->rank, got = SCHEDULE_FREE;

    for (int bit = 1; bit < size; bit *= 2, n++) {
        steps[n] = idle_step();
        if (rank < bit && rank + bit < size)
            set_send(&steps[n], rank + bit, whole(call), got);
        if (rank >= bit && rank < 2 * bit) {
            set_recv(&steps[n], rank - bit, whole(call), 0);
            got = (int)n;
        }
    }
    return n;
}

/* A rank whose number ends in zeros keeps as many blocks as they say, and hands
 * the upper half of what it has to the rank in the middle. */
size_t schedule_scatter(const struct schedule_call *call,
                        struct schedule_step *steps, size_t n)
{
    int size = call->size, rank = call->rank, got = SCHEDULE_FREE, bit = 1;

    while (bit * 2 < size)
        bit *= 2;
    for (; bit > 0; bit /= 2, n++) {
        int middle = rank % (2 * bit) == 0 ? rank + bit : rank;
        int end = middle + bit < size ? middle + bit : size;

        steps[n] = idle_step();
        if (middle >= size || rank % bit != 0)
            continue;
        if (middle != rank) {
            set_send(&steps[n], middle, blocks(call, size, middle, end), got);
        } else {
            set_recv(&steps[n], rank - bit, blocks(call, size, middle, end), 0);
            got = (int)n;
        }
    }
    return n;
}

static struct region pair(const struct schedule_call *call, int peer,
                          const size_t *counts, const size_t *displs)
{
    if (call->kind == COLLECTIVE_ALLTOALL)
        return block(call, peer);
    return (struct region){displs[peer] * call->elem_nbytes,
                           counts[peer] * call->elem_nbytes};
}

size_t schedule_pairwise(const struct schedule_call *call,
                         struct schedule_step *steps, size_t n)
{
    for (int k = 1; k < call->size; k++, n++) {
        int to = around(call->rank + k, call->size);
        int from = around(call->rank - k, call->size);

        steps[n] = idle_step();
        set_send(&steps[n], to, pair(call, to, call->sendcounts, call->sdispls),
                 SCHEDULE_FREE);
        set_recv(&steps[n], from,
                 pair(call, from, call->recvcounts, call->rdispls), 0);
    }
    return n;
}

size_t schedule_dissemination(const struct schedule_call *call,
                              struct schedule_step *steps, size_t n)
{
    for (int bit = 1; bit < call->size; bit *= 2, n++) {
        steps[n] = idle_step();
        set_send(&steps[n], around(call->rank + bit, call->size),
                 (struct region){0, 0}, before(n));
        set_recv(&steps[n], around(call->rank - bit, call->size),
                 (struct region){0, 0}, 0);
    }
    return n;
}
