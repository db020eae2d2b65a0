/* tests/collectives/test_call.c - which counts and buffers a call may not have,
 * told before anything is sent. */
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "collectives/call.h"
#include "collectives/reduce/dtype.h"
#include "support.h"

static const struct blocks {
    size_t counts[4], displs[4];
    bool apart;
} blocks[] = {
    {{4, 4, 4, 4}, {0, 4, 8, 12}, true},  {{4, 4, 4, 4}, {12, 8, 4, 0}, true},
    {{4, 2, 3, 1}, {8, 0, 4, 20}, true},  {{4, 0, 4, 0}, {0, 2, 4, 0}, true},
    {{0, 4, 0, 4}, {2, 0, 2, 4}, true},   {{4, 4, 4, 4}, {0, 0, 0, 0}, false},
    {{4, 4, 4, 4}, {0, 4, 7, 12}, false}, {{1, 9, 1, 1}, {4, 8, 0, 16}, false},
    {{9, 1, 1, 1}, {4, 0, 1, 8}, false},
};

static hvd_status_t check_blocks(enum collective_kind kind,
                                 const struct blocks *b)
{
    static const size_t none[4];
    const size_t own[4] = {b->counts[0]}; /* to itself */
    char send[16], recv[32];
    struct collective_args args = {.kind = kind,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .count = b->counts[0],
                                   .sendcounts = own,
                                   .sdispls = none,
                                   .recvcounts = b->counts,
                                   .rdispls = b->displs,
                                   .dtype = HVD_INT8};
    struct call call;

    return call_check(&args, 0, 4, &call);
}

/* Of two blocks in one place either rank's could be there in the end. */
START_TEST(blocks_of_a_result_stand_apart)
{
    const struct blocks *b = &blocks[_i];
    hvd_status_t want = b->apart ? HVD_OK : HVD_ERR_INVALID;

    ck_assert_int_eq(check_blocks(COLLECTIVE_ALLGATHERV, b), want);
    ck_assert_int_eq(check_blocks(COLLECTIVE_ALLTOALLV, b), want);
    ck_assert(b->apart || strstr(error_text(), "blocks of recvbuf overlap"));
}
END_TEST

/* What it is to copy to itself is nobody else's to compare. */
START_TEST(own_counts_of_an_alltoallv_differ_invalid)
{
    static const size_t sent[] = {1, 1}, received[] = {1000, 1};
    static const size_t sdispls[] = {0, 1}, rdispls[] = {0, 1000};
    static char send[2], recv[1001];
    struct collective_args args = {.kind = COLLECTIVE_ALLTOALLV,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .sendcounts = sent,
                                   .sdispls = sdispls,
                                   .recvcounts = received,
                                   .rdispls = rdispls,
                                   .dtype = HVD_INT8};
    struct call call;

    ck_assert_int_eq(call_check(&args, 0, 2, &call), HVD_ERR_INVALID);
    ck_assert_str_eq(error_text(), "alltoallv: this rank sends itself 1, but "
                                   "recvcounts[0] is 1000");
    ck_assert_int_eq(call_check(&args, 1, 2, &call), HVD_OK);
    ck_assert_int_eq(call_check(&args, 0, 1, &call), HVD_ERR_INVALID);
}
END_TEST

START_TEST(own_count_of_an_allgatherv_differs_invalid)
{
    static const size_t counts[] = {2, 1}, displs[] = {0, 2};
    static char send[2], recv[3];
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHERV,
                                   .sendbuf = send,
                                   .recvbuf = recv,
                                   .count = 1,
                                   .recvcounts = counts,
                                   .rdispls = displs,
                                   .dtype = HVD_INT8};
    struct call call;

    ck_assert_int_eq(call_check(&args, 0, 2, &call), HVD_ERR_INVALID);
    ck_assert_str_eq(error_text(), "allgatherv: this rank sends itself 1, but "
                                   "recvcounts[0] is 2");
    ck_assert_int_eq(call_check(&args, 1, 2, &call), HVD_OK);
}
END_TEST

