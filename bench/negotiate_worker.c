/* bench/negotiate_worker.c - the gradients of real models, allreduced by name
 * in orders that differ from rank to rank: the job of bench/negotiate.
 *
 *     negotiate_worker MODEL MODE[,MODE ...] [STEPS [IDLE_S]]
 *
 *   MODEL   resnet50 (161 tensors, 102 MB), bert (199, 438 MB), flat
 *           (resnet50's bytes as one tensor), tiny (161 of one element), many
 *           (10,000 of 1 KB, whose names are as long: more than are
 *           remembered, unless --cache-capacity says so)
 *   MODE    shuffled  an order drawn anew for each rank and step
 *           same      one order on all ranks
 *           grouped   one group, by name
 *           by_hand   one group, an ordered call: no negotiation
 *           posted    ordered calls, one per tensor
 *
 * Each step posts every gradient, the last layer's first, and waits for all.
 * Several modes take turns of some steps, so that they can be compared: they
 * have the same memory, and what else the machine does concerns them all. Rank
 * 0 prints a line of JSON for each:
 *
 *   step_ms       median of all posted and waited for, at rank 0
 *   step_ms_min   the best; step_ms_mean: of all
 *   submit_ms     the part of it until all were posted
 *   cpu_ms        of rank 0, for one step
 *   first_ms      the first one: no name is known yet
 *   lat_us        median of 100 allreduces of 4 bytes by name, one at a time;
 *                 lat_ordered_us: by hvd_allreduce
 *   lat_step_ms   of one of those by name that is posted behind a step's
 *   idle_cpu_s, idle_wakeups   of rank 0 while all sleep for IDLE_S
 *
 * Threads: one. Memory: the gradients. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <hvd/hvd.h>

#include "bench/method.h"

enum {
    TENSORS_MAX = 10000,
    STEPS_MAX = 5000,
    WARMUP = 5,
    TURN = 5,
    CALLS = 100,
    LONG_NAME = 1023
};

enum mode { SHUFFLED, SAME, GROUPED, BY_HAND, POSTED, N_MODES };

static const char *const mode_names[N_MODES] = {"shuffled", "same", "grouped",
                                                "by_hand", "posted"};

/* What the steps of one mode took. */
struct times {
    enum mode mode;
    int64_t first_ns, step_ns[STEPS_MAX], submit_ns[STEPS_MAX];
    double cpu_s;
};

static struct {
    const char *model;
    enum mode mode; /* of the step that is made */
    struct times times[N_MODES];
    int n_modes, n_steps, n;
    double idle_s;
    size_t counts[TENSORS_MAX];
    const void *sends[TENSORS_MAX];
    void *bufs[TENSORS_MAX];
    char *names[TENSORS_MAX];
    int order[TENSORS_MAX];
    hvd_request_t *requests[TENSORS_MAX];
    int64_t call_ns[CALLS];
    uint64_t chance;
} bench;

/* ---- models -------------------------------------------------------------- */

static void add(size_t count)
{
    bench.counts[bench.n++] = count;
}

static void add_with_norm(size_t count, size_t width)
{
    add(count);
    add(width);
    add(width);
}

static void resnet50(void)
{
    static const size_t stages[][2] = {{64, 3}, {128, 4}, {256, 6}, {512, 3}};
    size_t in = 64;

    add_with_norm(64 * 3 * 7 * 7, 64);
    for (size_t i = 0; i < 4; i++) {
        size_t width = stages[i][0], out = 4 * width;

        for (size_t block = 0; block < stages[i][1]; block++) {
            add_with_norm(width * in, width);
            add_with_norm(width * width * 9, width);
            add_with_norm(out * width, out);
            if (block == 0)
                add_with_norm(out * in, out);
            in = out;
        }
    }
    add(1000 * 2048);
    add(1000);
}

static void bert(void)
{
    size_t h = 768, f = 3072;

    add(30522 * h);
    add(512 * h);
    add(2 * h);
    add(h);
    add(h);
    for (int layer = 0; layer < 12; layer++) {
        for (int i = 0; i < 4; i++) {
            add(h * h);
            add(h);
        }
        add(h);
        add(h);
        add(f * h);
        add(f);
        add(h * f);
        add(h);
        add(h);
        add(h);
    }
    add(h * h);
    add(h);
}

