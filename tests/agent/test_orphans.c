/* tests/agent/test_orphans.c - whose are the orphans? The processes here are
 * children of the test, with an environment that names a worker. The test
 * opens the files of /proc itself, so it can keep the reader of one waiting. */
#include "elastic/agent/orphans.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "support.h"

enum { PATIENCE_S = 60, N_CROWD = 200 };

static struct orphans *orphans;
static _Atomic pid_t mute;  /* a read of its environment waits */
static _Atomic pid_t empty; /* the first one finds nothing */
static _Atomic int n_kept;  /* reads that have begun to wait */
static _Atomic int n_environs;
static int door[2] = {-1, -1}; /* such a read waits for the end of this */

/* In front of that of the C library. */
FILE *fopen(const char *path, const char *mode)
{
    FILE *file = NULL;
    char byte;
    int pid, fd;

    if (sscanf(path, "/proc/%d/environ", &pid) == 1) {
        n_environs++;
        if (pid == mute) {
            n_kept++;
            ck_assert_int_eq(read(door[0], &byte, 1), 0);
        } else if (pid == empty) {
            empty = 0;
            path = "/dev/null";
        }
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        file = fdopen(fd, mode);
    return file;
}

static void setup(void)
{
    ck_assert_int_eq(pipe2(door, O_CLOEXEC), 0);
    orphans = orphans_create();
    ck_assert_ptr_nonnull(orphans);
}

static void teardown(void)
{
    close(door[1]);
    orphans_destroy(orphans);
    close(door[0]);
}

static pid_t start(const char *env)
{
    char *argv[] = {"sleep", "1000", NULL}, *envp[] = {(char *)env, NULL};
    int ready[2];
    char byte;
    pid_t pid;

    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        execve("/bin/sleep", argv, envp);
        _exit(1);
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 0); /* its exec is done */
    close(ready[0]);
    return pid;
}

/* A thread of the orphans kills this process, sooner or later. */
static void await_killed(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        orphans_tick(orphans, clock_now_us());
        usleep(1000);
    }
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGKILL);
}

static void end(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0); /* it lives */
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
}

START_TEST(end_kills_those_of_that_worker_alone)
{
    pid_t ours, others, nobodys;

    ck_assert(orphans_add(orphans, 1) && orphans_add(orphans, 2));
    others = start("HVD_WORKER=2");
    nobodys = start("HOME=/");
    ours = start("HVD_WORKER=1");
    orphans_end(orphans, 1);
    await_killed(ours);
    end(others);
    end(nobodys);
}
END_TEST

START_TEST(look_kills_one_that_came_after_the_end)
{
    pid_t early, late;

    ck_assert(orphans_add(orphans, 1));
    early = start("HVD_WORKER=1");
    orphans_end(orphans, 1);
    await_killed(early);
    late = start("HVD_WORKER=1");
    orphans_look(orphans, clock_now_us());
    await_killed(late);
}
END_TEST

/* Between two programs a process has no environment. */
START_TEST(look_is_repeated_where_there_is_no_environment)
{
    pid_t ours;

    ck_assert(orphans_add(orphans, 1));
    ours = start("HVD_WORKER=1");
    empty = ours;
    orphans_end(orphans, 1);
    await_killed(ours);
    ck_assert_int_ge(n_environs, 2);
}
END_TEST

/* However many live, and however often one of them ends: each is looked at
 * once, and again when a worker has ended. */
START_TEST(look_reads_each_process_once)
{
    pid_t crowd[N_CROWD], mark;

    ck_assert(orphans_add(orphans, 1));
    for (int i = 0; i < N_CROWD; i++)
        crowd[i] = start("HVD_WORKER=1");
    for (int i = 0; i < 10; i++) {
        mark = start("HVD_WORKER=9"); /* of no worker that lives */
        orphans_look(orphans, clock_now_us());
        await_killed(mark);
    }
    /* a thread that gets no processor for long is taken for one that is kept
     * waiting, and then all are looked at again */
    ck_assert_int_lt(n_environs, 3 * N_CROWD);
    orphans_end(orphans, 1);
    for (int i = 0; i < N_CROWD; i++)
        await_killed(crowd[i]);
}
END_TEST

START_TEST(process_that_cannot_be_read_keeps_no_other_alive)
{
    pid_t others;

    ck_assert(orphans_add(orphans, 1));
    mute = start("HVD_WORKER=1");
    orphans_end(orphans, 1);
    while (n_kept == 0)
        usleep(1000);
    others = start("HVD_WORKER=1"); /* its number is the higher one */
    orphans_look(orphans, clock_now_us());
    await_killed(others);
    ck_assert_int_eq(n_kept, 1);
    end(mute);
}
END_TEST

START_TEST(without_threads_nobody_is_looked_at)
{
    ck_assert(orphans_add(NULL, 1));
    orphans_look(NULL, 0);
    orphans_tick(NULL, 0);
    orphans_end(NULL, 1);
    orphans_destroy(NULL);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("agent orphans");
    TCase *tcase = tcase_create("orphans");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, PATIENCE_S);
    tcase_add_test(tcase, end_kills_those_of_that_worker_alone);
    tcase_add_test(tcase, look_kills_one_that_came_after_the_end);
    tcase_add_test(tcase, look_is_repeated_where_there_is_no_environment);
    tcase_add_test(tcase, look_reads_each_process_once);
    tcase_add_test(tcase, process_that_cannot_be_read_keeps_no_other_alive);
    tcase_add_test(tcase, without_threads_nobody_is_looked_at);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return support_run(suite_make());
}
