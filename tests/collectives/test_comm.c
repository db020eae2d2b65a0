/* tests/collectives/test_comm.c - how operations end when they do not succeed:
 * aborts, lost peers, goodbyes, disagreement. */
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "posted.h"

static bool is_accused(struct group *g, int rank, int peer)
{
    size_t n;
    const int *accused = comm_accused(g->comms[rank], &n);

    for (size_t i = 0; i < n; i++)
        if (accused[i] == peer)
            return true;
    return false;
}

/* --- abort --- */

struct waiters {
    sem_t ready;
    int idle_rank; /* does not take part */
    size_t count;
};

static bool wait_for_abort(struct group *g, int rank, void *arg)
{
    struct waiters *w = arg;
    float *buf = calloc(w->count, sizeof(*buf));
    hvd_status_t status;

    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    if (rank == w->idle_rank) {
        for (int i = 0; i < g->size - 1; i++)
            sem_wait(&w->ready);
        for (int i = 0; i < g->size; i++)
            comm_abort(g->comms[i], HVD_PEER_LOST, "worker 9 died");
        free(buf);
        return true;
    }
    sem_post(&w->ready);
    status = allreduce(g->comms[rank], buf, buf, w->count, HVD_FLOAT32,
                       HVD_SUM);
    EXPECT_SAY(status == HVD_PEER_LOST, "%d", status);
    EXPECT(text_has("worker 9 died"));
    EXPECT(barrier(g->comms[rank]) == HVD_PEER_LOST);
    EXPECT(!is_accused(g, rank, w->idle_rank));
    free(buf);
    return true;
}

START_TEST(abort_in_flight_wakes_all)
{
    struct waiters w = {.idle_rank = 1, .count = _i == 0 ? 3 : (size_t)3 << 20};
    struct group g;

    sem_init(&w.ready, 0, 0);
    group_init(&g, 4);
    group_run(&g, wait_for_abort, &w);
    group_fini(&g);
    sem_destroy(&w.ready);
}
END_TEST

START_TEST(abort_second_reason_ignored)
{
    struct group g;
    const char *text;

    group_init(&g, 2);
    ck_assert_int_eq(comm_status(g.comms[0], &text), HVD_OK);
    comm_abort(g.comms[0], HVD_ERR_MISMATCH, "first");
    comm_abort(g.comms[0], HVD_PEER_LOST, "second");
    ck_assert_int_eq(comm_status(g.comms[0], &text), HVD_ERR_MISMATCH);
    ck_assert_str_eq(text, "first");
    ck_assert_int_eq(barrier(g.comms[0]), HVD_ERR_MISMATCH);
    group_fini(&g);
}
END_TEST

/* --- a peer dies --- */

static bool lose_rank_2(struct group *g, int rank, void *arg)
{
    size_t count = *(size_t *)arg;
    float *buf = calloc(count, sizeof(*buf));
    hvd_status_t status;

    EXPECT(allreduce(g->comms[rank], buf, buf, 1, HVD_FLOAT32, HVD_SUM) ==
           HVD_OK);
    status = allreduce(g->comms[rank], buf, buf, count, HVD_FLOAT32, HVD_SUM);
    if (rank == 2) {
        EXPECT(status == HVD_OK);
        group_rank_destroy(g, 2);
        free(buf);
        return true;
    }
    /* rank 2 may have finished and gone while others still were at it */
    if (status == HVD_OK)
        status = allreduce(g->comms[rank], buf, buf, count, HVD_FLOAT32,
                           HVD_SUM);
    EXPECT_SAY(status == HVD_PEER_LOST, "rank %d: %d", rank, status);
    EXPECT_SAY(text_has("rank 2 (worker 102"), "rank %d", rank);
    for (int peer = 0; peer < g->size; peer++)
        EXPECT_SAY(!is_accused(g, rank, peer) || peer == 2,
                   "rank %d accuses %d", rank, peer);
    free(buf);
    return true;
}

START_TEST(peer_gone_without_goodbye_lost_and_accused)
{
    static size_t sizes[] = {1, 1 << 20};
    struct group g;

    group_init(&g, 4);
    group_run(&g, lose_rank_2, &sizes[_i]);
    ck_assert(is_accused(&g, 0, 2) || is_accused(&g, 1, 2) ||
              is_accused(&g, 3, 2));
    group_fini(&g);
}
END_TEST

