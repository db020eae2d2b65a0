/* tests/driver/test_core_silence.c - when silence is judged: M5, as transcripts
 * of the driver's core. One silent host among others: test_core_losses.c. */
#include <string.h>

#include "driver/fixture.h"

#define CUT(n_quiet, n)                                                    \
    "warn: " n_quiet " of " n " hosts are silent at once: the network of " \
    "this machine may be cut -> nobody is given up before --driver-timeout\n"
#define UNHEARD                                                            \
    "warn: no worker that holds the state is heard -> nobody is given up " \
    "before --driver-timeout\n"

/* Nothing is heard of these hosts (words), or of any of their workers. */
static void silence(struct fixture *f, const char *hosts)
{
    snprintf(f->silent_host, sizeof(f->silent_host), "%s", hosts);
    for (size_t i = 0; i < f->driver.n_workers; i++) {
        const struct driver_worker *w = &f->driver.workers[i];

        f->workers[w->id].silent =
            strstr(hosts, f->driver.hosts[w->host].name) != NULL;
    }
}

static struct fixture *of_three(void)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1);

    run(f, "a:1 b:1 c:1");
    at(f, 100, commits("w1 w2 w3"));
    forget(f);
    return f;
}

START_TEST(all_silent_at_once_lose_nobody)
{
    struct fixture *f = of_three();

    silence(f, "a b c");
    pass(f, 2000);
    expect(f, "");
    pass(f, 60000);
    expect(f, CUT("3", "3"));
    silence(f, "");
    pass(f, 60100);
    expect(f, "warn: hosts are heard again after 60 s -> a host that stays "
              "silent is given up\n");
    pass(f, 90000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

START_TEST(most_silent_at_once_lose_nobody)
{
    struct fixture *f = of_three();

    silence(f, "b c");
    pass(f, 30000);
    expect(f, CUT("2", "3"));
    silence(f, "");
    pass(f, 60000);
    expect_part(f, "warn: hosts are heard again");
    ck_assert_uint_eq(f->driver.counts.members, 3);
    fixture_free(f);
}
END_TEST

/* The others are heard; a host that is a little later is waited for. */
START_TEST(who_stays_silent_is_given_up)
{
    struct fixture *f = of_three();

    silence(f, "a b c");
    pass(f, 10000);
    silence(f, "c");
    pass(f, 16000);
    expect(f, CUT("3", "3") "warn: hosts are heard again after 10 s -> a host "
                            "that stays silent is given up\n");
    pass(f, 18000);
    expect_part(f, "kill: w3\nabort 1, w3 died: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* The network is away for less than --heartbeat-timeout. Agents and w3 are
 * heard at once, w1 and w2 when they have dialled again. */
START_TEST(outage_that_nobody_was_overdue_in_counts)
{
    struct fixture *f = of_three();

    silence(f, "a b c");
    pass(f, 1800);
    silence(f, "a b");
    f->silent_host[0] = '\0';
    pass(f, 3500);
    silence(f, "");
    pass(f, 20000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* Host b goes silent again and again, so that most are. Host c, which is dead,
 * has no longer for that. */
START_TEST(hosts_that_flap_do_not_spare_a_dead_one)
{
    struct fixture *f = of_three();

    silence(f, "b c");
    pass(f, 10000);
    silence(f, "c");
    for (uint64_t t = 10000; t < 16000; t += 2000) {
        pass(f, t + 500);
        silence(f, "b c");
        pass(f, t + 2000);
        silence(f, "c");
    }
    pass(f, 16500);
    ck_assert_uint_eq(f->driver.counts.members, 3);
    forget(f);
    pass(f, 17500);
    expect_part(f, "kill: w3\nabort 1, w3 died: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* By then they have given up the driver as well. */
START_TEST(most_silent_for_driver_timeout_are_given_up)
{
    struct fixture *f = of_three();

    silence(f, "b c");
    pass(f, 600000);
    expect(f, CUT("2", "3"));
    pass(f, 600300);
    expect_part(f, "kill agent: b\nabort 1, w2 died: w1 w3\nkill agent: c\n");
    at(f, 600400, ready_lost("w1"));
    expect_part(f, "assign 2: w1\n");
    fixture_free(f);
}
END_TEST

/* Three workers are given up in one step. The first of them takes its host's
 * other worker along only if another worker has the state and is heard. */
START_TEST(worker_silent_for_driver_timeout_holds_nothing)
{
    struct fixture *f = fixture_create(.np = 4, .min_np = 1,
                                       .strict_blacklist = true);

    run(f, "a:1 b:2 c:1");
    at(f, 100, commits("w1 w2 w3 w4"));
    silence(f, "a b c");
    pass(f, 599000);
    silence(f, "");
    for (uint64_t w = 1; w <= 4; w++)
        f->workers[w].silent = w != 2;
    forget(f);
    pass(f, 601000);
    expect_part(f, "kill: w3\n");
    ck_assert(!worker_is_dead(driver_worker(&f->driver, 2)));
    ck_assert_int_eq(f->driver.phase, DRIVER_RENDEZVOUS);
    fixture_free(f);
}
END_TEST

/* In one step w3 is given up, and the agent on a, which takes w1 along: w2 is
 * the last that has the state. */
START_TEST(worker_of_an_agent_that_is_given_up_holds_nothing)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1,
                                       .strict_blacklist = true);

    run(f, "a:1 b:2");
    at(f, 100, commits("w1 w2 w3"));
    pass(f, 700000);
    f->driver.workers[2].heard_us = f->driver.hosts[0].agent_heard_us = 0;
    f->workers[3].silent = true;
    strcpy(f->silent_host, "a");
    forget(f);
    pass(f, 700200);
    expect(f, "kill: w3\nabort 1, w3 died: w1 w2\nblacklist b for good\n"
              "kill agent: a\n");
    ck_assert(!worker_is_dead(driver_worker(&f->driver, 2)));
    fixture_free(f);
}
END_TEST

/* The path has come back for its agent alone. */
START_TEST(worker_has_its_time_again_when_its_agent_is_heard_again)
{
    struct fixture *f = of_three();

    silence(f, "c");
    pass(f, 1700);
    f->silent_host[0] = '\0';
    pass(f, 3000);
    expect(f, "");
    f->workers[3].silent = false;
    pass(f, 6000);
    expect(f, "");
    fixture_free(f);
}
END_TEST

/* Two of two that have the state are silent. One of them has its time again: it
 * is not heard by that, and the other one is not given up. */
START_TEST(worker_that_has_its_time_again_is_not_heard)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:1 b:1");
    at(f, 100, commits("w1 w2"));
    pass(f, 1000);
    silence(f, "a b");
    pass(f, 1700);
    strcpy(f->silent_host, "b"); /* a's agent is heard again */
    pass(f, 2800);
    f->silent_host[0] = '\0';
    forget(f);
    pass(f, 4300); /* w1's second time is over, and w2's is not */
    ck_assert(worker_is_here(worker(f, "w1")));
    ck_assert(worker_is_here(worker(f, "w2")));
    fixture_free(f);
}
END_TEST

/* However often its agent pauses. */
START_TEST(worker_has_its_time_again_only_once)
{
    struct fixture *f = of_three();

    f->workers[3].silent = true;
    for (uint64_t ms = 100; ms < 5000; ms += 1000) {
        strcpy(f->silent_host, "c");
        pass(f, ms + 900);
        f->silent_host[0] = '\0';
        pass(f, ms + 1000);
    }
    expect_part(f, "abort 1, w3 died: w1 w2\n");
    fixture_free(f);
}
END_TEST

/* An exit that is told, and an agent's end, are no silence. */
START_TEST(ends_that_are_known_count_at_once)
{
    struct fixture *f = of_three();

    silence(f, "a b c");
    pass(f, 5000);
    forget(f);
    at(f, 5010, agent_gone("c"));
    expect(f, "abort 1, w3 died: w1 w2\n");
    fixture_free(f);
}
END_TEST

START_TEST(last_that_holds_the_state_is_not_given_up)
{
    struct fixture *f = fixture_create(.np = 1, .min_np = 1, .max_np = 1);

    run(f, "a:1 b:1");
    at(f, 100, commits("w1"));
    forget(f);
    silence(f, "a");
    pass(f, 60000);
    expect(f, UNHEARD);
    silence(f, "");
    pass(f, 90000);
    expect_part(f, "warn: hosts are heard again");
    ck_assert_int_eq(f->driver.phase, DRIVER_RUNNING);
    ck_assert_uint_eq(f->driver.counts.members, 1);
    fixture_free(f);
}
END_TEST

/* The agent is stopped, its worker runs. */
START_TEST(agent_of_the_last_that_holds_the_state_is_not_given_up)
{
    struct fixture *f = fixture_create(.np = 1, .min_np = 1, .max_np = 1);

    run(f, "a:1");
    at(f, 100, commits("w1"));
    forget(f);
    strcpy(f->silent_host, "a");
    pass(f, 60000);
    expect(f, "");
    ck_assert_uint_eq(f->driver.counts.members, 1);
    fixture_free(f);
}
END_TEST

/* Nor does it keep its slots from other hosts. */
START_TEST(agent_that_is_stopped_and_kept_starts_nobody)
{
    struct fixture *f = fixture_create(.np = 1, .min_np = 1, .max_np = 2);

    run(f, "a:1");
    at(f, 100, commits("w1"));
    f->no_spawns = true;
    strcpy(f->silent_host, "a");
    at(f, 200, hosts("a:2"));
    forget(f);
    pass(f, 1800);
    at(f, 1900, hosts("a:3 b:1"));
    f->no_spawns = false;
    forget(f);
    pass(f, 2500);
    expect(f, "kill: w2\nstart agent: b\nspawn: w3@b:0\n");
    fixture_free(f);
}
END_TEST

/* All are silent, so the network is the reason; a worker is heard again before
 * the agent of its host is. */
START_TEST(agent_heard_later_than_its_worker_starts_it)
{
    struct fixture *f = of_three();

    f->no_spawns = true;
    at(f, 200, hosts("a:2 b:1 c:1"));
    strcpy(f->silent_host, "a b c");
    for (int i = 1; i <= 3; i++)
        f->workers[i].silent = true;
    pass(f, 5000);
    forget(f);
    at(f, 5010, ping("w1", WORKER_RUNNING, 0));
    pass(f, 5100);
    expect(f, "");
    ck_assert(!worker_is_dead(worker(f, "w4")));
    fixture_free(f);
}
END_TEST

/* An agent that is stopped is no silent host: its workers are heard. */
START_TEST(stopped_agents_are_given_up_however_many)
{
    struct fixture *f = of_three();

    strcpy(f->silent_host, "b c");
    pass(f, 2500);
    expect_part(f, "kill agent: b\nabort 1, w2 died: w1 w3\n");
    fixture_free(f);
}
END_TEST

/* Another worker of that host is heard, and holds the state. */
START_TEST(worker_of_a_stopped_agent_is_given_up)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1);

    run(f, "a:2");
    at(f, 100, commits("w1 w2"));
    forget(f);
    f->workers[1].silent = true;
    pass(f, 1000);
    strcpy(f->silent_host, "a");
    pass(f, 2500);
    expect(f, "kill: w1\nabort 1, w1 died: w2\n");
    fixture_free(f);
}
END_TEST

/* So is a worker whose agent is heard. */
START_TEST(stopped_workers_are_given_up_however_many)
{
    struct fixture *f = of_three();

    f->workers[2].silent = f->workers[3].silent = true;
    pass(f, 2500);
    expect(f, "kill: w2\nabort 1, w2 died: w1 w3\nkill: w3\n");
    fixture_free(f);
}
END_TEST

/* --elastic-timeout does not count while members cannot be heard. */
START_TEST(rendezvous_waits_for_who_cannot_be_heard)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1,
                                       .elastic_ms = 5000);

    run(f, "a:1 b:1 c:1");
    at(f, 100, commits("w1 w2 w3"));
    at(f, 200, lost("w1", 1, ""));
    silence(f, "a b c");
    forget(f);
    pass(f, 30000);
    expect(f, CUT("3", "3"));
    silence(f, "");
    at(f, 30100, ready_lost("w1 w2 w3"));
    expect_part(f, "assign 2: w1 w2 w3\n");
    fixture_free(f);
}
END_TEST

/* w1 alone holds the state, and b:2 has joined it. */
static struct fixture *grown_from_one(void)
{
    struct fixture *f = fixture_create(.np = 1, .min_np = 1);

    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 20, hosts("a:1 b:2"));
    at(f, 30, ready("w2 w3"));
    at(f, 40, held("w1", 1));
    leave_at(f, 60, "w1", 2);
    holds(f, "w2 w3", 0, 0);
    forget(f);
    return f;
}

