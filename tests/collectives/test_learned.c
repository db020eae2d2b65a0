/* tests/collectives/test_learned.c - which orders are followed, and until when.
 */
#include <string.h>

#include "collectives/negotiate/learned.h"
#include "support.h"

enum { PLACES = 8 };

static void open_learned(struct learned *l)
{
    learned_init(l);
    ck_assert(learned_reserve(l, PLACES));
}

/* Rounds, as "012 34": what each has decided. */
static void decide(struct learned *l, const char *rounds)
{
    int places[PLACES];
    size_t n = 0;

    for (;; rounds++) {
        if (*rounds >= '0' && *rounds <= '9') {
            places[n++] = *rounds - '0';
            continue;
        }
        learned_decided(l, places, n);
        n = 0;
        if (*rounds == '\0')
            return;
    }
}

/* The stretch that is next, likewise; "" while none is followed. */
static const char *next_of(const struct learned *l)
{
    static char text[PLACES + 1];
    const struct learned_call *calls;
    size_t n = 0, n_ahead, k;

    if (learned_follows(l)) {
        calls = learned_ahead(l, &n_ahead);
        for (; n < l->n_stretch; n++) {
            text[n] = (char)('0' + calls[n].place);
            ck_assert(learned_find(l, calls[n].place, &k) && k == n);
        }
    }
    text[n] = '\0';
    return text;
}

static void expect_next(struct learned *l, const char *stretches)
{
    while (*stretches != '\0') {
        size_t n = strcspn(stretches, " ");
        const char *next = next_of(l);

        ck_assert_msg(strlen(next) == n && strncmp(next, stretches, n) == 0,
                      "'%s' is next, and not '%.*s'", next, (int)n, stretches);
        learned_ran(l, n);
        stretches += n + (stretches[n] == ' ');
    }
}

/* What was decided, and what is next then. */
static const struct {
    const char *rounds, *next;
} orders[] = {
    {"012 012", ""},
    {"012 012 012", "012 012 012"},
    {"0 0 0", "0 0"},
    {"01 2 01 2 01 2", "01 2 01 2"},
    /* of the last three, the one with a middling number of stretches */
    {"012 01 2 0 1 2", "01 2 01 2"},
    {"0 1 2 0 12 012", "0 12 0 12"},
    {"012 012 0 1 2", "012 012"},
    /* some names first, and then others */
    {"01 2 12 0 2 10", "12 0 12 0"},
    {"0 12 20 1 120", "20 1 20 1"},
    /* a round with the end of a step and the beginning of the next one */
    {"01 2 01 20 1 2", "01 2 01 2"},
    {"01 2 01 2 01 20 1 2", "01 2 01 2"},
    {"01 20 12 01 20 12", "01 2 01 2"},
    /* what comes once */
    {"3 012 012 012 012", "012 012"},
    {"012 012 3 012 012", ""},
    {"012 012 3 012 012 012", ""},
    {"012 012 3 012 012 012 012", "012 012"},
    {"01 01 02 01 02 01 02", ""},
    /* a name twice in a step */
    {"0102 0102 0102 0102 0102 0102", ""},
    {"01 02 01 02 01 02 01 02", ""},
    /* rounds that decide nothing */
    {"01  01  01", "01 01"},
};

START_TEST(an_order_is_followed_once_it_has_been_seen_often_enough)
{
    struct learned l;

    open_learned(&l);
    decide(&l, orders[_i].rounds);
    if (orders[_i].next[0] == '\0')
        ck_assert_str_eq(next_of(&l), "");
    expect_next(&l, orders[_i].next);
    learned_fini(&l);
}
END_TEST

START_TEST(what_is_no_part_of_it_is_known)
{
    struct learned l;
    size_t k;

    open_learned(&l);
    decide(&l, "4 01 2 01 2 01 2 01 2");
    ck_assert(learned_find(&l, 0, &k) && k == 0);
    ck_assert(learned_find(&l, 2, &k) && k == 2);
    learned_ran(&l, 1);
    ck_assert(learned_find(&l, 2, &k) && k == 1);
    ck_assert(learned_find(&l, 0, &k) && k > PLACES);
    ck_assert(!learned_find(&l, 4, &k));
    ck_assert(!learned_find(&l, 5, &k));
    learned_fini(&l);
}
END_TEST

