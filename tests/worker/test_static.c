/* tests/worker/test_static.c - static programs against a scripted driver: how
 * they join the world, and how they learn of the end. */
#include <signal.h>
#include <stdio.h>
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

static void assert_says(int index, const char *words)
{
    ck_assert_msg(strstr(job->workers[index].text, words),
                  "worker %d printed: %s", index, job->workers[index].text);
}

static const char *const static_options[] = {"--steps 10 --static --count-fds",
                                             "--steps 10 --static --no-start",
                                             "--steps 10 --static --sync"};

START_TEST(static_program_finishes)
{
    job_start(job, 2, static_options[_i]);
    job_assign(job, 1, both, 2, none, 1, READY_START);
    for (int i = 0; i < 2; i++)
        job_expect(job, i, MSG_DONE);
    for (int i = 0; i < 2; i++)
        job_release(job, i, 1);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(job_wait(job, i), 0);
        assert_says(i, "steps 10");
    }
}
END_TEST

static const struct {
    enum shutdown_reason reason;
    hvd_status_t status;
    int code;
    const char *words;
} last_words[] = {
    {SHUTDOWN_DRAINED, HVD_OK, 0, "removed"},
    {SHUTDOWN_FAILED, HVD_ERR_JOB_FAILED, 1, "the job has failed: "},
};

static void assert_last_words(int i)
{
    job_shutdown(job, 0, last_words[i].reason, last_words[i].status, "enough");
    ck_assert_int_eq(job_wait(job, 0), last_words[i].code);
    assert_says(0, last_words[i].words);
}

/* The driver answers HELLO with the end. */
START_TEST(init_is_told_of_the_end)
{
    job_spawn(job, 0, "--steps 10");
    job_expect(job, 0, MSG_HELLO);
    assert_last_words(_i);
}
END_TEST

/* By hvd_world_start(). */
START_TEST(static_program_is_told_before_it_joins)
{
    job_start(job, 1, "--steps 10 --static");
    assert_last_words(_i);
    ck_assert_ptr_null(strstr(job->workers[0].text, "hvd_shutdown: "));
}
END_TEST

/* All calls have succeeded, so that hvd_shutdown() is the first to say it. */
START_TEST(static_program_is_told_by_shutdown)
{
    const int alone[] = {0};

    job_start(job, 1, "--steps 10 --static");
    job_assign(job, 1, alone, 1, none, 1, READY_START);
    job_expect(job, 0, MSG_DONE);
    assert_last_words(_i);
    assert_says(0, "hvd_shutdown: ");
}
END_TEST

START_TEST(static_program_loses_a_peer_and_ends)
{
    job_start(job, 2, "--steps 100000 --static");
    job_assign(job, 1, both, 2, none, 1, READY_START);
    job_expect_report(job, 0, REPORT_FIRST_COLLECTIVE);
    job_kill(job, 1, SIGKILL);
    ck_assert_uint_eq(job_expect(job, 0, MSG_LOST).u.lost.generation, 1);
    ck_assert_int_eq(job_wait(job, 0), 1);
    assert_says(0, "a peer was lost");
    assert_says(0, "hvd_shutdown: a peer was lost");
}
END_TEST

START_TEST(driver_silent_ends_a_static_program)
{
    job->heartbeat_ms = 50;
    job->driver_timeout_ms = 500;
    job->silent = true;
    job_start(job, 1, "--steps 100000 --static");
    ck_assert_int_eq(job_wait(job, 0), 1);
    assert_says(0, "the driver is gone");
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("worker static");
    TCase *tcase = tcase_create("static");

    if (argc != 2) {
        fprintf(stderr, "usage: %s CHAOS_WORKER\n", argv[0]);
        return 2;
    }
    job_program = argv[1];

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, static_program_finishes, 0,
                        (int)ARRAY_SIZE(static_options));
    tcase_add_loop_test(tcase, init_is_told_of_the_end, 0,
                        (int)ARRAY_SIZE(last_words));
    tcase_add_loop_test(tcase, static_program_is_told_before_it_joins, 0,
                        (int)ARRAY_SIZE(last_words));
    tcase_add_loop_test(tcase, static_program_is_told_by_shutdown, 0,
                        (int)ARRAY_SIZE(last_words));
    tcase_add_test(tcase, static_program_loses_a_peer_and_ends);
    tcase_add_test(tcase, driver_silent_ends_a_static_program);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
