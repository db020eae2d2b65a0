/* tests/collectives/test_nomem.c - what cannot be had: memory for a comm, whose
 * n-th allocation fails, and memory or a thread for a call (meson.build wraps
 * the functions). */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>

#include "posted.h"

enum { NEVER = -1, ALLOCATIONS_MAX = 100 };

static __thread int n_until_failure = NEVER;

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

/* --- of one rank, for a call --- */

enum { LARGE_NBYTES = 1 << 20 };

static __thread bool lacks_memory, lacks_threads;

void *__real_malloc(size_t nbytes);
void *__wrap_malloc(size_t nbytes);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*main)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*main)(void *), void *arg);

void *__wrap_malloc(size_t nbytes)
{
    return lacks_memory && nbytes >= LARGE_NBYTES ? NULL
                                                  : __real_malloc(nbytes);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*main)(void *), void *arg)
{
    return lacks_threads ? EAGAIN
                         : __real_pthread_create(thread, attr, main, arg);
}

/* As the training function returns it: the run loop ends the generation. */
static bool leave(struct comm *comm)
{
    comm_leave(comm, COMM_LEAVE_ABORT, 0);
    return true;
}

/* They are connected, so that rank 0 need not be there to be asked. */
static bool call_without_memory(struct group *g, int rank, void *arg)
{
    size_t count = LARGE_NBYTES / sizeof(float);
    float *send = calloc(2 * count, sizeof(*send));
    float *recv = calloc(count, sizeof(*recv));
    struct collective_args args = sum_args(send, recv, count);
    hvd_status_t status;

    args.kind = COLLECTIVE_REDUCE_SCATTER;
    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    lacks_memory = rank == 0;
    status = comm_run(g->comms[rank], &args);
    lacks_memory = false;
    free(send);
    free(recv);
    EXPECT_SAY(status == (rank == 0 ? HVD_ERR_NOMEM : HVD_PEER_LOST), "%d",
               status);
    EXPECT(rank != 0 || text_has("bytes of scratch"));
    return rank != 0 || leave(g->comms[0]);
}

/* Its peer has begun. */
static bool call_without_threads(struct group *g, int rank, void *arg)
{
    struct hvd_request *request;
    float x = 1;

    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    if (rank == 0) {
        lacks_threads = true;
        EXPECT(post_sum(g->comms[0], &x, 1, &request) == HVD_ERR_SYSTEM);
        lacks_threads = false;
        EXPECT(text_has("the progress thread: "));
        EXPECT(comm_status(g->comms[0], NULL) == HVD_OK);
        return leave(g->comms[0]);
    }
    EXPECT(allreduce(g->comms[1], &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
           HVD_PEER_LOST);
    return true;
}

START_TEST(rank_that_lacks_something_is_lost_to_the_others)
{
    struct group g;

    group_init_over(&g, 2, 0, COMM_ORDINARY_MEASURED);
    group_run(&g, _i == 0 ? call_without_memory : call_without_threads, NULL);
    group_fini(&g);
}
END_TEST

static bool call_when_there_is_one_again(struct group *g, int rank, void *arg)
{
    struct hvd_request *request;
    float x = (float)(rank + 1);

    lacks_threads = true;
    EXPECT(post_sum(g->comms[rank], &x, 1, &request) == HVD_ERR_SYSTEM);
    lacks_threads = false;
    EXPECT(post_sum(g->comms[rank], &x, 1, &request) == HVD_OK);
    while (!request_test(request)) /* the thread runs it, not this one */
        sched_yield();
    EXPECT(request_wait(request) == HVD_OK);
    EXPECT(x == sum_of(g, 1));
    return true;
}

START_TEST(call_that_lacked_a_thread_may_be_repeated)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, call_when_there_is_one_again, NULL);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nomem");
    TCase *tc = tcase_create("nomem");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, comm_without_memory_says_so_and_closes_nothing);
    tcase_add_loop_test(tc, rank_that_lacks_something_is_lost_to_the_others, 0,
                        2);
    tcase_add_test(tc, call_that_lacked_a_thread_may_be_repeated);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
