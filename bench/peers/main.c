/* bench/peers/main.c - measure one collective of a peer; see peer.h.
 *
 *     PROGRAM COLLECTIVE --sizes=A,B,... --json=FILE [--time=MS] [--gate=FILE]
 *         [--pin]
 *
 * float32, sum, root 0, ordinary page-aligned memory; allreduce in place, the
 * others from one buffer to another. Rank 0 appends one JSON object per size to
 * FILE, in the words of hvd-perf. Exit status 1 if a result is wrong.
 *
 * Threads: one. Memory: two buffers of the greatest size. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/gate.h"
#include "bench/method.h"
#include "bench/peers/peer.h"

enum { SIZES_MAX = 64, PAGE = 4096, PROBES = 3 };
enum { WARMUP = 2, CALLS_MIN = 5, CALLS_MAX = 20000 }; /* as in hvd-perf */

struct options {
    struct bench_case c;
    size_t sizes[SIZES_MAX];
    size_t n_sizes;
    int64_t time_ms;
    const char *json, *gate;
    bool pin;
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "peer: %s: %s\n", what, why);
    exit(1);
}

/* ---- options ------------------------------------------------------------- */

static void parse_sizes(struct options *o, char *list)
{
    char *rest = NULL;

    for (char *at = strtok_r(list, ",", &rest); at;
         at = strtok_r(NULL, ",", &rest)) {
        if (o->n_sizes == SIZES_MAX)
            fail("--sizes", "too many");
        o->sizes[o->n_sizes++] = strtoull(at, NULL, 10);
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"sizes", required_argument, NULL, 's'},
        {"json", required_argument, NULL, 'j'},
        {"time", required_argument, NULL, 't'},
        {"gate", required_argument, NULL, 'g'},
        {"pin", no_argument, NULL, 'p'},
        {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
        if (option == 's')
            parse_sizes(o, optarg);
        else if (option == 'j')
            o->json = optarg;
        else if (option == 't')
            o->time_ms = strtol(optarg, NULL, 10);
        else if (option == 'g')
            o->gate = optarg;
        else if (option == 'p')
            o->pin = true;
        else
            exit(2);
    }
    if (optind != argc - 1 || !case_parse(argv[optind], &o->c.kind))
        fail("usage", "one collective is needed");
    if (o->n_sizes == 0 || !o->json)
        fail("usage", "--sizes and --json are needed");
}

/* ---- measuring ----------------------------------------------------------- */

static int timed_barrier(void *arg)
{
    peer_barrier();
    return 0;
}

static int timed_call(void *arg)
{
    peer_call();
    return 0;
}

static int greatest(void *arg, int64_t *ns, size_t n)
{
    peer_max(ns, n);
    return 0;
}

static const struct method_ops method = {timed_barrier, timed_call, greatest};

static struct method_times measure(const struct method_limits *limits)
{
    struct method_times times;
    int status = method_measure(&method, NULL, limits, &times);

    if (status != 0)
        fail("method",
             status == METHOD_LATE ? "a rank does not come" : "no memory");
    return times;
}

/* The fastest way for this size: equal on all ranks, as the times are. */
static int choose_way(const struct bench_case *c, int64_t settle_ns, void *send,
                      void *recv)
{
    struct method_limits limits = {.warmup = 1,
                                   .settle_ns = settle_ns,
                                   .calls_min = PROBES,
                                   .calls_max = 100,
                                   .point_ns = 5000000};
    int best = 0, n = peer_ways(c->kind);
    double best_ns = 0;

    for (int way = 0; way < n && n > 1; way++) {
        double ns;

        peer_prepare(c, way, send, recv);
        ns = measure(&limits).median;
        limits.settle_ns = 0;
        if (way == 0 || ns < best_ns) {
            best = way;
            best_ns = ns;
        }
    }
    return best;
}

static int64_t verify(const struct bench_case *c, void *send, void *recv)
{
    case_fill(c, send, recv);
    peer_call();
    peer_settle();
    return peer_sum(case_count_wrong(c, recv));
}

