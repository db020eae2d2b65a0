/* tests/driver/test_core_losses.c - who is dead and who is not, when a
 * rendezvous closes, who is turned away, and the order of those it draws: the
 * rules M5, M6 and M11 to M13, as transcripts of the driver's core. See
 * fixture.h for the words. */
#include <string.h>

#include "base/array.h"
#include "driver/fixture.h"

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

/* What arrives damaged either of two may have damaged: who receives it accuses
 * both, and of an elder and a newcomer it is the newcomer that goes. */
START_TEST(m5_who_accuses_itself_too_leaves_it_to_the_age)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost("w3", 1, "0 2"));
    at(f, 20, ready_lost("w1 w2 w3"));
    at(f, 30, lost("w3", 2, "0 2"));
    at(f, 40, ready_lost("w1 w2 w3"));
    expect_part(f, "kill: w3\nassign 3: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* Two that receive it from the same: then it is that one. */
START_TEST(m5_more_accuse_the_source_than_themselves)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost("w3", 1, "0 2"));
    at(f, 11, lost("w2", 1, "0 1"));
    at(f, 20, ready_lost("w1 w2 w3"));
    at(f, 30, lost("w3", 2, "0 2"));
    at(f, 40, ready_lost("w1 w2 w3"));
    expect_part(f, "kill: w1\nassign 3: w2 w3\n");
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
    pass(f, 1000); /* M12 makes a pause */
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

START_TEST(m5_kill_is_repeated_until_the_exit)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    f->workers[2].silent = true;
    pass(f, 2200);
    expect_part(f, "kill: w2\n");
    at(f, 2300, ready_lost("w1 w3"));
    pass(f, 7000);
    expect(f, "assign 2: w1 w3\n");
    pass(f, 7300); /* the agent did not hear it */
    expect(f, "kill: w2\n");
    at(f, 7400, killed("w2"));
    pass(f, 20000);
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
    expect(f, "kill agent: b\nabort 1, w3 died: w1 w2\n");
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

/* The generation is lost, and its members come again. */
static void fails(struct fixture *f, uint64_t ms)
{
    at(f, ms, lost("w1", f->driver.generation, ""));
    at(f, ms, ready_lost("w1 w2"));
}

/* What lies between them may mend: so not all at once. */
START_TEST(m12_no_progress_of_the_same_members)
{
    static const uint64_t pauses_ms[] = {0, 500, 2500, 10000};
    struct fixture *f = fixture_create(.np = 2);
    uint64_t ms = 10;

    run(f, "a:2");
    for (size_t i = 0; i < ARRAY_SIZE(pauses_ms); i++) {
        fails(f, ms);
        if (pauses_ms[i] > 0) {
            pass(f, ms + pauses_ms[i] - 100);
            ck_assert_uint_eq(f->driver.generation, i + 1);
            pass(f, ms + pauses_ms[i] + 100);
        }
        ck_assert_uint_eq(f->driver.generation, i + 2);
        ms += pauses_ms[i] + 200;
    }
    expect_part(f, "assign 5: w1 w2\n");
    fails(f, ms);
    expect_part(f, "shutdown failed: w1 w2\n");
    at(f, ms, exited("w1 w2", 1));
    expect(f, "stop agent: a\nfinish 1: no progress: 5 generations in a row "
              "of the same workers ended without a commit; last: worker 1 "
              "(a:0): connection reset\n");
    fixture_free(f);
}
END_TEST

