/* elastic/driver/eventlog.h - the event log: JSON lines that tools and
 * measurements read (names and fields: docs/events.md).
 *
 * One line per event. Logging never delays the job, and never fails it: a
 * thread writes (base/writer.h). While the disk is full, or the file is slow,
 * lines wait; those that find no room are counted in a line of their own. An
 * error that cannot pass is one warning, and the log ends there.
 *
 *     struct json *j = eventlog_begin(log, now_us, "host_added", generation);
 *     json_str(j, "host", name);
 *     eventlog_end(log);
 *
 * Threads: the driver's loop. */
#ifndef ELASTIC_DRIVER_EVENTLOG_H
#define ELASTIC_DRIVER_EVENTLOG_H

#include <stdbool.h>
#include <stdint.h>

#include <hvd/status.h>

#include "base/json.h"

struct eventlog {
    const char *path;      /* borrowed; for the warning */
    struct writer *writer; /* NULL: no log, lines are thrown away */
    uint64_t n_dropped;    /* lines, since the last that found room */
    int why;               /* errno when they were dropped; 0: it was slow */
    uint64_t start_us;     /* what `t` counts from */
    uint64_t open_us;      /* when a successor tries again to open it, at the
                              soonest; CLOCK_NEVER: it does not */
    struct json line;
};

/* Open path anew (an older file is emptied), or go on with it; NULL: no log,
 * every call below is still fine. start_us: monotonic clock at the start of
 * the job. go_on: a log that cannot be opened is one warning, and is tried
 * again each second when there is something to write; lines until then count
 * as dropped. Returns HVD_OK, HVD_ERR_SYSTEM. */
hvd_status_t eventlog_open(struct eventlog *log, const char *path,
                           uint64_t start_us, bool go_on) HVD_MUST_CHECK;
/* What has not been written in two seconds never is. */
void eventlog_close(struct eventlog *log);

/* Start a line: t, event, generation. Add fields to the result, then end it. */
struct json *eventlog_begin(struct eventlog *log, uint64_t now_us,
                            const char *event, uint64_t generation);
void eventlog_end(struct eventlog *log);

/* A duration as milliseconds with three decimals. */
void eventlog_ms(struct eventlog *log, const char *key, uint64_t duration_us);

#endif
