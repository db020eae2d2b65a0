/* accuse.c - what a virtual worker says against others when a generation has
 * ended for it: the truth, or slander. */
#include "app.h"

/* Somebody has reached the other, or tried for long enough (M5). */
static void dispute(struct sim_worker *w, bool proven)
{
    if (w)
        w->disputed |= proven;
}

void accuse_rank(struct comm *comm, uint32_t rank, bool proven)
{
    struct sim *s = sim_current;
    const struct sim_generation *g = sim_generation(s, comm->generation);

    for (size_t i = 0; i < comm->n_accused; i++)
        if (comm->accused[i] == (int)rank)
            return;
    if (comm->n_accused == COMM_ACCUSED_MAX)
        return;
    comm->proven |= (uint64_t)proven << comm->n_accused;
    comm->accused[comm->n_accused++] = (int)rank;
    dispute(comm->owner, proven);
    dispute(sim_worker(s, g->members[rank]), proven);
}

/* The same rank again if it is one of them: two in a row are judged. */
static uint32_t choose_rank(struct sim *s, const struct sim_worker *w,
                            const struct sim_generation *g)
{
    for (uint32_t rank = 0; rank < g->size; rank++)
        if (g->members[rank] == w->grudge)
            return rank;
    return (uint32_t)random_below(&s->random, g->size);
}

static void accuse_wrongly(struct sim *s, struct comm *comm,
                           const struct sim_generation *g)
{
    struct sim_worker *w = comm->owner;
    uint32_t rank = choose_rank(s, w, g);
    bool proven = sim_one_in(s, 2);

    sim_cover(s, COVER_wrong_accusation);
    if (rank == w->rank)
        return;
    w->grudge = g->members[rank];
    accuse_rank(comm, rank, proven);
}

void accuse_all(struct sim *s, struct comm *comm)
{
    const struct sim_generation *g = sim_generation(s, comm->generation);

    if (comm->owner->slanders > 0) {
        comm->owner->slanders--;
        accuse_wrongly(s, comm, g);
        return;
    }
    for (uint32_t i = 0; i < g->n_dead; i++)
        if (g->dead[i] != comm->owner->rank)
            accuse_rank(comm, g->dead[i], true);
}
