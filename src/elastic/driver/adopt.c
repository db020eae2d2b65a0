/* elastic/driver/adopt.c - a successor begins: agents and workers that have
 * lived on say where they are, beside what the driver before it wrote down
 * (inherit.c). M15 of docs/protocol.md. See core.h. Pure.
 *
 * While the driver is ADOPTING it only finds out which agents and workers live,
 * and in which generation. The journal's memory names those to wait for; they
 * report the rest (struct msg_where), and their word counts for more. A worker
 * that the memory lacks, and an agent of this job reports, is adopted as well:
 * the last entries may have been lost.
 *
 * Then the newest generation goes on as it is, if all its ranks are here and
 * none has left it by a loss; if not, it has ended by one. */
#include <string.h>

#include "elastic/driver/core_internal.h"

/* ---- who is there -------------------------------------------------------- */

struct driver_host *adopt_agent(struct driver *d, uint64_t agent,
                                const char *name)
{
    struct driver_host *host;

    if (!driver_adopts(d))
        return NULL;
    host = host_named(d, name);
    if (!host)
        host = host_add(d, name);
    if (!host || (host->agent_phase != AGENT_NONE && host->agent > agent))
        return NULL; /* it was given up for a younger one */
    if (host->agent_phase != AGENT_NONE)
        give_up_agent(d, host, "was replaced");
    if (!inherit_agent(d, host, agent, false))
        return NULL;
    d->knows_nobody = false;
    return host;
}

struct driver_worker *adopt_worker(struct driver *d, uint64_t agent,
                                   const struct msg_spawned *m)
{
    struct driver_host *host = host_of_agent(d, agent);
    struct driver_worker *w;

    if (!driver_adopts(d) || !host || m->slot >= HOSTS_SLOTS_MAX)
        return NULL;
    w = inherit_row(d, m->worker, host, m->slot);
    if (w && d->phase == DRIVER_STOPPING)
        finish_await(d, w);
    members_recount(d);
    return w;
}

/* As many as it says have been told of. Who had a process, is not told of and
 * has not said HELLO either, has ended and is forgotten. (Who had none is
 * started now.) */
void adopt_accounted(struct driver *d, struct driver_host *host,
                     uint64_t n_alive)
{
    uint32_t row = (uint32_t)(host - d->hosts);
    size_t n_told = 0;

    for (size_t i = 0; i < d->n_workers; i++)
        n_told += d->workers[i].host == row && d->workers[i].spawned &&
                  d->workers[i].life != LIFE_GONE;
    if (!host->inherited || n_told < n_alive)
        return;
    host->inherited = false;
    d->recheck = true;
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (w->host != row || !w->inherited || w->spawned || w->greeted ||
            worker_is_dead(w) || (w->pid == 0 && w->life == LIFE_STARTING))
            continue;
        action_kill(d, w, 0); /* it is answered that it is gone */
        worker_dies(d, w, "is not there any more", false);
    }
}

/* What somebody knows is taken by now. */
static void note_numbers(struct driver *d, const struct msg_where *where)
{
    d->generation_floor = later_of(d->generation_floor,
                                   later_of(where->generation, where->fence));
    d->hold_floor = later_of(d->hold_floor, where->hold_sequence);
}

static bool trains(const struct driver_where *where)
{
    return where->phase == WORKER_RUNNING || where->phase == WORKER_HELD ||
           where->phase == WORKER_DONE;
}

/* Not in vain: ABORT will not have it leave. */
static bool is_inside(const struct driver_where *where)
{
    return trains(where) && where->fence < where->generation;
}

/* At a boundary, as everybody else will. */
static bool has_left_well(const struct driver_where *where)
{
    return where->phase == WORKER_JOINING && where->generation > 0 &&
           where->reason == READY_UPDATED && where->fence == where->generation;
}

/* The others have decided without it. It has to leave what it is in, and be
 * READY for the next. */
static void greet_late(struct driver *d, struct driver_worker *w)
{
    if (worker_is_enlisted(w))
        return;
    w->was_ready |= w->where.generation > 0;
    if (is_inside(&w->where))
        send_abort(d, w, w->where.generation);
    else if (w->named < w->where.fence)
        w->named = w->where.fence;
}

/* A HELLO that was delayed on its way, behind a newer one. */
static bool is_older(const struct driver_where *now,
                     const struct msg_where *where)
{
    return where->generation < now->generation || where->fence < now->fence ||
           (where->phase < WORKER_JOINING && where->phase < now->phase);
}

