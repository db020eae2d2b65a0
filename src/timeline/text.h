/* timeline/text.h - records of the timeline as trace events. Pure.
 *
 * Threads: any. Memory: the caller's. */
#ifndef TIMELINE_TEXT_H
#define TIMELINE_TEXT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "timeline/timeline.h"

/* The lanes of a process: its tids. Calls with a name have one each. */
enum timeline_lane {
    LANE_CALLS = 1,
    LANE_ELASTIC = 2,
    LANE_TIMELINE = 3, /* about itself: DROPPED */
    LANE_NAMES = 16    /* the first of them */
};

/* 128 bytes, and a copy into it is all that recording does. */
struct timeline_record {
    _Atomic uint64_t sequence; /* the ring's */
    uint64_t start_ns, end_ns;
    union {
        uint64_t count;
        uint64_t generation;
    };
    uint64_t nbytes;
    const char *algorithm;
    uint8_t phase;                /* enum timeline_phase */
    uint8_t kind, dtype, op;      /* kind 0: unknown */
    char text[TIMELINE_TEXT_MAX]; /* name or sentence; ends with NUL */
    int32_t rank, size;
};

/* Two events, each in one line, at most. */
enum { TIMELINE_EVENTS_MAX = 2048 };

/* Write the events of a record to out [TIMELINE_EVENTS_MAX], as tracefile_add()
 * wants them: two for QUEUE in LANE_CALLS, where they overlap, else one.
 * Returns their length. */
size_t timeline_text(const struct timeline_record *r,
                     const struct timeline_words *words, uint64_t pid,
                     unsigned lane, char *out);

/* What is so for a process: its name and those of its lanes. */
size_t timeline_text_process(uint64_t pid, const char *host, int slot,
                             uint64_t job, char *out);
size_t timeline_text_lane(uint64_t pid, unsigned lane, const char *name,
                          char *out);

/* Between start and end so many records were dropped. */
size_t timeline_text_dropped(uint64_t pid, uint64_t n, uint64_t start_ns,
                             uint64_t end_ns, char *out);

#endif
