/* tests/state/test_sampler.c - coverage of an epoch by worlds that change. */
#include "state/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/random.h"
#include "base/world.h"
#include "made.h"
#include "state/state.h"
#include "support.h"

enum { WORLD_MAX = 7, BATCH_MAX = 16, SAMPLES_MAX = 500 };

static void be(int rank, int size)
{
    world_set(&(struct world){1, rank, size, rank, size, 0, 1});
}

/* A world in one process: a sampler and a state per rank. */
struct fixture {
    int size;
    hvd_sampler_t *samplers[WORLD_MAX];
    hvd_state_t *states[WORLD_MAX];
};

static void fixture_init(struct fixture *f, uint64_t n_samples,
                         const hvd_sampler_options_t *options)
{
    for (int r = 0; r < WORLD_MAX; r++) {
        f->samplers[r] = made_sampler(n_samples, options);
        f->states[r] = made_state();
        ck_assert_ptr_nonnull(f->samplers[r]);
        ck_assert_int_eq(
            hvd_state_add_sampler(f->states[r], "data", f->samplers[r]),
            HVD_OK);
    }
    f->size = 1;
}

static void fixture_fini(struct fixture *f)
{
    for (int r = 0; r < WORLD_MAX; r++) {
        hvd_state_destroy(f->states[r]);
        hvd_sampler_destroy(f->samplers[r]);
    }
}

static void commit(struct fixture *f)
{
    for (int r = 0; r < f->size; r++)
        ck_assert_int_eq(state_save(f->states[r], 1, f->size), HVD_OK);
}

/* Rank 0 restores, the others become what it is: a loss, or a change of
 * size. */
static void reset(struct fixture *f, int size)
{
    uint8_t image[SAMPLER_CURSOR_NBYTES];

    ck_assert_int_eq(state_restore(f->states[0]), HVD_OK);
    sampler_save(f->samplers[0], image);
    f->size = size;
    for (int r = 1; r < size; r++) {
        ck_assert_int_eq(sampler_check(f->samplers[r], image), HVD_OK);
        sampler_load(f->samplers[r], image);
    }
}

/* A status of this file: the epoch has ended. */
#define OVER ((hvd_status_t)HVD_USER_STATUS_MAX)

static hvd_status_t next(hvd_sampler_t *sampler, size_t batch,
                         uint64_t *indices, size_t *n_p)
{
    bool end;

    HVD_TRY(hvd_sampler_next(sampler, batch, indices, n_p, &end));
    if (end)
        ck_assert_uint_eq(*n_p, 0);
    return end ? OVER : HVD_OK;
}

/* One call of next on every rank: marks what was handed out in counts, checks
 * that shares differ by at most one and that all ranks agree on the end. */
static hvd_status_t next_on_all(struct fixture *f, size_t batch, int *counts)
{
    hvd_status_t first = HVD_OK;
    size_t least = SIZE_MAX, most = 0;

    for (int r = 0; r < f->size; r++) {
        uint64_t indices[BATCH_MAX];
        size_t n = 99;
        hvd_status_t status;

        be(r, f->size);
        status = next(f->samplers[r], batch, indices, &n);
        if (r == 0)
            first = status;
        ck_assert_int_eq(status, first);
        if (status != HVD_OK)
            continue;
        ck_assert_uint_le(n, batch);
        least = n < least ? n : least;
        most = n > most ? n : most;
        for (size_t i = 0; i < n; i++)
            counts[indices[i]]++;
    }
    ck_assert(first != HVD_OK || most - least <= 1);
    return first;
}

static void assert_all(const int *counts, uint64_t n, int times)
{
    for (uint64_t i = 0; i < n; i++)
        ck_assert_int_eq(counts[i], times);
}

/* The property that matters: commits, losses and changes of size at random
 * places, and still every sample is used exactly once per epoch, counting only
 * what was committed. */
