/* driver.c - the driver's loop as a run has it: what its core's actions do, who
 * may speak to it, and the launcher that starts and ends agents. It follows
 * src/elastic/driver/{perform,inbox,launch}.c, which are not pure. */
#include <stdio.h>
#include <string.h>

#include "world.h"

enum { AGENT_STOP_US = 5000000, END_GRACE_US = 3000000 };

uint64_t driver_due_us(const struct sim *s)
{
    uint64_t at = driver_deadline(&s->driver);

    if (s->driver_dead)
        return TIME_NEVER;
    return at > s->driver_clock_us ? at - s->driver_clock_us : 0;
}

bool driver_hears(const struct sim *s, const struct sim_worker *w)
{
    const struct driver_worker *dw = driver_worker(&s->driver, w->id);

    return dw && !worker_is_dead(dw);
}

/* ---- actions ------------------------------------------------------------- */

static void on_record(struct sim *s, const struct driver_record *r)
{
    switch (r->type) {
    case RECORD_HOST_BLACKLISTED:
        sim_cover(s, COVER_blacklisted);
        break;
    case RECORD_SLOT_CLOSED:
        sim_cover(s, COVER_slot_closed);
        break;
    case RECORD_START_FAILED:
        sim_cover(s, COVER_start_failed);
        break;
    case RECORD_WORKER_DRAINED:
        sim_cover(s, COVER_drained);
        break;
    case RECORD_AGENT_LOST:
        s->agent_is_silent = starts_with(r->text, "has stopped");
        break;
    case RECORD_WORKER_LOST:
        check_eviction(s, r);
        check_silence(s, r);
        check_holder_ends(s, r);
        if (strncmp(r->text, "has stopped", 11) == 0)
            sim_cover(s, COVER_expired);
        break;
    case RECORD_WARNING:
        check_standstill(s, r);
        break;
    default:
        break;
    }
}

static void on_send(struct sim *s, const struct driver_action *a)
{
    struct sim_worker *w = sim_worker(s, a->worker);

    if (!w)
        check_fail(s, "%s for w%llu that never was",
                   message_type_name(a->u.message.type),
                   (unsigned long long)a->worker);
    if (a->knows_before &&
        w->core.generation != s->driver.table_before.generation) {
        sim_cover(s, COVER_change_unknown);
        TRACE(s, "w%llu does not know what its ASSIGN changes",
              (unsigned long long)a->worker);
        return;
    }
    if (a->u.message.type == MSG_HOLD)
        check_hold(s, &a->u.message);
    if (a->u.message.type == MSG_SHUTDOWN)
        check_sent_away(s, w, &a->u.message.u.shutdown);
    if (a->u.message.type == MSG_RELEASE && !s->released) {
        s->released = true;
        check_release(s);
    }
    if (a->u.message.type == MSG_CUT &&
        a->u.message.u.cut.boundary == CUT_NEVER)
        sim_cover(s, COVER_cut_never);
    network_send_to(s, w, &a->u.message);
}

static struct sim_agent *agent_of(struct sim *s, const struct driver_action *a)
{
    struct sim_agent *agent = sim_agent(s, a->agent);

    if (!agent)
        check_fail(s, "a command for agent %llu that never was",
                   (unsigned long long)a->agent);
    return agent;
}

static void tell(struct sim *s, const struct sim_agent *agent,
                 struct message *m)
{
    m->job = s->driver_config.job;
    m->term = s->driver_config.term;
    if (agent->met)
        network_to_agent(s, agent, m);
}

static void tell_to_go(struct sim *s, const struct sim_agent *agent)
{
    struct message m = {.type = MSG_AGENT_SHUTDOWN};

    tell(s, agent, &m);
}

static void launcher_in(struct sim *s, const struct sim_agent *agent,
                        enum launch_news news, uint64_t delay_us)
{
    struct event *event = queue_push(&s->queue, s->now_us + delay_us,
                                     EV_LAUNCHER);

    event->sub = (uint8_t)news;
    event->a = agent->id;
    event->d = s->driver_config.term;
}

static void stop_agent(struct sim *s, struct sim_agent *agent)
{
    tell_to_go(s, agent);
    if (!agent->stopping)
        launcher_in(s, agent, LAUNCH_STOP, AGENT_STOP_US);
    agent->stopping = true;
}

/* What is on this machine dies now, with its workers; elsewhere the connection
 * ends. */
