/* tests/driver/transcript.c - what a driver does, in words. See fixture.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "driver/fixture.h"

static void say(struct fixture *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct fixture *f, const char *fmt, ...)
{
    size_t room = sizeof(f->transcript) - f->n_transcript;
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(f->transcript + f->n_transcript, room, fmt, ap);
    va_end(ap);
    ck_assert(n >= 0 && (size_t)n < room);
    f->n_transcript += (size_t)n;
}

static void end_line(struct fixture *f)
{
    if (f->head[0])
        say(f, "\n");
    f->head[0] = '\0';
}

/* A line "head: who who". The same head again: on the same line. */
static void line(struct fixture *f, const char *head, const char *who)
{
    if (strcmp(head, f->head) != 0) {
        end_line(f);
        say(f, "%s:", head);
        snprintf(f->head, sizeof(f->head), "%s", head);
    }
    say(f, " %s", who);
}

static void sentence(struct fixture *f, const char *head, const char *text)
{
    end_line(f);
    say(f, "%s%s\n", head, text);
}

static void say_cut(const struct message *m, char *head, size_t max)
{
    if (m->u.cut.boundary == CUT_NEVER)
        snprintf(head, max, "cut never");
    else
        snprintf(head, max, "cut %" PRIu64, m->u.cut.boundary);
}

static void say_abort(const struct message *m, char *head, size_t max)
{
    static const char *const why[] = {"?", "", ", mismatch", ", stale"};

    if (m->u.abort.worker != 0)
        snprintf(head, max, "abort %" PRIu64 ", w%" PRIu64 " died",
                 m->generation, m->u.abort.worker);
    else
        snprintf(head, max, "abort %" PRIu64 "%s", m->generation,
                 why[m->u.abort.reason & 3]);
}

static void say_send(struct fixture *f, uint64_t id, const struct message *m)
{
    static const char *const changes[] = {"?", "removed", "added", "both"};
    static const char *const ends[] = {"?", "finished", "drained", "failed"};
    char head[WIRE_TEXT_MAX] = "", who[32];

    ck_assert_uint_eq(m->job, FIXTURE_JOB);
    ck_assert_uint_eq(m->term, f->driver.config.term);
    snprintf(who, sizeof(who), "w%" PRIu64, id);
    if (m->type == MSG_WELCOME)
        f->workers[id].plan = m->u.welcome.plan;
    if (m->type == MSG_PONG || m->type == MSG_ASSIGN)
        f->workers[id].expects = m->type == MSG_PONG && m->u.pong.expects;
    if (m->type == MSG_ASSIGN)
        snprintf(head, sizeof(head), "assign %" PRIu64, m->generation);
    else if (m->type == MSG_HOLD)
        snprintf(head, sizeof(head), "hold %" PRIu64 ", %s", m->u.hold.sequence,
                 changes[m->u.hold.flags & 3]);
    else if (m->type == MSG_CUT)
        say_cut(m, head, sizeof(head));
    else if (m->type == MSG_ABORT)
        say_abort(m, head, sizeof(head));
    else if (m->type == MSG_SHUTDOWN)
        snprintf(head, sizeof(head), "shutdown %s",
                 ends[m->u.shutdown.reason & 3]);
    else if (m->type == MSG_RELEASE)
        snprintf(head, sizeof(head), "release");
    if (m->type == MSG_ASSIGN && m->u.assign.sync && !m->u.assign.source)
        strcat(who, "+sync");
    if (head[0])
        line(f, head, who);
}

static void say_until(struct fixture *f, const struct driver_record *r)
{
    bool is_slot = r->type == RECORD_SLOT_CLOSED;
    char text[2 * WIRE_TEXT_MAX], place[HOSTS_NAME_MAX + 16], until[32];

    snprintf(place, sizeof(place), is_slot ? "%s:%u" : "%s", r->host, r->slot);
    snprintf(until, sizeof(until), "for %" PRIu64 " ms",
             (r->until_us - f->now_us) / 1000);
    snprintf(text, sizeof(text), "%s %s%s%s", place,
             r->until_us == UINT64_MAX ? "for good" : until,
             is_slot ? ": " : "", is_slot ? r->text : "");
    sentence(f, is_slot ? "close " : "blacklist ", text);
}

