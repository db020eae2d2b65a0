/* tests/agent/test_probe.c - agents of one process try each other over
 * loopback: who answers, who does not, and who only says so. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/mac.h"
#include "elastic/agent/probe.h"
#include "elastic/wire/reach.h"
#include "support.h"

enum { STRANGER_MAX = 8, PATIENCE_US = 20000000 };

static struct probe ask, other;
static struct wire_secrets secrets[3];
static struct msg_probe probe;
static struct msg_probed probed;
static char reach[WIRE_REACH_MAX];
static int stranger_fd;
static uint8_t serial; /* each question is another one */

static void setup(void)
{
    ck_assert_int_eq(mac_init(), HVD_OK);
    for (size_t i = 0; i < ARRAY_SIZE(secrets); i++)
        secrets[i] = (struct wire_secrets){.token = {(uint8_t)i}};
    ck_assert_int_eq(probe_open(&ask, "lo", 0, 0, 1, &secrets[1]), HVD_OK);
    ck_assert_int_eq(probe_open(&other, "lo", 0, 0, 2, &secrets[2]), HVD_OK);
    stranger_fd = -1;
}

static void teardown(void)
{
    fd_close(&stranger_fd);
    probe_close(&ask);
    probe_close(&other);
}

/* What the driver would say: try these addresses of agent 2. */
static void begin(const struct interface *items, size_t n)
{
    probe = (struct msg_probe){.target = 2,
                               .nonce = {++serial},
                               .addresses = reach_pack(items, n, reach)};
    wire_probe_answer(secrets[2].token, probe.nonce, probe.answer);
    probe_begin(&ask, &probe, clock_now_us());
}

static void run(void)
{
    uint64_t until_us = clock_now_us() + PATIENCE_US;

    while (!probe_result(&ask, &probed)) {
        struct pollfd fds[] = {{.fd = ask.epoll_fd, .events = POLLIN},
                               {.fd = other.epoll_fd, .events = POLLIN}};
        uint64_t now_us = clock_now_us();
        uint64_t next_us = probe_deadline(&ask) < probe_deadline(&other)
                               ? probe_deadline(&ask)
                               : probe_deadline(&other);

        ck_assert_uint_lt(now_us, until_us);
        poll(fds, ARRAY_SIZE(fds), clock_poll_ms(now_us, next_us));
        probe_step(&ask, clock_now_us());
        probe_step(&other, clock_now_us());
    }
}

/* The first, an address of v4; loopback may have one of v6 as well. */
static struct interface item_of(const struct probe *p)
{
    ck_assert_str_eq(p->items[0].address, "127.0.0.1");
    return p->items[0];
}

/* Somebody who listens; it is nobody's probe. */
static uint16_t listen_as_stranger(void)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(in);

    stranger_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(stranger_fd, (struct sockaddr *)&in, len), 0);
    ck_assert_int_eq(listen(stranger_fd, STRANGER_MAX), 0);
    ck_assert_int_eq(getsockname(stranger_fd, (struct sockaddr *)&in, &len), 0);
    return ntohs(in.sin_port);
}

START_TEST(probe_agent_is_reached_at_all_its_addresses)
{
    begin(other.items, other.n);
    run();
    ck_assert_uint_eq(probed.target, 2);
    ck_assert_uint_eq(probed.reached, (UINT64_C(1) << other.n) - 1);
    ck_assert_str_eq(probed.text, "");
    ck_assert(!probe_result(&ask, &probed)); /* once */
    probe_begin(&ask, &probe, clock_now_us());
    ck_assert(probe_result(&ask, &probed)); /* asked again */
}
END_TEST

START_TEST(probe_closed_port_is_refused)
{
    struct interface items[] = {item_of(&other), item_of(&other)};

    items[0].port = listen_as_stranger();
    fd_close(&stranger_fd);
    begin(items, 2);
    run();
    ck_assert_uint_eq(probed.reached, 2);
    ck_assert_ptr_nonnull(strstr(probed.text, "127.0.0.1:"));
    ck_assert_ptr_nonnull(strstr(probed.text, "Connection refused"));
}
END_TEST

/* As with the address of a bridge that every machine has. */
START_TEST(probe_answer_of_another_agent_does_not_count)
{
    struct interface items[] = {item_of(&ask), item_of(&other)};

    begin(items, 2);
    run();
    ck_assert_uint_eq(probed.reached, 2);
    ck_assert_ptr_nonnull(strstr(probed.text, "is somebody else's"));
}
END_TEST

/* It knows the job's key, and says that it is agent 2. */
START_TEST(probe_answer_without_the_token_does_not_count)
{
    struct interface item = item_of(&other);

    other.secrets.token[5] = 1;
    begin(&item, 1);
    run();
    ck_assert_uint_eq(probed.reached, 0);
    ck_assert_ptr_nonnull(strstr(probed.text, "is somebody else's"));
}
END_TEST

START_TEST(probe_of_another_job_is_not_answered)
{
    struct interface item = item_of(&other);

    ask.secrets.job_key[0] = 1;
    begin(&item, 1);
    run();
    ck_assert_uint_eq(probed.reached, 0);
}
END_TEST

/* Its kernel accepts, and nobody ever answers. */
START_TEST(probe_silence_ends_at_the_deadline)
{
    struct interface item = item_of(&other);

    item.port = listen_as_stranger();
    begin(&item, 1);
    ck_assert_uint_le(probe_deadline(&ask), clock_now_us() + PROBE_TIMEOUT_US);
    ask.deadline_us = clock_now_us(); /* not now */
    run();
    ck_assert_uint_eq(probed.reached, 0);
    ck_assert_ptr_nonnull(strstr(probed.text, "does not answer"));
}
END_TEST

