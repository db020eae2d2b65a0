/* elastic/driver/events.h - the core's records as lines: JSON for the event log
 * (docs/events.md: an interface), moments of the timeline, words for a person.
 *
 * Threads: the driver's loop. */
#ifndef ELASTIC_DRIVER_EVENTS_H
#define ELASTIC_DRIVER_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "elastic/driver/core.h"
#include "elastic/driver/eventlog.h"
#include "elastic/driver/trace.h"

struct events {
    struct eventlog log;
    struct trace trace;
    uint64_t n_lost;      /* workers */
    uint64_t recovery_us; /* slowest first collective of this generation */
    char reason[WIRE_TEXT_MAX]; /* why the generation being formed began */
};

/* driver: for the rows of generation_formed, as of this record. */
void events_write(struct events *e, const struct driver *driver,
                  const struct driver_record *record, uint64_t now_us);

#endif
