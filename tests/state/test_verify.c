/* tests/state/test_verify.c - ranks whose states differ: the sentences, by
 * table, and the comparison, with a thread for each rank and a comm_run() of
 * its own in place of comm.c. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/text.h"
#include "base/world.h"
#include "collectives/comm.h"
#include "made.h"
#include "state/sampler.h"
#include "state/state.h"
#include "state/verify_text.h"
#include "support.h"

enum { SIZE = 3, NBYTES_MAX = 4096, N_LARGE = 3 << 20 };

#define ok(call) ck_assert_int_eq((call), HVD_OK)

/* ---- collectives of threads ---------------------------------------------- */

static pthread_barrier_t meeting;
static uint8_t brought[SIZE][NBYTES_MAX];
static __thread int self;
static int n_collectives; /* of rank 0 */

hvd_status_t comm_run(struct comm *comm, const struct collective_args *args)
{
    (void)comm;
    HVD_ASSERT(args->dtype == HVD_UINT8 && args->count <= NBYTES_MAX);
    memcpy(brought[self], args->sendbuf, args->count);
    if (self == 0)
        n_collectives++;
    pthread_barrier_wait(&meeting);
    for (int i = 0; args->kind == COLLECTIVE_ALLGATHER && i < SIZE; i++)
        memcpy((uint8_t *)args->recvbuf + (size_t)i * args->count, brought[i],
               args->count);
    if (args->kind == COLLECTIVE_BROADCAST)
        memcpy(args->recvbuf, brought[args->root], args->count);
    pthread_barrier_wait(&meeting);
    return HVD_OK;
}

/* ---- ranks --------------------------------------------------------------- */

static struct rank {
    int index;
    float weights[1000], bias[3];
    int rng, object[100];
    size_t object_nbytes;
    uint64_t indices[16];
    size_t batch;
    bool more;    /* one more entry */
    bool smaller; /* "bias" is bound to less */
    hvd_sampler_t *sampler;
    char text[400];
    enum state_difference difference;
} ranks[SIZE];

static size_t object_size(void *arg)
{
    const struct rank *r = arg;

    return r->object_nbytes;
}

static hvd_status_t object_write(void *buf, size_t nbytes, void *arg)
{
    const struct rank *r = arg;

    memcpy(buf, r->object, nbytes);
    return HVD_OK;
}

static hvd_status_t object_read(const void *buf, size_t nbytes, void *arg)
{
    struct rank *r = arg;

    memcpy(r->object, buf, nbytes);
    return HVD_OK;
}

static const hvd_state_object_ops_t ops = {
    sizeof(hvd_state_object_ops_t), object_size, object_write, object_read};

/* Equal on all ranks. */
static uint8_t large[N_LARGE];

static void set_up(void)
{
    memset(ranks, 0, sizeof(ranks));
    for (int i = 0; i < SIZE; i++) {
        ranks[i].index = i;
        ranks[i].batch = 4;
        ranks[i].object_nbytes = sizeof(int);
        ranks[i].rng = i; /* local: it may differ */
    }
    n_collectives = 0;
}

static void *commit(void *arg)
{
    struct rank *r = arg;
    hvd_state_t *state = made_state();
    struct text t = text_into(r->text, sizeof(r->text));
    size_t n;
    bool end;

    self = r->index;
    r->sampler = made_sampler(100, NULL);
    ok(hvd_state_add(state, "bias", r->bias, sizeof(r->bias)));
    ok(hvd_state_add_local(state, "rng", &r->rng, sizeof(r->rng)));
    ok(hvd_state_add_object(state, "object", &ops, r));
    ok(hvd_state_add(state, "weights", r->weights, sizeof(r->weights)));
    ok(hvd_state_add(state, "large", large, sizeof(large)));
    ok(hvd_state_add_sampler(state, "data", r->sampler));
    if (r->smaller)
        ok(hvd_state_rebind(state, "bias", r->bias, sizeof(r->bias) / 3));
    if (r->more)
        ok(hvd_state_add(state, "more", &r->rng, sizeof(r->rng)));
    ok(hvd_sampler_next(r->sampler, r->batch, r->indices, &n, &end));
    ok(state_save(state, 1, SIZE));
    ok(state_verify(state, NULL, SIZE, &t, &r->difference));
    hvd_state_destroy(state);
    hvd_sampler_destroy(r->sampler);
    return NULL;
}

/* All of them come to the same. */
static void expect(enum state_difference difference, const char *text)
{
    pthread_t threads[SIZE];

    /* the same on all: the rank is a thread's */
    world_set(&(struct world){1, 0, SIZE, 0, SIZE, 0, 1});
    pthread_barrier_init(&meeting, NULL, SIZE);
    for (int i = 0; i < SIZE; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, commit, &ranks[i]),
                         0);
    for (int i = 0; i < SIZE; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&meeting);
    for (int i = 0; i < SIZE; i++) {
        ck_assert_str_eq(ranks[i].text, text);
        ck_assert_int_eq(ranks[i].difference, difference);
    }
}

