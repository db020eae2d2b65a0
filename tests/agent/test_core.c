/* tests/agent/test_core.c - what the agent decides about its children and its
 * own end. */
#include "agent/core_fixture.h"

#include <signal.h>
#include <string.h>

/* ---- contact ------------------------------------------------------------- */

START_TEST(contact_hello_is_repeated_until_welcome)
{
    pass(450, false);
    hear(500, (struct message){.type = MSG_AGENT_WELCOME});
    pass(900, true);
    expect("[     0] AGENT_HELLO\n"
           "[   200] AGENT_HELLO\n"
           "[   400] AGENT_HELLO\n"
           "[   500] AGENT_PING\n"
           "[   700] AGENT_PING\n"
           "[   900] AGENT_PING\n");
}
END_TEST

START_TEST(contact_hello_not_taken_is_tried_soon)
{
    socket_full = true;
    pass(4, false);
    socket_full = false;
    forget_transcript();
    pass(10, false);
    expect("[     5] AGENT_HELLO\n");
}
END_TEST

START_TEST(contact_never_made_ends_with_failure)
{
    pass(29999, false);
    forget_transcript();
    pass(40000, false);
    expect("[ 30000] AGENT_HELLO exit 1\n");
    ck_assert_uint_eq(agent_core_deadline(&core), AGENT_NEVER);
}
END_TEST

START_TEST(message_of_another_job_or_older_term_is_refused)
{
    struct message m = {.type = MSG_AGENT_SHUTDOWN, .job = 1, .term = TERM};
    struct agent_event ev = {.type = AGENT_EV_MESSAGE, .message = &m};

    ck_assert_int_eq(at(0, ev), HVD_ERR_PROTOCOL);
    m.job = JOB;
    m.term = TERM - 1;
    ck_assert_int_eq(at(0, ev), HVD_ERR_PROTOCOL);
    m.term = TERM;
    m.type = MSG_READY;
    ck_assert_int_eq(at(0, ev), HVD_ERR_PROTOCOL);
    ck_assert_int_eq(core.phase, AGENT_RUNNING);
}
END_TEST

/* ---- children ------------------------------------------------------------ */

START_TEST(spawn_then_exit_is_reported_and_group_killed)
{
    spawn(10, 1);
    starts(11, 1);
    exits(50, 1, 7, 0);
    expect("[    10] spawn 1\n"
           "[    11] SPAWNED 1 pid 1001\n"
           "[    50] WORKER_EXITED 1 code 7 signal 0 KILL 1\n");
}
END_TEST

START_TEST(spawn_repeated_is_answered_by_state)
{
    spawn(10, 1);
    spawn(10, 1);
    starts(11, 1);
    spawn(12, 1);
    exits(50, 1, 0, 0);
    spawn(60, 1);
    expect("[    10] spawn 1\n"
           "[    11] SPAWNED 1 pid 1001\n"
           "[    12] SPAWNED 1 pid 1001\n"
           "[    50] WORKER_EXITED 1 code 0 signal 0 KILL 1\n"
           "[    60] WORKER_EXITED 1 code 0 signal 0\n");
}
END_TEST

START_TEST(spawn_failure_is_reported_and_remembered)
{
    struct agent_event failed = {.type = AGENT_EV_START_FAILED,
                                 .worker = 1,
                                 .error = 2,
                                 .text = "cannot execute \"x\": no"};

    spawn(10, 1);
    at(11, failed);
    spawn(12, 1);
    kill_worker(13, 1, 0);
    expect("[    10] spawn 1\n"
           "[    11] SPAWN_FAILED 1 error 2 cannot execute \"x\": no\n"
           "[    12] SPAWN_FAILED 1 error 2 cannot execute \"x\": no\n"
           "[    13] SPAWN_FAILED 1 error 2 cannot execute \"x\": no\n");
    ck_assert_uint_eq(core.n_live, 0);
}
END_TEST

/* A text of any length, and what comes late of a worker that is gone. */
START_TEST(what_ends_twice_is_told_once)
{
    static char text[2 * WIRE_TEXT_MAX];
    struct agent_event failed = {
        .type = AGENT_EV_START_FAILED, .worker = 1, .error = 2, .text = text};
    struct agent_event dumped = {
        .type = AGENT_EV_EXITED, .worker = 2, .signal = 11, .core = true};

    memset(text, 'x', sizeof(text) - 1);
    spawn(10, 1);
    at(11, failed);
    ck_assert_uint_eq(strlen(core.children[0].text), WIRE_TEXT_MAX - 1);
    spawn(12, 2);
    starts(13, 2);
    forget_transcript();
    at(14, failed);
    at(15, dumped);
    at(16, dumped);
    expect("[    15] WORKER_EXITED 2 code 0 signal 11 core KILL 2\n");
}
END_TEST

