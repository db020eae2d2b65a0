/* tests/collectives/test_async.c - posted calls: order, who drives them, how
 * they end when they do not succeed, and what is left behind. */
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/array.h"
#include "posted.h"

enum {
    MANY = 100,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    DRAINS = 5000, /* ten times as slow, over each way */
    MEETINGS = 8,
    WAITS = 20,
    LATER = 3, /* so much later each time */
#else
    DRAINS = 20000,
    MEETINGS = 20,
    WAITS = 60,
    LATER = 1,
#endif
    SPINS = 1000
};

/* Nobody drives here. */
static void await_done(const struct hvd_request *request)
{
    while (!request_done(request))
        sched_yield();
}

static int count_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    int n = 0;

    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n;
}

/* --- they are done --- */

static bool wait_in_any_order(struct group *g, int rank, void *arg)
{
    int way = *(int *)arg;
    struct hvd_request *requests[MANY];
    float *bufs[MANY];

    for (int i = 0; i < MANY; i++) {
        size_t count = (size_t)(i * 37 % 1000) * (i % 10 == 0 ? 100 : 1);

        bufs[i] = calloc(count + 1, sizeof(float));
        fill(bufs[i], count, (float)((rank + 1) * i));
        EXPECT(post_sum(g->comms[rank], bufs[i], count, &requests[i]) ==
               HVD_OK);
    }
    if (way == 2)
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    for (int k = 0; k < MANY; k++) {
        int i = way == 0 ? k : MANY - 1 - k;
        size_t count = (size_t)(i * 37 % 1000) * (i % 10 == 0 ? 100 : 1);

        if (way == 2)
            EXPECT(request_done(requests[i]));
        if (way == 3)
            await_done(requests[i]);
        EXPECT(request_wait(requests[i]) == HVD_OK);
        EXPECT(all_are(bufs[i], count, sum_of(g, (float)i)));
        free(bufs[i]);
    }
    EXPECT(comm_operations(g->comms[rank]) == MANY + (way == 2));
    return true;
}

/* 0: in order, 1: the last first, 2: behind a blocking call, 3: nobody waits */
START_TEST(posted_many_all_complete)
{
    static int sizes[] = {2, 3, 4};
    struct group g;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        group_init(&g, sizes[i]);
        group_run(&g, wait_in_any_order, &_i);
        group_fini(&g);
    }
}
END_TEST

/* The next one works on the result of the one before, so their order shows. */
static bool chain(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *requests[9];
    size_t n = 0;
    float x[5];

    for (int round = 0; round < 3; round++) {
        struct collective_args args = sum_args(x, x, 5);

        fill(x, 5, (float)(rank + 1));
        n = 0;
        EXPECT(comm_post(comm, &args, &requests[n++]) == HVD_OK);
        args.kind = COLLECTIVE_BROADCAST;
        args.root = g->size - 1;
        EXPECT(comm_post(comm, &args, &requests[n++]) == HVD_OK);
        args.kind = COLLECTIVE_BARRIER;
        EXPECT(comm_post(comm, &args, &requests[n++]) == HVD_OK);
        args.kind = COLLECTIVE_ALLREDUCE;
        EXPECT(comm_post(comm, &args, &requests[n++]) == HVD_OK);
        EXPECT(allreduce(comm, x, x, 5, HVD_FLOAT32, HVD_SUM) == HVD_OK);
        EXPECT(all_are(x, 5, sum_of(g, (float)(g->size * g->size))));
        for (size_t i = 0; i < n; i++)
            EXPECT(request_wait(requests[i]) == HVD_OK);
    }
    return true;
}

START_TEST(posted_and_blocking_run_in_order)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, chain, NULL);
    group_fini(&g);
}
END_TEST

/* The fields of other kinds may hold anything. */
static bool gather_with_leftovers(struct group *g, int rank, void *arg)
{
    const size_t counts[] = {1, 2}, displs[] = {0, 1};
    const float mine[] = {(float)rank, (float)rank};
    float all[3] = {9, 9, 9};
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHERV,
                                   .sendbuf = mine,
                                   .recvbuf = all,
                                   .count = counts[rank],
                                   .dtype = HVD_FLOAT32,
                                   .sendcounts = arg,
                                   .sdispls = arg,
                                   .recvcounts = counts,
                                   .rdispls = displs};
    struct hvd_request *request;

    EXPECT(comm_post(g->comms[rank], &args, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_OK);
    EXPECT(all[0] == 0 && all[1] == 1 && all[2] == 1);
    return true;
}

