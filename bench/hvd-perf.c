/* bench/hvd-perf.c - how fast collectives are, in the manner of nccl-tests.
 *
 *     hvd-elastic -np 4 -H localhost:4 -- hvd-perf allreduce -b 4 -e 256M -f 4
 *
 * One line per size (cases.h says of which buffer). The time is that of one
 * call, on the slowest rank: the mean over calls made one right after the
 * other, as in nccl-tests, or with --stat=median that of method.h, where each
 * call stands alone. algbw is size / time, busbw what the busiest link carries.
 * Each size is checked by a call of its own after the timed ones. Exit status 1
 * if an element is wrong on any rank.
 *
 * A static program. Threads: one. Memory: two buffers of the greatest size. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hvd/hvd.h>

#include "bench/cases.h"
#include "bench/gate.h"
#include "bench/method.h"

enum {
    OPTION_JSON = 256,
    OPTION_IN_PLACE,
    OPTION_SIZES,
    OPTION_BUFFERS,
    OPTION_STAT,
    OPTION_TIME,
    OPTION_GATE,
    OPTION_PIN,
    OPTION_ROW
};

enum { SIZES_MAX = 64, PAGE = 4096 };
enum { CALLS_MIN = 5, CALLS_MAX = 20000 }; /* without -n */

static const hvd_status_t USER_FAILURE = (hvd_status_t)-1001;

struct options {
    struct bench_case c; /* what does not depend on the size */
    size_t sizes[SIZES_MAX];
    size_t n_sizes;
    size_t begin, end, factor; /* bytes; without --sizes */
    uint64_t iterations;       /* 0: as many as fit time_ms */
    uint64_t warmup, time_ms;
    uint64_t row; /* calls behind a barrier, with --stat=median */
    const char *gate;
    bool in_place, json, median, ordinary, pin;
};

struct buffers {
    void *memory[2]; /* [nbytes] each; in place only the first */
    size_t nbytes;
};

/* One call, as its two pointers see it. */
struct operation {
    struct bench_case c;
    void *send, *recv;
};

struct result {
    size_t nbytes; /* as asked for; the case's may be rounded up */
    struct bench_case c;
    struct method_times times; /* mean: only calls and mean */
    double us;
    int64_t wrong; /* elements, of all ranks; -1: not exact, not checked */
};

struct name {
    const char *text;
    int value;
};

static const struct name dtypes[] = {
    {"int8", HVD_INT8},         {"uint8", HVD_UINT8},
    {"int32", HVD_INT32},       {"int64", HVD_INT64},
    {"half", HVD_FLOAT16},      {"float16", HVD_FLOAT16},
    {"bfloat16", HVD_BFLOAT16}, {"float", HVD_FLOAT32},
    {"float32", HVD_FLOAT32},   {"double", HVD_FLOAT64},
    {"float64", HVD_FLOAT64},   {NULL, 0},
};

static const struct name ops[] = {
    {"sum", HVD_SUM},         {"avg", HVD_AVERAGE},
    {"average", HVD_AVERAGE}, {"min", HVD_MIN},
    {"max", HVD_MAX},         {"prod", HVD_PRODUCT},
    {"product", HVD_PRODUCT}, {NULL, 0},
};

static const struct name stats[] = {{"mean", 0}, {"median", 1}, {NULL, 0}};
static const struct name kinds_of_memory[] = {
    {"alloc", 0}, {"malloc", 1}, {NULL, 0}};

