/* elastic/driver/last_words.h - the last line that a worker has printed to
 * stderr: for the sentence about why a job failed. A line that only follows a
 * cause (words_follow(), a progress bar) gives way to the one before it.
 *
 * Those of workers whose output goes on are their entries' (output.c). Of the
 * others the newest are kept here, and those of the watched worker, which has
 * failed first.
 *
 * Threads: the driver's loop. Memory: its own, of a fixed size. */
#ifndef ELASTIC_DRIVER_LAST_WORDS_H
#define ELASTIC_DRIVER_LAST_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LAST_WORDS_MAX = 200, LAST_WORDS_KEPT = 64 };

/* Of one worker. */
struct last_line {
    uint64_t worker;
    size_t n;
    bool open;                 /* the line has no end yet */
    bool returned, redrawn;    /* a carriage return ends it; stands before it */
    char text[LAST_WORDS_MAX]; /* [n] */
    size_t n_cause;
    char cause[LAST_WORDS_MAX]; /* [n_cause]: the newest before it that does
                                   not only follow another */
};

struct last_words {
    struct last_line watched;
    struct last_line kept[LAST_WORDS_KEPT]; /* a ring */
    size_t next;
};

/* bytes [n] are a line, or the next part of one. Blank lines are no words;
 * what would disturb a terminal is '?'. */
void last_line_add(struct last_line *w, const char *bytes, size_t n);

/* Its output has ended. */
void last_words_keep(struct last_words *l, const struct last_line *w);

/* From now on those of this worker are kept for good; 0: of none. */
void last_words_watch(struct last_words *l, uint64_t worker);

/* Into text [LAST_WORDS_MAX]. False: none are known. */
bool last_words_of(const struct last_words *l, uint64_t worker, char *text);

/* words [n] as a string, into text [LAST_WORDS_MAX]; false: there are none. */
bool last_line_text(const struct last_line *w, char *text);

/* The sentence has the words already, or the part of them behind a ": ", if it
 * is half of them at least: "allreduce: recvbuf is NULL" of "train: allreduce:
 * recvbuf is NULL". */
bool last_words_are_in(const char *words, const char *sentence);

#endif
