/* hvd/elastic.h - run a training function through losses and changes of hosts.
 *
 * Threads: the thread that called hvd_init() calls hvd_elastic_run(). */
#ifndef HVD_ELASTIC_H
#define HVD_ELASTIC_H

#include <hvd/state.h>
#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The training function. The library calls it at most once in each generation,
 * so it must be able to start from any state: allocate outside of it, loop from
 * the counters in the state, and return
 *   HVD_OK             training is finished. Called again with a finished
 *                      state, it returns at once
 *   HVD_PEER_LOST, HVD_HOSTS_UPDATED   if a call of the library returned it
 *   anything else      an error, which ends the job. From a worker that has
 *                      just joined, and has completed no collective yet, it
 *                      ends that worker alone. A program's own values are
 *                      <= HVD_USER_STATUS_MAX. */
typedef hvd_status_t (*hvd_train_fn)(hvd_state_t *state, void *arg);

/* hvd_elastic_run - join the world, and call train(state, arg) in every
 * generation until training is finished.
 *
 * state      its entries are registered; borrowed until return; one per run.
 * Blocks     until the job is finished, or too few workers have been there for
 *            --elastic-timeout.
 * Returns    HVD_OK               every member has finished. They stay a world
 *                                 until hvd_shutdown(), so that they can
 *                                 average their metrics: see below
 *            HVD_REMOVED          this worker was drained. It is no success: do
 *                                 not write the final model
 *            HVD_ERR_MISMATCH, HVD_ERR_LAYOUT   ranks differ;
 *                                 hvd_last_error() names both sides
 *            HVD_ERR_DRIVER_LOST, HVD_ERR_JOB_FAILED
 *            what train or a callback returned, if that was an error
 *            HVD_ERR_INVALID, HVD_ERR_STATE   an argument is NULL; no
 *                                 hvd_init(), a static program, or a second run
 *            in a job HVD_ERR_UNSUPPORTED  the driver is of another release
 *            HVD_ERR_NOMEM, HVD_ERR_SYSTEM
 * Afterwards the members of the last generation may call collectives. The
 * driver does not watch these calls: a rank that never comes is waited for
 * until it ends. A call with a rank that has gone is HVD_PEER_LOST or
 * HVD_ERR_MISMATCH, and final. hvd_comm_create() works; communicators by rule
 * are not there. If there is no memory for this world, the log says so, and
 * calls return HVD_ERR_STATE.
 * Source     docs/protocol.md; Horovod's run_fn: a reset in the same process, a
 *            restore after a loss, no restore after a change of hosts. */
HVD_API hvd_status_t hvd_elastic_run(hvd_state_t *state, hvd_train_fn train,
                                     void *arg) HVD_MUST_CHECK;

/* hvd_drain - ask that this worker leaves at the next boundary, without a
 * failure. Its slot stays empty. Call it after hvd_init(). It is
 * async-signal-safe, so that a program can call it in its own SIGTERM handler.
 * Any thread. */
HVD_API void hvd_drain(void);

/* hvd_abandon - this process gives up, and is about to end: tell the driver and
 * the other ranks at once, with a sentence that the driver's log then has as
 * the cause. In a job of hvd_elastic_run() it is a death: the others train on,
 * and the worker's slot has failed once. In a static program it ends the job.
 * Afterwards calls that need the job fail: end the process, with a status that
 * is not 0. The driver ends it after 5 s. The call waits up to 2 s for the
 * driver's answer.
 *
 * sentence   why, such as "RuntimeError: no more data"; NULL: no reason given.
 *            Copied, the first 399 bytes. Nothing happens in a world of one, in
 *            a forked child, in a place function, before hvd_init(), and when
 *            hvd_elastic_run() has returned.
 * Threads    the thread that called hvd_init() or hvd_elastic_run(), also
 *            inside the training function. */
HVD_API void hvd_abandon(const char *sentence);

/* hvd_busy_begin - tell the driver that this worker will reach no boundary for
 * up to timeout_ms milliseconds: an evaluation, a checkpoint. Until then, or
 * until hvd_busy_end(), the hang detector does not judge this worker, nor does
 * --start-timeout, which counts from the start of the worker, so do not end the
 * phase between hvd_init() and hvd_elastic_run(). The next heartbeat tells the
 * driver. Another begin replaces the time; they do not nest. 0 ends it too. Any
 * thread. */
HVD_API void hvd_busy_begin(unsigned timeout_ms);
HVD_API void hvd_busy_end(void);

#ifdef __cplusplus
}
#endif
#endif
