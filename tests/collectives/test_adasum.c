/* tests/collectives/test_adasum.c - adaptive summation beside a plain
 * reference, and what is known of it. */
#include <math.h>

#include "base/random.h"
#include "elements.h"
#include "named.h"

enum { SIZE_MAX_ = 9, COUNT_MAX = 70000, ELEM_MAX = 8 };

static const hvd_dtype_t dtypes[] = {HVD_FLOAT16, HVD_BFLOAT16, HVD_FLOAT32,
                                     HVD_FLOAT64};
static const double precision[] = {4e-3, 3e-2, 2e-6, 1e-14};
static const size_t counts[] = {1, 2, 7, 1000, COUNT_MAX};

/* What a rank has: the same for whoever asks. */
static void draw(hvd_dtype_t dtype, void *buf, size_t count, int rank)
{
    struct random_state random = {.s = (uint64_t)rank * 77 + count};

    for (size_t i = 0; i < count; i++)
        store(dtype, buf, i,
              ((double)random_below(&random, 2001) - 900) / (300 + 100 * rank));
}

/* --- the reference: without rounding --- */

static void add_pair(double *a, const double *b, size_t count)
{
    double ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < count; i++) {
        ab += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
    }
    for (size_t i = 0; i < count; i++)
        a[i] = (1 - ab / (2 * aa)) * a[i] + (1 - ab / (2 * bb)) * b[i];
}

/* Of the ranks of the list, into the first one's. */
static void add_all(double **vectors, int n, size_t count)
{
    while (n > 1) {
        int n_pairs = n / 2;

        for (int k = 0; k < n_pairs; k++) {
            add_pair(vectors[2 * k], vectors[2 * k + 1], count);
            vectors[k] = vectors[2 * k];
        }
        if (n % 2 == 1)
            vectors[n_pairs] = vectors[n - 1];
        n -= n_pairs;
    }
}

static bool is_near(hvd_dtype_t dtype, const void *buf, const double *wanted,
                    size_t count, double tolerance)
{
    double most = 0;

    for (size_t i = 0; i < count; i++)
        most = fabs(wanted[i]) > most ? fabs(wanted[i]) : most;
    for (size_t i = 0; i < count; i++)
        if (!(fabs(load(dtype, buf, i) - wanted[i]) <= tolerance * most)) {
            printf("element %zu of %zu: %.9g, not %.9g\n", i, count,
                   load(dtype, buf, i), wanted[i]);
            return false;
        }
    return true;
}

static bool is_as_the_reference(const struct group *g, size_t d, size_t count,
                                const void *got)
{
    double *vectors[SIZE_MAX_] = {NULL}, *all[SIZE_MAX_];
    bool near;

    for (int i = 0; i < g->size; i++) {
        vectors[i] = calloc(count, sizeof(double));
        draw(dtypes[d], vectors[i], count, i);
        for (size_t k = count; k-- > 0;) /* widened in place, from the end */
            vectors[i][k] = load(dtypes[d], vectors[i], k);
    }
    memcpy(all, vectors, sizeof(all));
    add_all(vectors, g->size, count);
    near = is_near(dtypes[d], got, vectors[0], count, precision[d] * g->size);
    for (int i = 0; i < g->size; i++)
        free(all[i]);
    return near;
}

/* --- calls --- */

static struct collective_args adasum_args(hvd_dtype_t dtype, const void *send,
                                          void *recv, size_t count)
{
    struct collective_args args = sum_args(send, recv, count);

    args.dtype = dtype;
    args.op = HVD_ADASUM;
    return args;
}

/* Every rank has the same bytes. */
static bool are_equal(struct comm *comm, int rank, const void *buf,
                      size_t nbytes)
{
    uint8_t *least = malloc(nbytes), *most = malloc(nbytes);
    struct collective_args args = sum_args(buf, least, nbytes);
    bool equal;

    args.dtype = HVD_UINT8;
    args.op = HVD_MIN;
    EXPECT(comm_run(comm, &args) == HVD_OK);
    args.recvbuf = most;
    args.op = HVD_MAX;
    EXPECT(comm_run(comm, &args) == HVD_OK);
    equal = memcmp(least, most, nbytes) == 0;
    free(least);
    free(most);
    return equal;
}

