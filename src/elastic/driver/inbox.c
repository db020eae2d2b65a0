/* elastic/driver/inbox.c - what arrives on the driver's two sockets: who may
 * speak, and as which event the core hears it. See loop_internal.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/version.h"
#include "elastic/driver/loop_internal.h"

enum {
    MESSAGES_PER_TURN = 256, /* refused ones count */
    AGENT_BEAT_US = 200000,  /* or this part of a timeout: */
    AGENT_BEATS = 5,
    LAST_WORDS_US = 1000000, /* output of an agent that has ended, on its way */
    LEFT_MAX_MS = 1000000000 /* of a host that will go; more is no time */
};

/* ---- who is it? ---------------------------------------------------------- */

static const char *const kinds[] = {
    [PEER_AGENT] = "agent", [PEER_WORKER] = "worker"};

static void refuse(struct loop *l, enum peer_kind kind, uint64_t id,
                   const char *why)
{
    log_seldom(&l->refused, LOG_LEVEL_WARN,
               "HELLO of %s %" PRIu64 ": %s -> refused", kinds[kind], id, why);
}

/* Does it prove that it has the token? */
static bool is_proven(struct loop *l, const struct wire_router *router,
                      const struct message *m, enum peer_kind kind, uint64_t id,
                      const uint8_t *token, const uint8_t *proof)
{
    const char *why = NULL;

    if (m->job != l->driver.config.job)
        why = "of another job";
    else if (!wire_router_proven(router, token, proof))
        why = "without its token";
    if (why)
        refuse(l, kind, id, why);
    return why == NULL;
}

/* Several before either misses the other's. */
static uint64_t agent_beat_ms(const struct driver_config *config)
{
    uint64_t beat_us = AGENT_BEAT_US;

    if (beat_us > config->heartbeat_timeout_us / AGENT_BEATS)
        beat_us = config->heartbeat_timeout_us / AGENT_BEATS;
    if (beat_us > config->driver_timeout_us / AGENT_BEATS)
        beat_us = config->driver_timeout_us / AGENT_BEATS;
    return beat_us < 1000 ? 1 : beat_us / 1000;
}

static void welcome_agent(struct loop *l, struct wire_router *router,
                          uint64_t route)
{
    const struct driver_config *config = &l->driver.config;
    struct message m = {
        .type = MSG_AGENT_WELCOME, .job = config->job, .term = config->term};

    m.u.welcome.heartbeat_ms = agent_beat_ms(config);
    m.u.welcome.driver_timeout_ms = config->driver_timeout_us / 1000;
    /* our patience is shorter: theirs is for when it is us who do not run */
    m.u.welcome.output_hold_ms = 2 * loop_hold_time(l) / 1000;
    l->sent = true;
    if (wire_router_send(router, route, &m) != HVD_OK)
        log_debug("an agent left before it was welcomed");
}

/* peers_meet() has refused it. */
static void refuse_route(struct loop *l, const struct peers *peers,
                         uint64_t route, enum peer_kind kind, uint64_t id)
{
    if (peers_by_id(peers, kind, id))
        refuse(l, kind, id, "another connection speaks for it");
    else if (route != 0)
        refuse(l, kind, id, "this connection speaks for another");
    else
        refuse(l, kind, id, "no memory");
}

/* A network has died, say. What was on its way may be lost: it is asked and
 * told again. */
static void note_move(const struct peers *peers, const struct peer *who)
{
    const struct peer *known = peers_by_id(peers, who->kind, who->id);

    if (known && who->route == 0 && who->connection > known->connection)
        log_info("%s %" PRIu64 " has another connection", kinds[who->kind],
                 who->id);
}

/* On either of its connections. */
static bool greet_agent(struct loop *l, struct wire_router *router,
                        struct peers *peers, uint64_t route,
                        const struct message *m)
{
    const struct msg_agent_hello *hello = &m->u.agent_hello;
    uint64_t agent = hello->agent;
    struct peer who = {PEER_AGENT, agent, route, hello->connection};
    uint8_t token[WIRE_TOKEN_NBYTES];

    guests_agent_token(l, agent, token);
    if (!is_proven(l, router, m, PEER_AGENT, agent, token, hello->proof))
        return false;
    if (peers == &l->peers)
        note_move(peers, &who);
    if (!peers_meet(peers, router, &who, token)) {
        refuse_route(l, peers, route, PEER_AGENT, agent);
        return false;
    }
    if (l->heir)
        guests_recognise(l, agent, 0);
    welcome_agent(l, router, peers_by_id(peers, PEER_AGENT, agent)->route);
    return true;
}

