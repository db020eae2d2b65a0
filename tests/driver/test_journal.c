/* tests/driver/test_journal.c - what is written down for a successor: entries,
 * their fold, and the frames of the journal, whole and damaged. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/error.h"
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

/* Every bit counts, and for its own entry alone. */
START_TEST(changed_bit_costs_one_entry)
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
        ck_assert_uint_eq(r.n_entries, n_journal_samples - 1);
        ck_assert_uint_eq(r.n_good,
                          n - (ends[at] - (at > 0 ? ends[at - 1] : 0)));
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

/* ---- a file -------------------------------------------------------------- */

static char dir[64];

static void setup(void)
{
    strcpy(dir, "/tmp/test_journal_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static bool exists(const char *name)
{
    return access(path_of(name), F_OK) == 0;
}

static struct journal *begin(uint64_t term)
{
    struct memory m = {0};
    struct journal *j;

    fold(&m, journal_samples[0]);
    m.state.term = term;
    ck_assert_int_eq(journal_create(dir, &m, &j), HVD_OK);
    ck_assert_uint_eq(m.job.job, 0); /* it is the journal's now */
    return j;
}

static void read_back(struct memory *m, size_t cut)
{
    size_t cut_found;

    memset(m, 0, sizeof(*m));
    ck_assert_msg(journal_read(dir, m, &cut_found) == HVD_OK, "%s",
                  error_text());
    ck_assert_uint_eq(cut_found, cut);
    ck_assert_uint_eq(m->job.job, journal_samples[0].u.job.job);
}

START_TEST(what_was_put_is_read)
{
    struct journal *j = begin(1);
    struct entry entry = worker(7, "a", false);
    struct memory m;

    read_back(&m, 0); /* before anything is put */
    memory_fini(&m);
    ck_assert(journal_put(j, &entry));
    journal_flush(j, 30000);
    read_back(&m, 0); /* as a successor would, after a kill */
    ck_assert_ptr_nonnull(memory_worker(&m, 7));
    ck_assert_uint_eq(m.state.term, 1);
    memory_fini(&m);
    journal_close(j);
    ck_assert(!exists("journal.1.new"));
}
END_TEST

START_TEST(successor_has_a_file_of_its_own)
{
    struct journal *old = begin(1), *j = begin(2);
    struct entry entry = worker(7, "a", false);
    struct memory m;

    ck_assert(
        exists("journal.1")); /* who wrote it leads until the other does */
    journal_remove_others(dir, 2);
    ck_assert(!exists("journal.1"));
    ck_assert(journal_put(old, &entry)); /* it has stood still until now */
    journal_close(old);
    read_back(&m, 0);
    ck_assert_uint_eq(m.state.term, 2);
    ck_assert_ptr_null(memory_worker(&m, 7));
    memory_fini(&m);
    journal_close(j);
}
END_TEST

/* What no longer counts does not stay. */
START_TEST(file_does_not_grow_without_end)
{
    struct journal *j = begin(1);
    struct entry entry = worker(7, "a", false);
    struct memory m;
    struct stat st;

    for (uint64_t i = 0; i < 200000; i++) {
        entry.u.worker.started = i;
        ck_assert(journal_put(j, &entry));
        if (i % 1000 == 0)
            journal_flush(j, 30000);
    }
    journal_tick(j);
    journal_close(j);
    ck_assert_int_eq(stat(path_of("journal.1"), &st), 0);
    ck_assert_int_lt(st.st_size, 3 << 20);
    read_back(&m, 0);
    ck_assert_uint_eq(memory_worker(&m, 7)->started, 199999);
    memory_fini(&m);
}
END_TEST

START_TEST(damaged_end_is_reported)
{
    struct journal *j = begin(1);
    struct entry entry = worker(7, "a", false);
    struct memory m;
    FILE *file;

    ck_assert(journal_put(j, &entry));
    journal_close(j);
    file = fopen(path_of("journal.1"), "a");
    ck_assert_ptr_nonnull(file);
    fputs("torn", file);
    fclose(file);
    read_back(&m, 4);
    ck_assert_ptr_nonnull(memory_worker(&m, 7));
    memory_fini(&m);
}
END_TEST

/* With a digest that fits. */
static void write_of_another_version(void)
{
    long n = journal_frame(&journal_samples[0], bytes, sizeof(bytes));
    uint8_t *body = bytes + JOURNAL_HEAD_NBYTES;
    FILE *file = fopen(path_of("journal.1"), "w");

    ck_assert_ptr_nonnull(file);
    body[1]++;
    bytes_put(bytes + 4, XXH3_64bits(body, (size_t)n - JOURNAL_HEAD_NBYTES), 8);
    ck_assert_uint_eq(fwrite(bytes, 1, (size_t)n, file), (size_t)n);
    fclose(file);
}

/* A disk is full for a while: put workers until it is, and one more. Nothing is
 * asserted meanwhile, as Check writes files too. The errno that was told. */
static int fill_disk(struct journal *j, struct entry *entry)
{
    struct rlimit limit, small;
    bool taken = getrlimit(RLIMIT_FSIZE, &limit) == 0;
    int error;

    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = limit.rlim_max};
    taken = taken && setrlimit(RLIMIT_FSIZE, &small) == 0;
    for (int i = 0; i < 10000 && journal_error(j) == 0; i++) {
        entry->u.worker.worker++;
        taken = taken && journal_put(j, entry);
        journal_flush(j, 30000);
    }
    error = journal_error(j);
    entry->u.worker.worker++; /* not behind what is torn */
    taken = taken && journal_put(j, entry);
    journal_flush(j, 30000);
    taken = setrlimit(RLIMIT_FSIZE, &limit) == 0 && taken;
    return taken ? error : -1;
}

START_TEST(what_could_not_be_written_is_written_later)
{
    struct journal *j = begin(1);
    struct entry entry = worker(7, "a", false);
    struct memory m;

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(fill_disk(j, &entry), EFBIG);
    journal_tick(j);
    journal_flush(j, 30000);
    ck_assert_int_eq(journal_error(j), 0);
    read_back(&m, 0);
    ck_assert_ptr_nonnull(memory_worker(&m, entry.u.worker.worker));
    memory_fini(&m);
    journal_close(j);
}
END_TEST

/* The head of it: without JOB and STATE there is no job. */
START_TEST(changed_bit_never_costs_the_job)
{
    struct random_state random = {12};
    struct memory m;
    long n_file;
    FILE *file;

    journal_close(begin(1));
    for (int i = 0; i < 300; i++) {
        long at;
        int byte;

        file = fopen(path_of("journal.1"), "r+");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
        n_file = ftell(file);
        at = (long)random_below(&random, (uint64_t)n_file);
        ck_assert_int_eq(fseek(file, at, SEEK_SET), 0);
        byte = fgetc(file);
        ck_assert_int_eq(fseek(file, at, SEEK_SET), 0);
        fputc(byte ^ 1 << random_below(&random, 8), file);
        fclose(file);
        memset(&m, 0, sizeof(m));
        ck_assert(journal_read(dir, &m, &(size_t){0}) == HVD_OK);
        ck_assert_uint_ne(m.job.job, 0);
        ck_assert_uint_ne(m.state.term, 0);
        memory_fini(&m);
        file = fopen(path_of("journal.1"), "r+");
        ck_assert_int_eq(fseek(file, at, SEEK_SET), 0);
        fputc(byte, file);
        fclose(file);
    }
}
END_TEST

START_TEST(what_is_no_journal_is_named)
{
    struct memory m = {0};
    size_t cut;
    FILE *file;

    ck_assert_int_eq(journal_read(dir, &m, &cut), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error_text(), "holds no journal"));
    file = fopen(path_of("journal.1"), "w");
    ck_assert_ptr_nonnull(file);
    fputs("something else", file);
    fclose(file);
    ck_assert_int_eq(journal_read(dir, &m, &cut), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error_text(), "its beginning is damaged"));
    write_of_another_version();
    ck_assert_int_eq(journal_read(dir, &m, &cut), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error_text(), "another version"));
    ck_assert_int_eq(journal_read(path_of("nowhere"), &m, &cut),
                     HVD_ERR_SYSTEM);
}
END_TEST

int main(void)
{
    TCase *file = tcase_create("file");
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
    tcase_add_test(tc, changed_bit_costs_one_entry);
    tcase_add_test(tc, tail_of_zeros_is_cut);
    tcase_add_loop_test(tc, random_bytes_are_no_journal, 1, 200);
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(file, setup, teardown);
    tcase_add_test(file, what_was_put_is_read);
    tcase_add_test(file, successor_has_a_file_of_its_own);
    tcase_add_test(file, file_does_not_grow_without_end);
    tcase_add_test(file, damaged_end_is_reported);
    tcase_add_test(file, what_could_not_be_written_is_written_later);
    tcase_add_test(file, changed_bit_never_costs_the_job);
    tcase_add_test(file, what_is_no_journal_is_named);
    suite_add_tcase(suite, file);
    return support_run(suite);
}
