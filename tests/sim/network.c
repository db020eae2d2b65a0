/* network.c - messages between the driver and the others. They are delayed, so
 * that they overtake each other; lost; doubled; and now and then encoded and
 * decoded on the way. A host may be cut off from the driver, in one direction
 * or both.
 *
 * Rules can be broken here (sim.h: SIM_BUG_TABLE). */
#include <stdio.h>
#include <string.h>

#include "elastic/wire/codec.h"
#include "world.h"

/* Bytes of a message that are in use: its largest member is ten times its
 * median, and thousands are on their way at once. */
size_t network_nbytes(enum message_type type)
{
    size_t body;

    switch (type) {
    case MSG_AGENT_HELLO:
        body = sizeof(struct msg_agent_hello);
        break;
    case MSG_SPAWN_FAILED:
        body = sizeof(struct msg_spawn_failed);
        break;
    case MSG_NOTICE:
        body = sizeof(struct msg_notice);
        break;
    case MSG_HELLO:
        body = sizeof(struct msg_hello);
        break;
    case MSG_READY:
        body = sizeof(struct msg_ready);
        break;
    case MSG_LOST:
        body = sizeof(struct msg_lost);
        break;
    case MSG_LEAVING:
        body = sizeof(struct msg_leaving);
        break;
    case MSG_ABORT:
        body = sizeof(struct msg_abort);
        break;
    case MSG_SHUTDOWN:
        body = sizeof(struct msg_shutdown);
        break;
    default: /* the small ones: the largest of them */
        body = sizeof(struct msg_assign);
        break;
    }
    return offsetof(struct message, u) + body;
}

_Static_assert(sizeof(struct msg_assign) >= sizeof(struct msg_ping),
               "the largest of the small messages");

/* One message more has been drawn: is it one of those that a shrunk run has? */
static bool befalls_message(struct sim *s, enum sim_mishap what)
{
    const struct sim_less *less = &s->options.less;
    uint64_t number = s->result->n_messages++;

    return number >= less->first_message && number <= less->last_message &&
           sim_befalls(s, what);
}

static uint64_t delay(struct sim *s)
{
    const struct sim_plan *p = &s->plan;
    uint64_t us = p->delay_us / 2 + random_below(&s->random, p->delay_us);

    if (sim_one_in(s, p->tail_in)) {
        uint64_t tail_us = random_below(&s->random, p->tail_us);

        us += befalls_message(s, MISHAP_LATE) ? tail_us : 0;
    }
    return us;
}

bool network_is_cut(const struct sim *s, uint32_t host)
{
    return s->hosts[host].cut_up_us > s->now_us ||
           s->hosts[host].cut_down_us > s->now_us;
}

static bool is_up(enum event_type type)
{
    return type == EV_TO_DRIVER || type == EV_FROM_AGENT;
}

/* Whose driver's connection it goes by. */
static uint64_t dialled(struct sim *s, enum event_type type, uint64_t peer)
{
    uint64_t term = 0;

    if (type == EV_TO_DRIVER)
        term = sim_worker(s, peer)->core.term;
    else if (type == EV_FROM_AGENT)
        term = sim_agent(s, peer)->dialled;
    return term > 0 ? term : s->driver_config.term;
}

void network_deliver(struct sim *s, enum event_type type, uint64_t peer,
                     const struct message *m, uint64_t not_before_us)
{
    size_t nbytes = network_nbytes(m->type);
    uint64_t from_us = s->now_us > not_before_us ? s->now_us : not_before_us;
    uint64_t at = from_us + delay(s);
    struct event *event = queue_push(&s->queue, at, type);

    if (is_up(type)) {
        if (at < s->to_driver_last_us)
            sim_cover(s, COVER_message_reordered);
        s->to_driver_last_us = at;
    }
    event->a = peer;
    event->d = dialled(s, type, peer);
    event->message = malloc(nbytes);
    if (!event->message)
        abort();
    memcpy(event->message, m, nbytes);
}

/* BUG_norepeat: what a heartbeat repeats is dropped. */
static bool is_repeated(const struct sim *s, const struct message *m)
{
    return s->options.bug == BUG_norepeat && s->in_heartbeat &&
           m->type != MSG_PING && m->type != MSG_PONG && m->type != MSG_HELLO;
}

