/* tests/gpu/test_on_device.c - collectives on buffers of devices, by comms of
 * real processes with a driver and a NCCL of host memory (fake/fake.h): each
 * kind by NCCL and staged gives what it gives on the host; losses and
 * disagreements end it with a sentence. */
#include "base/array.h"
#include "collectives/on_device.h"
#include "device_rank.h"

enum { COUNT = 1000, BYTES = 64 << 10 };

/* --- each kind, there and here --- */

struct buffers {
    float *here_send, *here_recv; /* [BYTES] */
    float *send, *recv;           /* of the device */
};

static struct buffers make_buffers(void)
{
    struct buffers b = {calloc(1, BYTES), calloc(1, BYTES), allocate(BYTES),
                        allocate(BYTES)};

    for (size_t i = 0; i < BYTES / sizeof(float); i++) {
        b.here_send[i] = (float)(me * 7 + (int)(i % 13) - 5);
        b.here_recv[i] = (float)(-1 - (int)(i % 3));
    }
    copy(b.send, b.here_send, BYTES);
    copy(b.recv, b.here_recv, BYTES);
    return b;
}

static void free_buffers(struct buffers *b)
{
    free(b->here_send);
    free(b->here_recv);
    MUST(cuda->cuMemFree_v2((CUdeviceptr)(uintptr_t)b->send) == CUDA_SUCCESS);
    MUST(cuda->cuMemFree_v2((CUdeviceptr)(uintptr_t)b->recv) == CUDA_SUCCESS);
}

/* Does the device have what the host has? */
static void compare(const struct buffers *b)
{
    float *there = malloc(BYTES);

    copy(there, b->recv, BYTES);
    for (size_t i = 0; i < BYTES / sizeof(float); i++)
        if (there[i] != b->here_recv[i]) {
            fprintf(stderr, "rank %d: element %zu is %g, not %g\n", me, i,
                    (double)there[i], (double)b->here_recv[i]);
            _exit(1);
        }
    copy(there, b->send, BYTES);
    MUST(memcmp(there, b->here_send, BYTES) == 0);
    free(there);
}

static const struct {
    enum collective_kind kind;
    hvd_op_t op;
    int root;
    bool in_place;
} calls[] = {
    {COLLECTIVE_ALLREDUCE, HVD_SUM, 0, false},
    {COLLECTIVE_ALLREDUCE, HVD_SUM, 0, true},
    {COLLECTIVE_ALLREDUCE, HVD_MAX, 0, true},
    {COLLECTIVE_BROADCAST, HVD_SUM, 1, true},
    {COLLECTIVE_ALLGATHER, HVD_SUM, 0, false},
    {COLLECTIVE_ALLGATHER, HVD_SUM, 0, true},
    {COLLECTIVE_REDUCE_SCATTER, HVD_SUM, 0, false},
    {COLLECTIVE_REDUCE_SCATTER, HVD_MIN, 0, false},
    {COLLECTIVE_ALLTOALL, HVD_SUM, 0, false},
    {COLLECTIVE_ALLGATHERV, HVD_SUM, 0, false},
    {COLLECTIVE_ALLTOALLV, HVD_SUM, 0, false},
};

static size_t sendcounts[RANKS], recvcounts[RANKS], displs[RANKS];

/* Rank i has i + 2 for each (allgatherv), or i sends k (i + 1) (k + 2). */
static void fill_counts(enum collective_kind kind)
{
    for (int i = 0; i < size; i++) {
        bool gather = kind == COLLECTIVE_ALLGATHERV;

        sendcounts[i] = (size_t)((me + 1) * (i + 2));
        recvcounts[i] = (size_t)(gather ? i + 2 : (i + 1) * (me + 2));
        displs[i] = (size_t)i * 40;
    }
}

static struct collective_args args_of(size_t i, float *send, float *recv)
{
    enum collective_kind kind = calls[i].kind;
    struct collective_args args = {.kind = kind,
                                   .sendbuf = calls[i].in_place ? recv : send,
                                   .recvbuf = recv,
                                   .count = COUNT,
                                   .dtype = HVD_FLOAT32,
                                   .op = calls[i].op,
                                   .root = calls[i].root % size};

