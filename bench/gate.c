/* bench/gate.c - see gate.h.
 *
 * The last to come stamps the round and counts it up. Stamps alternate: nobody
 * writes that of round r + 2 before all have come to it, and so have read that
 * of round r. */
#include "bench/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/method.h"

enum {
    LINE = 64,
    LOOKS = 4096, /* some microseconds */
    LEAD_NS = 500 /* a line gets to all processors in that time */
};

static const int64_t patience_ns = 20000000000;

struct page {
    _Alignas(LINE) _Atomic uint64_t arrived; /* of all ranks, ever */
    _Alignas(LINE) _Atomic uint64_t rounds;  /* that are open */
    int64_t opened_ns[2];                    /* of a round, modulo 2 */
};

static struct {
    struct page *page; /* NULL: open */
    uint64_t size, round;
    bool crowded;
} gate;

int gate_open(const char *path, int size, bool crowded)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), error = 0;
    void *page = MAP_FAILED;

    if (fd < 0)
        return errno;
    if (ftruncate(fd, sizeof(struct page)) == 0)
        page = mmap(NULL, sizeof(struct page), PROT_READ | PROT_WRITE,
                    MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        error = errno;
    close(fd);
    if (error != 0)
        return error;
    gate.page = page;
    gate.size = (uint64_t)size;
    gate.crowded = crowded;
    if (atomic_load(&gate.page->arrived) == 0)
        return 0;
    munmap(page, sizeof(struct page));
    gate.page = NULL;
    return EEXIST;
}

static bool is_open(void)
{
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(&gate.page->rounds, memory_order_acquire) >=
            gate.round)
            return true;
        if (gate.crowded)
            sched_yield();
    }
    sched_yield();
    return false;
}

static int wait_open(void)
{
    int64_t until_ns = 0;

    while (!is_open()) {
        if (until_ns == 0)
            until_ns = method_now_ns() + patience_ns;
        if (method_now_ns() > until_ns)
            return ETIMEDOUT;
    }
    return 0;
}

int gate_pass(int64_t *opened_ns)
{
    struct page *page = gate.page;
    int64_t *stamp, lead_ns = gate.crowded ? 0 : LEAD_NS;

    *opened_ns = method_now_ns();
    if (!page)
        return 0;
    stamp = &page->opened_ns[++gate.round % 2];
    if (atomic_fetch_add(&page->arrived, 1) + 1 == gate.round * gate.size) {
        *stamp = method_now_ns() + lead_ns;
        atomic_store_explicit(&page->rounds, gate.round, memory_order_release);
    } else if (wait_open() != 0) {
        return ETIMEDOUT;
    }
    *opened_ns = *stamp;
    while (!gate.crowded && method_now_ns() < *opened_ns)
        continue;
    return 0;
}
