/* tests/driver/test_last_words.c - the last line of a worker's stderr. */
#include "elastic/driver/last_words.h"

#include <string.h>

#include "support.h"

static struct last_line w;
static struct last_words l;
static char text[LAST_WORDS_MAX];

static void setup(void)
{
    memset(&w, 0, sizeof(w));
    memset(&l, 0, sizeof(l));
}

static void add(const char *bytes)
{
    last_line_add(&w, bytes, strlen(bytes));
}

static void expect(const char *wanted)
{
    last_line_text(&w, text);
    ck_assert_str_eq(text, wanted);
}

START_TEST(words_are_the_last_line_that_is_not_blank)
{
    expect("");
    add("Traceback:\n");
    add("  ValueError: no\n");
    expect("ValueError: no");
    add("\n");
    add(" \t\r\n");
    expect("ValueError: no");
}
END_TEST

START_TEST(words_come_in_parts)
{
    add("first\n");
    add("no end");
    expect("no end");
    add(" yet");
    add(", now\n");
    expect("no end yet, now");
    add("next");
    expect("next");
}
END_TEST

START_TEST(words_disturb_no_terminal_and_are_bounded)
{
    char line[1000];

    add("\033[31mred\n");
    expect("?[31mred");
    memset(line, 'x', sizeof(line));
    last_line_add(&w, line, sizeof(line));
    last_line_add(&w, line, sizeof(line));
    last_line_text(&w, text);
    ck_assert_uint_eq(strlen(text), LAST_WORDS_MAX - 1);
}
END_TEST

static void keep(uint64_t worker, const char *bytes)
{
    memset(&w, 0, sizeof(w));
    w.worker = worker;
    add(bytes);
    last_words_keep(&l, &w);
}

START_TEST(words_of_the_watched_stay)
{
    keep(1, "one\n");
    keep(2, "two\n");
    last_words_watch(&l, 1);
    for (uint64_t worker = 3; worker < 500; worker++)
        keep(worker, "other\n");
    ck_assert(last_words_of(&l, 1, text));
    ck_assert_str_eq(text, "one");
    ck_assert(!last_words_of(&l, 2, text));
    ck_assert(last_words_of(&l, 499, text));
    ck_assert(!last_words_of(&l, 0, text));
    last_words_watch(&l, 600); /* its output ends later */
    ck_assert(!last_words_of(&l, 600, text));
    keep(600, "late\n");
    last_words_watch(&l, 600);
    ck_assert(last_words_of(&l, 600, text));
    ck_assert_str_eq(text, "late");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("last words");
    TCase *tcase = tcase_create("last words");

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, words_are_the_last_line_that_is_not_blank);
    tcase_add_test(tcase, words_come_in_parts);
    tcase_add_test(tcase, words_disturb_no_terminal_and_are_bounded);
    tcase_add_test(tcase, words_of_the_watched_stay);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
