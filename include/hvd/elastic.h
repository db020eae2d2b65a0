/* hvd/elastic.h - run a training function through losses and changes of hosts.
 *
 * Threads: hvd_elastic_run from the thread that called hvd_init.
 * hvd_request_drain from anywhere, signal handlers included. */
#ifndef HVD_ELASTIC_H
#define HVD_ELASTIC_H

#include <hvd/state.h>
#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The training function. Called once per generation, so it must be able to
 * start from whatever the state says: allocate outside it, loop from the
 * state's counters, and return
 *   HVD_OK             training is finished (with finished state it must return
 *                      at once)
 *   HVD_PEER_LOST, HVD_HOSTS_UPDATED   as received from an hvd_* call
 *   anything else      an error; it ends the job. User codes are <=
 *                      HVD_USER_STATUS_MAX. */
typedef hvd_status_t (*hvd_train_fn)(hvd_state_t *state, void *arg);

/* hvd_elastic_run - join the world, and call train(state, arg) in every
 * generation until it is done.
 *
 * state      one per run, its entries registered, borrowed until return. Blocks
 * until the job is finished; while waiting for peers, for
 *            `--elastic-timeout` at most.
 * Returns    HVD_OK               every member finished
 *            HVD_REMOVED          this worker was drained; not success: do not
 *                                 write the final model
 *            HVD_ERR_MISMATCH, HVD_ERR_LAYOUT   ranks disagree;
 *                                 hvd_last_error names both sides
 *            HVD_ERR_DRIVER_LOST, HVD_ERR_JOB_FAILED
 *            what train returned, if that was an error
 * Source     docs/protocol.md; Horovod's run_fn (reset in the same process,
 * restore on
 *            loss, no restore on a change of hosts). */
HVD_API hvd_status_t hvd_elastic_run(hvd_state_t *state, hvd_train_fn train,
                                     void *arg) HVD_MUST_CHECK;

/* hvd_request_drain - ask to leave at the next boundary, as if the host had
 * been removed from discovery. Async-signal-safe: for a program's own SIGTERM
 * handler. */
HVD_API void hvd_request_drain(void);

/* hvd_busy - tell the driver that no boundary will be reached for up to
 * timeout_ms (an evaluation, a checkpoint); 0: that phase is over. Silences the
 * hang detector and, between hvd_init and training, --start-timeout. Any
 * thread. */
HVD_API void hvd_busy(unsigned timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
