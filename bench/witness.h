/* bench/witness.h - counts what a process asks of the allocator and of the
 * kernel's memory management, by putting functions of the same names in front
 * of the C library's: for programs that link this file and libhvd's shared
 * library. Under a sanitizer, which has its own in front, only allocations are
 * counted.
 *
 * Not counted: threads that have nothing to do with collectives, which are
 * hvd-control and ZeroMQ's; they tell the driver that this worker lives.
 *
 * Threads: begin and end by one thread; the counting itself by any. */
#ifndef BENCH_WITNESS_H
#define BENCH_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

struct witness {
    uint64_t allocations; /* malloc, calloc, realloc, aligned_alloc, ... */
    uint64_t frees;       /* of anything but NULL */
    uint64_t maps;        /* mmap, munmap, mremap, madvise, fallocate */
};

extern const bool witness_counts_maps;

void witness_begin(void);
/* What has happened since witness_begin(). */
struct witness witness_end(void);

#endif
