/* tests/base/test_verdict.c - one word, one sentence, whoever is first. */
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/verdict.h"
#include "support.h"

enum { THREADS = 8, ROUNDS = 200 };

static bool is_raised(const struct verdict *v)
{
    struct pollfd fd = {v->wake_fd, POLLIN, 0};

    return poll(&fd, 1, 0) == 1;
}

START_TEST(verdict_none_yet_all_is_well)
{
    const char *text = "?";
    struct verdict v;

    ck_assert_int_eq(verdict_init(&v), HVD_OK);
    ck_assert_int_eq(verdict_check(&v), HVD_OK);
    ck_assert_int_eq(verdict_status(&v, &text), HVD_OK);
    ck_assert_str_eq(text, "");
    ck_assert(!is_raised(&v));
    verdict_fini(&v);
    ck_assert_int_eq(v.wake_fd, -1);
    verdict_fini(&v);
}
END_TEST

START_TEST(verdict_first_one_counts)
{
    struct verdict v;

    ck_assert_int_eq(verdict_init(&v), HVD_OK);
    verdict_set(&v, HVD_PEER_LOST, "rank 3 is gone");
    ck_assert(is_raised(&v));
    ck_assert_int_eq(verdict_fail(&v, HVD_ERR_MISMATCH, "rank %d differs", 4),
                     HVD_PEER_LOST);
    ck_assert_str_eq(error_text(), "rank 3 is gone");
    error_clear();
    ck_assert_int_eq(verdict_check(&v), HVD_PEER_LOST);
    ck_assert_str_eq(error_text(), "rank 3 is gone");
    verdict_fini(&v);
}
END_TEST

struct racer {
    pthread_t thread;
    struct verdict *v;
    int number;
    char heard[ERROR_TEXT_MAX];
};

static void *race(void *arg)
{
    struct racer *r = arg;

    (void)verdict_fail(r->v, HVD_PEER_LOST, "rank %d", r->number);
    strcpy(r->heard, error_text());
    return NULL;
}

/* Whoever loses waits until the sentence of the winner is complete. */
START_TEST(verdict_of_many_threads_all_hear_one_sentence)
{
    struct racer racers[THREADS];
    struct verdict v;

    for (int round = 0; round < ROUNDS; round++) {
        ck_assert_int_eq(verdict_init(&v), HVD_OK);
        for (int i = 0; i < THREADS; i++) {
            racers[i] = (struct racer){.v = &v, .number = i};
            ck_assert_int_eq(
                pthread_create(&racers[i].thread, NULL, race, &racers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(racers[i].thread, NULL);
        for (int i = 0; i < THREADS; i++)
            ck_assert_str_eq(racers[i].heard, v.text);
        verdict_fini(&v);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verdict");
    TCase *tcase = tcase_create("verdict");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, verdict_none_yet_all_is_well);
    tcase_add_test(tcase, verdict_first_one_counts);
    tcase_add_test(tcase, verdict_of_many_threads_all_hear_one_sentence);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
