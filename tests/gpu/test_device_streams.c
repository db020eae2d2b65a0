/* tests/gpu/test_device_streams.c - a call with buffers on devices and the
 * stream of the program: when it begins, when it is over, and what is refused.
 * By comms of real processes with a driver and a NCCL of host memory
 * (fake/fake.h), by NCCL, staged, and alone. */
#include "collectives/on_device.h"
#include "device_rank.h"

enum { COUNT = 1000, NBYTES = COUNT * sizeof(float) };

static CUstream make_stream(void)
{
    CUstream stream;

    MUST(cuda->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) ==
         CUDA_SUCCESS);
    return stream;
}

static void free_stream(CUstream stream)
{
    MUST(cuda->cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
}

static void release(void *ptr)
{
    MUST(cuda->cuMemFree_v2((CUdeviceptr)(uintptr_t)ptr) == CUDA_SUCCESS);
}

/* [COUNT] of value */
static float *make_buffer(float value)
{
    float here[COUNT], *buffer = allocate(NBYTES);

    for (int i = 0; i < COUNT; i++)
        here[i] = value;
    copy(buffer, here, NBYTES);
    return buffer;
}

static void assert_is(const float *buffer, float value)
{
    float here[COUNT];

    copy(here, buffer, NBYTES);
    for (int i = 0; i < COUNT; i++)
        MUST(here[i] == value);
}

static float sum_of_ranks(void)
{
    return (float)(size * (size + 1) / 2);
}

static struct collective_args allreduce_of(float *buffer, CUstream stream)
{
    return (struct collective_args){.kind = COLLECTIVE_ALLREDUCE,
                                    .sendbuf = buffer,
                                    .recvbuf = buffer,
                                    .count = COUNT,
                                    .dtype = HVD_FLOAT32,
                                    .op = HVD_SUM,
                                    .memory = HVD_MEMORY_DEVICE,
                                    .stream = stream};
}

/* --- when it begins --- */

/* The buffer is written late, and twenty times: last with this. */
static void write_late(float *buffer, const float *wrong, const float *right,
                       CUstream stream)
{
    enum { TIMES = 20 };

    for (int i = 1; i <= TIMES; i++)
        MUST(cuda->cuMemcpyAsync(
                 (CUdeviceptr)(uintptr_t)buffer,
                 (CUdeviceptr)(uintptr_t)(i == TIMES ? right : wrong), NBYTES,
                 stream) == CUDA_SUCCESS);
}

static void run_or_queue(const struct collective_args *args, bool queue)
{
    struct hvd_request *request;

    if (!queue) {
        MUST(comm_run(comm, args) == HVD_OK);
        return;
    }
    MUST(comm_post(comm, args, &request) == HVD_OK);
    MUST(request_wait(request) == HVD_OK);
}

/* The first call of a comm meets, and takes longer. */
static int begin_behind(enum on_device_way way)
{
    float *buffer, *wrong, *right;
    struct collective_args args;
    CUstream stream;

    join();
    buffer = make_buffer(0);
    wrong = make_buffer(-1);
    right = make_buffer((float)(me + 1));
    stream = make_stream();
    args = allreduce_of(buffer, stream);
    for (int i = 0; i < 3; i++) {
        write_late(buffer, wrong, right, stream);
        run_or_queue(&args, i == 1);
        assert_is(buffer, sum_of_ranks());
    }
    MUST(comm->device.way == way);
    free_stream(stream);
    release(buffer);
    release(wrong);
    release(right);
    part();
    return 0;
}

static int rank_begins_by_nccl(void)
{
    return begin_behind(ON_DEVICE_NCCL);
}

static int rank_begins_staged(void)
{
    return begin_behind(ON_DEVICE_STAGED);
}

static int rank_begins_alone(void)
{
    return begin_behind(ON_DEVICE_ALONE);
}

/* --- when it is over --- */

/* As they are queued; a drain, which a commit begins with, waits for all. The
 * stream is not that of copy(), which waits for nothing. */
static int rank_drains(void)
{
    struct hvd_request *request;
    struct collective_args args;
    CUstream stream;
    float *buffer;

    join();
    buffer = make_buffer((float)(me + 1));
    stream = make_stream();
    args = allreduce_of(buffer, stream);
    args.op = HVD_MAX;
    args.ordered = true;
    for (int i = 0; i < 20; i++) {
        MUST(comm_post(comm, &args, &request) == HVD_OK);
        MUST(request_wait(request) == HVD_OK);
    }
    MUST(comm_drain(comm) == HVD_OK);
    assert_is(buffer, (float)size);
    free_stream(stream);
    release(buffer);
    part();
    return 0;
}

/* --- without buffers --- */

/* Rank 1 has nothing to send, and nothing to receive. */
static int rank_has_nothing(void)
{
    size_t counts[RANKS], displs[RANKS];
    float *send, *recv;
    bool none = me == 1;
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALLV,
                                   .dtype = HVD_FLOAT32,
                                   .sendcounts = counts,
                                   .recvcounts = counts,
                                   .sdispls = displs,
                                   .rdispls = displs,
                                   .memory = HVD_MEMORY_DEVICE};

    join();
    for (int i = 0; i < size; i++) {
        counts[i] = none || i == 1 ? 0 : COUNT / 2;
        displs[i] = i == 2 ? COUNT / 2 : 0;
    }
    send = make_buffer((float)me);
    recv = make_buffer(-1);
    args.sendbuf = none ? NULL : send;
    args.recvbuf = none ? NULL : recv;
    for (int i = 0; i < 2; i++) {
        float here[COUNT];

        MUST(comm_run(comm, &args) == HVD_OK);
        copy(here, recv, NBYTES);
        MUST(here[0] == (none ? -1 : 0) && here[COUNT - 1] == (none ? -1 : 2));
    }
    release(send);
    release(recv);
    part();
    return 0;
}

