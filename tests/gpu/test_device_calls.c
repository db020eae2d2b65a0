/* tests/gpu/test_device_calls.c - where the buffers of a call may not lie: a
 * program in a world of one, as a user links the library, with a driver of host
 * memory (fake/fake.h). */
#include <string.h>

#include <hvd/hvd.h>

#include "bench/gpu.h"
#include "support.h"

enum { COUNT = 4, NBYTES = COUNT * sizeof(float) };

static float here[COUNT], *there, *other;

static void set_up(void)
{
    ck_assert_int_eq(hvd_init(NULL), HVD_OK);
    (void)gpu_open();
    there = gpu_alloc(NBYTES);
    other = gpu_alloc(NBYTES);
    for (int i = 0; i < COUNT; i++)
        here[i] = (float)(i + 1);
    gpu_copy(there, here, NBYTES);
}

static void tear_down(void)
{
    gpu_free(there);
    gpu_free(other);
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
}

static void refuses(hvd_status_t status, const char *words)
{
    ck_assert_int_eq(status, HVD_ERR_INVALID);
    ck_assert_msg(strstr(hvd_last_error(), words), "%s", hvd_last_error());
}

/* What was refused is issued again, with other buffers. */
static void goes_on(void)
{
    float got[COUNT] = {0};

    ck_assert_int_eq(hvd_allreduce(there, other, COUNT, HVD_FLOAT32, HVD_SUM),
                     HVD_OK);
    gpu_copy(got, other, NBYTES);
    ck_assert_int_eq(memcmp(got, here, NBYTES), 0);
}

START_TEST(buffers_of_a_call_lie_in_one_place)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    hvd_request_t *request;

    refuses(hvd_allreduce(here, there, COUNT, HVD_FLOAT32, HVD_SUM),
            "hvd_allreduce: sendbuf is on the host, recvbuf is on the device");
    refuses(hvd_allgather(there, here, COUNT, HVD_FLOAT32),
            "sendbuf is on the device, recvbuf is on the host");
    refuses(hvd_allreduce_with(here, there, COUNT, HVD_FLOAT32, HVD_SUM, NULL,
                               &request),
            "sendbuf is on the host");
    ck_assert_ptr_null(request);
    options.key = "x";
    refuses(hvd_allreduce_with(there, here, COUNT, HVD_FLOAT32, HVD_SUM,
                               &options, &request),
            "sendbuf is on the device");
    ck_assert_ptr_null(request);
    goes_on();
}
END_TEST

START_TEST(tensors_of_a_group_lie_in_one_place)
{
    const size_t counts[] = {COUNT, COUNT};
    const void *sends[] = {here, there};
    void *recvs[] = {here, there};

    refuses(
        hvd_grouped_allreduce(2, sends, recvs, counts, HVD_FLOAT32, HVD_SUM),
        "tensors of the group are on the host and on the device");
    sends[0] = there;
    refuses(
        hvd_grouped_allreduce(2, sends, recvs, counts, HVD_FLOAT32, HVD_SUM),
        "tensor 0 of the group: sendbuf is on the device");
    goes_on();
}
END_TEST

START_TEST(residual_lies_on_the_host)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    float residual[COUNT] = {0};

    options.wire_dtype = HVD_FLOAT16;
    options.residual = other;
    refuses(hvd_allreduce_with(here, here, COUNT, HVD_FLOAT32, HVD_SUM,
                               &options, NULL),
            "hvd_allreduce: residual is on the device");
    refuses(hvd_allreduce_with(there, there, COUNT, HVD_FLOAT32, HVD_SUM,
                               &options, NULL),
            "hvd_allreduce: residual is on the device");
    options.residual = residual;
    ck_assert_int_eq(hvd_allreduce_with(there, there, COUNT, HVD_FLOAT32,
                                        HVD_SUM, &options, NULL),
                     HVD_OK);
    goes_on();
}
END_TEST

static void *place_it(const size_t *counts, int size, void *arg)
{
    return arg;
}

START_TEST(place_takes_host_buffers_only)
{
    ck_assert_int_eq(hvd_allgatherv_place(there, COUNT, HVD_FLOAT32, place_it,
                                          other, NULL, NULL),
                     HVD_ERR_UNSUPPORTED);
    goes_on();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu calls");
    TCase *tc = tcase_create("calls");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, buffers_of_a_call_lie_in_one_place);
    tcase_add_test(tc, tensors_of_a_group_lie_in_one_place);
    tcase_add_test(tc, residual_lies_on_the_host);
    tcase_add_test(tc, place_takes_host_buffers_only);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
