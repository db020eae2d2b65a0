/* tests/integration/chaos_worker.c - an elastic program that checks what it
 * gets: its state after N steps is the same whatever the world did meanwhile,
 * and every collective has one right answer.
 *
 * Prints "final digest <hex> steps <n> iterations-here <m>" and exits 0 when
 * hvd_elastic_run said HVD_OK, prints "removed" and exits 0 when it was
 * drained, exits 1 with the library's sentence otherwise. A wrong answer
 * aborts.
 *
 * Threads: one. Memory: the state, once. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hvd/hvd.h>

#include "gpu.h"
#include "posted.h"
#include "readers.h"
#include "synced.h"
#include "words.h"

enum {
    VECTOR_MAX = 16,
    LARGE = 2048,
    STRIPE = 64,
    USER_FAILURE = -1001,
    NEVER = -1,
    IGNORED_MAX = 5,
    THREAD_LOOKS = 5000, /* a millisecond apart */
    SPOILT = 1000003
};

static struct options {
    long steps, more_steps, step_us, state_bytes, commit_every;
    long start_sleep_ms, finish_sleep_ms;
    long fail_at, mismatch_at, diverge_at, exit_at, exit_code, drain_at,
        abandon_at;
    bool broadcast_only, local_between, no_collective;
    bool is_static, drain_on_term, layout_by_slot, verbose;
    bool count_fds, no_shutdown, posted, by_turns, beside, heedless, quits,
        device, large, commit_posts, syncs, no_start, odd_object, pending, plan;
} options = {.steps = 100,
             .more_steps = NEVER,
             .step_us = 1000,
             .state_bytes = 1024,
             .commit_every = 1,
             .fail_at = NEVER,
             .mismatch_at = NEVER,
             .diverge_at = NEVER,
             .exit_at = NEVER,
             .drain_at = NEVER,
             .abandon_at = NEVER};

static struct {
    uint64_t step;
    uint64_t sum; /* of all steps taken */
    uint64_t *weights;
    size_t n_weights;
    uint64_t iterations; /* of this process: neither restored nor synced */
    int n_ignored;       /* statuses, since train was called */
} model;

static const char usage[] =
    "chaos_worker [--steps N] [--step-us U] [--state-bytes B]\n"
    "  [--more-steps N]       trains until the world has changed, and N more\n"
    "  [--commit-every K]     boundaries without a commit in between\n"
    "  [--broadcast-only]     broadcasts instead of allreduces\n"
    "  [--by-turns]           every second step calls from a thread of its "
    "own\n"
    "  [--beside]             calls by name while another thread calls in "
    "order\n"
    "  [--posted]             posts collectives, waits for them later or "
    "never\n"
    "  [--commit-posts]       posts one in a callback of each commit\n"
    "  [--device]             allreduces on a device, which keeps the step\n"
    "  [--large]              allreduces of 16 KB\n"
    "  [--no-collective]      no collectives at all\n"
    "  [--local-between]      more boundaries with no collective between them\n"
    "  [--start-sleep-ms T]   before hvd_elastic_run\n"
    "  [--finish-sleep-ms T]  between the last commit and returning HVD_OK\n"
    "  [--static]             joins by hvd_world_start\n"
    "  [--no-start]           static: the first collective joins\n"
    "  [--sync]               static: first checks hvd_state_sync\n"
    "  [--drain-at N]         rank 0 asks for a drain, in another thread\n"
    "  [--drain-on-term]      SIGTERM asks for a drain\n"
    "  [--fail-at N] [--mismatch-at N]   rank 0 fails, rank 0 differs\n"
    "  [--diverge-at N]       rank 1 alone changes its state\n"
    "  [--exit-at N] [--exit-code C]     rank 0 exits without a word\n"
    "  [--abandon-at N]       rank 0 of the first generation gives up\n"
    "  [--say-pending]        says which change of hosts it hears of\n"
    "  [--say-plan]           says its plan, and what has become of it\n"
    "  [--layout-by-slot]     slots differ in their layout\n"
    "  [--odd-object]         an object that differs between the ranks\n"
    "  [--heedless]           goes on for a while where it should return\n"
    "  [--quits]              returns HVD_OK when ranks differ\n"
    "  [--count-fds]          prints how many are open before and after\n"
    "  [--no-shutdown]        leaves main without hvd_shutdown\n"
    "  [--verbose]\n";

