/* tests/driver/test_core_drain.c - who has to leave: as discovery says, by his
 * own wish; who does not, when he is killed, and when he delays nobody. M9, as
 * transcripts of the core. See fixture.h for the words; hosts that say
 * themselves that they will go: test_core_leaving.c. */
#include <string.h>

#include "driver/fixture.h"

/* Each half second until then: these wait in a collective, those compute. */
static void compute(struct fixture *f, uint64_t from_ms, uint64_t to_ms,
                    const char *waiting, const char *computing)
{
    struct happening waits = ping(waiting, WORKER_RUNNING, 0),
                     computes = ping(computing, WORKER_RUNNING, 0);

    waits.message.u.ping.in_collective = true;
    for (size_t i = 1; i <= f->driver.n_workers; i++)
        f->workers[i].silent = true; /* but for these */
    for (uint64_t ms = from_ms; ms < to_ms; ms += 500) {
        if (*waiting)
            at(f, ms, waits);
        at(f, ms, computes);
        pass(f, ms + 400);
    }
}

static void remove_b(struct fixture *f)
{
    run(f, "a:1 b:2");
    at(f, 10, commits("w1 w2 w3"));
    at(f, 100, hosts("a:1"));
    expect(f, "hold 1, removed: w1 w2 w3\n");
}

START_TEST(m9_who_has_to_leave_and_delays_the_others_is_killed)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1, .drain_ms = 2000);

    remove_b(f);
    compute(f, 500, 2000, "w1 w2", "w3");
    ck_assert(!worker_is_dead(driver_worker(&f->driver, 3)));
    compute(f, 2000, 3500, "w1 w2", "w3");
    expect_part(f, "kill: w3\nabort 1, w3 died: w1 w2");
    at(f, 3500, ready_lost("w1 w2"));
    expect_part(f, "shutdown drained: w2\nassign 2: w1\n");
    fixture_free(f);
}
END_TEST

START_TEST(m9_after_a_loss_who_does_not_come_is_killed_too)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1, .drain_ms = 2000);

    remove_b(f);
    at(f, 110, killed("w2"));
    at(f, 120, ready_lost("w1"));
    compute(f, 500, 3500, "w1", "w3");
    ck_assert(worker_is_dead(driver_worker(&f->driver, 3)));
    expect_part(f, "kill: w3\nassign 2: w1\n");
    fixture_free(f);
}
END_TEST

START_TEST(m9_in_a_step_of_all_nobody_is_delayed)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1, .drain_ms = 2000);

    remove_b(f);
    compute(f, 500, 20000, "w2", "w1 w3"); /* w1 stays */
    for (uint64_t w = 1; w <= 3; w++)
        ck_assert(!worker_is_dead(driver_worker(&f->driver, w)));
    fixture_free(f);
}
END_TEST

/* Two hosts are removed, one after the other: each has its own time. */
START_TEST(m9_a_drain_that_comes_later_has_all_its_time)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1, .drain_ms = 5000);

    run(f, "a:1 b:1 c:1");
    at(f, 10, commits("w1 w2 w3"));
    at(f, 100, hosts("a:1 c:1"));
    compute(f, 500, 4000, "w1", "w2 w3");
    at(f, 4000, hosts("a:1"));
    compute(f, 4000, 6500, "w1", "w2 w3");
    ck_assert(worker_is_dead(driver_worker(&f->driver, 2)));
    ck_assert(!worker_is_dead(driver_worker(&f->driver, 3)));
    compute(f, 6500, 8500, "w1", "w3");
    ck_assert(!worker_is_dead(driver_worker(&f->driver, 3)));
    compute(f, 8500, 10500, "w1", "w3");
    ck_assert(worker_is_dead(driver_worker(&f->driver, 3)));
    fixture_free(f);
}
END_TEST

START_TEST(m9_who_alone_holds_the_state_may_be_late)
{
    struct fixture *f = fixture_create(.np = 1, .drain_ms = 2000);

    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 100, hosts("b:1"));
    compute(f, 500, 20000, "", "w1");
    ck_assert(!worker_is_dead(driver_worker(&f->driver, 1)));
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    fixture_free(f);
}
END_TEST

/* w1 stays, and holds the state as well; its host has died meanwhile. */
START_TEST(m9_worker_is_not_killed_for_one_that_is_silent)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1, .drain_ms = 2000);

    run(f, "a:1 b:1");
    at(f, 10, commits("w1 w2"));
    at(f, 100, hosts("a:1"));
    compute(f, 500, 1000, "w1", "w2");
    strcpy(f->silent_host, "a");
    compute(f, 1000, 6000, "", "w2");
    ck_assert_ptr_null(driver_worker(&f->driver, 1));
    ck_assert(!worker_is_dead(driver_worker(&f->driver, 2)));
    ck_assert_int_ne(f->driver.phase, DRIVER_STOPPING);
    fixture_free(f);
}
END_TEST

