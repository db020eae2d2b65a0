/* collectives/progress.c - posted calls, and the thread that runs them. See
 * progress.h and comm.h.
 *
 *   issuing thread                      progress thread
 *   post: append, signal                wait for work and for nobody waiting
 *   wait: wanted = true                 take the engine
 *         kick, take the engine           run the queue; kicked: stop there
 *         run the queue                 give the engine
 *         give it, wanted = false, signal
 *
 * Threads: `engine` is held by whoever drives; `lock` guards the queue and the
 * words that the thread sleeps on; it is taken inside `engine`, never the other
 * way round. */
#include "collectives/progress.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/thread.h"
#include "collectives/comm_impl.h"
#include "collectives/reduce/scale.h"
#include "collectives/request.h"
#include "timeline/timeline.h"

struct progress {
    struct comm *comm;
    pthread_t thread;
    pthread_mutex_t engine;

    pthread_mutex_t lock;
    pthread_cond_t work;
    bool wanted; /* the issuing thread drives, or is about to */
    bool stopping;
    struct hvd_request *first, *last;

    /* read without a lock */
    atomic_size_t n_queued;
    atomic_bool failed; /* one of them has */
};

/* --- the engine --- */

void progress_take(struct comm *comm)
{
    struct progress *p = comm->progress;
    eventfd_t ignored;

    if (p == NULL)
        return;
    pthread_mutex_lock(&p->lock);
    p->wanted = true;
    pthread_mutex_unlock(&p->lock);
    if (pthread_mutex_trylock(&p->engine) == 0)
        return;
    atomic_store(&comm->kick, true);
    (void)eventfd_write(comm->verdict.wake_fd, 1);
    pthread_mutex_lock(&p->engine);
    atomic_store(&comm->kick, false);
    (void)eventfd_read(comm->verdict.wake_fd, &ignored);
    /* an abort may have written before us, and its word is for everybody */
    if (comm_status(comm, NULL) != HVD_OK)
        (void)eventfd_write(comm->verdict.wake_fd, 1);
}

