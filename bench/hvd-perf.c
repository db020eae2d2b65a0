/* bench/hvd-perf.c - how fast collectives are, in the manner of nccl-tests.
 *
 *     hvd-elastic -np 4 -H localhost:4 -- hvd-perf allreduce -b 4 -e 256M -f 4
 *
 * One line per size: the time of one call is the mean over the iterations, of
 * the slowest rank. algbw is size / time. busbw is algbw x 2 (n - 1) / n for
 * allreduce and algbw for broadcast: what the links carry, comparable over n
 * (nccl-tests, doc/PERFORMANCE.md). Each size is checked by a call of its own
 * after the timed ones: operands are small integers whose results are exact in
 * every dtype, so one wrong bit is a wrong element. Exit status 1 if there are
 * any.
 *
 * A static program. Threads: one. Memory: two buffers of the greatest size,
 * from hvd_alloc. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hvd/hvd.h>

enum { OPTION_JSON = 256, OPTION_IN_PLACE };

static const hvd_status_t USER_FAILURE = (hvd_status_t)-1001;

/* without -n: as many calls as take this long, within these limits */
enum { AUTO_NS = 300000000, AUTO_MIN = 5, AUTO_MAX = 2000 };

struct options {
    bool broadcast, in_place, json;
    size_t begin, end, factor; /* bytes */
    uint64_t iterations;       /* 0: AUTO */
    uint64_t warmup;
    hvd_dtype_t dtype;
    hvd_op_t op;
    int root;
};

struct buffers {
    void *send, *recv; /* [end] bytes each; in place: the same */
};