/* Another driver has started it, and what was written down about it is lost. */
static void watch_stranger(struct loop *l, const struct msg_agent_hello *hello)
{
    hvd_status_t status;

    if (!l->heir || launch_find(&l->launch, hello->agent))
        return;
    status = launch_adopt(&l->launch, hello->agent, (pid_t)hello->pid,
                          hello->started);
    if (status < 0)
        log_error("%s -> an agent is not watched", error_text());
}

/* Builds of one release speak the same protocol, so both go on. */
static void compare_builds(struct loop *l, uint64_t agent, const char *program,
                           const char *version)
{
    struct driver_event ev = {.type = DRIVER_EV_OTHER_BUILD};
    char ours[VERSION_MAX], how[WIRE_TEXT_MAX];

    version_text(ours);
    if (strcmp(version, ours) == 0 || !version_same_release(version, ours))
        return; /* or it is refused */
    snprintf(how, sizeof(how),
             "its %s is %s, and this is hvd-elastic %s -> install the same "
             "build on all hosts",
             program, version, ours);
    ev.u.agent.agent = agent;
    ev.u.agent.text = how;
    loop_feed(l, &ev);
}

static bool is_of_our_version(struct loop *l,
                              const struct msg_agent_hello *hello)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_REFUSED};
    char ours[VERSION_MAX], how[WIRE_TEXT_MAX];

    version_text(ours);
    if (version_same_release(hello->version, ours))
        return true;
    snprintf(how, sizeof(how), "is hvd-agent %s, and this is hvd-elastic %s",
             hello->version, ours);
    ev.u.agent.agent = hello->agent;
    ev.u.agent.text = how;
    loop_feed(l, &ev);
    return false;
}

/* One that nobody waits for is told to go. */
static void meet_agent(struct loop *l, uint64_t route, const struct message *m)
{
    const struct msg_agent_hello *hello = &m->u.agent_hello;
    struct driver_event ev = {.type = DRIVER_EV_AGENT_UP};

    if (!greet_agent(l, l->router, &l->peers, route, m))
        return;
    if (!is_of_our_version(l, hello))
        return;
    compare_builds(l, hello->agent, "hvd-agent", hello->version);
    watch_stranger(l, hello);
    launch_up(&l->launch, hello->agent);
    /* nobody waits for one that was given up: no host need reach it */
    if (driver_expects_agent(&l->driver, hello->agent) &&
        !network_meets(l, hello))
        return;
    ev.u.agent.agent = hello->agent;
    ev.u.agent.pid = hello->pid;
    ev.u.agent.host = hello->host;
    loop_feed(l, &ev);
}

/* Another release may speak another protocol. The core has its HELLO. */
static void judge_release(struct loop *l, uint64_t worker, const char *version)
{
    struct driver_event ev = {.type = DRIVER_EV_UNFIT};
    char ours[VERSION_MAX], why[WIRE_TEXT_MAX];

    version_text(ours);
    if (version_same_release(version, ours))
        return;
    snprintf(why, sizeof(why),
             "runs libhvd %s, and this is hvd-elastic %s: install one release, "
             "or set LD_LIBRARY_PATH",
             version, ours);
    ev.by = worker;
    ev.u.unfit = why;
    loop_feed(l, &ev);
}

/* From an older connection as well, if there is a newer: what it means is the
 * core's to judge. What it answers goes to the newer. */
static void greet_worker(struct loop *l, uint64_t route,
                         const struct message *m, const struct driver_worker *w)
{
    struct driver_event ev = {.type = DRIVER_EV_MESSAGE, .u.message = m};
    uint64_t agent = driver_host_of(&l->driver, w)->agent;
    struct peer who = {PEER_WORKER, w->id, route, m->u.hello.connection};
    uint8_t token[WIRE_TOKEN_NBYTES];

    guests_worker_token(l, agent, w->id, token);
    if (!is_proven(l, l->router, m, PEER_WORKER, w->id, token,
                   m->u.hello.proof))
        return;
    if (driver_is_another(w, &m->u.hello)) {
        loop_feed(l, &ev); /* and has no connection */
        return;
    }
    note_move(&l->peers, &who);
    if (!peers_meet(&l->peers, l->router, &who, token) &&
        !peers_by_id(&l->peers, PEER_WORKER, w->id)) {
        refuse_route(l, &l->peers, route, PEER_WORKER, w->id);
        return;
    }
    loop_feed(l, &ev);
    compare_builds(l, agent, "libhvd", m->u.hello.version);
    judge_release(l, m->worker, m->u.hello.version);
}

