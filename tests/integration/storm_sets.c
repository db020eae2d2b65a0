/* tests/integration/storm_sets.c - communicators for storm_worker: some by
 * rule, and now and then one of a list for a step. Threads: one. */
#include "storm.h"

enum { RULES = 3 };

static bool are_even(int rank, int size, void *arg)
{
    (void)size;
    (void)arg;
    return rank % 2 == 0;
}

static bool are_odd(int rank, int size, void *arg)
{
    return !are_even(rank, size, arg);
}

static bool but_the_last(int rank, int size, void *arg)
{
    (void)arg;
    return rank < size - 1;
}

/* A rule that it must not be: others have other slots. */
static bool are_here(int rank, int size, void *arg)
{
    (void)size;
    (void)arg;
    return rank == hvd_slot();
}

static struct {
    hvd_comm_t *rules[RULES];
    hvd_comm_t *list; /* NULL: none in this step */
    hvd_comm_t *lie;
    bool made;
} sets;

hvd_status_t sets_make(void)
{
    static const hvd_member_fn rules[RULES] = {are_even, are_odd, but_the_last};

    for (int i = 0; i < RULES; i++)
        HVD_TRY(hvd_comm_create_by_rule(rules[i], NULL, &sets.rules[i]));
    sets.made = true;
    return HVD_OK;
}

hvd_status_t sets_lie(void)
{
    return hvd_comm_create_by_rule(are_here, NULL, &sets.lie);
}

hvd_status_t sets_begin_step(uint64_t seed, uint64_t step)
{
    struct chance shared = {mix2(mix2(seed, step), RULES)};
    int ranks[STORM_RANKS_MAX], n = 0, size = hvd_size();
    int first = (int)draw(&shared, (size_t)size);

    if (!sets.made || !one_in(&shared, 3))
        return HVD_OK;
    for (int i = 0; i < size; i++)
        if (i == 0 || one_in(&shared, 2))
            ranks[n++] = (first + i) % size;
    return hvd_comm_create(ranks, n, &sets.list);
}

hvd_status_t sets_end_step(void)
{
    hvd_comm_t *list = sets.list;

    sets.list = NULL;
    return hvd_comm_destroy(list);
}

hvd_comm_t *sets_draw(struct chance *shared)
{
    size_t n = draw(shared, RULES + 3);

    if (!sets.made || n > RULES)
        return NULL;
    return n == RULES ? sets.list : sets.rules[n];
}

hvd_status_t sets_unmake(void)
{
    for (int i = 0; i < RULES; i++)
        HVD_TRY(hvd_comm_destroy(sets.rules[i]));
    return HVD_OK;
}
