/* tests/collectives/test_algorithm.c - the choice of a schedule: the table, and
 * what HVD_ALGORITHM may say. */
#include <limits.h>
#include <string.h>

#include "collectives/comm.h"
#include "collectives/schedule/algorithm.h"
#include "collectives/schedule/schedule.h"
#include "support.h"

START_TEST(choose_default_table_covers_every_call)
{
    for (int kind = COLLECTIVE_ALLREDUCE; kind <= COLLECTIVE_BARRIER; kind++)
        for (int size = 2; size <= 1 << 20; size *= 2)
            for (int bits = 0; bits <= 64; bits++) {
                size_t nbytes = bits == 64 ? SIZE_MAX : (size_t)1 << bits;
                enum algorithm a = algorithm_choose(kind, size, nbytes,
                                                    &algorithm_default);

                if (a == ALGORITHM_AUTO || a >= ALGORITHM_FLAT ||
                    !algorithm_fits(kind, a))
                    ck_abort_msg("kind %d, %d ranks, 2^%d bytes: %s", kind,
                                 size, bits, algorithm_name(a));
            }
}
END_TEST

START_TEST(choose_first_rule_that_fits)
{
    static const struct algorithm_rule rules[] = {
        {COLLECTIVE_ALLREDUCE, ALGORITHM_DOUBLING, 4, 100},
        {COLLECTIVE_ALLREDUCE, ALGORITHM_HALVING, INT_MAX, 1000},
    };
    static const struct algorithm_table table = {rules, 2};

    ck_assert_int_eq(algorithm_choose(COLLECTIVE_ALLREDUCE, 4, 100, &table),
                     ALGORITHM_DOUBLING);
    ck_assert_int_eq(algorithm_choose(COLLECTIVE_ALLREDUCE, 5, 100, &table),
                     ALGORITHM_HALVING);
    ck_assert_int_eq(algorithm_choose(COLLECTIVE_ALLREDUCE, 4, 101, &table),
                     ALGORITHM_HALVING);
    ck_assert_int_eq(algorithm_choose(COLLECTIVE_ALLREDUCE, 4, 1001, &table),
                     ALGORITHM_RING);
    ck_assert_int_eq(algorithm_choose(COLLECTIVE_BROADCAST, 4, 1, &table),
                     ALGORITHM_CHAIN);
}
END_TEST

START_TEST(parse_name_alone_for_all_kinds_that_have_it)
{
    char error[ALGORITHM_ERROR_MAX];
    struct algorithm_override o = {{0}};

    ck_assert(algorithm_parse("ring", &o, error));
    ck_assert_int_eq(o.by_kind[COLLECTIVE_ALLREDUCE], ALGORITHM_RING);
    ck_assert_int_eq(o.by_kind[COLLECTIVE_ALLGATHERV], ALGORITHM_RING);
    ck_assert_int_eq(o.by_kind[COLLECTIVE_BROADCAST], ALGORITHM_AUTO);
    ck_assert(algorithm_parse("two-level", &o, error));
    for (int kind = COLLECTIVE_ALLREDUCE; kind <= COLLECTIVE_BARRIER; kind++)
        ck_assert_int_eq(o.by_kind[kind], ALGORITHM_TWO_LEVEL);
}
END_TEST

START_TEST(parse_list_later_entry_wins)
{
    char error[ALGORITHM_ERROR_MAX];
    struct algorithm_override o = {{0}};

    ck_assert(algorithm_parse(
        "flat,allreduce:halving,broadcast:chain,allgather:auto", &o, error));
    ck_assert_int_eq(o.by_kind[COLLECTIVE_ALLREDUCE], ALGORITHM_HALVING);
    ck_assert_int_eq(o.by_kind[COLLECTIVE_BROADCAST], ALGORITHM_CHAIN);
    ck_assert_int_eq(o.by_kind[COLLECTIVE_ALLGATHER], ALGORITHM_AUTO);
    ck_assert_int_eq(o.by_kind[COLLECTIVE_ALLTOALL], ALGORITHM_FLAT);
}
END_TEST

/* Every name is accepted for exactly the kinds that it fits, and read back. */
START_TEST(parse_every_pair_as_algorithm_fits)
{
    static const char *const kinds[] = {
        "allreduce",      "broadcast", "allgather", "allgatherv",
        "reduce_scatter", "alltoall",  "alltoallv", "barrier"};

    for (int k = 0; k < 8; k++)
        for (int a = 0; a < ALGORITHM_COUNT; a++) {
            char text[64], error[ALGORITHM_ERROR_MAX];
            struct algorithm_override o = {{0}};

            snprintf(text, sizeof(text), "%s:%s", kinds[k],
                     algorithm_name((enum algorithm)a));
            ck_assert_int_eq(algorithm_parse(text, &o, error),
                             algorithm_fits(k + 1, (enum algorithm)a));
            if (algorithm_fits(k + 1, (enum algorithm)a))
                ck_assert_int_eq(o.by_kind[k + 1], a);
        }
}
END_TEST

START_TEST(parse_bad_value_named_with_the_valid_ones)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"", "'' is no algorithm; valid: auto, ring, doubling, halving, star, "
             "tree, chain, scatter, bruck, pairwise, dissemination, flat, "
             "two-level"},
        {"ring,", "'' is no algorithm; valid: auto, ring, doubling, halving, "
                  "star, tree, chain, scatter, bruck, pairwise, "
                  "dissemination, flat, two-level"},
        {"broadcast:ring", "'ring' is no algorithm of broadcast; valid: auto, "
                           "star, tree, chain, scatter, flat, two-level"},
        {"ring,reduce:tree",
         "'reduce' is no collective; valid: allreduce, broadcast, allgather, "
         "allgatherv, reduce_scatter, alltoall, alltoallv, barrier"},
        {"barrier:Ring", "'Ring' is no algorithm of barrier; valid: auto, "
                         "dissemination, flat, two-level"},
        {"barrier:a:b", "'a:b' is no algorithm of barrier; valid: auto, "
                        "dissemination, flat, two-level"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char error[ALGORITHM_ERROR_MAX] = "";
        struct algorithm_override o = {{[COLLECTIVE_BARRIER] = 7}};
        struct algorithm_override before = o;

        ck_assert(!algorithm_parse(bad[i].text, &o, error));
        ck_assert_str_eq(error, bad[i].error);
        ck_assert_mem_eq(&o, &before, sizeof(o));
    }
}
END_TEST

START_TEST(parse_endless_name_sentence_bounded)
{
    char text[1000], error[ALGORITHM_ERROR_MAX];
    struct algorithm_override o = {{0}};

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    ck_assert(!algorithm_parse(text, &o, error));
    ck_assert_uint_lt(strlen(error), sizeof(error));
    ck_assert_ptr_nonnull(strstr(error, "two-level"));
    memset(text + 20, ':', 1);
    ck_assert(!algorithm_parse(text, &o, error));
    ck_assert_ptr_nonnull(strstr(error, "barrier"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("algorithm");
    TCase *tc = tcase_create("algorithm");

    tcase_add_test(tc, choose_default_table_covers_every_call);
    tcase_add_test(tc, choose_first_rule_that_fits);
    tcase_add_test(tc, parse_name_alone_for_all_kinds_that_have_it);
    tcase_add_test(tc, parse_list_later_entry_wins);
    tcase_add_test(tc, parse_every_pair_as_algorithm_fits);
    tcase_add_test(tc, parse_bad_value_named_with_the_valid_ones);
    tcase_add_test(tc, parse_endless_name_sentence_bounded);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
