/* tests/driver/test_core_horovod.c - Horovod's cases for its elastic driver by
 * name, as transcripts of ours. Where the outcome hangs on one failure taking
 * its whole host (D2, D6, D8, D13) they run with --strict-blacklist, and have a
 * twin under our own rule. docs/conformance.md lists the differences.
 *
 * D9 does not apply (who is notified is a matter of boundaries here), D11 and
 * D12 are about lists of hosts: tests/discovery. */
#include <stdio.h>

#include "driver/fixture.h"

static void expect_rank(struct fixture *f, const char *name, uint32_t rank,
                        uint32_t size, uint32_t local_rank, uint32_t cross_rank,
                        uint32_t cross_size)
{
    const struct driver_worker *w = worker(f, name);

    ck_assert_uint_eq(w->rank, rank);
    ck_assert_uint_eq(f->driver.assign.size, size);
    ck_assert_uint_eq(w->local_rank, local_rank);
    ck_assert_uint_eq(w->cross_rank, cross_rank);
    ck_assert_uint_eq(w->cross_size, cross_size);
}

START_TEST(d1_rank_and_size)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 4);

    at(f, 0, hosts("host-1:2 host-2:2"));
    at(f, 10, ready("w1 w2 w3 w4"));
    expect_part(f, "assign 1: w1 w2+sync w3+sync w4+sync\n");
    expect_rank(f, "w1", 0, 4, 0, 0, 2);
    expect_rank(f, "w2", 1, 4, 1, 0, 2);
    expect_rank(f, "w3", 2, 4, 0, 1, 2);
    expect_rank(f, "w4", 3, 4, 1, 1, 2);
    at(f, 20, done("w1 w2 w3 w4"));
    at(f, 30, exited("w1 w2 w3 w4", 0));
    expect(f, "release: w1 w2 w3 w4\nstop agent: host-1 host-2\n"
              "finish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(d2_rank_and_size_with_host_failure_strict)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 4,
                                       .strict_blacklist = true);

    at(f, 0, hosts("host-1:2 host-2:2"));
    at(f, 10, exited("w3", 1));
    expect_part(f, "blacklist host-2 for good\nkill: w4\n");
    at(f, 20, exited("w4", 1));
    at(f, 30, ready("w1 w2"));
    expect(f, "stop agent: host-2\nassign 1: w1 w2+sync\n");
    expect_rank(f, "w1", 0, 2, 0, 0, 1);
    expect_rank(f, "w2", 1, 2, 1, 0, 1);
    at(f, 40, done("w1 w2"));
    at(f, 50, exited("w1 w2", 0));
    expect(f, "release: w1 w2\nstop agent: host-1\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(d2_rank_and_size_with_host_failure)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 4);

    at(f, 0, hosts("host-1:2 host-2:2"));
    at(f, 10, exited("w3 w4", 1));
    expect_part(f, "spawn: w1@host-1:0 w2@host-1:1 w3@host-2:0 w4@host-2:1 "
                   "w5@host-2:0 w6@host-2:1\n");
    at(f, 30, ready("w1 w2")); /* the others are a wave of their own now */
    expect(f, "assign 1: w1 w2+sync\n");
    at(f, 40, commits("w1 w2"));
    at(f, 50, ready("w5"));
    at(f, 60, ready("w6"));
    expect(f, "hold 1, added: w1 w2\n");
    leave_at(f, 70, "w1 w2", 2);
    expect(f, "cut 2: w1 w2\nassign 2: w1 w2 w5+sync w6+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(d3_rank_and_size_with_host_added)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 4);

    run(f, "host-1:2");
    at(f, 5, commits("w1 w2"));
    at(f, 10, hosts("host-1:2 host-2:2"));
    at(f, 20, ready("w3 w4"));
    leave_at(f, 30, "w1 w2", 2);
    expect_part(f, "assign 2: w1 w2 w3+sync w4+sync\n");
    expect_rank(f, "w1", 0, 4, 0, 0, 2);
    expect_rank(f, "w2", 1, 4, 1, 0, 2);
    expect_rank(f, "w3", 2, 4, 0, 1, 2);
    expect_rank(f, "w4", 3, 4, 1, 1, 2);
    fixture_free(f);
}
END_TEST

static void all_ready(struct fixture *f, uint64_t ms, uint64_t from,
                      uint64_t to)
{
    char name[24];

    for (uint64_t id = from; id <= to; id++) {
        snprintf(name, sizeof(name), "w%u", (unsigned)id);
        at(f, ms, ready(name));
    }
}

START_TEST(d4_wait_for_available_slots)
{
    struct fixture *f = fixture_create(.np = 16);

    at(f, 0, hosts(""));
    expect(f, "");
    at(f, 10, hosts("h1:4"));
    all_ready(f, 11, 1, 4);
    at(f, 20, hosts("h1:4 h2:8"));
    all_ready(f, 21, 5, 12);
    ck_assert_int_eq(f->driver.phase, DRIVER_WAITING); /* nobody was bothered */
    at(f, 30, hosts("h1:4 h2:8 h3:4"));
    all_ready(f, 31, 13, 16);
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    ck_assert_uint_eq(f->driver.world_size, 16);
    fixture_free(f);
}
END_TEST

/* Slots are what counts: there is no minimum of hosts. */
START_TEST(d5_wait_for_min_hosts)
{
    struct fixture *f = fixture_create(.np = 12);

    at(f, 0, hosts("h1:4"));
    all_ready(f, 1, 1, 4);
    ck_assert_int_eq(f->driver.phase, DRIVER_WAITING);
    at(f, 10, hosts("h1:4 h2:8"));
    all_ready(f, 11, 5, 12);
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    fixture_free(f);
}
END_TEST

START_TEST(d6_all_workers_fail_strict)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 4,
                                       .strict_blacklist = true);

    run(f, "host-1:2 host-2:2");
    at(f, 10, exited("w1 w2 w3 w4", 1));
    expect(f, "abort 1, w1 died: w2 w3 w4\n"
              "blacklist host-1 for good\nkill: w2\nstop agent: host-1\n"
              "blacklist host-2 for good\nkill: w4\n"
              "stop agent: host-2\nfinish 1: every host is blacklisted; last "
              "failure: worker 3 (host-2:0) exited with status 1\n");
    fixture_free(f);
}
END_TEST

