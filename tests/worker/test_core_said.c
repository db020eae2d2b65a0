/* tests/worker/test_core_said.c - what is in the messages and actions of the
 * worker's core, and what it takes from the driver's: test_core.c has when. */
#include <string.h>

#include "worker/core_fixture.h"

static const struct message *sent(enum message_type type)
{
    for (size_t i = 0; i < core.n_actions; i++)
        if (core.actions[i].type == WORKER_ACT_SEND &&
            core.actions[i].u.message.type == type)
            return &core.actions[i].u.message;
    ck_abort_msg("no %s", message_type_name(type));
    return NULL;
}

/* --- to the driver --- */

static const struct msg_ping *ping_in(struct worker_event *ev)
{
    now_us += 1000000;
    ck_assert_int_eq(step(ev), HVD_OK);
    return &sent(MSG_PING)->u.ping;
}

START_TEST(ping_tells_where_the_worker_is)
{
    struct worker_event ev = event(WORKER_EV_TICK);
    const struct msg_ping *ping;

    ev.busy_ms = 900;
    ev.operation = 77;
    ev.in_collective = true;
    stand_in(WORKER_HELD);
    ping = ping_in(&ev);
    ck_assert_uint_eq(ping->stamp_us, now_us);
    ck_assert_uint_eq(ping->phase, WORKER_HELD);
    ck_assert_uint_eq(ping->generation, GENERATION);
    ck_assert_uint_eq(ping->id.generation, GENERATION);
    ck_assert_uint_eq(ping->id.version, 2);
    ck_assert_uint_eq(ping->boundary, 3);
    ck_assert_uint_eq(ping->busy_ms, 900);
    ck_assert_uint_eq(ping->operation, 77);
    ck_assert(ping->in_collective);
}
END_TEST

START_TEST(ping_tells_what_it_knows_of_the_change)
{
    struct worker_event ev = event(WORKER_EV_TICK);
    const struct msg_ping *ping;

    stand_in(WORKER_HELD);
    ping = ping_in(&ev);
    ck_assert(ping->held && !ping->cut);
    ck_assert_uint_eq(ping->hold_sequence, 1);
    hear(cut(1, 8), "WAKE");
    ck_assert(ping_in(&ev)->cut);
}
END_TEST

START_TEST(ping_tells_the_fence)
{
    struct worker_event ev = event(WORKER_EV_TICK);

    stand_in(WORKER_IDLE);
    hear(message(MSG_ABORT, 6), "");
    ck_assert_uint_eq(ping_in(&ev)->fence, 6);
}
END_TEST

START_TEST(ready_tells_what_it_comes_with)
{
    struct worker_event ev = event(WORKER_EV_LOST);
    const struct msg_ready *ready;

    stand_in(WORKER_RUNNING);
    ev.operation = 77;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ready = &sent(MSG_READY)->u.ready;
    ck_assert_uint_eq(ready->id.version, 2);
    ck_assert_uint_eq(ready->boundary, 3);
    ck_assert_uint_eq(ready->operation, 77);
}
END_TEST

START_TEST(ready_tells_the_layout)
{
    struct worker_event ev = event(WORKER_EV_ENTER);
    const struct msg_ready *ready;

    stand_in(WORKER_IDLE);
    ev.u.enter.layout[WIRE_DIGEST_NBYTES - 1] = 9;
    ev.u.enter.layout_text = "weights: 3";
    ev.u.enter.user = 1000;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ready = &sent(MSG_READY)->u.ready;
    ck_assert_uint_eq(ready->layout[WIRE_DIGEST_NBYTES - 1], 9);
    ck_assert_str_eq(ready->layout_text, "weights: 3");
    ck_assert_uint_eq(ready->user, 1000);
    ck_assert_uint_eq(ready->kind, READY_ELASTIC);
}
END_TEST

START_TEST(done_tells_the_state_it_ended_with)
{
    const struct msg_done *done;

    stand_in(WORKER_DONE);
    done = &sent(MSG_DONE)->u.done;
    ck_assert_uint_eq(done->generation, GENERATION);
    ck_assert_uint_eq(done->id.generation, GENERATION);
    ck_assert_uint_eq(done->id.version, 2);
}
END_TEST

