/* tests/collectives/test_negotiator.c - names get places, rounds decide, ranks
 * differ, drain, lose places. */
#include <stdlib.h>
#include <string.h>

#include "names.h"

enum { RANKS_MAX = 4, BYTES_MAX = 4096 };

struct table {
    int size;
    struct negotiator *ranks[RANKS_MAX];
};

static void open_table(struct table *t, int size, size_t capacity)
{
    t->size = size;
    for (int i = 0; i < size; i++) {
        t->ranks[i] = negotiator_create(i, size, capacity);
        ck_assert_ptr_nonnull(t->ranks[i]);
    }
}

static void close_table(struct table *t)
{
    for (int i = 0; i < t->size; i++)
        negotiator_destroy(t->ranks[i]);
}

static void post(struct table *t, int rank, int name, uint64_t count)
{
    struct name_id id = name_of(name);
    struct signature s = sum_of(count);

    ck_assert(negotiator_post(t->ranks[rank], &id, &s,
                              (void *)(uintptr_t)(name + 1)));
}

static void post_all(struct table *t, int name, uint64_t count)
{
    for (int i = 0; i < t->size; i++)
        post(t, i, name, count);
}

static void exchange(struct table *t)
{
    size_t nbytes = negotiator_exchange_nbytes(t->ranks[0]);
    uint8_t *all = calloc((size_t)t->size, nbytes);

    for (int i = 0; i < t->size; i++) {
        ck_assert_uint_eq(negotiator_exchange_nbytes(t->ranks[i]), nbytes);
        negotiator_exchange_begin(t->ranks[i], all + (size_t)i * nbytes);
    }
    for (int i = 0; i < t->size; i++)
        ck_assert(negotiator_exchange_end(t->ranks[i], all));
    free(all);
}

/* true: an exchange was part of it. */
static bool play_round(struct table *t)
{
    size_t nbytes = negotiator_round_nbytes(t->ranks[0]);
    uint8_t least[BYTES_MAX], own[BYTES_MAX];
    bool exchanges;

    ck_assert_uint_le(nbytes, BYTES_MAX);
    memset(least, 0xff, sizeof(least));
    for (int i = 0; i < t->size; i++) {
        ck_assert_uint_eq(negotiator_round_nbytes(t->ranks[i]), nbytes);
        negotiator_round_begin(t->ranks[i], own);
        for (size_t k = 0; k < nbytes; k++)
            least[k] = own[k] < least[k] ? own[k] : least[k];
    }
    for (int i = 0; i < t->size; i++)
        negotiator_round_end(t->ranks[i], least);
    exchanges = negotiator_exchange_nbytes(t->ranks[0]) > 0;
    if (exchanges)
        exchange(t);
    return exchanges;
}

/* The next decision, the same on all: which name; -1: none. */
static int decided(struct table *t, struct negotiated *next_p)
{
    struct negotiated next;
    int name = -1;

    for (int i = 0; i < t->size; i++) {
        bool any = negotiator_next(t->ranks[i], &next);
        int mine = any ? (int)(uintptr_t)next.call - 1 : -1;

        if (i == 0)
            name = mine;
        ck_assert_int_eq(mine, name);
        if (any)
            *next_p = next;
    }
    return name;
}

START_TEST(a_new_name_takes_an_exchange_and_a_known_one_does_not)
{
    struct negotiated next;
    struct table t;

    open_table(&t, 3, 8);
    for (int i = 0; i < 3; i++) {
        post_all(&t, 5, 100);
        ck_assert(negotiator_has_news(t.ranks[0]));
        ck_assert_int_eq(play_round(&t), i == 0);
        if (i == 0) {
            ck_assert_int_eq(decided(&t, &next), -1);
            ck_assert(negotiator_has_news(t.ranks[0]));
            ck_assert(!play_round(&t));
        }
        ck_assert_int_eq(decided(&t, &next), 5);
        ck_assert(!next.disputed);
        ck_assert_uint_eq(next.signature.count, 100);
        ck_assert_int_eq(decided(&t, &next), -1);
        ck_assert_uint_eq(negotiator_n_posted(t.ranks[2]), 0);
        ck_assert(!negotiator_has_news(t.ranks[2]));
    }
    close_table(&t);
}
END_TEST

