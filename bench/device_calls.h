/* bench/device_calls.h - what a small allreduce on a device costs the thread
 * that issues it, beside the same call of NCCL itself: a communicator of this
 * program's own, beside the library's, made and called as the library does,
 * without blocking.
 *
 * Threads: one. Memory: freed on return, but for what NCCL keeps. */
#ifndef BENCH_DEVICE_CALLS_H
#define BENCH_DEVICE_CALLS_H

#include <stddef.h>

#include <hvd/hvd.h>

struct device_times { /* of one call */
    double p50, p99, max;
};

double device_now_us(void);
/* us [n], n > 0; sorts them. */
struct device_times device_times_of(double *us, size_t n);

struct device_calls { /* of this rank; us */
    /* until it is queued (HVD_STREAM_ORDERED) on a stream of the program's,
       on the legacy default stream */
    struct device_times queued, queued_bare, legacy, legacy_bare;
    struct device_times queued_blocking; /* NCCL's, where its calls block */
    /* until the result is there */
    struct device_times done, done_bare;
};

/* n > 0 calls of each. HVD_OK, or why one of ours has failed; if one of NCCL
 * does the process ends, with a sentence. Open device (gpu.h), several
 * ranks. */
hvd_status_t device_calls_time(size_t n,
                               struct device_calls *found) HVD_MUST_CHECK;

#endif