START_TEST(kill_of_who_has_no_process_yet_signals_nobody)
{
    spawn(10, 1);
    kill_worker(11, 1, 0);
    kill_worker(12, 1, 0);
    expect("[    10] spawn 1\n");
}
END_TEST

START_TEST(kill_with_a_grace_of_any_length)
{
    spawn(10, 1);
    starts(11, 1);
    spawn(12, 2);
    starts(13, 2);
    forget_transcript();
    kill_worker(100, 1, UINT32_MAX);
    kill_worker(100, 2, 1);
    pass(1000000, true);
    kill_worker(1000001, 1, 0); /* not for ever after all */
    expect("[   100] TERM 1 CONT 1\n"
           "[   100] TERM 2 CONT 2\n"
           "[   101] KILL 2\n"
           "[1000001] KILL 1\n");
}
END_TEST

START_TEST(kill_waits_for_grace_then_forces)
{
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    kill_worker(100, 1, 500);
    kill_worker(150, 1, 5000); /* later is no improvement */
    pass(1000, true);
    exits(1001, 1, 0, SIGKILL);
    pass(9000, true);
    expect("[   100] TERM 1 CONT 1\n"
           "[   600] KILL 1\n"
           "[  1001] WORKER_EXITED 1 code 0 signal 9 KILL 1\n");
}
END_TEST

START_TEST(kill_without_grace_forces_at_once)
{
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    kill_worker(100, 1, 5000);
    kill_worker(200, 1, 0);
    kill_worker(300, 1, 0);
    expect("[   100] TERM 1 CONT 1\n"
           "[   200] KILL 1\n");
}
END_TEST

START_TEST(kill_before_exec_reports_spawned_then_exited)
{
    struct agent_event forked = {
        .type = AGENT_EV_FORKED, .worker = 1, .pid = 1001};
    struct agent_event started = {.type = AGENT_EV_STARTED, .worker = 1};

    spawn(10, 1);
    at(10, forked);
    kill_worker(10, 1, 0);
    at(11, started);
    exits(12, 1, 0, SIGKILL);
    expect("[    10] spawn 1\n"
           "[    10] KILL 1\n"
           "[    11] SPAWNED 1 pid 1001\n"
           "[    12] WORKER_EXITED 1 code 0 signal 9 KILL 1\n");
}
END_TEST

START_TEST(kill_of_unknown_worker_forbids_its_start)
{
    kill_worker(10, 4, 0);
    spawn(20, 4);
    expect("[    10] WORKER_EXITED 4 code 0 signal 9\n"
           "[    20] WORKER_EXITED 4 code 0 signal 9\n");
}
END_TEST

START_TEST(report_not_taken_is_repeated)
{
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    socket_full = true;
    exits(50, 1, 3, 0);
    pass(59, true);
    socket_full = false;
    forget_transcript();
    pass(100, true);
    expect("[    60] WORKER_EXITED 1 code 3 signal 0\n");
}
END_TEST

START_TEST(memory_of_the_gone_is_bounded)
{
    spawn(1, 1);
    starts(1, 1);
    for (uint64_t w = 2; w < 5 * AGENT_REMEMBERED; w++) {
        spawn(w, w);
        starts(w, w);
        exits(w, w, 0, 0);
        forget_transcript();
    }
    ck_assert_uint_le(core.n_children, 2 * AGENT_REMEMBERED + 2);
    for (size_t i = 0; i < core.n_children; i++) /* no row of nobody's */
        ck_assert_uint_ge(core.children[i].worker, i + 1);
    ck_assert_ptr_nonnull(agent_core_child(&core, 1));
    ck_assert_ptr_nonnull(agent_core_child(&core, 5 * AGENT_REMEMBERED - 1));
}
END_TEST

START_TEST(spawn_of_who_may_be_forgotten_starts_nobody)
{
    for (uint64_t w = 1; w < 5 * AGENT_REMEMBERED; w++) {
        spawn(w, w);
        starts(w, w);
        exits(w, w, 0, 0);
        forget_transcript();
    }
    ck_assert_ptr_null(agent_core_child(&core, 1));
    spawn(6 * AGENT_REMEMBERED, 1);
    expect("[  6144] SPAWN_FAILED 1 error 125 the agent has forgotten this "
           "worker\n");
    spawn(6 * AGENT_REMEMBERED, 1); /* and says so again */
    expect("[  6144] SPAWN_FAILED 1 error 125 the agent has forgotten this "
           "worker\n");
}
END_TEST