static const char usage[] =
    "usage: hvd-perf COLLECTIVE [options]\n"
    "  allreduce broadcast allgather reduce_scatter alltoall barrier\n"
    "  -b SIZE   smallest size in bytes, as 4, 64K, 1M (4)\n"
    "  -e SIZE   greatest size (32M)\n"
    "  -f N      each size is N times the one before (2)\n"
    "  -n N      timed calls per size (as many as fit --time, 5 to 20000)\n"
    "  -w N      calls before them (2)\n"
    "  -d TYPE   int8 uint8 int32 int64 half bfloat16 float double (float)\n"
    "  -o OP     sum avg min max prod (sum)\n"
    "  -r RANK   root of a broadcast (0)\n"
    "  --sizes A,B,...         these sizes instead of -b, -e and -f\n"
    "  --in-place              the result replaces the operand\n"
    "  --buffers alloc|malloc  from hvd_alloc, or ordinary memory (alloc)\n"
    "  --stat mean|median      calls in a row, or each after a barrier (mean)\n"
    "                          median: 100 ms of them go before the first\n"
    "  --row N                 median: behind a barrier N calls in a row, and\n"
    "                          the figure is of one of them (1)\n"
    "  --time MS               how long to measure each size (300)\n"
    "  --gate FILE             median: ranks also meet in the memory of this\n"
    "                          new file, and time begins for all at once\n"
    "  --pin                   bind each rank to the processor of its slot\n"
    "  --json[=FILE]           one JSON object per size, to FILE or stdout\n";

/* ---- one size ------------------------------------------------------------ */

static void operation_init(struct operation *x, const struct options *o,
                           const struct buffers *b, size_t nbytes)
{
    char *first = b->memory[0];
    size_t mine;

    x->c = o->c;
    case_resize(&x->c, nbytes);
    mine = (size_t)x->c.rank * x->c.count * x->c.each;
    x->send = first;
    x->recv = o->in_place ? first : b->memory[1];
    if (o->in_place && x->c.kind == CASE_ALLGATHER)
        x->send = first + mine;
    if (o->in_place && x->c.kind == CASE_REDUCE_SCATTER)
        x->recv = first + mine;
}

static hvd_status_t operation_call(const struct operation *x)
{
    const struct bench_case *c = &x->c;

    switch (c->kind) {
    case CASE_ALLREDUCE:
        return hvd_allreduce(x->send, x->recv, c->count, c->dtype, c->op);
    case CASE_BROADCAST:
        return hvd_broadcast(x->recv, c->count, c->dtype, c->root);
    case CASE_ALLGATHER:
        return hvd_allgather(x->send, x->recv, c->count, c->dtype);
    case CASE_REDUCE_SCATTER:
        return hvd_reduce_scatter(x->send, x->recv, c->count, c->dtype, c->op);
    case CASE_ALLTOALL:
        return hvd_alltoall(x->send, x->recv, c->count, c->dtype);
    default:
        return hvd_barrier();
    }
}

static int timed_call(void *arg)
{
    return (int)operation_call(arg);
}

static int timed_barrier(void *arg)
{
    return (int)hvd_barrier();
}

static int greatest(void *arg, int64_t *ns, size_t n)
{
    return (int)hvd_allreduce(ns, ns, n, HVD_INT64, HVD_MAX);
}

static const struct method_ops method = {timed_barrier, timed_call, greatest};

/* Nanoseconds that n calls in a row take on the slowest rank. */
static hvd_status_t time_calls(struct operation *x, uint64_t n, int64_t *ns_p)
{
    int64_t start, ns;

    HVD_TRY(hvd_barrier());
    start = method_now_ns();
    for (uint64_t i = 0; i < n; i++)
        HVD_TRY(operation_call(x));
    ns = method_now_ns() - start;
    return hvd_allreduce(&ns, ns_p, 1, HVD_INT64, HVD_MAX);
}

static uint64_t choose_iterations(const struct options *o, int64_t warmup_ns)
{
    uint64_t one_ns = (uint64_t)warmup_ns / (o->warmup ? o->warmup : 1) + 1;
    uint64_t n = o->time_ms * 1000000 / one_ns;

    if (o->iterations)
        return o->iterations;
    if (n < CALLS_MIN)
        return CALLS_MIN;
    return n < CALLS_MAX ? n : CALLS_MAX;
}

static hvd_status_t measure_mean(const struct options *o, struct operation *x,
                                 struct method_times *times)
{
    int64_t ns;

