/* tests/driver/test_core_leaving.c - hosts that are about to go: who is drained
 * from them and when, what counts and what does not, and when they may be used
 * again. M9, as transcripts of the core. See fixture.h for the words. */
#include "driver/fixture.h"

/* Heartbeats of these come from the test: they compute, or wait for those. */
static void compute(struct fixture *f, uint64_t from_ms, uint64_t to_ms,
                    const char *waiting, const char *computing)
{
    struct happening waits = ping(waiting, WORKER_RUNNING, 0);

    waits.message.u.ping.in_collective = true;
    for (size_t i = 1; i <= f->driver.n_workers; i++)
        f->workers[i].silent = true;
    for (uint64_t ms = from_ms; ms < to_ms; ms += 500) {
        at(f, ms, waits);
        at(f, ms, ping(computing, WORKER_RUNNING, 0));
        pass(f, ms + 400);
    }
}

/* Minutes, without a tick for each tenth of a second: all were away. */
static void pass_long(struct fixture *f, uint64_t ms)
{
    f->now_us = (ms - 1000) * 1000;
    pass(f, ms);
}

static struct fixture *three(uint32_t min_np)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = min_np,
                                       .drain_ms = 30000);

    run(f, "a:1 b:1 c:1");
    at(f, 10, commits("w1 w2 w3"));
    return f;
}

/* ---- a notice ------------------------------------------------------------ */

START_TEST(notice_drains_the_host_and_stops_its_agent)
{
    struct fixture *f = three(1);

    at(f, 100, notice("b", 60000));
    expect(f, "leaving b in 60000 ms: the cloud wants it\n"
              "hold 1, removed: w1 w2 w3\n");
    leave_at(f, 200, "w1 w2 w3", 5);
    expect(f, "cut 5: w1 w2 w3\n"
              "shutdown drained: w2\n"
              "assign 2: w1 w3\n");
    at(f, 300, exited("w2", 0));
    expect(f, "stop agent: b\n");
    ck_assert_int_eq(f->n_records[RECORD_WORKER_LOST], 0);
    ck_assert_int_eq(f->n_records[RECORD_WORKER_DRAINED], 1);
    ck_assert_int_eq(f->n_records[RECORD_AGENT_LOST], 0);
    pass_long(f, 400000);
    at(f, 400000, hosts("a:1 b:1 c:1"));
    pass(f, 401000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(notice_repeated_is_one)
{
    struct fixture *f = three(1);

    at(f, 100, notice("b", 60000));
    at(f, 110, notice("b", 59990));
    at(f, 120, notice("b", 59985)); /* it was on its way for longer */
    at(f, 130, notice("c", -1));
    expect(f, "leaving b in 60000 ms: the cloud wants it\n"
              "hold 1, removed: w1 w2 w3\n"
              "leaving c in 30000 ms: it had SIGTERM\n");
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 60100000);
    ck_assert_uint_eq(worker(f, "w2")->drain_by.spare_us, 30100000);
    at(f, 140, notice("b", 10000)); /* sooner than it was said to be */
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 10140000);
    ck_assert_uint_eq(worker(f, "w2")->drain_by.spare_us, 5140000);
    at(f, 150, notice("b", 9000)); /* each of the two by itself */
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 9150000);
    ck_assert_uint_eq(worker(f, "w2")->drain_by.spare_us, 4650000);
    fixture_free(f);
}
END_TEST

