/* tests/collectives/test_goodbye.c - the last words of a comm, byte by byte:
 * behind what was queued, before the answer, to who comes late; and what is
 * heard of a peer's, in pieces, behind other frames, or cut off. */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/array.h"
#include "base/clock.h"
#include "collectives/local/impl.h"
#include "local_links.h"

enum { WORDS = 10000 };

/* What rank 1 has said, up to its end. */
static size_t drain(int fd, uint8_t *bytes, size_t max)
{
    size_t n = 0;
    ssize_t got;

    while ((got = recv(fd, bytes + n, max - n, 0)) > 0)
        n += (size_t)got;
    ck_assert_int_eq(got, 0);
    return n;
}

/* --- what is said --- */

/* What the kernel has taken of an ANNOUNCE and DATA behind it. */
static const struct {
    size_t headers, payload;
    bool stripe; /* its goodbye goes elsewhere */
} ends[] = {
    {FRAME_HEADER_NBYTES, 0, false},
    {2 * FRAME_HEADER_NBYTES, WORDS - 1, false},
    {FRAME_HEADER_NBYTES, 0, true},
};

static uint8_t payload[WORDS], heard[2 * WORDS];

static void queue_words(struct connection *c, int end)
{
    struct frame first = {.type = FRAME_ANNOUNCE};
    struct frame data = {.type = FRAME_DATA, .sequence = 7, .nbytes = WORDS};

    for (size_t i = 0; i < WORDS; i++)
        payload[i] = (uint8_t)(i * 7 + i / 251);
    ck_assert(connection_queue(c, &first, NULL));
    ck_assert(connection_queue(c, &data, payload));
    c->out_off = ends[end].headers;
    c->payload += ends[end].payload;
    c->payload_n -= ends[end].payload;
    if (ends[end].stripe)
        c->channel = CHANNEL_STRIPE;
}

/* The rest of the headers and of the payload, in `heard`. */
static size_t check_rest(int end)
{
    size_t head = 2 * FRAME_HEADER_NBYTES - ends[end].headers;
    size_t n = WORDS - ends[end].payload;
    struct frame f;

    if (head > 0) {
        ck_assert(frame_decode(heard, &f));
        ck_assert_int_eq(f.type, FRAME_DATA);
        ck_assert_uint_eq(f.sequence, 7);
        ck_assert_uint_eq(f.nbytes, WORDS);
    }
    ck_assert_mem_eq(heard + head, payload + ends[end].payload, n);
    return head + n;
}

START_TEST(leave_with_words_unsent_goodbye_behind_them)
{
    struct raw raw;
    struct group g;
    struct frame f;
    size_t n, rest;

    raw_connect(&g, &raw);
    queue_words(raw.c, _i);
    comm_leave(g.comms[1], COMM_LEAVE_BOUNDARY, 18);
    n = drain(raw.fd, heard, sizeof(heard));
    rest = check_rest(_i);
    ck_assert_uint_eq(n, rest + (ends[_i].stripe ? 0 : FRAME_HEADER_NBYTES));
    if (!ends[_i].stripe) {
        ck_assert(frame_decode(heard + rest, &f));
        ck_assert_int_eq(f.type, FRAME_LEAVE);
        ck_assert_int_eq(f.kind, FRAME_LEAVE_BOUNDARY);
        ck_assert_uint_eq(f.value, 18);
    }
    raw_fini(&g, &raw);
}
END_TEST

START_TEST(destroy_with_words_unsent_says_nothing)
{
    struct raw raw;
    struct group g;

    raw_connect(&g, &raw);
    queue_words(raw.c, 0);
    comm_destroy(g.comms[1]);
    g.comms[1] = NULL;
    ck_assert_uint_eq(drain(raw.fd, heard, sizeof(heard)), 0);
    raw_fini(&g, &raw);
}
END_TEST