void progress_give(struct comm *comm)
{
    struct progress *p = comm->progress;

    if (p == NULL)
        return;
    pthread_mutex_unlock(&p->engine);
    pthread_mutex_lock(&p->lock);
    p->wanted = false;
    if (p->first != NULL || p->stopping)
        pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

/* --- a request under way --- */

static bool buffer_reserve(struct comm *comm)
{
    void *buffer;

    if (comm->fusion != NULL)
        return true;
    if (hvd_alloc(FUSION_BUFFER_NBYTES, &buffer) != HVD_OK)
        return false;
    comm->fusion = buffer;
    return true;
}

static struct timeline_call shown(const struct hvd_request *r)
{
    struct timeline_call call = operation_shown(&r->args, r->call.elem_nbytes);

    call.name = r->name[0] != '\0' ? r->name : "asynchronous";
    return call;
}

static void show(const struct hvd_request *r, enum timeline_phase phase,
                 uint64_t since_ns, uint64_t until_ns)
{
    struct timeline_call call;

    if (!timeline_on())
        return;
    call = shown(r);
    if (phase == TIMELINE_QUEUE && r->name[0] == '\0')
        call.name = NULL; /* these overlap */
    timeline_call(phase, since_ns, until_ns, &call);
}

static void show_phases(const struct comm *comm, const struct hvd_request *r)
{
    struct timeline_call call = shown(r);

    operation_show(comm, &call);
}

/* Both may be one. Else than HVD_OK: an abort has come meanwhile. */
static hvd_status_t scale_all(struct comm *comm,
                              const struct collective_args *args,
                              const void *src, size_t elem_nbytes,
                              double factor)
{
    for (size_t i = 0, n; i < args->count; i += n) {
        n = comm_piece(comm, i, args->count);
        if (n == 0)
            return comm_end(comm);
        scale(args->dtype, (uint8_t *)args->recvbuf + i * elem_nbytes,
              (const uint8_t *)src + i * elem_nbytes, n, factor);
    }
    return HVD_OK;
}

/* HVD_OK, and comm->op is active; or the part is over at once. */
static hvd_status_t begin_part(struct comm *comm, struct hvd_request *r)
{
    const struct fusion_part *packed = request_packed(r);
    struct collective_args args;
    struct call call;
    uint64_t since_ns;

    if (comm_status(comm, NULL) != HVD_OK)
        return comm_end(comm);
    if (comm_life(comm) == COMM_FINISHED)
        return error_set(HVD_ERR_STATE, "this rank has finished");
    if (request_begin(r)) {
        r->begun_ns = timeline_call_clock();
        show(r, TIMELINE_QUEUE, r->posted_ns, r->begun_ns);
    }
    if (r->compression.on)
        HVD_TRY(compression_begin(comm, r));
    if (r->device.way != ON_DEVICE_NOT && r->part_i == 0)
        HVD_TRY(on_device_begin(comm, r));
    if (r->device.way == ON_DEVICE_NCCL || r->device.way == ON_DEVICE_ALONE)
        return HVD_OK;
    if (packed != NULL) {
        if (!buffer_reserve(comm)) {
            /* the others have begun: this rank cannot go back */
            (void)comm_fail(comm, HVD_ERR_NOMEM, "a fusion buffer");
            return comm_end(comm);
        }
        since_ns = timeline_call_clock();
        fusion_pack(r->tensors, packed, r->call.elem_nbytes, comm->fusion);
        show(r, TIMELINE_MEMCPY_IN, since_ns, timeline_call_clock());
    }
    request_part(r, comm->fusion, &args, &call);
    if (args.prescale != 0) {
        HVD_TRY(scale_all(comm, &args, args.sendbuf, r->call.elem_nbytes,
                          args.prescale));
        args.sendbuf = args.recvbuf;
    }
    return comm_begin(comm, &args, &call);
}

static hvd_status_t end_part(struct comm *comm, struct hvd_request *r)
{
    const struct fusion_part *packed = request_packed(r);
    const struct collective_args *args = &r->args;
    uint64_t since_ns = timeline_call_clock();

    if (packed != NULL && r->device.way != ON_DEVICE_ALONE) {
        fusion_unpack(r->tensors, packed, r->call.elem_nbytes, comm->fusion);
        show(r, TIMELINE_MEMCPY_OUT, since_ns, timeline_call_clock());
    }
    if (args->postscale != 0)
        HVD_TRY(scale_all(comm, args, args->recvbuf, r->call.elem_nbytes,
                          args->postscale));
    if (r->compression.on)
        HVD_TRY(compression_finish(comm, r));
    r->part_i++;
    return r->part_i == r->n_parts ? on_device_finish(comm, r) : HVD_OK;
}

/* Go on with it. HVD_OK: it is over, or kicked out and not all parts are. */
static hvd_status_t go_on(struct comm *comm, struct hvd_request *r)
{
    while (r->part_i < r->n_parts) {
        if (!comm->op.active)
            HVD_TRY(begin_part(comm, r));
        if (comm->op.active) {
            HVD_TRY(engine_continue(comm));
            if (comm->op.active)
                return HVD_OK;
            HVD_TRY(operation_finish(comm));
            if (comm->op.begun_ns != 0)
                show_phases(comm, r);
        }
        HVD_TRY(end_part(comm, r));
        comm_count(comm);
        if (comm_kicked(comm))
            return HVD_OK;
    }
    return HVD_OK;
}

/* --- the queue --- */

static struct hvd_request *first_of(struct progress *p)
{
    struct hvd_request *first;

    pthread_mutex_lock(&p->lock);
    first = p->first;
    pthread_mutex_unlock(&p->lock);
    return first;
}

static void append(struct progress *p, struct hvd_request *r)
{
    atomic_fetch_add_explicit(&p->n_queued, 1, memory_order_relaxed);
    pthread_mutex_lock(&p->lock);
    if (p->first == NULL)
        p->first = r;
    else
        p->last->next = r;
    p->last = r;
    if (p->first == r)
        pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

/* The first of the queue is over. It is counted until it is done: a drain that
 * counts none must have nothing to wait for. */
static void complete(struct progress *p, struct hvd_request *r,
                     hvd_status_t status)
{
    show(r, TIMELINE_OPERATION, r->begun_ns, timeline_call_clock());
    pthread_mutex_lock(&p->lock);
    p->first = r->next;
    pthread_mutex_unlock(&p->lock);
    if (status != HVD_OK)
        atomic_store(&p->failed, true);
    request_end(r, status);
    atomic_fetch_sub_explicit(&p->n_queued, 1, memory_order_release);
}

/* In order, up to and with `last`; NULL: all. When the comm is aborted, all:
 * they fail without waiting. */
static void run_queue(struct comm *comm, const struct hvd_request *last)
{
    struct progress *p = comm->progress;
    struct hvd_request *r = first_of(p);

    while (r != NULL && !comm_kicked(comm)) {
        hvd_status_t status = go_on(comm, r);

        if (status == HVD_OK && r->part_i < r->n_parts)
            return;
        complete(p, r, status);
        if (r == last && status == HVD_OK)
            return;
        r = first_of(p);
    }
}

void progress_run(struct comm *comm)
{
    if (comm->progress != NULL)
        run_queue(comm, NULL);
}

/* --- the thread --- */

/* false: stop. */
static bool await_work(struct progress *p)
{
    bool stopping;

    pthread_mutex_lock(&p->lock);
    while (!p->stopping && (p->wanted || p->first == NULL))
        pthread_cond_wait(&p->work, &p->lock);
    stopping = p->stopping;
    pthread_mutex_unlock(&p->lock);
    return !stopping;
}

static void *progress_main(void *arg)
{
    struct progress *p = arg;

    while (await_work(p)) {
        pthread_mutex_lock(&p->engine);
        p->comm->in_background = true;
        run_queue(p->comm, NULL);
        p->comm->in_background = false;
        pthread_mutex_unlock(&p->engine);
    }
    return NULL;
}

static hvd_status_t start(struct comm *comm)
{
    struct progress *p;

    if (comm->progress != NULL)
        return HVD_OK;
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return error_set(HVD_ERR_NOMEM, "the progress thread");
    p->comm = comm;
    pthread_mutex_init(&p->engine, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    comm->progress = p;
    errno = thread_start(&p->thread, "hvd-progress", progress_main, p);
    if (errno == 0)
        return HVD_OK;
    comm->progress = NULL;
    free(p);
    return error_errno("the progress thread");
}

void progress_stop(struct comm *comm)
{
    struct progress *p = comm->progress;

    if (p == NULL)
        return;
    progress_take(comm);
    if (atomic_load(&p->n_queued) > 0)
        (void)comm_fail(comm, HVD_PEER_LOST, "the generation has ended");
    run_queue(comm, NULL);
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_mutex_unlock(&p->lock);
    progress_give(comm);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->engine);
    comm->progress = NULL;
    free(p);
}

/* --- the doors --- */

static hvd_status_t post(struct comm *comm, const struct collective_args *args,
                         const struct comm_group *group,
                         struct hvd_request **request_p)
{
    struct hvd_request *r;
    hvd_status_t status;

    HVD_TRY(comm_admit(comm));
    HVD_TRY(compression_admit(args));
    if (is_on_device(args))
        HVD_TRY(on_device_meet(comm));
    HVD_TRY(request_create(comm, args, group, &r));
    status = comm->config.size == 1 ? HVD_OK : start(comm);
    if (status != HVD_OK) {
        device_unmark(r->device.mark);
        r->device.mark = NULL;
        request_destroy(r);
        return status;
    }
    r->call.head.sequence = comm_number(comm, r->n_parts);
    *request_p = r;
    if (comm->config.size == 1)
        request_end(r, go_on(comm, r));
    else
        append(comm->progress, r);
    return HVD_OK;
}

hvd_status_t comm_post(struct comm *comm, const struct collective_args *args,
                       struct hvd_request **request_p)
{
    return post(comm, args, NULL, request_p);
}

hvd_status_t comm_post_group(struct comm *comm,
                             const struct collective_args *args,
                             const struct comm_group *group,
                             struct hvd_request **request_p)
{
    return post(comm, args, group, request_p);
}

/* Not queued: this thread drives until it is over. */
static hvd_status_t run_request(struct comm *comm,
                                const struct collective_args *args,
                                const struct comm_group *group)
{
    struct hvd_request *r;
    hvd_status_t status;

    HVD_TRY(comm_admit(comm));
    if (is_on_device(args))
        HVD_TRY(on_device_meet(comm));
    HVD_TRY(request_create(comm, args, group, &r));
    r->call.head.sequence = comm_number(comm, r->n_parts);
    progress_take(comm);
    progress_run(comm);
    status = go_on(comm, r);
    show(r, TIMELINE_OPERATION, r->begun_ns, timeline_call_clock());
    request_end(r, status);
    progress_give(comm);
    request_destroy(r);
    return status;
}

hvd_status_t comm_run_group(struct comm *comm,
                            const struct collective_args *args,
                            const struct comm_group *group)
{
    return run_request(comm, args, group);
}

hvd_status_t comm_meet_on_devices(struct comm *comm, bool *by_nccl_p)
{
    HVD_TRY(comm_admit(comm));
    HVD_TRY(on_device_meet(comm));
    *by_nccl_p = comm->device.way == ON_DEVICE_NCCL;
    return HVD_OK;
}

hvd_status_t comm_run_on_device(struct comm *comm,
                                const struct collective_args *args)
{
    return run_request(comm, args, NULL);
}

hvd_status_t comm_drain(struct comm *comm)
{
    struct progress *p = comm->progress;

    if (p == NULL)
        return on_device_confirm(comm);
    if (atomic_load_explicit(&p->n_queued, memory_order_acquire) > 0) {
        progress_take(comm);
        run_queue(comm, NULL);
        progress_give(comm);
    }
    return atomic_load(&p->failed) ? comm_check(comm) : on_device_confirm(comm);
}

hvd_status_t request_wait(struct hvd_request *r)
{
    hvd_status_t status;

    if (!request_done(r)) {
        struct comm *comm = r->comm;

        progress_take(comm);
        if (!request_done(r))
            run_queue(comm, r);
        progress_give(comm);
    }
    HVD_ASSERT(request_done(r));
    status = r->status;
    if (status != HVD_OK)
        error_set(status, "%s", r->text);
    request_destroy(r);
    return status;
}
