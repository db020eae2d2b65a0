/* tests/collectives/test_lending.c - memory of calls in flight: kept for the
 * next, and bounded by what is in flight. */
#include <stdlib.h>

#include "base/random.h"
#include "collectives/lending.h"
#include "support.h"

enum { CALLS = 48, STEPS = 300, SMALL = 4096, LARGE = 1 << 20 };

static struct lent *take(size_t nbytes)
{
    struct lent *lent;

    ck_assert_int_eq(lending_take(LENDING_HOST, nbytes, &lent), HVD_OK);
    ck_assert_uint_ge(lent->nbytes, nbytes);
    lent->memory[0] = lent->memory[lent->nbytes - 1] = 1;
    return lent;
}

START_TEST(pieces_are_little_larger_than_asked_for)
{
    for (size_t nbytes = 0; nbytes < 5 * LARGE; nbytes = nbytes * 9 / 8 + 1) {
        struct lent *lent = take(nbytes);

        ck_assert_uint_le(lent->nbytes, nbytes + nbytes / 4 + 2 * SMALL);
        lending_give(lent);
    }
    lending_give(NULL);
    lending_release();
    ck_assert_uint_eq(lending_nbytes(LENDING_HOST), 0);
}
END_TEST

START_TEST(impossible_sizes_are_refused)
{
    struct lent *lent;

    ck_assert_int_eq(lending_take(LENDING_HOST, SIZE_MAX, &lent),
                     HVD_ERR_NOMEM);
    ck_assert_int_eq(lending_take(LENDING_HOST, SIZE_MAX / 2, &lent),
                     HVD_ERR_NOMEM);
    ck_assert_uint_eq(lending_nbytes(LENDING_HOST), 0);
}
END_TEST

/* One large call among small ones, another one in each step. */
START_TEST(what_is_kept_is_bounded_by_what_is_in_flight)
{
    const size_t in_flight = LARGE + (CALLS - 1) * SMALL;
    struct random_state random = {7};
    struct lent *lent[CALLS];

    for (int step = 0; step < STEPS; step++) {
        size_t large = (size_t)random_below(&random, CALLS);

        for (size_t i = 0; i < CALLS; i++)
            lent[i] = take(i == large ? LARGE : SMALL);
        for (size_t i = 0; i < CALLS; i++)
            lending_give(lent[(i * 5 + large) % CALLS]);
        ck_assert_uint_le(lending_nbytes(LENDING_HOST), 2 * in_flight);
    }
    ck_assert_uint_eq(lending_nbytes(LENDING_HOST), in_flight);
    lending_release();
}
END_TEST

START_TEST(a_steady_state_keeps_its_memory)
{
    struct lent *first[CALLS], *again;

    for (size_t i = 0; i < CALLS; i++)
        first[i] = take((i + 1) * SMALL);
    for (size_t i = 0; i < CALLS; i++)
        lending_give(first[i]);
    again = take(CALLS * SMALL);
    ck_assert_ptr_eq(again, first[CALLS - 1]);
    lending_give(again);
    lending_release();
}
END_TEST

/* Sizes that never come back. */
START_TEST(what_is_not_needed_any_more_is_given_back)
{
    struct lent *lent[4];

    for (size_t i = 0; i < 4; i++)
        lent[i] = take(8 * LARGE);
    for (size_t i = 0; i < 4; i++)
        lending_give(lent[i]);
    ck_assert_uint_eq(lending_nbytes(LENDING_HOST), 32 * LARGE);
    for (int i = 0; i < 5000; i++)
        lending_give(take(SMALL));
    ck_assert_uint_le(lending_nbytes(LENDING_HOST), 2 * SMALL);
    lending_release();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lending");
    TCase *tc = tcase_create("lending");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, pieces_are_little_larger_than_asked_for);
    tcase_add_test(tc, impossible_sizes_are_refused);
    tcase_add_test(tc, what_is_kept_is_bounded_by_what_is_in_flight);
    tcase_add_test(tc, a_steady_state_keeps_its_memory);
    tcase_add_test(tc, what_is_not_needed_any_more_is_given_back);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
