/* tests/collectives/test_dial.c - who may connect to a comm, and what its own
 * attempts come to: answers that are not authentic, refusals, pauses between
 * them, deadlines, stripes that nobody takes. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/mac.h"
#include "local_links.h"

/* --- the door --- */

static bool takes(struct comm *comm, uint64_t worker, int channel)
{
    struct handshake hello = {
        .role = HANDSHAKE_HELLO, .channel = (uint8_t)channel, .worker = worker};
    uint8_t reply[HANDSHAKE_NBYTES];
    int pair[2];
    bool taken;

    ck_assert_int_eq(socketpair(AF_UNIX,
                                SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                                pair),
                     0);
    taken = links_take(comm, pair[0], &hello, NULL, 0);
    if (taken) /* and answered at once */
        ck_assert_int_eq(recv(pair[1], reply, sizeof(reply), 0),
                         HANDSHAKE_NBYTES);
    else
        close(pair[0]);
    close(pair[1]);
    return taken;
}

/* At rank 1 of three, in this order; rank 2 is on another host. */
static const struct {
    uint64_t worker;
    int channel;
    bool taken;
} knocks[] = {
    {900, CHANNEL_ASK, false},                                   /* nobody */
    {900, CHANNEL_DATA, false},       {101, CHANNEL_ASK, false}, /* itself */
    {100, CHANNEL_DATA, false}, /* this rank dials it */
    {102, CHANNEL_ASK, false},        {102, CHANNEL_LOCAL, false},
    {102, CHANNEL_STRIPE, false},                                 /* of what? */
    {102, CHANNEL_DATA, true},        {102, CHANNEL_DATA, false}, /* has come */
    {102, CHANNEL_STRIPE, true},      {102, CHANNEL_STRIPE + 1, true},
    {102, CHANNEL_STRIPE + 2, false}, /* of three connections two are stripes */
    {102, CHANNEL_TRANSFER, true},    {100, CHANNEL_ASK, true},
};

START_TEST(take_only_who_is_expected)
{
    static const uint32_t hosts[] = {0, 0, 7};
    struct group g;

    group_init_hosts(&g, 3, hosts, 0, COMM_ORDINARY_MEASURED);
    g.tcp_connections = 3;
    comm_destroy(g.comms[1]);
    group_comm_create(&g, 1);
    for (size_t i = 0; i < ARRAY_SIZE(knocks); i++)
        ck_assert_msg(takes(g.comms[1], knocks[i].worker, knocks[i].channel) ==
                          knocks[i].taken,
                      "%zu", i);
    ck_assert_int_eq(comm_status(g.comms[1], NULL), HVD_OK);
    group_fini(&g);
}
END_TEST

/* With ranks on other hosts some calls go over TCP within a host as well. */
START_TEST(take_data_beside_shared_memory_no_mismatch)
{
    static const uint32_t hosts[] = {0, 0, 1};
    struct group g;

    group_init_hosts(&g, 3, hosts, COMM_CAN_ALL, COMM_ORDINARY_MEASURED);
    ck_assert(g.comms[0]->uses_local);
    ck_assert(takes(g.comms[0], 101, CHANNEL_DATA));
    ck_assert_int_eq(comm_status(g.comms[0], NULL), HVD_OK);
    group_fini(&g);
}
END_TEST

/* It has said hello and is gone: there is nobody to answer. */
START_TEST(take_local_dialer_gone_nothing_kept)
{
    int before, fd;
    struct group g;

    local_init(&g, 2, 2);
    before = count_fds();
    fd = dial_raw(&g, 0);
    say_hello(&g, fd, CHANNEL_LOCAL, memories[1].own, memories[1].n_own);
    close(fd);
    turn(&g);
    ck_assert_ptr_null(comm_link(g.comms[0], CHANNEL_LOCAL, 1));
    ck_assert_uint_eq(g.comms[0]->n_live, 0);
    ck_assert_int_eq(memories[0].n_mapped[1], 0);
    ck_assert_int_eq(count_fds(), before);
    local_fini(&g);
}
END_TEST

/* --- answers --- */

enum spoiled {
    NOTHING,
    MAGIC,
    KEY,
    ROLE,
    CHANNEL,
    JOB,
    GENERATION,
    WORKER,
    NONCE,
    SPOILED_COUNT
};

