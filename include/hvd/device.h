/* hvd/device.h - the GPU of this process.
 *
 * A collective takes device pointers where it takes host pointers. The library
 * asks the device driver where buffers lie, or the call says so
 * (hvd_options_t.memory); all buffers of a call lie in one place. NCCL runs the
 * calls if every rank has a device of its own and NCCL of one version, and its
 * communicator can be made; otherwise they are staged through host memory, and
 * a line in the log says so. HVD_ADASUM, a wire_dtype, and calls by name while
 * a rank has no more data are always staged. A world of one copies on the
 * device.
 *
 *   First call    The first call with device buffers in a generation agrees on
 *                 the way, and makes NCCL's communicator: that takes seconds,
 *                 and has a deadline of 38 s. Calls by name, and each
 *                 communicator of hvd/comm.h, have one of their own, which
 *                 takes device memory. They run beside each other: the device
 *                 needs room for the kernels of all calls that may be in flight
 *                 at once, beside the program's own (NCCL_MAX_CTAS makes
 *                 kernels smaller).
 *   Order         A call begins after the work that is on hvd_options_t.stream
 *                 when it is issued. Calls with device buffers and with host
 *                 buffers share one order.
 *   Completion    A call is complete when the result is there and no error is
 *                 known. With HVD_STREAM_ORDERED it is complete when it is
 *                 queued: it runs on the stream itself, and the program leaves
 *                 the stream alone until the call, or hvd_wait(), has returned.
 *                 (To go on meanwhile, pass a stream that waits for the one
 *                 that makes the buffers.) A call by name is queued elsewhere:
 *                 the program may use its stream meanwhile, and the stream
 *                 waits for the result from hvd_wait() on, which the thread
 *                 that uses the stream calls. hvd_confirm() says whether calls
 *                 that were queued went well.
 *   Returns       also HVD_ERR_UNSUPPORTED: NCCL lacks the call (alltoall in
 *                 place, averages of integers), or the stream is being
 *                 captured, or it is cudaStreamPerThread and the call is
 *                 HVD_STREAM_ORDERED. HVD_ERR_SYSTEM: CUDA has failed. If
 *                 it has failed for good, hvd_elastic_run() returns that in
 *                 this worker alone; otherwise the job ends.
 *   Results       are what NCCL computes: the same bits on every rank, but not
 *                 those of a host call; HVD_MIN and HVD_MAX treat NaN as NCCL
 *                 does.
 *   Place         The buffers of all ranks lie on devices, or those of none
 *                 (HVD_ERR_MISMATCH).
 *
 * A rank that sends and receives nothing, and passes NULL for both, says with
 * hvd_options_t.memory where the others' buffers lie.
 *
 * Ranks that call different collectives on devices are told so only if one of
 * them waits for 0.2 s. The library loads NCCL and the CUDA driver when it
 * needs them: HVD_NCCL_LIBRARY names NCCL's file; else it is the one that the
 * program has loaded, else libnccl.so.2. A machine without them lacks nothing.
 *
 * Threads: as hvd/collectives.h, unless a call says any. */
#ifndef HVD_DEVICE_H
#define HVD_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <hvd/collectives.h>
#include <hvd/state.h>
#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* hvd_device_set - use this device, by CUDA's number in this process. Call it
 * once, before the first collective with device buffers. The default is
 * hvd_slot(), if the program has loaded the CUDA driver before hvd_init(); a
 * program that loads it later calls this. Returns HVD_OK; HVD_ERR_UNSUPPORTED:
 * there is no driver or no device, and hvd_last_error() says what is missing;
 * HVD_ERR_INVALID: no such device, or a forked child; HVD_ERR_STATE: another
 * device is in use, or no hvd_init(). */
HVD_API hvd_status_t hvd_device_set(int ordinal) HVD_MUST_CHECK;

typedef struct hvd_device_info {
    size_t struct_size;     /* sizeof(hvd_device_info_t) */
    int n_devices;          /* that CUDA shows to this process */
    int device;             /* in use; -1: none yet */
    int driver_version;     /* 13000: CUDA 13.0; 0: no driver, or no device */
    int nccl_version;       /* 22809: 2.28.9; 0: none that can be used */
    bool usable;            /* NCCL can run here */
    char nccl_library[512]; /* the file; "": none */
    char reason[512];       /* why NCCL cannot run here; "" */
} hvd_device_info_t;

/* hvd_device_info - what there is, and why NCCL cannot be used. It loads the
 * driver and NCCL, and makes no context. It may be called before hvd_init().
 * Returns HVD_OK; HVD_ERR_INVALID: info is NULL, or its struct_size is not set.
 * Any thread. */
HVD_API hvd_status_t hvd_device_info(hvd_device_info_t *info) HVD_MUST_CHECK;

/* hvd_confirm - has everything that was issued gone well, on every rank? It
 * completes all requests, and waits for the calls that are queued on devices
 * and for all ranks. Call it before an optimizer step that uses the results of
 * HVD_STREAM_ORDERED calls: when a peer is lost, its stream goes on over
 * gradients that are half reduced. A commit does the same for this rank by
 * itself; it waits for the others only if it compares the state (hvd/state.h).
 * Returns HVD_OK, HVD_PEER_LOST, or the status of a call that has failed. */
HVD_API hvd_status_t hvd_confirm(void) HVD_MUST_CHECK;

/* hvd_state_add_device - hvd_state_add() for [nbytes] of device memory.
 *
 * A commit returns when the copy is queued after the work on `stream` (a
 * CUstream or cudaStream_t; NULL: the legacy default stream), and later work on
 * the stream waits for the copy. The copy goes to the device, where that leaves
 * an eighth of its memory free, else to the host. From there the bytes go to
 * pinned host memory, which holds the state twice, while training goes on.
 * Peers that join get them from there, or, from 16 MB on, by NCCL from the copy
 * on the device, if each has room for one (HVD_DEVICE_SYNC in hvd-elastic(1)).
 * A restore or sync returns when the bytes are in place.
 * hvd_state_rebind() and hvd_state_remove() take the entry as any other. To
 * peers it is a shared entry: where there is no GPU, hvd_state_add() with this
 * name is the same.
 *
 * Call it after hvd_init() and hvd_device_set(). Returns what hvd_state_add()
 * returns; HVD_ERR_INVALID also: ptr is not on this process's device. A commit
 * then returns also HVD_ERR_UNSUPPORTED: the stream is being captured, or is
 * cudaStreamPerThread; and HVD_ERR_SYSTEM. */
HVD_API hvd_status_t hvd_state_add_device(hvd_state_t *state, const char *name,
                                          void *ptr, size_t nbytes,
                                          void *stream) HVD_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
