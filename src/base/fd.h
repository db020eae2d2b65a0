/* base/fd.h - descriptors. Threads: any; async-signal-safe. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <unistd.h>

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
