/* sockets.c - see sockets.h. */
#include "sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TRANSFERS_MAX = 2048, BACKLOG = 128 };

int fake_listen(uint16_t *port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) != 0 ||
        listen(fd, BACKLOG) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
        abort();
    *port = ntohs(sa.sin_port);
    return fd;
}

int fake_dial(uint16_t port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
        return fd;
    close(fd);
    return -1;
}

static enum outcome move_some(struct transfer *t)
{
    ssize_t n = t->out
                    ? send(t->fd, t->bytes, t->n, MSG_NOSIGNAL | MSG_DONTWAIT)
                    : recv(t->fd, t->bytes, t->n, MSG_DONTWAIT);

    if (n > 0) {
        t->bytes += n;
        t->n -= (size_t)n;
        return DONE;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? DONE : DEAD;
}

enum outcome fake_move_all(struct transfer *transfers, int n,
                           atomic_bool *leave)
{
    for (;;) {
        struct pollfd pfds[TRANSFERS_MAX];
        int n_pfds = 0;

        if (atomic_load(leave))
            return LEFT;
        for (int i = 0; i < n; i++) {
            bool behind = false;

            for (int k = 0; k < i; k++)
                behind |= transfers[k].n > 0 &&
                          transfers[k].fd == transfers[i].fd &&
                          transfers[k].out == transfers[i].out;
            if (behind || transfers[i].n == 0)
                continue;
            if (move_some(&transfers[i]) == DEAD)
                return DEAD;
            if (transfers[i].n > 0)
                pfds[n_pfds++] = (struct pollfd){
                    transfers[i].fd, transfers[i].out ? POLLOUT : POLLIN, 0};
        }
        for (int i = 0; i < n; i++)
            if (transfers[i].n > 0)
                goto more;
        return DONE;
    more:
        (void)!poll(pfds, (nfds_t)n_pfds, POLL_MS);
    }
}
