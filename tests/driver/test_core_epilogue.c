/* tests/driver/test_core_epilogue.c - the driver dies when members have been
 * released, or soon after: whom a successor awaits for as long as they want,
 * and who has to go. M14 and M15, as transcripts of the successor's core. */
#include <string.h>

#include "driver/adoption.h"

static struct msg_where was_released(void)
{
    struct msg_where where = member(WORKER_LEFT, 1, 4);

    where.released = true;
    return where;
}

static bool starts_agent(const struct entry *e, uint64_t agent)
{
    return e->type == ENTRY_HOST && e->u.host.agent == agent;
}

static bool spawns(const struct entry *e, uint64_t id)
{
    return e->type == ENTRY_WORKER && e->u.worker.worker == id;
}

typedef bool (*is_lost_from)(const struct entry *e, uint64_t id);

/* From the first of these entries on nothing is written down: the disk hangs.
 * The successor hears of the release from w1, before host b says a word. */
static struct fixture *released_on_a_hung_disk(is_lost_from first, uint64_t id)
{
    struct fixture *f = trains(ALL);
    size_t n = 0;

    while (!first(&f->entries[n], id))
        n++;
    at(f, 200, done(ALL));
    succeed(f, 1000, f->n_entries - n);
    agent_back(f, 1100, "a", 1, "w1@0 w2@1");
    greets(f, 1200, "w1", was_released());
    ck_assert_int_eq(f->driver.phase, DRIVER_STOPPING);
    return f;
}

/* ---- whom nobody knew ---------------------------------------------------- */