static void epoch_by_seed(uint64_t seed)
{
    struct random_state random = {seed};
    uint64_t n_samples = 1 + random_below(&random, SAMPLES_MAX - 1);
    int used[SAMPLES_MAX] = {0}, pending[SAMPLES_MAX] = {0};
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    struct fixture f;

    options.seed = seed;
    options.shuffle = random_below(&random, 4) > 0;
    fixture_init(&f, n_samples, &options);
    f.size = 1 + (int)random_below(&random, WORLD_MAX);
    commit(&f);
    for (;;) {
        size_t batch = 1 + random_below(&random, BATCH_MAX);

        if (next_on_all(&f, batch, pending) == OVER)
            break;
        if (random_below(&random, 3) > 0) {
            commit(&f);
            for (uint64_t i = 0; i < n_samples; i++)
                used[i] += pending[i];
            memset(pending, 0, sizeof(pending));
        } else if (random_below(&random, 3) == 0) {
            memset(pending, 0, sizeof(pending));
            reset(&f, 1 + (int)random_below(&random, WORLD_MAX));
            commit(&f);
        }
    }
    for (uint64_t i = 0; i < n_samples; i++)
        used[i] += pending[i];
    assert_all(used, n_samples, 1);
    fixture_fini(&f);
}

START_TEST(sampler_worlds_change_mid_epoch_every_sample_once)
{
    for (uint64_t seed = 1; seed <= 500; seed++)
        epoch_by_seed(seed);
}
END_TEST

START_TEST(sampler_last_block_short_shares_differ_by_one)
{
    int counts[10] = {0};
    struct fixture f;

    fixture_init(&f, 10, NULL);
    f.size = 4;
    ck_assert_int_eq(next_on_all(&f, 2, counts), HVD_OK);
    ck_assert_int_eq(next_on_all(&f, 2, counts), HVD_OK); /* 1 1 0 0 */
    ck_assert_uint_eq(hvd_sampler_position(f.samplers[3]), 10);
    ck_assert_int_eq(next_on_all(&f, 2, counts), OVER);
    assert_all(counts, 10, 1);
    fixture_fini(&f);
}
END_TEST

START_TEST(sampler_drop_last_leaves_out_the_rest)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    int counts[10] = {0}, sum = 0;
    struct fixture f;

    options.drop_last = true;
    fixture_init(&f, 10, &options);
    f.size = 2;
    ck_assert_int_eq(next_on_all(&f, 2, counts), HVD_OK);
    ck_assert_int_eq(next_on_all(&f, 2, counts), HVD_OK);
    ck_assert_int_eq(next_on_all(&f, 2, counts), OVER);
    for (int i = 0; i < 10; i++)
        sum += counts[i];
    ck_assert_int_eq(sum, 8);
    fixture_fini(&f);
}
END_TEST

START_TEST(sampler_no_shuffle_is_in_order)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    hvd_sampler_t *sampler;
    uint64_t indices[4];
    size_t n;

    options.shuffle = false;
    sampler = made_sampler(100, &options);
    be(1, 2);
    ck_assert_int_eq(next(sampler, 4, indices, &n), HVD_OK);
    ck_assert_uint_eq(n, 4);
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(indices[i], 4 + i);
    hvd_sampler_destroy(sampler);
}
END_TEST

/* A loader that reads two blocks ahead: a commit stores what was recorded, and
 * a reset hands the others out again. */
START_TEST(sampler_manual_record_commit_counts_recorded)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    int counts[100] = {0};
    struct fixture f;

    options.manual_record = true;
    fixture_init(&f, 100, &options);
    f.size = 1;
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(next_on_all(&f, 10, counts), HVD_OK);
    ck_assert_int_eq(hvd_sampler_record(f.samplers[0], 1), HVD_OK);
    commit(&f);
    ck_assert_uint_eq(hvd_sampler_position(f.samplers[0]), 30);
    ck_assert_int_eq(state_restore(f.states[0]), HVD_OK);
    ck_assert_uint_eq(hvd_sampler_position(f.samplers[0]), 10);
    ck_assert_int_eq(hvd_sampler_record(f.samplers[0], 1), HVD_ERR_INVALID);
    fixture_fini(&f);
}
END_TEST

START_TEST(sampler_manual_record_end_of_epoch_is_no_call)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    hvd_sampler_t *sampler;
    uint64_t indices[10];
    size_t n;

    options.manual_record = true;
    sampler = made_sampler(20, &options);
    be(0, 1);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(next(sampler, 10, indices, &n), HVD_OK);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(next(sampler, 10, indices, &n), OVER);
    ck_assert_int_eq(hvd_sampler_record(sampler, 3), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_sampler_record(sampler, 2), HVD_OK);
    hvd_sampler_destroy(sampler);
}
END_TEST