static void print(const struct options *o, const struct bench_case *c,
                  size_t asked, const char *way,
                  const struct method_times *times, int64_t wrong)
{
    FILE *out = fopen(o->json, "a");

    if (!out)
        fail(o->json, strerror(errno));
    fprintf(out,
            "{\"collective\":\"%s\",\"ranks\":%d,\"asked\":%zu,\"size\":%zu,"
            "\"count\":%zu,\"dtype\":\"float\",\"way\":\"%s\","
            "\"stat\":\"median\",\"iterations\":%zu,\"time_us\":%.3f,"
            "\"mean_us\":%.3f,\"min_us\":%.3f,\"max_us\":%.3f,"
            "\"wrong\":%" PRId64 "}\n",
            case_name(c->kind), c->size, asked, case_nbytes(c), c->count, way,
            times->calls, times->median / 1e3, times->mean / 1e3,
            (double)times->min / 1e3, (double)times->max / 1e3, wrong);
    if (fclose(out) != 0)
        fail(o->json, strerror(errno));
}

/* Wrong elements, of all ranks. */
static int64_t run_size(const struct options *o, size_t nbytes, void *send,
                        void *recv)
{
    struct bench_case c = o->c;
    struct method_limits limits = {.warmup = WARMUP,
                                   .calls_min = CALLS_MIN,
                                   .calls_max = CALLS_MAX,
                                   .point_ns = o->time_ms * 1000000};
    struct method_times times;
    int64_t wrong;
    int way;

    if (nbytes == o->sizes[0])
        limits.settle_ns = METHOD_SETTLE_NS;
    case_resize(&c, nbytes);
    case_fill(&c, send, recv);
    way = choose_way(&c, limits.settle_ns, send, recv);
    peer_prepare(&c, way, send, recv);
    times = measure(&limits);
    wrong = verify(&c, send, recv);
    if (c.rank == 0)
        print(o, &c, nbytes, peer_way_name(c.kind, way), &times, wrong);
    return wrong;
}

/* Touched, so that no page faults are measured. */
static void *allocate(size_t nbytes)
{
    void *memory = aligned_alloc(PAGE, (nbytes + PAGE) / PAGE * PAGE);

    if (!memory)
        fail("buffers", "no memory");
    return memset(memory, 0, nbytes);
}

static size_t greatest_size(const struct options *o)
{
    size_t greatest_nbytes = 0;

    for (size_t i = 0; i < o->n_sizes; i++) {
        struct bench_case c = o->c;

        case_resize(&c, o->sizes[i]);
        if (case_nbytes(&c) > greatest_nbytes)
            greatest_nbytes = case_nbytes(&c);
    }
    return greatest_nbytes;
}

static int64_t run(const struct options *o)
{
    void *recv = allocate(greatest_size(o)), *send = recv;
    int64_t wrong = 0;

    if (o->c.kind != CASE_ALLREDUCE)
        send = allocate(greatest_size(o));
    for (size_t i = 0; i < o->n_sizes; i++)
        wrong += run_size(o, o->sizes[i], send, recv);
    peer_fini();
    if (send != recv)
        free(send);
    free(recv);
    return wrong;
}

int main(int argc, char **argv)
{
    struct options o = {.c = {.dtype = HVD_FLOAT32, .op = HVD_SUM},
                        .time_ms = 100};
    int64_t wrong;
    int error;

    peer_init(&argc, &argv, &o.c.rank, &o.c.size);
    parse(argc, argv, &o);
    error = o.pin ? method_pin(o.c.rank) : 0;
    if (error != 0)
        fail("--pin", strerror(error));
    error = o.gate ? gate_open(o.gate, o.c.size, !o.pin) : 0;
    if (error != 0)
        fail(o.gate, strerror(error));
    if (peer_ways(o.c.kind) == 0) {
        peer_fini();
        return 0;
    }
    wrong = run(&o);
    if (wrong != 0)
        fprintf(stderr, "peer: %" PRId64 " elements are wrong\n", wrong);
    return wrong != 0;
}
