/* state/bytes.h - little-endian numbers in byte buffers of any alignment, for
 * what travels to other workers. Pure; threads: any. */
#ifndef STATE_BYTES_H
#define STATE_BYTES_H

#include <stdint.h>

static inline void bytes_put_u32(uint8_t *buf, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        buf[i] = (uint8_t)(value >> (8 * i));
}

static inline void bytes_put_u64(uint8_t *buf, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        buf[i] = (uint8_t)(value >> (8 * i));
}

static inline uint32_t bytes_get_u32(const uint8_t *buf)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++)
        value |= (uint32_t)buf[i] << (8 * i);
    return value;
}

static inline uint64_t bytes_get_u64(const uint8_t *buf)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value |= (uint64_t)buf[i] << (8 * i);
    return value;
}

#endif
