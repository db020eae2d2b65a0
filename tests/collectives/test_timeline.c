/* tests/collectives/test_timeline.c - records become the right events, none is
 * lost untold, and the ring bounds them all. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/tracefile.h"
#include "collectives/call.h"
#include "collectives/comm.h"
#include "support.h"
#include "timeline/text.h"
#include "timeline/timeline.h"

static char directory[64], path[128], own[128];

static void setup(void)
{
    strcpy(directory, "/tmp/hvd-timeline-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/t.json", directory);
    snprintf(own, sizeof(own), "%s/t.7.json", directory);
}

static void teardown(void)
{
    char command[128];

    timeline_close();
    snprintf(command, sizeof(command), "rm -r %s", directory);
    ck_assert_int_eq(system(command), 0);
}

static void open_timeline(void)
{
    struct timeline_config config = {.path = path,
                                     .job = 5,
                                     .worker = 7,
                                     .host = "h\"1",
                                     .slot = 2,
                                     .words = &call_words};

    ck_assert_int_eq(timeline_open(&config), HVD_OK);
}

/* ---- text ---------------------------------------------------------------- */

#define ALLREDUCE                                                      \
    .kind = COLLECTIVE_ALLREDUCE, .dtype = HVD_FLOAT32, .op = HVD_SUM, \
    .count = 4, .nbytes = 16
#define ARGS "\"args\":{\"bytes\":16,\"count\":4,\"dtype\":\"float32\""
#define SUM  ARGS ",\"op\":\"sum\"}}"