static bool choose_model(const char *model)
{
    bench.model = model;
    if (strcmp(model, "resnet50") == 0)
        resnet50();
    else if (strcmp(model, "bert") == 0)
        bert();
    else if (strcmp(model, "flat") == 0)
        add(25557032);
    else if (strcmp(model, "tiny") == 0)
        while (bench.n < 161)
            add(1);
    else if (strcmp(model, "many") == 0)
        while (bench.n < TENSORS_MAX)
            add(256);
    return bench.n > 0;
}

static char *make_name(int i)
{
    size_t n = bench.n == TENSORS_MAX ? LONG_NAME : 8;
    char *name = malloc(n + 16);

    if (name == NULL)
        return NULL;
    memset(name, 'x', n + 16);
    snprintf(name + n - 8, 16, "grad.%03d", i);
    return name;
}

static hvd_status_t make_tensor(int i)
{
    float *x = malloc(bench.counts[i] * sizeof(*x));

    bench.sends[i] = bench.bufs[i] = x;
    bench.names[i] = make_name(i);
    return x != NULL && bench.names[i] != NULL ? HVD_OK : HVD_ERR_NOMEM;
}

/* As a backward pass: the last layer is first. */
static hvd_status_t make_tensors(void)
{
    for (int i = 0; i < bench.n / 2; i++) {
        size_t count = bench.counts[i];

        bench.counts[i] = bench.counts[bench.n - 1 - i];
        bench.counts[bench.n - 1 - i] = count;
    }
    for (int i = 0; i < bench.n; i++)
        HVD_TRY(make_tensor(i));
    return HVD_OK;
}

static void fill_tensors(void)
{
    for (int i = 0; i < bench.n; i++)
        for (size_t k = 0; k < bench.counts[i]; k++)
            ((float *)bench.bufs[i])[k] = (float)(hvd_rank() + 1);
}

static void free_tensors(void)
{
    for (int i = 0; i < bench.n; i++) {
        free(bench.bufs[i]);
        free(bench.names[i]);
    }
}

/* ---- steps --------------------------------------------------------------- */

static size_t draw(size_t n)
{
    bench.chance = bench.chance * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(bench.chance >> 33) % n;
}

static void make_order(int *order)
{
    for (int i = 0; i < bench.n; i++)
        order[i] = i;
    for (int i = bench.n - 1; i > 0 && bench.mode == SHUFFLED; i--) {
        int k = (int)draw((size_t)i + 1), t = order[i];

        order[i] = order[k];
        order[k] = t;
    }
}

static hvd_status_t post(int i, hvd_request_t **request_p)
{
    hvd_options_t options = HVD_OPTIONS_INIT;

    options.label = bench.names[i];
    if (bench.mode != POSTED)
        options.key = bench.names[i];
    return hvd_allreduce_with(bench.sends[i], bench.bufs[i], bench.counts[i],
                              HVD_FLOAT32, HVD_AVERAGE, &options, request_p);
}

static hvd_status_t post_group(hvd_request_t **request_p)
{
    hvd_options_t options = HVD_OPTIONS_INIT;

    options.label = "grads";
    if (bench.mode == GROUPED)
        options.key = "grads";
    return hvd_grouped_allreduce_with((size_t)bench.n, bench.sends, bench.bufs,
                                      bench.counts, HVD_FLOAT32, HVD_AVERAGE,
                                      &options, request_p);
}

static bool is_group(void)
{
    return bench.mode == GROUPED || bench.mode == BY_HAND;
}

static hvd_status_t post_all(void)
{
    if (is_group())
        return post_group(&bench.requests[0]);
    for (int i = 0; i < bench.n; i++)
        HVD_TRY(post(bench.order[i], &bench.requests[i]));
    return HVD_OK;
}

static hvd_status_t wait_all(void)
{
    return hvd_wait_all(is_group() ? 1 : (size_t)bench.n, bench.requests);
}

