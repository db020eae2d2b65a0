/* tests/gpu/test_device_state.c - entries of a state whose memory is the
 * device's, by a driver of host memory (fake/fake.h): each test is a process
 * with knobs of its own. The fake's device memory cannot be touched by the
 * host, and copies are late. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <hvd/device.h>

#include "base/array.h"
#include "base/error.h"
#include "device/driver_api.h"
#include "made.h"
#include "state/internal.h"
#include "support.h"
#include "tape.h"

#define ok(call)                                                          \
    do {                                                                  \
        hvd_status_t status_ = (call);                                    \
        ck_assert_msg(status_ == HVD_OK, "%s: %s", hvd_strerror(status_), \
                      error_text());                                      \
    } while (0)

#define cu(call) ck_assert_int_eq((call), CUDA_SUCCESS)

enum { COUNT = 10000, NBYTES = COUNT * sizeof(int), LARGE = 150 << 20 };

/* Room for a second copy of the entries on the device, and none. */
static const char *const worlds[] = {"late_us=300", "memory=100000 late_us=300",
                                     "late_us=0"};

static const struct driver_api *cuda;
static size_t n_free_before;

static size_t n_free(void)
{
    size_t n = 0, total;

    cu(cuda->cuMemGetInfo_v2(&n, &total));
    return n;
}

static void begin(const char *knobs)
{
    CUcontext context;
    CUdevice device;

    setenv("FAKE_GPU", knobs, 1);
    ok(device_set(0));
    ok(driver_api(&cuda));
    cu(cuda->cuDeviceGet(&device, 0));
    cu(cuda->cuDevicePrimaryCtxRetain(&context, device));
    cu(cuda->cuCtxPushCurrent_v2(context));
    n_free_before = n_free();
}

static void *allocate(size_t nbytes)
{
    CUdeviceptr ptr;

    cu(cuda->cuMemAlloc_v2(&ptr, nbytes));
    return (void *)(uintptr_t)ptr;
}

static void release(void *ptr)
{
    cu(cuda->cuMemFree_v2((CUdeviceptr)(uintptr_t)ptr));
}

/* Behind what is on the stream; the source must stay. */
static void put(void *dst, const void *src, size_t nbytes, CUstream stream)
{
    cu(cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)dst,
                           (CUdeviceptr)(uintptr_t)src, nbytes, stream));
}