static void kill_agent(struct sim *s, struct sim_agent *agent)
{
    tell_to_go(s, agent);
    agent->stopping = true;
    if (s->plan.remote)
        agents_cut_lifeline(s, agent);
    else
        agents_die(s, agent, false);
}

static void spawn(struct sim *s, const struct driver_action *a)
{
    struct message m = {.type = MSG_SPAWN};

    m.u.spawn.worker = a->worker;
    m.u.spawn.slot = a->slot;
    m.u.spawn.argv = (struct wire_strings){"train", sizeof("train")};
    tell(s, agent_of(s, a), &m);
}

static void kill_worker(struct sim *s, const struct driver_action *a)
{
    struct message m = {.type = MSG_KILL};

    m.u.kill.worker = a->worker;
    m.u.kill.grace_ms = a->u.grace_ms;
    tell(s, agent_of(s, a), &m);
}

static void answer_agent(struct sim *s, const struct driver_action *a)
{
    struct message m = {.type = MSG_AGENT_PONG};

    m.u.pong.stamp_us = a->u.stamp_us;
    tell(s, agent_of(s, a), &m);
}

static void perform(struct sim *s, const struct driver_action *a)
{
    if (s->options.trace)
        trace_action(s, a);
    switch (a->type) {
    case DRIVER_ACT_START_AGENT:
        agents_start(s, a->agent, a->host);
        break;
    case DRIVER_ACT_STOP_AGENT:
        stop_agent(s, agent_of(s, a));
        break;
    case DRIVER_ACT_KILL_AGENT:
        kill_agent(s, agent_of(s, a));
        break;
    case DRIVER_ACT_DOUBT: /* config.doubts is off */
        break;
    case DRIVER_ACT_SPAWN:
        spawn(s, a);
        break;
    case DRIVER_ACT_KILL:
        kill_worker(s, a);
        break;
    case DRIVER_ACT_PONG:
        answer_agent(s, a);
        break;
    case DRIVER_ACT_SEND:
        on_send(s, a);
        break;
    case DRIVER_ACT_RECORD:
        on_record(s, &a->u.record);
        break;
    case DRIVER_ACT_FINISH:
        check_finish(s, a->u.finish.status, a->u.finish.text);
        break;
    }
}

/* BUG_hasty, BUG_patient, BUG_lonely: what it was told is not what it does. */
bool sim_driver_init(struct sim *s)
{
    struct driver_config config = s->driver_config;

    if (s->options.bug == BUG_hasty)
        config.elastic_timeout_us /= 100;
    if (s->options.bug == BUG_patient)
        config.heartbeat_timeout_us *= 10;
    if (s->options.bug == BUG_lonely)
        config.driver_timeout_us = config.heartbeat_timeout_us;
    return driver_init(&s->driver, &config, driver_now(s));
}

/* BUG_credulous: a worker that has called is taken to hold the state. */
static void believe_all(struct sim *s)
{
    for (size_t i = 0; i < s->driver.n_workers; i++)
        if (s->driver.workers[i].called)
            s->driver.workers[i].state = (struct state_id){UINT64_MAX, 1};
}

/* ---- a step -------------------------------------------------------------- */

static void cover_ending(struct sim *s, bool aborted)
{
    struct driver *d = &s->driver;

    if (d->aborted && !aborted)
        sim_cover(s, COVER_ended_lost);
    if (d->generation > 1 && !aborted && check_before(s, d->generation) &&
        check_before(s, d->generation)->left_any)
        sim_cover(s, COVER_ended_updated);
}

/* After a loss, or not. */
static void formed(struct sim *s, const struct driver_action *actions, size_t n,
                   bool after_loss)
{
    if (after_loss)
        sim_cover(s, COVER_recovered);
    check_formed(s, actions, n);
}

static bool is_closed(const struct driver *d, const struct driver_host *host)
{
    for (uint32_t i = 0; i < host->n_slots; i++) {
        const struct driver_slot *slot = driver_slot(d, host, i);

        if (!slot || (!slot->closed && d->now_us >= slot->next_start_us))
            return false;
    }
    return true;
}

static bool all_closed(const struct sim *s)
{
    const struct driver *d = &s->driver;

    for (size_t i = 0; i < d->n_hosts; i++)
        if (d->hosts[i].listed && !d->hosts[i].blacklist.listed &&
            (d->config.strict_blacklist || !is_closed(d, &d->hosts[i])))
            return false;
    return d->config.strict_blacklist || d->config.hosts_fixed ||
           !d->layout_known;
}

