/* elastic/driver/report.c - the driver core's actions, records and sentences.
 * See core.h. Pure: sentences are put together without stdio. */
#include <string.h>

#include "elastic/driver/core_internal.h"

const char *driver_record_name(enum driver_record_type type)
{
    static const char *const names[] = {
        [RECORD_JOB_STARTED] = "job_started",
        [RECORD_JOB_RESUMED] = "job_resumed",
        [RECORD_HOST_ADDED] = "host_added",
        [RECORD_HOST_REMOVED] = "host_removed",
        [RECORD_HOST_BLACKLISTED] = "host_blacklisted",
        [RECORD_START_FAILED] = "start_failed",
        [RECORD_SLOT_CLOSED] = "slot_closed",
        [RECORD_HOST_LEAVING] = "host_leaving",
        [RECORD_HOST_APART] = "host_apart",
        [RECORD_AGENT_STARTED] = "agent_started",
        [RECORD_AGENT_LOST] = "agent_lost",
        [RECORD_WORKER_SPAWNED] = "worker_spawned",
        [RECORD_WORKER_READY] = "worker_ready",
        [RECORD_WORKER_EXITED] = "worker_exited",
        [RECORD_WORKER_LOST] = "worker_lost",
        [RECORD_HOSTS_UPDATED] = "hosts_updated",
        [RECORD_GENERATION_STARTED] = "generation_started",
        [RECORD_GENERATION_FORMED] = "generation_formed",
        [RECORD_STATE_SYNCED] = "state_synced",
        [RECORD_FIRST_COLLECTIVE] = "first_collective",
        [RECORD_WORKER_DRAINED] = "worker_drained",
        [RECORD_STALL] = "stall",
        [RECORD_RELEASED] = "released",
        [RECORD_JOB_FINISHED] = "job_finished",
        [RECORD_NOTE] = NULL,
        [RECORD_WARNING] = NULL,
    };

    return names[type];
}

struct driver_action *action_add(struct driver *d, enum driver_action_type type)
{
    struct driver_action *a;

    HVD_ASSERT(d->n_actions < d->actions_max);
    a = &d->actions[d->n_actions++];
    memset(a, 0, sizeof(*a));
    a->type = type;
    return a;
}

struct message *action_send(struct driver *d, const struct driver_worker *w,
                            enum message_type type)
{
    struct driver_action *a = action_add(d, DRIVER_ACT_SEND);
    struct message *m = &a->u.message;

    a->worker = w->id;
    m->type = type;
    m->job = d->config.job;
    m->term = d->config.term;
    m->generation = d->generation;
    return m;
}

void action_kill(struct driver *d, struct driver_worker *w, uint64_t grace_ms)
{
    struct driver_host *host = host_of(d, w);
    struct driver_action *a;

    if (host->agent_phase != AGENT_UP || w->life == LIFE_GONE)
        return;                           /* it dies with its agent */
    w->kill_us = d->now_us + FAREWELL_US; /* again, until it has exited (M2) */
    a = action_add(d, DRIVER_ACT_KILL);
    a->agent = host->agent;
    a->worker = w->id;
    a->u.grace_ms = grace_ms;
}

struct driver_record *record_add(struct driver *d, enum driver_record_type type)
{
    struct driver_record *r = &action_add(d, DRIVER_ACT_RECORD)->u.record;

    r->type = type;
    r->generation = d->generation;
    return r;
}

struct driver_record *record_add_worker(struct driver *d,
                                        enum driver_record_type type,
                                        const struct driver_worker *w)
{
    struct driver_record *r = record_add(d, type);

    r->worker = w->id;
    r->host = d->hosts[w->host].name;
    r->slot = w->slot;
    r->pid = w->pid;
    r->rank = worker_is_enlisted(w) ? (int)w->rank : -1;
    return r;
}

void record_warning(struct driver *d, const char *text)
{
    struct driver_record *r = record_add(d, RECORD_WARNING);
    struct text t = text_into(r->text, sizeof(r->text));

    text_add(&t, text);
}

void text_worker(struct text *t, const struct driver *d,
                 const struct driver_worker *w)
{
    text_add(t, "worker ");
    text_u64(t, w->id);
    text_add(t, " (");
    text_add(t, d->hosts[w->host].name);
    text_add(t, ":");
    text_u64(t, w->slot);
    text_add(t, ")");
}

/* Whether it used the library is not known of one that has not greeted this
 * driver. */
static bool never_called(const struct driver_worker *w)
{
    return !w->called && !w->inherited;
}

void text_exit(char *buf, const struct driver_worker *w,
               const struct msg_worker_exited *m)
{
    struct text t = text_into(buf, WIRE_TEXT_MAX);

    if (m->signal != 0) {
        text_killed(&t, m->signal);
        text_add(&t, m->core ? " (core dumped)" : "");
    } else if (m->code == 0) {
        text_add(&t,
                 never_called(w)
                     ? "exited with status 0 and never called hvd_init: "
                       "is its program linked with libhvd, and does a wrapper "
                       "keep HVD_* and wait for it?"
                     : "exited with status 0 before it was done");
    } else {
        text_add(&t, "exited with status ");
        text_u64(&t, (uint64_t)m->code);
    }
}

void text_seconds(struct text *t, uint64_t us)
{
    uint64_t ms = us / 1000 % 1000;

    text_u64(t, us / 1000000);
    text_add(t, ms > 0 ? "." : "");
    for (; ms > 0; ms = ms * 10 % 1000)
        text_u64(t, ms / 100);
    text_add(t, " s");
}
