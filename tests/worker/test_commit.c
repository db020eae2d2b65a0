/* tests/worker/test_commit.c - what may become a snapshot (M9), in a world of
 * one whose comm the test aborts: calls fail then as after a peer's loss. */
#include <string.h>

#include <hvd/hvd.h>

#include "base/array.h"
#include "elastic/worker/process.h"
#include "made.h"
#include "support.h"

#define ok(call) ck_assert_int_eq((call), HVD_OK)

static hvd_state_t *state;
static uint64_t counter;

static void set_up(void)
{
    ok(hvd_init(NULL));
    counter = 1;
    state = made_state();
    ck_assert_ptr_nonnull(state);
    ok(hvd_state_add(state, "counter", &counter, sizeof(counter)));
    ok(hvd_state_commit(state));
}

static void tear_down(void)
{
    hvd_state_destroy(state);
    process_self.left = false;
    ok(hvd_shutdown());
}

static void lose_a_peer(void)
{
    comm_abort(process_self.comm, HVD_PEER_LOST, "rank 2 is gone");
}

/* Nothing becomes a snapshot any more, and the call says why. */
static void assert_refused(hvd_status_t want, const char *why)
{
    hvd_status_t (*const calls[])(hvd_state_t *) = {
        hvd_state_commit, hvd_state_save, hvd_state_sync, hvd_state_commit};
    uint64_t version = hvd_state_version(state);

    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        counter = 99;
        ck_assert_int_eq(calls[i](state), want);
        ck_assert_msg(strstr(hvd_last_error(), why), "%s", hvd_last_error());
        ck_assert_uint_eq(hvd_state_version(state), version);
        ok(hvd_state_restore(state));
        ck_assert_uint_eq(counter, 1);
    }
    ck_assert_int_eq(hvd_state_check_host_updates(state), want);
    ck_assert_uint_eq(hvd_state_version(state), version);
}

/* ---- after a call that failed -------------------------------------------- */

static hvd_status_t call_blocking(void)
{
    return hvd_barrier();
}

static hvd_status_t call_grouped(void)
{
    const size_t count = 1;
    const void *send = &counter;
    uint64_t sum;
    void *recv = &sum;

    return hvd_grouped_allreduce(1, &send, &recv, &count, HVD_INT64, HVD_SUM);
}

static hvd_status_t call_posted(void)
{
    hvd_request_t *request;

    return hvd_barrier_with(NULL, &request);
}

static hvd_status_t call_sync(void)
{
    return hvd_state_sync(state);
}

static hvd_status_t (*const failing[])(void) = {call_blocking, call_grouped,
                                                call_posted, call_sync};

START_TEST(commit_after_a_failed_call_is_refused)
{
    lose_a_peer();
    ck_assert_int_eq(failing[_i](), HVD_PEER_LOST);
    assert_refused(HVD_PEER_LOST, "a call has failed in generation 1, nothing "
                                  "more is committed: rank 2 is gone");
}
END_TEST

START_TEST(commit_after_a_mismatch_is_refused_as_that)
{
    comm_abort(process_self.comm, HVD_ERR_MISMATCH, "rank 2 calls barrier");
    ck_assert_int_eq(hvd_barrier(), HVD_ERR_MISMATCH);
    assert_refused(HVD_ERR_MISMATCH, "rank 2 calls barrier");
}
END_TEST

/* Each call until now has succeeded: what they have made is whole. The commit
 * is the one that meets it. */
START_TEST(commit_after_an_abort_that_no_call_has_met_is_saved)
{
    lose_a_peer();
    counter = 7;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(hvd_state_commit(state), HVD_PEER_LOST);
        ck_assert_uint_eq(hvd_state_version(state), 2);
        counter = 8;
    }
    ok(hvd_state_restore(state));
    ck_assert_uint_eq(counter, 7);
}
END_TEST

START_TEST(refused_arguments_are_no_failure)
{
    ck_assert_int_eq(hvd_broadcast(&counter, 1, HVD_INT64, 1), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_wait(NULL), HVD_ERR_INVALID);
    ok(hvd_state_commit(state));
    ok(hvd_state_save(state));
    ck_assert_uint_eq(hvd_state_version(state), 3);
}
END_TEST

static void *nowhere(const size_t *counts, int size, void *arg)
{
    (void)counts;
    (void)size;
    (void)arg;
    return NULL;
}

/* Nobody else has half of its result. */
START_TEST(place_that_is_not_there_ends_its_call_alone)
{
    hvd_request_t *request;

    ok(hvd_allgatherv_place(&counter, 1, HVD_INT64, nowhere, NULL, NULL,
                            &request));
    ok(hvd_state_commit(state));
    ck_assert_int_eq(hvd_wait(&request), HVD_ERR_NOMEM);
    ok(hvd_state_commit(state));
    ck_assert_uint_eq(hvd_state_version(state), 3);
}
END_TEST

static hvd_status_t ignore_a_failure(void *arg)
{
    *(hvd_status_t *)arg = hvd_barrier();
    return HVD_OK;
}

/* The abort is met behind the first look, and before bytes are copied. */
START_TEST(commit_whose_callback_ignores_a_failure_is_refused)
{
    hvd_status_t met = HVD_OK;

    ok(hvd_state_on_commit(state, ignore_a_failure, &met));
    lose_a_peer();
    counter = 99;
    ck_assert_int_eq(hvd_state_commit(state), HVD_PEER_LOST);
    ck_assert_int_eq(met, HVD_PEER_LOST);
    ck_assert_uint_eq(hvd_state_version(state), 1);
    ok(hvd_state_restore(state));
    ck_assert_uint_eq(counter, 1);
}
END_TEST

