/* tests/worker/test_core.c - the worker's half of the membership protocol:
 * every phase with every message and event, the fence, endings, repetition,
 * time. HOLD and CUT in every order: test_core_hold.c. */
#include <string.h>

#include "base/array.h"
#include "worker/core_fixture.h"

static void check_messages(const struct message *m, const char *const *expected,
                           const enum worker_phase *after)
{
    for (int phase = 0; phase < N_PHASES; phase++) {
        stand_in((enum worker_phase)phase);
        hear(*m, expected[phase]);
        ck_assert_int_eq(core.phase, after[phase]);
    }
}

/* ---- phase by message ---------------------------------------------------- */

#define CO WORKER_CONTACT
#define ID WORKER_IDLE
#define JO WORKER_JOINING
#define RU WORKER_RUNNING
#define HE WORKER_HELD
#define DO WORKER_DONE
#define LE WORKER_LEFT

static const struct row {
    enum message_type type;
    uint64_t generation;
    const char *expected[N_PHASES]; /* in CO ID JO RU HE DO LE */
    enum worker_phase after[N_PHASES];
} rows[] = {
    {MSG_WELCOME,
     0,
     {"WAKE", "", "", "", "", "", ""},
     {ID, ID, JO, RU, HE, DO, LE}},
    {MSG_ASSIGN,
     6,
     {"", "", "BEGIN WAKE", "", "", "", ""},
     {CO, ID, RU, RU, HE, DO, LE}},
    {MSG_ABORT,
     5,
     {"", "", "READY(lost,5)", "ABORT(5) WAKE", "ABORT(5) WAKE",
      "ABORT(5) WAKE", ""},
     {CO, ID, JO, RU, HE, DO, LE}},
    {MSG_ABORT, /* of an older generation: nothing it lives in */
     4,
     {"", "", "READY(lost,4)", "", "", "", ""},
     {CO, ID, JO, RU, HE, DO, LE}},
    {MSG_HOLD, /* sequence 0: older than any */
     4,
     {"", "", "", "", "", "", ""},
     {CO, ID, JO, RU, HE, DO, LE}},
    {MSG_CUT, 4, {"", "", "", "", "", "", ""}, {CO, ID, JO, RU, HE, DO, LE}},
    {MSG_RELEASE,
     5,
     {"", "", "", "", "", "WAKE", ""},
     {CO, ID, JO, RU, HE, LE, LE}},
    {MSG_RELEASE,
     4,
     {"", "", "", "", "", "", ""},
     {CO, ID, JO, RU, HE, DO, LE}},
    {MSG_PONG, 5, {"", "", "", "", "", "", ""}, {CO, ID, JO, RU, HE, DO, LE}},
};

START_TEST(core_phase_by_message_as_in_the_table)
{
    const struct row *r = &rows[_i];
    struct message m = message(r->type, r->generation);

    check_messages(&m, r->expected, r->after);
}
END_TEST

START_TEST(core_hold_in_each_phase)
{
    static const char *const expected[] = {"",     "",     "", "HOLD",
                                           "HOLD", "HOLD", ""};
    static const enum worker_phase after[] = {CO, ID, JO, RU, HE, DO, LE};
    struct message m = hold(2);

    check_messages(&m, expected, after);
}
END_TEST

START_TEST(core_cut_in_each_phase_only_who_answered_hold_listens)
{
    static const char *const expected[] = {"", "", "", "", "WAKE", "", ""};
    static const enum worker_phase after[] = {CO, ID, JO, RU, HE, DO, LE};
    struct message m = cut(1, 9);

    check_messages(&m, expected, after);
}
END_TEST

START_TEST(core_shutdown_in_each_phase_leaves)
{
    static const char *const expected[] = {
        "WAKE",          "WAKE",          "WAKE", "ABORT(5) WAKE",
        "ABORT(5) WAKE", "ABORT(5) WAKE", ""};
    static const enum worker_phase after[] = {LE, LE, LE, LE, LE, LE, LE};
    struct message failed = end(SHUTDOWN_FAILED),
                   drained = end(SHUTDOWN_DRAINED);

    check_messages(&drained, expected, after);
    check_messages(&failed, expected, after);
}
END_TEST

