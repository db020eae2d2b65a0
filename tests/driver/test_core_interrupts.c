/* tests/driver/test_core_interrupts.c - Ctrl-C and other signals: the first
 * drains, a later one kills, as transcripts of the driver's core. See fixture.h
 * for the words. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "driver/fixture.h"

START_TEST(interrupt_drains_at_a_boundary)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, interrupted(15));
    expect(f, "hold 1, removed: w1 w2\n");
    leave_at(f, 20, "w1 w2", 3);
    expect(f, "cut 3: w1 w2\nshutdown drained: w1 w2\n");
    at(f, 30, exited("w1 w2", 0));
    expect(f, "stop agent: a\nfinish 143: interrupted\n");
    fixture_free(f);
}
END_TEST

START_TEST(interrupt_twice_kills)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, interrupted(2));
    at(f, 20, interrupted(2));
    expect(f, "hold 1, removed: w1 w2\nshutdown drained: w1 w2\n"
              "kill: w1 w2\n");
    at(f, 30, killed("w1 w2"));
    expect(f, "stop agent: a\nfinish 130: interrupted twice\n");
    fixture_free(f);
}
END_TEST

/* A terminal that closes: the kernel sends SIGHUP, and so does the shell. A
 * service manager sends SIGTERM and SIGHUP, timeout(1) SIGTERM to the process
 * and to its group. */
START_TEST(interrupt_that_asks_for_nothing_more_kills_nobody)
{
    static const int signals[][2] = {{SIGHUP, SIGHUP},  {SIGTERM, SIGHUP},
                                     {SIGINT, SIGHUP},  {SIGTERM, SIGTERM},
                                     {SIGHUP, SIGTERM}, {SIGUSR1, SIGTERM}};
    int first = signals[_i][0], second = signals[_i][1];
    struct fixture *f = fixture_create(.np = 2);
    char end[64];

    run(f, "a:2");
    at(f, 10, interrupted(first));
    at(f, 20, interrupted(second));
    if (second == SIGHUP)
        at(f, 5000, interrupted(second));
    expect(f, "hold 1, removed: w1 w2\n");
    leave_at(f, 5020, "w1 w2", 3);
    at(f, 5030, exited("w1 w2", 0));
    snprintf(end, sizeof(end), "finish %d: interrupted\n", 128 + first);
    expect_part(f, end);
    fixture_free(f);
}
END_TEST

START_TEST(interrupt_again_after_a_moment_kills)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, interrupted(SIGHUP));
    at(f, 1010, interrupted(SIGTERM));
    expect_part(f, "kill: w1 w2\n");
    at(f, 1030, killed("w1 w2"));
    expect(f, "stop agent: a\nfinish 143: interrupted twice\n");
    fixture_free(f);
}
END_TEST

/* The signal went to the workers, too, as service managers send it. */
START_TEST(interrupt_that_ends_the_workers_is_one_all_the_same)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 5, commits("w1 w2"));
    at(f, 10, interrupted(15));
    at(f, 20, killed("w1 w2"));
    expect_part(f, "finish 143: interrupted, and nobody is left who holds the "
                   "state: worker 2 (a:1) was killed by signal 9 (SIGKILL)\n");
    fixture_free(f);
}
END_TEST

START_TEST(interrupt_before_generation_1_stops_at_once)
{
    struct fixture *f = fixture_create(.np = 2);

    f->slow_workers = true;
    strcpy(f->slow_host, "b");
    at(f, 0, hosts("a:1 b:1"));
    at(f, 10, interrupted(2));
    expect(f, "start agent: a b\nspawn: w1@a:0\nkill: w1\nstop agent: b\n");
    at(f, 20, killed("w1"));
    expect(f, "stop agent: a\nfinish 130: interrupted\n");
    fixture_free(f);
}
END_TEST

START_TEST(interrupt_before_an_agent_has_called_is_told_when_it_calls)
{
    struct fixture *f = fixture_create(.np = 2);

    f->slow_workers = true;
    f->n_stops_lost = 1;
    strcpy(f->slow_host, "b");
    at(f, 0, hosts("a:1 b:1"));
    at(f, 10, interrupted(2));
    at(f, 20, killed("w1"));
    expect(f, "start agent: a b\nspawn: w1@a:0\nkill: w1\n"
              "stop agent: b a\n");
    at(f, 30, agent_up("b"));
    expect(f, "stop agent: b\nfinish 130: interrupted\n");
    fixture_free(f);
}
END_TEST

