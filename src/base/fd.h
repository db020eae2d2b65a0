/* base/fd.h - descriptors. Threads: any; fd_close() is async-signal-safe. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <errno.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Keep other processes from claiming this file, until the descriptor is closed.
 * False: one has claimed it. A file system without locks, and what is no file
 * (a pipe, /dev/null), is free for everybody. */
static inline bool fd_claim(int fd)
{
    struct stat st;

    return fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) ||
           flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/* May what has failed with this error on a file do later: is its disk full, or
 * a quota, or a server away? */
bool fd_error_may_pass(int error);

/* Close it, if there is one, and forget it: -1. */
static inline void fd_close(int *fd_p)
{
    if (*fd_p >= 0)
        close(*fd_p);
    *fd_p = -1;
}

/* Close those from low to high. */
void fd_close_all(int low, int high);

/* Make all from low on close at an exec. */
void fd_keep_all(int low);

#endif