/* One step of each, until the other one has answered and is waited for. */
static void run_until_padded(void)
{
    uint64_t until_us = clock_now_us() + PATIENCE_US;

    while (ask.attempts[0].packet_nbytes == 0) {
        ck_assert_uint_lt(clock_now_us(), until_us);
        probe_step(&other, clock_now_us());
        probe_step(&ask, clock_now_us());
    }
}

/* What the other machine's kernel does not take counts as lost on the way: here
 * for want of room, as loopback loses nothing. */
START_TEST(probe_whose_large_packets_are_lost_has_not_reached)
{
    struct interface item = item_of(&other);
    int small = 1;

    item.mtu = 60000;
    ck_assert_int_eq(setsockopt(other.listen_fds[0], SOL_SOCKET, SO_RCVBUF,
                                &small, sizeof(small)),
                     0);
    begin(&item, 1);
    run_until_padded();
    probe_step(&ask, ask.deadline_us);
    ck_assert(probe_result(&ask, &probed));
    ck_assert_uint_eq(probed.reached, 0);
    ck_assert_ptr_nonnull(strstr(probed.text,
                                 "loses packets of 60000 bytes, and small ones "
                                 "arrive: the MTU of lo is larger"));
    ck_assert(probed.loses);
}
END_TEST

START_TEST(probe_of_an_agent_that_stops_reading_does_not_blame_the_path)
{
    struct interface item = item_of(&other);

    item.mtu = 1500;
    begin(&item, 1);
    run_until_padded();
    probe_step(&ask, ask.deadline_us);
    ck_assert(probe_result(&ask, &probed));
    ck_assert_uint_eq(probed.reached, 0);
    ck_assert_ptr_nonnull(strstr(probed.text, "does not answer"));
    ck_assert(!probed.loses);
}
END_TEST

START_TEST(probe_silent_guests_keep_nobody_out)
{
    struct interface item = item_of(&other);
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons(item.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fds[2 * PROBE_GUESTS_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(fds[i], (struct sockaddr *)&in, sizeof(in)),
                         0);
        if (i % 2)
            ck_assert_int_eq(send(fds[i], "HVDPROBE", 8, 0), 8);
        probe_step(&other, clock_now_us());
    }
    ck_assert_uint_eq(other.n_guests, PROBE_GUESTS_MAX);
    begin(&item, 1);
    run();
    ck_assert_uint_eq(probed.reached, 1);
    probe_step(&other, probe_deadline(&other) + PROBE_TIMEOUT_US);
    ck_assert_uint_eq(other.n_guests, 0);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
}
END_TEST

/* Who waits there would be told of again and again, and nobody would sleep. */
START_TEST(probe_without_descriptors_closes_whoever_comes)
{
    struct interface item = item_of(&other);
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_port = htons(item.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct pollfd ready = {.fd = other.epoll_fd, .events = POLLIN};
    struct rlimit before, none;
    int fds[4];

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(fds[i], (struct sockaddr *)&in, sizeof(in)),
                         0);
        ck_assert_int_eq(send(fds[i], "?", 1, 0), 1); /* or it is not here */
    }
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)dup(0); /* all below it are in use */
    close((int)none.rlim_cur);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    ck_assert_int_eq(poll(&ready, 1, 20000), 1);
    probe_step(&other, clock_now_us());
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(poll(&ready, 1, 0), 0);
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        close(fds[i]);
    begin(&item, 1);
    run();
    ck_assert_uint_eq(probed.reached, 1);
}
END_TEST

START_TEST(probe_of_nothing_has_reached_nothing)
{
    begin(NULL, 0);
    run();
    ck_assert_uint_eq(probed.reached, 0);
}
END_TEST

START_TEST(probe_later_one_takes_its_place)
{
    struct interface item = item_of(&other);

    item.port = listen_as_stranger();
    begin(&item, 1);
    begin(other.items, other.n);
    run();
    ck_assert_uint_ne(probed.reached, 0);
}
END_TEST

START_TEST(probe_ports_are_of_the_range)
{
    struct probe p = {.epoll_fd = -1};
    uint16_t port = listen_as_stranger();

    ck_assert_int_eq(probe_open(&p, "lo", port, port, 3, &secrets[0]),
                     other.n > 1 ? HVD_OK : HVD_ERR_SYSTEM);
    probe_close(&p);
    fd_close(&stranger_fd);
    ck_assert_int_eq(probe_open(&p, "lo", port, port, 3, &secrets[0]), HVD_OK);
    ck_assert_uint_eq(p.items[0].port, port);
    probe_close(&p);
    ck_assert_int_eq(probe_open(&p, "nosuch0", 0, 0, 3, &secrets[0]),
                     HVD_ERR_INVALID);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("probe");
    TCase *tcase = tcase_create("probe");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, probe_agent_is_reached_at_all_its_addresses);
    tcase_add_test(tcase, probe_closed_port_is_refused);
    tcase_add_test(tcase, probe_answer_of_another_agent_does_not_count);
    tcase_add_test(tcase, probe_answer_without_the_token_does_not_count);
    tcase_add_test(tcase, probe_of_another_job_is_not_answered);
    tcase_add_test(tcase, probe_silence_ends_at_the_deadline);
    tcase_add_test(tcase, probe_whose_large_packets_are_lost_has_not_reached);
    tcase_add_test(
        tcase, probe_of_an_agent_that_stops_reading_does_not_blame_the_path);
    tcase_add_test(tcase, probe_silent_guests_keep_nobody_out);
    tcase_add_test(tcase, probe_without_descriptors_closes_whoever_comes);
    tcase_add_test(tcase, probe_of_nothing_has_reached_nothing);
    tcase_add_test(tcase, probe_later_one_takes_its_place);
    tcase_add_test(tcase, probe_ports_are_of_the_range);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
