/* elastic/driver/events.c - records of the driver's core as JSON lines and as
 * words. See events.h. */
#include "elastic/driver/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* ---- JSON ---------------------------------------------------------------- */

static void add_place(struct json *j, const struct driver_record *r)
{
    json_u64(j, "worker", r->worker);
    json_str(j, "host", r->host);
    json_u64(j, "slot", r->slot);
}

static void add_rank(struct json *j, const struct driver *d,
                     const struct driver_worker *w)
{
    json_object_begin(j, NULL);
    json_u64(j, "rank", w->rank);
    json_u64(j, "worker", w->id);
    json_str(j, "host", driver_host_of(d, w)->name);
    json_u64(j, "slot", w->slot);
    json_i64(j, "pid", w->pid);
    json_u64(j, "joined", w->joined);
    json_array_begin(j, "state");
    json_u64(j, NULL, w->offer.id.generation);
    json_u64(j, NULL, w->offer.id.version);
    json_array_end(j);
    json_u64(j, "left", w->left);
    json_object_end(j);
}

static void add_ranks(struct json *j, const struct driver *d)
{
    const struct assign_table *table = driver_table(d);

    json_array_begin(j, "ranks");
    for (size_t i = 0; i < table->n_entries; i++) {
        const struct driver_worker *w = driver_worker(d,
                                                      table->entries[i].worker);

        if (w)
            add_rank(j, d, w);
    }
    json_array_end(j);
}

static void add_exit(struct json *j, const struct driver_record *r)
{
    json_i64(j, "pid", r->pid);
    if (r->signal != 0)
        json_i64(j, "signal", r->signal);
    else
        json_i64(j, "code", r->code);
}

static void add_cut(struct events *e, struct json *j,
                    const struct driver_record *r)
{
    json_u64(j, "flags", r->n);
    if (r->cut == CUT_NEVER)
        json_null(j, "cut"); /* a member had finished: nobody is interrupted */
    else
        json_u64(j, "cut", r->cut);
    eventlog_ms(&e->log, "ms", r->duration_us);
}

static void add_until(struct events *e, struct json *j,
                      const struct driver_record *r)
{
    if (r->until_us == UINT64_MAX)
        json_null(j, "until"); /* for good */
    else
        json_scaled(j, "until", r->until_us - e->log.start_us, 6);
    json_str(j, "reason", r->text);
}

static void add_time(struct events *e, struct json *j,
                     const struct driver_record *r)
{
    eventlog_ms(&e->log, "ms", r->duration_us);
    json_str(j, "reason", r->text);
}

static void add_host_fields(struct events *e, struct json *j,
                            const struct driver_record *r)
{
    json_str(j, "host", r->host);
    if (r->type == RECORD_SLOT_CLOSED)
        json_u64(j, "slot", r->slot);
    if (r->type == RECORD_HOST_ADDED)
        json_u64(j, "slots", r->n);
    else if (r->type == RECORD_HOST_BLACKLISTED ||
             r->type == RECORD_SLOT_CLOSED)
        add_until(e, j, r);
    else if (r->type == RECORD_HOST_LEAVING || r->type == RECORD_HOST_APART ||
             r->type == RECORD_START_FAILED)
        add_time(e, j, r);
    else if (r->type == RECORD_AGENT_STARTED)
        json_i64(j, "pid", r->pid);
    else if (r->type == RECORD_AGENT_LOST)
        json_str(j, "how", r->text);
}

static void add_worker_fields(struct events *e, struct json *j,
                              const struct driver_record *r)
{
    add_place(j, r);
    if (r->type == RECORD_WORKER_SPAWNED)
        json_i64(j, "pid", r->pid);
    else if (r->type == RECORD_WORKER_READY)
        eventlog_ms(&e->log, "ms", r->duration_us);
    else if (r->type == RECORD_WORKER_EXITED)
        add_exit(j, r);
    else if (r->type == RECORD_WORKER_LOST)
        json_str(j, "how", r->text);
}

static void add_rank_fields(struct events *e, struct json *j,
                            const struct driver_record *r)
{
    json_i64(j, "rank", r->rank);
    if (r->type == RECORD_STATE_SYNCED) {
        json_u64(j, "nbytes", r->nbytes);
        json_u64(j, "sources", r->n);
    }
    eventlog_ms(&e->log, "ms", r->duration_us);
}

static void add_formed(struct events *e, const struct driver *d, struct json *j,
                       const struct driver_record *r)
{
    json_u64(j, "size", r->n);
    add_ranks(j, d);
    json_i64(j, "root", r->root);
    eventlog_ms(&e->log, "ms", r->duration_us);
}

