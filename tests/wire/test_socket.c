/* tests/wire/test_socket.c - the control sockets on loopback. Waiting is always
 * for a descriptor, with a deadline that only a failure reaches. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "elastic/wire/codec.h"
#include "elastic/wire/curve.h"
#include "elastic/wire/socket.h"
#include "samples.h"
#include "support.h"

enum { DEADLINE_MS = 20000 };

static struct wire_context *context;
static struct wire_router *router;
static char endpoint[64];
static struct message got;
static uint64_t route;
static struct wire_gate *gate;
static const uint8_t secret[WIRE_TOKEN_NBYTES] = {9}; /* the driver's */
static struct wire_secrets secrets = {.token = {7}};

static void setup(void)
{
    ck_assert_int_eq(wire_context_create(&context), HVD_OK);
    wire_driver_key(secret, secrets.driver_key);
    ck_assert_int_eq(wire_gate_create(context, secret, &gate), HVD_OK);
    ck_assert(wire_gate_allow(gate, 1, 0, secrets.token));
    ck_assert_int_eq(wire_router_create(context, gate, "127.0.0.1", endpoint,
                                        sizeof(endpoint), &router),
                     HVD_OK);
}

static void teardown(void)
{
    wire_router_destroy(router);
    wire_gate_destroy(gate);
    wire_context_destroy(context);
    router = NULL;
    context = NULL;
}

static struct wire_dealer *dealer_new(const char *name)
{
    struct wire_dealer *dealer;
    hvd_status_t status = wire_dealer_create(context, endpoint, name, &secrets,
                                             &dealer);

    ck_assert_msg(status == HVD_OK, "%s", error_text());
    return dealer;
}

static struct message ping(uint64_t stamp_us)
{
    return (struct message){.type = MSG_PING,
                            .job = 1,
                            .worker = 17,
                            .u.ping = {.stamp_us = stamp_us}};
}

static struct message hello(void)
{
    struct message m = {.type = MSG_HELLO, .job = 1, .worker = 17};

    m.u.hello.pid = 4711;
    return m;
}

static struct message pong(uint64_t stamp_us)
{
    return (struct message){
        .type = MSG_PONG, .job = 1, .term = 1, .u.pong = {stamp_us}};
}

/* Readable, or the test has failed. Dealers need their turns, too: what they
 * said early leaves from their receive. */
static void wait_for(int fd, struct wire_dealer *other)
{
    struct pollfd fds[2] = {{fd, POLLIN, 0}, {-1, POLLIN, 0}};
    struct message ignored;

    if (other) {
        ck_assert_int_eq(wire_dealer_receive(other, &ignored), WIRE_NOTHING);
        fds[1].fd = wire_dealer_fd(other);
    }
    ck_assert_int_gt(poll(fds, 2, DEADLINE_MS), 0);
}

/* The next message or refusal. */
static enum wire_receipt router_hear(struct wire_dealer *sender)
{
    enum wire_receipt receipt;

    while ((receipt = wire_router_receive(router, &route, &got)) ==
           WIRE_NOTHING)
        wait_for(wire_router_fd(router), sender);
    return receipt;
}

static void router_get(struct wire_dealer *sender)
{
    while (router_hear(sender) == WIRE_REFUSED)
        continue;
}

static void dealer_get(struct wire_dealer *dealer)
{
    enum wire_receipt receipt;

    while ((receipt = wire_dealer_receive(dealer, &got)) != WIRE_MESSAGE)
        if (receipt == WIRE_NOTHING)
            wait_for(wire_dealer_fd(dealer), NULL);
}

static void check_dealer_send(struct wire_dealer *dealer, uint64_t stamp_us)
{
    struct message m = ping(stamp_us);

    ck_assert_int_eq(wire_dealer_send(dealer, &m), HVD_OK);
}

/* The next is a HELLO whose token is right. */
static void router_admit(struct wire_dealer *sender)
{
    router_get(sender);
    ck_assert_int_eq(got.type, MSG_HELLO);
    ck_assert_uint_eq(route, 0);
    route = wire_router_admit(router, secrets.token);
    ck_assert_uint_ne(route, 0);
}

