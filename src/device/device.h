/* device/device.h - the GPU of this process: which it is, what lies in its
 * memory, and the thread that alone gives it work.
 *
 * A program that never touches a GPU pays for none of this: nothing is loaded
 * until device_set() or device_notice() has found a driver, and
 * device_is_used() is a load.
 *
 * Work is given to the thread as tasks: copies, or a collective on a
 * communicator (communicator.h). It starts them, those of a communicator and
 * those on one stream of the program's in order, each behind what the program
 * has put on its own stream, and looks at the device until they are over:
 * nothing here waits for a stream in a call that cannot be cancelled.
 *
 * Threads: as each call says. Memory: one device for the process, from
 * device_open() to device_close(). Where the house is built without CUDA all
 * of it is absent.c. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/collectives.h>
#include <hvd/device.h>
#include <hvd/status.h>

#include "base/collective_kind.h"
#include "base/error.h"
#include "base/verdict.h"

struct communicator;

/* --- which --- */

/* The program's choice; -1: none, the slot's. Before device_open().
 * HVD_ERR_UNSUPPORTED (no driver, no device), HVD_ERR_INVALID (no such one),
 * HVD_ERR_STATE (another one is open). */
hvd_status_t device_set(int ordinal) HVD_MUST_CHECK;

/* By hvd_init: the device of this slot is used unless another is chosen, if the
 * program has loaded the driver already. */
void device_notice(int slot);

/* Is a pointer worth a look? Any thread. */
extern atomic_bool device_used;
static inline bool device_is_used(void)
{
    return atomic_load_explicit(&device_used, memory_order_relaxed);
}

/* Has CUDA failed in a way that stays, or has somebody given it up? No call of
 * this process will work. Any thread. */
bool device_is_broken(void);
/* HVD_ERR_SYSTEM, with the sentence. Any thread. */
hvd_status_t device_give_up(const char *why);

/* Where ptr points. HVD_ERR_INVALID: to another device than this process's. Any
 * thread. */
hvd_status_t device_look(const void *ptr, bool *device_p) HVD_MUST_CHECK;

/* Was the house built with CUDA and NCCL? */
bool device_is_built(void);

/* Loads driver and NCCL, makes no context. Any thread. */
void device_inform(hvd_device_info_t *info);

/* Its context, streams and thread, once; HVD_OK again later.
 * HVD_ERR_UNSUPPORTED as device_set(); HVD_ERR_SYSTEM. Any thread. */
hvd_status_t device_open(void) HVD_MUST_CHECK;

/* No communicator is used any more: end the thread when what is posted is over.
 * It is left behind, with what it has, if that takes 10 s. */
void device_close(void);

/* false also in a forked child. */
bool device_is_open(void);

/* 16 bytes that no other device has. Open. */
void device_uuid(uint8_t *uuid);

/* --- memory (memory.c): pins from any thread, the rest of one at a time --- */

/* [nbytes] > 0 on the device, which keeps an eighth of its memory free.
 * HVD_ERR_NOMEM: it cannot; HVD_ERR_SYSTEM. Valid until freed, also behind
 * device_close(). */
hvd_status_t device_alloc(size_t nbytes, void **ptr_p) HVD_MUST_CHECK;
void device_free(void *ptr); /* NULL is fine */

/* Host memory [nbytes] that stays where it is: copies to and from it run by
 * themselves. HVD_ERR_NOMEM, HVD_ERR_SYSTEM: it does not, and
 * copies are slower. */
hvd_status_t device_pin(void *bytes, size_t nbytes) HVD_MUST_CHECK;
void device_unpin(void *bytes);

/* --- what the program has put on its stream --- */

/* What `stream` (CUstream; NULL: the legacy default stream) has to do up to
 * here; mark_p NULL: may it be used at all? HVD_ERR_UNSUPPORTED: it is being
 * captured, or, if something is put on it (`ordered`), it is
 * CU_STREAM_PER_THREAD, another one to each thread; HVD_ERR_SYSTEM. The thread
 * that uses the stream. */
