/* collectives/arena.c - hvd_alloc and hvd_free, and the arena behind them. See
 * arena.h.
 *
 * Extents are kept in order of their address; an allocation takes the first gap
 * that is large enough. There are few of them: not for small objects. What is
 * freed is punched out of the file, so the memory is the system's again even
 * while others have it mapped.
 *
 * Not inherited by fork: a child has no business with it.
 *
 * Threads: any; one lock. */
#include "collectives/arena.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hvd/collectives.h>

#include "base/array.h"
#include "base/error.h"
#include "base/log.h"
#include "collectives/local.h"

enum { HUGE_NBYTES = 2 << 20, PAGE_NBYTES = 4096 };

static const size_t arena_min = (size_t)16 << 30, arena_max = (size_t)1 << 38;

_Static_assert(((uint64_t)LOCAL_SIZE_MAX << 38) <= (uint64_t)1 << 46,
               "those of a host have to fit into half of an address space");

struct extent {
    uint8_t *start;
    size_t nbytes;
    bool private; /* a mapping of its own, outside the arena */
};

static struct {
    pthread_mutex_t lock;
    bool tried;
    int fd;
    uint8_t *base;
    _Atomic size_t nbytes; /* 0: none; set last, then constant */
    struct extent *extents;
    size_t n_extents, extents_max;
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* --- the file --- */

static size_t wanted_nbytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    size_t nbytes = arena_min;

    while (nbytes < arena_max &&
           nbytes < (size_t)(pages > 0 ? pages : 0) * PAGE_NBYTES)
        nbytes *= 2;
    return nbytes;
}

static int open_file(size_t nbytes)
{
    int fd = memfd_create("hvd-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)nbytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Address space may be limited: take less, down to what is still useful. */
static void open_arena(void)
{
    size_t nbytes = wanted_nbytes();

    arena.tried = true;
    for (; nbytes >= arena_min / 16; nbytes /= 2) {
        int fd = open_file(nbytes);
        void *base;

        if (fd < 0)
            break;
        base = mmap(NULL, nbytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (base != MAP_FAILED) {
            (void)madvise(base, nbytes, MADV_DONTFORK);
            (void)madvise(base, nbytes, MADV_DONTDUMP);
            arena.fd = fd;
            arena.base = base;
            arena.nbytes = nbytes;
            return;
        }
        close(fd);
    }
    log_debug("no memory that others can map -> hvd_alloc gives private "
              "memory");
}

static void lock_open(void)
{
    pthread_mutex_lock(&arena.lock);
    if (!arena.tried)
        open_arena();
}

int arena_fd(void)
{
    int fd;

    lock_open();
    fd = arena.fd;
    pthread_mutex_unlock(&arena.lock);
    return fd;
}

size_t arena_nbytes(void)
{
    size_t nbytes;

    lock_open();
    nbytes = arena.nbytes;
    pthread_mutex_unlock(&arena.lock);
    return nbytes;
}

uint8_t *arena_base(void)
{
    uint8_t *base;

    lock_open();
    base = arena.base;
    pthread_mutex_unlock(&arena.lock);
    return base;
}

/* --- extents --- */

/* Memory of 2 MiB and more starts on such a boundary, or no huge page fits. */
static size_t alignment_of(size_t nbytes)
{
    return nbytes >= HUGE_NBYTES ? HUGE_NBYTES : PAGE_NBYTES;
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

static uint8_t *take_shared(size_t nbytes)
{
    size_t align = alignment_of(nbytes), at;
    uint8_t *end = arena.base + arena.nbytes, *start = arena.base;

    if (arena.nbytes == 0)
        return NULL;
    for (at = position_of(arena.base);; at++) {
        bool last = at == arena.n_extents || arena.extents[at].start >= end;
        uint8_t *limit = last ? end : arena.extents[at].start;

        start = (uint8_t *)(((uintptr_t)start + align - 1) &
                            ~(uintptr_t)(align - 1));
        if (start <= limit && nbytes <= (size_t)(limit - start))
            break;
        if (last)
            return NULL;
        start = limit + arena.extents[at].nbytes;
    }
    return insert(at, (struct extent){start, nbytes, false}) ? start : NULL;
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

hvd_status_t hvd_alloc(size_t nbytes, void **ptr_p)
{
    size_t whole;
    uint8_t *start;

    if (nbytes == 0 || ptr_p == NULL)
        return error_set(HVD_ERR_INVALID, "hvd_alloc: %s",
                         nbytes == 0 ? "0 bytes" : "ptr_p is NULL");
    if (__builtin_add_overflow(nbytes, PAGE_NBYTES - 1, &whole) ||
        whole > PTRDIFF_MAX)
        return error_set(HVD_ERR_NOMEM, "hvd_alloc: %zu bytes", nbytes);
    whole &= ~(size_t)(PAGE_NBYTES - 1);
    lock_open();
    start = take_shared(whole);
    if (start == NULL)
        start = take_private(whole);
    pthread_mutex_unlock(&arena.lock);
    if (start == NULL)
        return error_set(HVD_ERR_NOMEM, "hvd_alloc: %zu bytes", nbytes);
    if (whole >= HUGE_NBYTES)
        (void)madvise(start, whole, MADV_HUGEPAGE);
    *ptr_p = start;
    return HVD_OK;
}

void hvd_free(void *ptr)
{
    struct extent extent;
    size_t at;

    if (ptr == NULL)
        return;
    pthread_mutex_lock(&arena.lock);
    at = position_of(ptr);
    HVD_ASSERT(at < arena.n_extents && arena.extents[at].start == ptr);
    extent = arena.extents[at];
    if (extent.private)
        (void)munmap(extent.start, extent.nbytes);
    else
        (void)madvise(extent.start, extent.nbytes, MADV_REMOVE);
    arena.n_extents--;
    memmove(arena.extents + at, arena.extents + at + 1,
            (arena.n_extents - at) * sizeof(*arena.extents));
    pthread_mutex_unlock(&arena.lock);
}

bool arena_find(const void *ptr, size_t nbytes, uint64_t *offset_p)
{
    const uint8_t *start = ptr;
    size_t total = arena.nbytes;

    if (total == 0 || start < arena.base || start >= arena.base + total ||
        nbytes > (size_t)(arena.base + total - start))
        return false;
    *offset_p = (uint64_t)(start - arena.base);
    return true;
}

void arena_close(void)
{
    if (arena.fd >= 0)
        close(arena.fd);
    arena.fd = -1;
}
