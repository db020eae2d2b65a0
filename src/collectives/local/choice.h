/* collectives/local/choice.h - which of some ways is fastest, by trying: in
 * rounds, one way twice and then the next, of which the second call counts (the
 * first finds the caches as another way has left them). The first calls are
 * rounds one after the other; later a round comes now and then, and what it
 * shows replaces what is oldest: a machine that was busy at the beginning, or
 * is busy now, does not decide for ever.
 *
 * Which way a round tries when depends on the numbers of calls and ways alone:
 * ranks that make the same calls with the same ways try the same way together,
 * whatever each has measured.
 *
 * Pure. Threads: any, one at a time. No memory of its own. All zero: new. */
#ifndef COLLECTIVES_LOCAL_CHOICE_H
#define COLLECTIVES_LOCAL_CHOICE_H

#include <stdint.h>

enum {
    CHOICE_WAYS = 3,    /* at most */
    CHOICE_SAMPLES = 4, /* remembered, of each way */
    CHOICE_TRIES = 2,   /* calls of each way in a round */
    CHOICE_ROUNDS = 3,  /* at the beginning */
    CHOICE_REST = 32,   /* calls until the next round; doubles */
    CHOICE_REST_MAX = 512
};

struct choice {
    unsigned turn;                            /* calls of this round so far */
    unsigned n_rounds;                        /* over */
    unsigned rest;                            /* calls until the next */
    uint64_t ns[CHOICE_WAYS][CHOICE_SAMPLES]; /* 0: none */
};

/* The way of the call that begins now, of the first n_ways. *sample_p: where
 * its time belongs, for choice_time(), which may come a few calls later; -1: it
 * is not wanted. */
int choice_next(struct choice *choice, int n_ways, int *sample_p);

/* How long that call took, of this way; 0: not known. */
void choice_time(struct choice *choice, int way, int sample, uint64_t ns);

/* The one that was fastest, of those; 0 as long as its time is not known. */
int choice_best(const struct choice *choice, int n_ways);

#endif
