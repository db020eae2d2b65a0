/* tests/state/test_callbacks.c - when the callbacks of a state run, in which
 * order, what they find, and what becomes of a status of theirs. */
#include "base/array.h"
#include "base/error.h"
#include "made.h"
#include "state/state.h"
#include "support.h"

#define ok(call) ck_assert_int_eq((call), HVD_OK)

static hvd_status_t count_call(void *arg)
{
    ++*(int *)arg;
    return HVD_OK;
}

static hvd_status_t return_arg(void *arg)
{
    return *(hvd_status_t *)arg;
}

/* As the worker does it. */
static hvd_status_t commit(hvd_state_t *state)
{
    HVD_TRY(state_run_on_commit(state));
    return state_save(state, 1, 1);
}

START_TEST(state_callbacks_run_in_their_call)
{
    hvd_status_t status = HVD_OK;
    hvd_state_t *state = made_state();
    int n_commit = 0, n_restore = 0, x = 1;

    ok(hvd_state_add(state, "x", &x, sizeof(x)));
    ok(hvd_state_on_commit(state, count_call, &n_commit));
    ok(hvd_state_on_commit(state, return_arg, &status));
    ok(hvd_state_on_restore(state, count_call, &n_restore));
    ok(commit(state));
    ok(state_restore(state));
    ck_assert_int_eq(n_commit, 1);
    ck_assert_int_eq(n_restore, 1);
    status = HVD_ERR_INVALID;
    ck_assert_int_eq(commit(state), HVD_ERR_CALLBACK);
    status = (hvd_status_t)-2000;
    ck_assert_int_eq(commit(state), -2000);
    /* it ran a collective: that is the world's condition, not the user's */
    status = HVD_PEER_LOST;
    ck_assert_int_eq(commit(state), HVD_PEER_LOST);
    ck_assert_uint_eq(hvd_state_version(state), 1);
    hvd_state_destroy(state);
}
END_TEST

/* Of a list of callbacks: `order` collects their digits. */
struct digit {
    int digit, *order;
    hvd_status_t status;
};

static hvd_status_t append_digit(void *arg)
{
    const struct digit *d = arg;

    *d->order = *d->order * 10 + d->digit;
    return d->status;
}

static hvd_status_t (*const callback_adders[])(hvd_state_t *, hvd_state_fn,
                                               void *) = {hvd_state_on_commit,
                                                          hvd_state_on_restore};
static hvd_status_t (*const callers[])(hvd_state_t *) = {commit, state_restore};

START_TEST(state_callbacks_run_in_order_until_one_fails)
{
    hvd_state_t *state = made_state();
    int order = 0;
    struct digit digits[] = {
        {1, &order, HVD_OK}, {2, &order, HVD_OK}, {3, &order, HVD_OK}};

    ok(commit(state));
    for (int i = 0; i < 3; i++)
        ok(callback_adders[_i](state, append_digit, &digits[i]));
    ok(callers[_i](state));
    ck_assert_int_eq(order, 123);
    digits[1].status = (hvd_status_t)-2000;
    ck_assert_int_eq(callers[_i](state), -2000);
    ck_assert_int_eq(order, 12312);
    digits[1].status = HVD_PEER_LOST;
    ck_assert_int_eq(callers[_i](state), HVD_PEER_LOST);
    digits[1].status = HVD_ERR_INVALID;
    ck_assert_int_eq(callers[_i](state), HVD_ERR_CALLBACK);
    hvd_state_destroy(state);
}
END_TEST

struct seen {
    int x;  /* the entry */
    int at; /* x when on_restore ran */
};

static hvd_status_t set_to_seven(void *arg)
{
    ((struct seen *)arg)->x = 7;
    return HVD_OK;
}

static hvd_status_t look(void *arg)
{
    struct seen *seen = arg;

    seen->at = seen->x;
    return HVD_OK;
}

START_TEST(state_on_commit_is_before_and_on_restore_behind_the_copy)
{
    hvd_state_t *state = made_state();
    struct seen seen = {.x = 1};

    ok(hvd_state_add(state, "x", &seen.x, sizeof(seen.x)));
    ok(hvd_state_on_commit(state, set_to_seven, &seen));
    ok(hvd_state_on_restore(state, look, &seen));
    ok(commit(state));
    seen.x = 2;
    ok(state_restore(state));
    ck_assert_int_eq(seen.at, 7);
    hvd_state_destroy(state);
}
END_TEST