static void note_shortage(struct sim *s)
{
    if (s->driver.below_us == DRIVER_NEVER)
        s->short_since_us = TIME_NEVER;
    else if (s->short_since_us == TIME_NEVER)
        s->short_since_us = s->now_us;
}

static void note_verdict(struct sim *s, enum driver_phase before)
{
    if (s->driver.phase < DRIVER_STOPPING || before >= DRIVER_STOPPING)
        return;
    s->all_closed = all_closed(s);
    s->state_left = check_state_is_left(s);
}

void sim_driver_step(struct sim *s, const struct driver_event *event)
{
    struct driver *d = &s->driver;
    const struct driver_action *actions;
    uint64_t generation = d->generation;
    enum driver_phase phase = d->phase;
    bool aborted = d->aborted;
    size_t n;
    hvd_status_t status = driver_step(d, event, driver_now(s), &actions, &n);

    if (status != HVD_OK)
        check_fail(s, "the driver rejects event %d", (int)event->type);
    note_verdict(s, phase);
    note_shortage(s);
    trouble_check(s, event, actions, n);
    if (d->generation < generation)
        check_fail(s, "the generation falls");
    if (phase == DRIVER_ADOPTING)
        check_adopted(s, actions, n);
    else if (d->generation != generation)
        formed(s, actions, n, aborted);
    if (phase != DRIVER_ADOPTING &&
        (d->aborted != aborted || d->generation != generation))
        cover_ending(s, aborted);
    succession_write(s, actions, n,
                     phase < DRIVER_STOPPING && d->phase >= DRIVER_STOPPING);
    if (d->generation != generation)
        notice_check_drained(s, actions, n);
    if (!s->options.large) {
        check_driver(s);
        notice_check(s);
    }
    for (size_t i = 0; i < n; i++)
        perform(s, &actions[i]);
    if (s->options.bug == BUG_credulous)
        believe_all(s);
    if (s->slow_until_us > s->now_us)
        s->stalled_until_us = s->now_us + s->slow_us;
}

/* ---- what it hears ------------------------------------------------------- */

static void forge(struct sim *s, struct message *m)
{
    const struct driver_worker *dw;

    if (m->type == MSG_READY && s->options.bug == BUG_anylayout)
        memset(m->u.ready.layout, 0, sizeof(m->u.ready.layout));
    if (m->type == MSG_READY && s->options.bug == BUG_boast)
        m->u.ready.abilities = READY_CAN_ALL;
    if (m->type == MSG_READY && s->options.bug == BUG_nofence) {
        dw = driver_worker(&s->driver, m->worker);
        m->u.ready.fence = dw ? dw->named : 0;
    }
}

void driver_hear(struct sim *s, struct event *event)
{
    struct driver_event ev = {.type = DRIVER_EV_MESSAGE,
                              .u.message = event->message};

    struct sim_worker *w = sim_worker(s, event->a);

    if (event->d != s->driver_config.term)
        return; /* it was sent to another, who is dead */
    w->met |= event->message->type == MSG_HELLO &&
              driver_worker(&s->driver, w->id) != NULL;
    if (!w->met)
        return; /* a stranger's */
    w->heard_us = w->came_us = s->now_us;
    if (s->options.bug == BUG_deafear && event->message->type == MSG_PING &&
        w->id % 3 == 0)
        return;
    network_through_codec(s, event->message);
    if (s->options.bug != BUG_none)
        forge(s, event->message);
    if (s->options.trace && event->message->type != MSG_PING)
        trace_message(s, "got: ", event->message, false, event->a);
    s->in_heartbeat = event->message->type == MSG_PING;
    sim_driver_step(s, &ev);
    s->in_heartbeat = false;
}

/* In the hello's answer: several beats before either misses the other's. */
static void welcome(struct sim *s, struct sim_agent *agent)
{
    const struct driver_config *c = &s->driver_config;
    uint64_t beat_us = s->plan.agent_beat_us;
    struct message m = {.type = MSG_AGENT_WELCOME};

    if (beat_us > c->heartbeat_timeout_us / 5)
        beat_us = c->heartbeat_timeout_us / 5;
    if (c->driver_timeout_us > 0 && beat_us > c->driver_timeout_us / 5)
        beat_us = c->driver_timeout_us / 5;
    m.u.welcome.heartbeat_ms = beat_us < 1000 ? 1 : beat_us / 1000;
    m.u.welcome.driver_timeout_ms = s->options.bug == BUG_orphan
                                        ? UINT32_MAX
                                        : c->driver_timeout_us / 1000;
    agent->met = true;
    tell(s, agent, &m);
}