/* --- what is refused, on every rank alike: the world goes on --- */

static void assert_refused(const struct collective_args *args,
                           const char *words)
{
    struct hvd_request *request;

    MUST(comm_run(comm, args) == HVD_ERR_UNSUPPORTED);
    MUST(strstr(error_text(), words) != NULL);
    MUST(comm_post(comm, args, &request) == HVD_ERR_UNSUPPORTED);
    MUST(strstr(error_text(), words) != NULL);
}

static void refuse_streams(float *buffer)
{
    struct collective_args args = allreduce_of(buffer, CU_STREAM_PER_THREAD);
    CUstream stream = make_stream();

    args.ordered = true;
    assert_refused(&args, "CU_STREAM_PER_THREAD");
    args.stream = stream;
    capture(stream, true);
    assert_refused(&args, "is being captured");
    args.ordered = false;
    assert_refused(&args, "is being captured");
    capture(stream, false);
    MUST(comm_run(comm, &args) == HVD_OK);
    free_stream(stream);
}

/* NCCL lacks two calls, which are staged where all are. */
static int refuse(bool by_nccl)
{
    struct collective_args in_place, mean;
    float *buffer;

    join();
    buffer = make_buffer(0);
    in_place = mean = allreduce_of(buffer, NULL);
    in_place.kind = COLLECTIVE_ALLTOALL;
    in_place.count = 10;
    mean.dtype = HVD_INT32;
    mean.op = HVD_AVERAGE;
    if (by_nccl) {
        assert_refused(&in_place, "NCCL has none in place");
        assert_refused(&mean, "average of integers");
    } else {
        MUST(comm_run(comm, &in_place) == HVD_OK);
        MUST(comm_run(comm, &mean) == HVD_OK);
    }
    refuse_streams(buffer);
    release(buffer);
    part();
    return 0;
}

static int rank_is_refused_by_nccl(void)
{
    return refuse(true);
}

static int rank_is_refused_staged(void)
{
    return refuse(false);
}

/* --- the ranks --- */

static const char *const sound[RANKS] = {"", "", ""};
static const char *const staged[RANKS] = {"", "uuid=0", ""};
static const char *const late[RANKS] = {"late_us=500", "late_us=500",
                                        "late_us=500"};
static const char *const late_staged[RANKS] = {
    "late_us=500", "late_us=500 uuid=0", "late_us=500"};

START_TEST(call_begins_behind_its_stream)
{
    play(RANKS, _i == 0 ? rank_begins_by_nccl : rank_begins_staged,
         _i == 0 ? late : late_staged, -1);
}
END_TEST

START_TEST(call_begins_behind_its_stream_alone)
{
    play(1, rank_begins_alone, late, -1);
}
END_TEST

START_TEST(queued_calls_are_over_behind_a_drain)
{
    play(RANKS, rank_drains, _i == 0 ? sound : late, -1);
}
END_TEST

START_TEST(rank_without_buffers_says_where_they_are)
{
    play(RANKS, rank_has_nothing, _i == 0 ? sound : staged, -1);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    play(RANKS, _i == 0 ? rank_is_refused_by_nccl : rank_is_refused_staged,
         _i == 0 ? sound : staged, -1);
}
END_TEST

START_TEST(what_cannot_be_is_refused_alone)
{
    play(1, rank_is_refused_staged, sound, -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_streams");
    TCase *tc = tcase_create("sound"); /* scripts/gpu-check plays it for real */
    TCase *faults = tcase_create("faults");

    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, call_begins_behind_its_stream, 0, 1);
    tcase_add_test(tc, call_begins_behind_its_stream_alone);
    tcase_add_loop_test(tc, queued_calls_are_over_behind_a_drain, 0, 1);
    tcase_add_loop_test(tc, rank_without_buffers_says_where_they_are, 0, 1);
    tcase_add_loop_test(tc, what_cannot_be_is_refused, 0, 1);
    tcase_add_test(tc, what_cannot_be_is_refused_alone);
    suite_add_tcase(suite, tc);
    tcase_set_timeout(faults, 100);
    tcase_add_loop_test(faults, call_begins_behind_its_stream, 1, 2);
    tcase_add_loop_test(faults, queued_calls_are_over_behind_a_drain, 1, 2);
    tcase_add_loop_test(faults, rank_without_buffers_says_where_they_are, 1, 2);
    tcase_add_loop_test(faults, what_cannot_be_is_refused, 1, 2);
    suite_add_tcase(suite, faults);
    return support_run(suite);
}
