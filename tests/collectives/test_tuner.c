/* tests/collectives/test_tuner.c - settings are found out while a job trains:
 * jobs that are models, with a time for each setting, noise, pauses, changes of
 * membership. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "collectives/negotiate/tuner.h"
#include "support.h"

enum { CALLS = 20, CALL_NBYTES = 1 << 20 };

static const uint64_t settles_us = 600000000;
static const uint8_t n_values[TUNER_PARAMETERS] = {6, 4, 3};

/* A step of `step_us` with the default, in rounds; each value's factor. */
struct job {
    double step_us;
    int n_rounds; /* of a step: a divisor of CALLS */
    double factors[TUNER_PARAMETERS][6];
    double noise;    /* a step is up to so much slower */
    int every;       /* steps: there is something besides; 0: never */
    double pause_us; /* ... nothing is called for so long */
    bool has_metric; /* ... a call of another name, and ahead of all */
    bool new_names;  /* in each step */
    unsigned seed;
    /* what has come of it; without pauses */
    uint64_t now_us;
    double spent_us, wanted_us; /* all; with the default */
    double worst;               /* share that was lost, at any time */
    uint64_t n_steps;
};

static double drawn(struct job *j)
{
    return (double)rand_r(&j->seed) / RAND_MAX;
}

static double factor(const struct job *j, struct tuner_setting s)
{
    double f = 1;

    for (int p = 0; p < TUNER_PARAMETERS; p++)
        f *= j->factors[p][s.values[p]] > 0 ? j->factors[p][s.values[p]] : 1;
    return f;
}

/* What is told with a round governs the calls that it decides. */
static void play_round(struct job *j, struct tuner *t, int round, double slower)
{
    struct tuner_setting told = tuner_setting(t);
    double us = j->step_us / j->n_rounds * slower;
    int n = CALLS / j->n_rounds;

    for (int i = 0; i < n; i++) {
        struct name_id id = {(uint64_t)(round * n + i),
                             j->new_names ? j->n_steps : 0};

        tuner_decided(t, j->now_us, &id, CALL_NBYTES);
    }
    j->now_us += (uint64_t)(us * factor(j, told));
    j->spent_us += us * factor(j, told);
    j->wanted_us += us;
}

static void play_besides(struct job *j, struct tuner *t)
{
    const struct name_id metric = {1000, 1000};

    if (j->every == 0 || j->n_steps % (uint64_t)j->every != 0)
        return;
    j->now_us += (uint64_t)j->pause_us;
    if (j->has_metric)
        tuner_decided(t, j->now_us, &metric, 8);
}

static void play_step(struct job *j, struct tuner *t)
{
    double slower = 1 + j->noise * drawn(j);
    double lost;

    play_besides(j, t);
    for (int r = 0; r < j->n_rounds; r++)
        play_round(j, t, r, slower);
    j->n_steps++;
    lost = j->spent_us / j->wanted_us - 1;
    j->worst = lost > j->worst ? lost : j->worst;
}

static void play_until_settled(struct job *j, struct tuner *t)
{
    while (!t->settled) {
        play_step(j, t);
        ck_assert_msg(j->spent_us < (double)settles_us,
                      "seed %u: %" PRIu64 " steps", j->seed, j->n_steps);
    }
}

static struct job job_of(double step_us)
{
    return (struct job){
        .step_us = step_us, .n_rounds = 4, .seed = 1, .now_us = 1};
}

START_TEST(best_of_all_is_found)
{
    struct job j = job_of(_i == 0 ? 9000 : 300000);
    struct tuner t;

    j.factors[0][3] = 0.8;
    j.factors[0][1] = 0.95;
    j.factors[1][2] = 0.9;
    j.factors[2][1] = 3; /* far worse */
    tuner_init(&t, n_values, TUNER_WINDOW_US);
    play_until_settled(&j, &t);
    ck_assert_int_eq(t.best.values[0], 3);
    ck_assert_int_eq(t.best.values[1], 2);
    ck_assert_int_eq(t.best.values[2], 0);
    ck_assert_double_lt(j.worst, 0.05);
}
END_TEST

