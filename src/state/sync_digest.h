/* state/sync_digest.h - digests of a snapshot's shared entries, taken piece by
 * piece: of what is about to be sent, or has just arrived, and is in the cache.
 *
 *     | entry 0 | entry 1                  | 2 | 3 | 4       |
 *     | piece 0         | piece 1          | piece 2         |
 *               '-- XXH3 --'--- XXH3 ------'   the first is the second's seed
 *
 * Both ends cut at the same places (sync_pieces.h), so equal digests are equal
 * bytes.
 *
 * Threads: the training thread. Memory: the caller's. */
#ifndef STATE_SYNC_DIGEST_H
#define STATE_SYNC_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "state/internal.h"

struct sync_digests {
    const struct snapshot *snapshot;
    uint8_t *list; /* [n_shared] of u64, little endian; zeros to begin with */
    size_t record, n; /* the first that is not over, and its place in list */
};

/* The piece that begins at `from`, up to `to`; in order, all of them. */
void sync_digests_add(struct sync_digests *d, size_t from, size_t to);

#endif