START_TEST(unknown_worker_may_be_released_and_is_awaited)
{
    struct fixture *f = released_on_a_hung_disk(spawns, 4);

    expect_part(f, "release: w1 w2 w3\n");
    agent_back(f, 1300, "b", 2, "w3@0 w4@1");
    expect(f, "release: w4\n");
    pass(f, 30000); /* it takes its time */
    expect(f, "");
    at(f, 30100, exited("w1 w2 w3", 0));
    pass(f, 60000);
    expect(f, "");
    at(f, 60100, exited("w4", 0));
    expect(f, "stop agent: a b\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

/* ... and so is its agent, which would take it along. */
START_TEST(unknown_agent_may_run_released_workers_and_is_kept)
{
    struct fixture *f = released_on_a_hung_disk(starts_agent, 2);

    expect_part(f, "release: w1 w2\n");
    agent_back(f, 1300, "b", 2, "w3@0 w4@1");
    expect(f, "release: w3 w4\n");
    at(f, 1400, exited("w1 w2", 0));
    pass(f, 40000);
    expect(f, "");
    at(f, 40100, exited("w3", 0));
    at(f, 40200, exited("w4", 3));
    expect_part(f, "finish 1: worker 4 (b:1) had finished, but then exited "
                   "with status 3");
    fixture_free(f);
}
END_TEST

/* Nobody is left whom it knows; the agent on b has yet to tell. */
START_TEST(agent_is_not_stopped_before_it_has_told_all)
{
    struct fixture *f = released_on_a_hung_disk(spawns, 3);

    at(f, 1210, agent_up("b"));
    forget(f);
    at(f, 1220, exited("w1 w2", 0));
    expect(f, "stop agent: a\n");
    agent_back(f, 1300, "b", 2, "w3@0 w4@1");
    expect(f, "release: w3 w4\n");
    pass(f, 30000); /* longer than what can be waited for else */
    expect(f, "");
    at(f, 30100, exited("w3 w4", 0));
    expect(f, "stop agent: b\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

START_TEST(third_driver_is_as_unsure_as_the_second)
{
    struct fixture *f = released_on_a_hung_disk(spawns, 4);

    succeed(f, 2000, 0);
    agent_back(f, 2100, "a", 1, "w1@0 w2@1");
    agent_back(f, 2100, "b", 2, "w3@0 w4@1");
    expect(f, "release: w4\n");
    fixture_free(f);
}
END_TEST

/* One that turns out to be a newcomer goes, as ever. */
START_TEST(unknown_worker_that_was_not_done_is_let_go)
{
    struct fixture *f = released_on_a_hung_disk(spawns, 4);

    agent_back(f, 1300, "b", 2, "w3@0 w4@1");
    forget(f);
    greets(f, 1400, "w4", newcomer(WORKER_IDLE));
    expect(f, "shutdown finished: w4\n");
    pass(f, 7000);
    expect(f, "kill: w4\n");
    fixture_free(f);
}
END_TEST

/* All members of what was released had been written down: it is none. */
START_TEST(unknown_worker_of_a_known_generation_is_killed)
{
    struct fixture *f = trains(ALL);
    size_t n = f->n_entries;

    at(f, 200, done(ALL));
    succeed(f, 1000, f->n_entries - n);
    agents_back(f, 1100);
    greets(f, 1200, "w1", was_released());
    forget(f);
    at(f, 1300, said_by("b", runs_as("w7", 4711)));
    expect(f, "kill: w7\n");
    fixture_free(f);
}
END_TEST

/* ---- who never calls ----------------------------------------------------- */

/* w5 was started as the others finished, and hangs before it has called; w6 has
 * called, and then was stopped. Neither says a word to anybody any more. */
static struct fixture *newcomers_that_hang(void)
{
    struct fixture *f = trains(ALL);

    at(f, 150, hosts("a:2 b:2 c:1"));
    f->slow_workers = true;
    at(f, 160, hosts("a:2 b:2 c:2"));
    f->slow_workers = false;
    forget(f);
    ck_assert_int_eq(worker(f, "w5")->life, LIFE_UP);
    ck_assert_int_eq(worker(f, "w6")->life, LIFE_STARTING);
    return f;
}

/* The driver before has said to both that they are to go, and waited for the
 * others alone. */
static void both_are_killed(struct fixture *f)
{
    pass(f, 7000);
    expect(f, "kill: w5 w6\n");
    at(f, 7100, killed("w5 w6"));
    at(f, 7100, exited(ALL, 0));
    expect_part(f, "finish 0: finished\n");
    fixture_free(f);
}

START_TEST(newcomers_that_never_call_are_killed)
{
    struct fixture *f = newcomers_that_hang();

    at(f, 200, done(ALL));
    expect(f, "release: w1 w2 w3 w4\nshutdown finished: w5\nkill: w6\n");
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    agent_back(f, 1100, "c", 3, "w5@0 w6@1");
    both_are_killed(f);
}
END_TEST

/* Its release was not written down. Who had called may be one of those that
 * were released, for all that is known, and who had not can be none. */
START_TEST(newcomer_that_never_called_is_killed)
{
    struct fixture *f = newcomers_that_hang();
    size_t n = f->n_entries;

    at(f, 200, done(ALL));
    succeed(f, 1000, f->n_entries - n);
    agents_back(f, 1100);
    agent_back(f, 1100, "c", 3, "w5@0 w6@1");
    greets(f, 1200, "w1", was_released());
    expect(f, "release: w1 w2 w3 w4 w5\nshutdown finished: w6\n");
    pass(f, 7000);
    expect(f, "kill: w6\n");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver core: epilogue");
    TCase *tc = tcase_create("epilogue");

    tcase_add_test(tc, unknown_worker_may_be_released_and_is_awaited);
    tcase_add_test(tc, unknown_agent_may_run_released_workers_and_is_kept);
    tcase_add_test(tc, agent_is_not_stopped_before_it_has_told_all);
    tcase_add_test(tc, third_driver_is_as_unsure_as_the_second);
    tcase_add_test(tc, unknown_worker_that_was_not_done_is_let_go);
    tcase_add_test(tc, unknown_worker_of_a_known_generation_is_killed);
    tcase_add_test(tc, newcomers_that_never_call_are_killed);
    tcase_add_test(tc, newcomer_that_never_called_is_killed);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