START_TEST(core_shutdown_tells_why)
{
    stand_in(WORKER_RUNNING);
    hear(end(SHUTDOWN_DRAINED), "ABORT(5) WAKE");
    ck_assert_int_eq(core.verdict, WORKER_DRAINED);
    ck_assert_int_eq(core.status, HVD_REMOVED);
    stand_in(WORKER_JOINING);
    hear(end(SHUTDOWN_FAILED), "WAKE");
    ck_assert_int_eq(core.verdict, WORKER_JOB_FAILED);
    ck_assert_int_eq(core.status, HVD_ERR_MISMATCH);
    ck_assert_str_eq(core.text, "a sentence");
    stand_in(WORKER_IDLE); /* a spare, when the job ends well without it */
    hear(end(SHUTDOWN_FINISHED), "WAKE");
    ck_assert_int_eq(core.verdict, WORKER_DRAINED);
    stand_in(WORKER_LEFT);
    ck_assert_int_eq(core.verdict, WORKER_RELEASED);
    hear(end(SHUTDOWN_FAILED), ""); /* the first verdict stands */
    ck_assert_int_eq(core.verdict, WORKER_RELEASED);
}
END_TEST

/* ---- phase by event ------------------------------------------------------ */

#define NO NULL /* HVD_ERR_STATE, nothing changed */

static const struct {
    enum worker_event_type type;
    const char *expected[N_PHASES];
    enum worker_phase after[N_PHASES];
} events[] = {
    {WORKER_EV_ENTER,
     {"", "READY(start,0)", NO, NO, NO, NO, ""},
     {CO, JO, JO, RU, HE, DO, LE}},
    {WORKER_EV_LOST,
     {NO, NO, NO, "LOST READY(lost,5)", "LOST READY(lost,5)",
      "LOST READY(lost,5)", ""},
     {CO, ID, JO, JO, JO, JO, LE}},
    {WORKER_EV_BOUNDARY,
     {NO, NO, NO, "", "", NO, ""},
     {CO, ID, JO, RU, HE, DO, LE}},
    {WORKER_EV_LEFT, /* nobody has said where */
     {NO, NO, NO, NO, NO, NO, ""},
     {CO, ID, JO, RU, HE, DO, LE}},
    {WORKER_EV_COUNTED, /* overtaken: nothing is held */
     {"", "", "", "", "", "", ""},
     {CO, ID, JO, RU, HE, DO, LE}},
    {WORKER_EV_DONE,
     {NO, NO, NO, "DONE", NO, NO, ""},
     {CO, ID, JO, DO, HE, DO, LE}},
    {WORKER_EV_FAILED,
     {"LEAVING", "LEAVING", "LEAVING", "LEAVING", "LEAVING", "LEAVING", ""},
     {LE, LE, LE, LE, LE, LE, LE}},
    {WORKER_EV_REPORT,
     {"", "", "", "REPORT", "REPORT", "REPORT", ""},
     {CO, ID, JO, RU, HE, DO, LE}},
    {WORKER_EV_DRAIN,
     {"", "DRAIN_ME", "DRAIN_ME", "DRAIN_ME", "DRAIN_ME", "DRAIN_ME", ""},
     {CO, ID, JO, RU, HE, DO, LE}},
    {WORKER_EV_TICK, /* M2: what stands is repeated */
     {"HELLO", "PING", "READY(start,0) PING", "PING", "HELD(3) PING",
      "DONE PING", "PING"},
     {CO, ID, JO, RU, HE, DO, LE}},
};

START_TEST(core_phase_by_event_as_in_the_table)
{
    for (int phase = 0; phase < N_PHASES; phase++) {
        const char *expected = events[_i].expected[phase];

        stand_in((enum worker_phase)phase);
        if (expected)
            happens(events[_i].type, expected);
        else
            refused(events[_i].type);
        ck_assert_int_eq(core.phase, events[_i].after[phase]);
    }
}
END_TEST

/* ---- M1 ------------------------------------------------------------------ */

/* Not even a higher term is believed of who was not dialled as such. */
START_TEST(m1_other_terms_are_ignored)
{
    struct message m = message(MSG_ABORT, GENERATION);

    stand_in(WORKER_RUNNING);
    ck_assert_uint_eq(core.term, 1);
    m.term = 4;
    hear(m, "");
    ck_assert_uint_eq(core.term, 1);
    succeed(4, "HELLO");
    m.term = 1;
    hear(m, "");
    m.term = 4;
    hear(m, "ABORT(5) WAKE");
}
END_TEST

