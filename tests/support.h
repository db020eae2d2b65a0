/* tests/support.h - what test binaries share: a main() that refuses to pass
 * when no test ran (Check says "100%" then), and children. */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <check.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Check writes every place that an assertion has passed to a file, which is
 * most of the time of tests that assert in loops. Here each place is written
 * once in a test: if that crashes, what is shown is the last one that was new.
 */
static inline void support_mark(const char *file, int line)
{
    enum { LINES = 4096 };
    static atomic_bool marked[LINES];

    if (line < LINES &&
        atomic_load_explicit(&marked[line], memory_order_relaxed))
        return;
    if (line < LINES)
        atomic_store_explicit(&marked[line], true, memory_order_relaxed);
    (_mark_point)(file, line);
}

#define _mark_point(file, line) support_mark(file, line)

/* Call fn in a forked child, which ends with what it returns: its wait status.
 */
static inline int support_in_child(int (*fn)(const void *arg), const void *arg)
{
    pid_t pid = fork();
    int status = -1;

    if (pid == 0)
        _exit(fn(arg));
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static inline int support_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int n_run, n_failed;

    srunner_run_all(runner, CK_ENV);
    n_run = srunner_ntests_run(runner);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (n_run == 0)
        fprintf(stderr, "no test ran\n");
    return n_run > 0 && n_failed == 0 ? 0 : 1;
}

#endif