START_TEST(what_one_rank_lacks_is_not_decided_and_is_no_news_twice)
{
    struct negotiated next;
    struct table t;

    open_table(&t, 2, 8);
    post_all(&t, 1, 10);
    post(&t, 0, 2, 20);
    (void)play_round(&t);
    ck_assert(!play_round(&t));
    ck_assert_int_eq(decided(&t, &next), 1);
    ck_assert_int_eq(decided(&t, &next), -1);
    ck_assert(!negotiator_has_news(t.ranks[0]));
    ck_assert_uint_eq(negotiator_n_posted(t.ranks[0]), 1);
    post(&t, 1, 2, 20);
    ck_assert(negotiator_has_news(t.ranks[1]));
    ck_assert(!negotiator_has_news(t.ranks[0]));
    ck_assert(!play_round(&t));
    ck_assert_int_eq(decided(&t, &next), 2);
    close_table(&t);
}
END_TEST

START_TEST(places_stand_in_the_order_of_rank_0)
{
    static const int orders[2][3] = {{7, 3, 5}, {5, 7, 3}};
    struct negotiated next;
    struct table t;

    open_table(&t, 2, 8);
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < 3; i++)
            post(&t, rank, orders[rank][i], 1);
    (void)play_round(&t);
    (void)play_round(&t);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(decided(&t, &next), orders[0][i]);
    close_table(&t);
}
END_TEST

START_TEST(ranks_that_differ_fail_alike_and_the_name_serves_again)
{
    struct negotiated next;
    struct table t;

    open_table(&t, 3, 8);
    for (int k = 0; k < 2; k++) {
        post(&t, 0, 4, 100);
        post(&t, 1, 4, 100);
        (void)play_round(&t);
        ck_assert_int_eq(decided(&t, &next), -1);
        post(&t, 2, 4, 101);
        ck_assert(play_round(&t));
        ck_assert_int_eq(decided(&t, &next), 4);
        ck_assert(next.disputed);
        ck_assert_int_eq(next.other_rank, 2);
        ck_assert_uint_eq(next.signature.count, 100);
        ck_assert_uint_eq(next.other.count, 101);
    }
    post_all(&t, 4, 100);
    (void)play_round(&t);
    ck_assert_int_eq(decided(&t, &next), 4);
    ck_assert(!next.disputed);
    close_table(&t);
}
END_TEST

START_TEST(all_ranks_may_change_what_a_name_means)
{
    struct negotiated next;
    struct table t;

    open_table(&t, 3, 8);
    post_all(&t, 4, 100);
    (void)play_round(&t);
    (void)play_round(&t);
    ck_assert_int_eq(decided(&t, &next), 4);
    for (int k = 0; k < 2; k++) {
        post_all(&t, 4, 50);
        ck_assert_int_eq(play_round(&t), k == 0);
        ck_assert_int_eq(decided(&t, &next), 4);
        ck_assert(!next.disputed);
        ck_assert_uint_eq(next.signature.count, 50);
    }
    close_table(&t);
}
END_TEST

/* Each field of a signature counts. */
START_TEST(records_keep_every_field)
{
    const struct negotiate_record record = {
        {0x0123456789abcdef, 0xfedcba9876543210},
        {3, 6, 2, 4, -5, 0x89abcdef, 1ull << 40, 0.25, -3.5, 1ull << 50}};
    struct negotiate_record back;
    uint8_t bytes[NEGOTIATE_RECORD_NBYTES];

    negotiate_record_encode(&record, bytes);
    negotiate_record_decode(bytes, &back);
    ck_assert(name_id_equal(&record.name, &back.name));
    ck_assert(signature_equal(&record.signature, &back.signature));
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] ^= 1;
        negotiate_record_decode(bytes, &back);
        ck_assert_msg(name_id_equal(&record.name, &back.name) == (i >= 16) ||
                          (i >= 28 && i < 32),
                      "byte %zu", i);
        ck_assert_msg(signature_equal(&record.signature, &back.signature) ==
                          (i < 16 || (i >= 28 && i < 32)),
                      "byte %zu", i);
        bytes[i] ^= 1;
    }
}
END_TEST

