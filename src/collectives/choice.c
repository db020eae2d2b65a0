/* collectives/choice.c - see choice.h. Pure. */
#include "collectives/choice.h"

/* 0: not known. */
static uint64_t least(const struct choice *c, int way)
{
    uint64_t ns = 0;

    for (int i = 0; i < CHOICE_SAMPLES; i++)
        if (c->ns[way][i] != 0 && (ns == 0 || c->ns[way][i] < ns))
            ns = c->ns[way][i];
    return ns;
}

static bool is_ahead(const struct choice *c)
{
    uint64_t a = least(c, 0), b = least(c, 1);

    return a != 0 && b != 0 && (a > b + b / 4 || b > a + a / 4);
}

static unsigned rest_after(unsigned n_rounds)
{
    unsigned rest = CHOICE_REST;

    for (unsigned i = CHOICE_ROUNDS; i < n_rounds && rest < CHOICE_REST_MAX;
         i++)
        rest *= 2;
    return rest;
}

static void end_round(struct choice *c)
{
    uint64_t best, other;

    c->n_rounds++;
    best = least(c, c->best);
    other = least(c, 1 - c->best);
    if (other != 0 && other < best)
        c->best = 1 - c->best;
    c->turn = 0;
    if (c->n_rounds >= CHOICE_ROUNDS)
        c->rest = rest_after(c->n_rounds);
    else if (c->n_rounds >= CHOICE_ROUNDS_LEAD && is_ahead(c))
        c->rest = CHOICE_REST;
}

int choice_next(struct choice *c, bool *timed_p)
{
    *timed_p = false;
    if (c->turn == CHOICE_ROUND)
        end_round(c);
    if (c->rest > 0) {
        c->rest--;
        return c->best;
    }
    *timed_p = c->turn % 2 == 1;
    return c->turn++ / 2 == 0 ? c->best : 1 - c->best;
}

void choice_time(struct choice *c, int way, uint64_t ns)
{
    c->ns[way][c->n_rounds % CHOICE_SAMPLES] = ns;
}
