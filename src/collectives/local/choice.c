/* collectives/local/choice.c - see choice.h. Pure. */
#include "collectives/local/choice.h"

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

int choice_best(const struct choice *c, int n_ways)
{
    uint64_t best_ns = least(c, 0);
    int best = 0;

    for (int way = 1; way < n_ways; way++) {
        uint64_t ns = least(c, way);

        if (ns == 0 || ns >= best_ns)
            continue;
        best_ns = ns;
        best = way;
    }
    return best;
}

int choice_next(struct choice *c, int n_ways, int *sample_p)
{
    *sample_p = -1;
    if (c->turn >= (unsigned)n_ways * CHOICE_TRIES)
        end_round(c);
    if (c->rest > 0) {
        c->rest--;
        return choice_best(c, n_ways);
    }
    if (c->turn % CHOICE_TRIES == CHOICE_TRIES - 1)
        *sample_p = (int)(c->n_rounds % CHOICE_SAMPLES);
    return (int)(c->turn++ / CHOICE_TRIES);
}

void choice_time(struct choice *c, int way, int sample, uint64_t ns)
{
    c->ns[way][sample] = ns;
}