/* A dealer with a route. */
static struct wire_dealer *member_new(const char *name)
{
    struct wire_dealer *dealer = dealer_new(name);
    struct message m = hello();

    ck_assert_int_eq(wire_dealer_send(dealer, &m), HVD_OK);
    router_admit(dealer);
    return dealer;
}

START_TEST(socket_first_words_arrive_in_order_and_are_answered)
{
    struct wire_dealer *dealer = dealer_new("w17");
    struct message m = hello();

    ck_assert_int_eq(wire_dealer_send(dealer, &m), HVD_OK);
    m = pong(5);
    for (uint64_t i = 1; i <= 3; i++) /* surely before it is connected */
        check_dealer_send(dealer, i);
    router_admit(dealer);
    for (uint64_t i = 1; i <= 3; i++) {
        router_get(dealer);
        ck_assert_int_eq(got.type, MSG_PING);
        ck_assert_uint_eq(got.worker, 17);
        ck_assert_uint_eq(got.u.ping.stamp_us, i);
    }
    ck_assert_int_eq(wire_router_send(router, route, &m), HVD_OK);
    dealer_get(dealer);
    ck_assert_int_eq(got.type, MSG_PONG);
    ck_assert_uint_eq(got.u.pong.stamp_us, 5);
    wire_dealer_destroy(dealer);
}
END_TEST

START_TEST(socket_shared_table_reaches_all_as_if_it_were_their_own)
{
    enum { NBYTES = 100000, N = 3 };
    struct message m = {.type = MSG_ASSIGN, .job = 1, .term = 1};
    struct wire_dealer *dealers[N];
    struct wire_shared *shared;
    uint64_t routes[N];
    uint8_t *bytes = malloc(NBYTES);

    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 7, NBYTES);
    m.u.assign.size = m.u.assign.local_size = m.u.assign.cross_size = 1;
    m.u.assign.reason = READY_START;
    m.u.assign.key[0] = 1;
    ck_assert_int_eq(wire_shared_create(bytes, NBYTES, &shared), HVD_OK);
    for (int i = 0; i < N; i++) {
        dealers[i] = member_new("w1");
        routes[i] = route;
    }
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(wire_router_send_shared(router, routes[i], &m, shared),
                         HVD_OK);
    wire_shared_destroy(shared); /* those on their way keep it */
    m = pong(9);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(wire_router_send(router, routes[i], &m), HVD_OK);
        dealer_get(dealers[i]);
        ck_assert_int_eq(got.type, MSG_ASSIGN);
        ck_assert_uint_eq(got.u.assign.table.nbytes, NBYTES);
        ck_assert_uint_eq(got.u.assign.table.data[NBYTES - 1], 7);
        dealer_get(dealers[i]);
        ck_assert_int_eq(got.type, MSG_PONG);
        wire_dealer_destroy(dealers[i]);
    }
}
END_TEST

START_TEST(socket_frames_that_nobody_asked_for_are_malformed)
{
    struct wire_dealer *dealer = member_new("w1");
    struct message m = pong(1);
    struct wire_shared *shared;
    uint8_t *bytes = calloc(1, 8);

    ck_assert_int_eq(wire_shared_create(bytes, 8, &shared), HVD_OK);
    ck_assert_int_eq(wire_router_send_shared(router, route, &m, shared),
                     HVD_OK);
    m = pong(2);
    ck_assert_int_eq(wire_router_send(router, route, &m), HVD_OK);
    dealer_get(dealer);
    ck_assert_uint_eq(got.u.pong.stamp_us, 2);
    wire_shared_destroy(shared);
    wire_dealer_destroy(dealer);
}
END_TEST

START_TEST(socket_peers_have_routes_of_their_own)
{
    struct wire_dealer *a = member_new("w1"), *b;
    struct message m = pong(6);
    uint64_t route_a = route;

    b = member_new("w1");
    ck_assert_uint_ne(route, route_a);
    ck_assert_int_eq(wire_router_send(router, route, &m), HVD_OK);
    m = pong(7);
    ck_assert_int_eq(wire_router_send(router, route_a, &m), HVD_OK);
    dealer_get(b);
    ck_assert_uint_eq(got.u.pong.stamp_us, 6);
    dealer_get(a);
    ck_assert_uint_eq(got.u.pong.stamp_us, 7);
    check_dealer_send(a, 3);
    router_get(a);
    ck_assert_uint_eq(route, route_a);
    wire_dealer_destroy(a);
    wire_dealer_destroy(b);
}
END_TEST

