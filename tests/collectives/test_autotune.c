/* tests/collectives/test_autotune.c - ranks whose settings change while they
 * compute: all change at the same call, what they compute stays right, the
 * search ends, and the next rank 0 goes on from there. */
#include <sys/resource.h>
#include <unistd.h>

#include "base/random.h"
#include "collectives/autotune.h"
#include "named.h"

enum { RANKS = 3, LINES_MAX = 100, LINE_MAX = 200, STEPS_MAX = 30000 };

static char directory[] = "/tmp/hvd-autotune-XXXXXX";

/* --- the log --- */

struct log_line {
    char setting[64], verdict[16];
    int size;
};

static void log_path(int number, char *path)
{
    snprintf(path, 64, "%s/%d", directory, number);
}

static size_t read_log(int number, struct log_line *lines)
{
    char path[64], text[LINE_MAX];
    size_t n = 0;
    FILE *f;

    log_path(number, path);
    f = fopen(path, "re");
    while (f != NULL && n < LINES_MAX && fgets(text, sizeof(text), f) != NULL)
        if (sscanf(text, "%*f,%*d,%d,%63[^,],%*d,%*[^,],%*d,%*f,%*f,%15s",
                   &lines[n].size, lines[n].setting, lines[n].verdict) == 3)
            n++;
    if (f != NULL)
        fclose(f);
    return n;
}

static bool is_settled(int number)
{
    struct log_line lines[LINES_MAX];
    size_t n = read_log(number, lines);

    return n > 0 && strcmp(lines[n - 1].verdict, "settled") == 0;
}

/* --- steps --- */

static bool run_step(struct group *g, int rank, struct tensors *t,
                     struct random_state *random, int step)
{
    int first = (int)random_below(random, NAMES);

    for (int k = 0; k < NAMES; k++)
        EXPECT(post_tensor(g->comms[rank], t, (first + k) % NAMES, rank, step));
    for (int i = 0; i < NAMES; i++)
        EXPECT(wait_tensor(g, t, i, rank, step));
    return true;
}

/* Until rank 0 says so; *arg: which log is its. */
static bool run_until_settled(struct group *g, int rank, void *arg)
{
    struct random_state random = {.s = (uint64_t)rank};
    struct tensors t;
    float over = 0;
    int step = 0;

    alloc_tensors(&t);
    while (over == 0) {
        EXPECT(run_step(g, rank, &t, &random, step % 100));
        if (++step % 50 != 0)
            continue;
        EXPECT(step < STEPS_MAX);
        over = rank == 0 && is_settled(*(int *)arg);
        EXPECT(allreduce(g->comms[rank], &over, &over, 1, HVD_FLOAT32,
                         HVD_MAX) == HVD_OK);
    }
    /* what was settled by the last decision is told with the next round */
    EXPECT(run_step(g, rank, &t, &random, 0));
    free_tensors(&t);
    return true;
}

static void next_generation(struct group *g)
{
    for (int i = 0; i < g->size; i++)
        comm_destroy(g->comms[i]);
    g->generation++;
    for (int i = 0; i < g->size; i++)
        group_comm_create(g, i);
}

static void make_all(struct group *g)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
    for (int i = 0; i < RANKS; i++) {
        char path[64];
        struct autotune_config config = {.log = path, .window_us = 500};

        log_path(i, path);
        g->autotunes[i] = autotune_create(&config);
        ck_assert_ptr_nonnull(g->autotunes[i]);
    }
}

static void release_all(struct group *g)
{
    for (int i = 0; i < RANKS; i++) {
        char path[64];

        autotune_destroy(g->autotunes[i]);
        log_path(i, path);
        unlink(path);
    }
    rmdir(directory);
}

static void swap_first(struct group *g)
{
    struct autotune *first = g->autotunes[0];

    g->autotunes[0] = g->autotunes[1];
    g->autotunes[1] = first;
}

START_TEST(settles_and_is_handed_on)
{
    struct log_line first[LINES_MAX], second[LINES_MAX];
    int decider = 0;
    struct group g;
    size_t n;

    group_init(&g, RANKS);
    make_all(&g);
    next_generation(&g);
    group_run(&g, run_until_settled, &decider);
    swap_first(&g);
    decider = 1;
    next_generation(&g);
    group_run(&g, run_until_settled, &decider);
    group_fini(&g);
    n = read_log(0, first);
    ck_assert_uint_ge(n, 5 + 3 + 1); /* a contest for each value */
    ck_assert_int_eq(first[0].size, RANKS);
    ck_assert_uint_eq(read_log(1, second), 1);
    ck_assert_str_eq(second[0].setting, first[n - 1].setting);
    ck_assert_uint_eq(read_log(2, second), 0);
    release_all(&g);
}
END_TEST

