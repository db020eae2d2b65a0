/* collectives/progress.c - posted calls, and the thread that runs them. See
 * progress.h and comm.h.
 *
 *   issuing thread                      progress thread
 *   post: append, signal (or begin it   wait for work and for no taker
 *     here, signal with the next)
 *   wait: n_takers++, await its turn    take the engine
 *         kick, take the engine           run the queue; kicked: stop there
 *         run the queue                 give the engine
 *         give it, n_takers--, signal
 *
 * Several threads may want to drive, but one at a time has its turn: `kick` has
 * one writer, and no taker clears it for another.
 *
 * Threads: `engine` is held by whoever drives; `lock` guards the queue and the
 * words that the thread sleeps on; it is taken inside `engine`, never the other
 * way round. */
#include "collectives/progress.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/thread.h"
#include "collectives/by_name.h"
#include "collectives/comm_impl.h"
#include "collectives/completion.h"
#include "collectives/process_set.h"
#include "collectives/request.h"
#include "timeline/timeline.h"

struct progress {
    struct comm *comm;
    pthread_t thread;
    pthread_mutex_t engine;

    pthread_mutex_t lock;
    pthread_cond_t work;  /* for the thread */
    pthread_cond_t given; /* for the next taker */
    int n_takers;         /* threads that drive, or are about to */
    bool taken;           /* one of them has its turn */
    bool stopping;
    struct hvd_request *first, *last;

    /* who issues calls, alone: the thread has not been told of the first */
    bool untold;

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
    p->n_takers++;
    while (p->taken)
        pthread_cond_wait(&p->given, &p->lock);
    p->taken = true;
    pthread_mutex_unlock(&p->lock);
    if (pthread_mutex_trylock(&p->engine) == 0)
        return;
    atomic_store(&comm->kick, true);
    (void)eventfd_write(comm->verdict.wake_fd, 1);
    pthread_mutex_lock(&p->engine);
    atomic_store(&comm->kick, false);
    (void)eventfd_read(comm->verdict.wake_fd, &ignored);
    /* an abort may have written before us, and its word is for everybody; and
     * the endpoint is asked when the fd is readable */
    if (comm_status(comm, NULL) != HVD_OK ||
        (comm->config.size > 1 &&
         endpoint_has_mail(comm->config.endpoint, &comm->user)))
        (void)eventfd_write(comm->verdict.wake_fd, 1);
}

/* Under the lock. */
static bool has_work(const struct progress *p)
{
    return p->first != NULL ||
           (p->comm->by_name != NULL && by_name_works(p->comm));
}

void progress_signal(struct comm *comm)
{
    struct progress *p = comm->progress;

    pthread_mutex_lock(&p->lock);
    if (p->n_takers == 0)
        pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}

void progress_give(struct comm *comm)
{
    struct progress *p = comm->progress;

    if (p == NULL)
        return;
    pthread_mutex_unlock(&p->engine);
    pthread_mutex_lock(&p->lock);
    p->taken = false;
    if (--p->n_takers > 0)
        pthread_cond_signal(&p->given);
    else if (has_work(p) || p->stopping)
        pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
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

static void append(struct progress *p, struct hvd_request *r, bool tell)
{
    atomic_fetch_add_explicit(&p->n_queued, 1, memory_order_relaxed);
    pthread_mutex_lock(&p->lock);
    if (p->first == NULL)
        p->first = r;
    else
        p->last->next = r;
    p->last = r;
    if (tell && (p->first == r || p->untold))
        pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
    p->untold = !tell;
}

/* The first of the queue is over. It is counted until it is done: a drain that
 * counts none must have nothing to wait for. */
static void complete(struct progress *p, struct hvd_request *r,
                     hvd_status_t status)
{
    request_show(r, TIMELINE_OPERATION, r->begun_ns, timeline_call_clock());
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
        hvd_status_t status = request_go_on(comm, r);

        if (status == HVD_OK && !request_over(r))
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
    while (!p->stopping && (p->n_takers > 0 || !has_work(p)))
        pthread_cond_wait(&p->work, &p->lock);
    stopping = p->stopping;
    pthread_mutex_unlock(&p->lock);
    return !stopping;
}

/* Who posts, and waits at once, drives by itself: it is not to lose its core to
 * this thread in between, which has been told of the post. Where a core is free
 * nothing changes. */
static void give_precedence(void)
{
    const struct sched_param none = {0};

    if (sched_getscheduler(0) == SCHED_OTHER)
        (void)sched_setscheduler(0, SCHED_BATCH, &none);
}

static void *progress_main(void *arg)
{
    struct progress *p = arg;

    give_precedence();
    while (await_work(p)) {
        pthread_mutex_lock(&p->engine);
        p->comm->in_background = true;
        if (p->comm->by_name != NULL)
            by_name_run(p->comm);
        run_queue(p->comm, NULL);
        p->comm->in_background = false;
        pthread_mutex_unlock(&p->engine);
    }
    return NULL;
}

hvd_status_t progress_start(struct comm *comm)
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
    pthread_cond_init(&p->given, NULL);
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
    pthread_cond_destroy(&p->given);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->engine);
    comm->progress = NULL;
    free(p);
}

