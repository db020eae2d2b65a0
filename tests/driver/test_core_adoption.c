/* tests/driver/test_core_adoption.c - a driver dies, another takes over: M15,
 * as transcripts of the successor's core. What it knows is what the dead one
 * had written down, without the last entries where a test says so. */
#include <string.h>

#include "driver/adoption.h"

static struct msg_where at_hold(uint64_t g, uint32_t size, uint64_t sequence)
{
    struct msg_where where = member(WORKER_HELD, g, size);

    where.held = true;
    where.hold_sequence = sequence;
    return where;
}

/* ---- it goes on ---------------------------------------------------------- */

START_TEST(generation_goes_on_when_all_ranks_are_here)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, ALL, training(1, 4));
    expect(f, "note: driver of term 4: generation 1 goes on\n");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    ck_assert_uint_eq(f->driver.counts.members, 4);
    ck_assert(f->driver.committed);
    pass(f, 5000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* Numbers were put up ahead: nobody ever had the next ones. */
START_TEST(loss_after_it_is_one_as_ever)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, ALL, training(1, 4));
    forget(f);
    at(f, 2000, killed("w3"));
    expect(f, "abort 1, w3 died: w1 w2 w4\n");
    at(f, 2010, ready_lost("w1 w2 w4"));
    expect(f, "assign 101: w1 w2 w4\n");
    pass(f, 3000);
    expect(f, "spawn: w1001@b:0\n");
    fixture_free(f);
}
END_TEST

START_TEST(nothing_is_decided_before_all_are_here)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    at(f, 1010, hosts("a:2"));
    agents_back(f, 1100);
    greets(f, 1200, "w1 w2 w3", training(1, 4));
    pass(f, 3000);
    at(f, 3000, ready_fence("w1", 1));
    expect(f, "");
    ck_assert_int_eq(f->driver.phase, DRIVER_ADOPTING);
    fixture_free(f);
}
END_TEST

