/* bench/steady_worker.c - every collective over and over, in every way to call
 * it, and what that asks of the system: the job of bench/steady and of
 * tests/integration/test_steady.py.
 *
 *     steady_worker alloc|malloc N_SMALL N_LARGE LARGE_NBYTES [WORDS]
 *
 * N_SMALL operations of 64 bytes, as many of 32 KB, N_LARGE of LARGE_NBYTES;
 * then as many boundaries with and without a commit. WORDS: only cases whose
 * names have these in them. Of each a line
 *
 *     steady CASE NBYTES RANK N ALLOCATIONS FREES MAPS FAULTS NS
 *
 * over N operations behind some that do not count; NS: of one. Where they begin
 * and end it writes the words "steady begin CASE NBYTES N" and "steady end" to
 * descriptor -1, for who traces system calls. N_SMALL boundaries without a
 * commit run where a system call of theirs would end the process.
 *
 * Threads: one. Memory: two buffers of LARGE_NBYTES. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <hvd/hvd.h>

#include "any_call.h"
#include "witness.h"

enum {
    SMALL_NBYTES = 64,
    MIDDLE_NBYTES = 32 << 10,
    RANKS_MAX = 16,
    WINDOW = 4,
    GROUP = 8,
    LINE_MAX = 200,
    TINY_STATE = 64,
    TASK_NAME_MAX = 15
};

#define NAMES_NS (UINT64_C(30) * 1000 * 1000 * 1000)

struct run {
    bool shared;
    unsigned long n_small, n_large;
    size_t large_nbytes;
    const char *words;
    float *send, *recv; /* [large_nbytes] bytes */
    hvd_state_t *state;
    uint8_t tiny[TINY_STATE]; /* the state */

    /* the case under way */
    struct any_call call;
    size_t counts[RANKS_MAX], displs[RANKS_MAX];
    const void *sends[GROUP];
    void *recvs[GROUP];
    size_t group_counts[GROUP];
    hvd_request_t *window[WINDOW];
    size_t n_window;
};

typedef hvd_status_t (*way_to_call)(struct run *run);

/* ---- ways to call -------------------------------------------------------- */

static hvd_status_t blocking(struct run *run)
{
    return any_call_issue(&run->call, NULL, NULL);
}

static hvd_status_t async(struct run *run)
{
    hvd_request_t *request;

    HVD_TRY(any_call_issue(&run->call, NULL, &request));
    return hvd_wait(&request);
}

/* Several under way; the buffers are the same, as nobody looks at results. */
static hvd_status_t windowed(struct run *run)
{
    HVD_TRY(any_call_issue(&run->call, NULL, &run->window[run->n_window]));
    run->n_window = (run->n_window + 1) % WINDOW;
    return run->n_window > 0 ? HVD_OK : hvd_wait_all(WINDOW, run->window);
}

static hvd_status_t grouped(struct run *run)
{
    return hvd_grouped_allreduce(GROUP, run->sends, run->recvs,
                                 run->group_counts, HVD_FLOAT32, HVD_SUM);
}

static hvd_status_t grouped_async(struct run *run)
{
    hvd_request_t *request;

    HVD_TRY(hvd_grouped_allreduce_with(GROUP, run->sends, run->recvs,
                                       run->group_counts, HVD_FLOAT32, HVD_SUM,
                                       NULL, &request));
    return hvd_wait(&request);
}

static hvd_status_t commit(struct run *run)
{
    run->tiny[0]++;
    return hvd_state_commit(run->state);
}

static hvd_status_t check(struct run *run)
{
    return hvd_state_check_host_updates(run->state);
}

