/* tests/driver/test_options_files.c - the files that options name, and that the
 * driver writes. */
#include <fcntl.h>

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

/* The descriptor becomes the file `path` while `words` are parsed. */
static bool parse_with(int fd, const char *path, const char *text)
{
    int saved = dup(fd);
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    bool ok;

    ck_assert_int_ge(saved, 0);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(dup2(file, fd), fd);
    ok = parse(text);
    ck_assert_int_eq(dup2(saved, fd), fd);
    close(saved);
    close(file);
    return ok;
}

START_TEST(options_event_log_is_not_where_the_output_goes)
{
    static const struct {
        int fd;
        const char *path, *words, *sentence; /* NULL: accepted */
    } cases[] = {{1, "e", "-np 1 --event-log ./e prog",
                  "--event-log and standard output: both are \"./e\""},
                 {2, "e", "-np 1 --event-log e prog",
                  "--event-log and standard error: both are \"e\""},
                 {1, "e", "-np 1 --event-log /dev/stdout prog",
                  "--event-log and standard output: both are \"/dev/stdout\""},
                 {1, "e", "-np 1 --timeline e prog",
                  "--timeline and standard output: both are \"e\""},
                 {2, "e", "--resume x --event-log e",
                  "--event-log and standard error: both are \"e\""},
                 {1, "/dev/null", "-np 1 --event-log /dev/null prog", NULL},
                 {2, "e",
                  "-np 1 --event-log /dev/null --autotune-log /dev/null prog",
                  NULL},
                 {1, "other", "-np 1 --event-log e prog", NULL}};
    char expected[TEXT_MAX];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool ok = parse_with(cases[i].fd, cases[i].path, cases[i].words);

        ck_assert_msg(ok == !cases[i].sentence, "%s: %s", cases[i].words, err);
        if (ok) {
            options_fini(&o);
            continue;
        }
        snprintf(expected, sizeof(expected), "hvd-elastic: %s\n",
                 cases[i].sentence);
        ck_assert_str_eq(err, expected);
    }
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
    tcase_add_test(tcase, options_event_log_is_not_where_the_output_goes);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
