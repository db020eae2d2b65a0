/* tests/agent/test_core_succession.c - another driver takes over: the agent
 * says hello again, tells all it knows of its children, and goes on. And deaths
 * that are known before the exit, which are told again as well. */
#include "agent/core_fixture.h"

#include <string.h>

static hvd_status_t dialled(uint64_t ms, uint64_t term)
{
    return at(ms,
              (struct agent_event){.type = AGENT_EV_SUCCESSOR, .term = term});
}

static void welcome(uint64_t ms, uint64_t term)
{
    struct message m = {.type = MSG_AGENT_WELCOME, .term = term};

    ck_assert_int_eq(hear(ms, m), HVD_OK);
}

static void setup_survivor(void)
{
    setup_welcome();
    core.config.survives = true;
    core.config.beat_us = 200000;
    core.config.driver_timeout_us = 60000000;
}

START_TEST(end_of_the_lifeline_ends_nothing)
{
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    happens(100, AGENT_EV_DRIVER_LOST);
    pass(10000, false);
    ck_assert(!core.driver_lost);
    ck_assert_ptr_null(strstr(transcript, "KILL"));
}
END_TEST

START_TEST(silence_without_a_successor_ends_all)
{
    spawn(10, 1);
    starts(11, 1);
    happens(100, AGENT_EV_DRIVER_LOST);
    pass(59000, false);
    ck_assert_ptr_null(strstr(transcript, "KILL"));
    forget_transcript();
    pass(61000, false);
    ck_assert_ptr_nonnull(strstr(transcript, "KILL 1\n"));
    ck_assert(core.driver_lost);
}
END_TEST

/* The silence before was another's. */
START_TEST(successor_has_its_own_time_to_answer)
{
    pass(59000, false);
    ck_assert_int_eq(dialled(59000, TERM + 1), HVD_OK);
    pass(118000, false);
    ck_assert(!core.driver_lost);
    pass(120000, false);
    ck_assert(core.driver_lost);
}
END_TEST

/* What was said to the driver before may be lost with it. */
START_TEST(successor_is_told_that_the_host_will_go)
{
    happens(50, AGENT_EV_TERMINATE);
    core.beat_us = 5000000;
    forget_transcript();
    ck_assert_int_eq(dialled(1000, TERM + 1), HVD_OK);
    expect("[  1000] AGENT_HELLO\n");
    welcome(1010, TERM + 1);
    forget_transcript();
    pass(1200, false);
    ck_assert_ptr_nonnull(strstr(transcript, "NOTICE soon\n"));
}
END_TEST

/* Ended ones too: nobody knows what the dead driver had written down. */
START_TEST(successor_is_told_of_every_child)
{
    struct message m = {.type = MSG_SPAWN, .u.spawn = {.worker = 2, .slot = 5}};

    spawn(10, 1);
    starts(11, 1);
    ck_assert_int_eq(hear(12, m), HVD_OK);
    starts(13, 2);
    spawn(14, 3);
    ck_assert_int_eq(at(15, (struct agent_event){.type = AGENT_EV_START_FAILED,
                                                 .worker = 3,
                                                 .error = 2,
                                                 .text = "no such file"}),
                     HVD_OK);
    exits(16, 1, 0, 9);
    spawn(17, 4); /* not started yet: there is nothing to say */
    forget_transcript();
    ck_assert_int_eq(dialled(100, TERM + 1), HVD_OK);
    pass(250, false);
    welcome(260, TERM + 1);
    expect("[   100] AGENT_HELLO\n"
           "[   260] WORKER_EXITED 1 code 0 signal 9"
           " SPAWNED 2 pid 1002"
           " SPAWN_FAILED 3 error 2 no such file AGENT_PING\n");
    ck_assert_uint_eq(agent_core_child(&core, 2)->slot, 5);
    ck_assert_int_eq(core.phase, AGENT_RUNNING);
}
END_TEST

/* Any of it may be lost, and it cannot ask for whom it does not know. */
START_TEST(successor_is_told_again_for_some_beats)
{
    spawn(10, 1);
    starts(11, 1);
    ck_assert_int_eq(dialled(100, TERM + 1), HVD_OK);
    welcome(260, TERM + 1);
    for (uint64_t ms = 600; ms <= 1200; ms += 300) {
        forget_transcript();
        pass(ms, false);
        ck_assert_ptr_nonnull(strstr(transcript, "SPAWNED 1 pid 1001"));
    }
    pass(3000, false);
    forget_transcript();
    pass(4000, false);
    ck_assert_ptr_null(strstr(transcript, "SPAWNED"));
}
END_TEST

