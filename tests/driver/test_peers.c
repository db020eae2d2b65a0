/* tests/driver/test_peers.c - who may speak as whom on a real router, and whose
 * output is still to come. */
#include <poll.h>
#include <string.h>

#include "elastic/driver/peers.h"
#include "elastic/driver/speakers.h"
#include "support.h"

enum { DEADLINE_MS = 20000 };

static struct wire_context *context;
static struct wire_router *router;
static char endpoint[64];
static struct peers peers;
static struct message heard;
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
    memset(&peers, 0, sizeof(peers));
}

static void teardown(void)
{
    peers_fini(&peers);
    wire_router_destroy(router);
    wire_gate_destroy(gate);
    wire_context_destroy(context);
}

/* Until the router has heard something of it. */
static enum wire_receipt says(struct wire_dealer *dealer,
                              enum message_type type)
{
    struct message m = {.type = type, .job = 1, .worker = 7}, ignored;
    enum wire_receipt receipt;

    ck_assert_int_eq(wire_dealer_send(dealer, &m), HVD_OK);
    while ((receipt = wire_router_receive(router, &route, &heard)) ==
           WIRE_NOTHING) {
        struct pollfd fds[2] = {{wire_router_fd(router), POLLIN, 0},
                                {wire_dealer_fd(dealer), POLLIN, 0}};

        ck_assert_int_eq(wire_dealer_receive(dealer, &ignored), WIRE_NOTHING);
        ck_assert_int_gt(poll(fds, 2, DEADLINE_MS), 0);
    }
    return receipt;
}

static struct wire_dealer *caller(const char *name)
{
    struct wire_dealer *dealer;

    ck_assert_int_eq(
        wire_dealer_create(context, endpoint, name, &secrets, &dealer), HVD_OK);
    ck_assert_int_eq(says(dealer, MSG_HELLO), WIRE_MESSAGE);
    ck_assert_uint_eq(route, 0);
    return dealer;
}

static bool meets(enum peer_kind kind, uint64_t id)
{
    struct peer who = {kind, id, route, heard.u.hello.connection};

    return peers_meet(&peers, router, &who, secrets.token);
}

START_TEST(peer_that_has_dialled_last_is_the_one)
{
    struct wire_dealer *first = caller("w7"), *second;
    uint64_t its;

    ck_assert(meets(PEER_WORKER, 7));
    its = peers_by_id(&peers, PEER_WORKER, 7)->route;
    ck_assert_uint_ne(its, 0);
    ck_assert_int_eq(says(first, MSG_HELLO), WIRE_MESSAGE);
    ck_assert_uint_eq(route, its);
    ck_assert(meets(PEER_WORKER, 7)); /* again is fine */
    second = caller("w7");
    ck_assert(meets(PEER_WORKER, 7));
    ck_assert_uint_ne(peers_by_id(&peers, PEER_WORKER, 7)->route, its);
    ck_assert_uint_eq(peers.n, 1);
    ck_assert_int_eq(says(first, MSG_DRAIN_ME), WIRE_REFUSED);
    ck_assert_int_eq(says(second, MSG_DRAIN_ME), WIRE_MESSAGE);
    ck_assert_uint_eq(route, peers_by_id(&peers, PEER_WORKER, 7)->route);
    wire_dealer_destroy(first);
    wire_dealer_destroy(second);
}
END_TEST

START_TEST(peer_whose_older_hello_comes_late_stays)
{
    struct wire_dealer *first = caller("w7"), *second = caller("w7");
    uint64_t its;

    ck_assert(meets(PEER_WORKER, 7));
    its = peers_by_id(&peers, PEER_WORKER, 7)->route;
    ck_assert_int_eq(says(first, MSG_HELLO), WIRE_MESSAGE);
    ck_assert_uint_eq(route, 0);
    ck_assert(!meets(PEER_WORKER, 7));
    ck_assert_int_eq(says(second, MSG_HELLO), WIRE_MESSAGE);
    ck_assert_uint_eq(route, its);
    wire_dealer_destroy(first);
    wire_dealer_destroy(second);
}
END_TEST

START_TEST(peer_speaks_for_one_alone)
{
    struct wire_dealer *dealer = caller("w7");
    uint64_t its;

    ck_assert(meets(PEER_WORKER, 7));
    its = peers_by_id(&peers, PEER_WORKER, 7)->route;
    ck_assert_int_eq(says(dealer, MSG_HELLO), WIRE_MESSAGE);
    ck_assert(!meets(PEER_WORKER, 8));
    ck_assert(!meets(PEER_AGENT, 7));
    ck_assert_uint_eq(peers.n, 1);
    ck_assert_uint_eq(peers_by_route(&peers, its)->id, 7);
    wire_dealer_destroy(dealer);
}
END_TEST

START_TEST(peer_that_has_parted_is_a_stranger)
{
    struct wire_dealer *dealer = caller("w7");
    uint64_t before;

    ck_assert(meets(PEER_WORKER, 7));
    before = peers_by_id(&peers, PEER_WORKER, 7)->route;
    peers_part(&peers, router, PEER_WORKER, 7);
    peers_part(&peers, router, PEER_WORKER, 7); /* twice does no harm */
    ck_assert_uint_eq(peers.n, 0);
    ck_assert_int_eq(says(dealer, MSG_DRAIN_ME), WIRE_REFUSED);
    ck_assert_int_eq(says(dealer, MSG_HELLO), WIRE_MESSAGE);
    ck_assert_uint_eq(route, 0);
    ck_assert(meets(PEER_WORKER, 8));
    ck_assert_uint_ne(peers_by_id(&peers, PEER_WORKER, 8)->route, before);
    wire_dealer_destroy(dealer);
}
END_TEST