struct result {
    size_t count;
    uint64_t iterations;
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

static const char usage[] =
    "usage: hvd-perf allreduce|broadcast [options]\n"
    "  -b SIZE   smallest size in bytes, as 4, 64K, 1M (4)\n"
    "  -e SIZE   greatest size (32M)\n"
    "  -f N      each size is N times the one before (2)\n"
    "  -n N      timed calls per size (as many as take 0.3 s, 5 to 2000)\n"
    "  -w N      calls before them (2)\n"
    "  -d TYPE   int8 uint8 int32 int64 half bfloat16 float double (float)\n"
    "  -o OP     sum avg min max prod (sum)\n"
    "  -r RANK   root of a broadcast (0)\n"
    "  --in-place      the result replaces the operand\n"
    "  --json[=FILE]   one JSON object per size, to FILE or stdout\n";

/* ---- values -------------------------------------------------------------- */

static uint64_t bit_of(uint64_t i)
{
    return (i * 0x9e3779b97f4a7c15u) >> 63;
}

/* Neighbours in pairs add and take one: the sum over all ranks is 0. */
static int deviation(int rank)
{
    if (rank % 2 == 0)
        return rank + 1 < hvd_size() ? 1 : 0;
    return -1;
}

static uint64_t operand(const struct options *o, uint64_t i)
{
    if (o->op == HVD_PRODUCT)
        return (int)(i % (uint64_t)hvd_size()) == hvd_rank() ? 2 : 1;
    return (uint64_t)(2 + (int)bit_of(i) + deviation(hvd_rank()));
}

static uint64_t expected(const struct options *o, uint64_t i)
{
    uint64_t mean = 2 + bit_of(i), size = (uint64_t)hvd_size();

    switch (o->broadcast ? HVD_AVERAGE : o->op) {
    case HVD_SUM:
        return mean * size;
    case HVD_MIN:
        return size > 1 ? mean - 1 : mean;
    case HVD_MAX:
        return size > 1 ? mean + 1 : mean;
    case HVD_PRODUCT:
        return 2;
    default:
        return mean;
    }
}

/* Are all sums on the way exact, and unwrapped before they are divided? */
static bool is_exact(const struct options *o)
{
    int sum_max = o->broadcast || o->op > HVD_AVERAGE ? 4 : 4 * hvd_size();

    switch (o->dtype) {
    case HVD_INT8:
        return sum_max <= INT8_MAX || o->op == HVD_SUM;
    case HVD_UINT8:
        return sum_max <= UINT8_MAX || o->op == HVD_SUM;
    case HVD_FLOAT16:
        return sum_max <= 2048;
    case HVD_BFLOAT16:
        return sum_max <= 256;
    default:
        return true;
    }
}

/* The bits of a small whole number; 8-bit integers wrap by being cut off. */
static uint64_t encode(hvd_dtype_t dtype, uint64_t value)
{
    float single = (float)value;
    double twice = (double)value;
    uint64_t bits64;
    uint32_t bits;
    int exponent;

    memcpy(&bits, &single, sizeof(bits));
    memcpy(&bits64, &twice, sizeof(bits64));
    switch (dtype) {
    case HVD_FLOAT16: /* value <= 2048: no rounding, no subnormal */
        exponent = (int)(bits >> 23) - 127;
        return value == 0
                   ? 0
                   : (uint64_t)(exponent + 15) << 10 | (bits >> 13 & 0x3ff);
    case HVD_BFLOAT16:
        return bits >> 16;
    case HVD_FLOAT32:
        return bits;
    case HVD_FLOAT64:
        return bits64;
    default:
        return value;
    }
}

/* Little-endian: the low bytes come first. Two values alternate at random, so
 * they are encoded once. */
static void fill(const struct options *o, void *buf, size_t count)
{
    size_t nbytes = hvd_dtype_size(o->dtype);
    uint8_t *at = buf;

    for (size_t i = 0; i < count; i++, at += nbytes) {
        uint64_t value = o->broadcast
                             ? (hvd_rank() == o->root ? expected(o, i) : 0)
                             : operand(o, i);
        uint64_t bits = encode(o->dtype, value);

        memcpy(at, &bits, nbytes);
    }
}

static int64_t count_wrong(const struct options *o, const void *buf,
                           size_t count)
{
    size_t nbytes = hvd_dtype_size(o->dtype);
    const uint8_t *at = buf;
    int64_t wrong = 0;

    for (size_t i = 0; i < count; i++, at += nbytes) {
        uint64_t bits = encode(o->dtype, expected(o, i));

        wrong += memcmp(at, &bits, nbytes) != 0;
    }
    return wrong;
}

/* ---- one size ------------------------------------------------------------ */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static hvd_status_t call(const struct options *o, const struct buffers *b,
                         size_t count)
{
    if (o->broadcast)
        return hvd_broadcast(b->recv, count, o->dtype, o->root);
    return hvd_allreduce(b->send, b->recv, count, o->dtype, o->op);
}

/* Nanoseconds that n calls take on the slowest rank. */
static hvd_status_t time_calls(const struct options *o, const struct buffers *b,
                               size_t count, uint64_t n, int64_t *ns_p)
{
    uint64_t start_ns;
    int64_t ns;

    HVD_TRY(hvd_barrier());
    start_ns = now_ns();
    for (uint64_t i = 0; i < n; i++)
        HVD_TRY(call(o, b, count));
    ns = (int64_t)(now_ns() - start_ns);
    return hvd_allreduce(&ns, ns_p, 1, HVD_INT64, HVD_MAX);
}

static uint64_t choose_iterations(uint64_t warmup, int64_t warmup_ns)
{
    uint64_t one_ns = (uint64_t)warmup_ns / (warmup ? warmup : 1) + 1;
    uint64_t n = AUTO_NS / one_ns;

    if (n < AUTO_MIN)
        return AUTO_MIN;
    return n < AUTO_MAX ? n : AUTO_MAX;
}

static hvd_status_t verify(const struct options *o, const struct buffers *b,
                           struct result *r)
{
    int64_t wrong;

