/* tests/base/test_writer.c - a thread that writes for who must not wait: order,
 * room, errors, and ends: of a pipe that nobody reads, of a call that the
 * kernel does not end. */
#include "base/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "support.h"

enum { LONG_MS = 20000, SHORT_MS = 50, KEEP_MAX = 65536, PIPE_MAX = 16384 };

static int fds[2], wake_fd;
static struct writer *w;

static void setup(void)
{
    ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
    ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(wake_fd, 0);
    signal(SIGPIPE, SIG_IGN);
}

static void teardown(void)
{
    close(fds[0]);
    close(fds[1]);
    close(wake_fd);
}

static void create_pipe_writer(void)
{
    ck_assert_int_eq(fcntl(fds[1], F_SETPIPE_SZ, PIPE_MAX), PIPE_MAX);
    ck_assert_int_eq(writer_create_fd(fds[1], false, KEEP_MAX, wake_fd, &w),
                     HVD_OK);
}

static bool put(const char *text)
{
    return writer_put(w, text, strlen(text));
}

/* Nothing fits the pipe any more: the writer's thread is stuck from its first
 * record on, however late it runs. How many bytes it took. */
static size_t stuff_pipe(void)
{
    static const char page[4096];
    size_t n = 0;

    ck_assert_int_eq(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
    while (write(fds[1], page, sizeof(page)) == (ssize_t)sizeof(page))
        n += sizeof(page);
    ck_assert_int_eq(errno, EAGAIN);
    ck_assert_int_eq(fcntl(fds[1], F_SETFL, 0), 0);
    return n;
}

/* And lines of a hundred bytes until one is refused; how many bytes in all. */
static size_t fill(void)
{
    size_t n = stuff_pipe();
    char line[101];

    memset(line, 'x', sizeof(line) - 2);
    strcpy(line + sizeof(line) - 2, "\n");
    for (; put(line); n += 100)
        ;
    return n;
}

static size_t read_some(void)
{
    char bytes[KEEP_MAX];
    ssize_t n = read(fds[0], bytes, sizeof(bytes));

    return n > 0 ? (size_t)n : 0;
}

static bool await_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, LONG_MS) == 1;
}

START_TEST(writer_bytes_come_in_order)
{
    char text[32] = "";
    int error;

    create_pipe_writer();
    ck_assert(put("one\n"));
    ck_assert(put("two\n"));
    ck_assert(put(""));
    ck_assert(put("three\n"));
    ck_assert(writer_flush(w, LONG_MS));
    ck_assert_uint_eq(writer_pending(w), 0);
    ck_assert_int_eq((int)read(fds[0], text, sizeof(text) - 1), 14);
    ck_assert_str_eq(text, "one\ntwo\nthree\n");
    ck_assert(writer_destroy(w, LONG_MS, LONG_MS, &error));
    ck_assert_int_eq(error, 0);
}
END_TEST

START_TEST(writer_who_was_refused_is_woken)
{
    size_t n_read = 0, n_put;
    uint64_t n;
    int error;

    create_pipe_writer();
    n_put = fill();
    ck_assert(!writer_has_room(w, 100));
    while (n_read < n_put) {
        ck_assert(await_readable(fds[0]));
        n_read += read_some();
    }
    ck_assert(await_readable(wake_fd));
    ck_assert_int_eq(eventfd_read(wake_fd, &n), 0);
    ck_assert(writer_flush(w, LONG_MS));
    ck_assert(writer_has_room(w, 100));
    ck_assert(writer_destroy(w, LONG_MS, LONG_MS, &error));
    ck_assert_int_eq(error, 0);
}
END_TEST

START_TEST(writer_nobody_reads_ends_at_its_deadline)
{
    int error = 0;

    create_pipe_writer();
    fill();
    ck_assert(!writer_flush(w, SHORT_MS));
    ck_assert(writer_destroy(w, LONG_MS, SHORT_MS, &error));
    ck_assert_int_eq(error, ETIMEDOUT);
}
END_TEST

