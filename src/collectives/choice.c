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

/* After the first rounds: longer each time. */
static unsigned rest_after(unsigned n_rounds)
{
    unsigned rest = n_rounds < CHOICE_ROUNDS ? 0 : CHOICE_REST;

    for (unsigned i = CHOICE_ROUNDS; i < n_rounds && rest < CHOICE_REST_MAX;
         i++)
        rest *= 2;
    return rest;
}

static void end_round(struct choice *c)
{
    c->n_rounds++;
    c->turn = 0;
    c->rest = rest_after(c->n_rounds);
}

int choice_next(struct choice *c, int *sample_p)
{
    *sample_p = -1;
    if (c->turn == CHOICE_ROUND)
        end_round(c);
    if (c->rest > 0) {
        c->rest--;
        return c->best;
    }
    if (c->turn % 2 == 1)
        *sample_p = (int)(c->n_rounds % CHOICE_SAMPLES);
    return (int)(c->turn++ / 2);
}

void choice_time(struct choice *c, int way, int sample, uint64_t ns)
{
    uint64_t a, b;

    c->ns[way][sample] = ns;
    a = least(c, 0);
    b = least(c, 1);
    c->best = a != 0 && b != 0 && b < a;
}
