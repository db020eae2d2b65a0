/* tests/integration/freeze.c - for LD_PRELOAD: a driver stops, as by SIGSTOP,
 * in the middle of a turn of its loop: when it receives a message. FREEZE: the
 * file that makes it do so, once. What it starts does not inherit this. */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[4096];

__attribute__((constructor)) static void keep_to_oneself(void)
{
    const char *file = getenv("FREEZE");

    snprintf(path, sizeof(path), "%s", file ? file : "");
    unsetenv("FREEZE");
    unsetenv("LD_PRELOAD");
}

int zmq_msg_recv(void *msg, void *socket, int flags);

/* libzmq's. */
__attribute__((visibility("default"))) int zmq_msg_recv(void *msg, void *socket,
                                                        int flags)
{
    static int (*real)(void *, void *, int);
    int n;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "zmq_msg_recv");
    n = real(msg, socket, flags);
    if (n >= 0 && path[0] && unlink(path) == 0)
        raise(SIGSTOP);
    return n;
}
