/* elastic/driver/output_sink.c - one of our own streams. See output_sink.h.
 *
 * The descriptor stays blocking: its file description may be shared with the
 * shell. Instead each write follows a poll and is no longer than PIPE_BUF,
 * which a pipe or a terminal that polls writable takes at once. */
#include "elastic/driver/output_sink.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"

enum { MARKER_MAX = 96 };

static size_t waiting(const struct output_sink *s)
{
    return s->n - s->head;
}

static bool ends_line(char c)
{
    return c == '\n' || c == '\r';
}

static size_t count_lines(const char *bytes, size_t n)
{
    size_t lines = 0;

    for (size_t i = 0; i < n; i++)
        lines += ends_line(bytes[i]);
    return lines;
}

/* After the next line end at or behind `from`; s->n if there is none. */
static size_t line_end(const struct output_sink *s, size_t from)
{
    while (from < s->n)
        if (ends_line(s->bytes[from++]))
            break;
    return from;
}

/* A quarter of the buffer at once, so that a reader that never reads costs
 * little. A line that is partly written stays, in front of what is kept. */
static void drop_oldest(struct output_sink *s, size_t need)
{
    size_t from = s->mid_line ? line_end(s, s->head) : s->head;
    size_t upto = s->head + need + OUTPUT_KEEP_MAX / 4;
    size_t n_rest = from - s->head;

    upto = upto < s->n ? line_end(s, upto) : s->n;
    if (upto < from)
        upto = from;
    s->n_dropped += count_lines(s->bytes + from, upto - from);
    memmove(s->bytes + upto - n_rest, s->bytes + s->head, n_rest);
    s->head = upto - n_rest;
}

/* The marker goes where the dropped lines were: before the next whole line. */
static void tell_dropped(struct output_sink *s)
{
    char marker[MARKER_MAX];
    size_t n = (size_t)snprintf(
        marker, sizeof(marker),
        "hvd-elastic: warn: reader too slow -> %zu lines dropped\n",
        s->n_dropped);

    HVD_ASSERT(s->head >= n); /* what was dropped was longer */
    s->head -= n;
    memcpy(s->bytes + s->head, marker, n);
    s->n_dropped = 0;
}

void output_sink_make_room(struct output_sink *s, size_t n)
{
    if (waiting(s) + n > OUTPUT_KEEP_MAX)
        drop_oldest(s, waiting(s) + n - OUTPUT_KEEP_MAX);
}

void output_sink_put(struct output_sink *s, const char *bytes, size_t n)
{
    if (s->closed || n == 0)
        return;
    if (s->head > OUTPUT_KEEP_MAX / 2) {
        /* MARKER_MAX bytes stay free in front, see tell_dropped() */
        memmove(s->bytes + MARKER_MAX, s->bytes + s->head, waiting(s));
        s->n -= s->head - MARKER_MAX;
        s->head = MARKER_MAX;
    }
    if (!array_reserve(&s->bytes, &s->max, s->n + n))
        return; /* lost, as if the reader had been too slow */
    memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
}

/* How much to write at once: whole lines if possible, and nothing behind the
 * place of a marker. */
static size_t chunk(const struct output_sink *s)
{
    size_t n = s->n_dropped > 0 ? line_end(s, s->head) - s->head : waiting(s);
    size_t whole = PIPE_BUF;

    if (n <= PIPE_BUF)
        return n;
    while (whole > 0 && !ends_line(s->bytes[s->head + whole - 1]))
        whole--;
    return whole > 0 ? whole : PIPE_BUF;
}

static void leave(struct output_sink *s)
{
    int saved = errno;

    s->closed = true;
    s->head = s->n = s->n_dropped = 0;
    log_warn("output of workers: descriptor %d: %s -> no longer shown", s->fd,
             strerror(saved));
}

void output_sink_flush(struct output_sink *s)
{
    while (waiting(s) > 0) {
        struct pollfd p = {.fd = s->fd, .events = POLLOUT};
        ssize_t n;

        if (poll(&p, 1, 0) != 1)
            return;
        if (s->n_dropped > 0 && !s->mid_line)
            tell_dropped(s);
        n = write(s->fd, s->bytes + s->head, chunk(s));
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            return;
        if (n <= 0) {
            leave(s);
            return;
        }
        s->head += (size_t)n;
        s->mid_line = !ends_line(s->bytes[s->head - 1]);
    }
    s->head = s->n = 0;
}
