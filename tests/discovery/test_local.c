/* tests/discovery/test_local.c - is a name this machine? */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "discovery/local.h"
#include "support.h"

START_TEST(local_loopback_names_are_here)
{
    ck_assert(local_is_this_host("localhost"));
    ck_assert(local_is_this_host("127.0.0.1"));
    ck_assert(local_is_this_host("127.0.0.2"));
    ck_assert(local_is_this_host("127.255.255.254"));
}
END_TEST

START_TEST(local_own_name_is_here)
{
    char name[256] = "";

    ck_assert_int_eq(gethostname(name, sizeof(name) - 1), 0);
    ck_assert(local_is_this_host(name));
    name[strcspn(name, ".")] = '\0';
    ck_assert(local_is_this_host(name));
}
END_TEST

/* Of each interface; a machine without a network has loopback alone. */
START_TEST(local_own_addresses_are_here)
{
    struct ifaddrs *list;

    ck_assert_int_eq(getifaddrs(&list), 0);
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        char name[INET_ADDRSTRLEN];
        struct sockaddr_in in;

        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&in, i->ifa_addr, sizeof(in));
        inet_ntop(AF_INET, &in.sin_addr, name, sizeof(name));
        ck_assert_msg(local_is_this_host(name), "%s", name);
    }
    freeifaddrs(list);
}
END_TEST

START_TEST(local_other_names_are_elsewhere)
{
    ck_assert(!local_is_this_host("host-that-is-not-here.example"));
    ck_assert(!local_is_this_host("192.0.2.1"));
    ck_assert(!local_is_this_host("128.0.0.1"));
    ck_assert(!local_is_this_host(""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("local");
    TCase *tcase = tcase_create("local");

    tcase_add_test(tcase, local_loopback_names_are_here);
    tcase_add_test(tcase, local_own_name_is_here);
    tcase_add_test(tcase, local_own_addresses_are_here);
    tcase_add_test(tcase, local_other_names_are_elsewhere);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