START_TEST(m1_messages_of_another_job_are_ignored)
{
    struct message m = message(MSG_ABORT, GENERATION);
    struct worker_event ev = {.type = WORKER_EV_MESSAGE, .u.message = &m};

    stand_in(WORKER_RUNNING);
    m.job = JOB + 1;
    m.term = 9;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ck_assert_str_eq(words, "");
    ck_assert_uint_eq(core.term, 1);
}
END_TEST

/* ---- M3: the fence ------------------------------------------------------- */

START_TEST(m3_assign_at_or_below_the_fence_is_refused)
{
    stand_in(WORKER_RUNNING);
    happens(WORKER_EV_LOST, "LOST READY(lost,5)");
    hear(message(MSG_ASSIGN, 5), ""); /* the same again, late */
    hear(message(MSG_ASSIGN, 4), "");
    hear(message(MSG_ASSIGN, 6), "BEGIN WAKE");
    ck_assert_uint_eq(core.generation, 6);
}
END_TEST

START_TEST(m3_abort_before_assign_makes_it_refuse_that_assign)
{
    stand_in(WORKER_JOINING);
    hear(message(MSG_ABORT, 5), "READY(lost,5)");
    hear(message(MSG_ASSIGN, 5), "");
    ck_assert_int_eq(core.phase, WORKER_JOINING);
    hear(message(MSG_ABORT, 5), "READY(lost,5)"); /* the driver lacks it */
    hear(message(MSG_ABORT, 4), "READY(lost,5)"); /* never lower */
    hear(message(MSG_ASSIGN, 6), "BEGIN WAKE");
}
END_TEST

START_TEST(m3_abort_keeps_the_fence_after_the_next_ready)
{
    stand_in(WORKER_RUNNING);
    hear(message(MSG_ABORT, 5), "ABORT(5) WAKE");
    hear(message(MSG_ABORT, 5), ""); /* once */
    ck_assert_int_eq(worker_at_boundary(&core, 1), WORKER_BOUNDARY_LOST);
    refused(WORKER_EV_DONE);                  /* it has to say LOST */
    happens(WORKER_EV_LOST, "READY(lost,5)"); /* the driver knows the rest */
    ck_assert_uint_eq(core.fence, 5);
}
END_TEST

START_TEST(m3_fence_of_who_had_not_entered_is_in_its_first_ready)
{
    stand_in(WORKER_IDLE);
    hear(message(MSG_ABORT, 5), "");
    happens(WORKER_EV_ENTER, "READY(start,5)");
}
END_TEST

/* Found out once, said with every READY. */
START_TEST(abilities_are_in_each_ready)
{
    struct worker_event ev = event(WORKER_EV_ENTER);

    stand_in(WORKER_IDLE);
    ev.u.enter.abilities = READY_CAN_SHARE | READY_CAN_WATCH;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ck_assert_uint_eq(core.actions[0].u.message.u.ready.abilities, 5);
    hear(message(MSG_ASSIGN, 5), "BEGIN WAKE");
    happens(WORKER_EV_LOST, "LOST READY(lost,5)");
    ck_assert_uint_eq(core.actions[1].u.message.u.ready.abilities, 5);
}
END_TEST

/* As they are then: those of ASSIGN are taken on meanwhile. */
START_TEST(settings_are_in_each_ready)
{
    struct worker_event enter = event(WORKER_EV_ENTER);
    struct worker_event lost = event(WORKER_EV_LOST);

    stand_in(WORKER_IDLE);
    enter.settings = "own";
    ck_assert_int_eq(step(&enter), HVD_OK);
    ck_assert_str_eq(core.actions[0].u.message.u.ready.settings, "own");
    hear(message(MSG_ASSIGN, 5), "BEGIN WAKE");
    lost.settings = "rank 0's";
    ck_assert_int_eq(step(&lost), HVD_OK);
    ck_assert_str_eq(core.actions[1].u.message.u.ready.settings, "rank 0's");
}
END_TEST

