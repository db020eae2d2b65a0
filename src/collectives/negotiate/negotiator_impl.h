/* collectives/negotiate/negotiator_impl.h - the inside of a negotiator, shared
 * by negotiator.c (names, rounds, exchanges) and negotiator_order.c (an order
 * that is followed). Pure. */
#ifndef COLLECTIVES_NEGOTIATE_NEGOTIATOR_IMPL_H
#define COLLECTIVES_NEGOTIATE_NEGOTIATOR_IMPL_H

#include "collectives/negotiate/learned.h"
#include "collectives/negotiate/negotiator.h"

enum { NONE = -1 };

/* What a rank tells of itself with each round. */
enum joining {
    HAS_NOTHING, /* it has joined, and its own calls are decided */
    HAS_CALLS,   /* it has joined */
    HAS_DATA
};

enum place_state {
    PLACE_OPEN,    /* since its name was told, it has not run */
    PLACE_IDLE,    /* it has: in the list */
    PLACE_DECIDED, /* it runs as soon as the caller asks */
    PLACE_DISPUTED /* ranks differ: an exchange tells what they call */
};

struct place {
    enum place_state state;
    struct name_id name;
    struct signature agreed; /* on all ranks */

    /* of this rank */
    void *call; /* NULL: not posted */
    struct signature own;
    bool told; /* a round has */

    bool fails;    /* DECIDED: ranks differ */
    size_t n_data; /* DECIDED: ranks that have posted it */
    int first_rank, other_rank;
    struct signature first, other;

    int chain;          /* next of its bucket */
    int older, younger; /* IDLE: neighbours in the list */
};

/* Posted, of a name without a place. */
struct unplaced {
    struct negotiate_record record;
    void *call;
};

struct negotiator {
    size_t rank, size, capacity;
    struct place *places; /* [n_places] */
    size_t n_places, places_max;
    int *buckets; /* [n_buckets], a power of two */
    size_t n_buckets, buckets_max;
    int oldest, youngest; /* of the list */

    struct unplaced *unplaced; /* [n_unplaced], as they were posted */
    size_t n_unplaced, unplaced_max;
    size_t n_posted, n_untold; /* calls; those at places not told */

    int *decided; /* [n_decided]: places, in order, up to next_decided done */
    size_t n_decided, next_decided, decided_max;
    int *disputed; /* [n_disputed] */
    size_t n_disputed, disputed_max;
    size_t n_records; /* of new names, per rank, in the exchange that is due */
    bool exchanges, stuck;
    bool drains, drain_told;
    bool joins;
    enum joining join_told;
    uint8_t *joined; /* [size] of enum joining: as the last round told */
    size_t n_joined, joined_max;
    bool joined_have_calls; /* one of them has calls that are not decided */
    size_t *n_calls; /* [size]: of each rank, decided since the first joined */
    size_t calls_max;
    int last_joined; /* all are through; NONE */
    size_t grown_to; /* bytes of the last round */

    struct learned learned;
    bool learns;
    size_t n_reach; /* of what is next: up to the last that is posted here */
    bool deviates;  /* what is posted here is not the order */
};

static inline bool negotiator_is_as_agreed(const struct place *place)
{
    return signature_equal(&place->own, &place->agreed);
}

/* --- negotiator.c --- */

void negotiator_decide(struct negotiator *n, int place);

/* --- negotiator_order.c --- */

/* This rank calls something at the place, while an order is followed. */
void negotiator_note_call(struct negotiator *n, int place);
/* A round has ended: what it has decided, before the caller is told. */
void negotiator_learn_round(struct negotiator *n);

#endif
