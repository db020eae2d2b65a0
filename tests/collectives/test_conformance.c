/* tests/collectives/test_conformance.c - every collective, over real sockets,
 * for all sizes, types and operations: the right values and the same bits. */
#include <math.h>
#include <pthread.h>

#include "collectives/dtype.h"
#include "group.h"

enum { COUNT_MAX = 400000 };

static const size_t counts[] = {0, 1, 3, 17, 1000, 8193, 70001, 333333};

static void store(hvd_dtype_t dtype, void *buf, size_t i, double value)
{
    switch (dtype) {
    case HVD_INT8:
        ((int8_t *)buf)[i] = (int8_t)value;
        break;
    case HVD_UINT8:
        ((uint8_t *)buf)[i] = (uint8_t)value;
        break;
    case HVD_INT32:
        ((int32_t *)buf)[i] = (int32_t)value;
        break;
    case HVD_INT64:
        ((int64_t *)buf)[i] = (int64_t)value;
        break;
    case HVD_FLOAT16:
        ((uint16_t *)buf)[i] = half_of_float((float)value);
        break;
    case HVD_BFLOAT16:
        ((uint16_t *)buf)[i] = bfloat_of_float((float)value);
        break;
    case HVD_FLOAT32:
        ((float *)buf)[i] = (float)value;
        break;
    default:
        ((double *)buf)[i] = value;
        break;
    }
}

static double load(hvd_dtype_t dtype, const void *buf, size_t i)
{
    switch (dtype) {
    case HVD_INT8:
        return ((const int8_t *)buf)[i];
    case HVD_UINT8:
        return ((const uint8_t *)buf)[i];
    case HVD_INT32:
        return ((const int32_t *)buf)[i];
    case HVD_INT64:
        return (double)((const int64_t *)buf)[i];
    case HVD_FLOAT16:
        return half_to_float(((const uint16_t *)buf)[i]);
    case HVD_BFLOAT16:
        return bfloat_to_float(((const uint16_t *)buf)[i]);
    case HVD_FLOAT32:
        return ((const float *)buf)[i];
    default:
        return ((const double *)buf)[i];
    }
}

/* Small enough for every type to hold all sums and products of five. */
static double element(int rank, size_t i)
{
    return (double)(1 + (i * 7 + (size_t)rank * 3) % 2);
}

static double combined(hvd_op_t op, int size, size_t i)
{
    double result = element(0, i);

    for (int r = 1; r < size; r++) {
        double e = element(r, i);

        if (op == HVD_SUM || op == HVD_AVERAGE)
            result += e;
        else if (op == HVD_MIN)
            result = e < result ? e : result;
        else if (op == HVD_MAX)
            result = e > result ? e : result;
        else
            result *= e;
    }
    return op == HVD_AVERAGE ? result / size : result;
}

static bool close_to(hvd_dtype_t dtype, double got, double expected)
{
    if (dtype <= HVD_INT64)
        return got == trunc(expected);
    return fabs(got - expected) <= 0.01 * fabs(expected);
}

/* All ranks leave their result here; the last to come compares the bits. */
struct shelf {
    pthread_mutex_t mutex;
    int n;
    bool same;
    uint8_t *bits;
};

static bool shelve(struct shelf *s, int size, const void *buf, size_t nbytes)
{
    bool same;

    pthread_mutex_lock(&s->mutex);
    if (s->n++ % size == 0)
        memcpy(s->bits, buf, nbytes);
    else
        s->same &= memcmp(s->bits, buf, nbytes) == 0;
    same = s->same;
    pthread_mutex_unlock(&s->mutex);
    return same;
}

static bool reduce_case(struct group *g, int rank, struct shelf *shelf,
                        size_t count, int type, int op, bool in_place)
{
    hvd_dtype_t dtype = (hvd_dtype_t)type;
    size_t nbytes = count * hvd_dtype_size(dtype);
    void *recv = malloc(nbytes + 1),
         *send = in_place ? recv : malloc(nbytes + 1);

    for (size_t i = 0; i < count; i++)
        store(dtype, send, i, element(rank, i));
    EXPECT(allreduce(g->comms[rank], send, recv, count, dtype, (hvd_op_t)op) ==
           HVD_OK);
    for (size_t i = 0; i < count; i++)
        EXPECT_SAY(close_to(dtype, load(dtype, recv, i),
                            combined((hvd_op_t)op, g->size, i)),
                   "rank %d of %d: %s %s [%zu] of %zu: %g", rank, g->size,
                   dtype_name((unsigned)dtype), op_name((unsigned)op), i, count,
                   load(dtype, recv, i));
    EXPECT_SAY(shelve(shelf, g->size, recv, nbytes), "bits differ");
    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    if (!in_place)
        free(send);
    free(recv);
    return true;
}

