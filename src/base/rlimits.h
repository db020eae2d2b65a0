/* base/rlimits.h - what the system lets a process of ours do: descriptors, and
 * being told of the end of others. For driver and agent; not for libhvd, which
 * lives in somebody else's process.
 *
 * Threads: the main thread, before there are others. */
#ifndef BASE_RLIMITS_H
#define BASE_RLIMITS_H

#include <hvd/status.h>

/* Take what driver and agent cannot do without: as many descriptors as the hard
 * limit has, a stack of a megabyte, and a system that can watch processes.
 * HVD_ERR_SYSTEM names what is missing. */
hvd_status_t rlimits_prepare(void) HVD_MUST_CHECK;

/* In a child before its exec: the limits that rlimits_prepare() found.
 * Async-signal-safe. */
void rlimits_restore(void);

#endif
