/* tests/collectives/test_horovod_cases.c - those cases of Horovod's
 * test/parallel/test_torch.py that make sense without a framework, by their
 * names there, with 2 and with 4 ranks; all of them by name, as there. What
 * differs is said where it does; errors, join and barriers are in
 * test_horovod_errors.c. Cases of gradients, optimizers, devices and objects
 * are not ours; who waits for whom in sets is in test_process_sets.c. */
#include "base/random.h"
#include "collectives/process_set.h"
#include "elements.h"
#include "horovod.h"

enum { MAX = EDGE * EDGE * EDGE, ELEM_MAX = 8, OUT = 8 };

static const hvd_dtype_t dtypes[] = {HVD_INT32, HVD_INT64, HVD_FLOAT32,
                                     HVD_FLOAT64, HVD_FLOAT16};
static const size_t counts[] = {EDGE, EDGE *EDGE, MAX};

/* What rank `of` has at i, a whole number below 100 (Horovod's range): sums and
 * products of small ones are exact in every dtype. */
static double value(int of, size_t i, int below)
{
    struct random_state random = {.s = (uint64_t)of * 1234 + i};

    return (double)random_below(&random, (uint64_t)(2 * below + 1)) - below;
}

static void fill_with(hvd_dtype_t dtype, void *buf, size_t n, int of, int below)
{
    for (size_t i = 0; i < n; i++)
        store(dtype, buf, i, value(of, i, below));
}

/* Each dtype and size. */
typedef bool case_fn(struct comm *comm, int rank, hvd_dtype_t dtype,
                     size_t count);

static bool for_each(struct comm *comm, int rank, case_fn *fn)
{
    for (size_t d = 0; d < ARRAY_SIZE(dtypes); d++)
        for (size_t c = 0; c < ARRAY_SIZE(counts); c++)
            EXPECT(fn(comm, rank, dtypes[d], counts[c]));
    return true;
}

/* --- allreduce --- */

static double wanted(hvd_op_t op, int size, size_t i, int below)
{
    double x = value(0, i, below);

    for (int of = 1; of < size; of++) {
        double y = value(of, i, below);

        x = op == HVD_MIN       ? (y < x ? y : x)
            : op == HVD_MAX     ? (y > x ? y : x)
            : op == HVD_PRODUCT ? x * y
                                : x + y;
    }
    return x;
}

/* Different tensors, in place or not. */
static bool reduces(struct comm *comm, hvd_dtype_t dtype, size_t count,
                    hvd_op_t op, bool in_place)
{
    uint8_t send[MAX * ELEM_MAX], recv[MAX * ELEM_MAX];
    int rank = comm->config.rank, below = op == HVD_PRODUCT ? 3 : 100;
    struct collective_args args = args_of(COLLECTIVE_ALLREDUCE, dtype,
                                          in_place ? recv : send, recv, count);

    args.op = op;
    fill_with(dtype, in_place ? recv : send, count, rank, below);
    EXPECT(call(comm, &args) == HVD_OK);
    for (size_t i = 0; i < count; i++)
        EXPECT(load(dtype, recv, i) == wanted(op, comm->config.size, i, below));
    return true;
}

static bool allreduce_sum(struct comm *comm, int rank, hvd_dtype_t dtype,
                          size_t count)
{
    return reduces(comm, dtype, count, HVD_SUM, false);
}

static bool allreduce_min(struct comm *comm, int rank, hvd_dtype_t dtype,
                          size_t count)
{
    return reduces(comm, dtype, count, HVD_MIN, false);
}

static bool allreduce_max(struct comm *comm, int rank, hvd_dtype_t dtype,
                          size_t count)
{
    return reduces(comm, dtype, count, HVD_MAX, false);
}

static bool allreduce_product(struct comm *comm, int rank, hvd_dtype_t dtype,
                              size_t count)
{
    return reduces(comm, dtype, count, HVD_PRODUCT, false);
}