/* --- the doors --- */

/* Nobody has to drive what NCCL does. A call that is over as it is queued is
 * given to the device from here, and most often waited for at once: the thread
 * is woken only if more is posted before that, or the program asks. false:
 * others come first. */
static bool begin_here(struct comm *comm, struct hvd_request *r)
{
    struct progress *p = comm->progress;
    hvd_status_t status;

    if (!on_device_is_direct(&r->device) || completion_is_watched() ||
        atomic_load_explicit(&p->n_queued, memory_order_acquire) > 0 ||
        pthread_mutex_trylock(&p->engine) != 0)
        return false;
    append(p, r, false);
    status = request_start(comm, r);
    if (status != HVD_OK)
        complete(p, r, status);
    pthread_mutex_unlock(&p->engine);
    return true;
}

static hvd_status_t prepare_on_device(struct hvd_request *r)
{
    HVD_TRY(on_device_prepare(r, false));
    return on_device_mark(r);
}

static hvd_status_t create(struct comm *comm,
                           const struct collective_args *args,
                           const struct comm_group *group,
                           struct hvd_request **request_p)
{
    hvd_status_t status = HVD_OK;

    HVD_TRY(comm_admit(comm));
    HVD_TRY(adasum_admit(args));
    if (is_on_device(args))
        HVD_TRY(on_device_meet(comm));
    HVD_TRY(request_create(comm, args, group, request_p));
    if (is_on_device(args))
        status = prepare_on_device(*request_p);
    if (status != HVD_OK)
        request_destroy(*request_p);
    return status;
}

static hvd_status_t post(struct comm *comm, const struct collective_args *args,
                         const struct comm_group *group,
                         struct hvd_request **request_p)
{
    struct hvd_request *r;
    hvd_status_t status;

    HVD_TRY(ragged_admit(args));
    HVD_TRY(create(comm, args, group, &r));
    status = comm->config.size == 1 ? HVD_OK : progress_start(comm);
    if (status != HVD_OK) {
        request_destroy(r);
        return status;
    }
    r->call.head.sequence = comm_number(comm, r->n_parts);
    *request_p = r;
    if (comm->config.size == 1 && r->ragged.on)
        comm_count(comm); /* it runs as soon as no lock is held */
    else if (comm->config.size == 1)
        request_end(r, request_go_on(comm, r));
    else if (!begin_here(comm, r))
        append(comm->progress, r, true);
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

    HVD_TRY(create(comm, args, group, &r));
    r->call.head.sequence = comm_number(comm, r->n_parts);
    progress_take(comm);
    progress_run(comm);
    status = request_go_on(comm, r);
    request_show(r, TIMELINE_OPERATION, r->begun_ns, timeline_call_clock());
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

hvd_status_t comm_run_request(struct comm *comm,
                              const struct collective_args *args)
{
    return run_request(comm, args, NULL);
}

hvd_status_t comm_drain(struct comm *comm)
{
    struct progress *p = comm->progress;

    HVD_TRY(by_name_drain(comm));
    HVD_TRY(process_sets_drain(comm));
    if (p == NULL)
        return on_device_confirm(comm);
    if (atomic_load_explicit(&p->n_queued, memory_order_acquire) > 0) {
        progress_take(comm);
        run_queue(comm, NULL);
        progress_give(comm);
    }
    return atomic_load(&p->failed) ? comm_check(comm) : on_device_confirm(comm);
}

bool request_test(const struct hvd_request *r)
{
    if (!r->by_name && !request_done(r) && r->comm->progress->untold) {
        r->comm->progress->untold = false;
        progress_signal(r->comm);
    }
    return request_done(r);
}

hvd_status_t request_wait(struct hvd_request *r)
{
    if (r->by_name)
        return by_name_wait(r);
    ragged_run_alone(r);
    if (!request_done(r)) {
        struct comm *comm = r->comm;

        progress_take(comm);
        if (!request_done(r))
            run_queue(comm, r);
        progress_give(comm);
    }
    return request_result(r);
}
