/* tests/collectives/test_addresses.c - a worker's several addresses: which
 * lists are fine, listening on all of them at one port, and whom dials meet
 * when one of them is dead. */
#include "base/array.h"
#include "base/clock.h"
#include "collectives/comm_impl.h"
#include "collectives/net/avoided.h"
#include "collectives/net/listeners.h"
#include "group.h"

/* --- lists --- */

static const struct {
    const char *text, *words; /* NULL: a good one, of n */
    size_t n;
} lists[] = {
    {"127.0.0.1", NULL, 1},
    {"10.0.0.1,fd00::1,192.168.7.2", NULL, 3},
    {"::1", NULL, 1},
    {"1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8", NULL,
     8},
    {"1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8,1.1.1.9",
     "more than 8 addresses", 0},
    {"", "not a numeric address: ''", 0},
    {"10.0.0.1,", "not a numeric address: ''", 0},
    {",10.0.0.1", "not a numeric address: ''", 0},
    {"10.0.0.1, 10.0.0.2", "not a numeric address: ' 10.0.0.2'", 0},
    {"10.0.0.1,localhost", "not a numeric address: 'localhost'", 0},
    {"10.0.0.256", "not a numeric address: '10.0.0.256'", 0},
    {"fd00::1%eth0", "not a numeric address: 'fd00::1%eth0'", 0},
    {"1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1:1", "not a numeric", 0},
    {"10.0.0.1,10.0.0.1", "10.0.0.1 is there twice", 0},
    {"fd00::1,fd00:0::1", "fd00:0::1 is there twice", 0},
    {"fe80::1", "fe80::1 is good on one link only", 0},
    {"::ffff:10.0.0.1", "is an address of IPv4: write it as one", 0},
    {"0.0.0.0", "0.0.0.0 is no address of one machine", 0},
    {"::", ":: is no address of one machine", 0},
    {"255.255.255.255", "is no address of one machine", 0},
    {"224.0.0.1", "is no address of one machine", 0},
    {"ff02::1", "is no address of one machine", 0},
};

START_TEST(list_good_or_names_the_culprit)
{
    struct addresses list = {.n = 99};
    hvd_status_t status = addresses_parse(lists[_i].text, &list);

    if (lists[_i].words == NULL) {
        ck_assert_int_eq(status, HVD_OK);
        ck_assert_uint_eq(list.n, lists[_i].n);
        ck_assert_uint_eq(addresses_count(lists[_i].text), list.n);
        return;
    }
    ck_assert_int_eq(status, HVD_ERR_INVALID);
    ck_assert_msg(strstr(error_text(), lists[_i].words), "%s", error_text());
    ck_assert_uint_eq(list.n, 99);
}
END_TEST

START_TEST(list_in_words)
{
    char words[100], small[12];
    struct text t = text_into(words, sizeof(words));

    addresses_text(&t, "10.0.0.1,fd00::1,10.0.0.2", 4711);
    ck_assert_str_eq(words, "10.0.0.1:4711, [fd00::1]:4711 and 10.0.0.2:4711");
    t = text_into(small, sizeof(small));
    addresses_text(&t, "10.0.0.1,fd00::1", 4711);
    ck_assert_str_eq(small, "10.0.0.1:47");
    t = text_into(words, sizeof(words));
    addresses_text(&t, "nonsense", 1);
    ck_assert_str_eq(words, "nonsense");
}
END_TEST

START_TEST(longest_list_fits_what_travels)
{
    char text[COMM_ADDRESS_MAX] = "";
    struct addresses list;

    for (int i = 0; i < 4; i++) /* of the longest spelling that has no choice */
        sprintf(text + strlen(text),
                "%s2001:db80:1111:2222:3333:4444:5555:%d666", i > 0 ? "," : "",
                i + 1);
    ck_assert_int_eq(addresses_parse(text, &list), HVD_OK);
    ck_assert_uint_eq(list.n, 4);
}
END_TEST

/* --- listening --- */

