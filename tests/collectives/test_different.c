/* tests/collectives/test_different.c - ranks that do not do the same thing the
 * same way, because their environment or their release differs: they all hear
 * of it, none waits for ever, none gets a wrong result. */
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "group.h"

enum { COUNT = 6000, LARGE = 100001, DEADLINE_S = 20 };

struct pair {
    enum collective_kind kind;
    enum algorithm a, b; /* of even and of odd ranks */
    atomic_int n_told;
    int all_fd; /* readable once all have been told */
};

static struct pair pairs[] = {
    {COLLECTIVE_ALLREDUCE, ALGORITHM_RING, ALGORITHM_DOUBLING},
    {COLLECTIVE_ALLREDUCE, ALGORITHM_RING, ALGORITHM_HALVING},
    {COLLECTIVE_ALLREDUCE, ALGORITHM_HALVING, ALGORITHM_DOUBLING},
    {COLLECTIVE_BROADCAST, ALGORITHM_STAR, ALGORITHM_TREE},
    {COLLECTIVE_BROADCAST, ALGORITHM_CHAIN, ALGORITHM_STAR},
    {COLLECTIVE_BROADCAST, ALGORITHM_CHAIN, ALGORITHM_TREE},
    {COLLECTIVE_BROADCAST, ALGORITHM_SCATTER, ALGORITHM_CHAIN},
    {COLLECTIVE_ALLGATHER, ALGORITHM_RING, ALGORITHM_BRUCK},
    {COLLECTIVE_REDUCE_SCATTER, ALGORITHM_RING, ALGORITHM_HALVING},
    {COLLECTIVE_REDUCE_SCATTER, ALGORITHM_RING, ALGORITHM_PAIRWISE},
    {COLLECTIVE_REDUCE_SCATTER, ALGORITHM_PAIRWISE, ALGORITHM_HALVING},
};

enum { PAIRS = sizeof(pairs) / sizeof(*pairs), SIZES = 3 };

/* Who comes late is told why nobody is there. */
static bool leave(struct group *g, int rank, struct pair *pair)
{
    comm_leave(g->comms[rank], COMM_LEAVE_ABORT, 0);
    if (atomic_fetch_add(&pair->n_told, 1) == g->size - 1)
        (void)eventfd_write(pair->all_fd, 1);
    EXPECT(endpoint_serve(g->endpoints[rank], pair->all_fd, CLOCK_NEVER) ==
           HVD_OK);
    return true;
}

static hvd_status_t call(struct comm *comm, const struct pair *pair,
                         float *send, float *recv)
{
    struct collective_args args = {.kind = pair->kind,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .count = COUNT,
                                   .dtype = HVD_FLOAT32,
                                   .op = HVD_SUM};

    return comm_run(comm, &args);
}

/* A schedule that needs nothing more of the others (the root of a broadcast)
 * may be through before it hears of it: then the next call tells. */
static bool disagree(struct group *g, int rank, void *arg)
{
    struct pair *pair = arg;
    size_t n = (size_t)g->size * COUNT;
    float *send = calloc(n, sizeof(*send)), *recv = calloc(n, sizeof(*recv));
    hvd_status_t status = call(g->comms[rank], pair, send, recv);
    bool may_be_through = pair->kind == COLLECTIVE_BROADCAST;

    if (status == HVD_OK && may_be_through)
        status = barrier(g->comms[rank]);
    EXPECT_SAY(status == HVD_ERR_MISMATCH, "rank %d: %d", rank, (int)status);
    EXPECT_SAY(strstr(error_text(), "HVD_ALGORITHM") != NULL, "rank %d", rank);
    free(send);
    free(recv);
    return leave(g, rank, pair);
}

static void differ(struct group *g, struct pair *pair)
{
    pair->all_fd = eventfd(0, EFD_CLOEXEC);
    for (int i = 0; i < g->size; i++) {
        comm_destroy(g->comms[i]);
        g->algorithms.by_kind[pair->kind] = (uint8_t)(i % 2 == 0 ? pair->a
                                                                 : pair->b);
        group_comm_create(g, i);
    }
}