static void on_hello(struct sim *s, struct sim_agent *agent)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_UP};

    welcome(s, agent);
    ev.u.agent.agent = agent->id;
    ev.u.agent.pid = 100 + (int64_t)agent->id;
    ev.u.agent.host = s->hosts[agent->host].name;
    sim_driver_step(s, &ev);
}

static void on_ping(struct sim *s, const struct sim_agent *agent,
                    const struct message *m)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_PING};

    ev.u.agent.agent = agent->id;
    ev.u.agent.stamp_us = m->u.agent_ping.stamp_us;
    ev.u.agent.n_alive = m->u.agent_ping.n_alive;
    sim_driver_step(s, &ev);
}

static void on_notice(struct sim *s, const struct sim_agent *agent,
                      const struct message *m)
{
    struct driver_event ev = {.type = DRIVER_EV_NOTICE};

    ev.u.agent.agent = agent->id;
    ev.u.agent.left_us = m->u.notice.left_ms == NOTICE_UNKNOWN
                             ? DRIVER_NEVER
                             : m->u.notice.left_ms * MSEC;
    ev.u.agent.text = m->u.notice.text;
    sim_driver_step(s, &ev);
}

static void on_report(struct sim *s, const struct sim_agent *agent,
                      const struct message *m)
{
    struct driver_event ev = {.by = agent->id};

    if (m->type == MSG_SPAWNED) {
        ev.type = DRIVER_EV_SPAWNED;
        ev.u.spawned = m->u.spawned;
    } else if (m->type == MSG_SPAWN_FAILED) {
        ev.type = DRIVER_EV_SPAWN_FAILED;
        ev.u.spawn_failed = m->u.spawn_failed;
    } else {
        ev.type = m->type == MSG_WORKER_DYING ? DRIVER_EV_DYING
                                              : DRIVER_EV_EXITED;
        ev.u.exited = m->u.worker_exited;
    }
    sim_driver_step(s, &ev);
}

void driver_hear_agent(struct sim *s, struct event *event)
{
    struct sim_agent *agent = sim_agent(s, event->a);
    struct message *m = event->message;

    if (event->d != s->driver_config.term)
        return;
    network_through_codec(s, m);
    if (s->options.trace && m->type != MSG_AGENT_PING)
        trace_agent(s, "got: ", m, false, event->a);
    if (agent->met || m->type == MSG_AGENT_HELLO)
        agent->came_us = s->now_us;
    if (m->type == MSG_AGENT_HELLO)
        on_hello(s, agent);
    else if (!agent->met)
        return; /* of a stranger */
    else if (m->type == MSG_AGENT_PING)
        on_ping(s, agent, m);
    else if (m->type == MSG_NOTICE)
        on_notice(s, agent, m);
    else
        on_report(s, agent, m);
}

/* ---- the launcher -------------------------------------------------------- */

static void on_ended(struct sim *s, struct sim_agent *agent)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_GONE};

    ev.u.agent.agent = agent->id;
    ev.u.agent.text = "its process ended";
    sim_driver_step(s, &ev);
    agent->met = false;
}

void driver_agent_ended(struct sim *s, uint64_t id)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_GONE};

    ev.u.agent.agent = id;
    ev.u.agent.text = "ended while no driver was there";
    sim_driver_step(s, &ev);
}

void driver_launcher(struct sim *s, const struct event *event)
{
    struct sim_agent *agent = sim_agent(s, event->a);

    if (event->d != s->driver_config.term &&
        ((enum launch_news)event->sub != LAUNCH_ENDED || s->plan.remote))
        return; /* the launcher of a driver that is dead; its agents on this
                   machine are watched by the next */
    if ((enum launch_news)event->sub == LAUNCH_ENDED) {
        on_ended(s, agent);
    } else if (!agent->runs) {
        return;
    } else if ((enum launch_news)event->sub == LAUNCH_STOP) {
        agents_cut_lifeline(s, agent);
        launcher_in(s, agent, LAUNCH_KILL, END_GRACE_US);
    } else if (!s->plan.remote) {
        agents_die(s, agent, false);
    }
}
