/* tests/wire/test_table.c - the table that all members share. */
#include <stdlib.h>
#include <string.h>

#include "elastic/wire/codec.h"
#include "elastic/wire/pack.h"
#include "samples.h"
#include "support.h"

static uint8_t buf[1 << 16];
static struct assign_table got;

static void check_equal(const struct assign_table *table)
{
    ck_assert_uint_eq(got.n_entries, table->n_entries);
    for (size_t i = 0; i < table->n_entries; i++)
        ck_assert_mem_eq(&got.entries[i], &table->entries[i],
                         sizeof(got.entries[i]));
}

START_TEST(table_comes_back_equal)
{
    long n = table_encode(&sample_table, buf, sizeof(buf));

    ck_assert_int_gt(n, 0);
    ck_assert_uint_le((size_t)n, table_encoded_max(sample_table.n_entries));
    ck_assert_int_eq(table_decode(buf, (size_t)n, NULL, &got), CODEC_OK);
    check_equal(&sample_table);
    /* again into the same memory */
    ck_assert_int_eq(table_decode(buf, (size_t)n, NULL, &got), CODEC_OK);
    check_equal(&sample_table);
    assign_table_fini(&got);
    ck_assert_ptr_null(got.entries);
}
END_TEST

START_TEST(table_empty_comes_back_empty)
{
    struct assign_table none = {0};
    long n = table_encode(&none, buf, sizeof(buf));

    ck_assert_int_eq(table_decode(buf, (size_t)n, NULL, &got), CODEC_OK);
    check_equal(&none);
    assign_table_fini(&got);
}
END_TEST

START_TEST(table_prefixes_and_short_buffers_are_refused)
{
    long n = table_encode(&sample_table, buf, sizeof(buf));

    for (long cut = 0; cut < n; cut++) {
        ck_assert_int_ne(table_decode(buf, (size_t)cut, NULL, &got), CODEC_OK);
        ck_assert_uint_eq(got.n_entries, 0);
    }
    for (long max = 0; max < n; max++)
        ck_assert_int_eq(table_encode(&sample_table, buf, (size_t)max),
                         CODEC_SPACE);
    assign_table_fini(&got);
}
END_TEST

START_TEST(table_bad_rows_are_refused)
{
    struct assign_entry entry = {.worker = 0, .address = "127.0.0.1"};
    struct assign_table table = {.entries = &entry, .n_entries = 1};

    ck_assert_int_eq(table_encode(&table, buf, sizeof(buf)), CODEC_RANGE);
    entry.worker = 1;
    memset(entry.address, 'x', sizeof(entry.address));
    ck_assert_int_eq(table_encode(&table, buf, sizeof(buf)), CODEC_RANGE);
}
END_TEST

/* One row whose last column is nil, the address of the row before; or one with
 * abilities, and columns that nobody knows behind them. */
static long one_row(uint64_t worker, uint64_t port, uint64_t abilities,
                    size_t n_extra)
{
    struct pack_writer w = {.buf = buf, .max = sizeof(buf)};

    pack_array(&w, 2);
    pack_uint(&w, 0);
    pack_array(&w, 1);
    pack_array(&w, 6 + n_extra);
    pack_uint(&w, worker);
    pack_uint(&w, 0);
    pack_uint(&w, 0);
    pack_uint(&w, port);
    pack_bool(&w, true);
    if (n_extra)
        pack_str(&w, "::1", 3);
    else
        pack_nil(&w);
    if (n_extra)
        pack_uint(&w, abilities);
    for (size_t i = 1; i < n_extra; i++)
        pack_array(&w, 0);
    return (long)w.nbytes;
}

START_TEST(table_first_row_cannot_repeat_an_address)
{
    long n = one_row(1, 1, 0, 0);

    ck_assert_int_eq(table_decode(buf, (size_t)n, NULL, &got), CODEC_TYPE);
    assign_table_fini(&got);
}
END_TEST

START_TEST(table_later_columns_are_skipped)
{
    long n = one_row(7, 9, 5, 3);

    ck_assert_int_eq(table_decode(buf, (size_t)n, NULL, &got), CODEC_OK);
    ck_assert_uint_eq(got.entries[0].worker, 7);
    ck_assert_str_eq(got.entries[0].address, "::1");
    ck_assert_uint_eq(got.entries[0].abilities, 5);
    assign_table_fini(&got);
}
END_TEST

