/* state/sampler.c - the sampler's memory and its public calls. The arithmetic
 * is in sampler_core.c, the order of an epoch in permutation.c. See sampler.h.
 *
 * Memory: O(1), plus with manual_record one queue element per block that waits
 * for its confirmation. Threads: the training thread. */
#include "state/sampler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "base/world.h"
#include "state/permutation.h"

struct hvd_sampler {
    uint64_t n_samples, seed;
    bool shuffle, drop_last, manual_record;
    struct sampler_cursor handed, counted;
    struct permutation order; /* of handed.epoch */
    /* manual_record: where the cursor stands after each block that waits,
     * oldest first; [n_waiting] from first_waiting on */
    struct sampler_cursor *waiting;
    size_t first_waiting, n_waiting, waiting_max;
};

static void set_handed(hvd_sampler_t *s, struct sampler_cursor cursor)
{
    bool same_epoch = cursor.epoch == s->handed.epoch;

    s->handed = cursor;
    if (!same_epoch)
        permutation_init(&s->order, s->n_samples, s->seed, cursor.epoch);
}

hvd_status_t hvd_sampler_create(uint64_t n_samples,
                                const hvd_sampler_options_t *options,
                                hvd_sampler_t **sampler_p)
{
    hvd_sampler_options_t o = HVD_SAMPLER_OPTIONS_INIT;
    hvd_sampler_t *s;

    if (!sampler_p)
        return error_set(HVD_ERR_INVALID,
                         "hvd_sampler_create: sampler_p is NULL");
    *sampler_p = NULL;
    if (n_samples == 0)
        return error_set(HVD_ERR_INVALID, "hvd_sampler_create: n_samples is 0");
    if (options)
        HVD_TRY(error_prefix(
            struct_adopt(&o, sizeof(o), options, options->struct_size),
            "hvd_sampler_create: options"));
    s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(HVD_ERR_NOMEM, "hvd_sampler_create: out of memory");
    s->n_samples = n_samples;
    s->seed = o.seed;
    s->shuffle = o.shuffle;
    s->drop_last = o.drop_last;
    s->manual_record = o.manual_record;
    permutation_init(&s->order, n_samples, o.seed, 0);
    *sampler_p = s;
    return HVD_OK;
}

void hvd_sampler_destroy(hvd_sampler_t *sampler)
{
    if (!sampler)
        return;
    free(sampler->waiting);
    free(sampler);
}

/* Room for one more waiting block; the queue slides to the front when its end
 * is reached and at least half of it has been confirmed. */
static bool reserve_waiting(hvd_sampler_t *s)
{
    size_t end = s->first_waiting + s->n_waiting;

    if (end < s->waiting_max)
        return true;
    if (s->first_waiting > 0 && s->first_waiting >= s->n_waiting) {
        memmove(s->waiting, s->waiting + s->first_waiting,
                s->n_waiting * sizeof(*s->waiting));
        s->first_waiting = 0;
        return true;
    }
    return array_reserve(&s->waiting, &s->waiting_max, end + 1);
}

static void write_share(const hvd_sampler_t *s, struct sampler_range share,
                        uint64_t *indices)
{
    for (uint64_t i = 0; i < share.count; i++) {
        uint64_t at = share.first + i;

        indices[i] = s->shuffle ? permutation_at(&s->order, at) : at;
    }
}

hvd_status_t hvd_sampler_next(hvd_sampler_t *sampler, size_t batch,
                              uint64_t *indices, size_t *n_p, bool *end_p)
{
    struct sampler_range block, share;
    struct world world;

    if (!sampler || batch == 0 || !indices || !n_p || !end_p)
        return error_set(HVD_ERR_INVALID, "hvd_sampler_next: %s",
                         batch == 0 ? "batch is 0" : "NULL argument");
    world_get(&world);
    if (world.size <= 0)
        return error_set(HVD_ERR_STATE,
                         "hvd_sampler_next: the world is not joined yet");
    block = sampler_block(sampler->n_samples, sampler->handed.position, batch,
                          world.size, sampler->drop_last);
    *n_p = 0;
    *end_p = block.count == 0;
    if (*end_p)
        return HVD_OK;
    if (sampler->manual_record && !reserve_waiting(sampler))
        return error_set(HVD_ERR_NOMEM, "hvd_sampler_next: out of memory");

    share = sampler_share(block, world.rank, world.size);
    write_share(sampler, share, indices);
    *n_p = (size_t)share.count;
    sampler->handed.position += block.count;
    sampler->handed.batch = batch;
    if (sampler->manual_record)
        sampler->waiting[sampler->first_waiting + sampler->n_waiting++] =
            sampler->handed;
    else
        sampler->counted = sampler->handed;
    return HVD_OK;
}

