/* tests/base/test_tracefile.c - the file is a JSON array whenever one looks,
 * whatever happens to its writer. Events are numbered (always
 * seven digits), so that a look tells what is there to the last bracket. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "base/tracefile.h"
#include "support.h"

enum { NUMBER_1 = 1000000 };

#define HEADER "{\"head\":\"a b\"},\n{\"head\":2}"

static char directory[64];

static void setup(void)
{
    strcpy(directory, "/tmp/hvd-tracefile-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void teardown(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static const char *path_of(const char *name)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

/* ---- looking ------------------------------------------------------------- */

/* Its text without the white space between values; NULL: there is no file. */
static char *compact(const char *path)
{
    FILE *file = fopen(path, "r");
    struct stat st;
    char *text;
    size_t n = 0, n_all;

    if (!file)
        return NULL;
    ck_assert_int_eq(fstat(fileno(file), &st), 0);
    text = malloc((size_t)st.st_size + 1);
    ck_assert_ptr_nonnull(text);
    n_all = fread(text, 1, (size_t)st.st_size, file);
    for (size_t i = 0; i < n_all; i++)
        if (text[i] != '\n' && text[i] != ' ')
            text[n++] = text[i];
    text[n] = '\0';
    fclose(file);
    return text;
}

/* What the events from `first` on look like when there are n of them. */
static char *expected(uint64_t first, uint64_t n)
{
    char *text = malloc(64 + n * 20), *at = text;

    ck_assert_ptr_nonnull(text);
    at = stpcpy(at, "[{\"head\":\"ab\"},{\"head\":2}");
    for (uint64_t i = first; i < first + n; i++) {
        at = stpcpy(at, ",{\"n\":");
        for (uint64_t scale = 1000000; scale > 0; scale /= 10)
            *at++ = (char)('0' + (NUMBER_1 + i) / scale % 10);
        *at++ = '}';
    }
    strcpy(at, "]");
    return text;
}

/* By hand: a sanitizer's strstr looks at all of the text each time. */
static uint64_t count(const char *text)
{
    uint64_t n = 0;

    for (; *text; text++)
        n += text[0] == '{' && text[1] == '"' && text[2] == 'n';
    return n;
}

/* All parts, each exactly the header and the events that follow those of the
 * part before. Returns how many events. */
static uint64_t look(const char *path, unsigned *n_parts_p)
{
    char part[PATH_MAX], *text, *wanted;
    unsigned n_parts = 0;
    uint64_t n = 0;

    while (tracefile_part(path, n_parts, part) && (text = compact(part))) {
        wanted = expected(n, count(text));
        ck_assert_str_eq(text, wanted);
        n += count(text);
        free(text);
        free(wanted);
        n_parts++;
    }
    if (n_parts_p)
        *n_parts_p = n_parts;
    return n;
}

static bool add(struct tracefile *f, uint64_t i)
{
    char event[40];
    int n = snprintf(event, sizeof(event), "{\"n\": %llu}",
                     (unsigned long long)(NUMBER_1 + i));

    return tracefile_add(f, event, (size_t)n);
}

static void limit_files(rlim_t nbytes)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

    (void)getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = nbytes;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

/* ---- tests --------------------------------------------------------------- */

static const struct {
    const char *path, *word, *expected;
} names[] = {
    {"trace.json", "7", "trace.7.json"},
    {"trace", "7", "trace.7"},
    {"/a.b/trace", "7", "/a.b/trace.7"},
    {"/a.b/trace.x.json", "12", "/a.b/trace.x.12.json"},
    {".trace", "7", ".trace.7"},
    {"./.trace", "7", "./.trace.7"},
};

START_TEST(tracefile_names_keep_the_suffix)
{
    char out[PATH_MAX];

    ck_assert(tracefile_name(names[_i].path, names[_i].word, out));
    ck_assert_str_eq(out, names[_i].expected);
    ck_assert(tracefile_part(names[_i].path, 0, out));
    ck_assert_str_eq(out, names[_i].path);
}
END_TEST

