/* hvd/world.h - contact with the driver, and this worker's place in the job.
 *
 * Threads: one thread calls hvd_init(), hvd_world_start() and hvd_shutdown().
 * Any thread may call the readers, but not while hvd_elastic_run() changes the
 * generation: inside the training function they are constant. A forked child
 * may call nothing of this library; calls that need the job return
 * HVD_ERR_INVALID there. */
#ifndef HVD_WORLD_H
#define HVD_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum hvd_log_level {
    HVD_LOG_ERROR = 0,
    HVD_LOG_WARN = 1,
    HVD_LOG_INFO = 2,
    HVD_LOG_DEBUG = 3,
    HVD_LOG_TRACE = 4,
    HVD_LOG_LEVEL_FORCE_INT = 0x7fffffff
} hvd_log_level_t;

/* Takes a line of the library's log, without a newline; the line is borrowed
 * until return. Threads of the library call it, and the program's own within
 * calls, one at a time. It calls nothing of the library, does not block, and
 * takes no lock that a thread holds while it calls the library. */
typedef void (*hvd_log_fn)(hvd_log_level_t level, const char *line, void *arg);

/* Called about ten times a second by a thread of the program that waits for the
 * driver: in hvd_init(), hvd_world_start() and hvd_shutdown(), in
 * hvd_elastic_run() between two generations and when training is finished, and
 * at a boundary that is due. A language runtime runs the handlers of its
 * signals there. (For waits for peers there is hvd_wait_for().) A status below
 * 0 ends the wait: the call returns it, and hvd_elastic_run() does as if the
 * training function had returned it. The function calls nothing of the library
 * but hvd_drain(). */
typedef hvd_status_t (*hvd_poll_fn)(void *arg);

/* Fields are only ever appended; the default of each is zero. Both args are
 * borrowed until hvd_shutdown(), or until hvd_init() has failed. */
typedef struct hvd_config {
    size_t struct_size; /* sizeof(hvd_config_t) */
    hvd_log_fn log_fn;  /* NULL: lines go to stderr. HVD_LOG_LEVEL says which
                           lines there are */
    void *log_arg;
    hvd_poll_fn poll_fn; /* NULL: none */
    void *poll_arg;
} hvd_config_t;

#define HVD_CONFIG_INIT                              \
    {                                                \
        sizeof(hvd_config_t), NULL, NULL, NULL, NULL \
    }

/* hvd_init - make contact with the driver. Afterwards hvd_slot() is valid,
 * hvd_rank() is -1 and hvd_size() is 0: hvd_elastic_run() or hvd_world_start()
 * joins the world. A program that hvd-elastic has not started (no HVD_DRIVER in
 * its environment) is a world of one at once.
 *
 * config     NULL: the defaults. Borrowed until return.
 * Returns    HVD_OK
 *            HVD_ERR_STATE        called twice; in a job also after
 *                                 hvd_shutdown()
 *            HVD_ERR_DRIVER_LOST  the driver has not answered in time
 *            HVD_ERR_SYSTEM, HVD_ERR_NOMEM   there is no socket, thread, memory
 *            HVD_ERR_INVALID      a variable of the environment has a bad value
 *                                 (hvd_last_error() names it; a bad level of
 *                                 the log or a bad timeline is a warning), or
 *                                 config has; or this is a forked child
 *            HVD_ERR_UNSUPPORTED  config has a field of a newer release, or the
 *                                 driver is of another release
 *            HVD_REMOVED, HVD_ERR_JOB_FAILED   the job ends
 * Source     a reset happens in the same process: Horovod Elastic. */
HVD_API hvd_status_t hvd_init(const hvd_config_t *config) HVD_MUST_CHECK;

/* hvd_world_start - join the world of a static program: one that calls
 * collectives without hvd_elastic_run(). Blocks until the driver has formed
 * generation 1. The first collective does it by itself. A loss ends a static
 * job: HVD_PEER_LOST is final.
 *
 * Returns    HVD_OK; HVD_ERR_STATE: before hvd_init(), or in an elastic
 *            program; HVD_REMOVED, HVD_ERR_DRIVER_LOST, HVD_ERR_JOB_FAILED, and
 *            the statuses of hvd_barrier() */