static hvd_status_t restore_itself(void *arg)
{
    return state_restore(arg);
}

/* What a call of ours says in a callback is why the save failed. */
START_TEST(state_callback_error_has_the_sentence_of_the_call_in_it)
{
    hvd_state_t *state = made_state();
    int x = 1;

    ok(hvd_state_add(state, "x", &x, sizeof(x)));
    ok(hvd_state_on_commit(state, restore_itself, state));
    ck_assert_int_eq(state_restore(state), HVD_ERR_STATE);
    ck_assert_int_eq(commit(state), HVD_ERR_CALLBACK);
    ck_assert_str_eq(error_text(), "on_commit callback: restore: nothing was "
                                   "committed yet");
    hvd_state_destroy(state);
}
END_TEST

struct nested {
    hvd_state_t *state;
    int *memory;
    hvd_status_t add_status, save_status, set_status;
};

static size_t nested_size(void *arg)
{
    struct nested *nested = arg;

    nested->add_status = hvd_state_add(nested->state, "more", nested->memory,
                                       sizeof(*nested->memory));
    return 0;
}

static hvd_status_t nested_serialize(void *buf, size_t nbytes, void *arg)
{
    (void)buf, (void)nbytes, (void)arg;
    return HVD_OK;
}

static hvd_status_t nested_deserialize(const void *buf, size_t nbytes,
                                       void *arg)
{
    (void)buf, (void)nbytes, (void)arg;
    return HVD_OK;
}

static hvd_status_t nested_callback(void *arg)
{
    struct nested *nested = arg;

    nested->save_status = state_save(nested->state, 1, 1);
    nested->set_status = hvd_state_rebind(nested->state, "x", nested->memory,
                                          sizeof(*nested->memory));
    return HVD_OK;
}

START_TEST(state_nested_calls_are_refused_set_before_copy_is_not)
{
    hvd_state_t *state = made_state();
    int x = 1, moved = 5;
    struct nested nested = {.state = state, .memory = &moved};
    const hvd_state_object_ops_t ops = {sizeof(ops), nested_size,
                                        nested_serialize, nested_deserialize};

    ok(hvd_state_add(state, "x", &x, sizeof(x)));
    ok(hvd_state_add_object(state, "o", &ops, &nested));
    ok(hvd_state_on_commit(state, nested_callback, &nested));
    ok(commit(state));
    ck_assert_int_eq(nested.save_status, HVD_ERR_STATE);
    ck_assert_int_eq(nested.add_status, HVD_ERR_STATE);
    ck_assert_int_eq(nested.set_status, HVD_OK);
    hvd_state_destroy(state);
}
END_TEST

static void note_reset(const hvd_reset_info_t *info, void *arg)
{
    *(int *)arg = *(int *)arg * 10 + info->size;
}

START_TEST(state_reset_runs_callbacks_in_order)
{
    hvd_state_t *state = made_state();
    hvd_reset_info_t info = {.struct_size = sizeof(info), .size = 3};
    int first = 1, second = 2;

    ok(hvd_state_on_reset(state, note_reset, &first));
    ok(hvd_state_on_reset(state, note_reset, &first));
    ok(hvd_state_on_reset(state, note_reset, &second));
    state_reset(state, &info);
    ck_assert_int_eq(first, 133);
    ck_assert_int_eq(second, 23);
    hvd_state_destroy(state);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("callbacks");
    TCase *tc = tcase_create("callbacks");

    tcase_add_test(tc, state_callbacks_run_in_their_call);
    tcase_add_loop_test(tc, state_callbacks_run_in_order_until_one_fails, 0,
                        (int)ARRAY_SIZE(callers));
    tcase_add_test(tc,
                   state_on_commit_is_before_and_on_restore_behind_the_copy);
    tcase_add_test(tc, state_callback_error_has_the_sentence_of_the_call_in_it);
    tcase_add_test(tc, state_nested_calls_are_refused_set_before_copy_is_not);
    tcase_add_test(tc, state_reset_runs_callbacks_in_order);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
