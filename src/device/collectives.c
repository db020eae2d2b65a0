/* device/collectives.c - what a communicator is told to do, one after the
 * other: NCCL takes it on a thread of its own, and meanwhile others are told of
 * theirs. See communicator_impl.h.
 *
 * Threads: that of the device. Memory: a communicator's pack. */
#include "base/array.h"
#include "base/clock.h"
#include "device/communicator_impl.h"

static struct launch launch_of(struct communicator *c)
{
    return (struct launch){.device = c->device,
                           .nccl = c->nccl,
                           .comm = c->comm,
                           .stream = c->on,
                           .pack = c->pack,
                           .rank = c->config.rank,
                           .size = c->config.size};
}

/* --- what tensors of a group are packed in --- */

hvd_status_t communicator_take_pack(struct communicator *c)
{
    struct device *d = c->device;
    CUresult result = CUDA_SUCCESS;

    if (d->n_packs > 0)
        c->pack = d->packs[--d->n_packs];
    else
        result = d->cuda->cuMemAlloc_v2(&c->pack, DEVICE_PACK_NBYTES);
    return device_check(d, result, "memory to pack in");
}

void communicator_give_pack(struct communicator *c)
{
    struct device *d = c->device;

    if (c->pack != 0 && array_reserve(&d->packs, &d->packs_max, d->n_packs + 1))
        d->packs[d->n_packs++] = c->pack;
    c->pack = 0;
}

/* --- launches --- */

static hvd_status_t launch(struct communicator *c,
                           const struct device_call *call)
{
    struct launch l = launch_of(c);

    c->launching = call;
    c->launching_us = clock_now_us();
    return launch_begin(&l, call);
}

/* NCCL may have a part of it. */
static void cut(struct communicator *c, hvd_status_t status)
{
    c->launching = NULL;
    c->task = NULL;
    c->cut = true;
    communicator_fail(c, status, error_text());
}

/* All ranks at once: connections that are made at the first use of an algorithm
 * are made here, where there is a deadline. */
static hvd_status_t warm_up(struct communicator *c)
{
    static const size_t counts[] = {1, DEVICE_PACK_NBYTES / sizeof(float)};
    void *pack = (void *)(uintptr_t)c->pack;

    if (c->n_warm == ARRAY_SIZE(counts))
        return device_record(c->device, c->stream, &c->warm);
    c->warm_tensor = (struct device_tensor){pack, pack, counts[c->n_warm++]};
    c->warm_call = (struct device_call){.kind = COLLECTIVE_ALLREDUCE,
                                        .dtype = HVD_FLOAT32,
                                        .op = HVD_SUM,
                                        .prescale = 1,
                                        .postscale = 1,
                                        .tensors = &c->warm_tensor,
                                        .n = 1};
    return launch(c, &c->warm_call);
}

/* It is over when this is. */
static hvd_status_t record(struct communicator *c, struct device_task *task)
{
    uint64_t n = atomic_load(&c->n_queued);
    CUevent event;

    if (task->result != NULL) {
        HVD_TRY(device_record(c->device, c->on, &event));
        device_result_set(task->result, event);
    }
    HVD_TRY(device_record(c->device, c->on, &event));
    task->queued = true;
    c->task = NULL;
    if (!task->ordered) {
        task->event = event;
        return HVD_OK;
    }
    c->queued[n % DEVICE_QUEUED_MAX] = event;
    atomic_store(&c->n_queued, n + 1);
    return HVD_OK;
}

/* NCCL has put it on the stream? Then what comes behind. */
static hvd_status_t look_at_launch(struct communicator *c)
{
    const struct device_call *call = c->launching;
    struct launch l = launch_of(c);
    bool pending;

    HVD_TRY(launch_look(&l, &pending));
    if (pending)
        return HVD_OK;
    HVD_TRY(launch_end(&l, call));
    c->launching = NULL;
    return c->task != NULL ? record(c, c->task) : warm_up(c);
}

void communicator_launch_on(struct communicator *c)
{
    hvd_status_t status = c->launching != NULL ? look_at_launch(c) : HVD_OK;

    if (status != HVD_OK)
        cut(c, status);
}

void communicator_drop_launch(struct communicator *c)
{
    c->cut |= c->launching != NULL;
    c->launching = NULL;
    c->task = NULL;
}

void communicator_warm_up(struct communicator *c)
{
    hvd_status_t status = warm_up(c);

    if (status != HVD_OK)
        cut(c, status);
}

/* --- doors --- */

bool communicator_has_room(const struct communicator *c)
{
    uint64_t n = atomic_load(&c->n_queued) - atomic_load(&c->n_over);

    return c->life.state > LIFE_READY ||
           (c->launching == NULL && n < DEVICE_QUEUED_MAX);
}

/* What comes on this stream waits for the collective before, which was put on
 * another one: they share what NCCL has on the device, and our pack. One of the
 * program's may have the handle of one that is gone: NCCL sees to that itself.
 */
static hvd_status_t follow(struct communicator *c, CUstream stream, bool packs)
{
    uint64_t n = atomic_load(&c->n_queued);
    CUevent own = NULL;
    hvd_status_t status = HVD_OK;

    if (stream == c->on && (stream == c->stream || !packs))
        return HVD_OK;
    if (c->on == c->stream) {
        HVD_TRY(device_record(c->device, c->stream, &own));
        status = device_follow(c->device, stream, own);
    } else if (atomic_load(&c->n_over) < n) {
        status = device_follow(c->device, stream,
                               c->queued[(n - 1) % DEVICE_QUEUED_MAX]);
    }
    device_event_free(c->device, own); /* who waits for it has noted when */
    c->on = stream;
    return status;
}

static hvd_status_t begin(struct communicator *c, struct device_task *task)
{
    bool there = task->ordered && task->result == NULL;

    HVD_TRY(follow(c, there ? task->stream : c->stream, task->call.n > 1));
    HVD_TRY(device_follow_marks(c->device, c->on, task));
    c->task = task;
    return launch(c, &task->call);
}

void communicator_begin(struct communicator *c, struct device_task *task)
{
    hvd_status_t status;

    if (c->life.state != LIFE_READY || c->broken || atomic_load(&c->cancelled))
        return; /* its poster may have given up on it */
    status = begin(c, task);
    if (status != HVD_OK)
        cut(c, status);
}