/* how 0: blocking; 1: posted; 2: by name. */
static hvd_status_t run(struct comm *comm, struct collective_args *args,
                        int how)
{
    struct hvd_request *r;

    args->name = how == 2 ? "adasum" : NULL;
    if (how == 0)
        return comm_run(comm, args);
    HVD_TRY(how == 1 ? comm_post(comm, args, &r)
                     : by_name_post(comm, args, NULL, &r));
    return request_wait(r);
}

static bool run_all(struct group *g, int rank, void *arg)
{
    int how = *(int *)arg;
    void *send = malloc((size_t)COUNT_MAX * ELEM_MAX);
    void *recv = malloc((size_t)COUNT_MAX * ELEM_MAX);

    for (size_t d = 0; d < ARRAY_SIZE(dtypes); d++)
        for (size_t c = 0; c < ARRAY_SIZE(counts); c++) {
            bool in_place = (d + c) % 2 == 0;
            struct collective_args args = adasum_args(
                dtypes[d], in_place ? recv : send, recv, counts[c]);

            draw(dtypes[d], in_place ? recv : send, counts[c], rank);
            EXPECT(run(g->comms[rank], &args, how) == HVD_OK);
            if ((int)(d + c) % g->size == rank) /* the others have the same */
                EXPECT_SAY(is_as_the_reference(g, d, counts[c], recv),
                           "%s, %zu", dtype_name(dtypes[d]), counts[c]);
            EXPECT(are_equal(g->comms[rank], rank, recv,
                             counts[c] * hvd_dtype_size(dtypes[d])));
        }
    free(send);
    free(recv);
    return true;
}

START_TEST(is_as_the_reference_computes_it)
{
    struct group g;

    for (int size = 1; size <= 5; size++) {
        group_init(&g, size);
        group_run(&g, run_all, &_i);
        group_fini(&g);
    }
}
END_TEST

/* --- groups --- */

enum { N_GROUPED = ARRAY_SIZE(counts) + 1 };

/* Some in place, one of them empty. */
struct grouped {
    const void *sends[N_GROUPED];
    void *recvs[N_GROUPED], *own[N_GROUPED];
    size_t counts[N_GROUPED];
};

static struct grouped make_grouped(hvd_dtype_t dtype, int rank)
{
    struct grouped t = {.counts = {0}};

    for (size_t i = 0; i < N_GROUPED; i++) {
        t.counts[i] = i == 2 ? 0 : counts[i > 2 ? i - 1 : i];
        t.recvs[i] = malloc(t.counts[i] * ELEM_MAX + 1);
        t.own[i] = malloc(t.counts[i] * ELEM_MAX + 1);
        t.sends[i] = i % 2 == 0 ? t.recvs[i] : t.own[i];
        draw(dtype, i % 2 == 0 ? t.recvs[i] : t.own[i], t.counts[i], rank);
    }
    return t;
}

static void free_grouped(struct grouped *t)
{
    for (size_t i = 0; i < N_GROUPED; i++) {
        free(t->recvs[i]);
        free(t->own[i]);
    }
}

static hvd_status_t run_group(struct comm *comm, hvd_dtype_t dtype,
                              const struct grouped *t, int how)
{
    struct comm_group group = {N_GROUPED, t->sends, t->recvs, t->counts};
    struct collective_args args = adasum_args(dtype, NULL, NULL, 0);
    struct hvd_request *r;

    args.name = how == 2 ? "adasum" : NULL;
    if (how == 0)
        return comm_run_group(comm, &args, &group);
    HVD_TRY(how == 1 ? comm_post_group(comm, &args, &group, &r)
                     : by_name_post(comm, &args, &group, &r));
    return request_wait(r);
}

