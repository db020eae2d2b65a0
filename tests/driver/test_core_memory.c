/* tests/driver/test_core_memory.c - the driver's core when there is no memory:
 * a list of hosts is refused whole, whoever was to be started is started later,
 * and nothing else needs any. See fixture.h for the words.
 *
 * Linked so that growing an array comes through here. */
#include <string.h>

#include "base/array.h"
#include "driver/fixture.h"

static bool none;          /* there is no memory */
static long left = -1;     /* there is, so often; -1: always */
static unsigned n_refused; /* how often there was none */

bool __real_array_reserve_bytes(void **items_p, size_t *max_p, size_t need,
                                size_t elem_nbytes);
bool __wrap_array_reserve_bytes(void **items_p, size_t *max_p, size_t need,
                                size_t elem_nbytes);
bool __real_array_reserve_unset_bytes(void **items_p, size_t *max_p,
                                      size_t need, size_t elem_nbytes);
bool __wrap_array_reserve_unset_bytes(void **items_p, size_t *max_p,
                                      size_t need, size_t elem_nbytes);

static bool refuse(size_t max, size_t need)
{
    bool refused = need > max && (none || left == 0);

    if (need > max && left >= 0)
        left--; /* this one only */
    n_refused += refused;
    return refused;
}

bool __wrap_array_reserve_bytes(void **items_p, size_t *max_p, size_t need,
                                size_t elem_nbytes)
{
    return !refuse(*max_p, need) &&
           __real_array_reserve_bytes(items_p, max_p, need, elem_nbytes);
}

bool __wrap_array_reserve_unset_bytes(void **items_p, size_t *max_p,
                                      size_t need, size_t elem_nbytes)
{
    return !refuse(*max_p, need) &&
           __real_array_reserve_unset_bytes(items_p, max_p, need, elem_nbytes);
}

static struct hosts list_of(const char *text)
{
    struct hosts list = {0};
    char error[HOSTS_ERROR_MAX];

    ck_assert_msg(
        hosts_parse(text, strlen(text), HOSTS_COMMAS, 1, &list, error), "%s",
        error);
    return list;
}

START_TEST(hosts_without_memory_are_refused_whole)
{
    struct fixture *f = fixture_create(.np = 2, .no_journal = true);
    struct hosts list = list_of("a:2,b:2,c:2,d:2,e:2,f:2,g:2,h:2,i:2");
    struct driver_event ev = {.type = DRIVER_EV_HOSTS, .u.hosts = &list};
    const struct driver_action *actions;
    size_t n;

    none = true;
    ck_assert_int_eq(driver_step(&f->driver, &ev, 0, &actions, &n),
                     HVD_ERR_NOMEM);
    ck_assert_uint_eq(n, 0);
    ck_assert_uint_eq(f->driver.n_hosts, 0);
    ck_assert(!f->driver.discovered);
    none = false;
    at_list(f, 10, &list);
    expect_part(f, "start agent: a b c d e f g h i\n");
    hosts_fini(&list);
    fixture_free(f);
}
END_TEST

START_TEST(an_agent_without_memory_is_started_later)
{
    struct fixture *f = fixture_create(.np = 2, .no_journal = true);
    struct hosts list = list_of("a:2"); /* a row is there from the beginning */

    none = true;
    at_list(f, 0, &list);
    hosts_fini(&list);
    expect(f, "warn: no memory for the slots of another host -> it is tried "
              "again\n");
    pass(f, 9900); /* said now and then, not each time */
    expect(f, "");
    none = false;
    pass(f, 10000);
    expect(f, "start agent: a\nspawn: w1@a:0 w2@a:1\n");
    fixture_free(f);
}
END_TEST

START_TEST(a_worker_without_memory_is_started_later)
{
    struct fixture *f = fixture_create(.np = 2, .no_journal = true);

    strcpy(f->slow_host, "a");
    at(f, 0, hosts("a:12"));
    none = true;
    at(f, 10, agent_up("a"));
    expect_part(f, "warn: no memory for another worker -> it is tried again\n");
    ck_assert_uint_lt(f->driver.counts.live, 12);
    none = false;
    pass(f, 110);
    ck_assert_uint_eq(f->driver.counts.live, 12);
    fixture_free(f);
}
END_TEST

START_TEST(a_refusal_without_memory_has_other_words)
{
    struct fixture *f = fixture_create(.np = 1, .no_journal = true);

    run(f, "a:1");
    at(f, 10, commits("w1"));
    at(f, 20, hosts("a:2"));
    forget(f);
    none = true;
    at(f, 30, ready_layout("w2", "other f32[1]"));
    expect_part(f, "shutdown failed: w2\n"
                   "close a:1 for good: state layouts differ");
    ck_assert_ptr_null(worker(f, "w2")->refusal);
    at(f, 40, ping("w2", WORKER_JOINING, 0)); /* repeated */
    expect(f, "shutdown failed: w2\n");
    fixture_free(f);
}
END_TEST

/* The k-th time there is none: discovery says it again, and it goes on. */
START_TEST(each_allocation_may_fail_once)
{
    struct fixture *f = fixture_create(.np = 2, .max_np = 20,
                                       .no_journal = true);
    struct hosts list = list_of("a:2,b:12,c:1,d:1,e:1,f:1,g:1,h:1,i:1,j:1");

    left = _i;
    f->may_refuse = true;
    at_list(f, 0, &list);
    at_list(f, 50, &list);
    pass(f, 400);
    ck_assert_uint_eq(n_refused, 1);
    ck_assert_uint_eq(f->driver.n_hosts, 10);
    ck_assert_uint_eq(f->driver.counts.live, 20);
    hosts_fini(&list);
    fixture_free(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("core_memory");
    TCase *tcase = tcase_create("core_memory");

    tcase_add_test(tcase, hosts_without_memory_are_refused_whole);
    tcase_add_test(tcase, an_agent_without_memory_is_started_later);
    tcase_add_test(tcase, a_worker_without_memory_is_started_later);
    tcase_add_test(tcase, a_refusal_without_memory_has_other_words);
    tcase_add_loop_test(tcase, each_allocation_may_fail_once, 0, 12);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
