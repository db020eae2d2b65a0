/* base/thread.h - threads of ours. Threads: any. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

/* Run main(arg) on a thread of that name (15 characters), with 1 MB of stack,
 * or the default where that is too little for thread-local memory.
 * Signals are blocked there: one would run the program's handler where the
 * program does not expect it. Those of faults stay as the program has them: the
 * kernel ends a process that blocks one that its own thread raises, and who
 * reports crashes says nothing. Returns 0 or an errno. */
int thread_start(pthread_t *thread_p, const char *name, void *(*main)(void *),
                 void *arg);

/* A condition on CLOCK_MONOTONIC, and a wait that ends then at the latest: 0,
 * or ETIMEDOUT. The caller holds the lock. */
void thread_cond_init(pthread_cond_t *cond);
int thread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock,
                     uint64_t until_ns);

#endif