START_TEST(default_stays_where_nothing_is_better)
{
    struct job j = job_of(20000);
    struct tuner_contest c;
    struct tuner t;

    for (int v = 1; v < 6; v++)
        j.factors[0][v] = 1 + 0.3 * v;
    j.factors[1][1] = 0.99; /* not enough */
    tuner_init(&t, n_values, TUNER_WINDOW_US);
    play_until_settled(&j, &t);
    ck_assert(!t.trying);
    for (int p = 0; p < TUNER_PARAMETERS; p++)
        ck_assert_int_eq(tuner_setting(&t).values[p], 0);
    ck_assert(tuner_contest(&t, &c) && !c.won);
    ck_assert(!tuner_contest(&t, &c));
    ck_assert_double_lt(j.worst, 0.05);
}
END_TEST

/* Each seed another job; noise of a tenth, as on machines that are shared. */
START_TEST(noisy_job_is_never_much_worse)
{
    int n_better = 0;

    for (unsigned seed = 1; seed <= 1000; seed++) {
        struct job j = job_of(2000 + (seed % 50) * 5000);
        struct tuner t;

        j.seed = seed;
        j.noise = 0.1;
        j.n_rounds = seed % 2 == 0 ? 4 : 1;
        j.every = seed % 3 == 0 ? 50 : 0;
        j.pause_us = 1e6;
        for (int p = 0; p < TUNER_PARAMETERS; p++)
            for (int v = 1; v < n_values[p]; v++)
                j.factors[p][v] = 0.85 + 1.5 * pow(drawn(&j), 3);
        tuner_init(&t, n_values, TUNER_WINDOW_US);
        play_until_settled(&j, &t);
        ck_assert_msg(j.worst < 0.05, "seed %u: lost %.3f", seed, j.worst);
        ck_assert_msg(factor(&j, t.best) < 1.05, "seed %u: factor %.3f", seed,
                      factor(&j, t.best));
        n_better += factor(&j, t.best) < 0.9;
    }
    ck_assert_int_gt(n_better, 900);
}
END_TEST

START_TEST(names_that_never_repeat_settle)
{
    struct job j = job_of(100000);
    struct tuner t;

    j.new_names = true;
    tuner_init(&t, n_values, TUNER_WINDOW_US);
    play_until_settled(&j, &t);
    for (int p = 0; p < TUNER_PARAMETERS; p++)
        ck_assert_int_eq(t.best.values[p], 0);
}
END_TEST

/* All candidates are far worse: each costs what it takes to see that. */
START_TEST(terrible_candidates_cost_little)
{
    struct job j = job_of(20000);
    struct tuner t;

    j.n_rounds = _i % 2 == 0 ? 1 : 4;
    for (int p = 0; p < TUNER_PARAMETERS; p++)
        for (int v = 1; v < 6; v++)
            j.factors[p][v] = _i < 2 ? 1.9 : 4;
    tuner_init(&t, n_values, TUNER_WINDOW_US);
    play_until_settled(&j, &t);
    ck_assert_double_lt(j.worst, _i < 2 ? 0.05 : 0.08);
    ck_assert_double_lt(j.spent_us / j.wanted_us, 1.05);
    ck_assert_int_eq(t.best.values[0], 0);
}
END_TEST

/* A minute of something else, now and then. */
START_TEST(pauses_of_the_program_cost_nothing)
{
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct job j = job_of(100000);
        struct tuner t;

        j.seed = seed;
        j.noise = 0.02;
        j.every = 100;
        j.pause_us = 6e7;
        j.factors[0][2] = 0.8;
        tuner_init(&t, n_values, TUNER_WINDOW_US);
        play_until_settled(&j, &t);
        ck_assert_uint_lt(j.n_steps, 1500);
        ck_assert_int_eq(t.best.values[0], 2);
    }
}
END_TEST

