/* collectives/schedule/schedule.c - from a call to its schedule. See
 * schedule.h. Pure.
 */
#include "collectives/schedule/schedule.h"

#include <stdbool.h>

#include "base/array.h"
#include "collectives/schedule/kinds.h"
#include "collectives/schedule/schedule_impl.h"

/* Of the greater of the two buffers, and the same on every rank. */
static size_t nbytes_of(const struct schedule_call *call)
{
    const struct kind *kind = kind_of(call->kind);
    size_t count = call->count;

    if (kind->send == KIND_VARIED)
        return 0; /* nobody knows */
    if (kind->recv == KIND_VARIED) {
        count = 0;
        for (int i = 0; i < call->size; i++)
            count += call->recvcounts[i];
    } else if (kind->send == KIND_BLOCKS || kind->recv == KIND_BLOCKS) {
        count *= (size_t)call->size;
    }
    return count * call->elem_nbytes;
}

enum algorithm schedule_algorithm(const struct schedule_call *call)
{
    enum algorithm algorithm = call->algorithm;
    bool power = (call->size & (call->size - 1)) == 0;

    if (algorithm == ALGORITHM_AUTO || algorithm == ALGORITHM_FLAT ||
        algorithm == ALGORITHM_TWO_LEVEL)
        algorithm = algorithm_choose(call->kind, call->size, nbytes_of(call),
                                     &algorithm_default);
    if (call->kind == COLLECTIVE_REDUCE_SCATTER &&
        algorithm == ALGORITHM_HALVING && !power)
        return ALGORITHM_PAIRWISE;
    return algorithm;
}

static size_t build(const struct schedule_call *call, enum algorithm algorithm,
                    struct schedule_step *steps)
{
    const struct kind *kind = kind_of(call->kind);
    bool scatters = kind->send == KIND_BLOCKS && kind->recv == KIND_BLOCK;
    size_t n = 0;

    switch (algorithm) {
    case ALGORITHM_DOUBLING:
        return schedule_doubling(call, steps, n);
    case ALGORITHM_HALVING:
        return schedule_halving(call, steps, n);
    case ALGORITHM_STAR:
        return schedule_star(call, steps, n);
    case ALGORITHM_TREE:
        return schedule_tree(call, steps, n);
    case ALGORITHM_CHAIN:
        return schedule_chain(call, steps, n);
    case ALGORITHM_SCATTER:
        n = schedule_scatter(call, steps, n);
        return schedule_ring_gather(call, steps, n);
    case ALGORITHM_BRUCK:
        return schedule_bruck(call, steps, n);
    case ALGORITHM_PAIRWISE:
        return kind->reduces ? schedule_pairwise_reduce(call, steps, n)
                             : schedule_pairwise(call, steps, n);
    case ALGORITHM_DISSEMINATION:
        return schedule_dissemination(call, steps, n);
    default: /* RING */
        if (kind->reduces)
            n = schedule_ring_reduce(call, steps, n);
        return scatters ? n : schedule_ring_gather(call, steps, n);
    }
}

/* From an index of schedule_impl.h to a rank of the comm. */
static int rank_of(const struct schedule_call *call, int root, int index)
{
    int i = around(index + root, call->size);

    if (index < 0)
        return -1;
    return call->group == NULL ? i : call->group[i];
}

size_t schedule_steps_max(int size)
{
    return 2 * (size_t)size + 64;
}

size_t schedule_build(const struct schedule_call *call,
                      struct schedule_step *steps)
{
    struct schedule_call turned = *call;
    int root = kind_of(call->kind)->rooted ? call->root : 0;
    size_t n;

    HVD_ASSERT(call->size > 1 && call->rank < call->size);
    HVD_ASSERT(algorithm_fits(call->kind, call->algorithm));
    turned.rank = around(call->rank - root, call->size);
    n = build(&turned, schedule_algorithm(call), steps);
    HVD_ASSERT(n <= schedule_steps_max(call->size));
    for (size_t i = 0; i < n; i++) {
        steps[i].send_peer = rank_of(call, root, steps[i].send_peer);
        steps[i].recv_peer = rank_of(call, root, steps[i].recv_peer);
    }
    return n;
}