static void synchronize(CUstream stream)
{
    CUevent event;
    CUresult result;

    cu(cuda->cuEventCreate(&event, 0));
    cu(cuda->cuEventRecord(event, stream));
    while ((result = cuda->cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
        usleep(100);
    cu(result);
    cu(cuda->cuEventDestroy_v2(event));
}

static void fill(int *values, int seed)
{
    for (int i = 0; i < COUNT; i++)
        values[i] = seed * 10007 + i;
}

static void set(void *ptr, int seed, CUstream stream)
{
    static int values[COUNT];

    fill(values, seed);
    put(ptr, values, NBYTES, stream);
    synchronize(stream);
}

static void assert_is(const void *ptr, int seed, CUstream stream)
{
    static int there[COUNT], wanted[COUNT];

    fill(wanted, seed);
    put(there, ptr, NBYTES, stream);
    synchronize(stream);
    ck_assert_msg(memcmp(there, wanted, NBYTES) == 0,
                  "it begins with %d: is not what seed %d makes", there[0],
                  seed);
}

/* --- a worker: two entries on the device, one on the host, an object --- */

struct worker {
    hvd_state_t *state;
    void *weights, *moments; /* [NBYTES] */
    CUstream stream;         /* of the moments */
    int step;
    hvd_status_t serializes;
};

static size_t object_size(void *arg)
{
    (void)arg;
    return 4;
}

static hvd_status_t object_serialize(void *buf, size_t nbytes, void *arg)
{
    memset(buf, 1, nbytes);
    return ((struct worker *)arg)->serializes;
}

static hvd_status_t object_deserialize(const void *buf, size_t nbytes,
                                       void *arg)
{
    (void)buf, (void)nbytes, (void)arg;
    return HVD_OK;
}

static const hvd_state_object_ops_t object_ops = {
    sizeof(hvd_state_object_ops_t), object_size, object_serialize,
    object_deserialize};

static struct worker *worker_create(void)
{
    static struct worker w;

    w.state = made_state();
    w.weights = allocate(NBYTES);
    w.moments = allocate(NBYTES);
    cu(cuda->cuStreamCreateWithPriority(&w.stream, CU_STREAM_NON_BLOCKING, 0));
    ok(hvd_state_add_device(w.state, "weights", w.weights, NBYTES, NULL));
    ok(hvd_state_add(w.state, "step", &w.step, sizeof(w.step)));
    ok(hvd_state_add_device(w.state, "moments", w.moments, NBYTES, w.stream));
    ok(hvd_state_add_object(w.state, "object", &object_ops, &w));
    return &w;
}

static void train(struct worker *w, int step)
{
    w->step = step;
    set(w->weights, step, NULL);
    set(w->moments, -step, w->stream);
}

static void assert_at(const struct worker *w, int step)
{
    ck_assert_int_eq(w->step, step);
    assert_is(w->weights, step, NULL);
    assert_is(w->moments, -step, w->stream);
}

/* As charlm does it: the state goes last. */
static void worker_destroy(struct worker *w)
{
    device_close();
    hvd_state_destroy(w->state);
    release(w->weights);
    release(w->moments);
    cu(cuda->cuStreamDestroy_v2(w->stream));
    if (getenv("HVD_TEST_GPU") == NULL) /* a real one keeps what it likes */
        ck_assert_uint_eq(n_free(), n_free_before);
}

START_TEST(restore_brings_back_what_was_committed)
{
    struct worker *w;

    begin(worlds[_i]);
    w = worker_create();
    for (int step = 1; step <= 5; step++) {
        train(w, step);
        ok(state_save(w->state, 1, 1));
        train(w, 100);
        ok(state_restore(w->state));
        assert_at(w, step);
    }
    worker_destroy(w);
}
END_TEST

/* The next step is put on the stream at once: it must not be in the commit. */
START_TEST(what_comes_later_on_the_stream_waits)
{
    static int values[COUNT];
    struct worker *w;

    begin(worlds[_i]);
    w = worker_create();
    fill(values, 77);
    for (int step = 1; step <= 5; step++) {
        train(w, step);
        ok(state_save(w->state, 1, 1));
        put(w->weights, values, NBYTES, NULL);
        put(w->moments, values, NBYTES, w->stream);
        ok(state_restore(w->state));
        assert_at(w, step);
    }
    worker_destroy(w);
}
END_TEST

/* What is on the stream, and late, when a commit is called is in it. */
START_TEST(what_was_put_on_the_stream_before_is_committed)
{
    static int values[COUNT];
    struct worker *w;

    begin(worlds[_i]);
    w = worker_create();
    train(w, 3);
    fill(values, 4);
    put(w->weights, values, NBYTES, NULL);
    ok(state_save(w->state, 1, 1));
    train(w, 5);
    ok(state_restore(w->state));
    assert_is(w->weights, 4, NULL);
    assert_is(w->moments, -3, w->stream);
    worker_destroy(w);
}
END_TEST

START_TEST(commit_that_fails_leaves_the_older_one)
{
    struct worker *w;

    begin(worlds[_i]);
    w = worker_create();
    for (int step = 1; step <= 3; step++) {
        train(w, step);
        ok(state_save(w->state, 1, 1));
        train(w, 50);
        w->serializes = HVD_ERR_INVALID;
        ck_assert_int_eq(state_save(w->state, 1, 1), HVD_ERR_CALLBACK);
        w->serializes = HVD_OK;
        ck_assert_uint_eq(hvd_state_version(w->state), (uint64_t)step);
        ok(state_restore(w->state));
        assert_at(w, step);
    }
    worker_destroy(w);
}
END_TEST

START_TEST(commits_in_a_row_do_not_mix)
{
    struct worker *w;

    begin(worlds[_i]);
    w = worker_create();
    for (int step = 1; step <= 20; step++) {
        train(w, step);
        ok(state_save(w->state, 1, 1));
    }
    train(w, 100);
    ok(state_restore(w->state));
    assert_at(w, 20);
    worker_destroy(w);
}
END_TEST

/* Also where the device has room for a second copy of the small entry alone. */
START_TEST(entries_grow_and_go)
{
    void *larger;
    struct worker *w;

    begin(_i == 1 ? "memory=400000" : worlds[_i]);
    w = worker_create();
    train(w, 1);
    ok(state_save(w->state, 1, 1));
    larger = allocate(5 * NBYTES);
    ok(hvd_state_rebind(w->state, "weights", larger, 5 * NBYTES));
    set((char *)larger + 4 * NBYTES, 6, NULL);
    ok(state_restore(w->state));
    assert_is((char *)larger + 4 * NBYTES, 6, NULL); /* it stays as it was */
    set((char *)larger + 4 * NBYTES, 8, NULL);
    ok(state_save(w->state, 1, 1));
    set((char *)larger + 4 * NBYTES, 9, NULL);
    ok(hvd_state_remove(w->state, "moments"));
    ok(state_restore(w->state));
    assert_is((char *)larger + 4 * NBYTES, 8, NULL);
    ok(hvd_state_remove(w->state, "weights"));
    ok(state_save(w->state, 1, 1));
    w->step = 9;
    ok(state_restore(w->state));
    ck_assert_int_eq(w->step, 1);
    release(larger);
    worker_destroy(w);
}
END_TEST

/* Copied in pieces, the last one shorter. */
START_TEST(large_entry_is_whole)
{
    static const char *const knobs[] = {"memory=400000000", "memory=200000000"};
    int seed = 12345;
    hvd_state_t *state;
    char *large;

    begin(knobs[_i]);
    state = made_state();
    large = allocate(LARGE);
    ok(hvd_state_add_device(state, "large", large, LARGE, NULL));
    for (size_t at = 0; at + NBYTES <= LARGE; at += 30 << 20)
        set(large + at, seed + (int)(at >> 20), NULL);
    ok(state_save(state, 1, 1));
    for (size_t at = 0; at + NBYTES <= LARGE; at += 30 << 20)
        set(large + at, 0, NULL);
    ok(state_restore(state));
    for (size_t at = 0; at + NBYTES <= LARGE; at += 30 << 20)
        assert_is(large + at, seed + (int)(at >> 20), NULL);
    ck_assert_uint_ge(state_moves(state), 3);
    hvd_state_destroy(state);
    release(large);
    device_close();
}
END_TEST

/* --- where the copies go --- */

/* Seven eighths of the device are the entry and its copy, or a little more. */
START_TEST(copy_that_leaves_no_eighth_goes_to_the_host)
{
    enum { ENTRY = 7 << 16 };
    hvd_state_t *state = made_state();
    void *entry;

    begin(_i == 0 ? "memory=1048576" : "memory=1048568");
    entry = allocate(ENTRY);
    ok(hvd_state_add_device(state, "entry", entry, ENTRY, NULL));
    ok(state_save(state, 1, 1));
    ck_assert((state->device.shadow != NULL) == (_i == 0));
    ck_assert_uint_eq(n_free(), _i == 0 ? 1 << 17 : 1048568 - ENTRY);
    hvd_state_destroy(state);
    release(entry);
    device_close();
}
END_TEST

START_TEST(host_memory_of_both_snapshots_is_pinned)
{
    struct worker *w;

    begin(worlds[_i]);
    w = worker_create();
    for (int step = 1; step <= 2; step++) {
        train(w, step);
        ok(state_save(w->state, 1, 1));
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            cuda->cuMemHostRegister_v2(w->state->snapshots[i].bytes,
                                       w->state->snapshots[i].capacity, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    worker_destroy(w);
}
END_TEST

/* --- to a peer --- */

static const struct state_id next_id = {4, 17};

/* From the device to the host's memory of a peer that has no device, and back:
 * it is the same layout. */
START_TEST(peers_have_it_here_or_there)
{
    static int weights[COUNT], moments[COUNT], step, wanted[COUNT];
    hvd_state_t *host = made_state();
    struct worker *w;
    uint64_t nbytes;

    begin(worlds[_i]);
    w = worker_create();
    ok(hvd_state_add(host, "weights", weights, NBYTES));
    ok(hvd_state_add(host, "step", &step, sizeof(step)));
    ok(hvd_state_add(host, "moments", moments, NBYTES));
    ok(hvd_state_add_object(host, "object", &object_ops, w));
    train(w, 6);
    ok(state_save(w->state, 4, 1));
    tape_clear();
    state_stamp(w->state, next_id);
    ok(state_sync_send(w->state, NULL, 1, false));
    ok(state_sync_receive(host, NULL, 0, next_id, false, &nbytes));
    fill(wanted, 6);
    ck_assert(memcmp(weights, wanted, NBYTES) == 0);
    ck_assert_int_eq(step, 6);

    weights[0]++;
    ok(state_save(host, 4, 1));
    tape_clear();
    state_stamp(host, next_id);
    ok(state_sync_send(host, NULL, 1, false));
    ok(state_sync_receive(w->state, NULL, 0, next_id, false, &nbytes));
    weights[0]--;
    assert_is(w->moments, -6, w->stream);
    put(weights, w->weights, NBYTES, NULL);
    synchronize(NULL);
    ck_assert_int_eq(weights[0], wanted[0] + 1);
    train(w, 9);
    ok(state_restore(w->state));
    assert_is(w->moments, -6, w->stream);
    hvd_state_destroy(host);
    worker_destroy(w);
}
END_TEST

/* --- what is refused --- */

static void capture(CUstream stream, bool begin)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY);
    __typeof__(&cuStreamBeginCapture_v2) start;
    __typeof__(&cuStreamEndCapture) stop;
    CUgraph graph;

    *(void **)&start = dlsym(library, "cuStreamBeginCapture_v2");
    *(void **)&stop = dlsym(library, "cuStreamEndCapture");
    if (begin)
        cu(start(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    else
        cu(stop(stream, &graph));
    dlclose(library);
}

START_TEST(other_memory_is_refused)
{
    static int here[COUNT];
    hvd_state_t *state = made_state();
    void *there;

    begin("devices=2");
    there = allocate(NBYTES);
    ck_assert_int_eq(hvd_state_add_device(state, "here", here, NBYTES, NULL),
                     HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error_text(), "'here'"));
    ck_assert_int_eq(hvd_state_add_device(state, "null", NULL, 4, NULL),
                     HVD_ERR_INVALID);
    ok(hvd_state_add_device(state, "empty", here, 0, NULL));
    ok(hvd_state_add_device(state, "there", there, NBYTES, NULL));
    ck_assert_int_eq(hvd_state_rebind(state, "there", here, NBYTES),
                     HVD_ERR_INVALID);
    ok(state_save(state, 1, 1));
    ok(state_restore(state));
    hvd_state_destroy(state);
    release(there);
    device_close();
}
END_TEST

START_TEST(memory_of_another_device_is_refused)
{
    hvd_state_t *state = made_state();
    CUcontext other, before;
    CUdevice device;
    void *there;

    begin("devices=2");
    cu(cuda->cuDeviceGet(&device, 1));
    cu(cuda->cuDevicePrimaryCtxRetain(&other, device));
    cu(cuda->cuCtxPushCurrent_v2(other));
    there = allocate(NBYTES);
    cu(cuda->cuCtxPopCurrent_v2(&before));
    ck_assert_int_eq(hvd_state_add_device(state, "there", there, NBYTES, NULL),
                     HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error_text(), "'there'"));
    ck_assert_ptr_nonnull(strstr(error_text(), "lies on device 1"));
    hvd_state_destroy(state);
    release(there);
    device_close();
}
END_TEST

static void break_device(void)
{
    void (*fn)(void);

    *(void **)&fn = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), "fake_break");
    fn();
}

