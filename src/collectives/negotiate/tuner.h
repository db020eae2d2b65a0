/* collectives/negotiate/tuner.h - which settings make a job fastest, found out
 * while it trains.
 *
 * A setting is a value for each of some parameters; 0 is the default. Whoever
 * decides, one rank for all, lets one change after the other compete with the
 * best setting so far, in turns of whole steps:
 *
 *   best | candidate | best | candidate | ...   up to six pairs
 *
 * It has won with five of them and a median gain of 2 %; two that it loses, or
 * one by a fifth, are its end. All values of all parameters have their turn,
 * and once more if one has won; in the end the best competes with the default,
 * which need only be as fast. So it settles: behind at most 2 (n + parameters)
 * + 1 contests, n the number of values that are not the default.
 *
 * What it costs is bounded. What the job took longer than it would have with
 * the best, from when a candidate comes into force until the best is measured
 * again, is a debt; none begins unless the debt and two turns of the best's are
 * together at most a 25th of the time since the first call. A candidate's turn
 * ends when it has taken twice as long as the best's. What is under way then
 * comes on top: a step, of a candidate so slow.
 *
 * Time between two decisions counts up to two turns of the best's: what is
 * longer is the program's own pause. It may cost a candidate its contest, and
 * no more.
 *
 * Steps are found by their calls: one, the anchor, begins a step whenever it is
 * decided. What has begun before a change of settings belongs to no window. An
 * anchor that does not come back, or much less often than another call, is
 * replaced; three that do not, and nothing repeats that could be compared:
 * settled.
 *
 * Pure. Threads: one at a time. Memory: the caller's. */
#ifndef COLLECTIVES_NEGOTIATE_TUNER_H
#define COLLECTIVES_NEGOTIATE_TUNER_H

#include <stdbool.h>
#include <stdint.h>

#include "collectives/negotiate/signature.h"

enum { TUNER_PARAMETERS = 3, TUNER_PAIRS = 6, TUNER_WINDOW_US = 30000 };

struct tuner_setting {
    uint8_t values[TUNER_PARAMETERS];
};

/* What came of one contest. */
struct tuner_contest {
    struct tuner_setting setting; /* that of the candidate */
    int n_pairs;
    double gain;   /* the median, so far: 1.02 is 2 % more bytes in a time */
    double gbytes; /* a second, of the candidate; 0: it was too slow twice */
    bool won;
};

struct tuner {
    uint8_t n_values[TUNER_PARAMETERS];
    uint64_t window_min_us;
    struct tuner_setting best, candidate;
    bool settled, trying; /* the candidate is in force */
    /* which one it is */
    int parameter, value, pass; /* tried last */
    bool any_won, is_last;
    /* its contest */
    double gains[TUNER_PAIRS], rate;
    int n_pairs, n_slow;
    struct tuner_contest contest;
    bool has_contest;
    /* the time that counts, and the last decision; 0: none since a pause */
    uint64_t clock_us, last_us;
    /* the turn of what is in force */
    struct name_id anchor, rival;
    bool anchored, rivalled, in_window;
    int n_steps, n_anchors_lost, n_rival;
    uint64_t anchor_us, rival_us, turn_us, window_us, window_nbytes;
    /* a candidate's, up to where the best is measured again */
    bool on_trial;
    uint64_t trial_us, trial_nbytes;
    double debt_us;
    /* the best's last turn: microseconds per byte, and all of it */
    double best_rate;
    uint64_t best_turn_us;
};

/* n_values: at least 1 each; those with 1 have nothing to try. window_us: how
 * long one lasts at least. */
void tuner_init(struct tuner *t, const uint8_t *n_values, uint64_t window_us);

/* As whoever decides has told it: this rank goes on from there when its turn
 * comes to decide. */
void tuner_follow(struct tuner *t, struct tuner_setting best, bool settled);

/* A call was decided, in the order of decisions. now_us never goes back, and is
 * the same for those of one round. */
void tuner_decided(struct tuner *t, uint64_t now_us, const struct name_id *name,
                   uint64_t nbytes);

/* The turn under way is void, and the best in force. */
void tuner_pause(struct tuner *t);

/* Another generation: likewise. In one that is another (`differs`), or has
 * other values, everything is tried anew, from the best on. */
void tuner_resume(struct tuner *t, const uint8_t *n_values, bool differs);

/* To be in force from the next round on. */
struct tuner_setting tuner_setting(const struct tuner *t);

/* A contest has ended since the last call of this. */
bool tuner_contest(struct tuner *t, struct tuner_contest *contest_p);

#endif
