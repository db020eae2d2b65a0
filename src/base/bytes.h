/* base/bytes.h - fixed-width little-endian numbers in a byte buffer: the
 * wire is the same on every machine. Pure. Threads: any. */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

static inline void bytes_put(uint8_t *out, uint64_t value, size_t width)
{
    for (size_t i = 0; i < width; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t bytes_get(const uint8_t *in, size_t width)
{
    uint64_t value = 0;

    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)in[i] << (8 * i);
    return value;
}

#endif
