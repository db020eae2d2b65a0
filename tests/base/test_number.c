/* tests/base/test_number.c - numbers that people write. */
#include "base/array.h"
#include "base/number.h"
#include "support.h"

static const struct {
    const char *text;
    uint64_t max, want;
    bool ok;
} sizes[] = {
    {"0", 0, 0, true},
    {"1", 0, 0, false},
    {"17", 100, 17, true},
    {"1K", 1024, 1024, true},
    {"1K", 1023, 0, false},
    {"128M", UINT64_MAX, 128 << 20, true},
    {"3G", UINT64_MAX, UINT64_C(3) << 30, true},
    {"18446744073709551615", UINT64_MAX, UINT64_MAX, true},
    {"18446744073709551616", UINT64_MAX, 0, false},
    {"18446744073709551615K", UINT64_MAX, 0, false},
    {"", UINT64_MAX, 0, false},
    {"K", UINT64_MAX, 0, false},
    {"-1", UINT64_MAX, 0, false},
    {"+1", UINT64_MAX, 0, false},
    {" 1", UINT64_MAX, 0, false},
    {"1 ", UINT64_MAX, 0, false},
    {"1k", UINT64_MAX, 0, false},
    {"1KB", UINT64_MAX, 0, false},
    {"1.5M", UINT64_MAX, 0, false},
};

START_TEST(number_size)
{
    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        uint64_t got = 7;
        bool ok = number_parse_size(sizes[i].text, sizes[i].max, &got);

        ck_assert_msg(ok == sizes[i].ok, "\"%s\"", sizes[i].text);
        ck_assert_msg(got == (ok ? sizes[i].want : 7), "\"%s\"", sizes[i].text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("number");
    TCase *tc = tcase_create("number");

    tcase_add_test(tc, number_size);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
