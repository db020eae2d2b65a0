/* tests/collectives/test_sealed.c - what somebody between two ranks can do to
 * them, and learn of them, when they encrypt: and what when they do not. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/array.h"
#include "base/clock.h"
#include "between.h"

enum { COUNT = 100000 };

static struct between between;
static uint8_t said[KEPT_MAX];

/* Ranks that encrypt, or not, with these abilities. */
static void init(struct group *g, int size, bool encrypt, unsigned abilities)
{
    memset(&between, 0, sizeof(between));
    group_init_over(g, size, abilities, COMM_ORDINARY_MEASURED);
    g->encrypt = encrypt;
    for (int i = 0; i < size; i++) {
        comm_destroy(g->comms[i]);
        group_comm_create(g, i);
    }
}

static void fini(struct group *g)
{
    group_fini(g);
    if (between.listen_fd > 0)
        between_stop(&between);
}

/* --- what is learned --- */

/* Nothing but this is in the operand, and in every byte that is sent of it. */
static const char pattern[8] = "pattern!";

static bool broadcast_pattern(struct group *g, int rank, void *arg)
{
    char *buf = malloc(COUNT * sizeof(pattern));

    for (size_t i = 0; i < COUNT; i++)
        memcpy(buf + i * sizeof(pattern), pattern, sizeof(pattern));
    EXPECT(broadcast(g->comms[rank], buf, COUNT, HVD_INT64, 1) == HVD_OK);
    EXPECT(broadcast(g->comms[rank], buf, 1, HVD_INT64, 0) == HVD_OK);
    free(buf);
    return true;
}

START_TEST(stranger_between_reads_nothing)
{
    bool encrypt = _i > 0;
    unsigned abilities = _i == 2 ? COMM_CAN_AES : 0;
    struct group g;

    init(&g, 2, encrypt, abilities);
    between_start(&between, &g);
    group_run(&g, broadcast_pattern, NULL);
    ck_assert_uint_gt(between_said(&between, FROM_DIALER, said, sizeof(said)),
                      COUNT * sizeof(pattern));
    ck_assert_int_eq(between_heard(&between, pattern, sizeof(pattern)),
                     !encrypt);
    ck_assert(!between_heard(&between, g.key, sizeof(g.key)));
    fini(&g);
}
END_TEST

/* The first rank's abilities, the second's, and what the hello says. */
static const struct {
    unsigned abilities[2];
    uint8_t flags;
} choices[] = {
    {{0, 0}, HANDSHAKE_SEALED},
    {{COMM_CAN_AES, 0}, HANDSHAKE_SEALED},
    {{0, COMM_CAN_AES}, HANDSHAKE_SEALED},
    {{COMM_CAN_AES, COMM_CAN_AES}, HANDSHAKE_SEALED | HANDSHAKE_AES},
};

START_TEST(cipher_is_what_both_have)
{
    struct handshake hello, reply;
    struct group g;

    init(&g, 2, true, 0);
    for (int i = 0; i < 2; i++) {
        g.comms[i]->peers[0].abilities = (uint8_t)choices[_i].abilities[0];
        g.comms[i]->peers[1].abilities = (uint8_t)choices[_i].abilities[1];
    }
    between_start(&between, &g);
    group_run(&g, broadcast_pattern, NULL);
    (void)between_said(&between, FROM_DIALER, said, sizeof(said));
    ck_assert(handshake_decode(said, &hello));
    (void)between_said(&between, FROM_LISTENER, said, sizeof(said));
    ck_assert(handshake_decode(said, &reply));
    if (aead_has_aes())
        ck_assert_int_eq(hello.flags, choices[_i].flags);
    ck_assert_int_eq(reply.flags, hello.flags);
    fini(&g);
}
END_TEST

/* --- what is changed --- */

struct outcome {
    hvd_status_t status[2];
    char text[2][512];
    bool wrong[2];
};

