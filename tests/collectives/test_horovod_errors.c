/* tests/collectives/test_horovod_errors.c - cases of Horovod's
 * test/parallel/test_torch.py: what is refused, and on whom; join; barriers.
 * See test_horovod_cases.c. */
#include "horovod.h"

/* --- errors: on all ranks, and the next call is a good one --- */

static const struct {
    const char *name;
    enum collective_kind kind;
    enum { COUNT, DTYPE, ROOT, OP } differs;
} errors[] = {
    {"allreduce_error", COLLECTIVE_ALLREDUCE, COUNT},
    {"allreduce_type_error", COLLECTIVE_ALLREDUCE, DTYPE},
    {"allgather_error", COLLECTIVE_ALLGATHER, COUNT},
    {"allgather_type_error", COLLECTIVE_ALLGATHER, DTYPE},
    {"broadcast_error", COLLECTIVE_BROADCAST, COUNT},
    {"broadcast_type_error", COLLECTIVE_BROADCAST, DTYPE},
    {"broadcast_rank_error", COLLECTIVE_BROADCAST, ROOT},
    {"alltoall_rank_error", COLLECTIVE_ALLTOALL, COUNT},
    {"alltoall_type_error", COLLECTIVE_ALLTOALL, DTYPE},
    {"reducescatter_error", COLLECTIVE_REDUCE_SCATTER, COUNT},
    {"reducescatter_type_error", COLLECTIVE_REDUCE_SCATTER, DTYPE},
    {"(op)", COLLECTIVE_ALLREDUCE, OP},
};

static bool differ(struct group *g, int rank, void *arg)
{
    int k = *(int *)arg;
    double send[4 * EDGE] = {0}, recv[4 * EDGE];
    struct collective_args args = args_of(errors[k].kind, HVD_INT32, send, recv,
                                          EDGE);

    EXPECT(call(g->comms[rank], &args) == HVD_OK);
    if (rank == 1 && errors[k].differs == COUNT)
        args.count--;
    if (rank == 1 && errors[k].differs == DTYPE)
        args.dtype = HVD_FLOAT32;
    if (errors[k].differs == ROOT)
        args.root = rank;
    if (rank == 1 && errors[k].differs == OP)
        args.op = HVD_MAX;
    EXPECT(call(g->comms[rank], &args) == HVD_ERR_MISMATCH);
    EXPECT(text_has("'tensor': rank 0 calls") && text_has(", rank 1 calls"));
    args = args_of(errors[k].kind, HVD_INT32, send, recv, EDGE);
    EXPECT(call(g->comms[rank], &args) == HVD_OK);
    return true;
}

START_TEST(errors_are_told_to_all)
{
    play(differ, _i);
}
END_TEST

/* ..._duplicate_name_error: at once, and others are as they were. */
static bool duplicate(struct group *g, int rank, void *arg)
{
    enum collective_kind kinds[] = {COLLECTIVE_ALLREDUCE, COLLECTIVE_ALLGATHER,
                                    COLLECTIVE_BROADCAST, COLLECTIVE_ALLTOALL,
                                    COLLECTIVE_REDUCE_SCATTER};
    struct comm *comm = g->comms[rank];

    for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
        double send[4] = {0}, recv[4];
        struct collective_args args = args_of(kinds[k], HVD_FLOAT64, send, recv,
                                              1);
        struct hvd_request *first, *second;

        if (rank == 0) { /* the others' are missing yet: it is in flight */
            EXPECT(by_name_post(comm, &args, NULL, &first) == HVD_OK);
            EXPECT(by_name_post(comm, &args, NULL, &second) == HVD_ERR_INVALID);
            EXPECT(text_has("another call by this name is in flight"));
        }
        EXPECT(comm_run(comm, &(struct collective_args){
                                  .kind = COLLECTIVE_BARRIER}) == HVD_OK);
        if (rank > 0)
            EXPECT(by_name_post(comm, &args, NULL, &first) == HVD_OK);
        EXPECT(request_wait(first) == HVD_OK);
    }
    return true;
}

START_TEST(duplicate_name_error)
{
    play(duplicate, 0);
}
END_TEST

/* reducescatter_adasum: not supported, here as there. */
static bool scatter_adasum(struct group *g, int rank, void *arg)
{
    float x[4], y;
    struct collective_args args = args_of(COLLECTIVE_REDUCE_SCATTER,
                                          HVD_FLOAT32, x, &y, 1);
    struct hvd_request *r;

    args.op = HVD_ADASUM;
    EXPECT(by_name_post(g->comms[rank], &args, NULL, &r) == HVD_ERR_INVALID);
    return true;
}

START_TEST(reducescatter_adasum)
{
    play(scatter_adasum, 0);
}
END_TEST

/* test_compression_fp16: ones come back as ones; whole numbers are left alone,
 * that is, refused here. */