START_TEST(tracefile_too_long_name_is_refused)
{
    char path[PATH_MAX], out[PATH_MAX];

    memset(path, 'a', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    ck_assert(!tracefile_name(path, "7", out));
    ck_assert(tracefile_part(path, 0, out));
    ck_assert(!tracefile_part(path, 1, out));
}
END_TEST

START_TEST(tracefile_whole_after_each_event)
{
    static struct tracefile f;
    const char *path = path_of("trace.json");
    uint64_t seen = 0;

    ck_assert_int_eq(tracefile_open(&f, path, HEADER), HVD_OK);
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t n = look(path, NULL);

        ck_assert_uint_ge(n, seen);
        ck_assert_uint_le(n, i);
        seen = n;
        ck_assert(add(&f, i));
        if (i % 7 == 0) {
            ck_assert(tracefile_flush(&f));
            ck_assert_uint_eq(look(path, NULL), i + 1);
        }
    }
    tracefile_close(&f);
    ck_assert_uint_eq(look(path, NULL), 100);
}
END_TEST

START_TEST(tracefile_parts_follow_and_grow)
{
    enum { N = 150000 };
    static struct tracefile f;
    const char *path = path_of("trace.json");
    char part[PATH_MAX];
    struct stat st;
    unsigned n_parts;

    ck_assert_int_eq(tracefile_open(&f, path, HEADER), HVD_OK);
    for (uint64_t i = 0; i < N; i++)
        ck_assert(add(&f, i));
    ck_assert_uint_eq(tracefile_close(&f), 0);
    ck_assert_uint_eq(look(path, &n_parts), N);
    ck_assert_uint_eq(n_parts, 4);
    for (unsigned i = 0; i < n_parts; i++) {
        ck_assert(tracefile_part(path, i, part));
        ck_assert_int_eq(stat(part, &st), 0);
        ck_assert_int_eq(st.st_size, 262144 << i);
    }
}
END_TEST

START_TEST(tracefile_longest_event_fits)
{
    static struct tracefile f;
    const char *path = path_of("trace.json");
    char event[TRACEFILE_EVENT_MAX];
    char *text;
    size_t n = 0;

    memset(event, 'x', sizeof(event));
    memcpy(event, "{\"x\":\"", 6);
    memcpy(event + sizeof(event) - 2, "\"}", 2);
    ck_assert_int_eq(tracefile_open(&f, path, HEADER), HVD_OK);
    for (int i = 0; i < 5; i++)
        ck_assert(tracefile_add(&f, event, sizeof(event)));
    tracefile_close(&f);
    text = compact(path);
    for (char *at = text; (at = strstr(at, ",{\"x\":\"xxx")); at++)
        n++;
    ck_assert_uint_eq(n, 5);
    ck_assert_uint_eq(strlen(text), strlen("[{\"head\":\"ab\"},{\"head\":2}]") +
                                        5 * (sizeof(event) + 1));
    free(text);
}
END_TEST

START_TEST(tracefile_no_directory_is_an_error)
{
    static struct tracefile f;

    ck_assert_int_eq(tracefile_open(&f, path_of("none/trace.json"), HEADER),
                     HVD_ERR_SYSTEM);
    ck_assert_int_eq(f.error, ENOENT);
    ck_assert(!add(&f, 0));
    ck_assert_uint_eq(tracefile_close(&f), 0);
}
END_TEST

START_TEST(tracefile_is_made_when_its_directory_is)
{
    static struct tracefile f;
    char path[PATH_MAX];

    strcpy(path, path_of("late/trace.json"));
    ck_assert_int_eq(tracefile_open(&f, path, HEADER), HVD_ERR_SYSTEM);
    ck_assert(!add(&f, 0));
    ck_assert_int_eq(mkdir(path_of("late"), 0700), 0);
    ck_assert(add(&f, 0));
    ck_assert_uint_eq(tracefile_close(&f), 0);
    ck_assert_int_eq(f.error, 0);
    ck_assert_uint_eq(look(path, NULL), 1);
}
END_TEST

START_TEST(tracefile_replaces_no_device)
{
    struct tracefile f;
    const char *path = path_of("fifo");
    struct stat st;

    ck_assert_int_eq(mkfifo(path, 0666), 0);
    ck_assert_int_eq(tracefile_open(&f, path, HEADER), HVD_ERR_SYSTEM);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert(S_ISFIFO(st.st_mode));
}
END_TEST

