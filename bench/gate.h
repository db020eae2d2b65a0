/* bench/gate.h - all ranks of a contestant begin at the same moment.
 *
 * A library's own barrier lets one rank out first, and which one it is differs:
 * where it is the root, a broadcast of a few bytes looks as if it took nothing.
 * Nor does a rank that gets a processor late see how long it has kept the
 * others waiting. So behind that barrier ranks meet once more, in memory that
 * is no contestant's, and the time of a call begins for all of them when the
 * last one has come. Nobody makes progress for a library meanwhile, which is
 * why its own barrier comes first.
 *
 * Threads: one. Memory: one page, mapped until the process ends. */
#ifndef BENCH_GATE_H
#define BENCH_GATE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before a barrier that is before the first gate_pass(). path: a file that all
 * ranks see, made by the first; whoever chose it removes it. crowded: there may
 * be fewer processors than ranks. 0, or an errno; EEXIST: the file has been
 * used. */
int gate_open(const char *path, int size, bool crowded);

/* 0: all have come, at *opened_ns (CLOCK_MONOTONIC, the same for all); with a
 * processor for each, all return a little later, at *opened_ns. ETIMEDOUT:
 * somebody has not. Without gate_open: 0, now. */
int gate_pass(int64_t *opened_ns);

#ifdef __cplusplus
}
#endif
#endif