HVD_API hvd_status_t hvd_world_start(void) HVD_MUST_CHECK;

/* hvd_shutdown - say goodbye to the driver, stop the library's threads, close
 * its descriptors. It does nothing if hvd_init() was never called. A static
 * program that ends well calls it: an exit without it is a failure of the
 * worker.
 *
 * Returns    HVD_OK
 *            HVD_ERR_STATE    inside a training function
 *            HVD_ERR_INVALID  in a forked child
 *            of a static job that has ended: HVD_PEER_LOST once a collective
 *            has failed; else HVD_REMOVED, HVD_ERR_* */
HVD_API hvd_status_t hvd_shutdown(void) HVD_MUST_CHECK;

/* Position in the current generation; -1 (ranks) and 0 (sizes) before the world
 * is joined. local: among the workers of this host; cross: among the hosts that
 * have this local rank. */
HVD_API int hvd_rank(void);
HVD_API int hvd_size(void);
HVD_API int hvd_local_rank(void);
HVD_API int hvd_local_size(void);
HVD_API int hvd_cross_rank(void);
HVD_API int hvd_cross_size(void);

typedef struct hvd_plan {
    size_t struct_size; /* sizeof(hvd_plan_t) */
    bool elastic;       /* discovery may list other hosts, or the job goes on
                           with fewer workers than -np, or with more */
    int rank, size, local_rank, local_size;
} hvd_plan_t;

/* hvd_plan - the place that this worker will probably have, before the world is
 * joined: for a program that chooses a learning rate by the size, or which rank
 * prints. The driver has said it in hvd_init(), by the hosts and workers that
 * it knew; hvd_rank() and hvd_size() have the actual values. For a worker that
 * comes later, sizes are those with it, and its ranks the last of them. Any
 * thread.
 *
 * plan       struct_size is set; the rest is written.
 * Returns    HVD_OK; HVD_ERR_INVALID: plan is NULL, its struct_size is not set,
 *            or this is a forked child; HVD_ERR_STATE: before hvd_init()
 * Source     Horovod's programs ask for rank and size after hvd.init(). */
HVD_API hvd_status_t hvd_plan(hvd_plan_t *plan) HVD_MUST_CHECK;

/* hvd_slot - index of this worker's slot on its host, constant for the process.
 * Choose devices, cores and ports by it: the local rank changes with the
 * generation. */
HVD_API int hvd_slot(void);

/* hvd_generation - number of the current rendezvous; 0 before the first. */
HVD_API uint64_t hvd_generation(void);

/* hvd_generation_status - has the current generation ended, and why? It is no
 * boundary and waits for nothing: a program asks it where an error has come to
 * it through the code of others. Any thread, while the training function runs.
 *
 * Returns    HVD_OK               it lives
 *            HVD_PEER_LOST, HVD_ERR_MISMATCH   it has ended by a loss, or as
 *                                 ranks differ
 *            HVD_HOSTS_UPDATED    the ranks have left it at a boundary
 *            HVD_REMOVED, HVD_ERR_DRIVER_LOST, HVD_ERR_JOB_FAILED   the driver
 *                                 has said so
 *            HVD_ERR_STATE        there is no generation, or no hvd_init()
 *            HVD_ERR_INVALID      in a forked child
 *            any other            this rank's own failure, which ended it */
HVD_API hvd_status_t hvd_generation_status(void) HVD_MUST_CHECK;

typedef enum hvd_hosts_change {
    HVD_HOSTS_UNCHANGED = 0,
    HVD_HOSTS_EXPECTED = 1, /* workers are being started, or are to leave */
    HVD_HOSTS_DUE = 2,      /* the next boundaries agree on when */
    HVD_HOSTS_FORCE_INT = 0x7fffffff
} hvd_hosts_change_t;

/* hvd_hosts_pending - is a change of hosts on its way? A long evaluation can
 * end early by it. The driver tells the members of HVD_HOSTS_EXPECTED with a
 * heartbeat. Any thread, while the training function runs; HVD_HOSTS_UNCHANGED
 * elsewhere, and in a world of one unless hvd_drain() was called. */
HVD_API hvd_hosts_change_t hvd_hosts_pending(void);

#ifdef __cplusplus
}
#endif
#endif
