/* elastic/agent/probing.c - the driver asks which addresses of other agents
 * this one can reach (probe.h).
 *
 * Threads: the loop's. Memory: in the loop. */
#include "base/clock.h"
#include "base/error.h"
#include "elastic/agent/loop_internal.h"
#include "elastic/wire/reach.h"

hvd_status_t probing_open(struct loop *l)
{
    const struct loop_options *o = l->options;
    const char *names = o->network;

    if (!names)
        return HVD_OK;
    if (names[0] == '*')
        names = NULL;
    HVD_TRY(probe_open(&l->probe, names, o->port_low, o->port_high,
                       o->config.hello.agent, &o->secrets));
    l->core.config.hello.addresses = reach_pack(l->probe.items, l->probe.n,
                                                l->reach);
    if (!loop_watch(l, l->probe.epoll_fd, KIND_PROBE, 0))
        return error_errno("cannot watch for probes");
    return HVD_OK;
}

void probing_hear(struct loop *l, const struct message *m)
{
    if (l->probe.epoll_fd >= 0 && m->job == l->options->config.job &&
        m->term == l->core.term)
        probe_begin(&l->probe, &m->u.probe, clock_now_us());
}

/* What the socket does not take is asked for again. */
void probing_look(struct loop *l, uint64_t now_us)
{
    struct message m = {.type = MSG_PROBED, .job = l->options->config.job};

    if (l->probe.epoll_fd < 0)
        return;
    probe_step(&l->probe, now_us);
    if (probe_result(&l->probe, &m.u.probed) &&
        wire_dealer_send(l->control, &m) != HVD_OK)
        log_debug("the result of a probe was not sent");
}