/* The second part, of twice the size, would not fit. */
START_TEST(tracefile_below_a_limit_has_smaller_parts)
{
    enum { N = 30000 };
    static struct tracefile f;
    const char *path = path_of("trace.json");
    unsigned n_parts;

    ck_assert_int_eq(tracefile_open(&f, path, HEADER), HVD_OK);
    limit_files(300000);
    for (uint64_t i = 0; i < N; i++)
        ck_assert(add(&f, i));
    ck_assert_uint_eq(tracefile_close(&f), 0);
    limit_files(RLIM_INFINITY);
    ck_assert_uint_eq(look(path, &n_parts), N);
    ck_assert_uint_gt(n_parts, 1);
}
END_TEST

/* No part can be made for a while: what is added later is all there. */
START_TEST(tracefile_goes_on_when_there_is_room_again)
{
    enum { N = 60000 };
    static struct tracefile f;
    const char *path = path_of("trace.json");
    uint64_t n = 0, n_refused = 0;
    unsigned n_parts;

    ck_assert_int_eq(tracefile_open(&f, path, HEADER), HVD_OK);
    limit_files(262144 - 1);
    for (uint64_t i = 0; i < N; i++) {
        bool taken = add(&f, n);

        n += taken;
        n_refused += !taken;
        if (n_refused == 10)
            limit_files(RLIM_INFINITY);
        if (!taken)
            ck_assert_int_eq(f.error, EFBIG);
    }
    ck_assert_uint_eq(n_refused, 10);
    ck_assert_uint_eq(tracefile_close(&f), 0);
    ck_assert_int_eq(f.error, 0);
    ck_assert_uint_eq(look(path, &n_parts), N - 10);
    ck_assert_uint_gt(n_parts, 1);
    ck_assert_int_eq(access(path_of("trace.part1.json.new"), F_OK), -1);
}
END_TEST

/* A flush below a limit that check(3)'s own file would not survive. */
static bool flush_below_limit(struct tracefile *f)
{
    bool flushed;

    limit_files(10);
    flushed = tracefile_flush(f);
    limit_files(RLIM_INFINITY);
    return flushed;
}

/* In the middle of a part. */
START_TEST(tracefile_page_that_fails_is_written_later)
{
    static struct tracefile f;
    const char *path = path_of("trace.json");

    ck_assert_int_eq(tracefile_open(&f, path, HEADER), HVD_OK);
    ck_assert(add(&f, 0));
    ck_assert(!flush_below_limit(&f));
    ck_assert_int_eq(f.error, EFBIG);
    ck_assert(add(&f, 1));
    ck_assert_uint_eq(look(path, NULL), 0);
    ck_assert(tracefile_flush(&f));
    ck_assert_int_eq(f.error, 0);
    ck_assert_uint_eq(look(path, NULL), 2);
    ck_assert_uint_eq(tracefile_close(&f), 0);
}
END_TEST

/* meson.build: --wrap; files of 64 bits. */
ssize_t __real_pwrite64(int fd, const void *bytes, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t at);
static int stale_fd = -1;

ssize_t __wrap_pwrite64(int fd, const void *bytes, size_t n, off_t at)
{
    if (fd != stale_fd)
        return __real_pwrite64(fd, bytes, n, at);
    errno = ESTALE;
    return -1;
}

static void keep(enum log_level level, const char *line, void *text)
{
    snprintf(text, 512, "%s", line);
}

START_TEST(tracefile_part_that_is_stale_is_left)
{
    static char logged[512];
    struct tracefile f;
    char *text;

    log_set_sink(keep, logged);
    ck_assert_int_eq(tracefile_open(&f, path_of("t.json"), HEADER), HVD_OK);
    ck_assert(tracefile_add(&f, "{\"a\":1}", 7) && tracefile_flush(&f));
    stale_fd = atomic_load(&f.fd);
    ck_assert(tracefile_add(&f, "{\"b\":2}", 7));
    ck_assert(tracefile_flush(&f)); /* nothing is left to write */
    stale_fd = -1;
    ck_assert(tracefile_add(&f, "{\"c\":3}", 7));
    ck_assert_uint_eq(tracefile_close(&f), 0);
    log_set_sink(NULL, NULL);
    ck_assert_ptr_nonnull(strstr(logged, "t.json\": Stale file handle -> 1 "
                                         "events are lost, and a new part is "
                                         "begun"));
    text = compact(path_of("t.json"));
    ck_assert_ptr_nonnull(strstr(text, "{\"a\":1}]"));
    free(text);
    text = compact(path_of("t.part1.json"));
    ck_assert_ptr_nonnull(strstr(text, "{\"c\":3}]"));
    free(text);
}
END_TEST