START_TEST(host_removed_meanwhile_is_drained_afterwards)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, ALL, training(1, 4));
    forget(f);
    at(f, 1300, hosts("a:2"));
    expect(f, "hold 1001, removed: w1 w2 w3 w4\n");
    leave_at(f, 1400, ALL, 7);
    expect(f, "cut 7: w1 w2 w3 w4\n"
              "shutdown drained: w3 w4\n"
              "assign 101: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(done_members_are_released)
{
    struct fixture *f = trains(ALL);

    at(f, 200, done("w1 w2"));
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w1 w2", member(WORKER_DONE, 1, 4));
    {
        struct msg_where rest = training(1, 4);

        rest.rank = 2;
        greets(f, 1200, "w3 w4", rest);
    }
    at(f, 1300, done("w1 w2"));
    at(f, 1400, done("w3 w4"));
    expect(f, "note: driver of term 4: generation 1 goes on\n"
              "release: w1 w2 w3 w4\n");
    fixture_free(f);
}
END_TEST

/* ---- it has ended -------------------------------------------------------- */

START_TEST(death_meanwhile_ends_the_generation)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w1 w2 w3", training(1, 4));
    at(f, 1300, killed("w4"));
    expect(f, "note: driver of term 4: generation 100 has ended, as not all "
              "of it are here any more\n"
              "abort 100: w1 w2 w3\n");
    at(f, 1310, ready_lost("w1 w2 w3"));
    expect(f, "assign 101: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(who_does_not_come_is_given_up)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w1 w2 w3", training(1, 4));
    f->workers[4].silent = true;
    pass(f, 5900);
    expect(f, "");
    pass(f, 6100);
    expect(f, "kill: w4\n"
              "note: driver of term 4: generation 100 has ended, as not all "
              "of it are here any more\n"
              "abort 100: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(agent_that_does_not_come_is_given_up_with_its_workers)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agent_back(f, 1100, "a", 1, "w1@0 w2@1");
    greets(f, 1200, "w1 w2", training(1, 4));
    strcpy(f->silent_host, "b");
    pass(f, 6100);
    expect_part(f, "kill agent: b\n"
                   "note: driver of term 4: generation 100 has ended, as not "
                   "all of it are here any more\n"
                   "abort 100: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(agent_found_dead_is_no_longer_waited_for)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    at(f, 1000, agent_gone("b"));
    agent_back(f, 1100, "a", 1, "w1@0 w2@1");
    expect(f, "");
    greets(f, 1200, "w1 w2", training(1, 4));
    expect_part(f, "abort 100: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* The driver died in a rendezvous: whatever it had named, and to whomever. */
START_TEST(rendezvous_is_opened_again)
{
    struct fixture *f = trains(ALL);

    at(f, 200, killed("w4"));
    at(f, 210, ready_lost("w1 w2"));
    succeed(f, 1000, 0);
    agent_back(f, 1100, "a", 1, "w1@0 w2@1");
    agent_back(f, 1100, "b", 2, "w3@0");
    greets(f, 1200, "w1 w2 w3", joining(READY_LOST, 1, 1, 4));
    expect(f, "note: driver of term 4: generation 100 has ended, as not all "
              "of it are here any more\n"
              "abort 100: w1 w2 w3\n");
    at(f, 1300, ready_lost("w1 w2 w3"));
    expect(f, "assign 101: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

/* ... or while it said ASSIGN: one has heard it. */
START_TEST(assign_that_only_some_have_heard_is_void)
{
    struct fixture *f = trains(ALL);

    at(f, 200, killed("w4"));
    at(f, 210, ready_lost("w1 w2 w3"));
    f->slow_workers = true; /* they have called long ago */
    succeed(f, 1000, 3);
    agent_back(f, 1100, "a", 1, "w1@0 w2@1");
    agent_back(f, 1100, "b", 2, "w3@0");
    greets(f, 1200, "w1", training(2, 3));
    greets(f, 1200, "w2 w3", joining(READY_LOST, 1, 1, 4));
    pass(f, 6100);
    expect_part(f, "abort 100: w1 w2 w3\n");
    at(f, 6300, ready_lost("w1 w2 w3"));
    expect(f, "assign 101: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

START_TEST(nobody_is_left_who_holds_the_state)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    at(f, 1000, agent_gone("a"));
    at(f, 1000, agent_gone("b"));
    expect_part(f, "nobody is left who holds the state");
    ck_assert_int_ge(f->driver.phase, DRIVER_STOPPING);
    fixture_free(f);
}
END_TEST

/* ---- HOLD and CUT -------------------------------------------------------- */

START_TEST(held_without_a_cut_are_held_anew)
{
    struct fixture *f = trains(ALL);

    at(f, 200, hosts("a:2"));
    at(f, 210, held("w1 w2 w3", 6));
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w1 w2 w3", at_hold(1, 4, 1));
    {
        struct msg_where last = training(1, 4);

        last.rank = 3;
        greets(f, 1200, "w4", last);
    }
    expect(f, "note: driver of term 4: generation 1 goes on\n"
              "hold 1001, ?: w1 w2 w3 w4\n");
    at(f, 1300, hosts("a:2"));
    leave_at(f, 1400, ALL, 7);
    expect(f, "cut 7: w1 w2 w3 w4\n"
              "shutdown drained: w3 w4\n"
              "assign 101: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* Somebody may be there already. */
START_TEST(cut_that_is_known_stands)
{
    struct fixture *f = trains(ALL);
    struct msg_where knows = at_hold(1, 4, 1), waits = at_hold(1, 4, 1);

    knows.has_cut = true;
    knows.cut = 9;
    waits.rank = 2;
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w1 w2", knows);
    greets(f, 1200, "w3 w4", waits);
    expect(f, "note: driver of term 4: generation 1 goes on\n");
    at(f, 1250, held("w3 w4", 8));
    expect(f, "cut 9: w3 w4\n");
    at(f, 1300, ready_updated(ALL));
    expect(f, "assign 101: w1 w2 w3 w4\n");
    fixture_free(f);
}
END_TEST

START_TEST(who_has_left_at_the_cut_loses_nothing)
{
    struct fixture *f = trains(ALL);
    struct msg_where left = joining(READY_UPDATED, 1, 1, 4);
    struct msg_where waits = at_hold(1, 4, 1);

    left.boundary = 9;
    left.hold_sequence = 1;
    waits.rank = 1;
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w1", left);
    greets(f, 1200, "w2 w3 w4", waits);
    expect(f, "note: driver of term 4: generation 1 goes on\n");
    at(f, 1250, ready_updated("w1"));
    at(f, 1250, held("w2 w3 w4", 8));
    expect(f, "cut 9: w2 w3 w4\n");
    at(f, 1300, ready_updated("w2 w3 w4"));
    expect(f, "assign 101: w1 w2 w3 w4\n");
    fixture_free(f);
}
END_TEST

/* ---- newcomers ----------------------------------------------------------- */

START_TEST(killed_before_the_first_generation)
{
    struct fixture *f = fixture_create(.np = 2);

    at(f, 0, hosts("a:2"));
    at(f, 10, ready("w1"));
    succeed(f, 1000, 0);
    agent_back(f, 1100, "a", 1, "w1@0 w2@1");
    greets(f, 1200, "w1", newcomer(WORKER_JOINING));
    expect(f, "");
    ck_assert_uint_eq(f->workers[1].plan.size, 2);
    ck_assert_uint_lt(f->workers[1].plan.rank, 2);
    greets(f, 1200, "w2", newcomer(WORKER_IDLE));
    ck_assert_int_eq(f->driver.phase, DRIVER_WAITING);
    at(f, 1300, ready("w1 w2"));
    expect(f, "assign 101: w1 w2+sync\n");
    fixture_free(f);
}
END_TEST

/* A program may take its time until hvd_init: the members do not wait for it.
 * */
START_TEST(who_had_not_called_yet_is_not_waited_for)
{
    struct fixture *f = trains(ALL);

    at(f, 200, hosts("a:3 b:2"));
    f->slow_workers = true;
    at(f, 300, killed("w4"));
    at(f, 310, ready_lost("w1 w2 w3"));
    f->slow_workers = false;
    forget(f);
    succeed(f, 1000, 0);
    agent_back(f, 1100, "a", 1, "w1@0 w2@1 w5@2");
    agent_back(f, 1100, "b", 2, "w3@0");
    greets(f, 1200, "w1 w2 w3", training(2, 3));
    greets(f, 1200, "w5", newcomer(WORKER_CONTACT));
    expect(f, "note: driver of term 4: generation 2 goes on\n"
              "spawn: w1001@b:1\n");
    fixture_free(f);
}
END_TEST

/* Its SPAWN never got there. */
START_TEST(who_was_never_started_is_started)
{
    struct fixture *f = fixture_create(.np = 2);

    f->no_spawns = true;
    at(f, 0, hosts("a:2"));
    f->no_spawns = false;
    f->slow_workers = true;
    succeed(f, 1000, 0);
    agent_back(f, 1100, "a", 1, "w1@0");
    greets(f, 1200, "w1", newcomer(WORKER_CONTACT));
    expect(f, "spawn: w1@a:0 w2@a:1\n"); /* of w1 it is a question */
    ck_assert_int_eq(f->driver.phase, DRIVER_ADOPTING);
    greets(f, 1300, "w2", newcomer(WORKER_CONTACT));
    at(f, 1400, ready("w1 w2"));
    expect(f, "assign 101: w1 w2+sync\n");
    fixture_free(f);
}
END_TEST

START_TEST(who_comes_too_late_leaves_what_it_is_in)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    struct message still_in_it = ping("w2", WORKER_RUNNING, 0).message;
    size_t n = 0;

    still_in_it.u.ping.generation = 1;
    run(f, "a:2");
    at(f, 100, commits("w1 w2"));
    while (f->entries[n].type != ENTRY_WORKER ||
           f->entries[n].u.worker.worker != 2 || !f->entries[n].u.worker.up)
        n++; /* from here on: nothing says that w2 had ever called */
    succeed(f, 1000, f->n_entries - n);
    agent_back(f, 1100, "a", 1, "w1@0 w2@1");
    greets(f, 1200, "w1", training(1, 2));
    pass(f, 6100);
    expect_part(f, "abort 100: w1\n");
    at(f, 6200, ready_lost("w1"));
    expect(f, "assign 101: w1\n");
    {
        struct msg_where where = training(1, 2);

        where.rank = 1;
        greets(f, 6300, "w2", where);
    }
    expect(f, "abort 1, stale: w2\n");
    still_in_it.job = FIXTURE_JOB;
    still_in_it.worker = 2;
    at_raw(f, 6350, &still_in_it);
    expect(f, "abort 1, stale: w2\n");
    at(f, 6400, ready_lost("w2"));
    pass(f, 7500); /* a recovery holds back others, for a while */
    at(f, 7600, commits("w1"));
    expect_part(f, "hold 1001, added: w1\n");
    fixture_free(f);
}
END_TEST

/* ---- the end ------------------------------------------------------------- */

START_TEST(release_is_said_again)
{
    struct fixture *f = trains(ALL);

    at(f, 200, done(ALL));
    forget(f);
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w1 w2", member(WORKER_DONE, 1, 4));
    expect(f, "release: w1 w2\n");
    at(f, 1300, exited(ALL, 0));
    expect(f, "stop agent: a b\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

/* The disk hung just then: of all that was said at the end nothing is written
 * down. Whoever was released says so; w4 ends without a word. */
START_TEST(release_that_was_not_written_down_stands)
{
    struct fixture *f = trains(ALL);
    struct msg_where released = member(WORKER_LEFT, 1, 4);
    size_t n_known = f->n_entries;

    released.released = true;
    at(f, 200, done(ALL));
    ck_assert_uint_gt(f->n_entries, n_known);
    succeed(f, 1000, f->n_entries - n_known);
    agents_back(f, 1100);
    greets(f, 1200, "w3", member(WORKER_DONE, 1, 4));
    expect(f, "");
    greets(f, 1300, "w2", released);
    expect_part(f, "release: w1 w2 w3 w4\n");
    ck_assert(f->driver.released);
    greets(f, 1400, "w1", member(WORKER_DONE, 1, 4)); /* has not heard it yet */
    expect(f, "release: w1\n");
    pass(f, 30000); /* w2 takes its time */
    expect(f, "");
    at(f, 30100, exited(ALL, 0));
    expect(f, "stop agent: a b\nfinish 0: finished\n");
    fixture_free(f);
}
END_TEST

/* It is in its epilogue, and says so: how it ends still counts, and nobody
 * gives it up. */
START_TEST(who_was_released_is_awaited_as_ever)
{
    struct fixture *f = trains(ALL);
    struct msg_where released = member(WORKER_LEFT, 1, 4);

    released.released = true;
    at(f, 200, done(ALL));
    forget(f);
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, ALL, member(WORKER_DONE, 1, 4));
    expect(f, "release: w1 w2 w3 w4\n");
    greets(f, 1300, ALL, released); /* no WELCOME: it is said again */
    expect(f, "release: w1 w2 w3 w4\n");
    pass(f, 60000);
    expect(f, "");
    at(f, 60100, exited("w1 w2 w3", 0));
    expect(f, "");
    at(f, 60200, exited("w4", 3));
    expect_part(f, "finish 1: worker 4 (b:1) had finished, but then exited "
                   "with status 3");
    fixture_free(f);
}
END_TEST

/* RELEASE names the generation in which they are DONE, or it is not heard. */
START_TEST(release_is_of_the_generation_that_was_released)
{
    struct fixture *f = trains(ALL);
    struct msg_where released = member(WORKER_LEFT, 7, 4);

    released.released = true;
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w1", released);
    expect_part(f, "release: w1 w2 w3 w4\n");
    ck_assert_uint_eq(f->driver.generation, 7);
    fixture_free(f);
}
END_TEST

/* A newcomer, of which it was not known where it was. */
START_TEST(who_was_not_done_is_let_go_instead)
{
    struct fixture *f = trains(ALL);

    at(f, 150, hosts("a:2 b:2 c:1"));
    at(f, 200, done(ALL));
    forget(f);
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    agent_back(f, 1100, "c", 3, "w5@0");
    greets(f, 1200, ALL, member(WORKER_DONE, 1, 4));
    greets(f, 1200, "w5", newcomer(WORKER_JOINING));
    expect(f, "release: w1 w2 w3 w4\nshutdown finished: w5\n");
    pass(f, 7000); /* it does not go */
    expect_part(f, "kill: w5\n");
    fixture_free(f);
}
END_TEST

START_TEST(failure_is_said_again)
{
    struct fixture *f = trains(ALL);

    at(f, 200, leaving("w1", "cannot open data"));
    forget(f);
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w2", training(1, 4));
    expect(f, "shutdown failed: w2\n");
    at(f, 1300, exited(ALL, 1));
    expect_part(f, "stop agent: a b\nfinish 1: worker 1 (a:0) failed: cannot "
                   "open data\n");
    fixture_free(f);
}
END_TEST

START_TEST(third_driver_adopts_in_the_middle_of_the_second)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w1 w2", training(1, 4));
    succeed(f, 2000, 0);
    agents_back(f, 2100);
    greets(f, 2200, ALL, training(1, 4));
    expect(f, "note: driver of term 5: generation 1 goes on\n");
    at(f, 2300, killed("w3"));
    at(f, 2310, ready_lost("w1 w2 w4"));
    expect(f, "abort 1, w3 died: w1 w2 w4\n"
              "assign 201: w1 w2 w4\n");
    fixture_free(f);
}
END_TEST

START_TEST(interrupt_before_is_not_forgotten)
{
    struct fixture *f = trains(ALL);

    at(f, 200, interrupted(15));
    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, ALL, at_hold(1, 4, 1));
    expect(f, "note: driver of term 4: generation 1 goes on\n"
              "hold 1001, removed: w1 w2 w3 w4\n");
    leave_at(f, 1300, ALL, 5);
    expect(f, "cut 5: w1 w2 w3 w4\n"
              "shutdown drained: w1 w2 w3 w4\n");
    at(f, 1400, exited(ALL, 0));
    expect_part(f, "finish 143: interrupted\n");
    fixture_free(f);
}
END_TEST

/* ---- who says so --------------------------------------------------------- */

/* It had said HELLO to the other driver: to this one the first counts anew. */
START_TEST(hello_that_differs_from_its_first_to_the_successor_is_refused)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, "w1", training(1, 4));
    at(f, 1210, hello_from("w1", 4711));
    expect(f, "warn: worker 1 (a:0) is pid 101 at 127.0.0.1:1001: HELLO of pid "
              "101 at 127.0.0.1:4711 is refused\n");
    greets(f, 1220, ALL, training(1, 4));
    expect(f, "note: driver of term 4: generation 1 goes on\n");
    ck_assert_uint_eq(worker(f, "w1")->port, 1001);
    fixture_free(f);
}
END_TEST

START_TEST(worker_that_another_agent_runs_is_not_adopted_by_this_one)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agents_back(f, 1100);
    at(f, 1110, said_by("b", runs_as("w2", 4711)));
    expect(f, "warn: the agent on b reports on worker 2 (a:1), which it does "
              "not run -> ignored\n");
    greets(f, 1200, ALL, training(1, 4));
    expect(f, "note: driver of term 4: generation 1 goes on\n");
    ck_assert_uint_eq(f->driver.n_workers, 4);
    fixture_free(f);
}
END_TEST

/* Nothing was written down of it, and its agent has not been heard for long:
 * the others have gone on without it, and its slot is free for others. */
START_TEST(worker_that_is_told_of_too_late_is_killed)
{
    struct fixture *f = trains(ALL);

    succeed(f, 1000, 0);
    agents_back(f, 1100);
    greets(f, 1200, ALL, training(1, 4));
    forget(f);
    at(f, 1300, said_by("b", runs_as("w7", 4711)));
    expect(f, "kill: w7\n");
    at(f, 1400, said_by("b", killed("w7")));
    pass(f, 3000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver core: adoption");
    TCase *tc = tcase_create("adoption");

    tcase_add_test(tc, generation_goes_on_when_all_ranks_are_here);
    tcase_add_test(tc, loss_after_it_is_one_as_ever);
    tcase_add_test(tc, nothing_is_decided_before_all_are_here);
    tcase_add_test(tc, host_removed_meanwhile_is_drained_afterwards);
    tcase_add_test(tc, done_members_are_released);
    tcase_add_test(tc, death_meanwhile_ends_the_generation);
    tcase_add_test(tc, who_does_not_come_is_given_up);
    tcase_add_test(tc, agent_that_does_not_come_is_given_up_with_its_workers);
    tcase_add_test(tc, agent_found_dead_is_no_longer_waited_for);
    tcase_add_test(tc, rendezvous_is_opened_again);
    tcase_add_test(tc, assign_that_only_some_have_heard_is_void);
    tcase_add_test(tc, nobody_is_left_who_holds_the_state);
    tcase_add_test(tc, held_without_a_cut_are_held_anew);
    tcase_add_test(tc, cut_that_is_known_stands);
    tcase_add_test(tc, who_has_left_at_the_cut_loses_nothing);
    tcase_add_test(tc, killed_before_the_first_generation);
    tcase_add_test(tc, who_had_not_called_yet_is_not_waited_for);
    tcase_add_test(tc, who_was_never_started_is_started);
    tcase_add_test(tc, who_comes_too_late_leaves_what_it_is_in);
    tcase_add_test(tc, who_was_released_is_awaited_as_ever);
    tcase_add_test(tc, release_is_of_the_generation_that_was_released);
    tcase_add_test(tc, who_was_not_done_is_let_go_instead);
    tcase_add_test(tc, release_is_said_again);
    tcase_add_test(tc, release_that_was_not_written_down_stands);
    tcase_add_test(tc, failure_is_said_again);
    tcase_add_test(tc, third_driver_adopts_in_the_middle_of_the_second);
    tcase_add_test(tc, interrupt_before_is_not_forgotten);
    tcase_add_test(
        tc, hello_that_differs_from_its_first_to_the_successor_is_refused);
    tcase_add_test(tc,
                   worker_that_another_agent_runs_is_not_adopted_by_this_one);
    tcase_add_test(tc, worker_that_is_told_of_too_late_is_killed);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
