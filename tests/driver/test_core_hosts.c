/* tests/driver/test_core_hosts.c - hosts, agents and the blacklist: the rule
 * M11, as transcripts of the driver's core. See fixture.h for the words. */
#include <string.h>

#include "driver/fixture.h"

/* As of a script whose first command failed. */
START_TEST(an_empty_answer_counts_when_it_is_repeated)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:1 b:1");
    at(f, 1000, hosts(""));
    expect(f, "warn: discovery listed no hosts -> the last ones are kept until "
              "it has done so three times in a row\n");
    at(f, 2000, hosts(""));
    at(f, 3000, hosts("a:1 b:1")); /* begins anew: */
    at(f, 3100, hosts(""));
    at(f, 3200, hosts(""));
    at(f, 3300, hosts("")); /* three, but at once */
    at(f, 5000, hosts(""));
    expect(f, "");
    at(f, 5100, hosts(""));
    expect(f, "hold 1, removed: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_blacklist_with_cooldown_comes_back)
{
    struct fixture *f = fixture_create(.np = 2, .strict_blacklist = true,
                                       .cooldown_low_ms = 1,
                                       .cooldown_high_ms = 10000);

    at(f, 0, hosts("a:1 b:1"));
    at(f, 10, exited("w2", 1));
    expect(f, "start agent: a b\nspawn: w1@a:0 w2@b:0\n"
              "blacklist b for 1 ms\nstop agent: b\n");
    pass(f, 200);
    expect(f, "start agent: b\nspawn: w3@b:0\n");
    at(f, 210, exited("w3", 1)); /* longer each time */
    expect(f, "blacklist b for 2 ms\nstop agent: b\n");
    fixture_free(f);
}
END_TEST

/* Not a failure: it rests, for twice as long each time, and the others go on.
 */
START_TEST(m11_host_apart_from_the_others_is_tried_again)
{
    struct fixture *f = fixture_create(.np = 1, .max_np = 2);

    strcpy(f->slow_host, "b");
    at(f, 0, hosts("a:1 b:1"));
    at(f, 10, agent_apart("b"));
    expect(f, "start agent: a b\nspawn: w1@a:0\nkill agent: b\n"
              "apart b for 10000 ms: nobody reaches it\n");
    at(f, 100, ready("w1"));
    expect(f, "assign 1: w1\n");
    pass(f, 10000);
    expect(f, "");
    pass(f, 10200);
    expect(f, "start agent: b\n");
    at(f, 10300, agent_apart("b"));
    expect(f, "kill agent: b\napart b for 20000 ms: nobody reaches it\n");
    pass(f, 30200);
    expect(f, "");
    pass(f, 30400);
    at(f, 30400, agent_up("b"));
    expect(f, "start agent: b\nspawn: w2@b:0\n");
    at(f, 30500, agent_apart("b")); /* too late */
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* c and a do not reach each other any more, b reaches both: before the next
 * generation the driver asks the agents of the two, once. All workers of the
 * younger go together, and nobody is started there until c and a reach each
 * other. */
START_TEST(m5_host_that_another_does_not_reach_goes_as_a_whole)
{
    struct fixture *f = fixture_create(.np = 6, .min_np = 2);

    f->driver.config.doubts = true;
    run(f, "a:2 b:2 c:2");
    at(f, 10, lost("w1", 1, "4"));
    expect_part(f, "abort 1: w1 w2 w3 w4 w5 w6\n");
    at(f, 20, ready_lost("w1 w2 w3 w4 w5 w6"));
    expect(f, "doubt: c\n");
    at(f, 2100, agent_apart("c"));
    expect(f, "kill: w5 w6\napart c for 10000 ms: nobody reaches it\n"
              "assign 2: w1 w2 w3 w4\n");
    at(f, 2200, killed("w5 w6"));
    pass(f, 12000);
    expect(f, "");
    pass(f, 12400);
    expect(f, "doubt: c\n");
    at(f, 12500, agent_apart("c"));
    expect(f, "apart c for 20000 ms: nobody reaches it\n");
    pass(f, 32600);
    expect(f, "doubt: c\n");
    at(f, 32700, agent_up("c"));
    expect(f, "spawn: w7@c:0 w8@c:1\n");
    fixture_free(f);
}
END_TEST

/* Large packets to and from a are lost. The first generation shows one pair
 * alone, so the younger host goes; a goes when the next pair has it, too. And b
 * has to reach c, which is in use, not a. */
START_TEST(m5_host_that_a_removed_one_did_not_reach_goes)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1);
    const struct driver_host *hosts;

    f->driver.config.doubts = true;
    run(f, "a:1 b:1 c:1");
    hosts = f->driver.hosts;
    at(f, 10, lost("w1", 1, "1"));
    at(f, 20, ready_lost("w1 w2 w3"));
    expect_part(f, "doubt: b\n");
    at(f, 2100, agent_apart("b"));
    expect_part(f, "assign 2: w1 w3\n");
    at(f, 2110, commits("w1 w3"));
    at(f, 2200, killed("w2"));
    at(f, 5000, lost("w1", 2, "1"));
    at(f, 5010, ready_lost("w1 w3"));
    expect_part(f, "doubt: a\n");
    at(f, 7000, agent_apart("a"));
    expect_part(f, "assign 3: w3\n");
    at(f, 7100, killed("w1"));
    forget(f);
    pass(f, 12400);
    expect(f, "doubt: b\n");
    ck_assert_uint_eq(hosts[1].doubted_by, hosts[2].agent);
    at(f, 12500, agent_up("b"));
    expect(f, "spawn: w4@b:0\n");
    fixture_free(f);
}
END_TEST

