/* tests/wire/test_mutation.c - the fuzzer's property on seeded mutations of
 * valid messages: runs everywhere, always the same. tests/fuzz goes on from
 * here. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/random.h"
#include "elastic/wire/codec.h"
#include "property.h"
#include "samples.h"
#include "support.h"

enum { N_MUTANTS = 200000, MUTANT_MAX = 4096, N_CHANGES_MAX = 4 };

/* Heads that claim much, forms that are not used, edges of numbers. */
static const uint8_t nasty[] = {0xdd, 0xdf, 0xdb, 0xc6, 0xc1, 0xc7, 0xd8, 0xff,
                                0x00, 0x7f, 0x80, 0x8f, 0x9f, 0xbf, 0xc0, 0xcf,
                                0xd3, 0xc4, 0xdc, 0xde, 0xa0, 0xc3, 0x01, 0xcb};

static void change(struct random_state *r, uint8_t *bytes, size_t *n)
{
    size_t at = *n ? (size_t)random_below(r, *n) : 0;
    size_t len;

    switch (*n ? random_below(r, 6) : 5) {
    case 0:
        bytes[at] ^= (uint8_t)(1u << random_below(r, 8));
        break;
    case 1:
        bytes[at] = nasty[random_below(r, ARRAY_SIZE(nasty))];
        break;
    case 2:
        *n = at;
        break;
    case 3:
        len = (size_t)random_below(r, *n - at) + 1;
        memmove(bytes + at, bytes + at + len, *n - at - len);
        *n -= len;
        break;
    case 4: /* copy a piece over another place */
        len = (size_t)random_below(r, *n - at) + 1;
        memmove(bytes + random_below(r, *n - len + 1), bytes + at, len);
        break;
    default:
        if (*n == MUTANT_MAX)
            break;
        memmove(bytes + at + 1, bytes + at, *n - at);
        bytes[at] = (uint8_t)random_u64(r);
        (*n)++;
    }
}

/* How many mutants of bytes [nbytes] are accepted. Each lies in memory of
 * exactly its size, so that sanitizers see the first byte beyond. */
static size_t mutate(struct random_state *r, const uint8_t *bytes,
                     size_t nbytes, size_t n_mutants,
                     bool (*property)(const uint8_t *, size_t))
{
    static uint8_t mutant[MUTANT_MAX];
    size_t n_accepted = 0;

    ck_assert_uint_lt(nbytes, MUTANT_MAX);
    for (size_t i = 0; i < n_mutants; i++) {
        uint64_t n_changes = 1 + random_below(r, N_CHANGES_MAX);
        size_t n = nbytes;
        uint8_t *exact;

        memcpy(mutant, bytes, nbytes);
        while (n_changes-- > 0)
            change(r, mutant, &n);
        exact = malloc(n ? n : 1);
        memcpy(exact, mutant, n);
        n_accepted += property(exact, n);
        free(exact);
    }
    return n_accepted;
}

START_TEST(mutation_of_messages_never_harms)
{
    struct random_state r = {1};
    uint8_t bytes[MUTANT_MAX];
    size_t n_accepted = 0;

    for (size_t i = 0; i < n_samples; i++) {
        long n = codec_encode(&samples[i], bytes, sizeof(bytes));

        ck_assert_int_gt(n, 0);
        ck_assert(property_message(bytes, (size_t)n));
        n_accepted += mutate(&r, bytes, (size_t)n, N_MUTANTS / n_samples,
                             property_message);
    }
    /* both ways must be taken, else the test looks at nothing */
    ck_assert_uint_gt(n_accepted, N_MUTANTS / 100);
    ck_assert_uint_lt(n_accepted, N_MUTANTS / 2);
}
END_TEST

START_TEST(mutation_of_tables_never_harms)
{
    struct random_state r = {2};
    uint8_t bytes[MUTANT_MAX];
    long n = table_encode(&sample_table, bytes, sizeof(bytes));

    ck_assert(property_table(bytes, (size_t)n));
    ck_assert_uint_gt(
        mutate(&r, bytes, (size_t)n, N_MUTANTS / 4, property_table),
        N_MUTANTS / 400);
}
END_TEST

START_TEST(mutation_of_nothing_never_harms)
{
    struct random_state r = {3};

    for (int i = 0; i < N_MUTANTS / 4; i++) {
        uint8_t bytes[24];
        size_t n = (size_t)random_below(&r, sizeof(bytes) + 1);

        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)random_u64(&r);
        property_message(bytes, n);
        property_table(bytes, n);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mutation");
    TCase *tcase = tcase_create("mutation");

    tcase_add_test(tcase, mutation_of_messages_never_harms);
    tcase_add_test(tcase, mutation_of_tables_never_harms);
    tcase_add_test(tcase, mutation_of_nothing_never_harms);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
