/* tests/worker/test_pair.c - the public calls in a world of two: rank 0 is this
 * process's worker, and rank 1 a thread of the test with a comm of its own
 * (collectives/group.h). The test decides when rank 1 issues its calls. */
#include <poll.h>

#include <hvd/hvd.h>

#include "base/world.h"
#include "collectives/named.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "made.h"

#define ok(call) ck_assert_int_eq((call), HVD_OK)

enum {
    CALLS = 20,
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    ROUNDS = 100
#else
    ROUNDS = 1000
#endif
};

static struct group g;
static struct comm *alone; /* of hvd_init(), which destroys it */
static hvd_comm_t *old;    /* made in that world */
static hvd_state_t *state;
static uint64_t counter;

static void set_up(void)
{
    const int self = 0;

    setenv("HVD_VERIFY_STATE", "off", 1); /* rank 1 commits nothing */
    ok(hvd_init(NULL));
    ok(hvd_comm_create(&self, 1, &old));
    state = made_state();
    ck_assert_ptr_nonnull(state);
    ok(hvd_state_add(state, "counter", &counter, sizeof(counter)));
    group_init(&g, 2);
    sets_leave();
    alone = process_self.comm;
    process_self.comm = g.comms[0];
    world_set(&(struct world){.generation = g.generation,
                              .size = 2,
                              .local_size = 2,
                              .cross_size = 1});
    ok(hvd_state_commit(state));
}

static void tear_down(void)
{
    process_self.comm = alone;
    group_fini(&g);
    hvd_state_destroy(state);
    ok(hvd_shutdown());
}

/* ---- rank 1 -------------------------------------------------------------- */

static struct {
    pthread_t thread;
    bool (*calls)(struct comm *comm);
    bool ok;
} other;

static void *play(void *arg)
{
    other.ok = other.calls(g.comms[1]);
    if (!other.ok)
        comm_leave(g.comms[1], COMM_LEAVE_ABORT, 0);
    return NULL;
}

static void other_begins(bool (*calls)(struct comm *comm))
{
    other.calls = calls;
    ck_assert_int_eq(pthread_create(&other.thread, NULL, play, NULL), 0);
}

static void other_ends(void)
{
    pthread_join(other.thread, NULL);
    ck_assert_msg(other.ok, "rank 1 failed, see above");
}

/* ---- rank 0 -------------------------------------------------------------- */

static hvd_status_t queue_named(const char *key, float *x, size_t count,
                                hvd_request_t **request_p)
{
    hvd_options_t options = HVD_OPTIONS_INIT;

    options.key = key;
    return hvd_allreduce_with(x, x, count, HVD_FLOAT32, HVD_SUM, &options,
                              request_p);
}

static hvd_status_t queue_sum(float *x, hvd_request_t **request_p)
{
    return hvd_allreduce_with(x, x, 1, HVD_FLOAT32, HVD_SUM, NULL, request_p);
}

static bool one_sum(struct comm *comm)
{
    const int rank = 1;
    float x = 2;

    EXPECT(allreduce(comm, &x, &x, 1, HVD_FLOAT32, HVD_SUM) == HVD_OK);
    EXPECT(x == 3);
    return true;
}

/* ---- what completes requests --------------------------------------------- */

static hvd_status_t commit(void)
{
    return hvd_state_commit(state);
}

static hvd_status_t check_host_updates(void)
{
    return hvd_state_check_host_updates(state);
}

static hvd_status_t (*const completing[])(void) = {commit, check_host_updates,
                                                   hvd_confirm};

/* ck_assert_* show only the status, and the sentence is what says why. */
static void assert_fails(hvd_status_t status, hvd_status_t wanted,
                         const char *words)
{
    ck_assert_msg(status == wanted && strstr(hvd_last_error(), words), "%s: %s",
                  hvd_strerror(status), hvd_last_error());
}

START_TEST(call_in_flight_that_fails_is_their_status)
{
    hvd_request_t *request;

    ok(hvd_barrier_with(NULL, &request));
    comm_abort(g.comms[0], HVD_PEER_LOST, "rank 1 is gone");
    assert_fails(completing[_i](), HVD_PEER_LOST, "rank 1 is gone");
    ck_assert_uint_eq(hvd_state_version(state), 1);
    assert_fails(hvd_wait_for(&request, 0), HVD_PEER_LOST, "rank 1 is gone");
    ck_assert_ptr_null(request);
}
END_TEST

static bool differ(struct comm *comm)
{
    const int rank = 1;
    struct hvd_request *r;
    float x[2] = {0};

    EXPECT(post_named(comm, "x", x, 2, &r) == HVD_OK);
    EXPECT(request_wait(r) == HVD_ERR_MISMATCH);
    EXPECT(barrier(comm) == HVD_OK); /* hvd_confirm() is one */
    return true;
}

