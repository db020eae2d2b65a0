/* hvd/world.h - contact with the driver, and who this worker is.
 *
 * Threads: hvd_init, hvd_join_world and hvd_shutdown from one thread; the
 * readers from any thread that does not race with hvd_elastic_run() changing
 * the generation (inside the training function they are constant). A forked
 * child may not call hvd_* (HVD_ERR_INVALID). */
#ifndef HVD_WORLD_H
#define HVD_WORLD_H

#include <stdint.h>

#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* hvd_init - make contact with the driver. Afterwards hvd_slot() is valid,
 * hvd_rank() is -1 and hvd_size() is 0: the world is joined by
 * hvd_elastic_run() or hvd_join_world(). A program that was not started by
 * hvd-elastic (no HVD_* in its environment) is a world of one at once.
 *
 * Returns    HVD_OK
 *            HVD_ERR_STATE        called twice
 *            HVD_ERR_DRIVER_LOST  the driver did not answer within its deadline
 *            HVD_ERR_SYSTEM       no socket, thread or memory
 *            HVD_ERR_INVALID      a variable of the environment has a bad value
 *                                 (hvd_last_error names it); a forked child
 * Source     a reset happens in the same process: Horovod
 *            Elastic. */
HVD_API hvd_status_t hvd_init(void) HVD_MUST_CHECK;

/* hvd_join_world - join the world of a *static* program: one that calls
 * collectives without hvd_elastic_run(). Blocks until the driver has formed
 * generation 1. The first collective calls it by itself. A loss ends a static
 * job: HVD_PEER_LOST is final.
 *
 * Returns    HVD_OK; HVD_ERR_STATE (before hvd_init, or inside an elastic
 *            program), HVD_REMOVED, HVD_ERR_DRIVER_LOST, HVD_ERR_JOB_FAILED */
HVD_API hvd_status_t hvd_join_world(void) HVD_MUST_CHECK;

/* hvd_shutdown - say goodbye, stop the library's threads, close its
 * descriptors. Harmless when hvd_init was never called. A static program that
 * ends well must call it: an exit without it is a failure of the worker.
 *
 * Returns    HVD_OK
 *            HVD_ERR_STATE    inside a training function
 *            HVD_ERR_INVALID  in a forked child
 *            else what ended a static job: HVD_PEER_LOST, HVD_REMOVED,
 *            HVD_ERR_* */
HVD_API hvd_status_t hvd_shutdown(void);

/* Position in the current generation; -1 (ranks) and 0 (sizes) before the world
 * is joined. local = among the workers of this host, cross = among the hosts
 * that have this local rank. */
HVD_API int hvd_rank(void);
HVD_API int hvd_size(void);
HVD_API int hvd_local_rank(void);
HVD_API int hvd_local_size(void);
HVD_API int hvd_cross_rank(void);
HVD_API int hvd_cross_size(void);

/* hvd_slot - index of this worker's slot on its host, constant for the process:
 * choose devices, cores and ports by it (local_rank changes with the
 * generation). */
HVD_API int hvd_slot(void);

/* hvd_generation - number of the current rendezvous; 0 before the first. */
HVD_API uint64_t hvd_generation(void);

/* hvd_abi_version - version of the binary interface: major * 1000 + minor. */
HVD_API int hvd_abi_version(void);

#ifdef __cplusplus
}
#endif
#endif
