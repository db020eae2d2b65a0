/* bench/device_calls.c - see device_calls.h.
 *
 * Ours and NCCL's by turns, a few at a time: what the machine does meanwhile
 * befalls both. Behind each few the device is waited for, as a queue that is
 * full is another matter, and then a barrier. */
#include "device_calls.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/nccl_api.h"
#include "gpu.h"

enum { FEW = 16, JOIN_S = 120 };

struct bare {
    const struct nccl_api *nccl;
    ncclComm_t comm;
    float *there; /* [1] on the device */
    void *stream;
    int blocking; /* does it return when the call is queued? */
};

double device_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* --- NCCL --- */

static void must(const struct bare *b, ncclResult_t result, const char *call)
{
    if (result == ncclSuccess || result == ncclInProgress)
        return;
    fprintf(stderr, "%s: %s\n", call, nccl_error(b->nccl, result));
    exit(1);
}

static void settle(const struct bare *b)
{
    double until_us = device_now_us() + JOIN_S * 1e6;
    ncclResult_t said = ncclInProgress;

    if (b->blocking)
        return;
    must(b, b->nccl->ncclCommGetAsyncError(b->comm, &said), "NCCL");
    while (said == ncclInProgress && device_now_us() < until_us) {
        sched_yield(); /* to whoever it waits for, on a small machine */
        must(b, b->nccl->ncclCommGetAsyncError(b->comm, &said), "NCCL");
    }
    must(b, said == ncclInProgress ? ncclInternalError : said, "NCCL");
}

static hvd_status_t join(struct bare *b)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;

    HVD_TRY(nccl_api(&b->nccl));
    memset(&id, 0, sizeof(id));
    if (hvd_rank() == 0)
        must(b, b->nccl->ncclGetUniqueId(&id), "ncclGetUniqueId");
    HVD_TRY(hvd_broadcast(&id, sizeof(id), HVD_UINT8, 0));
    config.blocking = b->blocking;
    must(b,
         b->nccl->ncclCommInitRankConfig(&b->comm, hvd_size(), id, hvd_rank(),
                                         &config),
         "ncclCommInitRankConfig");
    settle(b);
    return HVD_OK;
}

static void wait_for_device(const struct bare *b)
{
    while (!gpu_is_idle(b->stream))
        sched_yield();
}

static hvd_status_t call_bare(struct bare *b, bool done)
{
    must(b,
         b->nccl->ncclAllReduce(b->there, b->there, 1, ncclFloat32, ncclSum,
                                b->comm, b->stream),
         "ncclAllReduce");
    settle(b);
    if (done)
        wait_for_device(b);
    return HVD_OK;
}

/* --- ours --- */

static hvd_status_t call_ours(struct bare *b, bool done)
{
    hvd_options_t options = HVD_OPTIONS_INIT;

    if (done)
        return hvd_allreduce(b->there, b->there, 1, HVD_FLOAT32, HVD_SUM);
    options.stream = b->stream;
    options.flags = HVD_STREAM_ORDERED;
    return hvd_allreduce_with(b->there, b->there, 1, HVD_FLOAT32, HVD_SUM,
                              &options, NULL);
}

/* --- times --- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct device_times device_times_of(double *us, size_t n)
{
    qsort(us, n, sizeof(*us), compare);
    return (struct device_times){us[n / 2], us[n * 99 / 100], us[n - 1]};
}

static hvd_status_t time_few(struct bare *b, bool ours, bool done, double *us,
                             size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double start_us = device_now_us();

        HVD_TRY(ours ? call_ours(b, done) : call_bare(b, done));
        us[i] = device_now_us() - start_us;
    }
    wait_for_device(b);
    HVD_TRY(hvd_confirm());
    return hvd_barrier();
}

/* us [2][n]: ours, bare */
static hvd_status_t time_both(struct bare *b, bool done, double *us, size_t n)
{
    for (size_t i = 0; i < n; i += FEW) {
        size_t few = n - i < FEW ? n - i : FEW;

        HVD_TRY(time_few(b, true, done, us + i, few));
        HVD_TRY(time_few(b, false, done, us + n + i, few));
    }
    return HVD_OK;
}

static hvd_status_t time_legacy(const struct bare *bare, double *us, size_t n,
                                struct device_calls *found)
{
    struct bare b = *bare;

    b.stream = NULL;
    HVD_TRY(time_both(&b, false, us, n < FEW ? n : FEW));
    HVD_TRY(time_both(&b, false, us, n));
    found->legacy = device_times_of(us, n);
    found->legacy_bare = device_times_of(us + n, n);
    return HVD_OK;
}

static hvd_status_t time_all(struct bare *b, double *us, size_t n,
                             struct device_calls *found)
{
    float zero = 0;

    gpu_copy(b->there, &zero, sizeof(zero));
    HVD_TRY(time_both(b, false, us, n < FEW ? n : FEW)); /* warms both up */
    HVD_TRY(time_both(b, false, us, n));
    found->queued = device_times_of(us, n);
    found->queued_bare = device_times_of(us + n, n);
    HVD_TRY(time_legacy(b, us, n, found));
    HVD_TRY(time_both(b, true, us, n));
    found->done = device_times_of(us, n);
    found->done_bare = device_times_of(us + n, n);
    return HVD_OK;
}

/* By itself: what of NCCL's cost is that of a communicator that can be told to
 * give up while it is made, as ours. */
static hvd_status_t time_blocking(const struct bare *bare, double *us, size_t n,
                                  struct device_calls *found)
{
    struct bare b = *bare;

    b.blocking = 1;
    HVD_TRY(join(&b));
    HVD_TRY(time_few(&b, false, false, us, n < FEW ? n : FEW));
    for (size_t i = 0; i < n; i += FEW)
        HVD_TRY(time_few(&b, false, false, us + i, n - i < FEW ? n - i : FEW));
    found->queued_blocking = device_times_of(us, n);
    must(&b, b.nccl->ncclCommAbort(b.comm), "ncclCommAbort");
    return HVD_OK;
}

hvd_status_t device_calls_time(size_t n, struct device_calls *found)
{
    double *us = malloc(2 * n * sizeof(*us));
    struct bare b = {.there = gpu_alloc(sizeof(float)), .stream = gpu_stream()};
    hvd_status_t status;

    if (us == NULL)
        return HVD_ERR_NOMEM;
    status = join(&b);
    if (status == HVD_OK)
        status = time_all(&b, us, n, found);
    if (status == HVD_OK)
        status = time_blocking(&b, us, n, found);
    if (b.comm != NULL)
        (void)b.nccl->ncclCommAbort(b.comm);
    gpu_stream_free(b.stream);
    gpu_free(b.there);
    free(us);
    return status;
}