/* Whom it leads to is decided when the rendezvous closes (M8). */
START_TEST(notices_within_one_change_are_one_generation)
{
    struct fixture *f = fixture_create(.np = 5, .min_np = 1);

    run(f, "a:1 b:1 c:1 d:1 e:1");
    at(f, 100, notice("b", 60000));
    at(f, 101, held("w1 w2 w3 w4", 3));
    at(f, 102, notice("c", 60000)); /* while it waits for HELD */
    at(f, 103, held("w5", 3));
    at(f, 104, notice("d", 60000)); /* ... after the CUT */
    at(f, 105, ready_updated("w1 w2 w3 w4"));
    at(f, 106, notice("e", 60000)); /* ... and for the last one's READY */
    forget(f);
    at(f, 107, ready_updated("w5"));
    expect(f, "shutdown drained: w2 w3 w4 w5\nassign 2: w1\n");
    pass(f, 5000);
    ck_assert_uint_eq(f->driver.generation, 2);
    fixture_free(f);
}
END_TEST

START_TEST(notice_in_a_rendezvous_leaves_with_it)
{
    struct fixture *f = three(1);

    at(f, 100, killed("w1"));
    at(f, 110, ready_lost("w2"));
    at(f, 120, notice("b", 60000));
    forget(f);
    at(f, 130, ready_lost("w3"));
    expect_part(f, "shutdown drained: w2\nassign 2: w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(notice_while_they_start_sends_them_away_at_once)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    at(f, 0, hosts("a:1 b:1"));
    forget(f);
    at(f, 10, notice("b", 60000));
    expect(f, "leaving b in 60000 ms: the cloud wants it\n"
              "shutdown drained: w2\n");
    at(f, 20, exited("w2", 0));
    expect(f, "stop agent: b\n");
    at(f, 30, hosts("a:1 b:1 c:1"));
    expect(f, "start agent: c\nspawn: w3@c:0\n");
    fixture_free(f);
}
END_TEST

/* There may be nobody yet whom the notice could be about. */
START_TEST(notice_of_an_agent_without_workers_stops_it)
{
    struct fixture *f = fixture_create(.np = 1, .min_np = 1, .max_np = 1);

    strcpy(f->slow_host, "b");
    at(f, 0, hosts("b:1 a:1"));
    forget(f);
    at(f, 10, agent_up("b"));
    at(f, 11, notice("b", -1));
    expect(f, "spawn: w1@b:0\n"
              "leaving b in 30000 ms: it had SIGTERM\n"
              "shutdown drained: w1\nstart agent: a\nspawn: w2@a:0\n");
    fixture_free(f);
}
END_TEST

/* ---- nothing of it is a failure ------------------------------------------ */

/* Its host went sooner than it had said. */
START_TEST(notice_then_the_agent_dies_is_no_failure)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1,
                                       .strict_blacklist = true);

    run(f, "a:1 b:1 c:1");
    at(f, 100, notice("b", 60000));
    at(f, 110, agent_gone("b"));
    at(f, 120, ready_lost("w1 w3"));
    expect_part(f, "abort 1, w2 died: w1 w3\nassign 2: w1 w3\n");
    at(f, 130, notice("c", -1));
    at(f, 140, killed("w3"));
    at(f, 150, agent_gone("c"));
    at(f, 160, ready_lost("w1"));
    pass(f, 5000);
    ck_assert_int_eq(f->n_records[RECORD_HOST_BLACKLISTED], 0);
    ck_assert_uint_eq(f->driver.counts.live, 1); /* nor is it used again */
    ck_assert_uint_eq(f->driver.resets, 2);
    fixture_free(f);
}
END_TEST

START_TEST(notice_then_an_empty_agent_dies_is_no_failure)
{
    struct fixture *f = three(1);

    at(f, 100, notice("b", 60000));
    leave_at(f, 200, "w1 w2 w3", 5);
    f->n_stops_lost = 1;
    at(f, 300, exited("w2", 0));
    at(f, 310, agent_gone("b"));
    ck_assert_int_eq(f->n_records[RECORD_AGENT_LOST], 0); /* it was expected */
    nothing_failed(f, 1);
    fixture_free(f);
}
END_TEST

/* ---- below --min-np ------------------------------------------------------ */

