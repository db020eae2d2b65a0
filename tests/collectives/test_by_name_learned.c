/* tests/collectives/test_by_name_learned.c - calls by name in an order that
 * repeats: one operation per step, the same results, and no loss where a rank
 * deviates from it. */
#include <sched.h>

#include "collectives/negotiate/learned.h"
#include "elements.h"
#include "named.h"

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
    {HVD_FLOAT32, HVD_SUM, 0, 0, 1},
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
    scale_args(&args, 0, call->postscale);
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

    for (int step = 0; step < LEARNED_CYCLES; step++)
        EXPECT(call_one(g, rank, call, step));
    before = n_operations(g->comms[rank]);
    for (int step = 0; step < LEARNED_FOLLOWED; step++)
        EXPECT(call_one(g, rank, call, step));
    EXPECT_SAY(n_operations(g->comms[rank]) - before ==
                   (uint64_t)LEARNED_FOLLOWED * call->n_operations,
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

enum {
    FEW = 6,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    ODD_STEPS = 30,
    PROGRAMS = 4
#else
    ODD_STEPS = 120,
    PROGRAMS = 10
#endif
};

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

    if (s->oddity == SHUFFLED)
        shuffle(own, order, FEW);
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
    for (int step = 1; step <= ODD_STEPS; step++) {
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
        for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
            group_init(&g, size);
            group_run(&g, deviate, &seed);
            group_fini(&g);
        }
}
END_TEST

/* --- the end of an order --- */

/* Rank 1 is gone when the others ask whether it has what is next. It goes once
 * all ranks are through: a rank that still waits for the last step would lose
 * that one. arg: a barrier of all ranks. */
static bool lose_one(struct group *g, int rank, void *arg)
{
    struct hvd_request *request;
    float x = 1;

    for (int step = 0; step < 2 * LEARNED_CYCLES; step++) {
        x = (float)(rank + 1);
        EXPECT(post_named(g->comms[rank], "one", &x, 1, &request) == HVD_OK);
        EXPECT(request_wait(request) == HVD_OK);
        EXPECT(x == sum_of(g, 1));
    }
    pthread_barrier_wait(arg);
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
    pthread_barrier_t through;
    struct group g;

    for (int size = 2; size <= 3; size++) {
        pthread_barrier_init(&through, NULL, (unsigned)size);
        group_init(&g, size);
        group_run(&g, lose_one, &through);
        group_fini(&g);
        pthread_barrier_destroy(&through);
    }
}
END_TEST

/* --- what does not fit --- */

/* Two names, one way or the other: the second is posted when the first is
 * complete. */
static bool one_by_one(struct group *g, int rank, const char *const names[2])
{
    for (int i = 0; i < 2; i++) {
        struct hvd_request *request;
        float x = 1;

        EXPECT(post_named(g->comms[rank], names[i], &x, 1, &request) == HVD_OK);
        EXPECT(request_wait(request) == HVD_OK);
        EXPECT(x == (float)g->size);
    }
    return true;
}

/* What is first in the order is not posted before the second is complete: that
 * is, behind a question in vain and a round. */
static bool change_places(struct group *g, int rank, void *arg)
{
    static const char *const order[2] = {"first", "second"};
    static const char *const other[2] = {"second", "first"};
    uint64_t before;

    for (int step = 0; step < 2 * LEARNED_CYCLES; step++)
        EXPECT(one_by_one(g, rank, order));
    before = n_operations(g->comms[rank]);
    EXPECT(one_by_one(g, rank, order));
    EXPECT(n_operations(g->comms[rank]) == before + 2);
    EXPECT(one_by_one(g, rank, other));
    EXPECT(n_operations(g->comms[rank]) == before + 2 + 3 + 2);
    return true;
}

START_TEST(what_is_not_in_its_order_comes_by_a_round)
{
    struct group g;

    for (int size = 2; size <= 3; size++) {
        group_init(&g, size);
        group_run(&g, change_places, NULL);
        group_fini(&g);
    }
}
END_TEST

/* --- what is carried, and what is not --- */

struct mixed {
    hvd_dtype_t dtype;
    hvd_op_t op;
    size_t count;
    int n_tensors; /* of a group; 0: none */
    bool of_all;
};

