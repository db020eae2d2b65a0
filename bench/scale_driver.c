/* bench/scale_driver.c - the driver's side: frames in, frames out, between them
 * the real core and the real codec. See scale.h.
 *
 * What its loop does besides is left out: sockets, seals, the event log. Time
 * is counted from the bytes of what has arrived to the bytes of all that
 * follows from it. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "elastic/wire/codec.h"
#include "scale.h"

enum { MESSAGES_PER_TURN = 64 }; /* and what is in the last frame */

uint64_t scale_cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- out ----------------------------------------------------------------- */

static void encode_table(struct scale *s, enum scale_table which,
                         uint64_t generation)
{
    const struct assign_table *table = driver_table(&s->driver);
    struct scale_bytes *e = &s->tables[which];
    long n;

    if (s->encoded[which] == generation)
        return;
    if (!array_reserve_unset(&e->data, &e->max,
                             table_encoded_max(table->n_entries)))
        scale_fail("out of memory");
    n = which == TABLE_CHANGE
            ? table_encode_change(table, driver_table_before(&s->driver),
                                  e->data, e->max)
            : table_encode(table, e->data, e->max);
    if (n < 0 || n > WIRE_MESSAGE_MAX)
        scale_fail(n < 0 ? codec_strerror((int)n) : "the table is too large");
    e->n = (size_t)n;
    s->encoded[which] = generation;
    if (e->n > s->table_nbytes)
        s->table_nbytes = e->n;
}

static void to_worker(struct scale *s, const struct driver_action *a)
{
    const struct message *m = &a->u.message;
    struct letter head = {.worker = a->worker};
    const struct scale_worker *w = crowd_worker(s, a->worker);

    if (!w)
        return; /* its process has ended, which has yet to be told */
    head.agent = w->agent;
    if (m->type == MSG_ASSIGN) {
        head.table = a->knows_before ? TABLE_CHANGE : TABLE_WHOLE;
        encode_table(s, head.table, m->generation);
    }
    mail_add(&s->down, head, m);
}

static void to_agent(struct scale *s, uint64_t agent, struct message *m)
{
    m->job = SCALE_JOB;
    m->term = SCALE_TERM;
    mail_add(&s->down, (struct letter){.agent = agent}, m);
}

static void welcome(struct scale *s, uint64_t agent)
{
    struct message m = {.type = MSG_AGENT_WELCOME};

    m.u.welcome.heartbeat_ms = SCALE_HEARTBEAT_US / 1000;
    m.u.welcome.driver_timeout_ms = s->driver.config.driver_timeout_us / 1000;
    to_agent(s, agent, &m);
}

static void spawn(struct scale *s, const struct driver_action *a)
{
    static const char argv[] = "./train";
    struct message m = {.type = MSG_SPAWN};

    m.u.spawn.worker = a->worker;
    m.u.spawn.slot = a->slot;
    m.u.spawn.argv = (struct wire_strings){argv, sizeof(argv)};
    to_agent(s, a->agent, &m);
}

static void stop(struct scale *s, uint64_t agent)
{
    struct message m = {.type = MSG_AGENT_SHUTDOWN};
    struct scale_agent *a = crowd_agent(s, agent);

    if (a) /* its launcher ends it where that does not arrive */
        a->stopping = true;
    to_agent(s, agent, &m);
}

static void finish(struct scale *s, const struct driver_action *a)
{
    if (a->u.finish.status != 0)
        scale_fail(a->u.finish.text);
    s->finished = true;
}

static void perform(struct scale *s, const struct driver_action *a)
{
    struct message m = {.type = MSG_KILL};

    switch (a->type) {
    case DRIVER_ACT_START_AGENT:
        ids_add(&s->starting, a->agent);
        break;
    case DRIVER_ACT_STOP_AGENT:
    case DRIVER_ACT_KILL_AGENT:
        stop(s, a->agent);
        break;
    case DRIVER_ACT_SPAWN:
        spawn(s, a);
        break;
    case DRIVER_ACT_KILL:
        m.u.kill.worker = a->worker;
        m.u.kill.grace_ms = a->u.grace_ms;
        to_agent(s, a->agent, &m);
        break;
    case DRIVER_ACT_PONG:
        m.type = MSG_AGENT_PONG;
        m.u.pong.stamp_us = a->u.stamp_us;
        to_agent(s, a->agent, &m);
        break;
    case DRIVER_ACT_SEND:
        to_worker(s, a);
        break;
    case DRIVER_ACT_FINISH:
        finish(s, a);
        break;
    case DRIVER_ACT_DOUBT: /* config.doubts is off */
    case DRIVER_ACT_RECORD:
        break;
    }
}

