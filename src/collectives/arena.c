/* collectives/arena.c - hvd_alloc and hvd_free: memory for large buffers.
 *
 * Mapped directly, so that it can be advised: huge pages make the death of a
 * process quick to notice (the kernel frees memory before it closes sockets),
 * and a forked child has no business with it. The page in front of the user's
 * memory holds the size of the mapping. Not for small objects.
 *
 * Threads: any. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <hvd/collectives.h>

#include "base/array.h"
#include "base/error.h"

enum { HUGE_NBYTES = 2 << 20, FRONT_NBYTES = 4096 };

struct front {
    uint64_t magic;
    void *map;
    size_t map_nbytes;
};

static const uint64_t front_magic = 0x616e657261647668u; /* "hvdarena" */

/* Memory of 2 MiB and more starts on such a boundary, or no huge page fits. */
static size_t alignment_of(size_t nbytes)
{
    return nbytes >= HUGE_NBYTES ? HUGE_NBYTES : FRONT_NBYTES;
}

hvd_status_t hvd_alloc(size_t nbytes, void **ptr_p)
{
    size_t align = alignment_of(nbytes), total;
    struct front *front;
    uint8_t *map, *user;

    if (nbytes == 0 || ptr_p == NULL)
        return error_set(HVD_ERR_INVALID, "hvd_alloc: %s",
                         nbytes == 0 ? "0 bytes" : "ptr_p is NULL");
    if (__builtin_add_overflow(nbytes, align + FRONT_NBYTES, &total) ||
        total > PTRDIFF_MAX)
        return error_set(HVD_ERR_NOMEM, "hvd_alloc: %zu bytes", nbytes);
    map = mmap(NULL, total, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return error_set(HVD_ERR_NOMEM, "hvd_alloc: %zu bytes", nbytes);
    (void)madvise(map, total, MADV_DONTFORK);
    user = (uint8_t *)(((uintptr_t)map + FRONT_NBYTES + align - 1) &
                       ~(uintptr_t)(align - 1));
    if (nbytes >= HUGE_NBYTES)
        (void)madvise(user, nbytes, MADV_HUGEPAGE);
    front = (struct front *)(void *)(user - FRONT_NBYTES);
    *front = (struct front){front_magic, map, total};
    *ptr_p = user;
    return HVD_OK;
}

void hvd_free(void *ptr)
{
    struct front *front;

    if (ptr == NULL)
        return;
    front = (struct front *)(void *)((uint8_t *)ptr - FRONT_NBYTES);
    HVD_ASSERT(front->magic == front_magic);
    (void)munmap(front->map, front->map_nbytes);
}
