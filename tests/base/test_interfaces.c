/* tests/base/test_interfaces.c - the interfaces that this machine has,
 * whichever: loopback is always there, and is listed only if it is asked for.
 */
#include <string.h>

#include "base/error.h"
#include "base/interfaces.h"
#include "support.h"

static struct interface items[INTERFACES_MAX];
static size_t n;

START_TEST(interfaces_named_loopback_is_listed)
{
    ck_assert_int_eq(interfaces_list("lo", items, &n), HVD_OK);
    ck_assert_uint_ge(n, 1);
    ck_assert_str_eq(items[0].name, "lo");
    ck_assert_str_eq(items[0].address, "127.0.0.1");
    ck_assert_uint_eq(items[0].prefix, 8);
    ck_assert(!items[0].bridge);
    ck_assert_uint_gt(items[0].mtu, 0);
}
END_TEST

START_TEST(interfaces_without_names_are_those_that_others_can_reach)
{
    bool bridge = false;

    ck_assert_int_eq(interfaces_list(_i == 0 ? NULL : "", items, &n), HVD_OK);
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_ne(items[i].name, "lo");
        ck_assert_int_ne(strncmp(items[i].address, "fe80", 4), 0);
        ck_assert(items[i].bridge || !bridge); /* these come last */
        bridge = items[i].bridge;
    }
}
END_TEST

START_TEST(interfaces_unknown_one_is_named)
{
    static const char *const names[] = {"nosuch0", "lo,nosuch0", ",", "lo,,lo"};

    n = 4711;
    ck_assert_int_eq(interfaces_list(names[_i], items, &n), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(
        strstr(error_text(), _i < 2 ? "\"nosuch0\"" : "\"\""));
    ck_assert_uint_eq(n, 4711);
}
END_TEST

START_TEST(interfaces_near_is_in_the_same_network)
{
    static const struct {
        const char *own, *other;
        uint8_t prefix;
        bool near;
    } rows[] = {
        {"10.0.0.1", "10.0.0.254", 24, true},
        {"10.0.0.1", "10.0.1.1", 24, false},
        {"10.0.0.129", "10.0.0.254", 25, true},
        {"10.0.0.129", "10.0.0.1", 25, false},
        {"10.0.0.1", "10.0.0.1", 32, true},
        {"10.0.0.1", "10.0.0.2", 32, false},
        {"10.0.0.1", "192.168.0.1", 0, true},
        {"fd00::1", "fd00::ffff", 64, true},
        {"fd00::1", "fd01::1", 64, false},
        {"fd00::1", "10.0.0.1", 0, false},
        {"10.0.0.1", "host", 0, false},
    };
    struct interface item = {.prefix = rows[_i].prefix};

    memcpy(item.address, rows[_i].own, strlen(rows[_i].own) + 1);
    ck_assert(interface_set_network(&item));
    ck_assert_int_eq(interface_is_near(&item, rows[_i].other), rows[_i].near);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interfaces");
    TCase *tcase = tcase_create("interfaces");

    tcase_add_test(tcase, interfaces_named_loopback_is_listed);
    tcase_add_loop_test(
        tcase, interfaces_without_names_are_those_that_others_can_reach, 0, 2);
    tcase_add_loop_test(tcase, interfaces_unknown_one_is_named, 0, 4);
    tcase_add_loop_test(tcase, interfaces_near_is_in_the_same_network, 0, 11);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
