/* tests/worker/test_solo.c - a program started by hand is a world of one: the
 * public calls, through the library as a user links it. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hvd/hvd.h>

#include "support.h"

enum { USER_CODE = -1001 };

static hvd_state_t *state;
static uint64_t counter, n_resets, n_calls;

static void set_up(void)
{
    counter = n_resets = n_calls = 0;
    ck_assert_int_eq(hvd_init(), HVD_OK);
    state = hvd_state_create();
    ck_assert_ptr_nonnull(state);
    ck_assert_int_eq(hvd_state_add(state, "counter", &counter, sizeof(counter)),
                     HVD_OK);
}

static void tear_down(void)
{
    hvd_state_destroy(state);
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
}

START_TEST(calls_before_init_are_refused)
{
    uint64_t x = 1;

    ck_assert_int_eq(hvd_rank(), -1);
    ck_assert_int_eq(hvd_size(), 0);
    ck_assert_int_eq(hvd_allreduce(&x, &x, 1, HVD_INT64, HVD_SUM),
                     HVD_ERR_STATE);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "hvd_init"));
    ck_assert_int_eq(hvd_join_world(), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
    hvd_request_drain();
    hvd_busy(10);
}
END_TEST

START_TEST(init_alone_is_a_world_of_one)
{
    ck_assert_int_eq(hvd_rank(), 0);
    ck_assert_int_eq(hvd_size(), 1);
    ck_assert_int_eq(hvd_local_rank(), 0);
    ck_assert_int_eq(hvd_local_size(), 1);
    ck_assert_int_eq(hvd_cross_rank(), 0);
    ck_assert_int_eq(hvd_cross_size(), 1);
    ck_assert_int_eq(hvd_slot(), 0);
    ck_assert_uint_eq(hvd_generation(), 1);
    ck_assert_int_eq(hvd_init(), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_abi_version(), 1);
    ck_assert_int_eq(hvd_join_world(), HVD_OK);
}
END_TEST

static bool is_member(int rank, int size, void *arg)
{
    return *(bool *)arg && rank < size;
}

static hvd_status_t sum_in(hvd_comm_t *comm, uint64_t flags)
{
    hvd_collective_args_t args = HVD_COLLECTIVE_ARGS_INIT;
    hvd_request_t *request;
    float x = 3;
    hvd_status_t status;

    args.sendbuf = args.recvbuf = &x;
    args.count = 1;
    args.comm = comm;
    args.name = "x";
    args.flags = flags;
    status = hvd_collective_post(&args, &request);
    return status == HVD_OK ? hvd_wait(request) : status;
}

static void refuse(const int *ranks, int n, const char *words)
{
    hvd_comm_t *comm;

    ck_assert_int_eq(hvd_comm_create(ranks, n, &comm), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), words));
    ck_assert_ptr_null(comm);
}

START_TEST(process_set_of_a_list)
{
    const int self = 0, other = 1, twice[] = {0, 0};
    hvd_comm_t *comm;

    ck_assert_int_eq(hvd_comm_create(&self, 1, NULL), HVD_ERR_INVALID);
    refuse(NULL, 1, "1 ranks");
    refuse(&self, 0, "0 ranks");
    refuse(&other, 1, "rank 1 in a world of 1");
    refuse(twice, 2, "twice");
    ck_assert_int_eq(hvd_comm_create(&self, 1, &comm), HVD_OK);
    ck_assert_int_eq(hvd_comm_rank(comm), 0);
    ck_assert_int_eq(hvd_comm_size(comm), 1);
    ck_assert_int_eq(sum_in(comm, 0), HVD_OK);
    ck_assert_int_eq(sum_in(comm, HVD_COLLECTIVE_BY_NAME), HVD_OK);
    ck_assert_int_eq(hvd_comm_destroy(comm), HVD_OK);
    ck_assert_int_eq(hvd_comm_destroy(NULL), HVD_OK);
}
END_TEST

START_TEST(process_set_by_rule)
{
    bool yes = true, no = false;
    hvd_comm_t *comm, *none;

    ck_assert_int_eq(hvd_comm_create_by_rule(NULL, NULL, &comm),
                     HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_comm_create_by_rule(is_member, &yes, NULL),
                     HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_comm_create_by_rule(is_member, &yes, &comm), HVD_OK);
    ck_assert_int_eq(hvd_comm_create_by_rule(is_member, &no, &none), HVD_OK);
    ck_assert_int_eq(sum_in(comm, 0), HVD_OK);
    ck_assert_int_eq(hvd_comm_rank(none), -1);
    ck_assert_int_eq(hvd_comm_size(none), 0);
    ck_assert_int_eq(sum_in(none, 0), HVD_ERR_INVALID);
    ck_assert_str_eq(hvd_last_error(), "hvd_collective_post: comm: this rank "
                                       "is not in the process set");
    ck_assert_int_eq(hvd_comm_destroy(none), HVD_OK);
    /* the other one is hvd_shutdown's */
}
END_TEST

