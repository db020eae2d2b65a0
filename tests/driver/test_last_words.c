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

START_TEST(words_that_only_follow_a_cause_give_way_to_it)
{
    static const char *const followers[] = {
        "note: run with a backtrace\n", "Warning: Permanently added x\n",
        "==17==ABORTING\n", "Node.js v20.1\n", "stty: no terminal\n"};

    add("note: alone\n");
    expect("note: alone");
    for (size_t i = 0; i < sizeof(followers) / sizeof(*followers); i++) {
        add("the cause\n");
        add(followers[i]);
        add("note: one more\n");
        expect("the cause");
        add("10% of it failed\n");
        expect("10% of it failed");
    }
}
END_TEST

START_TEST(words_of_a_progress_bar_give_way_to_a_cause)
{
    add("the cause\n");
    add("\r");
    add(" 10%|#  |\r");
    add(" 20%|## |");
    expect("the cause");
    add("\n");
    expect("the cause");
    add("100% lost\r\n");
    expect("100% lost");
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

START_TEST(words_that_a_sentence_has_already)
{
    const char *sentence = "worker 2 (a:1) failed: allreduce: recvbuf is NULL";

    ck_assert(last_words_are_in("allreduce: recvbuf is NULL", sentence));
    ck_assert(last_words_are_in("train: allreduce: recvbuf is NULL", sentence));
    ck_assert(last_words_are_in("x: y: allreduce: recvbuf is NULL", sentence));
    ck_assert(!last_words_are_in("ValueError: the size is NULL", sentence));
    ck_assert(!last_words_are_in("the file of the model: is NULL", sentence));
    ck_assert(!last_words_are_in("train: the rate is negative: ", sentence));
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
    tcase_add_test(tcase, words_that_only_follow_a_cause_give_way_to_it);
    tcase_add_test(tcase, words_of_a_progress_bar_give_way_to_a_cause);
    tcase_add_test(tcase, words_of_the_watched_stay);
    tcase_add_test(tcase, words_that_a_sentence_has_already);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