/* Six columns: an older driver, which promises nothing. */
START_TEST(table_without_abilities_has_none)
{
    struct pack_writer w = {.buf = buf, .max = sizeof(buf)};

    pack_array(&w, 2);
    pack_uint(&w, 0);
    pack_array(&w, 1);
    pack_array(&w, 6);
    for (int i = 0; i < 4; i++)
        pack_uint(&w, 1);
    pack_bool(&w, true);
    pack_str(&w, "::1", 3);
    ck_assert_int_eq(table_decode(buf, w.nbytes, NULL, &got), CODEC_OK);
    ck_assert_uint_eq(got.entries[0].abilities, 0);
    assign_table_fini(&got);
}
END_TEST

START_TEST(table_values_out_of_range_are_refused)
{
    long n = one_row(1, UINT16_MAX + 1, 0, 1);

    ck_assert_int_eq(table_decode(buf, (size_t)n, NULL, &got), CODEC_RANGE);
    n = one_row(1, 1, UINT8_MAX + 1, 1);
    ck_assert_int_eq(table_decode(buf, (size_t)n, NULL, &got), CODEC_RANGE);
    n = one_row(0, 1, 0, 1);
    ck_assert_int_eq(table_decode(buf, (size_t)n, NULL, &got), CODEC_RANGE);
    assign_table_fini(&got);
}
END_TEST

/* Eight on a host: a message can carry as many as there may be. */
START_TEST(table_of_most_ranks_fits_a_message)
{
    static struct assign_entry entries[WIRE_RANKS_MAX + 1];
    struct assign_table table = {.entries = entries,
                                 .n_entries = WIRE_RANKS_MAX};
    uint8_t *bytes = malloc(WIRE_MESSAGE_MAX);
    long n;

    for (uint32_t i = 0; i < WIRE_RANKS_MAX; i++) {
        entries[i] = (struct assign_entry){.worker = (1u << 20) + i,
                                           .host = i / 8,
                                           .slot = i % 8,
                                           .port = (uint16_t)(1024 + i % 8),
                                           .abilities = READY_CAN_ALL};
        snprintf(entries[i].address, WIRE_ADDRESS_MAX, "10.1.%u.%u",
                 i / 8 / 256, i / 8 % 256);
    }
    n = table_encode(&table, bytes, WIRE_MESSAGE_MAX);
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(table_decode(bytes, (size_t)n, NULL, &got), CODEC_OK);
    check_equal(&table);
    table.n_entries++;
    ck_assert_int_eq(table_encode(&table, bytes, WIRE_MESSAGE_MAX),
                     CODEC_LIMIT);
    assign_table_fini(&got);
    free(bytes);
}
END_TEST

/* ---- what changes another one -------------------------------------------- */

enum { MANY = 4096 };

static struct assign_entry before_rows[MANY], rows[MANY + 8];

static struct assign_entry nth(uint64_t worker, bool source)
{
    struct assign_entry e = {.worker = worker,
                             .host = (uint32_t)(worker / 8),
                             .slot = (uint32_t)(worker % 8),
                             .port = (uint16_t)(1000 + worker % 50000),
                             .source = source,
                             .address = "10.0.0.1"};

    return e;
}

static struct assign_table many(size_t n)
{
    for (size_t i = 0; i < n; i++)
        before_rows[i] = rows[i] = nth(i + 1, true);
    return (struct assign_table){
        .entries = before_rows, .n_entries = n, .generation = 7};
}

/* The bytes that it takes to tell `table` to who has `base`. */
static long change_comes_back(const struct assign_table *table,
                              const struct assign_table *base)
{
    long n = table_encode_change(table, base, buf, sizeof(buf));

    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(table_decode(buf, (size_t)n, base, &got), CODEC_OK);
    check_equal(table);
    return n;
}

START_TEST(change_that_loses_a_row_is_small)
{
    struct assign_table base = many(MANY);
    struct assign_table table = {.entries = rows, .n_entries = MANY - 1};

    memmove(&rows[100], &rows[101], (MANY - 101) * sizeof(rows[0]));
    ck_assert_int_le(change_comes_back(&table, &base), 32);
    assign_table_fini(&got);
}
END_TEST

