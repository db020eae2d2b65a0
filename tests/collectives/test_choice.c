/* tests/collectives/test_choice.c - the choice of ways on machines whose
 * costs are made up: which it takes, when it has noticed, and what trying
 * costs. */
#include <stdint.h>
#include <string.h>

#include "collectives/local/choice.h"
#include "support.h"

/* Calls until a time is told: what ranks of a host need to see each other's. */
enum { LATE = 3 };

enum { ROUND = CHOICE_WAYS * CHOICE_TRIES };
enum { FIRST_CALLS = CHOICE_ROUNDS * ROUND };

struct machine {
    struct choice choice;
    uint64_t cost[CHOICE_WAYS];
    unsigned n_calls, n_of[CHOICE_WAYS], n_timed;
    int last; /* way */
    struct {
        int way, sample; /* sample < 0: none */
        uint64_t ns;
    } late[LATE]; /* times that are not told yet, by call */
};

static void call(struct machine *m)
{
    unsigned k = m->n_calls % LATE;
    int sample, way;

    if (m->n_calls >= LATE && m->late[k].sample >= 0)
        choice_time(&m->choice, m->late[k].way, m->late[k].sample,
                    m->late[k].ns);
    way = choice_next(&m->choice, CHOICE_WAYS, &sample);
    ck_assert_int_ge(way, 0);
    ck_assert_int_lt(way, CHOICE_WAYS);
    if (sample >= 0) {
        ck_assert_int_lt(sample, CHOICE_SAMPLES);
        ck_assert_int_eq(way, m->last);
        m->n_timed++;
    }
    m->late[k].way = way;
    m->late[k].sample = sample;
    m->late[k].ns = m->cost[way];
    m->last = way;
    m->n_calls++;
    m->n_of[way]++;
}

static void calls(struct machine *m, unsigned n)
{
    while (n-- > 0)
        call(m);
}

/* Neither beside a round nor in one: the way of most of many calls. */
static int usual_way(struct machine *m)
{
    struct machine later = *m;
    int usual = 0;

    memset(later.n_of, 0, sizeof(later.n_of));
    calls(&later, CHOICE_REST);
    for (int way = 1; way < CHOICE_WAYS; way++)
        if (later.n_of[way] > later.n_of[usual])
            usual = way;
    return usual;
}

START_TEST(first_calls_find_the_faster_way)
{
    struct machine m = {.cost = {1000, 1000, 1000}};

    m.cost[_i] = 900;
    calls(&m, FIRST_CALLS);
    for (int way = 0; way < CHOICE_WAYS; way++)
        ck_assert_uint_eq(m.n_of[way], FIRST_CALLS / CHOICE_WAYS);
    ck_assert_uint_eq(m.n_timed, FIRST_CALLS / CHOICE_TRIES);
    ck_assert_int_eq(usual_way(&m), _i);
}
END_TEST

/* Everything the faster way has shown so far was disturbed. */
START_TEST(bad_start_is_made_up_for)
{
    struct machine m = {.cost = {1000, 1000, 1000}};
    unsigned n = 0;

    m.cost[_i] = 5000;
    calls(&m, FIRST_CALLS);
    ck_assert_int_ne(usual_way(&m), _i);
    m.cost[_i] = 600;
    for (; usual_way(&m) != _i; n++)
        call(&m);
    ck_assert_uint_le(n, CHOICE_REST + ROUND);
}
END_TEST

/* What was once measured does not stand for ever. */
START_TEST(change_of_the_machine_is_noticed)
{
    struct machine m = {.cost = {700, 1000, 1100}};
    unsigned n = 0;

    calls(&m, 20 * CHOICE_REST_MAX);
    ck_assert_int_eq(usual_way(&m), 0);
    m.cost[0] = 1500;
    for (; usual_way(&m) != 1; n++)
        call(&m);
    ck_assert_uint_le(n, (CHOICE_SAMPLES + 1) * (CHOICE_REST_MAX + ROUND));
}
END_TEST

START_TEST(trying_costs_little_in_the_long_run)
{
    struct machine m = {.cost = {1000, 2000, 2000}};

    calls(&m, 100 * CHOICE_REST_MAX);
    ck_assert_uint_lt(m.n_of[1], m.n_calls / 200);
    ck_assert_uint_gt(m.n_of[1], m.n_calls / 400);
}
END_TEST

/* A call that failed has no time. */
START_TEST(calls_without_a_time_decide_nothing)
{
    struct machine m = {.cost = {1000, 700, 900}};
    int sample;

    for (unsigned n = 0; n < FIRST_CALLS; n++)
        (void)choice_next(&m.choice, CHOICE_WAYS, &sample);
    ck_assert_int_eq(choice_best(&m.choice, CHOICE_WAYS), 0);
    calls(&m, 3 * CHOICE_REST_MAX);
    ck_assert_int_eq(usual_way(&m), 1);
}
END_TEST

/* A way is fast where both have it, whatever each believed in between. */
START_TEST(ranks_try_the_same_way_together)
{
    struct choice ranks[2] = {{0}, {0}};
    int way[2] = {0, 0};

    for (unsigned n = 0; n < 20 * CHOICE_REST_MAX; n++) {
        int sample[2];

        for (int i = 0; i < 2; i++)
            way[i] = choice_next(&ranks[i], CHOICE_WAYS, &sample[i]);
        ck_assert_int_eq(sample[0], sample[1]);
        if (sample[0] < 0)
            continue;
        ck_assert_int_eq(way[0], way[1]);
        for (int i = 0; i < 2; i++) /* at first each believes another one */
            choice_time(&ranks[i], way[i], sample[i],
                        n < FIRST_CALLS ? (way[i] == i ? 500 : 900)
                                        : (way[i] == 1 ? 400 : 800));
    }
    ck_assert_int_eq(way[0], way[1]);
    ck_assert_int_eq(choice_best(&ranks[0], CHOICE_WAYS), 1);
    ck_assert_int_eq(choice_best(&ranks[1], CHOICE_WAYS), 1);
}
END_TEST

/* What a kind of buffer does not have is neither tried nor taken. */
START_TEST(some_have_fewer_ways)
{
    struct choice c = {0};
    int sample;

    for (unsigned n = 0; n < 4 * CHOICE_REST_MAX; n++) {
        int way = choice_next(&c, CHOICE_WAYS - 1, &sample);

        ck_assert_int_lt(way, CHOICE_WAYS - 1);
        if (sample >= 0)
            choice_time(&c, way, sample, 500);
    }
    choice_time(&c, CHOICE_WAYS - 1, 0, 100);
    ck_assert_int_eq(choice_best(&c, CHOICE_WAYS - 1), 0);
    ck_assert_int_eq(choice_best(&c, CHOICE_WAYS), CHOICE_WAYS - 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("choice");
    TCase *tc = tcase_create("choice");

    tcase_add_loop_test(tc, first_calls_find_the_faster_way, 0, CHOICE_WAYS);
    tcase_add_loop_test(tc, bad_start_is_made_up_for, 0, CHOICE_WAYS);
    tcase_add_test(tc, change_of_the_machine_is_noticed);
    tcase_add_test(tc, trying_costs_little_in_the_long_run);
    tcase_add_test(tc, calls_without_a_time_decide_nothing);
    tcase_add_test(tc, ranks_try_the_same_way_together);
    tcase_add_test(tc, some_have_fewer_ways);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
