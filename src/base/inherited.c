/* base/inherited.c - see inherited.h. */
#include "base/inherited.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/rlimits.h"

static sigset_t ignored, blocked; /* zeros: none */
static mode_t mask;
static bool taken;

/* A file that is opened later would get such a number, and with it all that is
 * printed. Where there is no /dev/null, something that cannot be read. */
static void fill_standard(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
        if (fd < 0)
            fd = open("/", O_PATH);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

static void take_signals(void)
{
    struct sigaction old;

    sigemptyset(&ignored);
    for (int s = 1; s < NSIG; s++)
        if (sigaction(s, NULL, &old) == 0 && old.sa_handler == SIG_IGN)
            sigaddset(&ignored, s);
    sigprocmask(SIG_SETMASK, NULL, &blocked);
    sigdelset(&ignored, SIGCHLD);
    sigdelset(&blocked, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

void inherited_take(void)
{
    fill_standard();
    fd_keep_all(STDERR_FILENO + 1);
    take_signals();
    mask = umask(0);
    umask(mask & ~(mode_t)S_IRWXU);
    taken = true;
}

void inherited_drop_ignored(sigset_t *set)
{
    for (int s = 1; s < NSIG; s++)
        if (sigismember(&ignored, s) == 1)
            sigdelset(set, s);
}

void inherited_restore(void)
{
    struct sigaction action = {0};

    for (int s = 1; s < NSIG; s++) { /* some may not be changed: fine */
        action.sa_handler = sigismember(&ignored, s) == 1 ? SIG_IGN : SIG_DFL;
        sigaction(s, &action, NULL);
    }
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    if (taken)
        umask(mask);
    rlimits_restore();
}
