/* hvd/comm.h - communicators: collectives of some ranks of the world. Horovod
 * calls them process sets.
 *
 * A communicator has memory, connections and a thread of its own: two that
 * share no rank do not wait for each other, nor does one wait for the world.
 *
 * A call runs on the communicator in hvd_options_t.comm. There
 *   ranks      are ranks of the communicator; root and the order of blocks too;
 *   counts     have its size;
 *   order      holds within it: its ranks issue its calls in the same order,
 *              and queued calls of other communicators may lie anywhere between
 *              them; blocking calls of communicators that share ranks are
 *              issued in one order. Keys of calls by name are its own;
 *   devices    the first call with device buffers agrees on the way there, and
 *              makes a communicator of NCCL (hvd/device.h);
 *   returns    HVD_ERR_INVALID also if this rank is not in it, or if it was
 *              made in a generation that is over.
 * When one of its ranks is lost, the generation ends, as everywhere.
 * hvd_state_commit() completes the calls of all communicators first.
 *
 * Threads: as hvd/collectives.h, unless a call says any. */
#ifndef HVD_COMM_H
#define HVD_COMM_H

#include <stdbool.h>

#include <hvd/collectives.h>
#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Is this rank of a world of `size` in the communicator? Every rank gets the
 * same answer, so it depends on the arguments alone. The function calls nothing
 * of this library. */
typedef bool (*hvd_member_fn)(int rank, int size, void *arg);

/* hvd_comm_create - a communicator of these ranks, for this generation. It is a
 * collective of the world: all ranks call it, those that are not in it as well,
 * in the same order as its other collectives.
 *
 * ranks [n], each once; the same on all ranks, else HVD_ERR_MISMATCH.
 * A training function that calls it makes it anew in each generation, of the
 * ranks that there are now, and destroys the one of the generation before.
 * Returns what hvd_barrier() returns; HVD_ERR_INVALID also: a rank does not
 * exist or comes twice, n < 1, comm_p is NULL. *comm_p is NULL then. */
HVD_API hvd_status_t hvd_comm_create(const int *ranks, int n,
                                     hvd_comm_t **comm_p) HVD_MUST_CHECK;

/* hvd_comm_create_group - hvd_comm_create() by the members alone. It is no
 * collective, and waits for nobody: the first call in the communicator does.
 *
 * ranks      in ascending order, the same on all members
 * name       1 byte or more, the same on all members. Name and ranks are used
 *            once in a generation. Copied.
 * Members that differ in name or ranks are in different communicators: their
 * calls wait for each other.
 * Returns    HVD_OK
 *            HVD_ERR_INVALID  a rank does not exist, ranks are not in this
 *                             order, or this rank is not among them; there is
 *                             no name, or this was used before; comm_p is NULL
 *            HVD_ERR_NOMEM, HVD_ERR_STATE, and statuses of hvd_world_start()
 * Source     MPI_Comm_create_group (MPI 3.1, 6.4.2). */
HVD_API hvd_status_t hvd_comm_create_group(const int *ranks, int n,
                                           const char *name,
                                           hvd_comm_t **comm_p) HVD_MUST_CHECK;

/* hvd_comm_create_by_rule - a communicator that the library makes anew in each
 * generation, of those ranks for which member(rank, size, arg) is true: ranks
 * change when workers come and go.
 *
 * Each worker calls it before it joins the world by hvd_elastic_run() or its
 * first collective, workers that come later too: the same number of rules in
 * the same order. The library asks the rules, and compares the answers of all
 * ranks, when a generation begins, after the sync of the state; the callbacks
 * of that sync cannot use the communicator. HVD_ERR_MISMATCH if answers differ.
 * `arg` is passed on, and borrowed until the communicator is destroyed.
 * Returns HVD_OK; HVD_ERR_INVALID: member or comm_p is NULL; HVD_ERR_STATE: no
 * hvd_init(), or the world was joined (a world of one takes rules at any time);
 * HVD_ERR_NOMEM. */
HVD_API hvd_status_t hvd_comm_create_by_rule(
    hvd_member_fn member, void *arg, hvd_comm_t **comm_p) HVD_MUST_CHECK;

/* hvd_comm_destroy - complete its calls in flight, and free it. It is a
 * collective of the communicator; a rank that is not in it, or whose generation
 * has ended, waits for nobody. NULL is fine. hvd_shutdown() destroys those that
 * are left.
 * Returns HVD_OK. HVD_ERR_STATE: it is one by rule, and a world is joined; or
 * the call comes from a callback that not all ranks run; HVD_ERR_INVALID: a
 * forked child: nothing has happened then. Otherwise what hvd_barrier()
 * returns, and it is freed. */
HVD_API hvd_status_t hvd_comm_destroy(hvd_comm_t *comm) HVD_MUST_CHECK;

/* hvd_comm_rank, hvd_comm_size - in the current generation: this rank's rank in
 * comm, or -1 if it is not in it; and how many ranks comm has. HVD_WORLD: as
 * hvd_rank() and hvd_size(). -1 and 0 where the generation of comm is over. Any
 * thread. */
HVD_API int hvd_comm_rank(const hvd_comm_t *comm);
HVD_API int hvd_comm_size(const hvd_comm_t *comm);

#ifdef __cplusplus
}
#endif
#endif