START_TEST(algorithms_that_differ_are_told_on_all_ranks)
{
    static const uint32_t apart[GROUP_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const int sizes[SIZES] = {2, 4, 5};
    struct pair *pair = &pairs[_i / SIZES];
    int size = sizes[_i % SIZES];
    struct group g;

    /* no power of two: halving is pairwise there */
    if (size == 5 && pair->a == ALGORITHM_PAIRWISE)
        return;
    group_init_hosts(&g, size, apart, COMM_CAN_ALL, COMM_ORDINARY_MEASURED);
    differ(&g, pair);
    group_run(&g, disagree, pair);
    close(pair->all_fd);
    group_fini(&g);
}
END_TEST

/* Between hosts with several ranks each: what goes over the network differs. */
START_TEST(algorithms_between_hosts_that_differ_are_told_on_all_ranks)
{
    static const uint32_t two[GROUP_MAX] = {0, 0, 1, 1};
    struct pair pair = {COLLECTIVE_ALLREDUCE, ALGORITHM_TWO_LEVEL,
                        ALGORITHM_RING};
    struct group g;

    group_init_hosts(&g, 4, two, COMM_CAN_ALL, COMM_ORDINARY_MEASURED);
    differ(&g, &pair);
    group_run(&g, disagree, &pair);
    close(pair.all_fd);
    group_fini(&g);
}
END_TEST

/* --- one leaves whom only a later phase needs --- */

struct leaving {
    int who;
    bool at_barrier;
    /* Rank 0's end would be heard by who has yet to look at what has come. */
    pthread_barrier_t all_met;
    int told_fd; /* readable once rank 0 has been told */
};

static hvd_status_t meet(struct comm *comm, int rank, const struct leaving *l)
{
    static float x[GROUP_MAX][LARGE];
    float *own = x[rank];

    return l->at_barrier
               ? barrier(comm)
               : allreduce(comm, own, own, LARGE, HVD_FLOAT32, HVD_SUM);
}

static bool hear_early(struct group *g, int rank, void *arg)
{
    struct leaving *l = arg;
    struct comm *comm = g->comms[rank];

    EXPECT(meet(comm, rank, l) == HVD_OK);
    pthread_barrier_wait(&l->all_met);
    if (rank == l->who)
        comm_leave(comm, COMM_LEAVE_BOUNDARY, 5);
    if (rank == 0) {
        EXPECT(meet(comm, rank, l) == HVD_ERR_MISMATCH);
        (void)eventfd_write(l->told_fd, 1);
    }
    EXPECT(endpoint_serve(g->endpoints[rank], l->told_fd, CLOCK_NEVER) ==
           HVD_OK);
    return true;
}

/* Its first phase waits for another of its host, who never calls. The next is a
 * ring, of which it sends to one and receives of the other, or a dissemination,
 * where each is named in one step alone. */
START_TEST(leave_that_concerns_a_later_phase_is_heard_at_once)
{
    static const uint32_t ring[] = {0, 0, 1, 2},
                          dissemination[] = {0, 0, 1, 2, 3};
    struct leaving l = {.who = _i < 2 ? 2 + _i : _i,
                        .at_barrier = _i >= 2,
                        .told_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    struct group g;

    group_init_hosts(&g, l.at_barrier ? 5 : 4,
                     l.at_barrier ? dissemination : ring, COMM_CAN_ALL,
                     COMM_ORDINARY_MEASURED);
    pthread_barrier_init(&l.all_met, NULL, (unsigned)g.size);
    group_run(&g, hear_early, &l);
    pthread_barrier_destroy(&l.all_met);
    group_fini(&g);
    close(l.told_fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("different");
    TCase *tc = tcase_create("different");

    tcase_set_timeout(tc, DEADLINE_S);
    tcase_add_loop_test(tc, algorithms_that_differ_are_told_on_all_ranks, 0,
                        PAIRS * SIZES);
    tcase_add_test(tc,
                   algorithms_between_hosts_that_differ_are_told_on_all_ranks);
    tcase_add_loop_test(tc, leave_that_concerns_a_later_phase_is_heard_at_once,
                        1, 3);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
