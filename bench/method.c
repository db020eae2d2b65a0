/* bench/method.c - see method.h.
 *
 * How many calls fit is not known beforehand, and one call is no estimate: the
 * first may be ten times slower. So calls are made in batches, each of which
 * doubles their number, and the ranks agree after each whether there is time
 * for more. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "bench/gate.h"
#include "bench/handover.h"
#include "bench/method.h"

int64_t method_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int method_pin(int index)
{
    cpu_set_t all, one;
    size_t cpu = 0;
    int n;

    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return errno;
    n = index % CPU_COUNT(&all);
    for (; !CPU_ISSET(cpu, &all) || n-- > 0; cpu++)
        ;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    return sched_setaffinity(0, sizeof(one), &one) == 0 ? 0 : errno;
}

/* One sample: so many calls, timed together. Connections are made in the first
 * calls, by both sides: no gate there. */
static int time_row(const struct method_ops *ops, void *arg, size_t row,
                    bool warms_up, int64_t *ns)
{
    int64_t start;
    int status = ops->barrier(arg);

    if (status != 0)
        return status;
    start = method_now_ns();
    if (!warms_up && gate_pass(&start) != 0)
        return METHOD_LATE;
    for (size_t i = 0; i < row && status == 0; i++)
        status = ops->call(arg);
    *ns = (method_now_ns() - start) / (int64_t)row;
    return status;
}

static int time_calls(const struct method_ops *ops, void *arg, size_t row,
                      size_t n, int64_t *ns)
{
    int status = 0;

    for (size_t i = 0; i < n && status == 0; i++)
        status = time_row(ops, arg, row, false, ns + i);
    return status;
}

static int warm_up(const struct method_ops *ops, void *arg, size_t n,
                   int64_t *ns)
{
    int status = 0;

    for (size_t i = 0; i < n && status == 0; i++)
        status = time_row(ops, arg, 1, true, ns + i);
    return status;
}

/* Calls of the next batch; 0: enough. */
static size_t next_batch(const struct method_limits *limits, size_t n,
                         int64_t elapsed_ns)
{
    int64_t left_ns = limits->point_ns - elapsed_ns;
    size_t batch = n, fit;

    if (n < limits->calls_min)
        return limits->calls_min - n;
    if (left_ns <= 0 || n >= limits->calls_max)
        return 0;
    fit = (size_t)((double)left_ns / ((double)elapsed_ns / (double)n)) + 1;
    if (batch > fit)
        batch = fit;
    return batch < limits->calls_max - n ? batch : limits->calls_max - n;
}

static int compare_ns(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static double mean(const int64_t *ns, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)ns[i];
    return n > 0 ? sum / (double)n : 0;
}

static void summarise(int64_t *ns, size_t n, struct method_times *times)
{
    qsort(ns, n, sizeof(*ns), compare_ns);
    times->calls = n;
    times->mean = mean(ns, n);
    times->median = (double)(ns[n / 2] + ns[(n - 1) / 2]) / 2;
    times->min = ns[0];
    times->max = ns[n - 1];
}

/* *elapsed_p grows by how long they took the slowest rank. */
static int run_batch(const struct method_ops *ops, void *arg, size_t row,
                     size_t n, int64_t *ns, int64_t *elapsed_p)
{
    int64_t start = method_now_ns(), took;
    int status = time_calls(ops, arg, row, n, ns);

    took = method_now_ns() - start + 1; /* never 0 */
    if (status == 0)
        status = ops->max(arg, &took, 1);
    *elapsed_p += took;
    return status;
}

/* ns: of the warm-up, behind it of the *n_p timed ones. */
static int measure(const struct method_ops *ops, void *arg,
                   const struct method_limits *limits, int64_t *ns, size_t *n_p)
{
    int64_t elapsed = 0, *timed_ns = ns + limits->warmup;
    size_t n = 0, batch, row = limits->row > 0 ? limits->row : 1;
    int status = warm_up(ops, arg, limits->warmup, ns);

    while (status == 0 && elapsed < limits->settle_ns)
        status = run_batch(ops, arg, row, limits->calls_min, timed_ns,
                           &elapsed);
    elapsed = 0;
    while (status == 0 && (batch = next_batch(limits, n, elapsed)) > 0) {
        status = run_batch(ops, arg, row, batch, timed_ns + n, &elapsed);
        n += batch;
    }
    *n_p = n;
    return status != 0 ? status : ops->max(arg, ns, limits->warmup + n);
}

int method_measure(const struct method_ops *ops, void *arg,
                   const struct method_limits *limits,
                   struct method_times *times_p)
{
    size_t n_max = limits->calls_max, n;
    uint64_t far;
    int64_t *ns;
    int status;

    if (n_max < limits->calls_min)
        n_max = limits->calls_min;
    ns = calloc(limits->warmup + n_max + 1, sizeof(*ns));
    if (!ns)
        return METHOD_NOMEM;
    handover_wait();
    far = handover_far();
    status = measure(ops, arg, limits, ns, &n);
    if (status == 0) {
        times_p->far = handover_far() - far;
        times_p->first = mean(ns, limits->warmup);
        summarise(ns + limits->warmup, n, times_p);
    }
    free(ns);
    return status;
}
