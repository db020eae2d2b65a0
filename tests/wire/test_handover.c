/* tests/wire/test_handover.c - what an agent is told on its stdin: what is
 * written is read, in whatever pieces it comes, and nothing else is. */
#include "elastic/wire/handover.h"

#include <string.h>

#include "base/array.h"
#include "support.h"

static struct handover h;
static struct wire_secrets secrets;
static char text[HANDOVER_MAX];

static const struct handover_word words[] = {
    {"HVD_DRIVER", "tcp://127.0.0.1:4711"},
    {"HVD_HOST", "n1"},
    {"HVD_NOTICE_SCRIPT", NULL},
    {"HVD_LOG_LEVEL", "in = fo"},
};

static void setup(void)
{
    memset(&h, 0, sizeof(h));
    for (size_t i = 0; i < sizeof(secrets); i++)
        ((uint8_t *)&secrets)[i] = (uint8_t)(7 * i + 1);
}

static size_t write_words(void)
{
    size_t n = handover_write(text, words, ARRAY_SIZE(words), &secrets);

    ck_assert_uint_gt(n, 0);
    return n;
}

static void expect_whole(void)
{
    ck_assert_int_eq(h.state, HANDOVER_WHOLE);
    ck_assert_str_eq(handover_value(&h, "HVD_DRIVER"), "tcp://127.0.0.1:4711");
    ck_assert_str_eq(handover_value(&h, "HVD_HOST"), "n1");
    ck_assert_str_eq(handover_value(&h, "HVD_LOG_LEVEL"), "in = fo");
    ck_assert_ptr_null(handover_value(&h, "HVD_NOTICE_SCRIPT"));
    ck_assert_mem_eq(&h.secrets, &secrets, sizeof(secrets));
}

START_TEST(handover_is_read_as_written)
{
    size_t n = write_words();

    ck_assert_int_eq(handover_feed(&h, text, n), HANDOVER_WHOLE);
    expect_whole();
}
END_TEST

/* Some of the blank ones: `read` in a start-up file. */
START_TEST(handover_may_lack_its_first_lines)
{
    size_t n = write_words();

    ck_assert_mem_eq(text, "\n\n\n\n\n\n\n\nhvd-agent 1\n", 20);
    ck_assert_int_eq(handover_feed(&h, text + _i, n - (size_t)_i),
                     HANDOVER_WHOLE);
    expect_whole();
}
END_TEST

START_TEST(handover_comes_in_any_pieces)
{
    size_t n = write_words(), piece = (size_t)_i;

    for (size_t at = 0; at < n; at += piece) {
        ck_assert_int_eq(h.state, HANDOVER_MORE);
        handover_feed(&h, text + at, n - at < piece ? n - at : piece);
    }
    expect_whole();
}
END_TEST

START_TEST(handover_cut_anywhere_waits_for_more)
{
    size_t n = write_words();

    for (size_t cut = 0; cut < n; cut++) {
        memset(&h, 0, sizeof(h));
        ck_assert_int_eq(handover_feed(&h, text, cut), HANDOVER_MORE);
    }
}
END_TEST

START_TEST(handover_leaves_what_follows_alone)
{
    size_t n = write_words();

    memcpy(text + n, "\n\001\0more", 7);
    ck_assert_int_eq(handover_feed(&h, text, n + 7), HANDOVER_WHOLE);
    ck_assert_int_eq(handover_feed(&h, "x", 1), HANDOVER_WHOLE);
    expect_whole();
}
END_TEST

/* A secret is in memory once, where it is used. */
START_TEST(handover_keeps_no_digits_of_secrets)
{
    size_t n = write_words();
    const char *digits = strstr(text, "HVD_TOKEN = ") + 12;

    ck_assert_int_eq(handover_feed(&h, text, n), HANDOVER_WHOLE);
    ck_assert_ptr_null(memmem(h.buf, sizeof(h.buf), digits, 16));
}
END_TEST