/* More names than places, round and round. */
START_TEST(the_place_used_longest_ago_is_given_away)
{
    struct negotiated next;
    struct table t;

    open_table(&t, 2, 4);
    for (int k = 0; k < 40; k++) {
        int name = k % 7;

        post_all(&t, name, 8);
        ck_assert(play_round(&t));
        ck_assert(!play_round(&t));
        ck_assert_int_eq(decided(&t, &next), name);
    }
    for (int k = 36; k < 40; k++) { /* the last four are known */
        post_all(&t, k % 7, 8);
        ck_assert(!play_round(&t));
        ck_assert_int_eq(decided(&t, &next), k % 7);
    }
    close_table(&t);
}
END_TEST

/* A call at a place that is given away is told of again. */
START_TEST(a_call_survives_the_loss_of_its_place)
{
    struct negotiated next;
    struct table t;

    open_table(&t, 2, 1);
    post_all(&t, 1, 8);
    (void)play_round(&t);
    (void)play_round(&t);
    ck_assert_int_eq(decided(&t, &next), 1);
    post(&t, 0, 1, 8); /* rank 0 alone, at its place */
    post_all(&t, 2, 8);
    (void)play_round(&t); /* 2 gets that place */
    ck_assert(negotiator_has_news(t.ranks[0]));
    (void)play_round(&t);
    ck_assert_int_eq(decided(&t, &next), 2);
    post(&t, 1, 1, 8);
    for (int k = 0; k < 2 && decided(&t, &next) != 1; k++)
        (void)play_round(&t);
    ck_assert_uint_eq(negotiator_n_posted(t.ranks[0]), 0);
    close_table(&t);
}
END_TEST

/* Each waits for what another has not posted. */
START_TEST(ranks_that_all_drain_over_different_names_are_stuck)
{
    struct negotiated next;
    struct table t;

    open_table(&t, 2, 8);
    post(&t, 0, 1, 8);
    post(&t, 1, 2, 8);
    (void)play_round(&t);
    (void)play_round(&t);
    ck_assert(!negotiator_is_stuck(t.ranks[0]));
    negotiator_drain(t.ranks[0]);
    ck_assert(negotiator_has_news(t.ranks[0]));
    (void)play_round(&t);
    ck_assert(!negotiator_is_stuck(t.ranks[0]));
    ck_assert(!negotiator_has_news(t.ranks[0]));
    negotiator_drain(t.ranks[1]);
    (void)play_round(&t);
    ck_assert(negotiator_is_stuck(t.ranks[0]));
    ck_assert(negotiator_is_stuck(t.ranks[1]));
    ck_assert_int_eq(decided(&t, &next), -1);
    close_table(&t);
}
END_TEST

/* What all have is decided, whoever drains. */
START_TEST(a_drain_is_no_trouble_where_all_have_posted)
{
    struct negotiated next;
    struct table t;

    open_table(&t, 3, 8);
    for (int i = 0; i < 3; i++)
        negotiator_drain(t.ranks[i]);
    ck_assert(!negotiator_has_news(t.ranks[0]));
    post_all(&t, 1, 8);
    (void)play_round(&t);
    ck_assert(!negotiator_is_stuck(t.ranks[0]));
    (void)play_round(&t);
    ck_assert(!negotiator_is_stuck(t.ranks[0]));
    ck_assert_int_eq(decided(&t, &next), 1);
    close_table(&t);
}
END_TEST

/* From the third step on two ranks need no round, and one never asked anybody.
 */