    if (kind == COLLECTIVE_ALLGATHER && calls[i].in_place)
        args.sendbuf = recv + me * COUNT;
    if (kind == COLLECTIVE_ALLGATHERV)
        args.count = (size_t)me + 2;
    fill_counts(kind);
    args.sendcounts = sendcounts;
    args.recvcounts = recvcounts;
    args.sdispls = args.rdispls = displs;
    return args;
}

static void run_both(size_t i)
{
    struct buffers b = make_buffers();
    struct collective_args args = args_of(i, b.here_send, b.here_recv);

    args.memory = HVD_MEMORY_HOST;
    MUST(comm_run(comm, &args) == HVD_OK);
    args = args_of(i, b.send, b.recv);
    args.memory = HVD_MEMORY_DEVICE;
    MUST(comm_run(comm, &args) == HVD_OK);
    compare(&b);
    free_buffers(&b);
}

static int all_kinds(enum on_device_way way)
{
    join();
    for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
        run_both(i);
    MUST(comm->device.way == way);
    part();
    return 0;
}

static int rank_runs_all_by_nccl(void)
{
    return all_kinds(ON_DEVICE_NCCL);
}

static int rank_runs_all_staged(void)
{
    return all_kinds(ON_DEVICE_STAGED);
}

static int rank_runs_all_alone(void)
{
    return all_kinds(ON_DEVICE_ALONE);
}

/* Posted, grouped, scaled; with calls on the host between. */
static int rank_posts(void)
{
    struct buffers b;
    const void *sends[3];
    void *recvs[3];
    size_t counts[] = {10, 0, 2000};
    struct comm_group group = {3, sends, recvs, counts};
    struct collective_args args = {
        .kind = COLLECTIVE_ALLREDUCE, .dtype = HVD_FLOAT32, .op = HVD_AVERAGE};
    struct hvd_request *requests[4];

    join();
    b = make_buffers();
    args.memory = HVD_MEMORY_DEVICE;
    for (int i = 0; i < 3; i++)
        sends[i] = recvs[i] = b.recv + 3000 * i;
    MUST(comm_post_group(comm, &args, &group, &requests[0]) == HVD_OK);
    args.sendbuf = args.recvbuf = b.recv + 12000;
    args.count = COUNT;
    args.scaled = true;
    args.prescale = 2;
    args.postscale = 4;
    MUST(comm_post(comm, &args, &requests[1]) == HVD_OK);
    args.memory = HVD_MEMORY_HOST;
    args.sendbuf = args.recvbuf = NULL;
    args.count = 0;
    args.scaled = false;
    for (int i = 0; i < 3; i++)
        sends[i] = recvs[i] = b.here_recv + 3000 * i;
    MUST(comm_post_group(comm, &args, &group, &requests[2]) == HVD_OK);
    args.sendbuf = args.recvbuf = b.here_recv + 12000;
    args.count = COUNT;
    args.scaled = true;
    args.prescale = 2;
    args.postscale = 4;
    MUST(comm_post(comm, &args, &requests[3]) == HVD_OK);
    for (int i = 3; i >= 0; i--)
        MUST(request_wait(requests[i]) == HVD_OK);
    compare(&b);
    free_buffers(&b);
    part();
    return 0;
}

static struct collective_args allreduce_of(float *buffer)
{
    return (struct collective_args){.kind = COLLECTIVE_ALLREDUCE,
                                    .sendbuf = buffer,
                                    .recvbuf = buffer,
                                    .count = COUNT,
                                    .dtype = HVD_FLOAT32,
                                    .memory = HVD_MEMORY_DEVICE};
}

static struct collective_args ordered_of(float *buffer, hvd_op_t op,
                                         CUstream stream)
{
    struct collective_args args = allreduce_of(buffer);

    args.op = op;
    args.stream = stream;
    args.ordered = true;
    return args;
}

