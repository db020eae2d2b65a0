/* tests/driver/test_core_end.c - the end of a job: release, verdicts, who does
 * not exit: the rule M14, as transcripts of the driver's core. See
 * fixture.h for the words. */
#include <string.h>

#include "driver/fixture.h"

/* ---- verdicts ------------------------------------------------------------ */

START_TEST(m14_success_is_when_all_members_are_released)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, hosts("a:3"));
    at(f, 20, done("w1"));
    expect(f, "spawn: w3@a:2\n");
    at(f, 25, done("w1"));
    at(f, 30, done("w2"));
    expect(f, "release: w1 w2\nshutdown finished: w3\n");
    at(f, 40, exited("w1 w3", 0));
    expect(f, "");
    at(f, 50, exited("w2", 0));
    expect(f, "stop agent: a\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_the_first_that_failed_is_known)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    f->slow_workers = true;
    at(f, 0, hosts("a:3"));
    at(f, 10, exited("w3", 1)); /* before there is a generation */
    at(f, 20, exited("w1", 1));
    ck_assert_uint_eq(f->driver.first_failed, 3);
    at(f, 30, ready("w2"));
    pass(f, 3000);
    at(f, 3000, ready("w4"));
    ck_assert_uint_eq(f->driver.first_failed, 0);
    at(f, 3010, exited("w5", 1)); /* no member */
    ck_assert_uint_eq(f->driver.first_failed, 5);
    at(f, 3020, exited("w2", 1));
    at(f, 3030, exited("w4", 1));
    ck_assert_uint_eq(f->driver.first_failed, 2);
    fixture_free(f);
}
END_TEST