/* ---- a case -------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t faults(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt;
}

static void mark(const char *text)
{
    ssize_t refused = write(-1, text, strlen(text));

    (void)refused;
}

static hvd_status_t repeat(struct run *run, way_to_call way, unsigned long n)
{
    for (unsigned long i = 0; i < n; i++)
        HVD_TRY(way(run));
    return HVD_OK;
}

static hvd_status_t measure(struct run *run, const char *name, size_t nbytes,
                            way_to_call way, unsigned long n)
{
    char line[LINE_MAX];
    uint64_t before, begin_ns;
    struct witness seen;
    hvd_status_t status;

    n = (n + WINDOW - 1) / WINDOW * WINDOW;
    HVD_TRY(repeat(run, way, n / 4 < 32 ? 32 : n / 16 * WINDOW));
    HVD_TRY(hvd_barrier());
    snprintf(line, sizeof(line), "steady begin %s %zu %lu", name, nbytes, n);
    before = faults();
    mark(line);
    witness_begin();
    begin_ns = now_ns();
    status = repeat(run, way, n);
    begin_ns = now_ns() - begin_ns;
    seen = witness_end();
    mark("steady end");
    before = faults() - before;
    HVD_TRY(status);
    printf("steady %s %zu %d %lu %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
           " %.1f\n",
           name, nbytes, hvd_rank(), n, seen.allocations, seen.frees, seen.maps,
           before, (double)begin_ns / (double)n);
    return HVD_OK;
}

static hvd_status_t maybe(struct run *run, const char *name, size_t nbytes,
                          way_to_call way)
{
    unsigned long n = nbytes > MIDDLE_NBYTES ? run->n_large : run->n_small;

    if (n == 0 || (run->words && strstr(name, run->words) == NULL))
        return HVD_OK;
    return measure(run, name, nbytes, way, n);
}

/* ---- all of them --------------------------------------------------------- */

static const struct kind {
    enum any_kind kind;
    const char *name;
    bool each; /* count is per peer: the greater buffer is `size` times that */
} kinds[] = {
    {ANY_ALLREDUCE, "allreduce", false},
    {ANY_BROADCAST, "broadcast", false},
    {ANY_ALLGATHER, "allgather", true},
    {ANY_ALLGATHERV, "allgatherv", true},
    {ANY_REDUCE_SCATTER, "reduce_scatter", true},
    {ANY_ALLTOALL, "alltoall", true},
    {ANY_ALLTOALLV, "alltoallv", true},
    {ANY_BARRIER, "barrier", false},
};

static void describe(struct run *run, const struct kind *kind, size_t nbytes)
{
    size_t size = (size_t)hvd_size();
    size_t count = nbytes / sizeof(float) / (kind->each ? size : 1);

    run->call = (struct any_call){.kind = kind->kind,
                                  .sendbuf = run->send,
                                  .recvbuf = run->recv,
                                  .count = count,
                                  .sendcounts = run->counts,
                                  .sdispls = run->displs,
                                  .recvcounts = run->counts,
                                  .rdispls = run->displs,
                                  .dtype = HVD_FLOAT32,
                                  .op = HVD_SUM};
    for (size_t i = 0; i < size; i++) {
        run->counts[i] = count;
        run->displs[i] = i * count;
    }
}

/* The library's thread runs from the first asynchronous call on, and begins to
 * once there is a processor for it. */
static hvd_status_t await_thread(void)
{
    hvd_request_t *request;
    bool done = false;

    HVD_TRY(hvd_barrier_with(NULL, &request));
    while (!done) {
        sched_yield();
        HVD_TRY(hvd_test(&request, &done));
    }
    return HVD_OK;
}

static hvd_status_t kind_cases(struct run *run, const struct kind *kind,
                               size_t nbytes)
{
    char name[64];

    describe(run, kind, nbytes);
    HVD_TRY(maybe(run, kind->name, nbytes, blocking));
    HVD_TRY(await_thread());
    snprintf(name, sizeof(name), "%s_async", kind->name);
    HVD_TRY(maybe(run, name, nbytes, async));
    snprintf(name, sizeof(name), "%s_async_x%d", kind->name, WINDOW);
    HVD_TRY(maybe(run, name, nbytes, windowed));
    if (kind->kind != ANY_ALLREDUCE && kind->kind != ANY_ALLTOALL)
        return HVD_OK;
    run->call.sendbuf = run->call.recvbuf;
    snprintf(name, sizeof(name), "%s_in_place", kind->name);
    return maybe(run, name, nbytes, blocking);
}

