/* tests/driver/test_journal.c - what is written down for a successor: entries,
 * their fold, and the frames of the journal, whole and damaged. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/random.h"
#include "driver/journal_samples.h"
#include "elastic/driver/journal.h"
#include "elastic/wire/codec.h"
#include "support.h"

static uint8_t bytes[1 << 20];

/* All samples as frames: how many bytes; ends [n_journal_samples]. */
static size_t write_samples(size_t *ends)
{
    size_t n = 0;

    for (size_t i = 0; i < n_journal_samples; i++) {
        long frame = journal_frame(&journal_samples[i], bytes + n,
                                   sizeof(bytes) - n);

        ck_assert_int_gt(frame, JOURNAL_HEAD_NBYTES);
        n += (size_t)frame;
        if (ends)
            ends[i] = n;
    }
    return n;
}

static size_t n_entries_of(const struct memory *m)
{
    struct entry entry;
    size_t n = 0;

    while (memory_entry(m, n, &entry))
        n++;
    return n;
}

/* ---- entries ------------------------------------------------------------- */

START_TEST(entry_comes_back_as_it_was)
{
    const struct entry *sample = &journal_samples[_i];
    struct entry entry;
    const char *field;
    uint8_t again[8192];
    long n = entry_encode(sample, bytes, sizeof(bytes));

    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(entry_decode(bytes, (size_t)n, &entry, &field), CODEC_OK);
    ck_assert_int_eq(entry.type, sample->type);
    ck_assert_int_eq(entry_encode(&entry, again, sizeof(again)), n);
    ck_assert_mem_eq(again, bytes, (size_t)n);
    ck_assert_int_eq(entry_encode(sample, again, (size_t)n - 1), CODEC_SPACE);
}
END_TEST

START_TEST(entry_of_another_version_is_told_apart)
{
    struct entry entry;
    const char *field;
    long n = entry_encode(&journal_samples[1], bytes, sizeof(bytes));

    bytes[1] = ENTRY_VERSION + 1; /* after the head of the array */
    ck_assert_int_eq(entry_decode(bytes, (size_t)n, &entry, &field),
                     CODEC_VERSION);
    ck_assert_int_eq(entry.type, ENTRY_NONE);
}
END_TEST

START_TEST(entry_without_a_key_is_refused)
{
    struct entry nobody = {.type = ENTRY_WORKER};
    struct entry nowhere = {.type = ENTRY_WORKER, .u.worker.worker = 4};
    struct entry host = {.type = ENTRY_HOST};

    ck_assert_int_eq(entry_encode(&nobody, bytes, sizeof(bytes)), CODEC_RANGE);
    ck_assert_int_eq(entry_encode(&nowhere, bytes, sizeof(bytes)), CODEC_RANGE);
    ck_assert_int_eq(entry_encode(&host, bytes, sizeof(bytes)), CODEC_RANGE);
}
END_TEST

/* ---- the fold ------------------------------------------------------------ */

static void fold(struct memory *m, struct entry entry)
{
    ck_assert(memory_fold(m, &entry));
}

static struct entry worker(uint64_t id, const char *host, bool gone)
{
    struct entry e = {.type = ENTRY_WORKER,
                      .u.worker = {.worker = id, .gone = gone}};

    strcpy(e.u.worker.host, host);
    return e;
}

START_TEST(fold_later_row_replaces_earlier)
{
    struct memory m = {0};
    struct entry e = worker(7, "a", false);

    fold(&m, e);
    e.u.worker.pid = 4711;
    fold(&m, e);
    fold(&m, worker(3, "b", false)); /* not in their order */
    fold(&m, worker(9, "b", false));
    ck_assert_uint_eq(m.n_workers, 3);
    ck_assert_int_eq(memory_worker(&m, 7)->pid, 4711);
    ck_assert_uint_eq(m.workers[0].worker, 3);
    fold(&m, worker(7, "", true));
    fold(&m, worker(8, "", true)); /* nobody knew it */
    ck_assert_ptr_null(memory_worker(&m, 7));
    ck_assert_uint_eq(m.n_workers, 2);
    memory_fini(&m);
}
END_TEST

START_TEST(fold_forgets_hosts_and_slots_of_which_nothing_counts)
{
    struct memory m = {0};
    struct entry host = {.type = ENTRY_HOST,
                         .u.host = {.name = "a", .listed = true, .agent = 2}};
    struct entry slot = {.type = ENTRY_SLOT,
                         .u.slot = {.host = "a", .slot = 3, .n_failed = 1}};

    fold(&m, host);
    fold(&m, slot);
    ck_assert_uint_eq(memory_slot(&m, "a", 3)->n_failed, 1);
    ck_assert_ptr_null(memory_slot(&m, "a", 2));
    host.u.host.listed = false;
    fold(&m, host);
    ck_assert_ptr_nonnull(memory_host(&m, "a")); /* its agent is there */
    host.u.host.agent = 0;
    fold(&m, host);
    ck_assert_ptr_null(memory_host(&m, "a"));
    slot.u.slot.n_failed = 0;
    fold(&m, slot);
    ck_assert_ptr_null(memory_slot(&m, "a", 3));
    memory_fini(&m);
}
END_TEST

