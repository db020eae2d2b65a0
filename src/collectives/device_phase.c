/* collectives/device_phase.c - a phase that NCCL does: one task of the device's
 * thread (device/device.h). It waits for every rank, and sees none of them: who
 * is gone is told by connections, and by the driver.
 *
 * Threads: whoever drives the comm. Memory: comm->device.task. */
#include <sched.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "collectives/comm_impl.h"

enum { LOOK_US = 150 }; /* NCCL takes a call in some 70 */

/* A peer that ends has said why, before it took NCCL from the others. */
static hvd_status_t hear_why(struct comm *comm)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (size_t i = 0; i < comm->n_live; i++)
            HVD_TRY(links_read(comm, comm->live[i], &moved));
    }
    return HVD_OK;
}

static hvd_status_t failed(struct comm *comm, hvd_status_t status)
{
    char why[ERROR_TEXT_MAX];

    memcpy(why, error_text(), strlen(error_text()) + 1);
    HVD_TRY(hear_why(comm));
    return comm_fail(comm, status, "%s", why);
}

static hvd_status_t result(struct comm *comm)
{
    hvd_status_t status = device_task_result(comm->device.task);

    if (status != HVD_OK) /* not done yet: what comes is about this call */
        status = failed(comm, status);
    comm->device.taken = true;
    return status;
}

static hvd_status_t begin(struct comm *comm, const struct phase *phase)
{
    (void)phase;
    comm->device.taken = false;
    device_post(comm->device.task);
    return HVD_OK;
}

static hvd_status_t advance(struct comm *comm, bool *more_p)
{
    *more_p = false;
    return device_task_over(comm->device.task) ? result(comm) : HVD_OK;
}

/* Not as soon as the task is over: what has become of it has to be known. */
static bool done(const struct comm *comm)
{
    return comm->device.taken;
}

static hvd_status_t look_again(struct comm *comm, bool *more_p)
{
    uint64_t until_us = clock_now_us() + LOOK_US;

    *more_p = false;
    while (!comm->in_background && !device_task_over(comm->device.task) &&
           clock_now_us() < until_us)
        sched_yield(); /* to the device's thread, if there is no other core */
    return advance(comm, more_p);
}

static bool needs(const struct comm *comm, int peer)
{
    (void)peer;
    return !done(comm);
}

static bool will_need(const struct comm *comm, const struct phase *phase,
                      int peer, unsigned n)
{
    (void)comm;
    (void)phase;
    (void)peer;
    (void)n;
    return true;
}

/* Those beside this rank: they are asked what they are in, if nothing comes. */
static void waits(const struct comm *comm, int peers[2])
{
    int rank = comm->config.rank, size = comm->config.size;

    peers[0] = (rank + 1) % size;
    peers[1] = (rank + size - 1) % size;
}

static void fall_asleep(struct comm *comm)
{
    device_task_sleep(comm->device.task);
}

static void wake_up(struct comm *comm)
{
    device_task_wake(comm->device.task);
}

static int doorbell(const struct comm *comm)
{
    return comm->device.doorbell;
}

static const char *algorithm(const struct phase *phase)
{
    (void)phase;
    return "nccl";
}

const struct phase_ops device_phase = {
    .begin = begin,
    .advance = advance,
    .done = done,
    .look_again = look_again,
    .needs = needs,
    .will_need = will_need,
    .waits = waits,
    .own_pace = true,
    .uses_links = false,
    .sleep = fall_asleep,
    .wake = wake_up,
    .doorbell = doorbell,
    .algorithm = algorithm,
};
