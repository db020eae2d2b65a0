/* base/random.c - splitmix64. See random.h. */
#include "base/random.h"

uint64_t random_u64(struct random_state *r)
{
    uint64_t z = (r->s += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint64_t random_below(struct random_state *r, uint64_t n)
{
    __extension__ typedef unsigned __int128 u128;

    /* multiply-shift: a bias below 2^-32 for the n used here */
    return (uint64_t)(((u128)random_u64(r) * n) >> 64);
}

double random_unit(struct random_state *r)
{
    return (double)(random_u64(r) >> 11) * 0x1p-53;
}
