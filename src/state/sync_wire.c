/* state/sync_wire.c - header and lists of a state transfer. See sync_wire.h. */
#include "state/sync_wire.h"

#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"

static const uint32_t magic = 0x53445648; /* "HVDS" */

enum { DIGEST_OFFSET = 44 }; /* u32, between the numbers and the layout */

static uint64_t digest_of(const uint8_t *buf)
{
    const uint8_t *behind = buf + DIGEST_OFFSET + 4;

    return XXH3_64bits_withSeed(behind,
                                (size_t)(buf + SYNC_HEADER_NBYTES - behind),
                                XXH3_64bits(buf, DIGEST_OFFSET)) &
           UINT32_MAX;
}

void sync_header_encode(const struct sync_header *header, uint8_t *buf)
{
    bytes_put(buf, magic, 4);
    bytes_put(buf + 4, SYNC_WIRE_VERSION, 4);
    bytes_put(buf + 8, header->n_shared, 8);
    bytes_put(buf + 16, header->shared_nbytes, 8);
    bytes_put(buf + 24, header->generation, 8);
    bytes_put(buf + 32, header->version, 8);
    bytes_put(buf + 40, header->committed_size, 4);
    memcpy(buf + 48, header->layout, SYNC_LAYOUT_NBYTES);
    bytes_put(buf + DIGEST_OFFSET, digest_of(buf), 4);
}

bool sync_header_decode(const uint8_t *buf, struct sync_header *header_p)
{
    if (bytes_get(buf, 4) != magic ||
        bytes_get(buf + 4, 4) != SYNC_WIRE_VERSION)
        return false;
    header_p->n_shared = bytes_get(buf + 8, 8);
    header_p->shared_nbytes = bytes_get(buf + 16, 8);
    header_p->generation = bytes_get(buf + 24, 8);
    header_p->version = bytes_get(buf + 32, 8);
    header_p->committed_size = (uint32_t)bytes_get(buf + 40, 4);
    memcpy(header_p->layout, buf + 48, SYNC_LAYOUT_NBYTES);
    return true;
}

bool sync_header_is_whole(const uint8_t *buf)
{
    return bytes_get(buf + DIGEST_OFFSET, 4) == digest_of(buf);
}

void sync_list_seal(uint8_t *list, size_t n)
{
    if (n > 0)
        bytes_put(list + 8 * n, XXH3_64bits(list, 8 * n), 8);
}

bool sync_list_is_whole(const uint8_t *list, size_t n)
{
    return n == 0 || bytes_get(list + 8 * n, 8) == XXH3_64bits(list, 8 * n);
}