/* Others have half of the time to come. */
START_TEST(notice_below_min_np_waits_for_half_of_the_time)
{
    struct fixture *f = three(3);

    at(f, 100, notice("b", 10000));
    leave_at(f, 200, "w1 w2 w3", 5);
    expect_part(f, "--drain-timeout is over\nassign 2: w1 w2 w3\n");
    pass(f, 5000);
    expect(f, "");
    pass(f, 5200);
    expect(f, "hold 2, removed: w1 w2 w3\n");
    leave_at(f, 5300, "w1 w2 w3", 9);
    expect(f, "cut 9: w1 w2 w3\nshutdown drained: w2\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_RENDEZVOUS);
    at(f, 5400, hosts("a:1 b:1 c:1 d:1"));
    at(f, 5500, ready("w4"));
    expect_part(f, "assign 3: w1 w3 w4+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(notice_below_min_np_leaves_when_another_is_there)
{
    struct fixture *f = three(3);

    at(f, 100, notice("b", 60000));
    leave_at(f, 200, "w1 w2 w3", 5);
    at(f, 300, hosts("a:1 b:1 c:1 d:1"));
    at(f, 310, commits("w1 w2 w3"));
    forget(f);
    at(f, 400, ready("w4"));
    expect(f, "hold 2, both: w1 w2 w3\n");
    leave_at(f, 500, "w1 w2 w3", 9);
    expect(f, "cut 9: w1 w2 w3\n"
              "shutdown drained: w2\nassign 3: w1 w3 w4+sync\n");
    fixture_free(f);
}
END_TEST

/* The last one holds the state as long as its host does, for who may come. */
START_TEST(notice_of_all_hosts_one_stays_with_the_state)
{
    struct fixture *f = three(1);

    at(f, 100, notice("a", 10000));
    at(f, 101, notice("b", 10000));
    at(f, 102, notice("c", 10000));
    leave_at(f, 200, "w1 w2 w3", 5);
    expect_part(f, "shutdown drained: w2 w3\nassign 2: w1\n");
    at(f, 300, commits("w1"));
    pass(f, 11000);
    ck_assert(!worker_is_dead(worker(f, "w1")));
    at(f, 11000, hosts("a:1 b:1 c:1 d:1"));
    at(f, 11100, ready("w4"));
    forget(f);
    leave_at(f, 11200, "w1", 9);
    expect_part(f, "assign 3: w1 w4+sync\n");
    leave_at(f, 11300, "w1 w4", 3);
    expect_part(f, "shutdown drained: w1\nassign 4: w4\n");
    fixture_free(f);
}
END_TEST

/* ---- its time is over ---------------------------------------------------- */

START_TEST(notice_kills_who_keeps_the_others_waiting_until_then)
{
    struct fixture *f = three(1);

    at(f, 100, notice("c", 5000));
    compute(f, 500, 5000, "w1 w2", "w3");
    ck_assert(!worker_is_dead(worker(f, "w3")));
    compute(f, 5000, 6500, "w1 w2", "w3");
    expect_part(f, "kill: w3\nabort 1, w3 died: w1 w2");
    ck_assert_int_eq(f->n_records[RECORD_HOST_BLACKLISTED], 0);
    nothing_failed(f, 2);
    fixture_free(f);
}
END_TEST

/* Its own time counts, not --drain-timeout, which would be over at 30 s. */
START_TEST(notice_of_much_time_gives_it)
{
    struct fixture *f = three(1);

    at(f, 100, notice("c", 120000));
    compute(f, 500, 100000, "w1 w2", "w3");
    ck_assert(!worker_is_dead(worker(f, "w3")));
    compute(f, 100000, 122000, "w1 w2", "w3");
    ck_assert(worker_is_dead(worker(f, "w3")));
    fixture_free(f);
}
END_TEST

/* ---- when it may be used again ------------------------------------------- */

static struct fixture *drained_b(void)
{
    struct fixture *f = three(1);

    at(f, 100, notice("b", 60000));
    leave_at(f, 200, "w1 w2 w3", 5);
    at(f, 300, exited("w2", 0));
    expect_part(f, "stop agent: b\n");
    at(f, 400, commits("w1 w3"));
    return f;
}

START_TEST(noticed_host_is_used_when_it_is_listed_anew)
{
    struct fixture *f = drained_b();

    at(f, 500, notice("b", 50000)); /* a late word of who is gone */
    at(f, 1000, hosts("a:1 b:1 c:1"));
    pass(f, 1500);
    expect(f, "");
    ck_assert_int_eq(f->n_records[RECORD_HOST_ADDED], 3);
    at(f, 2000, hosts("a:1 c:1"));
    at(f, 3000, hosts("a:1 b:1 c:1"));
    expect(f, "start agent: b\nspawn: w4@b:0\n");
    ck_assert_int_eq(f->n_records[RECORD_HOST_ADDED], 4);
    ck_assert_int_eq(f->n_records[RECORD_HOST_LEAVING], 1);
    fixture_free(f);
}
END_TEST

/* Its agent lives: it has not gone, and may yet. */
START_TEST(notice_stands_as_long_as_its_agent)
{
    struct fixture *f = fixture_create(.np = 1);

    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 100, notice("a", 1000));
    leave_at(f, 200, "w1", 5);
    pass_long(f, 700000);
    ck_assert_int_eq(f->driver.hosts[0].notice, NOTICE_STANDS);
    ck_assert_int_eq(worker(f, "w1")->drain, DRAIN_ANNOUNCED);
    fixture_free(f);
}
END_TEST

START_TEST(notice_of_an_idle_agent_stops_it_at_once)
{
    struct fixture *f = three(1);

    at(f, 100, drain_me("w2"));
    leave_at(f, 200, "w1 w2 w3", 5);
    at(f, 300, exited("w2", 0));
    forget(f);
    at(f, 310, notice("b", 60000));
    expect(f, "leaving b in 60000 ms: the cloud wants it\nstop agent: b\n");
    fixture_free(f);
}
END_TEST

START_TEST(noticed_host_that_stays_is_used_after_ten_minutes)
{
    struct fixture *f = drained_b();

    pass_long(f, 659000);
    expect(f, "");
    pass_long(f, 661000);
    expect(f, "start agent: b\nspawn: w4@b:0\n");
    fixture_free(f);
}
END_TEST

/* It is listed anew while its old agent still says that it goes. */
START_TEST(notice_that_passes_ends_with_its_agent)
{
    struct fixture *f = three(1);

    at(f, 100, notice("b", 60000));
    at(f, 110, hosts("a:1 c:1"));
    at(f, 120, hosts("a:1 b:1 c:1"));
    at(f, 130, notice("b", 59900));
    leave_at(f, 200, "w1 w2 w3", 5);
    at(f, 210, notice("b", 59900));
    forget(f);
    at(f, 300, exited("w2", 0));
    expect(f, "stop agent: b\nstart agent: b\nspawn: w4@b:0\n");
    fixture_free(f);
}
END_TEST

/* ---- a successor --------------------------------------------------------- */

START_TEST(noticed_host_is_not_used_by_a_successor_either)
{
    struct fixture *f = drained_b();

    pass(f, 1000);
    succeed(f, 1000, 0);
    at(f, 1050, agent_gone("b")); /* no process has its number */
    agent_back(f, 1100, "a", 1, "w1@0");
    agent_back(f, 1100, "c", 3, "w3@0");
    greets(f, 1200, "w1 w3",
           (struct msg_where){.phase = WORKER_RUNNING,
                              .generation = 2,
                              .fence = 1,
                              .joined = 1,
                              .size = 2});
    at(f, 1300, hosts("a:1 b:1 c:1"));
    pass(f, 5000);
    expect_part(f, "generation 2 goes on");
    ck_assert_uint_eq(f->driver.counts.live, 2);
    pass_long(f, 661000);
    expect_part(f, "start agent: b\n");
    fixture_free(f);
}
END_TEST

/* What was written down of the time is the same time. */
START_TEST(notice_goes_on_with_a_successor)
{
    struct fixture *f = three(1);

    at(f, 100, notice("b", 50000));
    succeed(f, 1000, 0);
    ck_assert_uint_eq(f->driver.hosts[1].go_us, 50100000);
    ck_assert_uint_eq(f->driver.hosts[1].notice_until_us, 601000000);
    agent_back(f, 1100, "a", 1, "w1@0");
    agent_back(f, 1100, "b", 2, "w2@0");
    agent_back(f, 1100, "c", 3, "w3@0");
    greets(
        f, 1200, "w1 w2 w3",
        (struct msg_where){
            .phase = WORKER_RUNNING, .generation = 1, .joined = 1, .size = 3});
    forget(f);
    at(f, 1350, notice("b", 49000));
    expect_part(f, "hold ");
    ck_assert_uint_eq(worker(f, "w2")->drain_by.deadline_us, 50100000);
    fixture_free(f);
}
END_TEST

/* The notice was lost with its driver: the agent says it again. */
START_TEST(notice_is_taken_by_a_successor)
{
    struct fixture *f = three(1);

    succeed(f, 1000, 0);
    agent_back(f, 1100, "a", 1, "w1@0");
    agent_back(f, 1100, "b", 2, "w2@0");
    at(f, 1150, notice("b", 50000)); /* who is there is not known yet */
    agent_back(f, 1160, "c", 3, "w3@0");
    greets(
        f, 1200, "w1 w2 w3",
        (struct msg_where){
            .phase = WORKER_RUNNING, .generation = 1, .joined = 1, .size = 3});
    forget(f);
    at(f, 1350, notice("b", 49800));
    expect_part(f, "leaving b in 49800 ms: the cloud wants it\nhold ");
    fixture_free(f);
}
END_TEST

/* ---- what is said to whom ------------------------------------------------ */

static void expect_farewell(struct fixture *f, const char *name,
                            const char *text)
{
    ck_assert_int_eq(worker(f, name)->farewell.reason, SHUTDOWN_DRAINED);
    ck_assert_int_eq(worker(f, name)->farewell.status, 0);
    ck_assert_str_eq(worker(f, name)->farewell.text, text);
}

START_TEST(program_is_told_why_it_has_to_leave)
{
    struct fixture *f = fixture_create(.np = 5, .min_np = 1);

    run(f, "a:2 b:1 c:1 d:1");
    at(f, 10, commits("w1 w2 w3 w4 w5"));
    at(f, 100, hosts("a:1 b:1 d:1+drain=60"));
    at(f, 110, drain_me("w3"));
    leave_at(f, 200, "w1 w2 w3 w4 w5", 5);
    expect_part(f, "assign 2: w1\n");
    expect_farewell(f, "w2", "its host was removed");
    expect_farewell(f, "w3", "it asked to leave");
    expect_farewell(f, "w4", "its host was removed");
    expect_farewell(f, "w5", "its host is about to go");
    fixture_free(f);
}
END_TEST

/* Who is in nobody's generation goes at once, however far it has come. */
START_TEST(notice_ends_who_has_not_called_yet)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1);

    f->slow_workers = true;
    at(f, 0, hosts("a:1 b:2"));
    at(f, 10, hello("w2"));
    forget(f);
    at(f, 20, notice("b", 60000));
    expect(f, "leaving b in 60000 ms: the cloud wants it\n"
              "shutdown drained: w2\nkill: w3\n");
    expect_farewell(f, "w2", "its host is about to go");
    ck_assert_int_eq(worker(f, "w3")->life, LIFE_ENDING);
    at(f, 30, notice("b", 59900)); /* they are on their way already */
    expect(f, "");
    at(f, 40, killed("w3"));
    at(f, 50, exited("w2", 0));
    expect(f, "stop agent: b\n");
    ck_assert_int_eq(f->n_records[RECORD_WORKER_LOST], 0);
    fixture_free(f);
}
END_TEST

