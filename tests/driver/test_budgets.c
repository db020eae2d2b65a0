/* tests/driver/test_budgets.c - how often a slot may fail, and how soon it
 * starts again. */
#include "elastic/driver/budgets.h"
#include "support.h"

#define MINUTES(n) ((uint64_t)(n)*60000000)

static uint64_t room[BUDGET_RESTARTS_MAX];

START_TEST(M11_three_failures_are_restarted_the_fourth_exhausts)
{
    static const uint64_t delays[] = {0, 500000, 1000000};
    struct budget b = {room, 0};
    uint64_t delay_us = 1;

    for (int i = 0; i < 3; i++) {
        ck_assert(budget_fail(&b, 3, MINUTES(i), &delay_us));
        ck_assert_uint_eq(delay_us, delays[i]);
    }
    ck_assert(!budget_fail(&b, 3, MINUTES(3), &delay_us));
    ck_assert(!budget_fail(&b, 3, MINUTES(4), &delay_us));
}
END_TEST

START_TEST(M11_delay_doubles_up_to_ten_seconds)
{
    static const uint64_t ms[] = {0, 500, 1000, 2000, 4000, 8000, 10000, 10000};
    struct budget b = {room, 0};
    uint64_t delay_us;

    for (int i = 0; i < BUDGET_RESTARTS_MAX; i++) {
        ck_assert(budget_fail(&b, BUDGET_RESTARTS_MAX, 5, &delay_us));
        ck_assert_uint_eq(delay_us, ms[i < 7 ? i : 7] * 1000);
    }
    ck_assert(!budget_fail(&b, BUDGET_RESTARTS_MAX, 5, &delay_us));
}
END_TEST

START_TEST(M11_failures_older_than_ten_minutes_do_not_count)
{
    struct budget b = {room, 0};
    uint64_t delay_us;

    for (int i = 0; i < 100; i++) {
        ck_assert(budget_fail(&b, 3, MINUTES(4 * i), &delay_us));
        ck_assert_uint_le(delay_us, 1000000);
    }
    ck_assert(budget_fail(&b, 3, MINUTES(1000), &delay_us));
    ck_assert_uint_eq(delay_us, 0);
}
END_TEST

START_TEST(M11_no_restarts_exhausts_at_once)
{
    struct budget b = {room, 0};
    uint64_t delay_us;

    ck_assert(!budget_fail(&b, 0, 1, &delay_us));
}
END_TEST

START_TEST(M11_reset_begins_anew)
{
    struct budget b = {room, 0};
    uint64_t delay_us;

    ck_assert(budget_fail(&b, 1, 1, &delay_us));
    ck_assert(!budget_fail(&b, 1, 2, &delay_us));
    b.n = 0;
    ck_assert(budget_fail(&b, 1, 3, &delay_us));
    ck_assert_uint_eq(delay_us, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("budgets");
    TCase *tcase = tcase_create("budgets");

    tcase_add_test(tcase, M11_three_failures_are_restarted_the_fourth_exhausts);
    tcase_add_test(tcase, M11_delay_doubles_up_to_ten_seconds);
    tcase_add_test(tcase, M11_failures_older_than_ten_minutes_do_not_count);
    tcase_add_test(tcase, M11_no_restarts_exhausts_at_once);
    tcase_add_test(tcase, M11_reset_begins_anew);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
