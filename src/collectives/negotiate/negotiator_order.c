/* collectives/negotiate/negotiator_order.c - an order that is followed: how
 * much of what is next this rank has, and whether it deviates. See
 * negotiator.h. Pure. */
#include "base/array.h"
#include "collectives/negotiate/negotiator_impl.h"

/* This rank has, and it is not decided yet. */
static bool is_posted(const struct place *place)
{
    return place->call != NULL && place->state != PLACE_DECIDED;
}

/* What has run is far behind: it is of the next cycle. */
void negotiator_note_call(struct negotiator *n, int i)
{
    size_t k, n_ahead;

    (void)learned_ahead(&n->learned, &n_ahead);
    n->deviates |= !learned_find(&n->learned, i, &k) ||
                   !negotiator_is_as_agreed(&n->places[i]);
    if (k < n_ahead && k >= n->n_reach)
        n->n_reach = k + 1;
}

static void begin_cycle(struct negotiator *n)
{
    n->n_reach = 0;
    for (size_t i = 0; i < n->n_places; i++)
        if (is_posted(&n->places[i]))
            negotiator_note_call(n, (int)i);
}

/* What is decided without an exchange may be part of an order. */
void negotiator_learn_round(struct negotiator *n)
{
    if (!n->learns || n->exchanges || n->n_joined > 0 ||
        n->last_joined != NONE) {
        learned_forget(&n->learned);
        return;
    }
    learned_decided(&n->learned, n->decided, n->n_decided);
    n->deviates = false;
    if (learned_follows(&n->learned))
        begin_cycle(n);
}

void negotiator_learn(struct negotiator *n, bool on)
{
    n->learns = on && n->size > 1;
}

bool negotiator_follows(const struct negotiator *n)
{
    return learned_follows(&n->learned);
}

enum negotiator_look negotiator_look(const struct negotiator *n)
{
    if (n->deviates || n->n_unplaced > 0 || n->joins || n->drains)
        return LOOK_DEVIATES;
    if (negotiator_asked_call(n, 0) != NULL)
        return LOOK_READY;
    return n->n_reach > n->learned.n_stretch ? LOOK_OVERTAKEN : LOOK_LACKS;
}

bool negotiator_has_stretch(const struct negotiator *n)
{
    size_t stretch = negotiator_n_stretch(n), i = 0;

    while (i < stretch && negotiator_asked_call(n, i) != NULL)
        i++;
    return i == stretch;
}

size_t negotiator_n_asked(const struct negotiator *n)
{
    size_t n_ahead;

    (void)learned_ahead(&n->learned, &n_ahead);
    return n_ahead < NEGOTIATOR_ASKED_MAX ? n_ahead : NEGOTIATOR_ASKED_MAX;
}

size_t negotiator_n_stretch(const struct negotiator *n)
{
    size_t n_asked = negotiator_n_asked(n);

    return n->learned.n_stretch < n_asked ? n->learned.n_stretch : n_asked;
}

static const struct place *place_asked(const struct negotiator *n, size_t i)
{
    size_t n_ahead;

    return &n->places[learned_ahead(&n->learned, &n_ahead)[i].place];
}

const struct signature *negotiator_asked(const struct negotiator *n, size_t i)
{
    return &place_asked(n, i)->agreed;
}

void *negotiator_asked_call(const struct negotiator *n, size_t i)
{
    const struct place *place = place_asked(n, i);

    return is_posted(place) ? place->call : NULL;
}

static void decide_first(struct negotiator *n, size_t k)
{
    size_t n_ahead;
    const struct learned_call *calls = learned_ahead(&n->learned, &n_ahead);

    for (size_t i = 0; i < k; i++) {
        HVD_ASSERT(is_posted(&n->places[calls[i].place]));
        n->n_untold -= !n->places[calls[i].place].told;
        negotiator_decide(n, calls[i].place);
    }
}

void negotiator_answered(struct negotiator *n, size_t k)
{
    HVD_ASSERT(n->next_decided == n->n_decided && !n->exchanges);
    n->n_decided = n->next_decided = 0;
    if (k > 0) {
        decide_first(n, k);
        learned_ran(&n->learned, k);
        n->n_reach = n->n_reach > k ? n->n_reach - k : 0;
        if (learned_follows(&n->learned) && n->learned.next == 0)
            begin_cycle(n);
    } else {
        learned_deviated(&n->learned);
    }
}
