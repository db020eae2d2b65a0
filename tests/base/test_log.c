/* tests/base/test_log.c - words to a person who may not read them. */
#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static int fds[2], saved;

static void setup(void)
{
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    ck_assert_int_eq(fcntl(fds[1], F_SETPIPE_SZ, 4096), 4096);
    saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    ck_assert_int_ge(saved, 0);
    ck_assert_int_eq(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
    log_init("hvd-test", LOG_LEVEL_INFO);
}

static void teardown(void)
{
    ck_assert_int_eq(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    close(fds[0]);
    close(fds[1]);
}

static const char *seen(void)
{
    static char text[8192];
    ssize_t n = read(fds[0], text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

START_TEST(log_line_says_who_and_how_bad)
{
    log_warn("disk %d is full -> nothing", 3);
    ck_assert_str_eq(seen(), "hvd-test: warn: disk 3 is full -> nothing\n");
    log_debug("not shown");
    log_set_prefix("gen 7");
    log_info("x");
    log_set_prefix("");
    ck_assert_str_eq(seen(), "hvd-test: info: gen 7: x\n");
}
END_TEST

START_TEST(log_that_nobody_reads_waits_for_nobody)
{
    const char *last;

    for (int i = 0; i < 1000; i++)
        log_info("line %d of those that do not fit into a page", i);
    seen();
    log_info("it is read again");
    last = seen();
    ck_assert_ptr_nonnull(strstr(last, " lines lost: stderr was not read\n"));
    ck_assert_ptr_nonnull(strstr(last, "info: it is read again\n"));
    log_info("x");
    ck_assert_str_eq(seen(), "hvd-test: info: x\n");
}
END_TEST

static void knock(struct log_seldom *seldom, int n)
{
    for (int i = 0; i < n; i++)
        log_seldom(seldom, LOG_LEVEL_WARN, "knock %d", i);
}

START_TEST(log_seldom_first_at_once_later_ones_counted)
{
    struct log_seldom seldom = {0};

    knock(&seldom, 1000);
    ck_assert_str_eq(seen(), "hvd-test: warn: knock 0\n");
    seldom.next_us = 0; /* as if the time had passed */
    knock(&seldom, 10);
    ck_assert_str_eq(seen(), "hvd-test: warn: knock 0 (and 999 times like this "
                             "before)\n");
    seldom.next_us = 0;
    knock(&seldom, 1);
    ck_assert_str_eq(seen(), "hvd-test: warn: knock 0 (and 9 times like this "
                             "before)\n");
}
END_TEST

START_TEST(log_seldom_below_the_level_nothing)
{
    struct log_seldom seldom = {0};

    log_seldom(&seldom, LOG_LEVEL_DEBUG, "knock");
    ck_assert_uint_eq(seldom.next_us, 0);
}
END_TEST

/* ---- the sink ------------------------------------------------------------ */

enum { WRITERS = 4, LINES = 500 };

struct sink {
    atomic_int inside;
    bool wrong;  /* two of them were inside at once, or a line has an end */
    int n_lines; /* no lock of its own: the log has one */
};

static void count_line(enum log_level level, const char *line, void *arg)
{
    struct sink *sink = arg;

    if (atomic_fetch_add(&sink->inside, 1) != 0 || strchr(line, '\n'))
        sink->wrong = true;
    sink->n_lines += level == LOG_LEVEL_WARN;
    sched_yield();
    atomic_fetch_sub(&sink->inside, 1);
}

static void *write_lines(void *arg)
{
    (void)arg;
    for (int i = 0; i < LINES; i++)
        log_warn("line %d", i);
    return NULL;
}

START_TEST(log_sink_is_called_by_one_thread_at_a_time)
{
    struct sink sink = {.wrong = false};
    pthread_t threads[WRITERS];

    log_set_sink(count_line, &sink);
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_lines, NULL),
                         0);
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    log_set_sink(NULL, NULL);
    ck_assert(!sink.wrong);
    ck_assert_int_eq(sink.n_lines, WRITERS * LINES);
    log_warn("x"); /* the first that stderr gets */
    ck_assert_str_eq(seen(), "hvd-test: warn: x\n");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *tcase = tcase_create("log");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, log_line_says_who_and_how_bad);
    tcase_add_test(tcase, log_that_nobody_reads_waits_for_nobody);
    tcase_add_test(tcase, log_seldom_first_at_once_later_ones_counted);
    tcase_add_test(tcase, log_seldom_below_the_level_nothing);
    tcase_add_test(tcase, log_sink_is_called_by_one_thread_at_a_time);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
