/* tests/wire/test_gate.c - whom the driver's sockets let in. A guest is a plain
 * socket of libzmq, which tells by events how its handshake has ended. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/array.h"
#include "base/error.h"
#include "base/mac.h"
#include "elastic/wire/curve.h"
#include "support.h"

enum { DEADLINE_MS = 20000, EVENT_NBYTES = 6 };

static const uint8_t secret[WIRE_TOKEN_NBYTES] = {9}; /* the driver's */
static struct wire_context *context;
static struct wire_gate *gate;
static struct wire_router *router;
static char endpoint[64];
static void *guests; /* libzmq's context of those who knock */

static void setup(void)
{
    ck_assert_int_eq(wire_context_create(&context), HVD_OK);
    ck_assert_int_eq(wire_gate_create(context, secret, &gate), HVD_OK);
    ck_assert_int_eq(wire_router_create(context, gate, "127.0.0.1", endpoint,
                                        sizeof(endpoint), &router),
                     HVD_OK);
    guests = zmq_ctx_new();
}

static void teardown(void)
{
    zmq_ctx_term(guests);
    wire_router_destroy(router);
    wire_gate_destroy(gate);
    wire_context_destroy(context);
}

static struct wire_secrets secrets_of(uint8_t who)
{
    struct wire_secrets s = {.token = {who}};

    wire_driver_key(secret, s.driver_key);
    return s;
}

static bool is_end(uint16_t event)
{
    return event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED ||
           event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ||
           event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
           event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
}

/* An event has two frames: its number and a value, and an address. */
static uint16_t next_event(void *monitor)
{
    uint8_t bytes[EVENT_NBYTES], address[256];
    uint16_t event;

    ck_assert_int_eq(zmq_recv(monitor, bytes, sizeof(bytes), 0), EVENT_NBYTES);
    ck_assert_int_ge(zmq_recv(monitor, address, sizeof(address), 0), 0);
    memcpy(&event, bytes, sizeof(event));
    return event;
}

