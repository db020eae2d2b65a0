/* tests/collectives/test_conformance.c - every collective, over real sockets,
 * for all sizes, types and operations, in buffers at any address: exactly the
 * right values, and nothing written beside them. */
#include <pthread.h>
#include <sys/resource.h>

#include "collectives/reduce/dtype.h"
#include "group.h"
#include "values.h"

enum {
    COUNT_MAX = 400000,
    FEW = 8, /* ranks: more have smaller calls, and not each combination */
    MANY = 65,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    LARGE_EVERY = 15,
    N_SIZES = 1
#else
    LARGE_EVERY = 10,
    N_SIZES = 4
#endif
};

/* ... than cores, places in a card, or one staging block has room for */
static const int many[] = {9, 16, 33, MANY};

static const size_t counts[] = {0, 1, 3, 17, 1000, 8193, 70001, 333333};

/* Where the rank's buffers lie in the n-th case. */
static uint64_t place_of(int rank, int n)
{
    return values_mix((uint64_t)rank, (uint64_t)n);
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

/* One of them compares the values, all the bits. */
static bool reduce_case(struct group *g, int rank, struct shelf *shelf,
                        size_t count, int type, int op, bool in_place)
{
    hvd_dtype_t dtype = (hvd_dtype_t)type;
    size_t nbytes = count * hvd_dtype_size(dtype);
    uint64_t any = place_of(rank, type * OP_COUNT + op + (int)count);
    struct placed recv = placed_create(nbytes, any),
                  send = placed_create(in_place ? 0 : nbytes, any >> 20);
    uint8_t *from = in_place ? recv.at : send.at;
    size_t wrong = count;

    values_fill(dtype, (hvd_op_t)op, g->size, rank, from, 0, count);
    EXPECT(allreduce(g->comms[rank], from, recv.at, count, dtype,
                     (hvd_op_t)op) == HVD_OK);
    if ((type + op) % g->size == rank)
        wrong = values_wrong(dtype, (hvd_op_t)op, g->size, recv.at, 0, count);
    EXPECT_SAY(wrong == count, "rank %d of %d: %s %s [%zu] of %zu", rank,
               g->size, dtype_name((unsigned)dtype), op_name((unsigned)op),
               wrong, count);
    EXPECT_SAY(shelve(shelf, g->size, recv.at, nbytes), "bits differ");
    EXPECT(placed_intact(&recv) && placed_intact(&send));
    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    placed_destroy(&send);
    placed_destroy(&recv);
    return true;
}

/* Which of the cases of so many elements are called? */
static bool is_called(int size, size_t count, int n)
{
    if (size == MANY)
        return count < 100 && n % 3 == 0;
    if (size > FEW)
        return count <= 10000 && n % (size > 16 ? 9 : 3) == 1;
    return count <= 10000 || n % LARGE_EVERY == 0;
}

static bool all_reduces(struct group *g, int rank, void *arg)
{
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
        for (int dtype = DTYPE_FIRST; dtype < DTYPE_END; dtype++)
            for (int op = 0; op < OP_COUNT; op++) {
                if (!is_called(g->size, counts[c], dtype + op * 3 + (int)c))
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

static bool broadcast_case(struct group *g, int rank, size_t c, int root)
{
    hvd_dtype_t dtype = (hvd_dtype_t)(DTYPE_FIRST +
                                      (root + (int)c) % DTYPE_ALL_COUNT);
    size_t nbytes = counts[c] * hvd_dtype_size(dtype);
    struct placed buf = placed_create(nbytes, place_of(rank, root));

    if (rank == root)
        moved_fill(buf.at, nbytes, root, (int)c);
    EXPECT(broadcast(g->comms[rank], buf.at, counts[c], dtype, root) == HVD_OK);
    EXPECT_SAY(moved_right(buf.at, nbytes, root, (int)c),
               "rank %d of %d, root %d, count %zu", rank, g->size, root,
               counts[c]);
    EXPECT(placed_intact(&buf));
    placed_destroy(&buf);
    return true;
}

static bool broadcasts(struct group *g, int rank, void *arg)
{
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
        for (int root = 0; root < g->size; root++)
            if ((g->size <= FEW || is_called(g->size, counts[c], root)) &&
                !broadcast_case(g, rank, c, root))
                return false;
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

/* What a rank brings to a collective that has blocks. */
struct blocks {
    struct group *g;
    int rank;
    hvd_dtype_t dtype;
    size_t count;
    bool in_place;
    uint64_t any; /* where the buffers lie */
};

static hvd_status_t call_blocks(const struct blocks *b,
                                enum collective_kind kind, const void *send,
                                void *recv, hvd_op_t op)
{
    struct collective_args args = {.kind = kind,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .count = b->count,
                                   .dtype = b->dtype,
                                   .op = op};

    return comm_run(b->g->comms[b->rank], &args);
}

static bool gather_case(const struct blocks *b)
{
    int rank = b->rank;
    size_t block = b->count * hvd_dtype_size(b->dtype);
    struct placed recv = placed_create((size_t)b->g->size * block, b->any),
                  send = placed_create(block, b->any >> 20);
    uint8_t *from = b->in_place ? recv.at + (size_t)rank * block : send.at;

    moved_fill(from, block, rank, 0);
    EXPECT(call_blocks(b, COLLECTIVE_ALLGATHER, from, recv.at, HVD_SUM) ==
           HVD_OK);
    for (int j = 0; j < b->g->size; j++)
        EXPECT(moved_right(recv.at + (size_t)j * block, block, j, 0));
    EXPECT(placed_intact(&recv));
    placed_destroy(&send);
    placed_destroy(&recv);
    return true;
}

static bool scatter_case(const struct blocks *b)
{
    int rank = b->rank, size = b->g->size;
    size_t n = b->count, block = n * hvd_dtype_size(b->dtype), wrong;
    struct placed send = placed_create((size_t)size * block, b->any),
                  recv = placed_create(block, b->any >> 20);
    uint8_t *to = b->in_place ? send.at + (size_t)rank * block : recv.at;

    for (int op = 0; op < OP_COUNT; op++) {
        values_fill(b->dtype, (hvd_op_t)op, size, rank, send.at, 0,
                    n * (size_t)size);
        EXPECT(call_blocks(b, COLLECTIVE_REDUCE_SCATTER, send.at, to,
                           (hvd_op_t)op) == HVD_OK);
        wrong = values_wrong(b->dtype, (hvd_op_t)op, size, to, (size_t)rank * n,
                             n);
        EXPECT_SAY(wrong == n, "rank %d of %d: %s %s [%zu] of %zu", rank, size,
                   dtype_name((unsigned)b->dtype), op_name((unsigned)op), wrong,
                   n);
    }
    EXPECT(placed_intact(&send) && placed_intact(&recv));
    placed_destroy(&recv);
    placed_destroy(&send);
    return true;
}

static bool alltoall_case(const struct blocks *b)
{
    int rank = b->rank;
    size_t block = b->count * hvd_dtype_size(b->dtype);
    size_t nbytes = (size_t)b->g->size * block;
    struct placed recv = placed_create(nbytes, b->any),
                  send = placed_create(nbytes, b->any >> 20);
    uint8_t *from = b->in_place ? recv.at : send.at;

    for (int j = 0; j < b->g->size; j++)
        moved_fill(from + (size_t)j * block, block, rank, j);
    EXPECT(call_blocks(b, COLLECTIVE_ALLTOALL, from, recv.at, HVD_SUM) ==
           HVD_OK);
    for (int j = 0; j < b->g->size; j++)
        EXPECT(moved_right(recv.at + (size_t)j * block, block, j, rank));
    EXPECT(placed_intact(&recv));
    placed_destroy(&send);
    placed_destroy(&recv);
    return true;
}

/* Rank r sends (r * j + j) / 2 blocks to j; rank 0 sends nothing to itself. */
static size_t pair_count(int from, int to, size_t scale)
{
    return (size_t)(from * to + to) * scale / 2;
}

static bool alltoallv_case(const struct blocks *b)
{
    size_t sc[GROUP_MAX], sd[GROUP_MAX], rc[GROUP_MAX], rd[GROUP_MAX];
    size_t ns = 0, nr = 0, e = hvd_dtype_size(b->dtype);
    int rank = b->rank, size = b->g->size;
    struct placed send, recv;
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALLV,
                                   .sendcounts = sc,
                                   .sdispls = sd,
                                   .recvcounts = rc,
                                   .rdispls = rd,
                                   .dtype = b->dtype};

    for (int k = 0; k < size; k++) {
        int j = b->in_place ? size - 1 - k : k; /* or in descending order */

        sc[j] = pair_count(rank, j, b->count);
        rc[j] = pair_count(j, rank, b->count);
        sd[j] = ns;
        rd[j] = nr + 1;
        ns += sc[j];
        nr += rc[j] + 1;
    }
    send = placed_create(ns * e, b->any);
    recv = placed_create(nr * e, b->any >> 20);
    for (int j = 0; j < b->g->size; j++)
        moved_fill(send.at + sd[j] * e, sc[j] * e, rank, j);
    args.sendbuf = send.at;
    args.recvbuf = recv.at;
    EXPECT(comm_run(b->g->comms[rank], &args) == HVD_OK);
    for (int j = 0; j < b->g->size; j++) {
        EXPECT(moved_right(recv.at + rd[j] * e, rc[j] * e, j, rank));
        EXPECT(recv.at[rd[j] * e - 1] == PLACED_MARK); /* between them */
    }
    EXPECT(placed_intact(&recv));
    placed_destroy(&send);
    placed_destroy(&recv);
    return true;
}

static bool gatherv_case(const struct blocks *b)
{
    size_t rc[GROUP_MAX], rd[GROUP_MAX], n = 0, e = hvd_dtype_size(b->dtype);
    int rank = b->rank;
    struct placed recv, send;
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHERV,
                                   .recvcounts = rc,
                                   .rdispls = rd,
                                   .dtype = b->dtype};

    for (int j = 0; j < b->g->size; j++) {
        rc[j] = (size_t)j * b->count;
        rd[j] = n; /* each rank has displacements of its own */
        n += rc[j] + 2 + (size_t)rank % 3;
    }
    recv = placed_create(n * e, b->any);
    send = placed_create(rc[rank] * e, b->any >> 20);
    args.sendbuf = b->in_place ? recv.at + rd[rank] * e : send.at;
    args.recvbuf = recv.at;
    args.count = rc[rank];
    moved_fill(b->in_place ? recv.at + rd[rank] * e : send.at, rc[rank] * e,
               rank, 7);
    EXPECT(comm_run(b->g->comms[rank], &args) == HVD_OK);
    for (int j = 0; j < b->g->size; j++) {
        EXPECT(moved_right(recv.at + rd[j] * e, rc[j] * e, j, 7));
        EXPECT(recv.at[(rd[j] + rc[j]) * e] == PLACED_MARK);
    }
    EXPECT(placed_intact(&recv));
    placed_destroy(&send);
    placed_destroy(&recv);
    return true;
}

static bool all_others(struct group *g, int rank, void *arg)
{
    static const size_t some[] = {0, 1, 5, 1000, 20001};

    for (int n = 0; n < 5 * DTYPE_ALL_COUNT; n++) {
        struct blocks b = {
            .g = g,
            .rank = rank,
            .dtype = (hvd_dtype_t)(DTYPE_FIRST + n % DTYPE_ALL_COUNT),
            .count = some[n / DTYPE_ALL_COUNT],
            .any = place_of(rank, n)};

        /* each type, the large ones in turns */
        if (g->size > FEW && b.count > 5)
            b.count = b.count > 10000 ? 100 : 0;
        if (b.count > 10000 && n % 4 != g->size % 4)
            continue;
        if (g->size > FEW && !is_called(g->size, b.count, n))
            continue;
        for (int in_place = 0; in_place < 2; in_place++) {
            b.in_place = in_place;
            if (!gather_case(&b) || !alltoall_case(&b) || !gatherv_case(&b) ||
                !alltoallv_case(&b))
                return false;
            if ((int)b.dtype < DTYPE_END && !scatter_case(&b))
                return false;
            EXPECT(barrier(g->comms[rank]) == HVD_OK);
        }
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

/* --- many ranks --- */

static bool all_collectives(struct group *g, int rank, void *arg)
{
    return all_reduces(g, rank, arg) && broadcasts(g, rank, NULL) &&
           all_others(g, rank, NULL);
}

/* Each has descriptors of all others. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_uint_ge(limit.rlim_cur, MANY * MANY * 4);
}

/* The most only once, over shared memory. */
START_TEST(many_ranks_all_collectives_correct)
{
    if (many[_i] == MANY && getenv("HVD_TEST_OVER") != NULL)
        return;
    allow_descriptors();
    with_shelf(many[_i], all_collectives);
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
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHERV,
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
    tcase_add_loop_test(tc, many_ranks_all_collectives_correct, 0, N_SIZES);
    tcase_add_loop_test(tc, allgatherv_other_shares_mismatch, 0, 3);
    tcase_add_test(tc, transfer_up_and_down_arrives);
    tcase_add_test(tc, group_destroyed_descriptors_back);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
