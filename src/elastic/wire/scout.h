/* elastic/wire/scout.h - looks where the driver of a job is (beacon.h), without
 * being kept by a disk that hangs: a thread reads.
 *
 * Threads: one asks; a writer's reads (base/writer.h). Memory: the scout; a
 * thread that the kernel keeps has it for ever. */
#ifndef ELASTIC_WIRE_SCOUT_H
#define ELASTIC_WIRE_SCOUT_H

#include <stdbool.h>

#include <hvd/status.h>

#include "elastic/wire/beacon.h"

struct scout;

/* dir is copied. HVD_ERR_NOMEM, HVD_ERR_SYSTEM. */
hvd_status_t scout_create(const char *dir,
                          struct scout **scout_p) HVD_MUST_CHECK;

/* Look. wait_ms 0: *b is what the look before this one has found; else what
 * this one has, if it is over by then. False: nothing was found, or is not
 * known; while a look hangs no other one is begun, and nobody waits. */
bool scout_look(struct scout *s, int wait_ms, struct beacon *b);

/* NULL is fine. */
void scout_destroy(struct scout *s);

#endif