static void step(struct scale *s, const struct driver_event *ev)
{
    const struct driver_action *actions;
    size_t n;

    if (driver_step(&s->driver, ev, s->now_us, &actions, &n) != HVD_OK)
        scale_fail("an event was rejected");
    for (size_t i = 0; i < n; i++)
        perform(s, &actions[i]);
    if (n > s->n_actions_most)
        s->n_actions_most = n;
}

/* ---- sending ------------------------------------------------------------- */

static void add_frame(struct scale *s, struct frame frame)
{
    if (!array_reserve(&s->frames, &s->frames_max, s->n_frames + 1))
        scale_fail("out of memory");
    s->frames[s->n_frames++] = frame;
}

static void count(struct traffic *t, size_t n_messages, size_t nbytes)
{
    t->frames++;
    t->messages += n_messages;
    t->nbytes += nbytes;
}

/* Which letters are whose. */
static void sort_by_agent(struct scale *s)
{
    struct mail *mail = &s->down;

    s->touched.n = 0;
    for (size_t i = 0; i < mail->n; i++) {
        struct scale_agent *a = crowd_agent(s, mail->letters[i].agent);

        if (!a)
            continue;
        if (a->first == 0) {
            a->first = i + 1;
            ids_add(&s->touched, a->id);
        } else {
            mail->letters[a->last - 1].next = i + 1;
        }
        a->last = i + 1;
    }
}

/* A table goes with a batch once, whoever in it needs it. */
static size_t nbytes_of_tables(const struct scale *s, size_t first,
                               size_t *n_letters_p)
{
    bool needed[N_TABLES] = {false};
    size_t nbytes = 0;

    *n_letters_p = 0;
    for (size_t at = first; at > 0; at = s->down.letters[at - 1].next) {
        needed[s->down.letters[at - 1].table] = true;
        ++*n_letters_p;
    }
    for (int i = TABLE_WHOLE; i < N_TABLES; i++)
        nbytes += needed[i] ? s->tables[i].n : 0;
    return nbytes;
}

static void send_batch(struct scale *s, struct scale_agent *a)
{
    struct frame frame = {.first = a->first - 1, .at = s->packed.n};
    size_t n_letters, nbytes = nbytes_of_tables(s, a->first, &n_letters);

    batch_pack_for(&s->down, frame.first, &s->packed);
    frame.nbytes = s->packed.n - frame.at;
    count(&s->figures.down, n_letters, nbytes + frame.nbytes);
    add_frame(s, frame);
    a->first = a->last = 0;
}

/* What the agents do with them is not the driver's time. */
static void post_batches(struct scale *s)
{
    uint64_t start_ns = scale_cpu_ns();

    s->n_frames = s->packed.n = 0;
    sort_by_agent(s);
    for (size_t i = 0; i < s->touched.n; i++)
        send_batch(s, crowd_agent(s, s->touched.items[i]));
    s->figures.cpu_ns += scale_cpu_ns() - start_ns;
    for (size_t i = 0; i < s->n_frames; i++) {
        const struct frame *f = &s->frames[i];

        if (!scale_loses(s))
            crowd_hears_batch(s, &s->down.letters[f->first],
                              s->packed.data + f->at, f->nbytes);
    }
}

static void post_letters(struct scale *s)
{
    for (size_t i = 0; i < s->down.n; i++) {
        const struct letter *letter = &s->down.letters[i];

        count(&s->figures.down, 1, letter->nbytes + s->tables[letter->table].n);
        if (!scale_loses(s))
            crowd_hears(s, letter, s->down.bytes.data + letter->at);
    }
}

static void post(struct scale *s)
{
    if (s->behind_agents)
        post_batches(s);
    else
        post_letters(s);
    mail_clear(&s->down);
}

/* ---- in ------------------------------------------------------------------ */

static void hear_worker(struct scale *s, const struct message *m)
{
    struct driver_event ev = {.type = DRIVER_EV_MESSAGE, .u.message = m};

    step(s, &ev);
}

static void hear_agent(struct scale *s, uint64_t agent, const struct message *m)
{
    struct driver_event ev = {.by = agent};

    ev.u.agent.agent = agent;
    switch (m->type) {
    case MSG_AGENT_HELLO:
        welcome(s, agent);
        ev.type = DRIVER_EV_AGENT_UP;
        ev.u.agent.pid = m->u.agent_hello.pid;
        ev.u.agent.host = m->u.agent_hello.host;
        break;
    case MSG_AGENT_PING:
        ev.type = DRIVER_EV_AGENT_PING;
        ev.u.agent.stamp_us = m->u.agent_ping.stamp_us;
        ev.u.agent.n_alive = m->u.agent_ping.n_alive;
        break;
    case MSG_SPAWNED:
        ev.type = DRIVER_EV_SPAWNED;
        ev.u.spawned = m->u.spawned;
        break;
    case MSG_WORKER_EXITED:
        ev.type = DRIVER_EV_EXITED;
        ev.u.exited = m->u.worker_exited;
        break;
    default:
        scale_fail("an agent says what it never does");
    }
    step(s, &ev);
}

