/* tests/driver/test_core_size.c - what the driver's core keeps, of whom, and
 * for how long: memory follows what is used. See fixture.h for the words. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "driver/fixture.h"

enum { MANY_HOSTS = 4096, SLOTS = 8, MINUTE_MS = 60000 };

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { RESIDENT_MAX = 64 << 20 }; /* what it keeps beside is resident, too */
#else
enum { RESIDENT_MAX = 20 << 20 };
#endif

/* "h0:8 h1:8 ..." as a list */
static struct hosts many_hosts(size_t n, uint32_t slots)
{
    struct hosts list = {0};

    ck_assert(array_reserve(&list.items, &list.max, n));
    for (size_t i = 0; i < n; i++) {
        snprintf(list.items[i].name, HOSTS_NAME_MAX, "h%zu", i);
        list.items[i].slots = slots;
    }
    list.n = n;
    return list;
}

/* Bytes of this process that memory backs. */
static long resident(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long total, pages;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld %ld", &total, &pages), 2);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static size_t n_furnished(const struct driver *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->n_hosts; i++)
        n += d->hosts[i].slots_max > 0;
    return n;
}

static struct fixture *run_in_a_crowd(void)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 2,
                                       .no_journal = true);
    struct hosts list = many_hosts(MANY_HOSTS, SLOTS);

    at_list(f, 0, &list);
    hosts_fini(&list);
    expect(f, "start agent: h0\nspawn: w1@h0:0 w2@h0:1\n");
    at(f, 10, ready("w1 w2"));
    at(f, 20, commits("w1 w2"));
    expect(f, "assign 1: w1 w2+sync\n");
    return f;
}

START_TEST(listed_slots_that_hold_nobody_cost_next_to_nothing)
{
    long before = resident();
    struct fixture *f = run_in_a_crowd();
    const struct driver *d = &f->driver;

    ck_assert_int_lt(resident() - before, RESIDENT_MAX);
    ck_assert_uint_eq(d->n_hosts, MANY_HOSTS);
    ck_assert_uint_eq(n_furnished(d), 1);
    ck_assert_uint_le(d->workers_max, 8);
    ck_assert_uint_le(d->hosts_max * sizeof(*d->hosts) +
                          d->scratch_max * sizeof(*d->scratch),
                      64 * MANY_HOSTS * SLOTS);
    fixture_free(f);
}
END_TEST

START_TEST(a_gap_starts_as_many_agents_again_as_it_takes)
{
    struct fixture *f = run_in_a_crowd();

    at(f, 1000, killed("w2")); /* the first replacement starts at once */
    at(f, 1000, ready_lost("w1"));
    pass(f, 1600);
    at(f, 1600, killed("w3")); /* the second in half a second: others may */
    forget(f);
    pass(f, 1900);
    ck_assert_uint_le(n_furnished(&f->driver), 3);
    fixture_free(f);
}
END_TEST

START_TEST(hosts_that_have_left_are_forgotten)
{
    struct fixture *f = fixture_create(.np = 2);
    char text[64];

    run(f, "a:2");
    for (int i = 0; i < 100; i++) { /* spot machines, never the same again */
        snprintf(text, sizeof(text), "a:2 spot%d:0", i);
        at(f, (uint64_t)(i + 1) * 200, hosts(text));
        pass(f, (uint64_t)(i + 2) * 200);
    }
    ck_assert_uint_le(f->driver.n_hosts, 2);
    ck_assert_str_eq(f->driver.hosts[0].name, "a");
    at(f, 30000, hosts("b:1"));
    at(f, 30000, held("w1 w2", 1)); /* a's are there: so is its row */
    pass(f, 30500);
    ck_assert_uint_eq(f->driver.n_hosts, 2);
    ck_assert_str_eq(driver_host_of(&f->driver, worker(f, "w1"))->name, "a");
    fixture_free(f);
}
END_TEST

START_TEST(rows_that_move_keep_who_lives_there)
{
    struct fixture *f = fixture_create(.np = 3);

    run(f, "x:0 a:2 y:0 b:1");
    at(f, 100, hosts("a:2 b:1"));
    pass(f, 300);
    ck_assert_uint_eq(f->driver.n_hosts, 2);
    ck_assert_str_eq(driver_host_of(&f->driver, worker(f, "w2"))->name, "a");
    ck_assert_str_eq(driver_host_of(&f->driver, worker(f, "w3"))->name, "b");
    at(f, 400, agent_gone("b")); /* its agent is found by its number */
    expect(f, "abort 1, w3 died: w1 w2\nstart agent: b\nspawn: w4@b:0\n");
    fixture_free(f);
}
END_TEST

