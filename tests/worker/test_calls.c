/* tests/worker/test_calls.c - where collectives may be called: real workers
 * against a scripted driver call them before a run and behind one, first in a
 * static program, and on another thread. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hvd/status.h>

#include "base/array.h"
#include "job.h"
#include "support.h"

static const struct state_id none = {0, 0};
static const int both[] = {0, 1};
static struct job *job;

static void set_up(void)
{
    job = job_create();
}

static void tear_down(void)
{
    job_destroy(job);
    job = NULL;
}

/* The worker has exited; that is what the call had returned. */
static void assert_said(int index, const char *call, hvd_status_t status,
                        const char *words)
{
    const char *text = job->workers[index].text;
    char line[256];

    snprintf(line, sizeof(line), "%s: %d: %s", call, (int)status, words);
    ck_assert_msg(strstr(text, line), "no \"%s\" of worker %d: %s", line, index,
                  text);
}

static void start(const char *scene)
{
    job_start(job, 2, scene);
    job_assign(job, 1, both, 2, none, 1, READY_START);
}

static void finish(void)
{
    for (int i = 0; i < 2; i++)
        job_expect(job, i, MSG_DONE);
    for (int i = 0; i < 2; i++)
        job_release(job, i, 1);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(job_wait(job, i), 0);
}

/* ---- outside of a training function -------------------------------------- */

START_TEST(collective_before_a_run_makes_a_static_program)
{
    start("before_run");
    finish();
    for (int i = 0; i < 2; i++) {
        assert_said(i, "barrier", HVD_OK, "");
        assert_said(i, "run", HVD_ERR_STATE,
                    "hvd_elastic_run: this program has joined the world as a "
                    "static one, by a collective");
        assert_said(i, "shutdown", HVD_OK, "");
    }
}
END_TEST

START_TEST(collectives_behind_a_run_have_its_last_world)
{
    static const char *const calls[] = {"run",         "sum",     "create",
                                        "sum by name", "state",   "commit",
                                        "status",      "shutdown"};

    start("behind_run");
    finish();
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(calls); k++)
            assert_said(i, calls[k], HVD_OK, "");
        ck_assert_ptr_nonnull(strstr(job->workers[i].text, "size 2, sum 4\n"));
        assert_said(i, "run again", HVD_ERR_STATE,
                    "hvd_elastic_run: the job's one run is over");
    }
}
END_TEST

START_TEST(collective_behind_a_run_that_others_have_left_is_lost)
{
    job->connect_timeout_ms = 300; /* what rank 1 does not take any more */
    start("alone_behind_run");
    finish();
    assert_said(0, "barrier", HVD_PEER_LOST, "");
    for (int i = 0; i < 2; i++)
        assert_said(i, "shutdown", HVD_OK, "");
}
END_TEST

/* With and without shared memory. A rank that is done goes at once, while the
 * others may still hear from one another. */
START_TEST(last_calls_of_all_ranks_are_completed)
{
    enum { N = 4 };
    const int all[] = {0, 1, 2, 3};

    setenv("HVD_TRANSPORT", _i == 0 ? "tcp" : "auto", 1);
    job_start(job, N, "last_words");
    job_assign(job, 1, all, N, none, 1, READY_START);
    for (int i = 0; i < N; i++)
        job_expect(job, i, MSG_DONE);
    for (int i = 0; i < N; i++)
        job_release(job, i, 1);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(job_wait(job, i), 0);
        assert_said(i, "sum by name", HVD_OK, "");
        assert_said(i, "sum", HVD_OK, "");
        assert_said(i, "shutdown", HVD_OK, "");
    }
}
END_TEST

START_TEST(collective_behind_a_run_that_failed_is_refused)
{
    start("behind_failure");
    job_expect(job, 0, MSG_LEAVING);
    for (int i = 0; i < 2; i++)
        job_shutdown(job, i, SHUTDOWN_FAILED, HVD_ERR_JOB_FAILED, "so be it");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(job_wait(job, i), 0);
        assert_said(i, "barrier", HVD_ERR_STATE,
                    "hvd_barrier: there is no world outside of the training "
                    "function");
    }
}
END_TEST

/* ---- the first call of a static program ---------------------------------- */

/* A queued one has all ranks as well when it returns. */
START_TEST(first_call_of_a_static_program_joins_the_world)
{
    static const char *const scenes[] = {"first_call", "first_queued"};

    start(scenes[_i]);
    finish();
    for (int i = 0; i < 2; i++) {
        assert_said(i, "first", HVD_OK, "");
        ck_assert_ptr_nonnull(strstr(job->workers[i].text, "size 2, sum 2\n"));
    }
}
END_TEST

START_TEST(first_call_without_a_world_returns_what_world_start_does)
{
    static const char *const scenes[] = {"first_call", "first_queued",
                                         "world_start"};
    static const char *const calls[] = {"hvd_allreduce", "hvd_allreduce",
                                        "hvd_world_start"};
    char words[128];

    job_start(job, 1, scenes[_i]);
    job_shutdown(job, 0, SHUTDOWN_FAILED, HVD_ERR_JOB_FAILED, "so be it");
    ck_assert_int_eq(job_wait(job, 0), 0);
    snprintf(words, sizeof(words), "%s: joining the world: so be it",
             calls[_i]);
    assert_said(0, "first", HVD_ERR_JOB_FAILED, words);
}
END_TEST

