/* tests/bench/test_method.c - the order and number of calls that are timed. */
#include "bench/method.h"
#include "support.h"

enum { FAILED = 7 };

/* A world of one that counts; fail_at: that call returns FAILED. */
struct counter {
    size_t barriers, calls, agreed, fail_at;
    int64_t slowest_ns; /* what another rank is said to have taken */
};

static int count_barrier(void *arg)
{
    struct counter *n = arg;

    ck_assert_uint_eq(n->barriers, n->calls);
    n->barriers++;
    return 0;
}

static int count_call(void *arg)
{
    struct counter *n = arg;

    n->calls++;
    ck_assert_uint_eq(n->barriers, n->calls);
    return n->calls == n->fail_at ? FAILED : 0;
}

static int slower_peer(void *arg, int64_t *ns, size_t n_ns)
{
    struct counter *n = arg;

    n->agreed++;
    for (size_t i = 0; i < n_ns; i++)
        if (ns[i] < n->slowest_ns)
            ns[i] = n->slowest_ns;
    return 0;
}

static const struct method_ops ops = {count_barrier, count_call, slower_peer};

START_TEST(method_endless_time_makes_calls_max)
{
    struct method_limits limits = {.warmup = 3,
                                   .calls_min = 5,
                                   .calls_max = 101,
                                   .point_ns = INT64_MAX / 4};
    struct counter n = {0};
    struct method_times times;

    ck_assert_int_eq(method_measure(&ops, &n, &limits, &times), 0);
    ck_assert_uint_eq(times.calls, 101);
    ck_assert_uint_eq(n.calls, 104);
    ck_assert_int_le(times.min, (int64_t)times.median);
    ck_assert_int_ge(times.max, (int64_t)times.median);
}
END_TEST

START_TEST(method_no_time_makes_calls_min)
{
    struct method_limits limits = {
        .warmup = 0, .calls_min = 5, .calls_max = 101, .point_ns = 1};
    struct counter n = {0};
    struct method_times times;

    ck_assert_int_eq(method_measure(&ops, &n, &limits, &times), 0);
    ck_assert_uint_eq(times.calls, 5);
}
END_TEST

START_TEST(method_slower_rank_counts)
{
    int64_t hour = 3600 * (int64_t)1000000000;
    struct method_limits limits = {
        .warmup = 2, .calls_min = 5, .calls_max = 101, .point_ns = hour};
    struct counter n = {.slowest_ns = hour};
    struct method_times times;

    ck_assert_int_eq(method_measure(&ops, &n, &limits, &times), 0);
    ck_assert_uint_eq(times.calls, 5); /* its time is up for all */
    ck_assert_int_eq(times.min, hour);
    ck_assert_int_eq((int64_t)times.median, hour);
}
END_TEST

/* Calls before the timed ones: until the slowest rank's time is up. */
START_TEST(method_settles_first)
{
    int64_t second = 1000000000;
    struct method_limits limits = {.warmup = 2,
                                   .settle_ns = 10 * second,
                                   .calls_min = 5,
                                   .calls_max = 101,
                                   .point_ns = second};
    struct counter n = {.slowest_ns = second + 1};
    struct method_times times;

    ck_assert_int_eq(method_measure(&ops, &n, &limits, &times), 0);
    ck_assert_uint_eq(times.calls, 5);
    ck_assert_uint_eq(n.calls, 2 + 10 * 5 + 5);
}
END_TEST

START_TEST(method_failed_call_ends_it)
{
    struct method_limits limits = {
        .warmup = 2, .calls_min = 5, .calls_max = 101, .point_ns = 1};

    for (size_t at = 1; at <= 7; at++) {
        struct counter n = {.fail_at = at};
        struct method_times times;

        ck_assert_int_eq(method_measure(&ops, &n, &limits, &times), FAILED);
        ck_assert_uint_eq(n.calls, at);
        ck_assert_uint_eq(n.agreed, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("method");
    TCase *tcase = tcase_create("method");

    tcase_add_test(tcase, method_endless_time_makes_calls_max);
    tcase_add_test(tcase, method_no_time_makes_calls_min);
    tcase_add_test(tcase, method_settles_first);
    tcase_add_test(tcase, method_slower_rank_counts);
    tcase_add_test(tcase, method_failed_call_ends_it);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
