/* collectives/local/plan.c - how large operands are, and so how they get to the
 * others. See impl.h. */
#include "collectives/local/arena.h"
#include "collectives/local/impl.h"

enum {
    CARDS_TOTAL_MAX = 128 << 10, /* what a rank reads of all cards */
    CARDS_PAIR_MAX = 512 << 10,  /* ... of both */
    /* ... of an alltoall gives: attached, nothing of it is copied twice */
    CARDS_PARTS_MAX = 64 << 10,
    /* what it reads of operands of an allreduce, if all reduce it whole: fewer
     * exchanges against more reading */
    WHOLE_PAIR_MAX = 1 << 20,
    WHOLE_TOTAL_MAX = 128 << 10,
    PUSH_MIN = 1 << 10, /* operands above are pushed where they can be */
    NONTEMPORAL_MIN = 16 << 20, /* bytes of a call that caches do not hold */
    NONTEMPORAL_ALL = 96 << 20  /* ... of all ranks, where blocks are staged */
};

_Static_assert(WHOLE_PAIR_MAX / 2 <= LOCAL_BOUNCE_NBYTES &&
                   WHOLE_TOTAL_MAX / 3 <= LOCAL_BOUNCE_NBYTES,
               "a result that waits");

static size_t total(const size_t *counts, int n)
{
    size_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += counts[i];
    return sum;
}

size_t local_operand_nbytes(const struct local *local,
                            const struct schedule_call *call, int place)
{
    const struct kind *kind = kind_of(call->kind);
    size_t n = call->count * call->elem_nbytes;

    if (kind->rooted && local->peers[place].rank != call->root)
        return 0;
    if (kind->send == KIND_BLOCK && kind->recv == KIND_VARIED)
        return call->recvcounts[place] * call->elem_nbytes;
    switch (kind->send) {
    case KIND_NOTHING:
        return 0;
    case KIND_BLOCKS:
        return n * (size_t)local->size;
    default:
        return n;
    }
}

size_t local_largest_operand(const struct local *local,
                             const struct schedule_call *call)
{
    switch (call->kind) {
    case COLLECTIVE_BROADCAST:
        return call->count * call->elem_nbytes;
    case COLLECTIVE_ALLGATHERV:
        return total(call->recvcounts, local->size) * call->elem_nbytes;
    case COLLECTIVE_ALLTOALLV:
        return 0;
    default:
        return local_operand_nbytes(local, call, local->me);
    }
}

static bool fits_cards(const struct local *local,
                       const struct schedule_call *call)
{
    size_t largest = local_largest_operand(local, call);
    size_t all = largest * (size_t)local->size;

    if (call->kind == COLLECTIVE_ALLTOALLV)
        return false;
    if (call->kind == COLLECTIVE_ALLREDUCE)
        return all <= (local->size == 2 ? WHOLE_PAIR_MAX : WHOLE_TOTAL_MAX);
    if (local->size > 2 && call->kind == COLLECTIVE_ALLTOALL)
        return largest <= CARDS_PARTS_MAX;
    return (call->kind == COLLECTIVE_ALLGATHER ? all : largest) <=
           (size_t)(local->size == 2 ? CARDS_PAIR_MAX : CARDS_TOTAL_MAX);
}

/* Is it worth looking for operands in the arena, if they fit cards? */
static bool may_offer(const struct local *local,
                      const struct schedule_call *call)
{
    size_t min = call->kind == COLLECTIVE_ALLREDUCE ? PUSH_MIN
                                                    : MAILBOX_INLINE_MAX;

    return local_largest_operand(local, call) > min;
}

enum run_method local_method(const struct local *local,
                             const struct phase *phase)
{
    if (phase->pull_kind != 0 || !fits_cards(local, &phase->shape))
        return RUN_BLOCKS;
    return may_offer(local, &phase->shape) ? RUN_OFFERED : RUN_CARDS;
}

/* Memory that is not in the caches is read before it is written, unless it is
 * written past them. What an allreduce in place writes has just been read, to
 * be staged or by who pushes. */
bool local_is_nontemporal(const struct local *local, const struct phase *phase)
{
    const struct schedule_call *call = &phase->shape;
    size_t nbytes = local_largest_operand(local, call), n = (size_t)local->size;
    uint64_t offset;
    bool once;

    if (phase->pull_kind != 0)
        return false;
    switch (call->kind) {
    case COLLECTIVE_ALLREDUCE:
        return phase->src != phase->dst && nbytes >= NONTEMPORAL_MIN;
    case COLLECTIVE_ALLTOALLV:
        nbytes = total(call->recvcounts, local->size) * call->elem_nbytes;
        break;
    case COLLECTIVE_ALLGATHER:
        nbytes *= n;
        break;
    case COLLECTIVE_ALLGATHERV:
    case COLLECTIVE_ALLTOALL:
        break;
    default:
        return nbytes >= NONTEMPORAL_MIN;
    }
    /* a block that is copied twice is in the caches anyway, unless the first
     * copy goes past them */
    once = arena_find(phase->src, 1, &offset) &&
           !local_overwrites_operand(phase);
    return nbytes >= (once ? NONTEMPORAL_MIN : NONTEMPORAL_ALL / n);
}
