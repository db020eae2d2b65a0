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
 * test. All of them over small worlds; and where else. */
enum { SIM_IN_LARGE = 1, SIM_IN_EXHAUSTIVE = 2 };

/* name, where */
#define SIM_COVERAGE_TABLE(X)                               \
    X(generations, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)        \
    X(ended_lost, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)         \
    X(recovered, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)          \
    X(ended_updated, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)      \
    X(succeeded, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)          \
    X(failed, 0)                                            \
    X(deaths, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)             \
    X(two_at_once, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)        \
    X(died_computing, SIM_IN_EXHAUSTIVE)                    \
    X(died_in_collective, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE) \
    X(died_held, SIM_IN_EXHAUSTIVE)                         \
    X(died_ready, SIM_IN_EXHAUSTIVE)                        \
    X(died_assigned, SIM_IN_EXHAUSTIVE)                     \
    X(died_done, SIM_IN_EXHAUSTIVE)                         \
    X(died_before_ready, SIM_IN_EXHAUSTIVE)                 \
    X(source_died_in_sync, SIM_IN_EXHAUSTIVE)               \
    X(receiver_died_in_sync, SIM_IN_EXHAUSTIVE)             \
    X(agent_died, SIM_IN_LARGE)                             \
    X(agent_silent, 0)                                      \
    X(drained, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)            \
    X(blacklisted, 0)                                       \
    X(slot_closed, 0)                                       \
    X(booted, 0)                                            \
    X(barren, 0)                                            \
    X(slot_bad, 0)                                          \
    X(start_failed, 0)                                      \
    X(expired, SIM_IN_LARGE)                                \
    X(stopped, SIM_IN_LARGE)                                \
    X(zombie_continued, 0)                                  \
    X(wrong_accusation, 0)                                  \
    X(drain_requested, 0)                                   \
    X(noticed, 0)                                           \
    X(left_in_time, 0)                                      \
    X(host_went, 0)                                         \
    X(told_twice, 0)                                        \
    X(computed_long, 0)                                     \
    X(user_failed, 0)                                       \
    X(gave_up, 0)                                           \
    X(cut_never, SIM_IN_EXHAUSTIVE)                         \
    X(spare, 0)                                             \
    X(joined_later, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)       \
    X(late_commit, 0)                                       \
    X(ignored_loss, 0)                                      \
    X(ignored_cut, 0)                                       \
    X(change_unknown, 0)                                    \
    X(damaged_sync, 0)                                      \
    X(interrupted, 0)                                       \
    X(layout_differs, 0)                                    \
    X(abilities_differ, 0)                                  \
    X(settings_differ, 0)                                   \
    X(cannot_enter, 0)                                      \
    X(size_differs, 0)                                      \
    X(hung_epilogue, 0)                                     \
    X(stood_still, 0)                                       \
    X(unkillable, 0)                                        \
    X(exited_late, 0)                                       \
    X(died_unheld, 0)                                       \
    X(join_storm, 0)                                        \
    X(left_behind, 0)                                       \
    X(driver_stalled, 0)                                    \
    X(driver_slow, 0)                                       \
    X(driver_died, SIM_IN_EXHAUSTIVE)                       \
    X(went_on, SIM_IN_EXHAUSTIVE)                           \
    X(had_ended, SIM_IN_EXHAUSTIVE)                         \
    X(driver_given_up, 0)                                   \
    X(agent_stopped, 0)                                     \
    X(agent_unsent, 0)                                      \
    X(spawn_failed, 0)                                      \
    X(host_paused, 0)                                       \
    X(all_paused, 0)                                        \
    X(clock_stepped, 0)                                     \
    X(partition, 0)                                         \
    X(partition_one_way, 0)                                 \
    X(driver_cut, 0)                                        \
    X(all_cut, 0)                                           \
    X(connections_died, 0)                                  \
    X(silence_withheld, 0)                                  \
    X(message_lost, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)       \
    X(message_duplicated, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE) \
    X(message_reordered, SIM_IN_LARGE | SIM_IN_EXHAUSTIVE)  \
    X(through_codec, SIM_IN_LARGE)

enum sim_counter {
#define SIM_COUNTER(name, where) COVER_##name,
    SIM_COVERAGE_TABLE(SIM_COUNTER)
#undef SIM_COUNTER
        N_COVER
};

extern const char *const sim_counter_names[N_COVER];
extern const unsigned sim_counter_where[N_COVER];

/* Rules that can be switched off on purpose, to show that the simulator sees
 * it. The name is what --bug takes. */
