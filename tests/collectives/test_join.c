/* tests/collectives/test_join.c - ranks that have no more data: what the others
 * reduce is of those that have, until all have joined. */
#include <math.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/random.h"
#include "elements.h"
#include "named.h"

enum { EPOCHS = 6, COUNT = 1000 };

/* Steps of a rank in an epoch: others each time, one has none. */
static int steps_of(const struct group *g, int rank, int epoch)
{
    return (rank * 5 + epoch * 3) % (g->size + 2);
}

static int n_with_data(const struct group *g, int epoch, int step)
{
    int n = 0;

    for (int i = 0; i < g->size; i++)
        n += steps_of(g, i, epoch) > step;
    return n;
}

/* Of those that have data, rank r's being r + 1. */
static double expected(const struct group *g, hvd_op_t op, int epoch, int step)
{
    double sum = 0, product = 1, least = HUGE_VAL, most = -HUGE_VAL;

    for (int i = 0; i < g->size; i++) {
        double x = i + 1;

        if (steps_of(g, i, epoch) <= step)
            continue;
        sum += x;
        product *= x;
        least = x < least ? x : least;
        most = x > most ? x : most;
    }
    return op == HVD_MIN       ? least
           : op == HVD_MAX     ? most
           : op == HVD_PRODUCT ? product
           : op == HVD_AVERAGE ? sum / n_with_data(g, epoch, step)
                               : sum;
}

static bool join(struct group *g, int rank, int epoch)
{
    int last = -1, most = 0;

    EXPECT(by_name_join(g->comms[rank], &last) == HVD_OK);
    for (int i = 0; i < g->size; i++)
        most = steps_of(g, i, epoch) > most ? steps_of(g, i, epoch) : most;
    EXPECT_SAY(last >= 0 && last < g->size && steps_of(g, last, epoch) == most,
               "rank %d: rank %d was last", rank, last);
    return true;
}

/* --- each op and dtype --- */

static bool is_integer(hvd_dtype_t dtype)
{
    return dtype <= HVD_INT64;
}

static bool holds(hvd_dtype_t dtype, const void *buf, size_t n, double x)
{
    uint8_t one[8];

    store(dtype, one, 0, is_integer(dtype) ? trunc(x) : x);
    for (size_t i = 0; i < n; i++)
        if (memcmp((const uint8_t *)buf + i * hvd_dtype_size(dtype), one,
                   hvd_dtype_size(dtype)) != 0)
            return false;
    return true;
}

/* One call of each dtype and op in a step, posted in any order. */
static bool run_step(struct group *g, int rank, int epoch, int step)
{
    static __thread double bufs[DTYPE_COUNT * OP_COUNT][COUNT];
    struct hvd_request *requests[DTYPE_COUNT * OP_COUNT];
    int n = DTYPE_COUNT * OP_COUNT, first = rank * 7 + step;

    for (int k = 0; k < n; k++) {
        int i = (first + k) % n;
        struct collective_args args = sum_args(bufs[i], bufs[i], COUNT);
        char name[32];

        args.dtype = (hvd_dtype_t)(DTYPE_FIRST + i % DTYPE_COUNT);
        args.op = (hvd_op_t)(i / DTYPE_COUNT);
        args.name = name;
        snprintf(name, sizeof(name), "%d", i);
        for (size_t at = 0; at < COUNT; at++)
            store(args.dtype, bufs[i], at, rank + 1);
        EXPECT(by_name_post(g->comms[rank], &args, NULL, &requests[i]) ==
               HVD_OK);
    }
    for (int i = 0; i < n; i++) {
        hvd_op_t op = (hvd_op_t)(i / DTYPE_COUNT);

        EXPECT(request_wait(requests[i]) == HVD_OK);
        EXPECT_SAY(holds((hvd_dtype_t)(DTYPE_FIRST + i % DTYPE_COUNT), bufs[i],
                         COUNT, expected(g, op, epoch, step)),
                   "rank %d, epoch %d, step %d: %s of %s", rank, epoch, step,
                   op_name(op),
                   dtype_name(DTYPE_FIRST + (unsigned)i % DTYPE_COUNT));
    }
    return true;
}

static bool run_epochs(struct group *g, int rank, void *arg)
{
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int step = 0; step < steps_of(g, rank, epoch); step++)
            EXPECT(run_step(g, rank, epoch, step));
        EXPECT(join(g, rank, epoch));
    }
    return true;
}

START_TEST(each_op_is_of_those_that_have_data)
{
    struct group g;

    for (int size = 2; size <= 5; size++) {
        group_init(&g, size);
        group_run(&g, run_epochs, NULL);
        group_fini(&g);
    }
}
END_TEST

/* --- how it is called --- */