/* Ranks 0 and 1 join with a call of their own each, rank 2 with none. */
START_TEST(ranks_that_join_stand_in_for_each_others_own_calls)
{
    struct negotiated next;
    int last, found = 0;
    struct table t;

    open_table(&t, 3, 8);
    post(&t, 0, 4, 100);
    post(&t, 1, 5, 200);
    negotiator_join(t.ranks[0]);
    negotiator_join(t.ranks[1]);
    ck_assert(play_round(&t)); /* the names get places */
    ck_assert(!play_round(&t));
    ck_assert_uint_eq(negotiator_n_joined(t.ranks[2]), 2);
    ck_assert(!negotiator_next(t.ranks[0], &next));
    negotiator_join(t.ranks[2]);
    ck_assert(negotiator_has_news(t.ranks[2]));
    ck_assert(play_round(&t)); /* records tell which rank has posted what */
    while (negotiator_next(t.ranks[2], &next)) {
        ck_assert(next.call == NULL && !next.disputed && next.n_data == 1);
        ck_assert_uint_eq(next.signature.count, found++ == 0 ? 100 : 200);
    }
    ck_assert_int_eq(found, 2);
    for (int i = 0; i < 2; i++) {
        ck_assert(negotiator_next(t.ranks[i], &next));
        ck_assert((next.call != NULL) == (i == 0) && next.n_data == 1);
        ck_assert(negotiator_next(t.ranks[i], &next));
        ck_assert((next.call != NULL) == (i == 1) && next.n_data == 1);
        ck_assert(!negotiator_all_joined(t.ranks[i], &last));
        ck_assert(negotiator_has_news(t.ranks[i]));
    }
    ck_assert(!play_round(&t));
    for (int i = 0; i < 3; i++) {
        ck_assert(negotiator_all_joined(t.ranks[i], &last) && last == 1);
        ck_assert(!negotiator_next(t.ranks[i], &next));
        ck_assert(!negotiator_has_news(t.ranks[i]));
    }
    close_table(&t);
}
END_TEST

START_TEST(alone_no_order_is_followed)
{
    struct negotiated next;
    struct table t;

    for (int size = 1; size <= 2; size++) {
        open_table(&t, size, 8);
        for (int i = 0; i < size; i++)
            negotiator_learn(t.ranks[i], true);
        for (int k = 0; k < 3; k++) {
            ck_assert(!negotiator_follows(t.ranks[0]));
            post_all(&t, 1, 8);
            while (play_round(&t))
                continue;
            ck_assert_int_eq(decided(&t, &next), 1);
        }
        ck_assert_int_eq(negotiator_follows(t.ranks[0]), size == 2);
        close_table(&t);
    }
}
END_TEST

static void expect_look(const struct table *t, enum negotiator_look look)
{
    ck_assert_int_eq(negotiator_look(t->ranks[0]), look);
}

static void run_step(struct table *t, int first, int last)
{
    struct negotiated next;

    for (int name = first; name <= last; name++)
        post_all(t, name, 8);
    while (play_round(t))
        continue;
    for (int name = first; name <= last; name++)
        ck_assert_int_eq(decided(t, &next), name);
}

/* Names 1 and 2, then 3. */
static void open_followed(struct table *t)
{
    open_table(t, 2, 8);
    run_step(t, 1, 3); /* they are known */
    for (int i = 0; i < 2; i++)
        negotiator_learn(t->ranks[i], true);
    for (int k = 0; k < 3; k++) {
        run_step(t, 1, 2);
        run_step(t, 3, 3);
    }
    ck_assert(negotiator_follows(t->ranks[0]));
}

START_TEST(what_this_rank_has_of_what_is_next_is_known)
{
    struct table t;

    open_followed(&t);
    ck_assert_uint_eq(negotiator_n_asked(t.ranks[0]), 3);
    ck_assert_uint_eq(negotiator_n_stretch(t.ranks[0]), 2);
    expect_look(&t, LOOK_LACKS);
    post(&t, 0, 2, 8);
    expect_look(&t, LOOK_LACKS);
    ck_assert(!negotiator_has_stretch(t.ranks[0]));
    post(&t, 0, 3, 8);
    expect_look(&t, LOOK_OVERTAKEN);
    post(&t, 0, 1, 8);
    expect_look(&t, LOOK_READY);
    ck_assert(negotiator_has_stretch(t.ranks[0]));
    close_table(&t);
}
END_TEST

