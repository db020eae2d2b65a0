/* timeline/timeline.h - what this process did when, as a Chrome trace
 * (docs/timeline.md), if the job was started with --timeline.
 *
 *     uint64_t start_ns = timeline_call_clock();
 *     ... the work ...
 *     timeline_call(TIMELINE_OPERATION, start_ns, timeline_call_clock(),
 *                   &call);
 *
 * Off, which is the default, each of these is one relaxed load. On, a record is
 * a copy of 128 bytes into a ring that a thread of low priority empties every
 * 100 ms: no lock, no system call, no allocation. The ring bounds what the
 * timeline costs: at most TIMELINE_RECORDS_MAX records in 100 ms, whatever the
 * rate; calls beyond that are counted and shown as one span DROPPED, and while
 * it is full their clocks are not even read. A part of the ring is kept for
 * timeline_elastic(), so that a flood of calls drowns no change of membership.
 *
 * Threads: any for recording; open, close: app. timeline_forked() in the child.
 */
#ifndef TIMELINE_TIMELINE_H
#define TIMELINE_TIMELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <hvd/status.h>

enum { TIMELINE_RECORDS_MAX = 2048, TIMELINE_TEXT_MAX = 68 };

/* Of a call. In brackets how Horovod's timeline and ours name it. */
enum timeline_phase {
    TIMELINE_OPERATION,  /* the whole of it [ALLREDUCE, BROADCAST, ...] */
    TIMELINE_QUEUE,      /* posted, not begun [QUEUE] */
    TIMELINE_NEGOTIATE,  /* until all have arrived [NEGOTIATE_ALLREDUCE] */
    TIMELINE_MEMCPY_IN,  /* [MEMCPY_IN_FUSION_BUFFER] */
    TIMELINE_TRANSPORT,  /* bytes move and combine [`algorithm`] */
    TIMELINE_MEMCPY_OUT, /* [MEMCPY_OUT_FUSION_BUFFER] */
    /* of the process */
    TIMELINE_RENDEZVOUS,       /* READY to ASSIGN */
    TIMELINE_GENERATION_BEGIN, /* [GENERATION n]; lasts until its end */
    TIMELINE_GENERATION_END,
    TIMELINE_SYNC,
    TIMELINE_RESTORE,
    TIMELINE_COMMIT,
    TIMELINE_PEER_LOST,     /* a moment */
    TIMELINE_HOSTS_UPDATED, /* a moment */
    TIMELINE_PHASES
};

struct timeline_call {
    uint8_t kind;          /* 0: unknown; as timeline_words name it */
    uint8_t dtype, op;     /* likewise */
    uint64_t count;        /* as the public call's argument */
    uint64_t nbytes;       /* count x size of dtype */
    const char *name;      /* gives it a lane of its own; or NULL. Copied. */
    const char *algorithm; /* of static storage, or NULL */
};

/* 0, NULL: not shown. */
struct timeline_state {
    uint64_t generation;
    int rank, size; /* shown when size > 0 */
    uint64_t nbytes;
    const char *text; /* copied */
};

/* TIMELINE_FULL: there is no room for calls until the next 100 ms. */
enum timeline_mode { TIMELINE_OFF, TIMELINE_ON, TIMELINE_FULL };

extern _Atomic int timeline_mode;

static inline bool timeline_on(void)
{
    return __builtin_expect(
        atomic_load_explicit(&timeline_mode, memory_order_relaxed) !=
            TIMELINE_OFF,
        0);
}

uint64_t timeline_clock_now(void);
void timeline_call_record(enum timeline_phase phase, uint64_t start_ns,
                          uint64_t end_ns, const struct timeline_call *call);
void timeline_state_record(enum timeline_phase phase, uint64_t start_ns,
                           const struct timeline_state *state);

/* CLOCK_MONOTONIC in nanoseconds; 0: off. */
static inline uint64_t timeline_clock(void)
{
    return timeline_on() ? timeline_clock_now() : 0;
}

/* The same for calls; 0 also while the ring is full. */
static inline uint64_t timeline_call_clock(void)
{
    return __builtin_expect(
               atomic_load_explicit(&timeline_mode, memory_order_relaxed) ==
                   TIMELINE_ON,
               0)
               ? timeline_clock_now()
               : 0;
}

/* Record a phase of a call, one of the first six. Spans of one lane (calls
 * without a name share one) must nest, but for QUEUE. An end_ns or start_ns of
 * 0: it is dropped, and counted if the timeline is on. `call` may be NULL. */
static inline void timeline_call(enum timeline_phase phase, uint64_t start_ns,
                                 uint64_t end_ns,
                                 const struct timeline_call *call)
{
    if (timeline_on())
        timeline_call_record(phase, start_ns, end_ns, call);
}

/* Record one of the others, from start_ns until now; a moment, or the begin and
 * the end of a generation, is now. start_ns 0: it began before the timeline.
 * `state` may be NULL. */
static inline void timeline_elastic(enum timeline_phase phase,
                                    uint64_t start_ns,
                                    const struct timeline_state *state)
{
    if (timeline_on())
        timeline_state_record(phase, start_ns, state);
}

/* How the numbers of a call are called, by whoever knows. Static storage; NULL:
 * there is none, or it is not to be shown. kind > 0. */
struct timeline_words {
    const char *(*kind)(unsigned kind); /* "ALLREDUCE" */
    const char *(*dtype)(unsigned kind, unsigned dtype);
    const char *(*op)(unsigned kind, unsigned op);
};

struct timeline_config {
    const char *path; /* the job's; ours is timeline_path() of it */
    uint64_t job, worker;
    const char *host;
    int slot;
    const struct timeline_words *words; /* static */
};

/* Start recording and writing; config is borrowed until return. Waits for the
 * file for two seconds at most: it may lie on a disk that hangs, and a program
 * has to start. A disk that is full is waited for meanwhile (one warning, and
 * DROPPED). HVD_ERR_SYSTEM with the sentence: it stays off, as there is no such
 * directory, say. */
hvd_status_t timeline_open(const struct timeline_config *config) HVD_MUST_CHECK;

/* Write what is left, stop; five seconds at most, then one warning. Harmless
 * when it is off. Runs at exit(3) too. */
void timeline_close(void);

/* In a forked child: off, and the file is closed. Async-signal-safe. */
void timeline_forked(void);

#endif
