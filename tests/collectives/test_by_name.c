/* tests/collectives/test_by_name.c - calls by name: in any order, from any
 * thread, beside ordered ones; ranks that differ. */
#include <sched.h>

#include "named.h"

/* --- any order --- */

/* way 0: waits in the order of its posts; 1: in another; 2: looks until all are
 * done. */
static bool in_any_order(struct group *g, int rank, void *arg)
{
    struct random_state random = {.s = (uint64_t)rank + 1};
    int way = *(int *)arg, posts[NAMES], waits[NAMES];
    struct tensors t;

    alloc_tensors(&t);
    for (int step = 0; step < STEPS; step++) {
        shuffle(&random, posts, NAMES);
        shuffle(&random, waits, NAMES);
        for (int i = 0; i < NAMES; i++) {
            EXPECT(post_tensor(g->comms[rank], &t, posts[i], rank, step));
            if (random_below(&random, 20) == 0)
                sched_yield();
        }
        for (int i = 0; i < NAMES; i++) {
            int at = way == 1 ? waits[i] : posts[i];

            while (way == 2 && !request_done(t.requests[at]))
                sched_yield();
            EXPECT(wait_tensor(g, &t, at, rank, step));
        }
    }
    free_tensors(&t);
    return true;
}

START_TEST(named_calls_run_in_any_order)
{
    struct group g;

    for (int size = 2; size <= 4; size++) {
        group_init(&g, size);
        group_run(&g, in_any_order, &_i);
        group_fini(&g);
    }
}
END_TEST

/* Some of them are, by one scale or another; groups too. */
static bool scaled(struct group *g, int rank, void *arg)
{
    struct random_state random = {.s = (uint64_t)rank + 1};
    int order[NAMES];
    struct tensors t;

    alloc_tensors(&t);
    for (int step = 0; step < STEPS; step++) {
        shuffle(&random, order, NAMES);
        for (int k = 0; k < NAMES; k++) {
            int i = order[k];
            const void *send = t.bufs[i];
            void *recv = t.bufs[i];
            size_t count = count_of(i);
            struct comm_group one = {1, &send, &recv, &count};
            struct collective_args args = sum_args(send, recv, count);
            char name[32];

            snprintf(name, sizeof(name), "scaled.%d", i);
            args.name = name;
            scale_args(&args, i % 3 == 0 ? 0.5 : 0,
                       i % 3 > 0 ? 2 * (i % 3) : 0);
            fill(recv, count, (float)((rank + 1) * 4));
            EXPECT(by_name_post(g->comms[rank], &args, i % 4 == 0 ? &one : NULL,
                                &t.requests[i]) == HVD_OK);
        }
        for (int i = 0; i < NAMES; i++) {
            float factor = i % 3 == 0 ? 2 : (float)(8 * (i % 3));

            EXPECT(request_wait(t.requests[i]) == HVD_OK);
            EXPECT(all_are(t.bufs[i], count_of(i), sum_of(g, factor)));
        }
    }
    free_tensors(&t);
    return true;
}

START_TEST(scaled_calls_may_be_fused)
{
    struct group g;

    for (int size = 2; size <= 3; size++) {
        group_init(&g, size);
        group_run(&g, scaled, NULL);
        group_fini(&g);
    }
}
END_TEST

/* What rank 1 posts last, rank 0 waits for in between. */
static bool wait_in_between(struct group *g, int rank, void *arg)
{
    struct tensors t;

    alloc_tensors(&t);
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < NAMES; i += 2) {
            int first = i + rank % 2, second = i + 1 - rank % 2;

            EXPECT(post_tensor(g->comms[rank], &t, first, rank, step));
            EXPECT(post_tensor(g->comms[rank], &t, second, rank, step));
            EXPECT(wait_tensor(g, &t, second, rank, step));
            EXPECT(wait_tensor(g, &t, first, rank, step));
        }
    free_tensors(&t);
    return true;
}

START_TEST(named_calls_are_waited_for_in_between)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, wait_in_between, NULL);
    group_fini(&g);
}
END_TEST

/* --- any thread --- */

struct poster {
    pthread_t thread;
    struct group *group;
    int rank, first;
    bool ok;
};