/* How the handshake of such a guest ends. secrets NULL: without CURVE. */
static uint16_t knock(const struct wire_secrets *secrets)
{
    void *s = zmq_socket(guests, ZMQ_DEALER);
    void *monitor = zmq_socket(guests, ZMQ_PAIR);
    int none = 0, deadline_ms = DEADLINE_MS;
    static unsigned n_knocks;
    char events[32];
    uint16_t event;

    snprintf(events, sizeof(events), "inproc://events-%u", n_knocks++);
    zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(monitor, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(monitor, ZMQ_RCVTIMEO, &deadline_ms, sizeof(deadline_ms));
    ck_assert_int_eq(zmq_socket_monitor(s, events, ZMQ_EVENT_ALL), 0);
    ck_assert_int_eq(zmq_connect(monitor, events), 0);
    if (secrets)
        ck_assert(curve_visit(s, secrets));
    ck_assert_int_eq(zmq_connect(s, endpoint), 0);
    while (!is_end(event = next_event(monitor)))
        continue;
    /* first: an event for whom nobody reads would block libzmq's thread */
    zmq_socket_monitor(s, NULL, 0);
    zmq_close(s);
    zmq_close(monitor);
    return event;
}

START_TEST(gate_lets_in_whom_it_knows)
{
    struct wire_secrets known = secrets_of(1);

    ck_assert(wire_gate_allow(gate, 1, 0, known.token));
    ck_assert_int_eq(knock(&known), ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
}
END_TEST

START_TEST(gate_refuses_a_key_that_it_does_not_know)
{
    struct wire_secrets known = secrets_of(1), other = secrets_of(2);
    char address[WIRE_ADDRESS_MAX];

    ck_assert(wire_gate_allow(gate, 1, 0, known.token));
    ck_assert(!wire_gate_refused(gate, address));
    ck_assert_int_eq(knock(&other), ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
    ck_assert(wire_gate_refused(gate, address));
    ck_assert_str_eq(address, "127.0.0.1");
    ck_assert(!wire_gate_refused(gate, address));
    ck_assert_int_eq(knock(&known), ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
}
END_TEST

START_TEST(gate_refuses_who_does_not_encrypt)
{
    wire_gate_open(gate, true);
    ck_assert_int_ne(knock(NULL), ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
}
END_TEST

/* Or has been handed that of another job. */
START_TEST(gate_refuses_who_does_not_know_the_driver)
{
    static const uint8_t another[WIRE_TOKEN_NBYTES] = {8};
    struct wire_secrets known = secrets_of(1);

    ck_assert(wire_gate_allow(gate, 1, 0, known.token));
    wire_driver_key(another, known.driver_key);
    ck_assert_int_eq(knock(&known), ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL);
}
END_TEST

START_TEST(gate_open_lets_in_who_knows_the_driver)
{
    struct wire_secrets any = secrets_of(3);

    wire_gate_open(gate, true);
    ck_assert_int_eq(knock(&any), ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    wire_gate_open(gate, false);
    ck_assert_int_eq(knock(&any), ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
}
END_TEST

/* Workers 1 and 2 are of agent 7. */
START_TEST(gate_forgets_a_worker_or_all_of_an_agent)
{
    struct wire_secrets agent = secrets_of(7), one = secrets_of(1),
                        two = secrets_of(2), other = secrets_of(8);

    ck_assert(wire_gate_allow(gate, 7, 0, agent.token));
    ck_assert(wire_gate_allow(gate, 7, 1, one.token));
    ck_assert(wire_gate_allow(gate, 7, 2, two.token));
    ck_assert(wire_gate_allow(gate, 8, 0, other.token));
    wire_gate_forbid(gate, 7, 1);
    ck_assert_int_eq(knock(&one), ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
    ck_assert_int_eq(knock(&two), ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    wire_gate_forbid(gate, 7, 0);
    ck_assert_int_eq(knock(&two), ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
    ck_assert_int_eq(knock(&agent), ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
    ck_assert_int_eq(knock(&other), ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
}
END_TEST

/* Without a gate libzmq lets everybody in: a second one of a context has to
 * fail, and not be none. */
START_TEST(gate_of_a_context_is_one)
{
    struct wire_gate *second;

    ck_assert_int_eq(wire_gate_create(context, secret, &second),
                     HVD_ERR_SYSTEM);
}
END_TEST

START_TEST(gate_keys_follow_from_the_secret)
{
    static const uint8_t another[WIRE_TOKEN_NBYTES] = {8};
    uint8_t key[WIRE_KEY_NBYTES], again[WIRE_KEY_NBYTES];

    wire_driver_key(secret, key);
    wire_driver_key(secret, again);
    ck_assert_mem_eq(key, again, sizeof(key));
    wire_driver_key(another, again);
    ck_assert_mem_ne(key, again, sizeof(key));
    curve_guest_key(secret, again);
    ck_assert_mem_ne(key, again, sizeof(key));
}
END_TEST

START_TEST(router_only_addresses_of_one_machine)
{
    static const char *const bad[] = {
        "0.0.0.0", "224.0.0.1", "255.255.255.255", "localhost", "*",
        "::",      "fe80::1",   "ff02::1",         ""};
    static const char *const bad_endpoint[] = {
        "tcp://0.0.0.0:1", "tcp://*:1",   "ipc:///tmp/x", "tcp://localhost:1",
        "tcp://",          "127.0.0.1:1", "tcp://[::]:1", ""};
    struct wire_secrets known = secrets_of(1);
    struct wire_router *r;
    struct wire_dealer *d;
    char text[64];

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        ck_assert_int_eq(
            wire_router_create(context, gate, bad[i], text, sizeof(text), &r),
            HVD_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(error_text(), bad[i]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad_endpoint); i++)
        ck_assert_int_eq(
            wire_dealer_create(context, bad_endpoint[i], "w", &known, &d),
            HVD_ERR_INVALID);
}
END_TEST

START_TEST(router_taken_port_is_named)
{
    unsigned port = (unsigned)atoi(strrchr(endpoint, ':') + 1);
    const char *text;

    ck_assert_int_eq(
        wire_router_listen(router, "127.0.0.1", (uint16_t)port, &text),
        HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(error_text(), strrchr(endpoint, ':')));
    ck_assert_ptr_nonnull(strstr(error_text(), strerror(EADDRINUSE)));
}
END_TEST

START_TEST(router_other_loopback_addresses_work)
{
    struct wire_router *r;
    char text[64];

    ck_assert_int_eq(
        wire_router_create(context, gate, "127.0.0.2", text, sizeof(text), &r),
        HVD_OK);
    ck_assert_int_eq(strncmp(text, "tcp://127.0.0.2:", 16), 0);
    wire_router_destroy(r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gate");
    TCase *tcase = tcase_create("knocking");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, gate_lets_in_whom_it_knows);
    tcase_add_test(tcase, gate_refuses_a_key_that_it_does_not_know);
    tcase_add_test(tcase, gate_refuses_who_does_not_encrypt);
    tcase_add_test(tcase, gate_refuses_who_does_not_know_the_driver);
    tcase_add_test(tcase, gate_open_lets_in_who_knows_the_driver);
    tcase_add_test(tcase, gate_forgets_a_worker_or_all_of_an_agent);
    tcase_add_test(tcase, gate_of_a_context_is_one);
    tcase_add_test(tcase, gate_keys_follow_from_the_secret);
    tcase_add_test(tcase, router_only_addresses_of_one_machine);
    tcase_add_test(tcase, router_taken_port_is_named);
    tcase_add_test(tcase, router_other_loopback_addresses_work);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