START_TEST(interrupt_below_the_gate_stops_at_once)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:1 b:1");
    at(f, 5, hosts("a:1"));
    at(f, 6, killed("w2"));
    at(f, 7, ready_lost("w1"));
    expect_part(f, "abort 1, w2 died: w1\n");
    at(f, 10, interrupted(2));
    expect(f, "shutdown drained: w1\n");
    fixture_free(f);
}
END_TEST

START_TEST(interrupt_that_nobody_heeds_ends_after_drain_timeout)
{
    struct fixture *f = fixture_create(.np = 2, .drain_ms = 3000);

    run(f, "a:2");
    at(f, 10, interrupted(2));
    at(f, 20, held("w1 w2", 1)); /* and no boundary comes */
    pass(f, 2900);
    expect(f, "hold 1, removed: w1 w2\ncut 2: w1 w2\n");
    pass(f, 3200);
    expect(f, "shutdown drained: w1 w2\n");
    at(f, 3300, killed("w1 w2"));
    expect(f, "stop agent: a\nfinish 130: interrupted; the workers did not "
              "drain within --drain-timeout\n");
    fixture_free(f);
}
END_TEST

/* Their epilogue is their own: the model is being written to a disk. */
START_TEST(interrupt_once_of_released_members_lets_them_end)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, done("w1 w2"));
    at(f, 20, interrupted(2));
    expect(f, "release: w1 w2\n");
    at(f, 30, exited("w1 w2", 0));
    expect(f, "stop agent: a\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(interrupt_twice_of_released_members_is_no_success)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, done("w1 w2"));
    at(f, 20, exited("w1", 0));
    at(f, 30, interrupted(2));
    at(f, 40, interrupted(2));
    expect(f, "release: w1 w2\nkill: w2\n");
    at(f, 50, killed("w2"));
    expect(
        f,
        "warn: worker 2 (a:1) had finished, but then was killed by "
        "signal 9 (SIGKILL)\nstop agent: a\nfinish 130: interrupted twice\n");
    fixture_free(f);
}
END_TEST

START_TEST(interrupt_of_a_job_that_finishes_is_success)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, done("w1"));
    at(f, 20, interrupted(2));
    at(f, 30, done("w2"));
    at(f, 40, exited("w1 w2", 0));
    expect(f, "release: w1 w2\nstop agent: a\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(a_generation_that_cannot_be_told_ends_the_job)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, unsayable(2, "of another one"));
    expect(f, "");
    at(f, 20, unsayable(1, "the table of 2 ranks is too large"));
    expect(f, "shutdown failed: w1 w2\n");
    at(f, 30, exited("w1 w2", 1));
    expect(f, "stop agent: a\nfinish 1: generation 1 cannot be formed: the "
              "table of 2 ranks is too large\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_interrupts");
    TCase *tcase = tcase_create("core_interrupts");

    tcase_add_test(tcase, interrupt_drains_at_a_boundary);
    tcase_add_test(tcase, interrupt_twice_kills);
    tcase_add_loop_test(
        tcase, interrupt_that_asks_for_nothing_more_kills_nobody, 0, 6);
    tcase_add_test(tcase, interrupt_again_after_a_moment_kills);
    tcase_add_test(tcase, interrupt_that_ends_the_workers_is_one_all_the_same);
    tcase_add_test(tcase, interrupt_before_generation_1_stops_at_once);
    tcase_add_test(tcase,
                   interrupt_before_an_agent_has_called_is_told_when_it_calls);
    tcase_add_test(tcase, interrupt_below_the_gate_stops_at_once);
    tcase_add_test(tcase, interrupt_that_nobody_heeds_ends_after_drain_timeout);
    tcase_add_test(tcase, interrupt_once_of_released_members_lets_them_end);
    tcase_add_test(tcase, interrupt_twice_of_released_members_is_no_success);
    tcase_add_test(tcase, interrupt_of_a_job_that_finishes_is_success);
    tcase_add_test(tcase, a_generation_that_cannot_be_told_ends_the_job);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
