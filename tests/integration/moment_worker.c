/* tests/integration/moment_worker.c - an elastic program that ends itself with
 * SIGKILL at one exact moment, once per job, and checks what everybody else
 * goes on with.
 *
 * Its state after N steps does not depend on the world, so that the digest of a
 * run without faults is that of every run. Checked on the way: the results of
 * collectives, that all parts of the state belong to one step, that reset
 * callbacks ran once in every generation but the first.
 *
 * A moment comes for the ranks and the host that the options choose, and only
 * for the first of them that comes there: it leaves a file in --directory, for
 * which others can wait. Moments inside a call are watched by a second thread.
 *
 * Threads: two; what they share is atomic. Memory: the state, once. */
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hvd/hvd.h>

enum moment {
    NO_MOMENT,
    COMPUTE,         /* in step --at, before its collective */
    COLLECTIVE_WAIT, /* in the collective of step --at; no peer is in it yet */
    COLLECTIVE_MOVE, /* in a large one, when the first bytes have arrived */
    COMMIT,          /* in the on_commit callback of step --at */
    SERIALIZE,       /* in the commit of step --at, half of it copied */
    HELD,            /* at a boundary, when it takes longer than usual */
    RESTORE,         /* after a loss, in the on_restore callback */
    SYNC_SOURCE,     /* --delay-us after the generation began */
    DESERIALIZE,     /* copying the snapshot to live memory */
    ON_SYNC,         /* in the on_sync callback */
    RESET,           /* in the reset callback */
    LAST,            /* after the last commit, before train returns */
    DONE,            /* after train has returned HVD_OK */
    INIT_BEFORE,     /* before hvd_init */
    INIT,            /* inside it, --delay-us after it was called */
    INIT_AFTER,      /* after it, before hvd_elastic_run */
    N_MOMENTS
};

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

enum {
    STRIPE = 64,
    VECTOR = 16,
    SAMPLES = 64,
    HELD_US = 200000, /* no boundary takes so long by itself */
    WATCH_US = 100,
    PATIENCE_US = 60000000
};

static struct options {
    enum moment moment;
    uint32_t ranks; /* bits: whose moment it is; 0: anybody's */
    const char *host, *late_host, *until, *directory;
    long generation; /* 0: any */
    long steps, step_us, state_bytes, large_bytes, at, delay_us;
    long lead, stale; /* ranks; -1: none */
    bool no_collective, careless, commit_barrier, with_child;
} options = {.steps = 100,
             .step_us = 1000,
             .state_bytes = 1 << 16,
             .large_bytes = 64 << 20,
             .at = 20,
             .lead = -1,
             .stale = -1};

static struct {
    uint64_t step, sum, tail;
    uint64_t object;   /* serialised by callbacks */
    uint64_t *weights; /* [n_weights] */
    size_t n_weights;
    uint64_t iterations, reset_generation;
    unsigned n_resets;
    bool in_train; /* has begun once */
} model;

/* What the second thread looks at. */
static struct {
    const float *_Atomic moving; /* recvbuf of the large allreduce, or NULL */
    _Atomic uint64_t committing_us, initialising_us;
    atomic_bool waiting, done, started;
} seen;

/* ---- time, files, the end ------------------------------------------------ */

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void sleep_us(long us)
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

static bool exists(const char *name)
{
    char path[512];

    path_of(name, path, sizeof(path));
    return access(path, F_OK) == 0;
}

static void await(const char *name)
{
    uint64_t end_us = now_us() + PATIENCE_US;

    while (!exists(name) && now_us() < end_us)
        sleep_us(500);
}

static void die(const char *name)
{
    if (claim(name))
        raise(SIGKILL);
}

/* One death for each chosen rank; what it is called is decided before the wait:
 * ranks change. */
static void die_here(long delay_us)
{
    char name[32];

    snprintf(name, sizeof(name), "dead-%d", options.ranks ? hvd_rank() : 0);
    if (exists(name))
        return;
    sleep_us(delay_us);
    die(name);
}

