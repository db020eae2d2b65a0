/* elastic/driver/inbox.c - what arrives on the driver's two sockets: who may
 * speak, and as which event the core hears it. See loop_internal.h. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "elastic/driver/loop_internal.h"

enum {
    MESSAGES_PER_TURN = 256,
    AGENT_BEAT_US = 200000, /* or this part of a timeout: */
    AGENT_BEATS = 5
};

/* ---- who is it? ---------------------------------------------------------- */

static bool token_fits(const struct loop *l, const uint8_t *token)
{
    return mac_equal(l->token, token);
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

static void meet_agent(struct loop *l, uint64_t route, const struct message *m)
{
    const struct msg_agent_hello *hello = &m->u.agent_hello;
    struct driver_event ev = {.type = DRIVER_EV_AGENT_UP};

    if (!token_fits(l, hello->token) ||
        !peers_add(&l->peers, PEER_AGENT, hello->agent, route)) {
        wire_router_forget(l->router, route);
        return;
    }
    welcome_agent(l, l->router, route);
    ev.u.agent.agent = hello->agent;
    ev.u.agent.pid = hello->pid;
    ev.u.agent.host = hello->host;
    loop_feed(l, &ev);
}

static void meet_worker(struct loop *l, uint64_t route, const struct message *m)
{
    struct driver_event ev = {.type = DRIVER_EV_MESSAGE, .u.message = m};

    if (!token_fits(l, m->u.hello.token) ||
        !driver_worker(&l->driver, m->worker) ||
        !peers_add(&l->peers, PEER_WORKER, m->worker, route)) {
        wire_router_forget(l->router, route);
        return;
    }
    loop_feed(l, &ev);
}

/* ---- what does it say? --------------------------------------------------- */

static bool who_speaks(const struct loop *l, uint64_t worker,
                       struct speaker *speaker_p)
{
    const struct driver_worker *w = driver_worker(&l->driver, worker);
    size_t n = l->n_exited < SPEAKERS_MAX ? l->n_exited : SPEAKERS_MAX;

    if (w) {
        *speaker_p = (struct speaker){worker, w->joined > 0 ? (int)w->rank : -1,
                                      w->slot, ""};
        memcpy(speaker_p->host, driver_host_of(&l->driver, w)->name,
               sizeof(speaker_p->host));
        return true;
    }
    for (size_t i = 0; i < n; i++)
        if (l->exited[i].worker == worker) {
            *speaker_p = l->exited[i];
            return true;
        }
    return false;
}

/* Before the core hears of its exit. */
static void remember_speaker(struct loop *l, uint64_t worker)
{
    struct speaker *place = &l->exited[l->n_exited % SPEAKERS_MAX];

    if (who_speaks(l, worker, place))
        l->n_exited++;
}

static void expect_streams(struct loop *l, uint64_t worker)
{
    const struct driver_worker *w = driver_worker(&l->driver, worker);

    if (w && !w->spawned)
        l->n_streams += OUTPUT_STREAMS;
}

static void part_from(struct loop *l, uint64_t worker)
{
    uint64_t route = peers_remove(&l->peers, PEER_WORKER, worker);

    if (route)
        wire_router_forget(l->router, route);
}

static void hear_agent(struct loop *l, uint64_t agent, const struct message *m)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_PING, .by = agent};

    switch (m->type) {
    case MSG_AGENT_PING:
        ev.u.agent.agent = agent;
        ev.u.agent.stamp_us = m->u.agent_ping.stamp_us;
        ev.u.agent.n_alive = m->u.agent_ping.n_alive;
        break;
    case MSG_SPAWNED:
        ev.type = DRIVER_EV_SPAWNED;
        ev.u.spawned = m->u.spawned;
        break;
    case MSG_SPAWN_FAILED:
        ev.type = DRIVER_EV_SPAWN_FAILED;
        ev.u.spawn_failed = m->u.spawn_failed;
        break;
    case MSG_WORKER_EXITED:
        ev.type = DRIVER_EV_EXITED;
        ev.u.exited = m->u.worker_exited;
        break;
    default:
        return;
    }
    if (ev.type == DRIVER_EV_SPAWNED) {
        expect_streams(l, ev.u.spawned.worker);
        launch_spawned(&l->launch, agent, ev.u.spawned.pid);
    }
    if (ev.type == DRIVER_EV_EXITED) {
        remember_speaker(l, ev.u.exited.worker);
        launch_exited(&l->launch, agent, ev.u.exited.pid);
    }
    loop_feed(l, &ev);
    if (ev.type == DRIVER_EV_EXITED)
        part_from(l, ev.u.exited.worker);
}