START_TEST(socket_forgotten_route_is_lost)
{
    struct wire_dealer *dealer = member_new("w1");
    struct message m = pong(1);
    uint64_t old = route;

    wire_router_forget(router, old);
    ck_assert_int_eq(wire_router_send(router, old, &m), HVD_PEER_LOST);
    check_dealer_send(dealer, 2);
    ck_assert_int_eq(router_hear(dealer), WIRE_REFUSED);
    m = hello();
    ck_assert_int_eq(wire_dealer_send(dealer, &m), HVD_OK);
    router_admit(dealer);
    ck_assert_uint_ne(route, old);
    wire_dealer_destroy(dealer);
}
END_TEST

START_TEST(socket_dead_peer_is_lost)
{
    struct wire_dealer *dealer = member_new("w1");
    struct message m = pong(1);
    uint64_t end = clock_now_us() + DEADLINE_MS * 1000;
    hvd_status_t status = HVD_OK;

    wire_dealer_destroy(dealer);
    while (status == HVD_OK && clock_now_us() < end)
        status = wire_router_send(router, route, &m);
    ck_assert_int_eq(status, HVD_PEER_LOST);
}
END_TEST

/* A driver that is gone: nothing is queued for its successor. */
START_TEST(socket_dealer_without_driver_any_more_is_lost)
{
    struct wire_dealer *dealer = member_new("w1");
    struct message m = ping(1);
    uint64_t end = clock_now_us() + DEADLINE_MS * 1000;
    hvd_status_t status = HVD_OK;

    wire_router_destroy(router);
    router = NULL;
    while (status == HVD_OK && clock_now_us() < end) {
        wire_dealer_receive(dealer, &got);
        status = wire_dealer_send(dealer, &m);
    }
    ck_assert_int_eq(status, HVD_PEER_LOST);
    wire_dealer_destroy(dealer);
}
END_TEST

START_TEST(socket_early_words_are_bounded)
{
    struct wire_dealer *dealer;
    struct message m = *samples;
    hvd_status_t status = HVD_OK;
    int n = 0;

    /* nobody listens on the port any more */
    wire_router_destroy(router);
    router = NULL;
    dealer = dealer_new("w1");
    while (status == HVD_OK && n++ < 1000000)
        status = wire_dealer_send(dealer, &m);
    ck_assert_int_eq(status, HVD_PEER_LOST);
    wire_dealer_destroy(dealer);
}
END_TEST

/* ---- peers that do not keep to the rules --------------------------------- */

