/* bench/driver_scale.c - what a rendezvous of many workers costs the driver.
 *
 *     driver_scale [WORKERS [SLOTS_PER_HOST]]        (4096 8)
 *
 * The driver's real core and the real codec; agents and workers are a queue of
 * the messages that they would send, answered at once and in order. Sockets are
 * left out: their cost is a copy and a system call per message. Counted is the
 * CPU time from a message's bytes to the bytes of all that follows from it.
 *
 * Prints one JSON object: the start of all workers, a loss of one, and the
 * answers to one heartbeat of all.
 *
 * Threads: one. Memory: the core's, the queue, one buffer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "elastic/driver/core.h"
#include "elastic/wire/codec.h"

enum { JOB = 7 };

/* What somebody out there does next. */
struct deed {
    enum driver_event_type type;
    enum message_type message; /* of EV_MESSAGE */
    uint64_t who;              /* agent or worker */
    uint64_t fence;            /* of READY */
};

/* The table of a generation. */
struct encoded {
    uint8_t *bytes;
    size_t max, nbytes;
    uint64_t generation;
};

struct bench {
    struct driver driver;
    uint64_t now_us;
    struct deed *deeds; /* [n_deeds], those before `next` are done */
    size_t n_deeds, deeds_max, next;
    struct encoded tables[2]; /* complete; for who knows the one before */
    uint8_t *buf;
    size_t buf_max;
    uint64_t n_sent, bytes_sent, n_received;
    uint64_t cpu_ns;
};

