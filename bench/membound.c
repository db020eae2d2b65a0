/* bench/membound.c - how fast an allreduce on one host could be: its memory
 * traffic and nothing else.
 *
 *     membound -n RANKS --sizes=A,B,... --json=FILE [--time=MS] [--pin]
 *
 * RANKS threads with a buffer each, in huge pages, combine float32 in place.
 * Two ways:
 *
 *     pull   each combines its share of all buffers into its own buffer, then
 *            copies the other shares from theirs: nobody writes to a peer
 *     push   each combines its share of all buffers into all of them
 *
 * Stores go through the caches or past them, whichever is faster for the size.
 * There is no protocol but one barrier between the two halves of pull, and no
 * check but one of the result after the timed calls. Measured by method.h, told
 * in the words of hvd-perf; exit status 1 if a result is wrong. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "bench/cases.h"
#include "bench/method.h"

enum { RANKS_MAX = 64, SIZES_MAX = 64, CALLS_MAX = 5000 };
enum { WARMUP = 18 };             /* as bench/compare */
enum { BLOCK = 4096 };            /* elements combined in the first cache */
enum { SPINS = 1000, LINE = 16 }; /* elements of a cache line */
static const size_t HUGE_PAGE = 2 << 20;

struct options {
    size_t sizes[SIZES_MAX];
    size_t n_sizes;
    int64_t time_ms;
    const char *json;
    int ranks;
    bool pin;
};

/* Everybody's; the atomics and `greatest` are written by all threads, the
 * latter under the lock. */
static struct options options = {.ranks = 1, .time_ms = 100};
static float *buffers[RANKS_MAX];
static atomic_uint arrived, rounds;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t greatest[WARMUP + CALLS_MAX + 1];
static atomic_llong wrong;

struct rank {
    struct bench_case c;
    bool push, past_caches;
    pthread_t thread;
};

static const char *const way_names[] = {"pull", "push"};

/* ---- together ------------------------------------------------------------ */

static void meet(void)
{
    unsigned round = atomic_load(&rounds);

    if (atomic_fetch_add(&arrived, 1) + 1 == (unsigned)options.ranks) {
        atomic_store(&arrived, 0);
        atomic_fetch_add(&rounds, 1);
        return;
    }
    for (unsigned i = 0; atomic_load(&rounds) == round; i++)
        if (i > SPINS)
            sched_yield();
}

static int timed_barrier(void *arg)
{
    meet();
    return 0;
}

static int agree(void *arg, int64_t *ns, size_t n)
{
    const struct rank *r = arg;

    if (r->c.rank == 0)
        memset(greatest, 0, n * sizeof(*ns));
    meet();
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n; i++)
        if (ns[i] > greatest[i])
            greatest[i] = ns[i];
    pthread_mutex_unlock(&lock);
    meet();
    memcpy(ns, greatest, n * sizeof(*ns));
    meet();
    return 0;
}

/* ---- the work ------------------------------------------------------------ */

static void store(float *to, const float *from, size_t n, bool past_caches)
{
    size_t i = 0;

#ifdef __SSE__
    if (past_caches && (uintptr_t)to % 16 == 0) {
        for (; i + 4 <= n; i += 4)
            _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
    }
#endif
    memcpy(to + i, from + i, (n - i) * sizeof(float));
}

static void settle_stores(void)
{
#ifdef __SSE__
    _mm_sfence();
#endif
}

/* Where a rank's share begins: shares are whole cache lines. */
static size_t share(const struct bench_case *c, int rank)
{
    size_t lines = (c->count + LINE - 1) / LINE;
    size_t at = lines * (size_t)rank / (size_t)c->size * LINE;

    return at < c->count ? at : c->count;
}

/* mine += the others, up to three of them, in one pass: to stage sums
 * elsewhere costs a fifth of the speed. `back`: the sum goes to the others as
 * well, into the lines that have just been read. */
static inline __attribute__((always_inline)) void add_loop(float *restrict mine,
                                                           float *const *from,
                                                           int n_from, size_t n,
                                                           bool back)
{
    float *restrict a = from[0], *restrict b = from[1], *restrict c = from[2];

    for (size_t i = 0; i < n; i++) {
        float sum = mine[i] + a[i];

        if (n_from > 1)
            sum += b[i];
        if (n_from > 2)
            sum += c[i];
        mine[i] = sum;
        if (back)
            a[i] = sum;
        if (back && n_from > 1)
            b[i] = sum;
        if (back && n_from > 2)
            c[i] = sum;
    }
}