static hvd_status_t step(int64_t *submit_ns, int64_t *step_ns)
{
    int64_t start;

    make_order(bench.order);
    start = method_now_ns();
    HVD_TRY(post_all());
    *submit_ns = method_now_ns() - start;
    HVD_TRY(wait_all());
    *step_ns = method_now_ns() - start;
    return HVD_OK;
}

/* The average of 1 .. size, in every element of the first step. */
static bool is_right(void)
{
    float want = (float)(hvd_size() + 1) / 2;

    for (int i = 0; i < bench.n; i++)
        for (size_t k = 0; k < bench.counts[i]; k++)
            if (((float *)bench.bufs[i])[k] != want)
                return false;
    return true;
}

/* ---- figures ------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double median(int64_t *ns, int n, double unit_ns)
{
    qsort(ns, (size_t)n, sizeof(*ns), by_value);
    return (double)ns[n / 2] / unit_ns;
}

static double mean(const int64_t *ns, int n, double unit_ns)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += (double)ns[i];
    return sum / n / unit_ns;
}

static double cpu_s(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

static long wakeups(void)
{
    struct rusage r;

    getrusage(RUSAGE_SELF, &r);
    return r.ru_nvcsw + r.ru_nivcsw;
}

static hvd_status_t one_call(bool named)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    static float x;

    if (!named)
        return hvd_allreduce(&x, &x, 1, HVD_FLOAT32, HVD_SUM);
    options.key = "one";
    return hvd_allreduce_with(&x, &x, 1, HVD_FLOAT32, HVD_SUM, &options, NULL);
}

static hvd_status_t latency(bool named, double *us_p)
{
    for (int i = -WARMUP; i < CALLS; i++) {
        int64_t start = method_now_ns();

        HVD_TRY(one_call(named));
        if (i >= 0)
            bench.call_ns[i] = method_now_ns() - start;
    }
    *us_p = median(bench.call_ns, CALLS, 1e3);
    return HVD_OK;
}

/* Behind a step's, which run as one or in several parts. */
static hvd_status_t latency_in_step(double *ms_p)
{
    int n = bench.n_steps < CALLS ? bench.n_steps : CALLS;

    for (int i = 0; i < n; i++) {
        int64_t start;

        make_order(bench.order);
        HVD_TRY(post_all());
        start = method_now_ns();
        HVD_TRY(one_call(true));
        bench.call_ns[i] = method_now_ns() - start;
        HVD_TRY(wait_all());
    }
    *ms_p = median(bench.call_ns, n, 1e6);
    return HVD_OK;
}