/* Divided by all; scaled; as 16 bits; of nothing. */
static const struct {
    bool of_all;
    hvd_dtype_t wire_dtype;
    double scale;
    size_t count;
} ways[] = {
    {true, HVD_DTYPE_SAME, 0, COUNT}, {false, HVD_DTYPE_SAME, 2, COUNT},
    {false, HVD_FLOAT16, 0, COUNT},   {true, HVD_BFLOAT16, 0.5, COUNT},
    {false, HVD_DTYPE_SAME, 0, 0},
};

/* Powers of two: exact in 16 bits. */
static bool check_ways(struct group *g, int rank, int epoch, int step)
{
    float n = (float)n_with_data(g, epoch, step), size = (float)g->size;

    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        float buf[COUNT],
            wanted = ways[i].scale == 0 ? 4 : 4 * (float)ways[i].scale;
        struct collective_args args = sum_args(buf, buf, ways[i].count);
        struct hvd_request *r;
        char name[16];

        snprintf(name, sizeof(name), "way %zu", i);
        args.name = name;
        args.op = HVD_AVERAGE;
        args.of_all = ways[i].of_all;
        args.wire_dtype = ways[i].wire_dtype;
        scale_args(&args, ways[i].scale, 0);
        fill(buf, COUNT, 4);
        if (ways[i].of_all)
            wanted = wanted * n / size;
        EXPECT(by_name_post(g->comms[rank], &args, NULL, &r) == HVD_OK);
        EXPECT(request_wait(r) == HVD_OK);
        EXPECT_SAY(all_are(buf, ways[i].count, wanted), "way %zu: %g, not %g",
                   i, (double)buf[0], (double)wanted);
    }
    return true;
}

static bool check_group(struct group *g, int rank, int epoch, int step)
{
    float a[10], b[20000], c[1];
    const void *sends[] = {a, b, NULL, c};
    void *recvs[] = {a, b, NULL, c};
    const size_t counts[] = {10, 20000, 0, 1};
    struct comm_group group = {4, sends, recvs, counts};
    struct collective_args args = sum_args(NULL, NULL, 0);
    float sum = (float)expected(g, HVD_SUM, epoch, step);
    struct hvd_request *r, *met;

    args.name = "group";
    fill(a, 10, (float)(rank + 1));
    fill(b, 20000, (float)(2 * rank + 2));
    c[0] = (float)(-rank - 1);
    EXPECT(by_name_post(g->comms[rank], &args, &group, &r) == HVD_OK);
    args = (struct collective_args){.kind = COLLECTIVE_BARRIER,
                                    .name = "barrier"};
    EXPECT(by_name_post(g->comms[rank], &args, NULL, &met) == HVD_OK);
    EXPECT(request_wait(met) == HVD_OK);
    EXPECT(request_wait(r) == HVD_OK);
    EXPECT(all_are(a, 10, sum) && all_are(b, 20000, 2 * sum) && c[0] == -sum);
    return true;
}

static bool run_ways(struct group *g, int rank, void *arg)
{
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int step = 0; step < steps_of(g, rank, epoch); step++) {
            EXPECT(check_ways(g, rank, epoch, step));
            EXPECT(check_group(g, rank, epoch, step));
        }
        EXPECT(join(g, rank, epoch));
    }
    return true;
}

START_TEST(groups_scales_and_16_bits_as_well)
{
    struct group g;

    for (int size = 2; size <= 4; size += 2) {
        group_init(&g, size);
        group_run(&g, run_ways, NULL);
        group_fini(&g);
    }
}
END_TEST

/* --- while others are under way --- */

/* Joins without having waited for what it has posted, in an order of its own */
static bool join_at_once(struct group *g, int rank, void *arg)
{
    struct tensors t;
    int last;

    alloc_tensors(&t);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < NAMES; i++)
            EXPECT(post_tensor(g->comms[rank], &t,
                               (i * 7 + rank * 11 + step) % NAMES, rank, step));
        EXPECT(by_name_join(g->comms[rank], &last) == HVD_OK);
        for (int i = 0; i < NAMES; i++) {
            EXPECT(request_done(t.requests[i]));
            EXPECT(wait_tensor(g, &t, i, rank, step));
        }
    }
    free_tensors(&t);
    return true;
}

START_TEST(calls_in_flight_are_completed_first)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, join_at_once, NULL);
    group_fini(&g);
}
END_TEST

/* --- own calls that others never post --- */

enum { ROUNDS = 30 };

/* Each rank's last step has a name that no other rank uses, and one that all
 * but rank 0 use. Rank 2, if there is one, goes on before it joins. */
