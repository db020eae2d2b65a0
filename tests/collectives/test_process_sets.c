/* tests/collectives/test_process_sets.c - comms of some ranks of a world: they
 * wait for nobody else, and end with it. */
#include <sched.h>
#include <stdatomic.h>

#include "base/array.h"
#include "base/clock.h"
#include "collectives/process_set.h"
#include "named.h"

enum { RANKS = 4, COUNT = 3000, ROUNDS = 40 };

/* Each rank is in one of the first two; the order within one is its own. */
static const int evens[] = {2, 0}, odds[] = {1, 3}, most[] = {3, 0, 2};

static struct comm *halves(struct group *g, int rank)
{
    struct comm *set;
    hvd_status_t status = process_set_create(
        g->comms[rank], rank % 2 == 0 ? 1 : 2, rank % 2 == 0 ? evens : odds, 2,
        &set);

    return status == HVD_OK ? set : NULL;
}

/* Of the threads: a barrier of the comm's may be met by its end. */
static pthread_barrier_t meet;

static void play(rank_fn *fn)
{
    struct group g;

    group_init(&g, RANKS);
    pthread_barrier_init(&meet, NULL, RANKS);
    group_run(&g, fn, NULL);
    pthread_barrier_destroy(&meet);
    group_fini(&g);
}

/* --- what they compute --- */

static bool ranks_are_places(struct group *g, int rank, void *arg)
{
    struct comm *set = halves(g, rank);
    int place = set->config.rank, all[2];
    float root = (float)rank, mean = (float)rank;
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHER,
                                   .sendbuf = &rank,
                                   .recvbuf = all,
                                   .count = 1,
                                   .dtype = HVD_INT32};

    (void)arg;
    EXPECT(set->config.size == 2);
    EXPECT((rank % 2 == 0 ? evens : odds)[place] == rank);
    EXPECT(comm_run(set, &args) == HVD_OK);
    EXPECT(memcmp(all, rank % 2 == 0 ? evens : odds, sizeof(all)) == 0);
    EXPECT(broadcast(set, &root, 1, HVD_FLOAT32, 1) == HVD_OK);
    EXPECT(root == (rank % 2 == 0 ? 0 : 3));
    EXPECT(allreduce(set, &mean, &mean, 1, HVD_FLOAT32, HVD_AVERAGE) == HVD_OK);
    EXPECT(mean == (rank % 2 == 0 ? 1 : 2));
    EXPECT(process_set_destroy(set) == HVD_OK);
    return true;
}

START_TEST(ranks_are_places_in_the_list)
{
    play(ranks_are_places);
}
END_TEST

/* Calls of several sets and the world, posted in another order on each rank,
 * but for that of each set. */
static bool mix(struct group *g, int rank, void *arg)
{
    struct comm *sets[3] = {g->comms[rank], halves(g, rank), NULL};
    float sums[3] = {10, rank % 2 == 0 ? 4 : 6, 8};
    int n = rank == 1 ? 2 : 3;
    static float bufs[RANKS][3][COUNT];
    struct hvd_request *requests[3];

    (void)arg;
    if (n == 3)
        EXPECT(process_set_create(sets[0], 3, most, 3, &sets[2]) == HVD_OK);
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < n; k++) {
            int s = (k + rank + i) % n;

            fill(bufs[rank][s], COUNT, (float)((rank + 1) * (i + 1)));
            EXPECT(post_sum(sets[s], bufs[rank][s], COUNT, &requests[s]) ==
                   HVD_OK);
        }
        for (int k = 0; k < n; k++)
            EXPECT(request_wait(requests[(k + i) % n]) == HVD_OK);
        for (int s = 0; s < n; s++)
            EXPECT(all_are(bufs[rank][s], COUNT, sums[s] * (float)(i + 1)));
    }
    EXPECT(process_set_destroy(sets[1]) == HVD_OK);
    if (n == 3)
        EXPECT(process_set_destroy(sets[2]) == HVD_OK);
    return true;
}

START_TEST(order_is_that_of_each_set)
{
    play(mix);
}
END_TEST

