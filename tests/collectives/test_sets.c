/* tests/collectives/test_sets.c - several comms of one generation at the same
 * endpoints, each driven by a thread of its own. */
#include <sched.h>

#include "base/clock.h"
#include "collectives/net/endpoint_impl.h"
#include "posted.h"

enum { CALLS = 300, COUNT = 700, SETS = 3 };

struct sets {
    struct comm *comms[GROUP_MAX][SETS]; /* by rank */
};

/* One comm of a rank on a thread of its own. */
struct lane {
    pthread_t thread;
    struct group *group;
    struct comm *comm;
    int rank, set;
    bool ok;
};

static bool sum_up(const struct lane *lane)
{
    int rank = lane->rank;
    float x[COUNT];

    for (int i = 0; i < CALLS; i++) {
        fill(x, COUNT, (float)((rank + 1) * (lane->set + 1)));
        EXPECT(allreduce(lane->comm, x, x, COUNT, HVD_FLOAT32, HVD_SUM) ==
               HVD_OK);
        EXPECT(all_are(x, COUNT, sum_of(lane->group, (float)(lane->set + 1))));
    }
    return true;
}

static void *lane_main(void *arg)
{
    struct lane *lane = arg;

    lane->ok = sum_up(lane);
    return NULL;
}

static bool run_lanes(struct group *g, int rank, void *arg)
{
    struct sets *sets = arg;
    struct lane lanes[SETS];

    for (int i = 0; i < SETS; i++) {
        sets->comms[rank][i] = i == 0 ? g->comms[rank]
                                      : group_comm_of_set(g, rank, (uint32_t)i);
        EXPECT(sets->comms[rank][i] != NULL);
        lanes[i] = (struct lane){
            .group = g, .comm = sets->comms[rank][i], .rank = rank, .set = i};
        pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]);
    }
    for (int i = 0; i < SETS; i++)
        pthread_join(lanes[i].thread, NULL);
    for (int i = 0; i < SETS; i++)
        EXPECT(lanes[i].ok);
    for (int i = 1; i < SETS; i++) {
        comm_leave(sets->comms[rank][i], COMM_LEAVE_DONE, 0);
        comm_destroy(sets->comms[rank][i]);
    }
    return true;
}

START_TEST(comms_of_a_generation_do_not_wait_for_each_other)
{
    static struct sets sets;
    struct group g;

    for (int size = 2; size <= 4; size++) {
        group_init(&g, size);
        group_run(&g, run_lanes, &sets);
        group_fini(&g);
    }
}
END_TEST

/* Rank 0 makes its comm of the set when the other waits for it already: what
 * has come for it has no deadline. */
static bool make_it_late(struct group *g, int rank, void *arg)
{
    struct endpoint *ep = g->endpoints[0];
    struct comm *set;
    float x = 1;

    EXPECT(allreduce(g->comms[rank], &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
           HVD_OK);
    while (rank == 0 && (endpoint_fds_count(ep) == 2 ||
                         endpoint_deadline(ep) != CLOCK_NEVER)) {
        endpoint_drive(ep, NULL);
        sched_yield();
    }
    set = group_comm_of_set(g, rank, 7);
    EXPECT(set != NULL);
    x = 1;
    EXPECT(allreduce(set, &x, &x, 1, HVD_FLOAT32, HVD_SUM) == HVD_OK);
    EXPECT(x == 2);
    comm_leave(set, COMM_LEAVE_DONE, 0);
    comm_destroy(set);
    return true;
}

START_TEST(who_waits_for_a_comm_that_is_to_come_is_kept)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, make_it_late, NULL);
    group_fini(&g);
}
END_TEST

/* A goodbye is one of its set: the others live. */
static bool part_with_one(struct group *g, int rank, void *arg)
{
    struct comm *set = group_comm_of_set(g, rank, 1);
    float x = 1;

    EXPECT(set != NULL);
    EXPECT(allreduce(set, &x, &x, 1, HVD_FLOAT32, HVD_SUM) == HVD_OK);
    EXPECT(barrier(g->comms[rank]) == HVD_OK); /* all are through it */
    if (rank == 0)
        comm_leave(set, COMM_LEAVE_ABORT, 0);
    else
        EXPECT(allreduce(set, &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
               HVD_PEER_LOST);
    comm_destroy(set);
    x = 1;
    EXPECT(allreduce(g->comms[rank], &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
           HVD_OK);
    EXPECT(x == (float)g->size);
    return true;
}

START_TEST(an_end_of_one_is_none_of_the_others)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, part_with_one, NULL);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sets");
    TCase *tc = tcase_create("sets");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, comms_of_a_generation_do_not_wait_for_each_other);
    tcase_add_test(tc, who_waits_for_a_comm_that_is_to_come_is_kept);
    tcase_add_test(tc, an_end_of_one_is_none_of_the_others);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
