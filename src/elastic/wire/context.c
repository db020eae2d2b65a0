/* elastic/wire/context.c - libzmq's threads, under the sockets of a process.
 * See socket.h.
 *
 * Threads: any. Memory: the context. */
#include "elastic/wire/context.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <zmq.h>

#include "base/array.h"
#include "base/calls.h"
#include "base/error.h"
#include "base/mac.h"
#include "base/thread.h"
#include "elastic/wire/socket.h"

enum { ZMQ_THREADS = 2 }; /* its reaper, and one for sockets */

/* libzmq starts its threads with the first socket: they inherit a full mask, so
 * no signal of the program ever ends up there. */
static bool start_threads(void *zmq)
{
    sigset_t all, old;
    void *socket;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    socket = zmq_socket(zmq, ZMQ_PAIR);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return socket && zmq_close(socket) == 0;
}

static void *wait_for_end(void *lock)
{
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

/* A stack is memory: EAGAIN means that there is none, or no more threads. */
static hvd_status_t explain(int error)
{
    static const struct {
        unsigned resource;
        const char *option;
    } memory[] = {{RLIMIT_DATA, "-d"}, {RLIMIT_AS, "-v"}};
    struct rlimit limit = {0};

    for (size_t i = 0; i < ARRAY_SIZE(memory); i++)
        if (getrlimit(memory[i].resource, &limit) == 0 &&
            limit.rlim_cur != RLIM_INFINITY) {
            errno = error;
            return error_errno("cannot start %d threads (ulimit %s is %" PRIi64
                               " KB, which their stacks need)",
                               ZMQ_THREADS, memory[i].option,
                               (int64_t)(limit.rlim_cur >> 10));
        }
    (void)getrlimit(RLIMIT_NPROC, &limit);
    errno = error;
    return error_errno("cannot start %d threads (ulimit -u is %" PRIi64
                       ", or a cgroup's pids.max)",
                       ZMQ_THREADS, (int64_t)limit.rlim_cur);
}

/* libzmq aborts the whole program where it cannot start its threads, so as many
 * are started here first. Another process may take their place in between: that
 * much remains. */
static hvd_status_t try_threads(void)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[ZMQ_THREADS];
    size_t n = 0;
    int error = 0;

    pthread_mutex_lock(&lock);
    while (n < ZMQ_THREADS && error == 0) {
        error = thread_start(&threads[n], "hvd-try", wait_for_end, &lock);
        n += error == 0;
    }
    pthread_mutex_unlock(&lock);
    while (n > 0)
        pthread_join(threads[--n], NULL);
    if (error == 0)
        return HVD_OK;
    return explain(error);
}

hvd_status_t wire_context_create(struct wire_context **context_p)
{
    struct wire_context *context = calloc(1, sizeof(*context));
    hvd_status_t status;

    if (!context)
        return error_set(HVD_ERR_NOMEM, "no memory for a ZeroMQ context");
    HVD_TRY_GOTO(mac_init(), free_context);
    HVD_TRY_GOTO(calls_check_sockets(), free_context);
    HVD_TRY_GOTO(try_threads(), free_context);
    context->zmq = zmq_ctx_new();
    if (!context->zmq || !start_threads(context->zmq)) {
        status = error_errno("cannot start ZeroMQ");
        goto term;
    }
    *context_p = context;
    return HVD_OK;

term:
    if (context->zmq)
        zmq_ctx_term(context->zmq);
free_context:
    free(context);
    return status;
}

void wire_context_destroy(struct wire_context *context)
{
    if (!context)
        return;
    while (zmq_ctx_term(context->zmq) != 0 && errno == EINTR) {
    }
    free(context);
}
