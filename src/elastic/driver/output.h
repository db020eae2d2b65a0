/* elastic/driver/output.h - what workers print, on its way to our stdout and
 * stderr and to files per rank.
 *
 *   bytes of a worker -> whole lines -> prefix -> stdout or stderr
 *                                   \-> DIR/rank.03/stdout, as they are
 *
 * Lines end at \n or \r (progress bars) and are prefixed as horovodrun does,
 * "[3]<stdout>:", but with the rank of now; a newcomer without one is
 * "[host:slot]<stdout>:". The beginning of a line is passed on alone if nothing
 * follows for a while (a prompt), and of a line longer than OUTPUT_LINE_MAX. If
 * other words come before the rest of it, it is ended there, and the rest
 * begins with a prefix and "...". Files have no byte but the worker's, and a
 * line about what they lack.
 *
 * Whatever takes our words may be slow, or never take them again; nobody waits
 * for it. Threads write (output_sink.h, output_files.h). Of a stream up to
 * OUTPUT_KEEP_MAX bytes are kept, beyond that the oldest lines go and one line
 * tells how many; output_takes() says when it is better not to ask for more.
 * Where there are files everything is asked for, whoever reads our streams.
 * stdout and stderr that are the same terminal, pipe or file are one stream.
 * SIGPIPE must be ignored: a reader that left is noticed by EPIPE and is told
 * of once.
 *
 * Threads: the driver's loop. Memory: per (worker, stream) the unfinished
 * line; what waits. */
#ifndef ELASTIC_DRIVER_OUTPUT_H
#define ELASTIC_DRIVER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#include "elastic/driver/last_words.h"
#include "elastic/driver/output_files.h"
#include "elastic/driver/output_sink.h"

enum { OUTPUT_LINE_MAX = 1 << 16, OUTPUT_KEEP_MAX = 4 << 20 };
enum { OUTPUT_STREAMS = 2 }; /* index 0: stdout, 1: stderr */

struct output_config {
    int out_fd, err_fd; /* 1 and 2; borrowed */
    bool timestamps;
    const char *dir;     /* exists; NULL: no files. Borrowed */
    unsigned rank_width; /* digits in rank.003: output_rank_width() */
    uint64_t hold_us;    /* how long workers may have to wait for files */
    int wake_fd;         /* an eventfd: when it is readable, output_flush() */
    /* Called before a line is put, so that a status line can move away; may be
     * NULL. */
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

/* What is known of the bytes of an output_write(). */
enum output_mark {
    OUTPUT_MORE,
    OUTPUT_SETTLED, /* nothing has followed for a while */
    OUTPUT_END      /* nothing more will come */
};

/* An unfinished line. */
struct output_line {
    char *bytes; /* [n] that were not passed on */
    size_t n, max;
    bool shown;    /* its beginning was */
    bool in_file;  /* what its file has got last is no end of a line */
    bool ended;    /* nothing more will come */
    bool after_cr; /* the last line ended at \r: a \n now belongs to it */
};

struct output_entry {
    uint64_t worker;
    struct last_line words;
    struct output_line lines[OUTPUT_STREAMS];
};

struct output {
    struct output_config config;
    struct output_entry *entries; /* [n_entries], by worker */
    size_t n_entries, entries_max;
    struct output_sink sinks[OUTPUT_STREAMS];
    unsigned n_sinks; /* 1: both streams are the first */
    struct output_files files;
    struct last_words last_words;
    char *plain; /* [n_plain] for the file of the current chunk */
    size_t n_plain, plain_max;
};

/* HVD_ERR_NOMEM, HVD_ERR_SYSTEM: only output_fini() may be called. */
hvd_status_t output_init(struct output *o,
                         const struct output_config *config) HVD_MUST_CHECK;
void output_fini(struct output *o); /* drops what still waits */

/* bytes [n] came from a worker's stdout (stream 0) or stderr (1). */
void output_write(struct output *o, const struct output_worker *who, int stream,
                  const void *bytes, size_t n, enum output_mark mark);

/* The worker is gone for good: finish its unfinished lines, forget it. */
void output_forget(struct output *o, const struct output_worker *who);

/* What this worker has said last on stderr is kept for good from now on; 0: of
 * nobody. */
void output_watch(struct output *o, uint64_t worker);

/* Into text [LAST_WORDS_MAX]; false: it is not known. */
bool output_last_words(const struct output *o, uint64_t worker, char *text);

/* A line of our own, without its end, to stderr. */
void output_say(struct output *o, const char *line);

/* The status line's bytes, to stderr. */
void output_draw(struct output *o, const char *bytes, size_t n);

/* Has our stderr taken all there was, up to the end of a line? */
bool output_is_idle(const struct output *o);

/* Is more output of workers welcome now? If not, it may be when wake_fd is
 * readable, or at output_deadline() (CLOCK_NEVER: it says so itself). */
bool output_takes(struct output *o, uint64_t now_us);
uint64_t output_deadline(const struct output *o);

/* Pass on what there is room for; tell what has gone wrong. */
void output_flush(struct output *o);

/* Wait until our streams have taken everything, timeout_ms at most; false: one
 * has not. */
bool output_drain(struct output *o, int timeout_ms);

/* At the end: the files first, each with deadlines of their own, then our
 * streams; what they lack is told. */
void output_close_files(struct output *o);
void output_close_streams(struct output *o, int timeout_ms);

/* Is it \n or \r? */
bool output_ends_line(char c);

/* How many lines end in bytes [n]; one that says how many an agent has dropped
 * is those. */
size_t output_count_lines(const char *bytes, size_t n);

/* Digits of the greatest rank among n_ranks: 1 -> 1, 10 -> 1, 11 -> 2. */
unsigned output_rank_width(uint32_t n_ranks);

#endif
