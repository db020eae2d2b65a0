/* collectives/negotiate/negotiator_stretch.c - an order that is followed: which
 * part of the stretch that is next this rank has, and what it deviates by. See
 * negotiator.h. Pure. */
#include "base/array.h"
#include "collectives/negotiate/negotiator_impl.h"

/* This rank has, and it is not decided yet. */
static bool is_posted(const struct place *place)
{
    return place->call != NULL && place->state != PLACE_DECIDED;
}

void negotiator_note_call(struct negotiator *n, int i)
{
    n->deviates |= !learned_has(&n->learned, i) ||
                   !negotiator_is_as_agreed(&n->places[i]);
    n->n_lacking -= learned_is_next(&n->learned, i);
}

static void look_at_stretch(struct negotiator *n)
{
    const struct learned_call *calls;
    size_t n_calls;

    n->n_lacking = 0;
    if (!learned_follows(&n->learned))
        return;
    calls = learned_stretch(&n->learned, &n_calls);
    for (size_t k = 0; k < n_calls; k++)
        n->n_lacking += !is_posted(&n->places[calls[k].place]);
}

static void begin_to_follow(struct negotiator *n)
{
    (void)learned_stretch(&n->learned, &n->n_lacking);
    n->deviates = false;
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
    if (learned_follows(&n->learned))
        begin_to_follow(n);
}

void negotiator_learn(struct negotiator *n, bool on)
{
    n->learns = on;
}

bool negotiator_follows(const struct negotiator *n)
{
    return learned_follows(&n->learned);
}

enum negotiator_stretch negotiator_stretch_look(const struct negotiator *n)
{
    if (n->deviates || n->n_unplaced > 0 || n->joins || n->drains)
        return STRETCH_DEVIATES;
    return n->n_lacking > 0 ? STRETCH_LACKS : STRETCH_READY;
}

size_t negotiator_stretch_n(const struct negotiator *n)
{
    size_t n_calls;

    (void)learned_stretch(&n->learned, &n_calls);
    return n_calls;
}

struct negotiated negotiator_stretch_call(const struct negotiator *n, size_t k)
{
    size_t n_calls;
    const struct learned_call *calls = learned_stretch(&n->learned, &n_calls);
    const struct place *place = &n->places[calls[k].place];

    return (struct negotiated){.call = place->call, .signature = place->agreed};
}

static void decide_stretch(struct negotiator *n)
{
    size_t n_calls;
    const struct learned_call *calls = learned_stretch(&n->learned, &n_calls);

    for (size_t k = 0; k < n_calls; k++) {
        HVD_ASSERT(is_posted(&n->places[calls[k].place]));
        n->n_untold -= !n->places[calls[k].place].told;
        negotiator_decide(n, calls[k].place, false);
    }
}

void negotiator_stretch_end(struct negotiator *n, bool all_ready)
{
    HVD_ASSERT(n->next_decided == n->n_decided && !n->exchanges);
    n->n_decided = n->next_decided = 0;
    if (all_ready) {
        decide_stretch(n);
        learned_ran(&n->learned);
        look_at_stretch(n);
    } else {
        learned_deviated(&n->learned);
    }
}
