/* elastic/driver/launch_groups.h - the process groups of an agent's workers on
 * this machine: the driver kills them when it kills the agent, so that nothing
 * outlives it that a worker has forked.
 *
 * Threads: the main thread. Memory: launch_groups_kill() frees it. */
#ifndef ELASTIC_DRIVER_LAUNCH_GROUPS_H
#define ELASTIC_DRIVER_LAUNCH_GROUPS_H

#include "elastic/driver/launch.h"

/* It may be added twice. Without memory for it, only what the worker forks may
 * outlive its agent. */
void launch_groups_add(struct launched *item, pid_t pid);
void launch_groups_remove(struct launched *item, pid_t pid);
/* All of them end; none is left in the list. */
void launch_groups_kill(struct launched *item);

#endif
