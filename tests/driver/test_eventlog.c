/* tests/driver/test_eventlog.c - lines as tools read them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/writer.h"
#include "elastic/driver/eventlog.h"
#include "support.h"

static char path[64];
static char logged[4096];

static void catch_log(enum log_level level, const char *line, void *arg)
{
    size_t n = strlen(logged);

    (void)arg;
    snprintf(logged + n, sizeof(logged) - n, "%s\n", line);
}

static void setup(void)
{
    int fd;

    strcpy(path, "/tmp/hvd-events-XXXXXX");
    fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, "old\n", 4), 4);
    close(fd);
    logged[0] = '\0';
    log_init("hvd-elastic", LOG_LEVEL_WARN);
    log_set_sink(catch_log, NULL);
}

static void teardown(void)
{
    log_set_sink(NULL, NULL);
    unlink(path);
}

static const char *read_back(void)
{
    static char text[4096];
    FILE *file = fopen(path, "r");
    size_t n;

    ck_assert_ptr_nonnull(file);
    n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

START_TEST(eventlog_line_has_time_event_and_fields)
{
    struct eventlog log;
    struct json *j;

    ck_assert_int_eq(eventlog_open(&log, path, 1000000, false), HVD_OK);
    j = eventlog_begin(&log, 1000000, "job_started", 0);
    json_str(j, "version", "1");
    eventlog_end(&log);
    j = eventlog_begin(&log, 3500042, "generation_formed", 7);
    json_u64(j, "size", 2);
    json_array_begin(j, "ranks");
    json_object_begin(j, NULL);
    json_u64(j, "rank", 0);
    json_object_end(j);
    json_array_end(j);
    eventlog_ms(&log, "ms", 12345);
    eventlog_end(&log);
    eventlog_close(&log);
    ck_assert_str_eq(
        read_back(),
        "{\"t\":0.000000,\"event\":\"job_started\",\"generation\":0,"
        "\"version\":\"1\"}\n"
        "{\"t\":2.500042,\"event\":\"generation_formed\",\"generation\":7,"
        "\"size\":2,\"ranks\":[{\"rank\":0}],\"ms\":12.345}\n");
    ck_assert_str_eq(logged, "");
}
END_TEST

/* ---- a file that takes nothing for a while ------------------------------- */

enum { LINES = 60000, READ_MAX = 16 << 20 };

static void open_fifo(struct eventlog *log, int *reader_p)
{
    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    *reader_p = open(path, O_RDONLY | O_NONBLOCK);
    ck_assert_int_ge(*reader_p, 0);
    ck_assert_int_eq(eventlog_open(log, path, 0, false), HVD_OK);
}

/* More than is kept. */
static void fill(struct eventlog *log)
{
    for (int i = 0; i < LINES; i++) {
        json_str(eventlog_begin(log, 1, "x", 1), "text",
                 "a line of a hundred bytes or so, most of which is this text");
        eventlog_end(log);
    }
    ck_assert_uint_gt(log->n_dropped, 0);
}

START_TEST(eventlog_that_is_read_late_says_what_it_lacks)
{
    static char text[READ_MAX];
    struct pollfd in = {.events = POLLIN};
    struct eventlog log;
    size_t total = 0;

    open_fifo(&log, &in.fd);
    fill(&log);
    while (!strstr(text, "{\"event\":\"lines_dropped\",\"n\":")) {
        ssize_t n;

        ck_assert_int_eq(poll(&in, 1, 10000), 1);
        n = read(in.fd, text + total, sizeof(text) - 1 - total);
        ck_assert_int_gt((int)n, 0);
        total += (size_t)n;
        if (log.n_dropped > 0) {
            eventlog_begin(&log, 1, "y", 1);
            eventlog_end(&log);
        }
    }
    eventlog_close(&log);
    close(in.fd);
    ck_assert_str_eq(logged, "");
}
END_TEST

START_TEST(eventlog_that_nobody_reads_ends_all_the_same)
{
    struct eventlog log;
    int reader;

    open_fifo(&log, &reader);
    fill(&log);
    eventlog_close(&log);
    close(reader);
    ck_assert_ptr_nonnull(strstr(logged, "takes no more"));
}
END_TEST

/* Lines that are written while nobody reads get to the next reader. */
START_TEST(eventlog_lacks_nothing_when_its_reader_starts_again)
{
    static char text[4096];
    struct pollfd in = {.events = POLLIN};
    struct eventlog log;

    signal(SIGPIPE, SIG_IGN);
    open_fifo(&log, &in.fd);
    close(in.fd);
    eventlog_begin(&log, 1, "between", 1);
    eventlog_end(&log);
    while (writer_trouble(log.writer) != EPIPE)
        poll(NULL, 0, 1);
    in.fd = open(path, O_RDONLY | O_NONBLOCK);
    ck_assert_int_ge(in.fd, 0);
    eventlog_begin(&log, 2, "after", 1);
    eventlog_end(&log);
    eventlog_close(&log);
    ck_assert_int_gt((int)read(in.fd, text, sizeof(text) - 1), 0);
    close(in.fd);
    ck_assert_str_eq(text, "{\"t\":0.000001,\"event\":\"between\","
                           "\"generation\":1}\n"
                           "{\"t\":0.000002,\"event\":\"after\","
                           "\"generation\":1}\n");
}
END_TEST

