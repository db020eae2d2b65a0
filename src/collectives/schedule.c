/* collectives/schedule.c - the schedules. See schedule.h. Pure. */
#include "collectives/schedule.h"

#include <stdbool.h>
#include <string.h>

#include "base/array.h"
#include "collectives/comm.h"

struct region {
    size_t offset, nbytes;
};

static struct schedule_step idle(void)
{
    return (struct schedule_step){
        .send_peer = -1, .recv_peer = -1, .send_after = SCHEDULE_FREE};
}

static void set_send(struct schedule_step *step, int peer, struct region region,
                     int after)
{
    step->send_peer = peer;
    step->send_offset = region.offset;
    step->send_nbytes = region.nbytes;
    step->send_after = after;
}

static void set_recv(struct schedule_step *step, int peer, struct region region,
                     uint32_t flags)
{
    step->recv_peer = peer;
    step->recv_offset = region.offset;
    step->recv_nbytes = region.nbytes;
    step->flags = flags;
}

static int around(int rank, int size)
{
    return ((rank % size) + size) % size;
}

static struct region whole(const struct schedule_call *call)
{
    return (struct region){0, call->count * call->elem_nbytes};
}

/* Block `index` of `size` nearly equal ones: the first count % size are longer
 * by one element. */
static struct region part(const struct schedule_call *call, int index)
{
    size_t n = (size_t)call->size, i = (size_t)around(index, call->size);
    size_t each = call->count / n, more = call->count % n;
    size_t first = i * each + (i < more ? i : more);

    return (struct region){first * call->elem_nbytes,
                           (each + (i < more)) * call->elem_nbytes};
}

/* Block `index` of equal ones, or of those that recvcounts tells. */
static struct region block(const struct schedule_call *call, int index)
{
    size_t i = (size_t)around(index, call->size);

    if (call->kind == COLLECTIVE_ALLREDUCE)
        return part(call, index);
    if (call->kind == COLLECTIVE_ALLGATHERV)
        return (struct region){call->rdispls[i] * call->elem_nbytes,
                               call->recvcounts[i] * call->elem_nbytes};
    return (struct region){i * call->count * call->elem_nbytes,
                           call->count * call->elem_nbytes};
}

/* Block b starts at rank b + 1 and goes round, growing by a contribution a hop,
 * until rank b completes it. */
static size_t ring_reduce(const struct schedule_call *call,
                          struct schedule_step *steps)
{
    int rank = call->rank, size = call->size;

    for (int k = 0; k < size - 1; k++) {
        uint32_t last = k == size - 2 ? SCHEDULE_DIVIDE : 0;

        steps[k] = idle();
        set_send(&steps[k], around(rank + 1, size), block(call, rank - 1 - k),
                 k == 0 ? SCHEDULE_FREE : k - 1);
        set_recv(&steps[k], around(rank - 1, size), block(call, rank - 2 - k),
                 SCHEDULE_REDUCE | last);
    }
    return (size_t)size - 1;
}

/* Every rank starts with its own block; `first` steps came before. */
static size_t ring_gather(const struct schedule_call *call,
                          struct schedule_step *steps, size_t first)
{
    int rank = call->rank, size = call->size;

    for (int k = 0; k < size - 1; k++) {
        struct schedule_step *step = &steps[first + (size_t)k];

        *step = idle();
        set_send(step, around(rank + 1, size), block(call, rank - k),
                 (int)first + k - 1);
        set_recv(step, around(rank - 1, size), block(call, rank - 1 - k), 0);
    }
    return first + (size_t)size - 1;
}

static int power_below(int size)
{
    int power = 1;

    while (power * 2 <= size)
        power *= 2;
    return power;
}

/* The first 2 * extra ranks fold in pairs: the even one lends its operand to
 * the odd one and gets the result back. */
static size_t doubling(const struct schedule_call *call,
                       struct schedule_step *steps)
{
    int rank = call->rank, power = power_below(call->size);
    int extra = call->size - power, folded = 2 * extra;
    bool lends = rank < folded && rank % 2 == 0;
    bool borrows = rank < folded && rank % 2 == 1;
    int mine = rank < folded ? rank / 2 : rank - extra;
    uint32_t flags = SCHEDULE_REDUCE | SCHEDULE_SENT_FIRST;
    size_t n = 0;

