/* tests/collectives/test_pull_order.c - what the machine of pull.h does first,
 * and what it does not do at all: results are right without it (test_pull.c),
 * and late. */
#include <stdbool.h>
#include <string.h>

#include "base/array.h"
#include "collectives/local/pull.h"
#include "support.h"

enum { SIZE = 3, BLOCK = 16, COUNT = 40, DEPTH = 2 };

static const struct pull_progress all_ready[SIZE] = {
    {PULL_ALL, PULL_ALL, PULL_ALL},
    {PULL_ALL, PULL_ALL, PULL_ALL},
    {PULL_ALL, PULL_ALL, PULL_ALL},
};

static struct pull_shape shape_of(enum pull_kind kind)
{
    return (struct pull_shape){.kind = kind,
                               .rank = 0,
                               .size = SIZE,
                               .count = COUNT,
                               .elem_nbytes = 1,
                               .block_nbytes = BLOCK,
                               .depth = DEPTH};
}

/* Play it to its end, all others being through: what is done, a letter each. */
static const char *play(const struct pull_shape *shape, size_t *staged_p)
{
    static const char letters[] = {[PULL_STAGE] = 's',
                                   [PULL_REDUCE] = 'r',
                                   [PULL_TAKE] = 't',
                                   [PULL_WAIT] = 'w'};
    static char text[200];
    struct pull_action a;
    struct pull p;
    size_t n = 0;

    *staged_p = 0;
    pull_init(&p, shape);
    for (;;) {
        pull_next(&p, all_ready, &a);
        if (a.type == PULL_DONE)
            break;
        ck_assert_uint_lt(n + 1, sizeof(text));
        ck_assert_int_ne(a.type, PULL_WAIT);
        text[n++] = letters[a.type];
        if (a.type == PULL_STAGE)
            *staged_p += a.region.nbytes;
        pull_did(&p, &a);
    }
    text[n] = '\0';
    return text;
}

/* A copy costs as much as reading it. */
START_TEST(operand_that_all_read_staged_once)
{
    static const size_t counts[SIZE] = {COUNT, COUNT, COUNT},
                        displs[SIZE] = {0, COUNT, 2 * COUNT};
    static const enum pull_kind kinds[] = {PULL_BROADCAST, PULL_ALLGATHER,
                                           PULL_ALLGATHERV};
    struct pull_shape shape = shape_of(kinds[_i]);
    size_t staged;

    shape.stage_send = true;
    shape.recvcounts = counts;
    shape.rdispls = displs;
    (void)play(&shape, &staged);
    ck_assert_uint_eq(staged, COUNT);
}
END_TEST

START_TEST(operand_of_each_reader_staged_for_others_alone)
{
    struct pull_shape shape = shape_of(PULL_ALLTOALL);
    size_t staged;

    shape.stage_send = true;
    (void)play(&shape, &staged);
    ck_assert_uint_eq(staged, (SIZE - 1) * COUNT);
}
END_TEST

/* Eight blocks each; two takes, one of each peer, to a block. */
START_TEST(lag_takes_that_far_behind_reductions)
{
    static const char *const expected[] = {
        [0] = "ttttttttttttttttrrrrrrrr", [1] = "rttrttrttrttrttrttrttrtt",
        [3] = "rrrttrttrttrttrttrtttttt", [7] = "rrrrrrrttrtttttttttttttt",
        [9] = "rrrrrrrrtttttttttttttttt",
    };
    struct pull_shape shape = shape_of(PULL_ALLREDUCE);
    size_t staged;

    shape.count = SIZE * 8 * BLOCK;
    for (unsigned lag = 0; lag < 10; lag++) {
        shape.lag = lag;
        if (expected[lag] != NULL)
            ck_assert_str_eq(play(&shape, &staged), expected[lag]);
    }
}
END_TEST

