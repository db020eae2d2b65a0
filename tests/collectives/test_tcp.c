/* tests/collectives/test_tcp.c - every algorithm over real sockets, for vectors
 * of less than a frame and of many. */
#include <semaphore.h>

#include "group.h"

static const struct {
    enum collective_kind kind;
    enum algorithm algorithm;
} ways[] = {
    {COLLECTIVE_ALLREDUCE, ALGORITHM_RING},
    {COLLECTIVE_ALLREDUCE, ALGORITHM_DOUBLING},
    {COLLECTIVE_ALLREDUCE, ALGORITHM_HALVING},
    {COLLECTIVE_BROADCAST, ALGORITHM_STAR},
    {COLLECTIVE_BROADCAST, ALGORITHM_TREE},
    {COLLECTIVE_BROADCAST, ALGORITHM_CHAIN},
    {COLLECTIVE_BROADCAST, ALGORITHM_SCATTER},
    {COLLECTIVE_ALLGATHER, ALGORITHM_RING},
    {COLLECTIVE_ALLGATHER, ALGORITHM_BRUCK},
    {COLLECTIVE_REDUCE_SCATTER, ALGORITHM_RING},
    {COLLECTIVE_REDUCE_SCATTER, ALGORITHM_HALVING},
    {COLLECTIVE_REDUCE_SCATTER, ALGORITHM_PAIRWISE},
    {COLLECTIVE_ALLTOALL, ALGORITHM_PAIRWISE},
    {COLLECTIVE_BARRIER, ALGORITHM_DISSEMINATION},
};

enum { N_WAYS = sizeof(ways) / sizeof(ways[0]), SIZES = 5 };

/* What `from` has for `to` at element i of the block. */
static int32_t mark(int from, int to, size_t i)
{
    return from * 100000 + to * 10000 + (int32_t)(i % 9973);
}

static int32_t sum(int size, int to, size_t i)
{
    int32_t s = 0;

    for (int r = 0; r < size; r++)
        s += mark(r, to, i);
    return s;
}

static void fill(const struct group *g, int rank, struct collective_args *args,
                 int32_t *send, int32_t *recv)
{
    size_t n = (size_t)g->size * args->count;
    bool root = rank == args->root;

    for (size_t i = 0; i < n; i++) {
        send[i] = mark(rank, (int)(i / args->count), i % args->count);
        recv[i] = args->kind == COLLECTIVE_BROADCAST && root ? mark(0, 0, i)
                                                             : -1;
    }
    args->sendbuf = send;
    args->recvbuf = recv;
}

/* Elements of the result; *value_p is of element i. */
static size_t expect(const struct group *g, int rank,
                     const struct collective_args *args, size_t i,
                     int32_t *value_p)
{
    size_t count = args->count, n = (size_t)g->size;

    switch (args->kind) {
    case COLLECTIVE_ALLREDUCE:
        *value_p = sum(g->size, 0, i);
        return count;
    case COLLECTIVE_REDUCE_SCATTER:
        *value_p = sum(g->size, rank, i);
        return count;
    case COLLECTIVE_BROADCAST:
        *value_p = mark(0, 0, i);
        return count;
    case COLLECTIVE_ALLGATHER:
        *value_p = mark((int)(i / count), 0, i % count);
        return n * count;
    case COLLECTIVE_ALLTOALL:
        *value_p = mark((int)(i / count), rank, i % count);
        return n * count;
    default:
        return 0;
    }
}

static bool call_all(struct group *g, int rank, void *arg)
{
    static const size_t counts[] = {1, 2, 7, 1000, 16384, 70001, 333333};
    enum collective_kind kind = *(const enum collective_kind *)arg;

    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        struct collective_args args = {.kind = kind,
                                       .count = counts[c],
                                       .dtype = HVD_INT32,
                                       .op = HVD_SUM,
                                       .root = (int)c % g->size};
        size_t n = (size_t)g->size * counts[c];
        int32_t *send = malloc(n * sizeof(*send)), value = 0;
        int32_t *recv = malloc(n * sizeof(*recv));

        fill(g, rank, &args, send, recv);
        EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
        for (size_t i = 0; i < expect(g, rank, &args, i, &value); i++)
            EXPECT_SAY(recv[i] == value, "%d ranks, count %zu: [%zu] is %d",
                       g->size, counts[c], i, recv[i]);
        free(send);
        free(recv);
    }
    return true;
}

START_TEST(algorithm_over_sockets_right_result)
{
    enum collective_kind kind = ways[_i / SIZES].kind;
    struct group g;

    group_init_over(&g, 2 + _i % SIZES, 0, COMM_ORDINARY_MEASURED);
    g.algorithms.by_kind[kind] = (uint8_t)ways[_i / SIZES].algorithm;
    for (int i = 0; i < g.size; i++) {
        comm_destroy(g.comms[i]);
        group_comm_create(&g, i);
    }
    group_run(&g, call_all, &kind);
    group_fini(&g);
}
END_TEST

/* --- who has left --- */

enum { MOVED_NBYTES = 1 << 20 };

/* Rank 1 leaves; rank 0 hears of it while it sends something to rank 2, and
 * then calls what it alone has something to send for. */
static bool send_to_who_has_left(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    uint8_t *buf = calloc(1, MOVED_NBYTES);
    hvd_status_t status;

    EXPECT(buf != NULL);
    EXPECT(barrier(comm) == HVD_OK);
    if (rank == 1) {
        free(buf);
        comm_leave(comm, COMM_LEAVE_BOUNDARY, 18);
        sem_post(arg);
        return true;
    }
    if (rank == 0) {
        sem_wait(arg);
        status = comm_transfer_send(comm, 2, buf, MOVED_NBYTES);
    } else {
        status = comm_transfer_recv(comm, 0, buf, MOVED_NBYTES);
    }
    /* rank 0 may have found out before rank 2 has all of it */
    EXPECT(status == HVD_OK || rank == 2);
    status = broadcast(comm, buf, 1, HVD_INT32, 0);
    free(buf);
    EXPECT_SAY(status == HVD_ERR_MISMATCH, "%d", status);
    EXPECT(strstr(error_text(), "rank 1 left at boundary 18") != NULL);
    return true;
}

START_TEST(root_calls_when_one_has_left_mismatch)
{
    struct group g;
    sem_t left;

    sem_init(&left, 0, 0);
    group_init_over(&g, 3, 0, COMM_ORDINARY_MEASURED);
    group_run(&g, send_to_who_has_left, &left);
    group_fini(&g);
    sem_destroy(&left);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tcp");
    TCase *tc = tcase_create("tcp");

    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, algorithm_over_sockets_right_result, 0,
                        N_WAYS * SIZES);
    tcase_add_test(tc, root_calls_when_one_has_left_mismatch);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