static hvd_status_t fail_in_arguments(void *arg)
{
    return hvd_broadcast(arg, 1, HVD_INT64, 1);
}

START_TEST(commit_whose_callback_is_refused_fails_alone)
{
    ok(hvd_state_on_commit(state, fail_in_arguments, &counter));
    ck_assert_int_eq(hvd_state_commit(state), HVD_ERR_CALLBACK);
    ck_assert_uint_eq(hvd_state_version(state), 1);
    ck_assert_int_eq(comm_whole(process_self.comm), HVD_OK);
}
END_TEST

static hvd_status_t (*const callback_adders[])(hvd_state_t *, hvd_state_fn,
                                               void *) = {hvd_state_on_commit,
                                                          hvd_state_on_restore};
static hvd_status_t (*const callers[])(hvd_state_t *) = {hvd_state_commit,
                                                         hvd_state_restore};

/* What a callback may not call for the state that it is of. */
static hvd_status_t call_all(void *arg)
{
    hvd_status_t (*const calls[])(hvd_state_t *) = {
        hvd_state_commit, hvd_state_save, hvd_state_sync, hvd_state_restore};

    for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
        ck_assert_int_eq(calls[i](state), HVD_ERR_STATE);
        ck_assert_msg(strstr(hvd_last_error(), "from a callback of the same"),
                      "%s", hvd_last_error());
        ++*(int *)arg;
    }
    return HVD_OK;
}

START_TEST(callbacks_may_not_call_for_their_own_state)
{
    int n_refused = 0;

    ok(callback_adders[_i](state, call_all, &n_refused));
    ok(callers[_i](state));
    ck_assert_int_eq(n_refused, 4);
}
END_TEST

/* A training function that ignores a failure and says that all is well. */
static hvd_status_t ignore_everything(hvd_state_t *s, void *arg)
{
    counter = 1;
    ok(hvd_state_commit(s));
    lose_a_peer();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(hvd_barrier(), HVD_PEER_LOST);
        counter++;
        ck_assert_int_eq(hvd_state_commit(s), HVD_PEER_LOST);
    }
    return HVD_OK;
}

START_TEST(run_does_not_commit_for_who_has_ignored_a_failure)
{
    ck_assert_int_eq(hvd_elastic_run(state, ignore_everything, NULL),
                     HVD_PEER_LOST);
    ok(hvd_state_restore(state));
    ck_assert_uint_eq(counter, 1);
}
END_TEST

/* ---- after HVD_HOSTS_UPDATED --------------------------------------------- */

START_TEST(commit_after_hosts_updated_is_refused)
{
    atomic_store(&process_self.hold, 1);
    ck_assert_int_eq(hvd_state_check_host_updates(state), HVD_HOSTS_UPDATED);
    ck_assert_uint_eq(hvd_state_version(state), 2);
    assert_refused(HVD_HOSTS_UPDATED, "this rank has left generation 1 at "
                                      "boundary 2: nothing more is committed");
    ck_assert_int_eq(hvd_state_check_host_updates(state), HVD_HOSTS_UPDATED);
    /* what the driver has to hear */
    ck_assert_uint_eq(atomic_load(&process_self.boundary), 2);
}
END_TEST

START_TEST(save_and_restore_are_no_boundary)
{
    uint64_t boundary = atomic_load(&process_self.boundary);

    atomic_store(&process_self.hold, 1);
    counter = 7;
    ok(hvd_state_save(state));
    ok(hvd_state_restore(state));
    ck_assert_uint_eq(counter, 7);
    ck_assert_uint_eq(hvd_state_version(state), 2);
    ck_assert_uint_eq(atomic_load(&process_self.boundary), boundary);
    atomic_store(&process_self.hold, 0);
}
END_TEST

static hvd_status_t ignore_the_drain(hvd_state_t *s, void *arg)
{
    hvd_drain();
    counter = 5;
    ck_assert_int_eq(hvd_state_commit(s), HVD_HOSTS_UPDATED);
    counter = 6;
    ck_assert_int_eq(hvd_state_commit(s), HVD_HOSTS_UPDATED);
    return HVD_OK;
}

START_TEST(run_alone_ignoring_a_drain_is_removed_at_its_boundary)
{
    ck_assert_int_eq(hvd_elastic_run(state, ignore_the_drain, NULL),
                     HVD_REMOVED);
    ok(hvd_state_restore(state));
    ck_assert_uint_eq(counter, 5);
    /* the run is over, and so is what it has left */
    ok(hvd_state_save(state));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker commit");
    TCase *tcase = tcase_create("commit");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, commit_after_a_failed_call_is_refused, 0,
                        (int)ARRAY_SIZE(failing));
    tcase_add_test(tcase, commit_after_a_mismatch_is_refused_as_that);
    tcase_add_test(tcase, commit_after_an_abort_that_no_call_has_met_is_saved);
    tcase_add_test(tcase, refused_arguments_are_no_failure);
    tcase_add_test(tcase, place_that_is_not_there_ends_its_call_alone);
    tcase_add_test(tcase, commit_whose_callback_ignores_a_failure_is_refused);
    tcase_add_test(tcase, commit_whose_callback_is_refused_fails_alone);
    tcase_add_loop_test(tcase, callbacks_may_not_call_for_their_own_state, 0,
                        (int)ARRAY_SIZE(callers));
    tcase_add_test(tcase, run_does_not_commit_for_who_has_ignored_a_failure);
    tcase_add_test(tcase, commit_after_hosts_updated_is_refused);
    tcase_add_test(tcase, save_and_restore_are_no_boundary);
    tcase_add_test(tcase,
                   run_alone_ignoring_a_drain_is_removed_at_its_boundary);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