    fill(o, o->broadcast ? b->recv : b->send, r->count);
    HVD_TRY(call(o, b, r->count));
    wrong = is_exact(o) ? count_wrong(o, b->recv, r->count) : 0;
    HVD_TRY(hvd_allreduce(&wrong, &r->wrong, 1, HVD_INT64, HVD_SUM));
    if (!is_exact(o))
        r->wrong = -1;
    return HVD_OK;
}

static hvd_status_t measure(const struct options *o, const struct buffers *b,
                            size_t nbytes, struct result *r)
{
    size_t each = hvd_dtype_size(o->dtype);
    int64_t ns;

    r->count = (nbytes + each - 1) / each;
    fill(o, b->send, r->count);
    HVD_TRY(time_calls(o, b, r->count, o->warmup, &ns));
    r->iterations = o->iterations ? o->iterations
                                  : choose_iterations(o->warmup, ns);
    HVD_TRY(time_calls(o, b, r->count, r->iterations, &ns));
    r->us = (double)ns / 1e3 / (double)r->iterations;
    return verify(o, b, r);
}

/* ---- output (rank 0) ----------------------------------------------------- */

/* Does the option's name start the list of its value's names? */
static const char *name_of(const struct name *names, int value)
{
    while (names->text && names->value != value)
        names++;
    return names->text ? names->text : "?";
}

static void print_head(const struct options *o)
{
    if (o->json)
        return;
    printf("# hvd-perf %s, %d ranks, %d on this host%s\n",
           o->broadcast ? "broadcast" : "allreduce", hvd_size(),
           hvd_local_size(), o->in_place ? ", in place" : "");
    printf("#%12s %12s %9s %9s %10s %8s %8s %8s\n", "size", "count", "type",
           o->broadcast ? "root" : "op", "time", "algbw", "busbw", "wrong");
    printf("#%12s %12s %9s %9s %10s %8s %8s\n", "(B)", "(elements)", "", "",
           "(us)", "(GB/s)", "(GB/s)");
}

static void print_result(const struct options *o, const struct result *r,
                         FILE *out)
{
    size_t nbytes = r->count * hvd_dtype_size(o->dtype);
    double n = hvd_size(), algbw = (double)nbytes / 1e3 / r->us;
    double busbw = o->broadcast ? algbw : algbw * 2 * (n - 1) / n;
    const char *dtype = name_of(dtypes, (int)o->dtype);
    char what[16], wrong[24] = "n/a", json_wrong[24] = "null";

    snprintf(what, sizeof(what), "%s", name_of(ops, (int)o->op));
    if (o->broadcast)
        snprintf(what, sizeof(what), "%d", o->root);
    if (r->wrong >= 0) {
        snprintf(wrong, sizeof(wrong), "%" PRId64, r->wrong);
        memcpy(json_wrong, wrong, sizeof(wrong));
    }
    if (o->json)
        fprintf(out,
                "{\"collective\":\"%s\",\"ranks\":%d,\"size\":%zu,"
                "\"count\":%zu,\"dtype\":\"%s\",\"%s\":\"%s\","
                "\"in_place\":%s,\"iterations\":%" PRIu64 ",\"time_us\":%.3f,"
                "\"algbw_gbs\":%.4f,\"busbw_gbs\":%.4f,\"wrong\":%s}\n",
                o->broadcast ? "broadcast" : "allreduce", hvd_size(), nbytes,
                r->count, dtype, o->broadcast ? "root" : "op", what,
                o->in_place ? "true" : "false", r->iterations, r->us, algbw,
                busbw, json_wrong);
    else
        printf(" %12zu %12zu %9s %9s %10.2f %8.3f %8.3f %8s\n", nbytes,
               r->count, dtype, what, r->us, algbw, busbw, wrong);
    fflush(out);
}

/* ---- all sizes ----------------------------------------------------------- */

static hvd_status_t allocate(const struct options *o, struct buffers *b)
{
    size_t nbytes = o->end + sizeof(double);

    HVD_TRY(hvd_alloc(nbytes, &b->send));
    b->recv = b->send;
    if (o->in_place || o->broadcast)
        return HVD_OK;
    HVD_TRY(hvd_alloc(nbytes, &b->recv));
    memset(b->recv, 0, nbytes); /* no page faults in the first calls */
    return HVD_OK;
}

static hvd_status_t run(const struct options *o, FILE *json, int64_t *wrong_p)
{
    struct buffers b = {0};
    hvd_status_t status;
    struct result r;

    *wrong_p = 0;
    HVD_TRY(hvd_join_world());
    if (o->root >= hvd_size()) {
        fprintf(stderr, "hvd-perf: -r: %d of %d ranks\n", o->root, hvd_size());
        return USER_FAILURE;
    }
    HVD_TRY_GOTO(allocate(o, &b), out);
    if (hvd_rank() == 0)
        print_head(o);
    for (size_t n = o->begin; n <= o->end; n *= o->factor) {
        HVD_TRY_GOTO(measure(o, &b, n, &r), out);
        *wrong_p += r.wrong > 0 ? r.wrong : 0;
        if (hvd_rank() == 0)
            print_result(o, &r, json);
    }
out:
    if (b.recv != b.send)
        hvd_free(b.recv);
    hvd_free(b.send);
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

static bool set_option(struct options *o, int option, const char *text)
{
    uint64_t number = 0;
    int value = 0;
    bool good = true;

    switch (option) {
    case 'b':
        good = parse_number("-b", text, 1, &number);
        o->begin = number;
        break;
    case 'e':
        good = parse_number("-e", text, 1, &number);
        o->end = number;
        break;
    case 'f':
        good = parse_number("-f", text, 2, &number);
        o->factor = number;
        break;
    case 'n':
        good = parse_number("-n", text, 1, &o->iterations);
        break;
    case 'w':
        good = parse_number("-w", text, 0, &o->warmup);
        break;
    case 'd':
        good = parse_name("-d", text, dtypes, &value);
        o->dtype = (hvd_dtype_t)value;
        break;
    case 'o':
        good = parse_name("-o", text, ops, &value);
        o->op = (hvd_op_t)value;
        break;
    case 'r':
        good = parse_number("-r", text, 0, &number) && number <= INT32_MAX;
        o->root = (int)number;
        break;
    case OPTION_IN_PLACE:
        o->in_place = true;
        break;
    default: /* getopt has said what */
        return false;
    }
    return good;
}

static bool parse(int argc, char **argv, struct options *o,
                  const char **json_path_p)
{
    static const struct option longs[] = {
        {"json", optional_argument, NULL, OPTION_JSON},
        {"in-place", no_argument, NULL, OPTION_IN_PLACE},
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
        return bad("one collective is needed", "allreduce or broadcast");
    o->broadcast = strcmp(argv[optind], "broadcast") == 0;
    if (!o->broadcast && strcmp(argv[optind], "allreduce") != 0)
        return bad("no such collective", argv[optind]);
    if (o->begin > o->end)
        return bad("-b is greater than -e", "nothing to do");
    return true;
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
                        .dtype = HVD_FLOAT32,
                        .op = HVD_SUM};
    const char *json_path = NULL;
    int64_t wrong = 0;
    hvd_status_t status;
    FILE *json;

    if (!parse(argc, argv, &o, &json_path))
        return 2;
    json = open_json(json_path);
    if (!json)
        return 2;
    status = hvd_init();
    if (status == HVD_OK)
        status = run(&o, json, &wrong);
    if (status != HVD_OK && status != USER_FAILURE)
        fprintf(stderr, "hvd-perf: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
    if (status != HVD_OK || wrong != 0)
        return 1; /* without a goodbye: the job has failed */
    hvd_shutdown();
    if (json != stdout && fclose(json) != 0) {
        fprintf(stderr, "hvd-perf: %s: %s\n", json_path, strerror(errno));
        return 1;
    }
    return 0;
}
