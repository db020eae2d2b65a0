/* tests/driver/test_core_claims.c - who says it is a worker, and who reports on
 * one: what does not count, and that it is told of, as transcripts of the
 * driver's core. See fixture.h for the words. */
#include <string.h>

#include "driver/fixture.h"

/* Its peers are told the address of the first. */
START_TEST(hello_that_differs_is_refused_and_told_once)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    forget(f);
    at(f, 10, hello_from("w1", 999));
    expect(f, "warn: worker 1 (a:0) is pid 101 at 127.0.0.1:1001: HELLO of pid "
              "101 at 127.0.0.1:999 is refused\n");
    for (uint64_t ms = 11; ms < 20; ms++)
        at(f, ms, hello_from("w1", 998));
    ck_assert_uint_eq(worker(f, "w1")->port, 1001);
    at(f, 20, ready("w1 w2"));
    expect(f, "assign 1: w1 w2+sync\n");
    ck_assert_uint_eq(f->driver.table.entries[0].port, 1001);
    at(f, 30, hello_from("w1", 999)); /* of a member, too */
    at(f, 31, hello_from("w2", 999)); /* another worker, another line */
    expect_part(f, "warn: worker 2 (a:1) is pid 102 at ");
    ck_assert_uint_eq(worker(f, "w2")->port, 1002);
    fixture_free(f);
}
END_TEST

START_TEST(hello_that_is_the_same_is_welcome_again)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    for (uint64_t ms = 10; ms < 20; ms++)
        at(f, ms, hello("w1 w2"));
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* The process that was the worker is dead; a script that stands around it has
 * started another, which must not keep it alive. */
START_TEST(hello_that_differs_is_no_sign_of_life)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:2");
    f->workers[2].silent = true;
    for (uint64_t ms = 100; ms <= 2300; ms += 100) {
        pass(f, ms);
        at(f, ms, hello_from("w2", 999));
    }
    expect_part(f, "kill: w2\n");
    fixture_free(f);
}
END_TEST

/* Nobody has told its pid; nobody is it yet. */
START_TEST(hello_before_spawned_counts_once)
{
    struct fixture *f = fixture_create(.np = 1);

    f->no_spawns = true;
    at(f, 0, hosts("a:1"));
    at(f, 10, hello_from("w1", 777));
    at(f, 11, hello_from("w1", 778));
    ck_assert_int_eq(worker(f, "w1")->pid, 101);
    ck_assert_uint_eq(worker(f, "w1")->port, 777);
    at(f, 12, runs_as("w1", 44)); /* a shell around it */
    at(f, 13, hello_from("w1", 777));
    ck_assert_int_eq(worker(f, "w1")->pid, 44);
    at(f, 14, ready("w1"));
    expect(f, "start agent: a\nspawn: w1@a:0\n"
              "warn: worker 1 (a:0) is pid 101 at 127.0.0.1:777: HELLO of pid "
              "101 at 127.0.0.1:778 is refused\nassign 1: w1\n");
    fixture_free(f);
}
END_TEST

START_TEST(exit_told_by_another_agent_is_none)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:1 b:1");
    at(f, 10, said_by("a", killed("w2")));
    expect(f, "warn: the agent on a reports on worker 2 (b:0), which it does "
              "not run -> ignored\n");
    for (uint64_t ms = 11; ms < 20; ms++)
        at(f, ms, said_by("a", killed("w2")));
    ck_assert_ptr_nonnull(worker(f, "w2"));
    expect(f, "");
    at(f, 20, killed("w2"));
    expect(f, "abort 1, w2 died: w1\n");
    fixture_free(f);
}
END_TEST

START_TEST(spawns_told_by_another_agent_are_none)
{
    struct fixture *f = fixture_create(.np = 2);

    f->no_spawns = true;
    at(f, 0, hosts("a:1 b:1"));
    forget(f);
    at(f, 10, said_by("a", runs_as("w2", 1)));
    at(f, 11, said_by("a", spawn_fails("w2", "no such file")));
    expect(f, "warn: the agent on a reports on worker 2 (b:0), which it does "
              "not run -> ignored\n");
    ck_assert(!worker(f, "w2")->spawned);
    ck_assert_int_eq(f->n_records[RECORD_WORKER_SPAWNED], 0);
    at(f, 12, runs_as("w1 w2", 44));
    ck_assert_int_eq(worker(f, "w2")->pid, 44);
    fixture_free(f);
}
END_TEST

/* A later agent of that host has not done it. */
START_TEST(agent_that_meddled_is_named_once_and_its_successor_again)
{
    struct fixture *f = fixture_create(.np = 1, .min_np = 1);

    run(f, "a:1 b:1");
    at(f, 10, said_by("b", killed("w1")));
    at(f, 11, agent_gone("b"));
    forget(f);
    pass(f, 1000);
    ck_assert_int_eq(f->n_records[RECORD_AGENT_STARTED], 3);
    forget(f);
    at(f, 1010, said_by("b", killed("w1")));
    expect_part(f, "warn: the agent on b reports on worker 1 (a:0), ");
    fixture_free(f);
}
END_TEST

