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

/* Look. *b is what this look has found, if it is over within wait_ms, else what
 * the last one had that is over. False: that has found nothing. While a look
 * hangs no other one is begun: it is waited for by wait_ms as well. */
bool scout_look(struct scout *s, int wait_ms, struct beacon *b);

/* The last look that is over has found that there is no such file. */
bool scout_misses(const struct scout *s);

/* NULL is fine. */
void scout_destroy(struct scout *s);

#endif