START_TEST(posted_allgatherv_reads_no_sendcounts)
{
    void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                         0);
    struct group g;

    ck_assert_ptr_ne(nothing, MAP_FAILED);
    group_init(&g, 2);
    group_run(&g, gather_with_leftovers, nothing);
    group_fini(&g);
    munmap(nothing, 4096);
}
END_TEST

static struct collective_args
args_of(enum collective_kind kind, const void *send, void *recv, size_t count)
{
    struct collective_args args = sum_args(send, recv, count);

    args.kind = kind;
    args.dtype = HVD_INT32;
    return args;
}

/* Arrays of counts are gone when the operation runs. */
static bool post_v(struct group *g, int rank, bool all, const int *send,
                   int *recv, struct hvd_request **request_p)
{
    size_t counts[GROUP_MAX], displs[GROUP_MAX], ones[GROUP_MAX];
    struct collective_args args = args_of(
        all ? COLLECTIVE_ALLTOALLV : COLLECTIVE_ALLGATHERV, send, recv, 1);

    for (int i = 0; i < g->size; i++) {
        counts[i] = ones[i] = 1;
        displs[i] = (size_t)i;
    }
    args.sendcounts = all ? ones : NULL;
    args.sdispls = all ? displs : NULL;
    args.recvcounts = counts;
    args.rdispls = displs;
    EXPECT(comm_post(g->comms[rank], &args, request_p) == HVD_OK);
    memset(counts, 0xff, sizeof(counts));
    memset(displs, 0xff, sizeof(displs));
    memset(ones, 0xff, sizeof(ones));
    return true;
}

static bool every_kind(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *requests[6];
    int own = rank, block[GROUP_MAX], gathered[GROUP_MAX], scattered,
        exchanged[GROUP_MAX], gathered_v[GROUP_MAX], exchanged_v[GROUP_MAX],
        sent = rank == 1 ? 77 : 0;
    struct collective_args args;

    for (int i = 0; i < g->size; i++)
        block[i] = 10 * rank + i;
    args = args_of(COLLECTIVE_ALLGATHER, &own, gathered, 1);
    EXPECT(comm_post(comm, &args, &requests[0]) == HVD_OK);
    args = args_of(COLLECTIVE_REDUCE_SCATTER, block, &scattered, 1);
    EXPECT(comm_post(comm, &args, &requests[1]) == HVD_OK);
    args = args_of(COLLECTIVE_ALLTOALL, block, exchanged, 1);
    EXPECT(comm_post(comm, &args, &requests[2]) == HVD_OK);
    args = args_of(COLLECTIVE_BROADCAST, NULL, &sent, 1);
    args.root = 1;
    EXPECT(comm_post(comm, &args, &requests[3]) == HVD_OK);
    EXPECT(post_v(g, rank, false, &own, gathered_v, &requests[4]));
    EXPECT(post_v(g, rank, true, block, exchanged_v, &requests[5]));
    for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
        EXPECT(request_wait(requests[i]) == HVD_OK);
    EXPECT(sent == 77);
    EXPECT(scattered == 10 * g->size * (g->size - 1) / 2 + rank * g->size);
    for (int i = 0; i < g->size; i++) {
        EXPECT(gathered[i] == i && gathered_v[i] == i);
        EXPECT(exchanged[i] == 10 * i + rank && exchanged_v[i] == exchanged[i]);
    }
    return true;
}

START_TEST(posted_every_kind_completes)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, every_kind, NULL);
    group_fini(&g);
}
END_TEST

/* --- who drives --- */

/* The drain comes when the operation has been counted and its request is, or is
 * about to be, complete: whatever the moment, it is when the drain returns. */
static bool drain_at_the_end(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];

    for (int round = 0; round < DRAINS; round++) {
        uint64_t before = comm_operations(comm);
        struct hvd_request *request;
        float x = 1;

        EXPECT(post_sum(comm, &x, 1, &request) == HVD_OK);
        for (int i = 1; rank == 0 && comm_operations(comm) == before; i++)
            if (i % SPINS == 0)
                sched_yield();
        for (int i = 0; i < round % 64; i++)
            (void)request_done(request);
        EXPECT(comm_drain(comm) == HVD_OK);
        EXPECT(request_done(request));
        EXPECT(request_wait(request) == HVD_OK);
    }
    return true;
}

