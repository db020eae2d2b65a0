/* tests/driver/test_jobdir.c - who takes a job over, where another successor
 * comes in between: it does all that one does behind one look of ours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "elastic/driver/jobdir.h"
#include "elastic/driver/journal.h"
#include "journal_samples.h"
#include "support.h"

static char dir[64];

static void setup(void)
{
    strcpy(dir, "/tmp/test_jobdir_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* As lead_open() does, and dies. */
static void drive(uint64_t term)
{
    struct beacon b = {.job = journal_samples[0].u.job.job,
                       .term = term,
                       .pid = 1,
                       .started = 1, /* that of another */
                       .endpoint = "tcp://127.0.0.1:1",
                       .output_endpoint = "tcp://127.0.0.1:2"};
    struct memory m = {0};
    struct journal *j;

    ck_assert(memory_fold(&m, &journal_samples[0]));
    m.state.term = term;
    ck_assert_int_eq(journal_create(dir, &m, &j), HVD_OK);
    journal_close(j);
    ck_assert_int_eq(beacon_write(dir, &b), HVD_OK);
    journal_remove_others(dir, term);
}

/* ---- behind a look ------------------------------------------------------- */

enum look {
    LOOK_NONE,
    LOOK_WHO_LEADS,   /* DIR/driver was read for the first time */
    LOOK_WHOSE_IT_IS, /* ... and for the second, to find the journal */
    LOOK_WHETHER_THERE,
    LOOK_COUNT
};

static enum look moment;
static int n_beacons;

static void at(enum look look)
{
    if (moment != look)
        return;
    moment = LOOK_NONE;
    drive(2);
}

hvd_status_t __real_beacon_read(const char *directory, struct beacon *b);
hvd_status_t __wrap_beacon_read(const char *directory, struct beacon *b);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);

hvd_status_t __wrap_beacon_read(const char *directory, struct beacon *b)
{
    hvd_status_t status = __real_beacon_read(directory, b);

    n_beacons++;
    at(n_beacons == 1   ? LOOK_WHO_LEADS
       : n_beacons == 2 ? LOOK_WHOSE_IT_IS
                        : LOOK_COUNT);
    return status;
}

int __wrap_access(const char *path, int mode)
{
    int result = __real_access(path, mode);

    if (strstr(path, "/journal.1"))
        at(LOOK_WHETHER_THERE);
    return result;
}

/* ---- cases --------------------------------------------------------------- */

START_TEST(standby_takes_the_next_term)
{
    struct heir heir;
    bool ended;

    drive(1);
    ck_assert_int_eq(jobdir_await(dir, &heir, &ended), HVD_OK);
    ck_assert(!ended);
    ck_assert_uint_eq(heir.term, 2);
    heir_fini(&heir);
}
END_TEST

START_TEST(standby_that_was_overtaken_stands_by_again)
{
    struct heir heir;
    bool ended;

    drive(1);
    moment = (enum look)_i;
    ck_assert_msg(jobdir_await(dir, &heir, &ended) == HVD_OK, "%s",
                  error_text());
    ck_assert_int_eq(moment, LOOK_NONE);
    ck_assert(!ended);
    ck_assert_uint_eq(heir.before.term, 2);
    ck_assert_uint_eq(heir.term, 3);
    heir_fini(&heir);
}
END_TEST

START_TEST(resume_that_was_overtaken_is_refused_with_that_sentence)
{
    struct heir heir;

    drive(1);
    moment = (enum look)_i;
    ck_assert_int_eq(jobdir_inherit(dir, false, &heir), HVD_ERR_STATE);
    ck_assert_ptr_nonnull(
        strstr(error_text(), "another driver takes this job over"));
}
END_TEST

/* Nobody else has led it: that is no reason to wait. */
START_TEST(standby_without_a_journal_is_refused)
{
    struct heir heir;
    char path[128];
    bool ended;

    drive(1);
    snprintf(path, sizeof(path), "%s/journal.1", dir);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(jobdir_await(dir, &heir, &ended), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error_text(), "holds no journal of a job"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("jobdir");
    TCase *tc = tcase_create("jobdir");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, standby_takes_the_next_term);
    tcase_add_loop_test(tc, standby_that_was_overtaken_stands_by_again,
                        LOOK_WHO_LEADS, LOOK_COUNT);
    tcase_add_loop_test(tc,
                        resume_that_was_overtaken_is_refused_with_that_sentence,
                        LOOK_WHO_LEADS, LOOK_COUNT);
    tcase_add_test(tc, standby_without_a_journal_is_refused);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
