/* tests/collectives/test_fusion.c - the plan of a group, over all small groups
 * of tensors around the limits; what is packed comes back; multiples. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/fusion.h"
#include "collectives/reduce/scale.h"
#include "support.h"

enum { TENSORS_MAX = 5, CHOICES = 6 };

static size_t elem_nbytes;

/* Counts around the limits. */
static size_t choice(size_t i)
{
    const size_t small = FUSION_SMALL_NBYTES / elem_nbytes;
    const size_t counts[CHOICES] = {0,
                                    1,
                                    small - 1,
                                    small,
                                    FUSION_BUFFER_NBYTES / elem_nbytes + 1,
                                    SIZE_MAX / 4 / elem_nbytes};

    return counts[i];
}

static bool small(size_t count)
{
    return count > 0 && count < FUSION_SMALL_NBYTES / elem_nbytes;
}

static void check_part(const struct fusion_tensor *tensors,
                       const struct fusion_part *part, size_t *seen)
{
    size_t n = 0, count = 0;

    for (size_t i = part->first; i <= part->last; i++)
        if (part->packed ? small(tensors[i].count) : tensors[i].count > 0) {
            seen[i]++;
            n++;
            count += tensors[i].count;
        }
    ck_assert_uint_eq(count, part->count);
    ck_assert(part->packed ? n > 1 : part->first == part->last && n == 1);
    if (part->packed)
        ck_assert_uint_le(count * elem_nbytes, FUSION_BUFFER_NBYTES);
}

static void check_plan(const struct fusion_tensor *tensors, size_t n)
{
    struct fusion_part parts[TENSORS_MAX + 1];
    size_t seen[TENSORS_MAX] = {0}, n_parts, n_packed = 0;

    memset(parts, 0xff, sizeof(parts));
    n_parts = fusion_plan(tensors, n, elem_nbytes, parts);
    ck_assert_uint_ge(n_parts, 1);
    ck_assert_uint_le(n_parts, n > 0 ? n : 1);
    if (n_parts == 1 && parts[0].count == 0)
        n_parts = 0;
    for (size_t i = 0; i < n_parts; i++) {
        check_part(tensors, &parts[i], seen);
        n_packed += parts[i].packed;
    }
    for (size_t i = 0; i < n; i++)
        ck_assert_uint_eq(seen[i], tensors[i].count > 0);
    /* so few small ones fit one buffer */
    ck_assert_uint_le(n_packed, 1);
}

START_TEST(plan_of_all_groups_places_each_tensor_once)
{
    static const size_t sizes[] = {1, 2, 4, 8};
    struct fusion_tensor tensors[TENSORS_MAX] = {0};

    elem_nbytes = sizes[_i];
    for (size_t n = 0; n <= TENSORS_MAX; n++) {
        size_t all = 1;

        for (size_t i = 0; i < n; i++)
            all *= CHOICES;
        for (size_t k = 0; k < all; k++) {
            for (size_t i = 0, rest = k; i < n; i++, rest /= CHOICES)
                tensors[i].count = choice(rest % CHOICES);
            check_plan(tensors, n);
        }
    }
}
END_TEST

START_TEST(plan_of_many_small_fills_buffers)
{
    enum { N = 1000, NBYTES = FUSION_SMALL_NBYTES - 4 };
    size_t per_buffer = FUSION_BUFFER_NBYTES / NBYTES, seen = 0, n_parts;
    struct fusion_tensor *tensors = calloc(N, sizeof(*tensors));
    struct fusion_part *parts = calloc(N, sizeof(*parts));

    for (size_t i = 0; i < N; i++)
        tensors[i].count = NBYTES / 4;
    n_parts = fusion_plan(tensors, N, 4, parts);
    ck_assert_uint_eq(n_parts, (N + per_buffer - 1) / per_buffer);
    for (size_t i = 0; i < n_parts; i++) {
        ck_assert_uint_eq(parts[i].first, seen);
        seen = parts[i].last + 1;
    }
    ck_assert_uint_eq(seen, N);
    free(parts);
    free(tensors);
}
END_TEST

START_TEST(pack_then_unpack_gives_each_its_own)
{
    static uint8_t large[FUSION_SMALL_NBYTES], buffer[64];
    uint8_t a[3] = {1, 2, 3}, b[5] = {4, 5, 6, 7, 8}, a_out[3], b_out[5];
    struct fusion_tensor tensors[] = {{a, a_out, 3},
                                      {NULL, NULL, 0},
                                      {large, large, sizeof(large)},
                                      {b, b_out, 5}};
    struct fusion_part parts[4];

    ck_assert_uint_eq(fusion_plan(tensors, 4, 1, parts), 2);
    ck_assert(!parts[0].packed && parts[0].first == 2);
    ck_assert(parts[1].packed && parts[1].count == 8);
    fusion_pack(tensors, &parts[1], 1, buffer);
    for (uint8_t i = 0; i < 8; i++)
        ck_assert_uint_eq(buffer[i]++, i + 1);
    fusion_unpack(tensors, &parts[1], 1, buffer);
    for (uint8_t i = 0; i < 3; i++)
        ck_assert_uint_eq(a_out[i], a[i] + 1);
    for (uint8_t i = 0; i < 5; i++)
        ck_assert_uint_eq(b_out[i], b[i] + 1);
}
END_TEST

START_TEST(scale_multiplies_each_floating_type)
{
    double d[] = {3, -0.5};
    float f[] = {3, -0.5f};
    uint16_t h[] = {0x4200, 0xb800}, b[] = {0x4040, 0xbf00};

    scale(HVD_FLOAT64, d, d, 2, 0.5);
    scale(HVD_FLOAT32, f, f, 2, 0.5);
    scale(HVD_FLOAT16, h, h, 2, 0.5);
    scale(HVD_BFLOAT16, b, b, 2, 0.5);
    ck_assert(d[0] == 1.5 && d[1] == -0.25);
    ck_assert(f[0] == 1.5f && f[1] == -0.25f);
    ck_assert(h[0] == 0x3e00 && h[1] == 0xb400);
    ck_assert(b[0] == 0x3fc0 && b[1] == 0xbe80);
    ck_assert(!scale_applies(HVD_INT32) && !scale_applies(HVD_INT8));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fusion");
    TCase *tc = tcase_create("fusion");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, plan_of_all_groups_places_each_tensor_once, 0, 4);
    tcase_add_test(tc, plan_of_many_small_fills_buffers);
    tcase_add_test(tc, pack_then_unpack_gives_each_its_own);
    tcase_add_test(tc, scale_multiplies_each_floating_type);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