static void spoil(enum spoiled what, struct handshake *reply, uint8_t *key)
{
    if (what == KEY)
        key[0] ^= 1;
    if (what == ROLE)
        reply->role = HANDSHAKE_HELLO;
    if (what == CHANNEL)
        reply->channel = CHANNEL_DATA;
    reply->job += what == JOB;
    reply->generation += what == GENERATION;
    reply->worker += what == WORKER;
    if (what == NONCE)
        reply->in_reply[0] ^= 1;
}

static int answer_spoiled(struct group *g, int listen_fd, int file,
                          enum spoiled what)
{
    const size_t said = HANDSHAKE_NBYTES - MAC_NBYTES;
    uint8_t bytes[HANDSHAKE_NBYTES], key[COMM_KEY_NBYTES];
    struct handshake hello, reply;
    int fd = accept_hello(listen_fd, &hello);

    memcpy(key, g->key, sizeof(key));
    handshake_reply(&hello, false, key, bytes);
    ck_assert(handshake_decode(bytes, &reply));
    spoil(what, &reply, key);
    handshake_encode(&reply, group_job_key, key, bytes);
    if (what == MAGIC) {
        bytes[0] ^= 1;
        mac_compute(key, bytes, said, bytes + said);
    }
    send_flood(fd, bytes, sizeof(bytes), file, 2);
    return fd;
}

START_TEST(answer_not_authentic_lost)
{
    int listen_fd, fd, file = file_create();
    struct group g;

    local_init(&g, 2, 2);
    listen_fd = impostor(&g);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    fd = answer_spoiled(&g, listen_fd, file, (enum spoiled)_i);
    turn(&g);
    if (_i == NOTHING)
        ck_assert_int_eq(state_of(&g, 1, 0), CONNECTION_OPEN);
    else
        ck_assert(
            fails_with(&g, 1, HVD_PEER_LOST, "its handshake is not authentic"));
    ck_assert_uint_eq(comm_accused_proven(g.comms[1]), 0);
    ck_assert_int_eq(memories[1].n_mapped[0], _i == NOTHING);
    close(fd);
    close(listen_fd);
    close(file);
    local_fini(&g);
}
END_TEST

START_TEST(answer_in_pieces_accepted)
{
    enum { FIRST = 60 }; /* more than the header of a frame */
    int listen_fd, fd, file = file_create();
    uint8_t bytes[HANDSHAKE_NBYTES];
    struct handshake hello;
    struct group g;

    local_init(&g, 2, 2);
    listen_fd = impostor(&g);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    fd = accept_hello(listen_fd, &hello);
    handshake_reply(&hello, false, g.key, bytes);
    send_flood(fd, bytes, FIRST, file, 2);
    turn(&g);
    ck_assert_int_eq(comm_status(g.comms[1], NULL), HVD_OK);
    ck_assert_int_eq(state_of(&g, 1, 0), CONNECTION_GREETED);
    ck_assert_int_eq(send(fd, bytes + FIRST, sizeof(bytes) - FIRST, 0),
                     sizeof(bytes) - FIRST);
    turn(&g);
    ck_assert_int_eq(state_of(&g, 1, 0), CONNECTION_OPEN);
    close(fd);
    close(listen_fd);
    close(file);
    local_fini(&g);
}
END_TEST

/* DATA has been said: whether it was heard nobody knows. */
START_TEST(answer_is_an_end_behind_data_lost)
{
    struct frame f = {.type = FRAME_DATA};
    struct handshake hello;
    int listen_fd, fd;
    struct group g;

    local_init(&g, 2, 2);
    listen_fd = impostor(&g);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    fd = accept_hello(listen_fd, &hello);
    ck_assert(
        connection_queue(comm_link(g.comms[1], CHANNEL_LOCAL, 0), &f, NULL));
    close(fd);
    turn(&g);
    ck_assert(fails_with(&g, 1, HVD_PEER_LOST,
                         "it closed the connection unanswered"));
    ck_assert_uint_eq(g.comms[1]->n_accused, 1); /* it may not have been it */
    ck_assert_uint_eq(comm_accused_proven(g.comms[1]), 0);
    close(listen_fd);
    local_fini(&g);
}
END_TEST

/* Whoever is ahead is kept waiting by one that lives and has yet to be told:
 * for longer than the connect timeout, if need be. */
