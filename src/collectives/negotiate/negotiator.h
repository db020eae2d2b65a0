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
 *   question    instead of a round, while an order that repeats is followed
 *               (learned.h): all ranks know which names are next, and tell each
 *               other only how many of them they have posted
 *
 * Rounds are calls like others: ranks that have nothing to tell join when one
 * has begun, and who has posted nothing does not, and is waited for. No rank
 * begins one without news: a post is, and once more when its name has got a
 * place or lost it; so are a new size of rounds, and that no more posts will
 * come.
 *
 *   contribution of a name's place in a round
 *     0  not posted                                least is 2: run
 *     1  posted, and it is not what the place says  1: a dispute: the ranks'
 *     2  posted                                        records decide
 *     3  not posted, and this rank has joined       3: none has posted it
 *
 * A rank that has joined has no more data, and posts nothing until all have: it
 * stands in for what it has not posted. It may have calls of its own that
 * others have yet to post; while one of those that have joined has, records
 * tell which ranks have posted a call, as if there was a dispute. The join ends
 * when all ranks have joined and no call is left.
 *
 * Places of names that have run may be given to others: the one that ran
 * longest ago first, once more than `capacity` are in use.
 *
 * A rank deviates from an order at once where it has posted what is not part of
 * it, or something else by a name that is, where it joins, and where it drains;
 * and when the caller has no patience any more. No call is lost: all are as if
 * the order had not been followed.
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
struct negotiator *negotiator_create(int rank, int size, size_t capacity);
/* NULL is fine. Calls that are still posted are the caller's to find. */
void negotiator_destroy(struct negotiator *n);

/* This rank calls: the name is not among its posted ones. call: not NULL, given
 * back when it is decided. false: no memory, nothing changed. */
bool negotiator_post(struct negotiator *n, const struct name_id *name,
                     const struct signature *signature, void *call);

/* This rank posts nothing more. */
void negotiator_drain(struct negotiator *n);

/* This rank has no more data. It posts nothing until all have joined. */
void negotiator_join(struct negotiator *n);
/* Ranks that have, as the last round told; and the first of them: there is one.
 */
size_t negotiator_n_joined(const struct negotiator *n);
int negotiator_first_joined(const struct negotiator *n);
/* The last round told that all have, and that no call is left; nobody has
 * joined any more. *last_p: a rank that has posted most. */
bool negotiator_all_joined(const struct negotiator *n, int *last_p);

/* Calls posted that are not decided yet. */
size_t negotiator_n_posted(const struct negotiator *n);
/* ... and some of that the others have not been told. */
bool negotiator_has_news(const struct negotiator *n);

/* --- a round: the same on all ranks, which begin and end it together --- */

/* Of a round these bytes are the caller's, who writes its own behind _begin and
 * reads the least of all ranks' before _end; UINT8_MAX says nothing. */
enum { NEGOTIATOR_CALLERS = 2, NEGOTIATOR_CALLERS_NBYTES = 2 };

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

/* --- an order that is followed: a question in place of a round --- */

/* Orders are learned from the next round on, or not: the same on all ranks.
 * Alone there is nobody to ask, and none is. */
void negotiator_learn(struct negotiator *n, bool on);

/* The next decision is by a question; else by a round. */
bool negotiator_follows(const struct negotiator *n);

enum negotiator_look {
    LOOK_LACKS,     /* this rank has not posted what is first */
    LOOK_OVERTAKEN, /* ... but what comes behind all that came with it */
    LOOK_READY,     /* it has */
    LOOK_DEVIATES   /* it will not: the others are to be told */
};
enum negotiator_look negotiator_look(const struct negotiator *n);
/* Has it as many as may be expected to come together? */
bool negotiator_has_stretch(const struct negotiator *n);

/* So many names a question is about, at most. */
enum { NEGOTIATOR_ASKED_MAX = 1024 };

/* Names that the next one is about, and how many of them may be expected to
 * come together: the same on all ranks. */
size_t negotiator_n_asked(const struct negotiator *n);
size_t negotiator_n_stretch(const struct negotiator *n);
/* What the i-th of them is; and this rank's call: NULL, it has posted none. */
const struct signature *negotiator_asked(const struct negotiator *n, size_t i);
void *negotiator_asked_call(const struct negotiator *n, size_t i);

/* The first k are decided, in this order: all ranks have posted them. 0: the
 * order is followed no more, and a round is next. */
void negotiator_answered(struct negotiator *n, size_t k);

/* --- decisions --- */

struct negotiated {
    void *call;    /* NULL: this rank has joined, and stands in */
    size_t n_data; /* ranks that have posted it; the others have joined */
    struct signature signature; /* what runs */
    /* ranks differ: the call fails on all. The first that has posted it, whose
     * is above, and the first that differs from it */
    bool disputed;
    int first_rank, other_rank;
    struct signature other;
};

/* The next one, in order; false: none. Between rounds. A rank that has neither
 * posted a call nor joined is told of none. */
bool negotiator_next(struct negotiator *n, struct negotiated *next_p);

#endif