static void sleep_us(long us)
{
    struct timespec t = {.tv_sec = us / 1000000,
                         .tv_nsec = us % 1000000 * 1000};

    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        continue;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a + b * 0x9e3779b97f4a7c15u + 1;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void wrong(const char *what, int64_t got, int64_t want)
{
    fprintf(stderr,
            "WRONG: %s at step %" PRIu64 ", rank %d of %d: %" PRId64
            " instead of %" PRId64 "\n",
            what, model.step, hvd_rank(), hvd_size(), got, want);
    abort();
}

static hvd_status_t check_allreduce(void)
{
    static int64_t in[LARGE], results[LARGE];
    int64_t *out = results;
    int64_t step = (int64_t)model.step, size = hvd_size();
    int rank = hvd_rank(); /* a lock: not for each element */
    size_t n = options.large ? LARGE : 1 + model.step % VECTOR_MAX;

    if (step == options.mismatch_at && rank == 0)
        n = n > 1 ? n - 1 : n + 1;
    for (size_t i = 0; i < n; i++)
        in[i] = (step + (int64_t)i) * (rank + 1);
    if (options.device)
        HVD_TRY(gpu_allreduce(out = in, n, HVD_INT64, HVD_SUM));
    else
        HVD_TRY(hvd_allreduce(in, out, n, HVD_INT64, HVD_SUM));
    for (size_t i = 0; i < n; i++)
        if (out[i] != (step + (int64_t)i) * size * (size + 1) / 2)
            wrong("allreduce", out[i],
                  (step + (int64_t)i) * size * (size + 1) / 2);
    return HVD_OK;
}

static hvd_status_t check_broadcast(void)
{
    int root = (int)(model.step % (uint64_t)hvd_size());
    int64_t want = (int64_t)(mix(model.step, 7) >> 1);
    int64_t got = hvd_rank() == root ? want : 0;

    HVD_TRY(hvd_broadcast(&got, 1, HVD_INT64, root));
    if (got != want)
        wrong("broadcast", got, want);
    return HVD_OK;
}

static hvd_status_t exchange_here(void)
{
    if (options.no_collective)
        return HVD_OK;
    if (options.posted)
        return posted_exchange(model.step);
    return options.broadcast_only ? check_broadcast() : check_allreduce();
}

static void *exchange_there(void *arg)
{
    hvd_status_t *status = arg;

    *status = exchange_here();
    return NULL;
}

static hvd_status_t call_by_name(void)
{
    hvd_options_t by_name = HVD_OPTIONS_INIT;
    int64_t step = (int64_t)model.step, sum;

    by_name.key = "beside";
    HVD_TRY(
        hvd_allreduce_with(&step, &sum, 1, HVD_INT64, HVD_SUM, &by_name, NULL));
    if (sum != step * hvd_size())
        wrong("allreduce by name", sum, step * hvd_size());
    return HVD_OK;
}

/* By turns: one thread at a time issues calls, another one in each step.
 * Beside: this thread calls by name meanwhile. */
static hvd_status_t exchange(void)
{
    pthread_t thread;
    hvd_status_t status, named = HVD_OK;

    if (!options.beside && (!options.by_turns || model.step % 2 == 0))
        return exchange_here();
    if (pthread_create(&thread, NULL, exchange_there, &status) != 0)
        return HVD_ERR_SYSTEM;
    if (options.beside)
        named = call_by_name();
    pthread_join(thread, NULL);
    return named == HVD_OK ? status : named;
}

/* What one step does to the state, on every rank alike. */
static void update(void)
{
    size_t first = model.step * STRIPE % model.n_weights;

    for (size_t i = 0; i < STRIPE && i < model.n_weights; i++) {
        size_t at = (first + i) % model.n_weights;

        model.weights[at] = mix(model.weights[at], model.step + i);
    }
    model.sum += model.n_ignored > 0 ? SPOILT : model.step;
    model.step++;
    model.iterations++;
    if (options.device)
        gpu_store(model.step);
}

static void *drain_there(void *arg)
{
    hvd_drain();
    return NULL;
}

static hvd_status_t ask_to_leave(void)
{
    pthread_t thread;

    if (hvd_rank() != 0 || (long)model.step != options.drain_at)
        return HVD_OK;
    if (pthread_create(&thread, NULL, drain_there, NULL) != 0)
        return HVD_ERR_SYSTEM;
    pthread_join(thread, NULL);
    return HVD_OK;
}

static void give_up(void)
{
    hvd_abandon("no more data");
    if (hvd_generation_status() == HVD_OK)
        wrong("hvd_generation_status", HVD_OK, HVD_ERR_JOB_FAILED);
    if (hvd_barrier() == HVD_OK)
        wrong("hvd_barrier after hvd_abandon", HVD_OK, HVD_ERR_STATE);
    exit((int)options.exit_code);
}

static hvd_status_t misbehave(void)
{
    HVD_TRY(ask_to_leave());
    if (hvd_rank() == 1 && (long)model.step == options.diverge_at)
        model.weights[0]++;
    if (hvd_rank() != 0)
        return HVD_OK;
    if ((long)model.step == options.exit_at)
        exit((int)options.exit_code);
    if ((long)model.step == options.abandon_at && hvd_generation() == 1)
        give_up();
    if ((long)model.step == options.fail_at)
        return (hvd_status_t)USER_FAILURE;
    return HVD_OK;
}

/* Ranks that differ have saved what differs. */
static hvd_status_t commit(hvd_state_t *state)
{
    uint64_t version = hvd_state_version(state);
    hvd_status_t status = hvd_state_commit(state);

    if (options.diverge_at != NEVER && status == HVD_ERR_MISMATCH &&
        hvd_state_version(state) != version + 1)
        wrong("the version", (int64_t)hvd_state_version(state),
              (int64_t)version + 1);
    return status;
}

static hvd_status_t boundary(hvd_state_t *state)
{
    if (options.local_between)
        HVD_TRY(hvd_state_check_host_updates(state));
    if ((long)model.step % options.commit_every == 0 ||
        (long)model.step == options.steps)
        return commit(state);
    return hvd_state_check_host_updates(state);
}

/* What is computed after it must not be seen again by anybody. */
static hvd_status_t heed(hvd_status_t status)
{
    bool goes_on = status == HVD_HOSTS_UPDATED || status == HVD_PEER_LOST;

    if (!options.heedless || !goes_on || model.n_ignored == IGNORED_MAX)
        return status;
    model.n_ignored++;
    return HVD_OK;
}

static void check_sum(void)
{
    uint64_t n = model.step;

    if (model.sum != n * (n - 1) / 2)
        wrong("the sum of all steps", (int64_t)model.sum,
              (int64_t)(n * (n - 1) / 2));
}

/* It goes with the state. */
static void check_device(void)
{
    uint64_t stored = options.device ? gpu_stored() : model.step;

    if (stored != model.step)
        wrong("the step on the device", (int64_t)stored, (int64_t)model.step);
}

/* true: what has failed is kept from the library. */
static bool quits(hvd_status_t status)
{
    return options.quits && status == HVD_ERR_MISMATCH;
}

/* With --more-steps, the first generation ends by a change alone, however late
 * the change comes. All ranks begin a generation at the same step. */
static void set_last_step(void)
{
    if (options.more_steps == NEVER)
        return;
    options.steps = hvd_generation() > 1 ? (long)model.step + options.more_steps
                                         : LONG_MAX;
}

/* So it is in each commit. */
static void check_posted_entry(void)
{
    if (options.commit_posts && posted_entry != model.step)
        wrong("the entry of the commit's callback", (int64_t)posted_entry,
              (int64_t)model.step);
}

static void begin(void)
{
    model.n_ignored = 0;
    check_sum();
    check_device();
    check_posted_entry();
    set_last_step();
    readers_begin();
    if (options.plan)
        readers_say_plan();
    if (options.verbose)
        fprintf(stderr,
                "gen %" PRIu64 " rank %d of %d local rank %d slot %d at step "
                "%" PRIu64 "\n",
                hvd_generation(), hvd_rank(), hvd_size(), hvd_local_rank(),
                hvd_slot(), model.step);
}

static hvd_status_t take_steps(hvd_state_t *state)
{
    hvd_status_t status = HVD_OK;

    while ((long)model.step < options.steps && !quits(status)) {
        if (options.pending)
            readers_say_pending();
        HVD_TRY(misbehave());
        HVD_TRY(heed(exchange()));
        if (options.step_us > 0)
            sleep_us(options.step_us);
        update();
        status = heed(boundary(state));
        if (!quits(status))
            HVD_TRY(status);
        if (options.posted)
            posted_check_drained();
    }
    if (options.finish_sleep_ms > 0)
        sleep_us(options.finish_sleep_ms * 1000);
    return HVD_OK;
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    hvd_status_t status;

    begin();
    status = take_steps(state);
    readers_check();
    if (!options.posted && !options.beside && !options.device &&
        !options.heedless)
        readers_check_end(status);
    return status;
}

static uint64_t digest(void)
{
    uint64_t d = mix(model.step, model.sum);

    for (size_t i = 0; i < model.n_weights; i++)
        d = mix(d, model.weights[i]);
    return d;
}

static void on_term(int signo)
{
    hvd_drain();
}

static const struct word words[] = {
    {"steps", .number = &options.steps},
    {"more-steps", .number = &options.more_steps},
    {"step-us", .number = &options.step_us},
    {"state-bytes", .number = &options.state_bytes},
    {"commit-every", .number = &options.commit_every},
    {"start-sleep-ms", .number = &options.start_sleep_ms},
    {"finish-sleep-ms", .number = &options.finish_sleep_ms},
    {"fail-at", .number = &options.fail_at},
    {"mismatch-at", .number = &options.mismatch_at},
    {"diverge-at", .number = &options.diverge_at},
    {"exit-at", .number = &options.exit_at},
    {"exit-code", .number = &options.exit_code},
    {"drain-at", .number = &options.drain_at},
    {"abandon-at", .number = &options.abandon_at},
    {"broadcast-only", .flag = &options.broadcast_only},
    {"local-between", .flag = &options.local_between},
    {"posted", .flag = &options.posted},
    {"commit-posts", .flag = &options.commit_posts},
    {"by-turns", .flag = &options.by_turns},
    {"beside", .flag = &options.beside},
    {"device", .flag = &options.device},
    {"large", .flag = &options.large},
    {"no-collective", .flag = &options.no_collective},
    {"static", .flag = &options.is_static},
    {"no-start", .flag = &options.no_start},
    {"sync", .flag = &options.syncs},
    {"drain-on-term", .flag = &options.drain_on_term},
    {"layout-by-slot", .flag = &options.layout_by_slot},
    {"odd-object", .flag = &options.odd_object},
    {"say-pending", .flag = &options.pending},
    {"say-plan", .flag = &options.plan},
    {"heedless", .flag = &options.heedless},
    {"quits", .flag = &options.quits},
    {"count-fds", .flag = &options.count_fds},
    {"no-shutdown", .flag = &options.no_shutdown},
    {"verbose", .flag = &options.verbose},
};

static void parse(int argc, char **argv)
{
    int n = (int)(sizeof(words) / sizeof(words[0]));

    if (words_parse(argc, argv, words, n) != argc || options.commit_every < 1 ||
        options.state_bytes < 0) {
        fputs(usage, stderr);
        exit(2);
    }
}

static size_t rank_size(void *arg)
{
    return sizeof(int);
}

static hvd_status_t rank_write(void *buf, size_t nbytes, void *arg)
{
    int rank = hvd_rank();

    memcpy(buf, &rank, nbytes);
    return HVD_OK;
}

static hvd_status_t rank_read(const void *buf, size_t nbytes, void *arg)
{
    return nbytes == sizeof(int) ? HVD_OK : HVD_ERR_INVALID;
}

static hvd_status_t add_odd_object(hvd_state_t *state)
{
    const hvd_state_object_ops_t ops = {sizeof(ops), rank_size, rank_write,
                                        rank_read};

    return hvd_state_add_object(state, "odd object", &ops, NULL);
}

static hvd_status_t add_entries(hvd_state_t *state)
{
    static uint64_t odd;

    HVD_TRY(hvd_state_add(state, "step", &model.step, sizeof(model.step)));
    HVD_TRY(hvd_state_add(state, "sum", &model.sum, sizeof(model.sum)));
    if (options.device)
        HVD_TRY(gpu_keep(state));
    if (options.commit_posts) {
        HVD_TRY(hvd_state_add(state, "posted", &posted_entry,
                              sizeof(posted_entry)));
        HVD_TRY(hvd_state_on_commit(state, posted_on_commit, &model.step));
    }
    if (options.odd_object)
        HVD_TRY(add_odd_object(state));
    if (options.layout_by_slot && hvd_slot() > 0)
        HVD_TRY(hvd_state_add(state, "odd", &odd, sizeof(odd)));
    return hvd_state_add(state, "weights", model.weights,
                         model.n_weights * sizeof(*model.weights));
}

static hvd_status_t run_elastic(void)
{
    hvd_state_t *state;
    hvd_status_t status;

    HVD_TRY(hvd_state_create(&state));
    HVD_TRY_GOTO(add_entries(state), destroy);
    if (options.start_sleep_ms > 0)
        sleep_us(options.start_sleep_ms * 1000);
    status = hvd_elastic_run(state, train, NULL);

destroy:
    hvd_state_destroy(state);
    return status;
}

static hvd_status_t run_static(void)
{
    if (!options.no_start)
        HVD_TRY(hvd_world_start());
    if (options.syncs)
        HVD_TRY(synced_check());
    while ((long)model.step < options.steps) {
        HVD_TRY(misbehave());
        HVD_TRY(exchange());
        if (options.step_us > 0)
            sleep_us(options.step_us);
        update();
    }
    return HVD_OK;
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int n = 0;

    if (!dir)
        return -1;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void *be_a_thread(void *arg)
{
    return arg;
}

/* A sanitizer starts a thread of its own beside the program's first one, and
 * this thread stays. */
static void start_first_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, be_a_thread, NULL) == 0)
        pthread_join(thread, NULL);
}

