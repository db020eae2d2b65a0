/* elastic/driver/loop_clients.c - the ends of agents and of their clients (ssh,
 * srun). A client may end alone; then its agent is heard without it. Often both
 * have been killed together, and the driver hears of the client first: the end
 * of the agent's own connection is the end of the agent. So the driver looks at
 * that connection for as long as silence is waited for; the loop goes on
 * meanwhile. See loop_internal.h. */
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "elastic/driver/loop_internal.h"

enum {
    ENDS_MAX = 16,
    LOOK_US = 10000, /* between two looks, for each of so many agents: */
    LOOKED_AT = 64
};

/* Workers that died with their agent: no exit of theirs will be told. */
void loop_part_from_the_dead(struct loop *l)
{
    for (size_t i = l->peers.n; i-- > 0;) {
        struct peer peer = l->peers.by_id[i];
        const struct driver_worker *w = driver_worker(&l->driver, peer.id);

        if (peer.kind != PEER_WORKER || (w && w->life != LIFE_GONE))
            continue;
        peers_part(&l->peers, l->router, peer.kind, peer.id);
    }
}

/* Its connection stands, as far as this machine knows. */
static bool reaches(struct loop *l, uint64_t agent)
{
    struct message m = {.type = MSG_AGENT_PONG,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};
    const struct peer *peer = peers_by_id(&l->peers, PEER_AGENT, agent);

    wire_router_look(l->router);
    return peer && wire_router_send(l->router, peer->route, &m) == HVD_OK;
}

static void agent_ended(struct loop *l, const struct launch_end *end)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_GONE};

    ev.u.agent.agent = end->agent;
    ev.u.agent.text = end->how;
    loop_feed(l, &ev);
    loop_part_from_the_dead(l);
    inbox_agent_ended(l, end->agent);
}

static bool outlives_its_client(struct loop *l, const struct launch_end *end)
{
    const struct launched *item = launch_find(&l->launch, end->agent);
    uint64_t now_us = clock_now_us();

    if (!end->client || !item)
        return false;
    if (!reaches(l, end->agent) ||
        !array_reserve(&l->bereft, &l->bereft_max, l->n_bereft + 1)) {
        launch_kill(&l->launch, end->agent);
        return false;
    }
    log_warn("host %s: its %s %s -> its agent is heard without it", item->host,
             item->ops->name, end->how);
    l->bereft[l->n_bereft++] = (struct bereft){
        *end, now_us + l->driver.config.heartbeat_timeout_us};
    return true;
}

void clients_reap(struct loop *l)
{
    struct launch_end ends[ENDS_MAX];
    size_t n;

    if (!loop_looks(l)) /* they may have ended with the job, long ago */
        return;
    n = launch_ended(&l->launch, ends, ENDS_MAX);
    for (size_t i = 0; i < n && loop_acts(l); i++)
        if (!outlives_its_client(l, &ends[i]))
            agent_ended(l, &ends[i]);
}

void clients_look(struct loop *l, uint64_t now_us)
{
    if (now_us < clients_deadline(l))
        return;
    l->bereft_us = now_us + LOOK_US * (1 + l->n_bereft / LOOKED_AT);
    for (size_t i = l->n_bereft; i-- > 0 && loop_acts(l);) {
        struct bereft b = l->bereft[i];
        bool known = launch_find(&l->launch, b.end.agent) != NULL;
        bool stands = known && reaches(l, b.end.agent);

        if (stands && now_us < b.until_us)
            continue;
        l->bereft[i] = l->bereft[--l->n_bereft];
        if (!known || stands)
            continue;
        launch_kill(&l->launch, b.end.agent);
        agent_ended(l, &b.end);
    }
}

uint64_t clients_deadline(const struct loop *l)
{
    return l->n_bereft > 0 ? l->bereft_us : CLOCK_NEVER;
}