static void meet_worker(struct loop *l, uint64_t route, const struct message *m)
{
    const struct driver_worker *w = driver_worker(&l->driver, m->worker);

    if (w)
        greet_worker(l, route, m, w);
    else
        log_seldom(&l->late, LOG_LEVEL_DEBUG,
                   "HELLO of worker %" PRIu64 ", which is not expected "
                   "-> ignored",
                   m->worker);
}

/* ---- what does it say? --------------------------------------------------- */

/* The core forgets a worker when it has exited, its output may come later. */
static void note_rank(const struct loop *l, struct speaker *speaker)
{
    const struct driver_worker *w = driver_worker(&l->driver, speaker->worker);

    if (w && w->joined > 0)
        speaker->rank = (int)w->rank;
}

/* A successor may hear of the worker for the first time. */
static void hear_spawned(struct loop *l, uint64_t agent,
                         const struct msg_spawned *m)
{
    struct driver_event ev = {
        .type = DRIVER_EV_SPAWNED, .by = agent, .u.spawned = *m};
    const struct driver_worker *w;

    loop_feed(l, &ev);
    if (!driver_runs(&l->driver, agent, m->worker))
        return;
    w = driver_worker(&l->driver, m->worker);
    if (l->heir)
        guests_recognise(l, agent, w->id);
    (void)speakers_add(&l->speakers, w->id, agent, w->slot,
                       driver_host_of(&l->driver, w)->name);
    launch_spawned(&l->launch, agent, m->pid);
}

static void hear_spawn_failed(struct loop *l, uint64_t agent,
                              const struct msg_spawn_failed *m)
{
    struct driver_event ev = {
        .type = DRIVER_EV_SPAWN_FAILED, .by = agent, .u.spawn_failed = *m};
    struct speaker *speaker = speakers_find(&l->speakers, m->worker);

    if (speaker && speaker->agent == agent)
        speakers_remove(&l->speakers, speaker);
    wire_gate_forbid(l->gate, agent, m->worker);
    loop_feed(l, &ev);
}

/* In an agent's first report a successor hears of a worker that had exited
 * under the driver before, which may not have taken all of its output. */
static void expect_output(struct loop *l, uint64_t agent,
                          const struct msg_worker_exited *m)
{
    const struct driver_host *host = driver_host_of_agent(&l->driver, agent);

    if (l->heir && host && host->inherited)
        (void)speakers_add_exited(&l->speakers, m->worker, agent, m->slot,
                                  m->open, host->name);
}

static void hear_exited(struct loop *l, uint64_t agent,
                        const struct msg_worker_exited *m)
{
    struct driver_event ev = {
        .type = DRIVER_EV_EXITED, .by = agent, .u.exited = *m};
    struct speaker *speaker = speakers_find(&l->speakers, m->worker);
    bool its = driver_runs(&l->driver, agent, m->worker);

    if (!its && !speaker)
        expect_output(l, agent, m);
    if (its && speaker) {
        note_rank(l, speaker);
        speakers_exit(&l->speakers, speaker);
    }
    if (its)
        launch_exited(&l->launch, agent, m->pid);
    loop_feed(l, &ev);
    wire_gate_forbid(l->gate, agent, m->worker);
    if (its)
        peers_part(&l->peers, l->router, PEER_WORKER, m->worker);
}

static void hear_dying(struct loop *l, uint64_t agent,
                       const struct msg_worker_exited *m)
{
    struct driver_event ev = {
        .type = DRIVER_EV_DYING, .by = agent, .u.exited = *m};

    loop_feed(l, &ev);
}

static void hear_notice(struct loop *l, uint64_t agent,
                        const struct msg_notice *m)
{
    struct driver_event ev = {.type = DRIVER_EV_NOTICE};

    ev.u.agent.agent = agent;
    ev.u.agent.left_us = m->left_ms > LEFT_MAX_MS ? DRIVER_NEVER
                                                  : m->left_ms * 1000;
    ev.u.agent.text = m->text;
    loop_feed(l, &ev);
}

