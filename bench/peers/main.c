/* bench/peers/main.c - measure one collective of a peer; see peer.h.
 *
 *     PROGRAM COLLECTIVE --sizes=A,B/WAY,... --json=FILE [--time=MS]
 *         [--gate=FILE] [--pin] [--row=N] [--buffers=own] [--sweep]
 *
 * float32, sum, root 0, page-aligned memory, ordinary or the library's own;
 * allreduce in place, the others from one buffer to another. A size without a
 * way is measured by the one that is fastest in a few calls. Rank 0 appends one
 * JSON object per size to FILE, in the words of hvd-perf. --row is that of
 * hvd-perf. Exit status 1 if a result is wrong.
 *
 * --sweep makes a few calls by every way and tells each: who starts this can
 * then ask for those that are worth it.
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

enum { POINTS_MAX = 512, PAGE = 4096 };
enum { WARMUP = 18 };                      /* hvd-perf is told the same */
enum { CALLS_MIN = 5, CALLS_MAX = 20000 }; /* as in hvd-perf */
enum { PROBES = 3, PROBES_MAX = 100, LOOK_NS = 1000000, PROBE_NS = 5000000 };
enum { BEATEN = 3 };            /* times the best: not tried on */
enum { CHECKED_MAX = 1 << 20 }; /* bytes; above, a sweep checks no results */

struct point {
    size_t nbytes;
    const char *way; /* NULL: the fastest */
};

struct options {
    struct bench_case c;
    struct point points[POINTS_MAX];
    size_t n_points;
    int64_t time_ms;
    size_t row;
    const char *json, *gate;
    bool pin, own_memory, sweep;
};

/* What is measured now. */
struct state {
    const struct options *o;
    struct bench_case c;
    size_t asked; /* bytes */
    void *send, *recv;
    int64_t settle_ns; /* 0 but at the first measurement */
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "peer: %s: %s\n", what, why);
    exit(1);
}

/* ---- options ------------------------------------------------------------- */

static void parse_points(struct options *o, char *list)
{
    char *rest = NULL;

    for (char *at = strtok_r(list, ",", &rest); at;
         at = strtok_r(NULL, ",", &rest)) {
        char *end;

        if (o->n_points == POINTS_MAX)
            fail("--sizes", "too many");
        o->points[o->n_points].nbytes = strtoull(at, &end, 10);
        o->points[o->n_points++].way = *end == '/' ? end + 1 : NULL;
    }
}

