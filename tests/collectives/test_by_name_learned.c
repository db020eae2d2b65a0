/* tests/collectives/test_by_name_learned.c - calls by name in an order that
 * repeats: one operation per step, the same results, and no loss where a rank
 * deviates from it. */
#include <sched.h>

#include "base/random.h"
#include "collectives/negotiate/learned.h"
#include "elements.h"
#include "named.h"

enum { LEARNING = LEARNED_CYCLES };

static uint64_t n_operations(const struct comm *comm)
{
    return comm_called(atomic_load(&comm->names));
}

/* --- one operation --- */

struct one_call {
    hvd_dtype_t dtype;
    hvd_op_t op;
    double postscale;
    size_t count;
    uint64_t n_operations; /* of a step whose order is followed */
};

static const struct one_call calls[] = {
    {HVD_FLOAT32, HVD_SUM, 0, 1, 1},
    {HVD_FLOAT32, HVD_AVERAGE, 1, 8191, 1},
    {HVD_FLOAT64, HVD_AVERAGE, 0, 4096, 1},
    {HVD_FLOAT16, HVD_SUM, 0, 16384, 1},
    {HVD_BFLOAT16, HVD_AVERAGE, 0, 3, 1},
    /* the question travels alone */
    {HVD_FLOAT32, HVD_SUM, 0, 8193, 2},
    {HVD_FLOAT32, HVD_SUM, 0, 0, 2},
    {HVD_FLOAT32, HVD_SUM, 0.5, 4, 2},
    {HVD_FLOAT32, HVD_MAX, 0, 4, 2},
    {HVD_INT32, HVD_SUM, 0, 4, 2},
    {HVD_UINT8, HVD_AVERAGE, 0, 4, 2},
};

static double expected_of(const struct group *g, const struct one_call *call,
                          int step)
{
    double n = call->op == HVD_AVERAGE ? g->size : 1;
    double scale = call->postscale != 0 ? call->postscale : 1;

    if (call->op == HVD_MAX)
        return g->size * (1 + step % 3);
    return (double)sum_of(g, (float)(1 + step % 3)) / n * scale;
}