/* ---- the end ------------------------------------------------------------- */

START_TEST(shutdown_without_children_ends_at_once)
{
    hear(10, (struct message){.type = MSG_AGENT_SHUTDOWN});
    expect("[    10] exit 0\n");
}
END_TEST

START_TEST(ended_does_nothing_more)
{
    spawn(5, 1);
    starts(6, 1);
    exits(7, 1, 0, 0);
    hear(10, (struct message){.type = MSG_AGENT_SHUTDOWN});
    forget_transcript();
    core.beat_us = 0; /* one is due */
    happens(20, AGENT_EV_INTERRUPT);
    happens(30, AGENT_EV_DRIVER_LOST);
    happens(40, AGENT_EV_TICK);
    ck_assert_uint_eq(agent_core_deadline(&core), AGENT_NEVER);
    expect("");
}
END_TEST

/* The network by which its lifeline went may have died; the driver answers each
 * ping. */
START_TEST(end_of_a_remote_lifeline_ends_nothing_while_the_driver_is_heard)
{
    core.config.remote = true;
    core.config.beat_us = 200000;
    core.beat_us = 0;
    happens(100, AGENT_EV_DRIVER_LOST);
    pass(60000, true);
    ck_assert(!core.driver_lost);
    ck_assert_int_eq(core.phase, AGENT_RUNNING);
}
END_TEST

START_TEST(end_of_a_remote_lifeline_and_a_silent_driver_are_the_end)
{
    core.config.remote = true;
    core.config.beat_us = 200000;
    core.beat_us = 0;
    happens(100, AGENT_EV_DRIVER_LOST);
    pass(1999, false);
    ck_assert(!core.driver_lost);
    pass(2200, false);
    ck_assert(core.driver_lost);
    ck_assert_int_eq(core.phase, AGENT_ENDED);
}
END_TEST

START_TEST(driver_by_another_connection_is_told_all_again)
{
    spawn(10, 1);
    starts(11, 1);
    spawn(12, 2);
    starts(13, 2);
    exits(14, 2, 0, 0);
    forget_transcript();
    happens(20, AGENT_EV_MOVED);
    expect("[    20] SPAWNED 1 pid 1001 WORKER_EXITED 2 code 0 signal 0 "
           "AGENT_PING\n");
}
END_TEST

START_TEST(shutdown_asks_forces_and_waits)
{
    spawn(10, 1);
    starts(10, 1);
    spawn(10, 2);
    starts(11, 2);
    forget_transcript();
    hear(100, (struct message){.type = MSG_AGENT_SHUTDOWN});
    spawn(110, 3);
    exits(150, 1, 0, SIGTERM);
    pass(3000, true);
    exits(3001, 2, 0, SIGKILL);
    pass(3001, true);
    expect("[   100] TERM 1 CONT 1 TERM 2 CONT 2\n"
           "[   110] SPAWN_FAILED 3 error 125 the agent is ending\n"
           "[   150] WORKER_EXITED 1 code 0 signal 15 KILL 1\n"
           "[  2100] KILL 2\n"
           "[  3001] WORKER_EXITED 2 code 0 signal 9 KILL 2\n"
           "[  3001] exit 0\n");
}
END_TEST

START_TEST(shutdown_gives_up_on_the_unkillable)
{
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    happens(100, AGENT_EV_INTERRUPT);
    pass(60000, true);
    expect("[   100] TERM 1 CONT 1\n"
           "[  2100] KILL 1\n"
           "[ 12100] exit 1\n");
}
END_TEST

/* It is of the second, whatever there is of the first. */
static void shut_down_with_a_report_not_taken(void)
{
    spawn(10, 1);
    starts(11, 1);
    spawn(12, 2);
    starts(13, 2);
    hear(100, (struct message){.type = MSG_AGENT_SHUTDOWN});
    exits(105, 1, 0, SIGTERM);
    socket_full = true;
    exits(110, 2, 0, SIGTERM);
    forget_transcript();
}

START_TEST(shutdown_waits_for_a_report_not_taken)
{
    shut_down_with_a_report_not_taken();
    pass(112, true);
    expect("");
    socket_full = false;
    pass(1000, true);
    expect("[   115] WORKER_EXITED 2 code 0 signal 15\n"
           "[   115] exit 0\n");
}
END_TEST