static void has_waited(struct connection *c, uint64_t us)
{
    c->dial_deadline_us -= us;
    c->greeted_us -= us;
}

START_TEST(answer_is_an_end_after_a_wait_tried_on)
{
    struct handshake hello;
    struct connection *c;
    int listen_fd, fd;
    struct group g;

    local_init(&g, 2, 2);
    listen_fd = impostor(&g);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    c = comm_link(g.comms[1], CHANNEL_LOCAL, 0);
    for (int i = 0; i < 3; i++) {
        fd = accept_hello(listen_fd, &hello);
        ck_assert_int_eq(c->state, CONNECTION_GREETED);
        has_waited(c, 15000000);
        close(fd);
        turn(&g);
        ck_assert_int_eq(comm_status(g.comms[1], NULL), HVD_OK);
        ck_assert_int_eq(c->state, CONNECTION_RETRY);
        ck_assert_int_eq(links_retry_due(g.comms[1], c->retry_us), HVD_OK);
    }
    close(listen_fd);
    local_fini(&g);
}
END_TEST

/* Nor does it prove anything when DATA was behind the hello. */
START_TEST(answer_is_an_end_behind_data_after_a_wait_proves_nothing)
{
    struct frame f = {.type = FRAME_DATA};
    struct handshake hello;
    struct connection *c;
    int listen_fd, fd;
    struct group g;

    local_init(&g, 2, 2);
    listen_fd = impostor(&g);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    fd = accept_hello(listen_fd, &hello);
    c = comm_link(g.comms[1], CHANNEL_LOCAL, 0);
    ck_assert(connection_queue(c, &f, NULL));
    has_waited(c, 15000000);
    close(fd);
    turn(&g);
    ck_assert(fails_with(&g, 1, HVD_PEER_LOST,
                         "it closed the connection unanswered"));
    ck_assert_uint_eq(comm_accused_proven(g.comms[1]), 0);
    close(listen_fd);
    local_fini(&g);
}
END_TEST

START_TEST(hellos_are_fresh)
{
    struct group g;

    local_init(&g, 3, 1);
    for (int peer = 0; peer < 2; peer++)
        ck_assert_int_eq(links_dial(g.comms[2], peer, CHANNEL_LOCAL), HVD_OK);
    ck_assert_mem_ne(comm_link(g.comms[2], CHANNEL_LOCAL, 0)->nonce,
                     comm_link(g.comms[2], CHANNEL_LOCAL, 1)->nonce,
                     HANDSHAKE_NONCE_NBYTES);
    local_fini(&g);
}
END_TEST

/* --- what poll(2) finds --- */

START_TEST(ready_to_write_writes_else_not)
{
    struct frame f = {.type = FRAME_ANNOUNCE};
    struct raw raw;
    struct group g;

    raw_connect(&g, &raw);
    ck_assert_int_eq(links_events(raw.c), POLLIN);
    ck_assert(connection_queue(raw.c, &f, NULL));
    ck_assert_int_eq(links_events(raw.c), POLLIN | POLLOUT);
    ck_assert_int_eq(links_ready(g.comms[1], raw.c, POLLIN), HVD_OK);
    ck_assert(!connection_idle(raw.c));
    ck_assert_int_eq(links_ready(g.comms[1], raw.c, POLLOUT), HVD_OK);
    ck_assert(connection_idle(raw.c));
    raw_fini(&g, &raw);
}
END_TEST

START_TEST(ready_by_any_event_end_is_heard)
{
    static const short events[] = {POLLIN, POLLRDHUP, POLLHUP, POLLERR};
    struct raw raw;
    struct group g;

    raw_connect(&g, &raw);
    raw_hang_up(&raw);
    ck_assert_int_eq(links_ready(g.comms[1], raw.c, events[_i]), HVD_PEER_LOST);
    raw_fini(&g, &raw);
}
END_TEST

/* --- refusals --- */

/* Nobody listens any more where ranks 0 and 1 of three did. */
static struct comm *nobody_listens(struct group *g, int connections)
{
    group_init_over(g, 3, 0, COMM_ORDINARY_MEASURED);
    for (int rank = 0; rank < 2; rank++)
        group_rank_destroy(g, rank);
    comm_destroy(g->comms[2]);
    g->tcp_connections = connections;
    group_comm_create(g, 2);
    return g->comms[2];
}

