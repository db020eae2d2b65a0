/* state/sync_wire.h - what precedes a state on its way to another worker.
 *
 *     header [SYNC_HEADER_NBYTES]   fixed
 *     sizes  [n_shared] of u64      of the shared entries, in registration
 *     order
 *     bytes  [shared_nbytes]        the shared part of the snapshot as it lies
 *
 * All numbers little endian. Pure; threads: any. */
#ifndef STATE_SYNC_WIRE_H
#define STATE_SYNC_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SYNC_HEADER_NBYTES = 64,
    SYNC_LAYOUT_NBYTES = 16,
    SYNC_WIRE_VERSION = 1
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

#endif
