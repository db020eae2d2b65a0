/* hvd/device.h - the GPU of this process.
 *
 * Collectives take device pointers where they take host ones: whether buffers
 * are the device's is found out by looking, or said
 * (hvd_collective_args_t.memory); all buffers of a call lie at one place. They
 * run by NCCL if all ranks have it, each a device of its own, and the same
 * version; else they are staged through host memory, which a line tells.
 *
 *   First call    the first on devices in a generation agrees on the way, and
 *                 makes NCCL's communicator: that takes seconds at worst, and
 *                 has a deadline. Calls by name and process sets have one each,
 *                 with memory of the device of its own. They run beside each
 *                 other: there has to be room on the device for the kernels of
 *                 all that may be in flight at once (NCCL_MAX_CTAS makes them
 *                 smaller), whatever else the program runs there.
 *   Order         a call begins behind what is on `stream` when it is issued
 *                 (blocking calls: the legacy default stream). Calls on devices
 *                 and on the host share one order.
 *   Completion    a call, or hvd_wait, returns when the result is there and no
 *                 error is known. With HVD_COLLECTIVE_ORDERED it does as soon
 *                 as the call is queued, on `stream` itself, which is left
 *                 alone until then (a stream that waits for the one that makes
 *                 the buffers lets both run); hvd_step_confirm tells of the
 *                 rest.
 *   Returns       also HVD_ERR_UNSUPPORTED: NCCL does not have it (alltoall in
 *                 place, averages of integers), the stream is being captured,
 *                 or, with HVD_COLLECTIVE_ORDERED, is cudaStreamPerThread;
 *                 HVD_ERR_SYSTEM: CUDA has failed, for good, and
 *                 hvd_elastic_run returns it in this worker alone.
 *   Results       as NCCL computes them: the same bits on every rank, not those
 *                 of the host; of HVD_MIN and HVD_MAX with NaN, what it does.
 *
 * A rank that has nothing to send and to receive, and NULL for both, says where
 * the others' buffers are (memory).
 *
 * Ranks that call different collectives on devices are told apart only if one
 * of them waits for 0.2 s. NCCL and the driver are loaded when they are needed:
 * HVD_NCCL_LIBRARY names the file, else it is the one that the program has
 * loaded, else libnccl.so.2. A machine without them lacks nothing.
 *
 * Threads: the issuing thread, unless a call says otherwise. */
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

/* hvd_device_set - use this device, by CUDA's number in this process. Once,
 * before the first collective on a device. Default: hvd_slot(), if the program
 * has loaded the CUDA driver before hvd_init; one that loads it later calls
 * this. Returns HVD_OK, HVD_ERR_UNSUPPORTED (no driver or no device:
 * hvd_last_error says what is missing), HVD_ERR_INVALID (no such device, or
 * called in a forked child), HVD_ERR_STATE (another one is in use, or no
 * hvd_init yet). */
HVD_API hvd_status_t hvd_device_set(int ordinal) HVD_MUST_CHECK;

typedef struct hvd_device_info {
    size_t struct_size;     /* sizeof(hvd_device_info_t) */
    int n_devices;          /* that CUDA shows to this process */
    int device;             /* the one in use; -1: none yet */
    int driver_version;     /* 13000: CUDA 13.0; 0: no driver */
    int nccl_version;       /* 22809: 2.28.9; 0: none that can be used */
    bool usable;            /* NCCL can run here */
    char nccl_library[512]; /* the file; "": none */
    char reason[512];       /* why it is not usable; "" */
} hvd_device_info_t;

/* hvd_device_info - what there is, and why NCCL cannot be used. Loads the
 * driver and NCCL, makes no context. Also before hvd_init. Returns HVD_OK,
 * HVD_ERR_INVALID (info NULL, or its struct_size). */
HVD_API hvd_status_t hvd_device_info(hvd_device_info_t *info) HVD_MUST_CHECK;

/* hvd_step_confirm - is all that was issued complete, on every rank? Completes
 * all requests, waits for what is queued on devices, and for all ranks. Call it
 * before an optimizer step is put behind HVD_COLLECTIVE_ORDERED calls: when a
 * peer is lost, its stream goes on over gradients that are half reduced.
 * Commits do so themselves. Returns HVD_OK, HVD_PEER_LOST, or as the calls
 * would have. */
HVD_API hvd_status_t hvd_step_confirm(void) HVD_MUST_CHECK;

/* hvd_state_add_device - hvd_state_add for [nbytes] of device memory.
 *
 * A commit returns when it is queued: behind what is on `stream` (a CUstream or
 * cudaStream_t; NULL: the legacy default stream), and what comes on it later
 * waits until the bytes are copied: on the device, where that leaves an eighth
 * of its memory free, else to the host. From there they go to pinned host
 * memory, which holds the state twice, while training goes on. Peers that join
 * get them from there, or, from 16 MB on, by NCCL from the copy on the device,
 * if each has room for one (HVD_DEVICE_SYNC in hvd-elastic(1)). A restore or
 * sync returns when the bytes are in place.
 * hvd_state_set and hvd_state_remove take the entry as any other. To peers it
 * is a shared entry: where there is no GPU, hvd_state_add under this name is
 * the same.
 *
 * Call it behind hvd_init and hvd_device_set. Returns as hvd_state_add;
 * HVD_ERR_INVALID also: ptr is not on this process's device. A commit also:
 * HVD_ERR_UNSUPPORTED, the stream is being captured, or is the per-thread one
 * (cudaStreamPerThread); HVD_ERR_SYSTEM. */
HVD_API hvd_status_t hvd_state_add_device(hvd_state_t *state, const char *name,
                                          void *ptr, size_t nbytes,
                                          void *stream) HVD_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