START_TEST(abort_names_whom_it_accuses)
{
    struct raw raw;
    struct group g;
    struct frame f;
    size_t n;

    raw_connect(&g, &raw);
    if (_i == 1)
        comm_accuse(g.comms[1], 2, true);
    comm_abort(g.comms[1], HVD_ERR_MISMATCH, "not the same");
    comm_leave(g.comms[1], COMM_LEAVE_ABORT, 0);
    n = drain(raw.fd, heard, sizeof(heard));
    ck_assert_uint_eq(n, FRAME_HEADER_NBYTES + strlen("not the same"));
    ck_assert(frame_decode(heard, &f));
    ck_assert_int_eq(f.type, FRAME_ABORT);
    ck_assert_int_eq((int64_t)f.count, HVD_ERR_MISMATCH);
    ck_assert_int_eq(f.root, _i == 1 ? 2 : -1);
    ck_assert_uint_eq(f.nbytes, strlen("not the same"));
    ck_assert_mem_eq(heard + FRAME_HEADER_NBYTES, "not the same", f.nbytes);
    raw_fini(&g, &raw);
}
END_TEST

/* Who dialled and leaves before anybody has looked. */
START_TEST(leave_before_the_answer_goodbye_is_heard)
{
    struct group g;

    local_init(&g, 2, 2);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    ck_assert_int_eq(state_of(&g, 1, 0), CONNECTION_GREETED);
    comm_leave(g.comms[1], COMM_LEAVE_BOUNDARY, 18);
    turn(&g);
    ck_assert_int_eq(comm_status(g.comms[0], NULL), HVD_OK);
    ck_assert_int_eq(state_of(&g, 0, 1), CONNECTION_LEFT);
    ck_assert_uint_eq(comm_link(g.comms[0], CHANNEL_LOCAL, 1)->leave_boundary,
                      18);
    local_fini(&g);
}
END_TEST

/* A call behind it fails and does not change the goodbye. */
START_TEST(leave_and_call_late_dialer_hears_of_the_leave)
{
    struct group g;

    local_init(&g, 2, 2);
    comm_leave(g.comms[0], COMM_LEAVE_BOUNDARY, 18);
    ck_assert_int_eq(barrier(g.comms[0]), HVD_PEER_LOST);
    ck_assert_ptr_nonnull(strstr(error_text(), "rank 0 left at boundary 18"));
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    turn(&g);
    ck_assert_int_eq(comm_status(g.comms[1], NULL), HVD_OK);
    ck_assert_int_eq(state_of(&g, 1, 0), CONNECTION_LEFT);
    ck_assert_uint_eq(comm_link(g.comms[1], CHANNEL_LOCAL, 0)->leave_boundary,
                      18);
    local_fini(&g);
}
END_TEST

/* The longest first: the shortest does not end in what is left of it. */
START_TEST(abort_text_of_any_length_is_heard)
{
    static const size_t lengths[] = {FRAME_TEXT_MAX + 100, FRAME_TEXT_MAX, 3};

    for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
        size_t n = lengths[i] < FRAME_TEXT_MAX ? lengths[i] : FRAME_TEXT_MAX;
        char text[ERROR_TEXT_MAX] = "";
        const char *got;
        struct group g;

        memset(text, 'x', lengths[i]);
        local_init(&g, 2, 1);
        ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
        turn(&g);
        comm_abort(g.comms[0], HVD_PEER_LOST, text);
        comm_leave(g.comms[0], COMM_LEAVE_ABORT, 0);
        turn(&g);
        ck_assert_int_eq(comm_status(g.comms[1], &got), HVD_PEER_LOST);
        ck_assert_uint_eq(strlen(got), n);
        ck_assert_mem_eq(got, text, n);
        local_fini(&g);
    }
}
END_TEST

/* --- what is heard --- */

START_TEST(abort_in_pieces_is_heard_whole)
{
    uint8_t bytes[FRAME_HEADER_NBYTES + 12];
    struct frame f = {.type = FRAME_ABORT,
                      .count = (uint64_t)(int64_t)HVD_ERR_MISMATCH,
                      .nbytes = 12};
    const char *text;
    struct raw raw;
    struct group g;

    raw_connect(&g, &raw);
    frame_encode(&f, bytes);
    memcpy(bytes + FRAME_HEADER_NBYTES, "not the same", 12);
    raw_say(&raw, bytes, FRAME_HEADER_NBYTES + 5);
    turn(&g);
    ck_assert_int_eq(comm_status(g.comms[1], NULL), HVD_OK);
    raw_say(&raw, bytes + FRAME_HEADER_NBYTES + 5, 7);
    turn(&g); /* without waiting for its end */
    ck_assert_int_eq(comm_status(g.comms[1], &text), HVD_ERR_MISMATCH);
    ck_assert_str_eq(text, "not the same");
    raw_fini(&g, &raw);
}
END_TEST