/* Each number of them, and back or not, is a loop of its own. */
static inline __attribute__((always_inline)) void
add_each(float *mine, float *const *from, int n_from, size_t n, bool back)
{
    if (n_from == 1 && back)
        add_loop(mine, from, 1, n, true);
    else if (n_from == 1)
        add_loop(mine, from, 1, n, false);
    else if (n_from == 2 && back)
        add_loop(mine, from, 2, n, true);
    else if (n_from == 2)
        add_loop(mine, from, 2, n, false);
    else if (back)
        add_loop(mine, from, 3, n, true);
    else
        add_loop(mine, from, 3, n, false);
}

#ifdef __x86_64__
__attribute__((target("avx512f"))) static void
add_avx512(float *mine, float *const *from, int n_from, size_t n, bool back)
{
    add_each(mine, from, n_from, n, back);
}

__attribute__((target("avx2"))) static void
add_avx2(float *mine, float *const *from, int n_from, size_t n, bool back)
{
    add_each(mine, from, n_from, n, back);
}
#endif

static void add(float *mine, float *const *from, int n_from, size_t n,
                bool back)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f")) {
        add_avx512(mine, from, n_from, n, back);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        add_avx2(mine, from, n_from, n, back);
        return;
    }
#endif
    add_each(mine, from, n_from, n, back);
}

static void add_all(const struct rank *r, float *sum, size_t first, size_t n,
                    bool back)
{
    float *from[3] = {NULL, NULL, NULL};
    int n_from = 0;

    for (int i = 1; i < r->c.size; i++) {
        from[n_from++] = buffers[(r->c.rank + i) % r->c.size] + first;
        if (n_from == 3 || i == r->c.size - 1) {
            add(sum, from, n_from, n, back);
            n_from = 0;
        }
    }
}

/* At most BLOCK elements: what is stored once more is in the first cache. */
static void combine(const struct rank *r, size_t first, size_t n)
{
    float staged[BLOCK] __attribute__((aligned(64)));
    float *mine = buffers[r->c.rank] + first;
    float *sum = r->past_caches ? staged : mine;
    bool back = r->push && !r->past_caches && r->c.size <= 4;

    if (r->past_caches)
        memcpy(staged, mine, n * sizeof(float));
    add_all(r, sum, first, n, back);
    if (r->past_caches)
        store(mine, sum, n, true);
    for (int k = 0; k < r->c.size && r->push && !back; k++)
        if (k != r->c.rank)
            store(buffers[k] + first, sum, n, r->past_caches);
}

static int timed_call(void *arg)
{
    const struct rank *r = arg;
    size_t end = share(&r->c, r->c.rank + 1);

    for (size_t at = share(&r->c, r->c.rank); at < end; at += BLOCK)
        combine(r, at, end - at < BLOCK ? end - at : BLOCK);
    settle_stores();
    meet();
    if (r->push)
        return 0;
    for (int i = 1; i < r->c.size; i++) {
        int k = (r->c.rank + i) % r->c.size;
        size_t first = share(&r->c, k), n = share(&r->c, k + 1) - first;

        store(buffers[r->c.rank] + first, buffers[k] + first, n,
              r->past_caches);
    }
    settle_stores();
    return 0;
}

/* ---- each size ----------------------------------------------------------- */

static const struct method_ops method = {timed_barrier, timed_call, agree};

static void verify(struct rank *r)
{
    float *mine = buffers[r->c.rank];

    meet();
    case_fill(&r->c, mine, mine);
    meet();
    timed_call(r);
    meet();
    atomic_fetch_add(&wrong, case_count_wrong(&r->c, mine));
}

static struct method_times measure(struct rank *r, bool past_caches)
{
    struct method_limits limits = {.warmup = WARMUP,
                                   .settle_ns = METHOD_SETTLE_NS,
                                   .calls_min = 5,
                                   .calls_max = CALLS_MAX,
                                   .point_ns = options.time_ms * 500000};
    struct method_times times = {0};

    r->past_caches = past_caches;
    if (method_measure(&method, r, &limits, &times) != 0) {
        fprintf(stderr, "membound: no memory\n");
        exit(1);
    }
    verify(r);
    return times;
}

