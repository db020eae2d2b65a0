/* collectives/net/lingering.c - see lingering.h. */
#include "collectives/net/lingering.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"

enum {
    LINGER_US = 1000000,
    /* While the peer has not got our last words: it may be in user code, and a
     * member is waited for so long unless --elastic-timeout says else. */
    LINGER_UNHEARD_US = 600000000
};

struct lingering {
    int fd;
    uint8_t *rest; /* [n], written up to off */
    size_t off, n;
    uint64_t deadline_us, unheard_until_us;
};

static void init(struct lingering *l, int fd, uint8_t *rest, size_t nbytes,
                 uint64_t now_us)
{
    uint64_t most_us = now_us + LINGER_UNHEARD_US;

    *l = (struct lingering){fd, rest, 0, nbytes, most_us, most_us};
    if (nbytes > 0)
        return;
    (void)shutdown(fd, SHUT_WR);
    l->deadline_us = now_us + LINGER_US;
}

/* The peer has not got all of it: closed now, the rest would be thrown away,
 * and with it the goodbye. */
static bool is_unheard(const struct lingering *l)
{
    int unacknowledged = 0;

    return l->off == l->n && ioctl(l->fd, SIOCOUTQ, &unacknowledged) == 0 &&
           unacknowledged > 0;
}

static bool is_over(struct lingering *l, uint64_t now_us)
{
    if (now_us < l->deadline_us)
        return false;
    if (now_us >= l->unheard_until_us || !is_unheard(l))
        return true;
    l->deadline_us = now_us + LINGER_US;
    return false;
}

/* true: it is over. */
static bool step(struct lingering *l, uint64_t now_us)
{
    uint8_t waste[16384];
    ssize_t n;

    while (l->off < l->n) {
        n = send(l->fd, l->rest + l->off, l->n - l->off, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0 && errno != EINTR)
            return true;
        l->off += n > 0 ? (size_t)n : 0;
        if (l->off < l->n)
            continue;
        (void)shutdown(l->fd, SHUT_WR);
        l->deadline_us = now_us + LINGER_US;
    }
    for (int i = 0; i < 64; i++) {
        n = recv(l->fd, waste, sizeof(waste), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return true;
        if (n < 0 && errno == EAGAIN)
            break;
    }
    return is_over(l, now_us);
}

static void fini(struct lingering *l)
{
    close(l->fd);
    free(l->rest);
}

/* --- all of them --- */

void lingerings_fini(struct lingerings *l)
{
    for (size_t i = 0; i < l->n; i++)
        fini(&l->all[i]);
    array_free(&l->all, &l->max);
    l->n = 0;
}

void lingerings_add(struct lingerings *l, int fd, uint8_t *rest, size_t nbytes,
                    uint64_t now_us)
{
    struct lingering one;

    init(&one, fd, rest, nbytes, now_us);
    if (step(&one, now_us) || !array_reserve(&l->all, &l->max, l->n + 1)) {
        fini(&one);
        return;
    }
    l->all[l->n++] = one;
}

void lingerings_drive(struct lingerings *l, uint64_t now_us)
{
    for (size_t i = l->n; i-- > 0;)
        if (step(&l->all[i], now_us)) {
            fini(&l->all[i]);
            l->all[i] = l->all[--l->n];
        }
}

void lingerings_fill(const struct lingerings *l, struct pollfd *pfds)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct lingering *one = &l->all[i];
        short events = one->off < one->n ? POLLIN | POLLOUT : POLLIN;

        pfds[i] = (struct pollfd){one->fd, events, 0};
    }
}

uint64_t lingerings_deadline(const struct lingerings *l)
{
    uint64_t deadline_us = CLOCK_NEVER;

    for (size_t i = 0; i < l->n; i++)
        if (l->all[i].deadline_us < deadline_us)
            deadline_us = l->all[i].deadline_us;
    return deadline_us;
}

void lingerings_fds_close(const struct lingerings *l)
{
    for (size_t i = 0; i < l->n; i++)
        close(l->all[i].fd);
}