START_TEST(shutdown_without_a_driver_waits_for_no_report)
{
    shut_down_with_a_report_not_taken();
    happens(111, AGENT_EV_DRIVER_LOST);
    expect("[   111] exit 0\n");
}
END_TEST

START_TEST(driver_lost_forces_at_once)
{
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    happens(100, AGENT_EV_DRIVER_LOST);
    exits(101, 1, 0, SIGKILL);
    pass(101, false);
    expect("[   100] KILL 1\n"
           "[   101] WORKER_EXITED 1 code 0 signal 9 KILL 1\n"
           "[   101] exit 0\n");
}
END_TEST

START_TEST(driver_lost_during_shutdown_forces)
{
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    happens(100, AGENT_EV_INTERRUPT);
    happens(200, AGENT_EV_DRIVER_LOST);
    expect("[   100] TERM 1 CONT 1\n"
           "[   200] KILL 1\n");
}
END_TEST

/* ---- the host will go ---------------------------------------------------- */

static void noticed(uint64_t ms, uint64_t left_ms, const char *text)
{
    struct agent_event ev = {
        .type = AGENT_EV_NOTICE, .left_us = left_ms * 1000, .text = text};

    ck_assert_int_eq(at(ms, ev), HVD_OK);
}

START_TEST(sigterm_tells_the_driver_and_ends_nobody)
{
    spawn(10, 1);
    starts(11, 1);
    core.config.beat_us = 200000;
    core.beat_us = 200000;
    forget_transcript();
    happens(100, AGENT_EV_TERMINATE);
    pass(500, true);
    expect("[   100] NOTICE soon\n"
           "[   200] AGENT_PING NOTICE soon\n"
           "[   400] AGENT_PING NOTICE soon\n");
    hear(510, (struct message){.type = MSG_AGENT_SHUTDOWN});
    exits(520, 1, 0, 0);
    pass(520, true);
    expect("[   510] TERM 1 CONT 1\n"
           "[   520] WORKER_EXITED 1 code 0 signal 0 KILL 1\n"
           "[   520] exit 0\n");
}
END_TEST

START_TEST(sigterm_twice_ends)
{
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    happens(100, AGENT_EV_TERMINATE);
    happens(200, AGENT_EV_TERMINATE);
    expect("[   100] NOTICE soon\n"
           "[   200] TERM 1 CONT 1\n");
}
END_TEST

START_TEST(notice_says_what_is_left)
{
    core.config.beat_us = 200000;
    core.beat_us = 200000;
    noticed(100, 30000, "spot instance");
    happens(150, AGENT_EV_TERMINATE); /* that is no news: no time is known */
    pass(200, true);
    noticed(300, 60000, "and so on"); /* later than it was said to be */
    noticed(350, 1000, "");
    expect("[   100] NOTICE 30000 spot instance\n"
           "[   150] NOTICE 29950 spot instance\n"
           "[   200] AGENT_PING NOTICE 29900 spot instance\n"
           "[   300] NOTICE 29800 spot instance\n"
           "[   350] NOTICE 1000 spot instance\n");
    forget_transcript();
    core.beat_us = 2000000;
    pass(2000, true);
    expect("[  2000] AGENT_PING NOTICE 0 spot instance\n");
}
END_TEST

/* Its driver is there, but has not heard of it yet. */
START_TEST(notice_waits_for_the_welcome)
{
    pass(50, false);
    happens(100, AGENT_EV_TERMINATE);
    pass(200, false);
    expect("[     0] AGENT_HELLO\n"
           "[   200] AGENT_HELLO\n");
    hear(300, (struct message){.type = MSG_AGENT_WELCOME});
    expect("[   300] AGENT_PING NOTICE soon\n");
}
END_TEST

START_TEST(driver_lost_orphan_timer_lets_workers_live)
{
    core.config.orphan_us = 5000000;
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    happens(100, AGENT_EV_DRIVER_LOST);
    happens(3000, AGENT_EV_DRIVER_LOST); /* it is no newer loss */
    pass(10000, false);
    expect("[  5100] KILL 1\n");
}
END_TEST

START_TEST(driver_silent_is_lost)
{
    core.config.driver_timeout_us = 10000000;
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    pass(60000, false);
    ck_assert_ptr_nonnull(strstr(transcript, "[ 10010] KILL 1\n"));
    ck_assert(core.driver_lost);
}
END_TEST