/* The odd ranks do nothing until the even ones are through with everything. */
static bool go_ahead(struct group *g, int rank, void *arg)
{
    atomic_int *n_through = arg;
    struct comm *set = halves(g, rank);
    float x = 1;

    while (rank % 2 == 1 && atomic_load(n_through) < 2)
        sched_yield();
    for (int i = 0; i < ROUNDS; i++)
        EXPECT(allreduce(set, &x, &x, 1, HVD_FLOAT32, HVD_MAX) == HVD_OK);
    EXPECT(process_set_destroy(set) == HVD_OK);
    atomic_fetch_add(n_through, 1);
    return barrier(g->comms[rank]) == HVD_OK;
}

START_TEST(sets_do_not_wait_for_each_other)
{
    atomic_int n_through = 0;
    struct group g;

    group_init(&g, RANKS);
    group_run(&g, go_ahead, &n_through);
    group_fini(&g);
}
END_TEST

/* The same names, at the same time, in the world and in each set. */
static bool post_names(struct group *g, int rank, void *arg)
{
    struct comm *comms[2] = {g->comms[rank], halves(g, rank)};
    float sums[2] = {10, rank % 2 == 0 ? 4 : 6};
    float bufs[2][NAMES];
    struct hvd_request *requests[2][NAMES];
    char name[16];

    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        for (int k = 0; k < 2 * NAMES; k++) {
            int c = (k + rank) % 2, at = (k / 2 * 7 + rank + i) % NAMES;

            snprintf(name, sizeof(name), "%d", at);
            bufs[c][at] = (float)(rank + 1);
            EXPECT(post_named(comms[c], name, &bufs[c][at], 1,
                              &requests[c][at]) == HVD_OK);
        }
        for (int k = 0; k < 2 * NAMES; k++)
            EXPECT(request_wait(requests[k % 2][k / 2]) == HVD_OK);
        for (int c = 0; c < 2; c++)
            EXPECT(all_are(bufs[c], NAMES, sums[c]));
    }
    EXPECT(process_set_destroy(comms[1]) == HVD_OK);
    return true;
}

START_TEST(names_are_those_of_the_set)
{
    play(post_names);
}
END_TEST

/* What waits is told, the oldest first, and by whose ranks. */
static bool are_told(struct comm *world, const struct comm *set, int rank)
{
    struct by_name_wait waits[2];
    struct by_name_waits all = {waits, 2, 0};
    uint32_t ranks[1];

    by_name_add_waits(world, &all);
    process_sets_add_waits(world, &all);
    EXPECT(all.n_all == 3);
    EXPECT(strcmp(waits[0].name, "first") == 0 && waits[0].set == 0);
    EXPECT(strcmp(waits[1].name, "second") == 0);
    EXPECT(waits[1].set == set->config.set);
    EXPECT(process_sets_ranks(world, waits[1].set, ranks, 1) == 2);
    EXPECT(ranks[0] == 2);
    EXPECT(process_sets_ranks(world, 1000, ranks, 1) == 0);
    return true;
}

static bool wait_in_both(struct group *g, int rank, void *arg)
{
    struct comm *world = g->comms[rank], *set = halves(g, rank);
    struct comm *where[3] = {world, set, world};
    static const char *const names[] = {"first", "second", "third"};
    struct hvd_request *requests[3];
    struct by_name_waits none = {NULL, 0, 0};
    float x[3] = {1, 1, 1};

    (void)arg;
    for (int i = 0; i < 3; i++) {
        uint64_t now_us;

        if (rank != 0 && i == 0)
            pthread_barrier_wait(&meet);
        EXPECT(post_named(where[i], names[i], &x[i], 1, &requests[i]) ==
               HVD_OK);
        now_us = clock_now_us();
        while (clock_now_us() == now_us) /* no two at the same time */
            continue;
    }
    if (rank == 0) {
        EXPECT(are_told(world, set, rank));
        pthread_barrier_wait(&meet);
    }
    for (int i = 0; i < 3; i++)
        EXPECT(request_wait(requests[i]) == HVD_OK);
    by_name_add_waits(world, &none);
    process_sets_add_waits(world, &none);
    EXPECT(none.n_all == 0);
    return process_set_destroy(set) == HVD_OK;
}

