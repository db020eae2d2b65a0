/* tests/driver/test_core_changes.c - voluntary changes of the group: newcomers,
 * removals, drain, patience. The rules M7 to M10 and HOLD/CUT, as transcripts
 * of the driver's core. See fixture.h for the words. */
#include <string.h>

#include "driver/fixture.h"

/* ---- M7 ------------------------------------------------------------------ */

START_TEST(m7_newcomer_announced_only_after_commit)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, hosts("a:2 b:1"));
    at(f, 20, ready("w3"));
    expect(f, "start agent: b\nspawn: w3@b:0\n");
    at(f, 30, commits("w2"));
    expect(f, "hold 1, added: w1 w2\n");
    at(f, 40, commits("w1")); /* announced once */
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* It only looks for changes of hosts, and commits where it leaves. */
START_TEST(m7_a_program_that_never_commits_takes_newcomers_in)
{
    struct fixture *f = fixture_create(.np = 2);
    struct happening passed = ping("w2", WORKER_RUNNING, 0);

    run(f, "a:2");
    at(f, 10, hosts("a:3"));
    at(f, 20, ready("w3"));
    at(f, 30, ping("w1", WORKER_RUNNING, 0));
    expect(f, "spawn: w3@a:2\n");
    passed.message.u.ping.boundary = 1;
    at(f, 40, passed);
    expect(f, "hold 1, added: w1 w2\n");
    at(f, 50, passed);
    expect(f, "hold 1, added: w2\n"); /* its PING has yet to answer it */
    fixture_free(f);
}
END_TEST

