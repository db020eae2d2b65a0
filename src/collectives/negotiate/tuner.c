/* collectives/negotiate/tuner.c - see tuner.h. Pure. */
#include "collectives/negotiate/tuner.h"

#include <string.h>

enum {
    STEPS_MIN = 2,       /* of a window */
    LOST_US = 120000000, /* an anchor that has not come back */
    ANCHORS_LOST_MAX = 3,
    WINS = 5,
    LOSSES = TUNER_PAIRS + 1 - WINS,
    SLOW_MAX = 2, /* a pause of the program looks as slow, once */
    PASSES = 2,
    DEBT_SHARE = 25
};

static const double margin = 1.02, hopeless = 0.8;

static bool is_equal(struct tuner_setting a, struct tuner_setting b)
{
    return memcmp(&a, &b, sizeof(a)) == 0;
}

/* --- which one is tried --- */

static void begin_pass(struct tuner *t)
{
    t->parameter = 0;
    t->value = -1;
    t->any_won = false;
}

static void begin_contest(struct tuner *t, struct tuner_setting candidate)
{
    t->candidate = candidate;
    t->n_pairs = t->n_slow = 0;
}

/* The next value of a parameter that the best does not have; false: all had
 * their turn. */
static bool next_value(struct tuner *t)
{
    do {
        t->value++;
        if (t->value >= t->n_values[t->parameter]) {
            t->value = 0;
            t->parameter++;
        }
    } while (t->parameter < TUNER_PARAMETERS &&
             (t->value >= t->n_values[t->parameter] ||
              t->value == t->best.values[t->parameter]));
    return t->parameter < TUNER_PARAMETERS;
}

/* The best against the default, unless it is that. */
static void begin_last(struct tuner *t)
{
    const struct tuner_setting none = {{0}};

    t->settled = t->is_last || is_equal(t->best, none);
    t->is_last = true;
    begin_contest(t, none);
}

static void next_contest(struct tuner *t)
{
    struct tuner_setting candidate = t->best;

    while (!t->is_last) {
        if (next_value(t)) {
            candidate.values[t->parameter] = (uint8_t)t->value;
            begin_contest(t, candidate);
            return;
        }
        if (!t->any_won || ++t->pass == PASSES)
            break;
        begin_pass(t);
    }
    begin_last(t);
}

/* From there on, with everything still to be tried. */
static void search(struct tuner *t, struct tuner_setting best)
{
    t->best = best;
    t->is_last = false;
    t->pass = 0;
    begin_pass(t);
    next_contest(t);
}

void tuner_init(struct tuner *t, const uint8_t *n_values, uint64_t window_us)
{
    const struct tuner_setting none = {{0}};

    memset(t, 0, sizeof(*t));
    memcpy(t->n_values, n_values, sizeof(t->n_values));
    t->window_min_us = window_us;
    search(t, none);
}

void tuner_resume(struct tuner *t, const uint8_t *n_values)
{
    memcpy(t->n_values, n_values, sizeof(t->n_values));
    t->anchored = t->trying = t->in_window = false;
}

void tuner_follow(struct tuner *t, struct tuner_setting best, bool settled)
{
    if (!is_equal(t->best, best))
        search(t, best);
    t->settled = settled;
}

/* --- who has won --- */