START_TEST(fold_keeps_the_command_line_of_its_own)
{
    struct memory m = {0};
    char argv[] = "hvd-elastic\0--\0./train";
    struct entry job = {
        .type = ENTRY_JOB,
        .u.job = {.job = 5, .argv = {argv, sizeof(argv)}, .cwd = "/"}};

    fold(&m, job);
    memset(argv, 'x', sizeof(argv));
    ck_assert_str_eq(m.job.argv.data + strlen("hvd-elastic") + 4, "./train");
    fold(&m, job); /* and again */
    memory_fini(&m);
}
END_TEST

START_TEST(fold_of_what_a_memory_says_is_the_same)
{
    struct memory m = {0}, copy = {0};
    struct journal_reading r;
    struct entry entry;

    ck_assert(journal_parse(bytes, write_samples(NULL), &m, &r));
    for (size_t i = 0; memory_entry(&m, i, &entry); i++)
        fold(&copy, entry);
    ck_assert_uint_eq(copy.n_hosts, m.n_hosts);
    ck_assert_uint_eq(copy.n_slots, m.n_slots);
    ck_assert_uint_eq(copy.n_workers, m.n_workers);
    ck_assert_mem_eq(copy.workers, m.workers, m.n_workers * sizeof(*m.workers));
    ck_assert_uint_eq(copy.state.term, m.state.term);
    ck_assert_uint_eq(copy.job.argv.nbytes, m.job.argv.nbytes);
    memory_fini(&m);
    memory_fini(&copy);
}
END_TEST

/* ---- frames -------------------------------------------------------------- */

START_TEST(journal_is_read_to_its_end)
{
    struct memory m = {0};
    struct journal_reading r;
    size_t n = write_samples(NULL);

    ck_assert(journal_parse(bytes, n, &m, &r));
    ck_assert_int_eq(r.error, CODEC_OK);
    ck_assert_uint_eq(r.n_good, n);
    ck_assert_uint_eq(r.n_entries, n_journal_samples);
    ck_assert_uint_gt(n_entries_of(&m), 4);
    memory_fini(&m);
}
END_TEST

/* Wherever a kill tears it. */
START_TEST(torn_tail_is_cut_at_the_last_good_entry)
{
    size_t ends[64], n, whole = 0;

    ck_assert_uint_lt(n_journal_samples, ARRAY_SIZE(ends));
    n = write_samples(ends);
    for (size_t torn = 0; torn < n; torn++) {
        struct memory m = {0};
        struct journal_reading r;

        whole += torn == ends[whole];
        ck_assert(journal_parse(bytes, torn, &m, &r));
        ck_assert_uint_eq(r.n_entries, whole);
        ck_assert_uint_eq(r.n_good, whole ? ends[whole - 1] : 0);
        ck_assert_int_eq(r.error,
                         r.n_good == torn ? CODEC_OK : CODEC_TRUNCATED);
        memory_fini(&m);
    }
}
END_TEST

/* Every bit counts; what follows is not looked at. */
START_TEST(changed_bit_ends_the_journal_there)
{
    struct random_state random = {11};
    size_t ends[64], n = write_samples(ends);

    for (int i = 0; i < 3000; i++) {
        size_t bit = (size_t)random_below(&random, 8 * n), at = 0;
        struct memory m = {0};
        struct journal_reading r;

        while (ends[at] <= bit / 8)
            at++;
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        ck_assert(journal_parse(bytes, n, &m, &r));
        ck_assert_uint_eq(r.n_entries, at);
        ck_assert_int_ne(r.error, CODEC_OK);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        memory_fini(&m);
    }
}
END_TEST

/* A file system may have given the tail its length and not its bytes. */
START_TEST(tail_of_zeros_is_cut)
{
    size_t n = write_samples(NULL);
    struct memory m = {0};
    struct journal_reading r;

    memset(bytes + n, 0, 4096);
    ck_assert(journal_parse(bytes, n + 4096, &m, &r));
    ck_assert_uint_eq(r.n_entries, n_journal_samples);
    ck_assert_uint_eq(r.n_good, n);
    ck_assert_int_ne(r.error, CODEC_OK);
    memory_fini(&m);
}
END_TEST

START_TEST(random_bytes_are_no_journal)
{
    struct random_state random = {(uint64_t)_i};
    struct memory m = {0};
    struct journal_reading r;
    size_t n = (size_t)random_below(&random, 4096);

    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)random_u64(&random);
    ck_assert(journal_parse(bytes, n, &m, &r));
    ck_assert_uint_eq(r.n_good, 0);
    memory_fini(&m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("journal");
    TCase *tc = tcase_create("journal");

    tcase_add_loop_test(tc, entry_comes_back_as_it_was, 0,
                        (int)n_journal_samples);
    tcase_add_test(tc, entry_of_another_version_is_told_apart);
    tcase_add_test(tc, entry_without_a_key_is_refused);
    tcase_add_test(tc, fold_later_row_replaces_earlier);
    tcase_add_test(tc, fold_forgets_hosts_and_slots_of_which_nothing_counts);
    tcase_add_test(tc, fold_keeps_the_command_line_of_its_own);
    tcase_add_test(tc, fold_of_what_a_memory_says_is_the_same);
    tcase_add_test(tc, journal_is_read_to_its_end);
    tcase_add_test(tc, torn_tail_is_cut_at_the_last_good_entry);
    tcase_add_test(tc, changed_bit_ends_the_journal_there);
    tcase_add_test(tc, tail_of_zeros_is_cut);
    tcase_add_loop_test(tc, random_bytes_are_no_journal, 1, 200);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
