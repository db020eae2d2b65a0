/* bench/method.h - the one way in which the time of a collective is taken.
 *
 * Every contestant of bench/compare is measured by this code, hvd-perf and the
 * programs of the peers alike. Each call is preceded by a barrier, and the gate
 * (gate.h) if it has been opened, and timed on its own on each rank. Outside
 * the timed part, each call's time then becomes the greatest of all ranks, and
 * the figure is the median over the calls. A call that waits for its slowest
 * rank is thus told as such, and a rank that leaves early (the root of a
 * broadcast) hides nothing.
 *
 * The other question is what a call costs in a row of them, without a barrier
 * between two: then a rank that has nothing to wait for may run ahead.
 *
 * Threads: one. Memory: one array of call times, freed on return. */
#ifndef BENCH_METHOD_H
#define BENCH_METHOD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a contestant does it. Each returns 0, or a status of its own that ends
 * the measurement and is handed through. All ranks make the same calls. */
struct method_ops {
    int (*barrier)(void *arg);
    int (*call)(void *arg); /* the collective that is measured */
    /* ns [n], n > 0: each becomes the greatest of all ranks; not timed */
    int (*max)(void *arg, int64_t *ns, size_t n);
};

/* Calls are made until point_ns have passed on the slowest rank, barriers
 * included, but at least calls_min and at most calls_max. Equal on all
 * ranks. */
struct method_limits {
    size_t warmup;     /* calls before the timed ones, */
    int64_t settle_ns; /* then as many as take that long on the slowest rank */
    size_t calls_min, calls_max;
    int64_t point_ns;
    size_t row; /* 0, 1: as above; else what follows a barrier is not one call
                   but so many, and their mean counts as one */
};

struct method_times { /* of one call, on its slowest rank; ns */
    size_t calls;
    double median, mean;
    int64_t min, max;
    double first; /* mean of the warm-up; 0: there was none */
    uint64_t far; /* looks that found the processors far apart (handover.h) */
};

/* For the first point of a process: until the kernel has spread the ranks over
 * the processors. */
enum { METHOD_SETTLE_NS = 100000000 };

#define METHOD_NOMEM (-32768) /* no memory for the times */
#define METHOD_LATE  (-32767) /* somebody does not come to the gate */

int64_t method_now_ns(void); /* CLOCK_MONOTONIC */

/* 0: *times_p is filled in, equal on all ranks; METHOD_NOMEM, METHOD_LATE;
 * else what an operation returned. */
int method_measure(const struct method_ops *ops, void *arg,
                   const struct method_limits *limits,
                   struct method_times *times_p);

/* Binds the calling thread to one of the processors that this process may use,
 * the index-th modulo their number. Helper threads that exist are left alone.
 * 0, or an errno. */
int method_pin(int index);

#ifdef __cplusplus
}
#endif
#endif
