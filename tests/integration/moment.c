/* tests/integration/moment.c - when moment_worker ends itself. See moment.h. */
#include "moment.h"

#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hvd/hvd.h>

enum {
    SAMPLES = 64,
    HELD_US = 200000, /* no boundary takes so long by itself */
    WATCH_US = 500,
    PATIENCE_US = 60000000
};

struct options options = {.steps = 100,
                          .step_us = 1000,
                          .state_bytes = 1 << 16,
                          .large_bytes = 64 << 20,
                          .at = 20,
                          .lead = -1,
                          .stale = -1};

struct seen seen;

/* ---- time, files, the end ------------------------------------------------ */

uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void sleep_us(long us)
{
    struct timespec t = {.tv_sec = us / 1000000,
                         .tv_nsec = us % 1000000 * 1000};

    while (us > 0 && nanosleep(&t, &t) != 0)
        continue;
}

static void path_of(const char *name, char *path, size_t path_max)
{
    snprintf(path, path_max, "%s/%s", options.directory, name);
}

/* false: somebody has been there before. */
static bool claim(const char *name)
{
    char path[512];
    int fd;

    path_of(name, path, sizeof(path));
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

bool exists(const char *name)
{
    char path[512];

    path_of(name, path, sizeof(path));
    return access(path, F_OK) == 0;
}

void await(const char *name)
{
    uint64_t end_us = now_us() + PATIENCE_US;

    while (!exists(name) && now_us() < end_us)
        sleep_us(500);
}

void die(const char *name)
{
    if (claim(name))
        raise(SIGKILL);
}

/* One death for each chosen rank; what it is called is decided before the wait:
 * ranks change. Whichever thread comes second must not go on because the first
 * has taken the name: it waits, and dies with it. */
static void die_here(long delay_us)
{
    static pthread_mutex_t dying = PTHREAD_MUTEX_INITIALIZER;
    char name[32];

    snprintf(name, sizeof(name), "dead-%d", options.ranks ? hvd_rank() : 0);
    pthread_mutex_lock(&dying);
    if (!exists(name)) {
        sleep_us(delay_us);
        die(name);
    }
    pthread_mutex_unlock(&dying);
}

bool on_host(const char *name)
{
    const char *host = getenv("HVD_HOST");

    return host && strcmp(host, name) == 0;
}

bool chosen(void)
{
    int rank = hvd_rank();

    if (options.host && !on_host(options.host))
        return false;
    if (options.ranks && (rank < 0 || !(options.ranks >> rank & 1)))
        return false;
    return options.generation == 0 ||
           (uint64_t)options.generation == hvd_generation();
}

void moment(enum moment m)
{
    if (options.moment != m || !chosen())
        return;
    die_here(options.delay_us);
}

/* The name of the death that others wait for. */
static void first_death(char *name, size_t name_max)
{
    int rank = 0;

    while (options.ranks && !(options.ranks >> rank & 1))
        rank++;
    snprintf(name, name_max, "dead-%d", rank);
}

void go_ahead(atomic_bool *here)
{
    char name[32];

    if (hvd_generation() > 1)
        return;
    if (chosen()) {
        atomic_store(here, true);
        return;
    }
    first_death(name, sizeof(name));
    await(name);
}

/* ---- the second thread --------------------------------------------------- */

/* Reads what the main thread is about to write: that is the point. */
__attribute__((no_sanitize("thread"))) static bool has_moved(const float *buf)
{
    size_t n = (size_t)options.large_bytes / sizeof(float);

    for (size_t i = 0; i < SAMPLES; i++)
        if (*(const volatile float *)&buf[n / SAMPLES * i] != 1)
            return true;
    return false;
}

static void watch_once(uint64_t *generation_p)
{
    uint64_t committing_us = atomic_load(&seen.committing_us);
    uint64_t initialising_us = atomic_load(&seen.initialising_us);
    const float *moving = atomic_load(&seen.moving);

    if (options.moment == COLLECTIVE_MOVE && moving && has_moved(moving) &&
        atomic_load(&seen.moving))
        die_here(0);
    if (options.moment == HELD && committing_us > 0 && chosen() &&
        now_us() - committing_us > HELD_US)
        die_here(0);
    if (options.moment == INIT && initialising_us > 0 && chosen() &&
        now_us() - initialising_us >= (uint64_t)options.delay_us)
        die_here(0);
    if (options.moment == SYNC_SOURCE && hvd_generation() != *generation_p) {
        *generation_p = hvd_generation();
        moment(SYNC_SOURCE);
    }
    if (atomic_load(&seen.waiting))
        moment(COLLECTIVE_WAIT);
    if (atomic_load(&seen.done))
        moment(DONE);
}

static void *watch(void *ignored)
{
    uint64_t generation = 0;

    atomic_store(&seen.started, true);
    for (;;) {
        watch_once(&generation);
        if (!atomic_load(&seen.moving) && options.moment != INIT)
            sleep_us(WATCH_US);
    }
    return NULL;
}

bool start_watching(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, watch, NULL) != 0)
        return false;
    pthread_detach(thread);
    while (!atomic_load(&seen.started))
        sleep_us(WATCH_US);
    return true;
}