/* It could share when it entered, and cannot any more. */
START_TEST(ability_that_has_gone_is_in_no_later_ready)
{
    struct worker_event enter = event(WORKER_EV_ENTER);
    struct worker_event lost = event(WORKER_EV_LOST);

    stand_in(WORKER_IDLE);
    enter.u.enter.abilities = READY_CAN_SHARE | READY_CAN_WATCH;
    ck_assert_int_eq(step(&enter), HVD_OK);
    hear(message(MSG_ASSIGN, 5), "BEGIN WAKE");
    lost.gone = READY_CAN_SHARE;
    ck_assert_int_eq(step(&lost), HVD_OK);
    ck_assert_uint_eq(core.actions[1].u.message.u.ready.abilities, 4);
    hear(message(MSG_ASSIGN, 6), "BEGIN WAKE");
    lost = event(WORKER_EV_LOST);
    lost.u.lost.generation = 6;
    ck_assert_int_eq(step(&lost), HVD_OK);
    ck_assert_uint_eq(core.actions[1].u.message.u.ready.abilities, 4);
}
END_TEST

START_TEST(m3_lost_of_another_generation_is_the_callers_mistake)
{
    struct worker_event ev = event(WORKER_EV_LOST);

    stand_in(WORKER_RUNNING);
    ev.u.lost.generation = 4;
    ck_assert_int_eq(step(&ev), HVD_ERR_STATE);
}
END_TEST

/* Whoever saw the loss first is not the only one whose accusation counts. */
START_TEST(m5_accusation_is_told_also_behind_an_abort)
{
    struct worker_event ev = event(WORKER_EV_LOST);
    struct message died = message(MSG_ABORT, 6);

    stand_in(WORKER_RUNNING);
    hear(message(MSG_ABORT, 5), "ABORT(5) WAKE");
    ev.u.lost.n_accused = 1;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ck_assert_str_eq(words, "LOST READY(lost,5)");
    hear(message(MSG_ASSIGN, 6), "BEGIN WAKE");
    died.u.abort.worker = 3; /* that explains it */
    hear(died, "ABORT(6) WAKE");
    ev.u.lost.generation = 6;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ck_assert_str_eq(words, "READY(lost,6)");
}
END_TEST

START_TEST(mismatch_is_told_and_leaves_nothing)
{
    struct worker_event ev = event(WORKER_EV_LOST);

    stand_in(WORKER_RUNNING);
    ev.u.lost.mismatch = true;
    ck_assert_int_eq(step(&ev), HVD_OK);
    ck_assert_str_eq(words, "LOST");
    ck_assert_int_eq(core.phase, WORKER_RUNNING);
}
END_TEST

START_TEST(abort_by_mismatch_says_so_to_the_application)
{
    struct message m = message(MSG_ABORT, GENERATION);

    stand_in(WORKER_RUNNING);
    m.u.abort.reason = ABORT_MISMATCH;
    hear(m, "ABORT(5) WAKE");
    ck_assert_int_eq(core.actions[0].u.abort.status, HVD_ERR_MISMATCH);
}
END_TEST

/* ---- endings ------------------------------------------------------------- */

START_TEST(done_abort_is_a_loss_like_any_other)
{
    stand_in(WORKER_DONE);
    hear(message(MSG_ABORT, 5), "ABORT(5) WAKE");
    hear(message(MSG_RELEASE, 4), "");
    happens(WORKER_EV_LOST, "READY(lost,5)");
    hear(message(MSG_RELEASE, 5), ""); /* it is no longer DONE */
    hear(message(MSG_ASSIGN, 6), "BEGIN WAKE");
    happens(WORKER_EV_DONE, "DONE");
    hear(message(MSG_RELEASE, 6), "WAKE");
    ck_assert_int_eq(core.verdict, WORKER_RELEASED);
}
END_TEST

START_TEST(release_twice_and_late_messages_change_nothing)
{
    stand_in(WORKER_LEFT);
    hear(message(MSG_RELEASE, 5), "");
    hear(message(MSG_ABORT, 5), "");
    happens(WORKER_EV_TICK, "PING");
    happens(WORKER_EV_LOST, ""); /* the verdict is already there */
    ck_assert_int_eq(core.verdict, WORKER_RELEASED);
}
END_TEST