/* Each tensor becomes what it would by itself. */
static bool run_groups(struct group *g, int rank, void *arg)
{
    int how = *(int *)arg;

    for (size_t d = 0; d < ARRAY_SIZE(dtypes); d++) {
        struct grouped t = make_grouped(dtypes[d], rank);

        EXPECT(run_group(g->comms[rank], dtypes[d], &t, how) == HVD_OK);
        for (size_t i = 0; i < N_GROUPED; i++) {
            if (t.counts[i] == 0)
                continue;
            if ((int)(d + i) % g->size == rank)
                EXPECT_SAY(is_as_the_reference(g, d, t.counts[i], t.recvs[i]),
                           "%s, %zu", dtype_name(dtypes[d]), t.counts[i]);
            EXPECT(are_equal(g->comms[rank], rank, t.recvs[i],
                             t.counts[i] * hvd_dtype_size(dtypes[d])));
        }
        free_grouped(&t);
    }
    return true;
}

START_TEST(groups_are_as_their_tensors)
{
    struct group g;

    for (int size = 1; size <= 5; size++) {
        group_init(&g, size);
        group_run(&g, run_groups, &_i);
        group_fini(&g);
    }
}
END_TEST

START_TEST(of_more_ranks_as_well)
{
    int how = 0;
    struct group g;

    group_init(&g, SIZE_MAX_);
    group_run(&g, run_all, &how);
    group_run(&g, run_groups, &how);
    group_fini(&g);
}
END_TEST

/* --- what is known of it --- */

/* The mean of what is equal, the sum of what is orthogonal; a zero changes
 * nothing; a multiple of all is a multiple of the result. */
static bool run_known(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    float buf[64], wanted[64], scaled[64];
    struct collective_args args = adasum_args(HVD_FLOAT32, buf, buf, 64);

    for (int i = 0; i < 64; i++)
        buf[i] = wanted[i] = (float)(i - 20) / 8;
    EXPECT(comm_run(comm, &args) == HVD_OK);
    EXPECT(memcmp(buf, wanted, sizeof(buf)) == 0);
    for (int i = 0; i < 64; i++) {
        buf[i] = i % g->size == rank ? (float)i : 0;
        wanted[i] = (float)i;
    }
    EXPECT(comm_run(comm, &args) == HVD_OK);
    EXPECT(memcmp(buf, wanted, sizeof(buf)) == 0);
    for (int i = 0; i < 64; i++)
        buf[i] = rank == g->size - 1 ? (float)i : 0;
    EXPECT(comm_run(comm, &args) == HVD_OK);
    EXPECT(memcmp(buf, wanted, sizeof(buf)) == 0);
    draw(HVD_FLOAT32, buf, 64, rank);
    memcpy(scaled, buf, sizeof(scaled));
    EXPECT(comm_run(comm, &args) == HVD_OK);
    args.sendbuf = args.recvbuf = scaled;
    scale_args(&args, 16, 0.5);
    EXPECT(run(comm, &args, 1) == HVD_OK);
    for (int i = 0; i < 64; i++)
        EXPECT(scaled[i] == 8 * buf[i]);
    return true;
}

START_TEST(mean_of_equal_and_sum_of_orthogonal)
{
    struct group g;

    for (int size = 2; size <= 5; size++) {
        group_init(&g, size);
        group_run(&g, run_known, NULL);
        group_fini(&g);
    }
}
END_TEST

/* --- rounding and overflow --- */

enum { ROUNDED_COUNT = 1000 };

static void round_all(hvd_dtype_t dtype, double *a, size_t count)
{
    uint8_t one[ELEM_MAX];

    for (size_t i = 0; i < count; i++) {
        store(dtype, one, 0, a[i]);
        a[i] = load(dtype, one, 0);
    }
}

/* As add_all(), but what a pair comes to is an element of the dtype. */
static void add_all_rounded(hvd_dtype_t dtype, double **vectors, int n)
{
    while (n > 1) {
        int n_pairs = n / 2;

        for (int k = 0; k < n_pairs; k++) {
            add_pair(vectors[2 * k], vectors[2 * k + 1], ROUNDED_COUNT);
            round_all(dtype, vectors[2 * k], ROUNDED_COUNT);
            vectors[k] = vectors[2 * k];
        }
        if (n % 2 == 1)
            vectors[n_pairs] = vectors[n - 1];
        n -= n_pairs;
    }
}

