/* tests/base/test_verify_rule.c - which commits compare states. */
#include "base/verify_rule.h"

#include "base/array.h"
#include "support.h"

static const struct {
    const char *text;
    bool ok;
    struct verify_rule want;
} rules[] = {
    {"", true, {false, false, 0}},
    {"first", true, {false, false, 0}},
    {"first,warn", true, {false, true, 0}},
    {"off", true, {true, false, 0}},
    {"1", true, {false, false, 1}},
    {"100,warn", true, {false, true, 100}},
    {"18446744073709551615", true, {false, false, UINT64_MAX}},
    {"18446744073709551616", false, {false, false, 0}},
    {"0", false, {false, false, 0}},
    {"-1", false, {false, false, 0}},
    {" 1", false, {false, false, 0}},
    {"1 ", false, {false, false, 0}},
    {"1,", false, {false, false, 0}},
    {"1,warning", false, {false, false, 0}},
    {",warn", false, {false, false, 0}},
    {"warn", false, {false, false, 0}},
    {"off,warn", false, {false, false, 0}},
    {"offs", false, {false, false, 0}},
    {"firsts", false, {false, false, 0}},
};

START_TEST(rule_words)
{
    const struct verify_rule before = {true, true, 7};

    for (size_t i = 0; i < ARRAY_SIZE(rules); i++) {
        struct verify_rule got = before, want = before;

        if (rules[i].ok)
            want = rules[i].want;
        ck_assert_msg(verify_rule_parse(rules[i].text, &got) == rules[i].ok,
                      "\"%s\"", rules[i].text);
        ck_assert_msg(got.off == want.off && got.warns == want.warns &&
                          got.every == want.every,
                      "\"%s\"", rules[i].text);
    }
}
END_TEST

static int count(const char *text, uint64_t n)
{
    struct verify_rule rule = {.off = false};
    int found = 0;

    ck_assert(verify_rule_parse(text, &rule));
    for (uint64_t i = 1; i <= n; i++)
        found += verify_rule_applies(&rule, i);
    return found;
}

START_TEST(rule_applies_to_the_first_commits_and_each_nth)
{
    ck_assert_int_eq(count("first", 100), VERIFY_FIRST_COMMITS);
    ck_assert_int_eq(count("10", 100), VERIFY_FIRST_COMMITS + 10);
    ck_assert_int_eq(count("1", 100), 100);
    ck_assert_int_eq(count("off", 100), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify_rule");
    TCase *tc = tcase_create("verify_rule");

    tcase_add_test(tc, rule_words);
    tcase_add_test(tc, rule_applies_to_the_first_commits_and_each_nth);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
