/* elastic/wire/handover.h - what an agent that was started on another machine
 * is told on its stdin: who it is, whom it belongs to, and its secrets, which
 * are never in arguments, an environment or a file.
 *
 *   hvd-agent 1
 *   HVD_DRIVER = tcp://127.0.0.1:4711
 *   HVD_OUTPUT = tcp://127.0.0.1:4712
 *   HVD_JOB = 4711
 *   HVD_AGENT = 1
 *   HVD_HOST = n1
 *   HVD_TOKEN = <64 hexadecimal digits>
 *   HVD_JOB_KEY = <64>
 *   HVD_DRIVER_KEY = <64>
 *   end
 *
 * Blank lines come before it: a start-up file of a login may read some of its
 * stdin. Names are those of env.h; one that is not known is no mistake. From
 * then on stdin is the agent's lifeline: HANDOVER_STOP on it tells the agent to
 * end, and its end that the client, the network or the driver has ended.
 *
 * Pure. Threads: any. Memory: the caller's, who overwrites it: it has held
 * secrets. */
#ifndef ELASTIC_WIRE_HANDOVER_H
#define ELASTIC_WIRE_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>

#include "elastic/wire/socket.h"

enum {
    HANDOVER_MAX = 12288, /* bytes of it */
    HANDOVER_BLANK = 8,   /* blank lines before it */
    HANDOVER_WORDS_MAX = 32,
    HANDOVER_TEXT_MAX = 128, /* of a sentence */
    HANDOVER_STOP = '!'
};

/* ---- the driver's side --------------------------------------------------- */

struct handover_word {
    const char *name, *value; /* value NULL: it is left out */
};

/* buf [HANDOVER_MAX]. Bytes of it; 0: it would be too long, or a value has a
 * character that no line can have. */
size_t handover_write(char *buf, const struct handover_word *words, size_t n,
                      const struct wire_secrets *secrets);

/* ---- the agent's side ---------------------------------------------------- */

enum handover_state {
    HANDOVER_MORE,  /* the end has not come yet */
    HANDOVER_WHOLE, /* words and secrets stand; what follows is left alone */
    HANDOVER_BAD    /* text says why */
};

struct handover { /* zeroed: nothing has come */
    char buf[HANDOVER_MAX];
    size_t n, line; /* bytes that have come; where the newest line begins */
    size_t n_lines;
    enum handover_state state;
    struct handover_word words[HANDOVER_WORDS_MAX]; /* [n_words], in buf */
    size_t n_words;
    struct wire_secrets secrets;
    unsigned have; /* which of them */
    char text[HANDOVER_TEXT_MAX];
};

/* data [nbytes] has come. */
enum handover_state handover_feed(struct handover *h, const char *data,
                                  size_t nbytes);
/* NULL: it was not said. */
const char *handover_value(const struct handover *h, const char *name);

#endif
