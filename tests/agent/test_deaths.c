/* tests/agent/test_deaths.c - the deaths of many processes, by one thread or by
 * one for each. The processes are children of the test. */
#include "elastic/agent/deaths.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/array.h"
#include "support.h"

/* More than one thread can wait for; a thread for each. */
enum { N_MANY = 150, N_FEW = 20, PATIENCE_MS = 30000 };

static struct deaths *deaths;
static pid_t pids[N_MANY];
static int n_pids;
static pid_t holder; /* the one that has come last */

static void setup(void)
{
    n_pids = 0;
    deaths = NULL; /* not every case makes one */
}

static void teardown(void)
{
    deaths_destroy(deaths);
    for (int i = 0; i < n_pids; i++)
        kill(pids[i], SIGKILL);
    while (wait(NULL) > 0)
        continue;
}

/* The only thread of that process holds it. */
static void hold_in_child(int fd, int ready_fd)
{
    pid_t pid = getpid();

    if (!robust_lock(robust_attach(fd)) ||
        write(ready_fd, &pid, sizeof(pid)) != sizeof(pid))
        _exit(1);
    while (1)
        pause();
}

/* Process i, as worker i + 1; below: it holds the lock in a child of its own.
 * Its lock is watched before it takes it, or after that. */
static void start(bool below, bool before)
{
    struct robust *robust;
    int fd, ready[2];
    pid_t pid;

    ck_assert_int_eq(robust_create(&robust, &fd), HVD_OK);
    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        if (below && fork() != 0)
            while (1)
                pause();
        hold_in_child(fd, ready[1]);
    }
    pids[n_pids++] = pid;
    if (before)
        ck_assert(deaths_watch(deaths, (uint64_t)n_pids, pid, robust));
    ck_assert_int_eq(read(ready[0], &holder, sizeof(holder)), sizeof(holder));
    if (!before)
        ck_assert(deaths_watch(deaths, (uint64_t)n_pids, pid, robust));
    close(fd);
    close(ready[0]);
    close(ready[1]);
}

static struct death await(void)
{
    struct pollfd fd = {.fd = deaths_fd(deaths), .events = POLLIN};
    struct death death;

    while (!deaths_next(deaths, &death))
        ck_assert_int_eq(poll(&fd, 1, PATIENCE_MS), 1);
    return death;
}

static void expect_none(void)
{
    struct death death;

    ck_assert(!deaths_next(deaths, &death));
}

START_TEST(death_is_told_once)
{
    struct death death;

    deaths = deaths_create(_i == 1);
    start(false, true);
    start(false, false); /* so it is seen, however late the thread looks */
    start(false, true);
    expect_none();
    ck_assert_int_eq(kill(pids[1], SIGKILL), 0);
    death = await();
    ck_assert_uint_eq(death.worker, 2);
    ck_assert(death.direct);
    expect_none();
    deaths_forget(deaths, 2);
    ck_assert_int_eq(kill(pids[2], SIGKILL), 0);
    ck_assert_uint_eq(await().worker, 3);
    expect_none();
}
END_TEST

/* In any order, and while others come and go. */
START_TEST(deaths_of_many_are_told)
{
    int n = _i == 1 ? N_FEW : N_MANY;

    deaths = deaths_create(_i == 1);
    for (int i = 0; i < n; i++)
        start(false, i % 2 == 0);
    for (int i = 0; i < n; i += 3)
        deaths_forget(deaths, (uint64_t)i + 1);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(kill(pids[i], SIGKILL), 0);
        if (i % 3 != 0)
            ck_assert_uint_eq(await().worker, (uint64_t)i + 1);
    }
    expect_none();
}
END_TEST

/* A process below a script, which ends by itself. */
START_TEST(death_of_a_grandchild_is_told_as_such)
{
    struct death death;

    deaths = deaths_create(_i == 1);
    start(true, true);
    ck_assert_int_eq(kill(holder, SIGKILL), 0);
    death = await();
    ck_assert_uint_eq(death.worker, 1);
    ck_assert(!death.direct);
}
END_TEST

START_TEST(without_memory_nobody_is_watched)
{
    struct robust *robust;
    struct death death;
    int fd;

    ck_assert_int_eq(robust_create(&robust, &fd), HVD_OK);
    ck_assert(!deaths_watch(NULL, 1, getpid(), robust));
    ck_assert(!deaths_next(NULL, &death));
    deaths_forget(NULL, 1);
    deaths_destroy(NULL);
    ck_assert_int_eq(deaths_fd(NULL), -1);
    close(fd);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("agent deaths");
    TCase *tcase = tcase_create("deaths");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, death_is_told_once, 0, 2);
    tcase_add_loop_test(tcase, deaths_of_many_are_told, 0, 2);
    tcase_add_loop_test(tcase, death_of_a_grandchild_is_told_as_such, 0, 2);
    tcase_add_test(tcase, without_memory_nobody_is_watched);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return support_run(suite_make());
}
