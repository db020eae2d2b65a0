/* base/thread.c - see thread.h. */
#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *thread_p, const char *name, void *(*main)(void *),
                 void *arg)
{
    sigset_t all, old;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(thread_p, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error == 0)
        (void)pthread_setname_np(*thread_p, name);
    return error;
}
