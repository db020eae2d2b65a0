/* tests/base/test_thread.c - which signals a thread of ours can get. */
#include <signal.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/thread.h"
#include "support.h"

static void *ask_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

static void get_mask(sigset_t *mask_p)
{
    pthread_t thread;

    ck_assert_int_eq(thread_start(&thread, "mask", ask_mask, mask_p), 0);
    pthread_join(thread, NULL);
}

START_TEST(what_is_sent_to_the_program_is_blocked)
{
    static const int sent[] = {SIGTERM, SIGINT,  SIGHUP, SIGCHLD,
                               SIGALRM, SIGUSR1, SIGPIPE};
    sigset_t mask;

    get_mask(&mask);
    for (size_t i = 0; i < ARRAY_SIZE(sent); i++)
        ck_assert_int_eq(sigismember(&mask, sent[i]), 1);
}
END_TEST

static void block_only(int sig)
{
    sigset_t own;

    sigemptyset(&own);
    sigaddset(&own, sig);
    pthread_sigmask(SIG_SETMASK, &own, NULL);
}

START_TEST(mask_of_who_starts_it_stays)
{
    sigset_t after;

    block_only(SIGUSR2);
    get_mask(&after);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    ck_assert_int_eq(sigismember(&after, SIGUSR2), 1);
    ck_assert_int_eq(sigismember(&after, SIGTERM), 0);
}
END_TEST

/* One of its threads waits for it. */
START_TEST(what_the_program_blocks_is_blocked)
{
    sigset_t mask;

    block_only(SIGABRT);
    get_mask(&mask);
    ck_assert_int_eq(sigismember(&mask, SIGABRT), 1);
    ck_assert_int_eq(sigismember(&mask, SIGSEGV), 0);
}
END_TEST

static void report(int sig)
{
    _Exit(sig == SIGSEGV ? 42 : 43);
}

static void *fault(void *arg)
{
    (void)raise(SIGSEGV);
    return arg;
}

/* The program's handler, which says where it was. */
START_TEST(fault_is_reported)
{
    pthread_t thread;

    (void)signal(SIGSEGV, report);
    ck_assert_int_eq(thread_start(&thread, "fault", fault, NULL), 0);
    pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("thread");
    TCase *tcase = tcase_create("thread");

    tcase_add_test(tcase, what_is_sent_to_the_program_is_blocked);
    tcase_add_test(tcase, mask_of_who_starts_it_stays);
    tcase_add_test(tcase, what_the_program_blocks_is_blocked);
    tcase_add_exit_test(tcase, fault_is_reported, 42);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
