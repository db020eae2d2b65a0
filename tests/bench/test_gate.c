/* tests/bench/test_gate.c - nobody is through before all have come. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/gate.h"
#include "support.h"

enum { RANKS = 3, ROUNDS = 500 };

static char directory[] = "/tmp/hvd-test-gate-XXXXXX";
static char path[sizeof(directory) + 8];
static _Atomic int *came; /* [ROUNDS], shared */

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/gate", directory);
    came = mmap(NULL, ROUNDS * sizeof(*came), PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(came, MAP_FAILED);
}

static void teardown(void)
{
    munmap(came, ROUNDS * sizeof(*came));
    unlink(path);
    ck_assert_int_eq(rmdir(directory), 0);
}

/* The status of a process that finds who is missing: 1. */
static int run_rank(bool yields)
{
    if (gate_open(path, RANKS, yields) != 0)
        return 2;
    for (int i = 0; i < ROUNDS; i++) {
        came[i]++;
        if (gate_pass() != 0)
            return 3;
        if (came[i] != RANKS)
            return 1;
    }
    return 0;
}

START_TEST(gate_waits_for_all)
{
    for (int rank = 0; rank < RANKS; rank++) {
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0)
            _exit(run_rank(true));
    }
    for (int rank = 0; rank < RANKS; rank++) {
        int status = -1;

        ck_assert_int_gt(wait(&status), 0);
        ck_assert(WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), 0);
    }
}
END_TEST

START_TEST(gate_nobody_opened_is_open)
{
    ck_assert_int_eq(gate_pass(), 0);
}
END_TEST

START_TEST(gate_without_a_file_says_why)
{
    ck_assert_int_eq(gate_open("/no/such/directory/gate", 1, true), ENOENT);
    ck_assert_int_eq(gate_pass(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gate");
    TCase *tcase = tcase_create("gate");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, gate_waits_for_all);
    tcase_add_test(tcase, gate_nobody_opened_is_open);
    tcase_add_test(tcase, gate_without_a_file_says_why);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
