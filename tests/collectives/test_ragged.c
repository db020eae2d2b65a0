/* tests/collectives/test_ragged.c - allgatherv and alltoallv whose ranks know
 * only what they send, ordered and by name: what comes of each is checked
 * element by element. */
#include "base/array.h"
#include "base/random.h"
#include "collectives/by_name.h"
#include "posted.h"

enum { SIZES_MAX = 5, CALLS = 12, COUNT_MAX = 3000, STEPS = 8 };

/* How much rank `from` has for rank `to` in a call, and the elements of it. */
static size_t count_of(int call, int from, int to)
{
    static const size_t counts[] = {0, 1, 7, 300, COUNT_MAX};

    return counts[(size_t)(call * 3 + from * 5 + to * 7) % ARRAY_SIZE(counts)];
}

static float element(int call, int from, int to, size_t i)
{
    return (float)(call * 1000 + from * 100 + to * 10) + (float)(i % 7);
}

/* --- one call of one rank --- */

struct ragged_call {
    int number, rank, size;
    bool all; /* to all, each its own; else the same to all */
    bool own; /* no place: the library has one, on some ranks */
    float *send, *recv;
    size_t sendcounts[SIZES_MAX], sdispls[SIZES_MAX];
    size_t counts[SIZES_MAX]; /* as place was told */
    int n_places;
    struct hvd_request *request;
};

static int dest_of(const struct ragged_call *c, int to)
{
    return c->all ? to : 0;
}

static void prepare(struct ragged_call *c, int number, int rank, int size)
{
    size_t n = 0;

    *c = (struct ragged_call){.number = number,
                              .rank = rank,
                              .size = size,
                              .all = number % 2 == 1,
                              .own = (number / 2 + rank) % 3 == 0};
    c->send = calloc((size_t)size * COUNT_MAX, sizeof(float));
    for (int to = 0; to < (c->all ? size : 1); to++) {
        c->sdispls[to] = n;
        c->sendcounts[to] = count_of(number, rank, to);
        for (size_t i = 0; i < c->sendcounts[to]; i++)
            c->send[n++] = element(number, rank, to, i);
    }
}

static void *make_place(const size_t *counts, int size, void *arg)
{
    struct ragged_call *c = arg;
    size_t total = 0;

    for (int i = 0; i < size; i++) {
        c->counts[i] = counts[i];
        total += counts[i];
    }
    c->n_places++;
    c->recv = malloc((total + 1) * sizeof(float));
    return total > 0 ? c->recv : NULL;
}

static struct collective_args args_of(struct ragged_call *c)
{
    return (struct collective_args){
        .kind = c->all ? COLLECTIVE_ALLTOALLV : COLLECTIVE_ALLGATHERV,
        .sendbuf = c->send,
        .count = c->sendcounts[0],
        .sendcounts = c->sendcounts,
        .sdispls = c->sdispls,
        .dtype = HVD_FLOAT32,
        .place = c->own ? ragged_own_place : make_place,
        .place_arg = c};
}

static bool post(struct comm *comm, struct ragged_call *c, bool by_name)
{
    struct collective_args args = args_of(c);
    int rank = c->rank;
    char name[16];

    snprintf(name, sizeof(name), "call %d", c->number);
    args.name = name;
    EXPECT((by_name ? by_name_post(comm, &args, NULL, &c->request)
                    : comm_post(comm, &args, &c->request)) == HVD_OK);
    return true;
}

static bool finish(struct ragged_call *c)
{
    int rank = c->rank;
    void *result = NULL;
    size_t at = 0;

    if (c->own) {
        c->request->ragged.result_p = &result;
        c->request->ragged.counts_p = c->counts;
    }
    EXPECT_SAY(request_wait(c->request) == HVD_OK, "call %d: %s", c->number,
               error_text());
    EXPECT(c->n_places == (c->own ? 0 : 1));
    if (c->own)
        c->recv = result;
    for (int from = 0; from < c->size; from++) {
        int to = dest_of(c, c->rank);

        EXPECT(c->counts[from] == count_of(c->number, from, to));
        for (size_t i = 0; i < c->counts[from]; i++)
            EXPECT(c->recv[at++] == element(c->number, from, to, i));
    }
    free(c->send);
    c->own ? hvd_free(c->recv) : free(c->recv);
    return true;
}

