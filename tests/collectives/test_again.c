/* tests/collectives/test_again.c - a call that is the one before, to the
 * addresses, is neither checked nor planned anew. What it moves may have
 * changed, and what came between may have used what was planned. */
#include "base/array.h"
#include "base/random.h"
#include "posted.h"

enum { RANKS = 3, STEPS = 400, COUNT_MAX = 30000 };

static const size_t counts[] = {1, 3, 60, 700, 9000, COUNT_MAX};

/* What a rank calls with: addresses that stay. */
struct caller {
    struct group *g;
    int rank;
    struct random_state all;  /* the same numbers on all ranks */
    int32_t *send, *recv;     /* [RANKS * COUNT_MAX] */
    int32_t *ordinary, *room; /* what they may be: own memory ... */
    void *arena[2];           /* ... or from hvd_alloc */
    size_t sendcounts[RANKS], sdispls[RANKS];
    size_t recvcounts[RANKS], rdispls[RANKS];
    size_t count; /* args.count, but that of allgatherv is the rank's own */
    struct collective_args args;
};

static int32_t value(int rank, size_t i, int step)
{
    return (int32_t)((uint32_t)rank * 1000003u + (uint32_t)i * 7u +
                     (uint32_t)step * 31337u);
}

/* How many elements a has for b in this step. */
static size_t share(const struct caller *c, int a, int b, int step)
{
    return (size_t)(a * 5 + b * 3 + step) % (c->count + 1);
}

static void varied(struct caller *c, int step)
{
    bool all = c->args.kind == COLLECTIVE_ALLTOALLV;
    size_t sent = 0, received = 0;

    for (int i = 0; i < RANKS; i++) {
        c->sendcounts[i] = share(c, c->rank, all ? i : 0, step);
        c->recvcounts[i] = share(c, i, all ? c->rank : 0, step);
        c->sdispls[i] = sent;
        c->rdispls[i] = received;
        sent += c->sendcounts[i];
        received += c->recvcounts[i];
    }
    c->args.count = c->args.kind == COLLECTIVE_ALLGATHERV ? c->sendcounts[0]
                                                          : c->count;
}

static void choose_buffers(struct caller *c)
{
    bool shared = random_below(&c->all, 2) == 0;

    c->send = shared ? c->arena[0] : c->ordinary;
    c->recv = shared ? c->arena[1] : c->room;
}

static void choose(struct caller *c)
{
    static const enum collective_kind kinds[] = {
        COLLECTIVE_ALLREDUCE, COLLECTIVE_BROADCAST,      COLLECTIVE_ALLGATHER,
        COLLECTIVE_ALLTOALL,  COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALLGATHERV,
        COLLECTIVE_ALLTOALLV, COLLECTIVE_BARRIER};

    choose_buffers(c);
    c->count = counts[random_below(&c->all, ARRAY_SIZE(counts))];
    c->args = (struct collective_args){
        .kind = kinds[random_below(&c->all, ARRAY_SIZE(kinds))],
        .sendbuf = c->send,
        .recvbuf = c->recv,
        .sendcounts = c->sendcounts,
        .sdispls = c->sdispls,
        .recvcounts = c->recvcounts,
        .rdispls = c->rdispls,
        .dtype = HVD_INT32,
        .root = (int)random_below(&c->all, RANKS),
    };
}

static void fill_operands(struct caller *c, int step)
{
    size_t n = RANKS * c->count;

    for (size_t i = 0; i < n; i++)
        c->send[i] = value(c->rank, i, step);
    memset(c->recv, 0x5a, n * sizeof(*c->recv));
    if (c->args.kind == COLLECTIVE_BROADCAST && c->rank == c->args.root)
        memcpy(c->recv, c->send, c->args.count * sizeof(*c->recv));
}

static int32_t sum(size_t i, int step)
{
    uint32_t all = 0;

    for (int r = 0; r < RANKS; r++)
        all += (uint32_t)value(r, i, step);
    return (int32_t)all;
}

/* Element i of the block that rank r has for this one. */
static int32_t from(const struct caller *c, int r, size_t i, int step)
{
    size_t at = 0;

    switch (c->args.kind) {
    case COLLECTIVE_ALLTOALL:
        at = (size_t)c->rank * c->args.count;
        break;
    case COLLECTIVE_ALLTOALLV:
        for (int k = 0; k < c->rank; k++)
            at += share(c, r, k, step);
        break;
    default:
        break;
    }
    return value(r, at + i, step);
}

static bool blocks_are_right(const struct caller *c, int step)
{
    bool v = c->args.kind == COLLECTIVE_ALLGATHERV ||
             c->args.kind == COLLECTIVE_ALLTOALLV;
    int rank = c->rank;

    for (int r = 0; r < RANKS; r++) {
        size_t n = v ? c->recvcounts[r] : c->args.count;
        size_t at = v ? c->rdispls[r] : (size_t)r * n;

        for (size_t i = 0; i < n; i++)
            EXPECT_SAY(c->recv[at + i] == from(c, r, i, step),
                       "rank %d, step %d, kind %d, from %d, element %zu", rank,
                       step, (int)c->args.kind, r, i);
    }
    return true;
}

static bool is_right(const struct caller *c, int step)
{
    size_t n = c->args.count, mine = (size_t)c->rank * n;
    int rank = c->rank;

    switch (c->args.kind) {
    case COLLECTIVE_BARRIER:
        return true;
    case COLLECTIVE_ALLREDUCE:
        for (size_t i = 0; i < n; i++)
            EXPECT(c->recv[i] == sum(i, step));
        return true;
    case COLLECTIVE_REDUCE_SCATTER:
        for (size_t i = 0; i < n; i++)
            EXPECT(c->recv[i] == sum(mine + i, step));
        return true;
    case COLLECTIVE_BROADCAST:
        for (size_t i = 0; i < n; i++)
            EXPECT(c->recv[i] == value(c->args.root, i, step));
        return true;
    default:
        return blocks_are_right(c, step);
    }
}