START_TEST(frame_malformed_lost)
{
    struct frame cut = {.type = FRAME_DATA, .shares = 2, .nbytes = 100};
    uint8_t bytes[FRAME_HEADER_NBYTES] = {9};
    struct raw raw;
    struct group g;

    raw_connect(&g, &raw);
    if (_i == 1) /* into parts, where there are no stripes */
        frame_encode(&cut, bytes);
    raw_say(&raw, bytes, sizeof(bytes));
    turn(&g);
    ck_assert(fails_with(&g, 1, HVD_PEER_LOST, "it sent a malformed frame"));
    raw_fini(&g, &raw);
}
END_TEST

START_TEST(words_behind_a_goodbye_are_not_heard)
{
    uint8_t bytes[2 * FRAME_HEADER_NBYTES];
    struct raw raw;
    struct group g;

    raw_connect(&g, &raw);
    memset(bytes, 0xff, sizeof(bytes));
    frame_bytes(FRAME_LEAVE, 0, bytes);
    raw_say(&raw, bytes, sizeof(bytes));
    turn(&g);
    ck_assert_int_eq(comm_status(g.comms[1], NULL), HVD_OK);
    ck_assert_int_eq(raw.c->state, CONNECTION_LEFT);
    ck_assert_uint_eq(connection_buffered(raw.c), 0);
    /* it waits for our end */
    ck_assert_int_ge(raw.c->fd, 0);
    shutdown(raw.fd, SHUT_WR);
    turn(&g);
    ck_assert_int_eq(raw.c->fd, -1);
    ck_assert_int_eq(comm_status(g.comms[1], NULL), HVD_OK);
    raw_fini(&g, &raw);
}
END_TEST

/* The operation is over: what comes then belongs to the next one. */
START_TEST(goodbye_behind_an_operation_is_heard_in_the_next)
{
    uint8_t bytes[FRAME_HEADER_NBYTES];
    bool moved = false;
    struct raw raw;
    struct group g;

    raw_connect(&g, &raw);
    g.comms[1]->op.n_phases = 0;
    ck_assert_int_eq(links_read(g.comms[1], raw.c, &moved), HVD_OK);
    ck_assert(!moved);
    frame_bytes(FRAME_LEAVE, 0, bytes);
    raw_say(&raw, bytes, sizeof(bytes));
    ck_assert_int_eq(links_read(g.comms[1], raw.c, &moved), HVD_OK);
    ck_assert(moved);
    ck_assert_int_eq(raw.c->state, CONNECTION_OPEN);
    make_wait(g.comms[1]);
    moved = false;
    ck_assert_int_eq(links_read(g.comms[1], raw.c, &moved), HVD_OK);
    ck_assert(moved);
    ck_assert_int_eq(raw.c->state, CONNECTION_LEFT);
    raw_fini(&g, &raw);
}
END_TEST

/* The peer is gone when this rank writes; what it said before that counts. */
START_TEST(write_fails_last_words_are_heard)
{
    uint8_t bytes[FRAME_HEADER_NBYTES + 4] = {0};
    struct frame f = {.type = FRAME_ABORT,
                      .count = (uint64_t)(int64_t)HVD_ERR_MISMATCH,
                      .nbytes = 4};
    struct frame own = {.type = FRAME_DATA, .nbytes = WORDS};
    struct raw raw;
    struct group g;

    raw_connect(&g, &raw);
    frame_encode(&f, bytes);
    memcpy(bytes + FRAME_HEADER_NBYTES, "gone", 4);
    raw_say(&raw, bytes, sizeof(bytes));
    raw_hang_up(&raw);
    ck_assert(connection_queue(raw.c, &own, payload));
    ck_assert_int_eq(links_flush(g.comms[1], raw.c), HVD_OK);
    ck_assert(raw.c->shut && connection_idle(raw.c));
    ck_assert_int_eq(comm_status(g.comms[1], NULL), HVD_OK);
    turn(&g);
    ck_assert(fails_with(&g, 1, HVD_ERR_MISMATCH, "gone"));
    raw_fini(&g, &raw);
}
END_TEST

/* --- behind a frame that nobody claims --- */

struct said {
    int type; /* 0: nothing */
    uint32_t nbytes;
    size_t sent; /* of them */
};

#define WITHOUT "its connection ended without a goodbye"

