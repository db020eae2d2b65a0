/* tests/agent/test_nccl_env.c - the interfaces that NCCL is told of are those
 * of a worker's addresses, on whatever machine this is. */
#include <string.h>

#include "base/interfaces.h"
#include "elastic/agent/nccl_env.h"
#include "support.h"

static char text[NCCL_ENV_INTERFACES_MAX];

START_TEST(loopback_is_lo)
{
    static const char *const addresses[] = {"127.0.0.1", "127.0.0.2", "::1"};

    ck_assert(nccl_env_interfaces(addresses[_i], text, sizeof(text)));
    ck_assert_str_eq(text, "NCCL_SOCKET_IFNAME==lo");
}
END_TEST

START_TEST(addresses_of_nobody_are_none)
{
    static const char *const addresses[] = {"192.0.2.1",
                                            "192.0.2.1,2001:db8::", "", ","};

    ck_assert(!nccl_env_interfaces(addresses[_i], text, sizeof(text)));
}
END_TEST

START_TEST(each_interface_is_named_once_in_order)
{
    struct interface items[INTERFACES_MAX];
    char addresses[512] = "192.0.2.1", wanted[512] = "NCCL_SOCKET_IFNAME==";
    size_t n = 0;

    ck_assert_int_eq(interfaces_list(NULL, items, &n), HVD_OK);
    for (size_t i = n; i-- > 0;) {
        strcat(strcat(addresses, ","), items[i].address);
        strcat(strcat(addresses, ","), items[i].address);
        if (i + 1 < n && strcmp(items[i].name, items[i + 1].name) == 0)
            continue;
        strcat(strcat(wanted, i + 1 < n ? "," : ""), items[i].name);
    }
    ck_assert(nccl_env_interfaces(addresses, text, sizeof(text)) == (n > 0));
    if (n > 0)
        ck_assert_str_eq(text, wanted);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nccl_env");
    TCase *tc = tcase_create("nccl_env");

    tcase_add_loop_test(tc, loopback_is_lo, 0, 3);
    tcase_add_loop_test(tc, addresses_of_nobody_are_none, 0, 4);
    tcase_add_test(tc, each_interface_is_named_once_in_order);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