static bool reduce_damaged(struct group *g, int rank, void *arg)
{
    struct outcome *o = arg;
    float *x = malloc(COUNT * sizeof(*x));

    for (size_t i = 0; i < COUNT; i++)
        x[i] = (float)(i % 1000);
    o->status[rank] = allreduce(g->comms[rank], x, x, COUNT, HVD_FLOAT32,
                                HVD_SUM);
    snprintf(o->text[rank], sizeof(o->text[rank]), "%s",
             o->status[rank] == HVD_OK ? "" : error_text());
    for (size_t i = 0; o->status[rank] == HVD_OK && i < COUNT; i++)
        if (x[i] != (float)(i % 1000 * 2))
            o->wrong[rank] = true;
    free(x);
    return true;
}

static struct outcome damaged(bool encrypt, enum damage damage, int direction,
                              int piece)
{
    struct outcome o = {.wrong = {false, false}};
    struct group g;

    init(&g, 2, encrypt, COMM_CAN_AES);
    between.damage = damage;
    between.direction = direction;
    between.piece = piece;
    between_start(&between, &g);
    group_run(&g, reduce_damaged, &o);
    fini(&g);
    return o;
}

/* The one that gets it says why; nobody ever takes it for an answer. */
START_TEST(stranger_between_changes_peer_is_lost)
{
    enum damage damage = (enum damage)(_i % 8 + 1);
    const char *why = damage >= DAMAGE_CUT ? "ended without a goodbye"
                                           : "its data is not authentic";

    for (int piece = 0; piece < 3; piece++) {
        int direction = _i / 8, who = direction == FROM_DIALER ? 0 : 1;
        struct outcome o = damaged(true, damage, direction, piece);

        ck_assert(!o.wrong[0] && !o.wrong[1]);
        ck_assert_int_eq(o.status[who], HVD_PEER_LOST);
        ck_assert_msg(strstr(o.text[who], why) != NULL,
                      "damage %d, piece %d: %s", damage, piece, o.text[who]);
    }
}
END_TEST

/* So the cases above do what they say. */
START_TEST(without_encryption_changes_are_not_seen)
{
    ck_assert(damaged(false, DAMAGE_TEXT, FROM_DIALER, 0).wrong[0]);
    ck_assert(damaged(false, DAMAGE_TEXT, FROM_LISTENER, 0).wrong[1]);
}
END_TEST

/* --- what is sent again --- */

static void serve(struct endpoint *ep, uint64_t us)
{
    int never = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    (void)!endpoint_serve(ep, never, clock_now_us() + us);
    close(never);
}

/* All that was said to rank 0 before, by somebody else to `to`: what it answers
 * before it hangs up, at most `max`. */
static size_t say_again(struct group *g, int to, uint8_t *answer, size_t max)
{
    size_t said_n = between_said(&between, FROM_DIALER, said, sizeof(said));
    int fd = dial_port(endpoint_port(g->endpoints[to]));
    ssize_t got = -1;
    size_t n = 0;

    ck_assert_int_ge(fd, 0);
    (void)!send(fd, said, said_n, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (int i = 0; i < 400 && got != 0 && n < max; i++) {
        serve(g->endpoints[to], 5000);
        got = recv(fd, answer + n, max - n, MSG_DONTWAIT);
        n += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno == ECONNRESET)
            got = 0;
    }
    ck_assert_int_eq(got, 0); /* it has hung up */
    close(fd);
    return n;
}

