/* tests/driver/test_core_dying.c - a death that is known before the exit: the
 * worker is dead at once (M5), its slot is its own until the exit. Transcripts
 * of the driver's core. See fixture.h for the words. */
#include "driver/fixture.h"

START_TEST(dying_member_is_dead_and_keeps_its_slot)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, dying("w2", 3));
    expect(f, "abort 1, w2 died: w1 w3\n");
    at(f, 20, ready_lost("w1 w3"));
    expect(f, "assign 2: w1 w3\n");
    pass(f, 4000); /* the kernel frees its memory all the time */
    expect(f, "");
    at(f, 4000, exited("w2", 3));
    pass(f, 4500);
    expect(f, "spawn: w4@a:1\n");
    fixture_free(f);
}
END_TEST

START_TEST(dying_is_one_failure_with_the_exit)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1,
                                       .slot_restarts = 1);

    run(f, "a:2");
    at(f, 10, dying("w2", -1));
    at(f, 11, dying("w2", -1)); /* told again */
    at(f, 12, exited("w2", 3));
    at(f, 13, dying("w2", -1)); /* by another way, which took longer */
    at(f, 20, ready_lost("w1"));
    pass(f, 700);
    expect(f, "abort 1, w2 died: w1\nassign 2: w1\nspawn: w3@a:1\n");
    fixture_free(f);
}
END_TEST

/* The last sentence of the job says how it ended. */
START_TEST(dying_without_a_status_is_explained_by_the_exit)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:2");
    at(f, 10, dying("w2", -1));
    ck_assert_str_eq(f->driver.last_failure, "worker 2 (a:1) has died");
    at(f, 20, exited("w2", 3));
    ck_assert_str_eq(f->driver.last_failure,
                     "worker 2 (a:1) exited with status 3");
    fixture_free(f);
}
END_TEST

/* It says so itself, and why: a death like others, and it is answered. */
START_TEST(member_that_gives_up_is_dead_for_its_reason)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2,
                                       .slot_restarts = 1);

    run(f, "a:3");
    at(f, 10, leaving_alone("w2", "no more data"));
    expect(f, "abort 1, w2 died: w1 w3\nshutdown failed: w2\n");
    ck_assert_str_eq(f->driver.last_failure,
                     "worker 2 (a:1) gave up: no more data");
    at(f, 15, leaving_alone("w2", "no more data")); /* it has heard nothing */
    expect(f, "shutdown failed: w2\n");
    at(f, 20, ready_lost("w1 w3"));
    expect(f, "assign 2: w1 w3\n");
    at(f, 30, exited("w2", 1));
    pass(f, 700);
    expect(f, "spawn: w4@a:1\n"); /* one failure, not two */
    fixture_free(f);
}
END_TEST

/* It has not entered yet: nobody else hears of it. */
START_TEST(newcomer_that_gives_up_ends_nothing)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, hosts("a:2 b:1"));
    forget(f);
    at(f, 20, leaving_alone("w3", "no module named torch"));
    expect(f, "shutdown failed: w3\n");
    at(f, 30, exited("w3", 1));
    pass(f, 700);
    expect(f, "spawn: w4@b:0\n");
    fixture_free(f);
}
END_TEST

/* The rules of a static job know no loss that the others survive. */
START_TEST(member_of_a_static_job_that_gives_up_ends_it)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    at(f, 0, ready_static("w1 w2"));
    forget(f);
    at(f, 10, leaving_alone("w2", "no more data"));
    expect_part(f, "shutdown failed: w1 w2\n");
    at(f, 20, exited("w1 w2", 1));
    expect_part(f, "finish 1: a static job cannot go on after a loss: worker 2 "
                   "(a:1) gave up: no more data\n");
    fixture_free(f);
}
END_TEST

START_TEST(last_holder_that_gives_up_ends_the_job)
{
    struct fixture *f = fixture_create(.np = 1, .script = true);

    run(f, "a:1");
    at(f, 5, commits("w1"));
    at(f, 10, leaving_alone("w1", "no more data"));
    at(f, 20, exited("w1", 1));
    expect_part(f, "finish 1: nobody is left who holds the state: worker 1 "
                   "(a:0) gave up: no more data\n");
    fixture_free(f);
}
END_TEST

/* As after a death: the others have all there is. */
START_TEST(member_that_gives_up_beside_finished_ones_changes_nothing)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:2");
    at(f, 5, commits("w1 w2"));
    at(f, 10, done("w1"));
    at(f, 20, leaving_alone("w2", "no more data"));
    expect(f, "shutdown failed: w2\nrelease: w1\n");
    fixture_free(f);
}
END_TEST