/* The cable of a: it accuses one, two accuse it. It goes, though it is the
 * oldest. */
START_TEST(m5_host_that_most_accuse_goes)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    f->driver.config.doubts = true;
    run(f, "a:1 b:1 c:1");
    at(f, 10, lost("w1", 1, "1"));
    at(f, 11, lost("w2", 1, "0"));
    at(f, 12, lost("w3", 1, "0"));
    at(f, 20, ready_lost("w1 w2 w3"));
    expect_part(f, "doubt: a\n");
    at(f, 2100, agent_apart("a"));
    expect_part(f, "assign 2: w2 w3\n");
    fixture_free(f);
}
END_TEST

/* A blip: nobody goes, and the same pair is asked about once a generation. */
START_TEST(m5_hosts_that_reach_each_other_go_on_at_once)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    f->driver.config.doubts = true;
    run(f, "a:1 b:1");
    at(f, 10, lost("w1", 1, "1"));
    at(f, 20, ready_lost("w1 w2"));
    expect_part(f, "doubt: b\n");
    at(f, 25, agent_up("b"));
    expect_part(f, "assign 2: w1 w2\n");
    at(f, 1000, agent_apart("b")); /* nobody has asked */
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m5_hosts_whose_agents_say_nothing_go_on)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    f->driver.config.doubts = true;
    run(f, "a:1 b:1");
    at(f, 10, lost("w1", 1, "1"));
    at(f, 20, ready_lost("w1 w2"));
    expect_part(f, "doubt: b\n");
    pass(f, 2900);
    expect(f, "");
    pass(f, 3200);
    expect(f, "assign 2: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* The second time in a row one of the two goes all the same (M5). */
START_TEST(m5_hosts_that_reach_each_other_and_lose_each_other_again)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    f->driver.config.doubts = true;
    run(f, "a:1 b:1");
    at(f, 10, lost("w1", 1, "1"));
    at(f, 20, ready_lost("w1 w2"));
    at(f, 25, agent_up("b"));
    at(f, 30, lost("w1", 2, "1"));
    at(f, 40, ready_lost("w1 w2"));
    expect_part(f, "doubt: b\nkill: w2\nassign 3: w1\n");
    at(f, 45, agent_up("b"));
    at(f, 50, killed("w2"));
    pass(f, 1000);
    expect(f, "spawn: w3@b:0\n");
    fixture_free(f);
}
END_TEST

/* w1 and the worker on b lose each other in this generation and the next, and
 * the agents reach each other. */
static void quarrel(struct fixture *f, uint64_t ms, uint64_t generation,
                    const char *both)
{
    at(f, ms, lost("w1", generation, "1"));
    at(f, ms + 10, ready_lost(both));
    at(f, ms + 15, agent_up("b"));
    at(f, ms + 20, lost("w1", generation + 1, "1"));
    at(f, ms + 30, ready_lost(both));
}

/* And again with the next one: what is between the two hosts does not pass what
 * workers send, and each newcomer would end two generations. */
