/* base/fd.c - see fd.h.
 *
 * close_range(2) is missing before Linux 5.9, knows CLOEXEC since 5.11, and is
 * refused by older container runtimes. Then /proc says which descriptors there
 * are, and without it each number is tried that the limit allows. */
#include "base/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/array.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum {
    RANGE_CLOEXEC = 1 << 2, /* CLOSE_RANGE_CLOEXEC */
    TRIED_MAX = 1 << 16,    /* a limit of 2^30 would take a minute */
    LIST_NBYTES = 2048,
    NAME_AT = 19 /* of an entry: inode, offset, length, type, name */
};

bool fd_error_may_pass(int error)
{
    static const int passing[] = {
        ENOSPC,    EDQUOT,  EFBIG,     ESTALE,    ENOMEM, ENOBUFS,
        ETIMEDOUT, ENOLINK, EHOSTDOWN, EREMOTEIO, EIO,    EHOSTUNREACH};

    for (size_t i = 0; i < ARRAY_SIZE(passing); i++)
        if (error == passing[i])
            return true;
    return false;
}

/* ---- closing ------------------------------------------------------------- */

typedef void (*act_fn)(int fd);

static void close_one(int fd)
{
    close(fd);
}

static void mark_one(int fd)
{
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* -1: "." and "..". */
static int number_of(const char *name)
{
    int64_t n = 0;

    for (; *name >= '0' && *name <= '9' && n <= INT_MAX; name++)
        n = n * 10 + (*name - '0');
    return *name == '\0' && n <= INT_MAX ? (int)n : -1;
}

/* Without opendir(3), which allocates: another thread may have held that lock
 * at the fork. */
static bool act_on_listed(int low, int high, act_fn act)
{
    char list[LIST_NBYTES];
    int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n = -1;

    while (dir >= 0 &&
           (n = syscall(SYS_getdents64, dir, list, sizeof(list))) > 0) {
        for (long at = 0; at < n;) {
            int fd = number_of(list + at + NAME_AT);
            uint16_t entry_nbytes;

            memcpy(&entry_nbytes, list + at + NAME_AT - 3,
                   sizeof(entry_nbytes));
            at += entry_nbytes;
            if (fd >= low && fd <= high && fd != dir)
                act(fd);
        }
    }
    if (dir >= 0)
        close(dir);
    return n == 0;
}

static void act_on_all(int low, int high, act_fn act)
{
    struct rlimit files = {TRIED_MAX, TRIED_MAX};

    if (act_on_listed(low, high, act))
        return;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur > TRIED_MAX)
        files.rlim_cur = TRIED_MAX;
    for (int fd = low; fd <= high && (rlim_t)fd < files.rlim_cur; fd++)
        act(fd);
}

void fd_close_all(int low, int high)
{
    if (syscall(SYS_close_range, (unsigned)low, (unsigned)high, 0) != 0)
        act_on_all(low, high, close_one);
}

void fd_keep_all(int low)
{
    if (syscall(SYS_close_range, (unsigned)low, ~0U, RANGE_CLOEXEC) != 0)
        act_on_all(low, INT_MAX, mark_one);
}