/* A change of hosts restores nobody, but what was read ahead is dealt anew. */
START_TEST(sampler_manual_record_reset_rewinds)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    hvd_reset_info_t info = {.struct_size = sizeof(info)};
    int counts[100] = {0};
    struct fixture f;

    options.manual_record = true;
    fixture_init(&f, 100, &options);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(next_on_all(&f, 10, counts), HVD_OK);
    ck_assert_int_eq(hvd_sampler_record(f.samplers[0], 2), HVD_OK);
    commit(&f);
    state_reset(f.states[0], &info);
    ck_assert_uint_eq(hvd_sampler_position(f.samplers[0]), 20);
    fixture_fini(&f);
}
END_TEST

/* Read ahead into the next epoch: blocks of the old one are still recorded. */
START_TEST(sampler_manual_record_across_epochs_keeps_order)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    int counts[20] = {0};
    struct fixture f;

    options.manual_record = true;
    fixture_init(&f, 20, &options);
    while (next_on_all(&f, 10, counts) == HVD_OK)
        ;
    ck_assert_int_eq(hvd_sampler_set_epoch(f.samplers[0], 1), HVD_OK);
    ck_assert_int_eq(next_on_all(&f, 10, counts), HVD_OK);
    ck_assert_int_eq(hvd_sampler_record(f.samplers[0], 2), HVD_OK);
    commit(&f);
    ck_assert_int_eq(state_restore(f.states[0]), HVD_OK);
    ck_assert_uint_eq(hvd_sampler_epoch(f.samplers[0]), 0);
    ck_assert_uint_eq(hvd_sampler_position(f.samplers[0]), 20);
    ck_assert_int_eq(next_on_all(&f, 10, counts), OVER);
    fixture_fini(&f);
}
END_TEST

/* Nothing waits any more: the next commit is in the epoch that was begun. */
START_TEST(sampler_manual_record_of_all_enters_the_epoch_begun_since)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    int counts[20] = {0};
    struct fixture f;

    options.manual_record = true;
    fixture_init(&f, 20, &options);
    f.size = 1;
    ck_assert_int_eq(next_on_all(&f, 10, counts), HVD_OK);
    ck_assert_int_eq(hvd_sampler_set_epoch(f.samplers[0], 1), HVD_OK);
    ck_assert_int_eq(hvd_sampler_record(f.samplers[0], 1), HVD_OK);
    commit(&f);
    ck_assert_int_eq(state_restore(f.states[0]), HVD_OK);
    ck_assert_uint_eq(hvd_sampler_epoch(f.samplers[0]), 1);
    ck_assert_uint_eq(hvd_sampler_position(f.samplers[0]), 0);
    fixture_fini(&f);
}
END_TEST

/* A long run with a queue that never empties stays small and in order. */
START_TEST(sampler_manual_record_queue_slides)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    hvd_sampler_t *sampler;
    uint8_t image[SAMPLER_CURSOR_NBYTES];
    struct sampler_image decoded;
    uint64_t index;
    size_t n;

    options.manual_record = true;
    sampler = made_sampler(100000, &options);
    be(0, 1);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(next(sampler, 1, &index, &n), HVD_OK);
    for (uint64_t i = 1; i < 10000; i++) {
        ck_assert_int_eq(next(sampler, 1, &index, &n), HVD_OK);
        ck_assert_int_eq(hvd_sampler_record(sampler, 1), HVD_OK);
        sampler_save(sampler, image);
        sampler_image_decode(image, &decoded);
        ck_assert_uint_eq(decoded.cursor.position, i);
    }
    hvd_sampler_destroy(sampler);
}
END_TEST

/* What waits is moved to the front or gets more room, and is itself all the
 * same: read ahead by `ahead`, and recorded as often as `step` blocks wait. */
START_TEST(sampler_manual_record_keeps_what_waits)
{
    static const struct {
        int ahead, step;
    } habits[] = {{1, 1}, {2, 1}, {3, 2}, {8, 1}, {8, 8}, {9, 4}, {64, 63}};
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    int ahead = habits[_i].ahead, step = habits[_i].step, waiting = 0;
    uint8_t image[SAMPLER_CURSOR_NBYTES];
    struct sampler_image decoded;
    hvd_sampler_t *sampler;
    uint64_t index, recorded = 0;
    size_t n;

    options.manual_record = true;
    sampler = made_sampler(1000, &options);
    be(0, 1);
    while (next(sampler, 1, &index, &n) == HVD_OK) {
        if (++waiting < ahead)
            continue;
        ck_assert_int_eq(hvd_sampler_record(sampler, (uint64_t)waiting + 1),
                         HVD_ERR_INVALID);
        ck_assert_int_eq(hvd_sampler_record(sampler, 0), HVD_OK);
        ck_assert_int_eq(hvd_sampler_record(sampler, (uint64_t)step), HVD_OK);
        waiting -= step;
        recorded += (uint64_t)step;
        sampler_save(sampler, image);
        sampler_image_decode(image, &decoded);
        ck_assert_uint_eq(decoded.cursor.position, recorded);
    }
    hvd_sampler_destroy(sampler);
}
END_TEST

