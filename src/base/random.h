/* base/random.h - a small seeded generator for jitter, simulation and tests:
 * the same seed gives the same numbers everywhere. Never for secrets
 * (mac_random). Pure. Source: splitmix64, Steele, Lea & Flood, OOPSLA 2014. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

struct random_state {
    uint64_t s;
};

uint64_t random_u64(struct random_state *r);

/* Uniform in 0..n-1; n > 0. */
uint64_t random_below(struct random_state *r, uint64_t n);

/* Uniform in [0, 1). */
double random_unit(struct random_state *r);

#endif
