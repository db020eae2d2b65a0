/* device/communicator.h - the ranks of one generation on their devices: a
 * communicator of NCCL, from its making to its abort.
 *
 * The thread of the device makes every call of NCCL, but for the abort, which
 * may hang and has a thread to itself. The owner asks how far it is, cancels
 * it, and lets go of it at any time; what is left to do is done behind his
 * back, the next one being made meanwhile.
 *
 * Threads: as each call says. Memory: the device's, until it is over and
 * released. */
#ifndef DEVICE_COMMUNICATOR_H
#define DEVICE_COMMUNICATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#include "base/verdict.h"
#include "device/life.h"

struct communicator;

enum { COMMUNICATOR_ID_NBYTES = 128 };

struct communicator_config {
    uint8_t id[COMMUNICATOR_ID_NBYTES]; /* the same on all ranks */
    int rank, size;
    uint64_t generation;
    uint64_t join_us; /* to be ready in; 0: half a minute */
    int doorbell;     /* eventfd, raised at each change; borrowed */
};

/* NCCL's version, 22809 for 2.28.9. HVD_ERR_UNSUPPORTED: it cannot be used. Any
 * thread. */
hvd_status_t communicator_version(int *version_p) HVD_MUST_CHECK;

/* An id for a new one. Each costs a thread and a port until all ranks have met
 * by it, so only who knows its members makes one. Any thread. */
hvd_status_t communicator_id(uint8_t *id) HVD_MUST_CHECK;

/* HVD_ERR_NOMEM; HVD_ERR_SYSTEM: too many before it have not ended. Open
 * device. */
hvd_status_t communicator_create(const struct communicator_config *config,
                                 struct communicator **c_p) HVD_MUST_CHECK;

/* Wait until it is ready, has failed, or `verdict` is set. HVD_OK: ready.
 * HVD_ERR_UNSUPPORTED: it cannot be made; else the verdict's. */
hvd_status_t communicator_await(struct communicator *c,
                                const struct verdict *verdict) HVD_MUST_CHECK;

/* Nobody wants it any more: kernels are told to leave. Never blocks. Any
 * thread. */
void communicator_cancel(struct communicator *c);

/* Cancelled: wait until no kernel of it touches any buffer. false: that is not
 * known, as NCCL has not taken its last call, or what is on its stream does not
 * end. */
bool communicator_silence(struct communicator *c) HVD_MUST_CHECK;

/* Collectives that were queued and are over by now; or HVD_PEER_LOST,
 * HVD_ERR_SYSTEM: one has failed. Waits until all are, or `verdict` is set. */
hvd_status_t communicator_confirm(struct communicator *c,
                                  const struct verdict *verdict) HVD_MUST_CHECK;

/* Cancels; the pointer is invalid, and its doorbell is not used any more. NULL
 * is fine. */
void communicator_release(struct communicator *c);

#endif
