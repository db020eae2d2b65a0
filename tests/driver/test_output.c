/* tests/driver/test_output.c - lines, prefixes, files, slow readers. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/writer.h"
#include "elastic/driver/output.h"
#include "support.h"

enum { OUT = 0, ERR = 1, TEXT_MAX = 16 << 20, LONG_MS = 20000 };

static int fds[OUTPUT_STREAMS][2]; /* pipes: our stdout and stderr */
static int wake_fd;
static struct output_config config;
static struct output o;
static char dir[64], logged[1024];

static void catch_log(enum log_level level, const char *line, void *arg)
{
    size_t n = strlen(logged);

    (void)arg;
    snprintf(logged + n, sizeof(logged) - n, "%s\n", line);
}

static void setup(void)
{
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        ck_assert_int_eq(pipe2(fds[i], O_CLOEXEC), 0);
        ck_assert_int_eq(fcntl(fds[i][0], F_SETFL, O_NONBLOCK), 0);
    }
    strcpy(dir, "/tmp/hvd-output-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(wake_fd, 0);
    config = (struct output_config){.out_fd = fds[OUT][1],
                                    .err_fd = fds[ERR][1],
                                    .rank_width = 1,
                                    .hold_us = 1000,
                                    .wake_fd = wake_fd};
    ck_assert_int_eq(output_init(&o, &config), HVD_OK);
    signal(SIGPIPE, SIG_IGN);
    logged[0] = '\0';
    log_init("hvd-elastic", LOG_LEVEL_WARN);
    log_set_sink(catch_log, NULL);
}