static const struct {
    struct timeline_record record;
    unsigned lane;
    const char *expected;
} texts[] = {
    {{.phase = TIMELINE_OPERATION, ALLREDUCE},
     LANE_CALLS,
     "{\"name\":\"ALLREDUCE\",\"ph\":\"X\",\"pid\":7,\"tid\":1,"
     "\"ts\":1234567.008,\"dur\":2.099," SUM},
    {{.phase = TIMELINE_OPERATION, ALLREDUCE, .algorithm = "ring"},
     20,
     "{\"name\":\"ALLREDUCE\",\"ph\":\"X\",\"pid\":7,\"tid\":20,"
     "\"ts\":1234567.008,\"dur\":2.099," ARGS ",\"op\":\"sum\","
     "\"algorithm\":\"ring\"}}"},
    {{.phase = TIMELINE_TRANSPORT, ALLREDUCE, .algorithm = "ring"},
     LANE_CALLS,
     "{\"name\":\"ring\",\"ph\":\"X\",\"pid\":7,\"tid\":1,"
     "\"ts\":1234567.008,\"dur\":2.099," SUM},
    {{.phase = TIMELINE_NEGOTIATE, ALLREDUCE},
     LANE_CALLS,
     "{\"name\":\"NEGOTIATE_ALLREDUCE\",\"ph\":\"X\",\"pid\":7,\"tid\":1,"
     "\"ts\":1234567.008,\"dur\":2.099," SUM},
    {{.phase = TIMELINE_QUEUE, ALLREDUCE},
     20,
     "{\"name\":\"QUEUE\",\"ph\":\"X\",\"pid\":7,\"tid\":20,"
     "\"ts\":1234567.008,\"dur\":2.099," SUM},
    /* in the lane of all, where they overlap */
    {{.phase = TIMELINE_QUEUE, ALLREDUCE},
     LANE_CALLS,
     "{\"name\":\"QUEUE\",\"ph\":\"b\",\"cat\":\"queue\",\"id\":1234567008,"
     "\"pid\":7,\"tid\":1,\"ts\":1234567.008," SUM ",\n"
     "{\"name\":\"QUEUE\",\"ph\":\"e\",\"cat\":\"queue\",\"id\":1234567008,"
     "\"pid\":7,\"tid\":1,\"ts\":1234569.107," SUM},
    {{.phase = TIMELINE_OPERATION,
      .kind = COLLECTIVE_BROADCAST,
      .dtype = HVD_INT64,
      .count = 1,
      .nbytes = 8},
     LANE_CALLS,
     "{\"name\":\"BROADCAST\",\"ph\":\"X\",\"pid\":7,\"tid\":1,"
     "\"ts\":1234567.008,\"dur\":2.099,"
     "\"args\":{\"bytes\":8,\"count\":1,\"dtype\":\"int64\"}}"},
    {{.phase = TIMELINE_OPERATION, .kind = COLLECTIVE_BARRIER},
     LANE_CALLS,
     "{\"name\":\"BARRIER\",\"ph\":\"X\",\"pid\":7,\"tid\":1,"
     "\"ts\":1234567.008,\"dur\":2.099,\"args\":{}}"},
    {{.phase = TIMELINE_MEMCPY_IN},
     LANE_CALLS,
     "{\"name\":\"MEMCPY_IN_FUSION_BUFFER\",\"ph\":\"X\",\"pid\":7,\"tid\":1,"
     "\"ts\":1234567.008,\"dur\":2.099,\"args\":{}}"},
    {{.phase = TIMELINE_OPERATION, .kind = 200},
     LANE_CALLS,
     "{\"name\":\"OPERATION\",\"ph\":\"X\",\"pid\":7,\"tid\":1,"
     "\"ts\":1234567.008,\"dur\":2.099,\"args\":{}}"},
    {{.phase = TIMELINE_GENERATION_BEGIN,
      .generation = 3,
      .rank = 0,
      .size = 4},
     LANE_ELASTIC,
     "{\"name\":\"GENERATION 3\",\"ph\":\"B\",\"pid\":7,\"tid\":2,"
     "\"ts\":1234569.107,"
     "\"args\":{\"generation\":3,\"rank\":0,\"size\":4}}"},
    {{.phase = TIMELINE_GENERATION_END, .generation = 3},
     LANE_ELASTIC,
     "{\"name\":\"GENERATION 3\",\"ph\":\"E\",\"pid\":7,\"tid\":2,"
     "\"ts\":1234569.107,\"args\":{\"generation\":3}}"},
    {{.phase = TIMELINE_COMMIT},
     LANE_ELASTIC,
     "{\"name\":\"COMMIT\",\"ph\":\"X\",\"pid\":7,\"tid\":2,"
     "\"ts\":1234567.008,\"dur\":2.099,\"args\":{}}"},
    {{.phase = TIMELINE_SYNC, .nbytes = 100},
     LANE_ELASTIC,
     "{\"name\":\"SYNC\",\"ph\":\"X\",\"pid\":7,\"tid\":2,"
     "\"ts\":1234567.008,\"dur\":2.099,\"args\":{\"bytes\":100}}"},
    {{.phase = TIMELINE_PEER_LOST, .text = "a\"b\\\n\xff"},
     LANE_ELASTIC,
     "{\"name\":\"PEER_LOST\",\"ph\":\"i\",\"pid\":7,\"tid\":2,"
     "\"ts\":1234569.107,\"s\":\"p\","
     "\"args\":{\"text\":\"a\\\"b\\\\\\n\xef\xbf\xbd\"}}"},
};

START_TEST(timeline_text_of_record)
{
    struct timeline_record r = texts[_i].record;
    char out[TIMELINE_EVENTS_MAX];
    size_t n;

    r.start_ns = 1234567008;
    r.end_ns = 1234569107;
    n = timeline_text(&r, &call_words, 7, texts[_i].lane, out);
    ck_assert_uint_lt(n, sizeof(out));
    out[n] = '\0';
    ck_assert_str_eq(out, texts[_i].expected);
}
END_TEST

