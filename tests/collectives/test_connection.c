/* tests/collectives/test_connection.c - a connection that is dialled over TCP:
 * what it has, and what becomes of one that cannot be. */
#include <netinet/tcp.h>
#include <sys/resource.h>

#include "collectives/comm_impl.h"
#include "group.h"

static const uint8_t no_hello[HANDSHAKE_NBYTES];

static enum io dial(struct connection *c, const char *address, uint16_t port,
                    bool near, hvd_status_t *status_p)
{
    struct sockaddr_storage to;
    socklen_t len;

    ck_assert(addresses_item(address, 0, port, &to, &len));
    return connection_dial(c, &to, near, no_hello, status_p);
}

/* A listening socket of nobody's, and its port. */
static int listen_anywhere(uint16_t *port_p)
{
    struct sockaddr_in sa = {.sin_family = AF_INET};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
    *port_p = ntohs(sa.sin_port);
    return fd;
}

static bool is_by_losses(int fd)
{
    char name[16] = "";
    socklen_t len = sizeof(name);

    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len),
                     0);
    return strcmp(name, "reno") == 0;
}

static bool is_undelayed(int fd)
{
    int undelayed = 0;
    socklen_t len = sizeof(undelayed);

    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &undelayed, &len),
                     0);
    return undelayed != 0;
}

static int queue_of(int fd)
{
    int nbytes = 0;
    socklen_t len = sizeof(nbytes);

    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &nbytes, &len), 0);
    return nbytes;
}

/* _i: the peer is on this machine. */
START_TEST(dial_has_what_a_connection_needs)
{
    uint16_t port;
    int listener = listen_anywhere(&port);
    struct connection *c = connection_create(0, CHANNEL_DATA);
    hvd_status_t status = HVD_ERR_STATE;

    ck_assert_int_eq(dial(c, "127.0.0.1", port, _i == 1, &status), IO_DONE);
    ck_assert_int_eq(status, HVD_OK);
    ck_assert_int_eq(c->state, CONNECTION_DIALING);
    ck_assert_int_eq(c->reading, READING_REPLY);
    ck_assert_uint_eq(c->out_n, HANDSHAKE_NBYTES);
    ck_assert(_i == 0 || is_by_losses(c->fd));
    ck_assert(is_undelayed(c->fd));
    /* the kernel gives twice as much as it is asked for */
    ck_assert((queue_of(c->fd) == 2 * CONNECTION_QUEUE_NBYTES) == (_i == 1));
    connection_destroy(c);
    close(listener);
}
END_TEST

/* The kernel says no at once: it may be tried again. */
START_TEST(dial_that_nobody_may_is_tried_again)
{
    struct connection *c = connection_create(0, CHANNEL_DATA);
    hvd_status_t status = HVD_ERR_STATE;

    ck_assert_int_eq(dial(c, "255.255.255.255", 1, false, &status), IO_END);
    ck_assert_int_eq(status, HVD_OK);
    connection_destroy(c);
}
END_TEST

START_TEST(dial_without_a_descriptor_is_an_error)
{
    struct connection *c = connection_create(3, CHANNEL_DATA);
    struct rlimit old, none;
    hvd_status_t status = HVD_OK;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){0, old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_eq(dial(c, "127.0.0.1", 1, false, &status), IO_END);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    ck_assert_int_eq(status, HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(error_text(), "socket for rank 3"));
    connection_destroy(c);
}
END_TEST

/* A program may have closed its standard input. */
static int dial_by_descriptor_0(const void *port)
{
    struct connection *c = connection_create(0, CHANNEL_DATA);
    hvd_status_t status;

    close(0);
    return dial(c, "127.0.0.1", *(const uint16_t *)port, false, &status) ==
                       IO_DONE &&
                   c->fd == 0
               ? 0
               : 1;
}

START_TEST(dial_by_descriptor_0_is_one)
{
    uint16_t port;
    int listener = listen_anywhere(&port);

    ck_assert_int_eq(support_in_child(dial_by_descriptor_0, &port), 0);
    close(listener);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connection");
    TCase *tc = tcase_create("connection");

    tcase_add_loop_test(tc, dial_has_what_a_connection_needs, 0, 2);
    tcase_add_test(tc, dial_that_nobody_may_is_tried_again);
    tcase_add_test(tc, dial_without_a_descriptor_is_an_error);
    tcase_add_test(tc, dial_by_descriptor_0_is_one);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
