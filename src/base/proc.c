/* base/proc.c - see proc.h. */
#include "base/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FIELDS_BEFORE = 19 }; /* from the state to the moment it began */

/* "pid (name) state ppid ...": the name may hold anything. */
uint64_t proc_started(pid_t pid)
{
    char path[64], text[1024], *at;
    ssize_t n = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, sizeof(text) - 1);
        close(fd);
    }
    if (n <= 0)
        return 0;
    text[n] = '\0';
    at = strrchr(text, ')');
    if (!at || strlen(at) < 3 || at[2] == 'Z')
        return 0;
    at += 2;
    for (int i = 0; i < FIELDS_BEFORE && at; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

/* The descriptor first: what it is of cannot become another any more. */
int proc_open(pid_t pid, uint64_t started)
{
    int fd;

    if (pid <= 0 || started == 0)
        return -1;
    fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 || proc_started(pid) == started)
        return fd;
    close(fd);
    return -1;
}

void proc_signal(int pidfd, int signo)
{
    if (pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0);
}
