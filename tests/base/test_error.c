/* tests/base/test_error.c - error sentences and status texts. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/array.h"
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

static void *fail_elsewhere(void *arg)
{
    bool *empty = arg;

    *empty = hvd_last_error()[0] == '\0';
    error_set(HVD_ERR_STATE, "theirs");
    return NULL;
}

START_TEST(error_of_another_thread_is_its_own)
{
    pthread_t thread;
    bool empty = false;

    error_set(HVD_ERR_INVALID, "ours");
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_elsewhere, &empty), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(empty);
    ck_assert_str_eq(hvd_last_error(), "ours");
}
END_TEST

/* A program may have kept these numbers: none is ever used again. */
static const struct {
    hvd_status_t status;
    int number;
    const char *text;
} statuses[] = {
    {HVD_OK, 0, "success"},
    {HVD_HOSTS_UPDATED, 1, "hosts were added or removed"},
    {HVD_PEER_LOST, 2, "a peer was lost"},
    {HVD_REMOVED, 3, "this worker was removed from the job"},
    {HVD_ERR_INVALID, -1, "invalid argument"},
    {HVD_ERR_STATE, -2, "not allowed now"},
    {HVD_ERR_NOMEM, -3, "out of memory"},
    {HVD_ERR_SYSTEM, -4, "system call failed"},
    {HVD_ERR_TIMEOUT, -5, "deadline exceeded"},
    {HVD_ERR_MISMATCH, -6, "ranks disagree"},
    {HVD_ERR_LAYOUT, -7, "state layout differs between workers"},
    {HVD_ERR_PROTOCOL, -8, "malformed or unexpected message"},
    {HVD_ERR_UNSUPPORTED, -9, "not supported here"},
    {HVD_ERR_DRIVER_LOST, -10, "the driver is gone"},
    {HVD_ERR_JOB_FAILED, -11, "the job has failed"},
    {HVD_ERR_CORRUPT, -12, "data failed verification"},
    {HVD_ERR_CALLBACK, -13, "a user callback failed"},
};

#define COUNT_STATUS(name, value, text) +1
_Static_assert(HVD_STATUS_TABLE(COUNT_STATUS) == ARRAY_SIZE(statuses),
               "a status without a number here");

START_TEST(strerror_knows_every_status)
{
    for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
        ck_assert_int_eq(statuses[i].status, statuses[i].number);
        ck_assert_str_eq(hvd_strerror(statuses[i].status), statuses[i].text);
    }
    ck_assert_int_eq(HVD_USER_STATUS_MAX, -1000);
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
    tcase_add_test(tcase, error_of_another_thread_is_its_own);
    tcase_add_test(tcase, strerror_knows_every_status);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
