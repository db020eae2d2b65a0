/* device/communicator_impl.h - the inside of a communicator, shared by
 * communicator.c, collectives.c (what it is told to do) and communicators.c
 * (those of the device). */
#ifndef DEVICE_COMMUNICATOR_IMPL_H
#define DEVICE_COMMUNICATOR_IMPL_H

#include "device/impl.h"
#include "device/life.h"

struct communicator {
    struct communicator *next; /* of the device's */
    struct device *device;
    const struct nccl_api *nccl;
    struct communicator_config config;

    uint64_t created_us;
    uint64_t join_us; /* to be ready in, once it begins to be made */

    /* any thread */
    atomic_bool cancelled, released;
    atomic_uint shown;                      /* life.state, as others see it */
    atomic_bool quiet;                      /* life.quiet, stored before it */
    atomic_uint_least64_t n_queued, n_over; /* collectives that are ordered */
    pthread_t aborter;
    atomic_bool aborted; /* it has come back */
    atomic_int parted;   /* abandoned, come back: whoever is second knows */
    bool counted;        /* among those abandoned, from before it has parted */

    /* the device's thread; the last two constant once `shown` says REVOKING */
    struct life life;
    ncclComm_t comm; /* NULL: none yet */
    CUstream stream;
    CUdeviceptr pack;                    /* [DEVICE_PACK_NBYTES] */
    const struct device_call *launching; /* NCCL has been told of it and not put
                                            it on the stream yet; NULL: none */
    uint64_t launching_us;               /* since when */
    struct device_task *task; /* to which it belongs; NULL: the first ones */
    struct device_call warm_call;
    struct device_tensor warm_tensor;
    size_t n_warm;    /* of the first ones, told of */
    CUevent warm;     /* behind them */
    CUevent last;     /* on its stream, behind all that is there */
    CUstream on;      /* where the last collective is: here, or on a stream of
                         the program's */
    CUevent last_cut; /* there, behind one that is cut */
    CUevent queued[DEVICE_QUEUED_MAX];       /* by number */
    uint64_t entered_us[LIFE_ABANDONED + 1]; /* by state; 0: not yet */
    bool aborts;                             /* there is an aborter */
    bool broken;                             /* a call has failed since */
    bool settled;       /* NCCL has put all on the stream that it ever will */
    bool cut;           /* a launch did not end well: NCCL may have a part */
    size_t free_nbytes; /* of the device, before it was made; 0: others were
                           being ended, whose memory came back meanwhile */
    ncclResult_t said;  /* by NCCL when it was asked last */
    hvd_status_t reason;
    char text[ERROR_TEXT_MAX];
};

/* --- communicator.c: by the thread --- */

/* It begins to be made. alone: none before it is left. */
void communicator_start(struct communicator *c, bool alone, uint64_t now_us);
/* NCCL has nothing of it any more, and no thread has either. */
bool communicator_has_parted(const struct communicator *c);
/* GONE, and parted. */
void communicator_free(struct communicator *c);
/* When to look again, CLOCK_NEVER: when kicked. */
uint64_t communicator_step(struct communicator *c, uint64_t now_us);
/* A call has, or the program has let it go; of several reasons the first is
 * told. */
void communicator_fail(struct communicator *c, hvd_status_t reason,
                       const char *text);

/* --- collectives.c: by the thread --- */

/* None is freed while kernels run, which would wait for them: it is kept for
 * the next. */
hvd_status_t communicator_take_pack(struct communicator *c) HVD_MUST_CHECK;
void communicator_give_pack(struct communicator *c);
/* It begins to. */
void communicator_warm_up(struct communicator *c);
/* If NCCL has put the one that is launched on the stream: what comes behind. */
void communicator_launch_on(struct communicator *c);
/* Nobody looks at that one any more. */
void communicator_drop_launch(struct communicator *c);

/* --- communicators.c --- */

/* Behind those that there are. Any thread. */
void communicators_append(struct device *d, struct communicator *c);
size_t communicators_free_nbytes(const struct device *d);
/* Is it the first of its generation that is abandoned? By the thread. */
bool communicators_first_abandoned(struct communicator *c);

#endif