/* The first driver's WELCOME was lost, its SPAWN was not. */
START_TEST(successor_of_who_was_never_heard_is_told_too)
{
    core.welcome = false;
    core.phase = AGENT_CONTACT;
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    ck_assert_int_eq(dialled(100, TERM + 1), HVD_OK);
    welcome(260, TERM + 1);
    ck_assert_ptr_nonnull(strstr(transcript, "SPAWNED 1 pid 1001"));
}
END_TEST

START_TEST(hello_is_repeated_until_the_successor_answers)
{
    ck_assert_int_eq(dialled(1000, TERM + 1), HVD_OK);
    forget_transcript();
    pass(1500, false);
    welcome(1500, TERM + 1);
    pass(1700, false);
    expect("[  1200] AGENT_HELLO\n"
           "[  1400] AGENT_HELLO\n"
           "[  1500] AGENT_PING\n"
           "[  1600] AGENT_PING\n");
}
END_TEST

START_TEST(old_driver_is_not_heard_any_more)
{
    struct message m = {.type = MSG_AGENT_SHUTDOWN};

    ck_assert_int_eq(dialled(100, TERM + 1), HVD_OK);
    ck_assert_int_eq(hear(110, m), HVD_ERR_PROTOCOL);
    m.term = TERM + 2; /* nor one that was not dialled */
    ck_assert_int_eq(hear(120, m), HVD_ERR_PROTOCOL);
    ck_assert_int_eq(core.phase, AGENT_RUNNING);
    ck_assert_int_eq(dialled(130, TERM + 1), HVD_ERR_PROTOCOL);
    ck_assert_int_eq(dialled(130, TERM), HVD_ERR_PROTOCOL);
    m.term = TERM + 1;
    ck_assert_int_eq(hear(140, m), HVD_OK);
    ck_assert_int_ne(core.phase, AGENT_RUNNING);
}
END_TEST

START_TEST(deaths_meanwhile_are_told_when_somebody_hears)
{
    spawn(10, 1);
    starts(11, 1);
    happens(20, AGENT_EV_DRIVER_LOST);
    exits(5000, 1, 3, 0);
    ck_assert_int_eq(dialled(8000, TERM + 1), HVD_OK);
    forget_transcript();
    welcome(8010, TERM + 1);
    expect("[  8010] WORKER_EXITED 1 code 3 signal 0 AGENT_PING\n");
}
END_TEST

/* It was stopped while one died and another took over. */
START_TEST(own_absence_is_nobodys_silence)
{
    core.beat_us = 200000;
    pass(1000, true);
    forget_transcript();
    ck_assert_int_eq(dialled(90000, TERM + 1), HVD_OK);
    expect("[ 90000] AGENT_HELLO\n");
    ck_assert(!core.driver_lost);
}
END_TEST

/* Who has taken over knows nothing of worker 1, and fills its slot. */
START_TEST(nobody_is_started_where_another_lives)
{
    struct message m = {.type = MSG_SPAWN,
                        .u.spawn = {.worker = 1001, .slot = 1}};

    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    ck_assert_int_eq(hear(12, m), HVD_OK);
    kill_worker(13, 1, 0);
    ck_assert_int_eq(hear(14, m), HVD_OK);
    expect("[    12] SPAWNED 1 pid 1001\n"
           "[    13] KILL 1\n"
           "[    14] SPAWNED 1 pid 1001\n");
    exits(15, 1, 0, 9);
    forget_transcript();
    ck_assert_int_eq(hear(16, m), HVD_OK);
    expect("[    16] spawn 1001\n");
}
END_TEST

/* ---- dying --------------------------------------------------------------- */

static struct agent_event dies(uint64_t worker, bool direct)
{
    return (struct agent_event){
        .type = AGENT_EV_DYING, .worker = worker, .code = 3, .direct = direct};
}

/* The word first: others wait for it. */
START_TEST(dying_is_told_and_made_sure_of)
{
    spawn(10, 1);
    starts(11, 1);
    at(50, dies(1, true));
    at(51, dies(1, true));
    spawn(52, 1); /* "how is it?" */
    exits(900, 1, 3, 0);
    at(901, dies(1, true));
    expect("[    10] spawn 1\n"
           "[    11] SPAWNED 1 pid 1001\n"
           "[    50] WORKER_DYING 1 code 3 signal 0 KILL 1\n"
           "[    52] SPAWNED 1 pid 1001 WORKER_DYING 1 code 3 signal 0\n"
           "[   900] WORKER_EXITED 1 code 3 signal 0 KILL 1\n");
}
END_TEST