static hvd_status_t open_on(const char *addresses, uint16_t low, uint16_t high,
                            uint64_t first, struct listeners *l)
{
    struct listeners_config config = {addresses, low, high, first, 16};

    return listeners_open(&config, l);
}

static bool can_connect(const char *address, uint16_t port)
{
    struct sockaddr_storage sa;
    socklen_t len;
    bool ok;
    int fd;

    ck_assert(addresses_item(address, 0, port, &sa, &len));
    fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok = connect(fd, (struct sockaddr *)&sa, len) == 0;
    close(fd);
    return ok;
}

static bool has_v6(void)
{
    struct listeners l;

    if (open_on("::1", 0, 0, 0, &l) != HVD_OK)
        return false;
    listeners_close(&l);
    return true;
}

START_TEST(listens_on_each_at_one_port)
{
    const char *text = has_v6() ? "127.0.0.2,::1,127.0.0.3"
                                : "127.0.0.2,127.0.0.3";
    struct listeners l;

    ck_assert_int_eq(open_on(text, 0, 0, 0, &l), HVD_OK);
    ck_assert_uint_eq(l.n, addresses_count(text));
    ck_assert(can_connect("127.0.0.2", l.port));
    ck_assert(can_connect("127.0.0.3", l.port));
    ck_assert(!can_connect("127.0.0.1", l.port));
    ck_assert(l.n == 2 || can_connect("::1", l.port));
    listeners_close(&l);
    ck_assert(!can_connect("127.0.0.2", l.port));
}
END_TEST

