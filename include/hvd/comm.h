/* hvd/comm.h - process sets: collectives of some ranks of the world. Each set
 * has memory, connections and a thread of its own: sets that share no rank do
 * not wait for each other, nor do a set and the world.
 *
 * A set is given to a call as hvd_collective_args_t.comm. There
 *   ranks      are places in the set, root and the order of blocks included;
 *   counts     [size of the set];
 *   order      all its ranks issue the calls of the set in the same order;
 *              calls of other sets may lie anywhere between them. By name
 *              (HVD_COLLECTIVE_BY_NAME) in whatever order, names are the set's;
 *   devices    the first call there agrees on the way for the set, and makes a
 *              communicator of NCCL of its own (hvd/device.h);
 *   returns    also HVD_ERR_INVALID: this rank is not in the set, or it was
 *              made in a generation that is over.
 * A rank that is lost to a set is lost to the generation, as everywhere.
 * hvd_state_commit completes the calls of all sets first.
 *
 * Threads: the issuing one, but for what is said to be any. */
#ifndef HVD_COMM_H
#define HVD_COMM_H

#include <stdbool.h>

#include <hvd/collectives.h>
#include <hvd/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Is this rank of a world of `size` in the set? The same on every rank: it may
 * depend on its arguments alone. Calls nothing of this library. */
typedef bool (*hvd_member_fn)(int rank, int size, void *arg);

/* hvd_comm_create - a set of these ranks, for this generation. A collective of
 * the world: all ranks call it, those that are not in the set, too, in the same
 * order as its other collectives.
 *
 * ranks [n], each once; the same on all ranks, else HVD_ERR_MISMATCH.
 * Where it is called in the training function, that makes it again in each
 * generation, of the ranks that there are now; the one of the generation before
 * is to be destroyed all the same.
 * Returns as hvd_barrier() does; HVD_ERR_INVALID: a rank that is none, or is
 * there twice, n < 1, comm_p NULL. *comm_p is NULL then. */
HVD_API hvd_status_t hvd_comm_create(const int *ranks, int n,
                                     hvd_comm_t **comm_p) HVD_MUST_CHECK;

/* hvd_comm_create_by_rule - a set that is made anew in each generation, of
 * those ranks of which the rule says so: ranks change when workers come and go.
 *
 * Called before the world is joined, by hvd_elastic_run or by the first
 * collective, in each worker, those that come later, too: as many rules, in the
 * same order. They are asked, and their answers compared, when a generation is
 * entered, behind the sync of the state, whose callbacks cannot use the set:
 * HVD_ERR_MISMATCH where they differ. `arg` is passed on, and borrowed until
 * the set is destroyed.
 * Returns HVD_OK; HVD_ERR_INVALID (NULL); HVD_ERR_STATE: no hvd_init, or the
 * world was joined; HVD_ERR_NOMEM. */
HVD_API hvd_status_t hvd_comm_create_by_rule(
    hvd_member_fn member, void *arg, hvd_comm_t **comm_p) HVD_MUST_CHECK;

/* hvd_comm_join - hvd_join, of a set: this rank has no more data for it. The
 * rank that was last is a place in the set. NULL: the world. */
HVD_API hvd_status_t hvd_comm_join(hvd_comm_t *comm,
                                   int *last_rank_p) HVD_MUST_CHECK;

/* hvd_comm_destroy - its calls in flight are completed, and it is gone. A
 * collective of the set; on ranks that are not in it, and when its generation
 * is over, it waits for nobody. NULL is fine. hvd_shutdown destroys what is
 * left.
 * Returns HVD_OK; HVD_ERR_STATE: a set by rule, and a world is joined, nothing
 * has happened; else as hvd_barrier() does, and the set is gone. */
HVD_API hvd_status_t hvd_comm_destroy(hvd_comm_t *comm) HVD_MUST_CHECK;

/* hvd_comm_rank, hvd_comm_size - of the current generation: the place of this
 * rank in the set, -1: it is not in it; and how many ranks are, 0: none. -1 and
 * 0 too where there is no world, or the generation of the set is over. */
HVD_API int hvd_comm_rank(const hvd_comm_t *comm);
HVD_API int hvd_comm_size(const hvd_comm_t *comm);

#ifdef __cplusplus
}
#endif
#endif
