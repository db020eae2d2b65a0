/* tests/collectives/test_links.c - connections of comms within a host: memory
 * is handed over by both handshakes, or its absence has a reason; goodbyes.
 *
 * No operation runs: the test turns the wheels that the engine would turn. */
#include "base/array.h"
#include "base/clock.h"
#include "local_links.h"

/* --- comms --- */

START_TEST(endpoint_forked_child_closes_all)
{
    int before = count_fds(), file = file_create(), status;
    struct group g;
    pid_t child;
    int fd;

    local_init(&g, 2, 2);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    turn(&g);
    g.generation++;
    fd = dial_raw(&g, 0);
    say_hello(&g, fd, CHANNEL_LOCAL, &file, 1); /* held */
    turn(&g);
    child = fork();
    if (child == 0) {
        endpoint_fds_close(g.endpoints[0]);
        endpoint_fds_close(g.endpoints[1]);
        close(fd);
        close(file);
        /* left: the files of two ranks, here and attached; gone: the arena */
        _exit(count_fds() == before + 8 - 1 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    local_fini(&g);
    close(fd);
    close(file);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(dial_local_both_sides_get_the_others_files)
{
    int before = count_fds();
    size_t n = (size_t)_i;
    struct group g;

    local_init(&g, 3, n);
    for (int rank = 1; rank < 3; rank++)
        for (int peer = 0; peer < rank; peer++)
            ck_assert_int_eq(links_dial(g.comms[rank], peer, CHANNEL_LOCAL),
                             HVD_OK);
    turn(&g);
    for (int rank = 0; rank < 3; rank++)
        for (int peer = 0; peer < 3; peer++) {
            if (peer == rank)
                continue;
            ck_assert_int_eq(state_of(&g, rank, peer), CONNECTION_OPEN);
            ck_assert_int_eq(memories[rank].n_mapped[peer], 1);
            for (size_t k = 0; k < n; k++) {
                int theirs = memories[rank].theirs[peer][k];

                ck_assert(same_file(theirs, memories[peer].own[k]));
                ck_assert(is_cloexec(theirs));
            }
        }
    local_fini(&g);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(dial_local_hello_of_wrong_number_refused)
{
    struct connection *c;
    struct group g;
    int open;

    local_init(&g, 2, 3);
    open = count_fds();
    unix_socket_fds_close(memories[1].own + 2, &(size_t){1});
    memories[1].n_own = 2;
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    turn(&g);
    ck_assert_ptr_null(comm_link(g.comms[0], CHANNEL_LOCAL, 1));
    ck_assert_int_eq(memories[0].n_mapped[1], 0);
    /* it may not have been our fault: tried again until the deadline */
    ck_assert_int_eq(state_of(&g, 1, 0), CONNECTION_RETRY);
    ck_assert_int_eq(count_fds(), open - 1);
    c = comm_link(g.comms[1], CHANNEL_LOCAL, 0);
    c->dial_deadline_us = 0;
    ck_assert_int_eq(links_retry_due(g.comms[1], c->retry_us), HVD_OK);
    turn(&g);
    ck_assert(fails_with(&g, 1, HVD_PEER_LOST, "it accepts no connection"));
    local_fini(&g);
}
END_TEST

static const struct {
    size_t n_fds;
    int then; /* frame type; 0: none */
    const char *words;
} replies[] = {
    {1, 0, "carries the wrong descriptors"},
    {3, 0, "carries the wrong descriptors"},
    {5, 0, "carries too many descriptors"},
    {9, FRAME_LEAVE, "carries too many descriptors"},
    {0, FRAME_ANNOUNCE, "carries no descriptors"},
    {0, FRAME_DATA, "carries no descriptors"},
};

START_TEST(dial_local_reply_of_wrong_number_lost)
{
    uint8_t more[FRAME_HEADER_NBYTES];
    int listen_fd, fd, file = file_create(), open;
    struct group g;

    local_init(&g, 2, 2);
    listen_fd = impostor(&g);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    open = count_fds();
    frame_bytes(replies[_i].then, 0, more);
    fd = answer(&g, listen_fd, file, replies[_i].n_fds, more,
                replies[_i].then == 0 ? 0 : sizeof(more));
    turn(&g);
    ck_assert(fails_with(&g, 1, HVD_PEER_LOST, replies[_i].words));
    ck_assert_int_eq(memories[1].n_mapped[0], 0);
    ck_assert_int_eq(count_fds(), open + 1);
    close(fd);
    close(listen_fd);
    close(file);
    local_fini(&g);
}
END_TEST

START_TEST(dial_local_no_slots_for_reply_own_failure)
{
    int listen_fd, fd, file = file_create();
    struct rlimit old;
    struct group g;

    local_init(&g, 2, 2);
    listen_fd = impostor(&g);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    fd = answer(&g, listen_fd, file, 2, NULL, 0);
    old = limit_fds(1);
    turn(&g);
    setrlimit(RLIMIT_NOFILE, &old);
    ck_assert(fails_with(&g, 1, HVD_ERR_SYSTEM,
                         "rank 1, descriptors from rank 0: Too many open "
                         "files"));
    ck_assert_uint_eq(g.comms[1]->n_accused, 0);
    close(fd);
    close(listen_fd);
    close(file);
    local_fini(&g);
}
END_TEST

/* No slot for its socket, or for what comes with it: the dialer tries again. */
START_TEST(take_local_no_slots_later_connected)
{
    struct connection *c;
    struct rlimit old;
    struct group g;

    local_init(&g, 2, 2);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    old = limit_fds(2);
    turn(&g);
    setrlimit(RLIMIT_NOFILE, &old);
    c = comm_link(g.comms[1], CHANNEL_LOCAL, 0);
    ck_assert_int_eq(c->state, CONNECTION_RETRY);
    ck_assert_int_eq(links_retry_due(g.comms[1], c->retry_us), HVD_OK);
    turn(&g);
    ck_assert_int_eq(c->state, CONNECTION_OPEN);
    ck_assert_int_eq(state_of(&g, 0, 1), CONNECTION_OPEN);
    local_fini(&g);
}
END_TEST

/* As another user than root, who may have any number of descriptors under way.
 */
static int dial_too_many_refs(struct group *g)
{
    struct comm *comm = g->comms[1];
    struct connection *c;
    int pair[2], fds[UNIX_FDS_MAX] = {0, 0, 0, 0};

    if (geteuid() == 0 && !become_nobody())
        return 0;  /* cannot be shown here */
    (void)!dup(0); /* in the place of the arena, which a child does not keep */
    (void)limit_fds(10);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0)
        return 1;
    while (unix_socket_send(pair[0], "x", 1, fds, UNIX_FDS_MAX)) {
    }
    if (errno != ETOOMANYREFS)
        return 2;
    if (links_dial(comm, 0, CHANNEL_LOCAL) != HVD_OK)
        return 3;
    c = comm_link(comm, CHANNEL_LOCAL, 0);
    if (c->state != CONNECTION_RETRY)
        return 4;
    c->dial_deadline_us = 0;
    if (links_retry_due(comm, c->retry_us) != HVD_ERR_SYSTEM)
        return 5;
    return fails_with(g, 1, HVD_ERR_SYSTEM, "rank 1, descriptors for rank 0: ")
               ? 0
               : 6;
}

START_TEST(dial_local_too_many_under_way_own_failure)
{
    struct group g;
    int status;
    pid_t child;

    local_init(&g, 2, 2);
    child = fork();
    if (child == 0)
        _exit(dial_too_many_refs(&g));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    local_fini(&g);
}
END_TEST

START_TEST(dial_local_map_fails_comm_fails)
{
    struct group g;

    local_init(&g, 2, 2);
    memories[_i].answer = HVD_ERR_NOMEM;
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    turn(&g);
    ck_assert(fails_with(&g, _i, HVD_ERR_NOMEM, "no room"));
    local_fini(&g);
}
END_TEST

START_TEST(dial_local_listener_absent_or_busy_tried_again)
{
    struct unix_name name;
    struct connection *c;
    int listen_fd, fds[3], n = 0;
    struct group g;

    local_init(&g, 2, 2);
    group_rank_destroy(&g, 0);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    c = comm_link(g.comms[1], CHANNEL_LOCAL, 0);
    ck_assert_int_eq(c->state, CONNECTION_RETRY);

    name = name_of(&g, 0);
    listen_fd = unix_socket_open();
    ck_assert(unix_socket_listen(listen_fd, &name, 0));
    do { /* until no more fit */
        ck_assert_int_lt(n, 3);
        fds[n] = unix_socket_open();
    } while (unix_socket_connect(fds[n++], &name));
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(links_retry_due(g.comms[1], c->retry_us), HVD_OK);
    ck_assert_int_eq(c->state, CONNECTION_RETRY);

    close(accept(listen_fd, NULL, NULL));
    ck_assert_int_eq(links_retry_due(g.comms[1], c->retry_us), HVD_OK);
    ck_assert_int_eq(c->state, CONNECTION_GREETED);
    while (n > 0)
        close(fds[--n]);
    close(listen_fd);
    local_fini(&g);
}
END_TEST

static void dial_in_vain(struct group *g, hvd_status_t status,
                         const char *words)
{
    struct connection *c;

    ck_assert_int_eq(links_dial(g->comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    c = comm_link(g->comms[1], CHANNEL_LOCAL, 0);
    c->dial_deadline_us = 0;
    ck_assert_int_eq(links_retry_due(g->comms[1], c->retry_us), status);
    ck_assert(fails_with(g, 1, status, words));
    local_fini(g);
}

START_TEST(dial_local_nobody_for_long_lost)
{
    struct group g;

    local_init(&g, 2, 1);
    group_rank_destroy(&g, 0);
    dial_in_vain(&g, HVD_PEER_LOST, "it accepts no connection");
}
END_TEST

START_TEST(dial_local_other_user_own_failure)
{
    struct group g;

    if (seteuid(65534) != 0)
        return; /* not root */
    local_init(&g, 2, 1);
    ck_assert_int_eq(seteuid(0), 0);
    dial_in_vain(&g, HVD_ERR_SYSTEM, "rank 0 is of another user than rank 1");
}
END_TEST

/* --- endings --- */

/* Rank 1 has dialled; `goer` goes. */
static void connected(struct group *g)
{
    local_init(g, 2, 2);
    ck_assert_int_eq(links_dial(g->comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    turn(g);
    ck_assert_int_eq(state_of(g, 0, 1), CONNECTION_OPEN);
    ck_assert_int_eq(state_of(g, 1, 0), CONNECTION_OPEN);
}

START_TEST(local_peer_gone_without_goodbye_lost_and_accused)
{
    int goer = _i, other = 1 - _i;
    struct group g;

    connected(&g);
    group_rank_destroy(&g, goer);
    turn(&g);
    ck_assert(fails_with(&g, other, HVD_PEER_LOST,
                         "its connection ended without a goodbye"));
    ck_assert_uint_eq(g.comms[other]->n_accused, 1);
    ck_assert_int_eq(g.comms[other]->accused[0], goer);
    ck_assert_uint_eq(comm_accused_proven(g.comms[other]), 1);
    local_fini(&g);
}
END_TEST

START_TEST(local_peer_leaves_goodbye_read)
{
    int goer = _i % 2, other = 1 - goer;
    struct group g;

    connected(&g);
    comm_leave(g.comms[goer], _i < 2 ? COMM_LEAVE_BOUNDARY : COMM_LEAVE_DONE,
               18);
    turn(&g);
    ck_assert_int_eq(comm_status(g.comms[other], NULL), HVD_OK);
    ck_assert_int_eq(state_of(&g, other, goer), CONNECTION_LEFT);
    if (_i < 2)
        ck_assert_uint_eq(
            comm_link(g.comms[other], CHANNEL_LOCAL, goer)->leave_boundary, 18);
    local_fini(&g);
}
END_TEST

START_TEST(local_peer_aborts_told)
{
    int goer = _i, other = 1 - _i;
    struct group g;

    connected(&g);
    comm_abort(g.comms[goer], HVD_PEER_LOST, "worker 9 died");
    comm_leave(g.comms[goer], COMM_LEAVE_ABORT, 0);
    turn(&g);
    ck_assert(fails_with(&g, other, HVD_PEER_LOST, "worker 9 died"));
    ck_assert_uint_eq(g.comms[other]->n_accused, 0);
    local_fini(&g);
}
END_TEST

/* The comm that would have handed over memory is gone: its goodbye is not. */
START_TEST(local_dialled_late_gets_goodbye)
{
    int before = count_fds();
    struct group g;

    local_init(&g, 2, 2);
    if (_i == 1)
        comm_abort(g.comms[0], HVD_ERR_MISMATCH, "not the same");
    comm_leave(g.comms[0], _i == 1 ? COMM_LEAVE_ABORT : COMM_LEAVE_DONE, 0);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    turn(&g);
    ck_assert_int_eq(memories[1].n_mapped[0], 0);
    if (_i == 1)
        ck_assert(fails_with(&g, 1, HVD_ERR_MISMATCH, "not the same"));
    else
        ck_assert_int_eq(state_of(&g, 1, 0), CONNECTION_LEFT);
    local_fini(&g);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* Behind a frame that nobody claims: found when the peer is gone. */
START_TEST(local_goodbye_behind_held_frame_found)
{
    uint8_t more[2 * FRAME_HEADER_NBYTES + 10] = {0};
    int listen_fd, fd, file = file_create();
    struct connection *c;
    struct group g;

    local_init(&g, 2, 1);
    listen_fd = impostor(&g);
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    frame_bytes(FRAME_DATA, 10, more);
    frame_bytes(FRAME_LEAVE, 0, more + FRAME_HEADER_NBYTES + 10);
    fd = answer(&g, listen_fd, file, 1, more, sizeof(more));
    turn(&g);
    c = comm_link(g.comms[1], CHANNEL_LOCAL, 0);
    ck_assert_int_eq(c->reading, READING_HELD);
    ck_assert_int_eq(links_events(c), POLLRDHUP);
    ck_assert_int_eq(links_ready(g.comms[1], c, POLLRDHUP), HVD_OK);
    ck_assert(!c->ended);
    shutdown(fd, SHUT_WR);
    ck_assert_int_eq(links_ready(g.comms[1], c, POLLRDHUP), HVD_OK);
    ck_assert(c->ended);
    ck_assert_int_eq(comm_status(g.comms[1], NULL), HVD_OK);
    close(fd);
    close(listen_fd);
    close(file);
    local_fini(&g);
}
END_TEST

/* --- ranks that disagree --- */

/* TCP is not instant: until both know, at most 10 s. */
static void turn_until_both_fail(struct group *g)
{
    uint64_t until_us = clock_now_us() + 10000000;
    int tries = 0;

    while (clock_now_us() < until_us && tries < 2) {
        tries = 0;
        turn(g);
        for (int rank = 0; rank < 2; rank++)
            if (comm_status(g->comms[rank], NULL) != HVD_OK) {
                (void)!comm_end(g->comms[rank]);
                tries++;
            }
    }
}

START_TEST(transports_differ_both_told)
{
    const char *words = _i == 0 ? "rank 1 uses shm, rank 0 uses tcp: "
                                  "they were told"
                                : "rank 1 uses tcp, rank 0 uses shm: "
                                  "they were told";
    int before = count_fds(), who = _i;
    struct group g;

    local_init(&g, 2, 2);
    g.comms[who]->uses_local = false;
    g.comms[who]->local_ops = NULL;
    ck_assert_int_eq(
        links_dial(g.comms[1], 0, who == 0 ? CHANNEL_LOCAL : CHANNEL_DATA),
        HVD_OK);
    turn_until_both_fail(&g);
    for (int rank = 0; rank < 2; rank++) {
        ck_assert(fails_with(&g, rank, HVD_ERR_MISMATCH, words));
        ck_assert_uint_eq(g.comms[rank]->n_accused, 0);
        ck_assert_int_eq(memories[rank].n_mapped[1 - rank], 0);
    }
    local_fini(&g);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(transports_of_other_hosts_do_not_matter)
{
    struct group g;

    local_init(&g, 2, 2);
    for (int rank = 0; rank < 2; rank++)
        g.comms[rank]->peers[1].host = 7;
    g.comms[1]->uses_local = false;
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_DATA), HVD_OK);
    for (int i = 0; i < 1000 && comm_link(g.comms[0], CHANNEL_DATA, 1) == NULL;
         i++)
        turn(&g);
    ck_assert_int_eq(comm_status(g.comms[0], NULL), HVD_OK);
    ck_assert_int_eq(comm_status(g.comms[1], NULL), HVD_OK);
    /* nor is memory taken from one */
    g.comms[1]->uses_local = true;
    ck_assert_int_eq(links_dial(g.comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    turn(&g);
    ck_assert_ptr_null(comm_link(g.comms[0], CHANNEL_LOCAL, 1));
    ck_assert_int_eq(state_of(&g, 1, 0), CONNECTION_RETRY);
    local_fini(&g);
}
END_TEST

/* --- strangers --- */

enum { STRANGERS = 200 }; /* more than may wait */

/* It speaks at once, or after it was let in. */
static int dial_among(struct group *g, bool later)
{
    int fd = dial_raw(g, 0);

    if (later)
        turn(g);
    say_hello(g, fd, CHANNEL_LOCAL, memories[1].own, memories[1].n_own);
    turn(g);
    return fd;
}

START_TEST(strangers_that_are_silent_keep_nobody_out)
{
    int before = count_fds(), fds[STRANGERS], early, fd;
    struct group g;

    local_init(&g, 2, 1);
    g.generation++;
    early = dial_among(&g, false); /* held: rank 0 is to enter that one */
    g.generation--;
    dial_silently(&g, fds, STRANGERS);
    fd = dial_among(&g, _i);
    ck_assert_ptr_nonnull(comm_link(g.comms[0], CHANNEL_LOCAL, 1));
    ck_assert(is_closed(fds[0]) && !is_closed(early));
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    close(early);
    close(fd);
    local_fini(&g);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* The process may have a few descriptors more, and they take them. */
START_TEST(strangers_that_are_silent_do_not_keep_all_descriptors)
{
    enum { FEW = 4, MORE = 20 };
    uint64_t patience_us = clock_now_us() + 20000000;
    uint8_t hello[HANDSHAKE_NBYTES];
    struct rlimit old;
    struct group g;
    int fds[MORE + 1];

    group_init_over(&g, 2, 0, COMM_ORDINARY_MEASURED);
    for (int i = 0; i <= MORE; i++) {
        fds[i] = group_dial(&g, 0);
        /* else they stay the kernel's: they say no more */
        if (i < MORE)
            ck_assert_int_eq(send(fds[i], "H", 1, 0), 1);
    }
    hello_for(&g, 1, 0, CHANNEL_DATA, hello);
    ck_assert_int_eq(send(fds[MORE], hello, sizeof(hello), 0), sizeof(hello));
    old = limit_fds(FEW);
    while (comm_link(g.comms[0], CHANNEL_DATA, 1) == NULL) {
        ck_assert_uint_lt(clock_now_us(), patience_us);
        turn_rank(&g, 0);
    }
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    ck_assert(is_closed(fds[0]));
    for (int i = 0; i <= MORE; i++)
        close(fds[i]);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("links");
    TCase *tc = tcase_create("links");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, endpoint_forked_child_closes_all);
    tcase_add_loop_test(tc, dial_local_both_sides_get_the_others_files, 0,
                        UNIX_FDS_MAX + 1);
    tcase_add_test(tc, dial_local_hello_of_wrong_number_refused);
    tcase_add_loop_test(tc, dial_local_reply_of_wrong_number_lost, 0,
                        ARRAY_SIZE(replies));
    tcase_add_test(tc, dial_local_no_slots_for_reply_own_failure);
    tcase_add_test(tc, take_local_no_slots_later_connected);
    tcase_add_test(tc, dial_local_too_many_under_way_own_failure);
    tcase_add_loop_test(tc, dial_local_map_fails_comm_fails, 0, 2);
    tcase_add_test(tc, dial_local_listener_absent_or_busy_tried_again);
    tcase_add_test(tc, dial_local_nobody_for_long_lost);
    tcase_add_test(tc, dial_local_other_user_own_failure);
    tcase_add_loop_test(tc, local_peer_gone_without_goodbye_lost_and_accused, 0,
                        2);
    tcase_add_loop_test(tc, local_peer_leaves_goodbye_read, 0, 4);
    tcase_add_loop_test(tc, local_peer_aborts_told, 0, 2);
    tcase_add_loop_test(tc, local_dialled_late_gets_goodbye, 0, 2);
    tcase_add_test(tc, local_goodbye_behind_held_frame_found);
    tcase_add_loop_test(tc, transports_differ_both_told, 0, 2);
    tcase_add_test(tc, transports_of_other_hosts_do_not_matter);
    tcase_add_loop_test(tc, strangers_that_are_silent_keep_nobody_out, 0, 2);
    tcase_add_test(tc, strangers_that_are_silent_do_not_keep_all_descriptors);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