START_TEST(leaving_is_repeated_until_it_was_answered)
{
    stand_in(WORKER_RUNNING);
    happens(WORKER_EV_FAILED, "LEAVING");
    happens(WORKER_EV_TICK, "LEAVING");
    happens(WORKER_EV_TICK, "LEAVING");
    hear(message(MSG_ABORT, 5), "");
    hear(end(SHUTDOWN_FAILED), "WAKE");
    ck_assert(!core.is_leaving);
    happens(WORKER_EV_TICK, "");
    ck_assert_int_eq(core.status, HVD_ERR_STATE); /* its own */
}
END_TEST

START_TEST(entered_before_welcome_is_ready_with_it)
{
    begin();
    happens(WORKER_EV_ENTER, "");
    happens(WORKER_EV_TICK, "HELLO");
    hear(message(MSG_WELCOME, 0), "WAKE READY(start,0)");
    ck_assert_int_eq(core.phase, WORKER_JOINING);
}
END_TEST

START_TEST(drain_is_asked_for_until_it_comes)
{
    begin();
    happens(WORKER_EV_DRAIN, ""); /* nobody knows us yet */
    happens(WORKER_EV_TICK, "HELLO");
    hear(message(MSG_WELCOME, 0), "WAKE");
    happens(WORKER_EV_TICK, "DRAIN_ME PING");
    happens(WORKER_EV_TICK, "DRAIN_ME PING");
    hear(end(SHUTDOWN_DRAINED), "WAKE");
    happens(WORKER_EV_TICK, "");
}
END_TEST

/* ---- time ---------------------------------------------------------------- */

START_TEST(tick_follows_the_heartbeat_of_welcome)
{
    struct message m = message(MSG_WELCOME, 0);

    begin();
    ck_assert_uint_eq(worker_deadline(&core), now_us); /* HELLO at once */
    happens(WORKER_EV_TICK, "HELLO");
    ck_assert_uint_eq(worker_deadline(&core), now_us + 1000000);
    m.u.welcome.heartbeat_ms = 200;
    hear(m, "WAKE");
    ck_assert_uint_eq(worker_deadline(&core), now_us + 200000);
}
END_TEST

START_TEST(silent_driver_ends_the_worker)
{
    struct message m = message(MSG_WELCOME, 0);

    begin();
    m.u.welcome.driver_timeout_ms = 3000;
    hear(m, "WAKE");
    happens(WORKER_EV_ENTER, "READY(start,0)");
    hear(message(MSG_ASSIGN, 5), "BEGIN WAKE");
    now_us += 2900000;
    happens(WORKER_EV_TICK, "PING");
    hear(message(MSG_PONG, 5), "");
    for (int i = 0; i < 3; i++) {
        now_us += 1000000;
        happens(WORKER_EV_TICK, "PING");
    }
    now_us += 1;
    happens(WORKER_EV_TICK, "ABORT(5) WAKE");
    ck_assert_int_eq(core.verdict, WORKER_DRIVER_GONE);
    ck_assert_int_eq(core.status, HVD_ERR_DRIVER_LOST);
}
END_TEST

/* Whoever calls hvd_init() waits so long at most. */
START_TEST(driver_that_never_answers_hello_ends_the_worker)
{
    const struct worker_config config = {.job = JOB,
                                         .worker = WORKER,
                                         .heartbeat_us = 1000000,
                                         .driver_timeout_us = 30000000};

    worker_core_init(&core, &config, now_us);
    happens(WORKER_EV_TICK, "HELLO");
    for (int i = 0; i < 30; i++) {
        now_us += 1000000;
        happens(WORKER_EV_TICK, "HELLO");
    }
    now_us += 1;
    happens(WORKER_EV_TICK, "WAKE");
    ck_assert_int_eq(core.verdict, WORKER_DRIVER_GONE);
    ck_assert_int_eq(core.status, HVD_ERR_DRIVER_LOST);
}
END_TEST