/* It is in its epilogue, and has the state; but it will not come back. */
START_TEST(m14_who_was_drained_holds_nothing_for_the_others)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, commits("w1 w2 w3"));
    at(f, 20, hosts("a:2"));
    leave_at(f, 30, "w1 w2 w3", 2);
    expect_part(f, "shutdown drained: w3\nassign 2: w1 w2\n");
    at(f, 40, killed("w1"));
    at(f, 50, killed("w2"));
    expect_part(f, "abort 2, w1 died: w2\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_STOPPING);
    ck_assert_ptr_nonnull(
        strstr(f->driver.verdict, "nobody is left who holds the state"));
    fixture_free(f);
}
END_TEST

/* Not when --drain-timeout is over: the end of the job would wait for that. */
START_TEST(m2_exit_of_who_was_drained_is_asked_for)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1);

    run(f, "a:2 b:1");
    f->no_spawns = true;
    at(f, 10, commits("w1 w2 w3"));
    at(f, 20, hosts("a:2"));
    leave_at(f, 30, "w1 w2 w3", 2);
    expect_part(f, "shutdown drained: w3\nassign 2: w1 w2\n");
    at(f, 1050, agent_runs("b", 1));
    expect(f, "");
    at(f, 1060, agent_runs("b", 0));
    expect(f, "spawn: w3@b:0\n"); /* its agent answers with the exit */
    at(f, 1070, exited("w3", 0));
    expect_part(f, "stop agent: b\n");
    fixture_free(f);
}
END_TEST

static struct fixture *three(uint32_t min_np)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = min_np,
                                       .drain_ms = 30000);

    run(f, "a:1 b:1 c:1");
    at(f, 10, commits("w1 w2 w3"));
    return f;
}

/* ---- discovery says so --------------------------------------------------- */