static void teardown(void)
{
    char command[128];

    output_fini(&o);
    log_set_sink(NULL, NULL);
    for (int i = 0; i < OUTPUT_STREAMS; i++) {
        close(fds[i][0]);
        close(fds[i][1]);
    }
    close(wake_fd);
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* Once more with another configuration. */
static void restart(void)
{
    output_fini(&o);
    ck_assert_int_eq(output_init(&o, &config), HVD_OK);
}

static void put(uint64_t worker, int rank, int stream, const char *text,
                enum output_mark mark)
{
    struct output_worker who = {worker, rank, "a", 5};

    output_write(&o, &who, stream, text, strlen(text), mark);
}

static void print(uint64_t worker, int rank, int stream, const char *text)
{
    put(worker, rank, stream, text, OUTPUT_MORE);
}

static void finish(uint64_t worker, int rank, int stream)
{
    put(worker, rank, stream, "", OUTPUT_END);
}

/* What has come through our stream since the last call, all of it. */
static const char *seen(int stream)
{
    static char text[TEXT_MAX];
    size_t n = 0;
    bool idle;

    do {
        ssize_t got;

        idle = output_drain(&o, 10);
        while ((got = read(fds[stream][0], text + n, TEXT_MAX - 1 - n)) > 0)
            n += (size_t)got;
    } while (!idle);
    text[n] = '\0';
    return text;
}

static size_t waiting(int stream)
{
    return output_sink_waiting(&o.sinks[stream]);
}

START_TEST(output_lines_are_prefixed_with_rank_and_stream)
{
    print(1, 0, OUT, "hello\nworld\n");
    ck_assert_str_eq(seen(OUT), "[0]<stdout>:hello\n[0]<stdout>:world\n");
    print(2, 13, ERR, "oops\n");
    ck_assert_str_eq(seen(ERR), "[13]<stderr>:oops\n");
    ck_assert_str_eq(seen(OUT), "");
}
END_TEST

START_TEST(output_of_a_newcomer_names_host_and_slot)
{
    print(1, -1, OUT, "loading\n");
    ck_assert_str_eq(seen(OUT), "[a:5]<stdout>:loading\n");
}
END_TEST

START_TEST(output_unfinished_line_waits_for_its_end)
{
    print(1, 0, OUT, "a");
    print(2, 1, OUT, "x");
    print(1, 0, ERR, "e");
    ck_assert_str_eq(seen(OUT), "");
    print(1, 2, OUT, "b\nc"); /* its rank has changed meanwhile */
    ck_assert_str_eq(seen(OUT), "[2]<stdout>:ab\n");
    finish(2, 1, OUT);
    ck_assert_str_eq(seen(OUT), "[1]<stdout>:x\n");
    finish(1, 2, OUT);
    finish(1, 2, OUT);
    ck_assert_str_eq(seen(OUT), "[2]<stdout>:c\n");
    finish(1, 2, ERR);
    ck_assert_str_eq(seen(ERR), "[2]<stderr>:e\n");
}
END_TEST

START_TEST(output_carriage_return_ends_a_line)
{
    print(1, 0, OUT, "10%\r20%\r");
    ck_assert_str_eq(seen(OUT), "[0]<stdout>:10%\r[0]<stdout>:20%\r");
    print(1, 0, OUT, "\nnext\r\n");
    ck_assert_str_eq(seen(OUT), "\n[0]<stdout>:next\r\n");
    print(1, 0, OUT, "\n");
    ck_assert_str_eq(seen(OUT), "[0]<stdout>:\n");
}
END_TEST

static void settle_line(uint64_t worker, int rank, int stream, const char *text)
{
    put(worker, rank, stream, text, OUTPUT_SETTLED);
}

START_TEST(output_prompt_is_shown_and_continued)
{
    settle_line(1, 0, OUT, "before\nContinue? ");
    ck_assert_str_eq(seen(OUT), "[0]<stdout>:before\n[0]<stdout>:Continue? ");
    settle_line(1, 0, OUT, "y");
    print(1, 0, OUT, "es\nnext\n");
    ck_assert_str_eq(seen(OUT), "yes\n[0]<stdout>:next\n");
    settle_line(1, 0, OUT, "last words");
    finish(1, 0, OUT);
    ck_assert_str_eq(seen(OUT), "[0]<stdout>:last words\n");
}
END_TEST

START_TEST(output_prompt_that_others_interrupt_is_ended_there)
{
    config.err_fd = config.out_fd;
    restart();
    settle_line(1, 0, OUT, "Continue? ");
    ck_assert(!output_is_idle(&o)); /* no status line is drawn over it */
    print(2, 1, OUT, "x\n");
    print(1, 0, OUT, "yes\n");
    settle_line(1, 0, OUT, "Sure? ");
    output_say(&o, "hvd-elastic: info");
    settle_line(1, 0, ERR, "e");
    settle_line(1, 0, OUT, "yes");
    ck_assert_str_eq(seen(OUT),
                     "[0]<stdout>:Continue? \n[1]<stdout>:x\n"
                     "[0]<stdout>:...yes\n[0]<stdout>:Sure? \n"
                     "hvd-elastic: info\n[0]<stderr>:e\n[0]<stdout>:...yes");
}
END_TEST

START_TEST(output_very_long_line_is_whole_unless_interrupted)
{
    static char text[2 * OUTPUT_LINE_MAX + 1];
    const char *got;

    memset(text, 'x', sizeof(text) - 1);
    print(1, 0, OUT, text);
    print(2, 1, OUT, "y\n");
    print(1, 0, OUT, "z\n");
    got = seen(OUT);
    ck_assert_uint_eq(strcspn(got, "\n"),
                      strlen("[0]<stdout>:") + strlen(text));
    ck_assert_str_eq(strchr(got, '\n'), "\n[1]<stdout>:y\n[0]<stdout>:...z\n");
}
END_TEST

START_TEST(output_timestamp_comes_first)
{
    int year, month, day, hour, minute, second, ms, n = 0;

    config.timestamps = true;
    restart();
    print(1, 3, OUT, "x\n");
    ck_assert_int_eq(sscanf(seen(OUT),
                            "%4d-%2d-%2d %2d:%2d:%2d.%3d "
                            "[3]<stdout>:x\n%n",
                            &year, &month, &day, &hour, &minute, &second, &ms,
                            &n),
                     7);
    ck_assert_int_gt(n, 0);
}
END_TEST

static int n_before;

static void count_before(void *arg)
{
    (void)arg;
    n_before++;
}

START_TEST(output_tells_before_it_writes)
{
    n_before = 0;
    config.before_write = count_before;
    restart();
    print(1, 0, OUT, "half");
    ck_assert_int_eq(n_before, 0);
    print(1, 0, OUT, " whole\n");
    ck_assert_int_eq(n_before, 1);
}
END_TEST

static const char *text_of(const char *name)
{
    static char text[4096];
    char path[128];
    FILE *file;
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "r");
    if (file) {
        n = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
    }
    text[n] = '\0';
    return file ? text : NULL;
}

