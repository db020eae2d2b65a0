/* tests/driver/test_core_failures.c - what a failure costs: starts that fail,
 * hosts that are lost, slots that fail. The rule M11, as transcripts of the
 * driver's core. See fixture.h for the words. */
#include <string.h>

#include "driver/fixture.h"

static void nothing_closed(const struct fixture *f)
{
    ck_assert_int_eq(f->n_records[RECORD_SLOT_CLOSED], 0);
    ck_assert_int_eq(f->n_records[RECORD_HOST_BLACKLISTED], 0);
}

START_TEST(m11_budget_delays_then_closes_the_slot)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:1 b:1"));
    at(f, 50, ready("w1"));
    expect(f, "start agent: a b\nspawn: w1@a:0 w2@b:0\n");
    at(f, 100, exited("w2", 1)); /* the first replacement starts at once */
    expect(f, "spawn: w3@b:0\n");
    at(f, 1000, exited("w3", 1)); /* the second after 0.5 s */
    pass(f, 1400);
    expect(f, "");
    pass(f, 1600);
    expect(f, "spawn: w4@b:0\n");
    at(f, 2000, exited("w4", 1)); /* the third after 1 s */
    pass(f, 2900);
    expect(f, "");
    pass(f, 3100);
    expect(f, "spawn: w5@b:0\n");
    at(f, 3200, exited("w5", 1));
    expect(f, "close b:0 for good: worker 5 (b:0) exited with status 1\n");
    pass(f, 20000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* On probation: one failure closes it again, for longer, until a worker has
 * lived there for ten minutes. */
START_TEST(m11_slot_that_was_closed_is_tried_again)
{
    struct fixture *f = fixture_create(.np = 1, .slot_restarts = 1,
                                       .start_ms = 3600000,
                                       .cooldown_low_ms = 1000,
                                       .cooldown_high_ms = 3000);

    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 20, hosts("a:2"));
    at(f, 30, exited("w2 w3", 1));
    expect_part(f, "spawn: w2@a:1 w3@a:1\nclose a:1 for 1");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    pass(f, 2200);
    expect(f, "spawn: w4@a:1\n");
    at(f, 2300, exited("w4", 1));
    expect_part(f, "close a:1 for 2");
    pass(f, 5400);
    expect(f, "spawn: w5@a:1\n");
    pass(f, 5400 + 601000);
    at(f, 5400 + 601000, exited("w5", 1));
    expect(f, "spawn: w6@a:1\n");
    fixture_free(f);
}
END_TEST

/* The others of its host, and their state, are not touched. */
START_TEST(m11_bad_slot_closes_that_slot)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1,
                                       .slot_restarts = 1);

    run(f, "a:2");
    at(f, 10, commits("w1 w2"));
    at(f, 20, exited("w2", 1));
    at(f, 30, ready_lost("w1"));
    pass(f, 700);
    expect_part(f, "assign 2: w1\nspawn: w3@a:1\n");
    at(f, 710, exited("w3", 1));
    expect(f, "close a:1 for good: worker 3 (a:1) exited with status 1\n");
    pass(f, 5000);
    expect(f, "");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    fixture_free(f);
}
END_TEST

