/* tests/worker/test_solo_calls.c - what hvd/collectives.h says of calls, where
 * a world of one shows it: sizes of dtypes, operations and options that change
 * nothing here, and places that cannot be had. */
#include <stddef.h>
#include <string.h>

#include <hvd/hvd.h>

#include "support.h"

static void set_up(void)
{
    ck_assert_int_eq(hvd_init(NULL), HVD_OK);
}

static void tear_down(void)
{
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
}

/* Without hvd_init. */
START_TEST(dtypes_have_sizes)
{
    ck_assert_uint_eq(hvd_dtype_size(HVD_INT8), 1);
    ck_assert_uint_eq(hvd_dtype_size(HVD_UINT8), 1);
    ck_assert_uint_eq(hvd_dtype_size(HVD_INT32), 4);
    ck_assert_uint_eq(hvd_dtype_size(HVD_INT64), 8);
    ck_assert_uint_eq(hvd_dtype_size(HVD_FLOAT16), 2);
    ck_assert_uint_eq(hvd_dtype_size(HVD_BFLOAT16), 2);
    ck_assert_uint_eq(hvd_dtype_size(HVD_FLOAT32), 4);
    ck_assert_uint_eq(hvd_dtype_size(HVD_FLOAT64), 8);
    ck_assert_uint_eq(hvd_dtype_size(HVD_DTYPE_SAME), 0);
    ck_assert_uint_eq(hvd_dtype_size(HVD_INT16), 2);
    ck_assert_uint_eq(hvd_dtype_size(HVD_UINT16), 2);
    ck_assert_uint_eq(hvd_dtype_size(HVD_UINT32), 4);
    ck_assert_uint_eq(hvd_dtype_size(HVD_BOOL), 1);
    ck_assert_uint_eq(hvd_dtype_size((hvd_dtype_t)13), 0);
    ck_assert_uint_eq(hvd_dtype_size((hvd_dtype_t)-1), 0);
    ck_assert_uint_eq(hvd_dtype_size(HVD_DTYPE_FORCE_INT), 0);
}
END_TEST

START_TEST(average_of_all_is_an_average)
{
    float x = 3, y = 0;
    const void *send = &x;
    void *recv = &y;
    const size_t count = 1;

    ck_assert_int_eq(hvd_allreduce(&x, &y, 1, HVD_FLOAT32, HVD_AVERAGE_OF_ALL),
                     HVD_OK);
    ck_assert(y == 3);
    y = 0;
    ck_assert_int_eq(
        hvd_reduce_scatter(&x, &y, 1, HVD_FLOAT32, HVD_AVERAGE_OF_ALL), HVD_OK);
    ck_assert(y == 3);
    y = 0;
    ck_assert_int_eq(hvd_grouped_allreduce(1, &send, &recv, &count, HVD_FLOAT32,
                                           HVD_AVERAGE_OF_ALL),
                     HVD_OK);
    ck_assert(y == 3);
    ck_assert_int_eq(hvd_allreduce(&x, &y, 1, HVD_FLOAT32,
                                   (hvd_op_t)(HVD_AVERAGE_OF_ALL + 1)),
                     HVD_ERR_INVALID);
}
END_TEST

/* --- options without a device --- */

START_TEST(options_of_devices_do_nothing_on_the_host)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    hvd_request_t *request;
    float x = 3, y = 0;

    options.stream = &x; /* nobody looks at it */
    options.flags = HVD_STREAM_ORDERED;
    ck_assert_int_eq(
        hvd_allreduce_with(&x, &y, 1, HVD_FLOAT32, HVD_SUM, &options, NULL),
        HVD_OK);
    ck_assert(y == 3);
    options.key = "y";
    ck_assert_int_eq(
        hvd_allreduce_with(&y, &x, 1, HVD_FLOAT32, HVD_SUM, &options, &request),
        HVD_OK);
    ck_assert_int_eq(hvd_wait(&request), HVD_OK);
    options.memory = HVD_MEMORY_DEVICE;
    ck_assert_int_eq(hvd_barrier_with(&options, NULL), HVD_OK);
    options.key = NULL;
    ck_assert_int_eq(hvd_barrier_with(&options, NULL), HVD_OK);
}
END_TEST

/* --- places --- */

static void *place_it(const size_t *counts, int size, void *arg)
{
    ck_assert_int_eq(size, 1);
    return arg;
}

/* The call fails, and the world goes on. */
START_TEST(nowhere_to_place_it_fails_the_call)
{
    hvd_request_t *request;
    float x[4] = {0};

    ck_assert_int_eq(
        hvd_allgatherv_place(x, 4, HVD_FLOAT32, place_it, NULL, NULL, NULL),
        HVD_ERR_NOMEM);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "no place for 4 elements"));
    ck_assert_int_eq(
        hvd_allgatherv_place(x, 4, HVD_FLOAT32, place_it, NULL, NULL, &request),
        HVD_OK);
    ck_assert_int_eq(hvd_wait(&request), HVD_ERR_NOMEM);
    ck_assert_int_eq(
        hvd_allgatherv_place(x, 0, HVD_FLOAT32, place_it, NULL, NULL, NULL),
        HVD_OK);
    ck_assert_int_eq(hvd_barrier(), HVD_OK);
}
END_TEST

