/* tests/driver/test_slurm.c - how many tasks a job of Slurm is made for. */
#include <stdlib.h>

#include "base/array.h"
#include "elastic/driver/slurm.h"
#include "support.h"

static const struct {
    const char *text;
    uint32_t expected;
} rows[] = {
    {"1", 1},        {"4(x3)", 12},
    {"2(x3),1", 7},  {"1,2,3(x2)", 9},
    {"100", 100},    {"101", 0}, /* more than there may be */
    {"50(x2),1", 0}, {"18446744073709551617", 0},
    {"", 0},         {"0", 0},
    {"2(x", 0},      {"2(x3", 0},
    {"2(x)", 0},     {"2(x0)", 0},
    {"2(y3)", 0},    {"2,", 0},
    {",2", 0},       {"2 (x3)", 0},
    {"-2", 0},       {"two", 0},
};

START_TEST(slurm_counts_tasks)
{
    ck_assert_uint_eq(slurm_count_tasks(rows[_i].text, 100), rows[_i].expected);
}
END_TEST

START_TEST(slurm_empty_words_are_none)
{
    setenv("SLURM_JOB_ID", "", 1);
    setenv("HVD_SLURM_JOB_NAME", "", 1);
    ck_assert_ptr_null(slurm_job());
    ck_assert_ptr_null(slurm_pool());
    ck_assert(!slurm_is_here());
    setenv("SLURM_JOB_ID", "17", 1);
    ck_assert_str_eq(slurm_job(), "17");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slurm");
    TCase *tcase = tcase_create("slurm");

    tcase_add_loop_test(tcase, slurm_counts_tasks, 0, (int)ARRAY_SIZE(rows));
    tcase_add_test(tcase, slurm_empty_words_are_none);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