static void hear(struct loop *l, uint64_t route, const struct message *m)
{
    const struct peer *peer = peers_by_route(&l->peers, route);
    struct driver_event ev = {.type = DRIVER_EV_MESSAGE, .u.message = m};

    if (m->job != l->driver.config.job)
        return;
    if (m->type == MSG_AGENT_HELLO)
        meet_agent(l, route, m);
    else if (m->type == MSG_HELLO)
        meet_worker(l, route, m);
    else if (!peer)
        log_debug("%s from a stranger is dropped", message_type_name(m->type));
    else if (peer->kind == PEER_AGENT)
        hear_agent(l, peer->id, m);
    else if (peer->id == m->worker)
        loop_feed(l, &ev);
}

bool inbox_drain(struct loop *l, bool *empty_p)
{
    struct message m;
    uint64_t route;

    for (int i = 0; i < MESSAGES_PER_TURN; i++) {
        if (l->finished || !wire_router_receive(l->router, &route, &m)) {
            *empty_p = true;
            return i > 0;
        }
        hear(l, route, &m);
    }
    *empty_p = false;
    return true;
}

/* ---- output -------------------------------------------------------------- */

static void credit(struct loop *l, uint64_t route, uint64_t nbytes)
{
    struct message m = {.type = MSG_CREDIT,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};

    m.u.credit.nbytes = nbytes;
    l->sent = true;
    if (wire_router_send(l->output_router, route, &m) != HVD_OK)
        log_debug("an agent left before its output was credited");
}

static void print_output(struct loop *l, const struct msg_output *out)
{
    struct speaker speaker;
    struct output_worker who = {.worker = out->worker, .rank = -1, .host = "?"};

    if (who_speaks(l, out->worker, &speaker)) {
        who.rank = speaker.rank;
        who.host = speaker.host;
        who.slot = speaker.slot;
    }
    output_write(&l->output, &who, out->stream == OUTPUT_STDOUT ? 0 : 1,
                 out->bytes.data, out->bytes.nbytes, out->eof);
    if (out->eof && l->n_streams > 0)
        l->n_streams--;
}

static void hear_output(struct loop *l, uint64_t route, const struct message *m)
{
    const struct peer *peer = peers_by_route(&l->output_peers, route);

    if (m->job != l->driver.config.job)
        return;
    if (m->type == MSG_AGENT_HELLO) {
        if (token_fits(l, m->u.agent_hello.token) &&
            peers_add(&l->output_peers, PEER_AGENT, m->u.agent_hello.agent,
                      route))
            welcome_agent(l, l->output_router, route);
        else
            wire_router_forget(l->output_router, route);
    } else if (m->type == MSG_OUTPUT && peer) {
        launch_postpone(&l->launch, peer->id,
                        clock_now_us() + loop_stop_time(l));
        print_output(l, &m->u.output);
        credit(l, route, m->u.output.bytes.nbytes);
    }
}

/* Credit is given for what was taken: while nothing is, the agents keep it. */
bool inbox_drain_output(struct loop *l)
{
    struct message m;
    uint64_t route;
    bool any = false;

    for (int i = 0; i < MESSAGES_PER_TURN; i++) {
        if (!output_takes(&l->output, clock_now_us()) ||
            !wire_router_receive(l->output_router, &route, &m))
            break;
        hear_output(l, route, &m);
        any = true;
    }
    return any;
}