static void hear_agent(struct loop *l, uint64_t agent, const struct message *m)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_PING};

    switch (m->type) {
    case MSG_AGENT_PING:
        ev.u.agent.agent = agent;
        ev.u.agent.stamp_us = m->u.agent_ping.stamp_us;
        ev.u.agent.n_alive = m->u.agent_ping.n_alive;
        ev.u.agent.sees_dir = m->u.agent_ping.sees_dir;
        loop_feed(l, &ev);
        break;
    case MSG_SPAWNED:
        hear_spawned(l, agent, &m->u.spawned);
        break;
    case MSG_SPAWN_FAILED:
        hear_spawn_failed(l, agent, &m->u.spawn_failed);
        break;
    case MSG_PROBED:
        network_hears(l, agent, &m->u.probed);
        break;
    case MSG_NOTICE:
        hear_notice(l, agent, &m->u.notice);
        break;
    case MSG_WORKER_DYING:
        hear_dying(l, agent, &m->u.worker_exited);
        break;
    case MSG_WORKER_EXITED:
        hear_exited(l, agent, &m->u.worker_exited);
        break;
    default:
        break;
    }
}

/* route 0: it is a HELLO. */
static void hear(struct loop *l, uint64_t route, const struct message *m)
{
    const struct peer *peer = peers_by_route(&l->peers, route);
    struct driver_event ev = {.type = DRIVER_EV_MESSAGE, .u.message = m};

    if (m->type == MSG_HELLO && m->term != 0 && m->term < l->driver.config.term)
        return; /* for the driver before: it says HELLO to this one when it has
                   heard of it, with where it is */
    if (m->type == MSG_AGENT_HELLO)
        meet_agent(l, route, m);
    else if (m->type == MSG_HELLO)
        meet_worker(l, route, m);
    else if (!peer || m->job != l->driver.config.job)
        return;
    else if (peer->kind == PEER_AGENT)
        hear_agent(l, peer->id, m);
    else if (peer->id == m->worker)
        loop_feed(l, &ev);
}

bool inbox_drain(struct loop *l, bool *empty_p)
{
    struct message m;
    uint64_t route;
    int n = 0;

    *empty_p = l->finished;
    while (!*empty_p && n < MESSAGES_PER_TURN) {
        enum wire_receipt receipt = wire_router_receive(l->router, &route, &m);

        if (receipt == WIRE_MESSAGE)
            hear(l, route, &m);
        *empty_p = receipt == WIRE_NOTHING || l->finished;
        n += receipt != WIRE_NOTHING;
    }
    return n > 0;
}

/* ---- output -------------------------------------------------------------- */

static void credit(struct loop *l, uint64_t route, const struct msg_output *out,
                   bool lost)
{
    struct message m = {.type = MSG_CREDIT,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};

    m.u.credit = (struct msg_credit){.nbytes = out->bytes.nbytes,
                                     .worker = out->worker,
                                     .stream = out->stream,
                                     .lost = lost};
    if (!lost) {
        m.u.credit.taken = out->at + out->bytes.nbytes;
        m.u.credit.eof = out->eof;
    }
    l->sent = true;
    if (wire_router_send(l->output_router, route, &m) != HVD_OK)
        log_debug("an agent left before its output was credited");
}

/* The bytes that the driver does not have yet. An agent whose connection was
 * lost sends all for which it has had no CREDIT. */
static struct wire_span take_new(struct speaker *speaker, unsigned stream,
                                 const struct msg_output *out)
{
    uint64_t *taken = &speaker->taken[stream];
    uint64_t end = out->at + out->bytes.nbytes;
    struct wire_span bytes = out->bytes;

    if (end <= *taken)
        return (struct wire_span){bytes.data, 0};
    if (out->at < *taken) {
        bytes.data += *taken - out->at;
        bytes.nbytes = (uint32_t)(end - *taken);
    }
    *taken = end;
    return bytes;
}

/* False: bytes are missing before these. A connection has died with them, and
 * libzmq has dialled anew. */
