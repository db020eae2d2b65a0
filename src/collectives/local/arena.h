/* collectives/local/arena.h - the process's arena: a memfd that the other ranks
 * of the host map as well, from which hvd_alloc takes.
 *
 *   file   | head |      | segment | segment 1       | segment 2 ...
 *          0             HUGE
 *
 * It is opened when it is first needed and grows by segments, as hvd_alloc
 * needs more: each as large as all before it together, or as what is asked for,
 * so there are few. A segment is mapped here when it is made, elsewhere when
 * something in it is first looked at (peer_memory.c). What limits a process
 * (RLIMIT_AS, RLIMIT_FSIZE) so counts for what is used, and no more. Pages come
 * and go with hvd_alloc and hvd_free; a segment stays. The file is sealed
 * against becoming shorter, so that nobody who has it mapped can be hurt; it
 * has no name and lives as long as somebody maps it or holds its descriptor.
 *
 * Where a segment cannot be had, hvd_alloc gives private memory.
 *
 * Threads: any. */
#ifndef COLLECTIVES_LOCAL_ARENA_H
#define COLLECTIVES_LOCAL_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARENA_SEGMENTS_MAX = 48, ARENA_HEAD_NBYTES = 4096 };

/* Both multiples of 2 MiB. */
struct arena_segment {
    uint64_t offset, nbytes; /* in the file */
};

/* At the start of the file; written by its owner. */
struct arena_head {
    atomic_uint_least64_t n_segments; /* stored behind what it counts */
    struct arena_segment segments[ARENA_SEGMENTS_MAX];
};

/* Segments of one file that are mapped. Added to by one thread at a time, read
 * by any. */
struct arena_views {
    atomic_size_t n; /* stored behind what it counts */
    struct arena_view {
        uint8_t *base;
        uint64_t offset;
        size_t nbytes;
    } views[ARENA_SEGMENTS_MAX];
};

/* Where these bytes of the file are mapped; NULL: nowhere, or not together. */
static inline uint8_t *arena_views_at(const struct arena_views *views,
                                      uint64_t offset, size_t nbytes)
{
    size_t n = atomic_load_explicit(&views->n, memory_order_acquire);

    for (size_t i = 0; i < n; i++) {
        const struct arena_view *v = &views->views[i];

        if (offset >= v->offset && offset - v->offset <= v->nbytes &&
            nbytes <= v->nbytes - (offset - v->offset))
            return v->base + (offset - v->offset);
    }
    return NULL;
}

/* As ftruncate(2), but beyond RLIMIT_FSIZE it fails (EFBIG), where that costs a
 * signal which ends the program. */
bool arena_extend(int fd, uint64_t nbytes);

/* Map a segment, at an address that huge pages fit. false: errno. */
bool arena_views_map(struct arena_views *views, int fd,
                     struct arena_segment segment);
void arena_views_unmap(struct arena_views *views);

/* The process's. -1: there is no arena (errno says why), or it was closed
 * (EBADF). */
int arena_fd(void);

/* Own memory at this place of the file; NULL: none. */
uint8_t *arena_at(uint64_t offset, size_t nbytes);

/* Do all of these bytes lie in the arena? *offset_p: where in the file. */
bool arena_find(const void *ptr, size_t nbytes, uint64_t *offset_p);

/* Nobody will be handed the descriptor any more: hvd_shutdown. What was
 * allocated stays, and hvd_alloc and hvd_free work on. */
void arena_close(void);

/* In a child of fork: hvd_alloc refuses from now on, whether or not the parent
 * has called it. Async-signal-safe. */
void arena_forked(void);

#endif