static void lose(struct sim *s, enum event_type type, uint64_t peer,
                 const struct message *m)
{
    bool down = !is_up(type);

    sim_cover(s, COVER_message_lost);
    if (!s->options.trace)
        return;
    if (type == EV_TO_AGENT || type == EV_FROM_AGENT)
        trace_agent(s, "lost:", m, down, peer);
    else
        trace_message(s, "lost:", m, down, peer);
}

static void through(struct sim *s, enum event_type type, uint64_t peer,
                    uint32_t host, const struct message *m)
{
    const struct sim_host *h = &s->hosts[host];
    uint64_t cut_us = is_up(type) ? h->cut_up_us : h->cut_down_us;
    bool cut = cut_us > s->now_us;

    if (is_repeated(s, m) || (cut && !h->cut_keeps) ||
        (s->now_us < s->plan.horizon_us && sim_one_in(s, s->plan.loss_in) &&
         befalls_message(s, MISHAP_LOST))) {
        lose(s, type, peer, m);
        return;
    }
    network_deliver(s, type, peer, m, cut ? cut_us : 0);
    if (sim_one_in(s, s->plan.duplicate_in) &&
        befalls_message(s, MISHAP_DOUBLED)) {
        sim_cover(s, COVER_message_duplicated);
        network_deliver(s, type, peer, m, cut ? cut_us : 0);
    }
}

void network_from_agent(struct sim *s, const struct sim_agent *agent,
                        const struct message *m)
{
    through(s, EV_FROM_AGENT, agent->id, agent->host, m);
}

bool network_moves(struct sim *s)
{
    return !s->plan.survives && sim_one_in(s, s->plan.move_in) &&
           sim_befalls(s, MISHAP_MOVED);
}

void network_to_agent(struct sim *s, const struct sim_agent *agent,
                      const struct message *m)
{
    if (s->options.trace && m->type != MSG_AGENT_PONG)
        trace_agent(s, "sent:", m, true, agent->id);
    through(s, EV_TO_AGENT, agent->id, agent->host, m);
}

void network_to_driver(struct sim *s, struct sim_worker *w,
                       const struct message *m)
{
    struct message changed;

    if (s->options.bug == BUG_heldlow && m->type == MSG_HELD &&
        m->u.held.boundary > 0) {
        changed = *m;
        changed.u.held.boundary--;
        m = &changed;
    }
    if (s->options.bug == BUG_liar && m->type == MSG_READY &&
        m->u.ready.reason == READY_LOST) {
        changed = *m;
        changed.u.ready.id.version++;
        m = &changed;
    }
    if (s->options.bug == BUG_hearsay && m->type == MSG_LOST) {
        changed = *m;
        changed.u.lost.proven = UINT64_MAX;
        m = &changed;
    }
    through(s, EV_TO_DRIVER, w->id, w->host, m);
}

void network_send_to(struct sim *s, struct sim_worker *w,
                     const struct message *m)
{
    struct message changed;

    if (s->options.bug == BUG_noabort && m->type == MSG_ABORT)
        return;
    if (s->options.bug == BUG_cutmax && m->type == MSG_CUT &&
        m->u.cut.boundary != CUT_NEVER) {
        changed = *m;
        changed.u.cut.boundary--;
        m = &changed;
    }
    through(s, EV_TO_WORKER, w->id, w->host, m);
}

/* The codec may refuse nothing and change nothing that it was given. */
void network_through_codec(struct sim *s, struct message *m)
{
    static uint8_t bytes[16384];
    struct message back;
    const char *field = "";
    long n;
    int error;

    if (!sim_one_in(s, s->plan.codec_in))
        return;
    n = codec_encode(m, bytes, sizeof(bytes));
    if (n <= 0)
        check_fail(s, "codec: %s cannot be encoded: %s",
                   message_type_name(m->type), codec_strerror((int)n));
    error = codec_decode(bytes, (size_t)n, &back, &field);
    if (error != CODEC_OK)
        check_fail(s, "codec: %s cannot be decoded: %s (%s)",
                   message_type_name(m->type), codec_strerror(error), field);
    memcpy(m, &back, network_nbytes(m->type));
    sim_cover(s, COVER_through_codec);
}
