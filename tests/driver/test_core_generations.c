/* tests/driver/test_core_generations.c - how generations end by losses and how
 * the next one is formed: the rules M1 to M6, M12 and M13, as transcripts of
 * the driver's core. See fixture.h for the words. */
#include "driver/fixture.h"

START_TEST(gate_of_generation_1_is_np)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    at(f, 0, hosts("a:2 b:2"));
    expect(f, "start agent: a b\nspawn: w1@a:0 w2@a:1 w3@b:0 w4@b:1\n");
    at(f, 900, ready("w2 w1 w4"));
    expect(f, "");
    at(f, 901, ready("w3"));
    expect(f, "assign 1: w1 w2+sync w3+sync w4+sync\n");
    fixture_free(f);
}
END_TEST

/* ---- M1 ------------------------------------------------------------------ */

START_TEST(m1_message_of_a_newer_term_stops_this_driver)
{
    struct fixture *f = fixture_create(.np = 2);
    struct happening h = ping("w1", WORKER_RUNNING, 0);

    run(f, "a:2");
    h.message.term = FIXTURE_TERM + 1;
    at(f, 10, h);
    expect(f, "shutdown failed: w1 w2\n");
    at(f, 20, exited("w1 w2", 1));
    expect(f, "stop agent: a\nfinish 1: a newer driver of this job has taken "
              "over\n");
    fixture_free(f);
}
END_TEST

START_TEST(m1_number_is_taken_when_assign_is_sent)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, killed("w3"));
    ck_assert_uint_eq(f->driver.generation, 1); /* open, and still 1 */
    expect(f, "abort 1, w3 died: w1 w2\n");
    at(f, 20, ready_lost("w1 w2"));
    expect(f, "assign 2: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m1_message_of_another_job_is_rejected)
{
    struct fixture *f = fixture_create(.np = 2);
    struct message m = {.type = MSG_PING, .job = FIXTURE_JOB + 1, .worker = 1};
    struct driver_event ev = {.type = DRIVER_EV_MESSAGE, .u.message = &m};
    const struct driver_action *actions;
    size_t n;

    run(f, "a:2");
    ck_assert_int_eq(driver_step(&f->driver, &ev, 1, &actions, &n),
                     HVD_ERR_INVALID);
    ck_assert_uint_eq(n, 0);
    fixture_free(f);
}
END_TEST

/* ---- M2 ------------------------------------------------------------------ */

START_TEST(m2_assign_is_repeated_to_who_still_joins)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, ping("w2", WORKER_JOINING, 0));
    expect(f, "assign 1: w2+sync\n");
    at(f, 20, ping("w2", WORKER_RUNNING, 0));
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m2_abort_is_repeated_to_who_still_runs)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, killed("w3"));
    expect_part(f, "abort 1, w3 died: w1 w2\n");
    at(f, 20, ping("w1", WORKER_RUNNING, 0));
    expect(f, "abort 1, w3 died: w1\n");
    at(f, 30, ping("w1", WORKER_HELD, 0));
    expect(f, "abort 1, w3 died: w1\n");
    at(f, 40, ping("w1", WORKER_DONE, 0));
    expect(f, "abort 1, w3 died: w1\n");
    at(f, 50, ping("w1", WORKER_JOINING, 0)); /* its ASSIGN was lost too */
    expect(f, "abort 1, w3 died: w1\n");
    at(f, 60, ping("w1", WORKER_JOINING, 1)); /* it repeats its READY itself */
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m2_hold_and_cut_are_repeated_to_who_lacks_them)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);
    struct happening h = ping("w1", WORKER_RUNNING, 0);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    expect(f, "hold 1, removed: w1 w2 w3\n");
    at(f, 20, h);
    expect(f, "hold 1, removed: w1\n");
    at(f, 30, held("w1", 3));
    h.message.u.ping.held = true;
    h.message.u.ping.hold_sequence = 1;
    at(f, 40, h); /* nothing is missing: the others are waited for */
    expect(f, "");
    at(f, 50, held("w2 w3", 5));
    expect(f, "cut 6: w1 w2 w3\n");
    at(f, 60, h);
    expect(f, "cut 6: w1\n");
    at(f, 70, held("w1", 3));
    expect(f, "cut 6: w1\n");
    h.message.u.ping.cut = true;
    at(f, 80, h);
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m2_farewells_are_repeated)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, done("w1 w2"));
    expect(f, "release: w1 w2\n");
    at(f, 20, done("w1"));
    expect(f, "release: w1\n");
    at(f, 30, ping("w2", WORKER_DONE, 0));
    expect(f, "release: w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m2_welcome_is_repeated_and_ghosts_are_not_heard)
{
    struct fixture *f = fixture_create(.np = 2);
    struct message m = {.type = MSG_HELLO, .job = FIXTURE_JOB, .worker = 1};
    struct driver_event ev = {.type = DRIVER_EV_MESSAGE, .u.message = &m};
    const struct driver_action *actions;
    size_t n;

    run(f, "a:2");
    ck_assert_int_eq(driver_step(&f->driver, &ev, 1, &actions, &n), HVD_OK);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(actions[0].u.message.type, MSG_WELCOME);
    m.worker = 99;
    ck_assert_int_eq(driver_step(&f->driver, &ev, 2, &actions, &n), HVD_OK);
    ck_assert_uint_eq(n, 0);
    fixture_free(f);
}
END_TEST

/* ---- M3 ------------------------------------------------------------------ */

START_TEST(m3_stale_ready_of_live_generation_gets_assign_again)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, ready_fence("w2", 0));
    expect(f, "assign 1: w2+sync\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    fixture_free(f);
}
END_TEST

