/* tests/collectives/test_levels.c - of what phases a call in two levels
 * consists, by its kind and size: the results would be right in other ones. */
#include "collectives/comm_impl.h"
#include "collectives/local/pull.h"
#include "group.h"

enum { RANKS = 4, DOUBLES_MAX = 50000, PEERS_MAX = LOCAL_SIZE_MAX + 2 };

static void on_two_hosts(rank_fn *fn)
{
    static const uint32_t hosts[] = {0, 0, 1, 1};
    struct group g;

    group_init_hosts(&g, RANKS, hosts, COMM_CAN_ALL, COMM_ORDINARY_MEASURED);
    group_run(&g, fn, NULL);
    group_fini(&g);
}

static bool is_in_two(const struct comm *comm)
{
    return (comm->op.head.algorithm & FRAME_TWO_LEVELS) != 0;
}

static bool every_kind(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    float x = 1, all[RANKS];
    struct collective_args gather = {.kind = COLLECTIVE_ALLGATHER,
                                     .sendbuf = &x,
                                     .recvbuf = all,
                                     .count = 1,
                                     .dtype = HVD_FLOAT32};

    EXPECT(allreduce(comm, &x, &x, 1, HVD_FLOAT32, HVD_SUM) == HVD_OK);
    EXPECT(is_in_two(comm));
    EXPECT(comm_run(comm, &gather) == HVD_OK);
    EXPECT(!is_in_two(comm));
    EXPECT(broadcast(comm, &x, 1, HVD_FLOAT32, 2) == HVD_OK);
    EXPECT(is_in_two(comm));
    EXPECT(comm_run(comm, &gather) == HVD_OK);
    EXPECT(!is_in_two(comm));
    EXPECT(barrier(comm) == HVD_OK);
    EXPECT(is_in_two(comm));
    return true;
}

START_TEST(levels_by_kind)
{
    on_two_hosts(every_kind);
}
END_TEST

/* Of 8 KiB and of one element more. */
static bool reductions(struct group *g, int rank, void *arg)
{
    static double values[RANKS][DOUBLES_MAX];
    struct comm *comm = g->comms[rank];
    const struct operation *op = &comm->op;
    double *x = values[rank];

    EXPECT(allreduce(comm, x, x, 1024, HVD_FLOAT64, HVD_SUM) == HVD_OK);
    EXPECT(op->n_phases == 2 && op->phases[0].pull_kind == 0);
    EXPECT(allreduce(comm, x, x, 1025, HVD_FLOAT64, HVD_SUM) == HVD_OK);
    EXPECT(op->n_phases == 3 && op->phases[0].n_slices == 2);
    EXPECT(op->phases[0].pull_kind == PULL_SLICES_REDUCE);
    EXPECT(op->phases[2].pull_kind == PULL_SLICES_GATHER);
    return true;
}

START_TEST(reduction_by_size_whole_or_in_slices)
{
    on_two_hosts(reductions);
}
END_TEST

/* Slices of 100 and of 200 KB: 128 KiB are between them. */
static bool slices(struct group *g, int rank, void *arg)
{
    static double values[RANKS][DOUBLES_MAX];
    struct comm *comm = g->comms[rank];
    const struct operation *op = &comm->op;
    double *x = values[rank];

    EXPECT(allreduce(comm, x, x, 25000, HVD_FLOAT64, HVD_SUM) == HVD_OK);
    EXPECT(op->head.algorithm == (FRAME_TWO_LEVELS | ALGORITHM_DOUBLING));
    EXPECT(allreduce(comm, x, x, 50000, HVD_FLOAT64, HVD_SUM) == HVD_OK);
    EXPECT(op->head.algorithm == (FRAME_TWO_LEVELS | ALGORITHM_RING));
    return true;
}

START_TEST(algorithm_between_hosts_by_the_size_of_a_slice)
{
    on_two_hosts(slices);
}
END_TEST

/* The root's host goes first with what travels in cards. */
static bool broadcasts(struct group *g, int rank, void *arg)
{
    double x[1025] = {0};
    struct comm *comm = g->comms[rank];
    const struct operation *op = &comm->op;

    EXPECT(broadcast(comm, x, 1024, HVD_FLOAT64, 0) == HVD_OK);
    EXPECT(op->n_phases == 2);
    EXPECT((op->phases[0].ops == &local_phase) == (rank < 2));
    EXPECT((op->phases[1].ops == &stream_phase) == (rank < 2));
    EXPECT(broadcast(comm, x, 1025, HVD_FLOAT64, 0) == HVD_OK);
    EXPECT(op->n_phases == 2 && op->phases[0].ops == &stream_phase);
    EXPECT(op->phases[1].ops == &local_phase);
    return true;
}

START_TEST(broadcast_by_size_first_inside_or_between)
{
    on_two_hosts(broadcasts);
}
END_TEST

/* Ranks of one host, and this one on another. */
START_TEST(host_with_more_ranks_than_share_one_level)
{
    static struct comm_peer peers[PEERS_MAX];
    int n = LOCAL_SIZE_MAX + _i;
    struct endpoint_config ec = {"127.0.0.1", GROUP_JOB, 900, 1000000,
                                 GROUP_JOB_KEY};
    struct comm_config config = {.job = GROUP_JOB,
                                 .generation = 1,
                                 .rank = n,
                                 .size = n + 1,
                                 .peers = peers};
    struct comm *comm;

    for (int i = 0; i <= n; i++)
        peers[i] = (struct comm_peer){.worker = 900 - (uint64_t)(n - i),
                                      .host = i < n ? 1u : 2u,
                                      .abilities = COMM_CAN_ALL};
    ck_assert_int_eq(endpoint_create(&ec, &config.endpoint), HVD_OK);
    ck_assert_int_eq(comm_create(&config, &comm), HVD_OK);
    ck_assert_int_eq(comm->two_level != NULL, _i == 0);
    comm_destroy(comm);
    endpoint_destroy(config.endpoint);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("levels");
    TCase *tc = tcase_create("levels");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, levels_by_kind);
    tcase_add_test(tc, reduction_by_size_whole_or_in_slices);
    tcase_add_test(tc, algorithm_between_hosts_by_the_size_of_a_slice);
    tcase_add_test(tc, broadcast_by_size_first_inside_or_between);
    tcase_add_loop_test(tc, host_with_more_ranks_than_share_one_level, 0, 2);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
