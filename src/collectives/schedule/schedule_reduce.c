/* collectives/schedule/schedule_reduce.c - the schedules that combine. See
 * schedule.h. Pure. */
#include <stdbool.h>

#include "base/array.h"
#include "collectives/schedule/schedule_impl.h"

/* Block b starts at rank b + 1 and goes round, growing by a contribution a hop,
 * until rank b completes it. */
size_t schedule_ring_reduce(const struct schedule_call *call,
                            struct schedule_step *steps, size_t n)
{
    int rank = call->rank, size = call->size;

    for (int k = 0; k < size - 1; k++, n++) {
        uint32_t last = k == size - 2 ? SCHEDULE_DIVIDE : 0;

        steps[n] = idle_step();
        set_send(&steps[n], around(rank + 1, size), block(call, rank - 1 - k),
                 k == 0 ? SCHEDULE_FREE : (int)n - 1);
        set_recv(&steps[n], around(rank - 1, size), block(call, rank - 2 - k),
                 SCHEDULE_REDUCE | last);
    }
    return n;
}

/* Nothing waits: what is sent is this rank's own. */
size_t schedule_pairwise_reduce(const struct schedule_call *call,
                                struct schedule_step *steps, size_t n)
{
    int rank = call->rank, size = call->size;

    for (int k = 1; k < size; k++, n++) {
        int to = around(rank + k, size);
        uint32_t last = k == size - 1 ? SCHEDULE_DIVIDE : 0;

        steps[n] = idle_step();
        set_send(&steps[n], to, block(call, to), SCHEDULE_FREE);
        set_recv(&steps[n], around(rank - k, size), block(call, rank),
                 SCHEDULE_REDUCE | last);
    }
    return n;
}

/* The ranks that exchange are a power of two. The first 2 * extra ranks fold in
 * pairs: the even one lends its operand to the odd one and gets the result
 * back. */
struct fold {
    int power, extra;
    int mine; /* index among the power */
    bool lends, borrows;
};

static struct fold fold_of(const struct schedule_call *call)
{
    struct fold f = {.power = 1};
    int folded;

    while (f.power * 2 <= call->size)
        f.power *= 2;
    f.extra = call->size - f.power;
    folded = 2 * f.extra;
    f.lends = call->rank < folded && call->rank % 2 == 0;
    f.borrows = call->rank < folded && call->rank % 2 == 1;
    f.mine = call->rank < folded ? call->rank / 2 : call->rank - f.extra;
    return f;
}

static int unfolded(const struct fold *f, int index)
{
    return index < f->extra ? 2 * index + 1 : index + f->extra;
}

static size_t fold_in(const struct schedule_call *call, const struct fold *f,
                      struct schedule_step *steps, size_t n)
{
    if (f->extra == 0)
        return n;
    steps[n] = idle_step();
    if (f->lends)
        set_send(&steps[n], call->rank + 1, whole(call), SCHEDULE_FREE);
    if (f->borrows)
        set_recv(&steps[n], call->rank - 1, whole(call), SCHEDULE_REDUCE);
    return n + 1;
}

static size_t fold_out(const struct schedule_call *call, const struct fold *f,
                       struct schedule_step *steps, size_t n)
{
    if (f->extra == 0)
        return n;
    steps[n] = idle_step();
    if (f->borrows)
        set_send(&steps[n], call->rank - 1, whole(call), (int)n - 1);
    if (f->lends)
        set_recv(&steps[n], call->rank + 1, whole(call), 0);
    return n + 1;
}

size_t schedule_doubling(const struct schedule_call *call,
                         struct schedule_step *steps, size_t n)
{
    struct fold f = fold_of(call);
    uint32_t flags = SCHEDULE_REDUCE | SCHEDULE_SENT_FIRST;

    n = fold_in(call, &f, steps, n);
    for (int bit = 1; bit < f.power; bit *= 2, n++) {
        int peer = unfolded(&f, f.mine ^ bit);
        uint32_t last = bit * 2 == f.power ? SCHEDULE_DIVIDE : 0;

        steps[n] = idle_step();
        if (f.lends)
            continue;
        set_send(&steps[n], peer, whole(call),
                 n == 0 ? SCHEDULE_FREE : (int)n - 1);
        set_recv(&steps[n], peer, whole(call), flags | last);
    }
    return fold_out(call, &f, steps, n);
}

/* What a rank is left with after `bit`: 2 * bit blocks around its own become
 * the `bit` of them on its side. */
static struct region side(const struct schedule_call *call,
                          const struct fold *f, int index, int bit)
{
    int first = index & ~(bit - 1);

    return blocks(call, f->power, first, first + bit);
}

static size_t halve(const struct schedule_call *call, const struct fold *f,
                    struct schedule_step *steps, size_t n)
{
    for (int bit = f->power / 2; bit > 0; bit /= 2, n++) {
        int other = f->mine ^ bit, peer = unfolded(f, other);
        uint32_t last = bit == 1 ? SCHEDULE_DIVIDE : 0;

        steps[n] = idle_step();
        if (f->lends)
            continue;
        set_send(&steps[n], peer, side(call, f, other, bit),
                 n == 0 ? SCHEDULE_FREE : (int)n - 1);
        set_recv(&steps[n], peer, side(call, f, f->mine, bit),
                 SCHEDULE_REDUCE | last);
    }
    return n;
}

static size_t double_back(const struct schedule_call *call,
                          const struct fold *f, struct schedule_step *steps,
                          size_t n)
{
    for (int bit = 1; bit < f->power; bit *= 2, n++) {
        int other = f->mine ^ bit, peer = unfolded(f, other);

        steps[n] = idle_step();
        if (f->lends)
            continue;
        set_send(&steps[n], peer, side(call, f, f->mine, bit), (int)n - 1);
        set_recv(&steps[n], peer, side(call, f, other, bit), 0);
    }
    return n;
}

size_t schedule_halving(const struct schedule_call *call,
                        struct schedule_step *steps, size_t n)
{
    struct fold f = fold_of(call);

    if (call->kind == COLLECTIVE_REDUCE_SCATTER) {
        HVD_ASSERT(f.extra == 0);
        return halve(call, &f, steps, n);
    }
    n = fold_in(call, &f, steps, n);
    n = halve(call, &f, steps, n);
    n = double_back(call, &f, steps, n);
    return fold_out(call, &f, steps, n);
}