static bool allreduce_inplace(struct comm *comm, int rank, hvd_dtype_t dtype,
                              size_t count)
{
    return reduces(comm, dtype, count, HVD_SUM, true);
}

/* The same tensor everywhere, times `factor` then. */
static bool allreduce_identical(struct comm *comm, hvd_dtype_t dtype,
                                size_t count, struct collective_args args,
                                double factor)
{
    uint8_t buf[MAX * ELEM_MAX];
    int rank = comm->config.rank;

    args.dtype = dtype;
    args.count = count;
    args.sendbuf = args.recvbuf = buf;
    fill_with(dtype, buf, count, 0, 100);
    EXPECT(call(comm, &args) == HVD_OK);
    for (size_t i = 0; i < count; i++)
        EXPECT(load(dtype, buf, i) == factor * value(0, i, 100));
    return true;
}

static bool allreduce_average(struct comm *comm, int rank, hvd_dtype_t dtype,
                              size_t count)
{
    struct collective_args args = args_of(COLLECTIVE_ALLREDUCE, dtype, NULL,
                                          NULL, count);

    args.op = HVD_AVERAGE;
    return allreduce_identical(comm, dtype, count, args, 1);
}

/* Of floating point: Horovod also scales whole numbers, and truncates them. */
static bool is_scaled(hvd_dtype_t dtype)
{
    return dtype != HVD_INT32 && dtype != HVD_INT64;
}

static bool allreduce_prescale(struct comm *comm, int rank, hvd_dtype_t dtype,
                               size_t count)
{
    struct collective_args args = args_of(COLLECTIVE_ALLREDUCE, dtype, NULL,
                                          NULL, count);

    scale_args(&args, 0.5, 0);
    return !is_scaled(dtype) || allreduce_identical(comm, dtype, count, args,
                                                    0.5 * comm->config.size);
}

static bool allreduce_postscale(struct comm *comm, int rank, hvd_dtype_t dtype,
                                size_t count)
{
    struct collective_args args = args_of(COLLECTIVE_ALLREDUCE, dtype, NULL,
                                          NULL, count);

    scale_args(&args, 0, 0.25);
    return !is_scaled(dtype) || allreduce_identical(comm, dtype, count, args,
                                                    0.25 * comm->config.size);
}

/* --- many at once --- */

/* Each of a list, of the kind, in flight together. */
static bool outstanding(struct comm *comm, enum collective_kind kind,
                        hvd_dtype_t dtype, size_t count)
{
    static __thread _Alignas(8) uint8_t send[LIST][MAX * ELEM_MAX * 4];
    static __thread _Alignas(8) uint8_t recv[LIST][MAX * ELEM_MAX * 4];
    bool scatters = kind == COLLECTIVE_REDUCE_SCATTER;
    size_t size = (size_t)comm->config.size;
    size_t n_send = scatters ? size * count : count;
    int rank = comm->config.rank;
    struct hvd_request *requests[LIST];
    char name[16];

    for (int k = 0; k < LIST; k++) {
        struct collective_args args = args_of(kind, dtype, send[k], recv[k],
                                              count);

        snprintf(name, sizeof(name), "tensor.%d", k);
        args.name = name;
        fill_with(dtype, send[k], n_send, rank + k, 100);
        EXPECT(by_name_post(comm, &args, NULL, &requests[k]) == HVD_OK);
    }
    for (int k = LIST - 1; k >= 0; k--) {
        EXPECT(request_wait(requests[k]) == HVD_OK);
        for (size_t i = 0; i < count; i++) {
            size_t at = scatters ? (size_t)rank * count + i : i;
            double sum = 0;

            for (int of = 0; of < (int)size; of++)
                sum += value(of + k, at, 100);
            if (kind != COLLECTIVE_ALLGATHER)
                EXPECT(load(dtype, recv[k], i) == sum);
        }
        for (size_t i = 0; kind == COLLECTIVE_ALLGATHER && i < size * count;
             i++)
            EXPECT(load(dtype, recv[k], i) ==
                   value((int)(i / count) + k, i % count, 100));
    }
    return true;
}

