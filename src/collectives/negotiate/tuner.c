/* collectives/negotiate/tuner.c - see tuner.h. Pure. */
#include "collectives/negotiate/tuner.h"

#include <string.h>

enum {
    STEPS_MIN = 2,       /* of a window */
    LOST_US = 120000000, /* an anchor that has not come back */
    ANCHORS_LOST_MAX = 3,
    RIVAL_TIMES = 8, /* that another call is decided while it is awaited */
    RIVAL_US = 10000000,
    WINS = 5,
    LOSSES = TUNER_PAIRS + 1 - WINS,
    SLOW_MAX = 2, /* a pause of the program looks as slow, once */
    PASSES = 2,
    DEBT_SHARE = 25,
    RESERVE_TURNS = 2
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
    t->settled = t->is_last = false;
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

static void begin_turn(struct tuner *t, bool trying)
{
    t->trying = trying;
    t->in_window = false;
    t->turn_us = t->clock_us;
    if (!trying)
        return;
    t->on_trial = true;
    t->trial_us = t->clock_us;
    t->trial_nbytes = 0;
}

/* What it took longer than it would have with the best. */
static void end_trial(struct tuner *t)
{
    double lost_us = (double)(t->clock_us - t->trial_us) -
                     t->best_rate * (double)t->trial_nbytes;

    if (t->on_trial && lost_us > 0)
        t->debt_us += lost_us;
    t->on_trial = false;
}

static bool can_pay(const struct tuner *t)
{
    return t->debt_us + RESERVE_TURNS * (double)t->best_turn_us <=
           (double)t->clock_us / DEBT_SHARE;
}

static void end_turn(struct tuner *t)
{
    double us = (double)(t->clock_us - t->window_us);

    if (!t->trying) {
        t->best_rate = us / (double)t->window_nbytes;
        t->best_turn_us = t->clock_us - t->turn_us;
        begin_turn(t, can_pay(t));
        return;
    }
    t->rate = us / (double)t->window_nbytes;
    t->gains[t->n_pairs++] = t->best_rate / t->rate;
    begin_turn(t, false);
    judge(t);
}

static bool is_slow(const struct tuner *t)
{
    return t->trying && t->clock_us - t->turn_us >= 2 * t->best_turn_us;
}

static void give_up_turn(struct tuner *t)
{
    begin_turn(t, false);
    if (++t->n_slow == SLOW_MAX)
        end_contest(t, false);
}

/* --- steps --- */

static void drop_anchor(struct tuner *t, const struct name_id *name)
{
    t->anchor = *name;
    t->anchored = true;
    t->rivalled = false;
    t->anchor_us = t->clock_us;
    begin_turn(t, false);
}

static void begin_window(struct tuner *t)
{
    if (!t->trying)
        end_trial(t);
    t->in_window = true;
    t->n_steps = 0;
    t->window_us = t->clock_us;
    t->window_nbytes = 0;
}

static void begin_step(struct tuner *t)
{
    t->anchor_us = t->clock_us;
    t->rivalled = false;
    t->n_anchors_lost = 0;
    if (is_slow(t))
        give_up_turn(t);
    else if (!t->in_window)
        begin_window(t);
    else if (++t->n_steps >= STEPS_MIN &&
             t->clock_us - t->window_us >= t->window_min_us)
        end_turn(t);
}

/* Another call, which may be the better anchor. */
static void watch_rival(struct tuner *t, const struct name_id *name)
{
    if (!t->rivalled || t->clock_us - t->rival_us > RIVAL_US) {
        t->rivalled = true;
        t->rival = *name;
        t->rival_us = t->clock_us;
        t->n_rival = 0;
    } else if (name_id_equal(&t->rival, name) && ++t->n_rival == RIVAL_TIMES) {
        drop_anchor(t, name);
    }
}

static void be_between(struct tuner *t, const struct name_id *name)
{
    if (is_slow(t)) {
        give_up_turn(t);
    } else if (t->clock_us - t->anchor_us > LOST_US) {
        t->settled = ++t->n_anchors_lost == ANCHORS_LOST_MAX;
        drop_anchor(t, name);
    } else {
        watch_rival(t, name);
    }
}

/* --- time --- */

static void advance(struct tuner *t, uint64_t now_us)
{
    uint64_t us = t->last_us > 0 ? now_us - t->last_us : 0;
    uint64_t max_us = 2 * t->best_turn_us;

    t->clock_us += max_us > 0 && us > max_us ? max_us : us;
    t->last_us = now_us;
}

void tuner_decided(struct tuner *t, uint64_t now_us, const struct name_id *name,
                   uint64_t nbytes)
{
    if (t->settled)
        return;
    advance(t, now_us);
    if (!t->anchored)
        drop_anchor(t, name);
    else if (name_id_equal(&t->anchor, name))
        begin_step(t);
    else
        be_between(t, name);
    t->trial_nbytes += nbytes + 1; /* a barrier counts, too */
    t->window_nbytes += nbytes + 1;
}

void tuner_pause(struct tuner *t)
{
    end_trial(t);
    t->anchored = t->trying = t->in_window = false;
    t->last_us = 0;
}

void tuner_resume(struct tuner *t, const uint8_t *n_values, bool differs)
{
    tuner_pause(t);
    differs |= memcmp(t->n_values, n_values, sizeof(t->n_values)) != 0;
    memcpy(t->n_values, n_values, sizeof(t->n_values));
    if (differs)
        search(t, t->best);
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