    HVD_TRY(time_calls(x, o->warmup, &ns));
    times->calls = choose_iterations(o, ns);
    HVD_TRY(time_calls(x, times->calls, &ns));
    times->mean = (double)ns / (double)times->calls;
    return HVD_OK;
}

static hvd_status_t measure_median(const struct options *o, struct operation *x,
                                   bool first, struct method_times *times)
{
    size_t n = o->iterations;
    struct method_limits limits = {.warmup = o->warmup,
                                   .calls_min = n ? n : CALLS_MIN,
                                   .calls_max = n ? n : CALLS_MAX,
                                   .point_ns = (int64_t)o->time_ms * 1000000,
                                   .row = o->row};
    int status;

    if (first && n == 0)
        limits.settle_ns = METHOD_SETTLE_NS;
    status = method_measure(&method, x, &limits, times);
    if (status == METHOD_LATE)
        fprintf(stderr, "hvd-perf: --gate: a rank does not come\n");
    if (status != METHOD_NOMEM)
        return status == METHOD_LATE ? USER_FAILURE : (hvd_status_t)status;
    fprintf(stderr, "hvd-perf: no memory for the times of %zu calls\n",
            limits.calls_max);
    return USER_FAILURE;
}

static hvd_status_t verify(struct operation *x, struct result *r)
{
    bool exact = case_is_exact(&x->c);
    int64_t wrong;

    case_fill(&x->c, x->send, x->recv);
    HVD_TRY(operation_call(x));
    wrong = exact ? case_count_wrong(&x->c, x->recv) : 0;
    HVD_TRY(hvd_allreduce(&wrong, &r->wrong, 1, HVD_INT64, HVD_SUM));
    if (!exact)
        r->wrong = -1;
    return HVD_OK;
}

static hvd_status_t measure(const struct options *o, const struct buffers *b,
                            size_t nbytes, struct result *r)
{
    struct operation x;

    operation_init(&x, o, b, nbytes);
    r->nbytes = nbytes;
    r->c = x.c;
    case_fill(&x.c, x.send, x.recv);
    if (o->median)
        HVD_TRY(measure_median(o, &x, nbytes == o->sizes[0], &r->times));
    else
        HVD_TRY(measure_mean(o, &x, &r->times));
    r->us = (o->median ? r->times.median : r->times.mean) / 1e3;
    return verify(&x, r);
}

/* ---- output (rank 0) ----------------------------------------------------- */

/* Does the option's name start the list of its value's names? */
static const char *name_of(const struct name *names, int value)
{
    while (names->text && names->value != value)
        names++;
    return names->text ? names->text : "?";
}

static bool has_op(enum case_kind kind)
{
    return kind == CASE_ALLREDUCE || kind == CASE_REDUCE_SCATTER;
}

static void print_head(const struct options *o)
{
    enum case_kind kind = o->c.kind;

    if (o->json)
        return;
    printf("# hvd-perf %s, %d ranks, %d on this host%s%s\n", case_name(kind),
           hvd_size(), hvd_local_size(), o->in_place ? ", in place" : "",
           o->ordinary ? ", ordinary buffers" : "");
    printf("#%12s %12s %9s %9s %10s %8s %8s %8s\n", "size", "count", "type",
           has_op(kind) ? "op" : "root", "time", "algbw", "busbw", "wrong");
    printf("#%12s %12s %9s %9s %10s %8s %8s\n", "(B)", "(elements)", "", "",
           "(us)", "(GB/s)", "(GB/s)");
}