/* Bit for bit; float64 is not among them: there the order in which products are
 * added up shows. */
static bool run_rounded(struct group *g, int rank, void *arg)
{
    static __thread double all[SIZE_MAX_][ROUNDED_COUNT], buf[ROUNDED_COUNT];
    double *vectors[SIZE_MAX_];

    for (size_t d = 0; dtypes[d] != HVD_FLOAT64; d++) {
        struct collective_args args = adasum_args(dtypes[d], buf, buf,
                                                  ROUNDED_COUNT);

        for (int i = 0; i < g->size; i++) {
            vectors[i] = all[i];
            draw(dtypes[d], buf, ROUNDED_COUNT, i);
            for (size_t k = 0; k < ROUNDED_COUNT; k++)
                all[i][k] = load(dtypes[d], buf, k);
        }
        draw(dtypes[d], buf, ROUNDED_COUNT, rank);
        add_all_rounded(dtypes[d], vectors, g->size);
        EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
        for (size_t k = 0; k < ROUNDED_COUNT; k++)
            EXPECT_SAY(load(dtypes[d], buf, k) == vectors[0][k],
                       "%s: element %zu is %.9g, not %.9g",
                       dtype_name(dtypes[d]), k, load(dtypes[d], buf, k),
                       vectors[0][k]);
    }
    return true;
}

START_TEST(each_pair_is_rounded_once)
{
    struct group g;

    for (int size = 2; size <= 5; size++) {
        group_init(&g, size);
        group_run(&g, run_rounded, NULL);
        group_fini(&g);
    }
}
END_TEST

/* Products that binary64 holds, although the dtype does not, are none that
 * overflow: the mean. Those that it does not hold: the sum. */
static bool run_large(struct group *g, int rank, void *arg)
{
    static const double large[] = {30000, 1e38, 1e38, 1e200};
    struct collective_args args;
    double buf[2], x, wanted;

    for (size_t d = 0; d < ARRAY_SIZE(dtypes); d++) {
        for (size_t i = 0; i < 2; i++)
            store(dtypes[d], buf, i, large[d]);
        x = load(dtypes[d], buf, 0);
        wanted = dtypes[d] == HVD_FLOAT64 ? x * g->size : x;
        args = adasum_args(dtypes[d], buf, buf, 2);
        EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
        for (size_t i = 0; i < 2; i++)
            EXPECT_SAY(load(dtypes[d], buf, i) == wanted, "%s: %g, not %g",
                       dtype_name(dtypes[d]), load(dtypes[d], buf, i), wanted);
    }
    /* one that is large beside one that is not */
    buf[0] = rank == 0 ? 1e200 : 3;
    buf[1] = rank == 0 ? 0 : 5;
    args = adasum_args(HVD_FLOAT64, buf, buf, 2);
    EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
    EXPECT_SAY(buf[0] == 1e200 && buf[1] == 5 * (g->size - 1), "%g, %g", buf[0],
               buf[1]);
    return true;
}

START_TEST(pair_whose_products_overflow_is_added)
{
    struct group g;

    for (int size = 2; size <= 3; size++) {
        group_init(&g, size);
        group_run(&g, run_large, NULL);
        group_fini(&g);
    }
}
END_TEST

/* --- what is refused --- */

