/* bench/gate.h - all ranks of a contestant leave at the same moment.
 *
 * A library's own barrier lets one rank out first, and which one it is differs:
 * where it is the root, a broadcast of a few bytes looks as if it took nothing.
 * So behind that barrier ranks meet once more, in a word of shared memory that
 * is no contestant's. Nobody makes progress for a library meanwhile, which is
 * why its own barrier comes first.
 *
 * Threads: one. Memory: one page, mapped until the process ends. */
#ifndef BENCH_GATE_H
#define BENCH_GATE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* path: a file that all ranks see, made by the first; whoever chose it removes
 * it. yields: there may be fewer processors than ranks. 0, or an errno. */
int gate_open(const char *path, int size, bool yields);

/* 0: all have come. ETIMEDOUT: somebody has not, for a minute. Without
 * gate_open it is open: 0. */
int gate_pass(void);

#ifdef __cplusplus
}
#endif
#endif