/* A refusal that did not come at once. */
static void settle(struct comm *comm, struct connection *c)
{
    struct pollfd pfd = {c->fd, POLLOUT, 0};

    if (c->state != CONNECTION_DIALING)
        return;
    ck_assert_int_eq(poll(&pfd, 1, 10000), 1);
    ck_assert_int_eq(links_ready(comm, c, pfd.revents), HVD_OK);
}

static struct connection *refused(struct comm *comm, int peer, int channel)
{
    struct connection *c;

    ck_assert_int_eq(links_dial(comm, peer, channel), HVD_OK);
    c = comm_link(comm, channel, peer);
    settle(comm, c);
    ck_assert_int_eq(c->state, CONNECTION_RETRY);
    return c;
}

/* Up to 50 ms, and for as long as there is time: more often than a stripe. */
START_TEST(refused_again_pauses_double)
{
    struct group g;
    struct comm *comm = nobody_listens(&g, 1);
    struct connection *c = NULL;
    uint64_t pause_us = 1000;
    bool moved;

    for (unsigned k = 1; k <= 30; k++) {
        uint64_t before_us = clock_now_us();

        if (k == 1)
            c = refused(comm, 0, CHANNEL_DATA);
        else
            ck_assert_int_eq(links_retry_due(comm, c->retry_us), HVD_OK);
        settle(comm, c);
        ck_assert_int_eq(links_read(comm, c, &moved), HVD_OK);
        ck_assert_uint_eq(c->n_retries, k);
        ck_assert_uint_ge(c->retry_us, before_us + pause_us);
        ck_assert_uint_le(c->retry_us, clock_now_us() + pause_us);
        pause_us = pause_us * 2 < 50000 ? pause_us * 2 : 50000;
    }
    group_fini(&g);
}
END_TEST

START_TEST(refused_each_is_tried_again_at_its_time)
{
    struct group g;
    struct comm *comm = nobody_listens(&g, 1);
    struct connection *a = refused(comm, 0, CHANNEL_DATA);
    struct connection *b = refused(comm, 1, CHANNEL_DATA);

    a->retry_us = 1000;
    b->retry_us = 2000;
    ck_assert_int_eq(links_retry_due(comm, 999), HVD_OK);
    ck_assert_uint_eq(a->n_retries + b->n_retries, 2);
    ck_assert_int_eq(links_retry_due(comm, 1000), HVD_OK);
    settle(comm, a);
    ck_assert_uint_eq(a->n_retries, 2);
    ck_assert_uint_eq(b->n_retries, 1);
    ck_assert_int_eq(links_retry_due(comm, 2000), HVD_OK);
    settle(comm, b);
    ck_assert_uint_eq(a->n_retries, 2);
    ck_assert_uint_eq(b->n_retries, 2);
    group_fini(&g);
}
END_TEST

START_TEST(stripe_refused_is_done_without)
{
    struct group g;
    struct comm *comm = nobody_listens(&g, 3);
    struct connection *c = refused(comm, 0, CHANNEL_STRIPE);

    ck_assert_uint_eq(c->dial_deadline_us, CLOCK_NEVER);
    for (int i = 0; c->retry_us != CLOCK_NEVER; i++) {
        ck_assert_int_lt(i, 100);
        ck_assert(!c->ended);
        ck_assert_int_eq(links_retry_due(comm, c->retry_us), HVD_OK);
        settle(comm, c);
    }
    ck_assert_uint_eq(c->n_retries, 20);
    ck_assert(c->ended && c->shut);
    ck_assert_uint_eq(links_deadline(comm), CLOCK_NEVER);
    ck_assert_int_eq(comm_status(comm, NULL), HVD_OK);
    group_fini(&g);
}
END_TEST