static const char *read_file(const char *name)
{
    ck_assert(writer_flush(o.files.writer, LONG_MS));
    return text_of(name);
}

START_TEST(output_files_per_rank_have_plain_lines)
{
    config.dir = dir;
    config.rank_width = output_rank_width(11);
    restart();
    print(1, -1, OUT, "new\n");
    print(1, 0, OUT, "one\ntw");
    print(2, 10, ERR, "err\n");
    print(1, 1, OUT, "o\n");
    print(3, 0, OUT, "replacement\n"); /* does not truncate its predecessor's */
    ck_assert_str_eq(read_file("a.5/stdout"), "new\n");
    ck_assert_str_eq(read_file("rank.00/stdout"), "one\nreplacement\n");
    ck_assert_str_eq(read_file("rank.01/stdout"), "two\n");
    ck_assert_str_eq(read_file("rank.10/stderr"), "err\n");
    ck_assert_str_eq(seen(OUT), "[a:5]<stdout>:new\n[0]<stdout>:one\n"
                                "[1]<stdout>:two\n[0]<stdout>:replacement\n");
    ck_assert_int_eq(setenv("D", dir, 1) + system("rm -r $D"), 0);
    print(1, 1, OUT, "again\n");
    ck_assert_str_eq(read_file("rank.01/stdout"), "again\n");
    ck_assert_str_eq(logged, "");
}
END_TEST

START_TEST(output_files_have_the_bytes_of_workers_and_no_others)
{
    static const char binary[] = "a\0b\r\r\n\nc";
    struct output_worker who = {1, 0, "a", 5};
    char path[128], got[64];
    FILE *file;

    config.dir = dir;
    restart();
    output_write(&o, &who, OUT, binary, sizeof(binary) - 1, OUTPUT_SETTLED);
    print(2, 1, OUT, "x\n");
    finish(1, 0, OUT);
    ck_assert_str_eq(read_file("rank.1/stdout"), "x\n");
    snprintf(path, sizeof(path), "%s/rank.0/stdout", dir);
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fread(got, 1, sizeof(got), file), sizeof(binary) - 1);
    ck_assert_int_eq(memcmp(got, binary, sizeof(binary) - 1), 0);
    fclose(file);
}
END_TEST

START_TEST(output_directory_that_cannot_be_made_is_one_warning)
{
    config.dir = "/dev/null/x";
    restart();
    print(1, 0, OUT, "x\n");
    print(1, 0, OUT, "y\n");
    ck_assert_str_eq(seen(OUT), "[0]<stdout>:x\n[0]<stdout>:y\n");
    ck_assert(writer_flush(o.files.writer, LONG_MS));
    output_flush(&o);
    ck_assert_str_eq(
        logged, "hvd-elastic: warn: --output-filename: "
                "\"/dev/null/x\": Not a directory -> files are incomplete\n");
}
END_TEST

/* Once more what the thread has done until now is done and told. */
static void settle(void)
{
    ck_assert(writer_flush(o.files.writer, LONG_MS));
    output_flush(&o);
}