static size_t cycles_until_followed(struct learned *l)
{
    size_t n = 0;

    for (; !learned_follows(l); n++)
        decide(l, "01");
    return n;
}

START_TEST(each_deviation_doubles_what_is_needed_until_it_goes_well)
{
    size_t needed = LEARNED_CYCLES;
    struct learned l;

    open_learned(&l);
    for (int k = 0; k < 12; k++) {
        ck_assert_uint_eq(cycles_until_followed(&l), needed);
        learned_deviated(&l);
        needed = 2 * needed < LEARNED_CYCLES_MAX ? 2 * needed
                                                 : LEARNED_CYCLES_MAX;
    }
    ck_assert_uint_eq(cycles_until_followed(&l), LEARNED_CYCLES_MAX);
    for (int k = 0; k < LEARNED_FOLLOWED; k++)
        expect_next(&l, "01");
    ck_assert_uint_eq(cycles_until_followed(&l), LEARNED_CYCLES);
    learned_deviated(&l);
    ck_assert_uint_eq(cycles_until_followed(&l), 2 * LEARNED_CYCLES);
    for (int k = 0; k < LEARNED_FOLLOWED; k++)
        expect_next(&l, "01");
    learned_deviated(&l); /* it had suited for long */
    ck_assert_uint_eq(cycles_until_followed(&l), LEARNED_CYCLES);
    learned_fini(&l);
}
END_TEST

START_TEST(parts_of_a_stretch_run_and_several_at_once)
{
    struct learned l;
    size_t n;

    open_learned(&l);
    decide(&l, "0 12 34 0 12 34 0 12 34");
    (void)learned_ahead(&l, &n);
    ck_assert_uint_eq(n, 5);
    learned_ran(&l, 2);
    ck_assert_str_eq(next_of(&l), "2");
    learned_ran(&l, 2);
    ck_assert_str_eq(next_of(&l), "4");
    (void)learned_ahead(&l, &n);
    ck_assert_uint_eq(n, 1);
    expect_next(&l, "4 0 12 34 0");
    learned_ran(&l, 4);
    learned_ran(&l, 5);
    ck_assert_uint_eq(l.n_followed, 4);
    learned_fini(&l);
}
END_TEST

/* What was seen at another time need not suit any more, and that of the first
 * steps least of all. */
START_TEST(now_and_then_it_is_learned_anew)
{
    size_t n = LEARNED_FOLLOWED;
    struct learned l;

    open_learned(&l);
    for (int k = 0; k < 10; k++) {
        decide(&l, k % 2 == 0 ? "01 2 01 2 01 2" : "0 12 0 12 0 12");
        for (size_t i = 0; i < n; i++)
            expect_next(&l, k % 2 == 0 ? "01 2" : "0 12");
        ck_assert(!learned_follows(&l));
        n = 2 * n < LEARNED_FOLLOWED_MAX ? 2 * n : LEARNED_FOLLOWED_MAX;
    }
    learned_fini(&l);
}
END_TEST

START_TEST(what_is_void_is_forgotten)
{
    struct learned l;

    open_learned(&l);
    decide(&l, "01 01");
    learned_forget(&l);
    ck_assert_uint_eq(cycles_until_followed(&l), LEARNED_CYCLES);
    learned_fini(&l);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("learned");
    TCase *tc = tcase_create("learned");

    tcase_add_loop_test(tc,
                        an_order_is_followed_once_it_has_been_seen_often_enough,
                        0, sizeof(orders) / sizeof(orders[0]));
    tcase_add_test(tc, what_is_no_part_of_it_is_known);
    tcase_add_test(tc,
                   each_deviation_doubles_what_is_needed_until_it_goes_well);
    tcase_add_test(tc, parts_of_a_stretch_run_and_several_at_once);
    tcase_add_test(tc, now_and_then_it_is_learned_anew);
    tcase_add_test(tc, what_is_void_is_forgotten);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
