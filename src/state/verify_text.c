/* state/verify_text.c - see verify_text.h. Pure. */
#include "state/verify_text.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "state/sampler_core.h"

enum { RANKS_SHOWN = 8 };

static const uint8_t *row(const struct verify_rows *rows, int rank)
{
    return rows->bytes + (size_t)rank * rows->nbytes;
}

static bool are_equal(const struct verify_rows *rows, int a, int b)
{
    return memcmp(row(rows, a), row(rows, b), rows->nbytes) == 0;
}

static int count_equal(const struct verify_rows *rows, int rank)
{
    int n = 0;

    for (int i = 0; i < rows->size; i++)
        n += are_equal(rows, i, rank);
    return n;
}

int verify_majority(const struct verify_rows *rows)
{
    int best = 0, n_best = 0;

    for (int i = 0; i < rows->size && n_best <= rows->size / 2; i++) {
        int n = count_equal(rows, i);

        if (n > n_best) {
            best = i;
            n_best = n;
        }
    }
    return best;
}

/* The ranks whose row is that of `like`, or is not. */
static void add_ranks(struct text *t, const struct verify_rows *rows, int like,
                      bool equal)
{
    int n = count_equal(rows, like), n_shown = 0;

    if (!equal)
        n = rows->size - n;
    text_add(t, n == 1 ? "rank " : "ranks ");
    for (int i = 0; i < rows->size && n_shown < RANKS_SHOWN; i++) {
        if (are_equal(rows, i, like) != equal)
            continue;
        text_add(t, n_shown++ > 0 ? ", " : "");
        text_u64(t, (uint64_t)i);
    }
    if (n > n_shown) {
        text_add(t, " and ");
        text_u64(t, (uint64_t)(n - n_shown));
        text_add(t, " more");
    }
}

void verify_text_ranks(struct text *t, const struct verify_rows *rows)
{
    int most = verify_majority(rows);

    add_ranks(t, rows, most, false);
    text_add(t, rows->size - count_equal(rows, most) == 1 ? " differs from "
                                                          : " differ from ");
    add_ranks(t, rows, most, true);
}

/* The first field in which two rows differ; -1: none. */
static int differing_field(const struct verify_rows *rows)
{
    for (int f = 0; f < SAMPLER_N_FIELDS; f++) {
        uint64_t first, value;

        (void)sampler_image_field(row(rows, 0), f, &first);
        for (int i = 1; i < rows->size; i++) {
            (void)sampler_image_field(row(rows, i), f, &value);
            if (value != first)
                return f;
        }
    }
    return -1;
}

static void add_value(struct text *t, const struct verify_rows *rows, int rank,
                      int field)
{
    uint64_t value;

    (void)sampler_image_field(row(rows, rank), field, &value);
    text_u64(t, value);
    text_add(t, " on rank ");
    text_u64(t, (uint64_t)rank);
}

/* The first rank that has another value there than rank 0. */
static int first_other(const struct verify_rows *rows, int field)
{
    uint64_t first, value;
    int i = 0;

    (void)sampler_image_field(row(rows, 0), field, &first);
    do
        (void)sampler_image_field(row(rows, ++i), field, &value);
    while (value == first);
    return i;
}

void verify_text_sampler(struct text *t, const struct verify_rows *rows)
{
    int field = differing_field(rows);
    uint64_t value;

    if (field < 0)
        return;
    text_add(t, sampler_image_field(row(rows, 0), field, &value));
    text_add(t, " is ");
    add_value(t, rows, 0, field);
    text_add(t, " and ");
    add_value(t, rows, first_other(rows, field), field);
}
