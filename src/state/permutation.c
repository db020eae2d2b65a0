/* state/permutation.c - keyed Feistel with cycle walking. See permutation.h. */
#include "state/permutation.h"

#include "base/array.h"
#include "base/random.h"

static unsigned half_bits_for(uint64_t n)
{
    unsigned half = 1;

    while (half < 32 && (n - 1) >> (2 * half))
        half++;
    return half;
}

/* The finalizer of splitmix64: every bit of the input reaches every bit. */
static uint64_t mix(uint64_t z)
{
    struct random_state r = {z};

    return random_u64(&r);
}

void permutation_init(struct permutation *p, uint64_t n, uint64_t seed,
                      uint64_t epoch)
{
    struct random_state r = {mix(seed) ^ (epoch * 0xd1342543de82ef95u)};

    HVD_ASSERT(n > 0);
    p->n = n;
    p->half_bits = half_bits_for(n);
    for (int i = 0; i < PERMUTATION_ROUNDS; i++)
        p->keys[i] = random_u64(&r);
}

static uint64_t feistel(const struct permutation *p, uint64_t x)
{
    const uint64_t mask = (UINT64_C(1) << p->half_bits) - 1;
    uint64_t left = x >> p->half_bits;
    uint64_t right = x & mask;

    for (int i = 0; i < PERMUTATION_ROUNDS; i++) {
        uint64_t next = left ^ (mix(right ^ p->keys[i]) & mask);

        left = right;
        right = next;
    }
    return left << p->half_bits | right;
}

uint64_t permutation_at(const struct permutation *p, uint64_t index)
{
    uint64_t x = index;

    HVD_ASSERT(index < p->n);
    /* ends: the walk stays on index's cycle, which comes back to index < n */
    do {
        x = feistel(p, x);
    } while (x >= p->n);
    return x;
}