static bool on_host(const char *name)
{
    const char *host = getenv("HVD_HOST");

    return host && strcmp(host, name) == 0;
}

static bool chosen(void)
{
    int rank = hvd_rank();

    if (options.host && !on_host(options.host))
        return false;
    if (options.ranks && (rank < 0 || !(options.ranks >> rank & 1)))
        return false;
    return options.generation == 0 ||
           (uint64_t)options.generation == hvd_generation();
}

static void moment(enum moment m)
{
    if (options.moment != m || !chosen())
        return;
    die_here(options.delay_us);
}

static void step_moment(enum moment m)
{
    if ((long)model.step == options.at)
        moment(m);
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

static bool start_watching(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, watch, NULL) != 0)
        return false;
    pthread_detach(thread);
    while (!atomic_load(&seen.started))
        sleep_us(WATCH_US);
    return true;
}

/* ---- the model ----------------------------------------------------------- */

static void wrong(const char *what, uint64_t got, uint64_t want)
{
    fprintf(stderr,
            "WRONG: %s at step %" PRIu64 ", generation %" PRIu64
            ", rank %d of %d: %" PRIu64 " instead of %" PRIu64 "\n",
            what, model.step, hvd_generation(), hvd_rank(), hvd_size(), got,
            want);
    abort();
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a + b * 0x9e3779b97f4a7c15u + 1;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
}

/* All parts of the state are of one step. */
static void check_state(void)
{
    uint64_t sum = model.step * (model.step - 1) / 2;

    if (model.sum != sum)
        wrong("sum", model.sum, sum);
    if (model.tail != mix(model.step, 1))
        wrong("tail", model.tail, mix(model.step, 1));
    if (model.weights[0] != mix(model.step, 2))
        wrong("weights", model.weights[0], mix(model.step, 2));
    if (model.object != model.step)
        wrong("object", model.object, model.step);
}

static void check_reset(void)
{
    unsigned want = hvd_generation() > 1 ? 1 : 0;

    if (model.n_resets != want)
        wrong("reset callbacks", model.n_resets, want);
    if (want && model.reset_generation != hvd_generation())
        wrong("generation reset to", model.reset_generation, hvd_generation());
    model.n_resets = 0;
}

static void set_parts(void)
{
    model.tail = mix(model.step, 1);
    model.weights[0] = mix(model.step, 2);
    model.object = model.step;
}

static void update(void)
{
    size_t first = model.step * STRIPE % model.n_weights;

    for (size_t i = 0; i < STRIPE && i < model.n_weights; i++) {
        size_t at = (first + i) % model.n_weights;

        model.weights[at] = mix(model.weights[at], model.step + i);
    }
    model.sum += model.step++;
    model.iterations++;
    set_parts();
}

static hvd_status_t small_allreduce(void)
{
    int64_t in[VECTOR], out[VECTOR];
    int64_t size = hvd_size(), step = (int64_t)model.step;

    for (int i = 0; i < VECTOR; i++)
        in[i] = (step + i) * (hvd_rank() + 1);
    HVD_TRY(hvd_allreduce(in, out, VECTOR, HVD_INT64, HVD_SUM));
    for (int i = 0; i < VECTOR; i++)
        if (out[i] != (step + i) * size * (size + 1) / 2)
            wrong("allreduce", (uint64_t)out[i],
                  (uint64_t)((step + i) * size * (size + 1) / 2));
    return HVD_OK;
}

static hvd_status_t large_allreduce(void)
{
    static float *buf; /* [n], never freed: the other thread looks at it */
    size_t n = (size_t)options.large_bytes / sizeof(float);
    hvd_status_t status;

    if (!buf)
        buf = malloc(n * sizeof(*buf));
    if (!buf)
        return HVD_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        buf[i] = 1;
    if (chosen() && hvd_generation() == 1)
        atomic_store(&seen.moving, buf);
    status = hvd_allreduce(buf, buf, n, HVD_FLOAT32, HVD_SUM);
    atomic_store(&seen.moving, NULL);
    if (status == HVD_OK && buf[n - 1] != (float)hvd_size())
        wrong("large allreduce", (uint64_t)buf[n - 1], (uint64_t)hvd_size());
    return status;
}

