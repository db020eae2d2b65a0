/* elastic/driver/holders.c - the workers that have a state of the job: see
 * docs/protocol.md. The rules that must not lose the state ask here. See
 * core.h. Pure.
 *
 * A worker keeps its snapshot until it ends. So the greatest id that it has
 * reported counts, and reports may arrive in any order. A worker that was told
 * to go takes its snapshot with it. */
#include "elastic/driver/core_internal.h"

void note_state(struct driver_worker *w, struct state_id id)
{
    if (state_id_compare(id, w->state) > 0)
        w->state = id;
}

bool worker_has_state(const struct driver_worker *w)
{
    return worker_is_here(w) && !state_id_is_none(w->state);
}

bool worker_holds_base(const struct driver *d, const struct driver_worker *w)
{
    return worker_has_state(w) && state_id_compare(w->state, d->base) >= 0;
}

/* A READY names the snapshot that the worker has. Until then a member may have
 * received the base or committed, and its report may be lost. A worker that
 * another driver has started may have been a member. */
static bool has_yet_to_report(const struct driver_worker *w)
{
    return (worker_is_enlisted(w) && w->standing != STAND_READY) ||
           (w->inherited && !w->called);
}

bool worker_may_have_state(const struct driver_worker *w)
{
    return worker_is_here(w) &&
           (!state_id_is_none(w->state) || has_yet_to_report(w));
}

bool state_is_reported(const struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++)
        if (worker_has_state(&d->workers[i]))
            return true;
    return false;
}

bool state_is_gone(const struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++)
        if (worker_may_have_state(&d->workers[i]))
            return false;
    return d->ever_committed;
}

/* A worker that is silent may be given up next, and so may one whose agent is
 * silent: the others must not rely on it. */
bool worker_is_reliable(const struct driver *d, const struct driver_worker *w)
{
    return worker_holds_base(d, w) && worker_is_heard(d, w) &&
           !agent_is_silent(d, &d->hosts[w->host]);
}

bool base_is_held(const struct driver *d, const struct driver_host *but)
{
    for (size_t i = 0; i < d->n_workers; i++)
        if (&d->hosts[d->workers[i].host] != but &&
            worker_is_reliable(d, &d->workers[i]))
            return true;
    return false;
}

bool worker_is_last_holder(const struct driver *d,
                           const struct driver_worker *w)
{
    if (!d->ever_committed || !worker_holds_base(d, w))
        return false;
    for (size_t i = 0; i < d->n_workers; i++)
        if (&d->workers[i] != w && worker_is_reliable(d, &d->workers[i]))
            return false;
    return true;
}
