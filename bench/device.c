/* bench/device.c - collectives and commits on a GPU: are they right, and what
 * do they cost?
 *
 *     hvd-elastic -np N -H localhost:N -- device COUNT CALLS COMMIT_BYTES
 *
 * Rank 0 prints a line for each thing, which scripts/gpu-check reads:
 *
 *     device machine DRIVER NCCL LIBRARY        13000 22809 /usr/lib/...
 *     device context MS                         its own, made anew
 *     device check CASES ELEMENTS WRONG REFUSED   COUNT: elements to a block
 *     device queued OURS P99 NCCL P99           us; CALLS > 0, several ranks
 *     device done OURS P99 NCCL P99
 *     device commit BYTES P50 MAX THREE         ms; COMMIT_BYTES > 0
 *
 * A commit returns when it is queued; bytes are on the way to the host then, in
 * one of two buffers: the third of three in a row waits for the first's.
 *
 * What is wrong in a result is told by who sees it, on stderr. Exit status 0:
 * nothing is.
 *
 * Threads: one. Memory: see the parts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <hvd/hvd.h>

#include "device_calls.h"
#include "device_check.h"
#include "gpu.h"

enum { N_COMMITS = 10 };

struct run {
    size_t count, n_calls, commit_nbytes;
    void *kept; /* [commit_nbytes] of the device; NULL: nothing */
    double context_ms;
    int64_t n_wrong;
    uint64_t n_entered; /* shared state */
};

static bool tells(void)
{
    return hvd_rank() == 0;
}

static hvd_status_t tell_machine(const struct run *run)
{
    hvd_device_info_t info = {.struct_size = sizeof(info)};

    HVD_TRY(hvd_device_info(&info));
    if (tells())
        printf("device machine %d %d %s\ndevice context %.1f\n",
               info.driver_version, info.nccl_version, info.nccl_library,
               run->context_ms);
    return HVD_OK;
}

/* By all ranks together. */
static hvd_status_t check(struct run *run)
{
    struct device_check found;
    int64_t sums[4];

    HVD_TRY(device_check_all(run->count, &found));
    if (found.n_wrong > 0)
        fprintf(stderr, "WRONG: %s\n", found.first);
    sums[0] = found.n_cases;
    sums[1] = found.n_elements;
    sums[2] = found.n_wrong;
    sums[3] = found.n_refused;
    HVD_TRY(hvd_allreduce(sums, sums, 4, HVD_INT64, HVD_SUM));
    run->n_wrong = sums[2];
    if (tells())
        printf("device check %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n",
               found.n_cases, sums[1], sums[2], found.n_refused);
    return HVD_OK;
}

static void tell_times(const char *what, const struct device_times *ours,
                       const struct device_times *bare)
{
    if (tells())
        printf("device %s %.2f %.2f %.2f %.2f\n", what, ours->p50, ours->p99,
               bare->p50, bare->p99);
}

static hvd_status_t time_calls(const struct run *run)
{
    struct device_calls found;

    if (run->n_calls == 0 || hvd_size() == 1)
        return HVD_OK;
    HVD_TRY(device_calls_time(run->n_calls, &found));
    tell_times("queued", &found.queued, &found.queued_bare);
    tell_times("legacy", &found.legacy, &found.legacy_bare);
    tell_times("done", &found.done, &found.done_bare);
    if (tells())
        printf("device blocking %.2f %.2f\n", found.queued_blocking.p50,
               found.queued_blocking.p99);
    return HVD_OK;
}

static void sleep_us(double us)
{
    struct timespec t = {(time_t)(us / 1e6), (long)(us * 1e3) % 1000000000};

    nanosleep(&t, NULL);
}

static hvd_status_t commit(hvd_state_t *state, int n, double *us_p)
{
    double start_us = device_now_us();

    for (int i = 0; i < n; i++)
        HVD_TRY(hvd_state_commit(state));
    *us_p = device_now_us() - start_us;
    return HVD_OK;
}

/* Each of the others finds the device idle. */
static hvd_status_t time_commits(const struct run *run, hvd_state_t *state)
{
    double us[N_COMMITS], three_us;
    struct device_times times;

    if (run->kept == NULL)
        return HVD_OK;
    HVD_TRY(commit(state, 3, &three_us)); /* buffers are made */
    sleep_us(2 * three_us);
    HVD_TRY(commit(state, 3, &three_us));
    for (int i = 0; i < N_COMMITS; i++) {
        sleep_us(2 * three_us);
        HVD_TRY(commit(state, 1, &us[i]));
    }
    times = device_times_of(us, N_COMMITS);
    if (tells())
        printf("device commit %zu %.3f %.3f %.3f\n", run->commit_nbytes,
               times.p50 / 1e3, times.max / 1e3, three_us / 1e3);
    return HVD_OK;
}

static hvd_status_t train(hvd_state_t *state, void *arg)
{
    struct run *run = arg;

    run->n_entered++;
    HVD_TRY(hvd_state_commit(state));
    HVD_TRY(tell_machine(run));
    HVD_TRY(check(run));
    HVD_TRY(time_calls(run));
    HVD_TRY(time_commits(run, state));
    return fflush(stdout) == 0 ? HVD_OK : HVD_ERR_SYSTEM;
}

static hvd_status_t add_all(struct run *run, hvd_state_t *state)
{
    HVD_TRY(hvd_state_add(state, "entered", &run->n_entered,
                          sizeof(run->n_entered)));
    if (run->commit_nbytes == 0)
        return HVD_OK;
    run->kept = gpu_alloc(run->commit_nbytes);
    return hvd_state_add_device(state, "kept", run->kept, run->commit_nbytes,
                                NULL);
}

static hvd_status_t run_elastic(struct run *run)
{
    hvd_state_t *state;
    hvd_status_t status;

    HVD_TRY(hvd_state_create(&state));
    status = add_all(run, state);
    if (status == HVD_OK)
        status = hvd_elastic_run(state, train, run);
    hvd_state_destroy(state);
    return status;
}

int main(int argc, char **argv)
{
    static struct run run;
    hvd_status_t status;

    if (argc != 4) {
        fputs("usage: device COUNT CALLS COMMIT_BYTES\n", stderr);
        return 2;
    }
    run.count = strtoull(argv[1], NULL, 10);
    run.n_calls = strtoull(argv[2], NULL, 10);
    run.commit_nbytes = strtoull(argv[3], NULL, 10);
    status = hvd_init(NULL);
    if (status == HVD_OK) {
        run.context_ms = gpu_open();
        status = run_elastic(&run);
    }
    if (status != HVD_OK)
        fprintf(stderr, "device: %s: %s\n", hvd_strerror(status),
                hvd_last_error());
    return hvd_shutdown() == HVD_OK && status == HVD_OK && run.n_wrong == 0 ? 0
                                                                            : 1;
}