static bool print_output(struct loop *l, uint64_t agent,
                         const struct msg_output *out)
{
    struct speaker *speaker = speakers_find(&l->speakers, out->worker);
    unsigned stream = out->stream == OUTPUT_STDOUT ? 0 : 1;
    struct output_worker who;
    struct wire_span bytes;

    if (speaker && speaker->agent != agent) {
        log_seldom(&l->refused, LOG_LEVEL_WARN,
                   "agent %" PRIu64 " sends output of worker %" PRIu64
                   ", which it does not run -> dropped",
                   agent, out->worker);
        return true;
    }
    if (!speaker || !(speaker->open & 1u << stream))
        return true; /* all of it was taken */
    if (!out->first && out->at > speaker->taken[stream])
        return false;
    note_rank(l, speaker);
    who = (struct output_worker){speaker->worker, speaker->rank, speaker->host,
                                 speaker->slot};
    bytes = take_new(speaker, stream, out);
    output_write(&l->output, &who, (int)stream, bytes.data, bytes.nbytes,
                 out->eof       ? OUTPUT_END
                 : out->settled ? OUTPUT_SETTLED
                                : OUTPUT_MORE);
    if (out->eof)
        speakers_end(&l->speakers, speaker, stream);
    return true;
}

/* More may be on its way behind this. */
static void part_later(struct loop *l, uint64_t agent, uint64_t now_us)
{
    for (size_t i = 0; i < l->n_partings; i++)
        if (l->partings[i].agent == agent)
            l->partings[i].at_us = now_us + LAST_WORDS_US;
}

static void hear_lines(struct loop *l, const struct peer *peer,
                       const struct msg_output *out)
{
    uint64_t agent = peer->id, route = peer->route, now_us = clock_now_us();
    bool newest = peer->kind == PEER_AGENT, whole;

    /* the agent sends all again that the driver has not taken */
    if (newest)
        peers_part(&l->output_peers, l->output_router, PEER_AGENT_BEFORE,
                   agent);
    launch_postpone(&l->launch, agent, now_us + loop_stop_time(l));
    part_later(l, agent, now_us);
    whole = print_output(l, agent, out);
    if (newest) /* the agent has closed an older one */
        credit(l, route, out, !whole);
    l->n_outputs++;
}

static void hear_output(struct loop *l, uint64_t route, const struct message *m)
{
    const struct peer *peer = peers_by_route(&l->output_peers, route);

    if (m->type == MSG_AGENT_HELLO) {
        (void)greet_agent(l, l->output_router, &l->output_peers, route, m);
    } else if (m->type == MSG_OUTPUT && peer &&
               m->job == l->driver.config.job) {
        hear_lines(l, peer, &m->u.output);
    }
}

/* ---- the last words of agents -------------------------------------------- */

void inbox_agent_ended(struct loop *l, uint64_t agent)
{
    peers_part(&l->peers, l->router, PEER_AGENT, agent);
    network_remove(&l->network, agent);
    if (array_reserve(&l->partings, &l->partings_max, l->n_partings + 1))
        l->partings[l->n_partings++] = (struct parting){
            agent, clock_now_us() + LAST_WORDS_US};
}

static void part_from_output(struct loop *l, uint64_t agent)
{
    peers_part(&l->output_peers, l->output_router, PEER_AGENT, agent);
    peers_part(&l->output_peers, l->output_router, PEER_AGENT_BEFORE, agent);
    wire_gate_forbid(l->gate, agent, 0);
    for (size_t i = 0; i < l->speakers.n; i++) {
        struct speaker *s = &l->speakers.items[i];
        struct output_worker who = {s->worker, s->rank, s->host, s->slot};

        if (s->agent != agent)
            continue;
        if (s->open)
            output_forget(&l->output, &who);
        speakers_remove(&l->speakers, s);
    }
}

/* Nothing of theirs has come for a while: nothing will. */
static void part_from_ended(struct loop *l)
{
    uint64_t now_us = l->n_partings > 0 ? clock_now_us() : 0;

    for (size_t i = l->n_partings; i-- > 0;) {
        struct parting parting = l->partings[i];

        if (now_us < parting.at_us)
            continue;
        l->partings[i] = l->partings[--l->n_partings];
        part_from_output(l, parting.agent);
    }
}

/* Credit is given for what was taken: while nothing is, the agents keep it. */
bool inbox_drain_output(struct loop *l)
{
    struct message m;
    uint64_t route;
    int n = 0;

    if (l->heir && driver_hears_out(&l->driver))
        return false; /* of whom it is may be yet to be told */
    while (n < MESSAGES_PER_TURN && output_takes(&l->output, clock_now_us())) {
        enum wire_receipt receipt = wire_router_receive(l->output_router,
                                                        &route, &m);

        if (receipt == WIRE_NOTHING) {
            part_from_ended(l);
            break;
        }
        if (receipt == WIRE_MESSAGE)
            hear_output(l, route, &m);
        n++;
    }
    return n > 0;
}