/* One tensor has half of all, so that some are packed and some are not. */
static hvd_status_t group_cases(struct run *run, size_t nbytes)
{
    size_t half = nbytes / sizeof(float) / 2, at = 0;

    for (size_t i = 0; i < GROUP; i++) {
        run->group_counts[i] = i == 0 ? half : half / (GROUP - 1);
        run->sends[i] = run->send + at;
        run->recvs[i] = run->recv + at;
        at += run->group_counts[i];
    }
    HVD_TRY(maybe(run, "grouped", nbytes, grouped));
    return maybe(run, "grouped_async", nbytes, grouped_async);
}

static hvd_status_t size_cases(struct run *run, size_t nbytes)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        bool first = nbytes == SMALL_NBYTES;

        if (first || kinds[i].kind != ANY_BARRIER)
            HVD_TRY(kind_cases(run, &kinds[i], nbytes));
    }
    return group_cases(run, nbytes);
}

/* ---- threads ------------------------------------------------------------- */

typedef bool (*thread_is)(const char *tid, const char *name);

static bool read_name(const char *tid, char *name, int max)
{
    char path[64];
    FILE *file;
    bool done;

    snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", tid);
    file = fopen(path, "re");
    if (file == NULL)
        return false;
    done = fgets(name, max, file) != NULL;
    (void)fclose(file);
    return done;
}

/* How many threads `is` is true of. */
static int count_threads(thread_is is)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    char name[32];
    int n = 0;

    while (tasks != NULL && (task = readdir(tasks)) != NULL)
        if (task->d_name[0] != '.' &&
            read_name(task->d_name, name, sizeof(name)))
            n += is(task->d_name, name);
    if (tasks != NULL)
        (void)closedir(tasks);
    return n;
}

static bool has_no_name(const char *tid, const char *name)
{
    const char *own = program_invocation_short_name;
    size_t n = strnlen(own, TASK_NAME_MAX);

    return atoi(tid) != (int)getpid() && strncmp(name, own, n) == 0 &&
           name[n] == '\n';
}

/* A thread that does not count is known by its name. ZeroMQ's give themselves
 * theirs once a processor has begun them, and a sanitizer allocates before
 * that: the reaper, for which nobody waits, can be as late as this. */
static hvd_status_t await_names(void)
{
    uint64_t until_ns = now_ns() + NAMES_NS;

    while (count_threads(has_no_name) > 0) {
        if (now_ns() > until_ns) {
            fprintf(stderr, "steady_worker: a thread has no name of its own\n");
            return HVD_ERR_TIMEOUT;
        }
        sched_yield();
    }
    return HVD_OK;
}

/* "steady thread PID TID NAME", for who traces system calls. */
static bool tell(const char *tid, const char *name)
{
    printf("steady thread %d %s %s", (int)getpid(), tid, name);
    return true;
}

/* ---- no system call at all ----------------------------------------------- */

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || \
    !defined(PR_SET_SYSCALL_USER_DISPATCH)
static bool forbid_calls(const char *selector)
{
    (void)selector;
    return false;
}

enum { CALLS_ALLOWED, CALLS_FORBIDDEN };
#else
/* Of this thread, while *selector says so: SIGSYS, which ends the process.
 * false: this kernel cannot. */
static bool forbid_calls(const char *selector)
{
    return prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0,
                 selector) == 0;
}

enum {
    CALLS_ALLOWED = SYSCALL_DISPATCH_FILTER_ALLOW,
    CALLS_FORBIDDEN = SYSCALL_DISPATCH_FILTER_BLOCK
};
#endif

