/* tests/driver/test_core_again.c - what a generation takes over from the one
 * before it, and what it does not; and limits of nothing, as transcripts of the
 * driver's core. See fixture.h for the words. */
#include "driver/fixture.h"

static struct message report_of(uint64_t id, uint64_t generation,
                                enum report_what what)
{
    struct message m = {.type = MSG_REPORT, .job = FIXTURE_JOB, .worker = id};

    m.u.report.generation = generation;
    m.u.report.what = (uint8_t)what;
    return m;
}

/* Both members say it, and one of them twice. */
static void all_report(struct fixture *f, uint64_t ms, uint64_t generation,
                       enum report_what what)
{
    for (uint64_t i = 0; i < 3; i++) {
        struct message m = report_of(1 + i % 2, generation, what);

        at_raw(f, ms, &m);
    }
}

START_TEST(reports_counted_once_in_each_generation)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    for (int g = 1; g <= 3; g++) {
        uint64_t ms = (uint64_t)g * 100;

        all_report(f, ms, (uint64_t)g, REPORT_SYNCED);
        ck_assert_int_eq(f->n_records[RECORD_STATE_SYNCED], 2 * g);
        ck_assert_uint_eq(f->driver.counts.going, 0);
        all_report(f, ms, (uint64_t)g, REPORT_FIRST_COLLECTIVE);
        ck_assert_int_eq(f->n_records[RECORD_FIRST_COLLECTIVE], 2 * g);
        ck_assert_uint_eq(f->driver.counts.going, 2);
        at(f, ms + 10, lost("w1", (uint64_t)g, "1"));
        at(f, ms + 20, commits("w1 w2"));
        at(f, ms + 30, ready_lost("w1 w2"));
        if (g == 1)
            f->driver.n_accused_before = 0; /* not what this is about */
    }
    fixture_free(f);
}
END_TEST

START_TEST(hang_warned_of_once_in_each_generation)
{
    struct fixture *f = fixture_create(.np = 2);
    struct happening hung = ping("w2", WORKER_RUNNING, 0);

    run(f, "a:2");
    f->workers[2].silent = true;
    for (uint64_t s = 1; s <= 150; s++) {
        pass(f, s * 1000);
        at(f, s * 1000, hung);
        if (s == 75) {
            expect(f, "warn: worker 2 (a:1) has made no progress for 60 s\n");
            at(f, s * 1000, ready_lost("w1 w2"));
            expect(f, "abort 1: w1 w2\nassign 2: w1 w2\n");
        }
    }
    expect(f, "warn: worker 2 (a:1) has made no progress for 60 s\n");
    fixture_free(f);
}
END_TEST

START_TEST(accused_of_by_another_pair_nobody_goes)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost("w1", 1, "1"));
    at(f, 20, ready_lost("w1 w2 w3"));
    at(f, 30, lost("w1", 2, "2")); /* by the same, of another */
    at(f, 40, ready_lost("w1 w2 w3"));
    pass(f, 1000); /* M12 makes pauses */
    expect_part(f, "assign 3: w1 w2 w3\n");
    at(f, 1050, lost("w2", 3, "2")); /* of the same, by another */
    at(f, 1060, ready_lost("w1 w2 w3"));
    pass(f, 4000);
    expect(f, "abort 3: w1 w2 w3\nassign 4: w1 w2 w3\n");
    at(f, 4070, commits("w1 w2 w3"));
    at(f, 4080, lost("w1", 4, "1")); /* of who has accused another */
    at(f, 4090, ready_lost("w1 w2 w3"));
    expect(f, "abort 4: w1 w2 w3\nassign 5: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(accused_twice_beside_a_death_nobody_goes)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "a:4");
    at(f, 10, lost("w1", 1, "1"));
    at(f, 20, ready_lost("w1 w2 w3 w4"));
    expect_part(f, "assign 2: w1 w2 w3 w4\n");
    at(f, 30, lost("w1", 2, "1"));
    at(f, 31, killed("w4"));
    at(f, 40, ready_lost("w1 w2 w3"));
    expect(f, "abort 2: w1 w2 w3 w4\nassign 3: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

/* w1 and w2 have one accuser each, so the younger goes; that w3 accused w1 in
 * the generation before is counted once. */
START_TEST(accusations_of_before_count_once)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost("w1", 1, "1"));
    at(f, 11, lost("w3", 1, "0"));
    at(f, 20, ready_lost("w1 w2 w3"));
    expect_part(f, "assign 2: w1 w2 w3\n");
    at(f, 30, lost("w1", 2, "1"));
    at(f, 40, ready_lost("w1 w2 w3"));
    expect(f, "abort 2: w1 w2 w3\nkill: w2\nassign 3: w1 w3\n");
    fixture_free(f);
}
END_TEST

/* Somebody else kept them from reaching each other: there is nothing to judge
 * by until they have tried for the connect timeout, here 5 s. */