static bool post_last_calls(struct group *g, int rank, int round)
{
    struct comm *comm = g->comms[rank];
    float own = (float)rank + 1, most = (float)rank, mean = (float)rank;
    struct hvd_request *requests[3];
    struct collective_args args = sum_args(&mean, &mean, 1);
    char name[32];
    int last;

    args.dtype = HVD_FLOAT32;
    args.op = HVD_AVERAGE;
    args.name = "mean";
    snprintf(name, sizeof(name), "only%d of %d", rank, round % 3);
    EXPECT(post_named(comm, name, &own, 1, &requests[0]) == HVD_OK);
    if (rank > 0)
        EXPECT(post_named(comm, "most", &most, 1, &requests[1]) == HVD_OK);
    if (rank > 0)
        EXPECT(by_name_post(comm, &args, NULL, &requests[2]) == HVD_OK);
    for (int i = 0; i < 5 && rank == 2; i++) {
        struct hvd_request *r;
        float x = 7;

        EXPECT(post_named(comm, "more", &x, 1, &r) == HVD_OK);
        EXPECT(request_wait(r) == HVD_OK);
        EXPECT(x == 7);
    }
    EXPECT(by_name_join(comm, &last) == HVD_OK);
    EXPECT(last >= 0 && last < g->size && (g->size != 3 || last == 2));
    EXPECT(request_wait(requests[0]) == HVD_OK && own == (float)rank + 1);
    if (rank == 0)
        return true;
    EXPECT(request_wait(requests[1]) == HVD_OK);
    EXPECT(most == (float)(g->size * (g->size - 1) / 2));
    EXPECT(request_wait(requests[2]) == HVD_OK);
    EXPECT_SAY(mean == (float)g->size / 2, "rank %d: %g", rank, (double)mean);
    return true;
}

static bool join_behind_own_calls(struct group *g, int rank, void *arg)
{
    for (int round = 0; round < ROUNDS; round++)
        EXPECT(post_last_calls(g, rank, round));
    return true;
}

START_TEST(each_stands_in_for_the_last_calls_of_others)
{
    struct group g;

    for (int size = 2; size <= 3; size++) {
        group_init(&g, size);
        group_run(&g, join_behind_own_calls, NULL);
        group_fini(&g);
    }
}
END_TEST

/* A call of another kind that all have posted runs, whoever has joined; the
 * mean of one that a rank has posted and then joined is of its data as well. */
static bool join_behind_all_kinds(struct group *g, int rank, void *arg)
{
    struct collective_args args = {.kind = COLLECTIVE_BROADCAST,
                                   .count = 1,
                                   .dtype = HVD_FLOAT32,
                                   .name = "b"};
    struct hvd_request *r, *kept;
    float x, kept_x;
    int last;

    for (int round = 0; round < ROUNDS; round++) {
        x = 1;
        kept_x = (float)rank;
        args.recvbuf = &kept_x;
        if (rank == 1) { /* until rank 0 has joined */
            EXPECT(post_named(g->comms[rank], "x", &x, 1, &r) == HVD_OK);
            EXPECT(request_wait(r) == HVD_OK && x == 1);
        }
        EXPECT(by_name_post(g->comms[rank], &args, NULL, &kept) == HVD_OK);
        EXPECT(by_name_join(g->comms[rank], &last) == HVD_OK && last == 1);
        EXPECT(request_wait(kept) == HVD_OK);
        EXPECT(kept_x == 0);
    }
    return true;
}

START_TEST(what_all_have_posted_runs_whoever_has_joined)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, join_behind_all_kinds, NULL);
    group_fini(&g);
}
END_TEST

/* --- what is refused --- */

static bool post_others(struct group *g, int rank, void *arg)
{
    struct collective_args args = {.kind = COLLECTIVE_BROADCAST,
                                   .count = 1,
                                   .dtype = HVD_FLOAT32,
                                   .name = "b"};
    struct hvd_request *r;
    float x = 5;
    int last;

    args.recvbuf = &x;
    for (int i = 0; i < 3 && rank > 0; i++) {
        EXPECT(by_name_post(g->comms[rank], &args, NULL, &r) == HVD_OK);
        EXPECT(request_wait(r) == HVD_ERR_MISMATCH);
        EXPECT(text_has("broadcast 'b': rank 0 has joined"));
        EXPECT(post_named(g->comms[rank], "x", &x, 1, &r) == HVD_OK);
        EXPECT(request_wait(r) == HVD_OK);
        EXPECT(x == (float)(5 * pow(g->size - 1, i + 1)));
    }
    EXPECT(by_name_join(g->comms[rank], &last) == HVD_OK);
    EXPECT(last > 0);
    EXPECT(by_name_post(g->comms[rank], &args, NULL, &r) == HVD_OK);
    EXPECT(request_wait(r) == HVD_OK);
    return true;
}

START_TEST(other_kinds_are_refused_on_those_that_post_them)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, post_others, NULL);
    group_fini(&g);
}
END_TEST