START_TEST(leaving_tells_why)
{
    struct worker_event ev = event(WORKER_EV_FAILED);
    const struct msg_leaving *leaving;

    stand_in(WORKER_RUNNING);
    ev.u.failed.text = "a sentence";
    ev.u.failed.alone = true;
    ck_assert_int_eq(step(&ev), HVD_OK);
    leaving = &sent(MSG_LEAVING)->u.leaving;
    ck_assert_uint_eq(leaving->generation, GENERATION);
    ck_assert_int_eq(leaving->status, HVD_ERR_STATE);
    ck_assert_str_eq(leaving->text, "a sentence");
    ck_assert(leaving->alone);
}
END_TEST

/* A member says which it has heard, until it has heard another one. */
START_TEST(ping_tells_whether_a_change_is_expected)
{
    struct worker_event ev = event(WORKER_EV_TICK);
    struct message m = message(MSG_PONG, GENERATION);

    stand_in(WORKER_RUNNING);
    ck_assert(!ping_in(&ev)->expects);
    m.u.pong.expects = true;
    hear(m, "");
    ck_assert(ping_in(&ev)->expects);
    m.u.pong.expects = false;
    hear(m, "");
    ck_assert(!ping_in(&ev)->expects);
}
END_TEST

/* --- to the application --- */

/* A driver's text is never longer than it may be, whatever has come. */
START_TEST(abort_tells_why)
{
    struct message m = message(MSG_ABORT, GENERATION);
    const char *text = core.actions[0].u.abort.text;

    stand_in(WORKER_RUNNING);
    memset(m.u.abort.text, 'x', sizeof(m.u.abort.text));
    hear(m, "ABORT(5) WAKE");
    ck_assert_uint_eq(strnlen(text, WIRE_TEXT_MAX), WIRE_TEXT_MAX - 1);
    ck_assert_mem_eq(text, m.u.abort.text, WIRE_TEXT_MAX - 1);
}
END_TEST

START_TEST(failure_without_a_status_is_the_jobs)
{
    struct message m = end(SHUTDOWN_FAILED);

    stand_in(WORKER_IDLE);
    m.u.shutdown.status = 0;
    hear(m, "WAKE");
    ck_assert_int_eq(core.status, HVD_ERR_JOB_FAILED);
}
END_TEST

/* --- from the driver --- */

START_TEST(welcome_brings_times_and_encryption)
{
    struct message m = message(MSG_WELCOME, 0);

    begin();
    m.u.welcome.heartbeat_ms = 1;
    m.u.welcome.driver_timeout_ms = 3000;
    m.u.welcome.connect_timeout_ms = 1234;
    m.u.welcome.encrypt_data = true;
    ck_assert(!core.encrypt_data);
    hear(m, "WAKE");
    ck_assert_uint_eq(worker_deadline(&core), now_us + 1000);
    ck_assert_uint_eq(core.driver_timeout_us, 3000000);
    ck_assert_uint_eq(core.connect_timeout_ms, 1234);
    ck_assert(core.encrypt_data);
}
END_TEST

START_TEST(welcome_without_a_heartbeat_leaves_it)
{
    begin();
    hear(message(MSG_WELCOME, 0), "WAKE");
    ck_assert_uint_eq(worker_deadline(&core), now_us + 1000000);
}
END_TEST

/* The driver has said what became of it; no silence does so again. */
START_TEST(left_is_left)
{
    stand_in(WORKER_HELD);
    hear(end(SHUTDOWN_DRAINED), "ABORT(5) WAKE");
    core.driver_timeout_us = 1000;
    now_us += 1000000;
    happens(WORKER_EV_TICK, "");
    ck_assert_int_eq(core.verdict, WORKER_DRAINED);
}
END_TEST

START_TEST(released_asks_for_nothing)
{
    stand_in(WORKER_DONE);
    happens(WORKER_EV_DRAIN, "DRAIN_ME");
    hear(message(MSG_RELEASE, GENERATION), "WAKE");
    happens(WORKER_EV_TICK, "PING"); /* and no DRAIN_ME */
}
END_TEST

/* The driver waits for its exit, and must know whether it is stopped. */
START_TEST(released_sends_heartbeats_until_its_goodbye)
{
    struct message m;

    stand_in(WORKER_DONE);
    ck_assert(!worker_goodbye(&core, &m));
    hear(message(MSG_RELEASE, GENERATION), "WAKE");
    happens(WORKER_EV_TICK, "PING");
    hear(message(MSG_PONG, 0), "");
    happens(WORKER_EV_TICK, "PING");
    ck_assert(worker_goodbye(&core, &m));
    ck_assert_int_eq(m.type, MSG_PING);
    ck_assert_uint_eq(m.job, JOB);
    ck_assert_uint_eq(m.worker, WORKER);
    ck_assert_uint_eq(m.term, core.term);
    ck_assert_int_eq(m.u.ping.phase, WORKER_LEFT);
    ck_assert(m.u.ping.last);
}
END_TEST