START_TEST(peer_refuses_lost_after_timeout)
{
    struct comm_peer peers[2] = {{.worker = 100, .port = 1}, {.worker = 101}};
    struct endpoint_config ec = {"127.0.0.1", GROUP_JOB, 101, 50000,
                                 GROUP_JOB_KEY};
    struct comm_config cc = {.job = GROUP_JOB,
                             .generation = 1,
                             .rank = 1,
                             .size = 2,
                             .peers = peers,
                             .connect_timeout_us = 50000};
    struct endpoint *dead;
    struct comm *comm;
    size_t n;

    strcpy(peers[0].addresses, "127.0.0.1");
    /* a port that was free a moment ago */
    ck_assert_int_eq(endpoint_create(&ec, &dead), HVD_OK);
    peers[0].port = endpoint_port(dead);
    ck_assert_int_eq(endpoint_create(&ec, &cc.endpoint), HVD_OK);
    endpoint_destroy(dead);
    ck_assert_int_eq(comm_create(&cc, &comm), HVD_OK);
    ck_assert_int_eq(barrier(comm), HVD_PEER_LOST);
    ck_assert_int_eq(comm_accused(comm, &n)[0], 0);
    ck_assert_uint_eq(n, 1);
    comm_destroy(comm);
    endpoint_destroy(cc.endpoint);
}
END_TEST

/* --- disagreement --- */

static hvd_status_t disagreeing_call(struct group *g, int rank, int what)
{
    bool odd = rank == g->size - 1;
    float buf[256] = {0};

    switch (what) {
    case 0:
        return allreduce(g->comms[rank], buf, buf, odd ? 90 : 100, HVD_FLOAT32,
                         HVD_SUM);
    case 1:
        return allreduce(g->comms[rank], buf, buf, 100,
                         odd ? HVD_INT32 : HVD_FLOAT32, HVD_SUM);
    case 2:
        return allreduce(g->comms[rank], buf, buf, 100, HVD_FLOAT32,
                         odd ? HVD_MIN : HVD_SUM);
    case 3:
        return odd ? barrier(g->comms[rank])
                   : allreduce(g->comms[rank], buf, buf, 100, HVD_FLOAT32,
                               HVD_SUM);
    case 4: /* each waits for another's root */
        return broadcast(g->comms[rank], buf, 10, HVD_FLOAT32,
                         (rank + 1) % g->size);
    default: /* a count of 0 returns at once; found in the next call */
        if (odd && allreduce(g->comms[rank], buf, buf, 0, HVD_FLOAT32,
                             HVD_SUM) != HVD_OK)
            return HVD_ERR_INVALID;
        return allreduce(g->comms[rank], buf, buf, 100, HVD_FLOAT32, HVD_SUM);
    }
}

struct quarrel {
    int what;
    atomic_int n_done;
    int all_fd; /* everybody has his answer */
};

static bool disagree(struct group *g, int rank, void *arg)
{
    struct quarrel *q = arg;
    int what = q->what;
    hvd_status_t status = HVD_OK;

    /* two ranks of a broadcast may be satisfied with the wrong root */
    for (int i = 0; i < 8 && status == HVD_OK; i++)
        status = disagreeing_call(g, rank, what);
    if (atomic_fetch_add(&q->n_done, 1) == g->size - 1)
        eventfd_write(q->all_fd, 1);
    /* as a run loop would: who comes late is answered from here */
    EXPECT(barrier(g->comms[rank]) == status);
    EXPECT(endpoint_serve(g->endpoints[rank], q->all_fd, CLOCK_NEVER) ==
           HVD_OK);
    EXPECT(barrier(g->comms[rank]) == status);
    EXPECT_SAY(status == HVD_ERR_MISMATCH, "rank %d case %d: %d", rank, what,
               status);
    EXPECT_SAY(text_has("rank ") && text_has(" calls "), "case %d", what);
    return true;
}

START_TEST(mismatch_any_all_ranks_told)
{
    for (int size = 2; size <= 4; size++) {
        struct quarrel q = {.what = _i,
                            .all_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
        struct group g;

        group_init(&g, size);
        group_run(&g, disagree, &q);
        group_fini(&g);
        close(q.all_fd);
    }
}
END_TEST

static bool count_mismatch(struct group *g, int rank, void *arg)
{
    float buf[100] = {0};

    for (int i = 0; i < 4; i++)
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    EXPECT(allreduce(g->comms[rank], buf, buf, rank == 1 ? 90 : 100,
                     HVD_FLOAT32, HVD_SUM) == HVD_ERR_MISMATCH);
    EXPECT(text_has("allreduce #5 (float32, sum, 100)") &&
           text_has("rank 1 calls allreduce #5 (float32, sum, 90)"));
    return true;
}

START_TEST(mismatch_of_count_names_both_sides)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, count_mismatch, NULL);
    group_fini(&g);
}
END_TEST

