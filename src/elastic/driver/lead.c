/* elastic/driver/lead.c - see lead.h. */
#include "elastic/driver/lead.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/stall.h"

enum {
    SWEEP_US = 1000000,
    FIRST_MS = 100, /* see lead_step() */
    LOOK_MS = 100
};

/* ---- writing down -------------------------------------------------------- */

/* Of another machine: no process here has this number. */
static void identify_agent(const struct lead *lead, struct entry_host *host)
{
    const struct launched *agent = launch_find(lead->launch, host->agent);

    if (agent && !agent->ops->same_machine)
        host->pid = ENTRY_FAR;
    if (!agent || !agent->ops->same_machine)
        return;
    host->pid = agent->pid;
    host->started = agent->started;
}

/* pids that it tells are pids here. */
static bool is_here(const struct lead *lead, uint64_t agent)
{
    const struct launched *launched = launch_find(lead->launch, agent);

    return launched && launched->ops->same_machine;
}

static void put(void *arg, struct entry *entry)
{
    struct lead *lead = arg;
    struct entry_worker *worker = &entry->u.worker;

    if (entry->type == ENTRY_HOST && entry->u.host.agent != 0 &&
        entry->u.host.pid == 0)
        identify_agent(lead, &entry->u.host);
    if (entry->type == ENTRY_WORKER && worker->pid != 0 &&
        worker->started == 0 && is_here(lead, worker->agent))
        worker->started = proc_started((pid_t)worker->pid);
    if (!journal_put(lead->journal, entry))
        log_debug("no memory for the journal -> the next sweep tries again");
}

static struct keep keep_of(struct lead *lead)
{
    return (struct keep){journal_memory(lead->journal), put, lead};
}

void lead_step(struct lead *lead, const struct driver *d,
               const struct driver_action *actions, size_t n, bool first)
{
    struct keep keep;

    if (!lead->dir)
        return;
    keep = keep_of(lead);
    keep_step(&keep, d, actions, n);
    if (first)
        journal_flush(lead->journal, FIRST_MS);
}

void lead_put_places(struct lead *lead, const struct entry_places *places)
{
    struct entry entry = {.type = ENTRY_PLACES, .u.places = *places};

    if (lead->dir)
        put(lead, &entry);
}

static void tell_trouble(struct lead *lead)
{
    int error = journal_error(lead->journal);

    if (error != 0 && lead->error == 0)
        log_error("--job-dir: the journal cannot be written: %s -> a successor "
                  "would not know what happens from now on",
                  strerror(error));
    if (error == 0 && lead->error != 0)
        log_info("--job-dir: the journal is written again, all of it");
    lead->error = error;
}

static void sweep(struct lead *lead, const struct driver *d, uint64_t now_us)
{
    struct keep keep = keep_of(lead);

    if (now_us < lead->sweep_us)
        return;
    lead->sweep_us = now_us + SWEEP_US;
    keep_sweep(&keep, d);
    journal_tick(lead->journal);
    journal_keep(lead->journal, &lead->own);
    tell_trouble(lead);
}

/* ---- another driver ------------------------------------------------------ */

static bool is_replaced(struct lead *lead, const char *by)
{
    lead->replaced = true;
    snprintf(lead->sentence, sizeof(lead->sentence),
             "driver of term %" PRIu64 " (pid %d): %s", lead->own.term,
             (int)getpid(), by);
    return false;
}

static bool is_overtaken(struct lead *lead, const struct beacon *b)
{
    char by[80];

    snprintf(by, sizeof(by),
             "term %" PRIu64 " (pid %" PRId64 ") has taken over this job",
             b->term, b->pid);
    return is_replaced(lead, by);
}

/* DIR/driver is not there, or it names another job. Either somebody has cleaned
 * the directory; or this driver did not run for a while, and a successor has
 * ended the job meanwhile: then all agents have ended as well, and the
 * successor has removed the journals of other terms. A driver that ran all the
 * time has seen its agents end itself. */
static bool leads_still(struct lead *lead, bool other)
{
    if (lead->stood && (other || !journal_is_there(lead->journal)) &&
        !launch_lives(lead->launch))
        return is_replaced(lead, "this job has ended without it");
    if (!other) {
        journal_keep(lead->journal, &lead->own);
        return true;
    }
    log_error("--job-dir: \"%s\" is another job's by now -> this one goes on, "
              "and cannot be resumed",
              lead->dir);
    lead_close(lead);
    return true;
}

/* Where locks do not hold between machines two drivers may have one term:
 * DIR/driver names the one that leads. */
static bool leads_instead(const struct lead *lead, const struct beacon *b)
{
    return b->term > lead->own.term ||
           (b->term == lead->own.term &&
            (b->machine != lead->own.machine || b->pid != lead->own.pid));
}

bool lead_look(struct lead *lead, uint64_t now_us)
{
    struct beacon b;
    bool found;

    if (!lead->scout) /* no DIR, or it could not be opened */
        return true;
    lead->stood |= stall_of(lead->look_us, now_us) > 0;
    lead->look_us = now_us + lead->look_every_us;
    found = scout_look(lead->scout, LOOK_MS, &b);
    if (!found && !scout_misses(lead->scout))
        return true; /* nobody can tell */
    if (!found || b.job != lead->own.job)
        return leads_still(lead, found);
    lead->stood = false;
    return !leads_instead(lead, &b) || is_overtaken(lead, &b);
}

bool lead_stood(struct lead *lead, uint64_t now_us)
{
    lead->stood = true;
    return lead_look(lead, now_us);
}

/* After a longer absence it is time to look: whatever else is due then may not
 * be ours to do. */
bool lead_turn(struct lead *lead, const struct driver *d, uint64_t now_us)
{
    if (!lead->dir)
        return true;
    if (stall_of(d->next_tick_us, now_us) > 0 && !lead_stood(lead, now_us))
        return false;
    if (now_us >= lead->look_us && !lead_look(lead, now_us))
        return false;
    if (lead->dir)
        sweep(lead, d, now_us);
    return true;
}

uint64_t lead_deadline(const struct lead *lead)
{
    if (!lead->dir)
        return CLOCK_NEVER;
    return lead->look_us < lead->sweep_us ? lead->look_us : lead->sweep_us;
}

/* ---- begin and end ------------------------------------------------------- */

hvd_status_t lead_open(struct lead *lead, const char *dir, struct memory *m,
                       const struct beacon *own, const struct launch *launch,
                       uint64_t look_every_us)
{
    *lead = (struct lead){.dir = dir,
                          .own = *own,
                          .launch = launch,
                          .look_us = clock_now_us(),
                          .look_every_us = look_every_us};
    m->state.term = own->term;
    m->state.machine = own->machine;
    HVD_TRY(journal_create(dir, m, &lead->journal));
    HVD_TRY(scout_create(dir, &lead->scout));
    HVD_TRY(beacon_write(dir, own));
    journal_remove_others(dir, own->term); /* until now the other one leads */
    return HVD_OK;
}

void lead_close(struct lead *lead)
{
    journal_close(lead->journal);
    scout_destroy(lead->scout);
    *lead = (struct lead){0};
}
