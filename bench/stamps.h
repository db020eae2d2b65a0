/* bench/stamps.h - the file that bench/recovery and its workers share: when
 * each worker did what, to the nanosecond, readable while it runs and after it
 * was killed. bench/elastic/stamps.py is the other half.
 *
 *     0      struct stamps                      made by bench/recovery
 *     4096   n_rings_max rings of ring_nbytes   one per process, first come
 *
 * All little-endian, as the machine is; stamps.py unpacks it by these offsets.
 *
 * Threads: one writer per ring; `n` is stored after the record it counts. */
#ifndef BENCH_STAMPS_H
#define BENCH_STAMPS_H

#include <stdatomic.h>
#include <stdint.h>

enum { STAMPS_HEAD_NBYTES = 4096, STAMPS_RECORDS = 32768 };

#define STAMPS_MAGIC UINT64_C(0x3173706d61747368)

enum stamp_kind {
    STAMP_ENTER = 1, /* the training function was called */
    STAMP_BEGIN = 2, /* goes into the allreduce of `step` */
    STAMP_STEP = 3,  /* came out of it well */
    STAMP_LOST = 4,  /* ... or with HVD_PEER_LOST */
    STAMP_LEFT = 5,  /* a boundary said HVD_HOSTS_UPDATED */
    STAMP_STALL = 6  /* waits to be killed instead */
};

struct stamp {
    uint32_t kind; /* enum stamp_kind */
    uint32_t size; /* of the generation */
    uint64_t generation;
    uint64_t step;
    uint64_t ns; /* CLOCK_MONOTONIC */
};

struct stamps {
    uint64_t magic;
    uint32_t n_rings_max;
    _Atomic uint32_t n_rings;
    _Atomic uint64_t stall_pid; /* who must stop before its next allreduce */
    _Atomic uint64_t stop_step; /* training ends there; UINT64_MAX: never */
};

struct stamps_ring {
    uint64_t pid;
    _Atomic uint64_t n; /* stamps so far; the newest STAMPS_RECORDS are there */
    char place[12]; /* where it runs, and its rank now: of workers of others */
    uint32_t rank;  /* (bench/elastic), ours are in the event log */
    struct stamp items[STAMPS_RECORDS];
};

_Static_assert(sizeof(struct stamp) == 32, "stamps.py unpacks 32 bytes");
_Static_assert(sizeof(struct stamps_ring) == 32 + 32 * STAMPS_RECORDS,
               "stamps.py computes this");

#endif