/* true(1), say, or a program that was not linked with the library. */
START_TEST(d6_program_without_the_library_is_told_so)
{
    struct fixture *f = fixture_create(.np = 1, .strict_blacklist = true);

    f->slow_workers = true;
    at(f, 0, hosts("a:1"));
    at(f, 10, exited("w1", 0));
    expect_part(f, "worker 1 (a:0) exited with status 0 and never called "
                   "hvd_init: is its program linked with libhvd, and does "
                   "a wrapper keep HVD_* and wait for it?\n");
    fixture_free(f);
}
END_TEST

START_TEST(d6_all_workers_fail)
{
    struct fixture *f = fixture_create(.np = 2, .slot_restarts = 1);

    run(f, "host-1:1 host-2:1");
    at(f, 10, exited("w1 w2", 1));
    at(f, 20, ready("w3 w4"));
    expect(f, "abort 1, w1 died: w2\nspawn: w3@host-1:0 w4@host-2:0\n"
              "assign 2: w3 w4+sync\n");
    at(f, 30, exited("w3 w4", 1)); /* their budgets are used up */
    expect_part(f, "finish 1: every slot is closed; last failure: worker 4 "
                   "(host-2:0) exited with status 1\n");
    fixture_free(f);
}
END_TEST

/* Horovod ends the job with the first exit 0, and a pod that is terminated
 * politely looks like success. Here success is DONE of all; an exit 0 without
 * it is a death like any other (docs/conformance.md). */