START_TEST(m7_the_first_snapshot_is_no_commit)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, hosts("a:3"));
    at(f, 20, ready("w3"));
    at(f, 30, ping("w1", WORKER_RUNNING, 0)); /* holds (1, 1) */
    expect(f, "spawn: w3@a:2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m7_members_train_until_newcomer_is_ready)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, commits("w1 w2"));
    at(f, 20, hosts("a:3"));
    pass(f, 5000);
    expect(f, "spawn: w3@a:2\n");
    at(f, 5000, ready("w3"));
    expect(f, "hold 1, added: w1 w2\n");
    leave_at(f, 5010, "w1 w2", 8);
    expect(f, "cut 8: w1 w2\nassign 2: w1 w2 w3+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m7_spawned_together_announced_together)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, commits("w1 w2"));
    at(f, 20, hosts("a:2 b:2 c:1"));
    at(f, 30, ready("w3"));
    at(f, 40, ready("w5"));
    expect(f, "start agent: b c\nspawn: w3@b:0 w4@b:1 w5@c:0\n");
    at(f, 50, ready("w4"));
    expect(f, "hold 1, added: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m7_spawned_together_waits_for_an_agent_that_starts)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    strcpy(f->slow_host, "c");
    at(f, 10, commits("w1 w2"));
    at(f, 20, hosts("a:2 b:1 c:1"));
    at(f, 30, ready("w3"));
    expect(f, "start agent: b c\nspawn: w3@b:0\n");
    at(f, 40, agent_up("c"));
    expect(f, "spawn: w4@c:0\n");
    at(f, 50, ready("w4"));
    expect(f, "hold 1, added: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m7_generation_1_waits_for_those_started_together)
{
    struct fixture *f = fixture_create(.np = 2);

    strcpy(f->slow_host, "b");
    at(f, 0, hosts("a:2 b:2"));
    at(f, 10, ready("w1 w2"));
    expect(f, "start agent: a b\nspawn: w1@a:0 w2@a:1\n");
    at(f, 20, agent_up("b"));
    at(f, 30, ready("w3"));
    expect(f, "spawn: w3@b:0 w4@b:1\n");
    at(f, 40, ready("w4"));
    expect(f, "assign 1: w1 w2+sync w3+sync w4+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m7_who_is_late_by_start_timeout_is_not_waited_for)
{
    struct fixture *f = fixture_create(.np = 2, .start_ms = 3000);

    run(f, "a:2");
    at(f, 10, commits("w1 w2"));
    at(f, 20, hosts("a:4"));
    at(f, 30, ready("w3"));
    pass(f, 2900);
    expect(f, "spawn: w3@a:2 w4@a:3\n");
    pass(f, 3300);
    expect(f, "kill: w4\nhold 1, added: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m7_dead_newcomer_is_not_waited_for)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, commits("w1 w2"));
    at(f, 20, hosts("a:4"));
    at(f, 30, ready("w3"));
    at(f, 40, exited("w4", 1));
    expect(f, "spawn: w3@a:2 w4@a:3\nhold 1, added: w1 w2\nspawn: w5@a:3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m7_survivors_go_on_before_the_replacement_is_up)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, killed("w3"));
    at(f, 11, ready_lost("w1 w2"));
    expect(f, "abort 1, w3 died: w1 w2\nassign 2: w1 w2\n");
    pass(f, 700);
    expect(f, "spawn: w4@a:2\n");
    at(f, 710, ready("w4"));
    expect(f, "");
    at(f, 720, commits("w1 w2"));
    expect(f, "hold 1, added: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m7_below_min_np_newcomers_are_started_at_once)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, killed("w2"));
    expect(f, "abort 1, w2 died: w1\nspawn: w3@a:1\n");
    at(f, 20, ready_lost("w1"));
    at(f, 30, ready("w3"));
    expect(f, "assign 2: w1 w3+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m7_removal_is_announced_at_once)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    expect(f, "hold 1, removed: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m7_no_room_below_max_np_interrupts_nobody)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 3);

    run(f, "a:2");
    at(f, 10, hosts("a:2 b:1"));
    at(f, 15, commits("w1 w2"));
    at(f, 20, ready("w3"));
    leave_at(f, 30, "w1 w2", 2);
    expect_part(f, "assign 2: w1 w2 w3+sync\n");
    at(f, 35, commits("w1 w2 w3"));
    at(f, 40, hosts("a:2 b:4"));
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m7_added_and_removed_are_one_announcement)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, commits("w1 w2 w3"));
    at(f, 20, hosts("a:3 b:1"));
    expect(f, "spawn: w4@a:2\n");
    at(f, 30, done("w1")); /* nothing is announced while members finish */
    at(f, 40, hosts("a:3"));
    at(f, 50, ready("w4"));
    expect(f, "");
    at(f, 60, lost("w2", 1, ""));
    at(f, 70, ready_lost("w1 w2 w3"));
    expect(f, "abort 1: w1 w2 w3\nshutdown drained: w3\n"
              "assign 2: w1 w2 w4+sync\n");
    fixture_free(f);
}
END_TEST

/* ---- HOLD and CUT -------------------------------------------------------- */

START_TEST(cut_is_one_above_the_greatest_answer)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 20, held("w1", 3));
    at(f, 21, held("w2", 7));
    expect(f, "hold 1, removed: w1 w2 w3\n");
    at(f, 22, held("w3", 6));
    expect(f, "cut 8: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(cut_held_twice_counts_once)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 20, held("w1 w1 w1 w2", 3));
    expect(f, "hold 1, removed: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(cut_with_a_done_member_is_never)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 20, held_done("w1", 9));
    at(f, 21, held("w2 w3", 8));
    expect(f, "hold 1, removed: w1 w2 w3\ncut never: w1 w2 w3\n");
    at(f, 30, done("w1 w2 w3"));
    expect(f, "release: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(cut_done_between_hold_and_cut_is_never)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 20, held("w1 w2", 8));
    at(f, 30, done("w1"));
    at(f, 40, held("w3", 8));
    expect(f, "hold 1, removed: w1 w2 w3\ncut never: w1 w2 w3\n");
    at(f, 50, hosts("a:3"));
    pass(f, 1000); /* nothing more in this generation */
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(cut_of_an_aborted_generation_is_forgotten)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "a:3 b:1");
    at(f, 10, hosts("a:3"));
    at(f, 20, held("w1", 3));
    at(f, 30, killed("w2"));
    expect(f, "hold 1, removed: w1 w2 w3 w4\nabort 1, w2 died: w1 w3 w4\n");
    at(f, 40, held("w3 w4", 4));
    expect(f, "");
    at(f, 50, ready_lost("w1 w3 w4"));
    expect(f, "shutdown drained: w4\nassign 2: w1 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(cut_that_a_member_misses_ends_the_job)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 20, held("w1 w2 w3", 8));
    at(f, 30, done("w1")); /* with fewer boundaries than the others */
    at(f, 40, ready_updated("w2 w3"));
    expect_part(f, "shutdown failed: w1 w2 w3\n");
    at(f, 50, exited("w1 w2 w3", 1));
    expect(f, "stop agent: a b\nfinish 1: worker 1 (a:0) finished before "
              "boundary 9, where the others left: ranks must commit equally "
              "often\n");
    fixture_free(f);
}
END_TEST

/* ---- M8 ------------------------------------------------------------------ */

START_TEST(m8_host_back_before_the_close_same_members_again)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2, .reset_limit = 1);

    run(f, "a:2 b:1");
    for (uint64_t i = 0; i < 3; i++) { /* not counted by --reset-limit */
        at(f, 100 * i + 10, hosts("a:2"));
        at(f, 100 * i + 15, commits("w1 w2 w3"));
        at(f, 100 * i + 20, hosts("a:2 b:1"));
        leave_at(f, 100 * i + 30, "w1 w2 w3", 3);
    }
    expect(f, "hold 1, removed: w1 w2 w3\ncut 3: w1 w2 w3\n"
              "assign 2: w1 w2 w3\n"
              "hold 2, removed: w1 w2 w3\ncut 3: w1 w2 w3\n"
              "assign 3: w1 w2 w3\n"
              "hold 3, removed: w1 w2 w3\ncut 3: w1 w2 w3\n"
              "assign 4: w1 w2 w3\n");
    ck_assert_uint_eq(f->driver.resets, 0);
    fixture_free(f);
}
END_TEST

START_TEST(m8_target_is_computed_at_close)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 20, held("w1 w2 w3", 2));
    at(f, 30, hosts("a:1 b:1")); /* another one has to go now */
    at(f, 40, ready_updated("w1 w2 w3"));
    expect(f, "hold 1, removed: w1 w2 w3\ncut 3: w1 w2 w3\n"
              "shutdown drained: w2\nassign 2: w1 w3\n");
    fixture_free(f);
}
END_TEST

/* ---- M9 ------------------------------------------------------------------ */

START_TEST(m9_sole_base_holder_is_kept)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 20, held("w1 w2 w3", 2));
    holds(f, "w1 w2", 1, 2);
    holds(f, "w3", 1, 3); /* it had passed a commit before the loss */
    at(f, 30, lost("w1", 1, ""));
    at(f, 40, ready_lost("w1 w2 w3"));
    expect_part(f, "assign 2: w1+sync w2+sync w3\nhold 2, removed: w1 w2 w3\n");
    leave_at(f, 50, "w1 w2 w3", 1); /* they are synced now */
    expect(f, "cut 1: w1 w2 w3\nshutdown drained: w3\nassign 3: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m9_below_min_np_kept_until_drain_timeout)
{
    struct fixture *f = fixture_create(.np = 3, .drain_ms = 5000);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 15, commits("w1 w2 w3"));
    leave_at(f, 20, "w1 w2 w3", 2);
    expect(f, "hold 1, removed: w1 w2 w3\ncut 2: w1 w2 w3\n"
              "warn: worker 3 (b:0) is to leave, but without it there are "
              "fewer workers than --min-np 3 -> it stays until another takes "
              "its place, or --drain-timeout is over\n"
              "assign 2: w1 w2 w3\n");
    pass(f, 5000); /* announced once; nothing would change */
    expect(f, "");
    at(f, 5005, commits("w1 w2 w3"));
    pass(f, 5200);
    expect(f, "hold 2, removed: w1 w2 w3\n");
    leave_at(f, 5210, "w1 w2 w3", 5);
    expect(f, "cut 5: w1 w2 w3\nshutdown drained: w3\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_RENDEZVOUS);
    at(f, 5300, exited("w3", 0));
    at(f, 5400, hosts("a:3"));
    at(f, 5500, ready("w4"));
    expect(f, "stop agent: b\nspawn: w4@a:2\nassign 3: w1 w2 w4+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m9_below_min_np_kept_until_a_newcomer_is_ready)
{
    struct fixture *f = fixture_create(.np = 3);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 15, commits("w1 w2 w3"));
    leave_at(f, 20, "w1 w2 w3", 2);
    expect_part(f, "assign 2: w1 w2 w3\n");
    at(f, 25, commits("w1 w2 w3"));
    at(f, 30, hosts("a:2 c:1"));
    expect(f, "start agent: c\nspawn: w4@c:0\n");
    at(f, 40, ready("w4"));
    expect(f, "hold 2, both: w1 w2 w3\n");
    leave_at(f, 50, "w1 w2 w3", 2);
    expect(f, "cut 2: w1 w2 w3\nshutdown drained: w3\n"
              "assign 3: w1 w2 w4+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(m9_newcomer_of_a_removed_host_goes_at_once)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, hosts("a:2 b:2"));
    at(f, 20, ready("w3"));
    at(f, 30, hosts("a:2"));
    expect(f, "start agent: b\nspawn: w3@b:0 w4@b:1\n"
              "shutdown drained: w3 w4\n");
    at(f, 40, exited("w3 w4", 0));
    expect(f, "stop agent: b\n");
    fixture_free(f);
}
END_TEST

START_TEST(m9_who_never_called_is_killed)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    f->slow_workers = true;
    at(f, 10, hosts("a:2 b:1"));
    at(f, 30, hosts("a:2"));
    expect(f, "start agent: b\nspawn: w3@b:0\nkill: w3\n");
    at(f, 31, hello("w3")); /* crossed */
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m9_worker_asks_for_its_drain)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, drain_me("w2"));
    at(f, 20, drain_me("w2")); /* repeated with each heartbeat */
    expect(f, "hold 1, removed: w1 w2 w3\n");
    at(f, 25, commits("w1 w2 w3"));
    leave_at(f, 30, "w1 w2 w3", 2);
    expect(f, "cut 2: w1 w2 w3\nshutdown drained: w2\nassign 2: w1 w3\n");
    at(f, 40, exited("w2", 0));
    pass(f, 3000); /* its slot stays empty */
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m9_drained_worker_that_stays_is_killed)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2, .drain_ms = 4000);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    leave_at(f, 20, "w1 w2 w3", 2);
    expect_part(f, "shutdown drained: w3\n");
    pass(f, 4000);
    expect_part(f, "");
    pass(f, 4200);
    expect(f, "kill: w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m9_death_of_a_draining_member_is_a_loss_and_no_failure)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2,
                                       .strict_blacklist = true);

    run(f, "a:2 b:1");
    at(f, 10, hosts("a:2"));
    at(f, 20, killed("w3"));
    expect(f, "hold 1, removed: w1 w2 w3\nabort 1, w3 died: w1 w2\n"
              "stop agent: b\n");
    at(f, 30, ready_lost("w1 w2"));
    expect(f, "assign 2: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* ---- M10 ----------------------------------------------------------------- */

START_TEST(m10_member_in_user_code_is_waited_for)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2,
                                       .elastic_ms = 20000);
    char text[WIRE_TEXT_MAX];

    run(f, "a:3");
    at(f, 10, killed("w3"));
    at(f, 20, ready_lost("w1"));
    expect_part(f, "abort 1, w3 died: w1 w2\n");
    driver_waiting_for(&f->driver, 4000000, text, sizeof(text));
    ck_assert_str_eq(text, "");
    pass(f, 20000);
    driver_waiting_for(&f->driver, 20000000, text, sizeof(text));
    ck_assert_str_eq(text, "waiting for rank 1, worker 2 (a:1)");
    expect(f, "spawn: w4@a:2\n");
    pass(f, 20200);
    expect(f, "kill: w2\n"); /* two were needed, and nobody else is READY */
    ck_assert_int_eq(f->driver.phase, DRIVER_RENDEZVOUS);
    fixture_free(f);
}
END_TEST