START_TEST(m14_released_members_have_all_the_time_they_want)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, done("w1 w2"));
    expect(f, "release: w1 w2\n");
    pass(f, 59000); /* rank 0 writes its model */
    expect(f, "");
    pass(f, 300000);
    expect(f, "warn: worker 1 (a:0), pid 101, has not exited 60 s after the "
              "end of training\nwarn: worker 2 (a:1), pid 102, has not exited "
              "60 s after the end of training\n");
    at(f, 300000, exited("w1 w2", 0));
    expect(f, "stop agent: a\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

#define STANDS_STILL(worker, slot, pid)                                 \
    "warn: worker " worker " (a:" slot "), pid " pid                    \
    ", has finished training, but sends no heartbeats any more: it is " \
    "stopped (SIGSTOP, a debugger), or hangs -> the job waits for its " \
    "exit; continue or kill it\n"

START_TEST(m14_released_member_that_stands_still_is_named)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    pass(f, 1000);
    at(f, 1000, done("w1 w2"));
    expect(f, "release: w1 w2\n");
    pass(f, 5000);
    f->workers[2].silent = true;
    pass(f, 6500); /* it may be late by as much */
    expect(f, "");
    pass(f, 7500);
    expect(f, STANDS_STILL("2", "1", "102"));
    pass(f, 20000); /* once, and it is not killed */
    f->workers[2].silent = false;
    pass(f, 22000);
    expect(f, "");
    f->workers[2].silent = true;
    pass(f, 25000);
    expect(f, STANDS_STILL("2", "1", "102"));
    at(f, 25000, exited("w1", 0));
    at(f, 25000, exited("w2", 0));
    expect(f, "stop agent: a\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

/* The worker was stopped before it heard RELEASE. */
START_TEST(m14_done_member_that_stands_still_is_named)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    pass(f, 1000);
    at(f, 1000, done("w1"));
    f->workers[1].silent = true;
    pass(f, 2000);
    at(f, 2000, done("w2"));
    expect(f, "release: w1 w2\n");
    pass(f, 3500);
    expect(f, STANDS_STILL("1", "0", "101"));
    fixture_free(f);
}
END_TEST

START_TEST(m14_silence_after_a_goodbye_means_nothing)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    pass(f, 1000);
    at(f, 1000, done("w1 w2"));
    at(f, 1000, says_goodbye("w1")); /* hvd_shutdown, then it computes */
    at(f, 1000, dying("w2", 0));     /* its memory is being freed */
    at(f, 1000, ping("w2", WORKER_LEFT, 0)); /* it was on its way */
    f->workers[1].silent = f->workers[2].silent = true;
    expect(f, "release: w1 w2\n");
    pass(f, 30000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* The host's network is the reason, and judged by rules of its own (M5). */
START_TEST(m14_released_member_of_a_silent_host_is_not_named)
{
    struct fixture *f = fixture_create(.np = 3);

    run(f, "a:1 b:1 c:1");
    pass(f, 1000);
    at(f, 1000, done("w1 w2 w3"));
    expect(f, "release: w1 w2 w3\n");
    snprintf(f->silent_host, sizeof(f->silent_host), "a b");
    f->workers[1].silent = f->workers[2].silent = true;
    pass(f, 9000);
    expect(f, "warn: 2 of 3 hosts are silent at once: the network of this "
              "machine may be cut -> nobody is given up before "
              "--driver-timeout\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_exit_that_got_lost_is_asked_for)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    f->no_spawns = true;
    at(f, 10, done("w1 w2"));
    expect(f, "release: w1 w2\n");
    at(f, 1020, agent_runs("a", 2));
    expect(f, "");
    at(f, 1030, exited("w1", 0));
    at(f, 1040, agent_runs("a", 1));
    expect(f, "");
    at(f, 1050, agent_runs("a", 0));
    expect(f, "spawn: w2@a:1\n"); /* its agent answers with the exit */
    at(f, 1060, exited("w2", 0));
    expect(f, "stop agent: a\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

/* What begins behind an absence is not put off by it. */
START_TEST(m14_deadline_set_after_an_absence_is_kept)
{
    struct fixture *f = fixture_create(.np = 2, .exit_ms = 5000);

    run(f, "a:2");
    pass(f, 1000);
    at(f, 101000, done("w1 w2")); /* no tick for 100 s, then the messages */
    expect(f, "release: w1 w2\n");
    pass(f, 105900);
    expect(f, "");
    pass(f, 106200);
    expect(f, "kill: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_last_death_while_the_others_are_done_is_success)
{
    struct fixture *f = fixture_create(.np = 3, .strict_blacklist = true);

    run(f, "a:3");
    at(f, 10, done("w1 w2"));
    at(f, 20, killed("w3"));
    expect(f, "release: w1 w2\n");
    at(f, 30, exited("w1 w2", 0));
    expect(f, "stop agent: a\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_ends_that_differ_are_a_mismatch)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    holds(f, "w1", 1, 5);
    holds(f, "w2", 1, 6);
    at(f, 10, done("w1 w2"));
    at(f, 20, exited("w1 w2", 1));
    expect(f, "shutdown failed: w1 w2\nstop agent: a\n"
              "finish 1: worker 1 (a:0) finished after commit 5, worker 2 "
              "(a:1) after commit 6: ranks must commit equally often\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_reset_limit)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1, .reset_limit = 1);

    run(f, "a:3");
    at(f, 5, commits("w1 w2 w3"));
    at(f, 10, killed("w3"));
    at(f, 20, ready_lost("w1 w2"));
    expect(f, "abort 1, w3 died: w1 w2\nassign 2: w1 w2\n");
    at(f, 25, commits("w1 w2"));
    at(f, 30, killed("w2"));
    at(f, 40, ready_lost("w1"));
    at(f, 50, exited("w1", 1));
    expect(f, "abort 2, w2 died: w1\nshutdown failed: w1\nstop agent: a\n"
              "finish 1: the number of resets has reached --reset-limit 1\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_below_min_np_for_elastic_timeout)
{
    struct fixture *f = fixture_create(.np = 2, .elastic_ms = 5000);

    at(f, 0, hosts("a:1"));
    at(f, 10, ready("w1"));
    pass(f, 5000);
    expect(f, "start agent: a\nspawn: w1@a:0\n");
    pass(f, 5200);
    expect(f, "shutdown failed: w1\n");
    at(f, 5300, exited("w1", 1));
    expect(f, "stop agent: a\nfinish 1: only 1 of 2 workers for longer than "
              "--elastic-timeout (5 s): discovery lists 1 slot on 1 host\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_below_min_np_says_what_discovery_lists)
{
    static const struct {
        const char *listed, *expected;
    } cases[] = {
        {"", "finish 1: only 0 of 2 workers for longer than "
             "--elastic-timeout (5 s): discovery lists no host\n"},
        {"a:0", "finish 1: only 0 of 2 workers for longer than "
                "--elastic-timeout (5 s): discovery lists 0 slots on 1 host\n"},
        {"a:0 b:0", "finish 1: only 0 of 2 workers for longer than "
                    "--elastic-timeout (5 s): discovery lists 0 slots on 2 "
                    "hosts\n"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture *f = fixture_create(.np = 2, .elastic_ms = 5000);

        at(f, 0, hosts(cases[i].listed));
        pass(f, 5000);
        expect(f, "");
        pass(f, 5200);
        expect_part(f, cases[i].expected);
        fixture_free(f);
    }
}
END_TEST

START_TEST(m14_flapping_does_not_restart_the_elastic_timeout)
{
    struct fixture *f = fixture_create(.np = 2, .elastic_ms = 5000,
                                       .slot_restarts = 30);

    run(f, "a:1 b:1");
    pass(f, 100);
    at(f, 110, killed("w1"));
    expect(f, "abort 1, w1 died: w2\nspawn: w3@a:0\n");
    /* w2 is in a long step: the gate is reached, nothing can close */
    for (uint64_t s = 1; s <= 4; s++) {
        char name[8] = {'w', (char)('2' + s), '\0'};

        pass(f, 1000 * s);
        at(f, 1000 * s, ready(name));
        at(f, 1000 * s + 100, killed(name));
    }
    pass(f, 5400);
    expect_part(f, "shutdown failed: w2 w5\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_nobody_left_with_state)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:2");
    at(f, 10, commits("w1 w2"));
    at(f, 15, hosts("a:3"));
    at(f, 16, ready("w3")); /* knows nothing */
    expect(f, "spawn: w3@a:2\nhold 1, added: w1 w2\n");
    at(f, 20, killed("w1"));
    at(f, 21, killed("w2"));
    expect(f, "abort 1, w1 died: w2\nshutdown failed: w3\n");
    at(f, 30, exited("w3", 1));
    expect(f, "stop agent: a\nfinish 1: nobody is left who holds the state: "
              "worker 2 (a:1) was killed by signal 9 (SIGKILL)\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_state_lost_in_a_sync_is_found_out_at_close)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:2");
    at(f, 10, commits("w1 w2"));
    at(f, 15, hosts("a:2 b:1"));
    at(f, 16, ready("w3"));
    leave_at(f, 20, "w1 w2", 2);
    holds(f, "w3", 0, 0); /* killed before it had received anything */
    at(f, 30, killed("w1 w2"));
    at(f, 40, ready_lost("w3"));
    at(f, 50, exited("w3", 1));
    expect_part(f,
                "finish 1: nobody is left who holds the state; last "
                "failure: worker 2 (a:1) was killed by signal 9 (SIGKILL)\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_before_any_commit_the_lowest_rank_serves_anew)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 20, killed("w1 w2"));
    expect(f, "abort 1, w1 died: w2\nspawn: w3@a:0 w4@a:1\n");
    at(f, 30, ready("w3 w4"));
    expect(f, "assign 2: w3 w4+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_static_job_ends_with_its_first_loss)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready_static("w1 w2"));
    expect_part(f, "assign 1: w1 w2");
    at(f, 20, hosts("a:2 b:1")); /* takes nobody */
    at(f, 30, exited("w1", 2));
    at(f, 40, exited("w2", 1));
    expect(f, "shutdown failed: w2\nstop agent: a\n"
              "finish 1: a static job cannot go on after a loss: worker 1 "
              "(a:0) exited with status 2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_static_loss_is_explained_by_the_exit_behind_it)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready_static("w1 w2"));
    expect_part(f, "assign 1: w1 w2");
    at(f, 20, lost("w2", 1, "0"));
    at(f, 21, ready_lost("w2"));
    at(f, 22, leaving_lost("w2", "rank 0 is lost to rank 1"));
    at(f, 30, killed("w1"));
    at(f, 40, exited("w2", 1));
    expect(f, "abort 1: w1 w2\nshutdown failed: w2\nstop agent: a\n"
              "finish 1: a static job cannot go on after a loss: worker 1 "
              "(a:0) was killed by signal 9 (SIGKILL)\n");
    fixture_free(f);
}
END_TEST

/* It accuses itself too, of what it received: its own word is why it exits. */
START_TEST(m14_static_loss_of_who_accuses_itself_has_its_sentence)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready_static("w1 w2"));
    expect_part(f, "assign 1: w1 w2");
    at(f, 20, lost("w2", 1, "0 1"));
    at(f, 21, ready_lost("w2"));
    at(f, 30, exited("w2", 1));
    expect(f, "abort 1: w1 w2\nshutdown failed: w1\n");
    at(f, 40, exited("w1", 1));
    expect(f, "stop agent: a\n"
              "finish 1: a static job cannot go on after a loss: worker 2 "
              "(a:1): connection reset\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_static_loss_without_an_exit_stops_the_job)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready_static("w1 w2"));
    expect_part(f, "assign 1: w1 w2");
    at(f, 20, lost("w2", 1, "0"));
    at(f, 30, ready_lost("w1 w2")); /* no second generation */
    pass(f, 900);
    expect(f, "abort 1: w1 w2\n");
    pass(f, 1200);
    expect(f, "shutdown failed: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_program_that_does_not_exist)
{
    struct fixture *f = fixture_create(.np = 2);

    f->slow_workers = true;
    f->no_spawns = true;
    at(f, 0, hosts("a:2"));
    at(f, 10, spawn_fails("w1", "./trian: No such file or directory"));
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1\n"
              "no start: a: ./trian: No such file or directory\n");
    at(f, 20, spawn_fails("w2", "./trian: No such file or directory"));
    expect(f, "kill: w2\nstop agent: a\n"
              "finish 1: host a: ./trian: No such file or directory\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_workers_that_ignore_the_end_are_killed)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, leaving("w1", "wrong"));
    at(f, 20, exited("w1", 1));
    expect(f, "shutdown failed: w1 w2\n");
    pass(f, 5200);
    expect(f, "kill: w2\n");
    pass(f, 14900);
    expect(f, "kill: w2\n");
    pass(f, 15200); /* and whatever happens, it ends */
    expect(f, "kill: w2\nwarn: worker 2 (a:1), pid 102, could not be killed, "
              "and is left behind\nfinish 1: worker 1 (a:0) failed: wrong\n");
    ck_assert_uint_eq(driver_deadline(&f->driver), DRIVER_NEVER);
    fixture_free(f);
}
END_TEST

/* ---- who does not exit --------------------------------------------------- */

START_TEST(m14_who_lingers_too_long_is_killed)
{
    struct fixture *f = fixture_create(.np = 2, .exit_ms = 5000);

    run(f, "a:2");
    at(f, 10, done("w1 w2"));
    at(f, 20, exited("w1", 0));
    pass(f, 5000);
    expect(f, "release: w1 w2\n");
    pass(f, 5200);
    expect(f, "kill: w2\n");
    at(f, 5300, killed("w2"));
    expect(f, "warn: worker 2 (a:1) had finished, but then was killed by "
              "signal 9 (SIGKILL)\nstop agent: a\nfinish 1: worker 2 (a:1) had "
              "finished, but then did not exit within --exit-timeout\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_after_another_has_failed_it_is_killed_too)
{
    struct fixture *f = fixture_create(.np = 2, .exit_ms = 5000);

    run(f, "a:2");
    at(f, 10, done("w1 w2"));
    at(f, 20, exited("w1", 3));
    expect(f, "release: w1 w2\n");
    pass(f, 5200);
    expect(f, "warn: worker 2 (a:1) had finished, but then did not exit within "
              "--exit-timeout\nkill: w2\n");
    at(f, 5300, killed("w2"));
    expect_part(f, "finish 1: worker 1 (a:0) had finished, but then exited "
                   "with status 3\n");
    fixture_free(f);
}
END_TEST

/* Its host is about to go, and it saves. */
START_TEST(m14_who_was_drained_before_keeps_its_time)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1, .drain_ms = 60000);

    run(f, "a:1 b:1");
    at(f, 10, commits("w1 w2"));
    at(f, 100, hosts("a:1"));
    leave_at(f, 110, "w1 w2", 3);
    at(f, 200, done("w1"));
    at(f, 210, exited("w1", 0));
    forget(f);
    pass(f, 50000);
    expect(f, "");
    at(f, 50000, exited("w2", 0));
    expect_part(f, "finish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_who_cannot_be_killed_is_left_behind)
{
    struct fixture *f = fixture_create(.np = 2, .exit_ms = 5000);

    run(f, "a:2");
    at(f, 10, done("w1 w2"));
    at(f, 20, exited("w1", 0));
    pass(f, 5200);
    expect(f, "release: w1 w2\nkill: w2\n");
    pass(f, 20000);
    expect(f, "kill: w2 w2\n");
    pass(f, 20500);
    expect(
        f,
        "kill: w2\nwarn: worker 2 (a:1), pid 102, could not be killed, and is "
        "left behind\nfinish 1: worker 2 (a:1) had finished, but then "
        "did not exit within --exit-timeout\n");
    fixture_free(f);
}
END_TEST

/* It was evicted before, and counts for nothing. */
START_TEST(m14_unkillable_from_before_spoils_nothing)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:2");
    f->workers[2].silent = true;
    pass(f, 2500);
    expect_part(f, "kill: w2\nabort 1, w2 died: w1\n");
    at(f, 2500, ready_lost("w1"));
    pass(f, 4000);
    at(f, 4000, done("w1"));
    at(f, 4010, exited("w1", 0));
    pass(f, 30000);
    expect_part(f, "warn: worker 2 (a:1), pid 102, could not be killed, and "
                   "is left behind\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_agent_lost_after_the_release_is_no_success)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:1 b:1");
    at(f, 10, done("w1 w2"));
    at(f, 20, exited("w1", 0));
    at(f, 30, agent_gone("b"));
    expect(f, "release: w1 w2\nstop agent: a\nfinish 1: worker 2 (b:0) had "
              "finished, but then died with its agent\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_end");
    TCase *tcase = tcase_create("core_end");

    tcase_add_test(tcase, m14_success_is_when_all_members_are_released);
    tcase_add_test(tcase, m14_the_first_that_failed_is_known);
    tcase_add_test(tcase, m14_released_members_have_all_the_time_they_want);
    tcase_add_test(tcase, m14_released_member_that_stands_still_is_named);
    tcase_add_test(tcase, m14_done_member_that_stands_still_is_named);
    tcase_add_test(tcase, m14_silence_after_a_goodbye_means_nothing);
    tcase_add_test(tcase, m14_released_member_of_a_silent_host_is_not_named);
    tcase_add_test(tcase, m14_exit_that_got_lost_is_asked_for);
    tcase_add_test(tcase, m14_deadline_set_after_an_absence_is_kept);
    tcase_add_test(tcase, m14_last_death_while_the_others_are_done_is_success);
    tcase_add_test(tcase, m14_ends_that_differ_are_a_mismatch);
    tcase_add_test(tcase, m14_reset_limit);
    tcase_add_test(tcase, m14_below_min_np_for_elastic_timeout);
    tcase_add_test(tcase, m14_below_min_np_says_what_discovery_lists);
    tcase_add_test(tcase, m14_flapping_does_not_restart_the_elastic_timeout);
    tcase_add_test(tcase, m14_nobody_left_with_state);
    tcase_add_test(tcase, m14_state_lost_in_a_sync_is_found_out_at_close);
    tcase_add_test(tcase, m14_before_any_commit_the_lowest_rank_serves_anew);
    tcase_add_test(tcase, m14_static_job_ends_with_its_first_loss);
    tcase_add_test(tcase, m14_static_loss_is_explained_by_the_exit_behind_it);
    tcase_add_test(tcase,
                   m14_static_loss_of_who_accuses_itself_has_its_sentence);
    tcase_add_test(tcase, m14_static_loss_without_an_exit_stops_the_job);
    tcase_add_test(tcase, m14_program_that_does_not_exist);
    tcase_add_test(tcase, m14_workers_that_ignore_the_end_are_killed);
    tcase_add_test(tcase, m14_who_lingers_too_long_is_killed);
    tcase_add_test(tcase, m14_after_another_has_failed_it_is_killed_too);
    tcase_add_test(tcase, m14_who_was_drained_before_keeps_its_time);
    tcase_add_test(tcase, m14_who_cannot_be_killed_is_left_behind);
    tcase_add_test(tcase, m14_unkillable_from_before_spoils_nothing);
    tcase_add_test(tcase, m14_agent_lost_after_the_release_is_no_success);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
