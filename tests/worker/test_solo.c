/* tests/worker/test_solo.c - a program started by hand is a world of one: the
 * public calls, through the library as a user links it. */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hvd/hvd.h>

#include "made.h"
#include "support.h"

enum { USER_CODE = -1001 };

static hvd_state_t *state;
static uint64_t counter, n_resets, n_calls;

static void set_up(void)
{
    counter = n_resets = n_calls = 0;
    ck_assert_int_eq(hvd_init(NULL), HVD_OK);
    state = made_state();
    ck_assert_ptr_nonnull(state);
    ck_assert_int_eq(hvd_state_add(state, "counter", &counter, sizeof(counter)),
                     HVD_OK);
}

static void tear_down(void)
{
    hvd_state_destroy(state);
    ck_assert_int_eq(hvd_shutdown(), HVD_OK);
}

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
    ck_assert_int_eq(hvd_init(NULL), HVD_ERR_STATE);
    ck_assert_int_eq(hvd_version(), HVD_VERSION_CODE);
    ck_assert_int_eq(hvd_world_start(), HVD_OK);
}
END_TEST

static bool is_member(int rank, int size, void *arg)
{
    return *(bool *)arg && rank < size;
}

/* key NULL: in order */
static hvd_status_t sum_in(hvd_comm_t *comm, const char *key)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    hvd_request_t *request;
    float x = 3;

    options.comm = comm;
    options.key = key;
    HVD_TRY(hvd_allreduce_with(&x, &x, 1, HVD_FLOAT32, HVD_SUM, &options,
                               &request));
    return hvd_wait(&request);
}

static void refuse(const int *ranks, int n, const char *words)
{
    hvd_comm_t *comm;

    ck_assert_int_eq(hvd_comm_create(ranks, n, &comm), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), words));
    ck_assert_ptr_null(comm);
}

START_TEST(communicator_of_a_list)
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
    ck_assert_int_eq(hvd_comm_rank(HVD_WORLD), 0);
    ck_assert_int_eq(hvd_comm_size(HVD_WORLD), 1);
    ck_assert_int_eq(sum_in(comm, NULL), HVD_OK);
    ck_assert_int_eq(sum_in(comm, "x"), HVD_OK);
    ck_assert_int_eq(hvd_comm_destroy(comm), HVD_OK);
    ck_assert_int_eq(hvd_comm_destroy(NULL), HVD_OK);
}
END_TEST