/* Over as they are queued, sixty of them; then all of them are. */
static int rank_queues(void)
{
    struct collective_args args;
    struct buffers b;
    struct hvd_request *request;

    join();
    b = make_buffers();
    args = ordered_of(b.recv, HVD_MAX, NULL);
    for (int i = 0; i < 60; i++) {
        MUST(comm_post(comm, &args, &request) == HVD_OK);
        MUST(request_wait(request) == HVD_OK);
    }
    MUST(comm_confirm(comm) == HVD_OK);
    args.sendbuf = args.recvbuf = b.here_recv;
    args.memory = HVD_MEMORY_HOST;
    MUST(comm_run(comm, &args) == HVD_OK);
    compare(&b);
    free_buffers(&b);
    part();
    return 0;
}

/* Each adds up what the one before has left, which is on another stream. */
static void add_up(struct collective_args *args, CUstream next, bool block)
{
    struct hvd_request *request;
    const void *sends[] = {args->sendbuf, (const float *)args->sendbuf + COUNT};
    void *recvs[] = {args->recvbuf, (float *)args->recvbuf + COUNT};
    size_t counts[] = {COUNT, COUNT};
    struct comm_group group = {2, sends, recvs, counts};

    MUST(comm_post(comm, args, &request) == HVD_OK);
    MUST(request_wait(request) == HVD_OK);
    args->stream = next;
    MUST(comm_post_group(comm, args, &group, &request) == HVD_OK);
    MUST(request_wait(request) == HVD_OK);
    args->ordered = false;
    if (block)
        MUST(comm_run(comm, args) == HVD_OK);
}