/* Two newcomers accuse it, and it them: they go. */
START_TEST(last_that_holds_the_state_is_not_convicted)
{
    struct fixture *f = grown_from_one();

    for (uint64_t t = 1000; t < 6000; t += 4000) {
        at(f, t, lost("w2 w3", f->driver.generation, "0"));
        at(f, t + 10, lost("w1", f->driver.generation, "1"));
        at(f, t + 20, ready_lost("w1 w2 w3"));
        holds(f, "w2 w3", 0, 0); /* nor do they get it */
        pass(f, t + 2000);
    }
    expect_part(f, "kill: w2\nassign 4: w1 w3+sync");
    fixture_free(f);
}
END_TEST

/* The only holder has ended. The others may have received the state: their
 * READY tells, and they are waited for until then. */
START_TEST(members_that_may_have_a_state_are_waited_for)
{
    struct fixture *f = grown_from_one();

    at(f, 500, killed("w1"));
    silence(f, "b");
    pass(f, 10000);
    expect_part(f, UNHEARD);
    ck_assert_uint_eq(f->driver.counts.members, 2);
    silence(f, "");
    at(f, 10100, ready_lost("w2"));
    ck_assert_int_eq(f->driver.phase, DRIVER_RENDEZVOUS);
    at(f, 10200, ready_lost("w3"));
    expect_part(f, "shutdown failed");
    ck_assert_ptr_nonnull(strstr(f->driver.verdict, "who holds the state"));
    fixture_free(f);
}
END_TEST