START_TEST(collectives_alone_copy)
{
    const size_t one = 1, zero = 0;
    float in = 3, out = 0;

    ck_assert_int_eq(hvd_allreduce(&in, &out, 1, HVD_FLOAT32, HVD_AVERAGE),
                     HVD_OK);
    ck_assert(out == in);
    out = 0;
    ck_assert_int_eq(hvd_allgather(&in, &out, 1, HVD_FLOAT32), HVD_OK);
    ck_assert(out == in);
    out = 0;
    ck_assert_int_eq(hvd_reduce_scatter(&in, &out, 1, HVD_FLOAT32, HVD_SUM),
                     HVD_OK);
    ck_assert(out == in);
    out = 0;
    ck_assert_int_eq(hvd_alltoall(&in, &out, 1, HVD_FLOAT32), HVD_OK);
    ck_assert(out == in);
    out = 0;
    ck_assert_int_eq(hvd_allgatherv(&in, 1, &out, &one, &zero, HVD_FLOAT32),
                     HVD_OK);
    ck_assert(out == in);
    out = 0;
    ck_assert_int_eq(
        hvd_alltoallv(&in, &one, &zero, &out, &one, &zero, HVD_FLOAT32),
        HVD_OK);
    ck_assert(out == in);
    ck_assert_int_eq(hvd_broadcast(&out, 1, HVD_FLOAT32, 0), HVD_OK);
    ck_assert_int_eq(hvd_broadcast(&out, 1, HVD_FLOAT32, 1), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_barrier(), HVD_OK);
    ck_assert_int_eq(hvd_state_sync(state), HVD_OK);
}
END_TEST

START_TEST(posted_alone_is_complete)
{
    hvd_collective_args_t args = HVD_COLLECTIVE_ARGS_INIT;
    hvd_request_t *requests[3];
    float in = 3, out = 0, again = 0;
    const size_t count = 1;
    const void *send = &in;
    void *recv = &again;
    bool done = false;

    ck_assert_int_eq(hvd_allreduce_async(&in, &out, 1, HVD_FLOAT32, HVD_SUM,
                                         "gradient", &requests[0]),
                     HVD_OK);
    ck_assert_int_eq(hvd_test(requests[0], &done), HVD_OK);
    ck_assert(done && out == 3);
    ck_assert_int_eq(hvd_grouped_allreduce_async(1, &send, &recv, &count,
                                                 HVD_FLOAT32, HVD_MAX, NULL,
                                                 &requests[1]),
                     HVD_OK);
    args.sendbuf = &in;
    args.recvbuf = &in;
    args.count = 1;
    args.postscale = 0.5;
    ck_assert_int_eq(hvd_collective_post(&args, &requests[2]), HVD_OK);
    ck_assert_int_eq(hvd_wait_all(3, requests), HVD_OK);
    ck_assert(again == 3 && in == 1.5f);
    ck_assert_ptr_null(requests[2]);
    ck_assert_int_eq(hvd_wait(NULL), HVD_OK);
    ck_assert_int_eq(hvd_test(NULL, &done), HVD_OK);
    ck_assert(done);
    ck_assert_int_eq(hvd_test(NULL, NULL), HVD_ERR_INVALID);
}
END_TEST

static void *post_elsewhere(void *arg)
{
    hvd_request_t *request;
    hvd_status_t status = hvd_collective_post(arg, &request);

    return status == HVD_OK && hvd_wait(request) == HVD_OK ? arg : NULL;
}

START_TEST(by_name_alone_is_complete_from_any_thread)
{
    hvd_collective_args_t args = HVD_COLLECTIVE_ARGS_INIT;
    float in[2] = {3, 4}, out[2] = {0};
    const void *sends[] = {&in[0], &in[1]};
    void *recvs[] = {&out[0], &out[1]}, *result;
    const size_t counts[] = {1, 1};
    hvd_request_t *request;
    pthread_t thread;

    args.flags = HVD_COLLECTIVE_BY_NAME;
    args.name = "gradients";
    args.count = 5; /* of a group it is not looked at */
    args.n_tensors = 2;
    args.sendbufs = sends;
    args.recvbufs = recvs;
    args.tensor_counts = counts;
    ck_assert_int_eq(hvd_collective_post(&args, &request), HVD_OK);
    ck_assert_int_eq(hvd_wait(request), HVD_OK);
    ck_assert(out[0] == 3 && out[1] == 4);
    in[0] = 7;
    ck_assert_int_eq(pthread_create(&thread, NULL, post_elsewhere, &args), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, &args);
    ck_assert(out[0] == 7);
    args.prescale = 0.5;
    ck_assert_int_eq(hvd_collective_post(&args, &request), HVD_OK);
    ck_assert_int_eq(hvd_wait(request), HVD_OK);
    ck_assert(out[0] == 3.5F && out[1] == 2);
    args.dtype = HVD_INT32;
    ck_assert_int_eq(hvd_collective_post(&args, &request), HVD_ERR_INVALID);
}
END_TEST

