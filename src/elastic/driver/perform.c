/* elastic/driver/perform.c - what the core's actions mean in the world. See
 * loop_internal.h. Nothing here feeds the core: an agent that cannot be
 * started, or a generation that cannot be told, is noted and told after the
 * step. */
#include <inttypes.h>
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

/* HVD_PEER_LOST: it is not there, or does not read; an error: it cannot be said
 * to anybody. shared: the table of an ASSIGN, or NULL. */
static hvd_status_t send_shared(struct loop *l, enum peer_kind kind,
                                uint64_t id, const struct message *m,
                                struct wire_shared *shared)
{
    const struct peer *peer = peers_by_id(&l->peers, kind, id);
    hvd_status_t status = HVD_PEER_LOST;

    l->sent = true;
    if (peer)
        status = wire_router_send_shared(l->router, peer->route, m, shared);
    if (status != HVD_OK)
        log_debug("%s could not be sent, it will be repeated",
                  message_type_name(m->type));
    return status;
}

static void send_to(struct loop *l, enum peer_kind kind, uint64_t id,
                    const struct message *m)
{
    hvd_status_t status = send_shared(l, kind, id, m, NULL);

    if (status < 0)
        log_error("%s", error_text());
}

void loop_tell_agent(struct loop *l, uint64_t agent, const struct message *m)
{
    send_to(l, PEER_AGENT, agent, m);
}

/* ---- agents -------------------------------------------------------------- */

static void note_stillborn(struct loop *l, uint64_t agent)
{
    snprintf(l->stillborn_text, sizeof(l->stillborn_text),
             "could not be started: %s", error_text());
    if (array_reserve(&l->stillborn, &l->stillborn_max, l->n_stillborn + 1))
        l->stillborn[l->n_stillborn++] = agent;
}

/* One that the job's sockets can be reached from. */
static hvd_status_t launch_near_or_far(struct loop *l,
                                       const struct driver_action *a)
{
    if (!l->launch.config.far_endpoints &&
        !local_has(&l->launch.local, a->host))
        return error_set(
            HVD_ERR_INVALID,
            "this job began on loopback, and \"%s\" is another machine (with "
            "--network-interface it is on networks from the start)",
            a->host);
    return launch_start(&l->launch, a->agent, a->host, a->user);
}

static void start_agent(struct loop *l, const struct driver_action *a)
{
    if (!guests_expect(l, a->agent, 0)) {
        (void)error_set(HVD_ERR_NOMEM, "no memory for its key");
        note_stillborn(l, a->agent);
        return;
    }
    if (launch_near_or_far(l, a) != HVD_OK)
        note_stillborn(l, a->agent);
}

static void tell_to_go(struct loop *l, uint64_t agent)
{
    struct message m = {.type = MSG_AGENT_SHUTDOWN,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};

    send_to(l, PEER_AGENT, agent, &m);
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
    network_remove(&l->network, agent);
    launch_kill(&l->launch, agent);
    if (launch_find(&l->launch, agent))
        return; /* its end, or its client's, is told */
    loop_part_from_the_dead(l);
    inbox_agent_ended(l, agent);
}

static struct wire_strings env_for(const struct loop *l, uint64_t agent)
{
    const struct launched *launched = launch_find(&l->launch, agent);

    return launched && !launched->ops->same_machine
               ? (struct wire_strings){l->env_elsewhere,
                                       l->env_elsewhere_nbytes}
               : (struct wire_strings){l->env, l->env_nbytes};
}

static void spawn(struct loop *l, const struct driver_action *a)
{
    struct message m = {.type = MSG_SPAWN,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};
    struct msg_spawn *s = &m.u.spawn;

    /* if not, the core says it again, as nobody tells what became of it */
    if (!guests_expect(l, a->agent, a->worker)) {
        log_seldom(&l->later, LOG_LEVEL_WARN,
                   "no memory for the key of worker %" PRIu64
                   " -> it is started later",
                   a->worker);
        return;
    }
    if (!speakers_add(&l->speakers, a->worker, a->agent, a->slot, a->host))
        log_error("no memory -> the output of worker %" PRIu64 " is lost",
                  a->worker);
    s->worker = a->worker;
    s->slot = a->slot;
    s->argv = (struct wire_strings){l->argv_packed, l->argv_nbytes};
    s->env = env_for(l, a->agent);
    s->cwd = (struct wire_strings){l->cwd, (uint32_t)strlen(l->cwd) + 1};
    network_addresses(&l->network, a->agent, s->addresses);
    send_to(l, PEER_AGENT, a->agent, &m);
}

