/* tests/base/test_error.c - error sentences and status texts. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "support.h"

START_TEST(error_prefix_goes_in_front)
{
    ck_assert_int_eq(error_set(HVD_ERR_INVALID, "count %d is negative", -3),
                     HVD_ERR_INVALID);
    ck_assert_int_eq(error_prefix(HVD_ERR_INVALID, "allreduce"),
                     HVD_ERR_INVALID);
    ck_assert_str_eq(hvd_last_error(), "allreduce: count -3 is negative");
}
END_TEST

START_TEST(error_prefix_of_success_writes_nothing)
{
    error_clear();
    ck_assert_int_eq(error_prefix(HVD_OK, "allreduce"), HVD_OK);
    ck_assert_str_eq(hvd_last_error(), "");
}
END_TEST

START_TEST(error_set_may_quote_the_old_text)
{
    error_set(HVD_ERR_INVALID, "old");
    error_set(HVD_ERR_INVALID, "new after %s", error_text());
    ck_assert_str_eq(error_text(), "new after old");
}
END_TEST

START_TEST(error_errno_names_the_reason)
{
    errno = ENOENT;
    ck_assert_int_eq(error_errno("cannot open \"%s\"", "x"), HVD_ERR_SYSTEM);
    ck_assert_str_eq(error_text(),
                     "cannot open \"x\": No such file or directory");
}
END_TEST

START_TEST(error_long_text_is_cut_not_overrun)
{
    char longer[ERROR_TEXT_MAX * 2];

    memset(longer, 'a', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    error_set(HVD_ERR_INVALID, "%s", longer);
    error_prefix(HVD_ERR_INVALID, "%s", longer);
    ck_assert_uint_lt(strlen(error_text()), ERROR_TEXT_MAX);
}
END_TEST

START_TEST(strerror_knows_every_status)
{
    ck_assert_str_eq(hvd_strerror(HVD_OK), "success");
    ck_assert_str_eq(hvd_strerror(HVD_ERR_MISMATCH), "ranks disagree");
    ck_assert_str_eq(hvd_strerror((hvd_status_t)-1001), "user status");
    ck_assert_str_eq(hvd_strerror((hvd_status_t)-999), "unknown status");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("error");
    TCase *tcase = tcase_create("error");

    tcase_add_test(tcase, error_prefix_goes_in_front);
    tcase_add_test(tcase, error_prefix_of_success_writes_nothing);
    tcase_add_test(tcase, error_set_may_quote_the_old_text);
    tcase_add_test(tcase, error_errno_names_the_reason);
    tcase_add_test(tcase, error_long_text_is_cut_not_overrun);
    tcase_add_test(tcase, strerror_knows_every_status);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
