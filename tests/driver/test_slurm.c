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

START_TEST(slurm_tasks_are_those_of_srun)
{
    static const char *const names[] = {"SLURM_NTASKS", "SLURM_NTASKS_PER_NODE",
                                        "SLURM_JOB_NUM_NODES",
                                        "SLURM_TASKS_PER_NODE"};
    static const struct {
        const char *values[ARRAY_SIZE(names)];
        uint32_t expected;
    } jobs[] = {
        {{"2", NULL, "2", "1(x2)"}, 2},  /* -N2 -n2 */
        {{NULL, NULL, "2", "4(x2)"}, 2}, /* -N2 --exclusive: 4 are CPUs */
        {{NULL, "2", "3", "2(x3)"}, 6},    {{NULL, NULL, NULL, "2(x3)"}, 6},
        {{"many", NULL, "2", "1(x2)"}, 0}, {{NULL, NULL, NULL, NULL}, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
        for (size_t k = 0; k < ARRAY_SIZE(names); k++)
            setenv(names[k], jobs[i].values[k] ? jobs[i].values[k] : "", 1);
        ck_assert_uint_eq(slurm_tasks(100), jobs[i].expected);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slurm");
    TCase *tcase = tcase_create("slurm");

    tcase_add_loop_test(tcase, slurm_counts_tasks, 0, (int)ARRAY_SIZE(rows));
    tcase_add_test(tcase, slurm_empty_words_are_none);
    tcase_add_test(tcase, slurm_tasks_are_those_of_srun);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