/* --- all of them --- */

static bool run_calls(struct group *g, int rank, int first, bool by_name)
{
    struct ragged_call calls[CALLS];

    for (int k = 0; k < CALLS; k++) {
        int i = (first + k) % CALLS;

        prepare(&calls[i], i, rank, g->size);
        EXPECT(post(g->comms[rank], &calls[i], by_name));
    }
    for (int i = 0; i < CALLS; i++)
        EXPECT(finish(&calls[i]));
    return true;
}

static bool run_ordered(struct group *g, int rank, void *arg)
{
    (void)arg;
    return run_calls(g, rank, 0, false);
}

static bool run_by_name(struct group *g, int rank, void *arg)
{
    struct random_state random = {.s = (uint64_t)rank};

    (void)arg;
    for (int step = 0; step < STEPS; step++)
        EXPECT(run_calls(g, rank, (int)random_below(&random, CALLS), true));
    return true;
}

START_TEST(ordered_calls_find_out_their_counts)
{
    struct group g;

    group_init(&g, _i);
    group_run(&g, run_ordered, NULL);
    group_fini(&g);
}
END_TEST

START_TEST(calls_by_name_find_out_their_counts)
{
    struct group g;

    group_init(&g, _i);
    group_run(&g, run_by_name, NULL);
    group_fini(&g);
}
END_TEST

/* --- what is wrong --- */

static bool refuse(struct group *g, int rank,
                   const struct collective_args *args, const char *words)
{
    struct hvd_request *request;

    EXPECT(comm_post(g->comms[rank], args, &request) == HVD_ERR_INVALID);
    EXPECT_SAY(text_has(words), "%s", error_text());
    return true;
}

static bool run_refused(struct group *g, int rank, void *arg)
{
    struct ragged_call call;
    struct collective_args args;

    (void)arg;
    prepare(&call, 0, rank, g->size);
    args = args_of(&call);
    args.recvbuf = &call;
    EXPECT(refuse(g, rank, &args, "place is instead of recvbuf"));
    args = args_of(&call);
    args.recvcounts = call.counts;
    EXPECT(refuse(g, rank, &args, "place is instead of recvbuf"));
    args = args_of(&call);
    args.kind = COLLECTIVE_ALLGATHER;
    EXPECT(refuse(g, rank, &args, "allgather: place is for"));
    args = args_of(&call);
    args.kind = COLLECTIVE_ALLTOALLV;
    args.sendcounts = NULL;
    EXPECT(refuse(g, rank, &args, "counts or displacements are NULL"));
    args = args_of(&call);
    args.memory = HVD_MEMORY_DEVICE;
    EXPECT(comm_post(g->comms[rank], &args, &call.request) ==
           HVD_ERR_UNSUPPORTED);
    free(call.send);
    return true;
}

START_TEST(what_is_said_twice_is_refused)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, run_refused, NULL);
    group_fini(&g);
}
END_TEST

/* --- no place --- */

static void *no_place(const size_t *counts, int size, void *arg)
{
    (void)arg;
    (void)counts;
    (void)size;
    return NULL;
}

static void *place_on_sendbuf(const size_t *counts, int size, void *arg)
{
    struct ragged_call *c = arg;

    (void)counts;
    (void)size;
    return c->send; /* its own block is the second */
}

static const struct {
    hvd_place_fn place;
    hvd_status_t status;
    const char *words;
} bad[] = {
    {no_place, HVD_ERR_NOMEM, "allgatherv: no place for"},
    {place_on_sendbuf, HVD_ERR_INVALID, "sendbuf and recvbuf overlap"},
};