START_TEST(output_file_says_what_it_lacks)
{
    char path[128], text[256];
    ssize_t n;
    int fd;

    config.dir = dir;
    restart();
    snprintf(path, sizeof(path), "%s/rank.0", dir);
    ck_assert_int_eq(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s/rank.0/stdout", dir);
    ck_assert_int_eq(mkfifo(path, 0666), 0);
    print(1, 0, OUT, "a\nb\n"); /* nobody opens a FIFO to read it */
    settle();
    ck_assert_ptr_nonnull(
        strstr(logged, "No such device or address -> files are incomplete\n"));
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    print(1, 0, OUT, "c\n");
    settle();
    n = read(fd, text, sizeof(text) - 1);
    ck_assert_int_gt((int)n, 0);
    text[n] = '\0';
    ck_assert_str_eq(text, "[hvd-elastic: 2 lines dropped: No such device or "
                           "address]\nc\n");
    close(fd);
    output_close_files(&o);
    ck_assert_ptr_nonnull(
        strstr(logged, "\": 2 lines are missing in its files\n"));
}
END_TEST

static void limit_files(rlim_t nbytes)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = nbytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

START_TEST(output_line_cut_by_a_full_disk_is_ended)
{
    config.dir = dir;
    restart();
    signal(SIGXFSZ, SIG_IGN);
    limit_files(10);
    print(1, 0, OUT, "12345\n67890\nx\n");
    settle();
    limit_files(RLIM_INFINITY);
    print(1, 0, OUT, "y\n");
    ck_assert_str_eq(read_file("rank.0/stdout"),
                     "12345\n6789\n[hvd-elastic: 2 lines dropped: File too "
                     "large]\ny\n");
}
END_TEST

START_TEST(output_gap_in_the_middle_of_a_line_begins_a_line)
{
    config.dir = dir;
    restart();
    signal(SIGXFSZ, SIG_IGN);
    settle_line(1, 0, OUT, "12345");
    limit_files(5);
    settle_line(1, 0, OUT, "6789");
    settle_line(1, 0, OUT, "0"); /* of the same line */
    settle();
    limit_files(RLIM_INFINITY);
    print(1, 0, OUT, "\n");
    ck_assert_str_eq(read_file("rank.0/stdout"),
                     "12345\n[hvd-elastic: 1 lines dropped: File too large]\n"
                     "\n");
}
END_TEST

START_TEST(output_what_a_file_lacks_is_told_at_the_end)
{
    config.dir = dir;
    restart();
    signal(SIGXFSZ, SIG_IGN);
    limit_files(0);
    print(1, 0, OUT, "x\n");
    settle();
    limit_files(RLIM_INFINITY);
    output_close_files(&o);
    ck_assert_str_eq(text_of("rank.0/stdout"),
                     "[hvd-elastic: 1 lines dropped: File too large]\n");
}
END_TEST

START_TEST(output_same_file_twice_is_one_stream)
{
    config.err_fd = config.out_fd;
    restart();
    print(1, 0, OUT, "a\n");
    print(1, 0, ERR, "b\n");
    output_say(&o, "c");
    print(1, 0, OUT, "d\n");
    ck_assert_str_eq(seen(OUT), "[0]<stdout>:a\n[0]<stderr>:b\nc\n"
                                "[0]<stdout>:d\n");
}
END_TEST

START_TEST(output_worker_whose_streams_have_ended_is_forgotten)
{
    struct output_worker who = {1, 0, "a", 5};

    output_write(&o, &who, OUT, "half", 4, OUTPUT_MORE);
    output_write(&o, &who, 1 - OUT, "", 0, OUTPUT_END);
    ck_assert_uint_eq(o.n_entries, 1);
    output_write(&o, &who, OUT, "", 0, OUTPUT_END);
    ck_assert_uint_eq(o.n_entries, 0);
    ck_assert_str_eq(seen(OUT), "[0]<stdout>:half\n");
}
END_TEST

START_TEST(output_forget_finishes_and_forgets)
{
    struct output_worker who = {1, 4, "a", 5};

    for (uint64_t worker = 9; worker > 0; worker--)
        print(worker, (int)worker, OUT, "last words");
    ck_assert_uint_eq(o.n_entries, 9);
    output_forget(&o, &who);
    output_forget(&o, &who);
    ck_assert_uint_eq(o.n_entries, 8);
    ck_assert_str_eq(seen(OUT), "[4]<stdout>:last words\n");
    finish(9, 9, OUT);
    ck_assert_str_eq(seen(OUT), "[9]<stdout>:last words\n");
}
END_TEST

/* n numbered lines of about 100 bytes. */
static void print_many(int first, int n)
{
    static char text[1 << 20];
    size_t at = 0;

    for (int i = first; i < first + n; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%07d %90s\n", i,
                               "");
    print(1, 0, OUT, text);
}

/* Read everything; each line must be whole. Returns the last number, adds to
 * *n_p how many came and to *dropped_p how many were said to be dropped. */
static int read_many(int *n_p, int *dropped_p)
{
    char *rest, *text = strdup(seen(OUT));
    int last = -1;

    ck_assert_ptr_nonnull(text);
    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        int number, dropped;

        if (sscanf(line, "hvd-elastic: warn: reader too slow -> %d lines",
                   &dropped) == 1) {
            *dropped_p += dropped;
            last += dropped;
            continue;
        }
        ck_assert_msg(sscanf(line, "[0]<stdout>:%d ", &number) == 1, "%s",
                      line);
        ck_assert_uint_eq(strlen(line), 12 + 8 + 90);
        ck_assert_int_gt(number, last);
        last = number;
        (*n_p)++;
    }
    free(text);
    return last;
}

