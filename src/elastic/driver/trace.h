/* elastic/driver/trace.h - --timeline FILE: the driver's own lanes, and at the
 * end of the job one file out of its own and those of all workers
 * (docs/timeline.md).
 *
 * While the job runs FILE holds what the driver knows; worker 7 writes
 * FILE.7 (trace.json: trace.7.json), from the same machine's clock. At the end
 * whatever of them can be read here and bears this job's number, the files of
 * killed workers too, is copied into FILE and removed. Nothing of it ever
 * fails the job, or delays it: a thread writes and merges. What cannot be
 * written, as the disk is full, is tried again; what finds no room meanwhile is
 * counted in the file.
 *
 * Threads: the driver's loop; the thread's things are in trace.c. */
#ifndef ELASTIC_DRIVER_TRACE_H
#define ELASTIC_DRIVER_TRACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include <hvd/status.h>

#include "elastic/driver/core.h"

struct trace {
    bool on;
    uint64_t job;
    uint64_t last_worker; /* the highest id that was spawned */
    uint64_t shown;       /* the generation whose span is open; 0: none */
    uint64_t n_dropped;   /* events without room, since the last that had it */
    uint64_t dropped_us;  /* when the first of them was */
    uint64_t n_put;       /* events that the thread was given */
    int claim_fd;         /* no other job writes there meanwhile; -1: none */
    char path[PATH_MAX];  /* absolute */
    struct pen *pen;      /* heap */
    struct writer *writer;
};

/* path NULL: off, and every call below is still fine. go_on: a driver before
 * may have it open, and it is made later if that is not possible now.
 * HVD_ERR_SYSTEM, HVD_ERR_NOMEM, HVD_ERR_INVALID (another job writes there),
 * with the sentence. */
hvd_status_t trace_open(struct trace *t, const char *path, uint64_t job,
                        bool go_on) HVD_MUST_CHECK;

/* name: of the event, as in the event log; NULL: it has none. */
void trace_record(struct trace *t, const char *name,
                  const struct driver_record *record, uint64_t now_us);

/* Merge, and close. All workers have ended. Waits as long as that moves, ten
 * minutes at most. */
void trace_close(struct trace *t, uint64_t now_us);

#endif
