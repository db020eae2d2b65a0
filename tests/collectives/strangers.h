/* tests/collectives/strangers.h - what tests of local connections share: files
 * that can be told apart, sockets that no comm has dialled, endpoints that turn
 * on the test's own thread. */
#ifndef TESTS_COLLECTIVES_STRANGERS_H
#define TESTS_COLLECTIVES_STRANGERS_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collectives/comm_impl.h"
#include "collectives/net/unix_socket.h"
#include "group.h"

/* --- files that are told apart --- */

static inline int file_create(void)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    return fd;
}

static inline bool same_file(int a, int b)
{
    struct stat x, y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

static inline bool is_cloexec(int fd)
{
    return (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
}

/* Leave room for `n` more descriptors in this process; returns the old limit.
 */
static inline struct rlimit limit_fds(int n)
{
    struct rlimit old, limit;
    int next = dup(0);

    ck_assert_int_ge(next, 0);
    close(next);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    limit = old;
    limit.rlim_cur = (rlim_t)(next + n);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return old;
}

/* In a forked child of root: become another user, without privileges. false:
 * not root, or that user does not exist here. */
static inline bool become_nobody(void)
{
    return geteuid() == 0 && syscall(SYS_setresuid, 65534, 65534, 65534) == 0;
}

/* --- the wheels --- */

static inline void turn_rank(struct group *g, int rank)
{
    struct comm *comm = g->comms[rank];
    bool moved;

    if (g->endpoints[rank] == NULL)
        return;
    endpoint_drive(g->endpoints[rank], NULL);
    for (size_t i = 0;
         comm != NULL && comm_life(comm) == COMM_OPEN && i < comm->n_live;
         i++) {
        struct connection *c = comm->live[i];

        if (c->state == CONNECTION_DIALING)
            (void)!links_ready(comm, c, POLLOUT);
        (void)!links_flush(comm, c);
        (void)!links_read(comm, c, &moved);
    }
}

/* Over AF_UNIX everything said is there at once. */
static inline void turn(struct group *g)
{
    for (int i = 0; i < 4; i++)
        for (int rank = 0; rank < g->size; rank++)
            turn_rank(g, rank);
}

static inline struct unix_name name_of(struct group *g, int rank)
{
    return (struct unix_name){GROUP_JOB, g->peers[rank].worker,
                              g->peers[rank].port};
}

/* --- a stranger's socket --- */

static inline int dial_raw(struct group *g, int to)
{
    struct unix_name name = name_of(g, to);
    int fd = unix_socket_open();

    ck_assert_int_ge(fd, 0);
    ck_assert(unix_socket_connect(fd, &name));
    return fd;
}

/* fds [n]: they connect to rank 0, and that is all. */
static inline void dial_silently(struct group *g, int *fds, int n)
{
    for (int i = 0; i < n; i++)
        fds[i] = dial_raw(g, 0);
    turn(g);
}

static inline void hello_for(struct group *g, int from, int to, int channel,
                             uint8_t *bytes)
{
    struct handshake h = {.role = HANDSHAKE_HELLO,
                          .channel = (uint8_t)channel,
                          .job = GROUP_JOB,
                          .generation = g->generation,
                          .worker = g->peers[from].worker,
                          .peer = g->peers[to].worker};

    handshake_encode(&h, group_job_key, g->key, bytes);
}

static inline void say_hello(struct group *g, int fd, int channel,
                             const int *fds, size_t n_fds)
{
    uint8_t hello[HANDSHAKE_NBYTES];

    hello_for(g, 1, 0, channel, hello);
    ck_assert(unix_socket_send(fd, hello, sizeof(hello), fds, n_fds));
}

static inline bool is_closed(int fd)
{
    uint8_t byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN);
}

/* More than unix_socket_send() can. */
static inline void send_flood(int fd, const void *bytes, size_t nbytes,
                              int what, size_t n)
{
    union {
        char bytes[CMSG_SPACE(16 * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec iov = {(void *)(uintptr_t)bytes, nbytes};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = CMSG_SPACE(n * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(n * sizeof(int));
    for (size_t k = 0; k < n; k++)
        memcpy(CMSG_DATA(head) + k * sizeof(int), &what, sizeof(int));
    ck_assert_int_eq(sendmsg(fd, &msg, MSG_NOSIGNAL), (ssize_t)nbytes);
}

#endif