/* --- counts of 0 --- */

struct nothing {
    enum collective_kind kind;
    bool placed;
    atomic_int n_here; /* calls that rank 1 has come to */
    sem_t rank_1_may;
};

static void *nowhere(const size_t *counts, int size, void *arg)
{
    return NULL;
}

/* way 0: blocking; 1: posted. */
static hvd_status_t run_nothing(struct comm *comm, const struct nothing *n,
                                int way)
{
    static const size_t none[2];
    struct collective_args args = {.kind = n->kind,
                                   .dtype = HVD_FLOAT32,
                                   .sendcounts = none,
                                   .sdispls = none};
    struct hvd_request *request;

    if (n->placed)
        args.place = nowhere;
    else
        args.recvcounts = args.rdispls = none;
    if (way == 0 && !n->placed)
        return comm_run(comm, &args);
    HVD_TRY(comm_post(comm, &args, &request));
    return request_wait(request);
}

/* Rank 1 comes when rank 0 has returned from all of them. */
static bool call_nothing(struct group *g, int rank, void *arg)
{
    struct nothing *n = arg;

    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    if (rank == 1)
        sem_wait(&n->rank_1_may);
    for (int kind = COLLECTIVE_ALLREDUCE; kind < COLLECTIVE_BARRIER; kind++) {
        struct nothing one = {.kind = (enum collective_kind)kind};

        if (kind == COLLECTIVE_ALLTOALLV)
            continue;
        for (int way = 0; way < 2; way++)
            EXPECT(run_nothing(g->comms[rank], &one, way) == HVD_OK);
    }
    sem_post(&n->rank_1_may);
    return true;
}

START_TEST(counts_of_zero_wait_for_nobody)
{
    struct nothing n = {.kind = COLLECTIVE_ALLREDUCE};
    struct group g;

    sem_init(&n.rank_1_may, 0, 0);
    group_init(&g, 2);
    group_run(&g, call_nothing, &n);
    group_fini(&g);
    sem_destroy(&n.rank_1_may);
}
END_TEST

/* Of these no rank knows that the others have nothing. Rank 1 comes later. */
static bool meet_for_nothing(struct group *g, int rank, void *arg)
{
    struct nothing *n = arg;

    for (int way = 0; way < 2; way++) {
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
        if (rank == 0) {
            sem_post(&n->rank_1_may);
        } else {
            sem_wait(&n->rank_1_may);
            for (int i = 0; i < 1000; i++)
                sched_yield();
            atomic_fetch_add(&n->n_here, 1);
        }
        EXPECT(run_nothing(g->comms[rank], n, way) == HVD_OK);
        EXPECT(atomic_load(&n->n_here) == way + 1);
    }
    return true;
}

static const struct {
    enum collective_kind kind;
    bool placed;
} nothings[] = {
    {COLLECTIVE_ALLTOALLV, false},
    {COLLECTIVE_ALLTOALLV, true},
    {COLLECTIVE_ALLGATHERV, true},
};

START_TEST(counts_of_zero_wait_where_nobody_knows_it)
{
    struct nothing n = {.kind = nothings[_i].kind,
                        .placed = nothings[_i].placed};
    struct group g;

    sem_init(&n.rank_1_may, 0, 0);
    group_init(&g, 2);
    group_run(&g, meet_for_nothing, &n);
    group_fini(&g);
    sem_destroy(&n.rank_1_may);
}
END_TEST

/* --- goodbyes --- */

struct leaving {
    enum comm_leave_kind kind;
    int first_calls;
    int n_broadcasts; /* by rank 0, before it leaves */
    size_t count;
    int leaver;
    const char *words;
    int stop_fd;
    sem_t met; /* the other is through with the first calls */
};

/* The leaver serves its endpoint until the other has been answered. An abort
 * ends what it finds unfinished, also what only its receiver has yet to notice:
 * the first calls have to be over for both. */