static const struct {
    struct said behind[2];
    size_t cut; /* bytes at the end that never come */
    hvd_status_t status;
    const char *words;
} endings[] = {
    {{{FRAME_DATA, 5, 5}, {FRAME_LEAVE, 0, 0}}, 0, HVD_OK, ""},
    {{{FRAME_DATA, 5, 5}, {FRAME_ABORT, 4, 4}}, 0, HVD_ERR_MISMATCH, "xxxx"},
    {{{FRAME_ABORT, 4, 4}}, 0, HVD_ERR_MISMATCH, "xxxx"},
    {{{FRAME_ABORT, 4, 4}}, 1, HVD_PEER_LOST, WITHOUT},
    {{{9, 0, 0}, {FRAME_LEAVE, 0, 0}}, 0, HVD_PEER_LOST, WITHOUT},
    {{{FRAME_LEAVE, 0, 0}}, 1, HVD_PEER_LOST, WITHOUT},
    {{{FRAME_DATA, 5, 5}}, 0, HVD_PEER_LOST, WITHOUT},
};

static size_t put(uint8_t *at, const struct said *s)
{
    struct frame f = {.type = (uint8_t)s->type,
                      .count = (uint64_t)(int64_t)HVD_ERR_MISMATCH,
                      .nbytes = s->nbytes};

    if (s->type == 0)
        return 0;
    frame_encode(&f, at);
    memset(at + FRAME_HEADER_NBYTES, 'x', s->sent);
    return FRAME_HEADER_NBYTES + s->sent;
}

START_TEST(end_behind_a_held_frame_is_judged_by_what_is_there)
{
    uint8_t bytes[4 * FRAME_HEADER_NBYTES] = {0};
    size_t n = FRAME_HEADER_NBYTES + 10;
    struct raw raw;
    struct group g;

    raw_connect(&g, &raw);
    frame_bytes(FRAME_DATA, 10, bytes);
    for (size_t i = 0; i < 2; i++)
        n += put(bytes + n, &endings[_i].behind[i]);
    raw_say(&raw, bytes, n - endings[_i].cut);
    turn(&g);
    ck_assert_int_eq(raw.c->reading, READING_HELD);
    shutdown(raw.fd, SHUT_WR);
    ck_assert_int_eq(links_ready(g.comms[1], raw.c, POLLRDHUP),
                     endings[_i].status);
    ck_assert(fails_with(&g, 1, endings[_i].status, endings[_i].words));
    raw_fini(&g, &raw);
}
END_TEST

START_TEST(end_behind_too_much_is_lost)
{
    uint8_t bytes[FRAME_HEADER_NBYTES];
    struct raw raw;
    struct group g;

    raw_connect(&g, &raw);
    frame_bytes(FRAME_DATA, 10, bytes);
    raw_say(&raw, bytes, sizeof(bytes));
    turn(&g);
    ck_assert_int_eq(raw.c->reading, READING_HELD);
    /* as if all that may be absorbed were there */
    raw.c->in_off = 0;
    raw.c->in_n = raw.c->in_max = CONNECTION_ABSORB_MAX;
    ck_assert_int_eq(links_ready(g.comms[1], raw.c, POLLRDHUP), HVD_PEER_LOST);
    ck_assert(fails_with(&g, 1, HVD_PEER_LOST,
                         "its last frames do not fit into memory"));
    raw_fini(&g, &raw);
}
END_TEST

/* --- a peer of the same host that is gone before it has said why --- */

enum why {
    SAYS_WHY,      /* ... a moment later */
    NEVER_SAYS,    /* it is waited for, and then is lost */
    TOLD_ELSEWHERE /* the reader's own comm is aborted meanwhile */
};

enum { LEFT_COUNT = 1 << 20, PATIENCE_MAX_US = 20000000 };

/* Rank 1 has shown where its bytes are, and its mailbox says that it has left:
 * rank 0, which has read them, looks for its goodbye, and sleeps. */
struct left {
    struct group *group;
    enum why why;
    atomic_int reader; /* its thread's state: a file of /proc */
    atomic_bool read;
    uint64_t took_us;
};

static bool is_asleep(int fd)
{
    char line[64];
    ssize_t n = fd < 0 ? 0 : pread(fd, line, sizeof(line) - 1, 0);
    const char *state;

    line[n > 0 ? n : 0] = '\0';
    state = strchr(line, ')'); /* "pid (name) S ..." */
    return state != NULL && state[2] == 'S';
}