START_TEST(result_is_the_librarys_until_it_is_taken)
{
    hvd_request_t *request;
    float x[4] = {1, 2, 3, 4}, *y = x;
    size_t count = 0;

    ck_assert_int_eq(
        hvd_allgatherv_place(x, 4, HVD_FLOAT32, NULL, NULL, NULL, &request),
        HVD_OK);
    ck_assert_int_eq(hvd_wait_result(&request, 1000, (void **)&y, &count),
                     HVD_OK);
    ck_assert_ptr_null(request);
    ck_assert_uint_eq(count, 4);
    ck_assert(y != x && memcmp(x, y, sizeof(x)) == 0);
    hvd_free(y);
    ck_assert_int_eq(
        hvd_allgatherv_place(x, 0, HVD_FLOAT32, NULL, NULL, NULL, &request),
        HVD_OK);
    ck_assert_int_eq(hvd_wait_result(&request, 1000, (void **)&y, NULL),
                     HVD_OK);
    ck_assert_ptr_null(y);
    /* nobody takes this one */
    ck_assert_int_eq(
        hvd_allgatherv_place(x, 4, HVD_FLOAT32, NULL, NULL, NULL, &request),
        HVD_OK);
    ck_assert_int_eq(hvd_wait(&request), HVD_OK);
}
END_TEST

START_TEST(result_of_no_such_call_is_refused)
{
    hvd_request_t *request;
    void *result = &request;

    ck_assert_int_eq(
        hvd_allgatherv_place(NULL, 0, HVD_FLOAT32, NULL, NULL, NULL, NULL),
        HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "place is NULL"));
    ck_assert_int_eq(hvd_barrier_with(NULL, &request), HVD_OK);
    ck_assert_int_eq(hvd_wait_result(&request, 1000, NULL, NULL),
                     HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_wait_result(&request, 1000, &result, NULL),
                     HVD_ERR_INVALID);
    ck_assert(result == NULL && request != NULL);
    ck_assert_int_eq(hvd_wait(&request), HVD_OK);
    ck_assert_int_eq(hvd_wait_result(&request, 1000, &result, NULL),
                     HVD_ERR_INVALID);
}
END_TEST

/* In place an allgatherv may be, an alltoallv may not. */
START_TEST(place_may_overlap_sendbuf_as_recvbuf_may)
{
    const size_t count = 4, zero = 0;
    float x[5] = {1, 2, 3, 4, 5};

    ck_assert_int_eq(
        hvd_allgatherv_place(x, 4, HVD_FLOAT32, place_it, x, NULL, NULL),
        HVD_OK);
    ck_assert_int_eq(
        hvd_allgatherv_place(x, 4, HVD_FLOAT32, place_it, x + 1, NULL, NULL),
        HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "overlap"));
    ck_assert_int_eq(hvd_alltoallv_place(x, &count, &zero, HVD_FLOAT32,
                                         place_it, x, NULL, NULL),
                     HVD_ERR_INVALID);
    for (int i = 0; i < 5; i++)
        ck_assert(x[i] == (float)(i + 1));
    ck_assert_int_eq(hvd_barrier(), HVD_OK);
}
END_TEST

START_TEST(plan_alone_is_a_world_of_one)
{
    hvd_plan_t plan = {.struct_size = sizeof(plan), .rank = 5};

    ck_assert_int_eq(hvd_plan(&plan), HVD_OK);
    ck_assert(!plan.elastic && plan.rank == 0 && plan.size == 1);
    plan.rank = 5; /* a program of an older release knows less */
    plan.struct_size = offsetof(hvd_plan_t, rank);
    ck_assert_int_eq(hvd_plan(&plan), HVD_OK);
    ck_assert_int_eq(plan.rank, 5);
}
END_TEST

START_TEST(drain_is_pending_alone)
{
    hvd_abandon("there is nobody else");
    ck_assert_int_eq(hvd_generation_status(), HVD_OK);
    ck_assert_int_eq(hvd_hosts_pending(), HVD_HOSTS_UNCHANGED);
    hvd_drain();
    ck_assert_int_eq(hvd_hosts_pending(), HVD_HOSTS_DUE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker solo calls");
    TCase *outside = tcase_create("outside"), *inside = tcase_create("inside");

    tcase_add_test(outside, dtypes_have_sizes);
    suite_add_tcase(suite, outside);
    tcase_add_checked_fixture(inside, set_up, tear_down);
    tcase_add_test(inside, average_of_all_is_an_average);
    tcase_add_test(inside, options_of_devices_do_nothing_on_the_host);
    tcase_add_test(inside, nowhere_to_place_it_fails_the_call);
    tcase_add_test(inside, place_may_overlap_sendbuf_as_recvbuf_may);
    tcase_add_test(inside, result_is_the_librarys_until_it_is_taken);
    tcase_add_test(inside, result_of_no_such_call_is_refused);
    tcase_add_test(inside, plan_alone_is_a_world_of_one);
    tcase_add_test(inside, drain_is_pending_alone);
    suite_add_tcase(suite, inside);
    return support_run(suite);
}