static void print_json(const struct options *o, const struct result *r,
                       const char *what, double algbw, double busbw, FILE *out)
{
    const struct bench_case *c = &r->c;

    fprintf(out,
            "{\"collective\":\"%s\",\"ranks\":%d,\"asked\":%zu,"
            "\"size\":%zu,\"count\":%zu,\"dtype\":\"%s\",\"%s\":\"%s\","
            "\"in_place\":%s,\"buffers\":\"%s\",\"stat\":\"%s\","
            "\"iterations\":%zu,\"time_us\":%.3f,",
            case_name(c->kind), c->size, r->nbytes, case_nbytes(c), c->count,
            name_of(dtypes, (int)c->dtype), has_op(c->kind) ? "op" : "root",
            what, o->in_place ? "true" : "false",
            kinds_of_memory[o->ordinary].text, stats[o->median].text,
            r->times.calls, r->us);
    if (o->median)
        fprintf(out,
                "\"mean_us\":%.3f,\"min_us\":%.3f,\"max_us\":%.3f,"
                "\"first_us\":%.3f,\"far\":%" PRIu64 ",",
                r->times.mean / 1e3, (double)r->times.min / 1e3,
                (double)r->times.max / 1e3, r->times.first / 1e3, r->times.far);
    fprintf(out, "\"algbw_gbs\":%.4f,\"busbw_gbs\":%.4f,\"wrong\":", algbw,
            busbw);
    if (r->wrong < 0)
        fprintf(out, "null}\n");
    else
        fprintf(out, "%" PRId64 "}\n", r->wrong);
}

static void print_result(const struct options *o, const struct result *r,
                         FILE *out)
{
    const struct bench_case *c = &r->c;
    double algbw = (double)case_nbytes(c) / 1e3 / r->us;
    double busbw = algbw * case_bus_factor(c);
    char what[16], wrong[24] = "n/a";

    snprintf(what, sizeof(what), "%s", name_of(ops, (int)c->op));
    if (!has_op(c->kind))
        snprintf(what, sizeof(what), "%d", c->root);
    if (r->wrong >= 0)
        snprintf(wrong, sizeof(wrong), "%" PRId64, r->wrong);
    if (o->json)
        print_json(o, r, what, algbw, busbw, out);
    else
        printf(" %12zu %12zu %9s %9s %10.2f %8.3f %8.3f %8s\n", case_nbytes(c),
               c->count, name_of(dtypes, (int)c->dtype), what, r->us, algbw,
               busbw, wrong);
    fflush(out);
}

/* ---- all sizes ----------------------------------------------------------- */

static hvd_status_t allocate_one(const struct options *o, size_t nbytes,
                                 void **memory_p)
{
    if (o->ordinary)
        *memory_p = aligned_alloc(PAGE, (nbytes + PAGE - 1) / PAGE * PAGE);
    else
        *memory_p = hvd_alloc(nbytes);
    if (*memory_p)
        return HVD_OK;
    fprintf(stderr, "hvd-perf: no memory for %zu bytes\n", nbytes);
    return USER_FAILURE;
}

static void release(const struct options *o, struct buffers *b)
{
    for (size_t i = 0; i < 2; i++) {
        if (o->ordinary)
            free(b->memory[i]);
        else
            hvd_free(b->memory[i]);
    }
}

/* Touches all of it: no page faults in the first calls. */
static hvd_status_t allocate(const struct options *o, struct buffers *b)
{
    b->nbytes = PAGE;
    for (size_t i = 0; i < o->n_sizes; i++) {
        struct bench_case c = o->c;

        case_resize(&c, o->sizes[i]);
        if (case_nbytes(&c) > b->nbytes)
            b->nbytes = case_nbytes(&c);
    }
    for (size_t i = 0; i < (o->in_place ? 1 : 2); i++) {
        HVD_TRY(allocate_one(o, b->nbytes, &b->memory[i]));
        memset(b->memory[i], 0, b->nbytes);
    }
    return HVD_OK;
}

static hvd_status_t enter_world(struct options *o)
{
    int error = o->pin ? method_pin(hvd_slot()) : 0;

    if (error != 0) {
        fprintf(stderr, "hvd-perf: --pin: %s\n", strerror(error));
        return USER_FAILURE;
    }
    HVD_TRY(hvd_world_start());
    o->c.rank = hvd_rank();
    o->c.size = hvd_size();
    if (o->c.root >= o->c.size) {
        fprintf(stderr, "hvd-perf: -r: %d of %d ranks\n", o->c.root, o->c.size);
        return USER_FAILURE;
    }
    error = o->gate ? gate_open(o->gate, o->c.size, !o->pin) : 0;
    if (error == 0)
        return HVD_OK;
    fprintf(stderr, "hvd-perf: --gate: %s: %s\n", o->gate, strerror(error));
    return USER_FAILURE;
}