static bool post_share(struct poster *p)
{
    struct comm *comm = p->group->comms[p->rank];
    int rank = p->rank;
    struct tensors t;

    alloc_tensors(&t);
    for (int step = 0; step < STEPS; step++) {
        for (int i = p->first; i < NAMES; i += THREADS)
            EXPECT(post_tensor(comm, &t, i, p->rank, step));
        for (int i = p->first; i < NAMES; i += THREADS)
            EXPECT(wait_tensor(p->group, &t, i, p->rank, step));
    }
    free_tensors(&t);
    return true;
}

static void *poster_main(void *arg)
{
    struct poster *p = arg;

    p->ok = post_share(p);
    return NULL;
}

static bool from_threads(struct group *g, int rank, void *arg)
{
    struct poster posters[THREADS];

    for (int i = 0; i < THREADS; i++) {
        posters[i] = (struct poster){.group = g, .rank = rank, .first = i};
        pthread_create(&posters[i].thread, NULL, poster_main, &posters[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(posters[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        EXPECT(posters[i].ok);
    return true;
}

START_TEST(any_thread_posts_and_waits)
{
    struct group g;

    for (int size = 2; size <= 3; size++) {
        group_init(&g, size);
        group_run(&g, from_threads, NULL);
        group_fini(&g);
    }
}
END_TEST

/* --- beside ordered calls --- */

static bool beside_ordered(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *named, *posted;
    float x, y, z;

    for (int step = 0; step < 3 * STEPS; step++) {
        x = y = z = (float)(rank + 1);
        if ((rank + step) % 2 == 0)
            EXPECT(post_named(comm, "x", &x, 1, &named) == HVD_OK);
        EXPECT(post_sum(comm, &z, 1, &posted) == HVD_OK);
        EXPECT(allreduce(comm, &y, &y, 1, HVD_FLOAT32, HVD_SUM) == HVD_OK);
        if ((rank + step) % 2 != 0)
            EXPECT(post_named(comm, "x", &x, 1, &named) == HVD_OK);
        EXPECT(request_wait(named) == HVD_OK);
        EXPECT(request_wait(posted) == HVD_OK);
        EXPECT(x == sum_of(g, 1) && y == x && z == x);
    }
    return true;
}

START_TEST(ordered_calls_may_stand_between)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, beside_ordered, NULL);
    group_fini(&g);
}
END_TEST

/* --- all kinds --- */

static bool all_kinds(struct group *g, int rank, void *arg)
{
    static const char *const names[] = {"sum",  "root", "all",
                                        "part", "turn", "meet"};
    static const int kinds[] = {COLLECTIVE_ALLREDUCE,      COLLECTIVE_BROADCAST,
                                COLLECTIVE_ALLGATHER,      COLLECTIVE_ALLTOALL,
                                COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_BARRIER};
    struct hvd_request *requests[ARRAY_SIZE(kinds)];
    float in[ARRAY_SIZE(kinds)][8], out[ARRAY_SIZE(kinds)][8];
    int n = (int)ARRAY_SIZE(kinds);

    for (int k = 0; k < n; k++) {
        int i = rank % 2 == 0 ? k : n - 1 - k;
        struct collective_args args = sum_args(in[i], out[i], 1);

        args.kind = (enum collective_kind)kinds[i];
        args.root = 1;
        args.name = names[i];
        for (int j = 0; j < 8; j++)
            in[i][j] = (float)(10 * rank + j);
        out[i][0] = (float)rank;
        EXPECT(by_name_post(g->comms[rank], &args, NULL, &requests[i]) ==
               HVD_OK);
    }
    for (int i = 0; i < n; i++)
        EXPECT(request_wait(requests[i]) == HVD_OK);
    EXPECT(out[0][0] == (float)(5 * g->size * (g->size - 1)));
    EXPECT(out[1][0] == 1);
    for (int j = 0; j < g->size; j++) {
        EXPECT(out[2][j] == (float)(10 * j));
        EXPECT(out[3][j] == (float)(10 * j + rank));
    }
    EXPECT(out[4][0] == (float)(5 * g->size * (g->size - 1) + g->size * rank));
    return true;
}

START_TEST(all_kinds_have_names)
{
    struct group g;

    for (int size = 2; size <= 4; size++) {
        group_init(&g, size);
        group_run(&g, all_kinds, NULL);
        group_fini(&g);
    }
}
END_TEST

/* A group is one name; fused, or alone. */
static bool groups(struct group *g, int rank, void *arg)
{
    float a[3], b[20000], c[5];
    const void *sends[] = {a, b};
    void *recvs[] = {a, b};
    const size_t counts[] = {3, 20000};
    struct comm_group group = {2, sends, recvs, counts};
    struct collective_args args = sum_args(NULL, NULL, 0);
    struct hvd_request *grouped, *single;

    args.name = "group";
    for (int step = 0; step < STEPS; step++) {
        fill(a, 3, (float)(rank + 1));
        fill(b, 20000, (float)(2 * (rank + 1)));
        fill(c, 5, (float)(3 * (rank + 1)));
        if (rank == 0)
            EXPECT(post_named(g->comms[0], "c", c, 5, &single) == HVD_OK);
        EXPECT(by_name_post(g->comms[rank], &args, &group, &grouped) == HVD_OK);
        if (rank != 0)
            EXPECT(post_named(g->comms[rank], "c", c, 5, &single) == HVD_OK);
        EXPECT(request_wait(grouped) == HVD_OK);
        EXPECT(request_wait(single) == HVD_OK);
        EXPECT(all_are(a, 3, sum_of(g, 1)) && all_are(b, 20000, sum_of(g, 2)));
        EXPECT(all_are(c, 5, sum_of(g, 3)));
    }
    return true;
}

START_TEST(a_group_is_one_name)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, groups, NULL);
    group_fini(&g);
}
END_TEST

/* --- what is wrong --- */

static bool refused(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct hvd_request *first, *second;
    float x = 1, y = 1;

    EXPECT(post_named(comm, "", &x, 1, &first) == HVD_ERR_INVALID);
    EXPECT(text_has("there is no name"));
    EXPECT(post_named(comm, NULL, &x, 1, &first) == HVD_ERR_INVALID);
    EXPECT(post_named(comm, "x", NULL, 1, &first) == HVD_ERR_INVALID);
    if (rank == 0) {
        EXPECT(post_named(comm, "x", &x, 1, &first) == HVD_OK);
        EXPECT(post_named(comm, "x", &y, 1, &second) == HVD_ERR_INVALID);
        EXPECT(text_has("allreduce 'x': another call by this name"));
    }
    EXPECT(barrier(comm) == HVD_OK);
    if (rank != 0)
        EXPECT(post_named(comm, "x", &x, 1, &first) == HVD_OK);
    EXPECT(request_wait(first) == HVD_OK);
    EXPECT(x == (float)g->size);
    return true;
}

START_TEST(bad_calls_are_refused_at_once)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, refused, NULL);
    group_fini(&g);
}
END_TEST