/* Lines of a file with `words`; the first line, into *first. */
static int find_lines(const char *name, const char *words, char *first)
{
    char path[128], line[256];
    FILE *file;
    int n = 0;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(first, 256, file));
    while (fgets(line, sizeof(line), file))
        n += strstr(line, words) != NULL;
    fclose(file);
    return n;
}

/* A prefix is 12 bytes: the disk is full in the middle of the first line. */
START_TEST(output_stdout_on_a_disk_that_was_full_goes_on)
{
    char path[128], first[256];

    snprintf(path, sizeof(path), "%s/stdout", dir);
    config.out_fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(config.out_fd, 0);
    restart();
    signal(SIGXFSZ, SIG_IGN);
    limit_files(15);
    print(1, 0, OUT, "12345\n");
    while (writer_trouble(o.sinks[OUT].writer) == 0)
        usleep(1000);
    for (int i = 0; i < 200; i++)
        print_many(i * 1000, 1000); /* 22 MB */
    output_flush(&o);
    ck_assert_ptr_nonnull(
        strstr(logged, "stdout: File too large -> tried again"));
    limit_files(RLIM_INFINITY);
    ck_assert(output_drain(&o, LONG_MS));
    ck_assert_int_eq(find_lines("stdout", "File too large -> ", first), 1);
    ck_assert_str_eq(first, "[0]<stdout>:12345\n");
    close(config.out_fd);
}
END_TEST

START_TEST(output_slow_reader_gets_everything_later)
{
    int n = 0, dropped = 0;

    for (int i = 0; i < 20; i++)
        print_many(i * 1000, 1000); /* 2 MB into a pipe of 64 KB */
    ck_assert_uint_gt(waiting(OUT), 1 << 20);
    ck_assert_int_eq(read_many(&n, &dropped), 19999);
    ck_assert_int_eq(n, 20000);
    ck_assert_int_eq(dropped, 0);
    ck_assert_uint_eq(waiting(OUT), 0);
}
END_TEST

START_TEST(output_reader_that_stops_loses_the_oldest_lines_and_is_told)
{
    int n = 0, dropped = 0;

    for (int i = 0; i < 200; i++) {
        print_many(i * 1000, 1000); /* 22 MB */
        ck_assert_uint_le(waiting(OUT), OUTPUT_KEEP_MAX);
    }
    ck_assert_uint_le(o.sinks[OUT].max, 4 * OUTPUT_KEEP_MAX);
    ck_assert_int_eq(read_many(&n, &dropped), 199999);
    ck_assert_int_gt(n, 20000);
    ck_assert_int_gt(dropped, 100000);
}
END_TEST

START_TEST(output_progress_bars_of_a_stopped_reader_stay_bounded)
{
    static char text[60001];

    memset(text, '=', sizeof(text) - 1);
    for (size_t i = 99; i < sizeof(text); i += 100)
        text[i] = '\r';
    for (int i = 0; i < 200; i++) {
        print(1, 0, OUT, text);
        ck_assert_uint_le(waiting(OUT), OUTPUT_KEEP_MAX);
    }
    ck_assert_uint_gt(o.sinks[OUT].n_dropped, 0);
    ck_assert_uint_le(o.sinks[OUT].max, 4 * OUTPUT_KEEP_MAX);
}
END_TEST