START_TEST(address_of_another_machine_is_named)
{
    int before = count_fds();
    struct listeners l;

    ck_assert_int_eq(open_on("127.0.0.1,192.0.2.7", 0, 0, 0, &l),
                     HVD_ERR_SYSTEM);
    ck_assert(
        strstr(error_text(), "192.0.2.7 is not an address of this machine"));
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* Taken on the second address: another one is found for both. */
START_TEST(port_of_a_range_taken_the_next_one)
{
    struct listeners all, taken, l;
    uint16_t port = 0;

    for (int i = 0; i < 50 && port == 0; i++) { /* two that are free */
        ck_assert_int_eq(open_on("127.0.0.2,127.0.0.3", 0, 0, 0, &all), HVD_OK);
        listeners_close(&all);
        if (all.port < 65535 &&
            open_on("127.0.0.2,127.0.0.3", (uint16_t)(all.port + 1),
                    (uint16_t)(all.port + 1), 0, &l) == HVD_OK) {
            listeners_close(&l);
            port = all.port;
        }
    }
    ck_assert_uint_ne(port, 0);
    ck_assert_int_eq(open_on("127.0.0.3", port, port, 0, &taken), HVD_OK);
    ck_assert_int_eq(
        open_on("127.0.0.2,127.0.0.3", port, (uint16_t)(port + 1), 4, &l),
        HVD_OK);
    ck_assert_uint_eq(l.port, port + 1);
    ck_assert_int_eq(
        open_on("127.0.0.2,127.0.0.3", port, (uint16_t)(port + 1), 4, &all),
        HVD_ERR_SYSTEM);
    ck_assert_msg(strstr(error_text(), "each data port from ") &&
                      strstr(error_text(), " is taken on 127.0.0.2,127.0.0.3"),
                  "%s", error_text());
    listeners_close(&l);
    listeners_close(&taken);
}
END_TEST

/* --- which is tried --- */

START_TEST(avoided_addresses_are_tried_last)
{
    static struct avoided a;

    ck_assert_uint_eq(avoided_pick(3, 0, 0), 0);
    ck_assert_uint_eq(avoided_pick(3, 0, 1), 1);
    ck_assert_uint_eq(avoided_pick(3, 2, 1), 2);
    ck_assert_uint_eq(avoided_pick(3, 6, 1), 0);
    ck_assert_uint_eq(avoided_pick(3, 7, 1), 3);
    ck_assert_uint_eq(avoided_pick(3, 0, 7), 0);
    ck_assert_uint_eq(avoided_pick(8, 0x7f, 0xff), 7);

    avoided_set(&a, 7, 0, 100);
    avoided_set(&a, 7, 2, 200);
    ck_assert_uint_eq(avoided_get(&a, 7, 300), 5);
    ck_assert_uint_eq(avoided_get(&a, 8, 300), 0);
    ck_assert_uint_eq(avoided_get(&a, 7, 200 + AVOIDED_US), 0);
    avoided_clear(&a, 7, 0);
    ck_assert_uint_eq(avoided_get(&a, 7, 300), 4);
    avoided_set(&a, 7, 1, 200 + AVOIDED_US); /* what was is forgotten */
    ck_assert_uint_eq(avoided_get(&a, 7, 200 + AVOIDED_US), 2);
    avoided_clear(&a, 7, 1);
    avoided_clear(&a, 7, 1);
    ck_assert_uint_eq(a.n, 0);
}
END_TEST

START_TEST(avoided_is_bounded_the_oldest_goes)
{
    static struct avoided a;

    for (uint64_t i = 0; i <= AVOIDED_MAX; i++)
        avoided_set(&a, 1 + i, 0, 1000 + i);
    ck_assert_uint_eq(a.n, AVOIDED_MAX);
    ck_assert_uint_eq(avoided_get(&a, 1, 2000), 0);
    ck_assert_uint_eq(avoided_get(&a, 2, 2000), 1);
    ck_assert_uint_eq(avoided_get(&a, 1 + AVOIDED_MAX, 2000), 1);
}
END_TEST

/* --- dialling --- */

static bool sum(struct group *g, int rank, void *arg)
{
    int32_t in = rank + 1, out = 0;

    (void)arg;
    EXPECT(allreduce(g->comms[rank], &in, &out, 1, HVD_INT32, HVD_SUM) ==
           HVD_OK);
    EXPECT(out == 3);
    return true;
}

static void apart(struct group *g, const char *addresses)
{
    static const uint32_t hosts[] = {0, 1};

    group_init_hosts(g, 2, hosts, 0, COMM_ORDINARY_MEASURED);
    strcpy(g->peers[0].addresses, addresses);
    for (int i = 0; i < 2; i++) {
        comm_destroy(g->comms[i]);
        group_comm_create(g, i);
    }
}

static void next_generation(struct group *g)
{
    g->generation++;
    for (int i = 0; i < 2; i++) {
        comm_leave(g->comms[i], COMM_LEAVE_BOUNDARY, 1);
        comm_destroy(g->comms[i]);
        group_comm_create(g, i);
    }
}

static const struct connection *dialled(const struct group *g)
{
    return comm_link(g->comms[1], CHANNEL_DATA, 0);
}

START_TEST(first_refuses_second_is_taken_and_first_next_time)
{
    struct group g;

    apart(&g, "127.0.0.9,127.0.0.1");
    group_run(&g, sum, NULL);
    ck_assert_uint_eq(dialled(&g)->address_i, 1);
    ck_assert_uint_eq(dialled(&g)->n_retries, 0); /* without a pause */
    ck_assert_uint_eq(endpoint_avoided(g.endpoints[1], 100, clock_now_us()), 1);
    next_generation(&g);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_DATA), HVD_OK);
    ck_assert_uint_eq(dialled(&g)->address_i, 1);
    group_run(&g, sum, NULL);
    ck_assert_uint_eq(dialled(&g)->tried, 0);
    group_fini(&g);
}
END_TEST

/* Where there is no IPv6 that is refused, and the other one is taken. */
START_TEST(both_families_may_be_mixed)
{
    struct endpoint_config config = {.addresses = "::1,127.0.0.1",
                                     .job = GROUP_JOB,
                                     .worker = 100,
                                     .connect_timeout_us = 10000000,
                                     .job_key = GROUP_JOB_KEY};
    bool v6 = has_v6();
    struct group g;

    apart(&g, config.addresses);
    if (v6) {
        group_rank_destroy(&g, 0);
        ck_assert_int_eq(endpoint_create(&config, &g.endpoints[0]), HVD_OK);
        g.peers[0].port = endpoint_port(g.endpoints[0]);
        group_comm_create(&g, 0);
        comm_destroy(g.comms[1]);
        group_comm_create(&g, 1);
    }
    group_run(&g, sum, NULL);
    ck_assert_uint_eq(dialled(&g)->address_i, v6 ? 0 : 1);
    group_fini(&g);
}
END_TEST

