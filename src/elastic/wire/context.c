/* elastic/wire/context.c - libzmq's threads, under the sockets of a process.
 * See socket.h.
 *
 * Threads: any. Memory: the context. */
#include "elastic/wire/context.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <zmq.h>

#include "base/error.h"
#include "base/mac.h"
#include "elastic/wire/socket.h"

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

hvd_status_t wire_context_create(struct wire_context **context_p)
{
    struct wire_context *context = calloc(1, sizeof(*context));
    hvd_status_t status;

    if (!context)
        return error_set(HVD_ERR_NOMEM, "no memory for a ZeroMQ context");
    HVD_TRY_GOTO(mac_init(), free_context);
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
