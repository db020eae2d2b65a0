/* collectives/negotiate/negotiator.c - see negotiator.h. Pure.
 *
 * Places are found by a hash table of chains; those that have run are in a list
 * by the time they did, and are given to other names from its front. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "collectives/negotiate/negotiator_impl.h"

enum {
    NEW_NAMES = 0, /* of a round: how many new names, as bits_of() */
    DRAINS = 1,    /* no more will come */
    JOINED = NEGOTIATOR_CALLERS + NEGOTIATOR_CALLERS_NBYTES, /* [size]: of
                                each rank, enum joining */
    ROUND_NBYTES_MIN = 1024, /* so that most jobs have one size of rounds */
    NO_NEW_NAMES = 255,
    NEW_NAMES_BITS_MAX = 10, /* more take another exchange */
    BUCKETS_MIN = 64
};

/* Contributions. */
enum { ABSENT = 0, DIFFERS = 1, READY = 2, STANDS_IN = 3 };

/* --- life --- */

struct negotiator *negotiator_create(int rank, int size, size_t capacity)
{
    struct negotiator *n = NULL;
    size_t n_max = 0;

    if (!array_reserve(&n, &n_max, 1))
        return NULL;
    n->rank = (size_t)rank;
    n->size = (size_t)size;
    n->capacity = capacity;
    n->oldest = n->youngest = n->last_joined = NONE;
    n->join_told = HAS_DATA;
    learned_init(&n->learned);
    if (!array_reserve(&n->buckets, &n->buckets_max, BUCKETS_MIN) ||
        !array_reserve(&n->joined, &n->joined_max, n->size) ||
        !array_reserve(&n->n_calls, &n->calls_max, n->size)) {
        negotiator_destroy(n);
        return NULL;
    }
    n->n_buckets = BUCKETS_MIN;
    for (size_t i = 0; i < n->n_buckets; i++)
        n->buckets[i] = NONE;
    memset(n->joined, HAS_DATA, n->size);
    return n;
}

void negotiator_destroy(struct negotiator *n)
{
    if (n == NULL)
        return;
    array_free(&n->places, &n->places_max);
    array_free(&n->buckets, &n->buckets_max);
    array_free(&n->unplaced, &n->unplaced_max);
    array_free(&n->decided, &n->decided_max);
    array_free(&n->disputed, &n->disputed_max);
    array_free(&n->joined, &n->joined_max);
    array_free(&n->n_calls, &n->calls_max);
    learned_fini(&n->learned);
    free(n);
}

/* --- places --- */

static int *bucket_of(const struct negotiator *n, const struct name_id *name)
{
    return &n->buckets[name->low & (n->n_buckets - 1)];
}

static int find(const struct negotiator *n, const struct name_id *name)
{
    int i = *bucket_of(n, name);

    while (i != NONE && !name_id_equal(&n->places[i].name, name))
        i = n->places[i].chain;
    return i;
}

static void enter(struct negotiator *n, int i)
{
    int *bucket = bucket_of(n, &n->places[i].name);

    n->places[i].chain = *bucket;
    *bucket = i;
}

static void strike(struct negotiator *n, int i)
{
    int *at = bucket_of(n, &n->places[i].name);

    while (*at != i)
        at = &n->places[*at].chain;
    *at = n->places[i].chain;
}

static bool widen(struct negotiator *n)
{
    if (n->places_max <= n->n_buckets)
        return true;
    if (!array_reserve(&n->buckets, &n->buckets_max, 2 * n->places_max))
        return false;
    while (n->n_buckets < n->places_max)
        n->n_buckets *= 2;
    HVD_ASSERT(n->n_buckets <= n->buckets_max);
    for (size_t i = 0; i < n->n_buckets; i++)
        n->buckets[i] = NONE;
    for (size_t i = 0; i < n->n_places; i++)
        enter(n, (int)i);
    return true;
}

static void link_youngest(struct negotiator *n, int i)
{
    struct place *place = &n->places[i];

    place->state = PLACE_IDLE;
    place->older = n->youngest;
    place->younger = NONE;
    if (n->youngest != NONE)
        n->places[n->youngest].younger = i;
    else
        n->oldest = i;
    n->youngest = i;
}