#define KEEP                                                            \
    " -> register all data that must survive, and change it on all "    \
    "ranks alike (padding counts); data that differs between ranks is " \
    "for hvd_state_add_local"

START_TEST(equal_states_take_one_collective)
{
    expect(STATE_EQUAL, "");
    ck_assert_int_eq(n_collectives, 1);
}
END_TEST

START_TEST(entry_that_differs_is_named_with_its_rank)
{
    ranks[1].weights[999] = 1;
    expect(STATE_DIFFERS,
           "entry 'weights' differs: rank 1 differs from ranks 0, 2" KEEP);
}
END_TEST

START_TEST(rank_0_may_be_the_one)
{
    ranks[0].bias[0] = 1;
    ranks[1].weights[0] = 1;
    expect(STATE_DIFFERS,
           "entry 'bias' differs: rank 0 differs from ranks 1, 2" KEEP);
}
END_TEST

START_TEST(batch_of_a_sampler_is_named)
{
    ranks[2].batch = 2;
    expect(STATE_DIFFERS, "sampler 'data' differs: batch is 4 on rank 0 and 2 "
                          "on rank 2 -> create and call it alike on all ranks");
}
END_TEST

START_TEST(object_is_another_difference)
{
    ranks[2].object[0] = 7;
    expect(STATE_OBJECT_DIFFERS,
           "entry 'object' differs: rank 2 differs from ranks 0, 1 -> its "
           "serialize() has to write equal bytes on all ranks");
}
END_TEST

/* Behind it, equal entries lie elsewhere on that rank. */
START_TEST(object_that_is_longer_changes_no_other_entry)
{
    for (size_t i = 0; i < N_LARGE; i++)
        large[i] = (uint8_t)(i * 7);
    ranks[2].object_nbytes = sizeof(ranks[2].object);
    expect(STATE_OBJECT_DIFFERS,
           "entry 'object' differs: rank 2 differs from ranks 0, 1 -> its "
           "serialize() has to write equal bytes on all ranks");
}
END_TEST

START_TEST(object_comes_after_all_others)
{
    ranks[2].object[0] = 7;
    ranks[1].weights[0] = 1;
    expect(STATE_DIFFERS,
           "entry 'weights' differs: rank 1 differs from ranks 0, 2" KEEP);
}
END_TEST

START_TEST(entry_of_one_rank_alone_is_found)
{
    ranks[0].more = true;
    expect(STATE_DIFFERS, "the registered entries differ: rank 0 differs from "
                          "ranks 1, 2" KEEP);
}
END_TEST

START_TEST(entry_of_another_size_is_named)
{
    ranks[1].smaller = true;
    expect(STATE_DIFFERS,
           "entry 'bias' differs: rank 1 differs from ranks 0, 2" KEEP);
}
END_TEST

/* ---- sentences ----------------------------------------------------------- */

static const struct {
    const char *rows, *sentence;
} sentences[] = {
    {"aab", "rank 2 differs from ranks 0, 1"},
    {"ab", "rank 1 differs from rank 0"},
    {"baa", "rank 0 differs from ranks 1, 2"},
    {"abc", "ranks 1, 2 differ from rank 0"},
    {"bbbbbbbbbba", "rank 10 differs from ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 "
                    "more"},
};

START_TEST(ranks_are_listed)
{
    char buf[200];
    struct text t = text_into(buf, sizeof(buf));
    struct verify_rows rows = {(const uint8_t *)sentences[_i].rows, 1,
                               (int)strlen(sentences[_i].rows)};

    verify_text_ranks(&t, &rows);
    ck_assert_str_eq(buf, sentences[_i].sentence);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("verify");
    TCase *tc = tcase_create("verify");

    tcase_add_checked_fixture(tc, set_up, NULL);
    tcase_add_test(tc, equal_states_take_one_collective);
    tcase_add_test(tc, entry_that_differs_is_named_with_its_rank);
    tcase_add_test(tc, rank_0_may_be_the_one);
    tcase_add_test(tc, batch_of_a_sampler_is_named);
    tcase_add_test(tc, object_is_another_difference);
    tcase_add_test(tc, object_that_is_longer_changes_no_other_entry);
    tcase_add_test(tc, object_comes_after_all_others);
    tcase_add_test(tc, entry_of_one_rank_alone_is_found);
    tcase_add_test(tc, entry_of_another_size_is_named);
    tcase_add_loop_test(tc, ranks_are_listed, 0, ARRAY_SIZE(sentences));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
