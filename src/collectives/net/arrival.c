/* collectives/net/arrival.c - see arrival.h. */
#include "collectives/net/arrival.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t read_more(struct arrival *a)
{
    uint8_t *bytes = a->hello + a->n;
    size_t rest = sizeof(a->hello) - a->n;

    /* what comes with later bytes the kernel closes */
    if (a->local && a->n == 0)
        return unix_socket_recv(a->fd, bytes, rest, a->fds, &a->n_fds);
    return recv(a->fd, bytes, rest, 0);
}

enum arrival_read arrival_read(struct arrival *a, uint64_t now_us,
                               const char **why_p)
{
    *why_p = NULL;
    while (a->n < sizeof(a->hello)) {
        ssize_t n = read_more(a);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && now_us < a->deadline_us)
            return ARRIVAL_LATER;
        if (n < 0 && errno == EMFILE)
            *why_p = strerror(errno);
        if (n < 0 && errno == EPROTO)
            *why_p = "too many";
        if (n <= 0)
            return ARRIVAL_OVER;
        a->n += (size_t)n;
    }
    return ARRIVAL_COMPLETE;
}

void arrival_close(struct arrival *a)
{
    close(a->fd);
    unix_socket_fds_close(a->fds, &a->n_fds);
}

bool delivery_add(struct delivery **inbox_p, const struct arrival *a,
                  const struct handshake *hello)
{
    struct delivery *d = malloc(sizeof(*d)), **last = inbox_p;

    if (d == NULL)
        return false;
    *d = (struct delivery){.fd = a->fd, .hello = *hello, .n_fds = a->n_fds};
    memcpy(d->fds, a->fds, sizeof(d->fds));
    while (*last != NULL)
        last = &(*last)->next;
    *last = d;
    return true;
}

void delivery_close(struct delivery *d)
{
    close(d->fd);
    unix_socket_fds_close(d->fds, &d->n_fds);
}