/* Rank 1 of 4 with blocks of 4: where the smaller buffer may begin in the
 * larger one, in place; NOWHERE: there is no such form. */
enum { NOWHERE = -1000 };

static const struct {
    enum collective_kind kind;
    bool sends_more; /* sendbuf is the larger one */
    int place;
} in_places[] = {
    {COLLECTIVE_ALLREDUCE, false, 0},
    {COLLECTIVE_ALLGATHER, false, 4},
    {COLLECTIVE_ALLGATHERV, false, 4},
    {COLLECTIVE_ALLTOALL, false, 0},
    {COLLECTIVE_REDUCE_SCATTER, true, 4},
    {COLLECTIVE_ALLTOALLV, false, NOWHERE},
};

START_TEST(buffers_overlap_in_place_or_not_at_all)
{
    enum { SIZE = 4, BLOCK = 4, ALL = SIZE * BLOCK, ROOM = ALL };
    static const size_t counts[] = {BLOCK, BLOCK, BLOCK, BLOCK};
    static const size_t displs[] = {0, BLOCK, 2 * BLOCK, 3 * BLOCK};
    static char memory[ROOM + ALL + ROOM];
    char *larger = memory + ROOM;

    for (int at = 1 - BLOCK; at < ALL; at++) {
        char *smaller = larger + at;
        bool sends = in_places[_i].sends_more, ok = at == in_places[_i].place;
        struct collective_args args = {.kind = in_places[_i].kind,
                                       .sendbuf = sends ? larger : smaller,
                                       .recvbuf = sends ? smaller : larger,
                                       .count = BLOCK,
                                       .dtype = HVD_INT8,
                                       .op = HVD_SUM,
                                       .sendcounts = counts,
                                       .sdispls = displs,
                                       .recvcounts = counts,
                                       .rdispls = displs};
        struct call call;

        if (args.kind == COLLECTIVE_ALLREDUCE)
            args.count = ALL;
        ck_assert_msg(call_check(&args, 1, SIZE, &call) ==
                          (ok ? HVD_OK : HVD_ERR_INVALID),
                      "at %d: %s", at, ok ? error_text() : "not refused");
        ck_assert(ok || strstr(error_text(), "sendbuf and recvbuf overlap"));
    }
}
END_TEST

START_TEST(dtypes_that_are_moved_are_not_combined)
{
    static const enum collective_kind reduces[] = {COLLECTIVE_ALLREDUCE,
                                                   COLLECTIVE_REDUCE_SCATTER};
    char send[16], recv[16];
    struct collective_args args = {
        .sendbuf = send, .recvbuf = recv, .count = 1};
    struct call call;

    for (int dtype = DTYPE_END; dtype < DTYPE_ALL_END; dtype++) {
        args.dtype = (hvd_dtype_t)dtype;
        args.kind = COLLECTIVE_ALLTOALL;
        ck_assert_int_eq(call_check(&args, 0, 2, &call), HVD_OK);
        for (size_t i = 0; i < ARRAY_SIZE(reduces); i++) {
            args.kind = reduces[i];
            ck_assert_int_eq(call_check(&args, 0, 2, &call), HVD_ERR_INVALID);
            ck_assert(strstr(error_text(), dtype_name((unsigned)dtype)));
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("call");
    TCase *tc = tcase_create("call");

    tcase_add_loop_test(tc, blocks_of_a_result_stand_apart, 0,
                        (int)ARRAY_SIZE(blocks));
    tcase_add_test(tc, dtypes_that_are_moved_are_not_combined);
    tcase_add_test(tc, own_counts_of_an_alltoallv_differ_invalid);
    tcase_add_test(tc, own_count_of_an_allgatherv_differs_invalid);
    tcase_add_loop_test(tc, buffers_overlap_in_place_or_not_at_all, 0,
                        (int)ARRAY_SIZE(in_places));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