/* One that was turned away, and has yet to exit. */
START_TEST(notice_leaves_alone_who_is_on_its_way_out)
{
    struct fixture *f = fixture_create(.np = 1, .min_np = 1);

    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 100, hosts("a:1 b:1"));
    at(f, 110, ready_layout("w2", "another"));
    forget(f);
    at(f, 120, notice("b", 60000));
    expect(f, "leaving b in 60000 ms: the cloud wants it\n");
    ck_assert_int_eq(worker(f, "w2")->drain, DRAIN_NONE);
    fixture_free(f);
}
END_TEST

/* M11: nothing counts of a host that is about to go. */
START_TEST(newcomer_that_cannot_enter_is_no_failure_of_a_host_that_goes)
{
    struct fixture *f = fixture_create(.np = 2);
    const struct driver_host *b;

    run(f, "a:2");
    at(f, 10, hosts("a:2 b:1"));
    at(f, 20, ready("w3"));
    at(f, 30, commits("w1 w2"));
    leave_at(f, 40, "w1 w2", 2);
    at(f, 45, notice("b", 60000));
    forget(f);
    at(f, 50, leaving_lacks("w3", "too few descriptors"));
    expect_part(f, "shutdown failed: w3\n");
    b = &f->driver.hosts[1];
    ck_assert_str_eq(b->name, "b");
    ck_assert_uint_eq(driver_slot(&f->driver, b, 0)->n_failed, 0);
    fixture_free(f);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("core_leaving");
    TCase *tcase = tcase_create("core_leaving");

    tcase_add_test(tcase, notice_drains_the_host_and_stops_its_agent);
    tcase_add_test(tcase, notice_repeated_is_one);
    tcase_add_test(tcase, notices_within_one_change_are_one_generation);
    tcase_add_test(tcase, notice_in_a_rendezvous_leaves_with_it);
    tcase_add_test(tcase, notice_while_they_start_sends_them_away_at_once);
    tcase_add_test(tcase, notice_of_an_agent_without_workers_stops_it);
    tcase_add_test(tcase, notice_then_the_agent_dies_is_no_failure);
    tcase_add_test(tcase, notice_then_an_empty_agent_dies_is_no_failure);
    tcase_add_test(tcase, notice_below_min_np_waits_for_half_of_the_time);
    tcase_add_test(tcase, notice_below_min_np_leaves_when_another_is_there);
    tcase_add_test(tcase, notice_of_all_hosts_one_stays_with_the_state);
    tcase_add_test(tcase, notice_kills_who_keeps_the_others_waiting_until_then);
    tcase_add_test(tcase, notice_of_much_time_gives_it);
    tcase_add_test(tcase, noticed_host_is_used_when_it_is_listed_anew);
    tcase_add_test(tcase, noticed_host_that_stays_is_used_after_ten_minutes);
    tcase_add_test(tcase, notice_stands_as_long_as_its_agent);
    tcase_add_test(tcase, notice_of_an_idle_agent_stops_it_at_once);
    tcase_add_test(tcase, notice_goes_on_with_a_successor);
    tcase_add_test(tcase, notice_that_passes_ends_with_its_agent);
    tcase_add_test(tcase, noticed_host_is_not_used_by_a_successor_either);
    tcase_add_test(tcase, notice_is_taken_by_a_successor);
    tcase_add_test(tcase, program_is_told_why_it_has_to_leave);
    tcase_add_test(tcase, notice_ends_who_has_not_called_yet);
    tcase_add_test(tcase, notice_leaves_alone_who_is_on_its_way_out);
    tcase_add_test(
        tcase, newcomer_that_cannot_enter_is_no_failure_of_a_host_that_goes);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return support_run(suite_make());
}