START_TEST(drain_leaves_nothing_undone)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, drain_at_the_end, NULL);
    group_fini(&g);
}
END_TEST

struct meeting {
    sem_t begun[2];
    size_t count;
};

/* Rank 0's progress thread is in the middle of the operation, since rank 1 has
 * not begun it, when rank 0 comes to wait. */
static bool come_late(struct group *g, int rank, void *arg)
{
    struct meeting *m = arg;
    struct comm *comm = g->comms[rank];
    float *buf = calloc(m->count, sizeof(*buf));

    for (int round = 0; round < MEETINGS; round++) {
        int first = round % 2;
        struct hvd_request *request, *after;
        float x = 1;

        fill(buf, m->count, (float)(rank + 1));
        if (rank != first)
            sem_wait(&m->begun[first]);
        EXPECT(post_sum(comm, buf, m->count, &request) == HVD_OK);
        EXPECT(post_sum(comm, &x, 1, &after) == HVD_OK);
        if (rank == first)
            sem_post(&m->begun[first]);
        EXPECT(request_wait(request) == HVD_OK);
        EXPECT(all_are(buf, m->count, sum_of(g, 1)));
        EXPECT(request_wait(after) == HVD_OK);
        EXPECT(x == 2);
    }
    free(buf);
    return true;
}

START_TEST(waiter_takes_over_in_the_middle)
{
    static const size_t counts[] = {1, 10000, 1 << 20};
    struct meeting m = {.count = counts[_i]};
    struct group g;

    sem_init(&m.begun[0], 0, 0);
    sem_init(&m.begun[1], 0, 0);
    group_init(&g, 2);
    group_run(&g, come_late, &m);
    group_fini(&g);
    sem_destroy(&m.begun[0]);
    sem_destroy(&m.begun[1]);
}
END_TEST

/* Wherever it stands: waits come at all moments of it. */
static bool interrupt(struct group *g, int rank, void *arg)
{
    enum { COUNT = 300000 };
    struct comm *comm = g->comms[rank];
    float *buf = calloc(COUNT, sizeof(*buf));

    for (int round = 0; round < WAITS; round++) {
        struct hvd_request *first, *second;
        float x = 1;

        fill(buf, COUNT, 1);
        EXPECT(post_sum(comm, buf, COUNT, &first) == HVD_OK);
        EXPECT(post_sum(comm, &x, 1, &second) == HVD_OK);
        for (int i = 0; i < LATER * round * (rank + 1) && !request_done(first);
             i++)
            sched_yield();
        EXPECT(request_wait(first) == HVD_OK);
        EXPECT(request_wait(second) == HVD_OK);
        EXPECT(all_are(buf, COUNT, (float)g->size));
        EXPECT(x == (float)g->size);
    }
    free(buf);
    return true;
}

START_TEST(waiters_at_any_moment_complete)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, interrupt, NULL);
    group_fini(&g);
}
END_TEST

/* --- they fail --- */

struct failure {
    sem_t posted;
    hvd_status_t status;
    const char *words;
};

enum { IDLE_RANK = 1 };

static bool lose_all(struct group *g, int rank, void *arg)
{
    struct failure *f = arg;
    struct hvd_request *requests[MANY];
    float *buf = calloc(1 << 20, sizeof(*buf)), x[MANY];

    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    if (rank == IDLE_RANK) {
        for (int i = 0; i < g->size - 1; i++)
            sem_wait(&f->posted);
        for (int i = 0; i < g->size; i++)
            comm_abort(g->comms[i], f->status, f->words);
        free(buf);
        return true;
    }
    EXPECT(post_sum(g->comms[rank], buf, 1 << 20, &requests[0]) == HVD_OK);
    for (int i = 1; i < MANY; i++)
        EXPECT(post_sum(g->comms[rank], &x[i], 1, &requests[i]) == HVD_OK);
    sem_post(&f->posted);
    if (rank == 0) /* nobody waits */
        await_done(requests[MANY - 1]);
    for (int i = 0; i < MANY; i++) {
        hvd_status_t status = request_wait(requests[i]);

        EXPECT_SAY(status == f->status, "%d", status);
        EXPECT(text_has(f->words));
        error_clear();
    }
    EXPECT(post_sum(g->comms[rank], buf, 1, &requests[0]) == f->status);
    EXPECT(barrier(g->comms[rank]) == f->status);
    EXPECT(comm_drain(g->comms[rank]) == f->status);
    free(buf);
    return true;
}

