/* tests/bench/test_gate.c - nobody is through before all have come, and they
 * agree on when that was. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/gate.h"
#include "bench/method.h"
#include "support.h"

enum { RANKS = 3, ROUNDS = 500 };

static char directory[] = "/tmp/hvd-test-gate-XXXXXX";
static char path[sizeof(directory) + 8];

static struct round {
    _Atomic int came;
    _Atomic int64_t opened_ns;
} * rounds; /* [ROUNDS], shared */

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/gate", directory);
    rounds = mmap(NULL, ROUNDS * sizeof(*rounds), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(rounds, MAP_FAILED);
}

static void teardown(void)
{
    munmap(rounds, ROUNDS * sizeof(*rounds));
    unlink(path);
    ck_assert_int_eq(rmdir(directory), 0);
}

/* What is wrong, as the status of a process. */
static int run_rank(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct round *round = &rounds[i];
        int64_t opened_ns, other = 0;

        atomic_fetch_add(&round->came, 1);
        if (gate_pass(&opened_ns) != 0)
            return 2;
        if (atomic_load(&round->came) != RANKS)
            return 3; /* somebody is missing */
        if (opened_ns > method_now_ns())
            return 4;
        if (!atomic_compare_exchange_strong(&round->opened_ns, &other,
                                            opened_ns) &&
            other != opened_ns)
            return 5; /* another moment */
    }
    return 0;
}

START_TEST(gate_waits_for_all)
{
    ck_assert_int_eq(gate_open(path, RANKS, _i), 0);
    for (int rank = 0; rank < RANKS; rank++) {
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0)
            _exit(run_rank());
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
    int64_t before_ns = method_now_ns(), opened_ns = 0;

    ck_assert_int_eq(gate_pass(&opened_ns), 0);
    ck_assert_int_ge(opened_ns, before_ns);
}
END_TEST

START_TEST(gate_used_file_is_refused)
{
    int64_t opened_ns;

    ck_assert_int_eq(gate_open(path, 1, true), 0);
    ck_assert_int_eq(gate_pass(&opened_ns), 0);
    ck_assert_int_eq(gate_open(path, 1, true), EEXIST);
}
END_TEST

START_TEST(gate_without_a_file_says_why)
{
    ck_assert_int_eq(gate_open("/no/such/directory/gate", 1, true), ENOENT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gate");
    TCase *tcase = tcase_create("gate");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, gate_waits_for_all, 0, 2);
    tcase_add_test(tcase, gate_used_file_is_refused);
    tcase_add_test(tcase, gate_nobody_opened_is_open);
    tcase_add_test(tcase, gate_without_a_file_says_why);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