static bool allreduce_async_fused(struct comm *comm, int rank,
                                  hvd_dtype_t dtype, size_t count)
{
    return outstanding(comm, COLLECTIVE_ALLREDUCE, dtype, count);
}

static bool allgather_async_fused(struct comm *comm, int rank,
                                  hvd_dtype_t dtype, size_t count)
{
    return outstanding(comm, COLLECTIVE_ALLGATHER, dtype, count);
}

static bool reducescatter_async_fused(struct comm *comm, int rank,
                                      hvd_dtype_t dtype, size_t count)
{
    return outstanding(comm, COLLECTIVE_REDUCE_SCATTER, dtype, count);
}

/* average or not, in place or not */
static bool grouped(struct comm *comm, hvd_dtype_t dtype, size_t count,
                    hvd_op_t op, bool in_place)
{
    static __thread _Alignas(8) uint8_t bufs[2][LIST][MAX * ELEM_MAX];
    int size = comm->config.size, rank = comm->config.rank;
    const void *sends[LIST];
    void *recvs[LIST];
    size_t all[LIST];
    struct comm_group group = {LIST, sends, recvs, all};
    struct collective_args args = args_of(COLLECTIVE_ALLREDUCE, dtype, NULL,
                                          NULL, 0);
    struct hvd_request *r;

    args.op = op;
    for (int k = 0; k < LIST; k++) {
        sends[k] = bufs[in_place][k];
        recvs[k] = bufs[1][k];
        all[k] = count;
        fill_with(dtype, bufs[in_place][k], count,
                  op == HVD_AVERAGE ? k : rank + k, 100);
    }
    EXPECT(by_name_post(comm, &args, &group, &r) == HVD_OK);
    EXPECT(request_wait(r) == HVD_OK);
    for (int k = 0; k < LIST; k++)
        for (size_t i = 0; i < count; i++) {
            double sum = op == HVD_AVERAGE ? value(k, i, 100) : 0;

            for (int of = 0; of < size && op != HVD_AVERAGE; of++)
                sum += value(of + k, i, 100);
            EXPECT(load(dtype, recvs[k], i) == sum);
        }
    return true;
}

static bool grouped_allreduce(struct comm *comm, int rank, hvd_dtype_t dtype,
                              size_t count)
{
    return grouped(comm, dtype, count, HVD_SUM, false);
}

static bool grouped_allreduce_average(struct comm *comm, int rank,
                                      hvd_dtype_t dtype, size_t count)
{
    return grouped(comm, dtype, count, HVD_AVERAGE, false);
}

static bool grouped_allreduce_inplace(struct comm *comm, int rank,
                                      hvd_dtype_t dtype, size_t count)
{
    return grouped(comm, dtype, count, HVD_SUM, true);
}

/* --- gather, broadcast, alltoall, scatter --- */

static bool allgather(struct comm *comm, int rank, hvd_dtype_t dtype,
                      size_t count)
{
    uint8_t send[MAX * ELEM_MAX];
    size_t size = (size_t)comm->config.size;
    uint8_t *recv = malloc(size * sizeof(send));
    struct collective_args args = args_of(COLLECTIVE_ALLGATHER, dtype, send,
                                          recv, count);

    for (size_t i = 0; i < count; i++)
        store(dtype, send, i, comm->config.rank);
    EXPECT(call(comm, &args) == HVD_OK);
    for (size_t i = 0; i < size * count; i++)
        EXPECT(load(dtype, recv, i) == (double)(i / count));
    free(recv);
    return true;
}

/* What others send is found out by the call, as there. */
struct received {
    uint8_t *buf;
    size_t counts[OUT];
};