/* Rank 1 has none: its own error, a lost peer for the others. */
static bool run_without_place(struct group *g, int rank, void *arg)
{
    int i = *(int *)arg / 2;
    struct ragged_call call;
    struct collective_args args;
    hvd_status_t status;

    prepare(&call, 2, rank, g->size);
    args = args_of(&call);
    args.name = "call";
    if (rank == 1)
        args.place = bad[i].place;
    EXPECT((*(int *)arg % 2
                ? by_name_post(g->comms[rank], &args, NULL, &call.request)
                : comm_post(g->comms[rank], &args, &call.request)) == HVD_OK);
    status = request_wait(call.request);
    if (rank == 1) {
        EXPECT(status == bad[i].status);
        EXPECT_SAY(text_has(bad[i].words), "%s", error_text());
    } else {
        EXPECT_SAY(status == HVD_PEER_LOST || status == HVD_OK, "%d", status);
    }
    free(call.send);
    free(call.recv);
    return true;
}

START_TEST(who_has_no_place_ends_the_generation)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, run_without_place, &_i);
    group_fini(&g);
}
END_TEST

/* Who posts by name may hold locks: the program is asked later. */
static bool run_alone(struct group *g, int rank, void *arg)
{
    struct ragged_call call;

    (void)arg;
    prepare(&call, 2, rank, g->size);
    EXPECT(post(g->comms[rank], &call, true));
    EXPECT(call.n_places == 0);
    ragged_run_alone(call.request);
    EXPECT(call.n_places == 1 && request_done(call.request));
    return finish(&call);
}

START_TEST(alone_the_program_is_asked_without_locks)
{
    struct group g;

    group_init(&g, 1);
    group_run(&g, run_alone, NULL);
    ck_assert_uint_eq(comm_called(g.comms[0]), comm_operations(g.comms[0]));
    group_fini(&g);
}
END_TEST

/* --- ranks that differ --- */

static bool differ(struct group *g, int rank, bool by_name)
{
    float send[4] = {1, 2, 3, 4}, recv[8];
    const size_t counts[] = {4, 4}, displs[] = {0, 4};
    struct ragged_call call;
    struct collective_args args;

    prepare(&call, 2, rank, g->size);
    args = args_of(&call);
    args.name = "call";
    if (rank == 1)
        args = (struct collective_args){.kind = COLLECTIVE_ALLGATHERV,
                                        .sendbuf = send,
                                        .recvbuf = recv,
                                        .count = 4,
                                        .recvcounts = counts,
                                        .rdispls = displs,
                                        .dtype = HVD_FLOAT32,
                                        .name = "call"};
    EXPECT((by_name
                ? by_name_post(g->comms[rank], &args, NULL, &call.request)
                : comm_post(g->comms[rank], &args, &call.request)) == HVD_OK);
    EXPECT(request_wait(call.request) == HVD_ERR_MISMATCH);
    EXPECT_SAY(text_has("allgatherv") && text_has("with place"), "%s",
               error_text());
    EXPECT(call.n_places == 0);
    free(call.send);
    return true;
}

static bool run_different(struct group *g, int rank, void *arg)
{
    return differ(g, rank, *(int *)arg != 0);
}

START_TEST(who_knows_its_counts_is_another_call)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, run_different, &_i);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ragged");
    TCase *tc = tcase_create("all");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, ordered_calls_find_out_their_counts, 1, SIZES_MAX);
    tcase_add_loop_test(tc, calls_by_name_find_out_their_counts, 1, SIZES_MAX);
    tcase_add_test(tc, what_is_said_twice_is_refused);
    tcase_add_loop_test(tc, who_has_no_place_ends_the_generation, 0, 4);
    tcase_add_test(tc, alone_the_program_is_asked_without_locks);
    tcase_add_loop_test(tc, who_knows_its_counts_is_another_call, 0, 2);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