START_TEST(drained_member_that_gives_up_is_no_failure)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2,
                                       .strict_blacklist = true);

    run(f, "a:2 b:1");
    at(f, 5, commits("w1 w2 w3"));
    at(f, 10, hosts("a:1 b:1"));
    forget(f);
    at(f, 20, leaving_alone("w2", "no more data"));
    expect(f, "abort 1, w2 died: w1 w3\nshutdown failed: w2\n");
    fixture_free(f);
}
END_TEST

/* The exit is lost, or the process that dies is one below a script. */
START_TEST(dying_is_killed_if_no_exit_follows)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, dying("w2", -1));
    at(f, 20, ready_lost("w1 w3"));
    expect(f, "abort 1, w2 died: w1 w3\nassign 2: w1 w3\n");
    pass(f, 4900);
    expect(f, "");
    pass(f, 5200);
    expect(f, "kill: w2\n");
    at(f, 5300, exited("w2", 0));
    pass(f, 5900);
    expect(f, "spawn: w4@a:1\n");
    fixture_free(f);
}
END_TEST

/* The program that was run by exec calls hvd_init. */
START_TEST(dying_by_exec_is_explained_by_a_second_hello)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:2");
    at(f, 10, dying("w2", -1));
    at(f, 20, hello("w2")); /* it was on its way */
    forget(f);
    at(f, 30, hello_from("w2", 4242));
    at(f, 40, hello_from("w2", 4242));
    expect(f, "warn: worker 2 (a:1) has called exec after hvd_init, which "
              "ends a worker -> call exec first\n");
    ck_assert_str_eq(f->driver.last_failure,
                     "worker 2 (a:1) has called exec after hvd_init, which "
                     "ends a worker -> call exec first");
    pass(f, 200);
    expect_part(f, "kill: w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(dying_counts_if_its_own_agent_says_so)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:1 b:1");
    at(f, 10, said_by("b", dying("w1", 1)));
    expect(f, "warn: the agent on b reports on worker 1 (a:0), which it does "
              "not run -> ignored\n");
    fixture_free(f);
}
END_TEST

/* How it ends decides whether the job has succeeded. */
START_TEST(dying_of_who_was_released_says_nothing)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, done("w1 w2"));
    expect(f, "release: w1 w2\n");
    at(f, 20, dying("w1 w2", -1));
    at(f, 30, exited("w1", 0));
    expect(f, "");
    at(f, 40, exited("w2", 3));
    expect_part(f, "worker 2 (a:1)");
    ck_assert_int_eq(f->driver.exit_status, 1);
    fixture_free(f);
}
END_TEST

START_TEST(dying_before_its_hello_is_a_failed_start)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:2");
    at(f, 10, hosts("a:3"));
    expect(f, "spawn: w3@a:2\n");
    at(f, 20, dying("w3", 1));
    at(f, 30, ready("w3")); /* its last words come late */
    expect(f, "");
    at(f, 40, exited("w3", 1));
    pass(f, 300);
    expect(f, "spawn: w4@a:2\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_dying");
    TCase *tcase = tcase_create("dying");

    tcase_add_test(tcase, dying_member_is_dead_and_keeps_its_slot);
    tcase_add_test(tcase, dying_is_one_failure_with_the_exit);
    tcase_add_test(tcase, dying_without_a_status_is_explained_by_the_exit);
    tcase_add_test(tcase, member_that_gives_up_is_dead_for_its_reason);
    tcase_add_test(tcase, newcomer_that_gives_up_ends_nothing);
    tcase_add_test(tcase, member_of_a_static_job_that_gives_up_ends_it);
    tcase_add_test(tcase, last_holder_that_gives_up_ends_the_job);
    tcase_add_test(tcase,
                   member_that_gives_up_beside_finished_ones_changes_nothing);
    tcase_add_test(tcase, drained_member_that_gives_up_is_no_failure);
    tcase_add_test(tcase, dying_is_killed_if_no_exit_follows);
    tcase_add_test(tcase, dying_by_exec_is_explained_by_a_second_hello);
    tcase_add_test(tcase, dying_counts_if_its_own_agent_says_so);
    tcase_add_test(tcase, dying_of_who_was_released_says_nothing);
    tcase_add_test(tcase, dying_before_its_hello_is_a_failed_start);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
