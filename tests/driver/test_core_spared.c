/* tests/driver/test_core_spared.c - --strict-blacklist, and workers that it
 * spares because no other worker holds the state: M9 and M11, as transcripts of
 * the driver's core. */
#include <string.h>

#include "driver/adoption.h"

/* w2, on host a, holds the state alone when w1 fails there. */
static struct fixture *spares_one(uint64_t cooldown_ms)
{
    struct fixture *f = fixture_create(.np = 2, .min_np = 1,
                                       .strict_blacklist = true,
                                       .cooldown_low_ms = cooldown_ms,
                                       .cooldown_high_ms = cooldown_ms);

    run(f, "a:2");
    at(f, 100, commits("w1 w2"));
    forget(f);
    at(f, 200, exited("w1", 1));
    at(f, 210, ready_lost("w2"));
    return f;
}

START_TEST(m11_spared_worker_leaves_when_others_hold_the_state)
{
    struct fixture *f = spares_one(0);

    expect(f, "abort 1, w1 died: w2\nblacklist a for good\nassign 2: w2\n");
    at(f, 220, commits("w2"));
    pass(f, 1000);
    expect(f, "");
    at(f, 1010, hosts("a:2 b:1"));
    expect(f, "start agent: b\nspawn: w3@b:0\n");
    at(f, 1100, ready("w3"));
    expect(f, "hold 1, added: w2\n");
    at(f, 1110, held("w2", 3));
    leave_at(f, 1120, "w2", 4);
    expect(f, "cut 4: w2 w2\nassign 3: w2 w3+sync\n");
    pass(f, 1300); /* w3 has reported that it is synced */
    expect(f, "hold 2, removed: w2 w3\n");
    at(f, 1310, held("w2 w3", 1));
    leave_at(f, 1320, "w2 w3", 2);
    expect(f, "cut 2: w2 w3 w2 w3\nshutdown drained: w2\nassign 4: w3\n");
    at(f, 1330, exited("w2", 0));
    expect(f, "stop agent: a\n");
    fixture_free(f);
}
END_TEST

START_TEST(m11_spared_worker_stays_when_the_cooldown_is_over)
{
    struct fixture *f = spares_one(1000);

    forget(f);
    pass(f, 2000);
    expect(f, "spawn: w3@a:0\n");
    ck_assert_uint_eq(worker(f, "w2")->drain, DRAIN_NONE);
    fixture_free(f);
}
END_TEST

/* w1 holds the state as well, on a host that is silent by now. */
START_TEST(m11_worker_is_not_ended_for_one_that_is_silent)
{
    struct fixture *f = fixture_create(.np = 3, .min_np = 1,
                                       .strict_blacklist = true);

    run(f, "a:1 b:2");
    at(f, 100, commits("w1 w2 w3"));
    pass(f, 1000);
    strcpy(f->silent_host, "a");
    f->workers[1].silent = true;
    pass(f, 2500);
    forget(f);
    at(f, 2510, exited("w2", 1));
    expect(f, "abort 1, w2 died: w1 w3\nblacklist b for good\n");
    ck_assert(worker_is_here(worker(f, "w3")));
    fixture_free(f);
}
END_TEST

/* A successor hears w2, which was spared on host a, and w3 on host b, which
 * lacks the state that their generation began with. */
START_TEST(m11_successor_ends_nobody_for_an_older_state)
{
    struct fixture *f = spares_one(0);
    struct msg_where where = joining(READY_LOST, 2, 2, 2);

    at(f, 300, hosts("a:2 b:1"));
    succeed(f, 1000, 0);
    agent_back(f, 1100, "a", 1, "w2@1");
    agent_back(f, 1100, "b", 2, "w3@0");
    where.base = (struct state_id){1, 2};
    where.id = (struct state_id){1, 1};
    greets(f, 1200, "w3", where);
    where.id = (struct state_id){2, 1};
    greets(f, 1210, "w2", where);
    ck_assert_int_ne(f->driver.phase, DRIVER_ADOPTING);
    ck_assert(worker_is_here(worker(f, "w2")));
    pass(f, 3000);
    ck_assert(worker_is_here(worker(f, "w2")));
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver core: spared workers");
    TCase *tc = tcase_create("spared");

    tcase_add_test(tc, m11_spared_worker_leaves_when_others_hold_the_state);
    tcase_add_test(tc, m11_spared_worker_stays_when_the_cooldown_is_over);
    tcase_add_test(tc, m11_worker_is_not_ended_for_one_that_is_silent);
    tcase_add_test(tc, m11_successor_ends_nobody_for_an_older_state);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