START_TEST(abort_completes_in_flight_and_queued)
{
    struct failure f = {.status = _i == 0 ? HVD_PEER_LOST : HVD_ERR_MISMATCH,
                        .words = "worker 9 died"};
    struct group g;

    sem_init(&f.posted, 0, 0);
    group_init(&g, 3);
    group_run(&g, lose_all, &f);
    group_fini(&g);
    sem_destroy(&f.posted);
}
END_TEST

static bool disagree(struct group *g, int rank, void *arg)
{
    bool odd = rank == g->size - 1;
    struct hvd_request *requests[3];
    float x[10] = {0};
    hvd_status_t status;

    EXPECT(post_sum(g->comms[rank], x, 1, &requests[0]) == HVD_OK);
    EXPECT(post_sum(g->comms[rank], x + 1, odd ? 8 : 9, &requests[1]) ==
           HVD_OK);
    EXPECT(post_sum(g->comms[rank], x, 1, &requests[2]) == HVD_OK);
    status = request_wait(requests[1]);
    EXPECT_SAY(status == HVD_ERR_MISMATCH, "%d", status);
    EXPECT(text_has("allreduce #2 (float32, sum, 8)"));
    EXPECT(text_has("allreduce #2 (float32, sum, 9)"));
    EXPECT(request_wait(requests[2]) == HVD_ERR_MISMATCH);
    status = request_wait(requests[0]);
    /* the others may have been through with it, and gone on */
    EXPECT_SAY(status == HVD_OK || status == HVD_ERR_MISMATCH, "%d", status);
    return true;
}

START_TEST(mismatch_all_ranks_told)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, disagree, NULL);
    group_fini(&g);
}
END_TEST

START_TEST(requests_outlive_their_comm)
{
    struct hvd_request *requests[3];
    struct group g;
    float x[3];

    group_init(&g, 2);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(post_sum(g.comms[0], x + i, 1, &requests[i]), HVD_OK);
    if (_i == 1)
        comm_leave(g.comms[0], COMM_LEAVE_ABORT, 0);
    group_fini(&g);
    for (int i = 0; i < 3; i++) {
        ck_assert(request_done(requests[i]));
        ck_assert_int_eq(request_wait(requests[i]), HVD_PEER_LOST);
        ck_assert(text_has(_i == 1 ? "rank 0 has left" : "generation"));
    }
}
END_TEST

static bool one_refused(struct comm *comm, const struct collective_args *args,
                        const char *words)
{
    struct hvd_request *request;

    return comm_post(comm, args, &request) == HVD_ERR_INVALID &&
           text_has(words);
}

START_TEST(bad_arguments_refused_at_once)
{
    struct group g;
    struct collective_args args;
    struct hvd_request *request;
    float x[4] = {1};

    group_init(&g, 2);
    args = sum_args(x, x + 1, 2);
    ck_assert(one_refused(g.comms[0], &args, "overlap"));
    args = sum_args(x, NULL, 2);
    ck_assert(one_refused(g.comms[0], &args, "recvbuf"));
    args = sum_args(x, x, 1);
    args.dtype = HVD_INT32;
    scale_args(&args, 2, 0);
    ck_assert(one_refused(g.comms[0], &args, "prescale"));
    args.kind = COLLECTIVE_BROADCAST;
    scale_args(&args, 0, 2);
    ck_assert(one_refused(g.comms[0], &args, "postscale"));
    /* it has taken no number, and made no thread */
    args = sum_args(x, x, 0);
    ck_assert_int_eq(comm_post(g.comms[0], &args, &request), HVD_OK);
    ck_assert_int_eq(request_wait(request), HVD_OK);
    ck_assert_uint_eq(comm_operations(g.comms[0]), 1);
    group_fini(&g);
}
END_TEST

/* --- draining --- */