#define SIM_BUG_TABLE(X)                                                    \
    X(none, "nothing is broken")                                            \
    X(cutmax, "CUT names the greatest boundary heard, not one more")        \
    X(heldlow, "HELD counts one boundary less than was passed")             \
    X(nofence, "a READY counts whatever its fence is")                      \
    X(version, "a state id is a bare version without its generation")       \
    X(noabort, "ABORT never arrives")                                       \
    X(norepeat, "a heartbeat repeats nothing")                              \
    X(latecommit, "a worker commits once more after its READY")             \
    X(heedless,                                                             \
      "what a program computes where it should have returned is committed") \
    X(liar, "a READY claims a commit that was never made")                  \
    X(nosync, "who does not hold the base trains without a sync")           \
    X(earlydone, "DONE is sent one step before the end")                    \
    X(anylayout, "every state layout looks the same to the driver")         \
    X(boast, "a READY claims abilities that its worker lacks")              \
    X(forgetful, "a worker tells its own settings, not those it has taken") \
    X(deafhold, "some applications do not look at the hold word")           \
    X(hearsay, "an accusation counts without evidence")                     \
    X(slotagain, "a slot is used again while its worker lives")             \
    X(mute, "an agent does not tell that a worker was killed")              \
    X(unheld, "an agent tells of a death when the memory is freed only")    \
    X(orphan, "an agent does not see that the driver has ended")            \
    X(deafear, "the heartbeats of every third worker do not count")         \
    X(hasty, "--elastic-timeout is over in a hundredth of its time")        \
    X(patient, "--heartbeat-timeout is over after ten times its time")      \
    X(lonely, "each silence is judged alone, however many are silent")      \
    X(credulous, "a worker that has called is taken to hold the state")

enum sim_bug {
#define SIM_BUG(name, text) BUG_##name,
    SIM_BUG_TABLE(SIM_BUG)
#undef SIM_BUG
        N_BUG
};

/* BUG_none: not known. */
enum sim_bug sim_bug_find(const char *name);
const char *sim_bug_name(enum sim_bug bug);
const char *sim_bug_text(enum sim_bug bug); /* which rule is broken */

/* What may be done to the one message that is event `meddle_event`. */
enum sim_meddle { MEDDLE_NOT, MEDDLE_DROP, MEDDLE_DOUBLE, MEDDLE_DELAY };

/* What goes wrong by chance, beside the faults that are planned. */
enum sim_mishap {
    MISHAP_LOST, /* of messages: */
    MISHAP_DOUBLED,
    MISHAP_LATE,
    MISHAP_DAMAGED,  /* a state that arrives */
    MISHAP_HEEDLESS, /* a program ignores a status */
    MISHAP_NO_ENTRY, /* a newcomer cannot enter */
    MISHAP_SIZES,    /* a newcomer's entry has another size */
    MISHAP_EPILOGUE, /* a program does not end when its run is over */
    MISHAP_NO_START, /* of an agent, a worker; or it cannot send */
    MISHAP_LONG,     /* a step, or loading the program */
    MISHAP_DISABLED, /* a process may not share memory */
    MISHAP_LARGE,    /* the memory of a dead process is freed late */
    MISHAP_UNHELD,   /* ... and nothing tells of its death before */
    MISHAP_DEAF,     /* SIGTERM does not end a process */
    MISHAP_MOVED,    /* a worker or an agent talks by another connection */
    MISHAP_GIVES_UP, /* a program dies of itself, and says so */
    N_MISHAPS
};

/* What is left out of the world that a seed makes, or comes later: so that less
 * happens in a run that fails (shrink.h). */
enum { SIM_FAULTS_MAX = 64 };
struct sim_less {
    uint64_t faults;  /* bit i: the i-th fault that is planned */
    uint64_t mishaps; /* bit: enum sim_mishap */
    /* of the messages that are to be late, lost or doubled, these are: */
    uint64_t first_message, last_message;
    uint32_t put_off_ms[SIM_FAULTS_MAX];
};
#define SIM_LESS_NOTHING ((struct sim_less){.last_message = UINT64_MAX})

struct sim_options {
    uint64_t seed;
    bool large; /* 4,096 workers on 512 hosts */
    bool base;  /* 4 workers and no fault but the one named here */
    enum sim_bug bug;
    struct sim_less less;
    /* base: kill workers just before the event with this number; 0: nobody */
    uint64_t kill_event;
    uint64_t kill_worker, kill_worker_too; /* ids; 0: nobody */
    /* base: the driver dies just before this event, the last entries that it
     * has written down are lost, and another takes over in succeed_us; 0: it
     * lives */
    uint64_t succeed_event, succeed_lost, succeed_us;
    enum sim_meddle meddle;
    uint64_t meddle_event, meddle_us; /* us: how long MEDDLE_DELAY is */
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
    uint64_t n_faults;   /* what went wrong: planned, and by chance */
    uint64_t n_messages; /* that were to be late, lost or doubled */
    uint64_t cover[N_COVER];
    char lines[SIM_LINES][SIM_LINE_MAX]; /* a ring */
    uint64_t n_lines;
};

void sim_run(const struct sim_options *options, struct sim_result *result);

#endif