static bool sum(struct group *g, int rank, void *arg)
{
    float x = 1;

    EXPECT(allreduce(g->comms[rank], &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
           HVD_OK);
    EXPECT(x == (float)g->size);
    return true;
}

enum moment {
    STILL_THERE,
    HAS_ENDED,  /* its dialer is gone */
    TO_ANOTHER, /* rank */
    LEFT,       /* the listener has */
    NEXT_GENERATION,
    N_MOMENTS
};

static void come_to(struct group *g, enum moment moment)
{
    if (moment == HAS_ENDED)
        group_rank_destroy(g, 1);
    if (moment == LEFT || moment == NEXT_GENERATION)
        for (int i = 0; i < g->size; i++)
            comm_leave(g->comms[i], COMM_LEAVE_BOUNDARY, 1);
    if (moment != NEXT_GENERATION)
        return;
    g->generation++;
    memset(g->key, 0xa5, sizeof(g->key));
    for (int i = 0; i < g->size; i++) {
        comm_destroy(g->comms[i]);
        group_comm_create(g, i);
    }
}

/* A record has come to an end in an answer that says goodbye, and no more. */
static bool is_goodbye(const struct group *g, const uint8_t *answer, size_t n)
{
    return n == HANDSHAKE_NBYTES + RECORD_EXTRA_NBYTES + FRAME_HEADER_NBYTES &&
           handshake_verify(answer, g->key);
}

START_TEST(recorded_connection_is_taken_once)
{
    static uint8_t answer[4096];
    struct group g;
    size_t n;

    init(&g, 3, true, COMM_CAN_AES);
    between_start(&between, &g);
    group_run(&g, sum, NULL);
    come_to(&g, (enum moment)_i);
    n = say_again(&g, _i == TO_ANOTHER ? 2 : 0, answer, sizeof(answer));
    if (_i == NEXT_GENERATION) /* the goodbye of the one before */
        memset(g.key, 0x5a, sizeof(g.key));
    if (_i == LEFT || _i == NEXT_GENERATION)
        ck_assert_msg(is_goodbye(&g, answer, n), "%zu bytes", n);
    else
        ck_assert_uint_eq(n, 0);
    if (_i == STILL_THERE || _i == TO_ANOTHER || _i == NEXT_GENERATION)
        group_run(&g, sum, NULL); /* they have taken no notice */
    fini(&g);
}
END_TEST

/* Two generations later nobody remembers. */
START_TEST(recorded_connection_of_long_ago_is_closed)
{
    static uint8_t answer[4096];
    struct group g;

    init(&g, 2, true, COMM_CAN_AES);
    between_start(&between, &g);
    group_run(&g, sum, NULL);
    for (int i = 0; i < 2; i++) {
        come_to(&g, NEXT_GENERATION);
        group_run(&g, sum, NULL);
    }
    come_to(&g, LEFT);
    for (int i = 0; i < 2; i++)
        endpoint_set_fence(g.endpoints[i], g.generation);
    ck_assert_uint_eq(say_again(&g, 0, answer, sizeof(answer)), 0);
    fini(&g);
}
END_TEST

/* --- who does not agree --- */

static bool disagree(struct group *g, int rank, void *arg)
{
    const char *who = arg;
    float x = 1;

    EXPECT(allreduce(g->comms[rank], &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
           HVD_ERR_MISMATCH);
    EXPECT(strstr(error_text(), who) != NULL);
    return true;
}

START_TEST(one_encrypts_mismatch_on_both)
{
    char who[80];
    struct group g;

    init(&g, 2, false, 0);
    comm_destroy(g.comms[_i]);
    g.encrypt = true;
    group_comm_create(&g, _i);
    snprintf(who, sizeof(who),
             "rank %d encrypts its data connections, rank %d does not", _i,
             1 - _i);
    group_run(&g, disagree, who);
    fini(&g);
}
END_TEST

/* The listener has left when the dialer comes. */
START_TEST(one_encrypts_late_dialer_mismatch)
{
    struct group g;
    float x = 1;

    init(&g, 2, _i == 0, 0);
    comm_destroy(g.comms[1]);
    g.encrypt = _i != 0;
    group_comm_create(&g, 1);
    comm_leave(g.comms[0], COMM_LEAVE_DONE, 0);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_DATA), HVD_OK);
    for (int i = 0; i < 20; i++)
        serve(g.endpoints[0], 1000);
    ck_assert_int_eq(allreduce(g.comms[1], &x, &x, 1, HVD_FLOAT32, HVD_SUM),
                     HVD_ERR_MISMATCH);
    fini(&g);
}
END_TEST

/* --- last words --- */

enum { MANY = 8 << 20 };

struct giving_up {
    atomic_bool begun, heard; /* rank 1 has spoken, rank 0 has read it */
};

/* Rank 1 gives up in the middle of a payload, some of it encrypted already. */
static bool give_up(struct group *g, int rank, void *arg)
{
    struct giving_up *u = arg;
    uint8_t *buf = calloc(1, MANY);
    hvd_status_t status;

    while (rank == 0 && !u->begun)
        serve(g->endpoints[0], 1000);
    status = broadcast(g->comms[rank], buf, MANY, HVD_UINT8, 1);
    u->begun = true;
    u->heard = rank == 0;
    EXPECT_SAY(status == HVD_PEER_LOST, "%d", status);
    EXPECT(strstr(error_text(), "given up") != NULL);
    while (rank == 1 && !u->heard) /* the rest goes out */
        serve(g->endpoints[1], 1000);
    free(buf);
    return true;
}