START_TEST(m11_budgets_are_per_slot)
{
    struct fixture *f = fixture_create(.np = 2, .slot_restarts = 1);

    at(f, 0, hosts("a:4"));
    at(f, 10, exited("w1 w2 w3 w4", 1));
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1 w3@a:2 w4@a:3 w5@a:0 "
              "w6@a:1 w7@a:2 w8@a:3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_newcomer_that_dies_counts_and_members_notice_nothing)
{
    struct fixture *f = fixture_create(.np = 2, .slot_restarts = 1);

    run(f, "a:2");
    at(f, 10, commits("w1 w2"));
    at(f, 20, hosts("a:2 b:1"));
    at(f, 30, exited("w3", 1));
    at(f, 40, exited("w4", 1));
    expect(f, "start agent: b\nspawn: w3@b:0 w4@b:0\n"
              "close b:0 for good: worker 4 (b:0) exited with status 1\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    fixture_free(f);
}
END_TEST

/* A cut, or a machine that boots: its slots have nothing to do with it. */
START_TEST(m11_agent_lost_is_no_failure_of_a_slot)
{
    struct fixture *f = fixture_create(.np = 1, .slot_restarts = 1,
                                       .start_ms = 3600000);

    run(f, "a:2");
    at(f, 10, hosts("a:2 b:2"));
    for (uint64_t i = 1; i <= 6; i++) {
        uint64_t ms = 60000 * i;

        pass(f, ms);
        forget(f);
        at(f, ms, agent_gone("b")); /* at once: it was in use for a while */
        expect_part(f, "start agent: b\nspawn: w");
    }
    nothing_closed(f);
    fixture_free(f);
}
END_TEST

START_TEST(m11_host_that_is_lost_again_and_again_rests)
{
    struct fixture *f = fixture_create(.np = 1);

    run(f, "a:1 b:1");
    at(f, 10, commits("w1 w2"));
    at(f, 20, agent_gone("b"));
    at(f, 30, ready_lost("w1"));
    pass(f, 700);
    expect_part(f, "start agent: b\nspawn: w3@b:0\n");
    at(f, 710, agent_gone("b"));
    pass(f, 1300);
    expect(f, "");
    pass(f, 1800);
    expect(f, "start agent: b\nspawn: w4@b:0\n");
    fixture_free(f);
}
END_TEST

/* It may boot: it is tried as long as it is listed, more and more seldom, and
 * that is told once, and then now and then. */
START_TEST(m11_agent_that_never_comes_up_is_tried_again)
{
    struct fixture *f = fixture_create(.np = 1);
    uint64_t last_ms = 10, ms;
    size_t n_told;

    strcpy(f->slow_host, "b");
    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 10, hosts("a:1 b:4"));
    at(f, 10, agent_gone("b"));
    expect(f,
           "start agent: b\nno start: b: was killed by signal 9 (SIGKILL)\n");
    for (ms = 100; ms < 1000000; ms += 100) {
        pass(f, ms);
        if (f->driver.hosts[1].agent_phase != AGENT_STARTING)
            continue;
        ck_assert_uint_le(ms - last_ms, 30200);
        ck_assert_uint_le(ms - last_ms, 1200 + last_ms / 3);
        if (ms > 120000)
            ck_assert_uint_ge(ms - last_ms, 22000);
        last_ms = ms;
        at(f, ms, agent_gone("b"));
    }
    n_told = 0;
    for (const char *at = f->transcript; (at = strstr(at, "no start")); at++)
        n_told++;
    ck_assert_uint_ge(n_told, 3);
    ck_assert_uint_le(n_told, 6);
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    nothing_closed(f);
    fixture_free(f);
}
END_TEST

/* One that is listed anew is another one. */
START_TEST(m11_host_that_is_listed_again_is_tried_at_once)
{
    struct fixture *f = fixture_create(.np = 1);

    strcpy(f->slow_host, "b");
    run(f, "a:1");
    at(f, 10, hosts("a:1 b:1"));
    for (uint64_t ms = 10; ms < 60000; ms += 100) {
        pass(f, ms);
        if (f->driver.hosts[1].agent_phase == AGENT_STARTING)
            at(f, ms, agent_gone("b"));
    }
    pass(f, 60000);
    forget(f);
    at(f, 60000, hosts("a:1"));
    at(f, 60010, hosts("a:1 b:1"));
    expect(f, "start agent: b\n");
    fixture_free(f);
}
END_TEST

/* None of the hosts that are listed first can be reached: others may be listed,
 * and they may come. */
START_TEST(m11_hosts_that_cannot_be_reached_are_waited_for)
{
    struct fixture *f = fixture_create(.np = 1, .script = true,
                                       .elastic_ms = 60000);

    strcpy(f->slow_host, "a");
    at(f, 0, hosts("a:1"));
    for (uint64_t ms = 100; ms < 6000; ms += 100) {
        pass(f, ms);
        if (f->driver.hosts[0].agent_phase == AGENT_STARTING)
            at(f, ms, agent_gone("a"));
    }
    forget(f);
    at(f, 6000, hosts("a:1 b:1"));
    at(f, 6100, ready("w1"));
    expect(f, "start agent: b\nspawn: w1@b:0\nassign 1: w1\n");
    fixture_free(f);
}
END_TEST

START_TEST(m14_host_that_never_comes_is_named_at_the_end)
{
    struct fixture *f = fixture_create(.np = 1, .elastic_ms = 60000);

    strcpy(f->slow_host, "a");
    at(f, 0, hosts("a:1"));
    for (uint64_t ms = 100; ms < 61000; ms += 100) {
        pass(f, ms);
        if (f->driver.hosts[0].agent_phase == AGENT_STARTING)
            at(f, ms, agent_gone("a"));
    }
    expect_part(f, "finish 1: only 0 of 1 workers for longer than "
                   "--elastic-timeout (60 s); last failure: host a: was killed "
                   "by signal 9 (SIGKILL)\n");
    fixture_free(f);
}
END_TEST

/* Others can start it: what this host lacks is no reason to end. */
START_TEST(m11_program_that_one_host_lacks_is_its_trouble)
{
    struct fixture *f = fixture_create(.np = 1, .slot_restarts = 1);

    f->no_spawns = true;
    at(f, 0, hosts("a:1 b:1"));
    at(f, 10, spawn_fails("w1", "./train: No such file or directory"));
    expect(f, "start agent: a b\nspawn: w1@a:0 w2@b:0\n"
              "no start: a: ./train: No such file or directory\n");
    at(f, 20, spawned_late("w2"));
    at(f, 20, ready("w2"));
    expect(f, "assign 1: w2\n");
    pass(f, 1200);
    expect(f, "spawn: w3@a:0\n");
    at(f, 1200, spawn_fails("w3", "./train: No such file or directory"));
    pass(f, 2000);
    expect(f, "");
    pass(f, 2900);
    expect(f, "spawn: w4@a:0\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    fixture_free(f);
}
END_TEST

/* A fork is refused for longer than 10 s: with a fixed list of hosts the job
 * ends, as a person may wait; with a script other hosts may be listed. */
START_TEST(m14_job_that_cannot_begin_ends_after_a_while)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 2, .script = _i == 1);
    uint64_t id = 1;

    f->no_spawns = true;
    at(f, 0, hosts("a:2"));
    while (f->now_us < 13000000 && f->driver.phase < DRIVER_STOPPING) {
        if (f->driver.next_worker > id) {
            char name[24];

            snprintf(name, sizeof(name), "w%llu", (unsigned long long)id++);
            at(f, f->now_us / 1000, fork_fails(name));
        } else {
            pass(f, f->now_us / 1000 + 100);
        }
    }
    if (_i == 1)
        ck_assert_int_lt(f->driver.phase, DRIVER_STOPPING);
    else
        expect_part(f, "too few slots can be used for the job to begin; "
                       "last failure: host a: cannot fork");
    fixture_free(f);
}
END_TEST