START_TEST(drain_listed_drains_the_host)
{
    struct fixture *f = three(1);

    at(f, 100, hosts("a:1 b:1+drain=20 c:1"));
    expect(f, "leaving b in 20000 ms: discovery says so\n"
              "hold 1, removed: w1 w2 w3\n");
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 20100000);
    at(f, 1100, hosts("a:1 b:1+drain=20 c:1")); /* it stands: no new time */
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 20100000);
    at(f, 1200, hosts("a:1 b:1+drain=5 c:1"));
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 6200000);
    leave_at(f, 1300, "w1 w2 w3", 5);
    at(f, 1400, exited("w2", 0));
    expect_part(f, "shutdown drained: w2\nassign 2: w1 w3\nstop agent: b\n");
    pass(f, 30000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(drain_listed_no_more_takes_it_back)
{
    struct fixture *f = three(1);

    at(f, 100, hosts("a:1 b:1+drain=20 c:1"));
    ck_assert_int_eq(f->n_records[RECORD_HOST_ADDED], 3);
    at(f, 110, hosts("a:1 b:1 c:1"));
    ck_assert_int_eq(f->n_records[RECORD_HOST_ADDED], 4);
    leave_at(f, 200, "w1 w2 w3", 5);
    expect_part(f, "cut 5: w1 w2 w3\nassign 2: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(drain_listed_and_a_notice_both_have_to_end)
{
    struct fixture *f = three(1);

    at(f, 100, hosts("a:1 b:1+drain=20 c:1"));
    at(f, 110, notice("b", 60000));
    at(f, 120, hosts("a:1 b:1 c:1"));
    leave_at(f, 200, "w1 w2 w3", 5);
    expect_part(f, "shutdown drained: w2\nassign 2: w1 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(drain_listed_from_the_start_starts_nobody)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    at(f, 0, hosts("a:1 b:1+drain=20 c:1"));
    expect(f, "leaving b in 20000 ms: discovery says so\n"
              "start agent: a c\nspawn: w1@a:0 w2@c:0\n");
    at(f, 1, hosts("a:1 c:1"));
    at(f, 2, hosts("a:1 b:1 c:1"));
    expect(f, "start agent: b\nspawn: w3@b:0\n");
    fixture_free(f);
}
END_TEST

/* Removed while it leaves: the sooner of the two. */
START_TEST(drain_then_removed_is_the_sooner_of_both)
{
    struct fixture *f = three(1);

    at(f, 100, hosts("a:1 b:1+drain=100 c:1"));
    at(f, 1100, hosts("a:1 c:1"));
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 31100000);
    ck_assert_uint_eq(worker(f, "w2")->drain_by.spare_us, 31100000);
    fixture_free(f);
}
END_TEST

/* It is over at once: the boundary at hand is the last. */
START_TEST(drain_of_no_time_leaves_below_min_np_too)
{
    struct fixture *f = three(3);

    at(f, 100, hosts("a:1 b:1+drain=0 c:1"));
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 100000);
    ck_assert_uint_eq(worker(f, "w2")->drain_by.spare_us, 100000);
    ck_assert_uint_eq(worker(f, "w2")->drain_by.patience_us, 0);
    leave_at(f, 200, "w1 w2 w3", 5);
    expect_part(f, "cut 5: w1 w2 w3\nshutdown drained: w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(removed_then_noticed_has_no_patience)
{
    struct fixture *f = three(1);

    at(f, 100, hosts("a:1 c:1"));
    ck_assert_uint_eq(worker(f, "w2")->drain_by.patience_us, 30000000);
    at(f, 110, notice("b", 60000)); /* later than --drain-timeout */
    ck_assert_uint_eq(worker(f, "w2")->drain_by.patience_us, 30000000);
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 30100000);
    at(f, 120, notice("b", 5000));
    ck_assert_uint_eq(worker(f, "w2")->drain_by.patience_us, 0);
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 5120000);
    fixture_free(f);
}
END_TEST

/* ---- a worker's own wish ------------------------------------------------- */

START_TEST(drain_me_is_no_failure_and_no_lost_step)
{
    struct fixture *f = three(1);

    at(f, 100, drain_me("w2"));
    expect(f, "hold 1, removed: w1 w2 w3\n");
    leave_at(f, 200, "w1 w2 w3", 5);
    expect(f, "cut 5: w1 w2 w3\nshutdown drained: w2\nassign 2: w1 w3\n");
    at(f, 300, exited("w2", 3)); /* how it ends is its own affair */
    pass(f, 5000);
    ck_assert_int_eq(f->n_records[RECORD_WORKER_LOST], 0);
    nothing_failed(f, 1);
    fixture_free(f);
}
END_TEST

/* It asked for it: what discovery says of its host changes nothing. */
START_TEST(drain_me_is_not_taken_back)
{
    struct fixture *f = three(1);

    at(f, 100, drain_me("w2"));
    at(f, 110, hosts("a:1 b:1 c:1 d:1"));
    leave_at(f, 200, "w1 w2 w3", 5);
    expect_part(f, "shutdown drained: w2\nassign 2: w1 w3\n");
    fixture_free(f);
}
END_TEST

/* Only its own slot: a worker beside it stays, and nobody follows it there. */
START_TEST(drain_me_empties_one_slot)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1);

    run(f, "a:2 b:1");
    at(f, 10, commits("w1 w2 w3"));
    at(f, 100, drain_me("w1"));
    leave_at(f, 200, "w1 w2 w3", 5);
    expect_part(f, "shutdown drained: w1\nassign 2: w2 w3\n");
    at(f, 300, exited("w1", 0));
    at(f, 310, hosts("a:2 b:1"));
    pass(f, 5000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_drain");
    TCase *tcase = tcase_create("core_drain");

    tcase_add_test(tcase, m2_exit_of_who_was_drained_is_asked_for);

    tcase_add_test(tcase, m14_who_was_drained_holds_nothing_for_the_others);
    tcase_add_test(tcase, m9_who_has_to_leave_and_delays_the_others_is_killed);
    tcase_add_test(tcase, m9_after_a_loss_who_does_not_come_is_killed_too);
    tcase_add_test(tcase, m9_in_a_step_of_all_nobody_is_delayed);
    tcase_add_test(tcase, m9_a_drain_that_comes_later_has_all_its_time);
    tcase_add_test(tcase, m9_who_alone_holds_the_state_may_be_late);
    tcase_add_test(tcase, m9_worker_is_not_killed_for_one_that_is_silent);
    tcase_add_test(tcase, drain_listed_drains_the_host);
    tcase_add_test(tcase, drain_listed_no_more_takes_it_back);
    tcase_add_test(tcase, drain_listed_and_a_notice_both_have_to_end);
    tcase_add_test(tcase, drain_listed_from_the_start_starts_nobody);
    tcase_add_test(tcase, drain_then_removed_is_the_sooner_of_both);
    tcase_add_test(tcase, drain_of_no_time_leaves_below_min_np_too);
    tcase_add_test(tcase, removed_then_noticed_has_no_patience);
    tcase_add_test(tcase, drain_me_is_no_failure_and_no_lost_step);
    tcase_add_test(tcase, drain_me_is_not_taken_back);
    tcase_add_test(tcase, drain_me_empties_one_slot);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