static bool all_reduces(struct group *g, int rank, void *arg)
{
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
        for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
            for (int op = 0; op < OP_COUNT; op++) {
                if (counts[c] > 10000 && (dtype + op + (int)c) % 5 != 0)
                    continue;
                if (!reduce_case(g, rank, arg, counts[c], dtype, op,
                                 (dtype + op) % 2 == 0))
                    return false;
            }
    return true;
}

static void with_shelf(int size, rank_fn *fn)
{
    struct shelf shelf = {.same = true,
                          .bits = malloc(COUNT_MAX * sizeof(double))};
    struct group g;

    pthread_mutex_init(&shelf.mutex, NULL);
    group_init(&g, size);
    group_run(&g, fn, &shelf);
    group_fini(&g);
    pthread_mutex_destroy(&shelf.mutex);
    free(shelf.bits);
}

START_TEST(allreduce_all_dtypes_and_ops_correct)
{
    with_shelf(_i, all_reduces);
}
END_TEST

/* NaNs of several payloads, signed zeros, infinities and subnormals. */
static bool odd_floats(struct group *g, int rank, void *arg)
{
    static const uint32_t odd[] = {0x7fc00001u, 0xffc12345u, 0x80000000u,
                                   0,           0x7f800000u, 0xff800000u,
                                   1u,          0x3f800000u, 0x7fa00000u};
    static const size_t sizes[] = {7, 1000, 50001};

    for (int op = 0; op < OP_COUNT; op++)
        for (size_t k = 0; k < 3; k++) {
            uint32_t *buf = malloc(sizes[k] * sizeof(*buf));

            for (size_t i = 0; i < sizes[k]; i++)
                buf[i] = odd[(i * 5 + (size_t)rank * (1 + i / 9)) % 9];
            for (int round = 0; round < 2; round++) {
                hvd_dtype_t dtype = round == 0 ? HVD_FLOAT32 : HVD_BFLOAT16;

                EXPECT(allreduce(g->comms[rank], buf, buf, sizes[k], dtype,
                                 (hvd_op_t)op) == HVD_OK);
                EXPECT_SAY(
                    shelve(arg, g->size, buf, sizes[k] * sizeof(*buf) / 2),
                    "%s of %zu: bits differ", op_name((unsigned)op), sizes[k]);
                EXPECT(barrier(g->comms[rank]) == HVD_OK);
            }
            free(buf);
        }
    return true;
}

START_TEST(allreduce_odd_floats_same_bits)
{
    with_shelf(_i, odd_floats);
}
END_TEST

static bool broadcasts(struct group *g, int rank, void *arg)
{
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
        for (int root = 0; root < g->size; root++) {
            int32_t *buf = malloc(counts[c] * sizeof(*buf) + 1);

            for (size_t i = 0; i < counts[c]; i++)
                buf[i] = rank == root ? (int32_t)i * 3 + root : -1;
            EXPECT(broadcast(g->comms[rank], buf, counts[c], HVD_INT32, root) ==
                   HVD_OK);
            for (size_t i = 0; i < counts[c]; i++)
                EXPECT_SAY(buf[i] == (int32_t)i * 3 + root, "[%zu]", i);
            free(buf);
        }
    return true;
}

START_TEST(broadcast_all_roots_correct)
{
    struct group g;

    group_init(&g, _i);
    group_run(&g, broadcasts, NULL);
    group_fini(&g);
}
END_TEST

/* The value of element i that `from` has for `to`. */
static int64_t mark(int from, int to, size_t i)
{
    return from * 1000000 + to * 10000 + (int64_t)(i % 9973);
}