static double median(const double *values, int n)
{
    double sorted[TUNER_PAIRS];

    for (int i = 0; i < n; i++) {
        int at = i;

        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return n == 0 ? 0 : (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

static void end_contest(struct tuner *t, bool won)
{
    double gain = median(t->gains, t->n_pairs);

    won = won && gain >= (t->is_last ? 1 : margin);
    t->contest = (struct tuner_contest){
        .setting = t->candidate,
        .n_pairs = t->n_pairs,
        .gain = gain,
        .gbytes = t->n_pairs > 0 ? 1e-3 / t->rate : 0,
        .won = won,
    };
    t->has_contest = true;
    if (won) {
        t->best = t->candidate;
        t->any_won = true;
    }
    next_contest(t);
}

static void judge(struct tuner *t)
{
    int won = 0;

    for (int i = 0; i < t->n_pairs; i++)
        won += t->gains[i] >= 1;
    if (t->gains[t->n_pairs - 1] < hopeless || t->n_pairs - won == LOSSES)
        end_contest(t, false);
    else if (won == WINS)
        end_contest(t, true);
}

/* --- turns --- */

static void begin_turn(struct tuner *t, uint64_t now_us, bool trying)
{
    t->trying = trying;
    t->in_window = false;
    t->turn_us = now_us;
    t->turn_nbytes = 0;
}

/* What the turn took longer than it would have with the best. */
static void charge(struct tuner *t, uint64_t now_us)
{
    double lost_us = (double)(now_us - t->turn_us) -
                     t->best_rate * (double)t->turn_nbytes;

    if (lost_us > 0)
        t->debt_us += lost_us;
}

static bool can_pay(const struct tuner *t, uint64_t now_us)
{
    return t->debt_us + (double)t->best_turn_us <=
           (double)(now_us - t->began_us) / DEBT_SHARE;
}

static void end_turn(struct tuner *t, uint64_t now_us)
{
    double rate = (double)(now_us - t->window_us) / (double)t->window_nbytes;

    if (!t->trying) {
        t->best_rate = rate;
        t->best_turn_us = now_us - t->turn_us;
        begin_turn(t, now_us, can_pay(t, now_us));
        return;
    }
    charge(t, now_us);
    t->rate = rate;
    t->gains[t->n_pairs++] = t->best_rate / rate;
    begin_turn(t, now_us, false);
    judge(t);
}

static void give_up_turn(struct tuner *t, uint64_t now_us)
{
    charge(t, now_us);
    begin_turn(t, now_us, false);
    if (++t->n_slow == SLOW_MAX)
        end_contest(t, false);
}

/* --- steps --- */

static void anchor(struct tuner *t, uint64_t now_us, const struct name_id *name)
{
    t->anchor = *name;
    t->anchored = true;
    t->anchor_us = now_us;
    begin_turn(t, now_us, false);
}

static void begin_window(struct tuner *t, uint64_t now_us)
{
    t->in_window = true;
    t->n_steps = 0;
    t->window_us = now_us;
    t->window_nbytes = 0;
}

static void begin_step(struct tuner *t, uint64_t now_us)
{
    t->anchor_us = now_us;
    t->n_anchors_lost = 0;
    if (!t->in_window)
        begin_window(t, now_us);
    else if (++t->n_steps >= STEPS_MIN &&
             now_us - t->window_us >= t->window_min_us)
        end_turn(t, now_us);
}

static void lose_anchor(struct tuner *t, uint64_t now_us,
                        const struct name_id *name)
{
    t->settled = ++t->n_anchors_lost == ANCHORS_LOST_MAX;
    anchor(t, now_us, name);
}

void tuner_decided(struct tuner *t, uint64_t now_us, const struct name_id *name,
                   uint64_t nbytes)
{
    if (t->settled)
        return;
    if (t->began_us == 0)
        t->began_us = now_us;
    if (!t->anchored)
        anchor(t, now_us, name);
    else if (t->trying && now_us - t->turn_us > 2 * t->best_turn_us)
        give_up_turn(t, now_us);
    else if (name_id_equal(&t->anchor, name))
        begin_step(t, now_us);
    else if (now_us - t->anchor_us > LOST_US)
        lose_anchor(t, now_us, name);
    t->turn_nbytes += nbytes + 1; /* a barrier counts, too */
    t->window_nbytes += nbytes + 1;
}

/* --- answers --- */

struct tuner_setting tuner_setting(const struct tuner *t)
{
    return t->trying && !t->settled ? t->candidate : t->best;
}

bool tuner_contest(struct tuner *t, struct tuner_contest *contest_p)
{
    bool has = t->has_contest;

    t->has_contest = false;
    *contest_p = t->contest;
    return has;
}
