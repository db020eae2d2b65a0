/* tests/sim/test_shrink.c - a run that fails is shown small: with a rule broken
 * on purpose, few of its faults are left, and the same invariant is violated.
 */
#include <string.h>

#include "base/array.h"
#include "shrink.h"
#include "support.h"

enum { SEEDS = 6000, MANY_FAULTS = 100 };

static struct sim_result result;

/* The first seed in which this bug is found among many faults. */
static struct sim_options failing(const char *bug, const char *violation)
{
    struct sim_options options = {.bug = sim_bug_find(bug),
                                  .less = SIM_LESS_NOTHING};

    for (; options.seed < SEEDS; options.seed++) {
        sim_run(&options, &result);
        if (!result.ok && result.n_faults >= MANY_FAULTS &&
            strstr(result.violation, violation) != NULL)
            return options;
    }
    ck_abort_msg("%s is not found", bug);
    return options;
}

/* Runs bound it here: time would make it another result each time. */
static struct shrink_report shrink_by_runs(struct sim_options *options)
{
    struct shrink_limits limits = {1000, UINT32_MAX};
    struct shrink_report report;

    shrink(options, &limits, &report);
    return report;
}

static const struct {
    const char *bug, *violation;
} bugs[] = {{"patient", "is silent for"},
            {"anylayout", "has another layout than"},
            {"latecommit", "starts from"}};

/* In all: now and then a run needs most of its own. */
START_TEST(few_faults_are_left_of_many)
{
    uint64_t n_before = 0, n_after = 0;

    for (size_t i = 0; i < ARRAY_SIZE(bugs); i++) {
        struct sim_options options = failing(bugs[i].bug, bugs[i].violation);
        struct shrink_report report = shrink_by_runs(&options);

        ck_assert_uint_ge(report.faults_before, MANY_FAULTS);
        n_before += report.faults_before;
        n_after += report.faults_after;
        sim_run(&options, &result);
        ck_assert(!result.ok);
        ck_assert_ptr_nonnull(strstr(result.violation, bugs[i].violation));
        ck_assert_uint_eq(result.n_faults, report.faults_after);
    }
    ck_assert_uint_le(n_after * 5, n_before);
}
END_TEST

START_TEST(it_is_a_function_of_the_seed)
{
    struct sim_options one = failing("noabort", ""), two = one;

    (void)shrink_by_runs(&one);
    (void)shrink_by_runs(&two);
    ck_assert_mem_eq(&one.less, &two.less, sizeof(one.less));
}
END_TEST

START_TEST(what_is_printed_is_understood)
{
    struct sim_less less = {.faults = 5,
                            .mishaps = 3,
                            .first_message = 7,
                            .last_message = UINT64_MAX};
    struct sim_less back;
    char text[SHRINK_TEXT_MAX];

    less.put_off_ms[4] = 1500;
    shrink_print(&less, text);
    ck_assert_str_eq(text, "5,3,7,18446744073709551615,4:1500");
    ck_assert(shrink_parse(text, &back));
    ck_assert_mem_eq(&back, &less, sizeof(back));
}
END_TEST

static const char *const nonsense[] = {
    "", "1", "1,2,3", "1,2,3,4,", "1,2,3,x", "1,2,3,4,64:1", "1;2;3;4"};

START_TEST(nonsense_is_refused)
{
    struct sim_less less;

    ck_assert(!shrink_parse(nonsense[_i], &less));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shrink");
    TCase *tc = tcase_create("shrink");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, few_faults_are_left_of_many);
    tcase_add_test(tc, it_is_a_function_of_the_seed);
    tcase_add_test(tc, what_is_printed_is_understood);
    tcase_add_loop_test(tc, nonsense_is_refused, 0,
                        sizeof(nonsense) / sizeof(nonsense[0]));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