/* The name of the death that others wait for. */
static void first_death(char *name, size_t name_max)
{
    int rank = 0;

    while (options.ranks && !(options.ranks >> rank & 1))
        rank++;
    snprintf(name, name_max, "dead-%d", rank);
}

/* In the first generation the chosen rank goes ahead, the others wait until it
 * is dead. */
static void go_ahead(atomic_bool *here)
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

static hvd_status_t exchange(void)
{
    bool at = (long)model.step == options.at;

    if (options.no_collective)
        return HVD_OK;
    if (at && options.moment == COLLECTIVE_WAIT)
        go_ahead(&seen.waiting);
    if (at && options.moment == COLLECTIVE_MOVE)
        HVD_TRY(large_allreduce());
    return small_allreduce();
}

static hvd_status_t boundary(hvd_state_t *state)
{
    hvd_status_t status;

    if (hvd_rank() == options.stale && (long)model.step == options.at + 1 &&
        hvd_generation() == 1) {
        await("lead"); /* this step is lost here, the others have it */
        return HVD_PEER_LOST;
    }
    atomic_store(&seen.committing_us, now_us());
    status = hvd_state_commit(state);
    atomic_store(&seen.committing_us, 0);
    if (options.careless && status == HVD_HOSTS_UPDATED)
        update(); /* what comes after the cut does not count */
    return status;
}

/* Dies first, so that there is a loss to recover from. */
static void lead(void)
{
    if (hvd_rank() != options.lead || hvd_generation() != 1 ||
        (long)model.step != options.at + (options.stale >= 0))
        return;
    sleep_us(50000); /* the others have come as far as they can */
    die("lead");
}

/* Before the last step: collectives and boundaries go on, the state does not
 * change. Rank 0 decides for all. */
static hvd_status_t stay(hvd_state_t *state)
{
    uint8_t over = 0;

    if (!options.until || (long)model.step != options.steps - 1)
        return HVD_OK;
    while (!over) {
        over = exists(options.until);
        HVD_TRY(hvd_broadcast(&over, 1, HVD_UINT8, 0));
        sleep_us(options.step_us);
        HVD_TRY(boundary(state));
    }
    return HVD_OK;
}

static hvd_status_t steps(hvd_state_t *state)
{
    while ((long)model.step < options.steps) {
        HVD_TRY(stay(state));
        lead();
        step_moment(COMPUTE);
        HVD_TRY(exchange());
        sleep_us(options.step_us);
        update();
        HVD_TRY(boundary(state));
    }
    return HVD_OK;
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    hvd_status_t status;

    model.in_train = true;
    check_state();
    check_reset();
    status = steps(state);
    if (options.careless && status == HVD_HOSTS_UPDATED)
        return HVD_OK;
    HVD_TRY(status);
    moment(LAST);
    if (options.moment == DONE) {
        go_ahead(&seen.done);
        if (!chosen())
            sleep_us(options.delay_us);
    }
    return HVD_OK;
}

/* ---- callbacks ----------------------------------------------------------- */

static size_t object_size(void *arg)
{
    return sizeof(model.object);
}

static hvd_status_t object_serialize(void *buf, size_t nbytes, void *arg)
{
    memcpy(buf, &model.object, nbytes);
    step_moment(SERIALIZE);
    return HVD_OK;
}

static hvd_status_t object_deserialize(const void *buf, size_t nbytes,
                                       void *arg)
{
    if (nbytes != sizeof(model.object))
        wrong("size of the object", nbytes, sizeof(model.object));
    memcpy(&model.object, buf, nbytes);
    moment(DESERIALIZE);
    return HVD_OK;
}

static hvd_status_t on_commit(void *arg)
{
    step_moment(COMMIT);
    /* the first commit of all is rank 0's alone */
    if (!options.commit_barrier || !model.in_train)
        return HVD_OK;
    return hvd_barrier();
}

static hvd_status_t on_restore(void *arg)
{
    moment(RESTORE);
    return HVD_OK;
}