/* What rank 1 alone does else. */
struct difference {
    struct collective_args args;
    const char *text;
};

static bool differ(struct group *g, int rank, void *arg)
{
    const struct difference *d = arg;
    struct comm *comm = g->comms[rank];
    float x[8] = {0}, y[8] = {0}, z = 1;
    struct collective_args args = sum_args(x, x, 2);
    struct hvd_request *bad, *good;

    args.name = "w";
    if (rank == 1) {
        args = d->args;
        args.name = "w";
        args.sendbuf = x;
        args.recvbuf = args.kind == COLLECTIVE_ALLREDUCE ? x : y;
    }
    for (int i = 0; i < 2; i++) {
        EXPECT(by_name_post(comm, &args, NULL, &bad) == HVD_OK);
        EXPECT(post_named(comm, "good", &z, 1, &good) == HVD_OK);
        EXPECT(request_wait(bad) == HVD_ERR_MISMATCH);
        EXPECT_SAY(text_has(d->text), "rank %d", rank);
        EXPECT(request_wait(good) == HVD_OK);
    }
    return true;
}

START_TEST(ranks_that_differ_all_learn_of_it_and_go_on)
{
    struct difference all[] = {
        {sum_args(NULL, NULL, 3),
         "'w': rank 0 calls allreduce (float32, sum, 2), rank 1 calls "
         "allreduce (float32, sum, 3)"},
        {sum_args(NULL, NULL, 2), "rank 1 calls allreduce (float32, max, 2)"},
        {sum_args(NULL, NULL, 1), "rank 1 calls allreduce (float64, sum, 1)"},
        {sum_args(NULL, NULL, 2),
         "rank 1 calls broadcast (float32, root 1, 2)"},
        {sum_args(NULL, NULL, 2), "allreduce (float32, sum, 2, scaled by 0.5"},
        {sum_args(NULL, NULL, 2), "rank 1 calls allgather (float32, 2)"},
        {sum_args(NULL, NULL, 2),
         "rank 0 calls allreduce (float32, sum, 2), rank 1 calls allreduce "
         "(float32, sum, 2) of match "}};
    struct group g;

    all[1].args.op = HVD_MAX;
    all[2].args.dtype = HVD_FLOAT64;
    all[3].args.kind = COLLECTIVE_BROADCAST;
    all[3].args.root = 1;
    scale_args(&all[4].args, 0.5, 0);
    all[5].args.kind = COLLECTIVE_ALLGATHER;
    all[6].args.match = "shape [1, 2]";
    group_init(&g, 3);
    group_run(&g, differ, &all[_i]);
    group_fini(&g);
}
END_TEST