/* --- what is told --- */

START_TEST(who_says_nothing_leaves_the_default)
{
    uint8_t told[AUTOTUNE_NBYTES];
    struct autotune_setting s;

    autotune_tell(NULL, told);
    s = autotune_hear(NULL, told, 1234);
    ck_assert_uint_eq(s.fusion_nbytes, 1234);
    ck_assert_int_eq(s.algorithm, ALGORITHM_AUTO);
}
END_TEST

/* Of another version, say: all values, known or not. */
START_TEST(any_byte_is_a_setting)
{
    for (int code = 0; code <= UINT8_MAX; code++) {
        const uint8_t told[AUTOTUNE_NBYTES] = {(uint8_t)code, (uint8_t)code};
        const struct autotune_config config = {0};
        struct autotune *a = autotune_create(&config);
        struct autotune_setting s;

        autotune_begin(a, 1, 2, false, true);
        s = autotune_hear(a, told, 77);
        ck_assert_uint_gt(s.fusion_nbytes, 0);
        ck_assert(algorithm_fits(COLLECTIVE_ALLREDUCE, s.algorithm));
        ck_assert_uint_ge(s.gather_us, s.follow_us);
        autotune_destroy(a);
    }
}
END_TEST

START_TEST(what_the_user_said_is_left)
{
    const struct autotune_config config = {.window_us = 1};
    struct autotune *a = autotune_create(&config);
    const struct name_id name = {1, 1};
    uint8_t told[AUTOTUNE_NBYTES];

    autotune_fix(a, true, true);
    autotune_begin(a, 1, 2, true, true);
    for (uint64_t now_us = 1; now_us < 10000000; now_us += 1000) {
        struct autotune_setting s;

        autotune_decided(a, now_us, &name, 100);
        autotune_tell(a, told);
        s = autotune_hear(a, told, 77);
        ck_assert_uint_eq(s.fusion_nbytes, 77);
        ck_assert_int_eq(s.algorithm, ALGORITHM_AUTO);
    }
    ck_assert_uint_eq(told[1] & 0x80, 0x80); /* settled */
    autotune_destroy(a);
}
END_TEST

static void decide_until_settled(struct autotune *a)
{
    const struct name_id name = {1, 1};

    autotune_begin(a, 1, 2, true, true);
    for (uint64_t now_us = 1; now_us < 10000000; now_us += 1000)
        autotune_decided(a, now_us, &name, 100);
}

START_TEST(log_that_cannot_be_written_is_let_go)
{
    const struct autotune_config config = {
        .log = _i == 0 ? "/nowhere/log" : "/dev/full", .window_us = 1};
    struct autotune *a = autotune_create(&config);

    decide_until_settled(a);
    autotune_destroy(a);
}
END_TEST

static void limit_files(rlim_t nbytes)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = nbytes;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* It is a megabyte long, and so is the limit: a write would be SIGXFSZ, which
 * ends the program. When the limit is lifted all lines are there. */
START_TEST(log_that_is_full_ends_nobody_and_is_written_later)
{
    char path[] = "/tmp/hvd-autotune-XXXXXX", text[LINE_MAX];
    const struct autotune_config config = {.log = path, .window_us = 1};
    int fd = mkstemp(path), n_lines = 0;
    struct autotune *a;
    FILE *file;

    ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
    limit_files(1 << 20);
    a = autotune_create(&config);
    decide_until_settled(a);
    ck_assert_int_eq(lseek(fd, 0, SEEK_END), 1 << 20);
    limit_files(RLIM_INFINITY);
    autotune_destroy(a);
    ck_assert_int_eq(lseek(fd, 1 << 20, SEEK_SET), 1 << 20);
    file = fdopen(fd, "r");
    while (fgets(text, sizeof(text), file) != NULL)
        n_lines++;
    ck_assert_int_ge(n_lines, 5 + 3 + 2 + 1);
    ck_assert_ptr_nonnull(strstr(text, "settled"));
    fclose(file);
    unlink(path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("autotune");
    TCase *tc = tcase_create("all");

    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, settles_and_is_handed_on);
    tcase_add_test(tc, who_says_nothing_leaves_the_default);
    tcase_add_test(tc, any_byte_is_a_setting);
    tcase_add_test(tc, what_the_user_said_is_left);
    tcase_add_loop_test(tc, log_that_cannot_be_written_is_let_go, 0, 3);
    tcase_add_test(tc, log_that_is_full_ends_nobody_and_is_written_later);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