static void *receive(const size_t *told, int size, void *arg)
{
    struct received *r = arg;

    memcpy(r->counts, told, (size_t)size * sizeof(*told));
    return r->buf;
}

static bool allgather_variable_size(struct comm *comm, int rank,
                                    hvd_dtype_t dtype, size_t count)
{
    static const size_t rows[] = {17, 32, 81, 12, 15, 23, 22};
    uint8_t send[81 * EDGE * ELEM_MAX], recv[4 * sizeof(send)];
    struct received received = {.buf = recv};
    struct collective_args args = args_of(COLLECTIVE_ALLGATHERV, dtype, send,
                                          NULL, rows[rank] * EDGE);
    size_t at = 0;

    args.place = receive;
    args.place_arg = &received;
    for (size_t i = 0; i < args.count; i++)
        store(dtype, send, i, rank);
    EXPECT(call(comm, &args) == HVD_OK);
    for (int k = 0; k < comm->config.size; k++) {
        EXPECT(received.counts[k] == rows[k] * EDGE);
        for (size_t i = 0; i < received.counts[k]; i++)
            EXPECT(load(dtype, recv, at++) == k);
    }
    return true;
}

static bool broadcast_inplace(struct comm *comm, int rank, hvd_dtype_t dtype,
                              size_t count)
{
    uint8_t buf[MAX * ELEM_MAX];
    struct collective_args args = args_of(COLLECTIVE_BROADCAST, dtype, NULL,
                                          buf, count);

    for (args.root = 0; args.root < comm->config.size; args.root++) {
        for (size_t i = 0; i < count; i++)
            store(dtype, buf, i, comm->config.rank);
        EXPECT(call(comm, &args) == HVD_OK);
        for (size_t i = 0; i < count; i++)
            EXPECT(load(dtype, buf, i) == args.root);
    }
    return true;
}

/* Rank i sends i + 1 rows to each; without counts the same to each. */
static bool alltoall_equal_split(struct comm *comm, int rank, hvd_dtype_t dtype,
                                 size_t count)
{
    size_t size = (size_t)comm->config.size, n = size * count;
    uint8_t *send = malloc(n * ELEM_MAX), *recv = malloc(n * ELEM_MAX);
    struct collective_args args = args_of(COLLECTIVE_ALLTOALL, dtype, send,
                                          recv, count);

    for (size_t i = 0; i < n; i++)
        store(dtype, send, i, comm->config.rank);
    EXPECT(call(comm, &args) == HVD_OK);
    for (size_t i = 0; i < n; i++)
        EXPECT(load(dtype, recv, i) == (double)(i / count));
    free(send);
    free(recv);
    return true;
}

/* Values are whose they are for: mine, on return. */
static bool alltoall(struct comm *comm, int rank, hvd_dtype_t dtype,
                     size_t count)
{
    size_t n_send[OUT], sdispls[OUT], to = 0, at = 0;
    uint8_t send[OUT * OUT * EDGE * ELEM_MAX], recv[sizeof(send)];
    struct received received = {.buf = recv};
    struct collective_args args = args_of(COLLECTIVE_ALLTOALLV, dtype, send,
                                          NULL, 0);

    args.sendcounts = n_send;
    args.sdispls = sdispls;
    args.place = receive;
    args.place_arg = &received;
    for (int k = 0; k < comm->config.size; k++) {
        n_send[k] = (size_t)(comm->config.rank + 1) * EDGE;
        sdispls[k] = to;
        for (size_t i = 0; i < n_send[k]; i++)
            store(dtype, send, to++, k);
    }
    EXPECT(call(comm, &args) == HVD_OK);
    for (int k = 0; k < comm->config.size; k++) {
        EXPECT(received.counts[k] == (size_t)(k + 1) * EDGE);
        at += received.counts[k];
    }
    for (size_t i = 0; i < at; i++)
        EXPECT(load(dtype, recv, i) == comm->config.rank);
    return true;
}