static bool transfer(struct caller *c, int step)
{
    struct comm *comm = c->g->comms[c->rank];
    int32_t x = c->rank == 0 ? step : 0;
    int rank = c->rank;

    if (rank == 0)
        EXPECT(comm_transfer_send(comm, 1, &x, sizeof(x)) == HVD_OK);
    if (rank == 1)
        EXPECT(comm_transfer_recv(comm, 0, &x, sizeof(x)) == HVD_OK);
    EXPECT(rank > 1 || x == step);
    return true;
}

/* Something else between two calls that are the same, or nothing. */
static bool disturb(struct caller *c, int step)
{
    struct comm *comm = c->g->comms[c->rank];
    float y = (float)(c->rank + 1);
    struct hvd_request *request;
    int rank = c->rank;

    switch (random_below(&c->all, 8)) {
    case 0:
        EXPECT(post_sum(comm, &y, 1, &request) == HVD_OK);
        EXPECT(request_wait(request) == HVD_OK);
        EXPECT(y == sum_of(c->g, 1));
        return true;
    case 1:
        return transfer(c, step);
    case 2: /* refused, on all ranks alike */
        EXPECT(broadcast(comm, &y, 1, HVD_FLOAT32, RANKS) == HVD_ERR_INVALID);
        EXPECT(broadcast(comm, &y, 1, HVD_FLOAT32, RANKS) == HVD_ERR_INVALID);
        return true;
    default:
        return true;
    }
}

static bool step_is_right(struct caller *c, int step)
{
    int rank = c->rank;

    if (step == 0 || random_below(&c->all, 4) == 0)
        choose(c);
    varied(c, step);
    fill_operands(c, step);
    EXPECT_SAY(comm_run(c->g->comms[rank], &c->args) == HVD_OK,
               "rank %d, step %d, kind %d", rank, step, (int)c->args.kind);
    return is_right(c, step) && disturb(c, step);
}

static bool call_again(struct group *g, int rank, void *arg)
{
    const size_t nbytes = RANKS * COUNT_MAX * sizeof(int32_t);
    struct caller c = {.g = g, .rank = rank, .all = {.s = 5}};
    bool good = true;

    (void)arg;
    c.ordinary = malloc(nbytes);
    c.room = malloc(nbytes);
    EXPECT((c.arena[0] = hvd_alloc(nbytes)) != NULL);
    EXPECT((c.arena[1] = hvd_alloc(nbytes)) != NULL);
    for (int step = 0; step < STEPS && good; step++)
        good = step_is_right(&c, step);
    free(c.ordinary);
    free(c.room);
    hvd_free(c.arena[0]);
    hvd_free(c.arena[1]);
    return good;
}

static void play(rank_fn *fn)
{
    struct group g;

    group_init(&g, RANKS);
    group_run(&g, fn, NULL);
    group_fini(&g);
}

START_TEST(again_with_other_contents_right_results)
{
    play(call_again);
}
END_TEST

/* The counts are the caller's, and others now. */
static bool change_counts(struct group *g, int rank, void *arg)
{
    size_t of[RANKS] = {1, 1, 1}, from[RANKS] = {0, 1, 2}, to[RANKS];
    int32_t send[RANKS] = {7, 8, 9}, recv[RANKS];
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALLV,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .sendcounts = of,
                                   .sdispls = from,
                                   .recvcounts = of,
                                   .rdispls = to,
                                   .dtype = HVD_INT32};

    (void)arg;
    memcpy(to, from, sizeof(to));
    EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
    to[0] = to[2];
    EXPECT(comm_run(g->comms[rank], &args) == HVD_ERR_INVALID);
    EXPECT(strstr(error_text(), "overlap") != NULL);
    to[0] = 0;
    EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
    return true;
}

START_TEST(again_with_other_counts_is_checked)
{
    play(change_counts);
}
END_TEST

/* The others call what they called before, rank 1 something else at last; which
 * another may be told of while it still waits in the call before. */
static bool one_strays(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    int32_t x = 0, y = 0;
    hvd_status_t status = HVD_OK;
    int i = 0;

    (void)arg;
    for (; i < 6 && status == HVD_OK; i++)
        status = allreduce(comm, &x, &y, 1, HVD_INT32,
                           i == 5 && rank == 1 ? HVD_MAX : HVD_SUM);
    EXPECT(status == HVD_ERR_MISMATCH);
    EXPECT(i == 6 || (i == 5 && rank != 1));
    return true;
}

START_TEST(again_and_one_strays_all_told)
{
    play(one_strays);
}
END_TEST

/* Nothing was called yet, and what is all zeros is like it. */
static bool call_zeros(struct group *g, int rank, void *arg)
{
    struct collective_args zeros;

    (void)arg;
    memset(&zeros, 0, sizeof(zeros));
    for (int i = 0; i < 2; i++)
        EXPECT(comm_run(g->comms[rank], &zeros) == HVD_ERR_INVALID);
    return true;
}

START_TEST(first_call_is_no_repetition)
{
    play(call_zeros);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("again");
    TCase *tc = tcase_create("again");

    tcase_add_test(tc, again_with_other_contents_right_results);
    tcase_add_test(tc, again_with_other_counts_is_checked);
    tcase_add_test(tc, again_and_one_strays_all_told);
    tcase_add_test(tc, first_call_is_no_repetition);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