/* The first name ever, which comes again every 500 steps. */
START_TEST(rare_name_is_no_anchor)
{
    struct job j = job_of(100000);
    struct tuner t;

    j.every = 500;
    j.has_metric = true;
    j.factors[0][2] = 0.8;
    tuner_init(&t, n_values, TUNER_WINDOW_US);
    play_until_settled(&j, &t);
    ck_assert_uint_lt(j.n_steps, 1000);
    ck_assert_int_eq(t.best.values[0], 2);
}
END_TEST

/* From a host to several: what was best is not, and there is more to try. */
START_TEST(another_world_is_searched_anew)
{
    const uint8_t on_a_host[TUNER_PARAMETERS] = {6, 4, 1};
    struct job j = job_of(20000);
    struct tuner t;

    j.factors[0][5] = 0.8;
    tuner_init(&t, on_a_host, TUNER_WINDOW_US);
    play_until_settled(&j, &t);
    ck_assert_int_eq(t.best.values[0], 5);
    tuner_resume(&t, on_a_host, false);
    ck_assert(t.settled);
    j.factors[0][5] = 2;
    j.factors[2][1] = 0.6;
    tuner_resume(&t, n_values, false);
    play_until_settled(&j, &t);
    ck_assert_int_ne(t.best.values[0], 5);
    ck_assert_int_eq(t.best.values[2], 1);
    tuner_resume(&t, n_values, true);
    ck_assert(!t.settled);
    ck_assert_int_eq(tuner_setting(&t).values[2], 1);
}
END_TEST

START_TEST(pause_puts_the_best_in_force)
{
    struct job j = job_of(20000);
    struct tuner t;

    tuner_init(&t, n_values, TUNER_WINDOW_US);
    while (!t.trying)
        play_step(&j, &t);
    tuner_pause(&t);
    ck_assert_int_eq(tuner_setting(&t).values[0], 0);
    j.now_us += 3600000000;
    play_until_settled(&j, &t);
    ck_assert_double_lt(t.debt_us, 1e6);
}
END_TEST

START_TEST(nothing_to_try_is_settled_at_once)
{
    const uint8_t one[TUNER_PARAMETERS] = {1, 1, 1};
    struct tuner t;

    tuner_init(&t, one, TUNER_WINDOW_US);
    ck_assert(t.settled);
}
END_TEST

/* Generations end at random; sometimes another rank decides from then on, which
 * has heard what was told. */
START_TEST(changes_of_membership_are_survived)
{
    for (unsigned seed = 1; seed <= 200; seed++) {
        struct job j = job_of(10000);
        struct tuner tuners[2], *t = &tuners[0], *other = &tuners[1];

        j.seed = seed;
        j.noise = 0.05;
        j.factors[0][2] = 0.7;
        tuner_init(t, n_values, TUNER_WINDOW_US);
        tuner_init(other, n_values, TUNER_WINDOW_US);
        while (!t->settled) {
            for (int n = rand_r(&j.seed) % 300; n > 0; n--) {
                play_step(&j, t);
                tuner_follow(other, t->best, t->settled);
            }
            if (rand_r(&j.seed) % 8 == 0) {
                struct tuner *next = other;

                other = t;
                t = next;
            }
            tuner_resume(t, n_values, false);
            ck_assert_uint_lt(j.now_us, settles_us);
        }
        ck_assert_int_eq(t->best.values[0], 2);
        ck_assert(!t->trying);
        ck_assert_double_lt(j.worst, 0.05);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tuner");
    TCase *tc = tcase_create("all");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, best_of_all_is_found, 0, 2);
    tcase_add_test(tc, default_stays_where_nothing_is_better);
    tcase_add_test(tc, noisy_job_is_never_much_worse);
    tcase_add_test(tc, names_that_never_repeat_settle);
    tcase_add_loop_test(tc, terrible_candidates_cost_little, 0, 4);
    tcase_add_test(tc, pauses_of_the_program_cost_nothing);
    tcase_add_test(tc, rare_name_is_no_anchor);
    tcase_add_test(tc, another_world_is_searched_anew);
    tcase_add_test(tc, pause_puts_the_best_in_force);
    tcase_add_test(tc, nothing_to_try_is_settled_at_once);
    tcase_add_test(tc, changes_of_membership_are_survived);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
