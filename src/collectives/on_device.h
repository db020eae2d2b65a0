/* collectives/on_device.h - collectives whose buffers are on a device: by NCCL,
 * or staged through memory of the host.
 *
 * Which of the two is agreed upon by all ranks of a comm, at its first such
 * call (on_device_meet): each shows its device and its NCCL, and where all can,
 * rank 0's id makes a communicator, which all have to reach. Any rank that
 * cannot makes all of them stage. The engine then drives a call as any other:
 * by NCCL it is one phase (device_phase.c); staged, it is a call on the host,
 * between two copies. What NCCL does not do at all, Adasum and 16 bits on the
 * way, is staged in any case.
 *
 * Every such call is a request, a blocking one too. What belongs to the device
 * is kept in struct on_device, in the request.
 *
 * Threads: as request.h, whoever drives; on_device_cancel() any. */
#ifndef COLLECTIVES_ON_DEVICE_H
#define COLLECTIVES_ON_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/collectives.h>
#include <hvd/status.h>

#include "collectives/schedule/kinds.h"
#include "device/communicator.h"
#include "device/device.h"

struct comm;
struct hvd_request;
struct lent;

enum on_device_way {
    ON_DEVICE_NOT, /* the host's; of a comm: not agreed upon yet */
    ON_DEVICE_NCCL,
    ON_DEVICE_STAGED,
    ON_DEVICE_ALONE /* a world of one: copies on the device */
};

/* Of a request. */
struct on_device {
    enum on_device_way way;
    void **marks; /* [n_marks]: it comes behind them */
    size_t n_marks, marks_max;
    void *stream;
    bool ordered;
    struct device_result *result;  /* ordered, by name: `stream` is to wait for
                                      it, in the end; NULL: it is over, or is on
                                      `stream` itself */
    bool counted;                  /* among the comm's operations */
    struct device_tensor *tensors; /* [n_tensors]: NCCL */
    size_t n_tensors, tensors_max;
    double prescale, postscale; /* 1: none */
    struct lent *staging;       /* NULL: not taken */
    struct device_copy *copies; /* in front of it [n_in], behind it the rest */
    size_t n_in, n_copies, copies_max;
};

struct on_device_meeting;

/* Of a comm. */
struct comm_device {
    enum on_device_way way;
    struct on_device_meeting *meeting;         /* NULL: none is under way */
    struct communicator *_Atomic communicator; /* set once; NULL: none */
    bool opened;                               /* the doorbell is there */
    bool parted; /* the end of its kernels has been waited for */
    int doorbell;
    struct device_task *task; /* by NCCL, the one in flight; outlives the comm
                                 if the device does not come back */
    bool taken;               /* its result has been */
};

/* Is the call put on the program's own stream? */
static inline bool on_device_is_direct(const struct on_device *device)
{
    return device->way == ON_DEVICE_NCCL && device->ordered &&
           device->result == NULL;
}

/* Are the args' buffers the device's? */
static inline bool is_on_device(const struct collective_args *args)
{
    return args->memory == HVD_MEMORY_DEVICE;
}

/* The comm's way, by collectives of its own the first time: every rank's first
 * call on a device is the same one. Takes seconds then, with a deadline.
 * HVD_OK; HVD_ERR_SYSTEM, HVD_ERR_NOMEM: this rank's device cannot be used; or
 * why the comm has ended. Issuing thread, which does not drive. */
hvd_status_t on_device_meet(struct comm *comm) HVD_MUST_CHECK;
/* The same for who drives: on memory of the host, one after the other, as each
 * is complete. HVD_OK, and the comm has its way, or *args_p is the next; else
 * the comm has ended. */
hvd_status_t on_device_meet_next(struct comm *comm,
                                 struct collective_args *args_p) HVD_MUST_CHECK;
/* This rank's device, and what this comm needs to wait for it; HVD_OK again
 * later. */
hvd_status_t on_device_open(struct comm *comm) HVD_MUST_CHECK;

/* What is posted by name must not turn out later to be what NCCL has not.
 * HVD_ERR_UNSUPPORTED. */
hvd_status_t
on_device_admit_by_name(const struct collective_args *args) HVD_MUST_CHECK;

/* A request that is prepared comes behind what is on its stream by now.
 * HVD_ERR_UNSUPPORTED (device_mark()), HVD_ERR_NOMEM, HVD_ERR_SYSTEM. The
 * thread that uses the stream. */
hvd_status_t on_device_mark(struct hvd_request *request) HVD_MUST_CHECK;
/* ... or behind this mark, which is taken in every case; NULL: none.
 * HVD_ERR_NOMEM. */
hvd_status_t on_device_adopt_mark(struct hvd_request *request,
                                  void *mark) HVD_MUST_CHECK;
/* ... and behind what another one would have. false: no memory. */
bool on_device_take_marks(struct on_device *device, struct on_device *other);
void on_device_drop_marks(struct on_device *device);

/* A request that is filled in, of a comm that has met, or of which all ranks
 * `stage` it: what it needs besides.
 * HVD_ERR_UNSUPPORTED: NCCL does not have it; HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
hvd_status_t on_device_prepare(struct hvd_request *request,
                               bool stage) HVD_MUST_CHECK;
/* It is done, and the program goes on: the stream waits for what is under way.
 * The thread that uses the stream. */
hvd_status_t on_device_follow(struct hvd_request *request) HVD_MUST_CHECK;
/* The request is over. */
void on_device_drop_staging(struct on_device *device);
/* Free what is kept. */
void on_device_fini(struct on_device *device);

/* All that a group sends, one tensor behind the other in memory of the host,
 * which is the request's; and from there to where it receives. HVD_OK, or the
 * comm has ended. */
hvd_status_t on_device_pack(struct comm *comm, struct hvd_request *request,
                            uint8_t **packed_p) HVD_MUST_CHECK;
hvd_status_t on_device_unpack(struct comm *comm,
                              struct hvd_request *request) HVD_MUST_CHECK;

/* By whoever drives. NCCL: comm->op is active. Others: what has to come before
 * the host's call has. */
hvd_status_t on_device_begin(struct comm *comm,
                             struct hvd_request *request) HVD_MUST_CHECK;
/* Behind the last part. */
hvd_status_t on_device_finish(struct comm *comm,
                              struct hvd_request *request) HVD_MUST_CHECK;

/* Calls that are over as they are queued are over indeed. */
hvd_status_t on_device_confirm(struct comm *comm) HVD_MUST_CHECK;

/* The comm ends: kernels are told to leave their buffers. Never blocks. */
void on_device_cancel(struct comm *comm);
/* ... and have left them, or it is said that this is not known. */
void on_device_silence(struct comm *comm);
void on_device_release(struct comm *comm);

#endif
