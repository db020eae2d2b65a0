/* collectives/autotune.c - see autotune.h. */
#include "collectives/autotune.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/text.h"
#include "base/writer.h"
#include "collectives/comm.h"

enum { FUSION, GATHER, ALGORITHM, N_FUSION = 6, N_GATHER = 4, N_ALGORITHM = 3 };
enum {
    SILENT = UINT8_MAX,
    FINAL = 1 << 7,
    LINE_NBYTES = 256,
    KEEP_MAX = 64 << 10, /* of the log, that wait */
    CLOSE_MS = 1000
};

static const uint64_t fusions[N_FUSION] = {0, /* as configured */
                                           64 << 20, 16 << 20,        4 << 20,
                                           1 << 20,  COMM_FUSION_NONE};

static const struct {
    uint32_t follow_us, gather_us;
} gathers[N_GATHER] = {{5, 200}, {0, 0}, {50, 1000}, {200, 5000}};

static const enum algorithm algorithms[N_ALGORITHM] = {
    ALGORITHM_AUTO, ALGORITHM_RING, ALGORITHM_HALVING};

_Static_assert(N_FUSION *N_GATHER *N_ALGORITHM < FINAL, "codes of 7 bits");

/* The writer's. */
struct csv {
    char *path;
    int fd;                     /* -1: not open */
    bool headless;              /* its first line is missing */
    size_t n_done;              /* bytes of the line that is being written */
    _Atomic uint64_t n_written; /* lines */
};

struct autotune {
    bool fixed_fusion, fixed_algorithm;
    uint64_t window_us;
    struct tuner tuner;
    bool decides;
    bool was_settled;      /* and it has been said */
    struct csv *log;       /* NULL: none is wanted */
    struct writer *writer; /* of it; NULL: no line yet */
    uint64_t n_lines, n_dropped;
    uint64_t generation; /* 0: none yet */
    uint64_t since_us, now_us;
    int size;
};

/* --- life --- */

static struct csv *csv_create(const char *path)
{
    struct csv *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    c->fd = -1;
    c->path = strdup(path);
    if (c->path != NULL)
        return c;
    free(c);
    return NULL;
}

static void csv_destroy(struct csv *c)
{
    fd_close(&c->fd);
    free(c->path);
    free(c);
}

struct autotune *autotune_create(const struct autotune_config *config)
{
    struct autotune *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return NULL;
    a->window_us = config->window_us > 0 ? config->window_us : TUNER_WINDOW_US;
    if (config->log == NULL)
        return a;
    a->log = csv_create(config->log);
    if (a->log != NULL)
        return a;
    free(a);
    return NULL;
}

/* False: the thread still has the log in hand. */
static bool end_writer(struct autotune *a)
{
    uint64_t n_lost;
    bool ended = true;
    int error = 0;

    if (a->writer != NULL)
        ended = writer_destroy(a->writer, CLOSE_MS, CLOSE_MS, &error);
    n_lost = a->n_lines + a->n_dropped - atomic_load(&a->log->n_written);
    if (n_lost > 0)
        log_warn("--autotune-log \"%s\": %s -> %" PRIu64 " lines are missing",
                 a->log->path, error != 0 ? strerror(error) : "too slow",
                 n_lost);
    return ended;
}

void autotune_destroy(struct autotune *a)
{
    if (a == NULL)
        return;
    if (a->log != NULL && end_writer(a))
        csv_destroy(a->log);
    free(a);
}

void autotune_fix(struct autotune *a, bool fusion, bool algorithm)
{
    if (a == NULL)
        return;
    a->fixed_fusion = fusion;
    a->fixed_algorithm = algorithm;
}

void autotune_begin(struct autotune *a, uint64_t generation, int size,
                    bool decides, bool over_network)
{
    bool algorithm = over_network && !a->fixed_algorithm;
    const uint8_t n_values[TUNER_PARAMETERS] = {
        [FUSION] = a->fixed_fusion ? 1 : N_FUSION,
        [GATHER] = N_GATHER,
        [ALGORITHM] = algorithm ? N_ALGORITHM : 1};

    if (a->generation == 0)
        tuner_init(&a->tuner, n_values, a->window_us);
    else
        tuner_resume(&a->tuner, n_values, a->size != size);
    a->decides = decides;
    a->generation = generation;
    a->size = size;
    a->was_settled &= a->tuner.settled;
}

bool autotune_was_used(const struct autotune *a)
{
    return a == NULL || a->generation > 0;
}

void autotune_pause(struct autotune *a)
{
    tuner_pause(&a->tuner);
}

/* --- settings --- */

static uint8_t encode(struct tuner_setting s)
{
    return (uint8_t)((s.values[FUSION] * N_GATHER + s.values[GATHER]) *
                         N_ALGORITHM +
                     s.values[ALGORITHM]);
}

/* What none says, or one that knows more values, is the default. */
static struct tuner_setting decode(uint8_t code)
{
    struct tuner_setting s = {{0}};

    if (code >= N_FUSION * N_GATHER * N_ALGORITHM)
        return s;
    s.values[ALGORITHM] = code % N_ALGORITHM;
    s.values[GATHER] = code / N_ALGORITHM % N_GATHER;
    s.values[FUSION] = code / N_ALGORITHM / N_GATHER;
    return s;
}

static struct autotune_setting setting_of(struct tuner_setting s,
                                          uint64_t fusion_nbytes)
{
    uint64_t fusion = fusions[s.values[FUSION]];

    return (struct autotune_setting){
        .fusion_nbytes = fusion > 0 ? fusion : fusion_nbytes,
        .follow_us = gathers[s.values[GATHER]].follow_us,
        .gather_us = gathers[s.values[GATHER]].gather_us,
        .algorithm = algorithms[s.values[ALGORITHM]]};
}