/* Every record is as long as it can be. */
START_TEST(timeline_text_longest_fits)
{
    struct timeline_record r;
    char out[TIMELINE_EVENTS_MAX], host[400];
    size_t n_lane;

    memset(&r, 0xff, sizeof(r));
    r.algorithm = "an algorithm with a long name";
    r.rank = r.size = INT32_MAX;
    memset(r.text, 1, sizeof(r.text) - 1);
    r.text[sizeof(r.text) - 1] = '\0';
    n_lane = timeline_text_lane(UINT64_MAX, UINT32_MAX, r.text, out);
    ck_assert_uint_lt(n_lane, TRACEFILE_EVENT_MAX);
    for (unsigned phase = 0; phase < TIMELINE_PHASES; phase++) {
        r.phase = (uint8_t)phase;
        ck_assert_uint_lt(
            timeline_text(&r, &call_words, UINT64_MAX, LANE_CALLS, out),
            TRACEFILE_EVENTS_MAX - n_lane - 2);
    }
    memset(host, 1, sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    ck_assert_uint_lt(
        timeline_text_process(UINT64_MAX, host, 7, UINT64_MAX, out),
        TRACEFILE_EVENT_MAX);
}
END_TEST

/* ---- looking at files ---------------------------------------------------- */

/* All parts of the file, one behind the other. */
static char *read_all(void)
{
    char part[PATH_MAX], *text = NULL;
    size_t n = 0, max = 0;

    for (unsigned i = 0; tracefile_part(own, i, part); i++) {
        FILE *file = fopen(part, "r");
        struct stat st;

        if (!file)
            break;
        ck_assert_int_eq(fstat(fileno(file), &st), 0);
        ck_assert(array_reserve(&text, &max, n + (size_t)st.st_size + 1));
        n += fread(text + n, 1, (size_t)st.st_size, file);
        text[n] = '\0';
        fclose(file);
    }
    ck_assert_ptr_nonnull(text);
    return text;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;

    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

/* The sum of what all DROPPED spans say. */
static uint64_t dropped(const char *text)
{
    const char *key = "{\"records\":";
    uint64_t sum = 0;

    while ((text = strstr(text, key))) {
        text += strlen(key);
        sum += strtoull(text, NULL, 10);
    }
    return sum;
}

/* ---- recording ----------------------------------------------------------- */

static void record_one(const char *name)
{
    struct timeline_call call = {.kind = COLLECTIVE_ALLREDUCE, .name = name};

    timeline_call(TIMELINE_OPERATION, timeline_call_clock(),
                  timeline_call_clock(), &call);
}

START_TEST(timeline_off_does_nothing)
{
    ck_assert(!timeline_on());
    ck_assert_uint_eq(timeline_clock(), 0);
    ck_assert_uint_eq(timeline_call_clock(), 0);
    record_one(NULL);
    timeline_elastic(TIMELINE_COMMIT, 0, NULL);
    timeline_close();
    timeline_forked();
    open_timeline();
    timeline_close();
    ck_assert(!timeline_on());
    record_one(NULL);
    {
        char *text = read_all();

        ck_assert_uint_eq(count(text, "ALLREDUCE"), 0);
        ck_assert_uint_eq(count(text, "DROPPED"), 0);
        ck_assert_uint_eq(count(text, "worker 7 (h\\\"1:2)"), 1);
        ck_assert_uint_eq(count(text, "\"job\":\"5\""), 1);
        free(text);
    }
}
END_TEST

START_TEST(timeline_names_have_lanes)
{
    char name[64], *text;

    open_timeline();
    record_one("weights");
    record_one("bias");
    record_one(NULL);
    record_one("weights");
    for (int i = 0; i < 1000; i++) { /* more than the table takes */
        snprintf(name, sizeof(name), "n%d", i);
        record_one(name);
    }
    timeline_elastic(TIMELINE_COMMIT, timeline_clock(), NULL);
    timeline_close();
    text = read_all();
    ck_assert_uint_eq(count(text, "ALLREDUCE"), 1004);
    ck_assert_uint_eq(count(text, "\"args\":{\"name\":\"weights\"}"), 1);
    ck_assert_uint_eq(count(text, "\"tid\":16,\"ts\""), 2);
    ck_assert_uint_eq(count(text, "\"tid\":17,\"ts\""), 1);
    ck_assert_uint_eq(count(text, "\"tid\":2,\"ts\""), 1);
    ck_assert_uint_eq(count(text, "\"tid\":1,\"ts\""), 1 + 1000 - 510);
    free(text);
}
END_TEST

/* Faster than the ring is emptied: told, and what is rare is all there. */
START_TEST(timeline_flood_is_counted_and_drowns_nothing)
{
    enum { CALLS = 200000, RARE = 100 };
    char *text;

    open_timeline();
    for (int i = 0; i < CALLS; i++) {
        record_one(NULL);
        if (i % (CALLS / RARE) == 0)
            timeline_elastic(TIMELINE_COMMIT, timeline_clock(), NULL);
    }
    timeline_close();
    text = read_all();
    ck_assert_uint_eq(count(text, "COMMIT"), RARE);
    ck_assert_uint_ge(count(text, "ALLREDUCE"), TIMELINE_RECORDS_MAX * 7 / 8);
    ck_assert_uint_gt(dropped(text), 0);
    ck_assert_uint_eq(count(text, "ALLREDUCE") + dropped(text), CALLS);
    free(text);
}
END_TEST

enum { THREADS = 4, EACH = 20000 };

static void *record_many(void *arg)
{
    for (int i = 0; i < EACH; i++)
        record_one(arg);
    return NULL;
}

START_TEST(timeline_many_threads_lose_nothing_untold)
{
    static const char *const names[THREADS] = {"a", "b", "c", "d"};
    pthread_t threads[THREADS];
    char *text;

    open_timeline();
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, record_many,
                                        (void *)(uintptr_t)names[i]),
                         0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    timeline_close();
    text = read_all();
    ck_assert_uint_eq(count(text, "ALLREDUCE") + dropped(text), THREADS * EACH);
    free(text);
}
END_TEST

START_TEST(timeline_opens_again)
{
    char *text;

    for (int i = 0; i < 3; i++) {
        open_timeline();
        record_one("again");
        timeline_close();
        text = read_all();
        ck_assert_uint_eq(count(text, "ALLREDUCE"), 1);
        ck_assert_uint_eq(count(text, "\"tid\":16,\"ts\""), 1);
        free(text);
    }
}
END_TEST

START_TEST(timeline_without_a_directory_stays_off)
{
    struct timeline_config config = {
        .path = "/nowhere/at/all.json", .worker = 7, .host = "h"};

    ck_assert_int_eq(timeline_open(&config), HVD_ERR_SYSTEM);
    ck_assert(!timeline_on());
    timeline_close();
}
END_TEST

/* No part is so small; check(3)'s own file is. */
enum { LIMIT = 100000 };

static void limit_files(rlim_t nbytes)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = nbytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* From the start, as a limit has no room for a part. The ring overflows
 * meanwhile: that is told in the file when it can be written. */
START_TEST(timeline_waits_for_a_full_disk)
{
    enum { CALLS = 3 * TIMELINE_RECORDS_MAX };
    char *text;

    limit_files(LIMIT);
    open_timeline();
    ck_assert(timeline_on());
    for (int i = 0; i < CALLS; i++)
        record_one("early");
    ck_assert_int_eq(access(own, F_OK), -1);
    limit_files(RLIM_INFINITY);
    while (access(own, F_OK) != 0)
        poll(NULL, 0, 1);
    timeline_close();
    text = read_all();
    ck_assert_uint_ge(count(text, "ALLREDUCE"), TIMELINE_RECORDS_MAX * 7 / 8);
    ck_assert_uint_gt(dropped(text), 0);
    ck_assert_uint_eq(count(text, "ALLREDUCE") + dropped(text), CALLS);
    ck_assert_uint_ge(count(text, "\"args\":{\"name\":\"early\"}"), 1);
    free(text);
}
END_TEST

/* In the middle of a part, beyond which the limit lets nothing be written. */
START_TEST(timeline_goes_on_when_there_is_room_again)
{
    enum { CALLS = 3 * TIMELINE_RECORDS_MAX };
    uint64_t n = 0;
    char *text;

    open_timeline();
    limit_files(LIMIT);
    for (int i = 0; i < CALLS; i++)
        record_one("while");
    while (n == 0) {
        text = read_all();
        n = count(text, "ALLREDUCE");
        free(text);
    }
    ck_assert_uint_lt(n, 2 * LIMIT / 200);
    limit_files(RLIM_INFINITY);
    while (n < TIMELINE_RECORDS_MAX / 2) {
        text = read_all();
        n = count(text, "ALLREDUCE");
        free(text);
    }
    timeline_close();
    text = read_all();
    ck_assert_uint_eq(count(text, "ALLREDUCE") + dropped(text), CALLS);
    free(text);
}
END_TEST

/* It ends in time all the same, and twice. */
START_TEST(timeline_on_a_disk_that_stays_full_ends)
{
    char *text;

    limit_files(LIMIT);
    open_timeline();
    record_one("lost");
    timeline_close();
    ck_assert_int_eq(access(own, F_OK), -1);
    limit_files(RLIM_INFINITY);
    open_timeline();
    record_one("kept");
    timeline_close();
    text = read_all();
    ck_assert_uint_eq(count(text, "ALLREDUCE"), 1);
    ck_assert_uint_eq(count(text, "kept"), 1);
    free(text);
}
END_TEST

/* Without memory of its own to ask for: the writing thread may have held a lock
 * of the allocator when the child was made (glibc takes its own before a fork,
 * libasan of gcc 12 does not). */
static int count_fds(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) != -1;
    return n;
}

