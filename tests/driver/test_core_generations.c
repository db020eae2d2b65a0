/* tests/driver/test_core_generations.c - numbers, repetition, fences, and what
 * ends a generation: the rules M1 to M4, as transcripts of the driver's core.
 * See fixture.h for the words. */
#include <stdio.h>
#include <string.h>

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

/* Whoever can send a message could end the job otherwise. */
START_TEST(m1_message_for_another_driver_is_ignored)
{
    struct fixture *f = fixture_create(.np = 2);
    struct happening h = lost("w1", 1, "1");

    run(f, "a:2");
    h.message.term = FIXTURE_TERM + 1;
    at(f, 10, h);
    h.message.term = FIXTURE_TERM - 1;
    at(f, 10, h);
    expect(f, "");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    h.message.term = FIXTURE_TERM;
    at(f, 10, h);
    expect(f, "abort 1: w1 w2\n");
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
    at(f, 240, ping("w2", WORKER_JOINING, 0)); /* it is on its way */
    expect(f, "");
    at(f, 260, ping("w2", WORKER_JOINING, 0));
    expect(f, "assign 1: w2+sync\n");
    at(f, 270, ready_fence("w2", 0)); /* so it says twice in a heartbeat */
    expect(f, "");
    at(f, 800, ping("w2", WORKER_JOINING, 0)); /* each time later */
    expect(f, "assign 1: w2+sync\n");
    at(f, 1700, ping("w2", WORKER_JOINING, 0));
    expect(f, "");
    at(f, 1850, ping("w2", WORKER_JOINING, 0)); /* but once a heartbeat */
    expect(f, "assign 1: w2+sync\n");
    at(f, 2860, ping("w2", WORKER_JOINING, 0));
    expect(f, "assign 1: w2+sync\n");
    at(f, 9000, ping("w2", WORKER_RUNNING, 0));
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

START_TEST(m2_spawn_is_repeated_until_it_is_answered)
{
    struct fixture *f = fixture_create(.np = 3);

    f->no_spawns = true;
    at(f, 0, hosts("a:3"));
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1 w3@a:2\n");
    pass(f, 900);
    expect(f, "");
    at(f, 950, spawned_late("w1"));
    pass(f, 1900);
    expect(f, "spawn: w2@a:1 w3@a:2\n");
    at(f, 1950, spawn_fails("w2", "no memory"));
    pass(f, 2300);
    expect(f, "no start: a: no memory\nspawn: w3@a:2\n");
    at(f, 2350, exited("w3", 1)); /* it was started, and is gone already */
    pass(f, 3100);
    expect(f, "spawn: w4@a:1 w5@a:2\n"); /* when its host has rested */
    at(f, 3100, spawned_late("w4 w5"));
    pass(f, 9000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* Told before anybody is READY, it is how ranks are given then. */
START_TEST(welcome_tells_the_place_in_the_first_generation)
{
    struct fixture *f = fixture_create(.np = 5, .min_np = 2);

    run(f, "a:2 b:1 c:2");
    for (uint64_t id = 1; id <= 5; id++) {
        const struct driver_worker *w = driver_worker(&f->driver, id);
        const struct msg_plan *plan = &f->workers[id].plan;

        ck_assert_uint_eq(plan->size, 5);
        ck_assert_uint_eq(plan->rank, w->rank);
        ck_assert_uint_eq(plan->local_rank, w->local_rank);
        ck_assert_uint_eq(plan->local_size, w->local_size);
        ck_assert(plan->elastic);
    }
    fixture_free(f);
}
END_TEST

START_TEST(welcome_tells_a_newcomer_that_it_is_the_last)
{
    struct fixture *f = fixture_create(.np = 2);
    const struct msg_plan *plan = &f->workers[3].plan;

    run(f, "a:1 b:1");
    ck_assert(!f->workers[1].plan.elastic);
    at(f, 10, hosts("a:2 b:1"));
    ck_assert_uint_eq(plan->size, 3);
    ck_assert_uint_eq(plan->rank, 2);
    ck_assert_uint_eq(plan->local_rank, 1);
    ck_assert_uint_eq(plan->local_size, 2);
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
    m.u.hello = (struct msg_hello){
        .pid = 101, .port = worker(f, "w1")->port, .address = "127.0.0.1"};
    ck_assert_int_eq(driver_step(&f->driver, &ev, 1, &actions, &n), HVD_OK);
    ck_assert_uint_eq(n, 1);
    ck_assert_int_eq(actions[0].u.message.type, MSG_WELCOME);
    ck_assert(!actions[0].u.message.u.welcome.encrypt_data);
    f->driver.config.encrypt_data = true;
    ck_assert_int_eq(driver_step(&f->driver, &ev, 1, &actions, &n), HVD_OK);
    ck_assert_uint_eq(n, 1);
    ck_assert(actions[0].u.message.u.welcome.encrypt_data);
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
    at(f, 260, ready_fence("w2", 0));
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

/* ---- settings ------------------------------------------------------------ */

static struct happening with_settings(struct happening h, const char *settings)
{
    strcpy(h.message.u.ready.settings, settings);
    return h;
}

/* The oldest's, who is rank 0. */
START_TEST(settings_of_rank_0_are_those_of_all)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    at(f, 0, hosts("a:1 b:2"));
    at(f, 10, with_settings(ready("w3"), "c"));
    at(f, 10, with_settings(ready("w2"), "b"));
    forget(f);
    at(f, 20, with_settings(ready("w1"), "a"));
    expect(f, "assign 1: w1 w2+sync w3+sync\n");
    ck_assert_str_eq(f->driver.assign.settings, "a");
    at(f, 30, killed("w1"));
    at(f, 40, with_settings(ready_lost("w3"), "c, taken on: a"));
    at(f, 40, with_settings(ready_lost("w2"), "b, taken on: a"));
    ck_assert_uint_eq(f->driver.assign.size, 2);
    ck_assert_str_eq(f->driver.assign.settings, "b, taken on: a");
    fixture_free(f);
}
END_TEST

/* ---- abilities ----------------------------------------------------------- */

static void expect_abilities(struct fixture *f, const char *expected)
{
    const struct assign_table *table = driver_table(&f->driver);
    char got[64] = "";

    for (size_t i = 0; i < table->n_entries; i++)
        snprintf(got + strlen(got), sizeof(got) - strlen(got), " w%u:%u",
                 (unsigned)table->entries[i].worker,
                 table->entries[i].abilities);
    ck_assert_str_eq(got, expected);
}

START_TEST(abilities_of_a_host_are_those_of_all_its_members)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 3);

    at(f, 0, hosts("a:2 b:2"));
    at(f, 10, ready("w1 w3 w4"));
    forget(f);
    at(f, 20, ready_alone("w2"));
    expect(f, "assign 1: w1 w2+sync w3+sync w4+sync\n"
              "note: worker 2 (a:1) cannot share memory -> the ranks of its "
              "host use TCP\n");
    expect_abilities(f, " w1:0 w2:0 w3:15 w4:15");
    at(f, 30, killed("w2")); /* the cause is gone: whoever comes, can */
    forget(f);
    at(f, 40, ready_lost("w1 w3 w4"));
    expect(f, "assign 2: w1 w3 w4\n");
    expect_abilities(f, " w1:15 w3:15 w4:15");
    fixture_free(f);
}
END_TEST

static struct happening ready_as(const char *workers, uint32_t user)
{
    struct happening h = ready(workers);

    h.message.u.ready.user = user;
    return h;
}

START_TEST(abilities_of_several_users_are_not_to_share)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 3);

    at(f, 0, hosts("a:2 b:2"));
    at(f, 10, ready_as("w1", 7));
    at(f, 10, ready_as("w3 w4", 8));
    forget(f);
    at(f, 20, ready_as("w2", 8));
    expect(f, "assign 1: w1 w2+sync w3+sync w4+sync\n"
              "note: worker 2 (a:1) is of another user than others there -> "
              "the ranks of its host use TCP\n");
    expect_abilities(f, " w1:14 w2:14 w3:15 w4:15");
    fixture_free(f);
}
END_TEST