static void add_fields(struct events *e, const struct driver *d, struct json *j,
                       const struct driver_record *r)
{
    switch (r->type) {
    case RECORD_JOB_STARTED:
        /* for tools on this machine that have stamps of their own */
        json_scaled(j, "clock", e->log.start_us, 6);
        break;
    case RECORD_JOB_RESUMED:
        json_u64(j, "term", r->n);
        break;
    case RECORD_HOST_ADDED:
    case RECORD_HOST_REMOVED:
    case RECORD_HOST_BLACKLISTED:
    case RECORD_START_FAILED:
    case RECORD_SLOT_CLOSED:
    case RECORD_HOST_LEAVING:
    case RECORD_HOST_APART:
    case RECORD_AGENT_STARTED:
    case RECORD_AGENT_LOST:
        add_host_fields(e, j, r);
        break;
    case RECORD_WORKER_SPAWNED:
    case RECORD_WORKER_READY:
    case RECORD_WORKER_EXITED:
    case RECORD_WORKER_LOST:
    case RECORD_WORKER_DRAINED:
        add_worker_fields(e, j, r);
        break;
    case RECORD_HOSTS_UPDATED:
        add_cut(e, j, r);
        break;
    case RECORD_GENERATION_STARTED:
        json_str(j, "reason", r->text);
        break;
    case RECORD_GENERATION_FORMED:
        add_formed(e, d, j, r);
        break;
    case RECORD_STATE_SYNCED:
    case RECORD_FIRST_COLLECTIVE:
        add_rank_fields(e, j, r);
        break;
    case RECORD_STALL:
        add_time(e, j, r);
        break;
    case RECORD_RELEASED:
        json_u64(j, "size", r->n);
        break;
    case RECORD_JOB_FINISHED:
        json_i64(j, "status", r->status);
        json_str(j, "reason", r->text);
        break;
    case RECORD_NOTE:
    case RECORD_WARNING:
        break;
    }
}

/* ---- words --------------------------------------------------------------- */

static void say_formed(const struct events *e, const struct driver *d,
                       const struct driver_record *r)
{
    size_t n_hosts = driver_n_hosts(d);

    log_info("gen %" PRIu64 ": %" PRIu64 " worker%s on %zu host%s, formed in "
             "%.1f ms (%s)",
             r->generation, r->n, r->n == 1 ? "" : "s", n_hosts,
             n_hosts == 1 ? "" : "s", (double)r->duration_us / 1000,
             r->generation == 1 ? "start" : e->reason);
}

/* What nobody is to find out when it is too late. */
static void say_protections(const struct driver *d)
{
    log_info("protections: control CURVE, data handshakes authenticated, data "
             "%s",
             d->config.encrypt_data
                 ? "encrypted (AES-256-GCM; ChaCha20-Poly1305 where a "
                   "processor has no AES)"
                 : "not encrypted (--encrypt-data)");
}

static void say_closed(const struct driver_record *r)
{
    log_warn("%s -> slot %u of %s stays empty for %s", r->text, r->slot,
             r->host,
             r->until_us == UINT64_MAX ? "good"
                                       : "a while, as it has failed "
                                         "too often");
}

static void say(const struct events *e, const struct driver *d,
                const struct driver_record *r)
{
    switch (r->type) {
    case RECORD_JOB_STARTED:
    case RECORD_JOB_RESUMED:
        say_protections(d);
        break;
    case RECORD_WARNING:
    case RECORD_STALL:
        log_warn("%s", r->text);
        break;
    case RECORD_NOTE:
        log_info("%s", r->text);
        break;
    case RECORD_HOST_ADDED:
        log_info("host %s: %" PRIu64 " slots", r->host, r->n);
        break;
    case RECORD_HOST_REMOVED:
        log_info("host %s was removed", r->host);
        break;
    case RECORD_HOST_BLACKLISTED:
        log_warn("host %s is blacklisted: %s", r->host, r->text);
        break;
    case RECORD_START_FAILED:
        log_warn("host %s: %s -> it is tried again in %.1f s, and for as long "
                 "as it is listed",
                 r->host, r->text, (double)r->duration_us / 1e6);
        break;
    case RECORD_SLOT_CLOSED:
        say_closed(r);
        break;
    case RECORD_HOST_LEAVING:
        log_info("host %s is to go within %g s: %s", r->host,
                 (double)r->duration_us / 1e6, r->text);
        break;
    case RECORD_HOST_APART:
        log_warn("%s -> %s is not used, and tried again in %.0f s", r->text,
                 r->host, (double)r->duration_us / 1e6);
        break;
    case RECORD_AGENT_LOST:
        log_warn("the agent on %s is lost: it %s", r->host, r->text);
        break;
    case RECORD_WORKER_LOST:
        log_warn("worker %" PRIu64 " (%s:%u) is lost: it %s", r->worker,
                 r->host, r->slot, r->text);
        break;
    case RECORD_WORKER_DRAINED:
        log_info("worker %" PRIu64 " (%s:%u) was drained", r->worker, r->host,
                 r->slot);
        break;
    case RECORD_GENERATION_FORMED:
        say_formed(e, d, r);
        break;
    default:
        log_debug("%s worker %" PRIu64, driver_record_name(r->type), r->worker);
        break;
    }
}

void events_write(struct events *e, const struct driver *driver,
                  const struct driver_record *record, uint64_t now_us)
{
    const char *name = driver_record_name(record->type);

    if (record->quiet)
        return;
    if (record->type == RECORD_GENERATION_STARTED) {
        memcpy(e->reason, record->text, sizeof(e->reason));
        e->recovery_us = 0;
    }
    if (record->type == RECORD_FIRST_COLLECTIVE && record->generation > 1 &&
        record->duration_us > e->recovery_us)
        e->recovery_us = record->duration_us;
    e->n_lost += record->type == RECORD_WORKER_LOST;
    say(e, driver, record);
    trace_record(&e->trace, name, record, now_us);
    if (!name)
        return;
    add_fields(e, driver,
               eventlog_begin(&e->log, now_us, name, record->generation),
               record);
    eventlog_end(&e->log);
}
