/* fake.h - a CUDA driver and a NCCL of host memory, for machines without a GPU:
 * libcuda.so.1 and libnccl.so.2, found by LD_LIBRARY_PATH.
 *
 * What is true of the real ones and matters to us is true here: work on streams
 * is late; memory of the device cannot be touched by the host (its addresses
 * are mapped without rights); a copy of memory that is not pinned is waited for
 * by whoever asks for it; a call that was enqueued is not on its stream yet,
 * and the first that is sent between two ranks is not before both have come to
 * it; a collective whose peer is gone never returns by itself, only neighbours
 * of the dead are told, and not even those if it is silent; after an abort the
 * stream goes on; two ranks on one device of one host, which NCCL_HOSTID may
 * name, are refused. What goes wrong is chosen by the environment:
 *
 *   FAKE_GPU="devices=2 late_us=100 ..."
 *
 *   devices=1        that CUDA shows
 *   uuid=0           of the first one: processes with the same have one device
 *   by_host=0        1: each HVD_HOST has devices of its own
 *   memory=BYTES     of a device
 *   late_us=50       before each piece of work begins
 *   enqueue_us=100   that a call of NCCL is in progress
 *   silent=0         1: no error tells of a dead peer
 *   version=22809    that NCCL says it is
 *   revoke=1         0: it has no ncclCommRevoke
 *   init_hang_ms     before a communicator begins to be made
 *   init_fail=0      1: it cannot be made
 *   abort_hang_ms    before an abort returns
 *   part_ms=0        ... or a revoke has come to its end: NCCL's threads look
 *                    each half second whether they are to end
 *   enqueue_hang_at  the n-th collective of the process stays in progress
 *   error_at         ... makes an asynchronous error
 *   sticky_at        ... breaks the device for good
 *   break_at         ... breaks it while it runs
 *   worker=0         the last four: of this HVD_WORKER alone, not of those that
 *                    replace it; 0: of all
 *   hold_at=0        the n-th launch of the process, and those behind it, wait
 *                    until the file FAKE_RELEASE is there
 *
 * A kernel that is launched runs as what FAKE_KERNELS has for it (kernels.h).
 *
 * Threads: any; one lock. Memory: what is freed is kept for the next. */
#ifndef TESTS_GPU_FAKE_H
#define TESTS_GPU_FAKE_H

#include <stdbool.h>
#include <stddef.h>

#include <cuda.h>

enum fake_knob {
    FAKE_DEVICES,
    FAKE_UUID,
    FAKE_BY_HOST,
    FAKE_MEMORY,
    FAKE_LATE_US,
    FAKE_ENQUEUE_US,
    FAKE_SILENT,
    FAKE_VERSION,
    FAKE_REVOKE,
    FAKE_INIT_HANG_MS,
    FAKE_INIT_FAIL,
    FAKE_ABORT_HANG_MS,
    FAKE_PART_MS,
    FAKE_ENQUEUE_HANG_AT,
    FAKE_ERROR_AT,
    FAKE_STICKY_AT,
    FAKE_BREAK_AT,
    FAKE_WORKER,
    FAKE_HOLD_AT,
    FAKE_KNOBS
};

#define FAKE_API __attribute__((visibility("default")))

FAKE_API long fake_knob(enum fake_knob knob);
FAKE_API void fake_pause_us(long us);
FAKE_API int fake_communicators(void); /* of libnccl.so.2: how many there are */
FAKE_API int fake_contexts(void);      /* ... have been asked for */

/* Behind what is on the stream; fn frees arg. */
FAKE_API void fake_enqueue(CUstream stream, void (*fn)(void *arg), void *arg);

/* Where what the device has at this address can be touched; the host's own
 * addresses are what they are. */
FAKE_API void *fake_memory(const void *ptr);

/* From now on every call fails. */
FAKE_API void fake_break(void);
bool fake_is_broken(void);

#endif