/* Nothing is recorded before there is anything. */
START_TEST(sampler_record_of_nothing_changes_nothing)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    hvd_sampler_t *sampler;
    uint64_t index;
    size_t n;

    options.manual_record = true;
    sampler = made_sampler(10, &options);
    be(0, 1);
    sampler_rewind(sampler);
    ck_assert_int_eq(hvd_sampler_record(sampler, 0), HVD_OK);
    ck_assert_int_eq(next(sampler, 1, &index, &n), HVD_OK);
    ck_assert_int_eq(hvd_sampler_record(sampler, 0), HVD_OK);
    sampler_rewind(sampler);
    ck_assert_uint_eq(hvd_sampler_position(sampler), 0);
    hvd_sampler_destroy(sampler);
}
END_TEST

/* Of each epoch and seed: who has restored one deals as who was in it. */
static void order_of(hvd_sampler_t *sampler, uint64_t order[20])
{
    size_t n;

    be(0, 1);
    ck_assert_int_eq(next(sampler, 20, order, &n), HVD_OK);
    ck_assert_uint_eq(n, 20);
}

static hvd_sampler_t *of_seed(uint64_t seed)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;

    options.seed = seed;
    return made_sampler(20, &options);
}

START_TEST(sampler_order_is_that_of_epoch_and_seed)
{
    hvd_sampler_t *a = of_seed(7), *b = of_seed(7), *other = of_seed(8);
    uint8_t image[SAMPLER_CURSOR_NBYTES];
    uint64_t first[20], order[20];
    bool shuffled = false;

    order_of(a, first);
    ck_assert_int_eq(hvd_sampler_set_epoch(a, 1), HVD_OK);
    ck_assert_int_eq(hvd_sampler_set_epoch(a, 0), HVD_OK);
    order_of(a, order);
    ck_assert_mem_eq(first, order, sizeof(first));
    order_of(other, order);
    ck_assert_mem_ne(first, order, sizeof(first));
    for (uint64_t i = 0; i < 20; i++)
        shuffled |= first[i] != i;
    ck_assert(shuffled);
    ck_assert_int_eq(hvd_sampler_set_epoch(a, 3), HVD_OK);
    sampler_save(a, image);
    order_of(a, order);
    ck_assert_mem_ne(first, order, sizeof(first));
    sampler_load(b, image);
    order_of(b, first);
    ck_assert_mem_eq(first, order, sizeof(first));
    ck_assert_int_eq(hvd_sampler_set_epoch(a, 3), HVD_OK);
    order_of(a, order);
    ck_assert_mem_eq(first, order, sizeof(first));
    hvd_sampler_destroy(a);
    hvd_sampler_destroy(b);
    hvd_sampler_destroy(other);
}
END_TEST

START_TEST(sampler_image_of_another_is_refused)
{
    hvd_sampler_t *a = of_seed(7), *b = of_seed(8);
    struct sampler_image image = {{0, 21, 1}, 20, 7, 1, 0};
    uint8_t bytes[SAMPLER_CURSOR_NBYTES];

    sampler_save(a, bytes);
    ck_assert_int_eq(sampler_check(a, bytes), HVD_OK);
    ck_assert_int_eq(sampler_check(b, bytes), HVD_ERR_LAYOUT);
    ck_assert_str_eq(hvd_last_error(), "seed 8 here, 7 in the snapshot");
    sampler_image_encode(&image, bytes);
    ck_assert_int_eq(sampler_check(a, bytes), HVD_ERR_CORRUPT);
    image.cursor.position = 20; /* the end of an epoch */
    sampler_image_encode(&image, bytes);
    ck_assert_int_eq(sampler_check(a, bytes), HVD_OK);
    hvd_sampler_destroy(a);
    hvd_sampler_destroy(b);
}
END_TEST

