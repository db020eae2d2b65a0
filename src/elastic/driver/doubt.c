/* elastic/driver/doubt.c - hosts that others may not reach: the driver asks
 * their agents, and starts no worker there until they do (M5, M7). See core.h.
 * Pure. */
#include "elastic/driver/core_internal.h"

static void ask_doubt(struct driver *d, struct driver_host *host)
{
    struct driver_action *a = action_add(d, DRIVER_ACT_DOUBT);

    host->doubt_us = 0;
    a->agent = host->agent;
    a->u.other = host->doubted_by;
}

void host_doubt(struct driver *d, struct driver_host *host,
                const struct driver_host *other)
{
    if (!d->config.doubts || host->agent_phase != AGENT_UP)
        return;
    host->doubted_by = other->agent;
    ask_doubt(d, host);
}

void doubt_end(struct driver *d, struct driver_host *host)
{
    host->doubted_by = host->doubt_us = 0;
    host->n_apart = 0;
    d->recheck = d->replace = true;
}

/* How long it is left alone: longer each time. */
static uint64_t next_rest(struct driver_host *host)
{
    uint32_t doublings = host->n_apart < APART_DOUBLINGS ? host->n_apart
                                                         : APART_DOUBLINGS;

    host->n_apart++;
    return (uint64_t)APART_REST_US << doublings;
}

static void leave_alone(struct driver *d, struct driver_host *host,
                        uint64_t rest_us)
{
    action_add(d, DRIVER_ACT_KILL_AGENT)->agent = host->agent;
    agent_move(d, host, AGENT_NONE);
    d->recheck = d->replace = true;
    host->start_us = d->now_us + rest_us;
}

/* No failure of its own: nobody ran there, or it is the network's. It is tried
 * again, as networks are mended. */
void on_agent_apart(struct driver *d, uint64_t agent, const char *why)
{
    struct driver_host *host = host_of_agent(d, agent);
    struct driver_record *r;
    uint64_t rest_us;
    struct text t;

    if (!host || (host->agent_phase != AGENT_STARTING && host->doubted_by == 0))
        return;
    rest_us = next_rest(host);
    if (host->agent_phase == AGENT_STARTING)
        leave_alone(d, host, rest_us);
    else
        host->doubt_us = d->now_us + rest_us;
    r = record_add(d, RECORD_HOST_APART);
    r->host = host->name;
    r->duration_us = rest_us;
    t = text_into(r->text, sizeof(r->text));
    text_add(&t, why);
    t = text_into(d->last_failure, sizeof(d->last_failure));
    text_add(&t, why);
}

void doubt_tick(struct driver *d, struct driver_host *host)
{
    if (host->doubt_us != 0 && d->now_us >= host->doubt_us)
        ask_doubt(d, host);
}