static void fail(const char *what)
{
    fprintf(stderr, "driver_scale: %s\n", what);
    exit(1);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void expect(struct bench *b, enum driver_event_type type,
                   enum message_type message, uint64_t who, uint64_t fence)
{
    if (!array_reserve(&b->deeds, &b->deeds_max, b->n_deeds + 1))
        fail("out of memory");
    b->deeds[b->n_deeds++] = (struct deed){type, message, who, fence};
}

/* ---- the driver's side --------------------------------------------------- */

static void encode_table(struct bench *b, struct encoded *e,
                         uint64_t generation, bool change)
{
    const struct assign_table *table = driver_table(&b->driver);
    long n;

    if (e->generation == generation)
        return;
    if (!array_reserve(&e->bytes, &e->max, table_encoded_max(table->n_entries)))
        fail("out of memory");
    n = change ? table_encode_change(table, driver_table_before(&b->driver),
                                     e->bytes, e->max)
               : table_encode(table, e->bytes, e->max);
    if (n < 0)
        fail(codec_strerror((int)n));
    e->nbytes = (size_t)n;
    e->generation = generation;
}

static void encode(struct bench *b, const struct message *m)
{
    long n;

    if (!array_reserve(&b->buf, &b->buf_max, WIRE_MESSAGE_MAX))
        fail("out of memory");
    n = codec_encode(m, b->buf, b->buf_max);
    if (n < 0)
        fail(codec_strerror((int)n));
    b->n_sent++;
    b->bytes_sent += (uint64_t)n;
}

static void send(struct bench *b, const struct driver_action *a)
{
    struct message m = a->u.message;

    if (m.type == MSG_ASSIGN) {
        struct encoded *e = &b->tables[a->knows_before];

        encode_table(b, e, m.generation, a->knows_before);
        m.u.assign.table = (struct wire_span){e->bytes, (uint32_t)e->nbytes};
    }
    encode(b, &m);
    if (m.type == MSG_WELCOME)
        expect(b, DRIVER_EV_MESSAGE, MSG_READY, a->worker, 0);
    if (m.type == MSG_ABORT)
        expect(b, DRIVER_EV_MESSAGE, MSG_READY, a->worker, m.generation);
}

static void perform(struct bench *b, const struct driver_action *a)
{
    switch (a->type) {
    case DRIVER_ACT_START_AGENT:
        expect(b, DRIVER_EV_AGENT_UP, MSG_NONE, a->agent, 0);
        break;
    case DRIVER_ACT_SPAWN:
        expect(b, DRIVER_EV_SPAWNED, MSG_NONE, a->worker, 0);
        expect(b, DRIVER_EV_MESSAGE, MSG_HELLO, a->worker, 0);
        break;
    case DRIVER_ACT_SEND:
        send(b, a);
        break;
    case DRIVER_ACT_FINISH:
        fail(a->u.finish.text);
        break;
    default:
        break;
    }
}

static void feed(struct bench *b, const struct driver_event *ev)
{
    const struct driver_action *actions;
    size_t n;

    b->now_us++;
    if (driver_step(&b->driver, ev, b->now_us, &actions, &n) != HVD_OK)
        fail("an event was rejected");
    for (size_t i = 0; i < n; i++)
        perform(b, &actions[i]);
}

/* ---- the others' side ---------------------------------------------------- */

static void compose(const struct bench *b, const struct deed *deed,
                    struct message *m)
{
    struct state_id id = {b->driver.generation, b->driver.generation ? 9 : 0};

    memset(m, 0, sizeof(*m));
    m->type = deed->message;
    m->job = JOB;
    m->worker = deed->who;
    if (deed->message == MSG_HELLO) {
        m->u.hello.pid = (int64_t)deed->who;
        m->u.hello.port = 40000;
        snprintf(m->u.hello.address, sizeof(m->u.hello.address), "10.%u.%u.7",
                 (unsigned)(deed->who >> 8 & 255), (unsigned)deed->who & 255);
        snprintf(m->u.hello.version, sizeof(m->u.hello.version), "0");
    } else if (deed->message == MSG_READY) {
        m->u.ready.kind = READY_ELASTIC;
        m->u.ready.abilities = READY_CAN_ALL;
        m->u.ready.reason = deed->fence ? READY_LOST : READY_START;
        m->u.ready.fence = deed->fence;
        m->u.ready.id = id;
        m->u.ready.boundary = id.version;
    } else if (deed->message == MSG_PING) {
        m->u.ping.phase = WORKER_RUNNING;
        m->u.ping.generation = b->driver.generation;
        m->u.ping.fence = b->driver.generation - 1;
        m->u.ping.id = id;
        m->u.ping.boundary = id.version;
    }
}

/* Bytes in, bytes out: what is counted. */
static void receive(struct bench *b, const uint8_t *bytes, size_t nbytes)
{
    struct driver_event ev = {.type = DRIVER_EV_MESSAGE};
    struct message m;
    uint64_t start_ns = cpu_ns();

    if (codec_decode(bytes, nbytes, &m, NULL) != CODEC_OK)
        fail("a message cannot be decoded");
    ev.u.message = &m;
    feed(b, &ev);
    b->n_received++;
    b->cpu_ns += cpu_ns() - start_ns;
}

static uint64_t agent_of(const struct bench *b, uint64_t worker)
{
    return driver_host_of(&b->driver, driver_worker(&b->driver, worker))->agent;
}

static void do_deed(struct bench *b, const struct deed *deed)
{
    struct driver_event ev = {.type = deed->type};
    uint8_t bytes[2048];
    struct message m;
    uint64_t start_ns;
    long n;

    if (deed->type == DRIVER_EV_MESSAGE) {
        compose(b, deed, &m);
        n = codec_encode(&m, bytes, sizeof(bytes));
        if (n < 0)
            fail(codec_strerror((int)n));
        receive(b, bytes, (size_t)n);
        return;
    }
    if (deed->type == DRIVER_EV_SPAWNED) {
        ev.by = agent_of(b, deed->who);
        ev.u.spawned = (struct msg_spawned){deed->who, (int64_t)deed->who};
    } else {
        ev.u.agent.agent = deed->who;
    }
    start_ns = cpu_ns();
    feed(b, &ev);
    b->n_received++;
    b->cpu_ns += cpu_ns() - start_ns;
}

static void settle(struct bench *b)
{
    while (b->next < b->n_deeds) {
        struct deed deed = b->deeds[b->next++];

        do_deed(b, &deed);
    }
}

/* ---- what is measured ---------------------------------------------------- */

static void report(struct bench *b, const char *name, const char *end)
{
    printf("\"%s\":{\"cpu_ms\":%.2f,\"received\":%" PRIu64 ",\"sent\":%" PRIu64
           ",\"sent_bytes\":%" PRIu64 "}%s",
           name, (double)b->cpu_ns / 1e6, b->n_received, b->n_sent,
           b->bytes_sent, end);
    b->cpu_ns = b->n_received = b->n_sent = b->bytes_sent = 0;
}

static void expect_generation(const struct bench *b, uint64_t generation,
                              size_t size)
{
    if (b->driver.generation != generation ||
        driver_table(&b->driver)->n_entries != size)
        fail("the generation was not formed");
}

static void start_all(struct bench *b, uint32_t n_workers, uint32_t per_host)
{
    struct hosts hosts = {0};
    struct driver_event ev = {.type = DRIVER_EV_HOSTS, .u.hosts = &hosts};
    uint32_t n_hosts = (n_workers + per_host - 1) / per_host;
    uint64_t start_ns;

    if (!array_reserve(&hosts.items, &hosts.max, n_hosts))
        fail("out of memory");
    hosts.n = n_hosts;
    for (uint32_t i = 0; i < n_hosts; i++) {
        struct host *h = &hosts.items[i];

        snprintf(h->name, sizeof(h->name), "host-%" PRIu32, i);
        h->slots = i + 1 < n_hosts ? per_host : n_workers - i * per_host;
    }
    start_ns = cpu_ns();
    feed(b, &ev);
    b->cpu_ns += cpu_ns() - start_ns;
    hosts_fini(&hosts);
    settle(b);
    expect_generation(b, 1, n_workers);
    report(b, "start", ",");
}

/* A death that the agent reports; the replacement has not called yet. */
static void lose_one(struct bench *b, uint32_t n_workers)
{
    struct driver_event ev = {.type = DRIVER_EV_EXITED};
    uint64_t victim = driver_table(&b->driver)->entries[0].worker;
    uint64_t start_ns = cpu_ns();

    ev.by = agent_of(b, victim);
    ev.u.exited = (struct msg_worker_exited){
        .worker = victim, .pid = (int64_t)victim, .signal = 9};
    feed(b, &ev);
    b->cpu_ns += cpu_ns() - start_ns;
    settle(b);
    expect_generation(b, 2, n_workers - 1);
    report(b, "loss", ",");
}

static void heartbeat(struct bench *b, uint32_t n_workers)
{
    const struct assign_table *table = driver_table(&b->driver);

    for (uint32_t i = 0; i + 1 < n_workers; i++)
        expect(b, DRIVER_EV_MESSAGE, MSG_PING, table->entries[i].worker, 0);
    settle(b);
    report(b, "heartbeat", "}\n");
}

int main(int argc, char **argv)
{
    uint32_t n_workers = argc > 1 ? (uint32_t)atoi(argv[1]) : 4096;
    uint32_t per_host = argc > 2 ? (uint32_t)atoi(argv[2]) : 8;
    struct driver_config config = {.job = JOB,
                                   .term = 1,
                                   .np = n_workers,
                                   .min_np = n_workers / 2,
                                   .reset_limit = -1,
                                   .slot_restarts = 3,
                                   .elastic_timeout_us = 600000000,
                                   .start_timeout_us = 600000000,
                                   .drain_timeout_us = 600000000,
                                   .heartbeat_us = 1000000,
                                   .heartbeat_timeout_us = 600000000,
                                   .connect_timeout_us = 10000000};
    struct bench b = {0};

    if (n_workers < 2 || per_host < 1 || per_host > HOSTS_SLOTS_MAX) {
        fprintf(stderr, "usage: driver_scale [WORKERS [SLOTS_PER_HOST]]\n");
        return 2;
    }
    if (!driver_init(&b.driver, &config, 0))
        fail("out of memory");
    printf("{\"workers\":%" PRIu32 ",\"slots_per_host\":%" PRIu32 ",",
           n_workers, per_host);
    start_all(&b, n_workers, per_host);
    lose_one(&b, n_workers);
    heartbeat(&b, n_workers);
    driver_fini(&b.driver);
    free(b.deeds);
    free(b.tables[0].bytes);
    free(b.tables[1].bytes);
    free(b.buf);
    return 0;
}
