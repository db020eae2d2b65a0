/* tests/base/test_json.c - what is written is JSON, and the right one. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "support.h"

START_TEST(json_nested_values_get_their_commas)
{
    struct json j;

    json_init(&j);
    ck_assert_str_eq(json_text(&j), "");
    json_object_begin(&j, NULL);
    json_u64(&j, "a", UINT64_MAX);
    json_i64(&j, "b", INT64_MIN);
    json_array_begin(&j, "c");
    json_bool(&j, NULL, true);
    json_object_begin(&j, NULL);
    json_object_end(&j);
    json_array_begin(&j, NULL);
    json_array_end(&j);
    json_null(&j, NULL);
    json_array_end(&j);
    json_raw(&j, "d", "[1,2]", 5);
    json_str(&j, "e", NULL);
    json_bool(&j, "f", false);
    json_object_end(&j);
    json_newline(&j);
    json_u64(&j, NULL, 0);
    ck_assert_str_eq(json_text(&j),
                     "{\"a\":18446744073709551615,"
                     "\"b\":-9223372036854775808,"
                     "\"c\":[true,{},[],null],\"d\":[1,2],\"e\":null,"
                     "\"f\":false}\n0");
    json_reset(&j);
    ck_assert_str_eq(json_text(&j), "");
    json_fini(&j);
}
END_TEST

static const struct {
    const char *text, *expected;
} strings[] = {
    {"", "\"\""},
    {"a\"b\\c/", "\"a\\\"b\\\\c/\""},
    {"\n\t\r\x01\x7f", "\"\\n\\t\\u000d\\u0001\\u007f\""},
    {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
     "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\""},
    {"\xff", "\"\xef\xbf\xbd\""},
    {"a\xc3", "\"a\xef\xbf\xbd\""},               /* cut short */
    {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""}, /* overlong */
    {"\xe0\x80\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xed\xa0\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
    {"\xc3(", "\"\xef\xbf\xbd(\""},
};

START_TEST(json_str_escapes_and_repairs)
{
    struct json j;

    json_init(&j);
    json_str(&j, NULL, strings[_i].text);
    ck_assert_str_eq(json_text(&j), strings[_i].expected);
    json_fini(&j);
}
END_TEST

static const struct {
    double value;
    const char *expected;
} numbers[] = {
    {0, "0"},
    {-0.0, "0"},
    {1, "1"},
    {-1.5, "-1.5"},
    {0.1, "0.1"},
    {0.3, "0.3"},
    {12.345, "12.345"},
    {1e6, "1000000"},
    {100, "100"},
    {123456789012345, "123456789012345"},
    {0.00001, "0.00001"},
    {0.000001, "1e-6"},
    {1e15, "1e+15"},
    {1.5e300, "1.5e+300"},
    {2.5e-300, "2.5e-300"},
    {1.0 / 3, "0.333333333333333"},
    {2.0 / 3, "0.666666666666667"},
    {0.9999999999999999, "1"},
    {NAN, "null"},
    {INFINITY, "null"},
    {-INFINITY, "null"},
};

START_TEST(json_f64_is_short_and_plain)
{
    struct json j;

    json_init(&j);
    json_f64(&j, NULL, numbers[_i].value);
    ck_assert_str_eq(json_text(&j), numbers[_i].expected);
    json_fini(&j);
}
END_TEST

START_TEST(json_f64_reads_back_to_14_digits)
{
    static const double values[] = {DBL_MIN, 1e300,      5e-324, 4.9e-310,
                                    M_PI,    M_PI * 1e9, 1e-9,   123.456e-7};
    struct json j;
    double back;

    json_init(&j);
    json_f64(&j, NULL, values[_i]);
    back = strtod(json_text(&j), NULL);
    /* denormals have fewer digits to keep */
    ck_assert_msg(fabs(back - values[_i]) <=
                      (values[_i] < DBL_MIN ? 5e-324 : values[_i] * 1e-14),
                  "%s is not %.17g", json_text(&j), values[_i]);
    json_fini(&j);
}
END_TEST

START_TEST(json_scaled_has_exactly_its_decimals)
{
    struct json j;

    json_init(&j);
    json_array_begin(&j, NULL);
    json_scaled(&j, NULL, 1234567, 6);
    json_scaled(&j, NULL, 7, 6);
    json_scaled(&j, NULL, 0, 3);
    json_scaled(&j, NULL, 42, 0);
    json_array_end(&j);
    ck_assert_str_eq(json_text(&j), "[1.234567,0.000007,0.000,42]");
    json_fini(&j);
}
END_TEST

START_TEST(json_fixed_buffer_too_small_is_void)
{
    char buffer[8];
    struct json j;

    json_init_fixed(&j, buffer, sizeof(buffer));
    json_str(&j, NULL, "12345");
    ck_assert_str_eq(json_text(&j), "\"12345\"");
    json_u64(&j, NULL, 1);
    ck_assert_ptr_null(json_text(&j));
    json_reset(&j);
    json_u64(&j, NULL, 1);
    ck_assert_str_eq(json_text(&j), "1");
    json_fini(&j);
}
END_TEST

START_TEST(json_str_n_may_hold_a_nul)
{
    struct json j;

    json_init(&j);
    json_str_n(&j, NULL, "a\0b", 3);
    ck_assert_str_eq(json_text(&j), "\"a\\u0000b\"");
    json_fini(&j);
}
END_TEST

#define N(table) (int)(sizeof(table) / sizeof((table)[0]))

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *tcase = tcase_create("json");

    tcase_add_test(tcase, json_nested_values_get_their_commas);
    tcase_add_loop_test(tcase, json_str_escapes_and_repairs, 0, N(strings));
    tcase_add_loop_test(tcase, json_f64_is_short_and_plain, 0, N(numbers));
    tcase_add_loop_test(tcase, json_f64_reads_back_to_14_digits, 0, 8);
    tcase_add_test(tcase, json_scaled_has_exactly_its_decimals);
    tcase_add_test(tcase, json_fixed_buffer_too_small_is_void);
    tcase_add_test(tcase, json_str_n_may_hold_a_nul);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