/* A thread that has been joined may be listed for a moment. */
static int count_threads(int want)
{
    int n = count_entries("/proc/self/task");

    for (int i = 0; n > want && i < THREAD_LOOKS; i++) {
        sleep_us(1000);
        n = count_entries("/proc/self/task");
    }
    return n;
}

/* The secret is handed over open and closed by hvd_init: it does not count. */
static int count_fds(void)
{
    const char *secret = getenv("HVD_SECRET_FD");
    int n = count_entries("/proc/self/fd");

    if (secret && fcntl(atoi(secret), F_GETFD) >= 0)
        n--;
    return n;
}

static char sentence[512]; /* of the first error */

static int finish(hvd_status_t status)
{
    if (status == HVD_OK) {
        printf("final digest %016" PRIx64 " steps %" PRIu64
               " iterations-here %" PRIu64 "\n",
               digest(), model.step, model.iterations);
    } else if (status == HVD_REMOVED) {
        puts("removed");
    } else {
        fprintf(stderr, "chaos_worker: %s: %s\n", hvd_strerror(status),
                sentence);
        return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

static bool was_member; /* hvd_init() has succeeded */

static hvd_status_t run(void)
{
    was_member = getenv("HVD_DRIVER") != NULL;
    readers_check_before();
    return options.is_static ? run_static() : run_elastic();
}

/* What a static job has come to may be known there only. */
static hvd_status_t say_goodbye(hvd_status_t status)
{
    hvd_status_t goodbye = hvd_shutdown();

    if (goodbye != HVD_OK)
        fprintf(stderr, "hvd_shutdown: %s\n", hvd_strerror(goodbye));
    if (goodbye != HVD_OK && status == HVD_OK) {
        snprintf(sentence, sizeof(sentence), "%s", hvd_last_error());
        status = goodbye;
    }
    if (was_member && hvd_init(NULL) != HVD_ERR_STATE)
        wrong("hvd_init after hvd_shutdown", HVD_OK, HVD_ERR_STATE);
    return status;
}

int main(int argc, char **argv)
{
    hvd_status_t status;
    int fds, threads;

    parse(argc, argv);
    fds = count_fds();
    start_first_thread();
    threads = count_threads(INT_MAX);
    if (options.drain_on_term)
        signal(SIGTERM, on_term);
    model.n_weights = (size_t)options.state_bytes / sizeof(uint64_t) + 1;
    model.weights = calloc(model.n_weights, sizeof(*model.weights));
    if (!model.weights)
        return finish(HVD_ERR_NOMEM);
    status = hvd_init(NULL);
    if (status == HVD_OK)
        status = run();
    if (options.posted && posted_finish() != HVD_OK && status == HVD_OK)
        status = HVD_ERR_STATE;
    snprintf(sentence, sizeof(sentence), "%s", hvd_last_error());
    if (!options.no_shutdown)
        status = say_goodbye(status);
    if (options.count_fds)
        printf("fds %d %d threads %d %d\n", fds, count_fds(), threads,
               count_threads(threads));
    if (finish(status) != 0)
        return 1;
    free(model.weights);
    return 0;
}