static hvd_status_t run(struct options *o, FILE *json, int64_t *wrong_p)
{
    struct buffers b = {0};
    hvd_status_t status;
    struct result r = {0};

    *wrong_p = 0;
    HVD_TRY(enter_world(o));
    HVD_TRY_GOTO(allocate(o, &b), out);
    if (hvd_rank() == 0)
        print_head(o);
    for (size_t i = 0; i < o->n_sizes; i++) {
        HVD_TRY_GOTO(measure(o, &b, o->sizes[i], &r), out);
        *wrong_p += r.wrong > 0 ? r.wrong : 0;
        if (hvd_rank() == 0)
            print_result(o, &r, json);
    }
out:
    release(o, &b);
    return status;
}

/* ---- options ------------------------------------------------------------- */

static bool bad(const char *what, const char *text)
{
    fprintf(stderr, "hvd-perf: %s: %s (see --help)\n", what, text);
    return false;
}

static bool parse_number(const char *what, const char *text, uint64_t min,
                         uint64_t *value_p)
{
    unsigned shift = 0;
    char *end;

    errno = 0;
    *value_p = strtoull(text, &end, 10);
    if (end != text && *end != '\0') {
        const char *units = "KMG", *unit = strchr(units, *end & ~0x20);

        if (unit && end[1] == '\0')
            shift = 10 * (unsigned)(unit - units + 1);
        else
            return bad(what, text);
    }
    if (end == text || text[0] == '-' || errno != 0 ||
        *value_p > UINT64_MAX >> 24 >> shift)
        return bad(what, text);
    *value_p <<= shift;
    return *value_p >= min || bad(what, text);
}

static bool parse_name(const char *what, const char *text,
                       const struct name *names, int *value_p)
{
    while (names->text && strcmp(names->text, text) != 0)
        names++;
    *value_p = names->value;
    return names->text || bad(what, text);
}

static bool set_size_option(struct options *o, int option, const char *text)
{
    const char what[] = {'-', (char)option, '\0'};
    uint64_t number;

    if (!parse_number(what, text, option == 'f' ? 2 : 1, &number))
        return false;
    if (option == 'b')
        o->begin = number;
    else if (option == 'e')
        o->end = number;
    else
        o->factor = number;
    return true;
}

static bool parse_sizes(struct options *o, const char *list)
{
    char *copy = strdup(list), *rest = NULL;
    bool good = copy != NULL;

    for (char *at = strtok_r(copy, ",", &rest); good && at;
         at = strtok_r(NULL, ",", &rest)) {
        uint64_t number;

        good = o->n_sizes < SIZES_MAX ? parse_number("--sizes", at, 1, &number)
                                      : bad("--sizes: too many", list);
        if (good)
            o->sizes[o->n_sizes++] = number;
    }
    free(copy);
    return good && (o->n_sizes > 0 || bad("--sizes", list));
}

static bool parse_flag(const char *what, const char *text,
                       const struct name *names, bool *flag_p)
{
    int value;
    bool good = parse_name(what, text, names, &value);

    *flag_p = value != 0;
    return good;
}