static bool refuse(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    float x[4] = {0};
    struct collective_args args = adasum_args(HVD_INT32, x, x, 4);
    struct hvd_request *r;

    EXPECT(comm_run(comm, &args) == HVD_ERR_INVALID);
    EXPECT(text_has("adasum is for allreduce of floating point"));
    args.dtype = HVD_FLOAT32;
    args.kind = COLLECTIVE_REDUCE_SCATTER;
    EXPECT(comm_run(comm, &args) == HVD_ERR_INVALID);
    args.kind = COLLECTIVE_ALLREDUCE;
    args.wire_dtype = HVD_FLOAT16;
    EXPECT(comm_post(comm, &args, &r) == HVD_ERR_INVALID);
    args.wire_dtype = HVD_DTYPE_SAME;
    args.count = 0;
    EXPECT(comm_run(comm, &args) == HVD_OK);
    args.op = (hvd_op_t)6;
    EXPECT(comm_run(comm, &args) == HVD_ERR_INVALID);
    return true;
}

START_TEST(what_it_does_not_take_is_refused)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, refuse, NULL);
    group_fini(&g);
}
END_TEST

/* way 0: another count of as many pieces; 1: a sum. */
static bool differ(struct group *g, int rank, void *arg)
{
    int way = *(int *)arg;
    float x[4] = {1};
    struct collective_args args = adasum_args(HVD_FLOAT32, x, x, 4);

    if (rank == 1 && way == 0)
        args.count = 3;
    if (rank == 1 && way == 1)
        args.op = HVD_SUM;
    EXPECT(comm_run(g->comms[rank], &args) == HVD_ERR_MISMATCH);
    EXPECT_SAY(text_has("allreduce #1 (float32, adasum, 4)"), "%s",
               error_text());
    EXPECT(text_has(way == 0 ? "allreduce #1 (float32, adasum, 3)"
                             : "allreduce #1 (float32, sum, 4)"));
    return true;
}

START_TEST(ranks_that_differ_are_named)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, differ, &_i);
    group_fini(&g);
}
END_TEST

/* --- with ranks that have joined --- */

/* Where each tensor of it begins is not known to who has joined. */
static bool refuse_group(struct group *g, int rank)
{
    struct grouped t = make_grouped(HVD_FLOAT64, rank);
    hvd_status_t status = HVD_ERR_MISMATCH;

    if (rank > 0)
        status = run_group(g->comms[rank], HVD_FLOAT64, &t, 2);
    free_grouped(&t);
    EXPECT(status == HVD_ERR_MISMATCH);
    EXPECT(rank == 0 || text_has("adasum of one tensor"));
    return true;
}

static bool join_early(struct group *g, int rank, void *arg)
{
    double buf[1000], *vectors[SIZE_MAX_], wanted[SIZE_MAX_][1000];
    struct collective_args args = adasum_args(HVD_FLOAT64, buf, buf, 1000);
    int last;

    for (int i = 0; i < g->size; i++) {
        vectors[i] = wanted[i];
        memset(wanted[i], 0, sizeof(wanted[i]));
    }
    draw(HVD_FLOAT64, wanted[1], 1000, 1);
    draw(HVD_FLOAT64, wanted[2], 1000, 2);
    add_pair(wanted[1], wanted[2], 1000);
    draw(HVD_FLOAT64, buf, 1000, rank);
    if (rank > 0) {
        EXPECT(run(g->comms[rank], &args, 2) == HVD_OK);
        EXPECT(is_near(HVD_FLOAT64, buf, vectors[1], 1000, 1e-14));
    }
    EXPECT(refuse_group(g, rank));
    EXPECT(by_name_join(g->comms[rank], &last) == HVD_OK);
    return true;
}

START_TEST(who_has_joined_adds_nothing)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, join_early, NULL);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adasum");
    TCase *tc = tcase_create("adasum");

    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, is_as_the_reference_computes_it, 0, 3);
    tcase_add_loop_test(tc, groups_are_as_their_tensors, 0, 3);
    tcase_add_test(tc, of_more_ranks_as_well);
    tcase_add_test(tc, mean_of_equal_and_sum_of_orthogonal);
    tcase_add_test(tc, each_pair_is_rounded_once);
    tcase_add_test(tc, pair_whose_products_overflow_is_added);
    tcase_add_test(tc, what_it_does_not_take_is_refused);
    tcase_add_loop_test(tc, ranks_that_differ_are_named, 0, 2);
    tcase_add_test(tc, who_has_joined_adds_nothing);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