START_TEST(call_by_name_that_failed_alone_counts_until_it_is_waited_for)
{
    hvd_request_t *request;
    float x = 1;

    other_begins(differ);
    ok(queue_named("x", &x, 1, &request));
    for (size_t i = 0; i < ARRAY_SIZE(completing); i++)
        assert_fails(completing[i](), HVD_ERR_MISMATCH, "'x'");
    ck_assert_uint_eq(hvd_state_version(state), 1);
    assert_fails(hvd_wait_for(&request, 0), HVD_ERR_MISMATCH, "'x'");
    ck_assert_ptr_null(request);
    ok(hvd_state_commit(state));
    ck_assert_uint_eq(hvd_state_version(state), 2);
    other_ends();
}
END_TEST

static bool sum_each(struct comm *comm)
{
    for (int i = 0; i < CALLS; i++)
        if (!one_sum(comm))
            return false;
    return true;
}

START_TEST(wait_completes_those_before_it)
{
    hvd_request_t *requests[CALLS];
    float x[CALLS];

    for (int i = 0; i < CALLS; i++) {
        x[i] = 1;
        ok(queue_sum(&x[i], &requests[i]));
    }
    other_begins(sum_each);
    ok(hvd_wait(&requests[CALLS - 1]));
    for (int i = 0; i < CALLS; i++) {
        ok(hvd_wait_for(&requests[i], 0));
        ck_assert_ptr_null(requests[i]);
        ck_assert(x[i] == 3);
    }
    other_ends();
}
END_TEST

/* Counts of "c" and "d" differ, one behind the other. */
static bool name_four(struct comm *comm)
{
    static const char *const names[] = {"a", "c", "d", "e"};
    static const size_t counts[] = {1, 2, 3, 1};
    const int rank = 1;
    struct hvd_request *r;
    float x[3] = {0};

    for (int i = 0; i < 4; i++) {
        EXPECT(post_named(comm, names[i], x, counts[i], &r) == HVD_OK);
        EXPECT(request_wait(r) == (counts[i] == 1 ? HVD_OK : HVD_ERR_MISMATCH));
    }
    return true;
}

START_TEST(wait_all_completes_all_and_returns_the_first_failure)
{
    hvd_request_t *requests[5] = {NULL};
    float x[4] = {0};

    other_begins(name_four);
    ok(queue_named("a", &x[0], 1, &requests[0]));
    ok(queue_named("d", &x[1], 1, &requests[2])); /* [1]: there is none */
    ok(queue_named("c", &x[2], 1, &requests[3]));
    ok(queue_named("e", &x[3], 1, &requests[4]));
    assert_fails(hvd_wait_all(5, requests), HVD_ERR_MISMATCH, "'d'");
    for (int i = 0; i < 5; i++)
        ck_assert_ptr_null(requests[i]);
    ok(hvd_state_commit(state)); /* each has been waited for */
    other_ends();
}
END_TEST

static bool sum_group(struct comm *comm)
{
    const int rank = 1;
    float x[] = {2, 20};
    const void *sends[] = {&x[0], &x[1]};
    void *recvs[] = {&x[0], &x[1]};
    const size_t counts[] = {1, 1};
    const struct comm_group group = {2, sends, recvs, counts};
    const struct collective_args args = sum_args(NULL, NULL, 0);

    EXPECT(comm_run_group(comm, &args, &group) == HVD_OK);
    EXPECT(x[0] == 3 && x[1] == 30);
    EXPECT(barrier(comm) == HVD_OK);
    return true;
}

START_TEST(short_form_of_a_group_is_blocking)
{
    const size_t counts[] = {1, 1};
    float in[] = {1, 10}, out[2] = {0};
    const void *sends[] = {&in[0], &in[1]};
    void *recvs[] = {&out[0], &out[1]};

    other_begins(sum_group);
    ok(hvd_grouped_allreduce(2, sends, recvs, counts, HVD_FLOAT32, HVD_SUM));
    ck_assert(out[0] == 3 && out[1] == 30);
    ok(hvd_confirm());
    other_ends();
}
END_TEST

/* ---- waiting for a while, and not at all --------------------------------- */

/* Forever, if nobody is woken. */
START_TEST(wait_for_ends_in_time_or_with_the_call)
{
    hvd_request_t *request, *same;
    float x = 1;

    ok(queue_sum(&x, &request));
    same = request;
    for (unsigned ms = 0; ms < 3; ms++) {
        assert_fails(hvd_wait_for(&request, ms), HVD_ERR_TIMEOUT,
                     "not complete");
        ck_assert_ptr_eq(request, same);
    }
    other_begins(one_sum);
    ok(hvd_wait_for(&request, UINT32_MAX));
    ck_assert_ptr_null(request);
    ck_assert(x == 3);
    other_ends();
}
END_TEST

/* Rank 1 begins behind the first look; nobody waits for the rest. */
START_TEST(test_does_not_wait_and_the_call_goes_on)
{
    hvd_request_t *request, *same;
    bool done = true;
    float x = 1;

    ok(queue_sum(&x, &request));
    same = request;
    for (int i = 0; i < 3; i++) {
        ok(hvd_test(&request, &done));
        ck_assert(!done);
        ck_assert_ptr_eq(request, same);
    }
    other_begins(one_sum);
    other_ends();
    while (!done)
        ok(hvd_test(&request, &done));
    ck_assert_ptr_null(request);
    ck_assert(x == 3);
}
END_TEST

