/* elastic/driver/exits.c - what agents report of their workers: started, not
 * started, dying, exited. See core.h. Pure. */
#include <string.h>

#include "elastic/driver/core_internal.h"

#define UNEXPLAINED "has died"

static void blame(struct driver *d, uint64_t agent,
                  const struct driver_worker *w)
{
    struct driver_host *host = host_of_agent(d, agent);
    char buf[WIRE_TEXT_MAX];
    struct text t = text_into(buf, sizeof(buf));

    if (!host || host->meddled)
        return;
    host->meddled = true; /* once is enough to find it */
    text_add(&t, "the agent on ");
    text_add(&t, host->name);
    text_add(&t, " reports on ");
    text_worker(&t, d, w);
    text_add(&t, ", which it does not run -> ignored");
    record_warning(d, buf);
}

/* What is said of a worker counts if its own agent says it. */
static struct driver_worker *reported(struct driver *d, uint64_t by,
                                      uint64_t worker)
{
    struct driver_worker *w = worker_find(d, worker);

    if (!w || host_of(d, w)->agent == by)
        return w;
    blame(d, by, w);
    return NULL;
}

/* It runs somebody without whom all was decided (M15), as nothing of him was
 * written down, and the word of him has come too late. He is in nobody's group,
 * and his slot may be another's. */
static void kill_unknown(struct driver *d, uint64_t agent, uint64_t worker)
{
    struct driver_action *a;

    if (driver_adopts(d) || !host_of_agent(d, agent))
        return;
    a = action_add(d, DRIVER_ACT_KILL);
    a->agent = agent;
    a->worker = worker;
}

void on_spawned(struct driver *d, uint64_t by, const struct msg_spawned *m)
{
    bool known = worker_find(d, m->worker) != NULL;
    struct driver_worker *w = known ? reported(d, by, m->worker)
                                    : adopt_worker(d, by, m);

    if (!w && !known)
        kill_unknown(d, by, m->worker);
    if (!w || w->spawned)
        return;
    w->spawned = true;
    w->pid = m->pid;
    d->spawned_once = true;
    host_works(host_of(d, w));
    record_add_worker(d, RECORD_WORKER_SPAWNED, w);
}

void on_spawn_failed(struct driver *d, uint64_t by,
                     const struct msg_spawn_failed *m)
{
    struct driver_worker *w = reported(d, by, m->worker);
    struct driver_host *host;

    if (!w)
        return;
    host = host_of(d, w);
    if (d->phase < DRIVER_ADOPTING && start_is_hopeless(d, w, m->error))
        job_stop_unstarted(d, w, m->text);
    worker_forget_unstarted(d, w);
    if (d->phase < DRIVER_STOPPING && !host_leaves(host))
        start_failed(d, host, m->text, false);
}

static void text_failure(char *buf, const struct driver *d,
                         const struct driver_worker *w, const char *how)
{
    struct text t = text_into(buf, WIRE_TEXT_MAX);

    text_worker(&t, d, w);
    text_add(&t, " ");
    text_add(&t, how);
}

void worker_explain(struct driver *d, const struct driver_worker *w,
                    const char *how)
{
    char told[WIRE_TEXT_MAX];

    text_failure(told, d, w, UNEXPLAINED);
    if (strcmp(d->last_failure, told) == 0)
        text_failure(d->last_failure, d, w, how);
}

/* The worker counts for nothing from now on. Its slot is its own until it has
 * exited, when the kernel has freed its memory. If it runs below a script, that
 * script has FAREWELL_US to end. A worker that was told to go is judged by its
 * exit. */
void on_dying(struct driver *d, uint64_t by, const struct msg_worker_exited *m)
{
    struct driver_worker *w = reported(d, by, m->worker);
    char how[WIRE_TEXT_MAX] = UNEXPLAINED;

    if (w)
        w->parted = true;
    if (!w || !worker_is_here(w))
        return;
    if (m->code != EXIT_UNKNOWN)
        text_exit(how, w, m);
    w->unexplained = m->code == EXIT_UNKNOWN;
    d->spawned_once = true; /* a successor may not have heard SPAWNED */
    w->kill_us = d->now_us + FAREWELL_US;
    worker_dies(d, w, how, true);
}

void on_exited(struct driver *d, uint64_t by, const struct msg_worker_exited *m)
{
    struct driver_worker *w = reported(d, by, m->worker);
    struct driver_record *r;
    char how[WIRE_TEXT_MAX];

    if (!w)
        return;
    d->spawned_once = true; /* a successor may not have heard SPAWNED */
    r = record_add_worker(d, RECORD_WORKER_EXITED, w);
    r->pid = m->pid;
    r->code = m->code;
    r->signal = m->signal;
    text_exit(how, w, m);
    if (is_released(w) && (m->code != 0 || m->signal != 0))
        finish_is_spoiled(d, w, how);
    if (w->unexplained)
        worker_explain(d, w, how);
    worker_dies(d, w, how, true);
    worker_remove(d, w);
}