static hvd_status_t on_sync(void *arg)
{
    moment(ON_SYNC);
    return HVD_OK;
}

static void on_reset(const hvd_reset_info_t *info, void *arg)
{
    model.n_resets++;
    model.reset_generation = info->generation;
    moment(RESET);
}

static hvd_status_t add_entries(hvd_state_t *state)
{
    static const hvd_state_object_ops_t ops = {
        .struct_size = sizeof(ops),
        .size = object_size,
        .serialize = object_serialize,
        .deserialize = object_deserialize};

    HVD_TRY(hvd_state_add(state, "step", &model.step, sizeof(model.step)));
    HVD_TRY(hvd_state_add(state, "sum", &model.sum, sizeof(model.sum)));
    HVD_TRY(hvd_state_add_object(state, "object", &ops, NULL));
    HVD_TRY(hvd_state_add(state, "weights", model.weights,
                          model.n_weights * sizeof(*model.weights)));
    HVD_TRY(hvd_state_add(state, "tail", &model.tail, sizeof(model.tail)));
    HVD_TRY(hvd_state_on_commit(state, on_commit, NULL));
    HVD_TRY(hvd_state_on_restore(state, on_restore, NULL));
    HVD_TRY(hvd_state_on_sync(state, on_sync, NULL));
    return hvd_state_on_reset(state, on_reset, NULL);
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
    {NULL, 0, NULL, 0}};

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

static bool parse(int argc, char **argv)
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

/* ---- main ---------------------------------------------------------------- */

static uint64_t digest(void)
{
    uint64_t d = mix(model.step, model.sum + model.tail + model.object);

    for (size_t i = 0; i < model.n_weights; i++)
        d = mix(d, model.weights[i]);
    return d;
}

static hvd_status_t join(void)
{
    hvd_status_t status;

    if (options.late_host && on_host(options.late_host))
        await("go");
    moment(INIT_BEFORE);
    atomic_store(&seen.initialising_us, now_us());
    status = hvd_init();
    if (options.moment == INIT)
        moment(INIT); /* it was quicker than the other thread */
    atomic_store(&seen.initialising_us, 0);
    moment(INIT_AFTER);
    return status;
}

/* A child that nobody ends: it may not use the library, and must neither hide
 * its parent's death nor outlive it. */
static void fork_child(void)
{
    if (fork() != 0)
        return;
    if (hvd_barrier() >= 0 || hvd_init() >= 0 || hvd_shutdown() >= 0)
        wrong("calls in a forked child", 0, 1);
    for (;;)
        pause();
}

static hvd_status_t run(void)
{
    hvd_state_t *state;
    hvd_status_t status, goodbye;

    HVD_TRY(join());
    if (hvd_init() != HVD_ERR_STATE)
        wrong("a second hvd_init", 0, 1);
    if (options.with_child)
        fork_child();
    state = hvd_state_create();
    if (!state)
        return HVD_ERR_NOMEM;
    HVD_TRY_GOTO(add_entries(state), destroy);
    status = hvd_elastic_run(state, train, NULL);
    goodbye = hvd_shutdown();
    if (status == HVD_OK)
        status = goodbye;

destroy:
    hvd_state_destroy(state);
    return status;
}

static int finish(hvd_status_t status)
{
    if (status == HVD_OK) {
        printf("final digest %016" PRIx64 " steps %" PRIu64
               " iterations-here %" PRIu64 "\n",
               digest(), model.step, model.iterations);
    } else if (status == HVD_REMOVED) {
        puts("removed");
    } else {
        fprintf(stderr, "moment_worker: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
        return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (!parse(argc, argv)) {
        fputs("moment_worker --directory DIR [options]: see the source\n",
              stderr);
        return 2;
    }
    model.n_weights = (size_t)options.state_bytes / sizeof(uint64_t) + 1;
    model.weights = calloc(model.n_weights, sizeof(*model.weights));
    if (!model.weights || !start_watching())
        return finish(HVD_ERR_NOMEM);
    set_parts();
    /* the other thread may look at it until the end: never freed */
    return finish(run());
}
