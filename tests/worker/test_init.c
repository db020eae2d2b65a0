/* tests/worker/test_init.c - hvd_init() and before it: the config, where
 * lines of the log go, the environment. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hvd/hvd.h>

#include "made.h"
#include "support.h"

START_TEST(calls_before_init_are_refused)
{
    uint64_t x = 1;
    hvd_plan_t plan = {0};

    ck_assert_int_eq(hvd_rank(), -1);
    ck_assert_int_eq(hvd_size(), 0);
    ck_assert_int_eq(hvd_local_rank(), -1);
    ck_assert_int_eq(hvd_local_size(), 0);
    ck_assert_int_eq(hvd_cross_rank(), -1);
    ck_assert_int_eq(hvd_cross_size(), 0);
    ck_assert_uint_eq(hvd_generation(), 0);
    ck_assert_int_eq(hvd_elastic_run(NULL, NULL, NULL), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_allreduce(&x, &x, 1, HVD_INT64, HVD_SUM),
                     HVD_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "hvd_init"));
    ck_assert_int_eq(hvd_world_start(), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
    ck_assert_int_eq(hvd_generation_status(), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_plan(NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_plan(&plan), HVD_ERR_INVALID);
    plan.struct_size = sizeof(plan);
    ck_assert_int_eq(hvd_plan(&plan), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_hosts_pending(), HVD_HOSTS_UNCHANGED);
    hvd_abandon("nobody hears it");
    hvd_drain();
    hvd_busy_begin(10);
    hvd_busy_end();
}
END_TEST

static void keep_line(hvd_log_level_t level, const char *line, void *arg)
{
    ck_assert_int_eq(level, HVD_LOG_WARN);
    snprintf(arg, 256, "%s", line);
}

START_TEST(log_lines_go_to_the_program)
{
    hvd_config_t config = HVD_CONFIG_INIT;
    char line[256] = "";

    config.log_fn = keep_line;
    config.log_arg = line;
    setenv("HVD_LOG_LEVEL", "loud", 1);
    ck_assert_int_eq(hvd_init(&config), HVD_OK);
    ck_assert_str_eq(line, "hvd: warn: HVD_LOG_LEVEL: \"loud\" is none of "
                           "error, warn, info, debug, trace");
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
    config.struct_size = 0;
    ck_assert_int_eq(hvd_init(&config), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "hvd_init: config: "));
}
END_TEST

static void count_line(hvd_log_level_t level, const char *line, void *arg)
{
    ++*(int *)arg;
}

/* A line of the library: an entry was larger than in its snapshot. */
static void provoke_a_line(void)
{
    hvd_state_t *s = made_state();
    uint64_t entry[2] = {1, 2};

    ck_assert_int_eq(hvd_state_add(s, "x", entry, sizeof(*entry)), HVD_OK);
    ck_assert_int_eq(hvd_state_save(s), HVD_OK);
    ck_assert_int_eq(hvd_state_rebind(s, "x", entry, sizeof(entry)), HVD_OK);
    ck_assert_int_eq(hvd_state_restore(s), HVD_OK);
    hvd_state_destroy(s);
}

START_TEST(log_function_is_called_until_shutdown)
{
    hvd_config_t config = HVD_CONFIG_INIT;
    int n = 0;

    config.log_fn = count_line;
    config.log_arg = &n;
    setenv("HVD_LOG_LEVEL", "info", 1);
    ck_assert_int_eq(hvd_init(&config), HVD_OK);
    provoke_a_line();
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
    provoke_a_line();
    ck_assert_int_eq(n, 1);
}
END_TEST

START_TEST(log_function_is_not_called_after_a_failed_init)
{
    hvd_config_t config = HVD_CONFIG_INIT;
    int n = 0;

    config.log_fn = count_line;
    config.log_arg = &n;
    setenv("HVD_LOG_LEVEL", "info", 1);
    setenv("HVD_DRIVER", "tcp://127.0.0.1:1", 1);
    setenv("HVD_JOB", "one", 1);
    ck_assert_int_eq(hvd_init(&config), HVD_ERR_INVALID);
    provoke_a_line();
    ck_assert_int_eq(n, 0);
}
END_TEST

START_TEST(init_config_of_a_newer_release_is_unsupported)
{
    struct {
        hvd_config_t config;
        uint64_t newer;
    } big = {HVD_CONFIG_INIT, 1};

    big.config.struct_size = sizeof(big);
    ck_assert_int_eq(hvd_init(&big.config), HVD_ERR_UNSUPPORTED);
    big.newer = 0;
    ck_assert_int_eq(hvd_init(&big.config), HVD_OK);
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
}
END_TEST

START_TEST(init_bad_environment_names_the_variable)
{
    setenv("HVD_DRIVER", "tcp://127.0.0.1:1", 1);
    setenv("HVD_JOB", "1", 1);
    setenv("HVD_WORKER", "one", 1);
    ck_assert_int_eq(hvd_init(NULL), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "HVD_WORKER"));
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "\"one\""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker init");
    TCase *tcase = tcase_create("init");

    tcase_add_test(tcase, calls_before_init_are_refused);
    tcase_add_test(tcase, log_lines_go_to_the_program);
    tcase_add_test(tcase, log_function_is_called_until_shutdown);
    tcase_add_test(tcase, log_function_is_not_called_after_a_failed_init);
    tcase_add_test(tcase, init_config_of_a_newer_release_is_unsupported);
    tcase_add_test(tcase, init_bad_environment_names_the_variable);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
