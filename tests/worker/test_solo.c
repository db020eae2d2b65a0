/* tests/worker/test_solo.c - a program started by hand is a world of one: the
 * public calls, through the library as a user links it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hvd/hvd.h>

#include "support.h"

enum { USER_CODE = -1001 };

static hvd_state_t *state;
static uint64_t counter, n_resets, n_calls;

static void set_up(void)
{
    counter = n_resets = n_calls = 0;
    ck_assert_int_eq(hvd_init(), HVD_OK);
    state = hvd_state_create();
    ck_assert_ptr_nonnull(state);
    ck_assert_int_eq(hvd_state_add(state, "counter", &counter, sizeof(counter)),
                     HVD_OK);
}

static void tear_down(void)
{
    hvd_state_destroy(state);
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
}

START_TEST(calls_before_init_are_refused)
{
    uint64_t x = 1;

    ck_assert_int_eq(hvd_rank(), -1);
    ck_assert_int_eq(hvd_size(), 0);
    ck_assert_int_eq(hvd_allreduce(&x, &x, 1, HVD_INT64, HVD_SUM),
                     HVD_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "hvd_init"));
    ck_assert_int_eq(hvd_join_world(), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
    hvd_request_drain();
    hvd_busy(10);
}
END_TEST

START_TEST(init_alone_is_a_world_of_one)
{
    ck_assert_int_eq(hvd_rank(), 0);
    ck_assert_int_eq(hvd_size(), 1);
    ck_assert_int_eq(hvd_local_rank(), 0);
    ck_assert_int_eq(hvd_local_size(), 1);
    ck_assert_int_eq(hvd_cross_rank(), 0);
    ck_assert_int_eq(hvd_cross_size(), 1);
    ck_assert_int_eq(hvd_slot(), 0);
    ck_assert_uint_eq(hvd_generation(), 1);
    ck_assert_int_eq(hvd_init(), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_abi_version(), 1);
    ck_assert_int_eq(hvd_join_world(), HVD_OK);
}
END_TEST

START_TEST(collectives_alone_copy)
{
    const size_t one = 1, zero = 0;
    float in = 3, out = 0;

    ck_assert_int_eq(hvd_allreduce(&in, &out, 1, HVD_FLOAT32, HVD_AVERAGE),
                     HVD_OK);
    ck_assert(out == in);
    out = 0;
    ck_assert_int_eq(hvd_allgather(&in, &out, 1, HVD_FLOAT32), HVD_OK);
    ck_assert(out == in);
    out = 0;
    ck_assert_int_eq(hvd_reduce_scatter(&in, &out, 1, HVD_FLOAT32, HVD_SUM),
                     HVD_OK);
    ck_assert(out == in);
    out = 0;
    ck_assert_int_eq(hvd_alltoall(&in, &out, 1, HVD_FLOAT32), HVD_OK);
    ck_assert(out == in);
    out = 0;
    ck_assert_int_eq(hvd_allgatherv(&in, 1, &out, &one, &zero, HVD_FLOAT32),
                     HVD_OK);
    ck_assert(out == in);
    out = 0;
    ck_assert_int_eq(
        hvd_alltoallv(&in, &one, &zero, &out, &one, &zero, HVD_FLOAT32),
        HVD_OK);
    ck_assert(out == in);
    ck_assert_int_eq(hvd_broadcast(&out, 1, HVD_FLOAT32, 0), HVD_OK);
    ck_assert_int_eq(hvd_broadcast(&out, 1, HVD_FLOAT32, 1), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_barrier(), HVD_OK);
    ck_assert_int_eq(hvd_state_sync(state), HVD_OK);
}
END_TEST

static hvd_status_t count_to_ten(hvd_state_t *s, void *arg)
{
    while (counter < 10) {
        counter++;
        HVD_TRY(hvd_state_commit(s));
    }
    return HVD_OK;
}

START_TEST(run_alone_trains_and_commits)
{
    ck_assert_int_eq(hvd_elastic_run(state, count_to_ten, NULL), HVD_OK);
    ck_assert_uint_eq(counter, 10);
    ck_assert_uint_ge(hvd_state_version(state), 11);
    /* finished state: the function returns at once */
    ck_assert_int_eq(hvd_elastic_run(state, count_to_ten, NULL), HVD_OK);
}
END_TEST

