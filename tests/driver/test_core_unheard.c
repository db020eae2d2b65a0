/* tests/driver/test_core_unheard.c - a successor, and those who have yet to say
 * what they know, or whose word has come before that of others: M15, as
 * transcripts of its core. */
#include <string.h>

#include "driver/adoption.h"

/* Only their agent was written down: it has said hello, and has yet to tell
 * whom it runs. Without them all would begin anew. */
static struct fixture *agent_has_yet_to_tell(void)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);
    size_t n = 0;

    run(f, "a:2");
    at(f, 100, commits("w1 w2"));
    while (f->entries[n].type != ENTRY_WORKER)
        n++;
    succeed(f, 1000, f->n_entries - n);
    at(f, 1100, agent_up("a"));
    forget(f);
    pass(f, 9000);
    ck_assert_int_eq(f->driver.phase, DRIVER_ADOPTING);
    return f;
}

START_TEST(agent_that_may_run_who_holds_the_state_is_heard_out)
{
    struct fixture *f = agent_has_yet_to_tell();

    agent_back(f, 9100, "a", 1, "w1@0 w2@1");
    greets(f, 9200, "w1 w2", training(1, 2));
    expect(f, "note: driver of term 4: generation 1 goes on\n");
    fixture_free(f);
}
END_TEST

START_TEST(agent_that_tells_nothing_is_heard_for_start_timeout)
{
    struct fixture *f = agent_has_yet_to_tell();

    pass(f, 65900);
    ck_assert_int_eq(f->driver.phase, DRIVER_ADOPTING);
    pass(f, 66100);
    ck_assert_int_eq(f->driver.phase, DRIVER_WAITING);
    fixture_free(f);
}
END_TEST

START_TEST(agent_that_falls_silent_is_heard_out_no_longer)
{
    struct fixture *f = agent_has_yet_to_tell();

    strcpy(f->silent_host, "a");
    pass(f, 10900);
    ck_assert_int_eq(f->driver.phase, DRIVER_ADOPTING);
    pass(f, 11100);
    ck_assert_int_eq(f->driver.phase, DRIVER_WAITING);
    fixture_free(f);
}
END_TEST

/* Its agent tells that again, and of the others next; one of them has called,
 * which was written down. */
static void failed_start_is_told_again(size_t n_lost)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    f->no_spawns = true;
    at(f, 0, hosts("a:2"));
    f->no_spawns = false;
    at(f, 10, hello("w2"));
    ck_assert(f->entries[f->n_entries - 1].u.worker.up);
    succeed(f, 1000, n_lost);
    at(f, 1100, agent_up("a"));
    at(f, 1110, spawn_fails("w1", "cannot fork"));
    ck_assert_int_eq(f->driver.phase, DRIVER_ADOPTING);
    agent_back(f, 1130, "a", 1, "w2@1");
    greets(f, 1200, "w2", newcomer(WORKER_IDLE));
    ck_assert_int_eq(f->driver.phase, DRIVER_WAITING);
    fixture_free(f);
}

START_TEST(failed_start_that_is_told_again_ends_no_job)
{
    failed_start_is_told_again(0);
}
END_TEST

/* Of w2 not even the start was written down. */
START_TEST(failed_start_of_all_that_are_known_ends_no_job)
{
    failed_start_is_told_again(2);
}
END_TEST

/* The network of the successor is mended after a minute. Hosts and workers
 * call one after the other. */
START_TEST(others_are_waited_for_when_the_first_holder_has_called)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    pass(f, 60000);
    agent_back(f, 60100, "a", 1, "w1@0 w2@1");
    greets(f, 60200, "w1", training(1, 4));
    pass(f, 63000);
    expect(f, "");
    agent_back(f, 63100, "b", 2, "w3@0 w4@1");
    greets(f, 63200, ALL, training(1, 4));
    expect(f, "note: driver of term 4: generation 1 goes on\n");
    fixture_free(f);
}
END_TEST

/* Their agents have said hello and were cut off before they told of them. */
START_TEST(holders_whose_agents_were_cut_off_are_waited_for)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    at(f, 1100, agent_up("a"));
    at(f, 1100, agent_up("b"));
    forget(f);
    strcpy(f->silent_host, "a b");
    pass(f, 60000);
    f->silent_host[0] = '\0';
    agent_back(f, 60100, "a", 1, "w1@0 w2@1");
    agent_back(f, 60100, "b", 2, "w3@0 w4@1");
    greets(f, 60200, ALL, training(1, 4));
    expect(f, "note: driver of term 4: generation 1 goes on\n");
    fixture_free(f);
}
END_TEST

START_TEST(others_are_not_waited_for_for_long)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    pass(f, 60000);
    agent_back(f, 60100, "a", 1, "w1@0 w2@1");
    greets(f, 60200, "w1 w2", training(1, 4));
    pass(f, 67500); /* 5 s, and --heartbeat-timeout */
    expect_part(f, "generation 100 has ended");
    fixture_free(f);
}
END_TEST

/* ---- the driver before was silent, on another machine -------------------- */

static struct fixture *may_hear_the_driver_before(void)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:1 b:1");
    f->driver.config.before_may_live = true;
    succeed(f, 1000, 0);
    return f;
}

/* Nothing is committed, so all could begin anew, beside those who train. */
START_TEST(nobody_is_given_up_as_long_as_nobody_has_called)
{
    struct fixture *f = may_hear_the_driver_before();

    pass(f, 590000);
    expect(f, "");
    ck_assert_int_eq(f->driver.phase, DRIVER_ADOPTING);
    agent_back(f, 590100, "a", 1, "w1@0");
    agent_back(f, 590100, "b", 2, "w2@0");
    greets(f, 590200, "w1 w2", training(1, 2));
    expect(f, "note: driver of term 4: generation 1 goes on\n");
    fixture_free(f);
}
END_TEST

/* The machine of the other agent may have died. */
START_TEST(who_does_not_come_is_given_up_when_others_have)
{
    struct fixture *f = may_hear_the_driver_before();

    agent_back(f, 1100, "a", 1, "w1@0");
    greets(f, 1200, "w1", training(1, 2));
    pass(f, 12000);
    ck_assert_int_ne(f->driver.phase, DRIVER_ADOPTING);
    expect_part(f, "abort 100: w1\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver core: unheard");
    TCase *tc = tcase_create("unheard");

    tcase_add_test(tc, agent_that_may_run_who_holds_the_state_is_heard_out);
    tcase_add_test(tc, agent_that_tells_nothing_is_heard_for_start_timeout);
    tcase_add_test(tc, agent_that_falls_silent_is_heard_out_no_longer);
    tcase_add_test(tc, failed_start_that_is_told_again_ends_no_job);
    tcase_add_test(tc, failed_start_of_all_that_are_known_ends_no_job);
    tcase_add_test(tc, others_are_waited_for_when_the_first_holder_has_called);
    tcase_add_test(tc, holders_whose_agents_were_cut_off_are_waited_for);
    tcase_add_test(tc, others_are_not_waited_for_for_long);
    tcase_add_test(tc, nobody_is_given_up_as_long_as_nobody_has_called);
    tcase_add_test(tc, who_does_not_come_is_given_up_when_others_have);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
