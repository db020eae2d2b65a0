/* device/impl.h - the inside of the device, shared by device.c (which it is),
 * memory.c, thread.c (its thread and the tasks), communicator.c, launch.c (what
 * a collective consists of) and scale.c; for this room only. */
#ifndef DEVICE_IMPL_H
#define DEVICE_IMPL_H

#include <pthread.h>

#include "device/communicator.h"
#include "device/device.h"
#include "device/driver_api.h"
#include "device/nccl_api.h"
#include "device/scale.h"

enum {
    DEVICE_EVENTS_KEPT = 64,
    DEVICE_QUEUED_MAX = 32,   /* collectives on a device that are not over:
                                   more would fill queues that NCCL waits for
                                   without looking for an abort */
    DEVICE_ABANDONED_MAX = 2, /* generations whose communicators would not
                                 end */
    DEVICE_PACK_NBYTES = 16 << 20,
    DEVICE_CLOSE_US = 10000000
};

struct device {
    const struct driver_api *cuda;
    int ordinal;
    CUdevice handle;
    CUcontext context; /* the primary one, retained */
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t work;
    struct device_task *first, *last;   /* posted, not begun */
    struct communicator *communicators; /* all that are not freed */
    CUevent spare[DEVICE_EVENTS_KEPT];
    size_t n_spare;
    bool stopping;
    atomic_bool awake; /* the thread will look at all of this once more */

    atomic_int n_abandoned;
    atomic_bool ended; /* the thread has */

    /* the thread alone */
    CUstream copying, saving; /* copies; those in the background */
    struct device_task *begun;
    size_t joined_nbytes; /* what a communicator took of its memory, the last
                             that was made when no other was ending */
    CUdeviceptr *packs;   /* [n_packs], nobody's */
    size_t n_packs, packs_max;
    struct scaler scaler;
};

/* What happened last on the device is an error that stays: the sentence. */
hvd_status_t device_check(const struct device *d, CUresult result,
                          const char *what) HVD_MUST_CHECK;

/* The same of a call before or behind the life of a device. */
hvd_status_t device_check_call(const struct driver_api *cuda, int ordinal,
                               CUresult result,
                               const char *what) HVD_MUST_CHECK;

/* The number of the one that is or would be used. Issuing thread. */
int device_ordinal(void);

/* *event_p, one that is kept or a new one, tells when all is over that is on
 * the stream by now. Any thread with the context. */
hvd_status_t device_record(struct device *d, CUstream stream,
                           CUevent *event_p) HVD_MUST_CHECK;
/* What comes on the stream waits for the event as it was recorded last. */
hvd_status_t device_follow(struct device *d, CUstream stream,
                           CUevent event) HVD_MUST_CHECK;
void device_event_free(struct device *d, CUevent event);

/* NULL: none is open. */
struct device *device_of_process(void);

/* --- result.c --- */

/* It is over when this is. By the thread, before the task is. */
void device_result_set(struct device_result *result, CUevent event);

/* --- thread.c --- */

void *device_main(void *device);
/* There is something to look at. Any thread. */
void device_kick(struct device *d);
/* The same of all that the task is to come behind. By the thread. */
hvd_status_t device_follow_marks(struct device *d, CUstream stream,
                                 const struct device_task *task) HVD_MUST_CHECK;
/* Posted or begun. By the thread. */
bool device_has_task_of(struct device *d, const struct communicator *c);

/* --- communicators.c: by the thread --- */

/* One step of each; frees those that are over and released. Returns when to
 * look again, CLOCK_NEVER: when kicked. */
uint64_t communicators_step(struct device *d, uint64_t now_us);
/* Is something being launched on this stream of the program's? Under the
 * lock. */
bool communicators_launch_on(const struct device *d, CUstream stream);

/* --- communicator.c: by the thread --- */

/* May another collective be begun? */
bool communicator_has_room(const struct communicator *c);
/* Begin it. NCCL may take a while to put it on its stream, for other ranks have
 * to come to the first of a kind: task->queued says when it is there, and
 * task->event when it is over. If neither is ever so the communicator has
 * failed, and it is over when that is quiet. */
void communicator_begin(struct communicator *c, struct device_task *task);
/* Ready, and without an error up to now. */
bool communicator_is_sound(struct communicator *c);
/* Its device has said so: no collective of it comes to an end by itself. */
void communicator_broke(struct communicator *c, CUresult result);
/* Nothing will come of what has been begun and is not over. */
bool communicator_is_quiet(const struct communicator *c);
/* Why: the sentence. */
hvd_status_t communicator_reason(const struct communicator *c) HVD_MUST_CHECK;

/* --- launch.c: by the thread --- */

struct launch {
    struct device *device;
    const struct nccl_api *nccl;
    ncclComm_t comm;
    CUstream stream;
    CUdeviceptr pack; /* [DEVICE_PACK_NBYTES] */
    int rank, size;
};

/* What comes before NCCL's part, and that; then, once launch_look() has nothing
 * pending, what comes behind it: all of it is on the stream. Nothing else may
 * be put there before. HVD_PEER_LOST: NCCL says no; HVD_ERR_SYSTEM: the device
 * does. */
hvd_status_t launch_begin(const struct launch *l,
                          const struct device_call *call) HVD_MUST_CHECK;
hvd_status_t launch_look(const struct launch *l,
                         bool *pending_p) HVD_MUST_CHECK;
hvd_status_t launch_end(const struct launch *l,
                        const struct device_call *call) HVD_MUST_CHECK;
hvd_status_t launch_copies(struct device *d, CUstream stream,
                           const struct device_copy *copies,
                           size_t n) HVD_MUST_CHECK;

#endif