START_TEST(m12_a_commit_starts_the_count_anew)
{
    struct fixture *f = fixture_create(.np = 2);
    uint64_t ms = 10;

    run(f, "a:2");
    for (uint64_t g = 1; g < 12; g++, ms += 11000) {
        if (g % 4 == 0)
            at(f, ms, commits("w1 w2"));
        fails(f, ms);
        pass(f, ms + 10500);
    }
    expect_part(f, "assign 12: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* In one long step: each slot has its own budget, and the rest is healthy. */
static uint64_t die_one_by_one(struct fixture *f)
{
    run(f, "a:8");
    at(f, 10, killed("w8"));
    at(f, 20, ready_lost("w1 w2 w3 w4 w5 w6 w7"));
    at(f, 30, killed("w7"));
    at(f, 40, ready_lost("w1 w2 w3 w4 w5 w6"));
    at(f, 50, killed("w6"));
    at(f, 60, ready_lost("w1 w2 w3 w4 w5"));
    at(f, 70, killed("w5"));
    at(f, 80, ready_lost("w1 w2 w3 w4"));
    at(f, 90, killed("w4"));
    at(f, 100, ready_lost("w1 w2 w3"));
    expect_part(f, "assign 6: w1 w2 w3\n");
    return 100;
}

START_TEST(m12_deaths_in_one_step_end_nothing)
{
    struct fixture *f = fixture_create(.np = 8, .min_np = 1);

    pass(f, die_one_by_one(f) + 1000);
    at(f, 2000, killed("w3"));
    at(f, 2010, ready_lost("w1 w2"));
    expect_part(f, "assign 7: w1 w2\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    fixture_free(f);
}
END_TEST

START_TEST(m12_deaths_without_a_commit_have_an_end)
{
    struct fixture *f = fixture_create(.np = 8, .min_np = 1, .commit_ms = 3000);

    pass(f, die_one_by_one(f) + 3000);
    at(f, 3500, killed("w3"));
    at(f, 3510, ready_lost("w1 w2"));
    ck_assert_int_eq(f->driver.phase, DRIVER_STOPPING);
    ck_assert_str_eq(f->driver.verdict,
                     "no progress: no generation has committed within "
                     "--commit-timeout; last: worker 3 (a:2) was killed by "
                     "signal 9 (SIGKILL)");
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
        const struct driver_worker *w = worker(f, rows[i].name);

        ck_assert_uint_eq(w->rank, rows[i].rank);
        ck_assert_uint_eq(f->driver.assign.size, 3);
        ck_assert_uint_eq(w->local_rank, rows[i].local_rank);
        ck_assert_uint_eq(w->local_size, rows[i].local_size);
        ck_assert_uint_eq(w->cross_rank, rows[i].cross_rank);
        ck_assert_uint_eq(w->cross_size, rows[i].cross_size);
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
    ck_assert_uint_eq(f->driver.assign.root, 1);
    ck_assert_uint_eq(f->driver.assign.base.version, 5);
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

START_TEST(m13_a_spare_that_claims_a_newer_state_is_not_the_base)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1, .max_np = 2);

    run(f, "a:1 b:1");
    at(f, 10, hosts("a:1 c:1")); /* w2 drains, w3 is started in its place */
    at(f, 11, held("w1 w2", 1));
    at(f, 12, hosts("a:1 b:1 c:1"));
    holds(f, "w3", 1, 9);
    at(f, 13, ready("w3"));
    at(f, 14, ready_updated("w1 w2"));
    expect_part(f, "assign 2: w1 w2\n");
    ck_assert_uint_eq(f->driver.assign.base.version, 1);
    fixture_free(f);
}
END_TEST

/* ---- M11: a newcomer that cannot enter ---------------------------------- */

static struct fixture *newcomer_enters(void)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, hosts("a:2 b:1"));
    at(f, 20, ready("w3"));
    at(f, 30, commits("w1 w2"));
    leave_at(f, 40, "w1 w2", 2);
    expect_part(f, "assign 2: w1 w2 w3+sync\n");
    return f;
}

START_TEST(m11_newcomer_that_cannot_enter_is_left_out_alone)
{
    struct fixture *f = newcomer_enters();

    at(f, 50, leaving_lacks("w3", "too few descriptors"));
    expect(f, "abort 2, w3 died: w1 w2\nshutdown failed: w3\n"
              "warn: worker 3 (b:0) failed: too few descriptors\n");
    at(f, 60, ready_lost("w1 w2"));
    expect(f, "assign 3: w1 w2\n"); /* w3 is not waited for */
    at(f, 70, exited("w3", 1));
    pass(f, 700);
    expect(f, "spawn: w4@b:0\n"); /* it may have passed */
    at(f, 710, commits("w1 w2"));
    at(f, 720, ready("w4"));
    leave_at(f, 730, "w1 w2", 3);
    expect_part(f, "assign 4: w1 w2 w4+sync\n");
    fixture_free(f);
}
END_TEST

/* Two that come together, and lack the same: the second one has been a member
 * of a generation that ended by the first. */
