/* elastic/agent/descent.h - is a process that says it is a worker the program
 * that was started for it? Its ancestors decide.
 *
 *   agent - wrapper - wrapper - train      any of these is the worker, but only
 *                                          one of them
 *   agent - train - evaluation             train is: evaluation comes too late
 *   agent - train (a daemon: its parent    its word for which worker it is
 *                  has ended)              counts
 *   agent - train of another worker        is no program of this worker
 *   shell - train                          nor is this
 *
 * Pure. Threads: any. Memory: none. */
#ifndef ELASTIC_AGENT_DESCENT_H
#define ELASTIC_AGENT_DESCENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "elastic/wire/claim.h"

struct descent {
    /* [n]: itself, its parent, and so on, as far as could be read; up to the
     * agent, if it descends from that */
    const pid_t *line;
    size_t n;
    pid_t agent;
    pid_t own;         /* the process of the worker; 0: there is none */
    const pid_t *ours; /* [n_ours] all processes that the agent has started */
    size_t n_ours;
    bool same_user; /* the process with this pid is of the user that has asked:
                       it is the one that has asked */
    pid_t taken;    /* the process that has become this worker, which may ask
                       again when its hvd_init has failed; 0: none */
};

enum claim_verdict descent_judge(const struct descent *d);

#endif
