/* tests/collectives/test_grouped.c - many tensors in one call, and multiples of
 * contributions and results. */
#include "base/array.h"
#include "base/random.h"
#include "elements.h"
#include "posted.h"

enum { TENSORS = 7 };

static const size_t tensor_counts[TENSORS] = {1, 333, 0, 40000, 17, 4095, 3};

struct grouping {
    hvd_dtype_t dtype;
    bool posted;
};

/* The smallest integers, which every type holds. */
static void set_element(hvd_dtype_t dtype, void *buf, size_t i, int value)
{
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400},
                          bfloats[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080};

    switch (dtype) {
    case HVD_FLOAT16:
        ((uint16_t *)buf)[i] = halves[value];
        break;
    case HVD_BFLOAT16:
        ((uint16_t *)buf)[i] = bfloats[value];
        break;
    case HVD_FLOAT32:
        ((float *)buf)[i] = (float)value;
        break;
    case HVD_FLOAT64:
        ((double *)buf)[i] = value;
        break;
    case HVD_INT64:
        ((int64_t *)buf)[i] = value;
        break;
    case HVD_INT32:
        ((int32_t *)buf)[i] = value;
        break;
    default:
        ((uint8_t *)buf)[i] = (uint8_t)value;
        break;
    }
}

static bool run_group(struct group *g, int rank, const struct grouping *how,
                      const void *const *sends, void *const *recvs)
{
    struct comm *comm = g->comms[rank];
    struct collective_args args = sum_args(NULL, NULL, 0);
    struct comm_group group = {TENSORS, sends, recvs, tensor_counts};
    struct hvd_request *request;

    args.dtype = how->dtype;
    args.op = HVD_MAX;
    if (!how->posted) {
        EXPECT(comm_run_group(comm, &args, &group) == HVD_OK);
        return true;
    }
    EXPECT(comm_post_group(comm, &args, &group, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_OK);
    return true;
}

static bool group_all(struct group *g, int rank, void *arg)
{
    const struct grouping *how = arg;
    size_t elem_nbytes = hvd_dtype_size(how->dtype);
    void *sends[TENSORS], *recvs[TENSORS], *expected[TENSORS];
    bool ok = true;

    for (int t = 0; t < TENSORS; t++) {
        size_t nbytes = (tensor_counts[t] + 1) * elem_nbytes;

        sends[t] = calloc(1, nbytes);
        recvs[t] = t % 2 == 0 ? sends[t] : calloc(1, nbytes);
        expected[t] = calloc(1, nbytes);
        for (size_t i = 0; i < tensor_counts[t]; i++) {
            /* the largest is at another rank for each element */
            set_element(how->dtype, sends[t], i,
                        ((int)i + t + rank) % g->size + 1);
            set_element(how->dtype, expected[t], i, g->size);
        }
    }
    for (int round = 0; round < 2; round++)
        EXPECT(run_group(g, rank, how, (const void *const *)sends, recvs));
    for (int t = 0; t < TENSORS; t++) {
        ok &= memcmp(recvs[t], expected[t], tensor_counts[t] * elem_nbytes) ==
              0;
        if (recvs[t] != sends[t])
            free(recvs[t]);
        free(sends[t]);
        free(expected[t]);
    }
    EXPECT(ok);
    return true;
}

START_TEST(group_of_any_type_combines_each_tensor)
{
    struct grouping how = {(hvd_dtype_t)(HVD_INT8 + _i / 2), _i % 2 == 1};
    struct group g;

    group_init(&g, 3);
    group_run(&g, group_all, &how);
    group_fini(&g);
}
END_TEST

/* --- the same bits --- */

enum {
    BITS_MAX = 5, /* ranks */
    BITS_COUNT = 1 + 333 + 40000 + 17 + 4095 + 3,
};

struct bits {
    hvd_dtype_t dtype;
    uint8_t *of[BITS_MAX]; /* [BITS_COUNT] of dtype, of each rank */
};

/* Sums that are rounded: another order of the ranks gives other bits. */
static bool sum_any(struct group *g, int rank, void *arg)
{
    struct bits *bits = arg;
    struct random_state random = {.s = (uint64_t)rank + 1};
    size_t elem_nbytes = hvd_dtype_size(bits->dtype), at = 0;
    const void *sends[TENSORS];
    void *recvs[TENSORS];
    struct comm_group group = {TENSORS, sends, recvs, tensor_counts};
    struct collective_args args = sum_args(NULL, NULL, 0);

    for (size_t i = 0; i < BITS_COUNT; i++)
        store(bits->dtype, bits->of[rank], i,
              (double)random_below(&random, 2000001) / 1e6 - 1);
    for (int t = 0; t < TENSORS; t++) {
        sends[t] = recvs[t] = bits->of[rank] + at * elem_nbytes;
        at += tensor_counts[t];
    }
    EXPECT(at == BITS_COUNT);
    args.dtype = bits->dtype;
    EXPECT(comm_run_group(g->comms[rank], &args, &group) == HVD_OK);
    return true;
}

START_TEST(group_of_floats_same_bits)
{
    static const hvd_dtype_t dtypes[] = {HVD_FLOAT32, HVD_BFLOAT16, HVD_FLOAT16,
                                         HVD_FLOAT64};
    struct bits bits = {.dtype = dtypes[_i]};
    size_t nbytes = BITS_COUNT * hvd_dtype_size(bits.dtype);
    struct group g;

    for (int size = 2; size <= BITS_MAX; size++) {
        for (int i = 0; i < size; i++)
            ck_assert_ptr_nonnull(bits.of[i] = malloc(nbytes));
        group_init(&g, size);
        group_run(&g, sum_any, &bits);
        group_fini(&g);
        for (int i = 1; i < size; i++)
            ck_assert_int_eq(memcmp(bits.of[0], bits.of[i], nbytes), 0);
        for (int i = 0; i < size; i++)
            free(bits.of[i]);
    }
}
END_TEST

/* Equal in number and sum, not in what belongs together. */
static bool group_otherwise(struct group *g, int rank, void *arg)
{
    const size_t counts[2] = {rank == 1 ? 5 : 3, rank == 1 ? 3 : 5};
    float a[5] = {0}, b[5] = {0};
    const void *sends[2] = {a, b};
    void *recvs[2] = {a, b};
    struct comm_group group = {2, sends, recvs, counts};
    struct collective_args args = sum_args(NULL, NULL, 0);
    hvd_status_t status = comm_run_group(g->comms[rank], &args, &group);

    EXPECT_SAY(status == HVD_ERR_MISMATCH, "%d", status);
    EXPECT(text_has("group"));
    return true;
}

START_TEST(groups_that_differ_mismatch)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, group_otherwise, NULL);
    group_fini(&g);
}
END_TEST