START_TEST(what_waits_is_told)
{
    play(wait_in_both);
}
END_TEST

static bool alone(struct group *g, int rank, void *arg)
{
    struct comm *set;
    float x = 3;

    (void)arg;
    EXPECT(process_set_create(g->comms[rank], 1, &rank, 1, &set) == HVD_OK);
    EXPECT(allreduce(set, &x, &x, 1, HVD_FLOAT32, HVD_SUM) == HVD_OK);
    EXPECT(x == 3);
    EXPECT(process_set_destroy(set) == HVD_OK);
    return barrier(g->comms[rank]) == HVD_OK;
}

START_TEST(set_of_one)
{
    play(alone);
}
END_TEST

/* --- agreement --- */

static bool agree(struct group *g, int rank, void *arg)
{
    struct comm *world = g->comms[rank];

    (void)arg;
    EXPECT(process_set_agree(world, "sets", most, 3) == HVD_OK);
    EXPECT(process_set_agree(world, "sets", NULL, 0) == HVD_OK);
    EXPECT(process_set_agree(world, "sets", rank == 2 ? evens : odds, 2) ==
           HVD_ERR_MISMATCH);
    EXPECT(text_has("sets: rank 0 names (1, 3), rank 2 names (2, 0)"));
    EXPECT(comm_status(world, NULL) == HVD_ERR_MISMATCH);
    return true;
}

START_TEST(other_ranks_are_named)
{
    play(agree);
}
END_TEST

/* --- the end --- */

/* Rank 2 goes without a word. Rank 0 finds out in their set, and accuses it by
 * its number in the world, which ends; rank 3 is told by rank 0, whose set
 * does not concern it. */
static bool lose_in_set(struct group *g, int rank, void *arg)
{
    struct comm *world = g->comms[rank];
    struct comm *set = halves(g, rank);
    const int *accused;
    size_t n;
    float x = 1;

    (void)arg;
    EXPECT(allreduce(set, &x, &x, 1, HVD_FLOAT32, HVD_SUM) == HVD_OK);
    EXPECT(barrier(world) == HVD_OK);
    pthread_barrier_wait(&meet);
    if (rank == 2) {
        comm_destroy(world);
        g->comms[rank] = NULL;
        return true;
    }
    EXPECT(rank != 0 ||
           allreduce(set, &x, &x, 1, HVD_FLOAT32, HVD_SUM) == HVD_PEER_LOST);
    EXPECT(rank == 0 || barrier(world) == HVD_PEER_LOST);
    EXPECT(comm_status(world, NULL) == HVD_PEER_LOST);
    EXPECT(allreduce(set, &x, &x, 1, HVD_FLOAT32, HVD_SUM) == HVD_PEER_LOST);
    comm_leave(world, COMM_LEAVE_ABORT, 0);
    accused = comm_accused(world, &n);
    EXPECT(rank != 0 || (n == 1 && accused[0] == 2));
    return true;
}

START_TEST(lost_in_a_set_is_lost_in_the_world)
{
    play(lose_in_set);
}
END_TEST

