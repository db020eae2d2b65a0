/* state/sampler_core.h - the arithmetic of the sampler: which block of an epoch
 * the world takes next, and which part of it is one rank's.
 *
 * Pure; threads: any. */
#ifndef STATE_SAMPLER_CORE_H
#define STATE_SAMPLER_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the whole world is: `position` samples of `epoch` are taken, the last
 * of them in shares of `batch`; 0: none of this epoch. */
struct sampler_cursor {
    uint64_t epoch;
    uint64_t position;
    uint64_t batch;
};

/* A run of positions, before the permutation. */
struct sampler_range {
    uint64_t first;
    uint64_t count;
};

/* The next size * batch positions of n_samples from `position`; fewer at the
 * end of the epoch, none when it is over (with drop_last: when no whole block
 * is left). */
struct sampler_range sampler_block(uint64_t n_samples, uint64_t position,
                                   uint64_t batch, int size, bool drop_last);

/* Rank's share of a block. Shares are adjacent, in rank order, and differ by at
 * most one. */
struct sampler_range sampler_share(struct sampler_range block, int rank,
                                   int size);

/* The cursor as it lies in a snapshot and on the wire, little endian: u64 each,
 * in the order of the struct. All of it must be equal on all ranks; n_samples,
 * seed and the flags never change. */
enum { SAMPLER_CURSOR_NBYTES = 56, SAMPLER_N_FIELDS = 7 };

struct sampler_image {
    struct sampler_cursor cursor;
    uint64_t n_samples;
    uint64_t seed;
    uint64_t shuffle, drop_last; /* 0 or 1 */
};

void sampler_image_encode(const struct sampler_image *image, uint8_t *buf);
void sampler_image_decode(const uint8_t *buf, struct sampler_image *image_p);

/* Field `i` of an image: *value_p, and its name for a person. What explains a
 * difference comes before what follows from it: options, batch, cursor. */
const char *sampler_image_field(const uint8_t *buf, int i, uint64_t *value_p);

#endif
