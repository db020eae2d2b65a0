/* elastic/driver/plan.c - the place that a worker will probably have, which
 * WELCOME tells it: programs ask for it before they join the world. See core.h.
 * Pure. */
#include "elastic/driver/core_internal.h"

/* Workers that are there, or are to be started when its agent is up: the same
 * number before and after it has come up. */
static uint32_t n_planned(const struct driver_host *host)
{
    bool starts = host->agent_phase == AGENT_STARTING;

    return host->n_workers + (starts ? host->promised : 0);
}

/* Once for each change of placement, for thousands of workers ask. */
void plan_hosts(struct driver *d)
{
    d->n_planned = 0;
    for (size_t i = 0; i < d->n_hosts; i++) {
        d->hosts[i].planned_before = d->n_planned;
        d->n_planned += n_planned(&d->hosts[i]);
    }
}

static uint32_t n_in_lower_slots(const struct driver *d,
                                 const struct driver_host *host, uint32_t slot)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < slot; i++)
        n += slot_at(d, host, i)->worker != 0;
    return n;
}

/* The first generation has ranks in the order of hosts and slots (M13). A
 * worker that comes later is planned as the last of its host and of all. */
void plan_for(struct driver *d, const struct driver_worker *w,
              struct msg_plan *plan_p)
{
    const struct driver_host *host = host_of(d, w);
    const struct driver_config *c = &d->config;
    bool first = d->generation == 0 && d->phase < DRIVER_ADOPTING;

    *plan_p = (struct msg_plan){
        .elastic = !c->hosts_fixed || c->min_np < c->np || c->max_np > c->np,
        .size = d->n_planned,
        .local_size = n_planned(host)};
    plan_p->local_rank = first ? n_in_lower_slots(d, host, w->slot)
                               : plan_p->local_size - 1;
    plan_p->rank = first ? host->planned_before + plan_p->local_rank
                         : plan_p->size - 1;
}