/* ---- calls by name on another thread ------------------------------------- */

START_TEST(call_by_name_of_another_thread_does_not_join_the_world)
{
    start("elsewhere_first");
    finish();
    for (int i = 0; i < 2; i++) {
        assert_said(i, "too early", HVD_ERR_STATE,
                    "hvd_allreduce: there is no world now");
        assert_said(i, "barrier", HVD_OK, "");
        assert_said(i, "later", HVD_OK, "");
    }
}
END_TEST

static struct msg_ping expect_busy(int index)
{
    struct message m;

    do
        m = job_expect(job, index, MSG_PING);
    while (m.u.ping.busy_ms == 0);
    return m.u.ping;
}

/* Worker 1 has not issued it yet. */
START_TEST(wait_by_name_of_the_training_thread_is_told)
{
    job->heartbeat_ms = 50;
    start("wait_here");
    while (!expect_busy(0).in_collective)
        continue;
    job_kill(job, 1, SIGUSR1);
    finish();
    assert_said(0, "run", HVD_OK, "");
}
END_TEST

START_TEST(wait_by_name_of_another_thread_is_not_told)
{
    enum { HEARTBEATS = 4 };

    job->heartbeat_ms = 50;
    start("wait_elsewhere");
    for (int i = 0; i < HEARTBEATS; i++)
        ck_assert(!expect_busy(0).in_collective);
    job_kill(job, 1, SIGUSR1);
    finish();
    assert_said(0, "run", HVD_OK, "");
}
END_TEST

/* ---- communicators of their members alone -------------------------------- */

START_TEST(group_is_made_by_its_members_alone)
{
    static const char *const calls[] = {"both", "sum", "destroy", "run"};
    static const char *const refused[] = {"order", "alone again", "not in it",
                                          "no name"};
    char line[64];

    start("groups");
    finish();
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(calls); k++)
            assert_said(i, calls[k], HVD_OK, "");
        snprintf(line, sizeof(line), "rank %d of 2, sum 2\n", i);
        ck_assert_ptr_nonnull(strstr(job->workers[i].text, line));
    }
    assert_said(1, "alone", HVD_OK, "");
    for (size_t k = 0; k < ARRAY_SIZE(refused); k++)
        assert_said(1, refused[k], HVD_ERR_INVALID, "hvd_comm_create_group: ");
}
END_TEST

/* ---- waits for the driver ------------------------------------------------ */

START_TEST(poll_function_ends_a_wait_for_the_driver)
{
    struct message m;

    job_start(job, 2, "polled");
    for (int i = 0; i < 2; i++) {
        m = job_expect(job, i, MSG_LEAVING);
        ck_assert_int_eq(m.u.leaving.status, HVD_USER_STATUS_MAX);
        job_shutdown(job, i, SHUTDOWN_FAILED, HVD_ERR_JOB_FAILED, "so be it");
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(job_wait(job, i), 0);
        assert_said(i, "run", HVD_USER_STATUS_MAX,
                    "the program's poll function returned -1000");
        ck_assert_ptr_nonnull(strstr(job->workers[i].text, "polls "));
    }
}
END_TEST

START_TEST(poll_function_ends_a_wait_at_a_boundary)
{
    start("polled_at_boundary");
    for (int i = 0; i < 2; i++)
        job_hold(job, i, 1, 1);
    for (int i = 0; i < 2; i++) {
        job_expect(job, i, MSG_LOST);
        job_shutdown(job, i, SHUTDOWN_FAILED, HVD_ERR_JOB_FAILED, "so be it");
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(job_wait(job, i), 0);
        assert_said(i, "stopped", HVD_USER_STATUS_MAX, "");
        assert_said(i, "again", HVD_PEER_LOST, "");
    }
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("worker calls");
    TCase *tcase = tcase_create("calls");

    if (argc != 2) {
        fprintf(stderr, "usage: %s CALLS_WORKER\n", argv[0]);
        return 2;
    }
    job_program = argv[1];

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, collective_before_a_run_makes_a_static_program);
    tcase_add_test(tcase, collectives_behind_a_run_have_its_last_world);
    tcase_add_test(tcase,
                   collective_behind_a_run_that_others_have_left_is_lost);
    tcase_add_loop_test(tcase, last_calls_of_all_ranks_are_completed, 0, 2);
    tcase_add_test(tcase, collective_behind_a_run_that_failed_is_refused);
    tcase_add_loop_test(tcase, first_call_of_a_static_program_joins_the_world,
                        0, 2);
    tcase_add_loop_test(
        tcase, first_call_without_a_world_returns_what_world_start_does, 0, 3);
    tcase_add_test(tcase,
                   call_by_name_of_another_thread_does_not_join_the_world);
    tcase_add_test(tcase, wait_by_name_of_the_training_thread_is_told);
    tcase_add_test(tcase, wait_by_name_of_another_thread_is_not_told);
    tcase_add_test(tcase, group_is_made_by_its_members_alone);
    tcase_add_test(tcase, poll_function_ends_a_wait_for_the_driver);
    tcase_add_test(tcase, poll_function_ends_a_wait_at_a_boundary);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