struct placing {
    float place[4];
    hvd_status_t said[3];
    hvd_request_t *other;
};

static void *call_while_placing(void *arg, const size_t *counts, int size)
{
    struct placing *p = arg;
    float x = 1;

    p->said[0] = hvd_allreduce(&x, &x, 1, HVD_FLOAT32, HVD_SUM);
    p->said[1] = sum_in(NULL, HVD_COLLECTIVE_BY_NAME);
    p->said[2] = hvd_wait(p->other);
    return p->place;
}

START_TEST(place_functions_call_nothing_that_waits)
{
    struct placing p = {.other = NULL};
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    hvd_collective_args_t args = HVD_COLLECTIVE_ARGS_INIT;
    hvd_request_t *request;

    ck_assert_int_eq(
        hvd_allreduce_async(x, y, 4, HVD_FLOAT32, HVD_SUM, NULL, &p.other),
        HVD_OK);
    args.kind = HVD_COLLECTIVE_ALLGATHERV;
    args.sendbuf = x;
    args.count = 4;
    args.place = call_while_placing;
    args.place_arg = &p;
    ck_assert_int_eq(hvd_collective_post(&args, &request), HVD_OK);
    ck_assert_int_eq(hvd_wait(request), HVD_OK);
    ck_assert_int_eq(hvd_wait(p.other), HVD_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(p.said[i], HVD_ERR_STATE);
    ck_assert_int_eq(memcmp(p.place, x, sizeof(x)), 0);
}
END_TEST

static void assert_refused(const hvd_collective_args_t *args, const char *field)
{
    hvd_request_t *request = (hvd_request_t *)args; /* not NULL */

    ck_assert_int_eq(hvd_collective_post(args, &request), HVD_ERR_INVALID);
    ck_assert_ptr_null(request);
    ck_assert_msg(strstr(hvd_last_error(), field), "%s", hvd_last_error());
}

START_TEST(descriptor_fields_of_the_future_are_refused)
{
    struct {
        hvd_collective_args_t args;
        uint64_t newer;
    } big = {.args = HVD_COLLECTIVE_ARGS_INIT, .newer = 1};
    hvd_collective_args_t args = HVD_COLLECTIVE_ARGS_INIT;
    hvd_request_t *request;

    assert_refused(NULL, "args");
    args.comm = (hvd_comm_t *)&args;
    assert_refused(&args, "comm");
    args.comm = NULL;
    args.memory = 3;
    assert_refused(&args, "memory");
    args.memory = -1;
    assert_refused(&args, "memory");
    args.memory = 0;
    args.flags = 32;
    assert_refused(&args, "flags");
    args.flags = 0;
    args.struct_size = 8;
    assert_refused(&args, "struct_size");
    big.args.struct_size = sizeof(big);
    assert_refused(&big.args, "newer");
    big.newer = 0;
    big.args.kind = HVD_COLLECTIVE_BARRIER;
    ck_assert_int_eq(hvd_collective_post(&big.args, &request), HVD_OK);
    ck_assert_int_eq(hvd_wait(request), HVD_OK);
    ck_assert_int_eq(hvd_collective_post(&args, NULL), HVD_ERR_INVALID);
}
END_TEST

static hvd_status_t count_to_ten(hvd_state_t *s, void *arg)
{
    while (counter < 10) {
        counter++;
        HVD_TRY(hvd_state_commit(s));
    }
    return HVD_OK;
}

START_TEST(run_alone_trains_and_commits)
{
    ck_assert_int_eq(hvd_elastic_run(state, count_to_ten, NULL), HVD_OK);
    ck_assert_uint_eq(counter, 10);
    ck_assert_uint_ge(hvd_state_version(state), 11);
    /* finished state: the function returns at once */
    ck_assert_int_eq(hvd_elastic_run(state, count_to_ten, NULL), HVD_OK);
}
END_TEST

static hvd_status_t lose_once(hvd_state_t *s, void *arg)
{
    if (n_calls++ == 0) {
        counter = 5;
        HVD_TRY(hvd_state_commit(s));
        counter = 99;
        return HVD_PEER_LOST;
    }
    ck_assert_uint_eq(counter, 5);
    return HVD_OK;
}

static void count_resets(const hvd_reset_info_t *info, void *arg)
{
    ck_assert_int_eq(info->reason, HVD_RESET_PEER_LOST);
    ck_assert_int_eq(info->size, 1);
    ck_assert_int_eq(info->committed_size, 1);
    n_resets++;
}

START_TEST(run_alone_lost_restores_and_resets)
{
    ck_assert_int_eq(hvd_state_on_reset(state, count_resets, NULL), HVD_OK);
    ck_assert_int_eq(hvd_elastic_run(state, lose_once, NULL), HVD_OK);
    ck_assert_uint_eq(n_calls, 2);
    ck_assert_uint_eq(n_resets, 1);
    ck_assert_uint_eq(hvd_generation(), 2);
}
END_TEST

static hvd_status_t give_up(hvd_state_t *s, void *arg)
{
    ck_assert_int_eq(hvd_shutdown(), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_elastic_run(s, give_up, NULL), HVD_ERR_STATE);
    return (hvd_status_t)USER_CODE;
}

START_TEST(run_alone_user_code_passes_through)
{
    ck_assert_int_eq((int)hvd_elastic_run(state, give_up, NULL), USER_CODE);
    ck_assert_int_eq(hvd_elastic_run(state, NULL, NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_elastic_run(NULL, give_up, NULL), HVD_ERR_INVALID);
}
END_TEST

static hvd_status_t drain_oneself(hvd_state_t *s, void *arg)
{
    ck_assert_int_eq(hvd_state_check_host_updates(s), HVD_OK);
    counter = 7;
    hvd_request_drain();
    return hvd_state_check_host_updates(s);
}

START_TEST(run_alone_drained_commits_and_is_removed)
{
    ck_assert_int_eq(hvd_elastic_run(state, drain_oneself, NULL), HVD_REMOVED);
    counter = 0;
    ck_assert_int_eq(hvd_state_restore(state), HVD_OK);
    ck_assert_uint_eq(counter, 7);
}
END_TEST

START_TEST(forked_child_is_refused)
{
    hvd_request_t *request, *none;
    int status;
    pid_t pid;

    ck_assert_int_eq(hvd_barrier_async(NULL, &request), HVD_OK);
    pid = fork();
    if (pid == 0)
        _exit(hvd_state_commit(state) == HVD_ERR_INVALID &&
                      hvd_barrier() == HVD_ERR_INVALID &&
                      hvd_wait(request) == HVD_ERR_INVALID &&
                      hvd_barrier_async(NULL, &none) == HVD_ERR_INVALID &&
                      hvd_init() == HVD_ERR_INVALID
                  ? 0
                  : 1);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(hvd_wait(request), HVD_OK);
    ck_assert_int_eq(hvd_barrier(), HVD_OK);
}
END_TEST

START_TEST(init_bad_environment_names_the_variable)
{
    setenv("HVD_DRIVER", "tcp://127.0.0.1:1", 1);
    setenv("HVD_JOB", "1", 1);
    setenv("HVD_WORKER", "one", 1);
    ck_assert_int_eq(hvd_init(), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "HVD_WORKER"));
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "\"one\""));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker solo");
    TCase *outside = tcase_create("outside"), *inside = tcase_create("inside");

    tcase_add_test(outside, calls_before_init_are_refused);
    tcase_add_test(outside, init_bad_environment_names_the_variable);
    suite_add_tcase(suite, outside);
    tcase_add_checked_fixture(inside, set_up, tear_down);
    tcase_add_test(inside, init_alone_is_a_world_of_one);
    tcase_add_test(inside, process_set_of_a_list);
    tcase_add_test(inside, process_set_by_rule);
    tcase_add_test(inside, collectives_alone_copy);
    tcase_add_test(inside, posted_alone_is_complete);
    tcase_add_test(inside, by_name_alone_is_complete_from_any_thread);
    tcase_add_test(inside, place_functions_call_nothing_that_waits);
    tcase_add_test(inside, descriptor_fields_of_the_future_are_refused);
    tcase_add_test(inside, run_alone_trains_and_commits);
    tcase_add_test(inside, run_alone_lost_restores_and_resets);
    tcase_add_test(inside, run_alone_user_code_passes_through);
    tcase_add_test(inside, run_alone_drained_commits_and_is_removed);
    tcase_add_test(inside, forked_child_is_refused);
    suite_add_tcase(suite, inside);
    return support_run(suite);
}
