/* tests/gpu/test_life.c - how a communicator of NCCL lives, as a transcript. */
#include "device/life.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "support.h"

static const struct life_limits limits = {
    .join_us = 1000, .revoke_us = 100, .abort_us = 500, .quiet_us = 5000};

static struct life life;

static bool revocable;

static void begin(bool can_be_revoked)
{
    revocable = can_be_revoked;
    life_begin(&life, &limits, 0);
    ck_assert_int_eq(life.state, LIFE_JOINING);
}

/* One step; `to` is where it is then. */
static void at(uint64_t now_us, enum life_said said, bool cancelled,
               enum life_state to)
{
    enum life_state from = life.state;

    ck_assert_int_eq(life_step(&life, said,
                               (struct life_wish){cancelled, revocable},
                               now_us),
                     from != to);
    ck_assert_int_eq(life.state, to);
}

START_TEST(joins_warms_and_is_ready_until_it_is_cancelled)
{
    begin(true);
    at(10, LIFE_PENDING, false, LIFE_JOINING);
    at(20, LIFE_OK, false, LIFE_WARMING);
    at(999, LIFE_PENDING, false, LIFE_WARMING);
    at(999, LIFE_OK, false, LIFE_READY);
    at(100000, LIFE_PENDING, false, LIFE_READY);
    ck_assert(!life.quiet);
    at(100001, LIFE_PENDING, true, LIFE_REVOKING);
    ck_assert(!life.failed);
    at(100002, LIFE_PENDING, true, LIFE_REVOKING);
    ck_assert(!life.quiet);
    at(100003, LIFE_OK, true, LIFE_ABORTING);
    ck_assert(life.quiet);
    ck_assert(!life_is_over(life.state));
    at(100400, LIFE_PENDING, true, LIFE_ABORTING);
    at(100401, LIFE_OK, true, LIFE_GONE);
    ck_assert(life_is_over(life.state));
    at(200000, LIFE_OK, true, LIFE_GONE);
}
END_TEST

/* Joining and warming have one deadline. */
START_TEST(what_is_not_ready_in_time_has_failed)
{
    begin(true);
    at(900, LIFE_OK, false, LIFE_WARMING);
    at(1000, LIFE_PENDING, false, LIFE_REVOKING);
    ck_assert(life.failed);
    ck_assert(life.late);
}
END_TEST

START_TEST(what_is_ready_at_the_deadline_is_ready)
{
    begin(true);
    at(999, LIFE_OK, false, LIFE_WARMING);
    at(1000, LIFE_OK, false, LIFE_READY);
}
END_TEST

START_TEST(a_failure_is_told_from_a_deadline)
{
    begin(true);
    at(10, LIFE_FAILED, false, LIFE_REVOKING);
    ck_assert(life.failed);
    ck_assert(!life.late);
}
END_TEST

START_TEST(a_ready_one_fails_by_itself)
{
    begin(true);
    at(10, LIFE_OK, false, LIFE_WARMING);
    at(20, LIFE_OK, false, LIFE_READY);
    at(30, LIFE_FAILED, false, LIFE_REVOKING);
    ck_assert(life.failed);
}
END_TEST

/* A revoke that hangs is not waited for; an abort that does is given up. */
START_TEST(nothing_is_waited_for_without_a_deadline)
{
    begin(true);
    at(10, LIFE_PENDING, true, LIFE_REVOKING);
    at(109, LIFE_PENDING, true, LIFE_REVOKING);
    at(110, LIFE_PENDING, true, LIFE_ABORTING);
    at(609, LIFE_PENDING, true, LIFE_ABORTING);
    at(610, LIFE_PENDING, true, LIFE_ABANDONED);
    ck_assert(!life.quiet); /* nobody knows */
    ck_assert(life_is_over(life.state));
}
END_TEST

START_TEST(without_revoke_it_is_aborted_at_once)
{
    begin(false);
    at(10, LIFE_OK, false, LIFE_WARMING);
    at(20, LIFE_OK, false, LIFE_READY);
    at(30, LIFE_PENDING, true, LIFE_ABORTING);
    ck_assert(!life.quiet);
    at(529, LIFE_PENDING, true, LIFE_ABORTING);
    at(529, LIFE_OK, true, LIFE_GONE);
    ck_assert(life.quiet);
}
END_TEST

START_TEST(work_of_the_program_may_take_longer_than_the_abort)
{
    begin(false);
    at(10, LIFE_PENDING, true, LIFE_ABORTING);
    life_aborted(&life);
    at(100000, LIFE_PENDING, true, LIFE_ABORTING);
    ck_assert(!life.quiet);
    at(100001, LIFE_OK, true, LIFE_GONE);
    ck_assert(life.quiet);
}
END_TEST

/* Nobody waits for it any more, and what it waits for may be the next one's. */
START_TEST(quiet_one_has_time_to_end)
{
    begin(true);
    at(10, LIFE_FAILED, false, LIFE_REVOKING);
    life_silenced(&life, 20);
    ck_assert(life.quiet);
    at(110, LIFE_PENDING, true, LIFE_ABORTING);
    at(5109, LIFE_PENDING, true, LIFE_ABORTING);
    at(5110, LIFE_PENDING, true, LIFE_ABANDONED);
    begin(false);
    at(10, LIFE_FAILED, false, LIFE_ABORTING);
    life_silenced(&life, 400);
    at(5399, LIFE_PENDING, true, LIFE_ABORTING);
    at(5399, LIFE_OK, true, LIFE_GONE);
}
END_TEST

/* Kernels of before may run yet. */
START_TEST(revoke_that_is_refused_leaves_it_to_the_abort)
{
    begin(true);
    at(10, LIFE_FAILED, false, LIFE_REVOKING);
    at(11, LIFE_FAILED, false, LIFE_ABORTING);
    ck_assert(!life.quiet);
    at(510, LIFE_PENDING, false, LIFE_ABORTING);
    at(511, LIFE_PENDING, false, LIFE_ABANDONED);
}
END_TEST

/* While it is being made NCCL may not be told to revoke it. */
START_TEST(what_is_being_made_is_aborted_at_once)
{
    begin(false);
    at(10, LIFE_FAILED, false, LIFE_ABORTING);
    ck_assert(life.failed);
    at(20, LIFE_OK, false, LIFE_GONE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("life");
    TCase *tc = tcase_create("life");

    tcase_add_test(tc, joins_warms_and_is_ready_until_it_is_cancelled);
    tcase_add_test(tc, what_is_not_ready_in_time_has_failed);
    tcase_add_test(tc, what_is_ready_at_the_deadline_is_ready);
    tcase_add_test(tc, a_failure_is_told_from_a_deadline);
    tcase_add_test(tc, a_ready_one_fails_by_itself);
    tcase_add_test(tc, nothing_is_waited_for_without_a_deadline);
    tcase_add_test(tc, without_revoke_it_is_aborted_at_once);
    tcase_add_test(tc, what_is_being_made_is_aborted_at_once);
    tcase_add_test(tc, quiet_one_has_time_to_end);
    tcase_add_test(tc, revoke_that_is_refused_leaves_it_to_the_abort);
    tcase_add_test(tc, work_of_the_program_may_take_longer_than_the_abort);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