/* They differ behind what is quoted. */
static bool match_texts(struct group *g, int rank, void *arg)
{
    char text[] = "a text of more than the thirty-nine bytes that are quoted 0";
    const char *quoted = "; this rank: \"a text of more than the thirty-nine "
                         "byt\"";
    float x = 1;
    struct collective_args args = sum_args(&x, &x, 1);
    struct hvd_request *request;

    args.name = "x";
    args.match = text;
    for (int differ = 1; differ >= 0; differ--) {
        text[sizeof(text) - 2] = (char)('0' + differ * rank);
        EXPECT(by_name_post(g->comms[rank], &args, NULL, &request) == HVD_OK);
        EXPECT(request_wait(request) == (differ ? HVD_ERR_MISMATCH : HVD_OK));
        EXPECT_SAY(!differ || text_has(quoted), "rank %d", rank);
    }
    EXPECT(x == 2);
    return true;
}

START_TEST(texts_that_must_match_are_compared_whole)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, match_texts, NULL);
    group_fini(&g);
}
END_TEST

/* As many in all, but not from each. */
static bool gather_unequally(struct group *g, int rank, void *arg)
{
    const size_t counts[2][2] = {{1, 2}, {2, 1}};
    const size_t displs[2][2] = {{0, 1}, {0, 2}};
    float mine[2] = {1, 1}, all[3], z = 1;
    struct collective_args args = sum_args(mine, all, counts[rank][rank]);
    struct hvd_request *bad, *good;

    args.kind = COLLECTIVE_ALLGATHERV;
    args.recvcounts = counts[rank];
    args.rdispls = displs[rank];
    args.name = "all";
    EXPECT(by_name_post(g->comms[rank], &args, NULL, &bad) == HVD_OK);
    EXPECT(request_wait(bad) == HVD_ERR_MISMATCH);
    EXPECT(text_has("allgatherv (float32, 3, counts "));
    EXPECT(post_named(g->comms[rank], "good", &z, 1, &good) == HVD_OK);
    EXPECT(request_wait(good) == HVD_OK);
    return true;
}

START_TEST(counts_of_each_rank_are_compared)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, gather_unequally, NULL);
    group_fini(&g);
}
END_TEST

/* The ranks compare these counts when the bytes come. Both receive too many, as
 * a rank that receives the counts it expects may have completed the call. */
static bool exchange_unequally(struct group *g, int rank, void *arg)
{
    const size_t sent[2][2] = {{1, 3}, {3, 1}},
                 received[2][2] = {{1, 2}, {2, 1}};
    const size_t displs[2] = {0, 4};
    float in[8] = {0}, out[8];
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALLV,
                                   .sendbuf = in,
                                   .recvbuf = out,
                                   .sendcounts = sent[rank],
                                   .sdispls = displs,
                                   .recvcounts = received[rank],
                                   .rdispls = displs,
                                   .dtype = HVD_FLOAT32,
                                   .name = "all"};
    struct hvd_request *request;

    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    EXPECT(by_name_post(g->comms[rank], &args, NULL, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_ERR_MISMATCH);
    EXPECT(text_has("alltoallv"));
    EXPECT(comm_status(g->comms[rank], NULL) == HVD_ERR_MISMATCH);
    EXPECT(barrier(g->comms[rank]) == HVD_ERR_MISMATCH);
    return true;
}