/* Until this driver forms a generation, a worker holds the state if it has what
 * the newest generation began with. */
static void note_base(struct driver *d, const struct msg_where *where)
{
    if (d->generation <= d->generation_floor &&
        state_id_compare(where->base, d->base) > 0)
        d->base = where->base;
}

void adopt_greeting(struct driver *d, struct driver_worker *w,
                    const struct msg_where *where)
{
    if (where->phase == WORKER_CONTACT && d->phase != DRIVER_ADOPTING)
        return;
    if (w->greeted && is_older(&w->where, where))
        return;
    note_numbers(d, where);
    note_base(d, where);
    note_committed(d, w, where->id);
    w->greeted = true;
    w->where = (struct driver_where){.phase = where->phase,
                                     .reason = where->reason,
                                     .generation = where->generation,
                                     .fence = where->fence,
                                     .joined = where->joined,
                                     .rank = where->rank,
                                     .size = where->size,
                                     .base = where->base,
                                     .id = where->id,
                                     .boundary = where->boundary,
                                     .hold_sequence = where->hold_sequence,
                                     .cut = where->cut,
                                     .held = where->held,
                                     .has_cut = where->has_cut};
    if (!d->layout_known && where->kind != 0) {
        d->layout_known = true;
        d->kind = where->kind;
        memcpy(d->layout, where->layout, sizeof(d->layout));
        memcpy(d->layout_text, where->layout_text, sizeof(d->layout_text));
    }
    if (d->phase != DRIVER_ADOPTING)
        greet_late(d, w);
    else if (where->released)
        finish_adopt(d, where); /* all were DONE */
    d->recheck = true;
}

/* ---- where everybody is -------------------------------------------------- */

static uint64_t newest_generation(const struct driver *d)
{
    uint64_t newest = 0;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (w->greeted && !worker_is_dead(w))
            newest = later_of(newest,
                              later_of(w->where.generation, w->where.fence));
    }
    return newest;
}

static bool is_of(const struct driver_worker *w, uint64_t generation)
{
    return w->greeted && worker_is_here(w) &&
           w->where.generation == generation &&
           (is_inside(&w->where) || has_left_well(&w->where));
}

/* All its ranks are here, and nobody knows that it has ended. */
static bool is_whole(struct driver *d, uint64_t generation)
{
    size_t size = 0, n = 0;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (is_of(w, generation))
            size = w->where.size;
        else if (w->greeted && !worker_is_dead(w) &&
                 w->where.fence >= generation)
            return false;
    }
    if (generation == 0 || size == 0 || size > d->n_workers)
        return false;
    memset(d->scratch, 0, size * sizeof(*d->scratch));
    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (is_of(w, generation) && w->where.size == size &&
            w->where.rank < size && !d->scratch[w->where.rank]++)
            n++;
    }
    return n == size;
}

/* ---- the newest generation goes on --------------------------------------- */

static void enlist_again(struct driver *d, struct driver_worker *w)
{
    worker_stand(w, STAND_WAITING);
    worker_stand(w, STAND_RUNNING);
    w->rank = w->where.rank;
    d->assign.size = w->where.size;
    w->joined = w->where.joined;
    w->offer.id = w->where.id;
    w->was_ready = w->first_collective = true;
    w->entered = w->joined < w->where.generation ||
                 w->where.id.generation == w->where.generation;
    w->progress_us = d->now_us;
}

static void put_into_table(struct driver *d, struct driver_worker *w)
{
    struct assign_entry *e = &d->table.entries[w->where.rank];

    memset(e, 0, sizeof(*e));
    e->worker = w->id;
    e->host = host_of(d, w)->order;
    e->slot = w->slot;
    e->port = w->port;
    memcpy(e->address, w->address, sizeof(e->address));
}

/* HOLD and CUT as far as they had come. A CUT that is known to anybody may be
 * left at by everybody; one that is known to nobody will never come. */
static void resume_change(struct driver *d)
{
    bool held = false;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];
        bool left = has_left_well(&w->where);

        if (!is_member(w))
            continue;
        held |= w->where.held;
        if (!w->where.has_cut && !left)
            continue;
        d->hold_sequence = w->where.hold_sequence;
        d->cut = left ? w->where.boundary : w->where.cut;
        d->change = d->cut == CUT_NEVER ? CHANGE_OVER : CHANGE_CUTTING;
    }
    if (held && d->change == CHANGE_NONE && d->kind != READY_STATIC)
        change_announce(d);
}

