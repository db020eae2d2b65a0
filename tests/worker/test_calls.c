/* tests/worker/test_calls.c - where collectives may be called: real workers
 * against a scripted driver call them before a run and behind one, first in a
 * static program, and on another thread. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <hvd/status.h>

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

START_TEST(collective_behind_a_run_is_refused)
{
    start("behind_run");
    finish();
    for (int i = 0; i < 2; i++) {
        assert_said(i, "run", HVD_OK, "");
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
    tcase_add_test(tcase, collective_behind_a_run_is_refused);
    tcase_add_loop_test(tcase, first_call_of_a_static_program_joins_the_world,
                        0, 2);
    tcase_add_loop_test(
        tcase, first_call_without_a_world_returns_what_world_start_does, 0, 3);
    tcase_add_test(tcase,
                   call_by_name_of_another_thread_does_not_join_the_world);
    tcase_add_test(tcase, wait_by_name_of_the_training_thread_is_told);
    tcase_add_test(tcase, wait_by_name_of_another_thread_is_not_told);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
