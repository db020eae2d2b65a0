/* tests/base/test_text.c - sentences in buffers of any size. */
#include <signal.h>
#include <string.h>

#include "base/text.h"
#include "support.h"

/* "rank 17 of 18446744073709551615", as much as fits. */
START_TEST(text_is_cut_where_the_buffer_ends)
{
    static const char whole[] = "rank 17 of 18446744073709551615";
    char buf[sizeof(whole) + 1];
    size_t max = (size_t)_i;
    struct text t;

    memset(buf, 'x', sizeof(buf));
    t = text_into(buf, max);
    text_add(&t, "rank ");
    text_u64(&t, 17);
    text_add_n(&t, " of many", 4);
    text_u64(&t, UINT64_MAX);
    ck_assert_uint_eq(strlen(buf), t.n);
    ck_assert_uint_eq(t.n, max <= strlen(whole) ? max - 1 : strlen(whole));
    ck_assert_int_eq(memcmp(buf, whole, t.n), 0);
    ck_assert(max >= sizeof(buf) || buf[max] == 'x');
}
END_TEST

START_TEST(text_number_zero_is_a_digit)
{
    char buf[8];
    struct text t = text_into(buf, sizeof(buf));

    text_u64(&t, 0);
    ck_assert_str_eq(buf, "0");
}
END_TEST

START_TEST(text_scaled_has_all_its_decimals)
{
    static const struct {
        int64_t value;
        unsigned digits;
        const char *words;
    } table[] = {{1234, 3, "1.234"}, {1, 3, "0.001"},
                 {0, 4, "0.0000"},   {10020, 4, "1.0020"},
                 {-15, 1, "-1.5"},   {7, 0, "7"},
                 {-1, 2, "-0.01"},   {INT64_MIN, 0, "-9223372036854775808"}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char buf[32];
        struct text t = text_into(buf, sizeof(buf));

        text_scaled(&t, table[i].value, table[i].digits);
        ck_assert_str_eq(buf, table[i].words);
    }
}
END_TEST

START_TEST(text_signal_is_a_name_where_there_is_one)
{
    static const struct {
        int signo;
        const char *words;
    } table[] = {{SIGHUP, "SIGHUP"}, {SIGKILL, "SIGKILL"}, {SIGSEGV, "SIGSEGV"},
                 {SIGSYS, "SIGSYS"}, {64, "signal 64"},    {0, "signal 0"}};

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char buf[32];
        struct text t = text_into(buf, sizeof(buf));

        text_signal(&t, table[i].signo);
        ck_assert_str_eq(buf, table[i].words);
    }
}
END_TEST

START_TEST(text_killed_names_the_limit_that_was_reached)
{
    char buf[128];
    struct text t = text_into(buf, sizeof(buf));

    text_killed(&t, SIGXCPU);
    ck_assert_str_eq(buf, "was killed by signal 24 (SIGXCPU): the limit of "
                          "processor time (ulimit -t)");
    t = text_into(buf, sizeof(buf));
    text_killed(&t, SIGXFSZ);
    ck_assert_str_eq(buf, "was killed by signal 25 (SIGXFSZ): the limit of a "
                          "file's size (ulimit -f)");
    t = text_into(buf, sizeof(buf));
    text_killed(&t, SIGKILL);
    ck_assert_str_eq(buf, "was killed by signal 9 (SIGKILL)");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *tcase = tcase_create("text");

    tcase_add_loop_test(tcase, text_is_cut_where_the_buffer_ends, 1, 34);
    tcase_add_test(tcase, text_number_zero_is_a_digit);
    tcase_add_test(tcase, text_scaled_has_all_its_decimals);
    tcase_add_test(tcase, text_signal_is_a_name_where_there_is_one);
    tcase_add_test(tcase, text_killed_names_the_limit_that_was_reached);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