static void say_adopted(struct driver *d, const char *what)
{
    struct driver_record *r = record_add(d, RECORD_NOTE);
    struct text t = text_into(r->text, sizeof(r->text));

    text_add(&t, "driver of term ");
    text_u64(&t, d->config.term);
    text_add(&t, ": generation ");
    text_u64(&t, d->generation);
    text_add(&t, what);
}

static void go_on(struct driver *d, uint64_t generation)
{
    d->generation = generation;
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (!w->greeted || !worker_is_here(w))
            continue;
        w->named = w->where.fence;
        if (!is_of(w, generation))
            continue;
        enlist_again(d, w);
        put_into_table(d, w);
        w->named = generation;
        d->base = w->where.base;
        d->world_size = w->where.size;
    }
    d->table.n_entries = d->world_size;
    d->table.generation = 0; /* it is not, to the byte, what they have */
    d->reason = READY_UPDATED;
    d->opened_us = d->patience_us = d->formed_us = d->now_us;
    d->below_us = DRIVER_NEVER;
    driver_move(d, DRIVER_RUNNING);
    say_adopted(d, " goes on");
    for (size_t i = 0; i < d->n_workers; i++)
        if (is_member(&d->workers[i]))
            note_committed(d, &d->workers[i], d->workers[i].where.id);
    members_recount(d);
    resume_change(d);
}

/* ---- ... or has ended ---------------------------------------------------- */

static bool was_member(const struct driver_worker *w)
{
    return w->greeted && worker_is_here(w) &&
           (w->where.generation > 0 || w->where.fence > 0);
}

/* A number above all that were ever given: whatever they are in, they leave it,
 * and are READY with a fence that nobody else has named. */
static void end_all(struct driver *d)
{
    static const char why[] = " has ended, as not all of it are here any more";

    struct text t = text_into(d->abort.text, sizeof(d->abort.text));

    text_add(&t, "the driver was replaced");
    d->generation = d->generation_floor;
    d->aborted = d->committed = d->death = true; /* it is nobody's fruit */
    d->abort.reason = ABORT_LOST;
    rendezvous_open(d, READY_LOST, d->abort.text);
    say_adopted(d, why);
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (!was_member(w))
            continue;
        enlist_again(d, w);
        d->world_size++;
        send_abort(d, w, d->generation);
    }
    members_recount(d);
    if (d->ever_committed && !state_is_reported(d))
        job_stop_failed(d, "nobody is left who holds the state");
}

static void begin_anew(struct driver *d)
{
    driver_move(d, DRIVER_WAITING);
    d->opened_us = d->patience_us = d->below_us = d->now_us;
    members_recount(d);
}

static void decide(struct driver *d)
{
    uint64_t newest;

    for (size_t i = 0; i < d->n_hosts; i++)
        blacklist_enforce(d, &d->hosts[i]); /* told of after it was listed */
    newest = newest_generation(d);
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        /* a newcomer's layout may not have been looked at yet */
        w->was_ready |= w->greeted && w->where.generation > 0;
    }
    /* of a younger one that was formed nobody has heard, and nobody will */
    if (newest >= d->generation && is_whole(d, newest))
        go_on(d, newest);
    else if (newest > 0 || d->generation > 0)
        end_all(d);
    else
        begin_anew(d);
}

/* ---- for how long -------------------------------------------------------- */

static bool awaits_agents(const struct driver *d)
{
    if (d->knows_nobody)
        return true;
    for (size_t i = 0; i < d->n_hosts; i++)
        if (d->hosts[i].inherited && d->hosts[i].agent_phase != AGENT_NONE)
            return true;
    return false;
}

/* A worker that had sent HELLO to the driver before sends it again. One that
 * had not may be loading its program; but if ranks are missing, the driver
 * cannot tell which had. */
static bool awaits_workers(struct driver *d)
{
    bool any = false, calling = false;

    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (!worker_is_here(w) || w->greeted)
            continue;
        any = true;
        calling |= w->life == LIFE_UP;
    }
    return calling || (any && !is_whole(d, newest_generation(d)));
}

