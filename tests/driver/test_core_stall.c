/* tests/driver/test_core_stall.c - calls by name that some members have not
 * posted: who is named, who is evicted. M10, as transcripts of the core. See
 * fixture.h for the words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/fixture.h"

static struct fixture *create(uint32_t np, uint64_t check_s,
                              uint64_t shutdown_s)
{
    struct fixture *f = fixture_create(.np = np, .min_np = 1);

    f->driver.config.stall_check_us = check_s * 1000000;
    f->driver.config.stall_shutdown_us = shutdown_s * 1000000;
    return f;
}

/* Which calls of a member wait: "ab", the oldest first, for so long; "cab<": c,
 * and more than it names, of which the least are a and b; "-": none; "+": none,
 * it has joined. */
static struct message waiting_of(const struct fixture *f, uint64_t worker,
                                 const char *calls, uint64_t waited_ms)
{
    struct message m = {
        .type = MSG_WAITING, .job = FIXTURE_JOB, .worker = worker};
    struct msg_waiting *waiting = &m.u.waiting;
    size_t n = strchr("-+", calls[0]) ? 0 : strcspn(calls, "<");

    waiting->generation = f->driver.generation;
    waiting->waited_ms = n > 0 ? waited_ms : 0;
    waiting->n_names = (uint32_t)n;
    waiting->more = calls[0] == '+' || strchr(calls, '<') != NULL;
    for (size_t i = 0; i < n; i++)
        waiting->names[i] = (uint32_t)calls[i];
    if (strchr(calls, '<'))
        waiting->up_to = waiting->names[n - 1];
    snprintf(waiting->name, sizeof(waiting->name), "%.*s", n > 0, calls);
    if (n > 1)
        snprintf(waiting->others, sizeof(waiting->others), "'%s'", calls + 1);
    return m;
}

static void say(struct fixture *f, uint64_t ms, uint64_t worker,
                const char *calls, uint64_t waited_ms)
{
    struct message m = waiting_of(f, worker, calls, waited_ms);

    at_raw(f, ms, &m);
}

/* w1 says so for five seconds. */
static void repeat(struct fixture *f, const struct message *m)
{
    f->workers[1].silent = true;
    for (uint64_t ms = 1000; ms < 6000; ms += 1000) {
        at(f, ms, ping("w1", WORKER_RUNNING, 0));
        at_raw(f, ms, m);
        pass(f, ms + 900);
    }
}

/* So they have stood since then, and say it each second. */
static void stand(struct fixture *f, uint64_t since_s, uint64_t from_s,
                  uint64_t to_s, const char *words)
{
    static const char *const names[] = {"w1", "w2", "w3"};

    for (size_t i = 1; i <= f->driver.n_workers; i++)
        f->workers[i].silent = true; /* but for these */
    for (uint64_t s = from_s; s < to_s; s++) {
        char list[64], *word, *rest = list;

        snprintf(list, sizeof(list), "%s", words);
        for (uint64_t i = 1; (word = strtok_r(rest, " ", &rest)) != NULL; i++) {
            at(f, 1000 * s + 100, ping(names[i - 1], WORKER_RUNNING, 0));
            say(f, 1000 * s + 100, i, word, 1000 * (s - since_s + 1));
        }
        pass(f, 1000 * s + 900);
    }
}

START_TEST(m10_who_has_not_posted_is_named_while_it_lasts)
{
    struct fixture *f = create(3, 5, 0);

    run(f, "a:3");
    stand(f, 1, 1, 8, "ab - a");
    expect(f, "");
    stand(f, 1, 8, 17, "ab - a");
    expect(f,
           "warn: 'a' has waited 8.0 s for rank 1, which has not posted it; "
           "rank 0 waits also for 'b'\n"
           "warn: 'a' has waited 13.0 s for rank 1, which has not posted it; "
           "rank 0 waits also for 'b'\n");
    stand(f, 17, 17, 27, "b - -");
    expect(f,
           "warn: 'b' has waited 8.0 s for ranks 1, 2, which have not posted "
           "it\n");
    fixture_free(f);
}
END_TEST

/* Each waits for more than it names, and none of them is another's: below the
 * greatest of the least that a rank names it is known what it has not posted.
 */
START_TEST(m10_many_names_of_each_rank_are_a_stall)
{
    struct fixture *f = create(3, 5, 0);

    run(f, "a:3");
    stand(f, 1, 1, 10, "zad< zbe< zcf<");
    expect(f, "");
    stand(f, 1, 10, 11, "aad< bbe< ccf<");
    expect_part(f, "warn: 'a' has waited 10.0 s for ranks 1, 2, which have not "
                   "posted it");
    fixture_free(f);
}
END_TEST