static enum peer_kind kind_of_sender(void)
{
    const struct peer *peer = peers_by_route(&peers, route);

    ck_assert_ptr_nonnull(peer);
    ck_assert_uint_eq(peer->id, 7);
    return peer->kind;
}

/* What the first has brought may not be read yet. */
START_TEST(agent_speaks_by_the_connection_before_until_that_is_parted_from)
{
    struct wire_dealer *first = caller("a7"), *second, *third;

    peers.overlaps = true;
    ck_assert(meets(PEER_AGENT, 7));
    second = caller("a7");
    ck_assert(meets(PEER_AGENT, 7));
    ck_assert_int_eq(says(first, MSG_DRAIN_ME), WIRE_MESSAGE);
    ck_assert_int_eq(kind_of_sender(), PEER_AGENT_BEFORE);
    third = caller("a7");
    ck_assert(meets(PEER_AGENT, 7));
    ck_assert_uint_eq(peers.n, 2);
    ck_assert_int_eq(says(second, MSG_DRAIN_ME), WIRE_REFUSED);
    ck_assert_int_eq(says(first, MSG_DRAIN_ME), WIRE_MESSAGE);
    ck_assert_int_eq(says(third, MSG_DRAIN_ME), WIRE_MESSAGE);
    ck_assert_int_eq(kind_of_sender(), PEER_AGENT);
    peers_part(&peers, router, PEER_AGENT_BEFORE, 7);
    ck_assert_int_eq(says(first, MSG_DRAIN_ME), WIRE_REFUSED);
    wire_dealer_destroy(first);
    wire_dealer_destroy(second);
    wire_dealer_destroy(third);
}
END_TEST

/* ---- speakers ------------------------------------------------------------ */

/* In any order; a SPAWN that is repeated does not begin it anew. */
START_TEST(speaker_is_there_until_it_has_exited_and_its_streams_ended)
{
    struct speakers s = {0};
    struct speaker *a;

    ck_assert(speakers_add(&s, 2, 20, 1, "b"));
    ck_assert(speakers_add(&s, 1, 10, 0, "a"));
    ck_assert(speakers_add(&s, 2, 30, 1, "c")); /* told once more */
    ck_assert_uint_eq(s.n_streams, 4);
    a = speakers_find(&s, 2);
    ck_assert_uint_eq(a->agent, 20);
    ck_assert_str_eq(a->host, "b");
    ck_assert_int_eq(a->rank, -1);
    speakers_end(&s, a, 1);
    speakers_end(&s, a, 1);
    ck_assert_ptr_eq(speakers_find(&s, 2), a);
    speakers_end(&s, a, 0);
    ck_assert_uint_eq(s.n_streams, 2);
    ck_assert(speakers_add(&s, 2, 20, 1, "b"));
    ck_assert_uint_eq(s.n_streams, 2);
    speakers_exit(&s, speakers_find(&s, 2));
    ck_assert_ptr_null(speakers_find(&s, 2));
    speakers_remove(&s, speakers_find(&s, 1));
    ck_assert_ptr_null(speakers_find(&s, 1));
    ck_assert_uint_eq(s.n_streams, 0);
    ck_assert_ptr_null(speakers_find(&s, 3));
    speakers_fini(&s);
}
END_TEST

/* Of one of its streams the end was taken before. */
START_TEST(speaker_that_had_exited_is_there_for_what_still_comes)
{
    struct speakers s = {0};

    ck_assert(speakers_add_exited(&s, 1, 10, 0, 0, "a"));
    ck_assert_ptr_null(speakers_find(&s, 1));
    ck_assert(speakers_add_exited(&s, 2, 20, 1, 1u << 1, "b"));
    ck_assert_uint_eq(s.n_streams, 1);
    ck_assert_uint_eq(speakers_find(&s, 2)->open, 1u << 1);
    speakers_end(&s, speakers_find(&s, 2), 1);
    ck_assert_ptr_null(speakers_find(&s, 2));
    ck_assert_uint_eq(s.n_streams, 0);
    speakers_fini(&s);
}
END_TEST

/* However many have been: rows of who has ended are used again. */
START_TEST(speakers_take_room_for_who_is_there)
{
    enum { ALL = 10000, AT_ONCE = 100 };
    struct speakers s = {0};

    for (uint64_t id = 1; id <= ALL; id++) {
        ck_assert(speakers_add(&s, id, id, 0, "a"));
        if (id > AT_ONCE)
            speakers_remove(&s, speakers_find(&s, id - AT_ONCE));
        ck_assert_ptr_nonnull(speakers_find(&s, id));
        ck_assert_uint_eq(s.n_streams,
                          2 * (id < AT_ONCE ? id : (uint64_t)AT_ONCE));
    }
    ck_assert_uint_lt(s.max, 8 * AT_ONCE);
    speakers_fini(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("peers");
    TCase *tcase = tcase_create("peers");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, peer_that_has_dialled_last_is_the_one);
    tcase_add_test(tcase, peer_whose_older_hello_comes_late_stays);
    tcase_add_test(tcase, peer_speaks_for_one_alone);
    tcase_add_test(tcase, peer_that_has_parted_is_a_stranger);
    tcase_add_test(tcase,
                   speaker_is_there_until_it_has_exited_and_its_streams_ended);
    tcase_add_test(
        tcase, agent_speaks_by_the_connection_before_until_that_is_parted_from);
    tcase_add_test(tcase,
                   speaker_that_had_exited_is_there_for_what_still_comes);
    tcase_add_test(tcase, speakers_take_room_for_who_is_there);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
