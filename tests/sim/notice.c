/* notice.c - hosts that will go: they say so before, by a notice or by SIGTERM
 * to their agent, and then they go or stay. Of what dies there nothing may
 * count, and who leaves in time takes no commit with him. */
#include "world.h"

/* ---- what happens -------------------------------------------------------- */

static struct sim_agent *pick(struct sim *s)
{
    for (int tries = 0; tries < 20 && s->n_agents > 0; tries++) {
        struct sim_agent *agent =
            s->agents[random_below(&s->random, s->n_agents)];

        if (agent && agent->runs && !agent->stopped && agent->core.children)
            return agent;
    }
    return NULL;
}

static void feed(struct sim *s, struct sim_agent *agent, struct agent_event *ev)
{
    if (ev->type == AGENT_EV_TERMINATE && agent->core.terminated)
        sim_cover(s, COVER_told_twice); /* it ends at once */
    agents_feed(s, agent, ev);
}

static void say(struct sim *s, struct sim_agent *agent, uint64_t left_us)
{
    struct agent_event ev = {.type = AGENT_EV_NOTICE,
                             .left_us = left_us,
                             .text = "the cloud wants it"};

    if (sim_one_in(s, 3)) /* in whatever time */
        ev.type = AGENT_EV_TERMINATE;
    TRACE(s, "%s will go in %llu ms%s", s->hosts[agent->host].name,
          (unsigned long long)(left_us / MSEC),
          ev.type == AGENT_EV_TERMINATE ? ", and does not say when" : "");
    sim_cover(s, COVER_noticed);
    feed(s, agent, &ev);
    if (ev.type == AGENT_EV_TERMINATE && agent->runs && sim_one_in(s, 8))
        feed(s, agent, &ev);
}

/* Often several at the same moment. */
void notice_strike(struct sim *s)
{
    uint64_t left_us = sim_one_in(s, 2) ? sim_uniform(s, 50, 2000) * MSEC
                                        : sim_uniform(s, 2, 40) * SEC;
    uint64_t n = sim_uniform(s, 1, 3);

    while (n-- > 0) {
        struct sim_agent *agent = pick(s);

        if (!agent)
            return;
        say(s, agent, left_us);
        if (!sim_one_in(s, 3) && s->now_us + left_us < s->plan.horizon_us)
            agents_go_in(s, agent, left_us);
    }
}

void notice_host_goes(struct sim *s, struct sim_agent *agent)
{
    struct sim_host *host = &s->hosts[agent->host];

    if (agent->runs) {
        sim_cover(s, COVER_host_went);
        TRACE(s, "%s goes", host->name);
        agents_die(s, agent, false);
    }
    if (sim_one_in(s, 2)) /* else discovery has not noticed */
        host->slots_now = 0;
}

/* ---- what must hold ------------------------------------------------------ */

static size_t failures_of(const struct driver *d,
                          const struct driver_host *host)
{
    size_t n = 0;

    for (size_t i = 0; i < host->slots_max; i++)
        n += driver_slot(d, host, (uint32_t)i)->n_failed;
    return n;
}

static void check_host(struct sim *s, const struct driver_host *host,
                       struct sim_host *seen)
{
    size_t n = failures_of(&s->driver, host);

    if (!host->drains && host->notice == NOTICE_NONE)
        seen->leaves = false;
    else if (!seen->leaves || n < seen->n_failed)
        seen->n_failed = n;
    else if (n > seen->n_failed)
        check_fail(s, "a failure counts on %s, which was to go", host->name);
    seen->leaves = host->drains || host->notice != NOTICE_NONE;
}

void notice_check(struct sim *s)
{
    const struct driver *d = &s->driver;

    for (size_t i = 0; i < d->n_hosts; i++) {
        struct sim_host *seen = plan_host_of(s, d->hosts[i].name);

        if (seen)
            check_host(s, &d->hosts[i], seen);
    }
}

/* Whoever leaves when a generation is formed has nothing that it lacks. */
void notice_check_drained(struct sim *s, const struct driver_action *actions,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct driver_record *r = &actions[i].u.record;
        const struct driver_worker *w;

        if (actions[i].type != DRIVER_ACT_RECORD ||
            r->type != RECORD_WORKER_DRAINED)
            continue;
        w = driver_worker(&s->driver, r->worker);
        if (w && state_id_compare(w->offer.id, s->driver.base) > 0)
            check_fail(s, "w%llu is drained with a commit that nobody else has",
                       (unsigned long long)w->id);
    }
}
