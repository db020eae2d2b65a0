/* sim.h - the simulator: the real pure cores of the driver and of many workers
 * under one virtual clock, with a seeded network, seeded faults, and invariants
 * that are checked after every event. It is the proof of the protocol.
 *
 * One run is a function of its options alone: the same options give the same
 * run, so a failing seed is run again to print its transcript.
 *
 * Threads: none. Memory: a run frees what it took. */
#ifndef TESTS_SIM_H
#define TESTS_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What must have happened at least once over many seeds: a zero is a failing
 * test. name, wanted in large runs too */
#define SIM_COVERAGE_TABLE(X)       \
    X(generations, true)            \
    X(ended_lost, true)             \
    X(ended_updated, true)          \
    X(succeeded, true)              \
    X(failed, false)                \
    X(deaths, true)                 \
    X(two_at_once, true)            \
    X(died_computing, true)         \
    X(died_in_collective, true)     \
    X(died_held, false)             \
    X(died_ready, false)            \
    X(died_assigned, false)         \
    X(died_done, false)             \
    X(died_before_ready, false)     \
    X(source_died_in_sync, false)   \
    X(receiver_died_in_sync, false) \
    X(agent_died, true)             \
    X(agent_silent, false)          \
    X(drained, true)                \
    X(blacklisted, false)           \
    X(expired, true)                \
    X(stopped, true)                \
    X(zombie_continued, false)      \
    X(wrong_accusation, false)      \
    X(drain_requested, false)       \
    X(user_failed, false)           \
    X(cut_never, false)             \
    X(spare, false)                 \
    X(joined_later, true)           \
    X(late_commit, false)           \
    X(partition, false)             \
    X(message_lost, true)           \
    X(message_duplicated, true)     \
    X(message_reordered, true)      \
    X(through_codec, true)

enum sim_counter {
#define SIM_COUNTER(name, large) COVER_##name,
    SIM_COVERAGE_TABLE(SIM_COUNTER)
#undef SIM_COUNTER
        N_COVER
};

extern const char *const sim_counter_names[N_COVER];
extern const bool sim_counter_in_large[N_COVER];

/* Rules that can be switched off on purpose, to show that the simulator sees
 * it. The name is what --bug takes. */
#define SIM_BUG_TABLE(X)                                              \
    X(none, "nothing is broken")                                      \
    X(cutmax, "CUT names the greatest boundary heard, not one more")  \
    X(heldlow, "HELD counts one boundary less than was passed")       \
    X(nofence, "a READY counts whatever its fence is")                \
    X(version, "a state id is a bare version without its generation") \
    X(noabort, "ABORT never arrives")                                 \
    X(norepeat, "a heartbeat repeats nothing")                        \
    X(latecommit, "a worker commits once more after its READY")       \
    X(liar, "a READY claims a commit that was never made")            \
    X(nosync, "who does not hold the base trains without a sync")     \
    X(earlydone, "DONE is sent one step before the end")              \
    X(deafhold, "some applications do not look at the hold word")

enum sim_bug {
#define SIM_BUG(name, text) BUG_##name,
    SIM_BUG_TABLE(SIM_BUG)
#undef SIM_BUG
        N_BUG
};

/* BUG_none: not known. */
enum sim_bug sim_bug_find(const char *name);
const char *sim_bug_name(enum sim_bug bug);

struct sim_options {
    uint64_t seed;
    bool large; /* 4,096 workers on 512 hosts */
    bool base;  /* 4 workers and no fault but the one named here */
    enum sim_bug bug;
    /* base: kill workers just before the event with this number; 0: nobody */
    uint64_t kill_event;
    uint64_t kill_worker, kill_worker_too; /* ids; 0: nobody */
    bool trace; /* keep the last lines of the transcript */
    bool print; /* ... and print all of it */
};

enum { SIM_TEXT_MAX = 512, SIM_LINES = 64, SIM_LINE_MAX = 200 };

struct sim_result {
    bool ok;
    char violation[SIM_TEXT_MAX]; /* the invariant, when not ok */
    char verdict[SIM_TEXT_MAX];   /* the job's sentence */
    int status;                   /* the job's exit status */
    uint64_t n_events, n_workers, end_us;
    uint64_t cover[N_COVER];
    char lines[SIM_LINES][SIM_LINE_MAX]; /* a ring */
    uint64_t n_lines;
};

void sim_run(const struct sim_options *options, struct sim_result *result);

#endif
