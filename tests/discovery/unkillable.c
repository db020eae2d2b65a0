/* tests/discovery/unkillable.c - a process that SIGKILL does not end, as one
 * that waits in the kernel for a file system that is gone:
 *
 *   unkillable WORDS FIFO
 *
 * It says WORDS and sleeps. When it is killed it stays, until somebody opens
 * FIFO for writing: a child of its, out of its group, holds it at its exit by
 * ptrace(2). Status 77: that is forbidden here. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT = 77, PATIENCE_S = 120 };

/* Until it is about to be gone. */
static void follow(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8))
            return;
        ptrace(PTRACE_CONT, pid, NULL, NULL);
    }
}

static void hold(pid_t pid, int ready, const char *fifo)
{
    char yes = ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACEEXIT) == 0;
    int fd;

    setsid();
    alarm(PATIENCE_S); /* whose end lets it go */
    close(STDOUT_FILENO);
    if (write(ready, &yes, 1) != 1 || !yes)
        return;
    follow(pid);
    do
        fd = open(fifo, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
}

int main(int argc, char **argv)
{
    pid_t self = getpid(), child;
    int ready[2];
    char yes = 0;

    if (argc != 3 || pipe(ready) != 0)
        return 2;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    child = fork();
    if (child == 0) {
        hold(self, ready[1], argv[2]);
        _exit(0);
    }
    if (child < 0 || read(ready[0], &yes, 1) != 1 || !yes)
        return CANNOT;
    puts(argv[1]);
    fflush(stdout);
    while (1)
        pause();
}
