/* tests/driver/test_core_hang.c - members that report and get nowhere: who is
 * evicted, when the generation ends, when the job does. M10, as transcripts of
 * the core. See fixture.h for the words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/fixture.h"

/* Where each of up to four members stands: "5" has completed five calls and
 * computes; "5+" has called or posted a sixth; "5~" waits without a number (a
 * sync); "5>" the same while bytes move; "5b" is busy for a minute. */
static struct happening standing(const char *name, const char *word,
                                 uint64_t moves)
{
    struct happening h = ping(name, WORKER_RUNNING, 0);
    struct msg_ping *p = &h.message.u.ping;
    char mark = word[strcspn(word, "+~>b")];

    p->operation = p->called = strtoull(word, NULL, 10);
    p->called += mark == '+';
    p->in_collective = mark == '~' || mark == '>';
    p->moves = mark == '>' ? moves : 0;
    p->busy_ms = mark == 'b' ? 60000 : 0;
    return h;
}

static void say(struct fixture *f, uint64_t ms, const char *words)
{
    static const char *const names[] = {"w1", "w2", "w3", "w4"};
    char list[64], *word, *rest = list;

    snprintf(list, sizeof(list), "%s", words);
    for (size_t i = 0; (word = strtok_r(rest, " ", &rest)) != NULL; i++)
        at(f, ms, standing(names[i], word, ms));
}

/* So they stand from then on, and say it each second. */
static void stand(struct fixture *f, uint64_t from_s, uint64_t to_s,
                  const char *words)
{
    for (size_t i = 1; i <= f->driver.n_workers; i++)
        f->workers[i].silent = true; /* but for these */
    for (uint64_t s = from_s; s < to_s; s++) {
        say(f, 1000 * s, words);
        pass(f, 1000 * s + 900);
    }
}

static bool lives(const struct fixture *f, uint64_t id)
{
    const struct driver_worker *w = driver_worker(&f->driver, id);

    return w && !worker_is_dead(w);
}

START_TEST(m10_who_computes_while_others_wait_is_evicted)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1, .hang_ms = 5000);

    run(f, "a:3");
    stand(f, 1, 6, "7+ 7 7+");
    expect(f, "");
    stand(f, 6, 8, "7+ 7 7+");
    expect_part(f, "kill: w2\nabort 1, w2 died: w1 w3\n");
    fixture_free(f);
}
END_TEST

/* All have computed for longer, and then completed the same call, which w2 has
 * yet to say; if it says that it has not it was awaited. */