/* Its workers have been given up with it: they are nobody's. */
START_TEST(agent_that_was_given_up_reports_on_nobody)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);
    struct driver_event ev = {.type = DRIVER_EV_EXITED};
    const struct driver_action *actions;
    size_t n;

    run(f, "a:1 b:1");
    ev.by = worker(f, "w2") ? driver_host_of(&f->driver, worker(f, "w2"))->agent
                            : 0;
    strcpy(f->silent_host, "b");
    pass(f, 2200);
    ck_assert_ptr_null(worker(f, "w2"));
    ev.u.exited.worker = 1;
    ck_assert_int_eq(driver_step(&f->driver, &ev, f->now_us, &actions, &n),
                     HVD_OK);
    ck_assert_uint_eq(n, 0);
    ck_assert_ptr_nonnull(worker(f, "w1"));
    ck_assert(!driver_runs(&f->driver, ev.by, 1));
    ck_assert(driver_runs(
        &f->driver, driver_host_of(&f->driver, worker(f, "w1"))->agent, 1));
    ck_assert(!driver_runs(&f->driver, ev.by, 2));
    fixture_free(f);
}
END_TEST

/* Whoever damages what he gets has all that send it to him evicted, one after
 * the other. */
START_TEST(m5_who_outlasts_another_goes_next)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);
    uint64_t at_ms = 45;

    f->slow_workers = true; /* no replacement calls */
    run(f, "a:4");
    at(f, 10, lost("w1", 1, "0 3"));
    at(f, 20, ready_lost("w1 w2 w3 w4"));
    at(f, 30, lost("w1", 2, "0 3"));
    at(f, 40, ready_lost("w1 w2 w3 w4"));
    expect_part(f, "kill: w4\nassign 3: w1 w2 w3\n");
    if (_i == 1)
        at(f, at_ms, commits("w1 w2 w3")); /* it was w4 */
    at(f, at_ms + 10, lost("w1", 3, "0 2"));
    at(f, at_ms + 20, ready_lost("w1 w2 w3"));
    pass(f, at_ms + 5000); /* M12 makes pauses */
    expect_part(f, "assign 4: w1 w2 w3\n");
    at(f, at_ms + 5000, lost("w1", 4, "0 2"));
    at(f, at_ms + 5010, ready_lost("w1 w2 w3"));
    expect_part(f, _i == 0 ? "kill: w1\n" : "kill: w3\n");
    fixture_free(f);
}
END_TEST

/* Among many sources it is seldom the same one twice. */
START_TEST(m5_damage_with_two_others_is_told_from_theirs)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);
    bool receives = _i == 0;

    f->slow_workers = true;
    run(f, "a:4");
    at(f, 10, receives ? lost("w1", 1, "3 0") : lost("w2", 1, "0 1"));
    at(f, 20, ready_lost("w1 w2 w3 w4"));
    at(f, 30, receives ? lost("w1", 2, "2 0") : lost("w3", 2, "0 2"));
    at(f, 40, ready_lost("w1 w2 w3 w4"));
    expect_part(f, "kill: w1\nassign 3: w2 w3 w4\n");
    fixture_free(f);
}
END_TEST

/* Others die meanwhile, which explains why connections end, and not this. */
START_TEST(m5_damage_is_not_explained_by_a_death)
{
    struct fixture *f = fixture_create(.np = 5, .min_np = 2);

    f->slow_workers = true;
    run(f, "a:5");
    at(f, 10, lost("w1", 1, "3 0"));
    at(f, 15, killed("w5"));
    at(f, 20, ready_lost("w1 w2 w3 w4"));
    expect_part(f, "assign 2: w1 w2 w3 w4\n");
    at(f, 30, lost("w1", 2, "2 0"));
    at(f, 35, killed("w4"));
    at(f, 40, ready_lost("w1 w2 w3"));
    expect_part(f, "kill: w1\nassign 3: w2 w3\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_claims");
    TCase *tcase = tcase_create("core_claims");

    tcase_add_test(tcase, hello_that_differs_is_refused_and_told_once);
    tcase_add_test(tcase, hello_that_is_the_same_is_welcome_again);
    tcase_add_test(tcase, hello_that_differs_is_no_sign_of_life);
    tcase_add_test(tcase, hello_before_spawned_counts_once);
    tcase_add_test(tcase, exit_told_by_another_agent_is_none);
    tcase_add_test(tcase, spawns_told_by_another_agent_are_none);
    tcase_add_test(tcase,
                   agent_that_meddled_is_named_once_and_its_successor_again);
    tcase_add_test(tcase, agent_that_was_given_up_reports_on_nobody);
    tcase_add_loop_test(tcase, m5_who_outlasts_another_goes_next, 0, 2);
    tcase_add_loop_test(tcase, m5_damage_with_two_others_is_told_from_theirs, 0,
                        2);
    tcase_add_test(tcase, m5_damage_is_not_explained_by_a_death);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
