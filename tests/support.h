/* tests/support.h - what every test binary shares: a main() that refuses to
 * pass when no test ran (Check says "100%" then). */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <check.h>
#include <stdio.h>

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