/* By a connection of its own: a driver that has not released it may listen. */
START_TEST(released_says_so_by_another_connection)
{
    struct message m;

    stand_in(WORKER_RUNNING);
    worker_hello(&core, &m);
    ck_assert_int_eq(m.u.hello.where.phase, WORKER_CONTACT);
    stand_in(WORKER_LEFT);
    worker_hello(&core, &m);
    ck_assert_int_eq(m.u.hello.where.phase, WORKER_LEFT);
    ck_assert(m.u.hello.where.released);
}
END_TEST

START_TEST(who_failed_or_was_drained_sends_no_heartbeats)
{
    struct message m;

    stand_in(WORKER_RUNNING);
    hear(end(SHUTDOWN_DRAINED), "ABORT(5) WAKE");
    happens(WORKER_EV_TICK, "");
    ck_assert(!worker_goodbye(&core, &m));
    stand_in(WORKER_RUNNING);
    happens(WORKER_EV_FAILED, "LEAVING");
    happens(WORKER_EV_TICK, "LEAVING");
}
END_TEST

/* Of an abort by the driver it knows; the next loss is this worker's to say. */
START_TEST(loss_after_an_abort_is_told_again)
{
    struct worker_event ev = event(WORKER_EV_LOST);

    stand_in(WORKER_RUNNING);
    hear(message(MSG_ABORT, GENERATION), "ABORT(5) WAKE");
    happens(WORKER_EV_LOST, "READY(lost,5)");
    refused(WORKER_EV_LOST); /* it is in none now */
    hear(message(MSG_ASSIGN, GENERATION + 1), "BEGIN WAKE");
    ev.u.lost.generation = GENERATION + 1;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ck_assert_str_eq(words, "LOST READY(lost,6)");
}
END_TEST

/* It lies in the message, which is gone after the step. */
START_TEST(table_of_an_assignment_is_not_kept)
{
    static const uint8_t table[] = {1, 2, 3};
    struct message m = message(MSG_ASSIGN, GENERATION);

    stand_in(WORKER_JOINING);
    m.u.assign.table = (struct wire_span){table, sizeof(table)};
    hear(m, "BEGIN WAKE");
    ck_assert_ptr_null(core.assign.table.data);
    ck_assert_uint_eq(core.assign.table.nbytes, 0);
}
END_TEST

/* A CUT that was meant for those of another generation, and a boundary that no
 * CUT has named. */
START_TEST(cut_of_another_generation_is_none)
{
    struct worker_event left = event(WORKER_EV_LEFT);
    struct message m = cut(1, 8);

    stand_in(WORKER_HELD);
    m.generation = GENERATION - 1;
    hear(m, "");
    ck_assert(!core.cut_known);
    stand_in(WORKER_RUNNING);
    left.boundary = 0;
    ck_assert_int_eq(step(&left), HVD_ERR_STATE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_said");
    TCase *tcase = tcase_create("core_said");

    tcase_add_test(tcase, ping_tells_where_the_worker_is);
    tcase_add_test(tcase, ping_tells_what_it_knows_of_the_change);
    tcase_add_test(tcase, ping_tells_the_fence);
    tcase_add_test(tcase, ready_tells_what_it_comes_with);
    tcase_add_test(tcase, ready_tells_the_layout);
    tcase_add_test(tcase, done_tells_the_state_it_ended_with);
    tcase_add_test(tcase, leaving_tells_why);
    tcase_add_test(tcase, ping_tells_whether_a_change_is_expected);
    tcase_add_test(tcase, abort_tells_why);
    tcase_add_test(tcase, failure_without_a_status_is_the_jobs);
    tcase_add_test(tcase, welcome_brings_times_and_encryption);
    tcase_add_test(tcase, welcome_without_a_heartbeat_leaves_it);
    tcase_add_test(tcase, left_is_left);
    tcase_add_test(tcase, released_asks_for_nothing);
    tcase_add_test(tcase, released_sends_heartbeats_until_its_goodbye);
    tcase_add_test(tcase, released_says_so_by_another_connection);
    tcase_add_test(tcase, who_failed_or_was_drained_sends_no_heartbeats);
    tcase_add_test(tcase, loss_after_an_abort_is_told_again);
    tcase_add_test(tcase, table_of_an_assignment_is_not_kept);
    tcase_add_test(tcase, cut_of_another_generation_is_none);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