hvd_status_t hvd_sampler_record(hvd_sampler_t *sampler, uint64_t n_calls)
{
    if (!sampler || !sampler->manual_record)
        return error_set(HVD_ERR_INVALID, "hvd_sampler_record: %s",
                         sampler ? "the sampler has no manual_record"
                                 : "NULL sampler");
    if (n_calls > sampler->n_waiting)
        return error_set(HVD_ERR_INVALID,
                         "hvd_sampler_record: %" PRIu64
                         " calls recorded, %zu are waiting",
                         n_calls, sampler->n_waiting);
    if (n_calls == 0)
        return HVD_OK;
    sampler->first_waiting += (size_t)n_calls;
    sampler->n_waiting -= (size_t)n_calls;
    sampler->counted = sampler->waiting[sampler->first_waiting - 1];
    if (sampler->n_waiting == 0) {
        sampler->first_waiting = 0;
        /* also an epoch begun since then */
        sampler->counted = sampler->handed;
    }
    return HVD_OK;
}

hvd_status_t hvd_sampler_set_epoch(hvd_sampler_t *sampler, uint64_t epoch)
{
    if (!sampler)
        return error_set(HVD_ERR_INVALID, "hvd_sampler_set_epoch: NULL");
    set_handed(sampler, (struct sampler_cursor){.epoch = epoch});
    /* blocks of the epoch before may still wait for their confirmation */
    if (sampler->n_waiting == 0)
        sampler->counted = sampler->handed;
    return HVD_OK;
}

uint64_t hvd_sampler_epoch(const hvd_sampler_t *sampler)
{
    return sampler ? sampler->handed.epoch : 0;
}

uint64_t hvd_sampler_position(const hvd_sampler_t *sampler)
{
    return sampler ? sampler->handed.position : 0;
}

void sampler_save(const hvd_sampler_t *sampler, uint8_t *buf)
{
    struct sampler_image image = {sampler->counted, sampler->n_samples,
                                  sampler->seed, sampler->shuffle,
                                  sampler->drop_last};

    sampler_image_encode(&image, buf);
}

hvd_status_t sampler_check(const hvd_sampler_t *sampler, const uint8_t *buf)
{
    struct sampler_image image;

    sampler_image_decode(buf, &image);
    if (image.n_samples != sampler->n_samples)
        return error_set(HVD_ERR_LAYOUT,
                         "%" PRIu64 " samples here, %" PRIu64
                         " in the snapshot",
                         sampler->n_samples, image.n_samples);
    if (image.seed != sampler->seed)
        return error_set(HVD_ERR_LAYOUT,
                         "seed %" PRIu64 " here, %" PRIu64 " in the snapshot",
                         sampler->seed, image.seed);
    if (image.shuffle != sampler->shuffle ||
        image.drop_last != sampler->drop_last)
        return error_set(HVD_ERR_LAYOUT,
                         "shuffle %d and drop_last %d here, %" PRIu64
                         " and %" PRIu64 " in the snapshot",
                         sampler->shuffle, sampler->drop_last, image.shuffle,
                         image.drop_last);
    if (image.cursor.position > image.n_samples)
        return error_set(HVD_ERR_CORRUPT,
                         "position %" PRIu64 " of %" PRIu64 " samples",
                         image.cursor.position, image.n_samples);
    return HVD_OK;
}

void sampler_load(hvd_sampler_t *sampler, const uint8_t *buf)
{
    struct sampler_image image;

    sampler_image_decode(buf, &image);
    sampler->counted = image.cursor;
    sampler_rewind(sampler);
}

void sampler_rewind(hvd_sampler_t *sampler)
{
    sampler->first_waiting = 0;
    sampler->n_waiting = 0;
    set_handed(sampler, sampler->counted);
}