START_TEST(m11_newcomers_that_cannot_enter_are_left_out_in_turn)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, hosts("a:2 b:2"));
    at(f, 20, ready("w3 w4"));
    at(f, 30, commits("w1 w2"));
    leave_at(f, 40, "w1 w2", 2);
    expect_part(f, "assign 2: w1 w2 w3+sync w4+sync\n");
    at(f, 50, leaving_lacks("w3", "no memory"));
    expect_part(f, "shutdown failed: w3\n");
    at(f, 60, ready_lost("w1 w2 w4"));
    expect_part(f, "assign 3: w1 w2 w4\n");
    at(f, 70, leaving_lacks("w4", "no memory"));
    expect_part(f, "shutdown failed: w4\n");
    at(f, 80, ready_lost("w1 w2"));
    expect_part(f, "assign 4: w1 w2\n");
    fixture_free(f);
}
END_TEST

static void trains_again(struct fixture *f, uint64_t ms, uint64_t worker)
{
    struct message m = {
        .type = MSG_REPORT, .job = FIXTURE_JOB, .worker = worker};

    m.u.report.generation = 2;
    m.u.report.what = REPORT_FIRST_COLLECTIVE;
    at_raw(f, ms, &m);
}

/* Not with the next tick: the processors are free from then on. */
START_TEST(m7_replacement_starts_when_the_last_survivor_trains)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, killed("w3"));
    at(f, 20, ready_lost("w1 w2"));
    expect(f, "abort 1, w3 died: w1 w2\nassign 2: w1 w2\n");
    trains_again(f, 30, 1);
    expect(f, "");
    trains_again(f, 40, 2);
    expect(f, "spawn: w4@a:2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_member_that_fails_later_ends_the_job)
{
    struct fixture *f = newcomer_enters();

    trains_again(f, 50, 3);
    at(f, 60, leaving_lacks("w3", "too few descriptors"));
    expect_part(f, "shutdown failed: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_users_own_error_of_a_newcomer_is_its_own)
{
    struct fixture *f = newcomer_enters();

    at(f, 50, leaving("w3", "no file data.bin"));
    expect(f, "abort 2, w3 died: w1 w2\nshutdown failed: w3\n"
              "warn: worker 3 (b:0) failed: no file data.bin\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_first_generation_that_cannot_be_entered_ends_the_job)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, leaving_lacks("w2", "too few descriptors"));
    expect_part(f, "shutdown failed: w1 w2\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_losses");
    TCase *tcase = tcase_create("core_losses");

    tcase_add_test(tcase, m5_accused_is_not_dead);
    tcase_add_test(tcase, m5_same_pair_twice_in_a_row_younger_goes);
    tcase_add_test(tcase, m5_same_pair_twice_in_a_row_more_accused_goes);
    tcase_add_test(tcase, m5_accusation_heard_twice_counts_once);
    tcase_add_test(tcase, m5_who_accuses_itself_too_leaves_it_to_the_age);
    tcase_add_test(tcase, m5_more_accuse_the_source_than_themselves);
    tcase_add_test(tcase, m5_another_pair_is_no_row);
    tcase_add_test(tcase,
                   m5_a_death_explains_the_accusations_of_its_generation);
    tcase_add_test(tcase, m5_heartbeats_missing_is_dead);
    tcase_add_test(tcase, m5_kill_is_repeated_until_the_exit);
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
    tcase_add_test(tcase, m12_no_progress_of_the_same_members);
    tcase_add_test(tcase, m12_deaths_in_one_step_end_nothing);
    tcase_add_test(tcase, m12_deaths_without_a_commit_have_an_end);
    tcase_add_test(tcase, m12_a_commit_starts_the_count_anew);
    tcase_add_test(tcase, m13_rank0_is_oldest);
    tcase_add_test(tcase, m13_ranks_are_host_major_with_local_and_cross);
    tcase_add_test(tcase, m13_root_is_the_lowest_rank_with_the_base);
    tcase_add_test(tcase, m13_generation_counts_before_version_in_the_base);
    tcase_add_test(tcase,
                   m13_a_spare_that_claims_a_newer_state_is_not_the_base);
    tcase_add_test(tcase, m11_newcomer_that_cannot_enter_is_left_out_alone);
    tcase_add_test(tcase, m11_newcomers_that_cannot_enter_are_left_out_in_turn);
    tcase_add_test(tcase, m7_replacement_starts_when_the_last_survivor_trains);
    tcase_add_test(tcase, m11_member_that_fails_later_ends_the_job);
    tcase_add_test(tcase, m11_users_own_error_of_a_newcomer_is_its_own);
    tcase_add_test(tcase,
                   m11_first_generation_that_cannot_be_entered_ends_the_job);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
