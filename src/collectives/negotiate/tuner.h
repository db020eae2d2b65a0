/* collectives/negotiate/tuner.h - which settings make a job fastest, found out
 * while it trains.
 *
 * A setting is a value for each of some parameters; 0 is the default. Whoever
 * decides, one rank for all, lets one change after the other compete with the
 * best setting so far, in windows of whole steps that take turns:
 *
 *   best | candidate | best | candidate | ...   up to six pairs
 *
 * It has won with five of them and a median gain of 2 %; two that it loses, or
 * one by a fifth, are its end. All values of all parameters have their turn,
 * and once more if one has won; in the end the best competes with the default,
 * which need only be as fast. So it settles: behind at most 2 n + 1 contests,
 * n the number of values that are not the default.
 *
 * What it costs is bounded. What candidates took longer than the best would
 * have is a debt, and none begins unless the debt and one turn of the best's
 * are together at most a 25th of the time since the first call. A candidate's
 * turn ends when it has taken twice as long as the best's. So at no time more
 * than a 25th has been lost, but for what a round or two take.
 *
 * Steps are found by their calls: one, the anchor, begins a step whenever it is
 * decided. What has begun before a change of settings belongs to no window. An
 * anchor that does not come back is replaced; three such, and nothing repeats
 * that could be compared: settled.
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
    /* the turn of what is in force */
    struct name_id anchor;
    bool anchored, in_window;
    int n_steps, n_anchors_lost;
    uint64_t anchor_us, turn_us, turn_nbytes, window_us, window_nbytes;
    /* the best's last one: microseconds per byte, and all of it */
    double best_rate;
    uint64_t best_turn_us;
    double debt_us;
    uint64_t began_us; /* 0: no call has been decided */
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

/* Another generation: what was being measured is void. Its values, as in
 * tuner_init(). */
void tuner_resume(struct tuner *t, const uint8_t *n_values);

/* To be in force from the next round on. */
struct tuner_setting tuner_setting(const struct tuner *t);

/* A contest has ended since the last call of this. */
bool tuner_contest(struct tuner *t, struct tuner_contest *contest_p);

#endif
