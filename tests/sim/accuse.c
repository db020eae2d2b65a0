/* accuse.c - what a virtual worker says against others when a generation has
 * ended for it: the truth, or slander. */
#include "app.h"

static void dispute(struct sim *s, struct sim_worker *w, bool proven)
{
    if (!w)
        return;
    w->disputed |= proven;
    if (w->disputed_us == 0)
        w->disputed_us = s->now_us;
}

/* The same rank again if it is one of them: two in a row are judged. */
static uint32_t choose_rank(struct sim *s, struct sim_worker *w,
                            const struct sim_generation *g)
{
    for (uint32_t rank = 0; rank < g->size; rank++)
        if (g->members[rank] == w->grudge)
            return rank;
    return (uint32_t)random_below(&s->random, g->size);
}

static void accuse_rank(struct sim *s, struct sim_worker *w,
                        const struct sim_generation *g, struct msg_lost *lost,
                        uint32_t rank)
{
    bool proven = lost->proven >> lost->n_accused & 1;

    lost->accused[lost->n_accused++] = rank;
    dispute(s, w, proven);
    dispute(s, sim_worker(s, g->members[rank]), proven);
}

static void accuse_wrongly(struct sim *s, struct sim_worker *w,
                           const struct sim_generation *g,
                           struct msg_lost *lost)
{
    uint32_t rank = choose_rank(s, w, g);

    lost->proven = sim_one_in(s, 2);
    sim_cover(s, COVER_wrong_accusation);
    if (rank == w->rank)
        return;
    w->grudge = g->members[rank];
    accuse_rank(s, w, g, lost, rank);
}

void app_accuse(struct sim *s, struct sim_worker *w,
                const struct sim_generation *g, struct msg_lost *lost)
{
    lost->generation = w->generation;
    if (w->slanders > 0) {
        w->slanders--;
        accuse_wrongly(s, w, g, lost);
        return;
    }
    lost->proven = UINT64_MAX;
    if (w->distrusts > 0) { /* either of the two may be at fault */
        accuse_rank(s, w, g, lost, w->distrusts - 1);
        accuse_rank(s, w, g, lost, w->rank);
    }
    for (uint32_t i = 0; i < g->n_dead; i++)
        if (g->dead[i] != w->rank)
            accuse_rank(s, w, g, lost, g->dead[i]);
}