/* Rank 0 may have posted what rank 1 waits for, but not the other way round. */
START_TEST(m10_a_stall_that_is_certain_comes_before_an_older_one)
{
    struct fixture *f = create(2, 5, 0);

    run(f, "a:2");
    f->workers[1].silent = f->workers[2].silent = true;
    for (uint64_t ms = 1000; ms < 10000; ms += 1000) {
        at(f, ms, ping("w1", WORKER_RUNNING, 0));
        say(f, ms, 1, "aab<", ms);
        at(f, ms, ping("w2", WORKER_RUNNING, 0));
        say(f, ms, 2, "x", ms + 500);
        pass(f, ms + 900);
    }
    expect_part(f, "warn: 'a' has waited 8.0 s for rank 1, which has not "
                   "posted it");
    fixture_free(f);
}
END_TEST

/* Both have waited for as long: each is the oldest by turns. */
START_TEST(m10_several_stalls_are_one_line_at_a_time)
{
    struct fixture *f = create(3, 5, 0);

    run(f, "a:3");
    stand(f, 1, 1, 10, "a - -");
    expect_part(f, "warn: 'a' has waited 8.0 s for ranks 1, 2, which have not "
                   "posted it\n");
    for (uint64_t s = 10; s < 13; s++)
        stand(f, 1, s, s + 1, s % 2 == 0 ? "- b -" : "a - -");
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m10_what_all_have_posted_is_no_stall)
{
    struct fixture *f = create(3, 5, 10);

    run(f, "a:3");
    stand(f, 1, 1, 30, "ab ba a");
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m10_who_has_joined_keeps_nobody_waiting)
{
    struct fixture *f = create(3, 5, 0);

    run(f, "a:3");
    stand(f, 1, 1, 30, "a + a");
    expect(f, "");
    stand(f, 30, 30, 40, "a + -");
    expect(f, "warn: 'a' has waited 8.0 s for rank 2, which has not posted "
              "it\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_who_has_joined_is_not_evicted)
{
    struct fixture *f = create(3, 0, 10);

    run(f, "a:3");
    at(f, 10, commits("w1 w2 w3"));
    stand(f, 1, 1, 14, "a + -");
    expect_part(f, "kill: w3\nabort 1, w3 died: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_without_a_limit_nobody_is_named)
{
    struct fixture *f = create(2, 0, 0);

    run(f, "a:2");
    stand(f, 1, 1, 50, "a -");
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(m10_words_of_another_generation_count_for_nothing)
{
    struct fixture *f = create(2, 5, 0);

    run(f, "a:2");
    f->driver.generation++;
    say(f, 1000, 1, "a", 60000);
    f->driver.generation--;
    pass(f, 9000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* Rank 0 waits in a set of ranks 0 and 2. */
START_TEST(m10_of_a_process_set_its_ranks_are_named)
{
    struct fixture *f = create(3, 5, 0);
    struct message m = {.type = MSG_WAITING, .job = FIXTURE_JOB, .worker = 1};

    run(f, "a:3");
    m.u.waiting = (struct msg_waiting){.generation = 1,
                                       .waited_ms = 60000,
                                       .name = "a",
                                       .n_names = 1,
                                       .names = {1},
                                       .n_ranks = 2,
                                       .ranks = {0, 2}};
    repeat(f, &m);
    expect(f, "warn: 'a' has waited 60.0 s for rank 2, which has not posted "
              "it\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_names_are_made_printable)
{
    struct fixture *f = create(2, 5, 0);
    struct message m;

    run(f, "a:2");
    m = waiting_of(f, 1, "\nb\033", 60000);
    repeat(f, &m);
    expect(f,
           "warn: '?' has waited 60.0 s for rank 1, which has not posted it; "
           "rank 0 waits also for 'b?'\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_culprits_of_a_stall_are_evicted)
{
    struct fixture *f = create(3, 0, 10);

    run(f, "a:3");
    at(f, 10, commits("w1 w2 w3"));
    stand(f, 1, 1, 13, "a - a");
    expect(f, "");
    stand(f, 1, 13, 14, "a - a");
    expect_part(f, "kill: w2\nabort 1, w2 died: w1 w3\n");
    fixture_free(f);
}
END_TEST

/* w2 has not posted `a`, since it waits for w3. */
START_TEST(m10_who_waits_itself_is_merely_behind)
{
    struct fixture *f = create(3, 0, 10);

    run(f, "a:3");
    at(f, 10, commits("w1 w2 w3"));
    stand(f, 1, 1, 14, "a b -");
    expect_part(f, "kill: w3\nabort 1, w3 died: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_each_waits_for_another_and_all_begin_again)
{
    struct fixture *f = create(2, 0, 10);

    run(f, "a:2");
    at(f, 10, commits("w1 w2"));
    stand(f, 1, 1, 14, "a b");
    expect(f,
           "warn: 'a' has waited 13.0 s for rank 1, which has not posted it\n"
           "abort 1: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(m10_who_is_busy_is_no_culprit)
{
    struct fixture *f = create(2, 0, 10);
    struct happening busy = ping("w2", WORKER_RUNNING, 0);

    run(f, "a:2");
    f->workers[2].silent = true;
    busy.message.u.ping.busy_ms = 60000;
    for (uint64_t s = 1; s < 20; s++) {
        at(f, 1000 * s, busy);
        say(f, 1000 * s + 100, 1, "a", 1000 * s);
        pass(f, 1000 * s + 900);
    }
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* w2 was waiting for w3, which has come at last: it has yet to get to `a`. */
START_TEST(m10_who_was_behind_until_now_is_given_its_time)
{
    struct fixture *f = create(3, 0, 10);

    run(f, "a:3");
    stand(f, 1, 1, 12, "a b ab");
    for (uint64_t s = 12; s < 20; s++) {
        struct happening on = ping("w2", WORKER_RUNNING, 0);

        on.message.u.ping.moves = 7;
        at(f, 1000 * s + 100, ping("w1", WORKER_RUNNING, 0));
        say(f, 1000 * s + 100, 1, "a", 1000 * s);
        at(f, 1000 * s + 100, on);
        at(f, 1000 * s + 100, ping("w3", WORKER_RUNNING, 0));
        say(f, 1000 * s + 100, 3, "a", 1000 * s);
        pass(f, 1000 * s + 900);
    }
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* As the first word of somebody else to a driver that has just taken over. */
START_TEST(m10_a_single_word_convicts_nobody)
{
    struct fixture *f = create(2, 5, 10);

    run(f, "a:2");
    stand(f, 1, 1, 20, "- -");
    say(f, 20000, 1, "a", 100000);
    pass(f, 20500);
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* It is not said again: it was over, and the word of that was lost. */
START_TEST(m10_what_is_not_said_again_is_over)
{
    struct fixture *f = create(2, 5, 0);

    run(f, "a:2");
    say(f, 1000, 1, "a", 100000);
    for (uint64_t s = 1; s < 30; s++)
        pass(f, 1000 * s + 900);
    expect(f, "");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_stall");
    TCase *tcase = tcase_create("core_stall");

    tcase_add_test(tcase, m10_who_has_not_posted_is_named_while_it_lasts);
    tcase_add_test(tcase, m10_many_names_of_each_rank_are_a_stall);
    tcase_add_test(tcase,
                   m10_a_stall_that_is_certain_comes_before_an_older_one);
    tcase_add_test(tcase, m10_several_stalls_are_one_line_at_a_time);
    tcase_add_test(tcase, m10_what_all_have_posted_is_no_stall);
    tcase_add_test(tcase, m10_who_has_joined_keeps_nobody_waiting);
    tcase_add_test(tcase, m10_who_has_joined_is_not_evicted);
    tcase_add_test(tcase, m10_without_a_limit_nobody_is_named);
    tcase_add_test(tcase, m10_words_of_another_generation_count_for_nothing);
    tcase_add_test(tcase, m10_of_a_process_set_its_ranks_are_named);
    tcase_add_test(tcase, m10_names_are_made_printable);
    tcase_add_test(tcase, m10_culprits_of_a_stall_are_evicted);
    tcase_add_test(tcase, m10_who_waits_itself_is_merely_behind);
    tcase_add_test(tcase, m10_each_waits_for_another_and_all_begin_again);
    tcase_add_test(tcase, m10_who_is_busy_is_no_culprit);
    tcase_add_test(tcase, m10_who_was_behind_until_now_is_given_its_time);
    tcase_add_test(tcase, m10_a_single_word_convicts_nobody);
    tcase_add_test(tcase, m10_what_is_not_said_again_is_over);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