/* ---- options ------------------------------------------------------------- */

static const struct option longs[] = {
    {"moment", required_argument, NULL, 'm'},
    {"rank", required_argument, NULL, 'r'}, /* more than once: all of them */
    {"host", required_argument, NULL, 'h'},
    {"late-host", required_argument, NULL, 'L'}, /* waits for a file "go" */
    {"until", required_argument, NULL, 'U'},     /* train until it is there */
    {"directory", required_argument, NULL, 'd'},
    {"generation", required_argument, NULL, 'g'},
    {"steps", required_argument, NULL, 's'},
    {"step-us", required_argument, NULL, 'u'},
    {"state-bytes", required_argument, NULL, 'z'},
    {"large-bytes", required_argument, NULL, 'B'},
    {"at", required_argument, NULL, 'a'},
    {"delay-us", required_argument, NULL, 'D'},
    {"lead", required_argument, NULL, 'l'},
    {"stale", required_argument, NULL, 'S'},
    {"no-collective", no_argument, NULL, 'N'},
    {"careless", no_argument, NULL, 'C'},       /* computes on after the cut */
    {"with-child", no_argument, NULL, 'F'},     /* forked after hvd_init */
    {"commit-barrier", no_argument, NULL, 'b'}, /* a collective in on_commit */
    {"sync-barrier", no_argument, NULL, 'y'},   /* in on_sync */
    {NULL, 0, NULL, 0}};

static const char *const moment_names[N_MOMENTS] = {"none",
                                                    "compute",
                                                    "collective-wait",
                                                    "collective-move",
                                                    "commit",
                                                    "serialize",
                                                    "held",
                                                    "restore",
                                                    "sync-source",
                                                    "deserialize",
                                                    "on-sync",
                                                    "reset",
                                                    "last",
                                                    "done",
                                                    "init-before",
                                                    "init",
                                                    "init-after"};

static enum moment moment_named(const char *name)
{
    int m = 0;

    while (m < N_MOMENTS && strcmp(moment_names[m], name) != 0)
        m++;
    return (enum moment)m;
}

static long *number_of(int c)
{
    switch (c) {
    case 'g':
        return &options.generation;
    case 's':
        return &options.steps;
    case 'u':
        return &options.step_us;
    case 'z':
        return &options.state_bytes;
    case 'B':
        return &options.large_bytes;
    case 'a':
        return &options.at;
    case 'D':
        return &options.delay_us;
    case 'l':
        return &options.lead;
    case 'S':
        return &options.stale;
    default:
        return NULL;
    }
}

static bool *flag_of(int c)
{
    if (c == 'C')
        return &options.careless;
    if (c == 'F')
        return &options.with_child;
    if (c == 'y')
        return &options.sync_barrier;
    return c == 'b' ? &options.commit_barrier : &options.no_collective;
}

static void take_option(int c)
{
    long *number = number_of(c);

    if (number)
        *number = strtol(optarg, NULL, 10);
    else if (c == 'm')
        options.moment = moment_named(optarg);
    else if (c == 'r')
        options.ranks |= 1u << (strtoul(optarg, NULL, 10) & 31);
    else if (c == 'h')
        options.host = optarg;
    else if (c == 'L')
        options.late_host = optarg;
    else if (c == 'U')
        options.until = optarg;
    else if (c == 'd')
        options.directory = optarg;
    else
        *flag_of(c) = true;
}

bool options_parse(int argc, char **argv)
{
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (c == '?')
            return false;
        take_option(c);
    }
    return optind == argc && options.directory && options.moment < N_MOMENTS &&
           options.state_bytes >= 0 &&
           options.large_bytes >= SAMPLES * (long)sizeof(float);
}