static bool differ(struct group *g, int rank, void *arg)
{
    struct hvd_request *r;
    float x[3] = {0};
    int last;

    if (rank > 0) {
        EXPECT(post_named(g->comms[rank], "x", x, (size_t)rank, &r) == HVD_OK);
        EXPECT(request_wait(r) == HVD_ERR_MISMATCH);
        EXPECT(text_has("'x': rank 1 calls allreduce (float32, sum, 1), rank 2 "
                        "calls allreduce (float32, sum, 2)"));
    }
    EXPECT(by_name_join(g->comms[rank], &last) == HVD_OK);
    EXPECT(post_named(g->comms[rank], "x", x, 3, &r) == HVD_OK);
    EXPECT(request_wait(r) == HVD_OK);
    return true;
}

START_TEST(those_that_have_data_may_differ)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, differ, NULL);
    group_fini(&g);
}
END_TEST

struct poster {
    pthread_t thread;
    struct group *group;
    int rank;
    bool ok;
};

static atomic_bool refused;

/* Until it has joined. What was posted before is complete when all have. */
static bool post_until_refused(struct poster *p)
{
    enum { POSTS = 20000 };
    static struct hvd_request *requests[POSTS];
    int rank = p->rank, n = 0;
    hvd_status_t status = HVD_OK;
    static float x;
    char name[16];

    while (status == HVD_OK && n < POSTS) {
        snprintf(name, sizeof(name), "%d", n);
        status = post_named(p->group->comms[rank], name, &x, 0, &requests[n]);
        n += status == HVD_OK;
        usleep(100);
    }
    EXPECT(status == HVD_ERR_STATE && text_has("this rank has joined"));
    atomic_store(&refused, true);
    while (n > 0)
        EXPECT(request_wait(requests[--n]) == HVD_OK);
    return true;
}

static void *poster_main(void *arg)
{
    struct poster *p = arg;

    p->ok = post_until_refused(p);
    return NULL;
}

/* Rank 0 joins while a thread of it posts; the other one when that is refused.
 */
static bool join_beside_a_thread(struct group *g, int rank, void *arg)
{
    struct poster other = {.group = g, .rank = rank};
    int last;

    while (rank > 0 && !atomic_load(&refused))
        sched_yield();
    if (rank == 0)
        pthread_create(&other.thread, NULL, poster_main, &other);
    EXPECT(by_name_join(g->comms[rank], &last) == HVD_OK);
    if (rank > 0)
        return true;
    pthread_join(other.thread, NULL);
    EXPECT(other.ok);
    return true;
}

START_TEST(nothing_is_posted_behind_a_join)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, join_beside_a_thread, NULL);
    group_fini(&g);
}
END_TEST

/* --- how it ends --- */

static bool lose_one(struct group *g, int rank, void *arg)
{
    bool joined = *(int *)arg != 0;
    struct comm *comm = g->comms[rank];
    hvd_status_t status;
    int last;

    status = by_name_join(comm, &last); /* who is through may have left */
    EXPECT(status == HVD_OK || (status == HVD_PEER_LOST && rank != 0));
    if (rank == 0) {
        comm_leave(comm, COMM_LEAVE_ABORT, 0);
        return true;
    }
    if (rank == 1 && !joined) {
        struct hvd_request *r;
        float x = 1;

        EXPECT(post_named(comm, "x", &x, 1, &r) != HVD_OK ||
               request_wait(r) == HVD_PEER_LOST);
    } else {
        EXPECT(by_name_join(comm, &last) == HVD_PEER_LOST);
    }
    comm_leave(comm, COMM_LEAVE_ABORT, 0);
    return true;
}

START_TEST(a_loss_ends_a_join)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, lose_one, &_i);
    group_fini(&g);
}
END_TEST

static bool alone(struct group *g, int rank, void *arg)
{
    int last = -1;

    EXPECT(by_name_join(g->comms[0], &last) == HVD_OK);
    EXPECT(last == 0);
    return true;
}

START_TEST(a_world_of_one_joins_at_once)
{
    struct group g;

    group_init(&g, 1);
    group_run(&g, alone, NULL);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("join");
    TCase *tc = tcase_create("join");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, each_op_is_of_those_that_have_data);
    tcase_add_test(tc, groups_scales_and_16_bits_as_well);
    tcase_add_test(tc, calls_in_flight_are_completed_first);
    tcase_add_test(tc, each_stands_in_for_the_last_calls_of_others);
    tcase_add_test(tc, what_all_have_posted_runs_whoever_has_joined);
    tcase_add_test(tc, other_kinds_are_refused_on_those_that_post_them);
    tcase_add_test(tc, those_that_have_data_may_differ);
    tcase_add_test(tc, nothing_is_posted_behind_a_join);
    tcase_add_loop_test(tc, a_loss_ends_a_join, 0, 2);
    tcase_add_test(tc, a_world_of_one_joins_at_once);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