static void hear(struct scale *s, uint64_t agent, const uint8_t *bytes,
                 size_t nbytes)
{
    struct message m;

    if (codec_decode(bytes, nbytes, &m, NULL) != CODEC_OK)
        scale_fail("a message cannot be decoded");
    if (m.worker != 0)
        hear_worker(s, &m);
    else
        hear_agent(s, agent, &m);
}

static void hear_letter(struct scale *s, const struct frame *f)
{
    hear(s, s->inbox.letters[f->first].agent, s->inbox.bytes.data + f->at,
         f->nbytes);
}

static void hear_batch(struct scale *s, const struct frame *f)
{
    struct batch_item item;
    struct batch batch;

    batch_open(&batch, s->packed.data + f->at, f->nbytes);
    while (batch_next(&batch, &item))
        hear(s, s->inbox.letters[f->first].agent, item.bytes, item.nbytes);
}

/* Behind which letter the frame that begins with this one ends: all that one
 * agent and its workers have said at a time, or one message. */
static size_t end_of_frame(const struct scale *s, size_t first)
{
    const struct letter *letters = s->inbox.letters;
    size_t end = first + 1;

    while (s->behind_agents && end < s->inbox.n &&
           letters[end].agent == letters[first].agent)
        end++;
    return end;
}

/* The next one on its way. Returns behind which letter it ends. */
static size_t arrive(struct scale *s, size_t first)
{
    const struct letter *letter = &s->inbox.letters[first];
    struct frame frame = {first, letter->at, letter->nbytes};
    size_t end = end_of_frame(s, first);

    if (s->behind_agents) {
        frame.at = s->packed.n;
        batch_pack(&s->inbox, first, end, &s->packed);
        frame.nbytes = s->packed.n - frame.at;
    }
    count(&s->figures.up, end - first, frame.nbytes);
    if (!scale_loses(s))
        add_frame(s, frame);
    return end;
}

static size_t arrive_some(struct scale *s, size_t first)
{
    size_t at = first;

    s->n_frames = s->packed.n = 0;
    while (at < s->inbox.n && at - first < MESSAGES_PER_TURN)
        at = arrive(s, at);
    return at;
}

static void hear_some(struct scale *s)
{
    uint64_t start_ns = scale_cpu_ns();

    for (size_t i = 0; i < s->n_frames; i++)
        if (s->behind_agents)
            hear_batch(s, &s->frames[i]);
        else
            hear_letter(s, &s->frames[i]);
    s->figures.cpu_ns += scale_cpu_ns() - start_ns;
}

static void hear_all(struct scale *s)
{
    struct mail up = s->up;

    s->up = s->inbox;
    s->inbox = up;
    mail_clear(&s->up);
    for (size_t at = 0; at < s->inbox.n;) {
        at = arrive_some(s, at);
        hear_some(s);
        post(s);
    }
}

/* ---- events that are no messages ----------------------------------------- */

void driver_side_feed(struct scale *s, const struct driver_event *ev)
{
    uint64_t start_ns = scale_cpu_ns();

    step(s, ev);
    s->figures.cpu_ns += scale_cpu_ns() - start_ns;
    post(s);
}

static void tick(struct scale *s)
{
    struct driver_event ev = {.type = DRIVER_EV_TIMEOUT};
    uint64_t start_ns;

    while (driver_deadline(&s->driver) <= s->now_us) {
        start_ns = scale_cpu_ns();
        step(s, &ev);
        s->figures.tick_ns += scale_cpu_ns() - start_ns;
        s->figures.n_ticks++;
        post(s);
    }
}

static void launch(struct scale *s)
{
    struct driver_event ev = {.type = DRIVER_EV_AGENT_GONE,
                              .u.agent.text = "has ended"};

    for (size_t i = 0; i < s->starting.n; i++)
        crowd_start_agent(s, s->starting.items[i]);
    s->starting.n = 0;
    for (size_t i = 0; i < s->ended.n; i++) {
        ev.u.agent.agent = s->ended.items[i];
        driver_side_feed(s, &ev);
    }
    s->ended.n = 0;
}

bool driver_side_turn(struct scale *s)
{
    bool any = s->up.n > 0 || s->starting.n > 0 || s->ended.n > 0;

    launch(s);
    if (s->up.n > 0) {
        s->now_us += SCALE_LATENCY_US;
        hear_all(s);
    }
    tick(s);
    return any;
}

void driver_side_fini(struct scale *s)
{
    driver_fini(&s->driver);
    mail_fini(&s->up);
    mail_fini(&s->inbox);
    mail_fini(&s->down);
    for (int i = 0; i < N_TABLES; i++)
        free(s->tables[i].data);
    free(s->frames);
    free(s->packed.data);
    free(s->touched.items);
    free(s->starting.items);
    free(s->ended.items);
}
