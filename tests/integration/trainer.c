/* tests/integration/trainer.c - an elastic program that a test leads by the
 * hand: an epoch lasts until the file DIR/epoch allows it to end, so that a
 * scenario waits for events and never for time.
 *
 * In each step rank 0 reads that file and broadcasts the number; the collective
 * of the step is checked; then comes the boundary. When an epoch ends rank 0
 * prints "epoch E size S start_rank R host H slot N rendezvous V": start_rank
 * is the rank of its first generation, rendezvous how often the state has
 * entered train. After HVD_OK each worker prints "final digest D", after
 * HVD_REMOVED "removed"; otherwise the library's sentence and exit status 1.
 *
 * SIGUSR1 exits with status 1 at once, SIGUSR2 with 0, DONE or not; after
 * SIGHUP the training thread stops between two calls, the library's threads go
 * on.
 *
 * Threads: one. Memory: static. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hvd/hvd.h>

#include "gpu.h"
#include "words.h"

enum {
    WEIGHTS = 256,
    LARGE = 2048,
    RANKS_MAX = 16,
    USER_FAILURE = -1234,
    NEVER = -1
};

static struct options {
    const char *directory;
    const char *odd_host;  /* its workers have another layout */
    const char *size_host; /* theirs has another size */
    long epochs, step_us;
    long flood;   /* so many numbered lines before the first step */
    long fail_at; /* rank 0 fails at this step */
    /* the last rank differs there */
    long count_at, dtype_at, op_at, root_at, kind_at;
    bool broadcast_only, local_between, unequal, is_static, slow_end, talk;
    bool drain_on_term, hang_at_start, poll, epilogue, device, large, uneven;
    bool late_entry; /* registered in the first generation's train */
} options = {.epochs = 3,
             .step_us = 2000,
             .fail_at = NEVER,
             .count_at = NEVER,
             .dtype_at = NEVER,
             .op_at = NEVER,
             .root_at = NEVER,
             .kind_at = NEVER};

static struct {
    uint64_t epoch, step, rendezvous;
    uint64_t weights[WEIGHTS];
} model;

static int start_rank = NEVER;
static volatile sig_atomic_t hang, calling;

static const char usage[] =
    "trainer [--epochs N] [--step-us U] [--flood N]\n"
    "  [--broadcast-only] [--local-between]\n"
    "  [--unequal] [--static] [--odd-host NAME] [--size-host NAME]\n"
    "  [--fail-at STEP]\n"
    "  [--count-at STEP] [--dtype-at STEP] [--op-at STEP] [--root-at STEP]\n"
    "  [--kind-at STEP] [--slow-end] [--talk] [--drain-on-term]\n"
    "  [--hang-at-start] [--poll] [--device] [--large]\n"
    "  [--uneven] [--late-entry] DIR\n";

static void sleep_us(long us)
{
    struct timespec t = {.tv_sec = us / 1000000,
                         .tv_nsec = us % 1000000 * 1000};

    nanosleep(&t, NULL);
}

/* How many epochs may have ended; 0 while nobody has said so. */
static int64_t allowed(void)
{
    char path[512], text[32] = "";
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "%s/epoch", options.directory);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    return n > 0 ? strtol(text, NULL, 10) : 0;
}

static void wrong(const char *what, int64_t got, int64_t want)
{
    fprintf(stderr,
            "WRONG: %s at step %" PRIu64 ": %" PRId64 ", not %" PRId64 "\n",
            what, model.step, got, want);
    abort();
}

static bool differs(long at)
{
    return at >= 0 && (long)model.step == at && hvd_rank() == hvd_size() - 1;
}