START_TEST(d7_exit_0_before_done_is_a_failure_like_any_other)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "host-1:2 host-2:2");
    at(f, 10, exited("w1", 0));
    at(f, 20, ready_lost("w2 w3 w4"));
    expect(f, "abort 1, w1 died: w2 w3 w4\nassign 2: w2 w3 w4\n");
    at(f, 30, done("w2 w3 w4"));
    at(f, 40, exited("w2 w3 w4", 0));
    expect_part(f, "finish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(d8_host_shutdown_on_worker_failure_strict)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 4,
                                       .strict_blacklist = true);

    run(f, "host-1:2 host-2:2");
    at(f, 10, exited("w1", 1));
    expect(f, "abort 1, w1 died: w2 w3 w4\n"
              "blacklist host-1 for good\nkill: w2\n");
    at(f, 20, ready_lost("w3 w4")); /* w2's exit is not waited for */
    expect(f, "assign 2: w3 w4\n");
    expect_rank(f, "w3", 0, 2, 0, 0, 1);
    at(f, 30, killed("w2"));
    at(f, 40, done("w3 w4"));
    at(f, 50, exited("w3 w4", 0));
    expect(f, "stop agent: host-1\nrelease: w3 w4\nstop agent: host-2\n"
              "finish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(d8_host_shutdown_on_worker_failure)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 4);

    run(f, "host-1:2 host-2:2");
    at(f, 10, exited("w1", 1));
    at(f, 20, ready_lost("w2 w3 w4")); /* the sibling goes on */
    expect(f, "abort 1, w1 died: w2 w3 w4\nassign 2: w2 w3 w4\n");
    expect_rank(f, "w2", 0, 3, 0, 0, 2);
    pass(f, 700);
    expect(f, "spawn: w5@host-1:0\n");
    fixture_free(f);
}
END_TEST

/* Without an assignment membership follows each answer of discovery. */
START_TEST(d10_send_notifications_without_assignments)
{
    struct fixture *f = fixture_create(.np = 3);

    at(f, 0, hosts("host-1:2"));
    at(f, 10, ready("w1"));
    expect(f, "start agent: host-1\nspawn: w1@host-1:0 w2@host-1:1\n");
    at(f, 20, hosts("host-1:1 host-2:1"));
    expect(f, "shutdown drained: w2\nstart agent: host-2\n"
              "spawn: w3@host-2:0\n");
    at(f, 30, hosts("host-2:1"));
    expect(f, "shutdown drained: w1\n");
    at(f, 40, exited("w1 w2", 0));
    at(f, 50, hosts("host-2:3"));
    at(f, 60, ready("w3 w4 w5"));
    expect(f, "stop agent: host-1\nspawn: w4@host-2:1 w5@host-2:2\n"
              "assign 1: w3 w4+sync w5+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(d13_blacklist_host_strict)
{
    struct fixture *f = fixture_create(.np = 2, .strict_blacklist = true);

    run(f, "a:2 b:2");
    at(f, 10, killed("w2"));
    expect_part(f, "blacklist a for good\nkill: w1\n");
    at(f, 20, killed("w1"));
    at(f, 30, hosts("a:4 b:2")); /* whatever discovery says of it */
    pass(f, 5000);
    expect_part(f, "stop agent: a\n");
    ck_assert(driver_worker(&f->driver, 5) == NULL);
    fixture_free(f);
}
END_TEST

START_TEST(d14_shutdown_on_initial_discovery_failure)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, discovery_is_wrong("./hosts.sh exited with status 2"));
    expect(f, "finish 1: the first discovery failed: ./hosts.sh exited with "
              "status 2\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_STOPPED);
    fixture_free(f);
}
END_TEST

/* For Horovod it is the end. The server that the script asks (kubectl, a
 * cloud's API) may be away for a moment then, as later. */
START_TEST(d14_initial_failures_that_pass_are_waited_for)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, discovery_fails("./hosts.sh exited with status 1"));
    expect(f, "warn: discovery failed, and no hosts are known -> it is tried "
              "until --elastic-timeout is over: ./hosts.sh exited with status "
              "1\n");
    at(f, 1000, discovery_fails("./hosts.sh exited with status 1"));
    expect(f, "");
    at(f, 20000, hosts("a:2"));
    expect_part(f, "start agent: a\n");
    ck_assert_str_eq(f->driver.last_failure, "");
    fixture_free(f);
}
END_TEST

