/* tests/wire/test_beacon.c - DIR/driver: what is written is read, and nothing
 * else is taken for it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/machine.h"
#include "elastic/wire/beacon.h"
#include "support.h"

static char dir[64], path[96];

static void setup(void)
{
    strcpy(dir, "/tmp/test_beacon_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/driver", dir);
}

static void teardown(void)
{
    unlink(path);
    rmdir(path);
    rmdir(dir);
}

static void write_file(const char *text)
{
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static const struct beacon sample = {
    .job = UINT64_MAX,
    .term = 2,
    .pid = 4711,
    .started = 123456789,
    .machine = MACHINE_NONE,
    .endpoint = "tcp://127.0.0.1:40001",
    .output_endpoint = "tcp://127.0.0.1:40002",
    .far = "tcp://10.0.0.1:40003,tcp://[fd00::1]:40005",
    .far_output = "tcp://10.0.0.1:40004,tcp://[fd00::1]:40006"};

START_TEST(beacon_is_read_as_written)
{
    struct beacon b;

    ck_assert_int_eq(beacon_write(dir, &sample), HVD_OK);
    ck_assert_int_eq(beacon_write(dir, &sample), HVD_OK); /* replaced */
    ck_assert_int_eq(beacon_read(dir, &b), HVD_OK);
    ck_assert_uint_eq(b.job, sample.job);
    ck_assert_uint_eq(b.term, sample.term);
    ck_assert_int_eq(b.pid, sample.pid);
    ck_assert_uint_eq(b.started, sample.started);
    ck_assert_str_eq(b.endpoint, sample.endpoint);
    ck_assert_str_eq(b.output_endpoint, sample.output_endpoint);
    ck_assert_uint_eq(b.machine, sample.machine);
    ck_assert(b.own && !b.here);
    ck_assert_str_eq(b.far, sample.far);
    ck_assert_str_eq(b.far_output, sample.far_output);
}
END_TEST

/* Loopback is the driver's machine alone. */
START_TEST(beacon_tells_each_machine_where_it_reaches_the_driver)
{
    struct beacon b = sample, read;

    ck_assert_int_eq(beacon_write(dir, &b), HVD_OK);
    ck_assert_int_eq(beacon_read(dir, &read), HVD_OK);
    ck_assert_str_eq(beacon_control(&read), b.far);
    ck_assert_str_eq(beacon_output(&read), b.far_output);
    b.machine = machine_id();
    ck_assert_int_eq(beacon_write(dir, &b), HVD_OK);
    ck_assert_int_eq(beacon_read(dir, &read), HVD_OK);
    ck_assert_str_eq(beacon_control(&read), b.endpoint);
    ck_assert_str_eq(beacon_output(&read), b.output_endpoint);
    b = (struct beacon){
        .machine = MACHINE_NONE, .endpoint = "a", .output_endpoint = "b"};
    ck_assert_int_eq(beacon_write(dir, &b), HVD_OK);
    ck_assert_int_eq(beacon_read(dir, &read), HVD_OK);
    ck_assert_str_eq(beacon_control(&read), "");
    ck_assert_str_eq(beacon_output(&read), "");
}
END_TEST

/* Another machine sees so that its driver runs. */
START_TEST(beacon_that_is_kept_differs)
{
    struct beacon before, after;

    ck_assert_int_eq(beacon_write(dir, &sample), HVD_OK);
    ck_assert_int_eq(beacon_read(dir, &before), HVD_OK);
    ck_assert_int_eq(beacon_read(dir, &after), HVD_OK);
    ck_assert_uint_eq(before.touched, after.touched);
    while (before.touched == after.touched) {
        ck_assert_int_eq(beacon_keep(dir, &sample), HVD_OK);
        ck_assert_int_eq(beacon_read(dir, &after), HVD_OK);
    }
}
END_TEST

START_TEST(beacon_that_is_missing_is_named)
{
    struct beacon b;

    ck_assert_int_eq(beacon_read(dir, &b), HVD_ERR_DRIVER_LOST);
    ck_assert_ptr_nonnull(strstr(error_text(), path));
}
END_TEST

START_TEST(beacon_that_is_not_whole_is_refused)
{
    static const char without_end[] =
        "job 1\nterm 1\npid 1\nstarted 1\nmachine 1\ncontrol a\noutput b\n"
        "far -\nfar-output -\n";
    static const char *const texts[] = {"", "job 1", "job x\nterm 1\n",
                                        without_end};
    struct beacon b;

    write_file(texts[_i]);
    ck_assert_int_eq(beacon_read(dir, &b), HVD_ERR_INVALID);
}
END_TEST

/* Nobody who looks there may be kept by what he finds. */
START_TEST(beacon_that_is_a_fifo_keeps_nobody)
{
    struct beacon b;

    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_ne(beacon_read(dir, &b), HVD_OK);
}
END_TEST

/* A successor's is left alone. */
START_TEST(beacon_that_was_removed_is_restored)
{
    struct beacon b, newer = sample;

    newer.term++;
    ck_assert_int_eq(beacon_keep(dir, &sample), HVD_OK);
    ck_assert_int_eq(beacon_read(dir, &b), HVD_OK);
    ck_assert_uint_eq(b.term, sample.term);
    ck_assert_int_eq(beacon_write(dir, &newer), HVD_OK);
    ck_assert_int_eq(beacon_keep(dir, &sample), HVD_OK);
    ck_assert_int_eq(beacon_read(dir, &b), HVD_OK);
    ck_assert_uint_eq(b.term, newer.term);
    write_file("job 1");
    ck_assert_int_eq(beacon_keep(dir, &newer), HVD_OK);
    ck_assert_int_eq(beacon_read(dir, &b), HVD_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("beacon");
    TCase *tc = tcase_create("beacon");

    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, beacon_is_read_as_written);
    tcase_add_test(tc, beacon_that_is_missing_is_named);
    tcase_add_test(tc, beacon_tells_each_machine_where_it_reaches_the_driver);
    tcase_add_test(tc, beacon_that_is_kept_differs);
    tcase_add_loop_test(tc, beacon_that_is_not_whole_is_refused, 0, 4);
    tcase_add_test(tc, beacon_that_was_removed_is_restored);
    tcase_add_test(tc, beacon_that_is_a_fifo_keeps_nobody);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