START_TEST(output_reader_that_leaves_is_one_warning)
{
    close(fds[OUT][0]);
    print(1, 0, OUT, "x\n");
    print(1, 0, OUT, "y\n");
    print(1, 0, ERR, "z\n");
    fds[OUT][0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert(output_drain(&o, LONG_MS));
    ck_assert_uint_eq(waiting(OUT), 0);
    ck_assert_str_eq(seen(ERR), "[0]<stderr>:z\n");
    ck_assert_ptr_nonnull(strstr(logged, "Broken pipe -> no longer shown\n"));
    ck_assert_ptr_eq(strchr(logged, '\n'), logged + strlen(logged) - 1);
}
END_TEST

START_TEST(output_drain_ends_at_its_deadline)
{
    for (int i = 0; i < 10; i++)
        print_many(i * 1000, 1000);
    ck_assert_uint_gt(waiting(OUT), 0);
    ck_assert(!output_drain(&o, 10));
    ck_assert_uint_gt(waiting(OUT), 0);
}
END_TEST

START_TEST(output_lines_that_an_agent_has_dropped_count)
{
    static const struct {
        const char *bytes;
        size_t n;
    } cases[] = {
        {"", 0},
        {"a\nb", 1},
        {"a\n[hvd-agent: 25 lines dropped: the driver does not]\nb\n", 27},
        {"[0]<stdout>:[hvd-agent: 1 lines dropped: x]\n", 1},
        {"[hvd-agent: lines dropped]\n", 1},
        {"[hvd-agent: 0", 0},
        {"[hvd-agent: 99999999999999999999 lines]\n", 999999999},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        ck_assert_uint_eq(
            output_count_lines(cases[i].bytes, strlen(cases[i].bytes)),
            cases[i].n);
}
END_TEST

START_TEST(output_rank_width_holds_the_last_rank)
{
    ck_assert_uint_eq(output_rank_width(0), 1);
    ck_assert_uint_eq(output_rank_width(1), 1);
    ck_assert_uint_eq(output_rank_width(10), 1);
    ck_assert_uint_eq(output_rank_width(11), 2);
    ck_assert_uint_eq(output_rank_width(100), 2);
    ck_assert_uint_eq(output_rank_width(101), 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("output");
    TCase *tcase = tcase_create("output");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, output_lines_are_prefixed_with_rank_and_stream);
    tcase_add_test(tcase, output_of_a_newcomer_names_host_and_slot);
    tcase_add_test(tcase, output_unfinished_line_waits_for_its_end);
    tcase_add_test(tcase, output_carriage_return_ends_a_line);
    tcase_add_test(tcase, output_prompt_is_shown_and_continued);
    tcase_add_test(tcase, output_prompt_that_others_interrupt_is_ended_there);
    tcase_add_test(tcase, output_very_long_line_is_whole_unless_interrupted);
    tcase_add_test(tcase, output_timestamp_comes_first);
    tcase_add_test(tcase, output_tells_before_it_writes);
    tcase_add_test(tcase, output_files_per_rank_have_plain_lines);
    tcase_add_test(tcase, output_files_have_the_bytes_of_workers_and_no_others);
    tcase_add_test(tcase, output_directory_that_cannot_be_made_is_one_warning);
    tcase_add_test(tcase, output_file_says_what_it_lacks);
    tcase_add_test(tcase, output_line_cut_by_a_full_disk_is_ended);
    tcase_add_test(tcase, output_gap_in_the_middle_of_a_line_begins_a_line);
    tcase_add_test(tcase, output_what_a_file_lacks_is_told_at_the_end);
    tcase_add_test(tcase, output_stdout_on_a_disk_that_was_full_goes_on);
    tcase_add_test(tcase, output_same_file_twice_is_one_stream);
    tcase_add_test(tcase, output_forget_finishes_and_forgets);
    tcase_add_test(tcase, output_worker_whose_streams_have_ended_is_forgotten);
    tcase_add_test(tcase, output_slow_reader_gets_everything_later);
    tcase_add_test(tcase,
                   output_reader_that_stops_loses_the_oldest_lines_and_is_told);
    tcase_add_test(tcase,
                   output_progress_bars_of_a_stopped_reader_stay_bounded);
    tcase_add_test(tcase, output_reader_that_leaves_is_one_warning);
    tcase_add_test(tcase, output_drain_ends_at_its_deadline);
    tcase_add_test(tcase, output_lines_that_an_agent_has_dropped_count);
    tcase_add_test(tcase, output_rank_width_holds_the_last_rank);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