static int let_go(int n_before)
{
    timeline_forked();
    record_one("child");
    timeline_close();
    return !timeline_on() && count_fds() == n_before ? 0 : 1;
}

START_TEST(timeline_forked_child_lets_go)
{
    int n_before = count_fds(), status;
    pid_t pid;
    char *text;

    open_timeline();
    ck_assert_int_eq(count_fds(), n_before + 1);
    pid = fork();
    if (pid == 0)
        _exit(let_go(n_before));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    record_one("parent");
    timeline_close();
    ck_assert_int_eq(count_fds(), n_before);
    text = read_all();
    ck_assert_uint_eq(count(text, "child"), 0);
    ck_assert_uint_eq(count(text, "ALLREDUCE"), 1);
    free(text);
}
END_TEST

/* Whatever number an unopened file might seem to have. */
static int keep_stdin(const void *arg)
{
    (void)arg;
    timeline_forked();
    return fcntl(STDIN_FILENO, F_GETFD) == -1;
}

START_TEST(timeline_off_closes_nothing_in_a_forked_child)
{
    ck_assert_int_eq(dup2(open("/dev/null", O_RDONLY), STDIN_FILENO),
                     STDIN_FILENO);
    ck_assert_int_eq(support_in_child(keep_stdin, NULL), 0);
}
END_TEST