static void print(const struct rank *r, const struct method_times *times)
{
    FILE *out = fopen(options.json, "a");

    if (!out) {
        fprintf(stderr, "membound: %s: %s\n", options.json, strerror(errno));
        exit(1);
    }
    fprintf(out,
            "{\"collective\":\"allreduce\",\"ranks\":%d,\"asked\":%zu,"
            "\"size\":%zu,\"way\":\"%s\",\"iterations\":%zu,\"time_us\":%.3f,"
            "\"mean_us\":%.3f,\"min_us\":%.3f,\"max_us\":%.3f,"
            "\"far\":%" PRIu64 ",\"wrong\":%lld}\n",
            r->c.size, case_nbytes(&r->c), case_nbytes(&r->c),
            way_names[r->push], times->calls, times->median / 1e3,
            times->mean / 1e3, (double)times->min / 1e3,
            (double)times->max / 1e3, times->far, atomic_load(&wrong));
    fclose(out);
}

static void *run(void *arg)
{
    struct rank *r = arg;

    if (options.pin)
        method_pin(r->c.rank);
    for (size_t i = 0; i < 2 * options.n_sizes; i++) {
        struct method_times through, past;

        r->push = i % 2 == 1;
        case_resize(&r->c, options.sizes[i / 2]);
        case_fill(&r->c, buffers[r->c.rank], buffers[r->c.rank]);
        through = measure(r, false);
        past = measure(r, true);
        if (r->c.rank == 0)
            print(r, through.median < past.median ? &through : &past);
    }
    return NULL;
}

/* ---- start --------------------------------------------------------------- */

static bool allocate(void)
{
    size_t nbytes = HUGE_PAGE;

    for (size_t i = 0; i < options.n_sizes; i++)
        if (options.sizes[i] > nbytes)
            nbytes = options.sizes[i];
    nbytes = (nbytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    for (int i = 0; i < options.ranks; i++) {
        buffers[i] = aligned_alloc(HUGE_PAGE, nbytes);
        if (!buffers[i])
            return false;
        madvise(buffers[i], nbytes, MADV_HUGEPAGE);
        memset(buffers[i], 0, nbytes);
    }
    return true;
}

static bool parse(int argc, char **argv)
{
    static const struct option longs[] = {
        {"sizes", required_argument, NULL, 's'},
        {"json", required_argument, NULL, 'j'},
        {"time", required_argument, NULL, 't'},
        {"pin", no_argument, NULL, 'p'},
        {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "n:", longs, NULL)) != -1) {
        if (option == 'n')
            options.ranks = atoi(optarg);
        else if (option == 'j')
            options.json = optarg;
        else if (option == 't')
            options.time_ms = atoi(optarg);
        else if (option == 'p')
            options.pin = true;
        else if (option != 's')
            return false;
        for (char *at = option == 's' ? strtok(optarg, ",") : NULL;
             at && options.n_sizes < SIZES_MAX; at = strtok(NULL, ","))
            options.sizes[options.n_sizes++] = strtoull(at, NULL, 10) /
                                               sizeof(float) * sizeof(float);
    }
    return options.json && options.n_sizes > 0 && options.ranks > 0 &&
           options.ranks <= RANKS_MAX && optind == argc;
}

int main(int argc, char **argv)
{
    static struct rank ranks[RANKS_MAX];

    if (!parse(argc, argv)) {
        fprintf(stderr, "usage: membound -n RANKS --sizes=A,B,... --json=FILE "
                        "[--time=MS] [--pin]\n");
        return 2;
    }
    if (!allocate()) {
        fprintf(stderr, "membound: no memory\n");
        return 1;
    }
    for (int i = 0; i < options.ranks; i++) {
        struct rank *r = &ranks[i];

        r->c = (struct bench_case){.kind = CASE_ALLREDUCE,
                                   .dtype = HVD_FLOAT32,
                                   .op = HVD_SUM,
                                   .rank = i,
                                   .size = options.ranks};
        if (pthread_create(&r->thread, NULL, run, r) != 0)
            return 1;
    }
    for (int i = 0; i < options.ranks; i++)
        pthread_join(ranks[i].thread, NULL);
    return atomic_load(&wrong) != 0;
}