static void answer_agent(struct loop *l, const struct driver_action *a)
{
    struct message m = {.type = MSG_AGENT_PONG,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};

    m.u.pong.stamp_us = a->u.stamp_us;
    send_to(l, PEER_AGENT, a->agent, &m);
}

static void kill_worker(struct loop *l, const struct driver_action *a)
{
    struct message m = {.type = MSG_KILL,
                        .job = l->driver.config.job,
                        .term = l->driver.config.term};

    m.u.kill.worker = a->worker;
    m.u.kill.grace_ms = a->u.grace_ms;
    send_to(l, PEER_AGENT, a->agent, &m);
}

/* ---- workers ------------------------------------------------------------- */

static long encode(const struct driver *d, bool change, uint8_t *bytes,
                   size_t max)
{
    const struct assign_table *table = driver_table(d);

    return change
               ? table_encode_change(table, driver_table_before(d), bytes, max)
               : table_encode(table, bytes, max);
}

/* bytes: as much as there is room for; freed unless HVD_OK. */
static hvd_status_t encode_into(const struct driver *d, bool change,
                                uint8_t *bytes, size_t max,
                                struct wire_shared **shared_p)
{
    size_t n_ranks = driver_table(d)->n_entries;
    long n = encode(d, change, bytes, max);

    if (n < 0)
        return error_set(HVD_ERR_INVALID,
                         "the table of %zu ranks cannot be encoded: %s",
                         n_ranks, codec_strerror((int)n));
    if (n > WIRE_MESSAGE_MAX)
        return error_set(HVD_ERR_INVALID,
                         "the table of %zu ranks takes %ld bytes, more than a "
                         "message may have",
                         n_ranks, n);
    return wire_shared_create(bytes, (size_t)n, shared_p);
}

static hvd_status_t encode_table(const struct driver *d, bool change,
                                 struct wire_shared **shared_p)
{
    size_t n = driver_table(d)->n_entries;
    size_t max = table_encoded_max(n);
    uint8_t *bytes = malloc(max);
    hvd_status_t status;

    if (!bytes)
        return error_set(HVD_ERR_NOMEM, "no memory for the table of %zu ranks",
                         n);
    status = encode_into(d, change, bytes, max, shared_p);
    if (status != HVD_OK)
        free(bytes);
    return status;
}

/* A fresh key for each generation; what was encoded is that of another one. */
static void prepare_generation(struct loop *l, uint64_t generation)
{
    if (l->keyed_generation == generation)
        return;
    wire_shared_destroy(l->table);
    wire_shared_destroy(l->change);
    l->table = l->change = NULL;
    mac_random(l->key, sizeof(l->key));
    l->keyed_generation = generation;
}

static hvd_status_t send_assign(struct loop *l, const struct driver_action *a)
{
    struct message m = a->u.message;
    struct wire_shared **table = a->knows_before ? &l->change : &l->table;

    prepare_generation(l, m.generation);
    if (!*table)
        HVD_TRY(encode_table(&l->driver, a->knows_before, table));
    memcpy(m.u.assign.key, l->key, sizeof(l->key));
    return send_shared(l, PEER_WORKER, a->worker, &m, *table);
}

/* Who does not read is told again; what cannot be said is no use repeating. */
static void assign(struct loop *l, const struct driver_action *a)
{
    hvd_status_t status = send_assign(l, a);

    if (status == HVD_OK || status == HVD_PEER_LOST)
        return;
    l->untold_generation = a->u.message.generation;
    snprintf(l->untold_text, sizeof(l->untold_text), "%s", error_text());
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
    case DRIVER_ACT_DOUBT: /* network_look() has the answer */
        if (!network_doubt(&l->network, a->agent, a->u.doubt.other,
                           a->u.doubt.limit_us, now_us))
            log_error("no memory -> nobody is started on a host in doubt");
        break;
    case DRIVER_ACT_SPAWN:
        spawn(l, a);
        break;
    case DRIVER_ACT_KILL:
        kill_worker(l, a);
        break;
    case DRIVER_ACT_PONG:
        answer_agent(l, a);
        break;
    case DRIVER_ACT_SEND:
        if (a->u.message.type == MSG_ASSIGN)
            assign(l, a);
        else
            send_to(l, PEER_WORKER, a->worker, &a->u.message);
        break;
    case DRIVER_ACT_RECORD:
        if (a->u.record.type == RECORD_RELEASED)
            loop_count_commits(l, now_us);
        events_write(&l->events, &l->driver, &a->u.record, now_us);
        break;
    case DRIVER_ACT_FINISH:
        l->finished = true;
        l->exit_status = a->u.finish.status;
        memcpy(l->verdict, a->u.finish.text, sizeof(l->verdict));
        break;
    }
}