static bool gather_case(struct group *g, int rank, size_t count, bool in_place)
{
    size_t n = (size_t)g->size;
    int64_t *recv = calloc(n * count + 1, sizeof(*recv));
    int64_t *send = in_place ? recv + (size_t)rank * count
                             : calloc(count + 1, sizeof(*send));
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHER,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .count = count,
                                   .dtype = HVD_INT64};

    for (size_t i = 0; i < count; i++)
        send[i] = mark(rank, 0, i);
    EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
    for (size_t i = 0; i < n * count; i++)
        EXPECT(recv[i] == mark((int)(i / count), 0, i % count));
    if (!in_place)
        free(send);
    free(recv);
    return true;
}

static bool scatter_case(struct group *g, int rank, size_t count, bool in_place)
{
    size_t n = (size_t)g->size;
    int64_t *send = calloc(n * count + 1, sizeof(*send));
    int64_t *recv = in_place ? send + (size_t)rank * count
                             : calloc(count + 1, sizeof(*recv));
    struct collective_args args = {.kind = COLLECTIVE_REDUCE_SCATTER,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .count = count,
                                   .dtype = HVD_INT64,
                                   .op = HVD_AVERAGE};
    int64_t sum;

    for (size_t i = 0; i < n * count; i++)
        send[i] = mark(rank, (int)(i / count), i % count);
    EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
    for (size_t i = 0; i < count; i++) {
        sum = 0;
        for (int r = 0; r < g->size; r++)
            sum += mark(r, rank, i);
        EXPECT(recv[i] == sum / g->size);
    }
    if (!in_place)
        free(recv);
    free(send);
    return true;
}

static bool alltoall_case(struct group *g, int rank, size_t count,
                          bool in_place)
{
    size_t n = (size_t)g->size;
    int64_t *send = calloc(n * count + 1, sizeof(*send));
    int64_t *recv = in_place ? send : calloc(n * count + 1, sizeof(*recv));
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALL,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .count = count,
                                   .dtype = HVD_INT64};

    for (size_t i = 0; i < n * count; i++)
        send[i] = mark(rank, (int)(i / count), i % count);
    EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
    for (size_t i = 0; i < n * count; i++)
        EXPECT(recv[i] == mark((int)(i / count), rank, i % count));
    if (!in_place)
        free(recv);
    free(send);
    return true;
}

/* Rank r sends r * j + j elements to j; rank 0 sends nothing to itself. */
static size_t pair_count(int from, int to, size_t scale)
{
    return (size_t)(from * to + to) * scale;
}

static bool alltoallv_case(struct group *g, int rank, size_t scale)
{
    size_t sc[GROUP_MAX], sd[GROUP_MAX], rc[GROUP_MAX], rd[GROUP_MAX];
    size_t ns = 0, nr = 0;
    int64_t *send, *recv;
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALLV,
                                   .sendcounts = sc,
                                   .sdispls = sd,
                                   .recvcounts = rc,
                                   .rdispls = rd,
                                   .dtype = HVD_INT64};

    for (int j = 0; j < g->size; j++) {
        sc[j] = pair_count(rank, j, scale);
        rc[j] = pair_count(j, rank, scale);
        sd[j] = ns;
        rd[j] = nr + 1;
        ns += sc[j];
        nr += rc[j] + 1;
    }
    send = calloc(ns + 1, sizeof(*send));
    recv = calloc(nr + 1, sizeof(*recv));
    for (int j = 0; j < g->size; j++)
        for (size_t i = 0; i < sc[j]; i++)
            send[sd[j] + i] = mark(rank, j, i);
    args.sendbuf = send;
    args.recvbuf = recv;
    EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
    for (int j = 0; j < g->size; j++)
        for (size_t i = 0; i < rc[j]; i++)
            EXPECT(recv[rd[j] + i] == mark(j, rank, i));
    free(send);
    free(recv);
    return true;
}

static bool gatherv_case(struct group *g, int rank, size_t scale)
{
    size_t rc[GROUP_MAX], rd[GROUP_MAX], n = 0;
    int64_t *recv;
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHERV,
                                   .recvcounts = rc,
                                   .rdispls = rd,
                                   .dtype = HVD_INT64};

    for (int j = 0; j < g->size; j++) {
        rc[j] = (size_t)j * scale;
        rd[j] = n;
        n += rc[j] + 2;
    }
    recv = calloc(n + 1, sizeof(*recv));
    for (size_t i = 0; i < rc[rank]; i++)
        recv[rd[rank] + i] = mark(rank, 7, i);
    args.sendbuf = recv + rd[rank];
    args.recvbuf = recv;
    args.count = rc[rank];
    EXPECT(comm_run(g->comms[rank], &args) == HVD_OK);
    for (int j = 0; j < g->size; j++)
        for (size_t i = 0; i < rc[j]; i++)
            EXPECT(recv[rd[j] + i] == mark(j, 7, i));
    free(recv);
    return true;
}

