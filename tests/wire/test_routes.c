/* tests/wire/test_routes.c - numbers for routing ids. */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "elastic/wire/routes.h"
#include "support.h"

static const uint8_t token[WIRE_TOKEN_NBYTES];

static uint64_t number_of(struct routes *routes, const char *id)
{
    return routes_add(routes, (const uint8_t *)id, strlen(id), token);
}

START_TEST(routes_same_id_same_number)
{
    struct routes routes = {0};
    uint64_t a = number_of(&routes, "w1"), b = number_of(&routes, "w2");

    ck_assert_uint_ne(a, 0);
    ck_assert_uint_ne(a, b);
    ck_assert_uint_eq(number_of(&routes, "w1"), a);
    ck_assert_mem_eq(routes_find(&routes, b)->id, "w2", 2);
    ck_assert_ptr_null(routes_find(&routes, 0));
    ck_assert_ptr_null(routes_find(&routes, a + 100));
    routes_fini(&routes);
}
END_TEST

START_TEST(routes_forgotten_number_is_never_reused)
{
    struct routes routes = {0};
    uint64_t old = number_of(&routes, "w1"), again;

    routes_forget(&routes, old);
    ck_assert_ptr_null(routes_find(&routes, old));
    again = number_of(&routes, "w1");
    ck_assert_uint_ne(again, old);
    ck_assert_ptr_null(routes_find(&routes, old));
    routes_forget(&routes, old); /* twice does no harm */
    ck_assert_ptr_nonnull(routes_find(&routes, again));
    routes_fini(&routes);
}
END_TEST

START_TEST(routes_odd_ids_get_none)
{
    struct routes routes = {0};
    uint8_t id[ROUTE_ID_MAX + 1] = {0};

    ck_assert_uint_eq(routes_add(&routes, id, 0, token), 0);
    ck_assert_uint_eq(routes_add(&routes, id, sizeof(id), token), 0);
    ck_assert_uint_ne(routes_add(&routes, id, ROUTE_ID_MAX, token), 0);
    ck_assert_uint_eq(routes_number(&routes, id, sizeof(id)), 0);
    routes_fini(&routes);
}
END_TEST

/* Against an array that remembers everything. */
START_TEST(routes_random_use_agrees_with_a_list)
{
    enum { N_IDS = 2000, N_STEPS = 40000 };
    static uint64_t numbers[N_IDS];
    struct routes routes = {0};
    struct random_state r = {7};
    uint64_t last = 0;
    size_t n = 0;

    for (int step = 0; step < N_STEPS; step++) {
        uint64_t i = random_below(&r, N_IDS);

        if (numbers[i] && random_below(&r, 3) == 0) {
            routes_forget(&routes, numbers[i]);
            ck_assert_ptr_null(routes_find(&routes, numbers[i]));
            numbers[i] = 0;
            n--;
        } else {
            const uint8_t *id = (const uint8_t *)&i;
            uint64_t number;

            ck_assert_uint_eq(routes_number(&routes, id, sizeof(i)),
                              numbers[i]);
            ck_assert_uint_eq(routes.n, n); /* to ask adds nothing */
            number = routes_add(&routes, id, sizeof(i), token);
            ck_assert(numbers[i] ? number == numbers[i] : number != last);
            n += numbers[i] == 0;
            last = numbers[i] = number;
            ck_assert_mem_eq(routes_find(&routes, number)->id, &i, sizeof(i));
        }
        ck_assert_uint_eq(routes.n, n);
    }
    routes_fini(&routes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("routes");
    TCase *tcase = tcase_create("routes");

    tcase_add_test(tcase, routes_same_id_same_number);
    tcase_add_test(tcase, routes_forgotten_number_is_never_reused);
    tcase_add_test(tcase, routes_odd_ids_get_none);
    tcase_add_test(tcase, routes_random_use_agrees_with_a_list);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
