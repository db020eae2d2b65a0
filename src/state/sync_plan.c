/* state/sync_plan.c - who serves whom in a sync. Pure. See state.h. */
#include "base/array.h"
#include "state/state.h"

/* The k-th source in rank order. */
static int source_at(const bool *is_source, int size, int k)
{
    for (int r = 0; r < size; r++)
        if (is_source[r] && k-- == 0)
            return r;
    return -1;
}

int sync_plan_source_of(const bool *is_source, int size, int rank)
{
    int n_sources = 0, n_stale_before = 0;

    HVD_ASSERT(rank >= 0 && rank < size);
    for (int r = 0; r < size; r++) {
        n_sources += is_source[r];
        n_stale_before += !is_source[r] && r < rank;
    }
    HVD_ASSERT(n_sources > 0);
    if (is_source[rank])
        return -1;
    return source_at(is_source, size, n_stale_before % n_sources);
}