static bool drain(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *requests[10], *none;
    float x[10];
    uint8_t state = rank == 0 ? 5 : 0;

    EXPECT(comm_drain(comm) == HVD_OK);
    for (int i = 0; i < 10; i++) {
        x[i] = 1;
        EXPECT(post_sum(comm, x + i, 1, &requests[i]) == HVD_OK);
        if (i == 4)
            EXPECT((rank == 0
                        ? comm_transfer_send(comm, 1, &state, 1)
                        : comm_transfer_recv(comm, 0, &state, 1)) == HVD_OK);
        if (i == 4)
            EXPECT(request_done(requests[i]) && state == 5);
    }
    EXPECT(comm_drain(comm) == HVD_OK);
    for (int i = 0; i < 10; i++)
        EXPECT(request_done(requests[i]) && x[i] == 2);
    EXPECT(request_wait(requests[0]) == HVD_OK);
    EXPECT(post_sum(comm, x, 1, &requests[0]) == HVD_OK);
    comm_leave(comm, COMM_LEAVE_DONE, 3);
    EXPECT(request_done(requests[0]));
    EXPECT(post_sum(comm, x, 1, &none) == HVD_ERR_STATE);
    for (int i = 0; i < 10; i++)
        EXPECT(request_wait(requests[i]) == HVD_OK);
    EXPECT(x[0] == 4);
    return true;
}

START_TEST(drain_transfer_and_leave_complete_first)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, drain, NULL);
    group_fini(&g);
}
END_TEST

/* --- what it costs, what is left --- */

static bool reuse(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *request;
    float x = 0;

    EXPECT(allreduce(comm, &x, &x, 1, HVD_FLOAT32, HVD_SUM) == HVD_OK);
    EXPECT(post_sum(comm, &x, 1, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_OK);
    return true;
}

START_TEST(thread_exists_from_first_post_to_destroy)
{
    int n_fds = count_fds(), n_threads;
    struct group g;
    float x;

    group_init(&g, 2);
    group_run(&g, reuse, NULL);
    group_fini(&g);
    n_threads = count_threads();
    for (int i = 0; i < 3; i++) {
        struct hvd_request *request;

        group_init(&g, 2);
        ck_assert_int_eq(count_threads(), n_threads);
        ck_assert_int_eq(post_sum(g.comms[0], &x, 1, &request), HVD_OK);
        ck_assert_int_eq(count_threads(), n_threads + 1);
        group_fini(&g);
        ck_assert_int_eq(request_wait(request), HVD_PEER_LOST);
    }
    ck_assert_int_eq(count_threads(), n_threads);
    ck_assert_int_eq(count_fds(), n_fds);
}
END_TEST

/* For what they were used for: those of groups grow arrays. */
START_TEST(finished_requests_are_used_again)
{
    struct comm_peer self = {.worker = 1};
    struct comm_config config = {.generation = 1, .size = 1, .peers = &self};
    struct hvd_request *first, *second = NULL, *grouped;
    struct comm *comm;
    float x = 3;
    const size_t count = 1;
    const void *send = &x;
    void *recv = &x;
    struct comm_group group = {1, &send, &recv, &count};
    struct collective_args args = sum_args(&x, &x, 1);

    ck_assert_int_eq(comm_create(&config, &comm), HVD_OK);
    ck_assert_int_eq(comm_post(comm, &args, &first), HVD_OK);
    ck_assert(request_done(first));
    ck_assert_int_eq(request_wait(first), HVD_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(comm_post_group(comm, &args, &group, &grouped),
                         HVD_OK);
        ck_assert_ptr_ne(first, grouped);
        ck_assert(i == 0 || grouped == second);
        second = grouped;
        ck_assert_int_eq(request_wait(grouped), HVD_OK);
    }
    ck_assert_int_eq(comm_post(comm, &args, &second), HVD_OK);
    ck_assert_ptr_eq(first, second);
    ck_assert_int_eq(request_wait(second), HVD_OK);
    ck_assert(x == 3);
    comm_destroy(comm);
    requests_release();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("async");
    TCase *tc = tcase_create("async");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, posted_many_all_complete, 0, 4);
    tcase_add_test(tc, posted_and_blocking_run_in_order);
    tcase_add_test(tc, posted_allgatherv_reads_no_sendcounts);
    tcase_add_test(tc, posted_every_kind_completes);
    tcase_add_test(tc, drain_leaves_nothing_undone);
    tcase_add_loop_test(tc, waiter_takes_over_in_the_middle, 0, 3);
    tcase_add_test(tc, waiters_at_any_moment_complete);
    tcase_add_loop_test(tc, abort_completes_in_flight_and_queued, 0, 2);
    tcase_add_test(tc, mismatch_all_ranks_told);
    tcase_add_loop_test(tc, requests_outlive_their_comm, 0, 2);
    tcase_add_test(tc, bad_arguments_refused_at_once);
    tcase_add_test(tc, drain_transfer_and_leave_complete_first);
    tcase_add_test(tc, thread_exists_from_first_post_to_destroy);
    tcase_add_test(tc, finished_requests_are_used_again);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
