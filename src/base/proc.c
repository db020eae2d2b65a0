/* base/proc.c - see proc.h. */
#include "base/proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Fields of /proc/PID/stat, behind the state. */
enum { FLAGS = 6, STARTED = 19, EXIT_STATUS = 49, TEXT_MAX = 1024 };
enum { IS_EXITING = 4 }; /* a flag: PF_EXITING of the kernel */

/* text [TEXT_MAX]: the beginning of /proc/PID/NAME. Neither file that is read
 * takes a lock that a process may hold for long, as its memory's. */
static bool read_about(pid_t pid, const char *name, char *text)
{
    char path[64];
    ssize_t n = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, text, TEXT_MAX - 1);
        close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* From the state on, in "pid (name) state ppid ...": the name may hold
 * anything. NULL: there is no such process. */
static char *read_stat(pid_t pid, char *text)
{
    char *at = read_about(pid, "stat", text) ? strrchr(text, ')') : NULL;

    return at && strlen(at) >= 5 ? at + 2 : NULL;
}

pid_t proc_parent(pid_t pid)
{
    char text[TEXT_MAX];
    const char *at = read_stat(pid, text);

    return at ? (pid_t)strtol(at + 2, NULL, 10) : 0;
}

size_t proc_line(pid_t pid, pid_t line[PROC_LINE_MAX])
{
    size_t n = 0;

    for (; pid > 0 && n < PROC_LINE_MAX; pid = proc_parent(pid))
        line[n++] = pid;
    return n;
}

bool proc_is_of(pid_t pid, uid_t uid)
{
    char text[TEXT_MAX];
    const char *at = read_about(pid, "status", text) ? strstr(text, "\nUid:\t")
                                                     : NULL;

    return at && strtoul(at + strlen("\nUid:\t"), NULL, 10) == uid;
}

/* The field `n` behind that at `at`; NULL: there are fewer. */
static const char *skip(const char *at, int n)
{
    for (int i = 0; i < n && at; i++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at;
}

uint64_t proc_started(pid_t pid)
{
    char text[TEXT_MAX];
    const char *at = read_stat(pid, text);

    if (!at || *at == 'Z')
        return 0;
    at = skip(at, STARTED);
    return at ? strtoull(at, NULL, 10) : 0;
}

int proc_exit_status(pid_t pid)
{
    char text[TEXT_MAX];
    const char *flags = skip(read_stat(pid, text), FLAGS);
    const char *status = skip(flags, EXIT_STATUS - FLAGS);
    int value = status ? (int)strtol(status, NULL, 10) : 0;

    /* that of a process which any thread has ended is there since Linux 5.17;
     * before, and where it is 0, that of the first thread counts */
    if (value == 0 && (!flags || !(strtoul(flags, NULL, 10) & IS_EXITING)))
        return -1;
    return value;
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