/* b boots for 20 s, then a fork is refused there: that is another matter. */
START_TEST(m14_time_of_a_boot_is_no_refusal)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 2);

    snprintf(f->slow_host, sizeof(f->slow_host), "b");
    at(f, 0, hosts("a:1 b:1"));
    at(f, 50, ready("w1"));
    while (f->now_us < 20000000 ||
           f->driver.hosts[1].agent_phase != AGENT_STARTING) {
        if (f->driver.hosts[1].agent_phase == AGENT_STARTING)
            at(f, f->now_us / 1000, agent_gone("b"));
        pass(f, f->now_us / 1000 + 100);
    }
    f->no_spawns = true;
    at(f, f->now_us / 1000 + 50, agent_up("b"));
    at(f, f->now_us / 1000 + 50, fork_fails("w2"));
    ck_assert_int_lt(f->driver.phase, DRIVER_STOPPING);
    fixture_free(f);
}
END_TEST

/* Who runs there does so already. */
START_TEST(m11_start_that_fails_harms_no_running_worker)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1,
                                       .slot_restarts = 1);

    run(f, "a:3");
    at(f, 10, commits("w1 w2 w3"));
    at(f, 20, killed("w3"));
    at(f, 30, ready_lost("w1 w2"));
    f->no_spawns = true;
    pass(f, 700);
    expect_part(f, "spawn: w4@a:2\n");
    at(f, 700, fork_fails("w4"));
    expect(f, "no start: a: cannot fork\n");
    for (uint64_t id = 5; id <= 9; id++) {
        char name[8] = {'w', (char)('0' + id), '\0'};

        while (f->driver.next_worker <= id)
            pass(f, f->now_us / 1000 + 100);
        at(f, f->now_us / 1000, fork_fails(name));
    }
    f->no_spawns = false;
    forget(f);
    pass(f, 60000);
    expect(f, "spawn: w10@a:2\n");
    ck_assert_uint_eq(f->driver.counts.members, 2);
    nothing_closed(f);
    fixture_free(f);
}
END_TEST

/* With a script, others that have it may come. */
START_TEST(m14_program_that_is_missing_is_waited_for_with_a_script)
{
    struct fixture *f = fixture_create(.np = 1, .script = true);

    f->no_spawns = true;
    at(f, 0, hosts("a:1"));
    at(f, 10, spawn_fails("w1", "./train: No such file or directory"));
    pass(f, 1200);
    expect(f, "start agent: a\nspawn: w1@a:0\n"
              "no start: a: ./train: No such file or directory\n"
              "spawn: w2@a:0\n");
    fixture_free(f);
}
END_TEST