START_TEST(no_slot_for_a_stripe_done_without_for_data_own_failure)
{
    struct group g;
    struct comm *comm = nobody_listens(&g, 3);
    struct rlimit old = limit_fds(0);
    hvd_status_t stripe = links_dial(comm, 0, CHANNEL_STRIPE);
    hvd_status_t alive = comm_status(comm, NULL);
    hvd_status_t data = links_dial(comm, 0, CHANNEL_DATA);

    setrlimit(RLIMIT_NOFILE, &old);
    ck_assert_int_eq(stripe, HVD_OK);
    ck_assert_int_eq(alive, HVD_OK);
    ck_assert_uint_eq(comm_link(comm, CHANNEL_STRIPE, 0)->retry_us,
                      CLOCK_NEVER);
    ck_assert(comm_link(comm, CHANNEL_STRIPE, 0)->ended);
    ck_assert_int_eq(data, HVD_ERR_SYSTEM);
    ck_assert(fails_with(&g, 2, HVD_ERR_SYSTEM, "socket for rank 0: "));
    group_fini(&g);
}
END_TEST

/* --- what takes a while to connect --- */

/* To where rank 0 listens, or did, and no longer under way. */
static int connecting(struct group *g)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(g->peers[0].port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct pollfd pfd = {fd, POLLOUT, 0};
    int result, error;

    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_ge(fd, 0);
    result = connect(fd, (struct sockaddr *)&sa, sizeof(sa));
    error = errno;
    ck_assert(result == -1 && error == EINPROGRESS);
    ck_assert_int_eq(poll(&pfd, 1, 10000), 1);
    return fd;
}

START_TEST(dialling_is_refused_in_the_end)
{
    struct group g;
    struct comm *comm = nobody_listens(&g, 1);
    struct connection *c = refused(comm, 0, CHANNEL_DATA);

    c->fd = connecting(&g);
    c->state = CONNECTION_DIALING;
    ck_assert_int_eq(links_events(c), POLLOUT);
    ck_assert_int_eq(links_ready(comm, c, POLLOUT), HVD_OK);
    ck_assert_int_eq(c->state, CONNECTION_RETRY);
    ck_assert_int_eq(c->fd, -1);
    ck_assert_uint_eq(c->n_retries, 2);
    group_fini(&g);
}
END_TEST

START_TEST(dialling_is_through_in_the_end)
{
    struct connection *c;
    struct group g;

    group_init_over(&g, 2, 0, COMM_ORDINARY_MEASURED);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_DATA), HVD_OK);
    c = comm_link(g.comms[1], CHANNEL_DATA, 0);
    connection_reset(c);
    c->fd = connecting(&g);
    c->state = CONNECTION_DIALING;
    ck_assert_int_eq(links_ready(g.comms[1], c, POLLOUT), HVD_OK);
    ck_assert_int_eq(c->state, CONNECTION_GREETED);
    ck_assert_uint_eq(c->n_retries, 0);
    group_fini(&g);
}
END_TEST

START_TEST(dialling_ends_at_its_deadline)
{
    struct group g;
    struct comm *comm = nobody_listens(&g, 1);
    struct connection *c = refused(comm, 0, CHANNEL_DATA);

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    c->state = CONNECTION_DIALING;
    c->dial_deadline_us = 500;
    ck_assert_int_eq(links_retry_due(comm, 499), HVD_OK);
    ck_assert_int_eq(c->state, CONNECTION_DIALING);
    ck_assert_int_eq(links_retry_due(comm, 500), HVD_PEER_LOST);
    ck_assert(fails_with(&g, 2, HVD_PEER_LOST, "it accepts no connection"));
    ck_assert_uint_eq(comm_accused_proven(comm), 1);
    group_fini(&g);
}
END_TEST

/* Who was stopped for a minute has tried for as long as before. */
START_TEST(dialling_does_not_count_absence)
{
    enum { MINUTE_US = 60000000 };
    struct group g;
    struct comm *comm = nobody_listens(&g, 1);
    struct connection *c = refused(comm, 0, CHANNEL_DATA);
    uint64_t deadline_us = c->dial_deadline_us;

    ck_assert_int_eq(links_retry_due(comm, c->retry_us + MINUTE_US), HVD_OK);
    settle(comm, c);
    ck_assert_int_eq(c->state, CONNECTION_RETRY);
    ck_assert_uint_eq(c->dial_deadline_us, deadline_us + MINUTE_US);

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    c->state = CONNECTION_DIALING;
    c->dial_deadline_us = 500;
    ck_assert_int_eq(links_retry_due(comm, 500 + MINUTE_US), HVD_OK);
    ck_assert_int_eq(c->state, CONNECTION_DIALING);
    ck_assert_int_eq(links_retry_due(comm, 500 + MINUTE_US), HVD_PEER_LOST);
    group_fini(&g);
}
END_TEST

