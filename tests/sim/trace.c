/* trace.c - the transcript of a run, for a person to read: what was sent, what
 * arrived, what the driver said, who died.
 *
 *   [  2000.123] driver -> w3: ABORT gen 2 (worker 1 has died)
 *
 * Kept in a ring, because only the last lines before a violation matter; with
 * `print` all of it goes to stdout as it happens. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

void trace(struct sim *s, const char *fmt, ...)
{
    struct sim_result *r = s->result;
    char *line = r->lines[r->n_lines++ % SIM_LINES];
    int n = snprintf(line, SIM_LINE_MAX, "[%10.3f] ",
                     (double)s->now_us / 1000.0);
    va_list args;

    va_start(args, fmt);
    vsnprintf(line + n, SIM_LINE_MAX - (size_t)n, fmt, args);
    va_end(args);
    if (s->options.print)
        puts(line);
}

#define ULL(x) ((unsigned long long)(x))

static void describe_up(const struct message *m, char *text, size_t max)
{
    static const char *const reasons[] = {"?", "start", "lost", "updated"};
    static const char *const whats[] = {"?", "first collective", "synced",
                                        "first commit"};

    switch (m->type) {
    case MSG_READY:
        snprintf(text, max, "(%s, fence %llu, id %llu.%llu)",
                 reasons[m->u.ready.reason % 4], ULL(m->u.ready.fence),
                 ULL(m->u.ready.id.generation), ULL(m->u.ready.id.version));
        break;
    case MSG_LOST:
        snprintf(text, max, "gen %llu, accuses %u (first: rank %u)",
                 ULL(m->u.lost.generation), m->u.lost.n_accused,
                 m->u.lost.accused[0]);
        break;
    case MSG_HELD:
        snprintf(text, max, "gen %llu, #%llu, boundary %llu%s",
                 ULL(m->u.held.generation), ULL(m->u.held.sequence),
                 ULL(m->u.held.boundary), m->u.held.done ? ", done" : "");
        break;
    case MSG_DONE:
        snprintf(text, max, "gen %llu, id %llu.%llu", ULL(m->u.done.generation),
                 ULL(m->u.done.id.generation), ULL(m->u.done.id.version));
        break;
    case MSG_REPORT:
        snprintf(text, max, "gen %llu, %s", ULL(m->u.report.generation),
                 whats[m->u.report.what % 4]);
        break;
    case MSG_PING:
        snprintf(text, max, "phase %u, gen %llu, fence %llu, id %llu.%llu",
                 m->u.ping.phase, ULL(m->u.ping.generation),
                 ULL(m->u.ping.fence), ULL(m->u.ping.id.generation),
                 ULL(m->u.ping.id.version));
        break;
    default:
        text[0] = '\0';
        break;
    }
}

static void describe_down(const struct message *m, char *text, size_t max)
{
    unsigned long long g = ULL(m->generation);

    switch (m->type) {
    case MSG_ASSIGN:
        snprintf(text, max, "gen %llu, rank %u of %u, base %llu.%llu%s%s", g,
                 m->u.assign.rank, m->u.assign.size,
                 ULL(m->u.assign.base.generation),
                 ULL(m->u.assign.base.version),
                 m->u.assign.source ? ", source" : "",
                 m->u.assign.sync ? ", sync" : "");
        break;
    case MSG_HOLD:
        snprintf(text, max, "gen %llu, #%llu", g, ULL(m->u.hold.sequence));
        break;
    case MSG_CUT:
        if (m->u.cut.boundary == CUT_NEVER)
            snprintf(text, max, "gen %llu, never", g);
        else
            snprintf(text, max, "gen %llu, boundary %llu", g,
                     ULL(m->u.cut.boundary));
        break;
    case MSG_ABORT:
        snprintf(text, max, "gen %llu (%.100s)", g, m->u.abort.text);
        break;
    case MSG_SHUTDOWN:
        snprintf(text, max, "reason %u (%.100s)", m->u.shutdown.reason,
                 m->u.shutdown.text);
        break;
    default:
        snprintf(text, max, "gen %llu", g);
        break;
    }
}

void trace_message(struct sim *s, const char *how, const struct message *m,
                   bool to_worker, uint64_t worker)
{
    char text[160];

    if (to_worker)
        describe_down(m, text, sizeof(text));
    else
        describe_up(m, text, sizeof(text));
    trace(s,
          to_worker ? "%s driver -> w%llu: %s %s" : "%s w%llu -> driver: %s %s",
          how, ULL(worker), message_type_name(m->type), text);
}

static void describe_agent(const struct message *m, char *text, size_t max)
{
    text[0] = '\0';
    if (m->type == MSG_SPAWN)
        snprintf(text, max, "w%llu in slot %u", ULL(m->u.spawn.worker),
                 m->u.spawn.slot);
    else if (m->type == MSG_KILL)
        snprintf(text, max, "w%llu after %llu ms", ULL(m->u.kill.worker),
                 ULL(m->u.kill.grace_ms));
    else if (m->type == MSG_SPAWNED)
        snprintf(text, max, "w%llu", ULL(m->u.spawned.worker));
    else if (m->type == MSG_NOTICE)
        snprintf(text, max, "%llu ms left", ULL(m->u.notice.left_ms));
    else if (m->type == MSG_SPAWN_FAILED)
        snprintf(text, max, "w%llu", ULL(m->u.spawn_failed.worker));
    else if (m->type == MSG_WORKER_EXITED || m->type == MSG_WORKER_DYING)
        snprintf(text, max, "w%llu, code %lld, signal %lld",
                 ULL(m->u.worker_exited.worker),
                 (long long)m->u.worker_exited.code,
                 (long long)m->u.worker_exited.signal);
}

void trace_agent(struct sim *s, const char *how, const struct message *m,
                 bool to_agent, uint64_t agent)
{
    char text[160];

    describe_agent(m, text, sizeof(text));
    trace(s,
          to_agent ? "%s driver -> agent %llu: %s %s"
                   : "%s agent %llu -> driver: %s %s",
          how, ULL(agent), message_type_name(m->type), text);
}

static void trace_record(struct sim *s, const struct driver_record *r)
{
    const char *name = driver_record_name(r->type);
    trace(s, "driver: %s gen %llu%s%s worker %llu n %llu %s",
          name ? name : "says", ULL(r->generation), r->host ? " host " : "",
          r->host ? r->host : "", ULL(r->worker), ULL(r->n), r->text);
}

void trace_action(struct sim *s, const struct driver_action *a)
{
    switch (a->type) {
    case DRIVER_ACT_START_AGENT:
        trace(s, "driver: start agent %llu on %s", ULL(a->agent), a->host);
        break;
    case DRIVER_ACT_STOP_AGENT:
        trace(s, "driver: stop agent %llu", ULL(a->agent));
        break;
    case DRIVER_ACT_KILL_AGENT:
        trace(s, "driver: kill agent %llu", ULL(a->agent));
        break;
    case DRIVER_ACT_SPAWN: /* as messages */
    case DRIVER_ACT_DOUBT: /* config.doubts is off */
    case DRIVER_ACT_KILL:
    case DRIVER_ACT_PONG:
        break;
    case DRIVER_ACT_SEND:
        if (a->u.message.type != MSG_PONG)
            trace_message(s, "sent:", &a->u.message, true, a->worker);
        break;
    case DRIVER_ACT_RECORD:
        trace_record(s, &a->u.record);
        break;
    case DRIVER_ACT_FINISH:
        trace(s, "driver: ends with status %d: %s", a->u.finish.status,
              a->u.finish.text);
        break;
    }
}