START_TEST(handover_that_is_none_is_refused)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"hello\n", "line 1 of the handover is not \"hvd-agent 1\""},
        {"hvd-agent 2\n", "line 1 of the handover is not "
                          "\"hvd-agent 1\""},
        {"\n\nhello\n", "line 1 of the handover is not \"hvd-agent 1\""},
        {"hvd-agent 1\n\n", "line 2 of the handover is not "
                            "\"HVD_NAME = value\""},
        {"hvd-agent 1\nHVD_HOST=n1\n", "line 2 of the handover is not "
                                       "\"HVD_NAME = value\""},
        {"hvd-agent 1\nPATH = /bin\n", "line 2 of the handover is not "
                                       "\"HVD_NAME = value\""},
        {"hvd-agent 1\nHVD_HOST = a\rb\n",
         "line 2 of the handover has a character that no line can "
         "have"},
        {"hvd-agent 1\nHVD_HOST = a\nHVD_HOST = a\n",
         "line 3 of the handover says something twice"},
        {"hvd-agent 1\nHVD_TOKEN = 12ab\n",
         "line 2 of the handover has a secret that is not 64 "
         "hexadecimal digits"},
        {"hvd-agent 1\nHVD_HOST = a\nend\n",
         "line 3 of the handover ends it, and a secret is missing"},
    };

    ck_assert_int_eq(handover_feed(&h, rows[_i].text, strlen(rows[_i].text)),
                     HANDOVER_BAD);
    ck_assert_str_eq(h.text, rows[_i].why);
    ck_assert_int_eq(handover_feed(&h, "end\n", 4), HANDOVER_BAD);
}
END_TEST

START_TEST(handover_with_a_zero_byte_is_refused)
{
    ck_assert_int_eq(handover_feed(&h, "hvd-agent 1\n\0", 13), HANDOVER_BAD);
}
END_TEST

START_TEST(handover_without_end_is_refused_at_its_bound)
{
    handover_feed(&h, "hvd-agent 1\nHVD_HOST = ", 23);
    for (int i = 23; i < HANDOVER_MAX; i++)
        ck_assert_int_eq(handover_feed(&h, "x", 1), HANDOVER_MORE);
    ck_assert_int_eq(handover_feed(&h, "x", 1), HANDOVER_BAD);
    ck_assert_str_eq(h.text, "line 2 of the handover is beyond the "
                             "12288 bytes that it may have");
}
END_TEST

START_TEST(handover_of_too_many_words_is_refused)
{
    char line[32];

    handover_feed(&h, "hvd-agent 1\n", 12);
    for (int i = 0; i < HANDOVER_WORDS_MAX; i++) {
        int n = snprintf(line, sizeof(line), "HVD_%d = x\n", i);

        ck_assert_int_eq(handover_feed(&h, line, (size_t)n), HANDOVER_MORE);
    }
    ck_assert_int_eq(handover_feed(&h, "HVD_MORE = x\n", 13), HANDOVER_BAD);
}
END_TEST

START_TEST(handover_that_no_line_can_have_is_not_written)
{
    struct handover_word word = {"HVD_NOTICE_SCRIPT", "/a\nend"};
    static char path[HANDOVER_MAX];

    ck_assert_uint_eq(handover_write(text, &word, 1, &secrets), 0);
    memset(path, 'x', sizeof(path) - 1);
    word.value = path;
    ck_assert_uint_eq(handover_write(text, &word, 1, &secrets), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handover");
    TCase *tc = tcase_create("handover");

    tcase_add_checked_fixture(tc, setup, NULL);
    tcase_add_test(tc, handover_is_read_as_written);
    tcase_add_loop_test(tc, handover_may_lack_its_first_lines, 0,
                        HANDOVER_BLANK + 1);
    tcase_add_loop_test(tc, handover_comes_in_any_pieces, 1, 64);
    tcase_add_test(tc, handover_cut_anywhere_waits_for_more);
    tcase_add_test(tc, handover_leaves_what_follows_alone);
    tcase_add_test(tc, handover_keeps_no_digits_of_secrets);
    tcase_add_loop_test(tc, handover_that_is_none_is_refused, 0, 10);
    tcase_add_test(tc, handover_with_a_zero_byte_is_refused);
    tcase_add_test(tc, handover_without_end_is_refused_at_its_bound);
    tcase_add_test(tc, handover_of_too_many_words_is_refused);
    tcase_add_test(tc, handover_that_no_line_can_have_is_not_written);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
