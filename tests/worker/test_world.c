/* tests/worker/test_world.c - what the readers of hvd/world.h make of an
 * assignment, and a heartbeat of hvd_busy_begin(); in a world of one. */
#include <pthread.h>

#include <hvd/hvd.h>

#include "base/clock.h"
#include "elastic/worker/control.h"
#include "elastic/worker/membership.h"
#include "elastic/worker/sample.h"
#include "support.h"

#define ok(call) ck_assert_int_eq((call), HVD_OK)

static void set_up(void)
{
    ok(hvd_init(NULL));
}

static void tear_down(void)
{
    ok(hvd_shutdown());
}

START_TEST(readers_are_what_the_driver_has_assigned)
{
    struct control_assignment a = {.generation = 7,
                                   .assign = {.rank = 5,
                                              .size = 9,
                                              .local_rank = 1,
                                              .local_size = 2,
                                              .cross_rank = 3,
                                              .cross_size = 4}};

    membership_show(&a);
    ck_assert_uint_eq(hvd_generation(), 7);
    ck_assert_int_eq(hvd_rank(), 5);
    ck_assert_int_eq(hvd_size(), 9);
    ck_assert_int_eq(hvd_local_rank(), 1);
    ck_assert_int_eq(hvd_local_size(), 2);
    ck_assert_int_eq(hvd_cross_rank(), 3);
    ck_assert_int_eq(hvd_cross_size(), 4);
}
END_TEST

/* ---- busy ---------------------------------------------------------------- */

/* What a heartbeat says `ms` from now. */
static uint64_t busy_in(uint64_t ms)
{
    struct worker_event ev = {.type = WORKER_EV_TICK};

    worker_sample(&ev, clock_now_us() + ms * 1000);
    return ev.busy_ms;
}

static void *begin_elsewhere(void *arg)
{
    hvd_busy_begin(*(unsigned *)arg);
    return NULL;
}

static void begin_in_a_thread(unsigned timeout_ms)
{
    pthread_t thread;

    ck_assert_int_eq(
        pthread_create(&thread, NULL, begin_elsewhere, &timeout_ms), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

/* An hour, so that no pause of this machine is as long. */
enum { HOUR_MS = 3600000 };

START_TEST(busy_for_the_time_that_was_said)
{
    ck_assert_uint_eq(busy_in(0), 0);
    begin_in_a_thread(2 * HOUR_MS);
    ck_assert_uint_gt(busy_in(0), HOUR_MS);
    ck_assert_uint_le(busy_in(0), 2 * HOUR_MS);
    ck_assert_uint_gt(busy_in(HOUR_MS / 2), HOUR_MS);
    ck_assert_uint_eq(busy_in(2 * HOUR_MS), 0);
}
END_TEST

START_TEST(busy_again_replaces_the_time)
{
    hvd_busy_begin(3 * HOUR_MS);
    begin_in_a_thread(HOUR_MS);
    ck_assert_uint_le(busy_in(0), HOUR_MS);
    ck_assert_uint_gt(busy_in(0), 0);
    hvd_busy_begin(3 * HOUR_MS);
    ck_assert_uint_gt(busy_in(0), 2 * HOUR_MS);
}
END_TEST

/* They do not nest: one end is the end of both. */
START_TEST(busy_until_its_end)
{
    hvd_busy_begin(HOUR_MS);
    hvd_busy_begin(HOUR_MS);
    if (_i == 0)
        hvd_busy_end();
    else
        hvd_busy_begin(0);
    ck_assert_uint_eq(busy_in(0), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker world");
    TCase *tcase = tcase_create("world");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, readers_are_what_the_driver_has_assigned);
    tcase_add_test(tcase, busy_for_the_time_that_was_said);
    tcase_add_test(tcase, busy_again_replaces_the_time);
    tcase_add_loop_test(tcase, busy_until_its_end, 0, 2);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
