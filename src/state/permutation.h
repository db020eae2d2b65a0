/* state/permutation.h - a keyed bijection of 0..n-1 in O(1) memory: the order
 * of one epoch.
 *
 * A balanced Feistel network over the smallest even number of bits that holds
 * n; values outside 0..n-1 are sent through it again (cycle walking), four
 * times at most on average. Good shuffling, no cryptography.
 *
 * Pure; threads: any.
 * Source: Black & Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA
 * 2002. */
#ifndef STATE_PERMUTATION_H
#define STATE_PERMUTATION_H

#include <stdint.h>

enum { PERMUTATION_ROUNDS = 8 };

struct permutation {
    uint64_t n;
    unsigned half_bits;
    uint64_t keys[PERMUTATION_ROUNDS];
};

/* n > 0. The same (n, seed, epoch) give the same order everywhere. */
void permutation_init(struct permutation *p, uint64_t n, uint64_t seed,
                      uint64_t epoch);

/* Where sample `index` of the epoch is found; index < n. */
uint64_t permutation_at(const struct permutation *p, uint64_t index);

#endif