/* So is a member that has yet to say READY, when the others have not got it. */
START_TEST(last_member_that_may_have_a_state_decides)
{
    struct fixture *f = grown_from_one();

    at(f, 500, killed("w1"));
    at(f, 510, ready_lost("w2"));
    f->workers[3].silent = true;
    pass(f, 10000);
    ck_assert_int_eq(f->driver.phase, DRIVER_RENDEZVOUS);
    holds(f, "w3", 2, 2);
    forget(f);
    at(f, 10100, ready_lost("w3"));
    expect_part(f, "assign 3: w2+sync w3");
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver core: silence");
    TCase *tc = tcase_create("silence");

    tcase_add_test(tc, all_silent_at_once_lose_nobody);
    tcase_add_test(tc, most_silent_at_once_lose_nobody);
    tcase_add_test(tc, outage_that_nobody_was_overdue_in_counts);
    tcase_add_test(tc, hosts_that_flap_do_not_spare_a_dead_one);
    tcase_add_test(tc, who_stays_silent_is_given_up);
    tcase_add_test(tc, most_silent_for_driver_timeout_are_given_up);
    tcase_add_test(tc, worker_silent_for_driver_timeout_holds_nothing);
    tcase_add_test(tc, worker_of_an_agent_that_is_given_up_holds_nothing);
    tcase_add_test(tc, worker_has_its_time_again_when_its_agent_is_heard_again);
    tcase_add_test(tc, worker_that_has_its_time_again_is_not_heard);
    tcase_add_test(tc, worker_has_its_time_again_only_once);
    tcase_add_test(tc, ends_that_are_known_count_at_once);
    tcase_add_test(tc, last_that_holds_the_state_is_not_given_up);
    tcase_add_test(tc, agent_of_the_last_that_holds_the_state_is_not_given_up);
    tcase_add_test(tc, agent_that_is_stopped_and_kept_starts_nobody);
    tcase_add_test(tc, agent_heard_later_than_its_worker_starts_it);
    tcase_add_test(tc, stopped_agents_are_given_up_however_many);
    tcase_add_test(tc, worker_of_a_stopped_agent_is_given_up);
    tcase_add_test(tc, stopped_workers_are_given_up_however_many);
    tcase_add_test(tc, rendezvous_waits_for_who_cannot_be_heard);
    tcase_add_test(tc, last_that_holds_the_state_is_not_convicted);
    tcase_add_test(tc, members_that_may_have_a_state_are_waited_for);
    tcase_add_test(tc, last_member_that_may_have_a_state_decides);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