static void rest(double seconds)
{
    struct timespec t = {(time_t)seconds,
                         (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&t, NULL);
}

static hvd_status_t warm_up(struct times *t)
{
    int64_t ns;

    bench.mode = t->mode;
    fill_tensors();
    HVD_TRY(hvd_barrier());
    HVD_TRY(step(&ns, &t->first_ns));
    if (!is_right()) {
        fputs("negotiate_worker: WRONG\n", stderr);
        abort();
    }
    for (int i = 1; i < WARMUP; i++)
        HVD_TRY(step(&ns, &ns));
    return HVD_OK;
}

/* Steps begin .. end - 1; the one before them follows another mode's, and is
 * not counted. */
static hvd_status_t turn(struct times *t, int begin, int end)
{
    double cpu;
    int64_t ns;

    bench.mode = t->mode;
    HVD_TRY(step(&ns, &ns));
    cpu = cpu_s();
    for (int i = begin; i < end; i++)
        HVD_TRY(step(&t->submit_ns[i], &t->step_ns[i]));
    t->cpu_s += cpu_s() - cpu;
    return HVD_OK;
}

/* Each is the first of a row as often as any other. */
static hvd_status_t take_turns(void)
{
    int n = bench.n_modes;

    for (int begin = 0; begin < bench.n_steps; begin += TURN) {
        int left = bench.n_steps - begin, first = begin / TURN % n;

        for (int k = 0; k < n; k++)
            HVD_TRY(turn(&bench.times[(first + k) % n], begin,
                         begin + (left < TURN ? left : TURN)));
    }
    return HVD_OK;
}

static hvd_status_t tell(struct times *t)
{
    double idle_cpu, lat_us, ordered_us, in_step_ms, step_ms, submit_ms;
    long woken;

    bench.mode = t->mode;
    HVD_TRY(latency(true, &lat_us));
    HVD_TRY(latency(false, &ordered_us));
    HVD_TRY(latency_in_step(&in_step_ms));
    HVD_TRY(hvd_barrier());
    idle_cpu = cpu_s();
    woken = wakeups();
    rest(bench.idle_s);
    woken = wakeups() - woken;
    idle_cpu = cpu_s() - idle_cpu;
    step_ms = median(t->step_ns, bench.n_steps, 1e6);
    submit_ms = median(t->submit_ns, bench.n_steps, 1e6);
    if (hvd_rank() == 0)
        printf(
            "{\"system\": \"hvd-elastic\", \"np\": %d, \"model\": \"%s\", "
            "\"mode\": \"%s\", \"tensors\": %d, \"steps\": %d, "
            "\"step_ms\": %.3f, \"step_ms_min\": %.3f, "
            "\"step_ms_mean\": %.3f, \"submit_ms\": %.3f, "
            "\"cpu_ms\": %.3f, \"first_ms\": %.3f, \"lat_us\": %.1f, "
            "\"lat_ordered_us\": %.1f, \"lat_step_ms\": %.3f, \"idle_s\": %g, "
            "\"idle_cpu_s\": %.4f, \"idle_wakeups\": %ld}\n",
            hvd_size(), bench.model, mode_names[t->mode], bench.n,
            bench.n_steps, step_ms, (double)t->step_ns[0] / 1e6,
            mean(t->step_ns, bench.n_steps, 1e6), submit_ms,
            t->cpu_s / bench.n_steps * 1e3, (double)t->first_ns / 1e6, lat_us,
            ordered_us, in_step_ms, bench.idle_s, idle_cpu, woken);
    return HVD_OK;
}

static hvd_status_t run(void)
{
    HVD_TRY(hvd_init(NULL));
    HVD_TRY(hvd_world_start());
    HVD_TRY(make_tensors());
    bench.chance = (uint64_t)hvd_rank() + 1;
    for (int i = 0; i < bench.n_modes; i++)
        HVD_TRY(warm_up(&bench.times[i]));
    HVD_TRY(hvd_barrier());
    HVD_TRY(take_turns());
    for (int i = 0; i < bench.n_modes; i++)
        HVD_TRY(tell(&bench.times[i]));
    free_tensors();
    return hvd_shutdown();
}

static bool choose_mode(const char *name)
{
    int i = 0;

    while (i < N_MODES && strcmp(mode_names[i], name) != 0)
        i++;
    if (i == N_MODES || bench.n_modes == N_MODES)
        return false;
    bench.times[bench.n_modes++].mode = (enum mode)i;
    return true;
}

static bool choose_modes(char *names)
{
    char *name = strtok(names, ",");

    while (name != NULL && choose_mode(name))
        name = strtok(NULL, ",");
    return name == NULL && bench.n_modes > 0;
}

int main(int argc, char **argv)
{
    bench.n_steps = argc > 3 ? atoi(argv[3]) : 30;
    bench.idle_s = argc > 4 ? atof(argv[4]) : 1;
    if (argc < 3 || argc > 5 || !choose_model(argv[1]) ||
        !choose_modes(argv[2]) || bench.n_steps < 1 ||
        bench.n_steps > STEPS_MAX || bench.idle_s < 0) {
        fputs("usage: negotiate_worker resnet50|bert|flat|tiny|many "
              "shuffled|same|grouped|by_hand|posted[,...] [STEPS [IDLE_S]]\n",
              stderr);
        return 2;
    }
    if (run() == HVD_OK)
        return 0;
    fprintf(stderr, "negotiate_worker: %s\n", hvd_last_error());
    return 1;
}