/* A program that returns from main without hvd_shutdown. */
START_TEST(timeline_is_written_at_exit)
{
    int status;
    pid_t pid = fork();
    char *text;

    if (pid == 0) {
        open_timeline();
        record_one(NULL);
        exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    text = read_all();
    ck_assert_uint_eq(count(text, "ALLREDUCE"), 1);
    free(text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("timeline");
    TCase *c = tcase_create("timeline");

    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, timeline_text_of_record, 0, ARRAY_SIZE(texts));
    tcase_add_test(c, timeline_text_longest_fits);
    tcase_add_test(c, timeline_off_does_nothing);
    tcase_add_test(c, timeline_names_have_lanes);
    tcase_add_test(c, timeline_flood_is_counted_and_drowns_nothing);
    tcase_add_test(c, timeline_many_threads_lose_nothing_untold);
    tcase_add_test(c, timeline_opens_again);
    tcase_add_test(c, timeline_without_a_directory_stays_off);
    tcase_add_test(c, timeline_waits_for_a_full_disk);
    tcase_add_test(c, timeline_goes_on_when_there_is_room_again);
    tcase_add_test(c, timeline_on_a_disk_that_stays_full_ends);
    tcase_add_test(c, timeline_forked_child_lets_go);
    tcase_add_test(c, timeline_off_closes_nothing_in_a_forked_child);
    tcase_add_test(c, timeline_is_written_at_exit);
    suite_add_tcase(suite, c);
    return support_run(suite);
}
