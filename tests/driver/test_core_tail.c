/* tests/driver/test_core_tail.c - what a successor makes of a journal that
 * lacks its last entries: the living say the rest. M15, as transcripts. */
#include "driver/adoption.h"

START_TEST(any_tail_may_be_lost)
{
    struct fixture *f = trains(ALL);
    size_t n_lost = (size_t)_i;

    if (n_lost > f->n_entries) {
        fixture_free(f);
        return;
    }
    succeed(f, 1000, n_lost);
    agents_back(f, 1100);
    greets(f, 1200, ALL, training(1, 4));
    if (f->driver.phase == DRIVER_ADOPTING)
        pass(f, 6500);
    expect_part(f, "note: driver of term ");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    ck_assert_uint_eq(f->driver.generation, 1);
    ck_assert_uint_eq(f->driver.counts.members, 4);
    fixture_free(f);
}
END_TEST

/* It may be the only one that has trained: to begin without it would be to
 * begin anew. */
START_TEST(who_may_hold_the_state_is_waited_for)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1, .start_ms = 20000);

    run(f, "a:1 b:1");
    at(f, 100, commits("w1 w2"));
    f->slow_workers = true;
    succeed(f, 1000, f->n_entries - 4); /* of them it only knows the hosts */
    at(f, 1000, agent_gone("a"));
    agent_back(f, 1100, "b", 2, "w2@0"); /* is stopped */
    forget(f);
    pass(f, 20000);
    expect(f, "");
    ck_assert_int_eq(f->driver.phase, DRIVER_ADOPTING);
    greets(f, 20100, "w2", training(1, 2));
    expect_part(f, "abort 100: w2\n");
    at(f, 20200, ready_lost("w2"));
    expect_part(f, "assign 101: w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(who_may_hold_the_state_is_not_waited_for_for_ever)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1, .start_ms = 20000);

    run(f, "a:1 b:1");
    at(f, 100, commits("w1 w2"));
    f->slow_workers = true;
    succeed(f, 1000, f->n_entries - 4);
    at(f, 1000, agent_gone("a"));
    agent_back(f, 1100, "b", 2, "w2@0");
    forget(f);
    pass(f, 26200);
    expect_part(f, "kill: w2\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_WAITING);
    fixture_free(f);
}
END_TEST

START_TEST(who_is_told_of_late_on_a_blacklisted_host_is_lost)
{
    struct fixture *f = fixture_create(.np = 2, .strict_blacklist = true);
    size_t n;

    run(f, "a:2 b:1");
    at(f, 100, commits("w1 w2 w3"));
    n = f->n_entries;
    at(f, 200, killed("w1"));
    forget(f);
    succeed(f, 1000, 0);
    ck_assert_uint_gt(f->n_entries, n);
    agent_back(f, 1100, "b", 2, "w3@0");
    agent_back(f, 1100, "a", 1, "w2@1"); /* its KILL was lost */
    greets(f, 1200, "w3", training(1, 3));
    greets(f, 1200, "w2", training(1, 3));
    pass(f, 8000);
    expect_part(f, "kill: w2");
    ck_assert(worker_is_dead(worker(f, "w2")));
    fixture_free(f);
}
END_TEST

/* The worker has had no driver to tell that it is ready. */
START_TEST(start_timeout_begins_anew)
{
    struct fixture *f = fixture_create(.np = 2, .start_ms = 10000);

    run(f, "a:2");
    at(f, 100, commits("w1 w2"));
    at(f, 200, hosts("a:2 b:1"));
    succeed(f, 9000, 0);
    agent_back(f, 9100, "a", 1, "w1@0 w2@1");
    agent_back(f, 9100, "b", 2, "w3@0");
    greets(f, 9200, "w1 w2", training(1, 2));
    greets(f, 9200, "w3", newcomer(WORKER_JOINING));
    expect_part(f, "generation 1 goes on\n");
    pass(f, 18000);
    expect(f, "");
    pass(f, 20000);
    expect_part(f, "kill: w3\n");
    fixture_free(f);
}
END_TEST

/* The word that it has ended was lost. It is not asked to leave. */
START_TEST(worker_that_is_killed_is_killed_again)
{
    struct fixture *f = trains(ALL);

    f->workers[3].silent = true;
    pass(f, 3000);
    expect_part(f, "kill: w3\n");
    at(f, 3010, ready_lost("w1 w2 w4"));
    forget(f);
    succeed(f, 4000, 0);
    agents_back(f, 4100);
    greets(f, 4200, "w3", training(1, 4)); /* it was stopped */
    greets(f, 4200, "w1 w2 w4", training(2, 3));
    expect(f, "note: driver of term 4: generation 2 goes on\n");
    pass(f, 4400);
    expect(f, "kill: w3\n");
    at(f, 4410, killed("w3"));
    pass(f, 4600);
    expect(f, "spawn: w1001@b:0\n");
    fixture_free(f);
}
END_TEST

/* The younger one was started when the driver before had given it up. */
START_TEST(older_agent_of_a_host_is_killed)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agents_back(f, 1100);
    forget(f);
    agent_back(f, 1110, "a", 5, "");
    expect_part(f, "kill agent: a\n");
    fixture_free(f);
}
END_TEST