    steps[n] = idle();
    if (lends)
        set_send(&steps[n], rank + 1, whole(call), SCHEDULE_FREE);
    if (borrows)
        set_recv(&steps[n], rank - 1, whole(call), SCHEDULE_REDUCE);
    n++;
    for (int bit = 1; bit < power; bit *= 2, n++) {
        int other = mine ^ bit;
        int peer = other < extra ? 2 * other + 1 : other + extra;
        uint32_t last = bit * 2 == power ? SCHEDULE_DIVIDE : 0;

        steps[n] = idle();
        if (lends)
            continue;
        set_send(&steps[n], peer, whole(call), (int)n - 1);
        set_recv(&steps[n], peer, whole(call), flags | last);
    }
    steps[n] = idle();
    if (borrows)
        set_send(&steps[n], rank - 1, whole(call), (int)n - 1);
    if (lends)
        set_recv(&steps[n], rank + 1, whole(call), 0);
    return n + 1;
}

static size_t chain(const struct schedule_call *call,
                    struct schedule_step *steps)
{
    int place = around(call->rank - call->root, call->size);

    steps[0] = idle();
    if (place > 0)
        set_recv(&steps[0], around(call->rank - 1, call->size), whole(call), 0);
    if (place < call->size - 1)
        set_send(&steps[0], around(call->rank + 1, call->size), whole(call),
                 place > 0 ? 0 : SCHEDULE_FREE);
    return 1;
}

/* Round k doubles the number of ranks that have it: places below 2^k send to
 * the place 2^k above. */
static size_t binomial(const struct schedule_call *call,
                       struct schedule_step *steps)
{
    int size = call->size, place = around(call->rank - call->root, size);
    int got = SCHEDULE_FREE;
    size_t n = 0;

    for (int bit = 1; bit < size; bit *= 2, n++) {
        steps[n] = idle();
        if (place < bit && place + bit < size)
            set_send(&steps[n], around(call->rank + bit, size), whole(call),
                     got);
        if (place >= bit && place < 2 * bit) {
            set_recv(&steps[n], around(call->rank - bit, size), whole(call), 0);
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

static size_t pairwise(const struct schedule_call *call,
                       struct schedule_step *steps)
{
    for (int k = 1; k < call->size; k++) {
        int to = around(call->rank + k, call->size);
        int from = around(call->rank - k, call->size);
        struct schedule_step *step = &steps[k - 1];

        *step = idle();
        set_send(step, to, pair(call, to, call->sendcounts, call->sdispls),
                 SCHEDULE_FREE);
        set_recv(step, from, pair(call, from, call->recvcounts, call->rdispls),
                 0);
    }
    return (size_t)call->size - 1;
}

static size_t dissemination(const struct schedule_call *call,
                            struct schedule_step *steps)
{
    size_t n = 0;

    for (int bit = 1; bit < call->size; bit *= 2, n++) {
        steps[n] = idle();
        set_send(&steps[n], around(call->rank + bit, call->size),
                 (struct region){0, 0}, (int)n - 1);
        set_recv(&steps[n], around(call->rank - bit, call->size),
                 (struct region){0, 0}, 0);
    }
    return n;
}

size_t schedule_steps_max(int size)
{
    return 2 * (size_t)size + 64;
}

size_t schedule_build(const struct schedule_call *call,
                      struct schedule_step *steps)
{
    bool small = call->count * call->elem_nbytes <= SCHEDULE_SMALL_MAX;

    HVD_ASSERT(call->size > 1 && call->rank < call->size);
    switch (call->kind) {
    case COLLECTIVE_ALLREDUCE:
        if (small)
            return doubling(call, steps);
        return ring_gather(call, steps, ring_reduce(call, steps));
    case COLLECTIVE_BROADCAST:
        return small ? binomial(call, steps) : chain(call, steps);
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLGATHERV:
        return ring_gather(call, steps, 0);
    case COLLECTIVE_REDUCE_SCATTER:
        return ring_reduce(call, steps);
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
        return pairwise(call, steps);
    default:
        return dissemination(call, steps);
    }
}