/* Tells "quiet N", of checks that made no system call. */
static hvd_status_t check_quietly(struct run *run)
{
    static volatile char selector = CALLS_ALLOWED;
    unsigned long n = 0;
    hvd_status_t status = HVD_OK;

    if (!forbid_calls((const char *)&selector))
        return HVD_OK;
    while (status == HVD_OK && n < run->n_small) {
        selector = CALLS_FORBIDDEN;
        status = check(run);
        selector = CALLS_ALLOWED;
        n++;
    }
    HVD_TRY(status);
    printf("quiet %lu\n", n);
    return HVD_OK;
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    struct run *run = arg;

    run->state = state;
    if (hvd_size() > RANKS_MAX)
        return HVD_ERR_INVALID;
    HVD_TRY(await_names());
    HVD_TRY(size_cases(run, SMALL_NBYTES));
    HVD_TRY(size_cases(run, MIDDLE_NBYTES));
    HVD_TRY(size_cases(run, run->large_nbytes));
    HVD_TRY(maybe(run, "boundary_check", 0, check));
    HVD_TRY(check_quietly(run));
    HVD_TRY(maybe(run, "boundary_commit", TINY_STATE, commit));
    (void)count_threads(tell);
    return HVD_OK;
}

/* ---- start --------------------------------------------------------------- */

/* What the library does is seen here? Else all would be zero. */
static bool witness_sees(void)
{
    hvd_state_t *state;
    struct witness seen;
    void *ptr;
    hvd_status_t status;

    witness_begin();
    status = hvd_state_create(&state);
    ptr = hvd_alloc((size_t)4 << 20);
    hvd_free(ptr);
    hvd_state_destroy(state);
    seen = witness_end();
    return status == HVD_OK && ptr && seen.allocations > 0 && seen.frees > 0 &&
           (seen.maps > 0 || !witness_counts_maps);
}

static hvd_status_t allocate(const struct run *run, float **ptr_p)
{
    void *ptr = NULL;

    if (run->shared)
        ptr = hvd_alloc(run->large_nbytes);
    else
        ptr = aligned_alloc(4096, run->large_nbytes);
    if (ptr == NULL)
        return HVD_ERR_NOMEM;
    memset(ptr, 0, run->large_nbytes);
    *ptr_p = ptr;
    return HVD_OK;
}

static hvd_status_t start(struct run *run, char **argv, hvd_state_t *state)
{
    run->shared = strcmp(argv[1], "alloc") == 0;
    run->n_small = strtoul(argv[2], NULL, 10);
    run->n_large = strtoul(argv[3], NULL, 10);
    run->large_nbytes = strtoul(argv[4], NULL, 10) & ~(size_t)4095;
    run->words = argv[5];
    if (run->large_nbytes <= MIDDLE_NBYTES)
        return HVD_ERR_INVALID;
    HVD_TRY(allocate(run, &run->send));
    HVD_TRY(allocate(run, &run->recv));
    return hvd_state_add(state, "tiny", run->tiny, sizeof(run->tiny));
}

int main(int argc, char **argv)
{
    static struct run run;
    hvd_state_t *state;
    hvd_status_t status;

    if (argc != 5 && argc != 6) {
        fprintf(stderr, "steady_worker is started by bench/steady\n");
        return 2;
    }
    if (!witness_sees()) {
        fprintf(stderr, "steady_worker: calls of the library are not seen\n");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    if (hvd_state_create(&state) != HVD_OK || hvd_init(NULL) != HVD_OK)
        return 1;
    status = start(&run, argv, state);
    if (status == HVD_OK)
        status = hvd_elastic_run(state, train, &run);
    if (status != HVD_OK)
        fprintf(stderr, "steady_worker: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
    hvd_state_destroy(state);
    return hvd_shutdown() == HVD_OK && status == HVD_OK ? 0 : 1;
}
