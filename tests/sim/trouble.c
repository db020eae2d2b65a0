/* trouble.c - what passes by itself: a host that boots, a program that is
 * missing for a while, processes that cannot be had; and a slot whose workers
 * all fail, for a while. What the driver may make of it (M11). */
#include <errno.h>
#include <string.h>

#include "world.h"

enum { REST_MAX_US = 30000000 };

static uint64_t until(struct sim *s)
{
    uint64_t until_us = s->now_us + sim_uniform(s, 1, 8000) * MSEC;

    faults_last(s, until_us);
    return until_us;
}

/* A new one, or one that was in use. */
static void boot(struct sim *s)
{
    uint32_t host = (uint32_t)random_below(&s->random, s->n_hosts);

    if (sim_one_in(s, 2)) {
        plan_host(s, (uint32_t)sim_uniform(s, 1, 3), false);
        host = (uint32_t)s->n_hosts - 1;
    }
    s->hosts[host].boots_until_us = until(s);
    TRACE(s, "%s boots", s->hosts[host].name);
    sim_cover(s, COVER_booted);
    for (size_t i = 0; i < s->n_agents; i++)
        if (s->agents[i] && s->agents[i]->host == host)
            agents_die(s, s->agents[i], false);
}

static void take_program(struct sim *s)
{
    static const int errors[] = {ENOENT, EAGAIN, ENOMEM, ETXTBSY};
    int error = errors[random_below(&s->random, ARRAY_SIZE(errors))];
    uint64_t until_us = until(s);
    bool everywhere = sim_one_in(s, 2);

    TRACE(s, "nobody can be started%s: error %d",
          everywhere ? "" : " on some hosts", error);
    sim_cover(s, COVER_barren);
    for (size_t i = 0; i < s->n_hosts; i++) {
        if (!everywhere && sim_one_in(s, 2))
            continue;
        s->hosts[i].barren_until_us = until_us;
        s->hosts[i].start_error = error;
    }
}

static void break_slot(struct sim *s)
{
    struct sim_host *host = &s->hosts[random_below(&s->random, s->n_hosts)];

    host->bad_slot = (uint32_t)random_below(&s->random, host->slots);
    host->slot_bad_until_us = until(s);
    TRACE(s, "slot %u of %s is bad", host->bad_slot, host->name);
    sim_cover(s, COVER_slot_bad);
    for (size_t i = 0; i < s->n_workers; i++)
        if (sim_worker(s, i))
            trouble_befall(s, sim_worker(s, i));
}

void trouble_strike(struct sim *s, enum fault fault)
{
    if (fault == FAULT_BOOT)
        boot(s);
    else if (fault == FAULT_NO_PROGRAM)
        take_program(s);
    else
        break_slot(s);
}

void trouble_befall(struct sim *s, const struct sim_worker *w)
{
    const struct sim_host *host = &s->hosts[w->host];

    if (s->now_us < host->slot_bad_until_us && w->slot == host->bad_slot)
        process_exit_in(s, w, 1, sim_uniform(s, 1, 300) * MSEC);
}

/* ---- what must hold ------------------------------------------------------ */

/* Somebody else may be convicted in this step, as it was the last start that
 * others waited for. */
static bool is_of_agent(struct sim *s, const struct driver_action *a,
                        uint64_t agent)
{
    const struct sim_agent *its = sim_agent(s, agent);

    return a->type == DRIVER_ACT_KILL
               ? a->agent == agent
               : its && a->u.record.host &&
                     strcmp(a->u.record.host, s->hosts[its->host].name) == 0;
}

void trouble_check(struct sim *s, const struct driver_event *event,
                   const struct driver_action *actions, size_t n)
{
    const struct driver *d = &s->driver;

    for (size_t i = 0; i < d->n_hosts; i++)
        if (d->hosts[i].start_us > d->now_us + REST_MAX_US)
            check_fail(s, "%s rests for too long", d->hosts[i].name);
    if (event->type != DRIVER_EV_SPAWN_FAILED || d->phase >= DRIVER_STOPPING)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct driver_record *r = &actions[i].u.record;

        if ((actions[i].type == DRIVER_ACT_KILL ||
             (actions[i].type == DRIVER_ACT_RECORD &&
              (r->type == RECORD_SLOT_CLOSED || r->type == RECORD_WORKER_LOST ||
               r->type == RECORD_HOST_BLACKLISTED))) &&
            is_of_agent(s, &actions[i], event->by))
            check_fail(s, "a start that failed costs more than itself");
    }
}