/* What the device has is gone with it. */
START_TEST(commit_on_a_broken_device_fails)
{
    hvd_state_t *state = made_state();
    void *there;

    begin(worlds[_i]);
    there = allocate(NBYTES);
    ok(hvd_state_add_device(state, "there", there, NBYTES, NULL));
    ok(state_save(state, 1, 1));
    break_device();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(state_save(state, 1, 1), HVD_ERR_SYSTEM);
        ck_assert_ptr_nonnull(
            strstr(error_text(), "CUDA_ERROR_ILLEGAL_ADDRESS"));
        ck_assert_uint_eq(hvd_state_version(state), 1);
    }
    ck_assert(device_is_broken());
    device_close();
    hvd_state_destroy(state);
}
END_TEST

START_TEST(captured_stream_is_refused)
{
    struct worker *w;

    begin(worlds[_i]);
    w = worker_create();
    train(w, 1);
    ok(state_save(w->state, 1, 1));
    train(w, 2);
    capture(w->stream, true);
    ck_assert_int_eq(state_save(w->state, 1, 1), HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error_text(), "'moments'"));
    capture(w->stream, false);
    ok(state_restore(w->state));
    assert_at(w, 1);
    worker_destroy(w);
}
END_TEST

START_TEST(stream_of_each_thread_is_refused)
{
    hvd_state_t *state = made_state();
    void *there;

    begin("late_us=0");
    there = allocate(NBYTES);
    ok(hvd_state_add_device(state, "there", there, NBYTES,
                            CU_STREAM_PER_THREAD));
    ck_assert_int_eq(state_save(state, 1, 1), HVD_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error_text(), "'there'"));
    hvd_state_destroy(state);
    release(there);
    device_close();
}
END_TEST

