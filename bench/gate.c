/* bench/gate.c - see gate.h. */
#include "bench/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/method.h"

enum { LOOKS = 4096, PAGE = 4096 };
static const int64_t patience_ns = 60000000000;

static struct {
    _Atomic uint64_t *arrived; /* of all ranks, ever; NULL: open */
    uint64_t size, want;
    bool yields;
} gate;

int gate_open(const char *path, int size, bool yields)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), error = 0;
    void *page = MAP_FAILED;

    if (fd < 0)
        return errno;
    if (ftruncate(fd, PAGE) == 0)
        page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        error = errno;
    close(fd);
    if (error != 0)
        return error;
    gate.arrived = page;
    gate.size = (uint64_t)size;
    gate.yields = yields;
    return 0;
}

static bool all_there(void)
{
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load_explicit(gate.arrived, memory_order_acquire) >=
            gate.want)
            return true;
        if (gate.yields)
            sched_yield();
    }
    return false;
}

int gate_pass(void)
{
    int64_t until_ns = 0;

    if (!gate.arrived)
        return 0;
    gate.want += gate.size;
    atomic_fetch_add_explicit(gate.arrived, 1, memory_order_acq_rel);
    while (!all_there()) {
        if (until_ns == 0)
            until_ns = method_now_ns() + patience_ns;
        if (method_now_ns() > until_ns)
            return ETIMEDOUT;
    }
    return 0;
}
