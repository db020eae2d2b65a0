/* tests/collectives/test_pieces.c - what a call does with a rank's own memory
 * is done in pieces, between which it listens for an abort: several of them,
 * aborts among them, each collective, and others that come late. */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "collectives/comm_impl.h"
#include "collectives/local/impl.h"
#include "collectives/reduce/dtype.h"
#include "posted.h"

/* --- scaling --- */

enum { SCALED = (3 << 16) + 17 };

struct scaling {
    hvd_dtype_t dtype;
    bool in_place;
};

static size_t put(hvd_dtype_t dtype, void *buf, size_t i, double value)
{
    float single = (float)value;
    uint32_t bits;

    memcpy(&bits, &single, sizeof(bits));
    switch (dtype) {
    case HVD_FLOAT16:
        ((uint16_t *)buf)[i] = half_of_float(single);
        return 2;
    case HVD_BFLOAT16:
        ((uint16_t *)buf)[i] = (uint16_t)(bits >> 16);
        return 2;
    case HVD_FLOAT32:
        ((float *)buf)[i] = single;
        return 4;
    default:
        ((double *)buf)[i] = value;
        return 8;
    }
}

/* Small enough that each type has all that is computed with it. */
static double element(size_t i, int rank)
{
    return (double)((i * 5 + i / 4099 + (size_t)rank) % 8);
}

