/* bench/overlap.c - how much of an allreduce hides behind computation: both one
 * after the other, and the allreduce posted before the computation and waited
 * for behind it. Run it under hvd-elastic as a static program:
 *
 *     hvd-elastic -np 2 -H localhost:2 -- overlap [BYTES [ROUNDS [device]]]
 *
 * The computation multiplies and adds in registers and the first-level cache,
 * so that it takes no memory bandwidth from the allreduce, and lasts about as
 * long as that. "device": it is elsewhere, and this thread sleeps meanwhile.
 * Rank 0 prints medians over the rounds of the slowest rank.
 *
 * Threads: one. Memory: one buffer of hvd_alloc. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hvd/hvd.h>

#include "bench/method.h"

enum { ROUNDS_MAX = 1000, UNITS_MAX = 1 << 24, LANES = 64, WARMUP = 5 };

static struct {
    float *buf;
    size_t count;
    size_t n_units; /* of computation */
    long device_ns; /* 0: no device */
    int64_t ns[ROUNDS_MAX];
} bench;

static volatile float sink;

static void compute(void)
{
    struct timespec t = {0, bench.device_ns};
    float lanes[LANES];

    if (bench.device_ns > 0) {
        nanosleep(&t, NULL);
        return;
    }
    for (int i = 0; i < LANES; i++)
        lanes[i] = (float)i;
    for (size_t k = 0; k < bench.n_units; k++)
        for (int i = 0; i < LANES; i++)
            lanes[i] = lanes[i] * 0.999f + 1.0f;
    sink = lanes[LANES - 1];
}

static hvd_status_t only_compute(void)
{
    compute();
    return HVD_OK;
}

static hvd_status_t only_reduce(void)
{
    return hvd_allreduce(bench.buf, bench.buf, bench.count, HVD_FLOAT32,
                         HVD_MAX);
}

static hvd_status_t in_sequence(void)
{
    HVD_TRY(only_reduce());
    compute();
    return HVD_OK;
}

static hvd_status_t overlapped(void)
{
    hvd_request_t *request;

    HVD_TRY(hvd_allreduce_with(bench.buf, bench.buf, bench.count, HVD_FLOAT32,
                               HVD_MAX, NULL, &request));
    compute();
    return hvd_wait(&request);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static hvd_status_t measure(hvd_status_t (*call)(void), int n_rounds,
                            double *us_p)
{
    for (int i = -WARMUP; i < n_rounds; i++) {
        int64_t start;

        HVD_TRY(hvd_barrier());
        start = method_now_ns();
        HVD_TRY(call());
        if (i >= 0)
            bench.ns[i] = method_now_ns() - start;
    }
    HVD_TRY(hvd_allreduce(bench.ns, bench.ns, (size_t)n_rounds, HVD_INT64,
                          HVD_MAX));
    qsort(bench.ns, (size_t)n_rounds, sizeof(bench.ns[0]), by_value);
    *us_p = (double)bench.ns[n_rounds / 2] / 1000;
    return HVD_OK;
}

/* As much computation as takes the time of the allreduce. */
static hvd_status_t calibrate(double reduce_us)
{
    double us;

    if (bench.device_ns > 0) {
        bench.device_ns = reduce_us < 900000 ? (long)(reduce_us * 1000) + 1
                                             : 900000000;
        return HVD_OK;
    }
    bench.n_units = 10000;
    HVD_TRY(measure(only_compute, 20, &us));
    us = 10000 * reduce_us / us;
    bench.n_units = us < UNITS_MAX ? (size_t)us + 1 : UNITS_MAX;
    return HVD_OK;
}

static hvd_status_t run(int n_rounds)
{
    double reduce_us, compute_us, sequence_us, overlap_us, least_us;

    HVD_TRY(measure(only_reduce, n_rounds, &reduce_us));
    HVD_TRY(calibrate(reduce_us));
    HVD_TRY(measure(only_compute, n_rounds, &compute_us));
    HVD_TRY(measure(in_sequence, n_rounds, &sequence_us));
    HVD_TRY(measure(overlapped, n_rounds, &overlap_us));
    least_us = reduce_us < compute_us ? reduce_us : compute_us;
    if (hvd_rank() == 0)
        printf("{\"np\": %d, \"bytes\": %zu, \"compute_us\": %.1f, "
               "\"allreduce_us\": %.1f, \"sequence_us\": %.1f, "
               "\"overlapped_us\": %.1f, \"hidden\": %.2f}\n",
               hvd_size(), bench.count * sizeof(float), compute_us, reduce_us,
               sequence_us, overlap_us, (sequence_us - overlap_us) / least_us);
    return HVD_OK;
}

static hvd_status_t begin(size_t nbytes, int n_rounds)
{
    void *buf;

    HVD_TRY(hvd_init(NULL));
    HVD_TRY(hvd_world_start());
    buf = hvd_alloc(nbytes);
    if (!buf)
        return HVD_ERR_NOMEM;
    memset(buf, 0, nbytes);
    bench.buf = buf;
    bench.count = nbytes / sizeof(float);
    HVD_TRY(run(n_rounds));
    hvd_free(buf);
    return hvd_shutdown();
}

int main(int argc, char **argv)
{
    size_t nbytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 16 << 20;
    long n_rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 50;

    bench.device_ns = argc == 4 && strcmp(argv[3], "device") == 0;
    if (argc > 4 || (argc == 4 && bench.device_ns == 0) ||
        nbytes < sizeof(float) || n_rounds < 1 || n_rounds > ROUNDS_MAX) {
        fputs("usage: overlap [BYTES [ROUNDS [device]]]\n", stderr);
        return 2;
    }
    if (begin(nbytes, (int)n_rounds) == HVD_OK)
        return 0;
    fprintf(stderr, "overlap: %s\n", hvd_last_error());
    return 1;
}