static void refused(hvd_status_t status, const char *words)
{
    ck_assert_int_eq(status, HVD_ERR_INVALID);
    ck_assert_str_eq(hvd_last_error(), words);
}

START_TEST(sampler_says_what_is_wrong)
{
    hvd_sampler_t *sampler = made_sampler(10, NULL);
    uint64_t index;
    size_t n;

    be(0, 1);
    refused(next(sampler, 0, &index, &n), "hvd_sampler_next: batch is 0");
    refused(next(sampler, 1, &index, NULL), "hvd_sampler_next: NULL argument");
    refused(hvd_sampler_next(sampler, 1, &index, &n, NULL),
            "hvd_sampler_next: NULL argument");
    refused(hvd_sampler_record(sampler, 0),
            "hvd_sampler_record: the sampler has no manual_record");
    refused(hvd_sampler_record(NULL, 0), "hvd_sampler_record: NULL sampler");
    ck_assert_uint_eq(hvd_sampler_epoch(NULL), 0);
    ck_assert_uint_eq(hvd_sampler_position(NULL), 0);
    hvd_sampler_destroy(sampler);
}
END_TEST

START_TEST(sampler_bad_arguments_are_refused)
{
    hvd_sampler_t *sampler = made_sampler(10, NULL);
    uint64_t index;
    size_t n;

    ck_assert_ptr_null(made_sampler(0, NULL));
    ck_assert_str_ne(hvd_last_error(), "");
    world_set(&WORLD_NONE);
    ck_assert_int_eq(next(sampler, 1, &index, &n), HVD_ERR_STATE);
    be(0, 1);
    ck_assert_int_eq(next(sampler, 0, &index, &n), HVD_ERR_INVALID);
    ck_assert_int_eq(next(NULL, 1, &index, &n), HVD_ERR_INVALID);
    ck_assert_int_eq(next(sampler, 1, NULL, &n), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_sampler_record(sampler, 1), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_sampler_set_epoch(NULL, 1), HVD_ERR_INVALID);
    hvd_sampler_destroy(sampler);
    hvd_sampler_destroy(NULL);
}
END_TEST

static const struct {
    size_t struct_size;
    uint64_t newer;
    hvd_status_t want;
} option_sizes[] = {
    {0, 0, HVD_ERR_INVALID},
    {sizeof(size_t), 0, HVD_ERR_INVALID},
    {5000, 0, HVD_ERR_INVALID},
    {sizeof(hvd_sampler_options_t) + 8, 1, HVD_ERR_UNSUPPORTED},
    {sizeof(hvd_sampler_options_t) + 8, 0, HVD_OK},
    {sizeof(hvd_sampler_options_t), 1, HVD_OK},
};

START_TEST(sampler_options_of_other_releases)
{
    struct {
        hvd_sampler_options_t options;
        uint64_t newer;
    } big = {HVD_SAMPLER_OPTIONS_INIT, option_sizes[_i].newer};
    hvd_status_t want = option_sizes[_i].want;
    hvd_sampler_t *sampler = (hvd_sampler_t *)&big;

    big.options.struct_size = option_sizes[_i].struct_size;
    ck_assert_int_eq(hvd_sampler_create(10, &big.options, &sampler), want);
    ck_assert((sampler == NULL) == (want != HVD_OK));
    ck_assert_int_eq(hvd_sampler_create(10, &big.options, NULL),
                     HVD_ERR_INVALID);
    hvd_sampler_destroy(sampler);
}
END_TEST

/* Shuffled, all of the rest, without records. */
START_TEST(sampler_without_options_has_the_defaults)
{
    hvd_sampler_options_t options = HVD_SAMPLER_OPTIONS_INIT;
    hvd_sampler_t *bare = made_sampler(100, NULL);
    hvd_sampler_t *same = made_sampler(100, &options);
    uint64_t a[64], b[64];
    size_t n, m;
    bool sorted = true;

    be(0, 1);
    for (size_t want = 64; want >= 36; want -= 28) {
        ck_assert_int_eq(next(bare, 64, a, &n), HVD_OK);
        ck_assert_int_eq(next(same, 64, b, &m), HVD_OK);
        ck_assert_uint_eq(n, want);
        ck_assert_uint_eq(m, want);
        ck_assert_mem_eq(a, b, n * sizeof(*a));
        for (size_t i = 1; i < n; i++)
            sorted = sorted && a[i - 1] < a[i];
    }
    ck_assert(!sorted);
    ck_assert_int_eq(next(bare, 64, a, &n), OVER);
    ck_assert_int_eq(hvd_sampler_record(bare, 1), HVD_ERR_INVALID);
    hvd_sampler_destroy(bare);
    hvd_sampler_destroy(same);
}
END_TEST

