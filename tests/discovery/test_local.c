/* tests/discovery/test_local.c - is a name this machine? */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "discovery/local.h"
#include "discovery/name_query.h"
#include "support.h"

START_TEST(local_loopback_names_are_here)
{
    ck_assert(local_is_this_host("localhost"));
    ck_assert(local_is_this_host("127.0.0.1"));
    ck_assert(local_is_this_host("127.0.0.2"));
    ck_assert(local_is_this_host("127.255.255.254"));
    ck_assert(local_is_this_host("127.1")); /* as resolvers read it */
    ck_assert(local_is_this_host("0x7f.0.1"));
    ck_assert(local_is_this_host("::1"));
    ck_assert(local_is_this_host("0:0::1"));
    ck_assert(local_is_this_host("::ffff:127.0.0.3"));
    ck_assert(local_is_this_host("Localhost.LocalDomain"));
    ck_assert(local_is_this_host("node1.localhost"));
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

/* false: it is of neither family. */
static bool write_address(const struct sockaddr *sa, char *name, size_t max)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (!sa || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
        return false;
    if (sa->sa_family == AF_INET) {
        memcpy(&v4, sa, sizeof(v4));
        return inet_ntop(AF_INET, &v4.sin_addr, name, (socklen_t)max) != NULL;
    }
    memcpy(&v6, sa, sizeof(v6));
    return inet_ntop(AF_INET6, &v6.sin6_addr, name, (socklen_t)max) != NULL;
}

/* Of each interface; a machine without a network has loopback alone. */
START_TEST(local_own_addresses_are_here)
{
    struct ifaddrs *list;

    ck_assert_int_eq(getifaddrs(&list), 0);
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        char name[INET6_ADDRSTRLEN];

        if (!write_address(i->ifa_addr, name, sizeof(name)))
            continue;
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
    ck_assert(!local_is_this_host("2001:db8::1"));
    ck_assert(!local_is_this_host("7f00::1"));
    ck_assert(!local_is_this_host("128.1"));
    ck_assert(!local_is_this_host("127"));
    ck_assert(!local_is_this_host("127.example"));
    ck_assert(!local_is_this_host("::ffff:192.0.2.1"));
    ck_assert(!local_is_this_host("::ffff:0:7f00:1"));
    ck_assert(!local_is_this_host("localhost.example"));
    ck_assert(!local_is_this_host("notlocalhost"));
    ck_assert(!local_is_this_host(""));
}
END_TEST

START_TEST(local_names_of_own_addresses_are_here)
{
    static const char text[] = "# 127.0.0.1 comment\n"
                               "127.0.1.1\tnode1.cluster node1 # node9\r\n"
                               "192.0.2.1 node2\n"
                               "::1 node3\n"
                               "2001:db8::1 node5\n"
                               "127.0.0.1\n"
                               "nonsense node4\n"
                               "127.0.0.1 last";
    char path[] = "/tmp/test_local_XXXXXX";
    int fd = mkstemp(path);
    struct local local;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    local_init(&local, path);
    unlink(path);
    ck_assert(local_has(&local, "node1"));
    ck_assert(local_has(&local, "NODE1.cluster"));
    ck_assert(local_has(&local, "last"));
    ck_assert(local_has(&local, "127.0.0.1"));
    ck_assert(!local_has(&local, "node2"));
    ck_assert(local_has(&local, "node3"));
    ck_assert(!local_has(&local, "node5"));
    ck_assert(!local_has(&local, "node4"));
    ck_assert(!local_has(&local, "node9"));
    ck_assert(!local_has(&local, "comment"));
    ck_assert(!local_has(&local, "node"));
    local_fini(&local);
    local_init(&local, "/nowhere/hosts");
    ck_assert(!local_has(&local, "node1"));
    ck_assert(local_has(&local, "localhost"));
    local_fini(&local);
}
END_TEST

START_TEST(local_name_of_this_machine_elsewhere_is_in_doubt)
{
    struct local local = {0};
    char own[256] = "", name[300], other[300];

    ck_assert_int_eq(gethostname(own, sizeof(own) - 1), 0);
    snprintf(name, sizeof(name), "%.*s.hvd.invalid", (int)strcspn(own, "."),
             own);
    snprintf(other, sizeof(other), "%.*s.other.invalid", (int)strcspn(own, "."),
             own);
    ck_assert(local_doubts(&local, name));
    ck_assert(!local_doubts(&local, "localhost"));
    ck_assert(!local_doubts(&local, own));
    ck_assert(!local_doubts(&local, "host-that-is-not-here.example"));
    local_decide(&local, name, true);
    local_decide(&local, other, false);
    ck_assert(local_has(&local, name) && !local_doubts(&local, name));
    ck_assert(!local_has(&local, other) && !local_doubts(&local, other));
    local_fini(&local);
}
END_TEST

static bool ask(const char *name)
{
    struct name_query *q = name_query_start(name);
    struct pollfd fd;
    bool here;

    ck_assert_ptr_nonnull(q);
    fd = (struct pollfd){.fd = name_query_fd(q), .events = POLLIN};
    ck_assert_int_eq(poll(&fd, 1, 30000), 1);
    ck_assert(name_query_answer(q, &here));
    name_query_end(q);
    return here;
}

/* Names that no server is asked about. */
START_TEST(name_query_tells_own_addresses)
{
    ck_assert(ask("127.0.0.1"));
    ck_assert(ask("::1"));
    ck_assert(!ask("192.0.2.1"));
    ck_assert(!ask("2001:db8::1"));
    name_query_end(name_query_start("127.0.0.1")); /* nobody waits */
    name_query_end(NULL);
}
END_TEST

/* A name service that knows this machine as X.known.invalid. */
int __real_getaddrinfo(const char *name, const char *service,
                       const struct addrinfo *hints, struct addrinfo **list_p);
int __wrap_getaddrinfo(const char *name, const char *service,
                       const struct addrinfo *hints, struct addrinfo **list_p);

int __wrap_getaddrinfo(const char *name, const char *service,
                       const struct addrinfo *hints, struct addrinfo **list_p)
{
    const char *known = strstr(name, ".known.invalid");

    return __real_getaddrinfo(known ? "127.0.0.1" : name, service, hints,
                              list_p);
}

START_TEST(name_query_of_a_name_in_doubt_waits_for_the_answer)
{
    char own[256] = "", known[300], other[300];

    ck_assert_int_eq(gethostname(own, sizeof(own) - 1), 0);
    own[strcspn(own, ".")] = '\0';
    snprintf(known, sizeof(known), "%s.known.invalid", own);
    snprintf(other, sizeof(other), "%sx.known.invalid", own);
    ck_assert(name_query_is_here("localhost", 0));
    ck_assert(name_query_is_here(known, 30000));
    ck_assert(!name_query_is_here(other, 30000)); /* nobody is asked */
    ck_assert(!local_is_this_host(known));
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
    tcase_add_test(tcase, local_names_of_own_addresses_are_here);
    tcase_add_test(tcase, local_name_of_this_machine_elsewhere_is_in_doubt);
    tcase_add_test(tcase, name_query_tells_own_addresses);
    tcase_add_test(tcase, name_query_of_a_name_in_doubt_waits_for_the_answer);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
