/* tests/gpu/test_device_named.c - calls by name on buffers of devices, by comms
 * of real processes with a driver and a NCCL of host memory (fake/fake.h), by
 * NCCL and staged: in any order, from any thread, beside ordered ones; losses
 * and disagreements end them with a sentence. */
#include <pthread.h>

#include "device_named.h"

enum { THREADS = 3 };

static enum on_device_way way_of_names(void)
{
    return atomic_load(&comm->names)->device.way;
}

static int any_order(enum on_device_way way)
{
    begin();
    for (int step = 0; step < STEPS; step++)
        run_step(comm, step);
    MUST(way_of_names() == way);
    end();
    return 0;
}

static int rank_posts_by_nccl(void)
{
    return any_order(ON_DEVICE_NCCL);
}

static int rank_posts_staged(void)
{
    return any_order(ON_DEVICE_STAGED);
}

static int rank_posts_alone(void)
{
    return any_order(ON_DEVICE_ALONE);
}

/* Nobody waits for the second call: a thread of the library completes it. */
static int rank_uses_its_device_late(void)
{
    int64_t one = 1, sum = 0;
    struct collective_args args = {.kind = COLLECTIVE_ALLREDUCE,
                                   .sendbuf = &one,
                                   .recvbuf = &sum,
                                   .count = 1,
                                   .dtype = HVD_INT64,
                                   .op = HVD_SUM,
                                   .name = "on the host"};
    struct hvd_request *r;
    uint64_t until_us = clock_now_us() + PATIENCE_US;

    join_ranks();
    MUST(by_name_post(comm, &args, NULL, &r) == HVD_OK);
    MUST(request_wait(r) == HVD_OK && sum == 1);
    open_device();
    allocate_buffers();
    post(comm, 0, 0, &r);
    while (!request_test(r)) {
        MUST(clock_now_us() < until_us);
        usleep(500);
    }
    MUST(request_wait(r) == HVD_OK);
    end();
    return 0;
}

static int rank_posts_groups(void)
{
    struct hvd_request *requests[2];

    begin();
    for (int step = 0; step < STEPS; step++) {
        bool turned = (me + step) % 2 == 1;

        for (int k = 0; k < 2; k++) {
            int i = turned ? 1 - k : k;

            post_group(i * 8, 8, step, i == 0 ? HVD_SUM : HVD_AVERAGE,
                       &requests[i]);
        }
        for (int i = 0; i < 2; i++)
            MUST(request_wait(requests[i]) == HVD_OK);
        look_at_group(0, 8, step, HVD_SUM, size);
        look_at_group(8, 8, step, HVD_AVERAGE, size);
    }
    end();
    return 0;
}

/* --- calls in order beside them --- */

/* Both communicators are there, and have sent nothing between two ranks yet. */
static void warm_up(void)
{
    struct collective_args args = args_of(0, name_of(0));
    struct hvd_request *r;

    MUST(by_name_post(comm, &args, NULL, &r) == HVD_OK);
    MUST(request_wait(r) == HVD_OK);
    MUST(comm_run(comm, &args) == HVD_OK);
}

/* Each rank has begun the one before the other is posted, some the other way
 * round, also the first ones, for which NCCL makes connections. */
static int rank_mixes(void)
{
    struct hvd_request *named, *other;

    begin();
    warm_up();
    for (int step = 0; step < STEPS; step++) {
        struct collective_args args = place_args(6, NULL);
        struct collective_args twin = place_args(14, name_of(14));

        MUST(args.kind == COLLECTIVE_ALLTOALL && twin.kind == args.kind);
        fill(6, step, &args);
        fill(14, step, &twin);
        if ((me + step) % 2 == 0) {
            MUST(by_name_post(comm, &twin, NULL, &named) == HVD_OK);
            usleep(20000);
            MUST(comm_post(comm, &args, &other) == HVD_OK);
            MUST(request_wait(other) == HVD_OK);
            MUST(request_wait(named) == HVD_OK);
        } else {
            MUST(comm_post(comm, &args, &other) == HVD_OK);
            usleep(3000);
            MUST(by_name_post(comm, &twin, NULL, &named) == HVD_OK);
            MUST(request_wait(named) == HVD_OK);
            MUST(request_wait(other) == HVD_OK);
        }
        look(6, step, &args);
        look(14, step, &twin);
    }
    end();
    return 0;
}

/* From several threads, each behind what it has put on a stream of its own. */
static CUstream streams[THREADS];

