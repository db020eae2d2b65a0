/* bench/driver_scale.c - what a job of many workers costs the driver, each with
 * a connection of its own or all behind their agents.
 *
 *     driver_scale [--behind-agents] [--loss PERMILLE] [--seed N]
 *                  [WORKERS [SLOTS_PER_HOST]]             (4096 8)
 *
 * Real are the cores of the driver, of its agents and of all workers, and the
 * codec: every message is encoded, decoded and fed, under a clock that stands
 * still while anybody works. Left out are processes, sockets, seals and the
 * event log; an allreduce is a report of one.
 *
 * --behind-agents: agents speak for their workers. What those of a host say in
 * one turn travels as one batch, and so does what a turn of the driver has for
 * them; in it a message that is for several of them is there once, and so is
 * the table of a generation. The product has no such relay: this shows what one
 * would save, at its best, as all workers of a host answer in the same moment.
 * The batch is framed as scale.h says.
 *
 * --loss: so many of a thousand frames, either way, do not arrive, and are made
 * up for by the next heartbeats (M2).
 *
 * Prints one JSON object. Of each phase: the driver's CPU time (ticks apart),
 * and what was sent up to it and down from it: frames, the messages in them,
 * bytes. Each generation that is formed is checked.
 *
 *     start      all of them
 *     heartbeat  of all, in a second in which nothing happens
 *     loss       one dies, the others go on
 *     replaced   another takes its place: HOLD, CUT, and who it was for
 *     host_lost  a machine is gone, with its agent and workers
 *     host_back  they are started again
 *     join       of 1000 more, on hosts of theirs
 *     drain      a host is listed no more
 *     end        all have trained to the end
 *
 * Threads: one. Memory: that of scale.h. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/array.h"
#include "scale.h"

enum { N_JOIN = 1000, BEATS_MAX = 300, MB = 1 << 20 };

struct options {
    bool behind_agents;
    uint32_t n_workers, per_host, loss_permille;
    uint64_t seed;
};

void scale_fail(const char *what)
{
    fprintf(stderr, "driver_scale: %s\n", what);
    exit(1);
}

bool scale_loses(struct scale *s)
{
    bool loses = s->loss_permille > 0 &&
                 random_below(&s->random, 1000) < s->loss_permille;

    s->figures.n_lost += loses;
    return loses;
}

/* ---- time ---------------------------------------------------------------- */

static void settle(struct scale *s)
{
    while (driver_side_turn(s))
        continue;
}

/* The next heartbeat of everybody. The driver's ticks come on the way. */
static void beat(struct scale *s)
{
    uint64_t until_us = s->now_us + SCALE_HEARTBEAT_US;

    s->figures.n_beats++;
    while (driver_deadline(&s->driver) <= until_us) {
        s->now_us = driver_deadline(&s->driver);
        settle(s);
    }
    if (s->now_us < until_us)
        s->now_us = until_us;
    crowd_beats(s);
    settle(s);
}

static void until_formed(struct scale *s, size_t size)
{
    settle(s);
    while (!generation_stands(s, size)) {
        if (s->figures.n_beats == BEATS_MAX)
            scale_fail("the generation was not formed");
        beat(s);
    }
    check_generation(s, size);
}

/* ---- figures ------------------------------------------------------------- */

static void print_traffic(const char *name, const struct traffic *t)
{
    printf(",\"%s\":{\"frames\":%" PRIu64 ",\"messages\":%" PRIu64
           ",\"bytes\":%" PRIu64 "}",
           name, t->frames, t->messages, t->nbytes);
}

static void report(struct scale *s, const char *name)
{
    const struct figures *f = &s->figures;

    printf(",\n \"%s\":{\"cpu_ms\":%.2f,\"ticks\":%" PRIu64
           ",\"tick_ms\":%.2f,\"heartbeats\":%" PRIu64 ",\"lost\":%" PRIu64,
           name, (double)f->cpu_ns / 1e6, f->n_ticks, (double)f->tick_ns / 1e6,
           f->n_beats, f->n_lost);
    print_traffic("received", &f->up);
    print_traffic("sent", &f->down);
    printf("}");
    fflush(stdout);
    s->figures = (struct figures){0};
}

/* What the core has of the system: of its actions what they have come to. */
static double core_mb(const struct scale *s)
{
    const struct driver *d = &s->driver;
    size_t slot = sizeof(struct driver_slot) +
                  d->config.slot_restarts * sizeof(uint64_t);
    size_t n = d->hosts_max * sizeof(*d->hosts) +
               d->agents_max * sizeof(*d->agents) +
               d->workers_max * sizeof(*d->workers) +
               d->candidates_max * sizeof(*d->candidates) +
               d->scratch_max * sizeof(*d->scratch) +
               d->table.entries_max * sizeof(*d->table.entries) +
               d->table_before.entries_max * sizeof(*d->table.entries) +
               s->n_actions_most * sizeof(*d->actions);

    for (size_t i = 0; i < d->n_hosts; i++)
        n += d->hosts[i].slots_max * slot;
    return (double)n / MB;
}

static void report_memory(const struct scale *s)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    printf(",\n \"core_mb\":%.1f,\"simulation_mb\":%.1f,\"table_bytes\":%zu}\n",
           core_mb(s), (double)usage.ru_maxrss / 1024, s->table_nbytes);
}

/* ---- phases -------------------------------------------------------------- */

