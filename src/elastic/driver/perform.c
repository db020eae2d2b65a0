/* elastic/driver/perform.c - what the core's actions mean in the world. See
 * loop_internal.h. Nothing here feeds the core: an agent that cannot be started
 * is noted and told after the step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "elastic/driver/loop_internal.h"
#include "elastic/wire/codec.h"

bool loop_watch(struct loop *l, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

bool loop_send(struct loop *l, enum peer_kind kind, uint64_t id,
               const struct message *m)
{
    const struct peer *peer = peers_by_id(&l->peers, kind, id);

    l->sent = true;
    if (peer && wire_router_send(l->router, peer->route, m) == HVD_OK)
        return true;
    log_debug("%s could not be sent, it will be repeated",
              message_type_name(m->type));
    return false;
}

/* ---- agents -------------------------------------------------------------- */

static void note_stillborn(struct loop *l, uint64_t agent)
{
    snprintf(l->stillborn_text, sizeof(l->stillborn_text),
             "could not be started: %s", error_text());
    if (array_reserve(&l->stillborn, &l->stillborn_max, l->n_stillborn + 1))
        l->stillborn[l->n_stillborn++] = agent;
}

static void start_agent(struct loop *l, const struct driver_action *a)
{
    int pidfd;

    if (launch_start(&l->launch, a->agent, a->host, &pidfd) != HVD_OK)
        note_stillborn(l, a->agent);
    else if (!loop_watch(l, pidfd))
        log_error("epoll_ctl failed -> the agent on %s is not watched",
                  a->host);
}

static void tell_to_go(struct loop *l, uint64_t agent)
{
    struct message m = {.type = MSG_AGENT_SHUTDOWN,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};

    loop_send(l, PEER_AGENT, agent, &m);
}

static void stop_agent(struct loop *l, uint64_t agent, uint64_t now_us)
{
    tell_to_go(l, agent);
    launch_stop(&l->launch, agent, now_us + loop_stop_time(l));
}

/* It may be stopped or stuck, and its workers may still run: their slots are
 * free for others from now on. */
static void kill_agent(struct loop *l, uint64_t agent)
{
    tell_to_go(l, agent);
    launch_kill(&l->launch, agent);
}

static void spawn(struct loop *l, const struct driver_action *a)
{
    struct message m = {.type = MSG_SPAWN,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};
    struct msg_spawn *s = &m.u.spawn;

    s->worker = a->worker;
    s->slot = a->slot;
    s->argv = (struct wire_strings){l->argv_packed, l->argv_nbytes};
    s->env = (struct wire_strings){l->env, l->env_nbytes};
    memcpy(s->cwd, l->cwd, sizeof(s->cwd));
    loop_send(l, PEER_AGENT, a->agent, &m);
}

static void kill_worker(struct loop *l, const struct driver_action *a)
{
    struct message m = {.type = MSG_KILL,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};

    m.u.kill.worker = a->worker;
    m.u.kill.grace_ms = a->u.grace_ms;
    loop_send(l, PEER_AGENT, a->agent, &m);
}

/* ---- workers ------------------------------------------------------------- */

/* A fresh key and one encoding of the table for each generation. */
static bool prepare_generation(struct loop *l, uint64_t generation)
{
    const struct assign_table *table = driver_table(&l->driver);
    long n;

    if (l->keyed_generation == generation)
        return true;
    if (!array_reserve(&l->table, &l->table_max,
                       table_encoded_max(table->n_entries)))
        return false;
    n = table_encode(table, l->table, l->table_max);
    if (n < 0) {
        log_error("the table of %zu workers cannot be encoded: %s",
                  table->n_entries, codec_strerror((int)n));
        return false;
    }
    l->table_nbytes = (size_t)n;
    mac_random(l->key, sizeof(l->key));
    l->keyed_generation = generation;
    return true;
}

static void send_assign(struct loop *l, const struct driver_action *a)
{
    struct message m = a->u.message;

    if (!prepare_generation(l, m.generation))
        return;
    memcpy(m.u.assign.key, l->key, sizeof(l->key));
    m.u.assign.table = (struct wire_span){l->table, (uint32_t)l->table_nbytes};
    loop_send(l, PEER_WORKER, a->worker, &m);
}

/* ---- dispatch ------------------------------------------------------------ */

void perform(struct loop *l, const struct driver_action *a, uint64_t now_us)
{
    switch (a->type) {
    case DRIVER_ACT_START_AGENT:
        start_agent(l, a);
        break;
    case DRIVER_ACT_STOP_AGENT:
        stop_agent(l, a->agent, now_us);
        break;
    case DRIVER_ACT_KILL_AGENT:
        kill_agent(l, a->agent);
        break;
    case DRIVER_ACT_SPAWN:
        spawn(l, a);
        break;
    case DRIVER_ACT_KILL:
        kill_worker(l, a);
        break;
    case DRIVER_ACT_SEND:
        if (a->u.message.type == MSG_ASSIGN)
            send_assign(l, a);
        else
            loop_send(l, PEER_WORKER, a->worker, &a->u.message);
        break;
    case DRIVER_ACT_RECORD:
        events_write(&l->events, &l->driver, &a->u.record, now_us);
        break;
    case DRIVER_ACT_FINISH:
        l->finished = true;
        l->exit_status = a->u.finish.status;
        memcpy(l->verdict, a->u.finish.text, sizeof(l->verdict));
        break;
    }
}
