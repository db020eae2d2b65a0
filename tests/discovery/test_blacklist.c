/* tests/discovery/test_blacklist.c - a host's time out. */
#include <string.h>

#include "discovery/blacklist.h"
#include "discovery/hosts.h"
#include "support.h"

#define S(seconds) ((uint64_t)(seconds)*1000000)

static const struct blacklist_config for_good = {0};

START_TEST(blacklist_without_cooldown_is_for_good)
{
    struct random_state random = {1};
    struct blacklist b = {0};

    blacklist_add(&b, &for_good, S(5), &random);
    ck_assert(b.listed);
    ck_assert(!blacklist_expire(&b, UINT64_MAX - 1));
    ck_assert(!blacklist_expire(&b, UINT64_MAX));
    ck_assert(b.listed);
}
END_TEST

START_TEST(E8_blacklist_cooldown_doubles_up_to_its_limit)
{
    static const uint64_t base[] = {S(10), S(20), S(40), S(80), S(100)};
    struct blacklist_config config = {true, S(10), S(100)};
    struct random_state random = {(uint64_t)_i};
    struct blacklist b = {0};
    uint64_t now = S(1);

    for (int i = 0; i < 8; i++) {
        uint64_t low = base[i < 4 ? i : 4];
        uint64_t high = low + S(10) < S(100) ? low + S(10) : S(100);

        blacklist_add(&b, &config, now, &random);
        ck_assert_uint_eq(b.count, (unsigned)i + 1);
        ck_assert_uint_ge(b.until_us - now, low);
        ck_assert_uint_le(b.until_us - now, high);
        ck_assert(!blacklist_expire(&b, b.until_us - 1));
        now = b.until_us;
        ck_assert(blacklist_expire(&b, now));
        ck_assert(!blacklist_expire(&b, now));
    }
}
END_TEST

START_TEST(blacklist_add_while_listed_changes_nothing)
{
    struct blacklist_config config = {true, S(1), S(3600)};
    struct random_state random = {3};
    struct blacklist b = {0}, before;

    blacklist_add(&b, &config, S(1), &random);
    before = b;
    blacklist_add(&b, &config, S(2), &random);
    ck_assert_mem_eq(&b, &before, sizeof(b));
}
END_TEST

START_TEST(blacklist_very_many_times_stays_in_range)
{
    struct blacklist_config config = {true, 1, UINT64_MAX / 4};
    struct random_state random = {4};
    struct blacklist b = {.count = UINT32_MAX - 1};

    blacklist_add(&b, &config, 0, &random);
    ck_assert_uint_eq(b.until_us, UINT64_MAX / 4);
}
END_TEST

/* Twice as long would be no time at all. */
START_TEST(blacklist_longest_delay_does_not_wrap)
{
    struct blacklist_config config = {true, UINT64_MAX / 2 + 2, UINT64_MAX - 1};
    struct random_state random = {4};
    struct blacklist b = {.count = 1};

    blacklist_add(&b, &config, 0, &random);
    ck_assert_uint_eq(b.until_us, UINT64_MAX - 1);
}
END_TEST

START_TEST(blacklist_of_no_time_is_over_at_once)
{
    struct blacklist_config config = {true, 0, S(10)};
    struct random_state random = {4};
    struct blacklist b = {0};

    blacklist_add(&b, &config, S(7), &random);
    ck_assert_uint_eq(b.until_us, S(7));
    ck_assert(blacklist_expire(&b, S(7)));
}
END_TEST

START_TEST(D13_blacklist_host)
{
    struct random_state random = {5};
    struct hosts all = {0}, usable = {0};
    struct blacklist listed[2] = {{0}};
    char error[HOSTS_ERROR_MAX];

    ck_assert(hosts_parse("a:2,b:2", 7, HOSTS_COMMAS, 0, &all, error));
    ck_assert(hosts_copy(&all, &usable));
    blacklist_add(&listed[0], &for_good, 0, &random);
    usable.n = 0;
    for (size_t i = 0; i < all.n; i++)
        if (!listed[i].listed)
            usable.items[usable.n++] = all.items[i];
    ck_assert_uint_eq(all.n, 2);
    ck_assert_uint_eq(usable.n, 1);
    ck_assert_str_eq(usable.items[0].name, "b");
    ck_assert_uint_eq(usable.items[0].slots, 2);
    hosts_fini(&all);
    hosts_fini(&usable);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("blacklist");
    TCase *tcase = tcase_create("blacklist");

    tcase_add_test(tcase, blacklist_without_cooldown_is_for_good);
    tcase_add_loop_test(tcase, E8_blacklist_cooldown_doubles_up_to_its_limit, 0,
                        20);
    tcase_add_test(tcase, blacklist_add_while_listed_changes_nothing);
    tcase_add_test(tcase, blacklist_very_many_times_stays_in_range);
    tcase_add_test(tcase, blacklist_longest_delay_does_not_wrap);
    tcase_add_test(tcase, blacklist_of_no_time_is_over_at_once);
    tcase_add_test(tcase, D13_blacklist_host);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