static void *raw_new(void *zmq, const char *id)
{
    void *s = zmq_socket(zmq, ZMQ_DEALER);
    int linger = 0;

    zmq_setsockopt(s, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(s, ZMQ_ROUTING_ID, id, strlen(id));
    ck_assert(curve_visit(s, &secrets));
    return s;
}

static void raw_send(void *s, const struct message *m, int flags)
{
    uint8_t bytes[512];
    long n = codec_encode(m, bytes, sizeof(bytes));

    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(zmq_send(s, bytes, (size_t)n, flags), (int)n);
}

static void raw_hello(void *s)
{
    struct message m = hello();

    raw_send(s, &m, 0);
}

/* Of who is connected, and has a route. */
static void *raw_member_new(void *zmq, const char *id)
{
    void *s = raw_new(zmq, id);

    ck_assert_int_eq(zmq_connect(s, endpoint), 0);
    raw_hello(s);
    router_admit(NULL);
    return s;
}

START_TEST(socket_peer_that_does_not_read_is_lost_not_waited_for)
{
    static uint8_t table[1 << 14];
    struct message m = {.type = MSG_ASSIGN, .job = 1};
    hvd_status_t status = HVD_OK;
    void *stalled = zmq_ctx_new(), *s = raw_new(stalled, "w1");
    int hwm = 1, n = 0;

    m.u.assign = (struct msg_assign){.size = 1,
                                     .local_size = 1,
                                     .cross_size = 1,
                                     .reason = READY_START,
                                     .table = {table, sizeof(table)}};
    zmq_setsockopt(s, ZMQ_RCVHWM, &hwm, sizeof(hwm));
    ck_assert_int_eq(zmq_connect(s, endpoint), 0);
    raw_hello(s);
    router_admit(NULL);
    while (status == HVD_OK && n++ < 20000)
        status = wire_router_send(router, route, &m);
    ck_assert_int_eq(status, HVD_PEER_LOST);
    zmq_close(s);
    zmq_ctx_term(stalled);
}
END_TEST

START_TEST(socket_large_assign_passes)
{
    static uint8_t table[WIRE_MESSAGE_MAX - 400];
    struct wire_dealer *dealer = member_new("w1");
    struct message m = {.type = MSG_ASSIGN, .job = 1};

    m.u.assign = (struct msg_assign){.size = 1,
                                     .local_size = 1,
                                     .cross_size = 1,
                                     .reason = READY_START,
                                     .table = {table, sizeof(table)}};
    table[sizeof(table) - 1] = 99;
    ck_assert_int_eq(wire_router_send(router, route, &m), HVD_OK);
    dealer_get(dealer);
    ck_assert_uint_eq(got.u.assign.table.nbytes, sizeof(table));
    ck_assert_uint_eq(got.u.assign.table.data[sizeof(table) - 1], 99);
    wire_dealer_destroy(dealer);
}
END_TEST

START_TEST(socket_malformed_messages_are_skipped)
{
    void *zmq = zmq_ctx_new(), *s = raw_member_new(zmq, "w1");
    struct message m = ping(4);

    zmq_send(s, "garbage", 7, 0);
    zmq_send(s, "", 0, 0);
    raw_send(s, &m, ZMQ_SNDMORE); /* one frame too many */
    raw_send(s, &m, ZMQ_SNDMORE);
    raw_send(s, &m, 0);
    m = ping(5);
    raw_send(s, &m, 0);
    router_get(NULL);
    ck_assert_uint_eq(got.u.ping.stamp_us, 5);
    ck_assert_uint_eq(wire_router_refused(router), 3);
    zmq_close(s);
    zmq_ctx_term(zmq);
}
END_TEST

/* Who calls it decides how many make a turn. */
START_TEST(socket_one_receive_takes_one_message)
{
    enum { N = 1000 };
    void *zmq = zmq_ctx_new(), *s = raw_member_new(zmq, "w1");

    for (int i = 0; i < N; i++)
        zmq_send(s, "garbage", 7, 0);
    for (int i = 1; i <= N; i++) {
        ck_assert_int_eq(router_hear(NULL), WIRE_REFUSED);
        ck_assert_uint_eq(wire_router_refused(router), (uint64_t)i);
    }
    for (int i = 0; i <= N; i++) /* one message of many frames */
        zmq_send(s, "garbage", 7, i < N ? ZMQ_SNDMORE : 0);
    for (int i = 0; i <= N; i++)
        ck_assert_int_eq(router_hear(NULL), WIRE_REFUSED);
    ck_assert_uint_eq(wire_router_refused(router), N + 1);
    raw_hello(s);
    ck_assert_int_eq(router_hear(NULL), WIRE_MESSAGE);
    zmq_close(s);
    zmq_ctx_term(zmq);
}
END_TEST

START_TEST(socket_of_strangers_only_hello_is_heard)
{
    struct wire_dealer *dealer = dealer_new("w1");
    struct message m = hello(), answer = pong(1);

    check_dealer_send(dealer, 1);
    ck_assert_int_eq(router_hear(dealer), WIRE_REFUSED);
    for (int i = 0; i < 2; i++) { /* heard, and not remembered */
        ck_assert_int_eq(wire_dealer_send(dealer, &m), HVD_OK);
        ck_assert_int_eq(router_hear(dealer), WIRE_MESSAGE);
        ck_assert_int_eq(got.type, MSG_HELLO);
        ck_assert_uint_eq(route, 0);
        ck_assert_int_eq(wire_router_send(router, route, &answer),
                         HVD_PEER_LOST);
        check_dealer_send(dealer, 2);
        ck_assert_int_eq(router_hear(dealer), WIRE_REFUSED);
    }
    wire_dealer_destroy(dealer);
}
END_TEST

/* libzmq may or may not let us hear the second one of a name. */
START_TEST(socket_stranger_of_a_members_name_does_not_push_it_out)
{
    void *zmq = zmq_ctx_new(), *s = raw_member_new(zmq, "w7");
    void *stranger = raw_new(zmq, "w7");
    uint64_t member = route;
    struct message m = ping(1);

    ck_assert_int_eq(zmq_connect(stranger, endpoint), 0);
    for (int i = 0; i < 100; i++)
        raw_hello(stranger);
    for (int i = 0; i < 100; i++) {
        raw_send(s, &m, 0);
        do
            router_get(NULL);
        while (route == 0);
        ck_assert_uint_eq(route, member);
        ck_assert_int_eq(got.type, MSG_PING);
    }
    m = pong(2);
    ck_assert_int_eq(wire_router_send(router, member, &m), HVD_OK);
    ck_assert_int_gt(zmq_recv(s, &m, sizeof(m), 0), 0);
    ck_assert_int_eq(zmq_recv(stranger, &m, sizeof(m), ZMQ_DONTWAIT), -1);
    zmq_close(stranger);
    zmq_close(s);
    zmq_ctx_term(zmq);
}
END_TEST

/* One that never stops; the other's words are taken in turn with its own. */
START_TEST(socket_flood_of_one_keeps_nobody_out)
{
    enum { PINGS = 100, GARBAGE_MAX = 100 * PINGS };
    void *zmq = zmq_ctx_new(), *flood = raw_member_new(zmq, "w1");
    struct wire_dealer *dealer = member_new("w2");
    int n_garbage = 0, n_pings = 0;

    for (uint64_t i = 0; i < PINGS; i++)
        check_dealer_send(dealer, i);
    while (n_pings < PINGS) {
        while (zmq_send(flood, "garbage", 7, ZMQ_DONTWAIT) > 0)
            continue;
        if (router_hear(NULL) == WIRE_MESSAGE)
            n_pings++;
        else
            n_garbage += n_pings > 0;
    }
    ck_assert_int_lt(n_garbage, GARBAGE_MAX);
    wire_dealer_destroy(dealer);
    zmq_close(flood);
    zmq_ctx_term(zmq);
}
END_TEST

START_TEST(socket_hello_proves_the_token_and_does_not_say_it)
{
    static const uint8_t other[WIRE_TOKEN_NBYTES] = {8};
    struct wire_dealer *dealer = member_new("w1");
    struct wire_router *elsewhere;
    char text[64];

    ck_assert_mem_ne(got.u.hello.proof, secrets.token, sizeof(secrets.token));
    ck_assert(wire_router_proven(router, secrets.token, got.u.hello.proof));
    ck_assert(!wire_router_proven(router, other, got.u.hello.proof));
    ck_assert_int_eq(wire_router_create(context, gate, "127.0.0.1", text,
                                        sizeof(text), &elsewhere),
                     HVD_OK);
    ck_assert(!wire_router_proven(elsewhere, secrets.token, got.u.hello.proof));
    wire_router_destroy(elsewhere);
    wire_dealer_destroy(dealer);
}
END_TEST

/* Somebody in the driver's place has heard the HELLO, but has not the token. */
START_TEST(socket_words_that_are_not_the_drivers_are_refused)
{
    static const uint8_t other[WIRE_TOKEN_NBYTES] = {8};
    struct wire_dealer *dealer = dealer_new("w1");
    struct message m = hello();

    ck_assert_int_eq(wire_dealer_send(dealer, &m), HVD_OK);
    router_get(dealer);
    route = wire_router_admit(router, other);
    m = pong(1);
    ck_assert_int_eq(wire_router_send(router, route, &m), HVD_OK);
    wire_router_forget(router, route);
    route = wire_router_admit(router, secrets.token);
    m = pong(2);
    ck_assert_int_eq(wire_router_send(router, route, &m), HVD_OK);
    dealer_get(dealer);
    ck_assert_uint_eq(got.u.pong.stamp_us, 2);
    wire_dealer_destroy(dealer);
}
END_TEST

START_TEST(socket_invalid_message_is_not_sent)
{
    struct wire_dealer *dealer = dealer_new("w1");
    struct message m = {.type = MSG_READY};

    ck_assert_int_eq(wire_dealer_send(dealer, &m), HVD_ERR_INVALID);
    ck_assert_str_eq(error_text(), "cannot encode READY: a field out of range");
    wire_dealer_destroy(dealer);
}
END_TEST

/* A HELLO is proven for the one that it has come to, whichever. */
START_TEST(socket_router_listens_at_several_addresses)
{
    struct message m = hello();
    struct wire_dealer *dealer;
    const char *second;

    ck_assert_int_eq(wire_router_listen(router, "127.0.0.3", 0, &second),
                     HVD_OK);
    ck_assert_int_eq(strncmp(second, "tcp://127.0.0.3:", 16), 0);
    ck_assert_int_eq(
        wire_dealer_create(context, second, "w1", &secrets, &dealer), HVD_OK);
    ck_assert_int_eq(wire_dealer_send(dealer, &m), HVD_OK);
    router_get(dealer);
    ck_assert(wire_router_proven(router, secrets.token, got.u.hello.proof));
    wire_dealer_destroy(dealer);
}
END_TEST

/* Every thread but the caller's blocks all signals that can be blocked. */
START_TEST(socket_threads_of_libzmq_take_no_signals)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    int n = 0;

    while ((entry = readdir(dir))) {
        char path[300], line[256];
        FILE *f;

        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status",
                 entry->d_name);
        f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f)) {
            uint64_t mask, terminate = 1u << (SIGTERM - 1);

            if (sscanf(line, "SigBlk: %lx", &mask) != 1)
                continue;
            n++;
            ck_assert_uint_ne(mask & terminate, 0);
        }
        if (f)
            fclose(f);
    }
    closedir(dir);
    ck_assert_int_ge(n, 2);
}
END_TEST

