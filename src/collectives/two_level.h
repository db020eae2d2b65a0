/* collectives/two_level.h - collectives of ranks on several hosts, of which
 * some have several ranks: inside the hosts through shared memory, between
 * them over the network, at the same time by as many ranks of a host as the
 * smallest host has (L).
 *
 *   allreduce   small  hosts of equal size: everybody gets the sum of its host;
 *                      the ranks with the same place combine theirs. Else: the
 *                      first rank of each host does, and tells its others
 *               large  place l < L reduces slice l of the operands of its
 *                      host; the ranks of place l combine slice l; the slices
 *                      are spread
 *   broadcast          from the root to a rank of each other host, from these
 *                      inside the hosts
 *   barrier            like a small allreduce
 *
 *   host 0    0 1 2           0 1 2           0 1 2
 *              \|/ reduce     | |              /|\ spread     (large, L = 2)
 *                             | | combine
 *   host 1    3 4             3 4             3 4
 *
 * Every rank gets the same bits: a slice is complete in one place of a host,
 * and the same in all hosts, as the schedule between them promises.
 *
 * Which of the ways is taken depends on the comm, the kind and the number of
 * bytes alone. A rank that goes one level all the same is found out by the
 * frames of the first call (HVD_ERR_MISMATCH).
 *
 * Threads: whoever drives the comm. */
#ifndef COLLECTIVES_TWO_LEVEL_H
#define COLLECTIVES_TWO_LEVEL_H

#include <stdbool.h>

#include <hvd/status.h>

struct comm;
struct collective_args;
struct two_level;

/* Sets comm->two_level, NULL if one level serves all calls. Behind
 * comm_share(). */
hvd_status_t two_level_create(struct comm *comm) HVD_MUST_CHECK;
/* NULL is fine. */
void two_level_destroy(struct two_level *levels);

/* Is a call of this kind done so? */
bool two_level_serves(const struct comm *comm, int kind);

/* Make comm->op, whose first phase has the shape of the call, a call in two
 * levels. Else than HVD_OK: the comm's reason. */
hvd_status_t two_level_plan(struct comm *comm,
                            const struct collective_args *args) HVD_MUST_CHECK;

#endif
