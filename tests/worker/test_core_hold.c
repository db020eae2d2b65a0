/* tests/worker/test_core_hold.c - HOLD and CUT in every order that a network
 * and an application can bring about. */
#include "worker/core_fixture.h"

static void hold_1(void)
{
    stand_in(WORKER_RUNNING);
    hear(hold(1), "HOLD");
    happens(WORKER_EV_COUNTED, "HELD(3)");
}

START_TEST(hold_twice_is_answered_twice_and_counted_once)
{
    struct worker_event later = event(WORKER_EV_COUNTED);

    hold_1();
    hear(hold(1), "HELD(3)");
    later.boundary = 9;
    ck_assert_int_eq(step(&later), HVD_OK);
    ck_assert_str_eq(words, "");
    hear(hold(1), "HELD(3)");
}
END_TEST

START_TEST(hold_again_before_it_was_counted_asks_again)
{
    stand_in(WORKER_RUNNING);
    hear(hold(1), "HOLD");
    hear(cut(1, 9), ""); /* not held yet: no driver says that */
    hear(hold(1), "HOLD");
    happens(WORKER_EV_COUNTED, "HELD(3)");
}
END_TEST

START_TEST(hold_of_an_older_sequence_is_ignored)
{
    hold_1();
    hear(hold(2), "HOLD");
    happens(WORKER_EV_COUNTED, "HELD(3)");
    hear(hold(1), "");
    hear(cut(1, 9), "");
    hear(cut(2, 9), "WAKE");
}
END_TEST

START_TEST(hold_after_its_cut_is_silent)
{
    hold_1();
    hear(cut(1, 9), "WAKE");
    hear(hold(1), "");
    hear(cut(1, 12), ""); /* the first CUT stands */
    ck_assert_uint_eq(core.cut, 9);
}
END_TEST

START_TEST(hold_and_abort_abort_wins)
{
    stand_in(WORKER_RUNNING);
    hear(hold(1), "HOLD");
    hear(message(MSG_ABORT, 5), "ABORT(5) WAKE");
    ck_assert_int_eq(worker_at_boundary(&core, 4), WORKER_BOUNDARY_LOST);
    happens(WORKER_EV_LOST, "READY(lost,5)");
    happens(WORKER_EV_COUNTED, ""); /* overtaken */
    hear(message(MSG_ASSIGN, 6), "BEGIN WAKE");
    ck_assert(!core.hold && !core.held && !core.cut_known);
    hear(hold(1), ""); /* of generation 5 */
}
END_TEST

START_TEST(hold_boundaries_before_the_cut_pass_and_the_cut_leaves)
{
    hold_1();
    at_boundary(4, WORKER_BOUNDARY_WAIT);
    ck_assert_int_eq(core.phase, WORKER_HELD);
    hear(cut(1, 6), "WAKE");
    at_boundary(4, WORKER_BOUNDARY_PASS);
    ck_assert_int_eq(core.phase, WORKER_RUNNING);
    at_boundary(5, WORKER_BOUNDARY_PASS);
    at_boundary(6, WORKER_BOUNDARY_LEAVE);
}
END_TEST

START_TEST(hold_cut_never_goes_on)
{
    hold_1();
    at_boundary(4, WORKER_BOUNDARY_WAIT);
    hear(cut(1, CUT_NEVER), "UNHOLD WAKE");
    at_boundary(4, WORKER_BOUNDARY_PASS);
    at_boundary(400, WORKER_BOUNDARY_PASS);
    happens(WORKER_EV_DONE, "DONE");
}
END_TEST

START_TEST(hold_cut_at_a_boundary_that_may_be_passed_is_refused)
{
    hold_1();
    hear(cut(1, 3), "");
    at_boundary(4, WORKER_BOUNDARY_WAIT);
}
END_TEST

START_TEST(hold_abort_while_held_is_a_loss)
{
    stand_in(WORKER_HELD);
    hear(message(MSG_ABORT, 5), "ABORT(5) WAKE");
    at_boundary(3, WORKER_BOUNDARY_LOST);
    happens(WORKER_EV_LOST, "READY(lost,5)");
}
END_TEST

START_TEST(hold_shutdown_while_held_wakes)
{
    stand_in(WORKER_HELD);
    hear(end(SHUTDOWN_FAILED), "ABORT(5) WAKE");
    at_boundary(3, WORKER_BOUNDARY_LOST);
    ck_assert_int_eq(core.verdict, WORKER_JOB_FAILED);
}
END_TEST

START_TEST(hold_left_at_the_cut_is_ready_updated)
{
    struct worker_event left = event(WORKER_EV_LEFT);

    hold_1();
    hear(cut(1, 4), "WAKE");
    refused(WORKER_EV_LEFT); /* at boundary 3: not the cut */
    left.boundary = 4;
    ck_assert_int_eq(step(&left), HVD_OK);
    ck_assert_str_eq(words, "READY(updated,5)");
    ck_assert_uint_eq(core.ready.boundary, 4);
    ck_assert_uint_eq(core.ready.id.version, 2);
    hear(cut(1, 4), "");
    hear(message(MSG_ABORT, 5), "READY(updated,5)"); /* a peer died after it */
    hear(message(MSG_ASSIGN, 6), "BEGIN WAKE");
}
END_TEST

START_TEST(hold_of_a_done_worker_says_so)
{
    stand_in(WORKER_DONE);
    hear(hold(1), "HOLD");
    happens(WORKER_EV_COUNTED, "HELD(3,done)");
    happens(WORKER_EV_TICK, "HELD(3,done) DONE PING");
    hear(cut(1, CUT_NEVER), "UNHOLD WAKE");
    happens(WORKER_EV_TICK, "DONE PING");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker_core_hold");
    TCase *tcase = tcase_create("worker_core_hold");

    tcase_add_test(tcase, hold_twice_is_answered_twice_and_counted_once);
    tcase_add_test(tcase, hold_again_before_it_was_counted_asks_again);
    tcase_add_test(tcase, hold_of_an_older_sequence_is_ignored);
    tcase_add_test(tcase, hold_after_its_cut_is_silent);
    tcase_add_test(tcase, hold_and_abort_abort_wins);
    tcase_add_test(tcase,
                   hold_boundaries_before_the_cut_pass_and_the_cut_leaves);
    tcase_add_test(tcase, hold_cut_never_goes_on);
    tcase_add_test(tcase, hold_cut_at_a_boundary_that_may_be_passed_is_refused);
    tcase_add_test(tcase, hold_abort_while_held_is_a_loss);
    tcase_add_test(tcase, hold_shutdown_while_held_wakes);
    tcase_add_test(tcase, hold_left_at_the_cut_is_ready_updated);
    tcase_add_test(tcase, hold_of_a_done_worker_says_so);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
