/* tests/wire/test_reach.c - addresses as text: there and back, and what is not
 * of that form. */
#include <string.h>

#include "base/array.h"
#include "elastic/wire/reach.h"
#include "support.h"

static const struct interface two[] = {
    {.name = "eth0",
     .address = "10.77.0.1",
     .prefix = 24,
     .network = {10, 77},
     .port = 65535,
     .mbps = 4294967295,
     .mtu = 9000},
    {.name = "br-012345678901", /* as long as a name can be */
     .address = "fd00:1111:2222:3333:4444:5555:6666:7777",
     .prefix = 17,
     .network = {0xfd, 0, 0},
     .bridge = true,
     .port = 1},
};

START_TEST(reach_comes_back_as_it_was)
{
    char buf[WIRE_REACH_MAX];
    struct interface got[INTERFACES_MAX];
    struct wire_strings strings = reach_pack(two, ARRAY_SIZE(two), buf);

    ck_assert_str_eq(buf, "eth0 10.77.0.1/24 65535 4294967295 9000");
    ck_assert_uint_eq(reach_unpack(strings, got), ARRAY_SIZE(two));
    for (size_t i = 0; i < ARRAY_SIZE(two); i++)
        ck_assert_mem_eq(&got[i], &two[i], sizeof(two[i]));
}
END_TEST

START_TEST(reach_as_many_as_there_can_be_fit)
{
    struct interface many[INTERFACES_MAX], got[INTERFACES_MAX];
    char buf[WIRE_REACH_MAX];

    for (size_t i = 0; i < INTERFACES_MAX; i++)
        many[i] = two[1];
    ck_assert_uint_eq(reach_unpack(reach_pack(many, INTERFACES_MAX, buf), got),
                      INTERFACES_MAX);
}
END_TEST

START_TEST(reach_what_is_of_another_form_is_left_out)
{
    static const char *const bad[] = {
        "",
        "eth0",
        "eth0 10.0.0.1",
        "eth0 10.0.0.1/24",
        "eth0 10.0.0.1/24 1",
        "eth0 10.0.0.1/24 1 2",
        "eth0 10.0.0.1/33 1 2 3",
        "eth0 fd00::1/129 1 2 3",
        "eth0 10.0.0.1/24 65536 2 3",
        "eth0 10.0.0.1/24 1 -2 3",
        "eth0 10.0.0.1/24 1 2 4294967296",
        "eth0 10.0.0.1/24 1 2 99999999999999999999",
        "eth0 0.0.0.0/24 1 2 3",
        "eth0 fe80::1/64 1 2 3",
        "eth0 host/24 1 2 3",
        "a-name-of-16-byt 10.0.0.1/24 1 2 3",
    };
    struct interface got[INTERFACES_MAX];
    struct wire_strings strings = {bad[_i], (uint32_t)strlen(bad[_i]) + 1};

    ck_assert_uint_eq(reach_unpack(strings, got), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reach");
    TCase *tcase = tcase_create("reach");

    tcase_add_test(tcase, reach_comes_back_as_it_was);
    tcase_add_test(tcase, reach_as_many_as_there_can_be_fit);
    tcase_add_loop_test(tcase, reach_what_is_of_another_form_is_left_out, 0,
                        15);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
