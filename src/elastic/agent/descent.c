/* elastic/agent/descent.c - see descent.h. Pure. */
#include "elastic/agent/descent.h"

static bool is_ours(const struct descent *d, pid_t pid)
{
    for (size_t i = 0; i < d->n_ours; i++)
        if (d->ours[i] == pid)
            return true;
    return false;
}

/* Below the agent there is either a process that it has started, or one that
 * has lost its parent. */
static bool descends(const struct descent *d)
{
    for (size_t i = 0; i + 1 < d->n; i++)
        if (d->line[i + 1] == d->agent)
            return d->line[i] == d->own || !is_ours(d, d->line[i]);
    return false;
}

enum claim_verdict descent_judge(const struct descent *d)
{
    if (d->own == 0 || !d->same_user || !descends(d))
        return CLAIM_STRANGER;
    return d->taken == 0 || d->taken == d->line[0] ? CLAIM_GRANTED
                                                   : CLAIM_TAKEN;
}
