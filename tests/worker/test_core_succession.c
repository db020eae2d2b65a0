/* tests/worker/test_core_succession.c - another driver takes over: the worker
 * says HELLO again, with where it is, and goes on with what it was doing. */
#include <string.h>

#include "worker/core_fixture.h"

static void welcome(const char *expected)
{
    struct message m = message(MSG_WELCOME, 0);

    m.term = 2;
    m.u.welcome.heartbeat_ms = 1000;
    m.u.welcome.driver_timeout_ms = 60000;
    hear(m, expected);
}

static void tick(const char *expected)
{
    now_us = worker_deadline(&core);
    happens(WORKER_EV_TICK, expected);
}

/* HELLO until it is answered, then what stands, and all that within the phase.
 */
static const struct {
    enum worker_phase phase;
    const char *standing;
} cases[] = {
    {WORKER_IDLE, "PING"},      {WORKER_JOINING, "READY(start,0) PING"},
    {WORKER_RUNNING, "PING"},   {WORKER_HELD, "HELD(3) PING"},
    {WORKER_DONE, "DONE PING"},
};

START_TEST(phase_stays_and_what_stands_is_said_again)
{
    enum worker_phase phase = cases[_i].phase;
    uint64_t generation;

    stand_in(phase);
    generation = core.generation;
    succeed(2, "HELLO");
    tick("HELLO");
    tick("HELLO");
    welcome("");
    tick(cases[_i].standing);
    ck_assert_int_eq(core.phase, phase);
    ck_assert_uint_eq(core.generation, generation);
    ck_assert_uint_eq(core.fence, 0);
}
END_TEST

/* What the driver that is gone has not heard of is not said with the next beat
 * alone. */
START_TEST(what_stands_is_due_with_the_welcome)
{
    stand_in(WORKER_DONE);
    succeed(2, "HELLO");
    tick("HELLO");
    ck_assert_uint_gt(worker_deadline(&core), now_us);
    welcome("");
    ck_assert_uint_eq(worker_deadline(&core), now_us);
}
END_TEST

/* By another connection: what stands may have been lost with the one before. */
START_TEST(welcome_that_comes_again_has_all_said_again)
{
    struct message m = message(MSG_WELCOME, 0);

    stand_in(WORKER_JOINING);
    ck_assert_uint_gt(worker_deadline(&core), now_us);
    m.u.welcome.driver_timeout_ms = 7;
    hear(m, "");
    ck_assert_uint_ne(core.driver_timeout_us, 7000);
    ck_assert_uint_eq(worker_deadline(&core), now_us);
    tick("READY(start,0) PING");
}
END_TEST

/* It trains, says so, and that connection is given up for another. */
START_TEST(welcome_that_comes_again_has_the_first_collective_said_again)
{
    struct worker_event ev = event(WORKER_EV_REPORT);

    stand_in(WORKER_RUNNING);
    ev.u.report.what = REPORT_FIRST_COLLECTIVE;
    ev.u.report.generation = GENERATION;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ck_assert_str_eq(words, "REPORT");
    tick("PING");
    hear(message(MSG_WELCOME, 0), "");
    tick("REPORT PING");
    tick("PING");
}
END_TEST

START_TEST(contact_greets_the_new_one_instead)
{
    begin();
    tick("HELLO");
    succeed(2, "HELLO");
    welcome("WAKE");
    ck_assert_int_eq(core.phase, WORKER_IDLE);
}
END_TEST

START_TEST(leaving_is_told_to_the_new_one)
{
    stand_in(WORKER_RUNNING);
    happens(WORKER_EV_FAILED, "LEAVING");
    succeed(2, "HELLO");
    welcome("");
    tick("LEAVING");
}
END_TEST

START_TEST(who_was_shut_down_has_nothing_to_say)
{
    struct message m = message(MSG_SHUTDOWN, 0);

    stand_in(WORKER_RUNNING);
    m.u.shutdown.reason = SHUTDOWN_DRAINED;
    hear(m, "ABORT(5) WAKE");
    succeed(2, "");
    tick("");
}
END_TEST

/* The verdict may not have been written down: whoever has heard it says so, as
 * long as its process does what is left for it to do. */
START_TEST(who_was_released_says_so_until_it_is_heard)
{
    struct message m = message(MSG_SHUTDOWN, 0);

    stand_in(WORKER_LEFT);
    succeed(2, "HELLO");
    ck_assert_int_eq(where_said()->phase, WORKER_LEFT);
    ck_assert(where_said()->released);
    ck_assert_uint_eq(where_said()->generation, GENERATION);
    tick("HELLO");
    m.term = 2;
    m.type = MSG_RELEASE;
    hear(m, "");
    tick("PING");
    m.type = MSG_SHUTDOWN;
    m.u.shutdown.reason = SHUTDOWN_FAILED;
    hear(m, ""); /* what it was told stands */
    ck_assert_int_eq(core.verdict, WORKER_RELEASED);
}
END_TEST

START_TEST(lower_or_equal_term_is_no_successor)
{
    struct worker_event ev = event(WORKER_EV_SUCCESSOR);

    stand_in(WORKER_RUNNING);
    ev.u.term = 1;
    ck_assert_int_eq(step(&ev), HVD_ERR_STATE);
    succeed(3, "HELLO");
    ev.u.term = 2;
    ck_assert_int_eq(step(&ev), HVD_ERR_STATE);
    ck_assert_uint_eq(core.term, 3);
}
END_TEST