START_TEST(m3_stale_ready_after_abort_gets_that_abort)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, killed("w3"));
    expect_part(f, "abort 1");
    at(f, 20, ready_fence("w2", 0)); /* never saw ASSIGN 1 */
    expect(f, "abort 1, w3 died: w2\n");
    at(f, 30, ready_lost("w1"));
    expect(f, "");
    at(f, 40, ready_fence("w2", 1));
    expect(f, "assign 2: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m3_ready_of_an_older_generation_never_stands_for_a_newer)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, killed("w3"));
    at(f, 20, ready_lost("w1 w2"));
    at(f, 25, commits("w1 w2"));
    pass(f, 700);
    at(f, 700, ready("w4"));
    leave_at(f, 710, "w1 w2", 4);
    expect_part(f, "assign 3: w1 w2 w4+sync\n");
    at(f, 760, killed("w4"));
    expect_part(f, "abort 3, w4 died: w1 w2\n");
    at(f, 770, ready_lost("w1"));
    at(f, 780, ready_fence("w2", 2)); /* delayed since generation 2 */
    expect(f, "abort 3, w4 died: w2\n");
    at(f, 790, ready_lost("w2"));
    expect(f, "assign 4: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m3_duplicate_ready_counts_once)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready("w1 w1 w1"));
    ck_assert_uint_eq(f->driver.counts.newcomers, 1);
    at(f, 20, ready("w2"));
    expect_part(f, "assign 1: w1 w2+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m3_spare_hears_nothing_of_generations_it_is_not_in)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, killed("w2"));
    expect(f, "abort 1, w2 died: w1\nspawn: w3@a:1\n");
    at(f, 20, ready("w3"));
    at(f, 30, ready_lost("w1"));
    expect(f, "assign 2: w1 w3+sync\n");
    fixture_free(f);
}
END_TEST

/* ---- M4 ------------------------------------------------------------------ */

START_TEST(m4_lost_ends_the_generation_whatever_the_truth)
{
    struct fixture *f = fixture_create(.np = 3);

    run(f, "a:3");
    at(f, 10, lost("w1", 1, "2"));
    expect(f, "abort 1: w1 w2 w3\n");
    at(f, 20, lost("w2", 1, "2")); /* it has ended already */
    expect(f, "");
    at(f, 30, ready_lost("w1 w2 w3"));
    expect(f, "assign 2: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m4_ready_lost_ends_the_generation)
{
    struct fixture *f = fixture_create(.np = 3);

    run(f, "a:3");
    at(f, 10, ready_lost("w2"));
    expect(f, "abort 1: w1 w2 w3\n");
    at(f, 30, ready_lost("w1 w3"));
    expect(f, "assign 2: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m4_lost_of_an_older_generation_is_dropped)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, lost("w1", 1, ""));
    at(f, 20, ready_lost("w1 w2"));
    expect_part(f, "assign 2: w1 w2\n");
    at(f, 30, lost("w2", 1, "0"));
    expect(f, "");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    fixture_free(f);
}
END_TEST

START_TEST(m4_lost_of_a_newcomer_is_dropped)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, hosts("a:3"));
    at(f, 20, lost("w3", 1, "0"));
    expect(f, "spawn: w3@a:2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m4_ready_updated_ends_nothing)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 20, held("w1 w2 w3", 1));
    at(f, 30, ready_updated("w1"));
    expect(f, "hold 1, removed: w1 w2 w3\ncut 2: w1 w2 w3\n");
    at(f, 40, ready_updated("w2 w3"));
    expect(f, "shutdown drained: w3\nassign 2: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m4_open_rendezvous_gets_abort_at_the_first_death)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "a:3 b:1");
    at(f, 10, hosts("a:3"));
    at(f, 20, held("w1 w2 w3 w4", 1));
    at(f, 30, ready_updated("w1"));
    expect_part(f, "cut 2: w1 w2 w3 w4\n");
    at(f, 40, killed("w2"));
    expect(f, "abort 1, w2 died: w1 w3 w4\nspawn: w5@a:1\n");
    at(f, 50, ready_updated("w3")); /* had left when ABORT came */
    at(f, 60, ready_lost("w4"));
    expect(f, "shutdown drained: w4\nassign 2: w1 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m4_done_member_is_ready_after_abort_like_the_others)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, done("w1"));
    at(f, 20, killed("w3"));
    expect(f, "abort 1, w3 died: w1 w2\n");
    at(f, 30, done("w2")); /* crossed the ABORT: dropped */
    expect(f, "");
    at(f, 40, ready_lost("w1 w2"));
    expect(f, "assign 2: w1 w2\n");
    at(f, 50, done("w1 w2"));
    expect_part(f, "release: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* ---- M5 ------------------------------------------------------------------ */

START_TEST(m5_accused_is_not_dead)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, lost("w1", 1, "1"));
    at(f, 20, ready_lost("w1 w2"));
    expect(f, "abort 1: w1 w2\nassign 2: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m5_same_pair_twice_in_a_row_younger_goes)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost("w1", 1, "2"));
    at(f, 20, ready_lost("w1 w2 w3"));
    expect_part(f, "assign 2: w1 w2 w3\n");
    at(f, 30, lost("w3", 2, "0")); /* the pair, the other way round */
    expect(f, "abort 2: w1 w2 w3\n");
    at(f, 40, ready_lost("w1 w2 w3"));
    expect(f, "kill: w3\nassign 3: w1 w2\n");
    at(f, 50, killed("w3"));
    pass(f, 700);
    expect(f, "spawn: w4@a:2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m5_same_pair_twice_in_a_row_more_accused_goes)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost("w3", 1, "0"));
    at(f, 20, ready_lost("w1 w2 w3"));
    at(f, 30, lost("w3", 2, "0"));
    at(f, 31, lost("w2", 2, "0"));
    expect_part(f, "assign 2: w1 w2 w3\n");
    at(f, 40, ready_lost("w1 w2 w3"));
    expect(f, "kill: w1\nassign 3: w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m5_accusation_heard_twice_counts_once)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost("w3", 1, "0"));
    at(f, 20, ready_lost("w1 w2 w3"));
    at(f, 30, lost("w1", 2, "2"));
    at(f, 30, lost("w3", 2, "0"));
    at(f, 31, lost("w3", 2, "0")); /* a duplicate of the network */
    at(f, 40, ready_lost("w1 w2 w3"));
    expect_part(f, "kill: w3\nassign 3: w1 w2\n"); /* a tie: the younger */
    fixture_free(f);
}
END_TEST

START_TEST(m5_another_pair_is_no_row)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost("w1", 1, "2"));
    at(f, 20, ready_lost("w1 w2 w3"));
    at(f, 30, lost("w2", 2, "2"));
    at(f, 40, ready_lost("w1 w2 w3"));
    expect_part(f, "assign 3: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m5_a_death_explains_the_accusations_of_its_generation)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "a:4");
    at(f, 10, lost("w1", 1, "1 3")); /* w2 closed because w4 died */
    at(f, 11, killed("w4"));
    at(f, 20, ready_lost("w1 w2 w3"));
    expect_part(f, "assign 2: w1 w2 w3\n");
    at(f, 30, lost("w1", 2, "1"));
    at(f, 40, ready_lost("w1 w2 w3"));
    expect(f, "abort 2: w1 w2 w3\nassign 3: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m5_heartbeats_missing_is_dead)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    f->workers[2].silent = true;
    pass(f, 2000);
    expect(f, "");
    pass(f, 2200);
    expect(f, "kill: w2\nabort 1, w2 died: w1 w3\n");
    at(f, 2300, ready_lost("w1 w3"));
    expect(f, "assign 2: w1 w3\n");
    at(f, 2400, ping("w2", WORKER_RUNNING, 0)); /* a ghost is not answered */
    expect(f, "");
    at(f, 2500, killed("w2"));
    expect(f, "");
    pass(f, 3000);
    expect(f, "spawn: w4@a:1\n");
    fixture_free(f);
}
END_TEST

START_TEST(m5_agent_lost_is_the_death_of_its_workers)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "a:2 b:2");
    at(f, 10, agent_gone("b"));
    expect(f, "abort 1, w3 died: w1 w2 w4\n"); /* w4 may live on, cut off */
    at(f, 20, ready_lost("w1 w2"));
    expect(f, "assign 2: w1 w2\n");
    pass(f, 700);
    expect(f, "start agent: b\nspawn: w5@b:0 w6@b:1\n");
    fixture_free(f);
}
END_TEST

START_TEST(m5_silent_agent_is_lost)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    strcpy(f->silent_host, "b");
    pass(f, 2000);
    expect(f, "");
    pass(f, 2200);
    expect(f, "stop agent: b\nabort 1, w3 died: w1 w2\n");
    at(f, 2300, ready_lost("w1 w2"));
    pass(f, 3000);
    expect(f, "assign 2: w1 w2\nstart agent: b\nspawn: w4@b:0\n");
    fixture_free(f);
}
END_TEST

START_TEST(m5_stall_of_the_driver_is_nobodys_silence)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    pass(f, 500);
    f->now_us = 60000000; /* the driver slept for a minute */
    at(f, 60000, commits("w1"));
    f->workers[1].silent = f->workers[2].silent = true;
    strcpy(f->silent_host, "a");
    pass(f, 60500);
    expect(f, "");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    fixture_free(f);
}
END_TEST

/* ---- M6 ------------------------------------------------------------------ */

START_TEST(m6_death_before_assign_drops_candidate_only)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:3"));
    at(f, 10, ready("w1 w2"));
    at(f, 20, killed("w3")); /* was started with them: waited for till now */
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1 w3@a:2\n"
              "assign 1: w1 w2+sync\nspawn: w4@a:2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m6_death_of_ready_candidate_goes_below_the_gate)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready("w1"));
    at(f, 20, killed("w1"));
    at(f, 30, ready("w2"));
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1 w3@a:0\n");
    at(f, 40, ready("w3"));
    expect(f, "assign 1: w3 w2+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m6_death_after_assign_is_abort)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    at(f, 0, hosts("a:3"));
    at(f, 10, ready("w1 w2 w3"));
    at(f, 11, killed("w2")); /* nobody has connected yet */
    expect_part(f, "abort 1, w2 died: w1 w3\n");
    at(f, 20, ready_lost("w3 w1"));
    expect(f, "assign 2: w1 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m6_further_deaths_are_no_timer)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "a:4");
    at(f, 10, killed("w3"));
    at(f, 20, ready_lost("w1 w2"));
    expect(f, "abort 1, w3 died: w1 w2 w4\n");
    at(f, 30, killed("w4")); /* the last one that was waited for */
    expect(f, "assign 2: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m6_gate_is_min_np_after_generation_1)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "a:4");
    at(f, 10, killed("w2 w3 w4"));
    at(f, 20, ready_lost("w1"));
    expect(f, "abort 1, w2 died: w1 w3 w4\nspawn: w5@a:1 w6@a:2 w7@a:3\n");
    at(f, 30, ready("w6"));
    expect(f, "assign 2: w1 w6+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m6_survivors_first_spares_stay_ready)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 3);

    run(f, "a:2");
    at(f, 10, commits("w1 w2"));
    at(f, 20, hosts("a:2 b:1"));
    at(f, 30, killed("w2"));
    at(f, 40, ready("w3 w4"));
    expect(f, "start agent: b\nspawn: w3@b:0\nabort 1, w2 died: w1\n"
              "spawn: w4@a:1\n");
    at(f, 50, ready_lost("w1"));
    expect(f, "assign 2: w1 w4+sync w3+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m6_at_most_max_np_are_started)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 3);

    at(f, 0, hosts("a:2 b:2"));
    expect(f, "start agent: a b\nspawn: w1@a:0 w2@a:1 w3@b:0\n");
    at(f, 10, killed("w1"));
    expect(f, "spawn: w4@a:0\n");
    fixture_free(f);
}
END_TEST

/* ---- M12, M13 ------------------------------------------------------------ */

START_TEST(m12_no_progress)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    for (uint64_t g = 1; g < 5; g++) {
        at(f, 10 * g, lost("w1", g, ""));
        at(f, 10 * g + 1, ready_lost("w1 w2"));
    }
    expect_part(f, "assign 5: w1 w2\n");
    at(f, 90, lost("w1", 5, ""));
    at(f, 91, ready_lost("w1 w2"));
    expect_part(f, "shutdown failed: w1 w2\n");
    at(f, 92, exited("w1 w2", 1));
    expect(f, "stop agent: a\nfinish 1: no progress: 5 generations in a row "
              "ended without a commit; last: worker 1 (a:0): connection "
              "reset\n");
    fixture_free(f);
}
END_TEST

START_TEST(m12_a_commit_starts_the_count_anew)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    for (uint64_t g = 1; g < 12; g++) {
        if (g % 4 == 0)
            at(f, 10 * g, commits("w1 w2"));
        at(f, 10 * g, lost("w1", g, ""));
        at(f, 10 * g + 1, ready_lost("w1 w2"));
    }
    expect_part(f, "assign 12: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m13_rank0_is_oldest)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "a:2 b:2");
    at(f, 10, commits("w1 w2 w3 w4"));
    at(f, 20, killed("w1 w2"));
    at(f, 30, ready_lost("w3 w4"));
    expect_part(f, "assign 2: w3 w4\n");
    at(f, 40, commits("w3 w4"));
    pass(f, 700);
    at(f, 700, ready("w5 w6")); /* on a, first in discovery's order */
    leave_at(f, 710, "w3 w4", 2);
    expect_part(f, "assign 3: w3 w4 w5+sync w6+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m13_ranks_are_host_major_with_local_and_cross)
{
    static const struct {
        const char *name;
        uint32_t rank, local_rank, local_size, cross_rank, cross_size;
    } rows[] = {
        {"w1", 0, 0, 2, 0, 2}, {"w2", 1, 1, 2, 0, 1}, {"w3", 2, 0, 1, 1, 2}};
    struct fixture *f = fixture_create(.np = 3);

    run(f, "a:2 b:1");
    for (size_t i = 0; i < 3; i++) {
        const struct msg_assign *a = &worker(f, rows[i].name)->assign;

        ck_assert_uint_eq(a->rank, rows[i].rank);
        ck_assert_uint_eq(a->size, 3);
        ck_assert_uint_eq(a->local_rank, rows[i].local_rank);
        ck_assert_uint_eq(a->local_size, rows[i].local_size);
        ck_assert_uint_eq(a->cross_rank, rows[i].cross_rank);
        ck_assert_uint_eq(a->cross_size, rows[i].cross_size);
    }
    fixture_free(f);
}
END_TEST

START_TEST(m13_root_is_the_lowest_rank_with_the_base)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    holds(f, "w1", 1, 4);
    holds(f, "w2 w3", 1, 5); /* they had passed a commit more */
    at(f, 10, lost("w3", 1, ""));
    at(f, 20, ready_lost("w1 w2 w3"));
    expect(f, "abort 1: w1 w2 w3\nassign 2: w1+sync w2 w3\n");
    ck_assert_uint_eq(worker(f, "w1")->assign.root, 1);
    ck_assert_uint_eq(worker(f, "w1")->assign.base.version, 5);
    ck_assert(!driver_table(&f->driver)->entries[0].source);
    ck_assert(driver_table(&f->driver)->entries[2].source);
    fixture_free(f);
}
END_TEST

START_TEST(m13_generation_counts_before_version_in_the_base)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, lost("w1", 1, ""));
    at(f, 20, ready_lost("w1 w2"));
    holds(f, "w1", 1, 9); /* it has not restamped: an older content */
    holds(f, "w2", 2, 3);
    at(f, 30, lost("w1", 2, ""));
    at(f, 40, ready_lost("w1 w2"));
    expect_part(f, "assign 3: w1+sync w2\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_generations");
    TCase *tcase = tcase_create("core_generations");

    tcase_add_test(tcase, gate_of_generation_1_is_np);
    tcase_add_test(tcase, m1_message_of_a_newer_term_stops_this_driver);
    tcase_add_test(tcase, m1_number_is_taken_when_assign_is_sent);
    tcase_add_test(tcase, m1_message_of_another_job_is_rejected);
    tcase_add_test(tcase, m2_assign_is_repeated_to_who_still_joins);
    tcase_add_test(tcase, m2_abort_is_repeated_to_who_still_runs);
    tcase_add_test(tcase, m2_hold_and_cut_are_repeated_to_who_lacks_them);
    tcase_add_test(tcase, m2_farewells_are_repeated);
    tcase_add_test(tcase, m2_welcome_is_repeated_and_ghosts_are_not_heard);
    tcase_add_test(tcase, m3_stale_ready_of_live_generation_gets_assign_again);
    tcase_add_test(tcase, m3_stale_ready_after_abort_gets_that_abort);
    tcase_add_test(tcase,
                   m3_ready_of_an_older_generation_never_stands_for_a_newer);
    tcase_add_test(tcase, m3_duplicate_ready_counts_once);
    tcase_add_test(tcase, m3_spare_hears_nothing_of_generations_it_is_not_in);
    tcase_add_test(tcase, m4_lost_ends_the_generation_whatever_the_truth);
    tcase_add_test(tcase, m4_ready_lost_ends_the_generation);
    tcase_add_test(tcase, m4_lost_of_an_older_generation_is_dropped);
    tcase_add_test(tcase, m4_lost_of_a_newcomer_is_dropped);
    tcase_add_test(tcase, m4_ready_updated_ends_nothing);
    tcase_add_test(tcase, m4_open_rendezvous_gets_abort_at_the_first_death);
    tcase_add_test(tcase, m4_done_member_is_ready_after_abort_like_the_others);
    tcase_add_test(tcase, m5_accused_is_not_dead);
    tcase_add_test(tcase, m5_same_pair_twice_in_a_row_younger_goes);
    tcase_add_test(tcase, m5_same_pair_twice_in_a_row_more_accused_goes);
    tcase_add_test(tcase, m5_accusation_heard_twice_counts_once);
    tcase_add_test(tcase, m5_another_pair_is_no_row);
    tcase_add_test(tcase,
                   m5_a_death_explains_the_accusations_of_its_generation);
    tcase_add_test(tcase, m5_heartbeats_missing_is_dead);
    tcase_add_test(tcase, m5_agent_lost_is_the_death_of_its_workers);
    tcase_add_test(tcase, m5_silent_agent_is_lost);
    tcase_add_test(tcase, m5_stall_of_the_driver_is_nobodys_silence);
    tcase_add_test(tcase, m6_death_before_assign_drops_candidate_only);
    tcase_add_test(tcase, m6_death_of_ready_candidate_goes_below_the_gate);
    tcase_add_test(tcase, m6_death_after_assign_is_abort);
    tcase_add_test(tcase, m6_further_deaths_are_no_timer);
    tcase_add_test(tcase, m6_gate_is_min_np_after_generation_1);
    tcase_add_test(tcase, m6_survivors_first_spares_stay_ready);
    tcase_add_test(tcase, m6_at_most_max_np_are_started);
    tcase_add_test(tcase, m12_no_progress);
    tcase_add_test(tcase, m12_a_commit_starts_the_count_anew);
    tcase_add_test(tcase, m13_rank0_is_oldest);
    tcase_add_test(tcase, m13_ranks_are_host_major_with_local_and_cross);
    tcase_add_test(tcase, m13_root_is_the_lowest_rank_with_the_base);
    tcase_add_test(tcase, m13_generation_counts_before_version_in_the_base);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