START_TEST(broken_stripe_is_a_loss_after_a_while)
{
    struct group g;
    struct comm *comm = nobody_listens(&g, 1);
    struct connection *c = refused(comm, 0, CHANNEL_DATA);

    c->broken_us = 5;
    ck_assert_int_eq(links_retry_due(comm, 4), HVD_OK);
    ck_assert_int_eq(links_retry_due(comm, 5), HVD_PEER_LOST);
    ck_assert(fails_with(&g, 2, HVD_PEER_LOST, "one of its connections broke"));
    group_fini(&g);
}
END_TEST

/* --- by when --- */

struct when {
    enum connection_state state;
    uint64_t retry_us, dial_us, broken_us;
};

static const struct {
    struct when a, b;
    uint64_t expected;
} whens[] = {
    {{CONNECTION_RETRY, 300, 50, 0}, {CONNECTION_RETRY, 200, 50, 0}, 200},
    {{CONNECTION_RETRY, 100, 50, 0}, {CONNECTION_RETRY, 200, 50, 0}, 100},
    {{CONNECTION_DIALING, 20, 70, 0}, {CONNECTION_RETRY, 200, 50, 0}, 70},
    {{CONNECTION_RETRY, 200, 50, 0}, {CONNECTION_DIALING, 20, 70, 0}, 70},
    {{CONNECTION_OPEN, 20, 30, 0}, {CONNECTION_RETRY, 200, 50, 0}, 200},
    {{CONNECTION_OPEN, 20, 30, 40}, {CONNECTION_RETRY, 200, 50, 0}, 40},
    {{CONNECTION_RETRY, 200, 50, 250}, {CONNECTION_OPEN, 20, 30, 0}, 200},
    {{CONNECTION_OPEN, 20, 30, 0},
     {CONNECTION_GREETED, 20, 30, 0},
     CLOCK_NEVER},
};

static void set_when(struct connection *c, const struct when *when)
{
    c->state = when->state;
    c->retry_us = when->retry_us;
    c->dial_deadline_us = when->dial_us;
    c->broken_us = when->broken_us;
}

START_TEST(deadline_is_that_of_the_first)
{
    struct group g;
    struct comm *comm = nobody_listens(&g, 1);
    struct connection *a = refused(comm, 0, CHANNEL_DATA);
    struct connection *b = refused(comm, 1, CHANNEL_DATA);

    set_when(a, &whens[_i].a);
    set_when(b, &whens[_i].b);
    ck_assert_uint_eq(links_deadline(comm), whens[_i].expected);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dial");
    TCase *tc = tcase_create("dial");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, take_only_who_is_expected);
    tcase_add_test(tc, take_data_beside_shared_memory_no_mismatch);
    tcase_add_test(tc, take_local_dialer_gone_nothing_kept);
    tcase_add_loop_test(tc, answer_not_authentic_lost, 0, SPOILED_COUNT);
    tcase_add_test(tc, answer_in_pieces_accepted);
    tcase_add_test(tc, answer_is_an_end_behind_data_lost);
    tcase_add_test(tc, answer_is_an_end_after_a_wait_tried_on);
    tcase_add_test(tc,
                   answer_is_an_end_behind_data_after_a_wait_proves_nothing);
    tcase_add_test(tc, hellos_are_fresh);
    tcase_add_test(tc, ready_to_write_writes_else_not);
    tcase_add_loop_test(tc, ready_by_any_event_end_is_heard, 0, 4);
    tcase_add_test(tc, refused_again_pauses_double);
    tcase_add_test(tc, refused_each_is_tried_again_at_its_time);
    tcase_add_test(tc, stripe_refused_is_done_without);
    tcase_add_test(tc, no_slot_for_a_stripe_done_without_for_data_own_failure);
    tcase_add_test(tc, dialling_is_refused_in_the_end);
    tcase_add_test(tc, dialling_is_through_in_the_end);
    tcase_add_test(tc, dialling_ends_at_its_deadline);
    tcase_add_test(tc, dialling_does_not_count_absence);
    tcase_add_test(tc, broken_stripe_is_a_loss_after_a_while);
    tcase_add_loop_test(tc, deadline_is_that_of_the_first, 0,
                        ARRAY_SIZE(whens));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