static bool scatter(struct comm *comm, hvd_dtype_t dtype, size_t count,
                    hvd_op_t op)
{
    size_t size = (size_t)comm->config.size;
    uint8_t *send = malloc(size * count * ELEM_MAX), recv[MAX * ELEM_MAX];
    int rank = comm->config.rank;
    struct collective_args args = args_of(COLLECTIVE_REDUCE_SCATTER, dtype,
                                          send, recv, count);

    args.op = op;
    fill_with(dtype, send, size * count, 0, 100);
    EXPECT(call(comm, &args) == HVD_OK);
    for (size_t i = 0; i < count; i++)
        EXPECT(load(dtype, recv, i) ==
               value(0, (size_t)rank * count + i, 100) *
                   (op == HVD_AVERAGE ? 1 : (double)size));
    free(send);
    return true;
}

static bool reducescatter(struct comm *comm, int rank, hvd_dtype_t dtype,
                          size_t count)
{
    return scatter(comm, dtype, count, HVD_SUM);
}

static bool reducescatter_average(struct comm *comm, int rank,
                                  hvd_dtype_t dtype, size_t count)
{
    return scatter(comm, dtype, count, HVD_AVERAGE);
}

/* --- the cases --- */

static const struct {
    const char *name;
    case_fn *fn;
    bool in_sets;
} cases[] = {
    {"allreduce", allreduce_sum, true},
    {"allreduce_average", allreduce_average, false},
    {"allreduce_min", allreduce_min, false},
    {"allreduce_max", allreduce_max, false},
    {"allreduce_product", allreduce_product, false},
    {"allreduce_inplace", allreduce_inplace, false},
    {"allreduce_async_fused", allreduce_async_fused, false},
    {"allreduce_prescale", allreduce_prescale, false},
    {"allreduce_postscale", allreduce_postscale, false},
    {"grouped_allreduce", grouped_allreduce, true},
    {"grouped_allreduce_average", grouped_allreduce_average, false},
    {"grouped_allreduce_inplace", grouped_allreduce_inplace, false},
    {"allgather", allgather, true},
    {"allgather_variable_size", allgather_variable_size, false},
    {"allgather_async_fused, grouped_allgather", allgather_async_fused, true},
    {"broadcast, broadcast_inplace", broadcast_inplace, true},
    {"alltoall", alltoall, true},
    {"alltoall_equal_split", alltoall_equal_split, false},
    {"reducescatter", reducescatter, true},
    {"reducescatter_average", reducescatter_average, false},
    {"reducescatter_async_fused, grouped_reducescatter",
     reducescatter_async_fused, true},
};

static bool run_case(struct group *g, int rank, void *arg)
{
    EXPECT(for_each(g->comms[rank], rank, cases[*(int *)arg].fn));
    return true;
}

/* ..._process_sets: the even and the odd, at the same time. */
static bool run_in_sets(struct group *g, int rank, void *arg)
{
    int ranks[GROUP_MAX], n = 0;
    struct comm *set;

    for (int i = rank % 2; i < g->size; i += 2)
        ranks[n++] = i;
    EXPECT(process_set_create(g->comms[rank], 1 + (uint32_t)(rank % 2), ranks,
                              n, &set) == HVD_OK);
    EXPECT(for_each(set, rank / 2, cases[*(int *)arg].fn));
    EXPECT(process_set_destroy(set) == HVD_OK);
    return true;
}

START_TEST(of_all_ranks)
{
    play(run_case, _i);
}
END_TEST

START_TEST(of_process_sets)
{
    if (cases[_i].in_sets)
        play(run_in_sets, _i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("horovod_cases");
    TCase *tc = tcase_create("horovod_cases");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, of_all_ranks, 0, ARRAY_SIZE(cases));
    tcase_add_loop_test(tc, of_process_sets, 0, ARRAY_SIZE(cases));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