START_TEST(m5_host_whose_workers_go_one_after_the_other_is_left_alone)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    f->driver.config.doubts = true;
    run(f, "a:1 b:1");
    quarrel(f, 10, 1, "w1 w2");
    at(f, 45, agent_up("b"));
    at(f, 50, killed("w2"));
    pass(f, 1000);
    at(f, 1100, ready("w3"));
    at(f, 1110, commits("w1"));
    leave_at(f, 1120, "w1", 8);
    expect_part(f, "assign 4: w1 w3+sync\n");
    quarrel(f, 1200, 4, "w1 w3");
    expect_part(f, "kill: w3\nassign 6: w1\n");
    at(f, 1250, agent_up("b"));
    at(f, 1260, killed("w3"));
    expect_part(f, "apart b for 10000 ms: its workers and those of host a lose "
                   "each other");
    pass(f, 11000);
    expect(f, "");
    pass(f, 11500);
    expect(f, "doubt: b\n");
    at(f, 11510, agent_up("b"));
    expect(f, "spawn: w4@b:0\n");
    fixture_free(f);
}
END_TEST

/* A death explains why others were not heard: nobody is asked. */
START_TEST(m5_death_needs_no_question)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    f->driver.config.doubts = true;
    run(f, "a:1 b:1 c:1");
    at(f, 10, lost("w1", 1, "2"));
    at(f, 15, killed("w3"));
    at(f, 20, ready_lost("w1 w2"));
    expect_part(f, "assign 2: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* Of another version: it would be the same again. */
START_TEST(m11_agent_that_is_refused_takes_its_host_away)
{
    struct fixture *f = fixture_create(.np = 2);

    strcpy(f->slow_host, "b");
    at(f, 0, hosts("a:2 b:2"));
    at(f, 10, agent_refused("b"));
    expect_part(f, "blacklist b for good\n");
    pass(f, 5000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m11_exit_after_release_fails_the_job)
{
    struct fixture *f = fixture_create(.np = 2, .strict_blacklist = true);

    run(f, "a:2");
    at(f, 10, done("w1 w2"));
    at(f, 20, exited("w1", 0));
    expect(f, "release: w1 w2\n");
    at(f, 30, exited("w2", 3));
    expect(f, "stop agent: a\nfinish 1: worker 2 (a:1) had finished, but then "
              "exited with status 3\n");
    fixture_free(f);
}
END_TEST

START_TEST(spawn_that_got_lost_is_repeated)
{
    struct fixture *f = fixture_create(.np = 2);

    f->no_spawns = true;
    at(f, 0, hosts("a:2"));
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1\n");
    at(f, 10, agent_runs("a", 1)); /* it is on its way */
    expect(f, "");
    at(f, 1010, agent_runs("a", 2));
    expect(f, "");
    at(f, 1020, agent_runs("a", 1)); /* which of them is not known */
    expect(f, "spawn: w1@a:0 w2@a:1\n");
    fixture_free(f);
}
END_TEST

/* That is asked for with each KILL. */
START_TEST(worker_that_is_killed_is_not_spawned_again)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    f->workers[2].silent = true;
    pass(f, 3000);
    expect_part(f, "kill: w2");
    at(f, 3000, agent_runs("a", 0));
    expect(f, "spawn: w1@a:0\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_mismatch_is_not_restarted)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, mismatch("w2", "rank 1 broadcasts 4 f32, rank 0 8 f32"));
    at(f, 11, mismatch("w1", "rank 1 broadcasts 4 f32, rank 0 8 f32"));
    expect(f, "abort 1, mismatch: w1 w2 w3\nshutdown failed: w1 w2 w3 w1\n");
    at(f, 20, exited("w1 w2 w3", 1));
    expect(f, "stop agent: a\n"
              "finish 1: rank 1 broadcasts 4 f32, rank 0 8 f32\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_user_error_is_not_restarted)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, leaving("w2", "no file data.bin"));
    expect(f, "shutdown failed: w1 w2\n");
    at(f, 15, leaving("w2", "no file data.bin")); /* not heard yet */
    expect(f, "shutdown failed: w2\n");
    at(f, 20, exited("w1 w2", 1));
    expect(f, "stop agent: a\n"
              "finish 1: worker 2 (a:1) failed: no file data.bin\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_layouts_that_differ_at_the_start_end_the_job)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready("w1"));
    at(f, 20, ready_layout("w2", "v f32[5]"));
    at(f, 30, exited("w1 w2", 1));
    expect_part(f, "finish 1: state layouts differ: worker 2 (a:1) has "
                   "{v f32[5]}, the job has {w f32[4]}\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_wrong_layout_later_refuses_the_newcomer_only)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 5, commits("w1 w2"));
    at(f, 10, hosts("a:2 b:1"));
    at(f, 20, ready_layout("w3", "v f32[5]"));
    expect(f, "start agent: b\nspawn: w3@b:0\nshutdown failed: w3\n"
              "close b:0 for good: state layouts differ: worker 3 (b:0) has "
              "{v f32[5]}, the job has {w f32[4]}\n");
    at(f, 30, exited("w3", 1));
    pass(f, 5000);
    expect(f, "");
    at(f, 5000, hosts("a:2"));
    expect(f, "stop agent: b\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_static_worker_in_an_elastic_job_is_refused)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, hosts("a:3"));
    at(f, 20, ready_static("w3"));
    expect(f, "spawn: w3@a:2\nshutdown failed: w3\n"
              "close a:2 for good: worker 3 (a:2) is static (hvd_world_start), "
              "the job is elastic\n");
    fixture_free(f);
}
END_TEST

static struct happening unfit(const char *workers)
{
    return (struct happening){.type = DRIVER_EV_UNFIT,
                              .workers = workers,
                              .text = "runs libhvd 0.0.1"};
}

/* Whoever is tried there may be refused for the same reason, each time anew. */
START_TEST(m7_start_does_not_wait_for_a_slot_that_was_closed)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1, .script = true,
                                       .start_ms = 20000,
                                       .cooldown_low_ms = 1000,
                                       .cooldown_high_ms = 4000);

    at(f, 0, hosts("a:1 b:1"));
    at(f, 10, ready("w1"));
    at(f, 20, unfit("w2"));
    at(f, 30, exited("w2", 1));
    pass(f, 19000);
    ck_assert_uint_eq(f->driver.generation, 0);
    ck_assert_ptr_nonnull(driver_worker(&f->driver, 3));
    pass(f, 20500);
    ck_assert_uint_eq(f->driver.generation, 1);
    fixture_free(f);
}
END_TEST

START_TEST(m11_worker_of_another_release_is_refused)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, hosts("a:3"));
    at(f, 20, unfit("w3"));
    at(f, 20, unfit("w3"));
    expect(f, "spawn: w3@a:2\nshutdown failed: w3\n"
              "close a:2 for good: worker 3 (a:2) runs libhvd 0.0.1\n");
    at(f, 30, unfit("w1")); /* a member has been through this */
    expect(f, "");
    fixture_free(f);
}
END_TEST

static struct happening other_build(const char *host)
{
    struct happening h = agent_up(host);

    h.type = DRIVER_EV_OTHER_BUILD;
    h.agent = "its hvd-agent is another";
    return h;
}

START_TEST(other_build_is_reported_once_for_each_host)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:1 b:1");
    at(f, 10, other_build("b"));
    at(f, 20, other_build("b"));
    expect(f, "warn: host b: its hvd-agent is another\n");
    at(f, 30, other_build("a"));
    expect(f, "warn: host a: its hvd-agent is another\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_hosts");
    TCase *tcase = tcase_create("core_hosts");

    tcase_add_test(tcase, m11_blacklist_with_cooldown_comes_back);
    tcase_add_test(tcase, an_empty_answer_counts_when_it_is_repeated);
    tcase_add_test(tcase, m5_host_that_another_does_not_reach_goes_as_a_whole);
    tcase_add_test(tcase, m5_host_that_a_removed_one_did_not_reach_goes);
    tcase_add_test(tcase, m5_host_that_most_accuse_goes);
    tcase_add_test(tcase, m5_hosts_that_reach_each_other_go_on_at_once);
    tcase_add_test(tcase, m5_hosts_whose_agents_say_nothing_go_on);
    tcase_add_test(tcase,
                   m5_hosts_that_reach_each_other_and_lose_each_other_again);
    tcase_add_test(tcase,
                   m5_host_whose_workers_go_one_after_the_other_is_left_alone);
    tcase_add_test(tcase, m5_death_needs_no_question);
    tcase_add_test(tcase, m11_host_apart_from_the_others_is_tried_again);
    tcase_add_test(tcase, m11_agent_that_is_refused_takes_its_host_away);
    tcase_add_test(tcase, m11_exit_after_release_fails_the_job);
    tcase_add_test(tcase, spawn_that_got_lost_is_repeated);
    tcase_add_test(tcase, worker_that_is_killed_is_not_spawned_again);
    tcase_add_test(tcase, m11_mismatch_is_not_restarted);
    tcase_add_test(tcase, m11_user_error_is_not_restarted);
    tcase_add_test(tcase, m11_layouts_that_differ_at_the_start_end_the_job);
    tcase_add_test(tcase, m7_start_does_not_wait_for_a_slot_that_was_closed);
    tcase_add_test(tcase, m11_wrong_layout_later_refuses_the_newcomer_only);
    tcase_add_test(tcase, m11_static_worker_in_an_elastic_job_is_refused);
    tcase_add_test(tcase, m11_worker_of_another_release_is_refused);
    tcase_add_test(tcase, other_build_is_reported_once_for_each_host);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