/* SYNs to it are dropped: nobody accepts, and its queue is full. */
struct full {
    int listen_fd, fds[8];
};

static void fill(struct full *f, const char *address, uint16_t port)
{
    struct sockaddr_storage sa;
    socklen_t len;

    ck_assert(addresses_item(address, 0, port, &sa, &len));
    f->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(f->listen_fd, (struct sockaddr *)&sa, len), 0);
    ck_assert_int_eq(listen(f->listen_fd, 0), 0);
    for (size_t i = 0; i < ARRAY_SIZE(f->fds); i++) {
        f->fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                           0);
        (void)connect(f->fds[i], (struct sockaddr *)&sa, len);
    }
}

static void drain(struct full *f)
{
    close(f->listen_fd);
    for (size_t i = 0; i < ARRAY_SIZE(f->fds); i++)
        close(f->fds[i]);
}

START_TEST(first_is_silent_second_is_taken)
{
    struct full full;
    struct group g;

    apart(&g, "127.0.0.9,127.0.0.1");
    fill(&full, "127.0.0.9", g.peers[0].port);
    group_run(&g, sum, NULL);
    ck_assert_uint_eq(dialled(&g)->address_i, 1);
    ck_assert_uint_eq(endpoint_avoided(g.endpoints[1], 100, clock_now_us()), 1);
    drain(&full);
    group_fini(&g);
}
END_TEST

static bool dial_in_vain(struct group *g, int rank, void *arg)
{
    int32_t in = 1, out;

    (void)arg;
    if (rank == 0)
        return true;
    EXPECT(allreduce(g->comms[1], &in, &out, 1, HVD_INT32, HVD_SUM) ==
           HVD_PEER_LOST);
    return true;
}

/* One refuses, one is silent: both are named, and the time it took. */
START_TEST(none_is_reached_lost_all_are_named)
{
    char words[160];
    const char *text;
    struct full full;
    struct group g;
    size_t n;

    apart(&g, "127.0.0.9,127.0.0.8");
    g.connect_timeout_us = 300000;
    comm_destroy(g.comms[1]);
    group_comm_create(&g, 1);
    fill(&full, "127.0.0.9", g.peers[0].port);
    group_run(&g, dial_in_vain, NULL);
    snprintf(words, sizeof(words),
             "rank 0 (worker 100, 127.0.0.9:%u and 127.0.0.8:%u) is lost to "
             "rank 1: it accepts no connection for 0.3 s",
             g.peers[0].port, g.peers[0].port);
    ck_assert_int_eq(comm_status(g.comms[1], &text), HVD_PEER_LOST);
    ck_assert_str_eq(text, words);
    ck_assert_int_eq(comm_accused(g.comms[1], &n)[0], 0);
    ck_assert_uint_eq(comm_accused_proven(g.comms[1]), 1);
    drain(&full);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("addresses");
    TCase *tc = tcase_create("addresses");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, list_good_or_names_the_culprit, 0,
                        ARRAY_SIZE(lists));
    tcase_add_test(tc, list_in_words);
    tcase_add_test(tc, longest_list_fits_what_travels);
    tcase_add_test(tc, listens_on_each_at_one_port);
    tcase_add_test(tc, address_of_another_machine_is_named);
    tcase_add_test(tc, port_of_a_range_taken_the_next_one);
    tcase_add_test(tc, avoided_addresses_are_tried_last);
    tcase_add_test(tc, avoided_is_bounded_the_oldest_goes);
    tcase_add_test(tc, first_refuses_second_is_taken_and_first_next_time);
    tcase_add_test(tc, both_families_may_be_mixed);
    tcase_add_test(tc, first_is_silent_second_is_taken);
    tcase_add_test(tc, none_is_reached_lost_all_are_named);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