static void unlink_idle(struct negotiator *n, int i)
{
    const struct place *place = &n->places[i];

    if (place->older != NONE)
        n->places[place->older].younger = place->younger;
    else
        n->oldest = place->younger;
    if (place->younger != NONE)
        n->places[place->younger].older = place->older;
    else
        n->youngest = place->older;
}

/* --- posting --- */

static void seat(struct negotiator *n, int i, const struct unplaced *u)
{
    struct place *place = &n->places[i];

    HVD_ASSERT(place->call == NULL);
    place->call = u->call;
    place->own = u->record.signature;
    place->told = false;
    n->n_untold++;
    if (learned_follows(&n->learned))
        negotiator_note_call(n, i);
}

bool negotiator_post(struct negotiator *n, const struct name_id *name,
                     const struct signature *signature, void *call)
{
    struct unplaced u = {{*name, *signature}, call};
    int i = find(n, name);

    /* room also for when its place is taken away */
    if (!array_reserve(&n->unplaced, &n->unplaced_max, n->n_posted + 1))
        return false;
    n->n_posted++;
    if (i != NONE)
        seat(n, i, &u);
    else
        n->unplaced[n->n_unplaced++] = u;
    return true;
}

void negotiator_drain(struct negotiator *n)
{
    n->drains = true;
}

void negotiator_join(struct negotiator *n)
{
    n->joins = true;
}

size_t negotiator_n_joined(const struct negotiator *n)
{
    return n->n_joined;
}

int negotiator_first_joined(const struct negotiator *n)
{
    int rank = 0;

    while (n->joined[rank] == HAS_DATA)
        rank++;
    return rank;
}

bool negotiator_all_joined(const struct negotiator *n, int *last_p)
{
    *last_p = n->last_joined;
    return n->last_joined != NONE;
}

size_t negotiator_n_posted(const struct negotiator *n)
{
    return n->n_posted;
}

static enum joining joining_of(const struct negotiator *n)
{
    if (!n->joins)
        return HAS_DATA;
    return n->n_posted > 0 ? HAS_CALLS : HAS_NOTHING;
}

/* A round of another size may go between other ranks: all join the first. */
bool negotiator_has_news(const struct negotiator *n)
{
    bool takes_part = n->n_posted > 0 || n->joins;

    return n->n_unplaced > 0 || n->n_untold > 0 ||
           joining_of(n) != n->join_told ||
           (takes_part && (negotiator_round_nbytes(n) != n->grown_to ||
                           n->drains != n->drain_told));
}

/* --- rounds --- */

static size_t header_nbytes(const struct negotiator *n)
{
    return JOINED + n->size;
}

size_t negotiator_round_nbytes(const struct negotiator *n)
{
    size_t nbytes = ROUND_NBYTES_MIN;

    while (nbytes < header_nbytes(n) + n->n_places)
        nbytes *= 2;
    return nbytes;
}

/* Of 2^k records the k + 1; 0 of none. */
static unsigned bits_of(size_t n_records)
{
    unsigned bits = 0;

    while (bits < NEW_NAMES_BITS_MAX && ((size_t)1 << bits) < n_records)
        bits++;
    return n_records > 0 ? bits + 1 : 0;
}

static uint8_t contribution(const struct negotiator *n,
                            const struct place *place)
{
    if (place->call == NULL)
        return n->join_told == HAS_DATA ? ABSENT : STANDS_IN;
    return negotiator_is_as_agreed(place) ? READY : DIFFERS;
}

void negotiator_round_begin(struct negotiator *n, uint8_t *out)
{
    uint8_t *places = out + header_nbytes(n);

    HVD_ASSERT(n->next_decided == n->n_decided && !n->exchanges);
    memset(out, 0, negotiator_round_nbytes(n));
    n->join_told = joining_of(n);
    memset(out + NEGOTIATOR_CALLERS, UINT8_MAX, NEGOTIATOR_CALLERS_NBYTES);
    memset(out + JOINED, HAS_DATA, n->size);
    out[JOINED + n->rank] = (uint8_t)n->join_told;
    out[NEW_NAMES] = (uint8_t)(NO_NEW_NAMES - bits_of(n->n_unplaced));
    for (size_t i = 0; i < n->n_places; i++) {
        places[i] = contribution(n, &n->places[i]);
        n->places[i].told = true;
    }
    out[DRAINS] = n->drains;
    n->n_untold = 0;
    n->drain_told = n->drains;
    n->grown_to = negotiator_round_nbytes(n);
}