/* As an event loop does. */
static hvd_status_t poll_until_done(hvd_request_t *request)
{
    struct pollfd p = {.events = POLLIN};
    bool done = false;
    uint64_t n;

    HVD_TRY(hvd_event_fd(&p.fd));
    while (!done) {
        if (read(p.fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
            return HVD_ERR_SYSTEM;
        HVD_TRY(hvd_test(&request, &done));
        if (!done)
            (void)poll(&p, 1, 1000);
    }
    return HVD_OK;
}

static hvd_status_t allreduce(int64_t *values, size_t count, hvd_dtype_t dtype,
                              hvd_op_t op)
{
    hvd_request_t *request;
    hvd_status_t status;

    if (options.device) {
        if (gpu_stored() != model.step)
            wrong("what the device has", (int64_t)gpu_stored(),
                  (int64_t)model.step);
        return gpu_allreduce(values, count, dtype, op);
    }
    if (options.poll) {
        HVD_TRY(hvd_allreduce_with(values, values, count, dtype, op, NULL,
                                   &request));
        return poll_until_done(request);
    }
    calling = 1;
    status = hvd_allreduce(values, values, count, dtype, op);
    calling = 0;
    return status;
}

/* A large block of rank 0, and a small one of each other rank. In a ring rank 1
 * sends the large one last. */
static hvd_status_t gather(void)
{
    static int64_t block[LARGE], all[LARGE + RANKS_MAX];
    size_t counts[RANKS_MAX], places[RANKS_MAX];

    if (hvd_size() > RANKS_MAX)
        return HVD_OK;
    for (int i = 0; i < hvd_size(); i++) {
        counts[i] = i == 0 ? LARGE : 1;
        places[i] = i == 0 ? 0 : LARGE + (size_t)i - 1;
    }
    block[0] = hvd_rank() + 1;
    HVD_TRY(hvd_allgatherv(block, counts[hvd_rank()], all, counts, places,
                           HVD_INT64));
    for (int i = 0; i < hvd_size(); i++)
        if (all[places[i]] != i + 1)
            wrong("a block", all[places[i]], i + 1);
    return HVD_OK;
}

static hvd_status_t add_up(void)
{
    static int64_t values[LARGE]; /* but for two of them all 0 */
    int64_t size = hvd_size(), want = size * (size + 1) / 2;
    size_t count = options.large ? LARGE : 2;

    values[0] = hvd_rank() + 1;
    values[1] = (int64_t)model.step;

    if (differs(options.kind_at))
        return hvd_barrier();
    if (options.uneven)
        return gather();
    HVD_TRY(allreduce(values, differs(options.count_at) ? 1 : count,
                      differs(options.dtype_at) ? HVD_FLOAT64 : HVD_INT64,
                      differs(options.op_at) ? HVD_MAX : HVD_SUM));
    if (values[0] != want)
        wrong("sum of ranks", values[0], want);
    if (values[1] != (int64_t)model.step * size)
        wrong("sum of steps", values[1], (int64_t)model.step * size);
    return HVD_OK;
}

/* May this epoch end? The same answer on all ranks. */
static hvd_status_t ask(bool *end_p)
{
    int64_t n = hvd_rank() == 0 ? allowed() : 0;
    int root = differs(options.root_at) ? hvd_size() - 1 : 0;

    HVD_TRY(hvd_broadcast(&n, 1, HVD_INT64, root));
    *end_p = n > (int64_t)model.epoch;
    return HVD_OK;
}

static void update(void)
{
    model.step++;
    for (size_t i = 0; i < WEIGHTS; i++)
        model.weights[i] = (model.weights[i] ^ (model.step + i)) *
                           0x9e3779b97f4a7c15u;
    if (options.device)
        gpu_store(model.step);
}

static hvd_status_t boundary(hvd_state_t *state)
{
    if (options.local_between) {
        HVD_TRY(hvd_state_check_host_updates(state));
        HVD_TRY(hvd_state_check_host_updates(state));
    }
    if (options.unequal && hvd_rank() > 0 && model.step % 2 == 0)
        return HVD_OK;
    return hvd_state_commit(state);
}

static void tell_epoch(void)
{
    const char *host = getenv("HVD_HOST");

    if (hvd_rank() != 0)
        return;
    printf("epoch %" PRIu64 " size %d start_rank %d host %s slot %d rendezvous "
           "%" PRIu64 "\n",
           model.epoch - 1, hvd_size(), start_rank, host ? host : "-",
           hvd_slot(), model.rendezvous);
    fflush(stdout);
}

static void talk(void)
{
    if (!options.talk)
        return;
    printf("step %" PRIu64 "\n", model.step);
    fprintf(stderr, "trouble %" PRIu64 "\n", model.step);
}

/* In blocks: a write for each of millions of lines takes long. */
static void flood(void)
{
    if (options.flood == 0)
        return;
    setvbuf(stdout, NULL, _IOFBF, 0);
    for (long i = 1; i <= options.flood; i++)
        printf("line %ld\n", i);
    fflush(stdout);
    setvbuf(stdout, NULL, _IOLBF, 0);
}

static void hang_if_told(void)
{
    if (!hang)
        return;
    puts("hangs");
    fflush(stdout);
    while (hang)
        pause();
}

static hvd_status_t step(bool *end_p)
{
    HVD_TRY(ask(end_p));
    if (!options.broadcast_only)
        HVD_TRY(add_up());
    if (hvd_rank() == 0 && (long)model.step == options.fail_at)
        return (hvd_status_t)USER_FAILURE;
    sleep_us(options.step_us);
    hang_if_told();
    update();
    return HVD_OK;
}

static hvd_status_t add_late(hvd_state_t *state)
{
    static uint64_t late;

    if (!options.late_entry || model.rendezvous > 1)
        return HVD_OK;
    return hvd_state_add(state, "late", &late, sizeof(late));
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    if (start_rank == NEVER)
        start_rank = hvd_rank();
    model.rendezvous++;
    HVD_TRY(add_late(state));
    if (model.step == 0)
        flood();
    while ((long)model.epoch < options.epochs) {
        hvd_status_t status;
        bool end;

        HVD_TRY(step(&end));
        model.epoch += end;
        status = boundary(state);
        talk();
        if (end && (status == HVD_OK || status == HVD_HOSTS_UPDATED))
            tell_epoch(); /* counted, whatever comes next */
        HVD_TRY(status);
    }
    /* the others are DONE long before rank 0 */
    while (options.slow_end && hvd_rank() == 0 && allowed() <= options.epochs)
        sleep_us(5000);
    return HVD_OK;
}

static hvd_status_t run_static(void)
{
    HVD_TRY(hvd_world_start());
    start_rank = hvd_rank();
    model.rendezvous++;
    while ((long)model.epoch < options.epochs) {
        bool end;

        HVD_TRY(step(&end));
        model.epoch += end;
        if (end)
            tell_epoch();
    }
    return HVD_OK;
}

static bool is_host(const char *name)
{
    const char *host = getenv("HVD_HOST");

    return name && host && strcmp(host, name) == 0;
}

static hvd_status_t run_elastic(void)
{
    static uint64_t odd;
    hvd_state_t *state;
    size_t nbytes = sizeof(model);
    hvd_status_t status;

    HVD_TRY(hvd_state_create(&state));
    if (is_host(options.size_host))
        nbytes -= 8;
    HVD_TRY_GOTO(hvd_state_add(state, "model", &model, nbytes), destroy);
    if (is_host(options.odd_host))
        HVD_TRY_GOTO(hvd_state_add(state, "odd", &odd, sizeof(odd)), destroy);
    if (options.device)
        HVD_TRY_GOTO(gpu_keep(state), destroy);
    status = hvd_elastic_run(state, train, NULL);

destroy:
    hvd_state_destroy(state);
    return status;
}

static void on_usr1(int signo)
{
    _exit(1);
}

static void on_usr2(int signo)
{
    _exit(0);
}

static void on_hup(int signo)
{
    hang = 1;
}

/* Never to return from the call it is in, if it is in one. */
static void on_quit(int signo)
{
    while (calling) {
        if (hang++ == 0 && write(STDOUT_FILENO, "sticks\n", 7) < 0)
            _exit(1);
        pause();
    }
}

static void on_term(int signo)
{
    hvd_drain();
}

static const struct word words[] = {
    {"epochs", .number = &options.epochs},
    {"step-us", .number = &options.step_us},
    {"flood", .number = &options.flood},
    {"odd-host", .text = &options.odd_host},
    {"size-host", .text = &options.size_host},
    {"fail-at", .number = &options.fail_at},
    {"count-at", .number = &options.count_at},
    {"dtype-at", .number = &options.dtype_at},
    {"op-at", .number = &options.op_at},
    {"root-at", .number = &options.root_at},
    {"kind-at", .number = &options.kind_at},
    {"broadcast-only", .flag = &options.broadcast_only},
    {"local-between", .flag = &options.local_between},
    {"unequal", .flag = &options.unequal},
    {"static", .flag = &options.is_static},
    {"slow-end", .flag = &options.slow_end},
    {"epilogue", .flag = &options.epilogue},
    {"talk", .flag = &options.talk},
    {"drain-on-term", .flag = &options.drain_on_term},
    {"hang-at-start", .flag = &options.hang_at_start},
    {"poll", .flag = &options.poll},
    {"device", .flag = &options.device},
    {"large", .flag = &options.large},
    {"uneven", .flag = &options.uneven},
    {"late-entry", .flag = &options.late_entry},
};

static void parse(int argc, char **argv)
{
    int n = (int)(sizeof(words) / sizeof(words[0]));
    int first = words_parse(argc, argv, words, n);

    if (first < 0 || first + 1 != argc) {
        fputs(usage, stderr);
        exit(2);
    }
    options.directory = argv[first];
}

static uint64_t digest(void)
{
    uint64_t d = model.step ^ model.epoch << 32;

    for (size_t i = 0; i < WEIGHTS; i++)
        d = (d ^ model.weights[i]) * 0x9e3779b97f4a7c15u;
    return d;
}

static int finish(hvd_status_t status)
{
    if (status == HVD_OK) {
        printf("final digest %016" PRIx64 " steps %" PRIu64 "\n", digest(),
               model.step);
    } else if (status == HVD_REMOVED) {
        puts("removed");
    } else {
        fprintf(stderr, "trainer: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
        return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    hvd_status_t status;

    parse(argc, argv);
    signal(SIGUSR1, on_usr1);
    signal(SIGUSR2, on_usr2);
    signal(SIGHUP, on_hup);
    signal(SIGQUIT, on_quit);
    if (options.drain_on_term)
        signal(SIGTERM, on_term);
    status = hvd_init(NULL);
    while (options.hang_at_start)
        pause();
    if (status == HVD_OK)
        status = options.is_static ? run_static() : run_elastic();
    while (options.epilogue && status == HVD_OK && allowed() <= options.epochs)
        sleep_us(5000);
    if (status == HVD_OK || status == HVD_REMOVED) {
        hvd_status_t goodbye = hvd_shutdown();

        status = goodbye != HVD_OK ? goodbye : status;
    }
    return finish(status);
}
