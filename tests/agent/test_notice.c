/* tests/agent/test_notice.c - what a notice script may print. */
#include <inttypes.h>
#include <string.h>

#include "elastic/agent/notice.h"
#include "support.h"

static const struct {
    const char *text, *expected;
} texts[] = {
    {"", "stays"},
    {" \n\t\r\n", "stays"},
    {"120\n", "goes in 120: "},
    {"0", "goes in 0: "},
    {"\n\n  30 \t spot instance:  terminate \r\nand more\n",
     "goes in 30: spot instance:  terminate"},
    {"1000000 far", "goes in 1000000: far"},
    {"90 \033[1m\xff\x7f~", "goes in 90: ?[1m??~"},
    {"18446744073709551621", "nonsense: 18446744073709551621"}, /* 2^64 + 5 */
    {"1000001", "nonsense: 1000001"},
    {"99999999999999999999999", "nonsense: 99999999999999999999999"},
    {"-5", "nonsense: -5"},
    {"5s", "nonsense: 5s"},
    {"2.5", "nonsense: 2.5"},
    {"drain 5", "nonsense: drain 5"},
    {"soon\n5\n", "nonsense: soon"},
};

static const char *parse(const char *text, size_t nbytes)
{
    static char said[2 * WIRE_TEXT_MAX];
    char why[WIRE_TEXT_MAX] = "?";
    uint64_t left_us = 0;

    switch (notice_parse(text, nbytes, &left_us, why)) {
    case NOTICE_STAYS:
        return "stays";
    case NOTICE_GOES:
        ck_assert_uint_eq(left_us % 1000000, 0);
        snprintf(said, sizeof(said), "goes in %" PRIu64 ": %s",
                 left_us / 1000000, why);
        break;
    case NOTICE_NONSENSE:
        snprintf(said, sizeof(said), "nonsense: %s", why);
        break;
    }
    return said;
}

START_TEST(notice_parse_says_what_is_meant)
{
    ck_assert_str_eq(parse(texts[_i].text, strlen(texts[_i].text)),
                     texts[_i].expected);
}
END_TEST

START_TEST(notice_parse_cuts_what_is_long)
{
    char text[5000];
    const char *said;

    memset(text, 'x', sizeof(text));
    said = parse(text, sizeof(text));
    ck_assert_uint_eq(strlen(said), strlen("nonsense: ") + WIRE_TEXT_MAX - 1);
    memcpy(text, "7 ", 2);
    said = parse(text, sizeof(text));
    ck_assert_uint_eq(strlen(said), strlen("goes in 7: ") + WIRE_TEXT_MAX - 1);
}
END_TEST

START_TEST(notice_parse_takes_any_bytes)
{
    ck_assert_str_eq(parse("1234", 2), "goes in 12: "); /* no NUL is there */
    ck_assert_str_eq(parse(" 5", 1), "stays");
    ck_assert_str_eq(parse("5\0 6", 4), "nonsense: 5? 6");
    ck_assert_str_eq(parse("5\n\0", 3), "goes in 5: ");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("agent notice");
    TCase *tcase = tcase_create("notice");

    tcase_add_loop_test(tcase, notice_parse_says_what_is_meant, 0,
                        sizeof(texts) / sizeof(texts[0]));
    tcase_add_test(tcase, notice_parse_cuts_what_is_long);
    tcase_add_test(tcase, notice_parse_takes_any_bytes);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
