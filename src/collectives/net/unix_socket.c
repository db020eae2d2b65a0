/* collectives/net/unix_socket.c - see unix_socket.h. The only file that knows
 * how descriptors travel. */
#include "collectives/net/unix_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/array.h"

/* Room for exactly UNIX_FDS_MAX: the kernel fills what there is, and says when
 * there was more. */
union control {
    char bytes[CMSG_SPACE(UNIX_FDS_MAX * sizeof(int))];
    struct cmsghdr align;
};

static socklen_t address_of(const struct unix_name *name,
                            struct sockaddr_un *sa)
{
    int n;

    memset(sa, 0, sizeof(*sa));
    sa->sun_family = AF_UNIX;
    n = snprintf(sa->sun_path + 1, sizeof(sa->sun_path) - 1,
                 "hvd-%016llx-%llx-%u", (unsigned long long)name->job,
                 (unsigned long long)name->worker, name->port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

int unix_socket_open(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

bool unix_socket_listen(int fd, const struct unix_name *name, int backlog)
{
    struct sockaddr_un sa;
    socklen_t len = address_of(name, &sa);

    return bind(fd, (const struct sockaddr *)&sa, len) == 0 &&
           listen(fd, backlog) == 0;
}

bool unix_socket_trusted(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

bool unix_socket_connect(int fd, const struct unix_name *name)
{
    struct sockaddr_un sa;
    socklen_t len = address_of(name, &sa);

    if (connect(fd, (const struct sockaddr *)&sa, len) != 0)
        return false;
    /* anybody may take a name that is free: he shall not get our memory */
    if (unix_socket_trusted(fd))
        return true;
    errno = EPERM;
    return false;
}

bool unix_socket_send(int fd, const void *bytes, size_t nbytes, const int *fds,
                      size_t n_fds)
{
    union control control = {.bytes = {0}};
    struct iovec iov = {(void *)(uintptr_t)bytes, nbytes};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    struct cmsghdr *head;
    ssize_t n;

    HVD_ASSERT(n_fds <= UNIX_FDS_MAX);
    if (n_fds > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(*fds));
        head = CMSG_FIRSTHDR(&msg);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(n_fds * sizeof(*fds));
        memcpy(CMSG_DATA(head), fds, n_fds * sizeof(*fds));
    }
    do
        n = sendmsg(fd, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0 && (size_t)n < nbytes)
        errno = EAGAIN;
    return n == (ssize_t)nbytes;
}

ssize_t unix_socket_recv(int fd, void *bytes, size_t nbytes, int *fds,
                         size_t *n_fds_p)
{
    union control control;
    struct iovec iov = {bytes, nbytes};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    struct cmsghdr *head;
    size_t n_fds = 0;

    *n_fds_p = 0;
    if (n < 0)
        return n;
    head = CMSG_FIRSTHDR(&msg);
    if (head != NULL && head->cmsg_level == SOL_SOCKET &&
        head->cmsg_type == SCM_RIGHTS) {
        n_fds = (head->cmsg_len - CMSG_LEN(0)) / sizeof(*fds);
        memcpy(fds, CMSG_DATA(head), n_fds * sizeof(*fds));
    }
    if (msg.msg_flags & MSG_CTRUNC) {
        /* all the room used: there were more. Else no slot was left for one */
        bool flood = n_fds == UNIX_FDS_MAX;

        unix_socket_fds_close(fds, &n_fds);
        errno = flood ? EPROTO : EMFILE;
        return -1;
    }
    *n_fds_p = n_fds;
    return n;
}

void unix_socket_fds_close(const int *fds, size_t *n_fds_p)
{
    for (size_t i = 0; i < *n_fds_p; i++)
        close(fds[i]);
    *n_fds_p = 0;
}
