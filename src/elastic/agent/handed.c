/* elastic/agent/handed.c - see handed.h.
 *
 * What is at the other end may be a pipe, a socket or a terminal of somebody
 * who starts hvd-agent by hand: each may say nothing for ever. */
#include "elastic/agent/handed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

enum { READ_MAX = 512, THROWN_AWAY_MAX = 64 };

/* HANDOVER_BAD: error_text(). */
static enum handover_state read_some(int fd, struct handover *h)
{
    char buf[READ_MAX];
    enum handover_state state = HANDOVER_MORE;
    ssize_t n = read(fd, buf, sizeof(buf));

    if (n > 0) {
        state = handover_feed(h, buf, (size_t)n);
        explicit_bzero(buf, sizeof(buf));
        if (state == HANDOVER_BAD)
            error_set(HVD_ERR_INVALID, "stdin: %s", h->text);
        return state;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return HANDOVER_MORE;
    if (n == 0)
        error_set(HVD_ERR_INVALID,
                  "stdin ended before all was said: hvd-agent --stdin is "
                  "started by hvd-elastic");
    else
        error_errno("cannot read stdin");
    return HANDOVER_BAD;
}

static hvd_status_t await(int fd, struct handover *h, uint64_t deadline_us)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLIN};
    enum handover_state state = HANDOVER_MORE;

    while (state == HANDOVER_MORE) {
        uint64_t now_us = clock_now_us();

        if (now_us >= deadline_us)
            return error_set(HVD_ERR_INVALID,
                             "stdin did not say all within %d s: hvd-agent "
                             "--stdin is started by hvd-elastic",
                             HANDED_MS / 1000);
        if (poll(&pollfd, 1, clock_poll_ms(now_us, deadline_us)) > 0)
            state = read_some(fd, h);
    }
    return state == HANDOVER_WHOLE ? HVD_OK : HVD_ERR_INVALID;
}

hvd_status_t handed_read(int fd, struct handover *h)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return error_errno("stdin cannot be read");
    return await(fd, h, clock_now_us() + HANDED_MS * UINT64_C(1000));
}

enum handed handed_look(int fd)
{
    char buf[READ_MAX];
    ssize_t n = 1;

    for (int i = 0; i < THROWN_AWAY_MAX && n > 0; i++) {
        n = read(fd, buf, sizeof(buf));
        if (n > 0 && memchr(buf, HANDOVER_STOP, (size_t)n))
            return HANDED_STOP;
    }
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)
               ? HANDED_ENDED
               : HANDED_NOTHING;
}