static bool call_one(struct group *g, int rank, const struct one_call *call,
                     int step)
{
    size_t elem = hvd_dtype_size(call->dtype);
    uint8_t *buf = malloc(call->count * elem + 1);
    struct collective_args args = sum_args(buf, buf, call->count);
    struct hvd_request *request;
    double want = expected_of(g, call, step);

    args.dtype = call->dtype;
    args.op = call->op;
    args.postscale = call->postscale;
    args.name = "one";
    for (size_t i = 0; i < call->count; i++)
        store(call->dtype, buf, i, (rank + 1) * (1 + step % 3));
    EXPECT(by_name_post(g->comms[rank], &args, NULL, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_OK);
    for (size_t i = 0; i < call->count; i++)
        EXPECT_SAY(load(call->dtype, buf, i) ==
                       (call->dtype == HVD_UINT8 ? (double)(int)want : want),
                   "rank %d, step %d: %g, expected %g", rank, step,
                   load(call->dtype, buf, i), want);
    free(buf);
    return true;
}

static bool repeat_one(struct group *g, int rank, void *arg)
{
    const struct one_call *call = arg;
    uint64_t before;

    for (int step = 0; step < LEARNING; step++)
        EXPECT(call_one(g, rank, call, step));
    before = n_operations(g->comms[rank]);
    for (int step = 0; step < STEPS; step++)
        EXPECT(call_one(g, rank, call, step));
    EXPECT_SAY(n_operations(g->comms[rank]) - before ==
                   (uint64_t)STEPS * call->n_operations,
               "rank %d: %d operations", rank,
               (int)(n_operations(g->comms[rank]) - before));
    return true;
}

START_TEST(a_small_one_takes_one_operation_and_others_a_question)
{
    struct one_call call = calls[_i];
    struct group g;

    for (int size = 2; size <= 4; size++) {
        group_init(&g, size);
        group_run(&g, repeat_one, &call);
        group_fini(&g);
    }
}
END_TEST

/* --- deviations --- */

enum { FEW = 6 };

enum oddity {
    AS_EVER,
    SHUFFLED,  /* another order on each rank */
    LACKS_ONE, /* a name of the order is not posted */
    HAS_A_NEW_ONE,
    IN_HALVES, /* the second one is posted when the first is complete */
    DIFFERS,   /* what rank 0 calls by one name */
    JOINS,     /* all but rank 0 have no data */
    ODDITIES
};

struct odd_step {
    enum oddity oddity;
    int name; /* which */
    int step;
};

/* Mostly as ever. The same on all ranks. */
static struct odd_step draw_step(struct random_state *random, int step)
{
    bool odd = random_below(random, 25) == 0;

    return (struct odd_step){
        .oddity = odd ? (enum oddity)random_below(random, ODDITIES) : AS_EVER,
        .name = (int)random_below(random, FEW),
        .step = step};
}

static bool post_one(struct group *g, int rank, struct tensors *t,
                     const struct odd_step *s, int i)
{
    char name[32];
    size_t count = count_of(i);

    if (s->oddity == LACKS_ONE && i == s->name)
        return true;
    if (s->oddity == DIFFERS && i == s->name && rank == 0)
        count++;
    snprintf(name, sizeof(name), "few.%d", i);
    fill(t->bufs[i], count, (float)((rank + 1) * (i + s->step)));
    EXPECT(post_named(g->comms[rank], name, t->bufs[i], count,
                      &t->requests[i]) == HVD_OK);
    return true;
}

static bool wait_one(struct group *g, int rank, struct tensors *t,
                     const struct odd_step *s, int i)
{
    float want = sum_of(g, (float)(i + s->step));

    if (s->oddity == LACKS_ONE && i == s->name)
        return true;
    if (s->oddity == DIFFERS && i == s->name) {
        EXPECT(request_wait(t->requests[i]) == HVD_ERR_MISMATCH);
        return true;
    }
    if (s->oddity == JOINS)
        want = (float)(i + s->step);
    EXPECT(request_wait(t->requests[i]) == HVD_OK);
    EXPECT_SAY(all_are(t->bufs[i], count_of(i), want),
               "rank %d, step %d, tensor %d: %g, expected %g", rank, s->step, i,
               (double)t->bufs[i][0], (double)want);
    return true;
}

static bool run_part(struct group *g, int rank, struct tensors *t,
                     const struct odd_step *s, const int *order, int n)
{
    for (int k = 0; k < n; k++)
        EXPECT(post_one(g, rank, t, s, order[k]));
    for (int k = 0; k < n; k++)
        EXPECT(wait_one(g, rank, t, s, order[k]));
    return true;
}

/* One of these names is never the same again. */
static bool call_new_one(struct group *g, int rank, const struct odd_step *s)
{
    struct hvd_request *request;
    float x = (float)(rank + 1);
    char name[32];

    snprintf(name, sizeof(name), "new.%d", s->step);
    EXPECT(post_named(g->comms[rank], name, &x, 1, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_OK);
    EXPECT(x == sum_of(g, 1));
    return true;
}

static bool run_odd_step(struct group *g, int rank, struct tensors *t,
                         const struct odd_step *s, struct random_state *own)
{
    int order[FEW] = {0, 1, 2, 3, 4, 5}, last;

    for (int i = FEW - 1; i > 0 && s->oddity == SHUFFLED; i--) {
        int k = (int)random_below(own, (uint64_t)i + 1), o = order[i];

        order[i] = order[k];
        order[k] = o;
    }
    if (s->oddity == HAS_A_NEW_ONE)
        EXPECT(call_new_one(g, rank, s));
    if (s->oddity == IN_HALVES) {
        EXPECT(run_part(g, rank, t, s, order, s->name));
        return run_part(g, rank, t, s, order + s->name, FEW - s->name);
    }
    if (s->oddity != JOINS || rank == 0)
        EXPECT(run_part(g, rank, t, s, order, FEW));
    if (s->oddity == JOINS)
        EXPECT(by_name_join(g->comms[rank], &last) == HVD_OK && last == 0);
    return true;
}

static bool deviate(struct group *g, int rank, void *arg)
{
    struct random_state all = {.s = *(uint64_t *)arg};
    struct random_state own = {.s = *(uint64_t *)arg + (uint64_t)rank + 1};
    struct tensors t;

    alloc_tensors(&t);
    for (int step = 1; step <= 20 * STEPS; step++) {
        struct odd_step s = draw_step(&all, step);

        EXPECT_SAY(run_odd_step(g, rank, &t, &s, &own),
                   "rank %d, step %d, oddity %d", rank, step, (int)s.oddity);
        if (random_below(&own, 10) == 0)
            sched_yield();
    }
    free_tensors(&t);
    return true;
}

START_TEST(who_deviates_loses_nothing)
{
    struct group g;

    for (int size = 2; size <= 4; size++)
        for (uint64_t seed = 1; seed <= 3; seed++) {
            group_init(&g, size);
            group_run(&g, deviate, &seed);
            group_fini(&g);
        }
}
END_TEST

/* --- the end of an order --- */

/* Rank 1 is gone when the others ask whether it has what is next. */
static bool lose_one(struct group *g, int rank, void *arg)
{
    struct hvd_request *request;
    float x = 1;

    for (int step = 0; step < 2 * LEARNING; step++) {
        x = (float)(rank + 1);
        EXPECT(post_named(g->comms[rank], "one", &x, 1, &request) == HVD_OK);
        EXPECT(request_wait(request) == HVD_OK);
        EXPECT(x == sum_of(g, 1));
    }
    if (rank == 1) {
        group_rank_destroy(g, rank);
        return true;
    }
    x = 5;
    EXPECT(post_named(g->comms[rank], "one", &x, 1, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_PEER_LOST);
    EXPECT(x == 5); /* what was carried is a copy */
    return true;
}

START_TEST(a_rank_that_is_lost_ends_it)
{
    struct group g;

    for (int size = 2; size <= 3; size++) {
        group_init(&g, size);
        group_run(&g, lose_one, NULL);
        group_fini(&g);
    }
}
END_TEST

/* One part is posted, and nothing more for long: the others wait for it. */
static bool part_then_rest(struct group *g, int rank, void *arg)
{
    struct hvd_request *requests[2];
    float x[2];

    for (int step = 0; step < 3 * LEARNING; step++) {
        const struct collective_args a = sum_args(&x[0], &x[0], 1);
        const struct collective_args b = sum_args(&x[1], &x[1], 1);
        struct collective_args args[2] = {a, b};

        args[0].name = "part";
        args[1].name = "rest";
        x[0] = x[1] = 1;
        EXPECT(by_name_post(g->comms[rank], &args[0], NULL, &requests[0]) ==
               HVD_OK);
        if (step == 2 * LEARNING)
            EXPECT(request_wait(requests[0]) == HVD_OK);
        EXPECT(by_name_post(g->comms[rank], &args[1], NULL, &requests[1]) ==
               HVD_OK);
        if (step != 2 * LEARNING)
            EXPECT(request_wait(requests[0]) == HVD_OK);
        EXPECT(request_wait(requests[1]) == HVD_OK);
        EXPECT(x[0] == (float)g->size && x[1] == (float)g->size);
    }
    return true;
}

START_TEST(a_part_is_waited_for_as_well)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, part_then_rest, NULL);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("by_name_learned");
    TCase *tc = tcase_create("by_name_learned");

    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc,
                        a_small_one_takes_one_operation_and_others_a_question,
                        0, ARRAY_SIZE(calls));
    tcase_add_test(tc, who_deviates_loses_nothing);
    tcase_add_test(tc, a_rank_that_is_lost_ends_it);
    tcase_add_test(tc, a_part_is_waited_for_as_well);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