START_TEST(sampler_other_dataset_is_layout_error)
{
    hvd_sampler_t *a = made_sampler(10, NULL);
    hvd_sampler_t *b = made_sampler(11, NULL);
    uint8_t image[SAMPLER_CURSOR_NBYTES];

    sampler_save(a, image);
    ck_assert_int_eq(sampler_check(b, image), HVD_ERR_LAYOUT);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "11 samples here"));
    hvd_sampler_destroy(a);
    hvd_sampler_destroy(b);
}
END_TEST

/* Horovod's S2 (test_elastic_sampler). Ours advances one cursor for the whole
 * world, so "processed" is the position, and it is global without a sync. */
START_TEST(S2_elastic_sampler)
{
    int counts[48] = {0};
    struct fixture f;

    fixture_init(&f, 48, NULL);
    f.size = 2;
    /* a full epoch is samples / batch blocks; without set_epoch it stays
     * over */
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(next_on_all(&f, 4, counts), HVD_OK);
    ck_assert_int_eq(next_on_all(&f, 4, counts), OVER);
    ck_assert_int_eq(next_on_all(&f, 4, counts), OVER);
    assert_all(counts, 48, 1);
    /* set_epoch: from its first sample, in another order */
    for (int r = 0; r < WORLD_MAX; r++)
        ck_assert_int_eq(hvd_sampler_set_epoch(f.samplers[r], 1), HVD_OK);
    ck_assert_uint_eq(hvd_sampler_position(f.samplers[0]), 0);
    ck_assert_int_eq(next_on_all(&f, 4, counts), HVD_OK);
    ck_assert_uint_eq(hvd_sampler_position(f.samplers[0]), 8);
    commit(&f);
    /* restore goes back to the committed position */
    ck_assert_int_eq(next_on_all(&f, 4, counts), HVD_OK);
    reset(&f, 4);
    ck_assert_uint_eq(hvd_sampler_position(f.samplers[0]), 8);
    /* the rest of the epoch is split over the new world */
    memset(counts, 0, sizeof(counts));
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(next_on_all(&f, 2, counts), HVD_OK);
    ck_assert_int_eq(next_on_all(&f, 2, counts), OVER);
    ck_assert_uint_eq(hvd_sampler_position(f.samplers[3]), 48);
    fixture_fini(&f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sampler");
    TCase *tc = tcase_create("sampler");

    tcase_add_test(tc, sampler_worlds_change_mid_epoch_every_sample_once);
    tcase_add_test(tc, sampler_last_block_short_shares_differ_by_one);
    tcase_add_test(tc, sampler_drop_last_leaves_out_the_rest);
    tcase_add_test(tc, sampler_no_shuffle_is_in_order);
    tcase_add_test(tc, sampler_manual_record_commit_counts_recorded);
    tcase_add_test(tc, sampler_manual_record_end_of_epoch_is_no_call);
    tcase_add_test(tc, sampler_manual_record_reset_rewinds);
    tcase_add_test(tc, sampler_manual_record_across_epochs_keeps_order);
    tcase_add_test(tc,
                   sampler_manual_record_of_all_enters_the_epoch_begun_since);
    tcase_add_test(tc, sampler_manual_record_queue_slides);
    tcase_add_loop_test(tc, sampler_manual_record_keeps_what_waits, 0, 7);
    tcase_add_test(tc, sampler_record_of_nothing_changes_nothing);
    tcase_add_test(tc, sampler_order_is_that_of_epoch_and_seed);
    tcase_add_test(tc, sampler_image_of_another_is_refused);
    tcase_add_test(tc, sampler_says_what_is_wrong);
    tcase_add_test(tc, sampler_bad_arguments_are_refused);
    tcase_add_loop_test(tc, sampler_options_of_other_releases, 0,
                        (int)ARRAY_SIZE(option_sizes));
    tcase_add_test(tc, sampler_without_options_has_the_defaults);
    tcase_add_test(tc, sampler_other_dataset_is_layout_error);
    tcase_add_test(tc, S2_elastic_sampler);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
