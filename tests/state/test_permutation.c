/* tests/state/test_permutation.c - is it a bijection, keyed, and shuffled? */
#include "state/permutation.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

/* One assertion for all: each costs Check a system call. */
static void assert_bijection(uint64_t n, uint64_t seed, uint64_t epoch)
{
    unsigned char *seen = calloc(1, (size_t)n);
    struct permutation p;
    bool good = true;

    ck_assert_ptr_nonnull(seen);
    permutation_init(&p, n, seed, epoch);
    for (uint64_t i = 0; i < n && good; i++) {
        uint64_t at = permutation_at(&p, i);

        good = at < n && !seen[at];
        if (good)
            seen[at] = 1;
    }
    free(seen);
    ck_assert_msg(good, "n %llu", (unsigned long long)n);
}

START_TEST(permutation_every_small_n_is_bijection)
{
    for (uint64_t n = 1; n <= 2000; n++)
        assert_bijection(n, n * 7919, n % 5);
}
END_TEST

START_TEST(permutation_around_powers_of_two_is_bijection)
{
    for (unsigned bits = 11; bits <= 17; bits++)
        for (uint64_t n = (1u << bits) - 1; n <= (1u << bits) + 1; n++)
            assert_bijection(n, 1, bits);
}
END_TEST

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

START_TEST(permutation_large_n_stays_inside_and_distinct)
{
    static const uint64_t sizes[] = {
        1000003,           UINT64_C(1) << 32,       (UINT64_C(1) << 40) + 1,
        UINT64_C(1) << 62, (UINT64_C(1) << 62) + 1, UINT64_MAX};
    static uint64_t at[20000];
    const size_t n_at = sizeof(at) / sizeof(at[0]);
    struct permutation p;

    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        permutation_init(&p, sizes[k], 42, k);
        for (size_t i = 0; i < n_at; i++) {
            at[i] = permutation_at(&p, i * (sizes[k] / n_at));
            ck_assert_uint_lt(at[i], sizes[k]);
        }
        qsort(at, n_at, sizeof(at[0]), compare_u64);
        for (size_t i = 1; i < n_at; i++)
            ck_assert_uint_ne(at[i], at[i - 1]);
    }
}
END_TEST

START_TEST(permutation_other_seed_or_epoch_is_other_order)
{
    struct permutation a, b, c;
    int same_b = 0, same_c = 0;

    permutation_init(&a, 1000, 1, 0);
    permutation_init(&b, 1000, 2, 0);
    permutation_init(&c, 1000, 1, 1);
    for (uint64_t i = 0; i < 1000; i++) {
        same_b += permutation_at(&a, i) == permutation_at(&b, i);
        same_c += permutation_at(&a, i) == permutation_at(&c, i);
    }
    ck_assert_int_lt(same_b, 20);
    ck_assert_int_lt(same_c, 20);
}
END_TEST

/* Over many epochs every sample comes first about equally often. */
START_TEST(permutation_over_epochs_is_even)
{
    enum { N = 10, EPOCHS = 20000 };
    int first[N] = {0}, last[N] = {0};
    struct permutation p;

    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        permutation_init(&p, N, 3, epoch);
        first[permutation_at(&p, 0)]++;
        last[permutation_at(&p, N - 1)]++;
    }
    for (int i = 0; i < N; i++) {
        ck_assert_int_gt(first[i], EPOCHS / N * 8 / 10);
        ck_assert_int_lt(first[i], EPOCHS / N * 12 / 10);
        ck_assert_int_gt(last[i], EPOCHS / N * 8 / 10);
        ck_assert_int_lt(last[i], EPOCHS / N * 12 / 10);
    }
}
END_TEST

/* Neighbours must not stay neighbours: the mean distance of a random order is
 * n / 3. */
START_TEST(permutation_neighbours_are_spread)
{
    enum { N = 3000 };
    struct permutation p;
    double sum = 0;

    permutation_init(&p, N, 9, 9);
    for (uint64_t i = 1; i < N; i++) {
        double d = (double)permutation_at(&p, i) -
                   (double)permutation_at(&p, i - 1);

        sum += d < 0 ? -d : d;
    }
    ck_assert(sum / N > N / 3.0 * 0.9 && sum / N < N / 3.0 * 1.1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("permutation");
    TCase *tc = tcase_create("permutation");

    tcase_add_test(tc, permutation_every_small_n_is_bijection);
    tcase_add_test(tc, permutation_around_powers_of_two_is_bijection);
    tcase_add_test(tc, permutation_large_n_stays_inside_and_distinct);
    tcase_add_test(tc, permutation_other_seed_or_epoch_is_other_order);
    tcase_add_test(tc, permutation_over_epochs_is_even);
    tcase_add_test(tc, permutation_neighbours_are_spread);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