void adopt_progress(struct driver *d)
{
    if (d->phase == DRIVER_ADOPTING && !awaits_agents(d) && !awaits_workers(d))
        decide(d);
}

/* Nobody who is known to have trained has any state, and somebody lives of whom
 * it is not known whether he has: without him all might begin anew for nothing.
 * He says HELLO, ends, or is given up by --start-timeout. */
static bool awaits_state(const struct driver *d)
{
    if (state_is_reported(d))
        return false;
    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (worker_is_here(w) && w->spawned && !w->greeted)
            return true;
    }
    return false;
}

static void give_up_silent(struct driver *d, enum worker_life life,
                           const char *how)
{
    for (size_t i = 0; i < d->n_workers; i++) {
        struct driver_worker *w = &d->workers[i];

        if (w->life != life || w->greeted)
            continue;
        action_kill(d, w, 0);
        worker_dies(d, w, how, true);
    }
}

/* A holder of the state has called, and its agent is here. */
static bool state_has_arrived(const struct driver *d)
{
    for (size_t i = 0; i < d->n_workers; i++) {
        const struct driver_worker *w = &d->workers[i];

        if (w->greeted && worker_has_state(w) &&
            d->hosts[w->host].agent_phase == AGENT_UP)
            return true;
    }
    return false;
}

static bool nobody_has_called(const struct driver *d)
{
    for (size_t i = 0; i < d->n_hosts; i++)
        if (d->hosts[i].agent_phase == AGENT_UP)
            return false;
    return true;
}

/* M5: silence does not show that the state is lost. Agents and workers that the
 * driver before this one has heard may be stopped, or cut off; or they hear
 * that one still, which another machine could not know. */
static bool silence_may_pass(const struct driver *d)
{
    return ((d->ever_committed && !state_has_arrived(d)) ||
            (d->config.before_may_live && nobody_has_called(d))) &&
           d->now_us - d->adopt_us < d->config.driver_timeout_us;
}

/* It lives and has said hello, but not whom it runs. */
static bool has_yet_to_tell(const struct driver *d,
                            const struct driver_host *host)
{
    return host->inherited && host->agent_phase == AGENT_UP &&
           d->now_us - host->agent_heard_us <= d->config.heartbeat_timeout_us;
}

bool driver_hears_out(const struct driver *d)
{
    if (d->phase == DRIVER_ADOPTING)
        return true;
    if (d->now_us >= d->adopt_us)
        return false; /* one that never tells all must not hold up the others */
    for (size_t i = 0; i < d->n_hosts; i++)
        if (has_yet_to_tell(d, &d->hosts[i]))
            return true;
    return false;
}

/* It has yet to call, or was cut off before it could tell whom it runs. */
static bool is_awaited(const struct driver_host *host)
{
    return host->inherited && (host->agent_phase == AGENT_STARTING ||
                               host->agent_phase == AGENT_UP);
}

/* true: agents have yet to tell, and are heard out, as one of those that they
 * run may hold the state. */
static bool give_up_agents(struct driver *d, bool patient, bool spare,
                           const char *how)
{
    bool awaited = false;

    for (size_t i = 0; i < d->n_hosts; i++) {
        struct driver_host *host = &d->hosts[i];

        if (spare && is_awaited(host)) {
            awaited = true;
            continue;
        }
        if (host->agent_phase == AGENT_STARTING && host->inherited)
            give_up_agent(d, host, how);
        if (patient && has_yet_to_tell(d, host))
            awaited = true;
        else
            adopt_accounted(d, host, 0);
    }
    return awaited;
}

void adopt_tick(struct driver *d)
{
    static const char how[] = "did not come to the driver that took over";

    bool awaited, patient, spare;

    if (d->phase != DRIVER_ADOPTING || d->now_us < d->adopt_us)
        return;
    patient = d->now_us - d->adopt_us < d->config.start_timeout_us;
    if (silence_may_pass(d)) /* and when it has, some come later than others */
        d->spared_us = d->now_us + return_limit(d);
    spare = d->now_us < d->spared_us;
    awaited = give_up_agents(d, patient && !state_is_reported(d), spare, how);
    if (!spare)
        give_up_silent(d, LIFE_UP, how);
    if (!patient && awaits_state(d))
        give_up_silent(d, LIFE_STARTING, "did not call within --start-timeout");
    if (d->phase == DRIVER_ADOPTING && !awaited && !awaits_state(d))
        decide(d);
}
