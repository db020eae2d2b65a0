/* bench/handover.h - are the processors as near each other as they can be?
 *
 * A line of memory takes 60 ns to go from one processor of a virtual machine to
 * the other and back, or 300, when their host has moved them apart, and it does
 * so every few seconds. Whoever is measured then looks five times as slow. So a
 * program (handover_watch.c) keeps looking, a measurement waits until they are
 * near, and says whether they remained so.
 *
 * Threads: one. Memory: one page, mapped until the process ends. */
#ifndef BENCH_HANDOVER_H
#define BENCH_HANDOVER_H

#include <stdatomic.h>
#include <stdint.h>

/* The file that the watch writes, in the environment of those who read it. */
#define HANDOVER_VARIABLE "BENCH_HANDOVER"

struct handover_page {
    _Atomic uint64_t looks,
        far;                 /* so often has it looked, and found them far */
    _Atomic uint64_t is_far; /* at the last look */
    _Atomic uint64_t least_ns, last_ns;
};

/* Until they are near, but some seconds at most. Returns at once if nobody
 * watches. */
void handover_wait(void);

/* Looks so far that found them far; 0: nobody watches. */
uint64_t handover_far(void);

#endif
