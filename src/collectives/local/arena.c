/* collectives/local/arena.c - hvd_alloc and hvd_free, and the arena behind
 * them. See arena.h.
 *
 * Extents are kept in order of their address; an allocation takes the first gap
 * that is large enough. There are few of them: not for small objects. What is
 * freed is punched out of the file, so the memory is the system's again even
 * while others have it mapped.
 *
 * A forked child does not have the memory, and must not touch the lock, which
 * another thread may have held: hvd_alloc refuses there.
 *
 * Threads: any; one lock. */
#include "collectives/local/arena.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <hvd/collectives.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"

enum { HUGE_NBYTES = 2 << 20, SEGMENT_MIN = 32 << 20 };

_Static_assert(sizeof(struct arena_head) <= ARENA_HEAD_NBYTES, "one page");

struct extent {
    uint8_t *start;
    size_t nbytes;
    bool private; /* a mapping of its own, outside the arena */
};

static struct {
    pthread_mutex_t lock;
    bool tried;
    int fd;
    int error; /* errno: why there is none */
    size_t page_nbytes;
    struct arena_head *head; /* NULL: there is no arena */
    uint64_t end;            /* of the last segment in the file */
    uint64_t length;         /* of the file: longer, if a mapping failed */
    struct arena_views views;
    struct extent *extents;
    size_t n_extents, extents_max;
    atomic_bool forked; /* this is a child of the process that had it all */
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* --- views --- */

static uint8_t *round_up(uint8_t *at, size_t align)
{
    return (uint8_t *)(((uintptr_t)at + align - 1) & ~(uintptr_t)(align - 1));
}

/* Room for the segment and for its alignment is taken first, then what is too
 * much of it is given back. */
static uint8_t *map_aligned(int fd, struct arena_segment s)
{
    size_t room = s.nbytes + HUGE_NBYTES;
    uint8_t *start = mmap(NULL, room, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *base;
    void *map;

    if (start == MAP_FAILED)
        return NULL;
    base = round_up(start, HUGE_NBYTES);
    map = mmap(base, s.nbytes, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, (off_t)s.offset);
    if (map == MAP_FAILED) {
        (void)munmap(start, room);
        return NULL;
    }
    if (base > start)
        (void)munmap(start, (size_t)(base - start));
    (void)munmap(base + s.nbytes, (size_t)(start + room - base) - s.nbytes);
    return base;
}

bool arena_views_map(struct arena_views *views, int fd,
                     struct arena_segment segment)
{
    size_t n = atomic_load_explicit(&views->n, memory_order_relaxed);
    uint8_t *base;

    if (n == ARENA_SEGMENTS_MAX) {
        errno = ENOMEM;
        return false;
    }
    base = map_aligned(fd, segment);
    if (base == NULL)
        return false;
    (void)madvise(base, segment.nbytes, MADV_DONTFORK);
    (void)madvise(base, segment.nbytes, MADV_DONTDUMP);
    views->views[n] = (struct arena_view){base, segment.offset, segment.nbytes};
    atomic_store_explicit(&views->n, n + 1, memory_order_release);
    return true;
}

void arena_views_unmap(struct arena_views *views)
{
    size_t n = atomic_load_explicit(&views->n, memory_order_relaxed);

    atomic_store_explicit(&views->n, 0, memory_order_release);
    for (size_t i = 0; i < n; i++)
        (void)munmap(views->views[i].base, views->views[i].nbytes);
}

/* --- the file --- */

bool arena_extend(int fd, uint64_t nbytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY && nbytes > limit.rlim_cur) {
        errno = EFBIG;
        return false;
    }
    return ftruncate(fd, (off_t)nbytes) == 0;
}

static int open_file(void)
{
    int fd = memfd_create("hvd-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int error;

    if (fd < 0)
        return -1;
    if (arena_extend(fd, HUGE_NBYTES) &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool map_head(int fd)
{
    void *head = mmap(NULL, ARENA_HEAD_NBYTES, PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0);

    if (head == MAP_FAILED)
        return false;
    (void)madvise(head, ARENA_HEAD_NBYTES, MADV_DONTFORK);
    arena.head = head;
    return true;
}

static void close_file(void)
{
    if (arena.fd >= 0)
        close(arena.fd);
    arena.fd = -1;
}

/* Async-signal-safe: without the lock, which nobody else needs in there. A
 * child that kept the descriptor would keep the memory. */
static void in_child(void)
{
    atomic_store(&arena.forked, true);
    close_file();
}

static void open_arena(void)
{
    arena.tried = true;
    arena.page_nbytes = (size_t)sysconf(_SC_PAGESIZE);
    errno = pthread_atfork(NULL, NULL, in_child);
    if (errno == 0)
        arena.fd = open_file();
    if (arena.fd >= 0 && map_head(arena.fd)) {
        arena.end = arena.length = HUGE_NBYTES;
        return;
    }
    arena.error = errno;
    close_file();
    log_debug("no memory that others can map (%s) -> hvd_alloc gives private "
              "memory",
              strerror(arena.error));
}

static void lock_open(void)
{
    pthread_mutex_lock(&arena.lock);
    if (!arena.tried)
        open_arena();
}

/* It never becomes shorter: the seal would refuse that. */
static bool reach(uint64_t nbytes)
{
    if (nbytes <= arena.length)
        return true;
    if (!arena_extend(arena.fd, nbytes))
        return false;
    arena.length = nbytes;
    return true;
}

static bool add_segment(size_t nbytes)
{
    struct arena_segment s = {arena.end, nbytes};
    size_t n = atomic_load(&arena.views.n);

    if (!reach(s.offset + nbytes) ||
        !arena_views_map(&arena.views, arena.fd, s))
        return false;
    arena.head->segments[n] = s;
    atomic_store(&arena.head->n_segments, n + 1);
    arena.end += nbytes;
    return true;
}

/* As much again as there is, so that segments are few; where that cannot be
 * had, what is needed. */
static bool grow(size_t nbytes)
{
    size_t whole = (nbytes + HUGE_NBYTES - 1) & ~(size_t)(HUGE_NBYTES - 1);
    size_t more = arena.end - HUGE_NBYTES;

    if (arena.fd < 0 || whole < nbytes)
        return false;
    if (more < SEGMENT_MIN)
        more = SEGMENT_MIN;
    return (more > whole && add_segment(more)) || add_segment(whole);
}

int arena_fd(void)
{
    int fd;

    lock_open();
    fd = arena.fd;
    errno = arena.error != 0 ? arena.error : EBADF;
    pthread_mutex_unlock(&arena.lock);
    return fd;
}

uint8_t *arena_at(uint64_t offset, size_t nbytes)
{
    return arena_views_at(&arena.views, offset, nbytes);
}

/* --- extents --- */

/* Memory of 2 MiB and more starts on such a boundary, or no huge page fits. */
static size_t alignment_of(size_t nbytes)
{
    return nbytes >= HUGE_NBYTES ? HUGE_NBYTES : arena.page_nbytes;
}

static bool insert(size_t at, struct extent extent)
{
    if (!array_reserve(&arena.extents, &arena.extents_max, arena.n_extents + 1))
        return false;
    memmove(arena.extents + at + 1, arena.extents + at,
            (arena.n_extents - at) * sizeof(*arena.extents));
    arena.extents[at] = extent;
    arena.n_extents++;
    return true;
}

/* The first extent that starts at or behind ptr. */
static size_t position_of(const uint8_t *ptr)
{
    size_t low = 0, high = arena.n_extents;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (arena.extents[middle].start < ptr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The first gap of a segment. */
static uint8_t *take_in(const struct arena_view *v, size_t nbytes)
{
    uint8_t *end = v->base + v->nbytes, *start = v->base;

    for (size_t at = position_of(v->base);; at++) {
        bool last = at == arena.n_extents || arena.extents[at].start >= end;
        uint8_t *limit = last ? end : arena.extents[at].start;

        start = round_up(start, alignment_of(nbytes));
        if (start <= limit && nbytes <= (size_t)(limit - start))
            return insert(at, (struct extent){start, nbytes, false}) ? start
                                                                     : NULL;
        if (last)
            return NULL;
        start = limit + arena.extents[at].nbytes;
    }
}

static uint8_t *take_shared(size_t nbytes)
{
    size_t n = atomic_load(&arena.views.n);
    uint8_t *start = NULL;

    for (size_t i = 0; i < n && start == NULL; i++)
        start = take_in(&arena.views.views[i], nbytes);
    if (start == NULL && grow(nbytes))
        start = take_in(&arena.views.views[n], nbytes);
    return start;
}

static uint8_t *take_private(size_t nbytes)
{
    uint8_t *start = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (start == MAP_FAILED)
        return NULL;
    if (!insert(position_of(start), (struct extent){start, nbytes, true})) {
        (void)munmap(start, nbytes);
        return NULL;
    }
    (void)madvise(start, nbytes, MADV_DONTFORK);
    return start;
}

/* In whole pages, of whichever size they are. */
static uint8_t *take(size_t nbytes)
{
    size_t page, whole;
    uint8_t *start = NULL;

    lock_open();
    page = arena.page_nbytes;
    if (!__builtin_add_overflow(nbytes, page - 1, &whole) &&
        whole <= PTRDIFF_MAX / 2) {
        whole &= ~(page - 1);
        start = take_shared(whole);
        if (start == NULL)
            start = take_private(whole);
    }
    pthread_mutex_unlock(&arena.lock);
    if (start != NULL && whole >= HUGE_NBYTES)
        (void)madvise(start, whole, MADV_HUGEPAGE);
    return start;
}

void *hvd_alloc(size_t nbytes)
{
    uint8_t *start = NULL;

    if (nbytes == 0)
        error_set(HVD_ERR_INVALID, "hvd_alloc: 0 bytes");
    else if (atomic_load(&arena.forked))
        error_set(HVD_ERR_INVALID, "hvd_alloc: called in a forked child");
    else if ((start = take(nbytes)) == NULL)
        error_set(HVD_ERR_NOMEM, "hvd_alloc: no memory for %zu bytes", nbytes);
    return start;
}

void arena_forked(void)
{
    atomic_store(&arena.forked, true);
}

/* What is taken next is zero and may be written, whatever the last owner did to
 * it; the next may be this library itself. The kernel does not punch what is
 * locked (mlock, mlockall): it is unlocked, as munmap would. */
static void punch(const struct extent *e)
{
    (void)mprotect(e->start, e->nbytes, PROT_READ | PROT_WRITE);
    if (madvise(e->start, e->nbytes, MADV_REMOVE) == 0)
        return;
    (void)munlock(e->start, e->nbytes);
    if (madvise(e->start, e->nbytes, MADV_REMOVE) != 0)
        memset(e->start, 0, e->nbytes);
}

void hvd_free(void *ptr)
{
    struct extent extent;
    size_t at;

    if (ptr == NULL || atomic_load(&arena.forked))
        return;
    pthread_mutex_lock(&arena.lock);
    at = position_of(ptr);
    HVD_ASSERT(at < arena.n_extents && arena.extents[at].start == ptr);
    extent = arena.extents[at];
    if (extent.private)
        (void)munmap(extent.start, extent.nbytes);
    else
        punch(&extent);
    arena.n_extents--;
    memmove(arena.extents + at, arena.extents + at + 1,
            (arena.n_extents - at) * sizeof(*arena.extents));
    pthread_mutex_unlock(&arena.lock);
}

bool arena_find(const void *ptr, size_t nbytes, uint64_t *offset_p)
{
    size_t n = atomic_load_explicit(&arena.views.n, memory_order_acquire);
    const uint8_t *start = ptr;

    for (size_t i = 0; i < n; i++) {
        const struct arena_view *v = &arena.views.views[i];

        if (start < v->base || start >= v->base + v->nbytes)
            continue;
        if (nbytes > (size_t)(v->base + v->nbytes - start))
            return false;
        *offset_p = v->offset + (uint64_t)(start - v->base);
        return true;
    }
    return false;
}

/* Under the lock: the number may be another file's a moment later, and who is
 * about to extend the arena would extend that. */
void arena_close(void)
{
    pthread_mutex_lock(&arena.lock);
    close_file();
    pthread_mutex_unlock(&arena.lock);
}