static void say_record(struct fixture *f, const struct driver_record *r)
{
    const struct driver *d = &f->driver;
    char text[2 * WIRE_TEXT_MAX];

    f->n_records[r->type]++;
    if (r->type == RECORD_GENERATION_FORMED) {
        ck_assert_uint_eq(r->n, d->world_size);
        ck_assert_uint_eq(r->duration_us, d->formed_us - d->opened_us);
        ck_assert(d->table.entries[r->root].source);
    }
    if (r->type >= RECORD_NOTE || r->type == RECORD_STALL) {
        sentence(f, r->type == RECORD_NOTE ? "note: " : "warn: ", r->text);
    } else if (r->type == RECORD_HOST_BLACKLISTED ||
               r->type == RECORD_SLOT_CLOSED) {
        say_until(f, r);
    } else if (r->type == RECORD_START_FAILED && !r->quiet) {
        snprintf(text, sizeof(text), "%s: %s", r->host, r->text);
        sentence(f, "no start: ", text);
    } else if (r->type == RECORD_HOST_LEAVING || r->type == RECORD_HOST_APART) {
        bool leaves = r->type == RECORD_HOST_LEAVING;

        snprintf(text, sizeof(text), "%s %s %" PRIu64 " ms: %s", r->host,
                 leaves ? "in" : "for", r->duration_us / 1000, r->text);
        sentence(f, leaves ? "leaving " : "apart ", text);
    }
}

static const char *const done_to_agents[] = {
    [DRIVER_ACT_STOP_AGENT] = "stop agent",
    [DRIVER_ACT_KILL_AGENT] = "kill agent",
    [DRIVER_ACT_DOUBT] = "doubt"};

void transcribe(struct fixture *f, const struct driver_action *a)
{
    char text[WIRE_TEXT_MAX + 16];

    switch (a->type) {
    case DRIVER_ACT_START_AGENT:
        strcpy(agent_host(f, a->agent), a->host);
        line(f, "start agent", a->host);
        break;
    case DRIVER_ACT_STOP_AGENT:
    case DRIVER_ACT_KILL_AGENT:
    case DRIVER_ACT_DOUBT:
        line(f, done_to_agents[a->type], agent_host(f, a->agent));
        break;
    case DRIVER_ACT_SPAWN:
        snprintf(text, sizeof(text), "w%" PRIu64 "@%s:%" PRIu32, a->worker,
                 a->host, a->slot);
        line(f, "spawn", text);
        break;
    case DRIVER_ACT_KILL:
        snprintf(text, sizeof(text), "w%" PRIu64, a->worker);
        line(f, "kill", text);
        break;
    case DRIVER_ACT_PONG:
        break;
    case DRIVER_ACT_SEND:
        say_send(f, a->worker, &a->u.message);
        break;
    case DRIVER_ACT_RECORD:
        say_record(f, &a->u.record);
        break;
    case DRIVER_ACT_FINISH:
        snprintf(text, sizeof(text), "%d: %s", a->u.finish.status,
                 a->u.finish.text);
        sentence(f, "finish ", text);
        break;
    }
}

void forget(struct fixture *f)
{
    end_line(f);
    f->transcript[f->n_transcript = 0] = '\0';
}

void expect(struct fixture *f, const char *transcript)
{
    end_line(f);
    ck_assert_str_eq(f->transcript, transcript);
    forget(f);
}

void expect_part(struct fixture *f, const char *part)
{
    end_line(f);
    if (!strstr(f->transcript, part))
        ck_assert_str_eq(f->transcript, part);
    forget(f);
}
