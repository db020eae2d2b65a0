/* tests/collectives/test_descriptors.c - how many descriptors a comm needs, and
 * what becomes of the limit, in children with limits of their own. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "collectives/descriptors.h"
#include "support.h"

static const struct need {
    size_t size, n_here, connections;
    bool shares;
    size_t least, most;
} needs[] = {
    {2, 2, 1, true, 24, 24},       {2, 2, 1, false, 21, 22},
    {224, 224, 1, true, 912, 912}, {8, 4, 1, true, 38, 46},
    {8, 4, 4, true, 38, 67},       {4096, 8, 1, true, 72, 8238},
    {4096, 1, 1, true, 44, 8210},
};

START_TEST(need_by_size_and_hosts)
{
    const struct need *n = &needs[_i];
    struct descriptors_need got = descriptors_needed(n->size, n->n_here,
                                                     n->shares, n->connections);

    ck_assert_uint_eq(got.least, n->least);
    ck_assert_uint_eq(got.most, n->most);
    ck_assert_uint_lt(got.least, 1024 - 64); /* the usual limit */
}
END_TEST

static const struct limit {
    rlim_t soft, hard;
    struct descriptors_need need;
    hvd_status_t status;
    rlim_t at_least, at_most; /* the soft one then */
    int newest;
} limits[] = {
    {500, 500, {100, 100}, HVD_OK, 500, 500, 5},
    {500, 500, {100, 100}, HVD_OK, 500, 500, -1},
    {500, 500, {100, 1000}, HVD_OK, 500, 500, 5},
    {500, 500, {1000, 1000}, HVD_ERR_SYSTEM, 500, 500, 5},
    {100, 500, {200, 300}, HVD_OK, 300, 400, 5},
    {100, 500, {60, 60}, HVD_OK, 100, 100, -1},
    {100, 500, {200, 2000}, HVD_OK, 500, 500, 5},
    {100, 500, {600, 600}, HVD_ERR_SYSTEM, 100, 100, -1},
};

static int under(const void *arg)
{
    const struct limit *l = arg;
    struct rlimit limit = {l->soft, l->hard};
    hvd_status_t status;
    size_t room = 0;

    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    status = descriptors_reserve("who", l->need, l->newest, &room);
    getrlimit(RLIMIT_NOFILE, &limit);
    if (status == HVD_ERR_SYSTEM && (strncmp(error_text(), "who: ", 5) != 0 ||
                                     !strstr(error_text(), "500")))
        return 3;
    if (status == HVD_OK && (room < l->need.least || room > l->need.most))
        return 4;
    return status != l->status || limit.rlim_cur < l->at_least ||
           limit.rlim_cur > l->at_most || limit.rlim_max != l->hard;
}

START_TEST(soft_limit_is_raised_as_far_as_needed)
{
    int status = support_in_child(under, &limits[_i]);

    ck_assert_msg(status == 0, "wait status %x", (unsigned)status);
}
END_TEST

/* A program that has opened files up to the limit, and a comm that was smaller:
 * it leaves a gap of low numbers. */
static int with_a_gap(const void *ignored)
{
    const struct descriptors_need need = {50, 50};
    struct rlimit limit = {300, 500};
    size_t room;
    int first = open("/dev/null", O_RDONLY);

    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 2;
    while (dup(first) >= 0)
        continue;
    for (int i = 1; i <= 10; i++)
        close(first + i);
    if (descriptors_reserve("who", need, dup(first), &room) != HVD_OK)
        return 3;
    for (int i = 0; i < 50; i++)
        if (dup(first) < 0)
            return 4;
    return room != 50;
}

/* As many as it says can be opened, and no more. */
static int with_little_room(const void *ignored)
{
    const struct descriptors_need need = {50, 5000};
    struct rlimit limit = {100, 400};
    size_t room, n = 0;

    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        descriptors_reserve("who", need, -1, &room) != HVD_OK)
        return 2;
    while (dup(STDERR_FILENO) >= 0)
        n++;
    return n != room;
}

START_TEST(room_is_what_can_be_opened)
{
    int status = support_in_child(with_little_room, NULL);

    ck_assert_msg(status == 0, "wait status %x", (unsigned)status);
}
END_TEST

START_TEST(room_is_not_taken_for_a_gap)
{
    int status = support_in_child(with_a_gap, NULL);

    ck_assert_msg(status == 0, "wait status %x", (unsigned)status);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("descriptors");
    TCase *tc = tcase_create("descriptors");

    tcase_add_loop_test(tc, need_by_size_and_hosts, 0, (int)ARRAY_SIZE(needs));
    tcase_add_loop_test(tc, soft_limit_is_raised_as_far_as_needed, 0,
                        (int)ARRAY_SIZE(limits));
    tcase_add_test(tc, room_is_not_taken_for_a_gap);
    tcase_add_test(tc, room_is_what_can_be_opened);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
