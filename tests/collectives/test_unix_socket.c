/* tests/collectives/test_unix_socket.c - descriptors that travel between
 * processes, and an endpoint that listens for them: who is refused, what is
 * left behind. */
#include "base/array.h"
#include "strangers.h"

struct ends {
    int fd[2];
};

static struct ends ends_open(void)
{
    struct ends e;

    ck_assert_int_eq(socketpair(AF_UNIX,
                                SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                                e.fd),
                     0);
    return e;
}

static void ends_close(struct ends *e)
{
    close(e->fd[0]);
    close(e->fd[1]);
}

START_TEST(recv_any_number_same_files_cloexec)
{
    int before = count_fds(), fds[UNIX_FDS_MAX], got[UNIX_FDS_MAX];
    struct ends e = ends_open();
    size_t n = (size_t)_i, n_got;
    char bytes[10] = "123456789";

    for (size_t k = 0; k < n; k++)
        fds[k] = file_create();
    ck_assert(unix_socket_send(e.fd[0], bytes, sizeof(bytes), fds, n));
    ck_assert_int_eq(unix_socket_recv(e.fd[1], bytes, 4, got, &n_got), 4);
    ck_assert_uint_eq(n_got, n);
    for (size_t k = 0; k < n; k++)
        ck_assert(same_file(fds[k], got[k]) && is_cloexec(got[k]));
    unix_socket_fds_close(got, &n_got);
    ck_assert_int_eq(unix_socket_recv(e.fd[1], bytes, 10, got, &n_got), 6);
    ck_assert_uint_eq(n_got, 0);
    unix_socket_fds_close(fds, &n);
    ends_close(&e);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

START_TEST(recv_too_many_refused_none_kept)
{
    struct ends e = ends_open();
    int before = count_fds(), got[UNIX_FDS_MAX];
    size_t n_got = 7;
    char byte = 'x';

    for (size_t n = UNIX_FDS_MAX + 1; n <= 16; n++) {
        send_flood(e.fd[0], &byte, 1, e.fd[0], n);
        errno = 0;
        ck_assert_int_eq(unix_socket_recv(e.fd[1], &byte, 1, got, &n_got), -1);
        ck_assert_int_eq(errno, EPROTO);
        ck_assert_uint_eq(n_got, 0);
        ck_assert_int_eq(count_fds(), before);
    }
    ends_close(&e);
}
END_TEST

START_TEST(recv_no_slots_left_emfile_none_kept)
{
    for (int room = 0; room < 4; room++) {
        struct ends e = ends_open();
        int before = count_fds(), got[UNIX_FDS_MAX];
        struct rlimit old;
        size_t n_got;
        char byte = 'x';

        send_flood(e.fd[0], &byte, 1, e.fd[0], UNIX_FDS_MAX);
        old = limit_fds(room);
        errno = 0;
        ck_assert_int_eq(unix_socket_recv(e.fd[1], &byte, 1, got, &n_got), -1);
        ck_assert_int_eq(errno, EMFILE);
        setrlimit(RLIMIT_NOFILE, &old);
        ck_assert_uint_eq(n_got, 0);
        ck_assert_int_eq(count_fds(), before);
        ends_close(&e);
    }
}
END_TEST

START_TEST(listen_name_taken_refused_free_again_after_close)
{
    struct unix_name name = {(uint64_t)getpid() << 32, 9, 1};
    int a = unix_socket_open(), b = unix_socket_open(), c = unix_socket_open();

    ck_assert(!unix_socket_connect(c, &name));
    ck_assert_int_eq(errno, ECONNREFUSED);
    ck_assert(unix_socket_listen(a, &name, 1));
    ck_assert(!unix_socket_listen(b, &name, 1));
    ck_assert_int_eq(errno, EADDRINUSE);
    ck_assert(unix_socket_connect(c, &name));
    ck_assert(unix_socket_trusted(c));
    close(a);
    ck_assert(unix_socket_listen(b, &name, 1));
    close(b);
    close(c);
}
END_TEST

/* --- the endpoint --- */

struct taker {
    struct endpoint_user user;
    int n_taken, fd;
    size_t n_fds;
    int fds[UNIX_FDS_MAX];
};

static bool taker_take(void *arg, int fd, const struct handshake *hello,
                       const int *fds, size_t n_fds)
{
    struct taker *t = arg;

    ck_assert_int_eq(hello->channel, CHANNEL_LOCAL);
    t->n_taken++;
    t->fd = fd;
    t->n_fds = n_fds;
    memcpy(t->fds, fds, n_fds * sizeof(*fds));
    return true;
}

static void taker_fds_close(void *arg)
{
}

static void taker_init(struct taker *t, struct group *g)
{
    *t = (struct taker){.user = {.generation = g->generation,
                                 .key = g->key,
                                 .size = 2,
                                 .open = true,
                                 .arg = t,
                                 .take = taker_take,
                                 .fds_close = taker_fds_close}};
}

/* Endpoints without comms. */
static void bare_init(struct group *g)
{
    group_init(g, 2);
    for (int i = 0; i < 2; i++) {
        comm_destroy(g->comms[i]);
        g->comms[i] = NULL;
    }
}

START_TEST(endpoint_hello_held_keeps_descriptors)
{
    int before = count_fds(), files[2] = {file_create(), file_create()};
    struct group g;
    struct taker t;
    int fd;

    bare_init(&g);
    ck_assert(endpoint_has_local(g.endpoints[0]));
    fd = dial_raw(&g, 0);
    say_hello(&g, fd, CHANNEL_LOCAL, files, 2);
    /* these come with frames, nobody wants them */
    send_flood(fd, "frames", 6, files[0], 3);
    turn(&g);
    turn(&g);
    taker_init(&t, &g);
    endpoint_add_user(g.endpoints[0], &t.user);
    ck_assert_int_eq(t.n_taken, 1);
    ck_assert_uint_eq(t.n_fds, 2);
    for (int k = 0; k < 2; k++)
        ck_assert(same_file(t.fds[k], files[k]) && is_cloexec(t.fds[k]));
    unix_socket_fds_close(t.fds, &t.n_fds);
    close(t.fd);
    endpoint_remove_user(g.endpoints[0], &t.user);
    group_fini(&g);
    close(fd);
    close(files[0]);
    close(files[1]);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* What is wrong with a hello, and how many descriptors come with it. */
static const struct {
    const char *what;
    int channel, n_fds;
    bool old, garbage, late;
} refusals[] = {
    {"of another family", CHANNEL_DATA, 0, false, false, false},
    {"of another family", CHANNEL_TRANSFER, 3, false, false, false},
    {"no such channel", CHANNEL_COUNT, 3, false, false, false},
    {"below the fence", CHANNEL_LOCAL, 4, true, false, false},
    {"garbage", CHANNEL_LOCAL, 4, false, true, false},
    {"too many", CHANNEL_LOCAL, 5, false, false, false},
    {"too many", CHANNEL_LOCAL, 16, false, false, false},
};

START_TEST(endpoint_hello_refused_nothing_left)
{
    int before = count_fds(), file = file_create();
    uint8_t hello[HANDSHAKE_NBYTES];
    struct group g;
    int fd, open;

    bare_init(&g);
    fd = dial_raw(&g, 0);
    open = count_fds();
    hello_for(&g, 1, 0, refusals[_i].channel, hello);
    if (refusals[_i].old)
        endpoint_set_fence(g.endpoints[0], g.generation);
    if (refusals[_i].garbage)
        memset(hello, 'x', sizeof(hello));
    if (refusals[_i].n_fds > 0)
        send_flood(fd, hello, sizeof(hello), file, (size_t)refusals[_i].n_fds);
    else
        ck_assert(unix_socket_send(fd, hello, sizeof(hello), NULL, 0));
    turn(&g);
    ck_assert_msg(is_closed(fd), "%s", refusals[_i].what);
    ck_assert_int_eq(count_fds(), open);
    close(fd);
    group_fini(&g);
    close(file);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* Held, or half said, when its deadline passes or the endpoint goes. */
START_TEST(endpoint_hello_dropped_nothing_left)
{
    int before = count_fds(), files[2] = {file_create(), file_create()};
    uint8_t hello[HANDSHAKE_NBYTES];
    struct group g;
    int fd[2];

    bare_init(&g);
    hello_for(&g, 1, 0, CHANNEL_LOCAL, hello);
    fd[0] = dial_raw(&g, 0);
    ck_assert(unix_socket_send(fd[0], hello, sizeof(hello), files, 2));
    fd[1] = dial_raw(&g, 0);
    ck_assert(unix_socket_send(fd[1], hello, 50, files, 2));
    turn(&g);
    ck_assert(!is_closed(fd[0]) && !is_closed(fd[1]));
    if (_i == 0) { /* before its time has come */
        endpoint_set_fence(g.endpoints[0], g.generation);
        turn(&g);
        ck_assert(is_closed(fd[0]) && !is_closed(fd[1]));
    }
    group_fini(&g);
    for (int i = 0; i < 2; i++) {
        close(fd[i]);
        close(files[i]);
    }
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* The hello's descriptors come with its first byte or not at all. */
START_TEST(endpoint_descriptors_behind_first_byte_not_taken)
{
    int before = count_fds(), file = file_create();
    uint8_t hello[HANDSHAKE_NBYTES];
    struct group g;
    struct taker t;
    int fd;

    bare_init(&g);
    taker_init(&t, &g);
    endpoint_add_user(g.endpoints[0], &t.user);
    hello_for(&g, 1, 0, CHANNEL_LOCAL, hello);
    fd = dial_raw(&g, 0);
    ck_assert(unix_socket_send(fd, hello, 1, NULL, 0));
    turn(&g);
    send_flood(fd, hello + 1, sizeof(hello) - 1, file, 3);
    turn(&g);
    ck_assert_int_eq(t.n_taken, 1);
    ck_assert_uint_eq(t.n_fds, 0);
    close(t.fd);
    endpoint_remove_user(g.endpoints[0], &t.user);
    group_fini(&g);
    close(fd);
    close(file);
    ck_assert_int_eq(count_fds(), before);
}
END_TEST

/* A hello of this family belongs on the other socket. */
START_TEST(endpoint_local_hello_over_tcp_closed)
{
    struct comm_peer peer;
    struct connection *c;
    uint8_t hello[HANDSHAKE_NBYTES];
    hvd_status_t status;
    struct sockaddr_storage to;
    socklen_t len;
    struct pollfd pfd;
    struct group g;

    bare_init(&g);
    peer = g.peers[0];
    hello_for(&g, 1, 0, CHANNEL_LOCAL, hello);
    c = connection_create(0, CHANNEL_LOCAL);
    ck_assert(addresses_item(peer.addresses, 0, peer.port, &to, &len));
    ck_assert_int_ne(connection_dial(c, &to, false, hello, &status), IO_END);
    pfd = (struct pollfd){c->fd, POLLOUT, 0};
    ck_assert_int_eq(poll(&pfd, 1, 10000), 1);
    ck_assert_int_eq(connection_flush(c), IO_DONE);
    pfd.events = POLLIN;
    do
        turn(&g);
    while (poll(&pfd, 1, 1) == 0);
    ck_assert_int_eq(connection_fill(c), IO_END);
    connection_destroy(c);
    group_fini(&g);
}
END_TEST

/* A child of another user says a perfect hello. It is not listened to. */
static int other_user(struct group *g)
{
    struct unix_name name = name_of(g, 0);
    int fd = unix_socket_open(), file = memfd_create("test", MFD_CLOEXEC);
    struct pollfd pfd = {fd, POLLIN, 0};
    uint8_t hello[HANDSHAKE_NBYTES];

    hello_for(g, 1, 0, CHANNEL_LOCAL, hello);
    if (!become_nobody())
        return 0;                        /* cannot be shown here */
    if (!unix_socket_connect(fd, &name)) /* root is trusted */
        return 1;
    /* it may be closed already */
    (void)!unix_socket_send(fd, hello, sizeof(hello), &file, 1);
    return poll(&pfd, 1, 30000) == 1 && is_closed(fd) ? 0 : 2;
}

START_TEST(endpoint_hello_of_other_user_closed)
{
    struct group g;
    struct taker t;
    int status;
    pid_t child;

    bare_init(&g);
    taker_init(&t, &g);
    endpoint_add_user(g.endpoints[0], &t.user);
    child = fork();
    if (child == 0)
        _exit(other_user(&g));
    do
        turn(&g);
    while (waitpid(child, &status, WNOHANG) == 0);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(t.n_taken, 0);
    endpoint_remove_user(g.endpoints[0], &t.user);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unix_socket");
    TCase *tc = tcase_create("unix_socket");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, recv_any_number_same_files_cloexec, 0,
                        UNIX_FDS_MAX + 1);
    tcase_add_test(tc, recv_too_many_refused_none_kept);
    tcase_add_test(tc, recv_no_slots_left_emfile_none_kept);
    tcase_add_test(tc, listen_name_taken_refused_free_again_after_close);
    tcase_add_test(tc, endpoint_hello_held_keeps_descriptors);
    tcase_add_loop_test(tc, endpoint_hello_refused_nothing_left, 0,
                        ARRAY_SIZE(refusals));
    tcase_add_loop_test(tc, endpoint_hello_dropped_nothing_left, 0, 2);
    tcase_add_test(tc, endpoint_descriptors_behind_first_byte_not_taken);
    tcase_add_test(tc, endpoint_local_hello_over_tcp_closed);
    tcase_add_test(tc, endpoint_hello_of_other_user_closed);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