static void set_option(struct options *o, int option, char *text)
{
    switch (option) {
    case 's':
        parse_points(o, text);
        break;
    case 'j':
        o->json = text;
        break;
    case 't':
        o->time_ms = strtol(text, NULL, 10);
        break;
    case 'g':
        o->gate = text;
        break;
    case 'r':
        o->row = strtoull(text, NULL, 10);
        break;
    case 'b':
        o->own_memory = strcmp(text, "own") == 0;
        break;
    case 'p':
        o->pin = true;
        break;
    case 'w':
        o->sweep = true;
        break;
    default:
        exit(2);
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"sizes", required_argument, NULL, 's'},
        {"json", required_argument, NULL, 'j'},
        {"time", required_argument, NULL, 't'},
        {"gate", required_argument, NULL, 'g'},
        {"row", required_argument, NULL, 'r'},
        {"buffers", required_argument, NULL, 'b'},
        {"pin", no_argument, NULL, 'p'},
        {"sweep", no_argument, NULL, 'w'},
        {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1)
        set_option(o, option, optarg);
    if (optind != argc - 1 || !case_parse(argv[optind], &o->c.kind))
        fail("usage", "one collective is needed");
    if (o->n_points == 0 || !o->json)
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

static struct method_times measure(struct state *s, struct method_limits limits)
{
    struct method_times times;
    int status;

    limits.settle_ns = s->settle_ns;
    limits.row = s->o->row;
    s->settle_ns = 0;
    status = method_measure(&method, NULL, &limits, &times);
    if (status != 0)
        fail("method",
             status == METHOD_LATE ? "a rank does not come" : "no memory");
    return times;
}

/* A few calls of a way. Not more than a first look if the best way's shortest
 * call took a third of this one's: long calls get one there, short ones three,
 * lest one that the system held up decides. */
static struct method_times probe(struct state *s, int way, double best_ns)
{
    struct method_limits look = {
        .warmup = 1, .calls_min = 1, .calls_max = PROBES, .point_ns = LOOK_NS};
    struct method_limits more = {
        .calls_min = PROBES, .calls_max = PROBES_MAX, .point_ns = PROBE_NS};
    struct method_times times;

    peer_prepare(&s->c, way, s->send, s->recv);
    times = measure(s, look);
    if (best_ns > 0 && (double)times.min > BEATEN * best_ns)
        return times;
    return measure(s, more);
}

static int64_t verify(const struct state *s)
{
    case_fill(&s->c, s->send, s->recv);
    peer_call();
    peer_settle();
    return peer_sum(case_count_wrong(&s->c, s->recv));
}

static void print(const struct state *s, int way,
                  const struct method_times *times, int64_t wrong)
{
    const struct bench_case *c = &s->c;
    FILE *out;

    if (c->rank != 0)
        return;
    out = fopen(s->o->json, "a");
    if (!out)
        fail(s->o->json, strerror(errno));
    fprintf(out,
            "{\"collective\":\"%s\",\"ranks\":%d,\"asked\":%zu,\"size\":%zu,"
            "\"count\":%zu,\"dtype\":\"float\",\"way\":\"%s\","
            "\"stat\":\"median\",\"iterations\":%zu,\"time_us\":%.3f,"
            "\"mean_us\":%.3f,\"min_us\":%.3f,\"max_us\":%.3f,"
            "\"first_us\":%.3f,\"far\":%" PRIu64 ",\"wrong\":%" PRId64 "}\n",
            case_name(c->kind), c->size, s->asked, case_nbytes(c), c->count,
            peer_way_name(c->kind, way), times->calls, times->median / 1e3,
            times->mean / 1e3, (double)times->min / 1e3,
            (double)times->max / 1e3, times->first / 1e3, times->far, wrong);
    if (fclose(out) != 0)
        fail(s->o->json, strerror(errno));
}

/* ---- one size ------------------------------------------------------------ */

/* The fastest way for this size, or the only one: equal on all ranks, as the
 * times are. only: -1: all. */
static int try_ways(struct state *s, int only)
{
    int best = -1, n = peer_ways(s->c.kind);
    double best_ns = 0, least_ns = 0;

    for (int way = 0; way < n; way++) {
        struct method_times times;
        int64_t wrong;

        if (!peer_way_suits(&s->c, way) || (only >= 0 && way != only))
            continue;
        times = probe(s, way, least_ns);
        if (best < 0 || times.median < best_ns) {
            best = way;
            best_ns = times.median;
        }
        if (least_ns == 0 || (double)times.min < least_ns)
            least_ns = (double)times.min;
        if (!s->o->sweep)
            continue;
        wrong = case_nbytes(&s->c) <= CHECKED_MAX ? verify(s) : 0;
        print(s, way, &times, wrong);
    }
    return best;
}

static int find_way(enum case_kind kind, const char *name)
{
    int n = peer_ways(kind);

    for (int way = 0; way < n; way++)
        if (strcmp(peer_way_name(kind, way), name) == 0)
            return way;
    fail("no such way", name);
    return 0;
}

/* Wrong elements, of all ranks. */
static int64_t run_point(struct state *s, const char *way_name)
{
    struct method_limits limits = {.warmup = WARMUP,
                                   .calls_min = CALLS_MIN,
                                   .calls_max = CALLS_MAX,
                                   .point_ns = s->o->time_ms * 1000000};
    struct method_times times;
    int64_t wrong;
    int way = way_name ? find_way(s->c.kind, way_name) : -1;

    case_fill(&s->c, s->send, s->recv);
    if (way < 0 || s->o->sweep)
        way = try_ways(s, way);
    if (s->o->sweep)
        return 0;
    peer_prepare(&s->c, way, s->send, s->recv);
    times = measure(s, limits);
    wrong = verify(s);
    print(s, way, &times, wrong);
    return wrong;
}

/* ---- all sizes ----------------------------------------------------------- */

/* Touched, so that no page faults are measured. */
static void *allocate(const struct options *o, size_t nbytes)
{
    size_t pages = (nbytes + PAGE) / PAGE * PAGE;
    void *memory = o->own_memory ? peer_allocate(pages)
                                 : aligned_alloc(PAGE, pages);

    if (!memory)
        fail("buffers", "no memory");
    return memset(memory, 0, pages);
}

static size_t greatest_size(const struct options *o)
{
    size_t greatest_nbytes = 0;

    for (size_t i = 0; i < o->n_points; i++) {
        struct bench_case c = o->c;

        case_resize(&c, o->points[i].nbytes);
        if (case_nbytes(&c) > greatest_nbytes)
            greatest_nbytes = case_nbytes(&c);
    }
    return greatest_nbytes;
}

static int64_t run(const struct options *o)
{
    struct state s = {.o = o, .c = o->c, .settle_ns = METHOD_SETTLE_NS};
    int64_t wrong = 0;

    s.recv = s.send = allocate(o, greatest_size(o));
    if (o->c.kind != CASE_ALLREDUCE)
        s.send = allocate(o, greatest_size(o));
    for (size_t i = 0; i < o->n_points; i++) {
        s.asked = o->points[i].nbytes;
        case_resize(&s.c, s.asked);
        wrong += run_point(&s, o->points[i].way);
    }
    peer_fini();
    if (!o->own_memory && s.send != s.recv)
        free(s.send);
    if (!o->own_memory)
        free(s.recv);
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
