/* collectives/negotiate/learned.h - steps that repeat: once the same names have
 * been decided several times over, all ranks follow the order of one of these
 * times, and no round tells what is next.
 *
 *   cycle     names as they are decided, each once: a step of training, mostly.
 *             Equal ones have the same names; as ranks post them in orders of
 *             their own, a round decides now these first, now those
 *   stretch   a part of a cycle: what one round has decided, and so may be
 *             expected to come together. What is followed is that of the last
 *             cycles which has a middling number of them
 *
 *   LEARNING --(as many equal cycles as are needed)--> FOLLOWING
 *      ^  ^                                             |   |
 *      |  '---(a rank deviates: more cycles are needed)-'   |
 *      '--(so often that another order may suit better)-----'
 *
 * The same on all ranks, since what it is told is: decisions, and how many
 * names of the order have run.
 *
 * Pure. Threads: one at a time. Memory: grows in _reserve alone. */
#ifndef COLLECTIVES_NEGOTIATE_LEARNED_H
#define COLLECTIVES_NEGOTIATE_LEARNED_H

#include <stdbool.h>
#include <stddef.h>

enum {
    LEARNED_CYCLES = 3,         /* as many equal ones are needed, at first */
    LEARNED_CYCLES_MAX = 1024,  /* ... and at most: each deviation doubles it,
                                  unless it was followed for long */
    LEARNED_FOLLOWED = 16,      /* cycles: long. Then it is learned anew; the
                                  next time behind twice as many, */
    LEARNED_FOLLOWED_MAX = 1024 /* ... and at most so many */
};

struct learned_call {
    int place;
    bool ends; /* its stretch */
};

struct learned_cycle {
    struct learned_call *calls; /* [n] */
    size_t n, max, n_stretches;
};

struct learned {
    struct learned_cycle now;                   /* the one under way */
    struct learned_cycle equal[LEARNED_CYCLES]; /* equal ones, a ring */
    size_t n_equal, n_needed;
    size_t n_common; /* of `now`: names that the cycle before it had */
    size_t n_cycles; /* that have ended */
    size_t *seen; /* [n_places]: the cycle that had it last, counted from 1 */
    size_t *at;   /* [n_places]: where in the one followed; else anything */
    size_t seen_max, at_max;

    const struct learned_cycle *followed; /* NULL: none */
    size_t next;                          /* names that have run */
    size_t n_stretch; /* of the stretch that is next: names that have not */
    size_t n_followed, n_to_follow; /* cycles */
};

void learned_init(struct learned *l);
void learned_fini(struct learned *l);
/* Room for so many places. false: no memory, nothing changed. */
bool learned_reserve(struct learned *l, size_t n_places);

/* A round has decided places [n], in that order. */
void learned_decided(struct learned *l, const int *places, size_t n);
/* What has been seen is void: names get other places, or ranks have joined. */
void learned_forget(struct learned *l);

static inline bool learned_follows(const struct learned *l)
{
    return l->followed != NULL;
}

/* --- while an order is followed --- */

/* What is next, to the end of the cycle: [*n_p], one at least. */
const struct learned_call *learned_ahead(const struct learned *l, size_t *n_p);
/* Where in it the place stands. false: it is no part of the order. *k_p: so
 * many are to run before it; those that have run are far behind. */
bool learned_find(const struct learned *l, int place, size_t *k_p);
/* The first k run, k <= n ahead. */
void learned_ran(struct learned *l, size_t k);
/* A rank has not had the first. */
void learned_deviated(struct learned *l);

#endif
