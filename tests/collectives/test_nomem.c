/* tests/collectives/test_nomem.c - a comm for which there is no memory: the
 * n-th allocation of its creation fails (meson.build wraps calloc). */
#include <fcntl.h>

#include "group.h"

enum { NEVER = -1, ALLOCATIONS_MAX = 100 };

static int n_until_failure = NEVER;

void *__real_calloc(size_t n, size_t nbytes);
void *__wrap_calloc(size_t n, size_t nbytes);

void *__wrap_calloc(size_t n, size_t nbytes)
{
    if (n_until_failure == 0) {
        n_until_failure = NEVER;
        return NULL;
    }
    n_until_failure -= n_until_failure > 0;
    return __real_calloc(n, nbytes);
}

static hvd_status_t create(struct group *g, int fails)
{
    struct comm_config config = {.endpoint = g->endpoints[0],
                                 .job = GROUP_JOB,
                                 .generation = g->generation,
                                 .size = g->size,
                                 .peers = g->peers,
                                 .connect_timeout_us = 10000000};
    hvd_status_t status;

    n_until_failure = fails;
    status = comm_create(&config, &g->comms[0]);
    n_until_failure = NEVER;
    return status;
}

/* A file under the number that a zeroed row has. */
static void take_number_zero(void)
{
    int fd = open("/dev/null", O_RDONLY);

    ck_assert_int_ge(fd, 0);
    if (fd != 0) {
        ck_assert_int_eq(dup2(fd, 0), 0);
        close(fd);
    }
}

START_TEST(comm_without_memory_says_so_and_closes_nothing)
{
    hvd_status_t status = HVD_ERR_NOMEM;
    int fails = 0, before;
    struct group g;

    take_number_zero();
    group_init_over(&g, 3, COMM_CAN_ALL, COMM_ORDINARY_MEASURED);
    comm_destroy(g.comms[0]);
    g.comms[0] = NULL;
    before = count_fds();
    for (; status != HVD_OK && fails < ALLOCATIONS_MAX; fails++) {
        status = create(&g, fails);
        ck_assert(status == HVD_OK || status == HVD_ERR_NOMEM ||
                  status == HVD_ERR_SYSTEM);
        ck_assert_int_ne(fcntl(0, F_GETFD), -1);
        ck_assert(status == HVD_OK || count_fds() == before);
    }
    ck_assert_int_eq(status, HVD_OK);
    ck_assert_int_gt(fails, 10);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nomem");
    TCase *tc = tcase_create("nomem");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, comm_without_memory_says_so_and_closes_nothing);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