START_TEST(welcome_brings_the_times)
{
    struct message m = {.type = MSG_AGENT_WELCOME};

    m.u.welcome.heartbeat_ms = 50;
    m.u.welcome.driver_timeout_ms = 70;
    m.u.welcome.output_hold_ms = 90;
    ck_assert_int_eq(hear(1000, m), HVD_OK);
    ck_assert_uint_eq(core.config.output_hold_us, 90000);
    ck_assert_uint_eq(core.config.beat_us, 50000);
    ck_assert_uint_eq(core.config.driver_timeout_us, 70000);
}
END_TEST

START_TEST(welcome_of_a_millisecond_is_no_default)
{
    struct message m = {.type = MSG_AGENT_WELCOME};

    m.u.welcome.heartbeat_ms = m.u.welcome.driver_timeout_ms = 1;
    ck_assert_int_eq(hear(1000, m), HVD_OK);
    ck_assert_uint_eq(core.config.beat_us, 1000);
    ck_assert_uint_eq(core.config.driver_timeout_us, 1000);
}
END_TEST

/* It was stopped, or the whole machine was: what the driver said meanwhile has
 * yet to be read. */
START_TEST(own_absence_is_nobodys_silence)
{
    struct message m = {.type = MSG_AGENT_WELCOME};

    pass(100, false);
    m.u.welcome.driver_timeout_ms = 10000;
    hear(100, m);
    forget_transcript();
    happens(60000, AGENT_EV_TICK);
    expect("[ 60000] AGENT_PING\n");
    pass(69000, false);
    ck_assert(!core.driver_lost);
    pass(70000, false);
    ck_assert(core.driver_lost);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("agent core");
    TCase *contact = tcase_create("contact"), *run = tcase_create("run");

    tcase_add_checked_fixture(contact, setup, teardown);
    tcase_add_test(contact, contact_hello_is_repeated_until_welcome);
    tcase_add_test(contact, contact_hello_not_taken_is_tried_soon);
    tcase_add_test(contact, contact_never_made_ends_with_failure);
    tcase_add_test(contact, welcome_brings_the_times);
    tcase_add_test(contact, welcome_of_a_millisecond_is_no_default);
    tcase_add_test(contact, own_absence_is_nobodys_silence);
    tcase_add_test(contact, notice_waits_for_the_welcome);
    suite_add_tcase(suite, contact);
    tcase_add_checked_fixture(run, setup_welcome, teardown);
    tcase_add_test(run, message_of_another_job_or_older_term_is_refused);
    tcase_add_test(run, spawn_then_exit_is_reported_and_group_killed);
    tcase_add_test(run, spawn_repeated_is_answered_by_state);
    tcase_add_test(run, spawn_failure_is_reported_and_remembered);
    tcase_add_test(run, what_ends_twice_is_told_once);
    tcase_add_test(run, kill_of_who_has_no_process_yet_signals_nobody);
    tcase_add_test(run, kill_with_a_grace_of_any_length);
    tcase_add_test(run, kill_waits_for_grace_then_forces);
    tcase_add_test(run, kill_without_grace_forces_at_once);
    tcase_add_test(run, kill_before_exec_reports_spawned_then_exited);
    tcase_add_test(run, kill_of_unknown_worker_forbids_its_start);
    tcase_add_test(run, report_not_taken_is_repeated);
    tcase_add_test(run, memory_of_the_gone_is_bounded);
    tcase_add_test(run, spawn_of_who_may_be_forgotten_starts_nobody);
    tcase_add_test(run, shutdown_without_children_ends_at_once);
    tcase_add_test(run, ended_does_nothing_more);
    tcase_add_test(
        run, end_of_a_remote_lifeline_ends_nothing_while_the_driver_is_heard);
    tcase_add_test(run,
                   end_of_a_remote_lifeline_and_a_silent_driver_are_the_end);
    tcase_add_test(run, driver_by_another_connection_is_told_all_again);
    tcase_add_test(run, shutdown_asks_forces_and_waits);
    tcase_add_test(run, shutdown_gives_up_on_the_unkillable);
    tcase_add_test(run, shutdown_waits_for_a_report_not_taken);
    tcase_add_test(run, shutdown_without_a_driver_waits_for_no_report);
    tcase_add_test(run, driver_lost_forces_at_once);
    tcase_add_test(run, driver_lost_during_shutdown_forces);
    tcase_add_test(run, driver_lost_orphan_timer_lets_workers_live);
    tcase_add_test(run, driver_silent_is_lost);
    tcase_add_test(run, sigterm_tells_the_driver_and_ends_nobody);
    tcase_add_test(run, sigterm_twice_ends);
    tcase_add_test(run, notice_says_what_is_left);
    suite_add_tcase(suite, run);
    return suite;
}

int main(void)
{
    return support_run(suite_make());
}