/* ---- an event loop ------------------------------------------------------- */

static bool sum_and_name(struct comm *comm)
{
    const int rank = 1;

    for (int i = 0; i < ROUNDS; i++) {
        struct hvd_request *r;
        float x = 2;

        EXPECT(post_named(comm, "x", &x, 1, &r) == HVD_OK);
        EXPECT(one_sum(comm));
        EXPECT(request_wait(r) == HVD_OK);
    }
    return true;
}

static void poll_for(int fd, hvd_request_t **requests, int n)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool done[2] = {false, false};
    int n_done = 0;
    uint64_t count;

    for (;;) {
        for (int i = 0; i < n; i++) {
            if (done[i])
                continue;
            ok(hvd_test(&requests[i], &done[i]));
            n_done += done[i];
        }
        if (n_done == n)
            return;
        ck_assert_int_eq(poll(&p, 1, -1), 1);
        ck_assert_int_eq(read(fd, &count, sizeof(count)), sizeof(count));
    }
}

/* It sleeps without a limit: one that is missed ends the test. */
START_TEST(event_loop_misses_no_completion)
{
    int fd;

    ok(hvd_event_fd(&fd));
    other_begins(sum_and_name);
    for (int i = 0; i < ROUNDS; i++) {
        hvd_request_t *requests[2];
        float x[] = {1, 1};

        ok(queue_named("x", &x[0], 1, &requests[0]));
        ok(queue_sum(&x[1], &requests[1]));
        poll_for(fd, requests, 2);
        ck_assert(x[0] == 3 && x[1] == 3);
    }
    other_ends();
}
END_TEST

/* ---- no more data -------------------------------------------------------- */

static bool has_no_data(struct comm *comm)
{
    const int rank = 1;
    int last = -1;

    EXPECT(by_name_join(comm, &last) == HVD_OK);
    EXPECT(last == 1 || last == 0);
    return true;
}

/* The thread that is refused lets rank 1 come. */
static void *say_so(void *status_p)
{
    hvd_status_t *status = status_p;

    *status = hvd_data_done(HVD_WORLD, NULL);
    if (*status == HVD_ERR_STATE)
        other_begins(has_no_data);
    return NULL;
}

/* Of two threads that say it one is refused, and rank 1 is not there before. */
START_TEST(data_done_twice_is_refused)
{
    hvd_status_t here, there;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, say_so, &there), 0);
    (void)say_so(&here);
    pthread_join(thread, NULL);
    ck_assert_int_eq(here == HVD_OK ? there : here, HVD_ERR_STATE);
    ck_assert(here == HVD_OK || there == HVD_OK);
    other_ends();
}
END_TEST

/* ---- a communicator of the generation before ----------------------------- */

/* Rank 1 calls nothing: nobody waits for it. */
START_TEST(communicator_of_another_generation_is_refused)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    hvd_request_t *request;

    ck_assert_int_eq(hvd_comm_rank(old), -1);
    ck_assert_int_eq(hvd_comm_size(old), 0);
    options.comm = old;
    for (int named = 0; named < 2; named++) {
        options.key = named ? "x" : NULL;
        assert_fails(hvd_barrier_with(&options, &request), HVD_ERR_INVALID,
                     "was made in generation 1, this is 3");
        ck_assert_ptr_null(request);
        assert_fails(hvd_barrier_with(&options, NULL), HVD_ERR_INVALID,
                     "was made in generation 1, this is 3");
    }
    assert_fails(hvd_data_done(old, NULL), HVD_ERR_INVALID, "generation 1");
    ok(hvd_comm_destroy(old));
    ok(hvd_state_commit(state));
}
END_TEST

START_TEST(status_of_a_generation_is_its_end)
{
    ok(hvd_generation_status());
    comm_abort(g.comms[0], HVD_PEER_LOST, "rank 1 is lost");
    assert_fails(hvd_generation_status(), HVD_PEER_LOST, "rank 1 is lost");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker pair");
    TCase *tcase = tcase_create("pair");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, call_in_flight_that_fails_is_their_status, 0,
                        (int)ARRAY_SIZE(completing));
    tcase_add_test(
        tcase, call_by_name_that_failed_alone_counts_until_it_is_waited_for);
    tcase_add_test(tcase, wait_completes_those_before_it);
    tcase_add_test(tcase, wait_all_completes_all_and_returns_the_first_failure);
    tcase_add_test(tcase, short_form_of_a_group_is_blocking);
    tcase_add_test(tcase, wait_for_ends_in_time_or_with_the_call);
    tcase_add_test(tcase, test_does_not_wait_and_the_call_goes_on);
    tcase_add_test(tcase, event_loop_misses_no_completion);
    tcase_add_test(tcase, data_done_twice_is_refused);
    tcase_add_test(tcase, communicator_of_another_generation_is_refused);
    tcase_add_test(tcase, status_of_a_generation_is_its_end);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