/* The reason is the world's, and is not forgotten with the set. */
static bool differ_in_set(struct group *g, int rank, void *arg)
{
    struct comm *world = g->comms[rank];
    struct comm *set = halves(g, rank);
    float x = 1;

    (void)arg;
    EXPECT(barrier(world) == HVD_OK);
    pthread_barrier_wait(&meet);
    if (rank == 2)
        EXPECT(barrier(set) == HVD_ERR_MISMATCH);
    if (rank == 0)
        EXPECT(allreduce(set, &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
               HVD_ERR_MISMATCH);
    if (rank % 2 == 0) {
        EXPECT(comm_whole(world) == HVD_ERR_MISMATCH);
        EXPECT(process_set_destroy(set) == HVD_ERR_MISMATCH);
        EXPECT(comm_whole(world) == HVD_ERR_MISMATCH);
        EXPECT(text_has("in the communicator (2, 0): "));
    }
    EXPECT(barrier(world) == HVD_ERR_MISMATCH);
    return true;
}

START_TEST(mismatch_in_a_set_is_one_of_the_world)
{
    play(differ_in_set);
}
END_TEST

/* An abort reaches who waits in a set, by order and by name; and a set that
 * comes after it. */
static bool abort_waiting(struct group *g, int rank, void *arg)
{
    struct comm *world = g->comms[rank];
    struct comm *set = halves(g, rank), *late;
    struct hvd_request *ordered = NULL, *named = NULL;
    float x = 1, y = 1;

    (void)arg;
    EXPECT(barrier(set) == HVD_OK);
    pthread_barrier_wait(&meet);
    if (rank == 0)
        EXPECT(post_sum(set, &x, 1, &ordered) == HVD_OK);
    if (rank % 2 == 1)
        EXPECT(post_named(set, rank == 1 ? "one" : "other", &y, 1, &named) ==
               HVD_OK);
    comm_abort(world, HVD_PEER_LOST, "somebody died");
    EXPECT(rank != 0 || request_wait(ordered) == HVD_PEER_LOST);
    EXPECT(rank % 2 == 0 || request_wait(named) == HVD_PEER_LOST);
    EXPECT(process_set_create(world, 9, &rank, 1, &late) == HVD_OK);
    EXPECT(barrier(late) == HVD_PEER_LOST);
    comm_leave(world, COMM_LEAVE_ABORT, 0);
    EXPECT(process_set_create(world, 10, &rank, 1, &late) == HVD_PEER_LOST);
    return true;
}

START_TEST(abort_reaches_the_sets)
{
    for (int i = 0; i < 10; i++)
        play(abort_waiting);
}
END_TEST

/* Rank 0 has met the end of the world elsewhere, and drops a set in which rank
 * 2 waits for it. */
static bool drop_when_over(struct group *g, int rank, void *arg)
{
    struct comm *world = g->comms[rank];
    struct comm *set = halves(g, rank);
    float x = 1;

    (void)arg;
    EXPECT(barrier(set) == HVD_OK);
    pthread_barrier_wait(&meet);
    if (rank == 2)
        EXPECT(allreduce(set, &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
               HVD_PEER_LOST);
    if (rank == 0) {
        comm_abort(world, HVD_PEER_LOST, "somebody died");
        EXPECT(process_set_destroy(set) == HVD_PEER_LOST);
    }
    return true;
}

START_TEST(set_of_a_world_that_is_over_is_no_mismatch)
{
    play(drop_when_over);
}
END_TEST

/* What a rank lends in a set, and does not wait for anybody to read, is there
 * until all have; then others use that memory. */
static bool lend(struct group *g, int rank, void *arg)
{
    enum { MUCH = 30000 };
    struct comm *set;
    float *buf = malloc(MUCH * sizeof(float));

    (void)arg;
    for (uint32_t i = 1; i < 12; i++) {
        EXPECT(process_set_create(g->comms[rank], 2 * i + (uint32_t)rank % 2,
                                  rank % 2 == 0 ? evens : odds, 2,
                                  &set) == HVD_OK);
        fill(buf, MUCH, set->config.rank == 0 ? (float)i : 0);
        for (int k = 0; k < 2000 * set->config.rank; k++)
            sched_yield();
        EXPECT(broadcast(set, buf, MUCH, HVD_FLOAT32, 0) == HVD_OK);
        EXPECT(process_set_destroy(set) == HVD_OK);
        EXPECT(all_are(buf, MUCH, (float)i));
    }
    free(buf);
    return barrier(g->comms[rank]) == HVD_OK;
}

START_TEST(what_a_set_lends_outlives_it)
{
    play(lend);
}
END_TEST

/* A post that was refused as all is over has failed, whoever looks. */
static bool post_late(struct group *g, int rank, void *arg)
{
    struct comm *world = g->comms[rank];
    struct comm *set = halves(g, rank);
    struct hvd_request *request;
    float x = 1;

    (void)arg;
    comm_abort(world, HVD_PEER_LOST, "somebody died");
    EXPECT(comm_whole(world) == HVD_OK);
    EXPECT(post_named(set, "late", &x, 1, &request) == HVD_PEER_LOST);
    EXPECT(comm_whole(world) == HVD_PEER_LOST);
    return true;
}

START_TEST(refusal_is_a_failure)
{
    play(post_late);
}
END_TEST

/* Who leaves, drains or destroys completes what was posted. */
static bool complete(struct group *g, int rank, void *arg)
{
    struct comm *world = g->comms[rank];
    struct comm *set = halves(g, rank);
    struct hvd_request *requests[4];
    float x[4] = {1, 1, 1, 1};
    int how = *(int *)arg;

    for (int i = 0; i < 3; i++)
        EXPECT(post_sum(set, &x[i], 1, &requests[i]) == HVD_OK);
    EXPECT(post_named(set, "name", &x[3], 1, &requests[3]) == HVD_OK);
    if (how == 0)
        EXPECT(comm_drain(world) == HVD_OK);
    if (how == 1)
        EXPECT(process_set_destroy(set) == HVD_OK);
    if (how == 2)
        comm_leave(world, COMM_LEAVE_BOUNDARY, 1);
    if (how == 3)
        comm_leave(world, COMM_LEAVE_DONE, 1);
    for (int i = 0; i < 4; i++)
        EXPECT(request_done(requests[i]) && x[i] == 2);
    for (int i = 0; i < 4; i++)
        EXPECT(request_wait(requests[i]) == HVD_OK);
    return how > 1 || barrier(world) == HVD_OK;
}

START_TEST(nothing_is_left_behind)
{
    struct group g;
    int n_fds;

    group_init(&g, RANKS);
    group_fini(&g);
    n_fds = count_fds();
    group_init(&g, RANKS);
    group_run(&g, complete, &_i);
    group_fini(&g);
    ck_assert_int_eq(count_fds(), n_fds);
}
END_TEST

/* As many as one likes, one after the other. */
static bool make_many(struct group *g, int rank, void *arg)
{
    (void)arg;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const int *ranks = rank % 2 == 0 ? evens : odds;
        struct comm *set;

        EXPECT(process_set_create(g->comms[rank], 1 + i, ranks, 2, &set) ==
               HVD_OK);
        EXPECT(i % 3 == 0 || barrier(set) == HVD_OK);
        EXPECT(process_set_destroy(set) == HVD_OK);
    }
    return barrier(g->comms[rank]) == HVD_OK;
}

START_TEST(sets_come_and_go)
{
    play(make_many);
}
END_TEST

/* Name and ranks count. Counted numbers are below. */
START_TEST(numbers_of_groups_differ)
{
    static const int ranks[] = {0, 1, 2}, others[] = {0, 1, 3};
    uint32_t all[] = {
        process_set_number("a", ranks, 3), process_set_number("b", ranks, 3),
        process_set_number("a", ranks, 2), process_set_number("a", others, 3)};

    ck_assert_uint_eq(process_set_number("a", ranks, 3), all[0]);
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        ck_assert_uint_ge(all[i], UINT32_C(1) << 30);
        ck_assert_uint_lt(all[i], UINT32_C(1) << 31);
        for (size_t k = 0; k < i; k++)
            ck_assert_uint_ne(all[i], all[k]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("process_sets");
    TCase *tc = tcase_create("process_sets");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, ranks_are_places_in_the_list);
    tcase_add_test(tc, order_is_that_of_each_set);
    tcase_add_test(tc, sets_do_not_wait_for_each_other);
    tcase_add_test(tc, names_are_those_of_the_set);
    tcase_add_test(tc, what_waits_is_told);
    tcase_add_test(tc, set_of_one);
    tcase_add_test(tc, numbers_of_groups_differ);
    tcase_add_test(tc, other_ranks_are_named);
    tcase_add_test(tc, lost_in_a_set_is_lost_in_the_world);
    tcase_add_test(tc, mismatch_in_a_set_is_one_of_the_world);
    tcase_add_test(tc, abort_reaches_the_sets);
    tcase_add_test(tc, set_of_a_world_that_is_over_is_no_mismatch);
    tcase_add_test(tc, what_a_set_lends_outlives_it);
    tcase_add_test(tc, refusal_is_a_failure);
    tcase_add_loop_test(tc, nothing_is_left_behind, 0, 4);
    tcase_add_test(tc, sets_come_and_go);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
