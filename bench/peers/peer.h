/* bench/peers/peer.h - what a library must offer to be a contestant of
 * bench/compare.
 *
 * main.c does what is the same for all: options, buffers, the method, the check
 * of results, the output. mpi.c, window.c and gloo.cc offer these functions; a
 * program links exactly one of them. Built by bench/compare, with the compilers
 * that the libraries bring; no part of the project's own build.
 *
 * Errors end the process, with a sentence on stderr and status 1: whoever runs
 * the contest tells it as a failed cell.
 *
 * Threads: one; a library may have its own. */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/cases.h"

#ifdef __cplusplus
extern "C" {
#endif

void peer_init(int *argc, char ***argv, int *rank_p, int *size_p);
void peer_fini(void);

void peer_barrier(void);
void peer_max(int64_t *ns, size_t n); /* each: the greatest of all ranks */
int64_t peer_sum(int64_t value);

/* Memory of the library's own kind, page aligned, the same nbytes on all ranks;
 * NULL: it has none. All of it lives until peer_release, which peer_fini
 * calls. */
void *peer_allocate(size_t nbytes);
void peer_release(void);

/* How many ways there are to make this collective: algorithms, of which the
 * library chooses none, or not always the best. 0: it lacks the collective.
 * Names have no comma and no slash. */
int peer_ways(enum case_kind kind);
const char *peer_way_name(enum case_kind kind, int way);
bool peer_way_suits(const struct bench_case *c, int way); /* for that size */

/* Get ready for calls of *c on these buffers, by that way. Borrowed until the
 * next peer_prepare or peer_fini. Not timed. All ranks. */
void peer_prepare(const struct bench_case *c, int way, void *send, void *recv);

/* The collective of the last peer_prepare. This is what is timed. */
void peer_call(void);

/* After a call: recv holds the result. Not timed. (Where a library leaves it
 * elsewhere.) */
void peer_settle(void);

#ifdef __cplusplus
}
#endif
#endif