/* Once no more fits between it and a rank that does not read. */
static void *give_up_soon(void *arg)
{
    struct comm *comm = arg;
    uint64_t moves = 0;

    do {
        moves = comm_moves(comm);
        (void)poll(NULL, 0, 50);
    } while (comm_moves(comm) == 0 || comm_moves(comm) != moves);
    comm_abort(comm, HVD_PEER_LOST, "given up");
    return NULL;
}

START_TEST(abort_in_a_payload_is_read_behind_it)
{
    struct giving_up u = {false, false};
    pthread_t thread;
    struct group g;

    init(&g, 2, true, COMM_CAN_AES);
    pthread_create(&thread, NULL, give_up_soon, g.comms[1]);
    group_run(&g, give_up, &u);
    pthread_join(thread, NULL);
    fini(&g);
}
END_TEST

/* More than a connection's buffer holds, in one go, and an ABORT at its end;
 * from somebody for whom rank 0 does not wait. */
static uint8_t *long_speech(const struct group *g, size_t *n_p)
{
    enum { FRAMES = 300 };
    static const char text[] = "enough";
    struct handshake hello = {.role = HANDSHAKE_HELLO,
                              .flags = HANDSHAKE_SEALED,
                              .job = GROUP_JOB,
                              .generation = g->generation,
                              .worker = g->peers[1].worker,
                              .peer = g->peers[0].worker};
    struct frame f = {.type = FRAME_ANNOUNCE};
    struct sealed *s = sealed_dial(&hello, g->key);
    uint8_t *bytes = malloc(FRAMES * 100 + 1000), head[FRAME_HEADER_NBYTES];

    handshake_encode(&hello, group_job_key, g->key, bytes);
    *n_p = HANDSHAKE_NBYTES;
    for (int i = 0; i <= FRAMES; i++) {
        size_t head_n = sizeof(head), text_n = i < FRAMES ? 0 : sizeof(text);

        if (i == FRAMES)
            f = (struct frame){.type = FRAME_ABORT, .nbytes = sizeof(text)};
        frame_encode(&f, head);
        sealed_put(s, head, &head_n, (const uint8_t *)text, &text_n);
        memcpy(bytes + *n_p, s->out_bytes, s->out_n);
        *n_p += s->out_n;
        s->out_off = s->out_n;
    }
    sealed_destroy(s);
    return bytes;
}

static bool wait_for_the_other(struct group *g, int rank, void *arg)
{
    if (rank > 0)
        return true;
    EXPECT(barrier(g->comms[0]) == HVD_PEER_LOST);
    EXPECT(strstr(error_text(), "enough") != NULL);
    return true;
}

START_TEST(long_speech_is_heard_to_its_end)
{
    struct group g;
    uint8_t *bytes;
    size_t n;
    int fd;

    init(&g, 3, true, 0);
    bytes = long_speech(&g, &n);
    fd = dial_port(g.peers[0].port);
    ck_assert_int_eq(send(fd, bytes, n, MSG_NOSIGNAL), (ssize_t)n);
    group_run(&g, wait_for_the_other, NULL);
    close(fd);
    free(bytes);
    fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sealed");
    TCase *tc = tcase_create("sealed");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, stranger_between_reads_nothing, 0, 3);
    tcase_add_loop_test(tc, cipher_is_what_both_have, 0, ARRAY_SIZE(choices));
    tcase_add_loop_test(tc, stranger_between_changes_peer_is_lost, 0, 16);
    tcase_add_test(tc, without_encryption_changes_are_not_seen);
    tcase_add_loop_test(tc, recorded_connection_is_taken_once, 0, N_MOMENTS);
    tcase_add_test(tc, recorded_connection_of_long_ago_is_closed);
    tcase_add_loop_test(tc, one_encrypts_mismatch_on_both, 0, 2);
    tcase_add_loop_test(tc, one_encrypts_late_dialer_mismatch, 0, 2);
    tcase_add_test(tc, long_speech_is_heard_to_its_end);
    tcase_add_test(tc, abort_in_a_payload_is_read_behind_it);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