/* More names than a question is about. */
START_TEST(a_long_order_takes_several_questions)
{
    enum { MANY = NEGOTIATOR_ASKED_MAX + 76 };
    struct negotiated next;
    struct table t;
    size_t n;

    open_table(&t, 2, 2 * MANY);
    for (int k = 0; k < 5; k++) {
        if (k == 2)
            for (int i = 0; i < 2; i++)
                negotiator_learn(t.ranks[i], true);
        for (int name = 0; name < MANY; name++)
            post_all(&t, name, 8);
        while (negotiator_n_posted(t.ranks[0]) > 0) {
            (void)play_round(&t);
            while (decided(&t, &next) >= 0)
                continue;
        }
    }
    for (int name = 0; name < MANY; name++)
        post_all(&t, name, 8);
    for (int k = 0; k < 2; k++) {
        n = negotiator_n_asked(t.ranks[0]);
        ck_assert_uint_eq(n, k == 0 ? NEGOTIATOR_ASKED_MAX : 76);
        ck_assert_uint_eq(negotiator_n_stretch(t.ranks[0]), n);
        ck_assert(negotiator_has_stretch(t.ranks[0]));
        for (int i = 0; i < 2; i++)
            negotiator_answered(t.ranks[i], n);
        while (n-- > 0)
            ck_assert_int_ge(decided(&t, &next), 0);
        ck_assert_int_eq(decided(&t, &next), -1);
    }
    ck_assert(!negotiator_has_news(t.ranks[0]));
    close_table(&t);
}
END_TEST

/* At once, whatever else is posted. */
START_TEST(what_is_no_part_of_the_order_deviates)
{
    struct table t;

    for (int way = 0; way < 4; way++) {
        open_followed(&t);
        post(&t, 0, 1, 8);
        if (way == 0)
            post(&t, 0, 9, 8);
        else if (way == 1)
            post(&t, 0, 3, 9);
        else if (way == 2)
            negotiator_join(t.ranks[0]);
        else
            negotiator_drain(t.ranks[0]);
        post(&t, 0, 2, 8);
        expect_look(&t, LOOK_DEVIATES);
        close_table(&t);
    }
}
END_TEST

/* A thousand new names at once, and rounds that grow with them. */
START_TEST(many_new_names_take_several_exchanges)
{
    enum { MANY = 2500 };
    struct negotiated next;
    int n_rounds = 0, n_decided = 0;
    struct table t;

    open_table(&t, 2, 16);
    for (int i = 0; i < MANY; i++)
        post_all(&t, i, 8);
    while (n_decided < MANY && n_rounds < 10) {
        (void)play_round(&t);
        n_rounds++;
        while (decided(&t, &next) >= 0)
            n_decided++;
    }
    ck_assert_int_eq(n_decided, MANY);
    close_table(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("negotiator");
    TCase *tc = tcase_create("negotiator");

    tcase_add_test(tc, a_new_name_takes_an_exchange_and_a_known_one_does_not);
    tcase_add_test(tc, what_one_rank_lacks_is_not_decided_and_is_no_news_twice);
    tcase_add_test(tc, places_stand_in_the_order_of_rank_0);
    tcase_add_test(tc, ranks_that_differ_fail_alike_and_the_name_serves_again);
    tcase_add_test(tc, all_ranks_may_change_what_a_name_means);
    tcase_add_test(tc, records_keep_every_field);
    tcase_add_test(tc, the_place_used_longest_ago_is_given_away);
    tcase_add_test(tc, a_call_survives_the_loss_of_its_place);
    tcase_add_test(tc, ranks_that_all_drain_over_different_names_are_stuck);
    tcase_add_test(tc, a_drain_is_no_trouble_where_all_have_posted);
    tcase_add_test(tc, ranks_that_join_stand_in_for_each_others_own_calls);
    tcase_add_test(tc, alone_no_order_is_followed);
    tcase_add_test(tc, what_this_rank_has_of_what_is_next_is_known);
    tcase_add_test(tc, a_long_order_takes_several_questions);
    tcase_add_test(tc, what_is_no_part_of_the_order_deviates);
    tcase_add_test(tc, many_new_names_take_several_exchanges);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
