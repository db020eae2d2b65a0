/* tests/base/test_random.c - the seeded generator. */
#include "base/random.h"
#include "support.h"

START_TEST(random_same_seed_same_numbers)
{
    struct random_state a = {42}, b = {42};

    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(random_u64(&a), random_u64(&b));
}
END_TEST

START_TEST(random_below_stays_below_and_covers)
{
    struct random_state r = {1};
    int seen[7] = {0};

    for (int i = 0; i < 1000; i++)
        seen[random_below(&r, 7)]++;
    for (int i = 0; i < 7; i++)
        ck_assert_int_gt(seen[i], 50);
}
END_TEST

START_TEST(random_unit_in_range)
{
    struct random_state r = {9};

    for (int i = 0; i < 1000; i++) {
        double x = random_unit(&r);

        ck_assert(x >= 0 && x < 1);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("random");
    TCase *tcase = tcase_create("random");

    tcase_add_test(tcase, random_same_seed_same_numbers);
    tcase_add_test(tcase, random_below_stays_below_and_covers);
    tcase_add_test(tcase, random_unit_in_range);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