START_TEST(writer_nothing_moves_ends_before_its_deadline)
{
    int error = 0;

    create_pipe_writer();
    fill();
    ck_assert(writer_destroy(w, SHORT_MS, INT32_MAX, &error));
    ck_assert_int_eq(error, ETIMEDOUT);
}
END_TEST

START_TEST(writer_reader_that_left_is_an_error)
{
    int error;

    create_pipe_writer();
    close(fds[0]);
    fds[0] = -1;
    ck_assert(put("x"));
    ck_assert(writer_flush(w, LONG_MS));
    ck_assert_int_eq(writer_error(w), EPIPE);
    ck_assert(put("thrown away"));
    ck_assert(writer_destroy(w, LONG_MS, LONG_MS, &error));
    ck_assert_int_eq(error, EPIPE);
}
END_TEST

/* ---- functions of somebody's own ----------------------------------------- */

/* What the thread does: hold until a byte comes, whatever it is told. */
struct stuck {
    int gate[2], end_fd;
    int n_taken, n_ended;
    bool stopped;
};

static int take_stuck(struct writer *writer, void *arg, const char *bytes,
                      size_t n)
{
    struct stuck *s = arg;
    char byte;

    (void)bytes;
    (void)n;
    if (s->n_taken++ == 0 && read(s->gate[0], &byte, 1) != 1)
        return EIO;
    s->stopped = writer_stopped(writer);
    return 0;
}

static int end_stuck(struct writer *writer, void *arg)
{
    struct stuck *s = arg;

    (void)writer;
    s->n_ended++;
    return eventfd_write(s->end_fd, 1) == 0 ? 0 : EIO;
}

static const struct writer_ops stuck_ops = {.take = take_stuck,
                                            .end = end_stuck};

static void create_stuck(struct stuck *s)
{
    struct writer_config config = {
        .ops = &stuck_ops, .arg = s, .keep_max = KEEP_MAX, .wake_fd = wake_fd};

    memset(s, 0, sizeof(*s));
    ck_assert_int_eq(pipe2(s->gate, O_CLOEXEC), 0);
    s->end_fd = eventfd(0, EFD_CLOEXEC);
    ck_assert_int_ge(s->end_fd, 0);
    ck_assert_int_eq(writer_create(&config, &w), HVD_OK);
}

static void open_gate(const struct stuck *s)
{
    ck_assert_int_eq((int)write(s->gate[1], "", 1), 1);
}

static void close_stuck(const struct stuck *s)
{
    close(s->gate[0]);
    close(s->gate[1]);
    close(s->end_fd);
}

START_TEST(writer_in_the_kernels_hands_is_left_behind)
{
    struct stuck s;
    int error = 0;
    eventfd_t n;

    create_stuck(&s);
    ck_assert(put("a"));
    ck_assert(put("b"));
    ck_assert(!writer_destroy(w, SHORT_MS, SHORT_MS, &error));
    ck_assert_int_eq(error, ETIMEDOUT);
    /* it gets loose, takes what is left, and ends by itself */
    open_gate(&s);
    ck_assert_int_eq(eventfd_read(s.end_fd, &n), 0);
    ck_assert_int_eq(s.n_taken, 2);
    ck_assert(s.stopped);
    close_stuck(&s);
}
END_TEST

START_TEST(writer_end_follows_the_last_record)
{
    struct stuck s;
    int error = 0;

    create_stuck(&s);
    open_gate(&s);
    ck_assert(put("a"));
    ck_assert(put("b"));
    ck_assert(writer_destroy(w, LONG_MS, LONG_MS, &error));
    ck_assert_int_eq(error, 0);
    ck_assert_int_eq(s.n_taken, 2);
    ck_assert_int_eq(s.n_ended, 1);
    ck_assert(!s.stopped);
    close_stuck(&s);
}
END_TEST

/* Slow, but never for long without anything. */
static int take_slowly(struct writer *writer, void *arg, const char *bytes,
                       size_t n)
{
    (void)arg;
    (void)bytes;
    (void)n;
    for (int i = 0; i < 70; i++) {
        poll(NULL, 0, 100);
        writer_moved(writer);
    }
    return writer_stopped(writer) ? ETIMEDOUT : 0;
}