static bool set_option(struct options *o, int option, const char *text)
{
    uint64_t number = 0;
    int value = 0;
    bool good = true;

    switch (option) {
    case 'b':
    case 'e':
    case 'f':
        return set_size_option(o, option, text);
    case 'n':
        return parse_number("-n", text, 1, &o->iterations);
    case 'w':
        return parse_number("-w", text, 0, &o->warmup);
    case 'd':
        good = parse_name("-d", text, dtypes, &value);
        o->c.dtype = (hvd_dtype_t)value;
        return good;
    case 'o':
        good = parse_name("-o", text, ops, &value);
        o->c.op = (hvd_op_t)value;
        return good;
    case 'r':
        good = parse_number("-r", text, 0, &number) && number <= INT32_MAX;
        o->c.root = (int)number;
        return good;
    case OPTION_SIZES:
        return parse_sizes(o, text);
    case OPTION_BUFFERS:
        return parse_flag("--buffers", text, kinds_of_memory, &o->ordinary);
    case OPTION_STAT:
        return parse_flag("--stat", text, stats, &o->median);
    case OPTION_ROW:
        return parse_number("--row", text, 1, &o->row);
    case OPTION_TIME:
        return parse_number("--time", text, 1, &o->time_ms);
    case OPTION_IN_PLACE:
        o->in_place = true;
        return true;
    case OPTION_GATE:
        o->gate = text;
        return true;
    case OPTION_PIN:
        o->pin = true;
        return true;
    default: /* getopt has said what */
        return false;
    }
}

static bool list_sizes(struct options *o)
{
    if (o->c.kind == CASE_BARRIER) {
        o->n_sizes = 1;
        o->sizes[0] = 0;
        return true;
    }
    if (o->n_sizes > 0)
        return true;
    if (o->begin > o->end)
        return bad("-b is greater than -e", "nothing to do");
    for (size_t n = o->begin; n <= o->end && o->n_sizes < SIZES_MAX;
         n *= o->factor)
        o->sizes[o->n_sizes++] = n;
    return true;
}

static bool parse(int argc, char **argv, struct options *o,
                  const char **json_path_p)
{
    static const struct option longs[] = {
        {"json", optional_argument, NULL, OPTION_JSON},
        {"in-place", no_argument, NULL, OPTION_IN_PLACE},
        {"sizes", required_argument, NULL, OPTION_SIZES},
        {"buffers", required_argument, NULL, OPTION_BUFFERS},
        {"stat", required_argument, NULL, OPTION_STAT},
        {"time", required_argument, NULL, OPTION_TIME},
        {"row", required_argument, NULL, OPTION_ROW},
        {"gate", required_argument, NULL, OPTION_GATE},
        {"pin", no_argument, NULL, OPTION_PIN},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, "b:e:f:n:w:d:o:r:h", longs,
                                 NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        if (option == OPTION_JSON) {
            o->json = true;
            *json_path_p = optarg;
        } else if (!set_option(o, option, optarg)) {
            return false;
        }
    }
    if (optind != argc - 1)
        return bad("one collective is needed", "allreduce, broadcast, ...");
    if (!case_parse(argv[optind], &o->c.kind))
        return bad("no such collective", argv[optind]);
    return list_sizes(o);
}

/* ---- start --------------------------------------------------------------- */

/* Only rank 0 writes, but who that is shows too late to refuse a bad path. */
static FILE *open_json(const char *path)
{
    FILE *file = path ? fopen(path, "a") : stdout;

    if (!file)
        fprintf(stderr, "hvd-perf: %s: %s\n", path, strerror(errno));
    return file;
}

int main(int argc, char **argv)
{
    struct options o = {.begin = 4,
                        .end = 32 << 20,
                        .factor = 2,
                        .warmup = 2,
                        .time_ms = 300,
                        .c = {.dtype = HVD_FLOAT32, .op = HVD_SUM}};
    const char *json_path = NULL;
    int64_t wrong = 0;
    hvd_status_t status;
    FILE *json;

    if (!parse(argc, argv, &o, &json_path))
        return 2;
    json = open_json(json_path);
    if (!json)
        return 2;
    status = hvd_init(NULL);
    if (status == HVD_OK)
        status = run(&o, json, &wrong);
    if (status != HVD_OK && status != USER_FAILURE)
        fprintf(stderr, "hvd-perf: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
    if (status != HVD_OK || wrong != 0)
        return 1; /* without a goodbye: the job has failed */
    if (hvd_shutdown() != HVD_OK)
        return 1;
    if (json != stdout && fclose(json) != 0) {
        fprintf(stderr, "hvd-perf: %s: %s\n", json_path, strerror(errno));
        return 1;
    }
    return 0;
}