START_TEST(tracefile_close_counts_what_is_lost)
{
    static struct tracefile f;
    const char *path = path_of("trace.json");
    size_t n_lost;

    ck_assert_int_eq(tracefile_open(&f, path, HEADER), HVD_OK);
    ck_assert(add(&f, 0));
    ck_assert(tracefile_flush(&f));
    ck_assert(add(&f, 1));
    ck_assert(add(&f, 2));
    limit_files(10);
    n_lost = tracefile_close(&f);
    limit_files(RLIM_INFINITY);
    ck_assert_uint_eq(n_lost, 2);
    ck_assert_uint_eq(look(path, NULL), 1);
}
END_TEST

/* Writes for ever: a byte when event 1 is in the file, and each 64th after it.
 */
static _Noreturn void write_for_ever(const char *path, int fd)
{
    static struct tracefile f;

    if (tracefile_open(&f, path, HEADER) != HVD_OK)
        _exit(1);
    for (uint64_t i = 0;; i++) {
        if (!add(&f, i))
            _exit(1);
        if (i % 8 != 1)
            continue;
        if (!tracefile_flush(&f) || (i % 64 == 1 && write(fd, "", 1) != 1))
            _exit(1);
    }
}

/* How many bytes the pipe holds. */
static uint64_t read_all(int fd)
{
    char bytes[4096];
    uint64_t sum = 0;
    ssize_t n;

    while ((n = read(fd, bytes, sizeof(bytes))) > 0)
        sum += (uint64_t)n;
    return sum;
}

/* It gets through all pages and parts before the pipe is full. */
START_TEST(tracefile_whole_after_kill_at_any_moment)
{
    enum { KILLS = 60 };
    struct random_state r = {.s = 1};
    uint64_t most = 0;

    for (int i = 0; i < KILLS; i++) {
        struct timespec t = {.tv_nsec = (long)random_below(&r, 10000000)};
        const char *path = path_of("trace.json");
        int ends[2], status;
        uint64_t told, n;
        pid_t pid;

        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
        pid = fork();
        if (pid == 0)
            write_for_ever(path, ends[1]);
        close(ends[1]);
        ck_assert_int_eq(read(ends[0], &status, 1), 1); /* it writes */
        nanosleep(&t, NULL);
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status));
        told = (1 + read_all(ends[0])) * 64 - 62;
        close(ends[0]);
        n = look(path, NULL);
        ck_assert_uint_ge(n, told);
        most = n > most ? n : most;
        teardown();
        setup();
    }
    ck_assert_uint_gt(most, 1000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tracefile");
    TCase *c = tcase_create("tracefile");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, tracefile_names_keep_the_suffix, 0,
                        sizeof(names) / sizeof(names[0]));
    tcase_add_test(c, tracefile_too_long_name_is_refused);
    tcase_add_test(c, tracefile_whole_after_each_event);
    tcase_add_test(c, tracefile_parts_follow_and_grow);
    tcase_add_test(c, tracefile_longest_event_fits);
    tcase_add_test(c, tracefile_no_directory_is_an_error);
    tcase_add_test(c, tracefile_replaces_no_device);
    tcase_add_test(c, tracefile_is_made_when_its_directory_is);
    tcase_add_test(c, tracefile_below_a_limit_has_smaller_parts);
    tcase_add_test(c, tracefile_goes_on_when_there_is_room_again);
    tcase_add_test(c, tracefile_page_that_fails_is_written_later);
    tcase_add_test(c, tracefile_part_that_is_stale_is_left);
    tcase_add_test(c, tracefile_close_counts_what_is_lost);
    tcase_add_test(c, tracefile_whole_after_kill_at_any_moment);
    suite_add_tcase(suite, c);
    return support_run(suite);
}