/* n_workers on hosts of per_host, but for the host `without`. */
static void list_hosts(struct scale *s, const struct options *o,
                       uint32_t n_workers, const char *without)
{
    struct hosts hosts = {0};
    struct driver_event ev = {.type = DRIVER_EV_HOSTS, .u.hosts = &hosts};

    for (uint32_t i = 0; n_workers > 0; i++) {
        struct host h = {.slots = n_workers < o->per_host ? n_workers
                                                          : o->per_host};

        snprintf(h.name, sizeof(h.name), "host-%" PRIu32, i);
        n_workers -= h.slots;
        if (strcmp(h.name, without) == 0)
            continue;
        if (!array_reserve(&hosts.items, &hosts.max, hosts.n + 1))
            scale_fail("out of memory");
        hosts.items[hosts.n++] = h;
    }
    driver_side_feed(s, &ev);
    hosts_fini(&hosts);
}

static const struct driver_worker *at_rank(const struct scale *s, size_t rank)
{
    return driver_worker(&s->driver,
                         driver_table(&s->driver)->entries[rank].worker);
}

static const struct driver_host *host_at_rank(const struct scale *s,
                                              size_t rank)
{
    return driver_host_of(&s->driver, at_rank(s, rank));
}

static void start_all(struct scale *s, const struct options *o)
{
    list_hosts(s, o, o->n_workers, "");
    until_formed(s, o->n_workers);
    report(s, "start");
}

static void lose_one(struct scale *s, const struct options *o)
{
    s->slow_start = true; /* its replacement is a phase of its own */
    crowd_worker_dies(s, at_rank(s, 0)->id, SIGKILL);
    until_formed(s, o->n_workers - 1);
    report(s, "loss");
    crowd_loads(s);
    until_formed(s, o->n_workers);
    report(s, "replaced");
}

static void lose_host(struct scale *s, const struct options *o)
{
    const struct driver_host *host = host_at_rank(s, o->n_workers / 2);
    size_t n = o->n_workers - host->n_workers;

    s->slow_start = true;
    crowd_host_dies(s, host->agent);
    until_formed(s, n);
    report(s, "host_lost");
    crowd_loads(s);
    until_formed(s, o->n_workers);
    report(s, "host_back");
}

static void join_and_drain(struct scale *s, const struct options *o)
{
    const struct driver_host *host;
    size_t n = o->n_workers + N_JOIN;
    char name[HOSTS_NAME_MAX];

    list_hosts(s, o, (uint32_t)n, "");
    until_formed(s, n);
    report(s, "join");
    host = host_at_rank(s, n / 3);
    memcpy(name, host->name, sizeof(name));
    list_hosts(s, o, (uint32_t)n, name);
    until_formed(s, n - host->n_workers);
    report(s, "drain");
}

static void end_all(struct scale *s)
{
    settle(s);
    crowd_finishes(s);
    settle(s);
    while (!s->finished) {
        if (s->figures.n_beats == BEATS_MAX)
            scale_fail("the job does not end");
        beat(s);
    }
    report(s, "end");
}

static void play(struct scale *s, const struct options *o)
{
    printf("{\"workers\":%" PRIu32 ",\"slots_per_host\":%" PRIu32
           ",\"behind_agents\":%s,\"loss_permille\":%" PRIu32,
           o->n_workers, o->per_host, o->behind_agents ? "true" : "false",
           o->loss_permille);
    start_all(s, o);
    beat(s);
    report(s, "heartbeat");
    lose_one(s, o);
    lose_host(s, o);
    join_and_drain(s, o);
    end_all(s);
    report_memory(s);
}

/* ---- the command line ---------------------------------------------------- */

static int usage(void)
{
    fprintf(stderr, "usage: driver_scale [--behind-agents] [--loss PERMILLE] "
                    "[--seed N] [WORKERS [SLOTS_PER_HOST]]\n");
    return 2;
}

static bool parse(int argc, char **argv, struct options *o)
{
    uint32_t *places[] = {&o->n_workers, &o->per_host};
    size_t n = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--behind-agents") == 0)
            o->behind_agents = true;
        else if (strcmp(argv[i], "--loss") == 0 && i + 1 < argc)
            o->loss_permille = (uint32_t)atoi(argv[++i]);
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            o->seed = strtoull(argv[++i], NULL, 10);
        else if (n < ARRAY_SIZE(places) && atoi(argv[i]) > 0)
            *places[n++] = (uint32_t)atoi(argv[i]);
        else
            return false;
    }
    return o->per_host <= HOSTS_SLOTS_MAX && o->n_workers > 2 * o->per_host &&
           o->loss_permille < 500;
}

int main(int argc, char **argv)
{
    struct options o = {.n_workers = 4096, .per_host = 8, .seed = 1};
    struct driver_config config = {.job = SCALE_JOB,
                                   .term = SCALE_TERM,
                                   .reset_limit = -1,
                                   .slot_restarts = 3,
                                   .elastic_timeout_us = 600000000,
                                   .start_timeout_us = 300000000,
                                   .drain_timeout_us = 30000000,
                                   .heartbeat_us = SCALE_HEARTBEAT_US,
                                   .heartbeat_timeout_us = 60000000,
                                   .driver_timeout_us = 600000000,
                                   .connect_timeout_us = 10000000};
    static struct scale s;

    if (!parse(argc, argv, &o))
        return usage();
    config.np = o.n_workers;
    config.min_np = o.n_workers / 2;
    config.seed = s.random.s = o.seed;
    s.behind_agents = o.behind_agents;
    s.loss_permille = o.loss_permille;
    s.now_us = SCALE_HEARTBEAT_US;
    if (!driver_init(&s.driver, &config, s.now_us))
        scale_fail("out of memory");
    play(&s, &o);
    crowd_fini(&s);
    driver_side_fini(&s);
    return 0;
}