/* Nobody of a host can: they say so themselves. */
START_TEST(abilities_that_all_lack_are_not_noted)
{
    struct fixture *f = fixture_create(.np = 3);
    struct happening some = ready("w1 w2");

    at(f, 0, hosts("a:2 b:1"));
    forget(f);
    some.message.u.ready.abilities = READY_CAN_WATCH;
    at(f, 10, some);
    at(f, 20, ready_alone("w3"));
    expect(f, "assign 1: w1 w2+sync w3+sync\n");
    expect_abilities(f, " w1:4 w2:4 w3:0");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_generations");
    TCase *tcase = tcase_create("core_generations");

    tcase_add_test(tcase, gate_of_generation_1_is_np);
    tcase_add_test(tcase, m1_message_for_another_driver_is_ignored);
    tcase_add_test(tcase, m1_number_is_taken_when_assign_is_sent);
    tcase_add_test(tcase, m1_message_of_another_job_is_rejected);
    tcase_add_test(tcase, m2_assign_is_repeated_to_who_still_joins);
    tcase_add_test(tcase, m2_abort_is_repeated_to_who_still_runs);
    tcase_add_test(tcase, m2_hold_and_cut_are_repeated_to_who_lacks_them);
    tcase_add_test(tcase, m2_farewells_are_repeated);
    tcase_add_test(tcase, m2_spawn_is_repeated_until_it_is_answered);
    tcase_add_test(tcase, welcome_tells_the_place_in_the_first_generation);
    tcase_add_test(tcase, welcome_tells_a_newcomer_that_it_is_the_last);
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
    tcase_add_test(tcase, settings_of_rank_0_are_those_of_all);
    tcase_add_test(tcase, abilities_of_a_host_are_those_of_all_its_members);
    tcase_add_test(tcase, abilities_of_several_users_are_not_to_share);
    tcase_add_test(tcase, abilities_that_all_lack_are_not_noted);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