/* It may be another one, or have been mended. */
START_TEST(nothing_counts_of_a_host_that_was_away)
{
    struct fixture *f = fixture_create(.np = 1, .slot_restarts = 1);

    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 20, hosts("a:1 b:1"));
    at(f, 30, exited("w2 w3", 1));
    expect_part(f, "close b:0 for good: worker 3 (b:0) exited with status 1\n");
    pass(f, 1000);
    expect(f, "");
    at(f, 1000, hosts("a:1"));
    at(f, 1010, hosts("a:1 b:1")); /* before its row has gone */
    expect(f, "stop agent: b\nstart agent: b\nspawn: w4@b:0\n");
    fixture_free(f);
}
END_TEST

START_TEST(a_host_that_is_away_is_forgotten)
{
    struct fixture *f = fixture_create(.np = 1, .strict_blacklist = true);

    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 20, hosts("a:1 b:1"));
    at(f, 30, exited("w2", 1));
    expect_part(f, "blacklist b for good\n");
    ck_assert_uint_eq(f->driver.n_hosts, 2);
    at(f, 40, hosts("a:1"));
    pass(f, 300);
    ck_assert_uint_eq(f->driver.n_hosts, 1);
    at(f, 400, hosts("a:1 b:1"));
    expect(f, "start agent: b\nspawn: w3@b:0\n");
    fixture_free(f);
}
END_TEST

/* Nor does a successor hold anything against it. */
START_TEST(a_host_that_was_away_is_not_written_down)
{
    struct fixture *f = fixture_create(.np = 1, .slot_restarts = 1);

    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 20, hosts("a:1 b:1"));
    at(f, 30, exited("w2 w3", 1));
    ck_assert_uint_eq(f->memory.n_slots, 1);
    ck_assert_uint_eq(f->memory.slots[0].n_closed, 1);
    at(f, 40, hosts("a:1"));
    ck_assert_uint_eq(f->memory.n_slots, 0);
    fixture_free(f);
}
END_TEST

/* Never the same again, and something fails on each: what is written down of it
 * goes when its row goes, and is not there for a successor. */
START_TEST(hosts_that_have_left_are_not_written_down)
{
    struct fixture *f = fixture_create(.np = 1);
    char text[64];

    run(f, "a:1");
    at(f, 10, commits("w1"));
    for (uint64_t i = 1; i <= 3; i++) {
        uint64_t ms = i * 20 * MINUTE_MS, first = f->driver.next_worker;

        snprintf(text, sizeof(text), "a:1 spot%d:1", (int)i);
        at(f, ms, hosts(text));
        snprintf(text, sizeof(text), "w%d", (int)first);
        at(f, ms + 10, exited(text, 1));
        at(f, ms + 20, hosts("a:1"));
        snprintf(text, sizeof(text), "w%d", (int)first + 1);
        at(f, ms + 30, exited(text, 0));
        pass(f, ms + 11 * MINUTE_MS);
        keep_sweep(&f->keep, &f->driver);
        ck_assert_uint_eq(f->driver.n_hosts, 1);
        ck_assert_uint_eq(f->memory.n_hosts, 1);
        ck_assert_uint_eq(f->memory.n_slots, 0);
    }
    forget(f);
    succeed(f, 80 * MINUTE_MS, 0);
    ck_assert_uint_eq(f->driver.n_hosts, 1);
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_size");
    TCase *tcase = tcase_create("core_size");

    tcase_add_test(tcase, listed_slots_that_hold_nobody_cost_next_to_nothing);
    tcase_add_test(tcase, a_gap_starts_as_many_agents_again_as_it_takes);
    tcase_add_test(tcase, hosts_that_have_left_are_forgotten);
    tcase_add_test(tcase, rows_that_move_keep_who_lives_there);
    tcase_add_test(tcase, nothing_counts_of_a_host_that_was_away);
    tcase_add_test(tcase, a_host_that_is_away_is_forgotten);
    tcase_add_test(tcase, a_host_that_was_away_is_not_written_down);
    tcase_add_test(tcase, hosts_that_have_left_are_not_written_down);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