START_TEST(communicator_by_rule)
{
    bool yes = true, no = false;
    hvd_comm_t *comm, *none;

    ck_assert_int_eq(hvd_comm_create_by_rule(NULL, NULL, &comm),
                     HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_comm_create_by_rule(is_member, &yes, NULL),
                     HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_comm_create_by_rule(is_member, &yes, &comm), HVD_OK);
    ck_assert_int_eq(hvd_comm_create_by_rule(is_member, &no, &none), HVD_OK);
    ck_assert_int_eq(sum_in(comm, NULL), HVD_OK);
    ck_assert_int_eq(hvd_comm_rank(none), -1);
    ck_assert_int_eq(hvd_comm_size(none), 0);
    ck_assert_int_eq(sum_in(none, NULL), HVD_ERR_INVALID);
    ck_assert_str_eq(hvd_last_error(), "hvd_allreduce: comm: this rank is not "
                                       "in the communicator");
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

START_TEST(queued_alone_is_complete)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    hvd_request_t *requests[3];
    float in = 3, out = 0, again = 0;
    const size_t count = 1;
    const void *send = &in;
    void *recv = &again;
    bool done = false;

    options.label = "gradient";
    ck_assert_int_eq(hvd_allreduce_with(&in, &out, 1, HVD_FLOAT32, HVD_SUM,
                                        &options, &requests[0]),
                     HVD_OK);
    ck_assert_int_eq(hvd_test(&requests[0], &done), HVD_OK);
    ck_assert(done && out == 3);
    ck_assert_ptr_null(requests[0]);
    ck_assert_int_eq(hvd_grouped_allreduce_with(1, &send, &recv, &count,
                                                HVD_FLOAT32, HVD_MAX, NULL,
                                                &requests[1]),
                     HVD_OK);
    options.postscale = 0.5;
    ck_assert_int_eq(hvd_allreduce_with(&in, &in, 1, HVD_FLOAT32, HVD_SUM,
                                        &options, &requests[2]),
                     HVD_OK);
    ck_assert_int_eq(hvd_wait_all(3, requests), HVD_OK);
    ck_assert(again == 3 && in == 1.5F);
    ck_assert_ptr_null(requests[2]);
    ck_assert_int_eq(hvd_wait(&requests[0]), HVD_OK);
    ck_assert_int_eq(hvd_wait_for(&requests[0], 0), HVD_OK);
    done = false;
    ck_assert_int_eq(hvd_test(&requests[0], &done), HVD_OK);
    ck_assert(done);
    ck_assert_int_eq(hvd_test(&requests[0], NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_test(NULL, &done), HVD_ERR_INVALID);
    ck_assert(!done);
    ck_assert_int_eq(hvd_wait(NULL), HVD_ERR_INVALID);
}
END_TEST

START_TEST(event_fd_is_readable_when_a_request_is_complete)
{
    hvd_request_t *request;
    struct pollfd p = {.events = POLLIN};
    uint64_t n;
    bool done;

    ck_assert_int_eq(hvd_event_fd(NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_event_fd(&p.fd), HVD_OK);
    ck_assert_int_eq(poll(&p, 1, 0), 0);
    ck_assert_int_eq(hvd_barrier_with(NULL, &request), HVD_OK);
    ck_assert_int_eq(poll(&p, 1, -1), 1);
    ck_assert_int_eq(read(p.fd, &n, sizeof(n)), sizeof(n));
    ck_assert_int_eq(hvd_test(&request, &done), HVD_OK);
    ck_assert(done);
    ck_assert_int_eq(poll(&p, 1, 0), 0);
}
END_TEST

/* 0 is 0, and a blocking call takes options as well. */
START_TEST(scale_of_zero_is_zero)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    float x = 3;

    options.prescale = 0;
    ck_assert_int_eq(
        hvd_allreduce_with(&x, &x, 1, HVD_FLOAT32, HVD_SUM, &options, NULL),
        HVD_OK);
    ck_assert(x == 0);
    x = 3;
    options.prescale = 2;
    options.postscale = 0;
    ck_assert_int_eq(
        hvd_allreduce_with(&x, &x, 1, HVD_FLOAT32, HVD_SUM, &options, NULL),
        HVD_OK);
    ck_assert(x == 0);
}
END_TEST

struct group_of_two {
    hvd_options_t options;
    const void *sends[2];
    void *recvs[2];
};

static hvd_status_t sum_group(const struct group_of_two *g)
{
    const size_t counts[] = {1, 1};
    hvd_request_t *request;

    HVD_TRY(hvd_grouped_allreduce_with(2, g->sends, g->recvs, counts,
                                       HVD_FLOAT32, HVD_SUM, &g->options,
                                       &request));
    return hvd_wait(&request);
}

static void *sum_elsewhere(void *arg)
{
    return sum_group(arg) == HVD_OK ? arg : NULL;
}

START_TEST(by_name_alone_is_complete_from_any_thread)
{
    float in[2] = {3, 4}, out[2] = {0};
    struct group_of_two g = {
        HVD_OPTIONS_INIT, {&in[0], &in[1]}, {&out[0], &out[1]}};
    void *result;
    pthread_t thread;

    g.options.key = "gradients";
    ck_assert_int_eq(sum_group(&g), HVD_OK);
    ck_assert(out[0] == 3 && out[1] == 4);
    in[0] = 7;
    ck_assert_int_eq(pthread_create(&thread, NULL, sum_elsewhere, &g), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_eq(result, &g);
    ck_assert(out[0] == 7);
    g.options.prescale = 0.5;
    ck_assert_int_eq(sum_group(&g), HVD_OK);
    ck_assert(out[0] == 3.5F && out[1] == 2);
}
END_TEST

struct placing {
    float place[4];
    hvd_status_t said[3];
    hvd_request_t *other;
};

static void *call_while_placing(const size_t *counts, int size, void *arg)
{
    struct placing *p = arg;
    float x = 1;

    p->said[0] = hvd_allreduce(&x, &x, 1, HVD_FLOAT32, HVD_SUM);
    p->said[1] = sum_in(HVD_WORLD, "x");
    p->said[2] = hvd_wait(&p->other);
    return p->place;
}

START_TEST(place_functions_call_nothing_that_waits)
{
    struct placing p = {.other = NULL};
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    hvd_request_t *request;

    ck_assert_int_eq(
        hvd_allreduce_with(x, y, 4, HVD_FLOAT32, HVD_SUM, NULL, &p.other),
        HVD_OK);
    ck_assert_int_eq(hvd_allgatherv_place(x, 4, HVD_FLOAT32, call_while_placing,
                                          &p, NULL, &request),
                     HVD_OK);
    ck_assert_int_eq(hvd_wait(&request), HVD_OK);
    ck_assert_int_eq(hvd_wait(&p.other), HVD_OK);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(p.said[i], HVD_ERR_STATE);
    ck_assert_int_eq(memcmp(p.place, x, sizeof(x)), 0);
    memset(p.place, 0, sizeof(p.place));
    ck_assert_int_eq(hvd_allgatherv_place(x, 4, HVD_FLOAT32, call_while_placing,
                                          &p, NULL, NULL),
                     HVD_OK);
    ck_assert_int_eq(memcmp(p.place, x, sizeof(x)), 0);
}
END_TEST

/* --- options that are refused --- */

static hvd_status_t as_sum(const hvd_options_t *o, hvd_request_t **r)
{
    static float x[4];

    return hvd_allreduce_with(x, x, 4, HVD_FLOAT32, HVD_SUM, o, r);
}

static hvd_status_t as_sum_of_integers(const hvd_options_t *o,
                                       hvd_request_t **r)
{
    static int32_t x[4];

    return hvd_allreduce_with(x, x, 4, HVD_INT32, HVD_SUM, o, r);
}

static hvd_status_t as_adasum(const hvd_options_t *o, hvd_request_t **r)
{
    static float x[4];

    return hvd_allreduce_with(x, x, 4, HVD_FLOAT32, HVD_ADASUM, o, r);
}

static hvd_status_t as_group(const hvd_options_t *o, hvd_request_t **r)
{
    return hvd_grouped_allreduce_with(0, NULL, NULL, NULL, HVD_FLOAT32, HVD_SUM,
                                      o, r);
}

static hvd_status_t as_broadcast(const hvd_options_t *o, hvd_request_t **r)
{
    static float x[4];

    return hvd_broadcast_with(x, 4, HVD_FLOAT32, 0, o, r);
}

static hvd_status_t as_barrier(const hvd_options_t *o, hvd_request_t **r)
{
    return hvd_barrier_with(o, r);
}

static void *nowhere(const size_t *counts, int size, void *arg)
{
    return NULL;
}

static hvd_status_t as_placed(const hvd_options_t *o, hvd_request_t **r)
{
    static float x[4];

    return hvd_allgatherv_place(x, 4, HVD_FLOAT32, nowhere, NULL, o, r);
}

static float rest[4];
#define INIT struct_size = sizeof(hvd_options_t), .prescale = 1, .postscale = 1

static const struct {
    hvd_status_t (*call)(const hvd_options_t *, hvd_request_t **);
    hvd_options_t options;
    const char *words;
} refused[] = {
    {as_sum,
     {.struct_size = 0},
     "hvd_allreduce: options: struct_size is 0: it was not initialised"},
    {as_sum, {.struct_size = sizeof(hvd_options_t)}, "both scales are 0"},
    {as_sum, {.INIT, .flags = 2}, "options.flags: "},
    {as_sum, {.INIT, .memory = (hvd_memory_t)3}, "options.memory: "},
    {as_sum, {.INIT, .memory = (hvd_memory_t)-1}, "options.memory: "},
    {as_sum, {.INIT, .key = ""}, "options.key: it is empty"},
    {as_sum, {.INIT, .match = "x"}, "options.match: only a call by name"},
    {as_sum, {.INIT, .wire_dtype = HVD_FLOAT32}, "options.wire_dtype: "},
    {as_sum, {.INIT, .residual = rest}, "options.residual: only with a wire"},
    {as_sum_of_integers, {.INIT, .wire_dtype = HVD_FLOAT16}, "only float32"},
    {as_sum_of_integers,
     {.struct_size = sizeof(hvd_options_t), .prescale = 2, .postscale = 1},
     "options.prescale: "},
    {as_adasum, {.INIT, .wire_dtype = HVD_FLOAT16}, "HVD_ADASUM does not"},
    {as_group,
     {.INIT, .wire_dtype = HVD_FLOAT16},
     "hvd_grouped_allreduce: opt"},
    {as_broadcast,
     {.INIT, .wire_dtype = HVD_FLOAT16},
     "hvd_broadcast: options.wire_dtype: only an allreduce"},
    {as_barrier,
     {.struct_size = sizeof(hvd_options_t), .prescale = 1, .postscale = 2},
     "hvd_barrier: options.postscale: "},
    {as_placed,
     {.INIT, .memory = HVD_MEMORY_DEVICE},
     "hvd_allgatherv_place: options.memory: "},
};
#undef INIT

START_TEST(options_that_a_call_does_not_take_are_named)
{
    hvd_request_t *request = (hvd_request_t *)rest; /* not NULL */

    ck_assert_int_eq(refused[_i].call(&refused[_i].options, &request),
                     HVD_ERR_INVALID);
    ck_assert_ptr_null(request);
    ck_assert_msg(strstr(hvd_last_error(), refused[_i].words), "%s",
                  hvd_last_error());
    ck_assert_int_eq(refused[_i].call(&refused[_i].options, NULL),
                     HVD_ERR_INVALID);
}
END_TEST

START_TEST(options_of_other_releases)
{
    struct {
        hvd_options_t options;
        uint64_t newer;
    } big = {HVD_OPTIONS_INIT, 1};
    hvd_options_t old = HVD_OPTIONS_INIT;

    old.struct_size = offsetof(hvd_options_t, residual);
    old.residual = rest; /* what lies behind an older struct */
    ck_assert_int_eq(as_sum(&old, NULL), HVD_OK);
    big.options.struct_size = sizeof(big);
    ck_assert_int_eq(as_sum(&big.options, NULL), HVD_ERR_UNSUPPORTED);
    big.newer = 0;
    ck_assert_int_eq(as_sum(&big.options, NULL), HVD_OK);
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
    ck_assert_uint_eq(info->struct_size, sizeof(*info));
    ck_assert_int_eq(info->reason, HVD_RESET_PEER_LOST);
    ck_assert_uint_eq(info->generation, 2);
    ck_assert_int_eq(info->size, 1);
    ck_assert_int_eq(info->committed_size, 1);
    n_resets++;
}

static hvd_status_t call_a_collective(void *arg)
{
    *(hvd_status_t *)arg = hvd_barrier();
    return *(hvd_status_t *)arg;
}

/* As in a job, where not all ranks restore. */
START_TEST(run_alone_lost_on_restore_calls_no_collective)
{
    hvd_status_t status = HVD_OK;

    ck_assert_int_eq(hvd_state_on_restore(state, call_a_collective, &status),
                     HVD_OK);
    ck_assert_int_eq(hvd_elastic_run(state, lose_once, NULL), HVD_ERR_CALLBACK);
    ck_assert_int_eq(status, HVD_ERR_STATE);
    ck_assert_uint_eq(n_calls, 1);
}
END_TEST

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

static void *drain_elsewhere(void *arg)
{
    hvd_drain();
    return NULL;
}

static hvd_status_t drain_oneself(hvd_state_t *s, void *arg)
{
    pthread_t thread;

    ck_assert_int_eq(hvd_state_check_host_updates(s), HVD_OK);
    counter = 7;
    ck_assert_int_eq(pthread_create(&thread, NULL, drain_elsewhere, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
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

    ck_assert_int_eq(hvd_state_commit(state), HVD_OK);
    ck_assert_int_eq(hvd_barrier_with(NULL, &request), HVD_OK);
    pid = fork();
    if (pid == 0)
        _exit(hvd_state_commit(state) == HVD_ERR_INVALID &&
                      hvd_state_save(state) == HVD_ERR_INVALID &&
                      hvd_state_restore(state) == HVD_ERR_INVALID &&
                      hvd_state_sync(state) == HVD_ERR_INVALID &&
                      hvd_state_check_host_updates(state) == HVD_ERR_INVALID &&
                      hvd_elastic_run(state, count_to_ten, NULL) ==
                          HVD_ERR_INVALID &&
                      hvd_world_start() == HVD_ERR_INVALID &&
                      hvd_shutdown() == HVD_ERR_INVALID &&
                      hvd_barrier() == HVD_ERR_INVALID &&
                      hvd_wait(&request) == HVD_ERR_INVALID &&
                      request != NULL && hvd_alloc(1) == NULL &&
                      hvd_barrier_with(NULL, &none) == HVD_ERR_INVALID &&
                      hvd_init(NULL) == HVD_ERR_INVALID
                  ? 0
                  : 1);
    ck_assert_int_gt(pid, 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(hvd_wait(&request), HVD_OK);
    ck_assert_int_eq(hvd_barrier(), HVD_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker solo");
    TCase *inside = tcase_create("inside");

    tcase_add_checked_fixture(inside, set_up, tear_down);
    tcase_add_test(inside, init_alone_is_a_world_of_one);
    tcase_add_test(inside, communicator_of_a_list);
    tcase_add_test(inside, communicator_by_rule);
    tcase_add_test(inside, collectives_alone_copy);
    tcase_add_test(inside, queued_alone_is_complete);
    tcase_add_test(inside, event_fd_is_readable_when_a_request_is_complete);
    tcase_add_test(inside, scale_of_zero_is_zero);
    tcase_add_test(inside, by_name_alone_is_complete_from_any_thread);
    tcase_add_test(inside, place_functions_call_nothing_that_waits);
    tcase_add_loop_test(inside, options_that_a_call_does_not_take_are_named, 0,
                        sizeof(refused) / sizeof(refused[0]));
    tcase_add_test(inside, options_of_other_releases);
    tcase_add_test(inside, run_alone_trains_and_commits);
    tcase_add_test(inside, run_alone_lost_on_restore_calls_no_collective);
    tcase_add_test(inside, run_alone_lost_restores_and_resets);
    tcase_add_test(inside, run_alone_user_code_passes_through);
    tcase_add_test(inside, run_alone_drained_commits_and_is_removed);
    tcase_add_test(inside, forked_child_is_refused);
    suite_add_tcase(suite, inside);
    return support_run(suite);
}