/* ASSIGN was said to all, and none has heard it. */
START_TEST(generation_that_nobody_has_heard_of_is_void)
{
    struct fixture *f = trains(ALL);
    struct msg_where left = joining(READY_UPDATED, 1, 1, 4);

    at(f, 150, hosts("a:2 b:2 c:1"));
    at(f, 200, ready("w5"));
    at(f, 210, held(ALL, 6));
    at(f, 220, ready_updated(ALL));
    expect_part(f, "assign 2: w1 w2 w3 w4 w5+sync\n");
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    agent_back(f, 1100, "c", 3, "w5@0");
    greets(f, 1200, "w5", newcomer(WORKER_JOINING));
    forget(f);
    greets(f, 1200, ALL, left);
    expect_part(f, "has ended, as not all of it are here any more\n"
                   "abort 100: w1 w2 w3");
    fixture_free(f);
}
END_TEST

/* The job may have had generations that a successor has not heard of. */
START_TEST(other_layout_after_it_is_refused_alone)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready("w1"));
    succeed(f, 1000, 0);
    agent_back(f, 1100, "a", 1, "w1@0 w2@1");
    greets(f, 1200, "w1 w2", newcomer(WORKER_IDLE));
    at(f, 1300, ready_layout("w2", "other f32[1]"));
    expect_part(f, "shutdown failed: w2\n"
                   "close a:1 for good: state layouts differ");
    ck_assert_int_eq(f->driver.phase, DRIVER_WAITING);
    fixture_free(f);
}
END_TEST

START_TEST(worker_that_was_replaced_unseen_gives_way)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);
    size_t n;

    run(f, "a:2");
    at(f, 100, commits("w1 w2"));
    n = f->n_entries;
    at(f, 200, killed("w2"));
    at(f, 210, ready_lost("w1"));
    pass(f, 1000);
    forget(f);
    succeed(f, 1100, f->n_entries - n);
    agent_back(f, 1200, "a", 1, "w1@0 w3@1");
    greets(f, 1300, "w1", training(2, 1));
    greets(f, 1300, "w3", newcomer(WORKER_JOINING));
    expect(f, "note: driver of term 4: generation 2 goes on\n");
    ck_assert_ptr_null(worker(f, "w2"));
    ck_assert_ptr_nonnull(worker(f, "w3"));
    fixture_free(f);
}
END_TEST

/* Whoever has ended had been started: the program exists. */
START_TEST(one_that_cannot_be_started_now_ends_nothing)
{
    struct fixture *f = fixture_create(.np = 1);

    f->no_spawns = true;
    at(f, 0, hosts("a:1"));
    succeed(f, 1000, 0);
    forget(f);
    agent_back(f, 1100, "a", 1, "");
    at(f, 1150, killed("w1"));
    expect_part(f, "spawn: w1@a:0 w1001@a:0\n");
    at(f, 1200, spawn_fails("w1001", "cannot fork"));
    expect(f, "no start: a: cannot fork\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_WAITING);
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver core: a journal without its tail");
    TCase *tc = tcase_create("tail");

    tcase_add_loop_test(tc, any_tail_may_be_lost, 0, 40);
    tcase_add_test(tc, who_may_hold_the_state_is_waited_for);
    tcase_add_test(tc, who_may_hold_the_state_is_not_waited_for_for_ever);
    tcase_add_test(tc, start_timeout_begins_anew);
    tcase_add_test(tc, worker_that_is_killed_is_killed_again);
    tcase_add_test(tc, who_is_told_of_late_on_a_blacklisted_host_is_lost);
    tcase_add_test(tc, older_agent_of_a_host_is_killed);
    tcase_add_test(tc, generation_that_nobody_has_heard_of_is_void);
    tcase_add_test(tc, other_layout_after_it_is_refused_alone);
    tcase_add_test(tc, one_that_cannot_be_started_now_ends_nothing);
    tcase_add_test(tc, worker_that_was_replaced_unseen_gives_way);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
