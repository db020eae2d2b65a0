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

int sync_plan_next(const bool *is_source, int size, int source, int after)
{
    int n_sources = 0, place = 0, n_stale = 0;

    HVD_ASSERT(source >= 0 && source < size && is_source[source]);
    for (int r = 0; r < size; r++) {
        n_sources += is_source[r];
        place += is_source[r] && r < source;
    }
    for (int r = 0; r < size; r++) {
        if (is_source[r])
            continue;
        if (n_stale++ % n_sources == place && r > after)
            return r;
    }
    return -1;
}