START_TEST(d14_initial_failures_end_with_the_elastic_timeout)
{
    struct fixture *f = fixture_create(.np = 2, .elastic_ms = 30000);

    at(f, 0, discovery_fails("./hosts.sh exited with status 1"));
    pass(f, 31000);
    expect_part(f, "finish 1: only 0 of 2 workers for longer than "
                   "--elastic-timeout (30 s): discovery has never succeeded; "
                   "last failure: ./hosts.sh exited with status 1\n");
    fixture_free(f);
}
END_TEST

START_TEST(d14_later_failures_keep_the_last_hosts)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, discovery_fails("./hosts.sh exited with status 1"));
    expect(f, "warn: discovery failed, the last hosts are kept: ./hosts.sh "
              "exited with status 1\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    fixture_free(f);
}
END_TEST

START_TEST(failures_of_discovery_are_told_now_and_then)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, discovery_fails("one"));
    expect(f, "warn: discovery failed, the last hosts are kept: one\n");
    at(f, 500, discovery_fails("one"));
    expect(f, "");
    at(f, 1010, discovery_fails("two"));
    expect(f, "warn: discovery failed, the last hosts are kept: two\n");
    at(f, 1020, discovery_fails("one"));
    at(f, 1030, discovery_fails("two"));
    expect_part(f, "kept: one\n");
    at(f, 1040, discovery_fails("five")); /* four in ten seconds */
    expect(f, "");
    at(f, 10010, discovery_fails("three"));
    expect_part(f, "discovery failed, the last hosts are kept: three\n");
    at(f, 10020, hosts("a:2"));
    at(f, 10030, discovery_fails("four"));
    expect_part(f, "discovery failed, the last hosts are kept: four\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_horovod");
    TCase *tcase = tcase_create("core_horovod");

    tcase_add_test(tcase, d1_rank_and_size);
    tcase_add_test(tcase, d2_rank_and_size_with_host_failure_strict);
    tcase_add_test(tcase, d2_rank_and_size_with_host_failure);
    tcase_add_test(tcase, d3_rank_and_size_with_host_added);
    tcase_add_test(tcase, d4_wait_for_available_slots);
    tcase_add_test(tcase, d5_wait_for_min_hosts);
    tcase_add_test(tcase, d6_all_workers_fail_strict);
    tcase_add_test(tcase, d6_program_without_the_library_is_told_so);
    tcase_add_test(tcase, d6_all_workers_fail);
    tcase_add_test(tcase, d7_exit_0_before_done_is_a_failure_like_any_other);
    tcase_add_test(tcase, d8_host_shutdown_on_worker_failure_strict);
    tcase_add_test(tcase, d8_host_shutdown_on_worker_failure);
    tcase_add_test(tcase, d10_send_notifications_without_assignments);
    tcase_add_test(tcase, d13_blacklist_host_strict);
    tcase_add_test(tcase, d14_shutdown_on_initial_discovery_failure);
    tcase_add_test(tcase, d14_initial_failures_that_pass_are_waited_for);
    tcase_add_test(tcase, d14_initial_failures_end_with_the_elastic_timeout);
    tcase_add_test(tcase, d14_initial_failures_that_pass_are_waited_for);
    tcase_add_test(tcase, d14_initial_failures_end_with_the_elastic_timeout);
    tcase_add_test(tcase, d14_later_failures_keep_the_last_hosts);
    tcase_add_test(tcase, failures_of_discovery_are_told_now_and_then);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
