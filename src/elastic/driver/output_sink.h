/* elastic/driver/output_sink.h - one of our own streams: lines that wait for a
 * descriptor that may be slow. A thread writes (base/writer.h); what it has no
 * room for yet waits here, where the oldest lines go when there are too many.
 *
 * Part of output.c. Threads: the driver's loop. */
#ifndef ELASTIC_DRIVER_OUTPUT_SINK_H
#define ELASTIC_DRIVER_OUTPUT_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#include "base/log.h"

struct output_sink {
    const char *name; /* "stdout" */
    struct writer *writer;
    char *bytes; /* [head .. n) */
    size_t head, n, max;
    size_t n_dropped; /* lines, since the last marker about it */
    int why;          /* errno when they were; 0: its reader was too slow */
    bool mid_line;    /* what the thread got last is no end of a line */
    bool closed;      /* its reader has left */
    /* output.c's: the line that it ends with has no end yet, and is this
     * worker's */
    bool open;
    int open_stream;
    uint64_t open_worker;
    bool in_trouble; /* it cannot be written just now, and that was told */
    struct log_seldom told;
};

/* fd is borrowed; wake_fd as in writer_create(). */
hvd_status_t output_sink_open(struct output_sink *s, const char *name, int fd,
                              int wake_fd) HVD_MUST_CHECK;

/* Append bytes [n]. */
void output_sink_put(struct output_sink *s, const char *bytes, size_t n);

/* Make room for n more bytes by dropping the oldest lines. If none is left,
 * none is open. */
void output_sink_make_room(struct output_sink *s, size_t n);

/* Bytes that wait here. */
size_t output_sink_waiting(const struct output_sink *s);

/* Lines that wait, here or at the thread, and those that were dropped since the
 * last marker. */
size_t output_sink_lines(const struct output_sink *s);

/* Nothing waits, here or at the thread. */
bool output_sink_is_idle(const struct output_sink *s);

/* Give the thread what it has room for. */
void output_sink_push(struct output_sink *s);

/* Has its reader left? That is told, once. Can it not be written just now, as
 * its disk is full? That is told now and then. */
void output_sink_check(struct output_sink *s);

/* Why what waits is not written: "nobody reads it", or an error. */
const char *output_sink_obstacle(const struct output_sink *s);

/* Until all of it is written, timeout_ms at most; false: not all is. */
bool output_sink_drain(struct output_sink *s, int timeout_ms);

/* What still waits is lost. */
void output_sink_close(struct output_sink *s);

#endif
