/* tests/collectives/test_tcp.c - every algorithm over real sockets, for vectors
 * of less than a frame and of many. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "collectives/comm_impl.h"
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

enum {
    N_WAYS = sizeof(ways) / sizeof(ways[0]),
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    SIZES = 3 /* of groups; the others take four fifths of the time */
#else
    SIZES = 5
#endif
};

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
    static const size_t counts[] = {1, 2, 7, 1000, 16384, 150001};
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

/* A sender that never has to wait never looks. */
/* What a rank says is heard in the middle of a call only: so one after the
 * other, until rank 1's goodbye has come. */
static hvd_status_t send_until_goodbye(struct comm *comm, uint8_t *buf)
{
    const struct connection *c = comm_link(comm, CHANNEL_DATA, 1);
    uint8_t goes_on = 1;

    while (goes_on) {
        goes_on = c->state != CONNECTION_LEFT;
        HVD_TRY(comm_transfer_send(comm, 2, &goes_on, 1));
        HVD_TRY(comm_transfer_send(comm, 2, buf, MOVED_NBYTES));
    }
    return HVD_OK;
}

static hvd_status_t receive_until_goodbye(struct comm *comm, uint8_t *buf)
{
    uint8_t goes_on = 1;

    while (goes_on) {
        HVD_TRY(comm_transfer_recv(comm, 0, &goes_on, 1));
        HVD_TRY(comm_transfer_recv(comm, 0, buf, MOVED_NBYTES));
    }
    return HVD_OK;
}

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
        status = send_until_goodbye(comm, buf);
    } else {
        status = receive_until_goodbye(comm, buf);
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

/* Serve the endpoint for so long. */
static void serve(struct endpoint *endpoint, uint64_t us)
{
    int never = eventfd(0, EFD_CLOEXEC);

    (void)!endpoint_serve(endpoint, never, clock_now_us() + us);
    close(never);
}

/* A connection to rank 0 that greets, and of which nothing arrives. */
static void late_greets(struct comm *comm, struct connection *late)
{
    *late = (struct connection){.fd = -1, .channel = CHANNEL_DATA};
    late->state = CONNECTION_GREETED;
    comm->links[CHANNEL_DATA * comm->config.size] = late;
    comm->live[comm->n_live++] = late;
}

static void late_is_gone(struct comm *comm)
{
    comm->links[CHANNEL_DATA * comm->config.size] = NULL;
    comm->n_live--;
}

/* Rank 1 is asked where it is and leaves, or leaves and is asked; what it has
 * for rank 0 comes on another connection, on which it has said hello, but later
 * than that. */
static bool leave_before_data(struct group *g, int rank, void *arg)
{
    struct connection late;
    int32_t x = rank == 1 ? 7 : 0;

    if (rank == 1) {
        while (*(bool *)arg && comm_link(g->comms[1], CHANNEL_ASK, 0) == NULL)
            serve(g->endpoints[1], 10000);
        late_greets(g->comms[1], &late);
        comm_leave(g->comms[1], COMM_LEAVE_DONE, 0);
        late_is_gone(g->comms[1]);
        serve(g->endpoints[1], 500000); /* rank 0 hears that now */
        comm_destroy(g->comms[1]);
        group_comm_create(g, 1);
    }
    EXPECT(broadcast(g->comms[rank], &x, 1, HVD_INT32, 1) == HVD_OK);
    EXPECT(x == 7);
    return true;
}

START_TEST(goodbye_overtakes_data_which_counts)
{
    struct group g;
    bool asked = _i == 0;

    group_init_over(&g, 2, 0, COMM_ORDINARY_MEASURED);
    group_run(&g, leave_before_data, &asked);
    group_fini(&g);
}
END_TEST

/* fds[0] is connected to fds[1]. */
static void connect_pair(int fds[2])
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(in);
    int listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(listen_fd, (void *)&in, len), 0);
    ck_assert_int_eq(listen(listen_fd, 1), 0);
    ck_assert_int_eq(getsockname(listen_fd, (void *)&in, &len), 0);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fds[0], (void *)&in, len), 0);
    fds[1] = accept(listen_fd, NULL, NULL);
    ck_assert_int_ge(fds[1], 0);
    close(listen_fd);
}

/* As much as both kernels take. */
static size_t fill_up(int fd)
{
    static const char zeros[65536];
    size_t n = 0;
    ssize_t sent;

    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    while ((sent = send(fd, zeros, sizeof(zeros), MSG_NOSIGNAL)) > 0)
        n += (size_t)sent;
    return n;
}

/* It is in user code for longer than a goodbye lingers that has arrived, and
 * then says something first. */
START_TEST(last_words_wait_for_a_slow_reader)
{
    struct endpoint_config config = {"127.0.0.1", GROUP_JOB, 100, 10000000,
                                     GROUP_JOB_KEY};
    static char waste[65536];
    struct endpoint *endpoint;
    size_t sent, got = 0;
    ssize_t n = 1;
    int fds[2];

    ck_assert_int_eq(endpoint_create(&config, &endpoint), HVD_OK);
    connect_pair(fds);
    sent = fill_up(fds[0]);
    endpoint_linger(endpoint, fds[0], NULL, 0);
    serve(endpoint, 2500000);
    ck_assert_int_eq(send(fds[1], "x", 1, MSG_NOSIGNAL), 1);
    for (; n > 0; got += n > 0 ? (size_t)n : 0)
        n = recv(fds[1], waste, sizeof(waste), 0);
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(got, sent);
    close(fds[1]);
    endpoint_destroy(endpoint);
}
END_TEST

/* --- several connections --- */

/* Those of the first pairs would leave none for the last. */
static int with_room_for_one(const void *arg)
{
    struct group *g = (struct group *)(uintptr_t)arg;
    struct rlimit limit = {(rlim_t)count_fds() + 36, (rlim_t)count_fds() + 36};

    comm_destroy(g->comms[0]);
    g->tcp_connections = 8;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    group_comm_create(g, 0);
    return g->comms[0]->config.tcp_connections != 1;
}

START_TEST(connections_are_as_many_as_there_is_room_for)
{
    struct group g;
    int status;

    group_init_over(&g, 8, 0, COMM_ORDINARY_MEASURED);
    status = support_in_child(with_room_for_one, &g);
    ck_assert_msg(status == 0, "wait status %x", (unsigned)status);
    group_fini(&g);
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
    tcase_add_loop_test(tc, goodbye_overtakes_data_which_counts, 0, 2);
    tcase_add_test(tc, last_words_wait_for_a_slow_reader);
    tcase_add_test(tc, connections_are_as_many_as_there_is_room_for);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
