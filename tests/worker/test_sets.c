/* tests/worker/test_sets.c - handles of communicators (worker/sets.h) in a
 * world of one, where what a job would do is done by the test: generations
 * begin anew, a world is joined, callbacks of a sync run, and there is no
 * memory (meson.build wraps malloc and calloc). */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <hvd/hvd.h>

#include "base/array.h"
#include "elastic/worker/process.h"
#include "elastic/worker/sets.h"
#include "made.h"
#include "support.h"

#define ok(call) ck_assert_int_eq((call), HVD_OK)

enum { NEVER = -1, GENERATIONS = 2000 };

static int n_until_failure = NEVER; /* allocations */

void *__real_malloc(size_t nbytes);
void *__real_calloc(size_t n, size_t nbytes);
void *__wrap_malloc(size_t nbytes);
void *__wrap_calloc(size_t n, size_t nbytes);

static bool fails(void)
{
    if (n_until_failure == NEVER)
        return false;
    return n_until_failure-- == 0;
}

void *__wrap_malloc(size_t nbytes)
{
    return fails() ? NULL : __real_malloc(nbytes);
}

void *__wrap_calloc(size_t n, size_t nbytes)
{
    return fails() ? NULL : __real_calloc(n, nbytes);
}

static bool is_first(int rank, int size, void *arg)
{
    (void)size;
    (void)arg;
    return rank == 0;
}

static hvd_comm_t *first;

static void set_up(void)
{
    ok(hvd_init(NULL));
    ok(hvd_comm_create_by_rule(is_first, NULL, &first));
}

static void tear_down(void)
{
    ok(hvd_shutdown());
}

static void assert_refused(hvd_status_t status, const char *words)
{
    ck_assert_msg(status == HVD_ERR_STATE && strstr(hvd_last_error(), words),
                  "%s: %s", hvd_strerror(status), hvd_last_error());
}

/* ---- in a job ------------------------------------------------------------ */

START_TEST(rules_come_before_the_world_is_joined_and_stay)
{
    hvd_comm_t *late = first;

    process_self.solo = false;
    process_self.kind = PROGRAM_ELASTIC;
    assert_refused(hvd_comm_create_by_rule(is_first, NULL, &late),
                   "the world was joined");
    ck_assert_ptr_null(late);
    assert_refused(hvd_comm_destroy(first), "has joined a world");
    process_self.solo = true;
    ck_assert_int_eq(hvd_comm_rank(first), 0);
    ok(hvd_comm_destroy(first));
}
END_TEST

START_TEST(callbacks_of_a_sync_cannot_use_one)
{
    hvd_options_t options = HVD_OPTIONS_INIT;
    const int self = 0;
    hvd_comm_t *list;

    options.comm = first;
    process_self.in_sync = true;
    assert_refused(hvd_barrier_with(&options, NULL), "in a callback of a sync");
    assert_refused(hvd_comm_create(&self, 1, &list), "in a callback of a sync");
    ck_assert_ptr_null(list);
    assert_refused(hvd_comm_destroy(first), "in a callback of a sync");
    process_self.in_sync = false;
    ok(hvd_barrier_with(&options, NULL));
}
END_TEST

/* Between two generations there are none, and a rule comes back. */
START_TEST(none_is_there_between_two_generations)
{
    const int self = 0;
    hvd_comm_t *list;

    ok(hvd_comm_create(&self, 1, &list));
    sets_leave();
    ck_assert_int_eq(hvd_comm_rank(first), -1);
    ck_assert_int_eq(hvd_comm_size(first), 0);
    ck_assert_int_eq(hvd_comm_rank(list), -1);
    ck_assert_int_eq(hvd_comm_size(list), 0);
    sets_begin();
    ok(sets_enter());
    ck_assert_int_eq(hvd_comm_rank(first), 0);
    ck_assert_int_eq(hvd_comm_size(first), 1);
}
END_TEST

static uint64_t n_calls;

static hvd_status_t lose_once(hvd_state_t *state, void *arg)
{
    hvd_options_t options = HVD_OPTIONS_INIT;

    (void)arg;
    HVD_TRY(hvd_state_commit(state));
    if (n_calls++ == 0)
        return HVD_PEER_LOST;
    options.comm = first;
    ck_assert_uint_eq(hvd_generation(), 2);
    ck_assert_int_eq(hvd_comm_rank(first), 0);
    ck_assert_int_eq(hvd_comm_size(first), 1);
    return hvd_barrier_with(&options, NULL);
}

START_TEST(world_of_one_that_trains_again_has_its_communicator)
{
    hvd_state_t *state = made_state();

    ok(hvd_elastic_run(state, lose_once, NULL));
    ck_assert_uint_eq(n_calls, 2);
    hvd_state_destroy(state);
}
END_TEST

static atomic_bool over;

static void *ask(void *wrong_p)
{
    while (!atomic_load(&over)) {
        int rank = hvd_comm_rank(first), size = hvd_comm_size(first);

        if (rank < -1 || rank > 0 || size < 0 || size > 1)
            *(bool *)wrong_p = true;
    }
    return NULL;
}

/* For the thread sanitizer, which sees what is written beside it. */
START_TEST(any_thread_asks_while_generations_change)
{
    bool wrong = false;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, ask, &wrong), 0);
    for (int i = 0; i < GENERATIONS; i++) {
        sets_leave();
        sets_begin();
        ok(sets_enter());
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    ck_assert(!wrong);
}
END_TEST

/* ---- without memory ------------------------------------------------------ */

static hvd_status_t by_rule(hvd_comm_t **comm_p)
{
    return hvd_comm_create_by_rule(is_first, NULL, comm_p);
}

static hvd_status_t by_list(hvd_comm_t **comm_p)
{
    const int self = 0;

    return hvd_comm_create(&self, 1, comm_p);
}

/* The n-th allocation fails: its handle, or the ranks that a rule names. (One
 * in the middle of the agreement ends the generation.) */
static const struct {
    hvd_status_t (*create)(hvd_comm_t **comm_p);
    int n;
} creating[] = {{by_rule, 0}, {by_rule, 1}, {by_list, 0}};

START_TEST(without_memory_none_is_made)
{
    hvd_comm_t *comm = first;

    n_until_failure = creating[_i].n;
    ck_assert_int_eq(creating[_i].create(&comm), HVD_ERR_NOMEM);
    ck_assert_int_eq(n_until_failure, NEVER);
    ck_assert_ptr_null(comm);
    ok(creating[_i].create(&comm));
    ck_assert_int_eq(hvd_comm_rank(comm), 0);
    ok(hvd_comm_destroy(comm));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker sets");
    TCase *tcase = tcase_create("sets");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, rules_come_before_the_world_is_joined_and_stay);
    tcase_add_test(tcase, callbacks_of_a_sync_cannot_use_one);
    tcase_add_test(tcase, none_is_there_between_two_generations);
    tcase_add_test(tcase, world_of_one_that_trains_again_has_its_communicator);
    tcase_add_test(tcase, any_thread_asks_while_generations_change);
    tcase_add_loop_test(tcase, without_memory_none_is_made, 0,
                        (int)ARRAY_SIZE(creating));
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
