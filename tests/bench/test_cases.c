/* tests/bench/test_cases.c - that the benchmarks would notice a wrong result:
 * every collective is computed here, plainly, for all ranks. */
#include <stdlib.h>
#include <string.h>

#include "bench/cases.h"
#include "support.h"

enum { RANKS_MAX = 5, NBYTES = 600 };

static const hvd_dtype_t dtypes[] = {
    HVD_INT8,    HVD_UINT8,    HVD_INT32,   HVD_INT64,
    HVD_FLOAT16, HVD_BFLOAT16, HVD_FLOAT32, HVD_FLOAT64,
};

struct world {
    struct bench_case c[RANKS_MAX];
    char *send[RANKS_MAX], *recv[RANKS_MAX];
};

static void world_init(struct world *w, enum case_kind kind, hvd_dtype_t dtype,
                       hvd_op_t op, int size)
{
    for (int r = 0; r < size; r++) {
        struct bench_case *c = &w->c[r];

        *c = (struct bench_case){.kind = kind,
                                 .dtype = dtype,
                                 .op = op,
                                 .root = size - 1,
                                 .rank = r,
                                 .size = size};
        case_resize(c, NBYTES);
        w->send[r] = calloc(1, case_nbytes(c) + 1);
        w->recv[r] = calloc(1, case_nbytes(c) + 1);
        ck_assert(w->send[r] && w->recv[r]);
        case_fill(c, w->send[r], w->recv[r]);
    }
}

static void world_fini(struct world *w)
{
    for (int r = 0; r < w->c[0].size; r++) {
        free(w->send[r]);
        free(w->recv[r]);
    }
}

/* Integers in 32 bits are enough to see who combines what. */
static int32_t combine(const struct world *w, size_t i)
{
    int32_t result = 0;

    for (int r = 0; r < w->c[0].size; r++) {
        int32_t value;

        memcpy(&value, w->send[r] + 4 * i, 4);
        if (r == 0)
            result = value;
        else if (w->c[0].op == HVD_MIN)
            result = value < result ? value : result;
        else if (w->c[0].op == HVD_MAX)
            result = value > result ? value : result;
        else
            result = w->c[0].op == HVD_PRODUCT ? result * value
                                               : result + value;
    }
    return w->c[0].op == HVD_AVERAGE ? result / w->c[0].size : result;
}

static void run_combining(struct world *w)
{
    for (int r = 0; r < w->c[0].size; r++) {
        size_t n = w->c[r].count;
        bool scattered = w->c[r].kind == CASE_REDUCE_SCATTER;

        for (size_t i = 0; i < n; i++) {
            int32_t value = combine(w, scattered ? (size_t)r * n + i : i);

            memcpy(w->recv[r] + 4 * i, &value, 4);
        }
    }
}

static void run_moving(struct world *w)
{
    int size = w->c[0].size;
    size_t block = w->c[0].count * w->c[0].each;

    for (int r = 0; r < size; r++) {
        if (w->c[r].kind == CASE_BROADCAST)
            memcpy(w->recv[r], w->recv[size - 1], block);
        for (int k = 0; k < size && w->c[r].kind == CASE_ALLGATHER; k++)
            memcpy(w->recv[r] + (size_t)k * block, w->send[k], block);
        for (int k = 0; k < size && w->c[r].kind == CASE_ALLTOALL; k++)
            memcpy(w->recv[r] + (size_t)k * block,
                   w->send[k] + (size_t)r * block, block);
    }
}

/* Right as it is, and one wrong byte is one wrong element. */
static void check_results(struct world *w)
{
    for (int r = 0; r < w->c[0].size; r++) {
        const struct bench_case *c = &w->c[r];
        size_t nbytes = case_recv_nbytes(c);

        ck_assert_int_eq(case_count_wrong(c, w->recv[r]), 0);
        for (size_t i = 0; i < nbytes; i += 7) {
            w->recv[r][i] ^= 1;
            ck_assert_int_eq(case_count_wrong(c, w->recv[r]), 1);
            w->recv[r][i] ^= 1;
        }
    }
}

START_TEST(case_combined_result_checks)
{
    const enum case_kind kinds[] = {CASE_ALLREDUCE, CASE_REDUCE_SCATTER};

    for (int i = 0; i < 2 * (HVD_PRODUCT + 1) * RANKS_MAX; i++) {
        struct world w;

        world_init(&w, kinds[i % 2], HVD_INT32,
                   (hvd_op_t)(i / 2 % (HVD_PRODUCT + 1)),
                   1 + i / 2 / (HVD_PRODUCT + 1));
        run_combining(&w);
        check_results(&w);
        world_fini(&w);
    }
}
END_TEST

START_TEST(case_moved_result_checks)
{
    const enum case_kind kinds[] = {CASE_BROADCAST, CASE_ALLGATHER,
                                    CASE_ALLTOALL};

    for (size_t i = 0; i < 3 * 8 * RANKS_MAX; i++) {
        struct world w;

        world_init(&w, kinds[i % 3], dtypes[i / 3 % 8], HVD_SUM,
                   1 + (int)(i / 24));
        ck_assert(case_is_exact(&w.c[0]));
        run_moving(&w);
        check_results(&w);
        world_fini(&w);
    }
}
END_TEST

/* What two ranks give away is never the same: exchanged blocks show. */
START_TEST(case_moved_blocks_differ)
{
    struct world w;

    world_init(&w, CASE_ALLTOALL, HVD_FLOAT32, HVD_SUM, RANKS_MAX);
    for (int r = 1; r < RANKS_MAX; r++)
        for (size_t i = 0; i < case_send_nbytes(&w.c[r]); i += w.c[r].each)
            ck_assert_int_ne(memcmp(w.send[0] + i, w.send[r] + i, w.c[r].each),
                             0);
    world_fini(&w);
}
END_TEST

START_TEST(case_size_rounds_up_to_an_element_for_each_rank)
{
    struct bench_case c = {
        .kind = CASE_ALLGATHER, .dtype = HVD_FLOAT32, .size = 3};

    case_resize(&c, 4);
    ck_assert_uint_eq(c.count, 1);
    ck_assert_uint_eq(case_nbytes(&c), 12);
    ck_assert_uint_eq(case_send_nbytes(&c), 4);
    c.kind = CASE_BARRIER;
    case_resize(&c, 4);
    ck_assert_uint_eq(case_nbytes(&c), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cases");
    TCase *tcase = tcase_create("cases");

    tcase_add_test(tcase, case_combined_result_checks);
    tcase_add_test(tcase, case_moved_result_checks);
    tcase_add_test(tcase, case_moved_blocks_differ);
    tcase_add_test(tcase, case_size_rounds_up_to_an_element_for_each_rank);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
