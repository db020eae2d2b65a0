/* state/sync_wire.c - the header of a state transfer. See sync_wire.h. */
#include "state/sync_wire.h"

#include <string.h>

#include "state/bytes.h"

static const uint32_t magic = 0x53445648; /* "HVDS" */

void sync_header_encode(const struct sync_header *header, uint8_t *buf)
{
    bytes_put_u32(buf, magic);
    bytes_put_u32(buf + 4, SYNC_WIRE_VERSION);
    bytes_put_u64(buf + 8, header->n_shared);
    bytes_put_u64(buf + 16, header->shared_nbytes);
    bytes_put_u64(buf + 24, header->generation);
    bytes_put_u64(buf + 32, header->version);
    bytes_put_u32(buf + 40, header->committed_size);
    bytes_put_u32(buf + 44, 0);
    memcpy(buf + 48, header->layout, SYNC_LAYOUT_NBYTES);
}

bool sync_header_decode(const uint8_t *buf, struct sync_header *header_p)
{
    if (bytes_get_u32(buf) != magic ||
        bytes_get_u32(buf + 4) != SYNC_WIRE_VERSION)
        return false;
    header_p->n_shared = bytes_get_u64(buf + 8);
    header_p->shared_nbytes = bytes_get_u64(buf + 16);
    header_p->generation = bytes_get_u64(buf + 24);
    header_p->version = bytes_get_u64(buf + 32);
    header_p->committed_size = bytes_get_u32(buf + 40);
    memcpy(header_p->layout, buf + 48, SYNC_LAYOUT_NBYTES);
    return true;
}