/* A path that loses larger packets passes all that is sent either way. */
START_TEST(router_keeps_segments_small)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), segment = 0;
    socklen_t len = sizeof(segment);

    sa.sin_port = htons((uint16_t)atoi(strrchr(endpoint, ':') + 1));
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, &len),
                     0);
    ck_assert_int_gt(segment, 0);
    ck_assert_int_le(segment, 1220);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("socket");
    TCase *tcase = tcase_create("socket");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, socket_first_words_arrive_in_order_and_are_answered);
    tcase_add_test(tcase, router_keeps_segments_small);
    tcase_add_test(tcase,
                   socket_shared_table_reaches_all_as_if_it_were_their_own);
    tcase_add_test(tcase, socket_frames_that_nobody_asked_for_are_malformed);
    tcase_add_test(tcase, socket_peers_have_routes_of_their_own);
    tcase_add_test(tcase, socket_forgotten_route_is_lost);
    tcase_add_test(tcase, socket_dead_peer_is_lost);
    tcase_add_test(tcase, socket_dealer_without_driver_any_more_is_lost);
    tcase_add_test(tcase, socket_early_words_are_bounded);
    tcase_add_test(tcase,
                   socket_peer_that_does_not_read_is_lost_not_waited_for);
    tcase_add_test(tcase, socket_large_assign_passes);
    tcase_add_test(tcase, socket_malformed_messages_are_skipped);
    tcase_add_test(tcase, socket_one_receive_takes_one_message);
    tcase_add_test(tcase, socket_of_strangers_only_hello_is_heard);
    tcase_add_test(tcase,
                   socket_stranger_of_a_members_name_does_not_push_it_out);
    tcase_add_test(tcase, socket_flood_of_one_keeps_nobody_out);
    tcase_add_test(tcase, socket_hello_proves_the_token_and_does_not_say_it);
    tcase_add_test(tcase, socket_words_that_are_not_the_drivers_are_refused);
    tcase_add_test(tcase, socket_invalid_message_is_not_sent);
    tcase_add_test(tcase, socket_router_listens_at_several_addresses);
    tcase_add_test(tcase, socket_threads_of_libzmq_take_no_signals);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
