/* collectives/net/unix_socket.h - sockets between the processes of one host,
 * and the descriptors that travel over them.
 *
 * A listener has a name in the abstract namespace, made of {job, worker, port}:
 * it appears in no directory and is gone with the process, however that ends.
 * The namespace is the network namespace's. It knows no permissions, so both
 * ends look at each other's user before anything is said.
 *
 * Everything is nonblocking and close-on-exec.
 *
 * Threads: any. Memory: the caller's. */
#ifndef COLLECTIVES_NET_UNIX_SOCKET_H
#define COLLECTIVES_NET_UNIX_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { UNIX_FDS_MAX = 4 };

struct unix_name {
    uint64_t job;
    uint64_t worker;
    uint16_t port; /* of the endpoint: a process may have several */
};

/* A descriptor, or -1 and errno. */
int unix_socket_open(void);

/* false: errno. */
bool unix_socket_listen(int fd, const struct unix_name *name, int backlog);

/* Connected at once, or false and errno: ECONNREFUSED, nobody listens; EAGAIN,
 * its queue is full; EPERM, it is another user's. */
bool unix_socket_connect(int fd, const struct unix_name *name);

/* The peer runs as this user or as root. */
bool unix_socket_trusted(int fd);

/* The first bytes on a fresh socket, with fds [n_fds <= UNIX_FDS_MAX, borrowed]
 * attached to the first of them: all, or false and errno. ETOOMANYREFS: too
 * many descriptors of this user are under way. */
bool unix_socket_send(int fd, const void *bytes, size_t nbytes, const int *fds,
                      size_t n_fds);

/* As recv(2). fds [UNIX_FDS_MAX], *n_fds_p: the descriptors that came along,
 * now the caller's. When not all of them could be had, none is kept and it
 * fails: EMFILE, this process may open no more; EPROTO, more than UNIX_FDS_MAX.
 */
ssize_t unix_socket_recv(int fd, void *bytes, size_t nbytes, int *fds,
                         size_t *n_fds_p);

/* Close fds [*n_fds_p], which becomes 0. Async-signal-safe. */
void unix_socket_fds_close(const int *fds, size_t *n_fds_p);

#endif