static void enlist(struct negotiator *n, int i, bool fails)
{
    struct place *place = &n->places[i];

    if (place->state == PLACE_IDLE)
        unlink_idle(n, i);
    place->state = PLACE_DECIDED;
    place->fails = fails;
    n->decided[n->n_decided++] = i;
}

/* All ranks that have not joined have posted it, and no other. */
void negotiator_decide(struct negotiator *n, int i)
{
    enlist(n, i, false);
    n->places[i].n_data = n->size - n->n_joined;
    for (size_t rank = 0; n->n_joined > 0 && rank < n->size; rank++)
        n->n_calls[rank] += n->joined[rank] == HAS_DATA;
}

static void dispute(struct negotiator *n, int i)
{
    if (n->places[i].state == PLACE_IDLE)
        unlink_idle(n, i);
    n->places[i].state = PLACE_DISPUTED;
    n->disputed[n->n_disputed++] = i;
}

/* The rank that has seen the most data. */
static size_t richest(const struct negotiator *n)
{
    size_t best = 0;

    for (size_t i = 1; i < n->size; i++)
        best = n->n_calls[i] >= n->n_calls[best] ? i : best;
    return best;
}

static void note_joined(struct negotiator *n, const uint8_t *told)
{
    size_t n_through = 0;

    n->n_joined = 0;
    for (size_t i = 0; i < n->size; i++) {
        n->n_joined += told[i] != HAS_DATA;
        n_through += told[i] == HAS_NOTHING;
    }
    n->joined_have_calls = n_through < n->n_joined;
    memcpy(n->joined, told, n->size);
    n->last_joined = n_through == n->size ? (int)richest(n) : NONE;
    if (n->last_joined == NONE)
        return;
    memset(n->joined, HAS_DATA, n->size);
    memset(n->n_calls, 0, n->size * sizeof(*n->n_calls));
    n->n_joined = 0;
    n->joins = false;
    n->join_told = HAS_DATA;
}

void negotiator_round_end(struct negotiator *n, const uint8_t *least)
{
    unsigned bits = NO_NEW_NAMES - (unsigned)least[NEW_NAMES];
    const uint8_t *places = least + header_nbytes(n);

    n->n_decided = n->next_decided = n->n_disputed = 0;
    note_joined(n, least + JOINED);
    /* STANDS_IN: all have joined, and none has posted it */
    for (size_t i = 0; i < n->n_places; i++)
        if (places[i] == READY && !n->joined_have_calls)
            negotiator_decide(n, (int)i);
        else if (places[i] == READY || places[i] == DIFFERS)
            dispute(n, (int)i);
    n->n_records = bits > 0 ? (size_t)1 << (bits - 1) : 0;
    n->exchanges = bits > 0 || n->n_disputed > 0;
    n->stuck = least[DRAINS] && !n->exchanges && n->n_decided == 0 &&
               n->last_joined == NONE;
    negotiator_learn_round(n);
}

bool negotiator_is_stuck(const struct negotiator *n)
{
    return n->stuck;
}

/* --- the exchange --- */

size_t negotiator_exchange_nbytes(const struct negotiator *n)
{
    return n->exchanges
               ? (n->n_disputed + n->n_records) * NEGOTIATE_RECORD_NBYTES
               : 0;
}

/* Records of disputed places come first, zero where this rank has not posted
 * the call; what new names leave is zero as well. */
void negotiator_exchange_begin(struct negotiator *n, uint8_t *out)
{
    size_t n_new = n->n_unplaced < n->n_records ? n->n_unplaced : n->n_records;

    memset(out, 0, negotiator_exchange_nbytes(n));
    for (size_t k = 0; k < n->n_disputed; k++) {
        const struct place *place = &n->places[n->disputed[k]];
        struct negotiate_record record = {place->name, place->own};

        if (place->call != NULL)
            negotiate_record_encode(&record, out);
        out += NEGOTIATE_RECORD_NBYTES;
    }
    for (size_t k = 0; k < n_new; k++) {
        negotiate_record_encode(&n->unplaced[k].record, out);
        out += NEGOTIATE_RECORD_NBYTES;
    }
}

static struct negotiate_record
record_of(const struct negotiator *n, const uint8_t *all, size_t rank, size_t k)
{
    struct negotiate_record record;

    negotiate_record_decode(all + rank * negotiator_exchange_nbytes(n) +
                                k * NEGOTIATE_RECORD_NBYTES,
                            &record);
    return record;
}