/* It runs another program, or ends with status 0. */
START_TEST(dying_that_the_kernel_does_not_confirm_is_told_alone)
{
    struct agent_event unknown = dies(1, true), good = dies(2, true);

    unknown.code = EXIT_UNKNOWN;
    good.code = 0;
    spawn(10, 1);
    spawn(10, 2);
    starts(11, 1);
    starts(11, 2);
    forget_transcript();
    at(50, unknown);
    at(51, good);
    expect("[    50] WORKER_DYING 1 code -1 signal 0\n"
           "[    51] WORKER_DYING 2 code 0 signal 0\n");
}
END_TEST

START_TEST(dying_below_a_script_leaves_that_to_the_driver)
{
    spawn(10, 1);
    starts(11, 1);
    at(50, dies(1, false));
    kill_worker(60, 1, 0);
    exits(70, 1, 0, 9);
    expect("[    10] spawn 1\n"
           "[    11] SPAWNED 1 pid 1001\n"
           "[    50] WORKER_DYING 1 code 3 signal 0\n"
           "[    60] KILL 1\n"
           "[    70] WORKER_EXITED 1 code 0 signal 9 KILL 1\n");
}
END_TEST

/* The script above it mostly ends at once, and has a status. */
START_TEST(dying_that_a_script_has_reaped_waits_for_its_exit)
{
    struct agent_event ev = dies(1, false), other = dies(2, false);

    ev.gone = other.gone = true;
    ev.code = other.code = EXIT_UNKNOWN;
    spawn(10, 1);
    spawn(10, 2);
    starts(11, 1);
    starts(11, 2);
    forget_transcript();
    at(50, ev);
    at(50, other);
    exits(55, 1, 3, 0);
    pass(90, true);
    expect("[    55] WORKER_EXITED 1 code 3 signal 0 KILL 1\n"
           "[    70] SPAWNED 2 pid 1002 WORKER_DYING 2 code -1 signal 0\n");
}
END_TEST

/* The word may be lost, and the exit be a long time in coming. */
START_TEST(dying_is_told_with_each_ping)
{
    core.config.beat_us = 200000;
    core.beat_us = 200000;
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    at(50, dies(1, false));
    pass(410, true);
    exits(500, 1, 3, 0);
    pass(610, true);
    expect("[    50] WORKER_DYING 1 code 3 signal 0\n"
           "[   200] WORKER_DYING 1 code 3 signal 0 AGENT_PING\n"
           "[   400] WORKER_DYING 1 code 3 signal 0 AGENT_PING\n"
           "[   500] WORKER_EXITED 1 code 3 signal 0 KILL 1\n"
           "[   600] AGENT_PING\n");
}
END_TEST

START_TEST(dying_that_the_socket_does_not_take_is_repeated)
{
    spawn(10, 1);
    starts(11, 1);
    forget_transcript();
    socket_full = true;
    at(50, dies(1, false));
    socket_full = false;
    pass(55, true);
    expect("[    50]\n"
           "[    55] SPAWNED 1 pid 1001 WORKER_DYING 1 code 3 signal 0\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("agent core: succession");
    TCase *tc = tcase_create("succession"), *run = tcase_create("dying");

    tcase_add_checked_fixture(tc, setup_survivor, teardown);
    tcase_add_test(tc, end_of_the_lifeline_ends_nothing);
    tcase_add_test(tc, silence_without_a_successor_ends_all);
    tcase_add_test(tc, successor_is_told_of_every_child);
    tcase_add_test(tc, successor_is_told_that_the_host_will_go);
    tcase_add_test(tc, successor_is_told_again_for_some_beats);
    tcase_add_test(tc, successor_of_who_was_never_heard_is_told_too);
    tcase_add_test(tc, hello_is_repeated_until_the_successor_answers);
    tcase_add_test(tc, old_driver_is_not_heard_any_more);
    tcase_add_test(tc, successor_has_its_own_time_to_answer);
    tcase_add_test(tc, deaths_meanwhile_are_told_when_somebody_hears);
    tcase_add_test(tc, own_absence_is_nobodys_silence);
    tcase_add_test(tc, nobody_is_started_where_another_lives);
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(run, setup_welcome, teardown);
    tcase_add_test(run, dying_is_told_and_made_sure_of);
    tcase_add_test(run, dying_that_the_kernel_does_not_confirm_is_told_alone);
    tcase_add_test(run, dying_below_a_script_leaves_that_to_the_driver);
    tcase_add_test(run, dying_that_a_script_has_reaped_waits_for_its_exit);
    tcase_add_test(run, dying_is_told_with_each_ping);
    tcase_add_test(run, dying_that_the_socket_does_not_take_is_repeated);
    suite_add_tcase(suite, run);
    return support_run(suite);
}
