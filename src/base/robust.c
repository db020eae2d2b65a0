/* base/robust.c - see robust.h.
 *
 * Not a pthread mutex: the watcher has to wait for many words at once, so it
 * has to know which word it is, and what the kernel makes of it. The list of
 * what a thread holds belongs to the C library; a thread that calls robust_lock
 * has one of ours instead, and may hold no robust mutex besides.
 *
 * The word says FUTEX_WAITERS from the beginning: the kernel wakes nobody
 * otherwise, and nobody but the holder writes to it.
 *
 * Threads: see there. Memory: a mapping; the list, static. */
#include "base/robust.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"

#define MAGIC UINT64_C(0x6876642d726f6275)

/* Less than a page: a limit on the size of files may be as low. */
struct robust {
    uint64_t magic;
    uint32_t word;
};

enum { SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW };

/* What this process holds. The kernel follows the list to its only entry, and
 * finds the word at the same distance from any entry. */
static struct {
    struct robust_list_head head;
    struct robust_list entry;
} held;

/* ---- the watcher --------------------------------------------------------- */

static hvd_status_t make(int fd, struct robust **robust_p)
{
    struct robust first = {.magic = MAGIC, .word = FUTEX_WAITERS};
    void *at;

    if (pwrite(fd, &first, sizeof(first), 0) != (ssize_t)sizeof(first) ||
        fcntl(fd, F_ADD_SEALS, SEALS) < 0)
        return error_errno("a robust lock");
    at = mmap(NULL, sizeof(struct robust), PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return error_errno("mmap, for a robust lock");
    *robust_p = at;
    return HVD_OK;
}

hvd_status_t robust_create(struct robust **robust_p, int *fd_p)
{
    int fd = memfd_create("hvd-robust", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    hvd_status_t status;

    if (fd < 0)
        return error_errno("memfd_create, for a robust lock");
    status = make(fd, robust_p);
    if (status == HVD_OK)
        *fd_p = fd;
    else
        close(fd);
    return status;
}

enum robust_state robust_look(const struct robust *robust, uint32_t *word_p,
                              int *thread_p)
{
    uint32_t word = __atomic_load_n(&robust->word, __ATOMIC_SEQ_CST);

    *word_p = word;
    *thread_p = (int)(word & FUTEX_TID_MASK);
    if (word & FUTEX_OWNER_DIED)
        return ROBUST_DIED;
    return *thread_p != 0 ? ROBUST_HELD : ROBUST_FREE;
}

const uint32_t *robust_word(const struct robust *robust)
{
    return &robust->word;
}

void robust_detach(struct robust *robust)
{
    if (robust)
        munmap(robust, sizeof(*robust));
}

/* ---- the holder ---------------------------------------------------------- */

/* Another file may have this number, if a program has closed descriptors. The
 * system may have sealed it further (vm.memfd_noexec). */
static bool is_lock(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct robust is;
    struct stat st;

    return seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &st) == 0 &&
           st.st_size == (off_t)sizeof(is) &&
           pread(fd, &is, sizeof(is), 0) == (ssize_t)sizeof(is) &&
           is.magic == MAGIC;
}

struct robust *robust_attach(int fd)
{
    void *at;

    if (!is_lock(fd))
        return NULL;
    at = mmap(NULL, sizeof(struct robust), PROT_READ | PROT_WRITE, MAP_SHARED,
              fd, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (madvise(at, sizeof(struct robust), MADV_DONTFORK) == 0)
        return at;
    munmap(at, sizeof(struct robust));
    return NULL;
}

/* In the list first: if the thread ends in between, the word is not its own,
 * and the kernel leaves it as it is. */
bool robust_lock(struct robust *robust)
{
    uint32_t expected = FUTEX_WAITERS;
    uint32_t mine = (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS;

    held.entry.next = &held.head.list;
    held.head = (struct robust_list_head){
        .list = {&held.entry},
        .futex_offset = (long)((uintptr_t)&robust->word -
                               (uintptr_t)&held.entry)};
    if (syscall(SYS_set_robust_list, &held.head, sizeof(held.head)) != 0)
        return false;
    if (!__atomic_compare_exchange_n(&robust->word, &expected, mine, false,
                                     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        held.head.list.next = &held.head.list;
        return false;
    }
    syscall(SYS_futex, &robust->word, FUTEX_WAKE, 1, NULL, NULL, 0);
    return true;
}

void robust_unlock(struct robust *robust)
{
    __atomic_store_n(&robust->word, FUTEX_WAITERS, __ATOMIC_SEQ_CST);
    held.head.list.next = &held.head.list;
}
