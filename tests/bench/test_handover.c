/* tests/bench/test_handover.c - a measurement begins when the processors are
 * near each other, and knows whether they have been far meanwhile. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/handover.h"
#include "bench/method.h"
#include "support.h"

static char directory[] = "/tmp/hvd-test-handover-XXXXXX";
static char path[sizeof(directory) + 8];
static struct handover_page *page;

static void setup(void)
{
    int fd;

    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/page", directory);
    fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_eq(ftruncate(fd, sizeof(*page)), 0);
    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
    close(fd);
}

static void teardown(void)
{
    munmap(page, sizeof(*page));
    unlink(path);
    ck_assert_int_eq(rmdir(directory), 0);
}

/* One look that finds them far, then they are near. */
static void *come_near(void *arg)
{
    atomic_fetch_add(&page->far, 1);
    atomic_store(&page->is_far, 0);
    return arg;
}

START_TEST(waits_until_they_are_near)
{
    pthread_t thread;

    setenv(HANDOVER_VARIABLE, path, 1);
    atomic_store(&page->is_far, 1);
    ck_assert_uint_eq(handover_far(), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, come_near, NULL), 0);
    handover_wait();
    ck_assert_uint_eq(atomic_load(&page->is_far), 0);
    ck_assert_uint_eq(handover_far(), 1);
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(nobody_watches)
{
    unsetenv(HANDOVER_VARIABLE);
    handover_wait();
    ck_assert_uint_eq(handover_far(), 0);
}
END_TEST

static int call(void *arg)
{
    atomic_fetch_add(&page->far, 1);
    return 0;
}

static int barrier(void *arg)
{
    return 0;
}

static int greatest(void *arg, int64_t *ns, size_t n)
{
    return 0;
}

START_TEST(figure_says_how_often_they_were_far)
{
    const struct method_ops ops = {barrier, call, greatest};
    const struct method_limits limits = {.calls_min = 3, .calls_max = 3};
    struct method_times times;

    setenv(HANDOVER_VARIABLE, path, 1);
    atomic_store(&page->far, 5);
    ck_assert_int_eq(method_measure(&ops, NULL, &limits, &times), 0);
    ck_assert_uint_eq(times.far, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("handover");
    TCase *tcase = tcase_create("handover");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, waits_until_they_are_near);
    tcase_add_test(tcase, nobody_watches);
    tcase_add_test(tcase, figure_says_how_often_they_were_far);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