/* Ranks that have not posted it have joined: there is one that has. */
static void settle(struct negotiator *n, size_t k, const uint8_t *all)
{
    int i = n->disputed[k];
    struct place *place = &n->places[i];
    bool fails = false;
    size_t n_data = 0;

    for (size_t rank = 0; rank < n->size; rank++) {
        struct signature s = record_of(n, all, rank, k).signature;

        if (s.kind == 0)
            continue;
        n->n_calls[rank] += n->n_joined > 0;
        if (n_data++ == 0) {
            place->first = s;
            place->first_rank = (int)rank;
        } else if (!fails && !signature_equal(&place->first, &s)) {
            place->other = s;
            place->other_rank = (int)rank;
            fails = true;
        }
    }
    if (!fails)
        place->agreed = place->first;
    enlist(n, i, fails);
    place->n_data = n_data;
}

/* The name of a place is another's from now on: a call of this rank by it has
 * none. */
static int take_oldest(struct negotiator *n)
{
    int i = n->oldest;
    struct place *place = &n->places[i];

    unlink_idle(n, i);
    strike(n, i);
    if (place->call != NULL) {
        n->unplaced[n->n_unplaced++] = (struct unplaced){
            {place->name, place->own}, place->call};
        n->n_untold -= !place->told;
    }
    return i;
}

/* NONE: no memory. */
static int new_place(struct negotiator *n)
{
    size_t need = n->n_places + 1;

    if (n->n_places >= n->capacity && n->oldest != NONE)
        return take_oldest(n);
    if (!array_reserve(&n->places, &n->places_max, need) ||
        !array_reserve(&n->decided, &n->decided_max, n->places_max) ||
        !array_reserve(&n->disputed, &n->disputed_max, n->places_max) ||
        !learned_reserve(&n->learned, n->places_max) || !widen(n))
        return NONE;
    return (int)n->n_places++;
}

static bool place_name(struct negotiator *n,
                       const struct negotiate_record *record)
{
    int i;

    if (find(n, &record->name) != NONE)
        return true;
    i = new_place(n);
    if (i == NONE)
        return false;
    n->places[i] = (struct place){.name = record->name,
                                  .agreed = record->signature};
    enter(n, i);
    return true;
}

/* By rank, so that most names stand in the order in which rank 0 posts. */
static bool place_new_names(struct negotiator *n, const uint8_t *all)
{
    for (size_t rank = 0; rank < n->size; rank++)
        for (size_t k = 0; k < n->n_records; k++) {
            struct negotiate_record record = record_of(n, all, rank,
                                                       n->n_disputed + k);

            if (record.signature.kind == 0)
                break;
            if (!place_name(n, &record))
                return false;
        }
    return true;
}

static void seat_all(struct negotiator *n)
{
    size_t n_left = 0;

    for (size_t k = 0; k < n->n_unplaced; k++) {
        int i = find(n, &n->unplaced[k].record.name);

        if (i != NONE)
            seat(n, i, &n->unplaced[k]);
        else
            n->unplaced[n_left++] = n->unplaced[k];
    }
    n->n_unplaced = n_left;
}

bool negotiator_exchange_end(struct negotiator *n, const uint8_t *all)
{
    for (size_t k = 0; k < n->n_disputed; k++)
        settle(n, k, all);
    if (!place_new_names(n, all))
        return false;
    n->exchanges = false;
    n->n_disputed = n->n_records = 0;
    seat_all(n);
    return true;
}

/* --- decisions --- */

bool negotiator_next(struct negotiator *n, struct negotiated *next_p)
{
    struct place *place;
    int i;

    HVD_ASSERT(!n->exchanges);
    if (n->next_decided == n->n_decided)
        return false;
    i = n->decided[n->next_decided++];
    place = &n->places[i];
    *next_p = (struct negotiated){
        .call = place->call,
        .signature = place->fails ? place->first : place->agreed,
        .disputed = place->fails,
        .first_rank = place->first_rank,
        .other_rank = place->other_rank,
        .other = place->other,
        .n_data = place->n_data,
    };
    n->n_posted -= place->call != NULL;
    place->call = NULL;
    link_youngest(n, i);
    return true;
}
