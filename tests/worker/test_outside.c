/* tests/worker/test_outside.c - public calls where they are refused whatever
 * their arguments: before hvd_init(), behind hvd_shutdown(), and in a forked
 * child. (Collectives: test_solo.c.) */
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include <hvd/hvd.h>

#include "support.h"

#define ok(call) ck_assert_int_eq((call), HVD_OK)

static bool is_member(int rank, int size, void *arg)
{
    (void)rank;
    (void)size;
    (void)arg;
    return true;
}

static bool is(hvd_status_t status, hvd_status_t wanted, const char *words)
{
    bool right = status == wanted && strstr(hvd_last_error(), words) != NULL;

    if (!right)
        fprintf(stderr, "%s: %s\n", hvd_strerror(status), hvd_last_error());
    return right;
}

/* Out-parameters are what they are for a call that has failed. */
static bool all_are_refused(hvd_status_t as, const char *words)
{
    hvd_comm_t *comm = (hvd_comm_t *)&words, *list = comm; /* not NULL */
    hvd_request_t *request = (hvd_request_t *)&words;
    const int self = 0;
    int fd = 0;

    return is(hvd_comm_create_by_rule(is_member, NULL, &comm), as, words) &&
           comm == NULL && is(hvd_comm_create(&self, 1, &list), as, words) &&
           list == NULL && is(hvd_event_fd(&fd), as, words) && fd == -1 &&
           is(hvd_barrier_with(NULL, &request), as, words) && request == NULL &&
           is(hvd_data_done(HVD_WORLD, NULL), as, words) &&
           is(hvd_confirm(), as, words) && is(hvd_device_set(0), as, words);
}

START_TEST(calls_before_init_and_behind_shutdown_are_refused)
{
    const char *words = "hvd_init was not called";

    ck_assert(all_are_refused(HVD_ERR_STATE, words));
    ok(hvd_init(NULL));
    ok(hvd_shutdown());
    ck_assert(all_are_refused(HVD_ERR_STATE, words));
}
END_TEST

/* The handle is the parent's, who destroys it. */
static int child_is_refused(const void *comm)
{
    hvd_comm_t *theirs = (hvd_comm_t *)(uintptr_t)comm;
    const char *words = "called in a forked child";

    return all_are_refused(HVD_ERR_INVALID, words) &&
                   is(hvd_comm_destroy(theirs), HVD_ERR_INVALID, words) &&
                   hvd_alloc(1) == NULL &&
                   strstr(hvd_last_error(), "forked child")
               ? 0
               : 1;
}

START_TEST(calls_in_a_forked_child_are_refused)
{
    const int self = 0;
    hvd_comm_t *comm;

    ok(hvd_init(NULL));
    ok(hvd_comm_create(&self, 1, &comm));
    ck_assert_int_eq(support_in_child(child_is_refused, comm), 0);
    ok(hvd_comm_destroy(comm));
    ok(hvd_shutdown());
}
END_TEST

START_TEST(shutdown_closes_the_event_fd)
{
    int fd, again;

    ok(hvd_init(NULL));
    ok(hvd_event_fd(&fd));
    ok(hvd_event_fd(&again));
    ck_assert_int_eq(fd, again);
    ck_assert_int_ne(fcntl(fd, F_GETFD), -1);
    ok(hvd_shutdown());
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}
END_TEST

START_TEST(device_info_is_there_before_init)
{
    hvd_device_info_t info = {.struct_size = sizeof(info), .device = 7};

    ok(hvd_device_info(&info));
    ck_assert_int_eq(info.device, -1);
    ck_assert(info.usable == (info.reason[0] == '\0'));
    info.struct_size = offsetof(hvd_device_info_t, device); /* an older one */
    info.device = 7;
    ok(hvd_device_info(&info));
    ck_assert_int_eq(info.device, 7);
    ck_assert(is(hvd_device_info(NULL), HVD_ERR_INVALID, "info is NULL"));
    info.struct_size = 0;
    ck_assert(is(hvd_device_info(&info), HVD_ERR_INVALID, "struct_size"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker outside");
    TCase *tcase = tcase_create("outside");

    tcase_add_test(tcase, calls_before_init_and_behind_shutdown_are_refused);
    tcase_add_test(tcase, calls_in_a_forked_child_are_refused);
    tcase_add_test(tcase, shutdown_closes_the_event_fd);
    tcase_add_test(tcase, device_info_is_there_before_init);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