/* The second one died, too, before it answered. */
START_TEST(third_driver_is_greeted)
{
    struct message m = message(MSG_WELCOME, 0);

    stand_in(WORKER_RUNNING);
    succeed(2, "HELLO");
    succeed(3, "HELLO");
    welcome(""); /* of term 2 */
    tick("HELLO");
    m.term = 3;
    hear(m, "");
    tick("PING");
}
END_TEST

/* ---- where it is --------------------------------------------------------- */

START_TEST(running_says_its_place)
{
    struct message m = message(MSG_ASSIGN, GENERATION);

    stand_in(WORKER_JOINING);
    m.u.assign.rank = 2;
    m.u.assign.size = 4;
    m.u.assign.base = (struct state_id){4, 17};
    hear(m, "BEGIN WAKE");
    succeed(2, "HELLO");
    ck_assert_int_eq(where_said()->phase, WORKER_RUNNING);
    ck_assert_uint_eq(where_said()->generation, GENERATION);
    ck_assert_uint_eq(where_said()->rank, 2);
    ck_assert_uint_eq(where_said()->size, 4);
    ck_assert_uint_eq(where_said()->base.version, 17);
    ck_assert_uint_eq(where_said()->joined, GENERATION);
    ck_assert_uint_eq(where_said()->fence, 0);
    ck_assert_uint_eq(where_said()->id.version, 2);
    ck_assert_int_eq(where_said()->kind, READY_ELASTIC);
    ck_assert(!where_said()->held);
}
END_TEST

START_TEST(held_says_whether_it_knows_the_cut)
{
    stand_in(WORKER_HELD);
    succeed(2, "HELLO");
    ck_assert(where_said()->held && !where_said()->has_cut);
    ck_assert_uint_eq(where_said()->hold_sequence, 1);

    stand_in(WORKER_HELD);
    hear(cut(1, 7), "WAKE");
    succeed(2, "HELLO");
    ck_assert(where_said()->held && where_said()->has_cut);
    ck_assert_uint_eq(where_said()->cut, 7);
}
END_TEST

START_TEST(who_has_left_at_the_cut_says_where)
{
    stand_in(WORKER_HELD);
    hear(cut(1, 4), "WAKE");
    at_boundary(3, WORKER_BOUNDARY_PASS);
    happens(WORKER_EV_LOST, "LOST READY(lost,5)");
    succeed(2, "HELLO");
    ck_assert_int_eq(where_said()->phase, WORKER_JOINING);
    ck_assert_int_eq(where_said()->reason, READY_LOST);
    ck_assert_uint_eq(where_said()->fence, GENERATION);
    ck_assert_uint_eq(where_said()->boundary, 3);
    ck_assert(!where_said()->held);
}
END_TEST

/* The CUT that the dead driver owed never comes: a newer HOLD takes its place,
 * whether one is known or not. */
START_TEST(newer_hold_forgets_the_old_cut)
{
    struct message m;

    stand_in(WORKER_HELD);
    hear(cut(1, 7), "WAKE");
    succeed(2, "HELLO");
    welcome("");
    m = hold(2);
    m.term = 2;
    hear(m, "HOLD");
    happens(WORKER_EV_COUNTED, "HELD(3)");
    m = cut(1, 7);
    m.term = 2;
    hear(m, "");
    m = cut(2, 9);
    m.term = 2;
    hear(m, "WAKE");
    ck_assert_uint_eq(core.cut, 9);
}
END_TEST

/* The silence before was another's. */
START_TEST(successor_has_its_own_time_to_answer)
{
    stand_in(WORKER_RUNNING);
    core.driver_timeout_us = 2500000;
    tick("PING");
    tick("PING");
    succeed(2, "HELLO");
    tick("HELLO");
    tick("HELLO");
    tick("ABORT(5) WAKE");
}
END_TEST

START_TEST(without_a_successor_it_ends_after_the_timeout)
{
    stand_in(WORKER_RUNNING);
    core.driver_timeout_us = 5000000;
    succeed(2, "HELLO"); /* which never answers */
    for (int i = 0; i < 5; i++)
        tick("HELLO");
    tick("ABORT(5) WAKE");
    ck_assert_int_eq(core.verdict, WORKER_DRIVER_GONE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker_core_succession");
    TCase *tc = tcase_create("succession");

    tcase_add_loop_test(tc, phase_stays_and_what_stands_is_said_again, 0, 5);
    tcase_add_test(tc, what_stands_is_due_with_the_welcome);
    tcase_add_test(tc, welcome_that_comes_again_has_all_said_again);
    tcase_add_test(
        tc, welcome_that_comes_again_has_the_first_collective_said_again);
    tcase_add_test(tc, contact_greets_the_new_one_instead);
    tcase_add_test(tc, leaving_is_told_to_the_new_one);
    tcase_add_test(tc, who_was_shut_down_has_nothing_to_say);
    tcase_add_test(tc, who_was_released_says_so_until_it_is_heard);
    tcase_add_test(tc, lower_or_equal_term_is_no_successor);
    tcase_add_test(tc, third_driver_is_greeted);
    tcase_add_test(tc, running_says_its_place);
    tcase_add_test(tc, held_says_whether_it_knows_the_cut);
    tcase_add_test(tc, who_has_left_at_the_cut_says_where);
    tcase_add_test(tc, newer_hold_forgets_the_old_cut);
    tcase_add_test(tc, successor_has_its_own_time_to_answer);
    tcase_add_test(tc, without_a_successor_it_ends_after_the_timeout);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