static bool compress(struct group *g, int rank, void *arg)
{
    float x[EDGE];
    struct collective_args args = args_of(COLLECTIVE_ALLREDUCE, HVD_FLOAT32, x,
                                          x, EDGE);
    struct hvd_request *r;

    fill(x, EDGE, 1);
    args.op = HVD_AVERAGE;
    args.wire_dtype = HVD_FLOAT16;
    EXPECT(call(g->comms[rank], &args) == HVD_OK);
    EXPECT(all_are(x, EDGE, 1));
    args.dtype = HVD_INT32;
    EXPECT(by_name_post(g->comms[rank], &args, NULL, &r) == HVD_ERR_INVALID);
    return true;
}

START_TEST(compression_fp16)
{
    play(compress, 0);
}
END_TEST

/* --- join --- */

/* test_horovod_join_allreduce: each rank in turn joins first, with names that
 * are known and not, two at once. Horovod's average is of all. */
static bool join_allreduce(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    int last;

    for (int first = 0; first < g->size; first++)
        for (int again = 0; again < 2; again++) {
            float a[EDGE], b[EDGE * EDGE], share;
            struct hvd_request *ra, *rb;
            struct collective_args args = args_of(COLLECTIVE_ALLREDUCE,
                                                  HVD_FLOAT32, a, a, EDGE);

            fill(a, EDGE, 8);
            fill(b, EDGE * EDGE, 16);
            args.op = HVD_AVERAGE;
            args.of_all = true;
            args.name = again ? "a" : first % 2 ? "new a" : "other a";
            if (rank != first) {
                EXPECT(by_name_post(comm, &args, NULL, &ra) == HVD_OK);
                args.sendbuf = args.recvbuf = b;
                args.count = EDGE * EDGE;
                args.name = "b";
                EXPECT(by_name_post(comm, &args, NULL, &rb) == HVD_OK);
                EXPECT(request_wait(ra) == HVD_OK);
                EXPECT(request_wait(rb) == HVD_OK);
                share = (float)(g->size - 1) / (float)g->size;
                EXPECT(all_are(a, EDGE, 8 * share));
                EXPECT(all_are(b, EDGE * EDGE, 16 * share));
            }
            EXPECT(by_name_join(comm, &last) == HVD_OK);
            EXPECT(last != first);
        }
    return true;
}

START_TEST(test_horovod_join_allreduce)
{
    play(join_allreduce, 0);
}
END_TEST

/* test_horovod_join_allgather, _broadcast: an error, and the join completes. */
static bool join_others(struct group *g, int rank, void *arg)
{
    enum collective_kind kind = *(int *)arg == 0 ? COLLECTIVE_ALLGATHER
                                                 : COLLECTIVE_BROADCAST;
    struct comm *comm = g->comms[rank];
    int last;

    for (int first = 0; first < g->size; first++) {
        float x[4], y[16];
        struct collective_args args = args_of(kind, HVD_FLOAT32, x, y, 4);

        if (rank != first)
            EXPECT(call(comm, &args) == HVD_ERR_MISMATCH);
        EXPECT(by_name_join(comm, &last) == HVD_OK);
        EXPECT(last != first);
    }
    return true;
}

START_TEST(test_horovod_join_allgather_and_broadcast)
{
    play(join_others, _i);
}
END_TEST

/* test_barrier_with_multiple_collectives: between those in flight. */
static bool barriers(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];

    for (int step = 0; step < 20; step++) {
        float x[LIST][EDGE];
        struct hvd_request *requests[LIST], *barrier;
        struct collective_args args = {.kind = COLLECTIVE_BARRIER,
                                       .name = "barrier"};
        char name[16];

        for (int k = 0; k < LIST; k++) {
            fill(x[k], EDGE, (float)(rank + 1));
            snprintf(name, sizeof(name), "x %d", k);
            EXPECT(post_named(comm, name, x[k], EDGE, &requests[k]) == HVD_OK);
            if (k == 2)
                EXPECT(by_name_post(comm, &args, NULL, &barrier) == HVD_OK);
        }
        EXPECT(request_wait(barrier) == HVD_OK);
        for (int k = 0; k < LIST; k++) {
            EXPECT(request_wait(requests[k]) == HVD_OK);
            EXPECT(all_are(x[k], EDGE, sum_of(g, 1)));
        }
    }
    return true;
}

START_TEST(test_barrier_with_multiple_collectives)
{
    play(barriers, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("horovod_errors");
    TCase *tc = tcase_create("horovod_errors");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, errors_are_told_to_all, 0, ARRAY_SIZE(errors));
    tcase_add_test(tc, duplicate_name_error);
    tcase_add_test(tc, reducescatter_adasum);
    tcase_add_test(tc, compression_fp16);
    tcase_add_test(tc, test_horovod_join_allreduce);
    tcase_add_loop_test(tc, test_horovod_join_allgather_and_broadcast, 0, 2);
    tcase_add_test(tc, test_barrier_with_multiple_collectives);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