START_TEST(m10_newer_words_of_others_say_nothing_of_who_is_awaited)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1, .hang_ms = 5000);

    run(f, "a:3");
    stand(f, 1, 6, "7 7 7");
    say(f, 6000, "7 7 7");
    at(f, 6010, standing("w2", "7", 0));
    at(f, 6020, standing("w1", "8+", 0));
    at(f, 6020, standing("w3", "8+", 0));
    pass(f, 7000);
    expect(f, "");
    at(f, 7000, standing("w2", _i == 0 ? "8" : "7", 0));
    pass(f, 7200);
    expect(f, _i == 0 ? "" : "kill: w2\nabort 1, w2 died: w1 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_a_report_is_progress_too)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1, .hang_ms = 5000);
    struct message m = {.type = MSG_REPORT, .job = FIXTURE_JOB, .worker = 2};

    run(f, "a:2");
    stand(f, 1, 6, "0+ 0");
    say(f, 6000, "0+ 0");
    at(f, 6010, standing("w2", "0", 0));
    m.u.report.generation = 1;
    m.u.report.what = REPORT_FIRST_COLLECTIVE;
    at_raw(f, 6020, &m);
    pass(f, 6500);
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m10_who_is_ahead_of_others_is_not_at_fault)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1, .hang_ms = 5000);

    run(f, "a:3"); /* w1 was a broadcast's root, and computes since */
    for (uint64_t s = 1; s < 20; s++) {
        char words[32];

        snprintf(words, sizeof(words), "9 8+ %d", s < 15 ? (int)(s / 4) : 8);
        stand(f, s, s + 1, words);
        ck_assert_msg(lives(f, 1) && lives(f, 2), "%d s", (int)s);
    }
    ck_assert(lives(f, 3));
    stand(f, 20, 23, "9 8+ 8");
    expect_part(f, "kill: w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_a_sync_whose_bytes_move_is_no_hang)
{
    struct fixture *f = fixture_create(.np = 2, .hang_ms = 5000);

    run(f, "a:2");
    stand(f, 1, 100, "0> 0~");
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m10_all_stuck_in_calls_begin_again)
{
    struct fixture *f = fixture_create(.np = 3, .hang_ms = 5000);

    run(f, "a:3");
    at(f, 10, commits("w1 w2 w3"));
    stand(f, 1, 8, "7+ 6+ 7+");
    expect(f, "warn: all workers wait in collective calls, and none has got on "
              "within --hang-timeout; the last is worker 2 (a:1), which has "
              "completed 6\nabort 1: w1 w2 w3\n");
    at(f, 8000, ready_lost("w1 w2 w3"));
    expect(f, "assign 2: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

/* Its thread does not even return from the call. */
START_TEST(m10_who_does_not_come_after_the_end_is_evicted)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1, .hang_ms = 5000);

    run(f, "a:3");
    at(f, 10, commits("w1 w2 w3"));
    stand(f, 1, 8, "7+ 7+ 7+");
    expect_part(f, "abort 1: w1 w2 w3\n");
    at(f, 8000, ready_lost("w1 w2"));
    f->workers[1].silent = f->workers[2].silent = false;
    for (uint64_t s = 8; s < 14; s++) {
        at(f, 1000 * s, standing("w3", "7+", 0));
        ck_assert(lives(f, 3));
        pass(f, 1000 * s + 900);
    }
    expect_part(f, "kill: w3\nassign 2: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* The ABORT does not reach it: that is no fault of the job. */
START_TEST(m10_the_last_who_waits_for_the_lost_is_evicted)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1, .hang_ms = 5000);

    run(f, "a:2");
    stand(f, 1, 3, "7+ 7+");
    f->slow_workers = true; /* no replacement calls */
    at(f, 3000, killed("w2"));
    stand(f, 3, 10, "7+");
    expect_part(f, "kill: w1\n");
    ck_assert_int_ne(f->driver.phase, DRIVER_STOPPING);
    fixture_free(f);
}
END_TEST

START_TEST(m10_stuck_again_and_again_the_job_ends)
{
    struct fixture *f = fixture_create(.np = 2, .hang_ms = 5000);
    uint64_t s = 1;

    run(f, "a:2");
    for (int g = 1; g <= 5; g++, s += 20) {
        stand(f, s, s + 8, "0+ 0+");
        at(f, 1000 * (s + 8), ready_lost("w1 w2"));
        for (size_t i = 1; i <= 2; i++)
            f->workers[i].silent = false;
        pass(f, 1000 * (s + 19));
    }
    ck_assert_int_eq(f->driver.phase, DRIVER_STOPPING);
    fixture_free(f);
}
END_TEST

START_TEST(m10_all_compute_for_longer_than_allowed_and_the_job_ends)
{
    struct fixture *f = fixture_create(.np = 2, .hang_ms = 5000);

    run(f, "a:2");
    stand(f, 1, 8, "3 3");
    expect_part(f, "shutdown failed: w1 w2\n");
    ck_assert(strstr(f->driver.verdict, "--hang-timeout"));
    fixture_free(f);
}
END_TEST

START_TEST(m10_one_that_computes_keeps_the_job_of_computing_others)
{
    struct fixture *f = fixture_create(.np = 2, .hang_ms = 5000);

    run(f, "a:2");
    for (uint64_t s = 1; s < 40; s++) { /* w2 gets on, now and then */
        char words[32];

        snprintf(words, sizeof(words), "9 %d", (int)(s / 4));
        stand(f, s, s + 1, words);
    }
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* It was stopped, or its messages were lost: it may not have run. */
START_TEST(m10_silence_is_no_lack_of_progress)
{
    struct fixture *f = fixture_create(.np = 2, .hang_ms = 1500);

    run(f, "a:2");
    stand(f, 1, 2, "7+ 7");
    for (uint64_t ms = 2000; ms < 40000; ms += 2000) {
        char words[32];

        snprintf(words, sizeof(words), "%d+ %d", (int)ms, (int)ms);
        say(f, ms, words);
        pass(f, ms + 1900); /* 2 s are death */
        say(f, ms + 1900, words);
        pass(f, ms + 2000);
    }
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m10_who_is_busy_is_waited_for)
{
    struct fixture *f = fixture_create(.np = 2, .hang_ms = 5000);

    run(f, "a:2");
    stand(f, 1, 20, "7+ 7b");
    stand(f, 20, 25, "7+ 7"); /* its phase is over before its time */
    expect(f, "");
    stand(f, 25, 27, "7+ 7");
    expect_part(f, "kill: w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_without_a_limit_who_hangs_is_named)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    stand(f, 1, 200, "7+ 7");
    expect(f, "warn: worker 2 (a:1) has made no progress for 60 s\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_without_a_limit_all_stuck_in_calls_are_named)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    stand(f, 1, 200, "7+ 7+");
    expect(f, "warn: all workers wait in collective calls, and none has got "
              "on for 60 s; the last is worker 1 (a:0), which has completed "
              "7\n");
    fixture_free(f);
}
END_TEST

/* Two calls each second, so that nothing else is reported. */
static void trains(struct fixture *f, uint64_t from_s, uint64_t to_s)
{
    char word[24];

    f->workers[1].silent = true; /* but for these */
    for (uint64_t s = from_s; s < to_s; s++) {
        snprintf(word, sizeof(word), "%d", (int)s);
        say(f, 1000 * s, word);
        pass(f, 1000 * s + 900);
    }
}

START_TEST(m10_newcomer_before_any_commit_is_reported_once)
{
    struct fixture *f = fixture_create(.np = 1, .max_np = 2);

    run(f, "a:1");
    at(f, 10, hosts("a:2"));
    at(f, 20, ready("w2"));
    trains(f, 1, 58);
    expect(f, "spawn: w2@a:1\n");
    trains(f, 58, 200);
    expect(f, "warn: worker 2 (a:1) has waited 60 s to join: no rank has come "
              "to hvd_state_commit in generation 1 -> it joins at the first "
              "commit or hvd_state_check_host_updates behind it\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_newcomer_whose_boundary_does_not_come_is_reported)
{
    struct fixture *f = fixture_create(.np = 1, .max_np = 2);

    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 20, hosts("a:2"));
    at(f, 30, ready("w2"));
    at(f, 40, held("w1", 3));
    expect(f, "spawn: w2@a:1\nhold 1, added: w1\ncut 4: w1\n");
    trains(f, 1, 58);
    expect(f, "");
    trains(f, 58, 64);
    expect(f, "warn: worker 2 (a:1) has waited 60 s to join: not all ranks "
              "have come to the next hvd_state_commit or "
              "hvd_state_check_host_updates; the last is worker 1 (a:0)\n");
    fixture_free(f);
}
END_TEST

/* Those that are not waited for: no newcomer would be taken, or none is there.
 */
START_TEST(m10_without_a_newcomer_to_take_nothing_is_reported)
{
    struct fixture *f = fixture_create(.np = 1, .max_np = _i == 0 ? 1 : 2);

    run(f, "a:1");
    at(f, 10, hosts(_i == 0 ? "a:2" : "a:1"));
    trains(f, 1, 130);
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m10_calls_by_name_are_not_counted_as_none)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    stand(f, 1, 70, "0~ 0~");
    expect(f, "warn: all workers wait in collective calls, and none has got "
              "on for 60 s\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_hang");
    TCase *tcase = tcase_create("core_hang");

    tcase_add_loop_test(
        tcase, m10_newer_words_of_others_say_nothing_of_who_is_awaited, 0, 2);
    tcase_add_test(tcase, m10_the_last_who_waits_for_the_lost_is_evicted);
    tcase_add_test(tcase, m10_a_report_is_progress_too);
    tcase_add_test(tcase, m10_who_computes_while_others_wait_is_evicted);
    tcase_add_test(tcase, m10_who_is_ahead_of_others_is_not_at_fault);
    tcase_add_test(tcase, m10_a_sync_whose_bytes_move_is_no_hang);
    tcase_add_test(tcase, m10_all_stuck_in_calls_begin_again);
    tcase_add_test(tcase, m10_who_does_not_come_after_the_end_is_evicted);
    tcase_add_test(tcase, m10_stuck_again_and_again_the_job_ends);
    tcase_add_test(tcase,
                   m10_all_compute_for_longer_than_allowed_and_the_job_ends);
    tcase_add_test(tcase,
                   m10_one_that_computes_keeps_the_job_of_computing_others);
    tcase_add_test(tcase, m10_silence_is_no_lack_of_progress);
    tcase_add_test(tcase, m10_who_is_busy_is_waited_for);
    tcase_add_test(tcase, m10_without_a_limit_who_hangs_is_named);
    tcase_add_test(tcase, m10_without_a_limit_all_stuck_in_calls_are_named);
    tcase_add_test(tcase, m10_newcomer_before_any_commit_is_reported_once);
    tcase_add_test(tcase,
                   m10_newcomer_whose_boundary_does_not_come_is_reported);
    tcase_add_loop_test(
        tcase, m10_without_a_newcomer_to_take_nothing_is_reported, 0, 2);
    tcase_add_test(tcase, m10_calls_by_name_are_not_counted_as_none);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