static void *tell_later(void *arg)
{
    struct left *l = arg;

    while (!atomic_load(&l->read) && !is_asleep(atomic_load(&l->reader)))
        sched_yield();
    if (l->why == SAYS_WHY)
        comm_abort(l->group->comms[1], HVD_PEER_LOST, "enough");
    else if (l->why == TOLD_ELSEWHERE)
        comm_abort(l->group->comms[0], HVD_PEER_LOST, "the driver says so");
    return NULL;
}

static bool seems_to_leave(struct group *g, int rank, struct left *l, void *buf)
{
    struct comm *comm = g->comms[rank];
    pthread_t teller;

    pthread_create(&teller, NULL, tell_later, l);
    EXPECT(broadcast(comm, buf, LEFT_COUNT, HVD_UINT8, 1) == HVD_PEER_LOST);
    pthread_join(teller, NULL);
    while (!atomic_load(&l->read)) {
        endpoint_drive(g->endpoints[rank], NULL); /* its last words go out */
        sched_yield();
    }
    return true;
}

static hvd_status_t read_of_one_that_left(struct left *l, struct comm *comm,
                                          void *buf)
{
    struct local *peer = l->group->comms[1]->local;
    uint64_t ticket = comm->local->ticket + 1, begun_us;
    hvd_status_t status;
    int fd;

    while (atomic_load(&local_card_of(peer->box, ticket)->ticket) < ticket)
        sched_yield();
    atomic_store(&peer->box->left, MAILBOX_LEFT);
    fd = open("/proc/thread-self/stat", O_RDONLY | O_CLOEXEC);
    begun_us = clock_now_us();
    atomic_store(&l->reader, fd);
    status = broadcast(comm, buf, LEFT_COUNT, HVD_UINT8, 1);
    l->took_us = clock_now_us() - begun_us;
    atomic_store(&l->read, true);
    return status;
}

static bool one_leaves(struct group *g, int rank, void *arg)
{
    static const char *const texts[] = {
        "enough", "rank 1 left while rank 0 read its memory",
        "the driver says so"};
    struct comm *comm = g->comms[rank];
    struct left *l = arg;
    const char *text;
    void *buf;

    EXPECT((buf = hvd_alloc(LEFT_COUNT)) != NULL);
    EXPECT(barrier(comm) == HVD_OK); /* they are connected */
    if (rank == 1)
        return seems_to_leave(g, rank, l, buf);
    EXPECT(read_of_one_that_left(l, comm, buf) == HVD_PEER_LOST);
    (void)!comm_status(comm, &text);
    EXPECT_SAY(strstr(text, texts[l->why]) != NULL, "%s", text);
    return true;
}

START_TEST(local_peer_that_has_left_is_asked_why)
{
    struct group g;
    struct left l = {.group = &g, .why = (enum why)_i, .reader = -1};

    group_init_over(&g, 2, COMM_CAN_ALL, COMM_ORDINARY_STAGED);
    group_run(&g, one_leaves, &l);
    group_fini(&g);
    ck_assert_uint_lt(l.took_us, PATIENCE_MAX_US);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("goodbye");
    TCase *tc = tcase_create("goodbye");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, leave_with_words_unsent_goodbye_behind_them, 0,
                        ARRAY_SIZE(ends));
    tcase_add_test(tc, destroy_with_words_unsent_says_nothing);
    tcase_add_loop_test(tc, abort_names_whom_it_accuses, 0, 2);
    tcase_add_test(tc, leave_before_the_answer_goodbye_is_heard);
    tcase_add_test(tc, leave_and_call_late_dialer_hears_of_the_leave);
    tcase_add_test(tc, abort_text_of_any_length_is_heard);
    tcase_add_test(tc, abort_in_pieces_is_heard_whole);
    tcase_add_loop_test(tc, frame_malformed_lost, 0, 2);
    tcase_add_test(tc, words_behind_a_goodbye_are_not_heard);
    tcase_add_test(tc, goodbye_behind_an_operation_is_heard_in_the_next);
    tcase_add_test(tc, write_fails_last_words_are_heard);
    tcase_add_loop_test(tc, end_behind_a_held_frame_is_judged_by_what_is_there,
                        0, ARRAY_SIZE(endings));
    tcase_add_test(tc, end_behind_too_much_is_lost);
    tcase_add_loop_test(tc, local_peer_that_has_left_is_asked_why, 0, 3);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
