/* tests/collectives/local_links.h - what tests of connections within a host
 * share: ranks that hand over files of the test's own, and the test itself in
 * the place of rank 0.
 *
 * No operation runs: the test turns the wheels that the engine would turn. */
#ifndef TESTS_COLLECTIVES_LOCAL_LINKS_H
#define TESTS_COLLECTIVES_LOCAL_LINKS_H

#include "strangers.h"

/* --- ranks with something to share --- */

struct memory {
    size_t n_own;
    int own[UNIX_FDS_MAX];
    int n_mapped[GROUP_MAX];
    int theirs[GROUP_MAX][UNIX_FDS_MAX];
    hvd_status_t answer;
};

static struct memory memories[GROUP_MAX];

static inline size_t memory_fds(struct comm *comm, int *fds)
{
    const struct memory *m = &memories[comm->config.rank];

    memcpy(fds, m->own, m->n_own * sizeof(*fds));
    return m->n_own;
}

static inline hvd_status_t memory_map(struct comm *comm, int peer,
                                      const int *fds, size_t n_fds)
{
    struct memory *m = &memories[comm->config.rank];

    ck_assert_uint_eq(n_fds, m->n_own);
    ck_assert_int_eq(m->n_mapped[peer]++, 0);
    memcpy(m->theirs[peer], fds, n_fds * sizeof(*fds));
    return m->answer == HVD_OK ? HVD_OK : error_set(m->answer, "no room");
}

static const struct comm_local_ops memory_ops = {memory_fds, memory_map};

/* An operation that waits for ever: else nothing is read. */
static inline void make_wait(struct comm *comm)
{
    comm->op.n_phases = 2;
}

static inline void use_local(struct group *g, int rank)
{
    g->comms[rank]->local_ops = &memory_ops;
    g->comms[rank]->uses_local = true;
}

/* Ranks that share n descriptors each. */
static inline void local_init(struct group *g, int size, size_t n)
{
    group_init(g, size);
    memset(memories, 0, sizeof(memories));
    for (int i = 0; i < size; i++) {
        make_wait(g->comms[i]);
        use_local(g, i);
        memories[i].n_own = n;
        for (size_t k = 0; k < n; k++)
            memories[i].own[k] = file_create();
    }
}

static inline void local_fini(struct group *g)
{
    group_fini(g);
    for (int i = 0; i < g->size; i++) {
        struct memory *m = &memories[i];

        unix_socket_fds_close(m->own, &m->n_own);
        for (int peer = 0; peer < g->size; peer++)
            for (int k = 0; k < UNIX_FDS_MAX && m->n_mapped[peer]; k++)
                if (m->theirs[peer][k] > 0)
                    close(m->theirs[peer][k]);
    }
}

static inline enum connection_state state_of(struct group *g, int rank,
                                             int peer)
{
    return comm_link(g->comms[rank], CHANNEL_LOCAL, peer)->state;
}

static inline bool fails_with(struct group *g, int rank, hvd_status_t status,
                              const char *words)
{
    const char *text;
    hvd_status_t is = comm_status(g->comms[rank], &text);

    if (is == status && strstr(text, words) != NULL)
        return true;
    fprintf(stderr, "rank %d: status %d: %s\n", rank, is, text);
    return false;
}

/* --- in the place of rank 0 --- */

/* Listen there, take what it is told by rank 1. */
static inline int impostor(struct group *g)
{
    struct unix_name name = name_of(g, 0);
    int fd = unix_socket_open();

    group_rank_destroy(g, 0);
    ck_assert(unix_socket_listen(fd, &name, 0));
    return fd;
}

/* What rank 1 has dialled, and its hello. */
static inline int accept_hello(int listen_fd, struct handshake *hello)
{
    uint8_t bytes[HANDSHAKE_NBYTES];
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    int got[UNIX_FDS_MAX];
    size_t n_got;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(unix_socket_recv(fd, bytes, HANDSHAKE_NBYTES, got, &n_got),
                     HANDSHAKE_NBYTES);
    unix_socket_fds_close(got, &n_got);
    ck_assert(handshake_decode(bytes, hello));
    return fd;
}

/* Answer rank 1's hello with `n` descriptors and nbytes of more behind it. */
static inline int answer(struct group *g, int listen_fd, int file, size_t n,
                         const void *more, size_t nbytes)
{
    uint8_t bytes[HANDSHAKE_NBYTES + 2 * FRAME_HEADER_NBYTES + 10];
    struct handshake hello;
    int fd = accept_hello(listen_fd, &hello);

    handshake_reply(&hello, false, g->key, bytes);
    ck_assert_uint_le(HANDSHAKE_NBYTES + nbytes, sizeof(bytes));
    if (nbytes > 0)
        memcpy(bytes + HANDSHAKE_NBYTES, more, nbytes);
    if (n > 0)
        send_flood(fd, bytes, HANDSHAKE_NBYTES + nbytes, file, n);
    else
        ck_assert(
            unix_socket_send(fd, bytes, HANDSHAKE_NBYTES + nbytes, NULL, 0));
    return fd;
}

/* Bytes of a frame without payload. */
static inline void frame_bytes(int type, uint32_t nbytes, uint8_t *out)
{
    struct frame f = {.type = (uint8_t)type, .nbytes = nbytes};

    if (type == FRAME_LEAVE)
        f.kind = FRAME_LEAVE_DONE;
    frame_encode(&f, out);
}

/* Rank 1, and what the test has of its connection with "rank 0". */
struct raw {
    int listen_fd, file, fd;
    struct connection *c;
};

static inline void raw_connect(struct group *g, struct raw *raw)
{
    local_init(g, 2, 1);
    raw->file = file_create();
    raw->listen_fd = impostor(g);
    ck_assert_int_eq(links_dial(g->comms[1], 0, CHANNEL_LOCAL), HVD_OK);
    raw->fd = answer(g, raw->listen_fd, raw->file, 1, NULL, 0);
    turn(g);
    raw->c = comm_link(g->comms[1], CHANNEL_LOCAL, 0);
    ck_assert_int_eq(raw->c->state, CONNECTION_OPEN);
}

static inline void raw_say(const struct raw *raw, const void *bytes,
                           size_t nbytes)
{
    ck_assert_int_eq(send(raw->fd, bytes, nbytes, MSG_NOSIGNAL),
                     (ssize_t)nbytes);
}

static inline void raw_hang_up(struct raw *raw)
{
    close(raw->fd);
    raw->fd = -1;
}

static inline void raw_fini(struct group *g, struct raw *raw)
{
    if (raw->fd >= 0)
        close(raw->fd);
    close(raw->listen_fd);
    close(raw->file);
    local_fini(g);
}

#endif