START_TEST(counts_of_an_alltoallv_that_differ_end_the_generation)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, exchange_unequally, NULL);
    group_fini(&g);
}
END_TEST

/* --- alone --- */

/* Groups, packed in a buffer, by another thread and by this one. */
static bool group_alone(struct comm *comm, int rank, bool named, float value)
{
    float in[2][100], out[2][100];
    const void *sends[] = {in[0], in[1]};
    void *recvs[] = {out[0], out[1]};
    const size_t counts[] = {100, 100};
    struct comm_group group = {2, sends, recvs, counts};
    struct collective_args args = sum_args(NULL, NULL, 0);
    struct hvd_request *request;

    args.name = "group";
    for (int i = 0; i < 20 * STEPS; i++) {
        fill(in[0], 100, value);
        fill(in[1], 100, value + 1);
        EXPECT((named ? by_name_post(comm, &args, &group, &request)
                      : comm_post_group(comm, &args, &group, &request)) ==
               HVD_OK);
        EXPECT(request_done(request));
        EXPECT(request_wait(request) == HVD_OK);
        EXPECT(all_are(out[0], 100, value) && all_are(out[1], 100, value + 1));
    }
    return true;
}

static void *alone_main(void *arg)
{
    struct poster *p = arg;

    p->ok = group_alone(p->group->comms[0], 0, true, 30);
    return NULL;
}

static bool threads_alone(struct group *g, int rank, void *arg)
{
    struct poster other = {.group = g};

    pthread_create(&other.thread, NULL, alone_main, &other);
    EXPECT(group_alone(g->comms[0], 0, false, 10));
    pthread_join(other.thread, NULL);
    EXPECT(other.ok);
    return true;
}

START_TEST(threads_of_a_world_of_one_keep_apart)
{
    struct group g;

    group_init(&g, 1);
    group_run(&g, threads_alone, NULL);
    group_fini(&g);
}
END_TEST

static bool alone(struct group *g, int rank, void *arg)
{
    struct hvd_request *request, *again;
    float x = 3;

    EXPECT(post_named(g->comms[0], "x", &x, 1, &request) == HVD_OK);
    EXPECT(request_done(request));
    EXPECT(post_named(g->comms[0], "x", &x, 1, &again) == HVD_ERR_INVALID);
    EXPECT(request_wait(request) == HVD_OK);
    EXPECT(x == 3);
    EXPECT(post_named(g->comms[0], "x", &x, 1, &again) == HVD_OK);
    group_rank_destroy(g, 0);
    EXPECT(request_wait(again) == HVD_OK);
    return true;
}

START_TEST(a_world_of_one_has_names_too)
{
    struct group g;

    group_init(&g, 1);
    group_run(&g, alone, NULL);
    group_fini(&g);
}
END_TEST

/* Nothing is left behind. */
START_TEST(descriptors_are_given_back)
{
    int way = 0, before;
    struct group g;

    group_init(&g, 2);
    group_run(&g, in_any_order, &way);
    group_fini(&g);
    before = count_fds();
    group_init(&g, 2);
    group_run(&g, in_any_order, &way);
    group_fini(&g);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("by_name");
    TCase *tc = tcase_create("by_name");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, named_calls_run_in_any_order, 0, 3);
    tcase_add_test(tc, scaled_calls_may_be_fused);
    tcase_add_test(tc, named_calls_are_waited_for_in_between);
    tcase_add_test(tc, any_thread_posts_and_waits);
    tcase_add_test(tc, ordered_calls_may_stand_between);
    tcase_add_test(tc, all_kinds_have_names);
    tcase_add_test(tc, a_group_is_one_name);
    tcase_add_test(tc, bad_calls_are_refused_at_once);
    tcase_add_loop_test(tc, ranks_that_differ_all_learn_of_it_and_go_on, 0, 7);
    tcase_add_test(tc, texts_that_must_match_are_compared_whole);
    tcase_add_test(tc, counts_of_each_rank_are_compared);
    tcase_add_test(tc, counts_of_an_alltoallv_that_differ_end_the_generation);
    tcase_add_test(tc, threads_of_a_world_of_one_keep_apart);
    tcase_add_test(tc, a_world_of_one_has_names_too);
    tcase_add_test(tc, descriptors_are_given_back);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