START_TEST(accused_without_having_been_tried_nobody_goes)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost_unproven("w1", 1, "1"));
    at(f, 20, ready_lost("w1 w2 w3"));
    expect_part(f, "assign 2: w1 w2 w3\n");
    at(f, 30, lost_unproven("w1", 2, "1"));
    at(f, 40, ready_lost("w1 w2 w3"));
    pass(f, 1000); /* M12 makes pauses */
    expect(f, "abort 2: w1 w2 w3\nassign 3: w1 w2 w3\n");
    at(f, 1010, lost("w1", 3, "1")); /* once proven is not twice in a row */
    at(f, 1020, ready_lost("w1 w2 w3"));
    pass(f, 4000);
    expect(f, "abort 3: w1 w2 w3\nassign 4: w1 w2 w3\n");
    at(f, 4010, lost("w2", 4, "0"));
    at(f, 4020, ready_lost("w1 w2 w3"));
    expect_part(f, "kill: w2\n");
    fixture_free(f);
}
END_TEST

/* Whatever passes between two attempts: they are two short ones. */
START_TEST(accused_in_a_row_time_of_a_rendezvous_is_no_trying)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost_unproven("w1", 1, "1"));
    at(f, 20, ready_lost("w1 w2"));
    pass(f, 60000); /* w3 computes */
    at(f, 60010, ready_lost("w3"));
    expect_part(f, "assign 2: w1 w2 w3\n");
    at(f, 60020, lost_unproven("w1", 2, "1"));
    at(f, 60030, ready_lost("w1 w2 w3"));
    pass(f, 61000);
    expect(f, "abort 2: w1 w2 w3\nassign 3: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

/* Nobody can say which of the two: M12 ends it. */
START_TEST(accused_in_a_row_without_having_been_tried_no_progress)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 2);

    run(f, "a:3");
    at(f, 10, lost_unproven("w1", 1, "1"));
    at(f, 20, ready_lost("w1 w2 w3"));
    at(f, 30, lost_unproven("w2", 2, "0")); /* the same pair */
    at(f, 40, ready_lost("w1 w2 w3"));
    pass(f, 1000);
    at(f, 1010, lost_unproven("w1", 3, "1"));
    at(f, 1020, ready_lost("w1 w2 w3"));
    pass(f, 4000);
    expect_part(f, "assign 4: w1 w2 w3\n");
    at(f, 4010, lost_unproven("w1", 4, "1"));
    at(f, 4020, ready_lost("w1 w2 w3"));
    pass(f, 15000);
    expect(f, "abort 4: w1 w2 w3\nassign 5: w1 w2 w3\n");
    at(f, 15010, lost_unproven("w1", 5, "1"));
    at(f, 15020, ready_lost("w1 w2 w3"));
    expect_part(f, "shutdown failed: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

/* The pair has fallen out twice; who else speaks against one of them has not
 * tried. */
START_TEST(accusers_that_have_not_tried_are_not_counted)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 2);

    run(f, "a:4");
    at(f, 10, lost("w1", 1, "1"));
    at(f, 11, lost_unproven("w3 w4", 1, "0"));
    at(f, 20, ready_lost("w1 w2 w3 w4"));
    expect_part(f, "assign 2: w1 w2 w3 w4\n");
    at(f, 30, lost("w1", 2, "1"));
    at(f, 40, ready_lost("w1 w2 w3 w4"));
    expect_part(f, "kill: w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(loss_while_stopping_is_no_news)
{
    struct fixture *f = fixture_create(.np = 2);

    run(f, "a:2");
    at(f, 10, done("w1 w2"));
    expect(f, "release: w1 w2\n");
    at(f, 20, lost("w2", 1, "0"));
    expect(f, "release: w2\n"); /* it has not heard */
    fixture_free(f);
}
END_TEST

START_TEST(no_resets_first_change_ends_the_job)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1, .no_resets = true);

    run(f, "a:2");
    at(f, 5, commits("w1 w2"));
    at(f, 10, killed("w2"));
    at(f, 20, ready_lost("w1"));
    at(f, 30, exited("w1", 1));
    expect(f, "abort 1, w2 died: w1\nshutdown failed: w1\nstop agent: a\n"
              "finish 1: the number of resets has reached --reset-limit 0\n");
    fixture_free(f);
}
END_TEST

START_TEST(fractions_of_seconds_are_said)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {{1250, "(1.25 s)"}, {1050, "(1.05 s)"}, {907, "(0.907 s)"}};
    struct fixture *f = fixture_create(.np = 2, .elastic_ms = cases[_i].ms);

    at(f, 0, hosts("a:1"));
    at(f, 10, ready("w1"));
    pass(f, 2000);
    at(f, 2100, exited("w1", 1));
    expect_part(f, cases[_i].text);
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_again");
    TCase *tcase = tcase_create("core_again");

    tcase_add_test(tcase, reports_counted_once_in_each_generation);
    tcase_add_test(tcase, hang_warned_of_once_in_each_generation);
    tcase_add_test(tcase, accused_of_by_another_pair_nobody_goes);
    tcase_add_test(tcase, accused_twice_beside_a_death_nobody_goes);
    tcase_add_test(tcase, accusations_of_before_count_once);
    tcase_add_test(tcase, accused_without_having_been_tried_nobody_goes);
    tcase_add_test(tcase, accused_in_a_row_time_of_a_rendezvous_is_no_trying);
    tcase_add_test(tcase,
                   accused_in_a_row_without_having_been_tried_no_progress);
    tcase_add_test(tcase, accusers_that_have_not_tried_are_not_counted);
    tcase_add_test(tcase, loss_while_stopping_is_no_news);
    tcase_add_test(tcase, no_resets_first_change_ends_the_job);
    tcase_add_loop_test(tcase, fractions_of_seconds_are_said, 0, 3);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