static bool one_leaves(struct group *g, int rank, void *arg)
{
    struct leaving *l = arg;
    uint8_t *buf = calloc(1, l->count);
    hvd_status_t status = HVD_OK;

    for (int i = 0; i < l->first_calls; i++)
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    if (rank != l->leaver)
        sem_post(&l->met);
    if (rank == l->leaver) {
        if (l->kind == COMM_LEAVE_ABORT)
            sem_wait(&l->met);
        for (int i = 0; i < l->n_broadcasts; i++)
            EXPECT(broadcast(g->comms[rank], buf, l->count, HVD_UINT8, rank) ==
                   HVD_OK);
        comm_leave(g->comms[rank], l->kind, 18);
        EXPECT(endpoint_serve(g->endpoints[rank], l->stop_fd, CLOCK_NEVER) ==
               HVD_OK);
        free(buf);
        return true;
    }
    comm_set_boundary(g->comms[rank], 17);
    for (int i = 0; i < l->n_broadcasts; i++)
        EXPECT(broadcast(g->comms[rank], buf, l->count, HVD_UINT8, l->leaver) ==
               HVD_OK);
    status = barrier(g->comms[rank]);
    eventfd_write(l->stop_fd, 1);
    EXPECT_SAY(status == (l->kind == COMM_LEAVE_ABORT ? HVD_PEER_LOST
                                                      : HVD_ERR_MISMATCH),
               "%d", status);
    EXPECT_SAY(text_has(l->words), "'%s'", l->words);
    EXPECT(!is_accused(g, rank, l->leaver));
    free(buf);
    return true;
}

static void leave_case(struct leaving l)
{
    struct group g;

    l.stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    sem_init(&l.met, 0, 0);
    group_init(&g, 2);
    group_run(&g, one_leaves, &l);
    group_fini(&g);
    sem_destroy(&l.met);
    close(l.stop_fd);
}

START_TEST(leave_boundary_needed_peer_mismatch)
{
    leave_case((struct leaving){
        COMM_LEAVE_BOUNDARY, _i, 0, 1, 0,
        "rank 0 left at boundary 18, this rank is in barrier #", 0});
    leave_case((struct leaving){
        COMM_LEAVE_BOUNDARY, _i, 0, 1, 1,
        "after 17 boundaries: ranks must commit equally often", 0});
}
END_TEST

START_TEST(leave_done_needed_peer_mismatch)
{
    leave_case((struct leaving){COMM_LEAVE_DONE, _i, 0, 1, 0,
                                "rank 0 has finished, rank 1 calls barrier #",
                                0});
    leave_case((struct leaving){COMM_LEAVE_DONE, _i, 0, 1, 1,
                                "rank 1 has finished, rank 0 calls barrier #",
                                0});
}
END_TEST

START_TEST(leave_abort_needed_peer_lost)
{
    leave_case((struct leaving){COMM_LEAVE_ABORT, _i, 0, 1, _i, "rank ", 0});
}
END_TEST

START_TEST(leave_behind_unread_data_data_counts)
{
    leave_case((struct leaving){COMM_LEAVE_BOUNDARY, 1, 20, 500, 0,
                                "rank 0 left at boundary 18", 0});
    leave_case((struct leaving){COMM_LEAVE_BOUNDARY, 1, 5, 200000, 0,
                                "rank 0 left at boundary 18", 0});
    leave_case((struct leaving){COMM_LEAVE_DONE, 0, 3, 9000000, 0,
                                "rank 0 has finished", 0});
}
END_TEST

/* Rank 0 runs ahead and leaves while rank 1 still waits for rank 2: frames of
 * later calls are parked, and neither they nor the end behind them count as a
 * loss. */
struct ahead {
    sem_t gone;
    int stop_fd;
};

static bool runs_ahead(struct group *g, int rank, void *arg)
{
    struct ahead *a = arg;
    uint8_t buf[5000] = {0};

    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    if (rank == 2) /* not before rank 0 has left */
        sem_wait(&a->gone);
    EXPECT(broadcast(g->comms[rank], buf, 10, HVD_UINT8, rank == 0 ? 0 : 0) ==
           HVD_OK);
    if (rank == 0) {
        for (int i = 0; i < 4; i++)
            EXPECT(broadcast(g->comms[0], buf, sizeof(buf), HVD_UINT8, 0) ==
                   HVD_OK);
        comm_leave(g->comms[0], COMM_LEAVE_BOUNDARY, 1);
        sem_post(&a->gone);
        EXPECT(endpoint_serve(g->endpoints[0], a->stop_fd, CLOCK_NEVER) ==
               HVD_OK);
        return true;
    }
    for (int i = 0; i < 4; i++)
        EXPECT(broadcast(g->comms[rank], buf, sizeof(buf), HVD_UINT8, 0) ==
               HVD_OK);
    if (rank == 2)
        eventfd_write(a->stop_fd, 1);
    return true;
}

