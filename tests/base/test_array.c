/* tests/base/test_array.c - growing arrays. */
#include "base/array.h"
#include "support.h"

START_TEST(array_reserve_grows_and_zeroes)
{
    int *items = NULL;
    size_t max = 0;

    ck_assert(array_reserve(&items, &max, 3));
    ck_assert_uint_ge(max, 3);
    items[2] = 7;
    ck_assert(array_reserve(&items, &max, 1000));
    ck_assert_int_eq(items[2], 7);
    ck_assert_int_eq(items[999], 0);
    free(items);
}
END_TEST

START_TEST(array_reserve_overflow_fails_unchanged)
{
    long *items = NULL;
    size_t max = 0;

    ck_assert(!array_reserve(&items, &max, SIZE_MAX / 2));
    ck_assert_ptr_null(items);
    ck_assert_uint_eq(max, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("array");
    TCase *tcase = tcase_create("array");

    tcase_add_test(tcase, array_reserve_grows_and_zeroes);
    tcase_add_test(tcase, array_reserve_overflow_fails_unchanged);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
