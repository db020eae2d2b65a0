/* succession.c - the driver dies, and another takes over (M15): what was
 * written down but for its last entries, what is on its way to the dead one,
 * and how agents and workers find the new one. It follows what driver/loop.c,
 * agent/loop.c and worker/control.c do, which are not pure.
 *
 * Connections are by term: what was sent to a driver that is dead is lost, and
 * what it has sent is not heard by who has dialled another. */
#include <string.h>

#include "world.h"

enum {
    LOST_ENTRIES_MAX = 8, /* of those that a thread had yet to write: */
    LOST_US = 200000,     /* not the older ones */
    SILENT_BEATS = 3      /* agent/loop.c */
};

/* ---- what is written down ------------------------------------------------ */

static void put(void *arg, struct entry *entry)
{
    struct sim *s = arg;

    if (!memory_fold(&s->memory, entry) ||
        !array_reserve(&s->entries, &s->entries_max, s->n_entries + 1))
        abort();
    s->entries[s->n_entries].at_us = s->now_us;
    s->entries[s->n_entries++].entry = *entry;
}

/* verdict: this step speaks it. Nobody is told before it is with the kernel
 * (feed_one() in driver/loop.c), and with it all that was put before. */
void succession_write(struct sim *s, const struct driver_action *actions,
                      size_t n, bool verdict)
{
    struct keep keep = {&s->memory, put, s};

    if (!s->plan.survives)
        return;
    keep_step(&keep, &s->driver, actions, n);
    if (verdict)
        s->n_written = s->n_entries;
}

/* What a driver writes before it says anything is there. */
static void forget_tail(struct sim *s, uint64_t n_lost)
{
    while (n_lost-- > 0 && s->n_entries > s->n_written && s->n_entries > 1 &&
           s->entries[s->n_entries - 1].at_us + LOST_US > s->driver_died_us)
        s->n_entries--;
    memory_fini(&s->memory);
    for (size_t i = 0; i < s->n_entries; i++)
        if (!memory_fold(&s->memory, &s->entries[i].entry))
            abort();
}

/* ---- death --------------------------------------------------------------- */

void succession_cut_lifelines(struct sim *s)
{
    for (size_t i = 0; i < s->n_agents; i++)
        if (s->agents[i] && s->agents[i]->runs)
            agents_cut_lifeline(s, s->agents[i]);
}

void succession_begin(struct sim *s, uint64_t delay_us, uint64_t n_lost)
{
    struct event *event;

    if (!s->plan.survives || s->driver_dead || s->n_entries == 0)
        return;
    TRACE(s, "the driver is killed with -9; %llu entries are lost",
          (unsigned long long)n_lost);
    sim_cover(s, COVER_driver_died);
    s->driver_dead = true;
    s->driver_died_us = s->now_us;
    s->stalled_until_us = s->slow_until_us = 0;
    succession_cut_lifelines(s);
    faults_last(s, s->now_us + delay_us);
    event = queue_push(&s->queue, s->now_us + delay_us, EV_SUCCESSION);
    event->a = n_lost;
}

void succession_strike(struct sim *s)
{
    uint64_t delay_us = sim_one_in(s, 3) ? sim_uniform(s, 1, 200) * MSEC
                                         : sim_uniform(s, 100, 6000) * MSEC;

    if (delay_us > s->driver_config.driver_timeout_us / 3)
        delay_us = s->driver_config.driver_timeout_us / 3;
    succession_begin(s, delay_us, random_below(&s->random, LOST_ENTRIES_MAX));
}

/* ---- the successor ------------------------------------------------------- */

/* Of an agent on this machine a pid says whether it still runs. */
static void find_the_dead(struct sim *s)
{
    for (size_t i = 0; i < s->memory.n_hosts; i++) {
        const struct entry_host *host = &s->memory.hosts[i];
        struct sim_agent *agent = sim_agent(s, host->agent);

        if (host->agent == 0 || s->plan.remote || (agent && agent->runs))
            continue;
        driver_agent_ended(s, host->agent);
    }
}

static void part(struct sim *s)
{
    for (size_t i = 0; i < s->n_agents; i++)
        if (s->agents[i])
            s->agents[i]->met = s->agents[i]->stopping = false;
    for (size_t i = 0; i < s->n_workers; i++)
        if (s->workers[i])
            s->workers[i]->met = false;
    for (size_t i = 0; i < s->n_hosts; i++)
        s->hosts[i].leaves = false; /* it may count what its elder forgot */
}

void succession_end(struct sim *s, const struct event *event)
{
    struct keep keep = {&s->memory, put, s};

    forget_tail(s, event->a);
    s->driver_config.term++;
    s->driver_dead = false;
    part(s);
    driver_fini(&s->driver);
    TRACE(s, "a driver of term %llu takes over",
          (unsigned long long)s->driver_config.term);
    if (!sim_driver_init(s) || !driver_inherit(&s->driver, &s->memory))
        abort();
    keep_sweep(&keep, &s->driver);
    s->n_written = s->n_entries;
    s->released = s->driver.released;
    find_the_dead(s);
}

/* ---- it is found --------------------------------------------------------- */

void succession_look_worker(struct sim *s, struct sim_worker *w)
{
    struct worker_event ev = control_event(w, WORKER_EV_SUCCESSOR);
    uint64_t silent_us = host_now(s, w->host) - w->core.last_heard_us;

    if (s->driver_dead || w->core.term >= s->driver_config.term ||
        !s->plan.survives || silent_us <= w->core.heartbeat_us * 3 / 2 ||
        !worker_has_words(&w->core))
        return;
    ev.u.term = s->driver_config.term;
    control_feed(s, w, &ev);
}

bool succession_look_agent(struct sim *s, const struct sim_agent *agent)
{
    uint64_t silent_us = host_now(s, agent->host) - agent->core.heard_us;

    return s->plan.survives && !s->driver_dead &&
           agent->core.term < s->driver_config.term &&
           silent_us > SILENT_BEATS * agent->core.config.beat_us;
}

uint64_t succession_term(const struct sim *s)
{
    return s->plan.survives ? s->driver_config.term : 0;
}