START_TEST(leave_after_running_ahead_others_complete)
{
    struct ahead a = {.stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    struct group g;

    sem_init(&a.gone, 0, 0);
    group_init_over(&g, 3, 0, COMM_ORDINARY_MEASURED);
    group_run(&g, runs_ahead, &a);
    group_fini(&g);
    sem_destroy(&a.gone);
    close(a.stop_fd);
}
END_TEST

/* Rank 0 has sent state over a connection of its own, then a large broadcast,
 * and leaves while much of that is still unread: the goodbye on the one says
 * nothing of what is on its way on the other. */
enum { LARGE = 24 << 20 };

static bool leaves_large(struct group *g, int rank, void *arg)
{
    struct ahead *a = arg;
    uint8_t *buf = calloc(1, LARGE);

    EXPECT(buf != NULL);
    EXPECT((rank == 0
                ? comm_transfer_send(g->comms[0], 1, buf, 100)
                : comm_transfer_recv(g->comms[1], 0, buf, 100)) == HVD_OK);
    EXPECT(broadcast(g->comms[rank], buf, LARGE, HVD_UINT8, 0) == HVD_OK);
    free(buf);
    if (rank == 1) {
        eventfd_write(a->stop_fd, 1);
        return true;
    }
    comm_leave(g->comms[0], COMM_LEAVE_BOUNDARY, 1);
    return endpoint_serve(g->endpoints[0], a->stop_fd, CLOCK_NEVER) == HVD_OK;
}

START_TEST(leave_on_transfer_channel_unread_data_counts)
{
    for (int i = 0; i < 5; i++) {
        struct ahead a = {.stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
        struct group g;

        group_init(&g, 2);
        group_run(&g, leaves_large, &a);
        group_fini(&g);
        close(a.stop_fd);
    }
}
END_TEST

/* --- arguments --- */

START_TEST(run_bad_arguments_invalid_and_alive)
{
    struct comm_config config = {.size = 1, .generation = 1};
    float buf[10];
    struct comm *comm;

    ck_assert_int_eq(comm_create(&config, &comm), HVD_OK);
    ck_assert_int_eq(allreduce(comm, buf, buf, 4, (hvd_dtype_t)99, HVD_SUM),
                     HVD_ERR_INVALID);
    ck_assert(text_has("dtype 99"));
    ck_assert_int_eq(allreduce(comm, buf, buf, 4, HVD_FLOAT32, (hvd_op_t)7),
                     HVD_ERR_INVALID);
    ck_assert(text_has("op 7"));
    ck_assert_int_eq(allreduce(comm, buf, buf + 1, 4, HVD_FLOAT32, HVD_SUM),
                     HVD_ERR_INVALID);
    ck_assert(text_has("overlap"));
    ck_assert_int_eq(
        allreduce(comm, buf, buf, SIZE_MAX / 2, HVD_FLOAT32, HVD_SUM),
        HVD_ERR_INVALID);
    ck_assert(text_has("overflow"));
    ck_assert_int_eq(allreduce(comm, buf, NULL, 1, HVD_FLOAT32, HVD_SUM),
                     HVD_ERR_INVALID);
    ck_assert_int_eq(broadcast(comm, buf, 4, HVD_FLOAT32, 1), HVD_ERR_INVALID);
    ck_assert(text_has("root 1"));
    ck_assert_uint_eq(comm_operations(comm), 0);
    buf[0] = 5;
    ck_assert_int_eq(allreduce(comm, buf, buf + 5, 1, HVD_FLOAT32, HVD_AVERAGE),
                     HVD_OK);
    ck_assert(buf[5] == 5);
    ck_assert_int_eq(barrier(comm), HVD_OK);
    ck_assert_uint_eq(comm_operations(comm), 2);
    comm_destroy(comm);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm");
    TCase *tc = tcase_create("comm");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, abort_in_flight_wakes_all, 0, 2);
    tcase_add_test(tc, abort_second_reason_ignored);
    tcase_add_loop_test(tc, peer_gone_without_goodbye_lost_and_accused, 0, 2);
    tcase_add_test(tc, peer_refuses_lost_after_timeout);
    tcase_add_loop_test(tc, mismatch_any_all_ranks_told, 0, 6);
    tcase_add_test(tc, mismatch_of_count_names_both_sides);
    tcase_add_test(tc, counts_of_zero_wait_for_nobody);
    tcase_add_loop_test(tc, counts_of_zero_wait_where_nobody_knows_it, 0, 3);
    tcase_add_loop_test(tc, leave_boundary_needed_peer_mismatch, 0, 2);
    tcase_add_loop_test(tc, leave_done_needed_peer_mismatch, 0, 2);
    tcase_add_loop_test(tc, leave_abort_needed_peer_lost, 0, 2);
    tcase_add_test(tc, leave_behind_unread_data_data_counts);
    tcase_add_test(tc, leave_after_running_ahead_others_complete);
    tcase_add_test(tc, leave_on_transfer_channel_unread_data_counts);
    tcase_add_test(tc, run_bad_arguments_invalid_and_alive);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