/* On streams by turns, some of the program's, which wait for nothing else. */
static int rank_changes_streams(void)
{
    struct collective_args args;
    CUstream streams[3] = {NULL};
    struct buffers b;

    join();
    b = make_buffers();
    for (int i = 1; i < 3; i++)
        MUST(cuda->cuStreamCreateWithPriority(
                 &streams[i], CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    for (int i = 0; i < 9; i++) {
        args = ordered_of(b.recv, HVD_SUM, streams[i % 3]);
        add_up(&args, streams[(i + 1) % 3], i % 4 == 3);
        args = ordered_of(b.here_recv, HVD_SUM, NULL);
        args.memory = HVD_MEMORY_HOST;
        add_up(&args, NULL, i % 4 == 3);
    }
    MUST(comm_confirm(comm) == HVD_OK);
    for (int i = 1; i < 3; i++)
        MUST(cuda->cuStreamDestroy_v2(streams[i]) == CUDA_SUCCESS);
    compare(&b);
    free_buffers(&b);
    part();
    return 0;
}

/* Nobody waits: the thread goes on with the first as more is posted, and with
 * the last as it is asked for. */
static int rank_asks(void)
{
    struct collective_args args;
    struct hvd_request *requests[3];
    struct buffers b;

    join();
    b = make_buffers();
    args = ordered_of(b.recv, HVD_MAX, NULL);
    for (int i = 0; i < 3; i++) {
        int n = i < 2 ? 2 : 1;

        for (int k = 0; k < n; k++)
            MUST(comm_post(comm, &args, &requests[k]) == HVD_OK);
        for (uint64_t end_us = clock_now_us() + PATIENCE_US;
             n == 2 ? !request_done(requests[0]) : !request_test(requests[0]);)
            MUST(clock_now_us() < end_us);
        for (int k = 0; k < n; k++)
            MUST(request_wait(requests[k]) == HVD_OK);
    }
    MUST(comm_confirm(comm) == HVD_OK);
    free_buffers(&b);
    part();
    return 0;
}

/* --- what goes wrong --- */

/* The last rank is killed before the third: connections tell. */
static int rank_loses_a_peer(void)
{
    struct collective_args args;
    struct buffers b;

    join();
    b = make_buffers();
    args = allreduce_of(b.recv);
    for (int i = 0; i < 2; i++)
        MUST(comm_run(comm, &args) == HVD_OK);
    atomic_fetch_add(&shared->n_there, 1);
    await(&shared->n_there, 2 * size);
    if (me == size - 1)
        raise(SIGKILL);
    MUST(comm_run(comm, &args) == HVD_PEER_LOST);
    MUST(comm_run(comm, &args) == HVD_PEER_LOST);
    free_buffers(&b);
    part();
    return 0;
}

/* The same, of calls that are over as they are queued: what is on the stream of
 * the program comes to its end, and is not believed. */
static int lose_behind(hvd_status_t (*settle)(struct comm *))
{
    struct collective_args args;
    struct hvd_request *request = NULL;
    struct buffers b;
    CUstream stream;
    hvd_status_t status = HVD_OK;

    join();
    b = make_buffers();
    MUST(cuda->cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) ==
         CUDA_SUCCESS);
    args = ordered_of(b.recv, HVD_MAX, stream);
    MUST(comm_post(comm, &args, &request) == HVD_OK);
    MUST(request_wait(request) == HVD_OK);
    MUST(comm_confirm(comm) == HVD_OK);
    atomic_fetch_add(&shared->n_there, 1);
    await(&shared->n_there, 2 * size);
    if (me == size - 1)
        raise(SIGKILL);
    for (int i = 0; i < 40 && status == HVD_OK; i++) {
        status = comm_post(comm, &args, &request);
        if (status == HVD_OK)
            status = request_wait(request);
    }
    MUST(status == HVD_OK || status == HVD_PEER_LOST);
    MUST(settle(comm) == HVD_PEER_LOST);
    on_device_silence(comm);
    MUST(communicator_silence(comm->device.communicator));
    MUST(cuda->cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
    free_buffers(&b);
    part();
    return 0;
}

static int rank_loses_a_peer_behind(void)
{
    return lose_behind(comm_confirm);
}

/* As a commit does. */
static int rank_drains_behind_a_loss(void)
{
    return lose_behind(comm_drain);
}

static int rank_differs(void)
{
    struct collective_args args;
    struct buffers b;

    join();
    b = make_buffers();
    args = allreduce_of(b.recv);
    MUST(comm_run(comm, &args) == HVD_OK);
    if (me == 1) {
        args.kind = COLLECTIVE_BARRIER;
        args.memory = HVD_MEMORY_HOST;
    }
    MUST(comm_run(comm, &args) == HVD_ERR_MISMATCH);
    MUST(strstr(error_text(), "calls barrier") != NULL);
    free_buffers(&b);
    part();
    return 0;
}

/* One has its buffer on the host. */
static int rank_is_elsewhere(void)
{
    struct collective_args args;
    struct buffers b;

    join();
    b = make_buffers();
    args = allreduce_of(b.recv);
    MUST(comm_run(comm, &args) == HVD_OK);
    if (me == 1) {
        args = allreduce_of(b.here_recv);
        args.memory = HVD_MEMORY_HOST;
    }
    MUST(comm_run(comm, &args) == HVD_ERR_MISMATCH);
    MUST(strstr(error_text(), "on a device") != NULL);
    free_buffers(&b);
    part();
    return 0;
}

/* --- the ranks --- */

static const char *const sound[RANKS] = {"", "", ""};
static const char *const slow[RANKS] = {"late_us=1000 enqueue_us=2000",
                                        "revoke=0", "late_us=0 enqueue_us=0"};
static const char *const silent[RANKS] = {"silent=1", "silent=1", "silent=1"};
static const char *const one_device[RANKS] = {"uuid=0", "uuid=0", "uuid=0"};

/* Each makes all stage. */
static const char *const staged[][RANKS] = {
    {"", "uuid=0", ""},
    {"", "", "version=22705"},
    {"", "version=23003", ""},
    {"", "init_fail=1", ""},
};

START_TEST(every_kind_by_nccl)
{
    play(RANKS, rank_runs_all_by_nccl, _i == 0 ? sound : slow, -1);
}
END_TEST

START_TEST(every_kind_staged)
{
    play(RANKS, rank_runs_all_staged, staged[_i], -1);
}
END_TEST

/* NCCL takes them if they seem to be on hosts of their own, and all have to
 * want it. */
START_TEST(one_device_is_shared_if_told)
{
    setenv("HVD_DEVICE_SHARED", "1", 1);
    one_host = _i == 1;
    apart = _i == 2 ? 1 : -1;
    play(RANKS, _i == 0 ? rank_runs_all_by_nccl : rank_runs_all_staged,
         one_device, -1);
    one_host = false;
    apart = -1;
    unsetenv("HVD_DEVICE_SHARED");
}
END_TEST

START_TEST(every_kind_alone)
{
    play(1, rank_runs_all_alone, sound, -1);
}
END_TEST

START_TEST(posted_calls_and_groups)
{
    play(RANKS, rank_posts, _i == 0 ? sound : staged[_i - 1], -1);
}
END_TEST

START_TEST(posted_calls_and_groups_alone)
{
    play(1, rank_posts, sound, -1);
}
END_TEST

START_TEST(queued_calls_are_confirmed)
{
    play(RANKS, rank_queues, _i == 0 ? sound : slow, -1);
}
END_TEST

START_TEST(streams_by_turns)
{
    play(RANKS, rank_changes_streams, _i == 0 ? sound : slow, -1);
}
END_TEST

START_TEST(queued_calls_need_nobody_who_waits)
{
    play(RANKS, rank_asks, _i == 0 ? sound : slow, -1);
}
END_TEST

static const char *const *const worlds[] = {sound, slow, silent};

START_TEST(killed_peer_ends_it)
{
    play(RANKS, rank_loses_a_peer, worlds[_i], RANKS - 1);
}
END_TEST

START_TEST(killed_peer_ends_what_is_queued)
{
    play(RANKS, rank_loses_a_peer_behind, worlds[_i], RANKS - 1);
}
END_TEST

START_TEST(killed_peer_ends_what_is_queued_behind_a_drain)
{
    play(RANKS, rank_drains_behind_a_loss, worlds[_i], RANKS - 1);
}
END_TEST

START_TEST(calls_that_differ_are_named)
{
    play(RANKS, rank_differs, sound, -1);
}
END_TEST

START_TEST(buffers_elsewhere_are_named)
{
    play(RANKS, rank_is_elsewhere, sound, -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("on_device");
    TCase *tc = tcase_create("sound"); /* scripts/gpu-check plays it for real */
    TCase *faults = tcase_create("faults");

    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, every_kind_by_nccl, 0, 1);
    tcase_add_test(tc, every_kind_alone);
    tcase_add_loop_test(tc, posted_calls_and_groups, 0, 1);
    tcase_add_test(tc, posted_calls_and_groups_alone);
    tcase_add_loop_test(tc, queued_calls_are_confirmed, 0, 1);
    tcase_add_loop_test(tc, streams_by_turns, 0, 1);
    tcase_add_loop_test(tc, queued_calls_need_nobody_who_waits, 0, 1);
    tcase_add_loop_test(tc, killed_peer_ends_it, 0, 1);
    tcase_add_loop_test(tc, killed_peer_ends_what_is_queued, 0, 1);
    tcase_add_loop_test(tc, killed_peer_ends_what_is_queued_behind_a_drain, 0,
                        1);
    tcase_add_test(tc, calls_that_differ_are_named);
    tcase_add_test(tc, buffers_elsewhere_are_named);
    suite_add_tcase(suite, tc);
    tcase_set_timeout(faults, 100);
    tcase_add_loop_test(faults, every_kind_by_nccl, 1, 2);
    tcase_add_loop_test(faults, every_kind_staged, 0, 4);
    tcase_add_loop_test(faults, one_device_is_shared_if_told, 0, 3);
    tcase_add_loop_test(faults, posted_calls_and_groups, 1, 5);
    tcase_add_loop_test(faults, queued_calls_are_confirmed, 1, 2);
    tcase_add_loop_test(faults, streams_by_turns, 1, 2);
    tcase_add_loop_test(faults, queued_calls_need_nobody_who_waits, 1, 2);
    tcase_add_loop_test(faults, killed_peer_ends_it, 1, 3);
    tcase_add_loop_test(faults, killed_peer_ends_what_is_queued, 1, 3);
    suite_add_tcase(suite, faults);
    return support_run(suite);
}
