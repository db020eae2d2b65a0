/* elastic/driver/output_sink.c - one of our own streams. See output_sink.h. */
#include "elastic/driver/output_sink.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/writer.h"
#include "elastic/driver/output.h"

enum {
    MARKER_MAX = 128,
    PIECE_MAX = 2 * OUTPUT_LINE_MAX,  /* longer than any line with its prefix */
    WRITER_MAX = 4 * OUTPUT_LINE_MAX, /* bytes that the thread holds */
    LOST_MAX = 100000000              /* believed of a line that says so */
};

size_t output_sink_waiting(const struct output_sink *s)
{
    return s->n - s->head;
}

bool output_ends_line(char c)
{
    return c == '\n' || c == '\r';
}

/* Of an agent's own line, about N that it has dropped: the others. */
static size_t stands_for(const char *bytes, size_t n)
{
    static const char words[] = "[hvd-agent: ";
    size_t at = sizeof(words) - 1, lost = 0;

    if (n < at || memcmp(bytes, words, at) != 0)
        return 0;
    for (; at < n && bytes[at] >= '0' && bytes[at] <= '9' && lost < LOST_MAX;
         at++)
        lost = 10 * lost + (size_t)(bytes[at] - '0');
    return lost > 0 ? lost - 1 : 0;
}

size_t output_count_lines(const char *bytes, size_t n)
{
    size_t lines = 0;

    for (size_t i = 0; i < n; i++) {
        lines += output_ends_line(bytes[i]);
        if (bytes[i] == '[')
            lines += stands_for(bytes + i, n - i);
    }
    return lines;
}

size_t output_sink_lines(const struct output_sink *s)
{
    size_t n = s->n_dropped + writer_pending_lines(s->writer);

    if (output_sink_waiting(s) == 0)
        return n;
    return n + output_count_lines(s->bytes + s->head, output_sink_waiting(s));
}

/* After the next line end at or behind `from`; s->n if there is none. */
static size_t line_end(const struct output_sink *s, size_t from)
{
    while (from < s->n)
        if (output_ends_line(s->bytes[from++]))
            break;
    return from;
}

/* A quarter of the buffer at once, so that a reader that never reads costs
 * little. */
static void drop_oldest(struct output_sink *s, size_t need)
{
    size_t upto = s->head + need + OUTPUT_KEEP_MAX / 4;

    upto = upto < s->n ? line_end(s, upto) : s->n;
    s->n_dropped += output_count_lines(s->bytes + s->head, upto - s->head);
    s->n_dropped += !output_ends_line(s->bytes[upto - 1]);
    s->open &= upto < s->n;
    s->why = writer_trouble(s->writer);
    s->head = upto;
}

/* The marker goes where the dropped lines were: in front. A line that was shown
 * in part ends with "...": it counts among them. */
static void tell_dropped(struct output_sink *s)
{
    char marker[MARKER_MAX];
    size_t n = (size_t)snprintf(
        marker, sizeof(marker),
        "%shvd-elastic: warn: %.40s -> %zu lines dropped\n",
        s->mid_line ? "...\n" : "",
        s->why != 0 ? strerror(s->why) : "reader too slow", s->n_dropped);

    HVD_ASSERT(s->head >= n); /* what was dropped was longer */
    s->head -= n;
    memcpy(s->bytes + s->head, marker, n);
    s->n_dropped = 0;
}

void output_sink_make_room(struct output_sink *s, size_t n)
{
    if (output_sink_waiting(s) + n > OUTPUT_KEEP_MAX)
        drop_oldest(s, output_sink_waiting(s) + n - OUTPUT_KEEP_MAX);
}

void output_sink_put(struct output_sink *s, const char *bytes, size_t n)
{
    if (s->closed || n == 0)
        return;
    if (s->head > OUTPUT_KEEP_MAX / 2) {
        /* MARKER_MAX bytes stay free in front, see tell_dropped() */
        memmove(s->bytes + MARKER_MAX, s->bytes + s->head,
                output_sink_waiting(s));
        s->n -= s->head - MARKER_MAX;
        s->head = MARKER_MAX;
    }
    if (!array_reserve(&s->bytes, &s->max, s->n + n))
        return; /* lost, as if the reader had been too slow */
    memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
}

/* Whole lines, but for a status line, which is alone. */
static size_t piece(const struct output_sink *s)
{
    size_t n = output_sink_waiting(s);

    if (n <= PIECE_MAX)
        return n;
    for (n = PIECE_MAX; n > 0 && !output_ends_line(s->bytes[s->head + n - 1]);)
        n--;
    return n > 0 ? n : PIECE_MAX;
}

void output_sink_push(struct output_sink *s)
{
    while (output_sink_waiting(s) > 0) {
        size_t n;

        if (!writer_has_room(s->writer, PIECE_MAX + MARKER_MAX))
            return;
        if (s->n_dropped > 0)
            tell_dropped(s);
        n = piece(s);
        if (!writer_put(s->writer, s->bytes + s->head, n))
            return; /* no memory: later */
        s->head += n;
        s->mid_line = !output_ends_line(s->bytes[s->head - 1]);
    }
    if (s->n_dropped == 0) /* else a marker needs the room in front */
        s->head = s->n = 0;
}

bool output_sink_is_idle(const struct output_sink *s)
{
    return output_sink_waiting(s) == 0 && writer_pending(s->writer) == 0;
}

const char *output_sink_obstacle(const struct output_sink *s)
{
    int trouble = writer_trouble(s->writer);

    return trouble != 0 ? strerror(trouble) : "nobody reads it";
}

static void check_trouble(struct output_sink *s)
{
    int trouble = writer_trouble(s->writer);

    if (trouble != 0 && !s->in_trouble)
        log_seldom(&s->told, LOG_LEVEL_WARN,
                   "output of workers: %s: %s -> tried again, up to %d MB are "
                   "kept meanwhile",
                   s->name, strerror(trouble), OUTPUT_KEEP_MAX >> 20);
    s->in_trouble = trouble != 0;
}

void output_sink_check(struct output_sink *s)
{
    int error = s->closed ? 0 : writer_error(s->writer);

    check_trouble(s);
    if (error == 0)
        return;
    s->closed = true;
    s->head = s->n = s->n_dropped = 0;
    log_warn("output of workers: %s: %s -> no longer shown", s->name,
             strerror(error));
}

/* ---- open and close ------------------------------------------------------ */

hvd_status_t output_sink_open(struct output_sink *s, const char *name, int fd,
                              int wake_fd)
{
    *s = (struct output_sink){.name = name};
    return writer_create_fd(fd, false, WRITER_MAX, wake_fd, &s->writer);
}

bool output_sink_drain(struct output_sink *s, int timeout_ms)
{
    uint64_t now_us = clock_now_us();
    uint64_t until_us = now_us + (uint64_t)timeout_ms * 1000;

    do {
        output_sink_push(s);
        if (!writer_flush(s->writer, clock_poll_ms(now_us, until_us)))
            return false;
        now_us = clock_now_us();
    } while (output_sink_waiting(s) > 0 && now_us < until_us);
    return output_sink_waiting(s) == 0;
}

void output_sink_close(struct output_sink *s)
{
    int error;

    if (s->writer)
        writer_destroy(s->writer, 0, 0, &error);
    array_free(&s->bytes, &s->max);
    *s = (struct output_sink){0};
}
