/* tests/driver/test_options_files.c - the files that options name, and that the
 * driver writes. */
#include "driver/options_typed.h"

START_TEST(options_output_files_are_made)
{
    struct stat st;

    ck_assert(parse("-np 1 --output-filename a/b/c --event-log log "
                    "--prefix-output-with-timestamp --log-level WARNING prog"));
    ck_assert_str_eq(o.output_dir, "a/b/c");
    ck_assert_str_eq(o.event_log, "log");
    ck_assert(o.timestamps);
    ck_assert_int_eq(o.log_level, LOG_LEVEL_WARN);
    ck_assert_int_eq(stat("a/b/c", &st), 0);
    ck_assert(S_ISDIR(st.st_mode));
    ck_assert_int_eq(stat("log", &st), 0);
    options_fini(&o);
}
END_TEST

START_TEST(options_event_log_of_before_is_not_touched_by_a_bad_line)
{
    struct stat st;

    ck_assert(!parse("-np 2 --event-log hosts --max-np 1 prog"));
    ck_assert_int_eq(stat("hosts", &st), 0);
    ck_assert_int_gt((int)st.st_size, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("options_files");
    TCase *tcase = tcase_create("options_files");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, options_output_files_are_made);
    tcase_add_test(tcase,
                   options_event_log_of_before_is_not_touched_by_a_bad_line);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