static hvd_status_t lose_once(hvd_state_t *s, void *arg)
{
    if (n_calls++ == 0) {
        counter = 5;
        HVD_TRY(hvd_state_commit(s));
        counter = 99;
        return HVD_PEER_LOST;
    }
    ck_assert_uint_eq(counter, 5);
    return HVD_OK;
}

static void count_resets(const hvd_reset_info_t *info, void *arg)
{
    ck_assert_int_eq(info->reason, HVD_RESET_PEER_LOST);
    ck_assert_int_eq(info->size, 1);
    ck_assert_int_eq(info->committed_size, 1);
    n_resets++;
}

START_TEST(run_alone_lost_restores_and_resets)
{
    ck_assert_int_eq(hvd_state_on_reset(state, count_resets, NULL), HVD_OK);
    ck_assert_int_eq(hvd_elastic_run(state, lose_once, NULL), HVD_OK);
    ck_assert_uint_eq(n_calls, 2);
    ck_assert_uint_eq(n_resets, 1);
    ck_assert_uint_eq(hvd_generation(), 2);
}
END_TEST

static hvd_status_t give_up(hvd_state_t *s, void *arg)
{
    ck_assert_int_eq(hvd_shutdown(), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_elastic_run(s, give_up, NULL), HVD_ERR_STATE);
    return (hvd_status_t)USER_CODE;
}

START_TEST(run_alone_user_code_passes_through)
{
    ck_assert_int_eq((int)hvd_elastic_run(state, give_up, NULL), USER_CODE);
    ck_assert_int_eq(hvd_elastic_run(state, NULL, NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_elastic_run(NULL, give_up, NULL), HVD_ERR_INVALID);
}
END_TEST

static hvd_status_t drain_oneself(hvd_state_t *s, void *arg)
{
    ck_assert_int_eq(hvd_state_check_host_updates(s), HVD_OK);
    counter = 7;
    hvd_request_drain();
    return hvd_state_check_host_updates(s);
}

START_TEST(run_alone_drained_commits_and_is_removed)
{
    ck_assert_int_eq(hvd_elastic_run(state, drain_oneself, NULL), HVD_REMOVED);
    counter = 0;
    ck_assert_int_eq(hvd_state_restore(state), HVD_OK);
    ck_assert_uint_eq(counter, 7);
}
END_TEST

START_TEST(forked_child_is_refused)
{
    int status;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(hvd_state_commit(state) == HVD_ERR_INVALID &&
                      hvd_barrier() == HVD_ERR_INVALID &&
                      hvd_init() == HVD_ERR_INVALID
                  ? 0
                  : 1);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(hvd_barrier(), HVD_OK);
}
END_TEST

START_TEST(init_bad_environment_names_the_variable)
{
    setenv("HVD_DRIVER", "tcp://127.0.0.1:1", 1);
    setenv("HVD_JOB", "1", 1);
    setenv("HVD_WORKER", "one", 1);
    ck_assert_int_eq(hvd_init(), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "HVD_WORKER"));
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "\"one\""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker solo");
    TCase *outside = tcase_create("outside"), *inside = tcase_create("inside");

    tcase_add_test(outside, calls_before_init_are_refused);
    tcase_add_test(outside, init_bad_environment_names_the_variable);
    suite_add_tcase(suite, outside);
    tcase_add_checked_fixture(inside, set_up, tear_down);
    tcase_add_test(inside, init_alone_is_a_world_of_one);
    tcase_add_test(inside, collectives_alone_copy);
    tcase_add_test(inside, run_alone_trains_and_commits);
    tcase_add_test(inside, run_alone_lost_restores_and_resets);
    tcase_add_test(inside, run_alone_user_code_passes_through);
    tcase_add_test(inside, run_alone_drained_commits_and_is_removed);
    tcase_add_test(inside, forked_child_is_refused);
    suite_add_tcase(suite, inside);
    return support_run(suite);
}