START_TEST(group_bad_tensor_named)
{
    const size_t counts[2] = {1, 1};
    float a = 0;
    const void *sends[2] = {&a, NULL};
    void *recvs[2] = {&a, &a};
    struct comm_group group = {2, sends, recvs, counts};
    struct collective_args args = sum_args(NULL, NULL, 0);
    struct group g;

    group_init(&g, 2);
    ck_assert_int_eq(comm_run_group(g.comms[0], &args, &group),
                     HVD_ERR_INVALID);
    ck_assert(text_has("tensor 1"));
    group.counts = NULL;
    ck_assert_int_eq(comm_run_group(g.comms[0], &args, &group),
                     HVD_ERR_INVALID);
    group_fini(&g);
}
END_TEST

static bool scaled(struct group *g, int rank, void *arg)
{
    float in[3] = {(float)(rank + 1), 2, 4}, out[3];
    struct collective_args args = sum_args(in, out, 3);
    struct hvd_request *request;

    scale_args(&args, 0.5, 4);
    EXPECT(comm_post(g->comms[rank], &args, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_OK);
    EXPECT(out[0] == 2 * sum_of(g, 1) && out[1] == 4 * (float)g->size);
    EXPECT(in[0] == (float)(rank + 1) && in[2] == 4);
    return true;
}

START_TEST(scales_before_and_behind)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, scaled, NULL);
    group_fini(&g);
}
END_TEST

/* Packed, and as they are: what they are by themselves. */
static bool scaled_group(struct group *g, int rank, void *arg)
{
    enum { LARGE = 20000 };
    static __thread float a[10], b[LARGE], c[7];
    const void *sends[] = {a, b, c};
    void *recvs[] = {a, b, c};
    const size_t counts[] = {10, LARGE, 7};
    struct comm_group group = {3, sends, recvs, counts};
    struct collective_args args = sum_args(NULL, NULL, 0);

    fill(a, 10, (float)(rank + 1));
    fill(b, LARGE, (float)(2 * rank + 2));
    fill(c, 7, (float)(4 * rank + 4));
    scale_args(&args, 0.5, 8);
    EXPECT(comm_run_group(g->comms[rank], &args, &group) == HVD_OK);
    EXPECT(all_are(a, 10, sum_of(g, 4)) && all_are(b, LARGE, sum_of(g, 8)) &&
           all_are(c, 7, sum_of(g, 16)));
    args.dtype = HVD_INT32;
    EXPECT(comm_run_group(g->comms[rank], &args, &group) == HVD_ERR_INVALID);
    return true;
}

START_TEST(scales_of_groups)
{
    struct group g;

    for (int size = 1; size <= 3; size++) {
        group_init(&g, size);
        group_run(&g, scaled_group, NULL);
        group_fini(&g);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grouped");
    TCase *tc = tcase_create("grouped");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, group_of_any_type_combines_each_tensor, 0, 16);
    tcase_add_loop_test(tc, group_of_floats_same_bits, 0, 4);
    tcase_add_test(tc, groups_that_differ_mismatch);
    tcase_add_test(tc, group_bad_tensor_named);
    tcase_add_test(tc, scales_before_and_behind);
    tcase_add_test(tc, scales_of_groups);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
