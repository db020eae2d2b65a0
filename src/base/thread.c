/* base/thread.c - see thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

#include "base/array.h"

/* The default is `ulimit -s`, which may be more than RLIMIT_AS leaves room for.
 * The program's thread-local memory comes out of it, and may not fit. */
enum { STACK_NBYTES = 1 << 20 };

static int create(pthread_t *thread_p, void *(*main)(void *), void *arg)
{
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);

    if (error != 0)
        return error;
    error = pthread_attr_setstacksize(&attr, STACK_NBYTES);
    if (error == 0)
        error = pthread_create(thread_p, &attr, main, arg);
    pthread_attr_destroy(&attr);
    return error == EINVAL ? pthread_create(thread_p, NULL, main, arg) : error;
}

static void block_signals(sigset_t *old_p)
{
    static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                 SIGTRAP, SIGABRT, SIGSYS};
    sigset_t signals;

    sigfillset(&signals);
    for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
        sigdelset(&signals, faults[i]);
    pthread_sigmask(SIG_BLOCK, &signals, old_p);
}

int thread_start(pthread_t *thread_p, const char *name, void *(*main)(void *),
                 void *arg)
{
    sigset_t old;
    int error;

    block_signals(&old);
    error = create(thread_p, main, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error == 0)
        (void)pthread_setname_np(*thread_p, name);
    return error;
}

void thread_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

int thread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                     uint64_t until_ns)
{
    struct timespec at = {.tv_sec = (time_t)(until_ns / 1000000000),
                          .tv_nsec = (long)(until_ns % 1000000000)};

    return pthread_cond_timedwait(cond, lock, &at);
}
