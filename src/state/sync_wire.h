/* state/sync_wire.h - a state on its way to another worker.
 *
 *     header  [SYNC_HEADER_NBYTES]  fixed, with a digest of itself
 *     sizes   [n_shared] of u64     of the shared entries
 *     bytes   [shared_nbytes]       the shared part of the snapshot as it lies;
 *                                   without what went apart (sync_devices.c)
 *     digests [n_shared] of u64     of the shared entries (sync_digest.h)
 *
 * Lists are in registration order; each is followed by a digest of its own,
 * unless it is empty. All numbers little endian. Pure; threads: any. */
#ifndef STATE_SYNC_WIRE_H
#define STATE_SYNC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SYNC_HEADER_NBYTES = 64,
    SYNC_LAYOUT_NBYTES = 16,
    SYNC_WIRE_VERSION = 3
};

struct sync_header {
    uint64_t n_shared;
    uint64_t shared_nbytes;
    uint64_t generation, version; /* the snapshot's id at its source */
    uint32_t committed_size;
    uint8_t layout[SYNC_LAYOUT_NBYTES];
};

void sync_header_encode(const struct sync_header *header, uint8_t *buf);

/* false: not such a header, or of another version; *header_p is untouched. */
bool sync_header_decode(const uint8_t *buf, struct sync_header *header_p);

/* Is it as it was encoded? */
bool sync_header_is_whole(const uint8_t *buf);

/* A list: n of u64, and room for its digest. */
static inline size_t sync_list_nbytes(size_t n)
{
    return n > 0 ? 8 * (n + 1) : 0;
}

/* Write and compare the digest behind list [n]. */
void sync_list_seal(uint8_t *list, size_t n);
bool sync_list_is_whole(const uint8_t *list, size_t n);

#endif