/* Nobody has become ready: it fails by itself. */
START_TEST(m14_program_that_never_becomes_ready_is_tried_twice)
{
    struct fixture *f = fixture_create(.np = 2, .script = _i == 1);

    at(f, 0, hosts("a:2"));
    at(f, 10, exited("w1 w2", 1));
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1 w3@a:0 w4@a:1\n");
    at(f, 20, exited("w3 w4", 1));
    expect(f, "close a:0 for good: worker 3 (a:0) exited with status 1\n"
              "close a:1 for good: worker 4 (a:1) exited with status 1\n"
              "stop agent: a\n"
              "finish 1: no worker became ready to train; last failure: worker "
              "4 (a:1) exited with status 1\n");
    fixture_free(f);
}
END_TEST

/* With a script other hosts may come. */
START_TEST(m14_worker_that_asks_to_leave_has_not_failed)
{
    struct fixture *f = fixture_create(.np = 1, .script = _i == 1);

    at(f, 0, hosts("a:1"));
    at(f, 10, hello("w1"));
    at(f, 20, drain_me("w1"));
    forget(f);
    at(f, 30, exited("w1", 0));
    expect(f, _i == 1 ? "" : "stop agent: a\nfinish 1: every slot is closed\n");
    fixture_free(f);
}
END_TEST

/* One never calls: the others go on without it. */
START_TEST(m6_start_timeout_lets_fewer_begin)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1, .start_ms = 3000);

    f->slow_workers = true;
    at(f, 0, hosts("a:3"));
    at(f, 10, hello("w1 w2"));
    at(f, 20, ready("w1 w2"));
    pass(f, 2900);
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1 w3@a:2\n");
    pass(f, 3300);
    expect(f, "kill: w3\nassign 1: w1 w2+sync\n");
    fixture_free(f);
}
END_TEST

/* It has called: it was started, whoever has lost the word of its agent. */
START_TEST(m11_program_that_has_called_can_be_started)
{
    struct fixture *f = fixture_create(.np = 2);

    f->no_spawns = true;
    at(f, 0, hosts("a:2"));
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1\n");
    at(f, 10, hello("w1"));
    at(f, 20, spawn_fails("w2", "./train: No such file or directory"));
    pass(f, 1200);
    expect(f, "no start: a: ./train: No such file or directory\n"
              "spawn: w3@a:1 w1@a:0\n"); /* the word of w1 is asked for */
    fixture_free(f);
}
END_TEST

START_TEST(m11_agent_that_hangs_at_its_start_is_given_up)
{
    struct fixture *f = fixture_create(.np = 2, .start_ms = 3000);

    strcpy(f->slow_host, "b");
    at(f, 0, hosts("a:1 b:1"));
    pass(f, 3000);
    expect(f, "start agent: a b\nspawn: w1@a:0\n");
    pass(f, 3200);
    expect(f,
           "kill: w1\nkill agent: b\nno start: b: did not come up in time\n");
    pass(f, 4400);
    expect_part(f, "start agent: b\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_failures");
    TCase *tcase = tcase_create("core_failures");

    tcase_add_test(tcase, m11_budget_delays_then_closes_the_slot);
    tcase_add_test(tcase, m11_slot_that_was_closed_is_tried_again);
    tcase_add_test(tcase, m11_bad_slot_closes_that_slot);
    tcase_add_test(tcase, m11_budgets_are_per_slot);
    tcase_add_test(tcase,
                   m11_newcomer_that_dies_counts_and_members_notice_nothing);
    tcase_add_test(tcase, m11_agent_lost_is_no_failure_of_a_slot);
    tcase_add_test(tcase, m11_host_that_is_lost_again_and_again_rests);
    tcase_add_test(tcase, m11_agent_that_never_comes_up_is_tried_again);
    tcase_add_test(tcase, m11_host_that_is_listed_again_is_tried_at_once);
    tcase_add_test(tcase, m11_hosts_that_cannot_be_reached_are_waited_for);
    tcase_add_test(tcase, m14_host_that_never_comes_is_named_at_the_end);
    tcase_add_test(tcase, m11_program_that_one_host_lacks_is_its_trouble);
    tcase_add_loop_test(tcase, m14_job_that_cannot_begin_ends_after_a_while, 0,
                        2);
    tcase_add_test(tcase, m14_time_of_a_boot_is_no_refusal);
    tcase_add_test(tcase, m11_start_that_fails_harms_no_running_worker);
    tcase_add_test(tcase,
                   m14_program_that_is_missing_is_waited_for_with_a_script);
    tcase_add_loop_test(
        tcase, m14_program_that_never_becomes_ready_is_tried_twice, 0, 2);
    tcase_add_loop_test(tcase, m14_worker_that_asks_to_leave_has_not_failed, 0,
                        2);
    tcase_add_test(tcase, m6_start_timeout_lets_fewer_begin);
    tcase_add_test(tcase, m11_program_that_has_called_can_be_started);
    tcase_add_test(tcase, m11_agent_that_hangs_at_its_start_is_given_up);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