START_TEST(writer_that_moves_is_waited_for)
{
    static const struct writer_ops ops = {.take = take_slowly};
    struct writer_config config = {
        .ops = &ops, .keep_max = KEEP_MAX, .wake_fd = -1};
    int error;

    ck_assert_int_eq(writer_create(&config, &w), HVD_OK);
    ck_assert(put("a"));
    ck_assert(writer_destroy(w, 6000, LONG_MS, &error));
    ck_assert_int_eq(error, 0);
}
END_TEST

/* Fails until the gate is open, for good if it cannot pass. */
struct flaky {
    _Atomic bool open;
    bool passes;
    int n_tries, n_taken; /* read when the writer has ended */
    char taken[8];
};

static int take_flaky(struct writer *writer, void *arg, const char *bytes,
                      size_t n)
{
    struct flaky *f = arg;

    (void)writer;
    f->n_tries++;
    if (!atomic_load(&f->open))
        return ENOSPC;
    memcpy(f->taken + f->n_taken, bytes, n);
    f->n_taken += (int)n;
    return 0;
}

static bool flaky_passes(struct writer *writer, void *arg, int error)
{
    const struct flaky *f = arg;

    (void)writer;
    return f->passes && error == ENOSPC;
}

static const struct writer_ops flaky_ops = {.take = take_flaky,
                                            .may_pass = flaky_passes};

static void create_flaky(struct flaky *f)
{
    struct writer_config config = {
        .ops = &flaky_ops, .arg = f, .keep_max = KEEP_MAX, .wake_fd = -1};

    ck_assert_int_eq(writer_create(&config, &w), HVD_OK);
    ck_assert(put("a"));
    ck_assert(put("b"));
}

START_TEST(writer_error_that_passes_loses_nothing)
{
    struct flaky f = {.passes = true};
    int error;

    create_flaky(&f);
    while (writer_trouble(w) == 0)
        poll(NULL, 0, 1);
    ck_assert_int_eq(writer_trouble(w), ENOSPC);
    ck_assert_int_eq(writer_error(w), 0);
    atomic_store(&f.open, true);
    ck_assert(writer_flush(w, LONG_MS));
    ck_assert_int_eq(writer_trouble(w), 0);
    ck_assert(writer_destroy(w, LONG_MS, LONG_MS, &error));
    ck_assert_int_eq(error, 0);
    ck_assert_str_eq(f.taken, "ab");
}
END_TEST

START_TEST(writer_error_that_does_not_pass_ends_it)
{
    struct flaky f = {.passes = false};
    int error;

    create_flaky(&f);
    ck_assert(writer_destroy(w, LONG_MS, LONG_MS, &error));
    ck_assert_int_eq(error, ENOSPC);
    ck_assert_int_eq(f.n_tries, 1);
}
END_TEST

START_TEST(writer_error_that_lasts_ends_with_it)
{
    struct flaky f = {.passes = true};
    int error;

    create_flaky(&f);
    ck_assert(writer_destroy(w, SHORT_MS, SHORT_MS, &error));
    ck_assert_int_eq(error, ENOSPC);
    ck_assert_int_eq(f.n_taken, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("writer");
    TCase *tcase = tcase_create("writer");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, writer_bytes_come_in_order);
    tcase_add_test(tcase, writer_who_was_refused_is_woken);
    tcase_add_test(tcase, writer_nobody_reads_ends_at_its_deadline);
    tcase_add_test(tcase, writer_nothing_moves_ends_before_its_deadline);
    tcase_add_test(tcase, writer_reader_that_left_is_an_error);
    tcase_add_test(tcase, writer_in_the_kernels_hands_is_left_behind);
    tcase_add_test(tcase, writer_end_follows_the_last_record);
    tcase_add_test(tcase, writer_that_moves_is_waited_for);
    tcase_add_test(tcase, writer_error_that_passes_loses_nothing);
    tcase_add_test(tcase, writer_error_that_does_not_pass_ends_it);
    tcase_add_test(tcase, writer_error_that_lasts_ends_with_it);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
