/* state/sampler_core.c - blocks, shares and the stored cursor. See
 * sampler_core.h. */
#include "state/sampler_core.h"

#include "base/array.h"
#include "base/bytes.h"

struct sampler_range sampler_block(uint64_t n_samples, uint64_t position,
                                   uint64_t batch, int size, bool drop_last)
{
    uint64_t left = position < n_samples ? n_samples - position : 0;
    uint64_t whole;

    HVD_ASSERT(size > 0 && batch > 0);
    if (__builtin_mul_overflow(batch, (uint64_t)size, &whole))
        whole = UINT64_MAX;
    if (left < whole)
        whole = drop_last ? 0 : left;
    return (struct sampler_range){position, whole};
}

struct sampler_range sampler_share(struct sampler_range block, int rank,
                                   int size)
{
    uint64_t r = (uint64_t)rank;
    uint64_t each = block.count / (uint64_t)size;
    uint64_t more = block.count % (uint64_t)size;

    HVD_ASSERT(rank >= 0 && rank < size);
    return (struct sampler_range){
        block.first + r * each + (r < more ? r : more), each + (r < more)};
}

void sampler_image_encode(const struct sampler_image *image, uint8_t *buf)
{
    bytes_put(buf, image->cursor.epoch, 8);
    bytes_put(buf + 8, image->cursor.position, 8);
    bytes_put(buf + 16, image->cursor.batch, 8);
    bytes_put(buf + 24, image->n_samples, 8);
    bytes_put(buf + 32, image->seed, 8);
    bytes_put(buf + 40, image->shuffle, 8);
    bytes_put(buf + 48, image->drop_last, 8);
}

void sampler_image_decode(const uint8_t *buf, struct sampler_image *image_p)
{
    image_p->cursor.epoch = bytes_get(buf, 8);
    image_p->cursor.position = bytes_get(buf + 8, 8);
    image_p->cursor.batch = bytes_get(buf + 16, 8);
    image_p->n_samples = bytes_get(buf + 24, 8);
    image_p->seed = bytes_get(buf + 32, 8);
    image_p->shuffle = bytes_get(buf + 40, 8);
    image_p->drop_last = bytes_get(buf + 48, 8);
}

const char *sampler_image_field(const uint8_t *buf, int i, uint64_t *value_p)
{
    static const struct {
        const char *name;
        uint8_t at;
    } fields[SAMPLER_N_FIELDS] = {{"number of samples", 24},
                                  {"seed", 32},
                                  {"shuffle", 40},
                                  {"drop_last", 48},
                                  {"epoch", 0},
                                  {"batch", 16},
                                  {"position", 8}};

    HVD_ASSERT(i >= 0 && i < SAMPLER_N_FIELDS);
    *value_p = bytes_get(buf + fields[i].at, 8);
    return fields[i].name;
}