static bool scale_call(struct group *g, int rank, void *arg)
{
    const struct scaling *s = arg;
    double *in = malloc(SCALED * sizeof(*in));
    double *out = malloc(SCALED * sizeof(*out));
    double *expected = malloc(SCALED * sizeof(*expected));
    void *to = s->in_place ? in : out;
    struct collective_args args = sum_args(in, to, SCALED);
    struct hvd_request *request;
    size_t size = 0;

    args.dtype = s->dtype;
    scale_args(&args, 0.5, 4);
    for (size_t i = 0; i < SCALED; i++) {
        double sum = 0;

        for (int r = 0; r < g->size; r++)
            sum += 2 * element(i, r);
        size = put(s->dtype, in, i, element(i, rank));
        (void)put(s->dtype, expected, i, sum);
    }
    EXPECT(comm_post(g->comms[rank], &args, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_OK);
    EXPECT(memcmp(to, expected, SCALED * size) == 0);
    free(in);
    free(out);
    free(expected);
    return true;
}

START_TEST(every_piece_is_scaled)
{
    static const hvd_dtype_t dtypes[] = {HVD_FLOAT16, HVD_BFLOAT16, HVD_FLOAT32,
                                         HVD_FLOAT64};
    struct scaling s = {dtypes[_i % 4], _i >= 4};
    struct group g;

    group_init(&g, 3);
    group_run(&g, scale_call, &s);
    group_fini(&g);
}
END_TEST

/* --- aborts among own copies --- */

enum {
    RANKS = 2,
    OWN = (10 << 20) / 8 + 3, /* int64s: three pieces */
    WORDS = RANKS * OWN,
#if defined(__SANITIZE_THREAD__)
    CALMS = 1, /* before them, to know how long a call takes */
    ABORTS = 2
#elif defined(__SANITIZE_ADDRESS__)
    CALMS = 1,
    ABORTS = 3
#else
    CALMS = 3,
    ABORTS = 12
#endif
};

enum shape {
    ALLREDUCE,
    ALLGATHER,
    ALLGATHERV,
    REDUCE_SCATTER,
    ALLTOALL,
    ALLTOALL_IN_PLACE,
    ALLTOALLV,
    SHAPES
};

static const uint8_t kinds[SHAPES] = {
    COLLECTIVE_ALLREDUCE,      COLLECTIVE_ALLGATHER, COLLECTIVE_ALLGATHERV,
    COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_ALLTOALL,  COLLECTIVE_ALLTOALL,
    COLLECTIVE_ALLTOALLV,
};

static const size_t counts[RANKS] = {OWN, OWN}, displs[RANKS] = {0, OWN};

/* [WORDS] each */
static int64_t *sends[RANKS], *recvs[RANKS];

struct storm {
    enum shape shape;
    bool calm;
    uint64_t delay_us; /* from when all are about to call */
    atomic_int n_ready, n_lost;
    uint64_t took_us; /* rank 0's call */
};

static int64_t word(int rank, size_t i)
{
    return (int64_t)((i * 2654435761u + (size_t)rank * 40503u) >> 1);
}

static struct collective_args args_of(enum shape shape, int rank)
{
    bool in_place = shape == ALLTOALL_IN_PLACE;
    struct collective_args args = {
        .kind = kinds[shape],
        .sendbuf = in_place ? recvs[rank] : sends[rank],
        .recvbuf = recvs[rank],
        .count = OWN,
        .dtype = HVD_INT64,
        .op = HVD_SUM,
    };

    if (shape == ALLGATHERV || shape == ALLTOALLV) {
        args.recvcounts = counts;
        args.rdispls = displs;
    }
    if (shape == ALLTOALLV) {
        args.sendcounts = counts;
        args.sdispls = displs;
        args.count = 0;
    }
    return args;
}

/* Word i of what the rank has received. */
static int64_t expected(enum shape shape, int rank, size_t i)
{
    switch (shape) {
    case ALLREDUCE:
        return word(0, i) + word(1, i);
    case REDUCE_SCATTER:
        i += (size_t)rank * OWN;
        return word(0, i) + word(1, i);
    case ALLGATHER:
    case ALLGATHERV:
        return word((int)(i / OWN), i % OWN);
    default:
        return word((int)(i / OWN), (size_t)rank * OWN + i % OWN);
    }
}

static bool check_result(enum shape shape, int rank)
{
    size_t n = shape == ALLREDUCE || shape == REDUCE_SCATTER ? OWN : WORDS;

    for (size_t i = 0; i < n; i++)
        EXPECT_SAY(recvs[rank][i] == expected(shape, rank, i),
                   "shape %d, word %zu", shape, i);
    return true;
}

static bool abort_all(struct group *g, struct storm *s)
{
    uint64_t at_us;

    while (atomic_load(&s->n_ready) < RANKS)
        sched_yield();
    at_us = clock_now_us() + s->delay_us;
    while (clock_now_us() < at_us)
        sched_yield();
    for (int i = 0; i < RANKS; i++)
        comm_abort(g->comms[i], HVD_PEER_LOST, "storm");
    return true;
}

static bool storm_rank(struct group *g, int rank, void *arg)
{
    struct storm *s = arg;
    struct collective_args args;
    hvd_status_t status;
    uint64_t begin_us;

    if (rank == RANKS)
        return abort_all(g, s);
    args = args_of(s->shape, rank);
    for (size_t i = 0; i < WORDS; i++)
        recvs[rank][i] = args.sendbuf == args.recvbuf ? word(rank, i) : -1;
    status = barrier(g->comms[rank]);
    atomic_fetch_add(&s->n_ready, 1);
    EXPECT(status == HVD_OK);
    begin_us = clock_now_us();
    status = comm_run(g->comms[rank], &args);
    if (rank == 0)
        s->took_us = clock_now_us() - begin_us;
    if (status == HVD_OK)
        return check_result(s->shape, rank);
    EXPECT_SAY(status == HVD_PEER_LOST && !s->calm, "%d", status);
    atomic_fetch_add(&s->n_lost, 1);
    return true;
}

static void play(struct storm *s)
{
    struct group g;

    group_init(&g, RANKS);
    g.size = RANKS + !s->calm; /* the last thread aborts, and has no comm */
    group_run(&g, storm_rank, s);
    g.size = RANKS;
    group_fini(&g);
}

/* -> how long it took, or took_us if that is less */
static uint64_t play_calm(enum shape shape, uint64_t took_us)
{
    struct storm s = {.shape = shape, .calm = true};

    play(&s);
    return s.took_us < took_us ? s.took_us : took_us;
}

/* At instants from the beginning of a call to somewhat behind its end, until at
 * least one was in time: on a busy machine most come late. */
START_TEST(abort_among_own_copies_leaves_no_wrong_result)
{
    uint64_t took_us = UINT64_MAX;
    int n_lost = 0;

    for (int r = 0; r < RANKS; r++) {
        sends[r] = malloc(WORDS * sizeof(*sends[r]));
        recvs[r] = malloc(WORDS * sizeof(*recvs[r]));
        ck_assert(sends[r] != NULL && recvs[r] != NULL);
        for (size_t i = 0; i < WORDS; i++)
            sends[r][i] = word(r, i);
    }
    for (int k = 0; k < CALMS; k++)
        took_us = play_calm((enum shape)_i, took_us);
    for (unsigned k = 1; k <= ABORTS || n_lost == 0; k++) {
        struct storm s = {.shape = (enum shape)_i,
                          .delay_us = took_us * 5 / 4 * (k % ABORTS) / ABORTS};

        play(&s);
        n_lost += s.n_lost;
    }
    (void)play_calm((enum shape)_i, took_us);
    for (int r = 0; r < RANKS; r++) {
        free(sends[r]);
        free(recvs[r]);
    }
}
END_TEST

/* --- who waits --- */

enum {
    LATE_RANKS = 3,
    LATE_COUNT = 300001,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    LATE_CALLS = 5
#else
    LATE_CALLS = 20
#endif
};

/* Until the others have called, where that can be seen, and then somewhat
 * longer. */
static void come_late(const struct local *local, int n)
{
    for (int i = 0; local != NULL && i < local->size; i++) {
        const struct mailbox_card *card;

        if (i == local->me)
            continue;
        card = local_card_of(local->peers[i].box, local->ticket + 1);
        while (atomic_load(&card->ticket) <= local->ticket)
            sched_yield();
    }
    for (int i = 0; i < n; i++)
        sched_yield();
}

/* Word i of what the rank has received in call n. */
static int32_t gathered(uint8_t kind, int rank, int n, size_t i)
{
    size_t from = i / LATE_COUNT, at = i % LATE_COUNT;

    if (kind == COLLECTIVE_ALLTOALL)
        at += (size_t)rank * LATE_COUNT;
    return (int32_t)(from * 7919 + at + (size_t)n);
}

static bool calls_of_late_ranks(struct group *g, int rank, void *arg)
{
    uint8_t kind = *(const uint8_t *)arg;
    struct comm *comm = g->comms[rank];
    size_t words = (size_t)LATE_RANKS * LATE_COUNT;
    int32_t *send = malloc(words * sizeof(*send));
    int32_t *recv = malloc(words * sizeof(*recv));
    struct collective_args args = {.kind = kind,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .count = LATE_COUNT,
                                   .dtype = HVD_INT32};

    EXPECT(send != NULL && recv != NULL);
    EXPECT(barrier(comm) == HVD_OK);
    for (int n = 0; n < LATE_CALLS; n++) {
        for (size_t i = 0; i < words; i++)
            send[i] = (int32_t)((size_t)rank * 7919 + i + (size_t)n);
        if (n % (LATE_RANKS + 1) == rank)
            come_late(comm->local, 9 * n * n);
        EXPECT(comm_run(comm, &args) == HVD_OK);
        for (size_t i = 0; i < words; i++)
            EXPECT_SAY(recv[i] == gathered(kind, rank, n, i),
                       "call %d, word %zu", n, i);
    }
    free(send);
    free(recv);
    return true;
}

/* They copy what they have themselves, until the last one is there. */
START_TEST(who_waits_for_a_late_rank_has_all_in_the_end)
{
    uint8_t kind = _i == 0 ? COLLECTIVE_ALLGATHER : COLLECTIVE_ALLTOALL;
    struct group g;

    group_init(&g, LATE_RANKS);
    group_run(&g, calls_of_late_ranks, &kind);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pieces");
    TCase *tc = tcase_create("pieces");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_piece_is_scaled, 0, 8);
    tcase_add_loop_test(tc, abort_among_own_copies_leaves_no_wrong_result, 0,
                        SHAPES);
    tcase_add_loop_test(tc, who_waits_for_a_late_rank_has_all_in_the_end, 0, 2);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