/* What the driver said while this process was stopped has yet to be read. */
START_TEST(own_absence_is_nobodys_silence)
{
    struct message m = message(MSG_WELCOME, 0);

    begin();
    m.u.welcome.driver_timeout_ms = 3000;
    hear(m, "WAKE");
    happens(WORKER_EV_ENTER, "READY(start,0)");
    hear(message(MSG_ASSIGN, 5), "BEGIN WAKE");
    for (int i = 0; i < 3; i++) {
        now_us += 12000000;
        happens(WORKER_EV_TICK, "PING");
    }
    ck_assert_int_eq(core.verdict, WORKER_GO_ON);
}
END_TEST

/* It was silent, but may have spoken since this process was stopped. */
START_TEST(silence_before_an_absence_is_judged_a_beat_after_it)
{
    struct message m = message(MSG_WELCOME, 0);

    begin();
    m.u.welcome.driver_timeout_ms = 3000;
    hear(m, "WAKE");
    happens(WORKER_EV_ENTER, "READY(start,0)");
    hear(message(MSG_ASSIGN, 5), "BEGIN WAKE");
    for (int i = 0; i < 3; i++) {
        now_us += 1000000;
        happens(WORKER_EV_TICK, "PING");
    }
    now_us += 7000000;
    happens(WORKER_EV_TICK, "PING");
    now_us += 1000000;
    happens(WORKER_EV_TICK, "ABORT(5) WAKE");
    ck_assert_int_eq(core.verdict, WORKER_DRIVER_GONE);
}
END_TEST

START_TEST(silent_driver_without_a_timeout_is_waited_for)
{
    stand_in(WORKER_RUNNING);
    now_us += UINT64_C(3600000000);
    happens(WORKER_EV_TICK, "PING");
    ck_assert_int_eq(core.verdict, WORKER_GO_ON);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker_core");
    TCase *tcase = tcase_create("worker_core");

    tcase_add_loop_test(tcase, core_phase_by_message_as_in_the_table, 0,
                        (int)ARRAY_SIZE(rows));
    tcase_add_test(tcase, core_hold_in_each_phase);
    tcase_add_test(tcase,
                   core_cut_in_each_phase_only_who_answered_hold_listens);
    tcase_add_test(tcase, core_shutdown_in_each_phase_leaves);
    tcase_add_test(tcase, core_shutdown_tells_why);
    tcase_add_loop_test(tcase, core_phase_by_event_as_in_the_table, 0,
                        (int)ARRAY_SIZE(events));
    tcase_add_test(tcase, m1_other_terms_are_ignored);
    tcase_add_test(tcase, m1_messages_of_another_job_are_ignored);
    tcase_add_test(tcase, own_absence_is_nobodys_silence);
    tcase_add_test(tcase, silence_before_an_absence_is_judged_a_beat_after_it);
    tcase_add_test(tcase, m3_assign_at_or_below_the_fence_is_refused);
    tcase_add_test(tcase, m3_abort_before_assign_makes_it_refuse_that_assign);
    tcase_add_test(tcase, m3_abort_keeps_the_fence_after_the_next_ready);
    tcase_add_test(tcase,
                   m3_fence_of_who_had_not_entered_is_in_its_first_ready);
    tcase_add_test(tcase, abilities_are_in_each_ready);
    tcase_add_test(tcase, settings_are_in_each_ready);
    tcase_add_test(tcase, ability_that_has_gone_is_in_no_later_ready);
    tcase_add_test(tcase, m3_lost_of_another_generation_is_the_callers_mistake);
    tcase_add_test(tcase, m5_accusation_is_told_also_behind_an_abort);
    tcase_add_test(tcase, mismatch_is_told_and_leaves_nothing);
    tcase_add_test(tcase, abort_by_mismatch_says_so_to_the_application);
    tcase_add_test(tcase, done_abort_is_a_loss_like_any_other);
    tcase_add_test(tcase, release_twice_and_late_messages_change_nothing);
    tcase_add_test(tcase, leaving_is_repeated_until_it_was_answered);
    tcase_add_test(tcase, entered_before_welcome_is_ready_with_it);
    tcase_add_test(tcase, drain_is_asked_for_until_it_comes);
    tcase_add_test(tcase, tick_follows_the_heartbeat_of_welcome);
    tcase_add_test(tcase, silent_driver_ends_the_worker);
    tcase_add_test(tcase, driver_that_never_answers_hello_ends_the_worker);
    tcase_add_test(tcase, silent_driver_without_a_timeout_is_waited_for);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
