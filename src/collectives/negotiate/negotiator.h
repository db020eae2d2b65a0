/* collectives/negotiate/negotiator.h - in which order the calls run that ranks
 * make by name, each in an order of its own. One per rank; all of them decide
 * the same, since what they decide by is the same on all: there is no
 * coordinator.
 *
 *   post        a call by name, of this rank
 *   round       every rank tells of each name that all know whether it has
 *               posted it (a byte; combined by HVD_MIN over all ranks), and
 *               whether it has names that others may not know
 *   exchange    if one has, or there is a dispute: they tell each other what
 *               they call (an allgather of records), and new names get places
 *               in the next round
 *   decided     calls that all ranks have posted, in the order of their places:
 *               to be run, or, where ranks differ in what they call by that
 *               name, to fail on all of them
 *
 * Rounds are calls like others: ranks that have nothing to tell join when one
 * has begun, and who has posted nothing does not, and is waited for. No rank
 * begins one without news: a post is, and once more when its name has got a
 * place or lost it; so are a new size of rounds, and that no more posts will
 * come.
 *
 *   contribution of a name's place in a round
 *     0  not posted                                all 2   run
 *     1  posted, and it is not what the place says  all > 0: a dispute: the
 *     2  posted                                     ranks' records decide
 *
 * Places of names that have run may be given to others: the one that ran
 * longest ago first, once more than `capacity` are in use.
 *
 * Pure. Threads: one at a time. Memory: grows in _create, _post and
 * _exchange_end, which can fail; else never. */
#ifndef COLLECTIVES_NEGOTIATE_NEGOTIATOR_H
#define COLLECTIVES_NEGOTIATE_NEGOTIATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/negotiate/signature.h"

struct negotiator;

/* NULL: no memory. capacity: at least 1, equal on all ranks. */
struct negotiator *negotiator_create(int size, size_t capacity);
/* NULL is fine. Calls that are still posted are the caller's to find. */
void negotiator_destroy(struct negotiator *n);

/* This rank calls: the name is not among its posted ones. call: not NULL, given
 * back when it is decided. false: no memory, nothing changed. */
bool negotiator_post(struct negotiator *n, const struct name_id *name,
                     const struct signature *signature, void *call);

/* This rank posts nothing more. */
void negotiator_drain(struct negotiator *n);

/* Calls posted that are not decided yet. */
size_t negotiator_n_posted(const struct negotiator *n);
/* ... and some of that the others have not been told. */
bool negotiator_has_news(const struct negotiator *n);

/* --- a round: the same on all ranks, which begin and end it together --- */

/* Grows with the names that are known. */
size_t negotiator_round_nbytes(const struct negotiator *n);
/* out [round_nbytes]: this rank's contribution. */
void negotiator_round_begin(struct negotiator *n, uint8_t *out);
/* least [round_nbytes]: of all contributions, byte by byte. */
void negotiator_round_end(struct negotiator *n, const uint8_t *least);

/* All ranks drain, each has posted something, and nothing was decided: no round
 * will ever decide anything. The same on all ranks. */
bool negotiator_is_stuck(const struct negotiator *n);

/* --- the exchange that the round has found necessary --- */

/* Bytes of each rank; 0: there is none. */
size_t negotiator_exchange_nbytes(const struct negotiator *n);
void negotiator_exchange_begin(struct negotiator *n, uint8_t *out);
/* all [size][exchange_nbytes]. false: no memory, this rank cannot go on. */
bool negotiator_exchange_end(struct negotiator *n, const uint8_t *all);

/* --- decisions --- */

struct negotiated {
    void *call;
    struct signature signature; /* what runs */
    /* ranks differ: the call fails on all. rank 0's, and that of the first that
     * differs from it, in `other` */
    bool disputed;
    int other_rank;
    struct signature other;
};

/* The next one, in order; false: none. Between rounds. A rank that has not
 * posted a call is told of none. */
bool negotiator_next(struct negotiator *n, struct negotiated *next_p);

#endif