START_TEST(m10_never_called_is_replaced_after_start_timeout)
{
    struct fixture *f = fixture_create(.np = 2, .start_ms = 3000);

    f->slow_workers = true;
    at(f, 0, hosts("a:2"));
    pass(f, 3000);
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1\n");
    at(f, 3000, hello("w1"));
    at(f, 3000, ready("w1"));
    pass(f, 3200);
    expect(f, "kill: w2\n");
    at(f, 3300, killed("w2"));
    expect(f, "spawn: w3@a:1\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_hung_before_its_training_is_replaced_after_start_timeout)
{
    struct fixture *f = fixture_create(.np = 2, .start_ms = 3000);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready("w1"));
    pass(f, 2900);
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1\n");
    pass(f, 3200);
    expect(f, "kill: w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_busy_before_its_training_is_waited_for)
{
    struct fixture *f = fixture_create(.np = 2, .start_ms = 3000);
    struct happening busy = ping("w2", WORKER_IDLE, 0);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready("w1"));
    busy.message.u.ping.busy_ms = 60000;
    f->workers[2].silent = true; /* but for these */
    for (uint64_t s = 1; s <= 30; s++) {
        at(f, 1000 * s, busy);
        pass(f, 1000 * s + 900);
    }
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1\n");
    fixture_free(f);
}
END_TEST

/* A loop may ask whether it should end early, long before a boundary is due. */
START_TEST(members_hear_that_a_change_is_expected)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 5, commits("w1 w2"));
    ck_assert(!f->workers[1].expects && !f->workers[2].expects);
    at(f, 10, hosts("a:2 b:1"));
    at(f, 20, commits("w1 w2"));
    ck_assert(f->workers[1].expects && f->workers[2].expects);
    at(f, 30, ready("w3"));
    leave_at(f, 40, "w1 w2", 2);
    at(f, 50, commits("w1 w2 w3"));
    for (int id = 1; id <= 3; id++)
        ck_assert(!f->workers[id].expects);
    at(f, 60, hosts("a:2"));
    at(f, 70, commits("w1"));
    ck_assert(f->workers[1].expects);
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_changes");
    TCase *tcase = tcase_create("core_changes");

    tcase_add_test(tcase, m7_newcomer_announced_only_after_commit);
    tcase_add_test(tcase, m7_a_program_that_never_commits_takes_newcomers_in);
    tcase_add_test(tcase, m7_the_first_snapshot_is_no_commit);
    tcase_add_test(tcase, m7_members_train_until_newcomer_is_ready);
    tcase_add_test(tcase, m7_spawned_together_announced_together);
    tcase_add_test(tcase, m7_spawned_together_waits_for_an_agent_that_starts);
    tcase_add_test(tcase, m7_generation_1_waits_for_those_started_together);
    tcase_add_test(tcase, m7_who_is_late_by_start_timeout_is_not_waited_for);
    tcase_add_test(tcase, m7_dead_newcomer_is_not_waited_for);
    tcase_add_test(tcase, m7_survivors_go_on_before_the_replacement_is_up);
    tcase_add_test(tcase, m7_below_min_np_newcomers_are_started_at_once);
    tcase_add_test(tcase, m7_removal_is_announced_at_once);
    tcase_add_test(tcase, m7_no_room_below_max_np_interrupts_nobody);
    tcase_add_test(tcase, m7_added_and_removed_are_one_announcement);
    tcase_add_test(tcase, cut_is_one_above_the_greatest_answer);
    tcase_add_test(tcase, cut_held_twice_counts_once);
    tcase_add_test(tcase, cut_with_a_done_member_is_never);
    tcase_add_test(tcase, cut_done_between_hold_and_cut_is_never);
    tcase_add_test(tcase, cut_of_an_aborted_generation_is_forgotten);
    tcase_add_test(tcase, cut_that_a_member_misses_ends_the_job);
    tcase_add_test(tcase, m8_host_back_before_the_close_same_members_again);
    tcase_add_test(tcase, m8_target_is_computed_at_close);
    tcase_add_test(tcase, m9_sole_base_holder_is_kept);
    tcase_add_test(tcase, m9_below_min_np_kept_until_drain_timeout);
    tcase_add_test(tcase, m9_below_min_np_kept_until_a_newcomer_is_ready);
    tcase_add_test(tcase, m9_newcomer_of_a_removed_host_goes_at_once);
    tcase_add_test(tcase, m9_who_never_called_is_killed);
    tcase_add_test(tcase, m9_worker_asks_for_its_drain);
    tcase_add_test(tcase, m9_drained_worker_that_stays_is_killed);
    tcase_add_test(tcase,
                   m9_death_of_a_draining_member_is_a_loss_and_no_failure);
    tcase_add_test(tcase, m10_member_in_user_code_is_waited_for);
    tcase_add_test(tcase, m10_never_called_is_replaced_after_start_timeout);
    tcase_add_test(
        tcase, m10_hung_before_its_training_is_replaced_after_start_timeout);
    tcase_add_test(tcase, m10_busy_before_its_training_is_waited_for);
    tcase_add_test(tcase, members_hear_that_a_change_is_expected);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