static const struct mixed mixture[] = {
    {HVD_FLOAT32, HVD_SUM, 7, 0, false},
    {HVD_FLOAT16, HVD_AVERAGE, 33, 0, false},
    {HVD_FLOAT32, HVD_SUM, 100, 3, false},
    {HVD_INT32, HVD_SUM, 5, 0, false},
    {HVD_FLOAT32, HVD_SUM, 0, 2, false},
    {HVD_FLOAT16, HVD_AVERAGE, 1, 0, true},
    {HVD_FLOAT64, HVD_AVERAGE, 70000, 0, false},
    {HVD_FLOAT64, HVD_AVERAGE, 2, 0, false},
    {HVD_FLOAT32, HVD_MIN, 9, 0, false},
    {HVD_BFLOAT16, HVD_SUM, 3, 0, false},
};

enum { MIXED = sizeof(mixture) / sizeof(mixture[0]), TENSORS = 3 };

struct mixed_buffers {
    void *send[MIXED][TENSORS], *recv[MIXED][TENSORS];
    struct hvd_request *requests[MIXED];
};

static bool post_mixed(struct group *g, int rank, struct mixed_buffers *m,
                       int i, int step)
{
    const struct mixed *what = &mixture[i];
    bool in_place = (i + step + rank) % 2 == 0;
    const void *sends[TENSORS];
    void *recvs[TENSORS];
    size_t counts[TENSORS];
    struct comm_group group = {(size_t)what->n_tensors, sends, recvs, counts};
    struct collective_args args = sum_args(NULL, NULL, what->count);
    char name[32];

    for (int k = 0; k < TENSORS; k++) {
        sends[k] = in_place ? m->recv[i][k] : m->send[i][k];
        recvs[k] = m->recv[i][k];
        counts[k] = what->count;
        for (size_t e = 0; e < what->count; e++)
            store(what->dtype, (void *)sends[k], e,
                  (rank + 1) * (1 + step % 4));
    }
    snprintf(name, sizeof(name), "mixed.%d", i);
    args.name = name;
    args.dtype = what->dtype;
    args.op = what->op;
    args.of_all = what->of_all;
    args.sendbuf = what->n_tensors > 0 ? NULL : sends[0];
    args.recvbuf = what->n_tensors > 0 ? NULL : recvs[0];
    args.count = what->n_tensors > 0 ? 0 : what->count;
    EXPECT(by_name_post(g->comms[rank], &args,
                        what->n_tensors > 0 ? &group : NULL,
                        &m->requests[i]) == HVD_OK);
    return true;
}

static bool check_mixed(struct group *g, int rank, struct mixed_buffers *m,
                        int i, int step)
{
    const struct mixed *what = &mixture[i];
    int n = what->n_tensors > 0 ? what->n_tensors : 1;
    double sum = (double)sum_of(g, (float)(1 + step % 4));
    double want = what->op == HVD_AVERAGE ? sum / g->size
                  : what->op == HVD_MIN   ? 1 + step % 4
                                          : sum;

    EXPECT_SAY(request_wait(m->requests[i]) == HVD_OK, "rank %d, call %d", rank,
               i);
    for (int k = 0; k < n; k++)
        for (size_t e = 0; e < what->count; e++)
            EXPECT_SAY(load(what->dtype, m->recv[i][k], e) == want,
                       "rank %d, step %d, call %d: %g, expected %g", rank, step,
                       i, load(what->dtype, m->recv[i][k], e), want);
    return true;
}

static bool mix(struct group *g, int rank, void *arg)
{
    struct mixed_buffers m;

    for (int i = 0; i < MIXED; i++)
        for (int k = 0; k < TENSORS; k++) {
            size_t nbytes = 8 * mixture[i].count + 1;

            m.send[i][k] = calloc(1, nbytes);
            m.recv[i][k] = calloc(1, nbytes);
        }
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < MIXED; i++)
            EXPECT(post_mixed(g, rank, &m, i, step));
        for (int i = 0; i < MIXED; i++)
            EXPECT(check_mixed(g, rank, &m, i, step));
    }
    for (int i = 0; i < MIXED; i++)
        for (int k = 0; k < TENSORS; k++) {
            free(m.send[i][k]);
            free(m.recv[i][k]);
        }
    return true;
}

START_TEST(calls_of_all_kinds_are_right_carried_or_not)
{
    struct group g;

    for (int size = 2; size <= 4; size++) {
        group_init(&g, size);
        group_run(&g, mix, NULL);
        group_fini(&g);
    }
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
    tcase_add_test(tc, what_is_not_in_its_order_comes_by_a_round);
    tcase_add_test(tc, calls_of_all_kinds_are_right_carried_or_not);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