/* Peer 1 has nothing for this rank and has staged nothing yet; peer 2 has. */
START_TEST(peer_without_anything_to_take_not_waited_for)
{
    static const size_t send[SIZE] = {0, 0, 0}, recv[SIZE] = {0, 0, COUNT},
                        displs[SIZE] = {0, 0, 0};
    static const struct pull_progress peers[SIZE] = {[2] = {1, 0, 0}};
    struct pull_shape shape = shape_of(PULL_ALLTOALLV);
    struct pull_action a;
    struct pull p;

    shape.sendcounts = send;
    shape.sdispls = shape.rdispls = displs;
    shape.recvcounts = recv;
    pull_init(&p, &shape);
    for (int peer = 1; peer < SIZE; peer++) {
        pull_next(&p, peers, &a);
        ck_assert_int_eq(a.type, PULL_TAKE);
        ck_assert_int_eq(a.peer, peer);
        pull_did(&p, &a);
    }
    pull_next(&p, peers, &a);
    ck_assert_int_eq(a.type, PULL_TAKE); /* of peer 1, nothing again */
    pull_did(&p, &a);
    pull_next(&p, peers, &a);
    ck_assert_int_eq(a.type, PULL_WAIT);
}
END_TEST

/* What is chosen once the ways of all are known: kind, lag, size of blocks. */
static const struct {
    enum pull_kind kind;
    struct pull_ways ways;
    bool changes;
    enum pull_kind to;
    uint64_t lag;
    size_t block_nbytes;
} suits[] = {
    {PULL_ALLREDUCE, {.all_push = true}, true, PULL_SLICES_REDUCE, 0, BLOCK},
    {PULL_ALLREDUCE,
     {.all_push = true, .stages = true, .attaches = true},
     true,
     PULL_SLICES_REDUCE,
     0,
     BLOCK},
    {PULL_ALLREDUCE,
     {.stages = true},
     true,
     PULL_ALLREDUCE,
     PULL_LAG_NBYTES / BLOCK,
     BLOCK},
    {PULL_ALLREDUCE, {.stages_result = true}, false, 0, 0, 0},
    {PULL_ALLREDUCE, {.stages_result = true, .attaches = true}, false, 0, 0, 0},
    {PULL_REDUCE_SCATTER, {.attaches = true}, false, 0, 0, 0},
    {PULL_ALLGATHER,
     {.attaches = true},
     true,
     PULL_ALLGATHER,
     0,
     PULL_ATTACHED_BLOCK},
    {PULL_ALLTOALL,
     {.attaches = true, .stages_result = true},
     true,
     PULL_ALLTOALL,
     0,
     PULL_ATTACHED_BLOCK},
    {PULL_ALLTOALL, {.attaches = true, .stages = true}, false, 0, 0, 0},
    {PULL_ALLGATHER, {.stages_result = true}, false, 0, 0, 0},
    {PULL_ALLGATHER, {0}, false, 0, 0, 0},
};

START_TEST(shape_suits_the_ways_of_all)
{
    struct pull_shape begun = shape_of(suits[_i].kind), shape = {0};
    struct pull p;

    begun.root = 1;
    pull_init(&p, &begun);
    ck_assert_int_eq(pull_suit(&p, &suits[_i].ways, &shape), suits[_i].changes);
    ck_assert_int_eq(shape.size, suits[_i].changes ? SIZE : 0);
    if (!suits[_i].changes)
        return;
    ck_assert_int_eq(shape.kind, suits[_i].to);
    ck_assert_uint_eq(shape.lag, suits[_i].lag);
    ck_assert_uint_eq(shape.block_nbytes, suits[_i].block_nbytes);
    ck_assert_uint_eq(shape.count, COUNT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pull_order");
    TCase *tc = tcase_create("pull_order");

    tcase_add_loop_test(tc, operand_that_all_read_staged_once, 0, 3);
    tcase_add_test(tc, operand_of_each_reader_staged_for_others_alone);
    tcase_add_test(tc, lag_takes_that_far_behind_reductions);
    tcase_add_test(tc, peer_without_anything_to_take_not_waited_for);
    tcase_add_loop_test(tc, shape_suits_the_ways_of_all, 0, ARRAY_SIZE(suits));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
