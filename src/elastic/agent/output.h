/* elastic/agent/output.h - the output of one worker on its way to the driver:
 * two streams, cut into lines, kept until the driver grants credit.
 *
 * A line ends with \n, with \r (progress bars) or with both. Of a longer one
 * than OUTPUT_LINE_MAX the beginning may go, and so may a line to which nothing
 * is added for a while (a prompt). No byte is added or changed. When a worker's
 * lines exceed the limit, the oldest of the fuller stream are dropped, and a
 * marker line says how many.
 *
 * `stream` is an enum output_stream of the wire (OUTPUT_STDOUT, OUTPUT_STDERR).
 * No descriptors here: bytes in, messages out. Threads: none of its own.
 * Memory: grows with what is kept, limit plus one line at most per stream. */
#ifndef ELASTIC_AGENT_OUTPUT_H
#define ELASTIC_AGENT_OUTPUT_H

#include <hvd/status.h>

#include "elastic/wire/message.h"

enum {
    OUTPUT_LINE_MAX = 16 << 10,
    OUTPUT_KEEP_MAX = 4 << 20, /* bytes kept per worker */
    OUTPUT_WINDOW = 256 << 10, /* the agent's credit before any CREDIT */
    OUTPUT_STREAMS = 2
};

struct output_queue {
    char *bytes; /* [bytes_max]; head .. sent are on their way to the driver,
                    which has not taken them; sent .. tail - n_partial are lines
                    that wait */
    size_t bytes_max, head, sent, tail;
    uint64_t at, told;  /* how many were sent before those at the head; in all,
                          once or more often */
    size_t n_partial;   /* bytes of the line that has not ended yet, and are
                           kept here; one at least, until it has settled */
    uint64_t n_dropped; /* lines, since the last marker */
    char marker[96];
    bool quiet;    /* nothing was fed since the last output_settle() */
    bool settled;  /* ... nor since the one before: what there is may go */
    bool mid_line; /* what was sent last does not end a line */
    bool ended;    /* nothing more will be fed */
    bool eof_sent, eof_taken; /* the driver has been told; and knows */
};

struct output {
    uint64_t worker;
    size_t keep_max;
    struct output_queue queues[OUTPUT_STREAMS]; /* [stream - 1] */
};

void output_init(struct output *output, uint64_t worker, size_t keep_max);
void output_fini(struct output *output);

/* data [nbytes] was read from the stream. False: out of memory; the bytes are
 * lost and counted as one dropped line. */
bool output_feed(struct output *output, unsigned stream, const char *data,
                 size_t nbytes);

/* The stream has ended: what has no line end goes out as it is. */
void output_end(struct output *output, unsigned stream);

/* To be called at intervals while the stream is read. A \r at the very end
 * counts as a line's end now; the beginning of a line may go if nothing was fed
 * since the last call. */
void output_settle(struct output *output);

/* The next OUTPUT of the stream within `credit` bytes, borrowed from it until
 * the next call. False: nothing to say, or too little credit. */
bool output_next(struct output *output, unsigned stream, uint64_t credit,
                 struct msg_output *m);

/* Bytes that can be fed before lines are dropped. */
size_t output_room(const struct output *output);

/* The socket took it. */
void output_sent(struct output *output, const struct msg_output *m);

/* The driver took it. */
void output_taken(struct output *output, const struct msg_credit *m);

/* The connection is lost, perhaps with bytes on it: the next OUTPUT begins with
 * the first byte that the driver has not taken. */
void output_rewind(struct output *output);

/* Something has yet to be sent. */
bool output_waits(const struct output *output);

/* Both streams have ended and the driver knows. */
bool output_finished(const struct output *output);

/* A bit (stream - 1) for each stream of which that is not true. */
unsigned output_open(const struct output *output);

#endif
