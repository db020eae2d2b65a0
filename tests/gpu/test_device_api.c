/* tests/gpu/test_device_api.c - public calls with buffers on a device, in a
 * world of one whose driver is of host memory (fake/fake.h): where the buffers
 * of a call may lie, and that options reach the device. */
#include <stdlib.h>
#include <string.h>

#include <hvd/hvd.h>

#include "device/driver_api.h"
#include "support.h"

#define ok(call)                                                          \
    do {                                                                  \
        hvd_status_t status_ = (call);                                    \
        ck_assert_msg(status_ == HVD_OK, "%s: %s", hvd_strerror(status_), \
                      hvd_last_error());                                  \
    } while (0)

#define cu(call) ck_assert_int_eq((call), CUDA_SUCCESS)

enum { COUNT = 16 };

static const struct driver_api *cuda;

static CUcontext context_of(int ordinal)
{
    CUcontext context;
    CUdevice device;

    cu(cuda->cuDeviceGet(&device, ordinal));
    cu(cuda->cuDevicePrimaryCtxRetain(&context, device));
    return context;
}

/* [COUNT] of float */
static float *allocate(int ordinal)
{
    CUcontext before;
    CUdeviceptr ptr;

    cu(cuda->cuCtxPushCurrent_v2(context_of(ordinal)));
    cu(cuda->cuMemAlloc_v2(&ptr, COUNT * sizeof(float)));
    cu(cuda->cuCtxPopCurrent_v2(&before));
    return (float *)(uintptr_t)ptr;
}

static void copy(void *dst, const void *src)
{
    cu(cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)dst,
                           (CUdeviceptr)(uintptr_t)src, COUNT * sizeof(float),
                           NULL));
}

static void set_up(void)
{
    setenv("FAKE_GPU", "devices=2", 1);
    ok(hvd_init(NULL));
    ok(hvd_device_set(0));
    ok(driver_api(&cuda));
    cu(cuda->cuCtxPushCurrent_v2(context_of(0)));
}

static void tear_down(void)
{
    ok(hvd_shutdown());
}

static void assert_fails(hvd_status_t status, hvd_status_t wanted,
                         const char *words)
{
    ck_assert_msg(status == wanted && strstr(hvd_last_error(), words), "%s: %s",
                  hvd_strerror(status), hvd_last_error());
}

static hvd_status_t sum(const float *send, float *recv,
                        const hvd_options_t *options)
{
    return hvd_allreduce_with(send, recv, COUNT, HVD_FLOAT32, HVD_SUM, options,
                              NULL);
}

START_TEST(buffers_on_the_device_are_found_there)
{
    float values[COUNT] = {1, 2, 3}, result[COUNT] = {0};
    float *send = allocate(0), *recv = allocate(0);
    hvd_options_t options = HVD_OPTIONS_INIT;

    copy(send, values);
    ok(sum(send, recv, NULL));
    copy(result, recv);
    ck_assert_int_eq(memcmp(result, values, sizeof(values)), 0);
    options.memory = HVD_MEMORY_DEVICE;
    values[0] = 7;
    copy(send, values);
    ok(sum(send, recv, &options));
    copy(result, recv);
    ck_assert_int_eq(memcmp(result, values, sizeof(values)), 0);
}
END_TEST

/* What is refused has not begun: the next call is well. */
START_TEST(buffers_of_a_call_lie_in_one_place)
{
    float here[COUNT] = {0}, *there = allocate(0), *elsewhere = allocate(1);
    const void *sends[] = {there, here};
    void *recvs[] = {there, here};
    const size_t counts[] = {COUNT, COUNT};
    hvd_options_t options = HVD_OPTIONS_INIT;

    assert_fails(sum(there, here, NULL), HVD_ERR_INVALID,
                 "sendbuf is on the device, recvbuf is on the host");
    assert_fails(sum(here, there, NULL), HVD_ERR_INVALID,
                 "sendbuf is on the host, recvbuf is on the device");
    assert_fails(
        hvd_grouped_allreduce(2, sends, recvs, counts, HVD_FLOAT32, HVD_SUM),
        HVD_ERR_INVALID, "on the host and on the device");
    assert_fails(sum(elsewhere, elsewhere, NULL), HVD_ERR_INVALID,
                 "lies on device 1, this process uses device 0");
    options.wire_dtype = HVD_FLOAT16;
    options.residual = there;
    assert_fails(sum(here, here, &options), HVD_ERR_INVALID,
                 "residual is on the device");
    ok(sum(there, there, NULL));
    ok(sum(here, here, NULL));
}
END_TEST

/* That the device refuses this stream, if the call is ordered, shows that both
 * have come there. */
START_TEST(stream_and_flag_reach_the_device)
{
    float *there = allocate(0);
    hvd_options_t options = HVD_OPTIONS_INIT;

    options.stream = CU_STREAM_PER_THREAD;
    options.flags = HVD_STREAM_ORDERED;
    assert_fails(sum(there, there, &options), HVD_ERR_UNSUPPORTED,
                 "CU_STREAM_PER_THREAD");
    options.key = "x";
    assert_fails(sum(there, there, &options), HVD_ERR_UNSUPPORTED,
                 "CU_STREAM_PER_THREAD");
    options.stream = NULL;
    ok(sum(there, there, &options));
    options.key = NULL;
    ok(sum(there, there, &options));
    ok(hvd_confirm());
}
END_TEST

START_TEST(device_is_chosen_before_the_first_call)
{
    float *there = allocate(1);

    assert_fails(hvd_device_set(2), HVD_ERR_INVALID, "there is no device 2");
    ok(hvd_device_set(1));
    ok(sum(there, there, NULL));
    assert_fails(hvd_device_set(0), HVD_ERR_STATE, "device 1 is in use");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_api");
    TCase *tc = tcase_create("api");

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, buffers_on_the_device_are_found_there);
    tcase_add_test(tc, buffers_of_a_call_lie_in_one_place);
    tcase_add_test(tc, stream_and_flag_reach_the_device);
    tcase_add_test(tc, device_is_chosen_before_the_first_call);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