static bool all_others(struct group *g, int rank, void *arg)
{
    static const size_t some[] = {0, 1, 5, 1000, 40001};

    for (size_t c = 0; c < 5; c++)
        for (int in_place = 0; in_place < 2; in_place++) {
            if (!gather_case(g, rank, some[c], in_place) ||
                !scatter_case(g, rank, some[c], in_place) ||
                !alltoall_case(g, rank, some[c], in_place) ||
                !alltoallv_case(g, rank, some[c] / 4) ||
                !gatherv_case(g, rank, some[c]))
                return false;
            EXPECT(barrier(g->comms[rank]) == HVD_OK);
        }
    return true;
}

START_TEST(others_all_sizes_correct)
{
    struct group g;

    group_init(&g, _i);
    group_run(&g, all_others, NULL);
    group_fini(&g);
}
END_TEST

static bool transfers(struct group *g, int rank, void *arg)
{
    static const size_t sizes[] = {0, 1, 4097, 3 << 20};

    for (size_t k = 0; k < 4; k++) {
        uint8_t *buf = malloc(sizes[k] + 1);

        for (size_t i = 0; i < sizes[k]; i++)
            buf[i] = rank == 1 ? (uint8_t)(i * 13 + k) : 0;
        for (int r = 0; r < g->size; r++) {
            if (rank == 1 && r != 1)
                EXPECT(comm_transfer_send(g->comms[1], r, buf, sizes[k]) ==
                       HVD_OK);
            if (rank == r && r != 1)
                EXPECT(comm_transfer_recv(g->comms[r], 1, buf, sizes[k]) ==
                       HVD_OK);
        }
        for (size_t i = 0; i < sizes[k]; i++)
            EXPECT(buf[i] == (uint8_t)(i * 13 + k));
        free(buf);
        EXPECT(barrier(g->comms[rank]) == HVD_OK);
    }
    return true;
}

START_TEST(transfer_up_and_down_arrives)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, transfers, NULL);
    group_fini(&g);
}
END_TEST

START_TEST(group_destroyed_descriptors_back)
{
    int before = count_fds();
    struct group g;

    group_init(&g, 4);
    group_run(&g, broadcasts, NULL);
    group_fini(&g);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* The totals are equal, the shares are not. */
static bool shares_mismatch(struct group *g, int rank, void *arg)
{
    size_t n = *(const size_t *)arg;
    size_t recvcounts[2] = {rank == 0 ? n : 2 * n, rank == 0 ? 2 * n : n};
    size_t rdispls[2] = {0, 2 * n};
    float *buf = calloc(6 * n, sizeof(*buf));
    struct collective_args args = {.struct_size = sizeof(args),
                                   .kind = COLLECTIVE_ALLGATHERV,
                                   .sendbuf = buf,
                                   .recvbuf = buf + 2 * n,
                                   .count = n,
                                   .dtype = HVD_FLOAT32,
                                   .recvcounts = recvcounts,
                                   .rdispls = rdispls};
    hvd_status_t status;

    EXPECT(buf != NULL);
    status = comm_run(g->comms[rank], &args);
    free(buf);
    EXPECT(status == HVD_ERR_MISMATCH);
    return true;
}

START_TEST(allgatherv_other_shares_mismatch)
{
    static const size_t shares[] = {3, 500, 100000};
    struct group g;

    group_init(&g, 2);
    group_run(&g, shares_mismatch, (void *)(uintptr_t)&shares[_i]);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("conformance");
    TCase *tc = tcase_create("conformance");

    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, allreduce_all_dtypes_and_ops_correct, 1, 6);
    tcase_add_loop_test(tc, allreduce_odd_floats_same_bits, 1, 6);
    tcase_add_loop_test(tc, broadcast_all_roots_correct, 1, 6);
    tcase_add_loop_test(tc, others_all_sizes_correct, 1, 6);
    tcase_add_loop_test(tc, allgatherv_other_shares_mismatch, 0, 3);
    tcase_add_test(tc, transfer_up_and_down_arrives);
    tcase_add_test(tc, group_destroyed_descriptors_back);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
