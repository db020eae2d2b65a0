/* tests/driver/happenings.c - words for what happens to a driver. Not what it
 * does about it: fixture.c. See fixture.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/fixture.h"

static struct happening event(enum driver_event_type type, const char *workers,
                              const char *text)
{
    return (struct happening){
        .type = type, .workers = workers, .text = text ? text : ""};
}

static struct happening message(enum message_type type, const char *workers)
{
    struct happening h = event(DRIVER_EV_MESSAGE, workers, NULL);

    h.message.type = type;
    return h;
}

struct happening hosts(const char *text)
{
    return event(DRIVER_EV_HOSTS, NULL, text);
}

struct happening discovery_fails(const char *text)
{
    return event(DRIVER_EV_DISCOVERY_BAD, NULL, text);
}

struct happening discovery_is_wrong(const char *text)
{
    struct happening h = discovery_fails(text);

    h.number = 1;
    return h;
}

static struct happening of_agent(enum driver_event_type type, const char *host,
                                 const char *how)
{
    struct happening h = event(type, NULL, host);

    h.agent = how;
    return h;
}

struct happening agent_up(const char *host)
{
    return of_agent(DRIVER_EV_AGENT_UP, host, "");
}

struct happening agent_gone(const char *host)
{
    return of_agent(DRIVER_EV_AGENT_GONE, host,
                    "was killed by signal 9 (SIGKILL)");
}

struct happening agent_apart(const char *host)
{
    return of_agent(DRIVER_EV_AGENT_APART, host, "nobody reaches it");
}

struct happening agent_refused(const char *host)
{
    return of_agent(DRIVER_EV_AGENT_REFUSED, host,
                    "was killed by signal 9 (SIGKILL)");
}

struct happening agent_runs(const char *host, int n)
{
    struct happening h = event(DRIVER_EV_AGENT_PING, NULL, host);

    h.number = n;
    return h;
}

struct happening notice(const char *host, int ms)
{
    struct happening h = event(DRIVER_EV_NOTICE, NULL, host);

    h.number = ms;
    return h;
}

struct happening interrupted(int signal)
{
    struct happening h = event(DRIVER_EV_INTERRUPT, NULL, NULL);

    h.number = signal;
    return h;
}

struct happening unsayable(uint64_t generation, const char *text)
{
    struct happening h = event(DRIVER_EV_UNSAYABLE, NULL, text);

    h.number = (int)generation;
    return h;
}

struct happening spawned_late(const char *workers)
{
    return event(DRIVER_EV_SPAWNED, workers, NULL);
}

struct happening spawn_fails(const char *workers, const char *text)
{
    struct happening h = event(DRIVER_EV_SPAWN_FAILED, workers, text);

    h.number = ENOENT;
    return h;
}

struct happening fork_fails(const char *workers)
{
    struct happening h = event(DRIVER_EV_SPAWN_FAILED, workers, "cannot fork");

    h.number = EAGAIN;
    return h;
}

struct happening killed(const char *workers)
{
    struct happening h = event(DRIVER_EV_EXITED, workers, NULL);

    h.kill = true;
    return h;
}

struct happening exited(const char *workers, int code)
{
    struct happening h = event(DRIVER_EV_EXITED, workers, NULL);

    h.number = code;
    return h;
}

struct happening dying(const char *workers, int code)
{
    struct happening h = event(DRIVER_EV_DYING, workers, NULL);

    h.number = code;
    return h;
}

struct happening runs_as(const char *workers, int pid)
{
    struct happening h = event(DRIVER_EV_SPAWNED, workers, NULL);

    h.number = pid;
    return h;
}

struct happening said_by(const char *host, struct happening h)
{
    h.agent = host;
    return h;
}

struct happening hello(const char *workers)
{
    return message(MSG_HELLO, workers);
}

struct happening hello_from(const char *workers, uint16_t port)
{
    struct happening h = hello(workers);

    h.message.u.hello.port = port;
    return h;
}

static struct happening ready_because(const char *workers,
                                      enum ready_reason reason)
{
    struct happening h = message(MSG_READY, workers);

    h.message.u.ready.kind = READY_ELASTIC;
    h.message.u.ready.reason = (uint8_t)reason;
    h.message.u.ready.abilities = READY_CAN_ALL;
    strcpy(h.message.u.ready.layout_text, "w f32[4]");
    return h;
}

struct happening ready(const char *workers)
{
    return ready_because(workers, READY_START);
}

struct happening ready_lost(const char *workers)
{
    return ready_because(workers, READY_LOST);
}

struct happening ready_updated(const char *workers)
{
    return ready_because(workers, READY_UPDATED);
}

struct happening ready_fence(const char *workers, uint64_t fence)
{
    struct happening h = ready_because(workers, READY_LOST);

    h.raw_fence = true;
    h.message.u.ready.fence = fence;
    return h;
}

struct happening ready_alone(const char *workers)
{
    struct happening h = ready(workers);

    h.message.u.ready.abilities = 0;
    return h;
}

struct happening ready_static(const char *workers)
{
    struct happening h = ready(workers);

    h.message.u.ready.kind = READY_STATIC;
    return h;
}

struct happening ready_layout(const char *workers, const char *layout)
{
    struct happening h = ready(workers);

    snprintf(h.message.u.ready.layout_text, WIRE_TEXT_MAX, "%s", layout);
    h.message.u.ready.layout[0] = (uint8_t)layout[0];
    return h;
}

struct happening lost(const char *workers, uint64_t generation,
                      const char *accused)
{
    struct happening h = message(MSG_LOST, workers);
    struct msg_lost *m = &h.message.u.lost;
    char *end;

    m->generation = generation;
    strcpy(m->text, "connection reset");
    while (*accused) {
        m->accused[m->n_accused++] = (uint32_t)strtoul(accused, &end, 10);
        accused = end + strspn(end, " ");
    }
    m->proven = UINT64_MAX;
    return h;
}

struct happening lost_unproven(const char *workers, uint64_t generation,
                               const char *accused)
{
    struct happening h = lost(workers, generation, accused);

    h.message.u.lost.proven = 0;
    return h;
}

struct happening mismatch(const char *workers, const char *text)
{
    struct happening h = lost(workers, 1, "");

    h.message.u.lost.mismatch = true;
    snprintf(h.message.u.lost.text, WIRE_TEXT_MAX, "%s", text);
    return h;
}

struct happening held(const char *workers, uint64_t boundary)
{
    struct happening h = message(MSG_HELD, workers);

    h.message.u.held.boundary = boundary;
    return h;
}

struct happening held_done(const char *workers, uint64_t boundary)
{
    struct happening h = held(workers, boundary);

    h.message.u.held.done = true;
    return h;
}

struct happening ping(const char *workers, enum worker_phase phase,
                      uint64_t fence)
{
    struct happening h = message(MSG_PING, workers);

    h.message.u.ping.phase = (uint8_t)phase;
    h.message.u.ping.fence = fence;
    return h;
}

struct happening says_goodbye(const char *workers)
{
    struct happening h = ping(workers, WORKER_LEFT, 0);

    h.message.u.ping.last = true;
    return h;
}

struct happening commits(const char *workers)
{
    struct happening h = ping(workers, WORKER_IDLE, 0);

    h.commits = true;
    return h;
}

struct happening done(const char *workers)
{
    return message(MSG_DONE, workers);
}

struct happening leaving(const char *workers, const char *text)
{
    struct happening h = message(MSG_LEAVING, workers);

    snprintf(h.message.u.leaving.text, WIRE_TEXT_MAX, "%s", text);
    return h;
}

/* ... something of the system's that it needs to enter the generation */
struct happening leaving_lacks(const char *workers, const char *text)
{
    struct happening h = leaving(workers, text);

    h.message.u.leaving.status = HVD_ERR_SYSTEM;
    return h;
}

/* ... hvd_abandon() */
struct happening leaving_alone(const char *workers, const char *text)
{
    struct happening h = leaving(workers, text);

    h.message.u.leaving.status = HVD_ERR_JOB_FAILED;
    h.message.u.leaving.alone = true;
    return h;
}

struct happening leaving_lost(const char *workers, const char *text)
{
    struct happening h = leaving(workers, text);

    h.message.u.leaving.status = HVD_PEER_LOST;
    return h;
}

struct happening drain_me(const char *workers)
{
    return message(MSG_DRAIN_ME, workers);
}

void leave_at(struct fixture *f, uint64_t ms, const char *workers, uint64_t n)
{
    at(f, ms, held(workers, n - 1));
    at(f, ms, ready_updated(workers));
}