void autotune_tell(const struct autotune *a, uint8_t *out)
{
    memset(out, SILENT, AUTOTUNE_NBYTES);
    if (a == NULL || !a->decides)
        return;
    out[0] = encode(tuner_setting(&a->tuner));
    out[1] = encode(a->tuner.best) | (a->tuner.settled ? FINAL : 0);
}

struct autotune_setting autotune_hear(struct autotune *a, const uint8_t *in,
                                      uint64_t fusion_nbytes)
{
    if (a != NULL && !a->decides && in[1] != SILENT)
        tuner_follow(&a->tuner, decode(in[1] & (FINAL - 1)),
                     (in[1] & FINAL) != 0);
    return setting_of(decode(in[0]), fusion_nbytes);
}

bool autotune_searches(const uint8_t *in)
{
    return in[1] != SILENT && (in[1] & FINAL) == 0;
}

/* --- the log (its writer) --- */

static int csv_open(struct csv *c)
{
    struct stat st;

    c->fd = open(c->path,
                 O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (c->fd < 0)
        return errno;
    if (fstat(c->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        fd_close(&c->fd);
        return EEXIST;
    }
    c->headless = st.st_size == 0;
    return 0;
}

/* Beyond a limit it fails with EFBIG, as the thread blocks SIGXFSZ. */
static int csv_write(struct csv *c, const char *text, size_t n)
{
    while (c->n_done < n) {
        ssize_t written = write(c->fd, text + c->n_done, n - c->n_done);

        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0)
            c->n_done += (size_t)written;
    }
    c->n_done = 0;
    return 0;
}

static int take(struct writer *w, void *arg, const char *line, size_t n)
{
    static const char head[] = "seconds,generation,size,fusion_bytes,gather_us,"
                               "algorithm,pairs,gain,gb_per_s,verdict\n";
    struct csv *c = arg;
    int error = 0;

    (void)w;
    if (c->fd < 0)
        error = csv_open(c);
    if (error == 0 && c->headless) {
        error = csv_write(c, head, sizeof(head) - 1);
        c->headless = error != 0;
    }
    if (error == 0)
        error = csv_write(c, line, n);
    c->n_written += error == 0;
    return error;
}

static bool may_pass(struct writer *w, void *arg, int error)
{
    (void)w, (void)arg, (void)error;
    return true;
}

/* --- what is said about it --- */

static void put_line(struct autotune *a, const char *line, size_t n)
{
    static const struct writer_ops ops = {.take = take, .may_pass = may_pass};
    const struct writer_config config = {
        .ops = &ops, .arg = a->log, .keep_max = KEEP_MAX, .wake_fd = -1};
    bool put;

    if (a->writer == NULL && writer_create(&config, &a->writer) != HVD_OK)
        error_clear();
    put = a->writer != NULL && writer_put(a->writer, line, n);
    a->n_lines += put;
    a->n_dropped += !put;
    if (a->writer != NULL)
        writer_tell_trouble(a->writer, "--autotune-log", a->log->path);
}

/* Of a ratio, or GB/s: less than a million, and a number. */
static int64_t ten_thousandths(double value)
{
    return value > 0 && value < 1e6 ? (int64_t)(value * 1e4 + 0.5) : 0;
}

static void write_line(struct autotune *a, const struct tuner_contest *c,
                       const char *verdict)
{
    struct autotune_setting s = setting_of(c->setting, 0);
    char line[LINE_NBYTES];
    struct text t = text_into(line, sizeof(line));

    if (a->log == NULL)
        return;
    text_scaled(&t, (int64_t)((a->now_us - a->since_us) / 1000), 3);
    snprintf(line + t.n, sizeof(line) - t.n,
             ",%" PRIu64 ",%d,%" PRIu64 ",%u,%s,%d,", a->generation, a->size,
             s.fusion_nbytes, s.gather_us, algorithm_name(s.algorithm),
             c->n_pairs);
    t.n = strlen(line);
    text_scaled(&t, ten_thousandths(c->gain), 4);
    text_add(&t, ",");
    text_scaled(&t, ten_thousandths(c->gbytes), 4);
    text_add(&t, ",");
    text_add(&t, verdict);
    text_add(&t, "\n");
    put_line(a, line, t.n);
}

static void say_settled(struct autotune *a)
{
    struct tuner_contest c = {.setting = a->tuner.best};
    struct autotune_setting s = setting_of(c.setting, 0);

    log_info("autotune: settled after %.1f s: fusion threshold %" PRIu64
             " bytes (0: as it was), waiting up to %u us for more, %s",
             (double)(a->now_us - a->since_us) * 1e-6, s.fusion_nbytes,
             s.gather_us, algorithm_name(s.algorithm));
    write_line(a, &c, "settled");
}

void autotune_decided(struct autotune *a, uint64_t now_us,
                      const struct name_id *name, uint64_t nbytes)
{
    struct tuner_contest contest;

    if (!a->decides || a->was_settled)
        return;
    a->now_us = now_us;
    if (a->since_us == 0)
        a->since_us = now_us;
    tuner_decided(&a->tuner, now_us, name, nbytes);
    if (tuner_contest(&a->tuner, &contest))
        write_line(a, &contest, contest.won ? "won" : "lost");
    a->was_settled = a->tuner.settled;
    if (a->was_settled)
        say_settled(a);
}