static void *post_some(void *arg)
{
    int first = (int)(intptr_t)arg;
    struct hvd_request *requests[NAMES];

    MUST(cuda->cuCtxPushCurrent_v2(context) == CUDA_SUCCESS);
    for (int i = first; i < NAMES; i += THREADS) {
        struct collective_args args = args_of(8 * (i % 3), name_of(i));
        size_t nbytes = args.count * sizeof(float);

        args.sendbuf = args.recvbuf = there[i];
        args.stream = streams[first];
        MUST(cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)there[i],
                                 (CUdeviceptr)(uintptr_t)(there[i] + COUNT_MAX),
                                 nbytes, streams[first]) == CUDA_SUCCESS);
        MUST(by_name_post(comm, &args, NULL, &requests[i]) == HVD_OK);
    }
    for (int i = first; i < NAMES; i += THREADS)
        MUST(request_wait(requests[i]) == HVD_OK);
    return NULL;
}

static void run_threads(int step)
{
    pthread_t threads[THREADS];

    for (int i = 0; i < NAMES; i++) {
        size_t n = count_of(8 * (i % 3));

        for (size_t k = 0; k < n; k++)
            here[k] = value(me, 8 * (i % 3), step, k);
        copy(there[i] + COUNT_MAX, here, n * sizeof(float));
    }
    for (int i = 0; i < THREADS; i++)
        MUST(pthread_create(&threads[i], NULL, post_some,
                            (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < NAMES; i++) {
        struct collective_args args = args_of(8 * (i % 3), NULL);

        args.recvbuf = there[i];
        look(8 * (i % 3), step, &args);
    }
}

static int rank_has_threads(void)
{
    begin();
    for (int i = 0; i < THREADS; i++)
        MUST(cuda->cuStreamCreateWithPriority(
                 &streams[i], CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    for (int step = 0; step < STEPS; step++)
        run_threads(step);
    for (int i = 0; i < THREADS; i++)
        MUST(cuda->cuStreamDestroy_v2(streams[i]) == CUDA_SUCCESS);
    end();
    return 0;
}

/* --- over as they are queued --- */

/* Of the first n allreduces, some of them waited for to their end. */
static void post_ordered(int n, int step, CUstream stream,
                         struct hvd_request **requests)
{
    int order[NAMES];

    shuffle(order, n, (unsigned)(1000 * me + step));
    for (int k = 0; k < n; k++) {
        int i = order[k];
        struct collective_args args = args_of(8 * (i % 3), name_of(i));

        put(i, step, args.count);
        args.sendbuf = args.recvbuf = there[i];
        args.stream = stream;
        args.ordered = i % 7 != 6;
        MUST(by_name_post(comm, &args, NULL, &requests[i]) == HVD_OK);
    }
}

static void finish(CUstream stream)
{
    CUevent event;
    CUresult result;

    MUST(cuda->cuEventCreate(&event, 0) == CUDA_SUCCESS);
    MUST(cuda->cuEventRecord(event, stream) == CUDA_SUCCESS);
    while ((result = cuda->cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
        usleep(100);
    MUST(result == CUDA_SUCCESS);
    MUST(cuda->cuEventDestroy_v2(event) == CUDA_SUCCESS);
}

/* What comes on the stream behind hvd_wait waits for the result. */
static int rank_queues(void)
{
    struct hvd_request *requests[NAMES];
    CUstream stream;

    begin();
    MUST(cuda->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) ==
         CUDA_SUCCESS);
    for (int step = 0; step < STEPS; step++) {
        post_ordered(NAMES, step, stream, requests);
        for (int i = 0; i < NAMES; i++) {
            size_t n = count_of(8 * (i % 3));
            float *to = there[i] + COUNT_MAX;

            MUST(request_wait(requests[i]) == HVD_OK);
            MUST(cuda->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to,
                                     (CUdeviceptr)(uintptr_t)there[i],
                                     n * sizeof(float),
                                     stream) == CUDA_SUCCESS);
        }
        finish(stream);
        MUST(comm_confirm(comm) == HVD_OK);
        for (int i = 0; i < NAMES; i++) {
            struct collective_args args = args_of(8 * (i % 3), NULL);

            copy(here, there[i] + COUNT_MAX, args.count * sizeof(float));
            for (size_t k = 0; k < args.count; k++)
                MUST(is_near(here[k], sum_of(i, step, k)));
        }
    }
    MUST(cuda->cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
    end();
    return 0;
}

/* The last rank goes when they are queued: the stream goes on, and nothing is
 * believed. */
static int rank_loses_a_peer_behind(void)
{
    struct hvd_request *requests[NAMES];

    begin();
    run_step(comm, 0);
    MUST(comm_confirm(comm) == HVD_OK);
    post_ordered(6, 1, NULL, requests);
    for (int i = 0; i < 6; i++) {
        hvd_status_t status = request_wait(requests[i]);

        MUST(status == HVD_OK || status == HVD_PEER_LOST);
    }
    if (me == size - 1)
        raise(SIGKILL);
    MUST(comm_confirm(comm) == HVD_PEER_LOST);
    comm_leave(comm, COMM_LEAVE_ABORT, 0);
    end();
    return 0;
}

/* --- what NCCL has not --- */

/* Behind a call on the host, of the same values: the same bits. */
static void run_both(struct collective_args args, bool named)
{
    size_t nbytes = args.count * sizeof(float);
    float *twin = malloc(nbytes);
    struct hvd_request *r;

    for (size_t k = 0; k < args.count; k++)
        twin[k] = value(me, 1, 1, k) / 3;
    copy(there[0], twin, nbytes);
    args.name = "twin";
    args.sendbuf = args.recvbuf = there[0];
    args.memory = HVD_MEMORY_DEVICE;
    MUST((named ? by_name_post(comm, &args, NULL, &r)
                : comm_post(comm, &args, &r)) == HVD_OK);
    MUST(request_wait(r) == HVD_OK);
    args.sendbuf = args.recvbuf = twin;
    args.memory = HVD_MEMORY_HOST;
    MUST(comm_post(comm, &args, &r) == HVD_OK);
    MUST(request_wait(r) == HVD_OK);
    copy(here, there[0], nbytes);
    MUST(memcmp(here, twin, nbytes) == 0);
    free(twin);
}

static int rank_stages_always(void)
{
    struct collective_args args;

    begin();
    args = args_of(0, NULL);
    for (int i = 0; i < 2; i++) {
        args.op = HVD_ADASUM;
        run_both(args, i == 1);
        args.op = HVD_AVERAGE;
        args.wire_dtype = HVD_BFLOAT16;
        args.scaled = true;
        args.prescale = 2;
        args.postscale = 1;
        run_both(args, i == 1);
        args.wire_dtype = HVD_FLOAT16;
        run_both(args, i == 1);
        args.wire_dtype = HVD_DTYPE_SAME;
        args.scaled = false;
    }
    end();
    return 0;
}

static void refuse(struct collective_args args, const char *words)
{
    struct hvd_request *r;

    args.name = "no";
    MUST(by_name_post(comm, &args, NULL, &r) == HVD_ERR_UNSUPPORTED);
    MUST(strstr(error_text(), words) != NULL);
}

static int rank_is_refused(void)
{
    struct collective_args args;

    begin();
    args = args_of(0, NULL);
    args.dtype = HVD_INT32;
    args.op = HVD_AVERAGE;
    refuse(args, "average of integers");
    args = args_of(6, NULL);
    refuse(args, "in place");
    run_step(comm, 0);
    end();
    return 0;
}

/* --- what goes wrong --- */

static int rank_is_elsewhere(void)
{
    struct collective_args args;
    struct hvd_request *r;

    begin();
    args = args_of(0, "elsewhere");
    if (me == 1) {
        args.sendbuf = args.recvbuf = here;
        args.memory = HVD_MEMORY_HOST;
        memset(here, 0, args.count * sizeof(float));
    }
    MUST(by_name_post(comm, &args, NULL, &r) == HVD_OK);
    MUST(request_wait(r) == HVD_ERR_MISMATCH);
    MUST(strstr(error_text(), "on a device") != NULL);
    run_step(comm, 0);
    end();
    return 0;
}

/* The last rank is killed between two that it has posted: the rest of them
 * fails, and nothing is written to their buffers from then on. */
static int rank_loses_a_peer(void)
{
    struct hvd_request *requests[NAMES];
    size_t nbytes = (size_t)size * COUNT_MAX * sizeof(float);
    float *later = malloc(nbytes);
    int n_failed = 0, n = 0;

    begin();
    run_step(comm, 0);
    for (; n < NAMES; n++) {
        struct collective_args args = place_args(n, name_of(n));

        if (me == size - 1 && n == NAMES / 2)
            raise(SIGKILL);
        fill(n, 1, &args);
        if (by_name_post(comm, &args, NULL, &requests[n]) != HVD_OK)
            break;
    }
    MUST(n == NAMES || comm_status(comm, NULL) == HVD_PEER_LOST);
    for (int i = 0; i < n; i++) {
        hvd_status_t status = request_wait(requests[i]);

        MUST(status == HVD_OK || status == HVD_PEER_LOST);
        n_failed += status != HVD_OK;
    }
    MUST(n_failed >= n - NAMES / 2);
    copy(here, there[NAMES - 1], nbytes);
    comm_leave(comm, COMM_LEAVE_ABORT, 0);
    copy(later, there[NAMES - 1], nbytes);
    MUST(memcmp(here, later, nbytes) == 0);
    free(later);
    end();
    return 0;
}

/* ... while they make their communicator. */
static int rank_loses_a_peer_first(void)
{
    struct hvd_request *r;

    begin();
    post(comm, 0, 0, &r);
    if (me == size - 1) {
        while (atomic_load(&comm->names)->device.communicator == NULL)
            usleep(100);
        raise(SIGKILL);
    }
    MUST(request_wait(r) == HVD_PEER_LOST);
    end();
    return 0;
}

/* --- the ranks --- */

static const char *const silent[RANKS] = {"silent=1", "silent=1", "silent=1"};
static const char *const failed[RANKS] = {"", "init_fail=1", ""};
static const char *const hanging[RANKS] = {"init_hang_ms=60", "init_hang_ms=60",
                                           "init_hang_ms=60"};

START_TEST(any_order_by_nccl)
{
    play(RANKS, rank_posts_by_nccl, worlds[_i], -1);
}
END_TEST

START_TEST(any_order_staged)
{
    play(RANKS, rank_posts_staged, _i == 0 ? staged : failed, -1);
}
END_TEST

START_TEST(any_order_alone)
{
    play(1, rank_posts_alone, sound, -1);
}
END_TEST

START_TEST(device_is_used_after_a_call_by_name)
{
    play(1, rank_uses_its_device_late, sound, -1);
}
END_TEST

START_TEST(groups_by_name)
{
    play(RANKS, rank_posts_groups, worlds[_i], -1);
}
END_TEST

START_TEST(beside_calls_in_order)
{
    play(RANKS, rank_mixes, worlds[_i], -1);
}
END_TEST

START_TEST(from_several_threads)
{
    play(RANKS, rank_has_threads, worlds[_i], -1);
}
END_TEST

START_TEST(queued_ones_are_confirmed)
{
    play(RANKS, rank_queues, worlds[_i], -1);
}
END_TEST

START_TEST(what_nccl_has_not_is_staged)
{
    play(RANKS, rank_stages_always, worlds[_i], -1);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    play(RANKS, rank_is_refused, worlds[_i], -1);
}
END_TEST

START_TEST(buffers_elsewhere_are_named)
{
    play(RANKS, rank_is_elsewhere, worlds[_i], -1);
}
END_TEST

static const char *const *const losses[] = {sound, slow, silent, staged};

START_TEST(killed_peer_ends_them)
{
    play(RANKS, rank_loses_a_peer, losses[_i], RANKS - 1);
}
END_TEST

START_TEST(killed_peer_ends_what_is_queued)
{
    play(RANKS, rank_loses_a_peer_behind, worlds[_i], RANKS - 1);
}
END_TEST

START_TEST(killed_peer_ends_the_meeting)
{
    play(RANKS, rank_loses_a_peer_first, hanging, RANKS - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_named");
    TCase *tc = tcase_create("sound"); /* scripts/gpu-check plays it for real */
    TCase *faults = tcase_create("faults");

    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, any_order_by_nccl, 0, 1);
    tcase_add_test(tc, any_order_alone);
    tcase_add_test(tc, device_is_used_after_a_call_by_name);
    tcase_add_loop_test(tc, groups_by_name, 0, 1);
    tcase_add_loop_test(tc, beside_calls_in_order, 0, 1);
    tcase_add_loop_test(tc, from_several_threads, 0, 1);
    tcase_add_loop_test(tc, queued_ones_are_confirmed, 0, 1);
    tcase_add_loop_test(tc, what_nccl_has_not_is_staged, 0, 1);
    tcase_add_loop_test(tc, what_cannot_be_is_refused, 0, 1);
    tcase_add_loop_test(tc, buffers_elsewhere_are_named, 0, 1);
    tcase_add_loop_test(tc, killed_peer_ends_them, 0, 1);
    tcase_add_loop_test(tc, killed_peer_ends_what_is_queued, 0, 1);
    suite_add_tcase(suite, tc);
    tcase_set_timeout(faults, 100);
    tcase_add_loop_test(faults, any_order_by_nccl, 1, 2);
    tcase_add_loop_test(faults, any_order_staged, 0, 2);
    tcase_add_loop_test(faults, groups_by_name, 1, 3);
    tcase_add_loop_test(faults, beside_calls_in_order, 1, 3);
    tcase_add_loop_test(faults, from_several_threads, 1, 3);
    tcase_add_loop_test(faults, queued_ones_are_confirmed, 1, 3);
    tcase_add_loop_test(faults, what_nccl_has_not_is_staged, 1, 3);
    tcase_add_loop_test(faults, buffers_elsewhere_are_named, 1, 3);
    tcase_add_loop_test(faults, killed_peer_ends_them, 1, 4);
    tcase_add_loop_test(faults, killed_peer_ends_what_is_queued, 1, 3);
    tcase_add_test(faults, killed_peer_ends_the_meeting);
    suite_add_tcase(suite, faults);
    return support_run(suite);
}