START_TEST(eventlog_without_a_path_takes_everything)
{
    struct eventlog log;

    ck_assert_int_eq(eventlog_open(&log, NULL, 0, false), HVD_OK);
    for (int i = 0; i < 3; i++) {
        json_i64(eventlog_begin(&log, 1, "x", 1), "i", i);
        eventlog_end(&log);
    }
    eventlog_close(&log);
    ck_assert_str_eq(logged, "");
}
END_TEST

START_TEST(eventlog_full_disk_is_one_warning)
{
    struct eventlog log;

    if (access("/dev/full", W_OK) != 0)
        return;
    ck_assert_int_eq(eventlog_open(&log, "/dev/full", 0, false), HVD_OK);
    for (int i = 0; i < 3; i++) {
        eventlog_begin(&log, 1, "x", 1);
        eventlog_end(&log);
    }
    eventlog_close(&log);
    ck_assert_ptr_nonnull(strstr(logged, "\"/dev/full\": No space left on "
                                         "device -> its last 3 lines are "
                                         "lost\n"));
}
END_TEST

static void limit_files(rlim_t nbytes)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = nbytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(eventlog_disk_that_was_full_lacks_nothing)
{
    struct eventlog log;

    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(eventlog_open(&log, path, 0, false), HVD_OK);
    limit_files(20); /* in the middle of the first line */
    eventlog_begin(&log, 1000000, "first", 1);
    eventlog_end(&log);
    while (writer_trouble(log.writer) == 0)
        poll(NULL, 0, 1);
    eventlog_begin(&log, 2000000, "second", 1);
    eventlog_end(&log);
    ck_assert_ptr_nonnull(strstr(logged, "File too large -> tried again"));
    limit_files(RLIM_INFINITY);
    ck_assert(writer_flush(log.writer, 20000));
    ck_assert_int_eq(writer_trouble(log.writer), 0);
    eventlog_close(&log);
    ck_assert_str_eq(
        read_back(),
        "{\"t\":1.000000,\"event\":\"first\",\"generation\":1}\n"
        "{\"t\":2.000000,\"event\":\"second\",\"generation\":1}\n");
}
END_TEST

START_TEST(eventlog_of_another_job_is_left_alone)
{
    struct eventlog first, second;

    ck_assert_int_eq(eventlog_open(&first, path, 0, false), HVD_OK);
    eventlog_begin(&first, 1000000, "x", 1);
    eventlog_end(&first);
    ck_assert_int_eq(eventlog_open(&second, path, 0, false), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error_text(), "another job writes to it"));
    eventlog_close(&second);
    /* a successor, whose driver hangs */
    ck_assert_int_eq(eventlog_open(&second, path, 0, true), HVD_OK);
    eventlog_close(&second);
    eventlog_close(&first);
    ck_assert_str_eq(read_back(),
                     "{\"t\":1.000000,\"event\":\"x\",\"generation\":1}\n");
}
END_TEST

START_TEST(eventlog_that_cannot_be_opened_says_why)
{
    struct eventlog log;

    ck_assert_int_eq(eventlog_open(&log, "/nowhere/x", 0, false),
                     HVD_ERR_SYSTEM);
    ck_assert_str_eq(error_text(),
                     "--event-log: \"/nowhere/x\": No such file or directory");
    eventlog_close(&log);
}
END_TEST

START_TEST(eventlog_of_a_successor_is_opened_when_it_can_be)
{
    struct eventlog log;

    unlink(path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(eventlog_open(&log, path, 0, true), HVD_OK);
    ck_assert_ptr_nonnull(
        strstr(logged, "\": Is a directory -> tried again each second\n"));
    eventlog_begin(&log, 1, "early", 1);
    eventlog_end(&log);
    ck_assert_int_eq(rmdir(path), 0);
    log.open_us = 0; /* a second later */
    eventlog_begin(&log, 2, "late", 1);
    eventlog_end(&log);
    eventlog_close(&log);
    ck_assert_str_eq(read_back(), "{\"event\":\"lines_dropped\",\"n\":1,"
                                  "\"reason\":\"Is a directory\"}\n"
                                  "{\"t\":0.000002,\"event\":\"late\","
                                  "\"generation\":1}\n");
}
END_TEST

START_TEST(eventlog_fifo_without_a_reader_is_not_waited_for)
{
    struct eventlog log;

    unlink(path);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(eventlog_open(&log, path, 0, false), HVD_ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(
        error_text(), "\": nobody reads this FIFO (start its reader first)"));
    eventlog_close(&log);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("eventlog");
    TCase *tcase = tcase_create("eventlog");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, eventlog_line_has_time_event_and_fields);
    tcase_add_test(tcase, eventlog_without_a_path_takes_everything);
    tcase_add_test(tcase, eventlog_full_disk_is_one_warning);
    tcase_add_test(tcase, eventlog_disk_that_was_full_lacks_nothing);
    tcase_add_test(tcase, eventlog_that_is_read_late_says_what_it_lacks);
    tcase_add_test(tcase, eventlog_that_nobody_reads_ends_all_the_same);
    tcase_add_test(tcase, eventlog_lacks_nothing_when_its_reader_starts_again);
    tcase_add_test(tcase, eventlog_of_another_job_is_left_alone);
    tcase_add_test(tcase, eventlog_that_cannot_be_opened_says_why);
    tcase_add_test(tcase, eventlog_of_a_successor_is_opened_when_it_can_be);
    tcase_add_test(tcase, eventlog_fifo_without_a_reader_is_not_waited_for);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
