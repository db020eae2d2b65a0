/* elastic/driver/output.h - what workers print, on its way to our stdout and
 * stderr and to files per rank.
 *
 *   bytes of a worker -> whole lines -> prefix -> buffer -> stdout or stderr
 *                                   \-> DIR/rank.03/stdout, without prefix
 *
 * Lines end at \n or \r (progress bars) and are prefixed as horovodrun does,
 * "[3]<stdout>:", but with the rank of now; a newcomer without one is
 * "[host:slot]<stdout>:". A line longer than OUTPUT_LINE_MAX is broken there.
 *
 * A slow reader of our stdout never delays the driver: a write happens only
 * when poll says that it will not wait; the rest is kept, up to OUTPUT_KEEP_MAX
 * per stream, beyond that the oldest lines go and one line tells how many.
 * Files get everything. SIGPIPE must be ignored: a reader that left is noticed
 * by EPIPE and is told of once.
 *
 * Threads: the driver's loop. Memory: per (worker, stream) the unfinished
 * line. */
#ifndef ELASTIC_DRIVER_OUTPUT_H
#define ELASTIC_DRIVER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OUTPUT_LINE_MAX = 1 << 16, OUTPUT_KEEP_MAX = 4 << 20 };
enum { OUTPUT_STREAMS = 2 }; /* index 0: stdout, 1: stderr */

struct output_config {
    int out_fd, err_fd; /* 1 and 2; borrowed */
    bool timestamps;
    const char *dir;     /* exists; NULL: no files. Borrowed */
    unsigned rank_width; /* digits in rank.003: output_rank_width() */
    /* Called before something is written to out_fd or err_fd, so that a status
     * line can move away; may be NULL. */
    void (*before_write)(void *arg);
    void *before_write_arg;
};

/* Who prints: as of now. */
struct output_worker {
    uint64_t worker;
    int rank; /* -1: none yet */
    const char *host;
    uint32_t slot;
};

/* An unfinished line. */
struct output_line {
    char *bytes;
    size_t n, max;
    bool ended;    /* nothing more will come */
    bool after_cr; /* the last line ended at \r: a \n now belongs to it */
};

struct output_entry {
    uint64_t worker;
    struct output_line lines[OUTPUT_STREAMS];
};

/* Bytes that wait for one of our own streams: bytes [head .. n). */
struct output_sink {
    int fd;
    char *bytes;
    size_t head, n, max;
    size_t n_dropped; /* lines, since the last marker about it */
    bool mid_line;    /* the first waiting line is partly written */
    bool closed;      /* its reader has left */
};

struct output {
    struct output_config config;
    struct output_entry *entries; /* [n_entries], by worker */
    size_t n_entries, entries_max;
    struct output_sink sinks[OUTPUT_STREAMS];
    bool file_warned;
};

void output_init(struct output *o, const struct output_config *config);
void output_fini(struct output *o); /* drops what still waits */

/* bytes [n] came from a worker's stdout (stream 0) or stderr (1). eof: nothing
 * more will come; an unfinished line is finished. Never blocks for long. */
void output_write(struct output *o, const struct output_worker *who, int stream,
                  const void *bytes, size_t n, bool eof);

/* The worker is gone for good: finish its unfinished lines, forget it. */
void output_forget(struct output *o, const struct output_worker *who);

/* Bytes that wait for our stream; > 0: wait for POLLOUT on its fd, then
 * output_flush(). */
size_t output_pending(const struct output *o, int stream);
void output_flush(struct output *o);

/* At the end: flush for timeout_ms at most. */
void output_drain(struct output *o, int timeout_ms);

/* Digits of the greatest rank among n_ranks: 1 -> 1, 10 -> 1, 11 -> 2. */
unsigned output_rank_width(uint32_t n_ranks);

#endif