hvd_status_t device_mark(void *stream, bool ordered,
                         void **mark_p) HVD_MUST_CHECK;
/* NULL is fine. */
void device_unmark(void *mark);

/* --- results that are on their way --- */

/* When a task is over that is over as it is queued: several may hold it, each
 * lets go of it once. Any thread. */
struct device_result;

struct device_result *device_result_create(void); /* NULL: no memory */
struct device_result *device_result_share(struct device_result *result);
/* What comes on the stream from here on waits for it. The thread that uses the
 * stream. */
hvd_status_t device_result_follow(const struct device_result *result,
                                  void *stream) HVD_MUST_CHECK;
void device_result_release(struct device_result *result); /* NULL is fine */

/* --- tasks --- */

struct device_copy {
    void *dst;
    const void *src;
    size_t nbytes; /* 0 is fine */
};

struct device_tensor {
    const void *send; /* [count] of dtype, or for each rank, as the kind has it;
                         broadcast: not looked at */
    void *recv;
    size_t count;
};

/* A collective: args as hvd/collectives.h has them, all pointers the device's.
 * Several tensors: allreduce alone. */
struct device_call {
    enum collective_kind kind;
    hvd_dtype_t dtype;
    hvd_op_t op;
    int root;
    const struct device_tensor *tensors; /* [n] */
    size_t n;
    const size_t *sendcounts, *sdispls, *recvcounts, *rdispls;
    double prescale, postscale; /* 1: none */
};

enum device_task_state {
    DEVICE_TASK_IDLE,
    DEVICE_TASK_POSTED,
    DEVICE_TASK_OVER
};

/* The poster fills in what is above the line, and keeps all of it where it is
 * until it is over. */
struct device_task {
    struct communicator *communicator; /* NULL: copies */
    struct device_call call;
    const struct device_copy *copies; /* [n_copies] */
    size_t n_copies;
    void *after;    /* a mark, or NULL */
    void **further; /* more of them, [n_further] */
    size_t n_further;
    void *stream; /* `ordered`: copies: what comes on it later waits for
                        them; a collective: where it runs, and nothing else may
                        be put until the task is over */
    bool ordered; /* over as soon as it is queued */
    struct device_result *result; /* `ordered`, a collective: it runs where the
                                     others do, and this says when it is over.
                                     NULL: on `stream` itself */
    bool background; /* copies: behind others of this kind, before none else */
    int doorbell;    /* eventfd, raised when it is over if somebody sleeps */

    /* --- */
    struct device_task *next;
    void *event;
    bool queued; /* all of it is on its stream */
    hvd_status_t status;
    char text[ERROR_TEXT_MAX];
    atomic_uint state; /* enum device_task_state; OVER publishes the rest */
    atomic_bool asleep;
};

/* Posted by any thread. A task is always over in the end: with
 * HVD_PEER_LOST when its communicator is cancelled, HVD_ERR_SYSTEM when the
 * device fails. */
void device_post(struct device_task *task);

static inline bool device_task_over(const struct device_task *task)
{
    return atomic_load_explicit(&task->state, memory_order_acquire) ==
           DEVICE_TASK_OVER;
}

/* Is it nobody's but the poster's: neither posted nor just being ended? */
bool device_task_free(const struct device_task *task);

/* Its status, the sentence set. It is over, and free from here on. */
hvd_status_t device_task_result(const struct device_task *task) HVD_MUST_CHECK;

/* Between these its doorbell rings; look once more behind the first. */
void device_task_sleep(struct device_task *task);
void device_task_wake(struct device_task *task);

/* Sleep until it is over. Its status. */
hvd_status_t device_await(struct device_task *task) HVD_MUST_CHECK;

/* Post it and sleep until it is over, or `verdict` (NULL: none) is set; then it
 * is over all the same, if it is no collective. Its status or the verdict's. */
hvd_status_t device_run(struct device_task *task,
                        const struct verdict *verdict) HVD_MUST_CHECK;

#endif