START_TEST(change_that_adds_rows_is_those_rows)
{
    struct assign_table base = many(MANY);
    struct assign_table table = {.entries = rows, .n_entries = MANY + 8};

    for (size_t i = 0; i < 8; i++)
        rows[MANY + i] = nth(MANY + 1 + i, false);
    ck_assert_int_le(change_comes_back(&table, &base), 8 * 30 + 32);
    assign_table_fini(&got);
}
END_TEST

START_TEST(change_of_sources_hosts_ports_and_order_comes_back)
{
    struct assign_table base = many(64);
    struct assign_table table = {.entries = rows, .n_entries = 64};

    rows[3].source = rows[4].source = false;
    rows[10].port++;
    rows[20].host = 900;
    rows[21].abilities = 5;
    strncpy(rows[30].address, "::1", sizeof(rows[30].address));
    rows[40] = nth(60, true);
    rows[59] = nth(41, true);
    (void)change_comes_back(&table, &base);
    table.n_entries = 0;
    (void)change_comes_back(&table, &base);
    base.n_entries = 0;
    table.n_entries = 64;
    (void)change_comes_back(&table, &base);
    assign_table_fini(&got);
}
END_TEST

START_TEST(change_of_another_table_is_refused)
{
    struct assign_table base = many(64);
    struct assign_table table = {.entries = rows, .n_entries = 63};
    long n = table_encode_change(&table, &base, buf, sizeof(buf));

    ck_assert_int_eq(table_decode(buf, (size_t)n, NULL, &got), CODEC_BASE);
    base.generation = 6;
    ck_assert_int_eq(table_decode(buf, (size_t)n, &base, &got), CODEC_BASE);
    ck_assert_uint_eq(got.n_entries, 0);
    assign_table_fini(&got);
}
END_TEST

static long one_run(uint64_t changes, uint64_t first, uint64_t n)
{
    struct pack_writer w = {.buf = buf, .max = sizeof(buf)};

    pack_array(&w, 2);
    pack_uint(&w, changes);
    pack_array(&w, 1);
    pack_array(&w, 3);
    pack_uint(&w, first);
    pack_uint(&w, n);
    pack_bool(&w, true);
    return (long)w.nbytes;
}

START_TEST(runs_outside_the_other_table_are_refused)
{
    struct assign_table base = many(64);
    long n = one_run(7, 60, 5);

    ck_assert_int_eq(table_decode(buf, (size_t)n, &base, &got), CODEC_RANGE);
    n = one_run(7, 65, 0);
    ck_assert_int_eq(table_decode(buf, (size_t)n, &base, &got), CODEC_RANGE);
    n = one_run(0, 0, 1); /* of a complete one */
    ck_assert_int_eq(table_decode(buf, (size_t)n, &base, &got), CODEC_TYPE);
    n = one_run(7, 60, 4);
    ck_assert_int_eq(table_decode(buf, (size_t)n, &base, &got), CODEC_OK);
    ck_assert_uint_eq(got.n_entries, 4);
    assign_table_fini(&got);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("table");
    TCase *tcase = tcase_create("table");

    tcase_add_test(tcase, table_comes_back_equal);
    tcase_add_test(tcase, table_empty_comes_back_empty);
    tcase_add_test(tcase, table_prefixes_and_short_buffers_are_refused);
    tcase_add_test(tcase, table_bad_rows_are_refused);
    tcase_add_test(tcase, table_first_row_cannot_repeat_an_address);
    tcase_add_test(tcase, table_later_columns_are_skipped);
    tcase_add_test(tcase, table_without_abilities_has_none);
    tcase_add_test(tcase, table_values_out_of_range_are_refused);
    tcase_add_test(tcase, table_of_most_ranks_fits_a_message);
    tcase_add_test(tcase, change_that_loses_a_row_is_small);
    tcase_add_test(tcase, change_that_adds_rows_is_those_rows);
    tcase_add_test(tcase, change_of_sources_hosts_ports_and_order_comes_back);
    tcase_add_test(tcase, change_of_another_table_is_refused);
    tcase_add_test(tcase, runs_outside_the_other_table_are_refused);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