/* In the worlds from `first` on, up to `end`. */
static void add_commits(TCase *tc, int first, int end)
{
    tcase_add_loop_test(tc, restore_brings_back_what_was_committed, first, end);
    tcase_add_loop_test(tc, what_comes_later_on_the_stream_waits, first, end);
    tcase_add_loop_test(tc, what_was_put_on_the_stream_before_is_committed,
                        first, end);
    tcase_add_loop_test(tc, commit_that_fails_leaves_the_older_one, first, end);
    tcase_add_loop_test(tc, commits_in_a_row_do_not_mix, first, end);
    tcase_add_loop_test(tc, entries_grow_and_go, first, end);
    tcase_add_loop_test(tc, peers_have_it_here_or_there, first, end);
}

int main(void)
{
    Suite *suite = suite_create("device_state");
    TCase *tc = tcase_create("sound"); /* scripts/gpu-check plays it for real */
    TCase *faults = tcase_create("faults");
    const int n = ARRAY_SIZE(worlds);

    tcase_set_timeout(tc, 60);
    add_commits(tc, 0, 1);
    tcase_add_loop_test(tc, large_entry_is_whole, 0, 1);
    suite_add_tcase(suite, tc);
    tcase_set_timeout(faults, 60);
    add_commits(faults, 1, n);
    tcase_add_loop_test(faults, large_entry_is_whole, 1, 2);
    tcase_add_loop_test(faults, copy_that_leaves_no_eighth_goes_to_the_host, 0,
                        2);
    tcase_add_loop_test(faults, host_memory_of_both_snapshots_is_pinned, 0, n);
    tcase_add_test(faults, other_memory_is_refused);
    tcase_add_test(faults, memory_of_another_device_is_refused);
    tcase_add_loop_test(faults, commit_on_a_broken_device_fails, 0, n);
    tcase_add_loop_test(faults, captured_stream_is_refused, 0, n);
    tcase_add_test(faults, stream_of_each_thread_is_refused);
    suite_add_tcase(suite, faults);
    return support_run(suite);
}
