/* tests/collectives/test_socket_options.c - what connections over TCP have, on
 * both sides, to ranks of this host and of another. */
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "local_links.h"

static void connect_both(struct group *g)
{
    ck_assert_int_eq(links_dial(g->comms[1], 0, CHANNEL_DATA), HVD_OK);
    for (int i = 0; i < 1000 && comm_link(g->comms[0], CHANNEL_DATA, 1) == NULL;
         i++)
        turn(g);
}

static int fd_of(const struct group *g, int rank)
{
    const struct connection *c = comm_link(g->comms[rank], CHANNEL_DATA,
                                           1 - rank);

    ck_assert_ptr_nonnull(c);
    return c->fd;
}

static int queue_of(int fd)
{
    int nbytes = 0;
    socklen_t len = sizeof(nbytes);

    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &nbytes, &len), 0);
    return nbytes;
}

/* On both sides, if they are on one host. */
START_TEST(near_connections_have_a_short_queue)
{
    const uint32_t hosts[] = {0, (uint32_t)_i};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct group g;

    connection_near_options(fd);
    group_init_hosts(&g, 2, hosts, 0, COMM_ORDINARY_MEASURED);
    connect_both(&g);
    for (int rank = 0; rank < 2; rank++) {
        ck_assert_int_eq(queue_of(fd_of(&g, rank)) == queue_of(fd), _i == 0);
    }
    close(fd);
    group_fini(&g);
}
END_TEST

static bool goes_by(int fd, const char *control)
{
    char name[16] = "";
    socklen_t len = sizeof(name);

    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len),
                     0);
    return strncmp(name, control, sizeof(name)) == 0;
}

/* Both sides of one to another host, and no other. */
START_TEST(far_connections_have_the_congestion_control_that_is_said)
{
    const uint32_t hosts[] = {0, (uint32_t)_i};
    struct group g;

    ck_assert(connection_control_is_there("reno"));
    ck_assert(!connection_control_is_there("none of them"));
    group_init_hosts(&g, 2, hosts, 0, COMM_ORDINARY_MEASURED);
    for (int rank = 0; rank < 2; rank++)
        g.comms[rank]->config.congestion = _i == 0 ? "none" : "reno";
    connect_both(&g);
    for (int rank = 0; rank < 2; rank++) {
        ck_assert(goes_by(fd_of(&g, rank), "reno"));
    }
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("socket_options");
    TCase *tc = tcase_create("socket_options");

    tcase_add_loop_test(tc, near_connections_have_a_short_queue, 0, 2);
    tcase_add_loop_test(
        tc, far_connections_have_the_congestion_control_that_is_said, 0, 2);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
