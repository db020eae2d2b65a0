/* tests/state/test_sync.c - a state from one worker to another, over a tape. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/bytes.h"
#include "base/error.h"
#include "made.h"
#include "state/state.h"
#include "state/sync_digest.h"
#include "state/sync_pieces.h"
#include "state/sync_wire.h"
#include "support.h"
#include "tape.h"

#define ok(call) ck_assert_int_eq((call), HVD_OK)

struct blob {
    char bytes[256];
    size_t nbytes;
    hvd_status_t status;
};

static size_t blob_size(void *arg)
{
    return ((struct blob *)arg)->nbytes;
}

static hvd_status_t blob_serialize(void *buf, size_t nbytes, void *arg)
{
    memcpy(buf, ((struct blob *)arg)->bytes, nbytes);
    return HVD_OK;
}

static hvd_status_t blob_deserialize(const void *buf, size_t nbytes, void *arg)
{
    struct blob *blob = arg;

    if (nbytes > sizeof(blob->bytes))
        return HVD_ERR_INVALID;
    memcpy(blob->bytes, buf, nbytes);
    blob->nbytes = nbytes;
    return blob->status;
}

static const hvd_state_object_ops_t blob_ops = {sizeof(hvd_state_object_ops_t),
                                                blob_size, blob_serialize,
                                                blob_deserialize};

static hvd_status_t count_call(void *arg)
{
    ++*(int *)arg;
    return HVD_OK;
}

struct worker {
    float weights[10];
    uint64_t rng;
    int epoch, n_synced;
    struct blob blob;
    hvd_sampler_t *sampler;
    hvd_state_t *state;
};

static void worker_init(struct worker *w, int seed)
{
    memset(w, 0, sizeof(*w));
    for (int i = 0; i < 10; i++)
        w->weights[i] = (float)(seed * 100 + i);
    w->rng = (uint64_t)seed;
    w->epoch = seed;
    w->blob.nbytes = (size_t)seed * 3;
    memset(w->blob.bytes, seed, w->blob.nbytes);
    w->sampler = made_sampler(100, NULL);
    w->state = made_state();
    ok(hvd_state_add(w->state, "weights", w->weights, sizeof(w->weights)));
    ok(hvd_state_add_local(w->state, "rng", &w->rng, sizeof(w->rng)));
    ok(hvd_state_add_object(w->state, "blob", &blob_ops, &w->blob));
    ok(hvd_state_add(w->state, "epoch", &w->epoch, sizeof(w->epoch)));
    ok(hvd_state_add_sampler(w->state, "data", w->sampler));
    ok(hvd_state_on_sync(w->state, count_call, &w->n_synced));
    ok(hvd_sampler_set_epoch(w->sampler, (uint64_t)seed));
}

static void worker_fini(struct worker *w)
{
    hvd_state_destroy(w->state);
    hvd_sampler_destroy(w->sampler);
}

static void assert_content(const struct worker *w, int seed)
{
    ck_assert(w->weights[9] == (float)(seed * 100 + 9));
    ck_assert_int_eq(w->epoch, seed);
    ck_assert_uint_eq(w->blob.nbytes, (size_t)seed * 3);
    ck_assert_uint_eq(hvd_sampler_epoch(w->sampler), (uint64_t)seed);
}

static const struct state_id next_id = {4, 17};

static void record(hvd_state_t *state)
{
    tape_clear();
    state_stamp(state, next_id);
    ok(state_sync_send(state, NULL, 1, false));
}

static hvd_status_t play(hvd_state_t *state, uint64_t *nbytes_p)
{
    tape.n_read = 0;
    return state_sync_receive(state, NULL, 0, next_id, false, nbytes_p);
}

/* Horovod's S1 (test_elastic_state): sync makes everybody rank 0, restore
 * reverts what was modified, commit keeps it. */
START_TEST(S1_elastic_state)
{
    struct worker a, b;
    uint64_t nbytes = 0;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(state_save(a.state, 3, 5));
    record(a.state);
    ok(play(b.state, &nbytes));
    ck_assert_uint_eq(nbytes, tape.n_written);
    assert_content(&b, 1);
    ck_assert_int_eq(b.n_synced, 1);
    b.epoch = 9;
    b.weights[9] = 0;
    ok(state_restore(b.state));
    assert_content(&b, 1);
    b.epoch = 9;
    ok(state_save(b.state, 4, 2));
    b.epoch = 10;
    ok(state_restore(b.state));
    ck_assert_int_eq(b.epoch, 9);
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

/* What on_sync finds: the state of the source, whole. */
static hvd_status_t see_all(void *arg)
{
    const struct worker *w = arg;

    assert_content(w, 1);
    ck_assert_int_eq(w->n_synced, 1); /* in the order of registration */
    return HVD_OK;
}

static hvd_status_t return_user_status(void *arg)
{
    ++*(int *)arg;
    return (hvd_status_t)-2000;
}

START_TEST(sync_callbacks_run_in_order_behind_the_copy)
{
    struct worker a, b;
    uint64_t nbytes;
    int n_failed = 0;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(hvd_state_on_sync(b.state, see_all, &b));
    ok(hvd_state_on_sync(b.state, return_user_status, &n_failed));
    ok(hvd_state_on_sync(b.state, count_call, &b.n_synced));
    ok(state_save(a.state, 3, 5));
    record(a.state);
    ck_assert_int_eq(play(b.state, &nbytes), -2000);
    ck_assert_int_eq(n_failed, 1);
    ck_assert_int_eq(b.n_synced, 1);
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

START_TEST(sync_receiver_takes_id_and_size_keeps_local)
{
    struct worker a, b;
    uint64_t nbytes;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(state_save(a.state, 3, 5));
    a.epoch = 99; /* live, not committed: is not sent */
    record(a.state);
    ok(play(b.state, &nbytes));
    ck_assert(state_id_equal(state_id_of(b.state), next_id));
    ck_assert_int_eq(state_committed_size(b.state), 5);
    ck_assert_int_eq(b.epoch, 1);
    ck_assert_uint_eq(b.rng, 2);
    b.rng = 77;
    ok(state_restore(b.state));
    ck_assert_uint_eq(b.rng, 2);
    /* who has received can serve */
    record(b.state);
    worker_fini(&a);
    worker_init(&a, 3);
    ok(play(a.state, &nbytes));
    assert_content(&a, 1);
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

/* The loss of the source after every single byte. */
START_TEST(sync_lost_anywhere_leaves_own_state)
{
    struct worker a, b;
    uint64_t nbytes = 12345;
    size_t n_written;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(state_save(a.state, 3, 5));
    ok(state_save(b.state, 2, 3));
    record(a.state);
    n_written = tape.n_written;
    for (size_t end = 0; end < n_written; end++) {
        tape.end = end;
        ck_assert_int_eq(play(b.state, &nbytes), HVD_PEER_LOST);
        assert_content(&b, 2);
        ck_assert_uint_eq(state_id_of(b.state).generation, 2);
    }
    ck_assert_uint_eq(nbytes, 12345);
    b.epoch = 50;
    ok(state_restore(b.state));
    assert_content(&b, 2);
    ck_assert_int_eq(b.n_synced, 0);
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

START_TEST(sync_other_size_names_entry_and_both_sizes)
{
    struct worker a, b;
    uint64_t nbytes;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(hvd_state_rebind(b.state, "weights", b.weights, sizeof(float) * 9));
    ok(state_save(a.state, 3, 5));
    record(a.state);
    ck_assert_int_eq(play(b.state, &nbytes), HVD_ERR_LAYOUT);
    ck_assert_ptr_nonnull(strstr(
        hvd_last_error(), "'weights' has 36 bytes here, 40 at the source"));
    assert_content(&b, 2);
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

START_TEST(sync_other_layout_is_refused)
{
    struct worker a, b;
    uint64_t nbytes;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(state_save(a.state, 3, 5));
    record(a.state);
    ok(hvd_state_remove(b.state, "epoch"));
    ck_assert_int_eq(play(b.state, &nbytes), HVD_ERR_LAYOUT);
    ok(hvd_state_add(b.state, "epochs", &b.epoch, sizeof(b.epoch)));
    ck_assert_int_eq(play(b.state, &nbytes), HVD_ERR_LAYOUT);
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

/* This rank has grown an entry since its own commit, and the source had not. */
START_TEST(sync_of_an_entry_that_has_grown_here)
{
    float larger[20] = {0};
    struct worker a, b;
    uint64_t nbytes;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(state_save(a.state, 3, 5));
    record(a.state);
    ok(hvd_state_rebind(b.state, "weights", larger, sizeof(larger)));
    ck_assert_int_eq(play(b.state, &nbytes), HVD_ERR_LAYOUT);
    ok(hvd_state_rebind(b.state, "weights", b.weights, sizeof(b.weights)));
    ok(state_save(b.state, 2, 5));
    ok(hvd_state_rebind(b.state, "weights", larger, sizeof(larger)));
    ok(play(b.state, &nbytes));
    ck_assert_mem_eq(larger, a.weights, sizeof(a.weights));
    larger[10] = 5;
    ok(state_save(b.state, 3, 5)); /* of twenty */
    larger[10] = 6;
    ok(state_restore(b.state));
    ck_assert(larger[10] == 5);
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

START_TEST(sync_other_dataset_is_refused_before_live_changes)
{
    struct worker a, b;
    hvd_sampler_t *other = made_sampler(99, NULL);
    uint64_t nbytes;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(hvd_state_remove(b.state, "data"));
    ok(hvd_state_add_sampler(b.state, "data", other));
    ok(state_save(a.state, 3, 5));
    record(a.state);
    ck_assert_int_eq(play(b.state, &nbytes), HVD_ERR_LAYOUT);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "'data'"));
    assert_content(&b, 2);
    worker_fini(&a);
    worker_fini(&b);
    hvd_sampler_destroy(other);
}
END_TEST

/* Every byte of header and sizes damaged in turn: a loss, but for the mark of
 * the version, never a crash and never a huge allocation. */
START_TEST(sync_damaged_header_is_refused)
{
    struct worker a, b;
    uint64_t nbytes;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(state_save(a.state, 3, 5));
    record(a.state);
    for (size_t i = 0; i < SYNC_HEADER_NBYTES + sync_list_nbytes(4); i++) {
        tape.bytes[i] ^= 0xff;
        ck_assert_int_eq(play(b.state, &nbytes),
                         i < 8 ? HVD_ERR_PROTOCOL : HVD_PEER_LOST);
        ck_assert_ptr_nonnull(strstr(hvd_last_error(), "sync from rank 0"));
        tape.bytes[i] ^= 0xff;
    }
    assert_content(&b, 2);
    ok(play(b.state, &nbytes));
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

START_TEST(sync_of_another_state_is_distrusted)
{
    struct worker a, b;
    uint64_t nbytes;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(state_save(a.state, 3, 5));
    tape_clear();
    ok(state_sync_send(a.state, NULL, 1, false));
    ck_assert_int_eq(play(b.state, &nbytes), HVD_PEER_LOST);
    ck_assert_str_eq(hvd_last_error(), "sync from rank 0: it serves state "
                                       "(3, 1), the base is (4, 17)");
    ck_assert_int_eq(tape.n_distrusted, 1);
    ck_assert(state_id_is_none(state_id_of(b.state)));
    assert_content(&b, 2);
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

struct piece_of_tape {
    size_t offset, nbytes; /* within the shared bytes */
    const char *name;      /* of the entry; NULL: of none */
};

/* One byte of it damaged: named, and nothing of it is taken over. */
static void assert_noticed(hvd_state_t *state, const struct piece_of_tape *part,
                           size_t at)
{
    size_t first = SYNC_HEADER_NBYTES + sync_list_nbytes(3);
    struct state_id id = state_id_of(state);
    char want[64];
    uint64_t nbytes;

    tape.bytes[first + part->offset + at] ^= 1;
    ck_assert_int_eq(play(state, &nbytes), HVD_PEER_LOST);
    snprintf(want, sizeof(want),
             "sync from rank 0: entry '%s' (%zu bytes) arrived damaged",
             part->name, part->nbytes);
    ck_assert_str_eq(hvd_last_error(), want);
    ck_assert(state_id_equal(state_id_of(state), id));
    tape.bytes[first + part->offset + at] ^= 1;
}

/* In small entries and in one of several pieces, at the edges of each. */
START_TEST(sync_damaged_entry_is_named)
{
    enum { PIECE = SYNC_PIECE_NBYTES, LARGE = 5 * (PIECE / 2) };
    static uint8_t memory[2][3][LARGE];
    static const struct piece_of_tape parts[] = {
        {0, 100, "head"}, {128, LARGE, "large"}, {128 + LARGE, 70, "tail"}};
    const size_t in_large[] = {0,         PIECE - 129,     PIECE - 128,
                               PIECE / 2, 2 * PIECE - 129, 2 * PIECE - 128,
                               LARGE - 1};
    hvd_state_t *states[2];
    uint64_t nbytes;

    for (int r = 0; r < 2; r++) {
        memset(memory[r], r, sizeof(memory[r]));
        states[r] = made_state();
        for (int i = 0; i < 3; i++)
            ok(hvd_state_add(states[r], parts[i].name, memory[r][i],
                             parts[i].nbytes));
        ok(state_save(states[r], 1, 2));
    }
    record(states[0]);
    for (size_t i = 0; i < ARRAY_SIZE(in_large); i++)
        assert_noticed(states[1], &parts[1], in_large[i]);
    assert_noticed(states[1], &parts[0], 0);
    assert_noticed(states[1], &parts[0], 99);
    assert_noticed(states[1], &parts[2], 69);
    ck_assert_int_eq(memory[1][1][0], 1);
    ck_assert_int_eq(tape.n_distrusted, (int)ARRAY_SIZE(in_large) + 3);
    ok(play(states[1], &nbytes));
    ck_assert_mem_eq(memory[1][1], memory[0][1], LARGE);
    for (int r = 0; r < 2; r++)
        hvd_state_destroy(states[r]);
}
END_TEST

/* --- pieces --- */

struct wanted_piece {
    size_t from, to;
    bool apart;
};

static void assert_pieces(const struct snapshot *s, bool apart,
                          const struct wanted_piece *wanted, size_t n)
{
    struct sync_pieces p = {.snapshot = s, .apart = apart};

    for (size_t i = 0; i < n; i++) {
        ck_assert(sync_pieces_next(&p));
        ck_assert_uint_eq(p.from, wanted[i].from);
        ck_assert_uint_eq(p.to, wanted[i].to);
        ck_assert_int_eq(p.goes_apart, wanted[i].apart);
    }
    ck_assert(!sync_pieces_next(&p));
}

/* Cut at what is long, and, if it goes apart, at what lies on a device; not at
 * what is empty, or is not sent. */
START_TEST(pieces_go_one_way)
{
    enum { MB = SYNC_PIECE_NBYTES };
    struct record records[] = {
        {.offset = 0, .nbytes = 100, .shared = true},
        {.offset = 99999, .nbytes = 5, .device = false},
        {.offset = 128, .nbytes = 0, .shared = true, .device = true},
        {.offset = 128, .nbytes = 64, .shared = true},
        {.offset = 192, .nbytes = MB + 1, .shared = true, .device = true},
        {.offset = MB + 256, .nbytes = 7, .shared = true, .device = true},
        {.offset = MB + 320, .nbytes = 2 * MB, .shared = true}};
    const struct snapshot s = {.records = records,
                               .n_records = ARRAY_SIZE(records),
                               .shared_nbytes = 3 * MB + 320};
    const struct wanted_piece wanted[] = {{0, 192, false},
                                          {192, MB + 192, true},
                                          {MB + 192, MB + 320, true},
                                          {MB + 320, 2 * MB + 320, false},
                                          {2 * MB + 320, 3 * MB + 320, false}};
    const struct wanted_piece together[] = {{0, MB, false},
                                            {MB, 2 * MB, false},
                                            {2 * MB, 3 * MB, false},
                                            {3 * MB, 3 * MB + 320, false}};
    const struct snapshot none = {.n_records = 0};

    assert_pieces(&s, true, wanted, ARRAY_SIZE(wanted));
    assert_pieces(&s, false, together, ARRAY_SIZE(together));
    assert_pieces(&none, true, NULL, 0);
}
END_TEST

START_TEST(sync_damaged_digests_are_noticed)
{
    struct worker a, b;
    uint64_t nbytes;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(state_save(a.state, 3, 5));
    record(a.state);
    for (size_t i = 1; i <= sync_list_nbytes(4); i++) {
        tape.bytes[tape.n_written - i] ^= 1;
        ck_assert_int_eq(play(b.state, &nbytes), HVD_PEER_LOST);
        ck_assert_ptr_nonnull(strstr(hvd_last_error(), "digests"));
        tape.bytes[tape.n_written - i] ^= 1;
    }
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

START_TEST(sync_object_beyond_limit_is_refused)
{
    struct worker a, b;
    uint64_t nbytes;

    worker_init(&a, 1);
    worker_init(&b, 2);
    ok(state_save(a.state, 3, 5));
    record(a.state);
    bytes_put(tape.bytes + SYNC_HEADER_NBYTES + 8, UINT64_C(1) << 40, 8);
    sync_list_seal(tape.bytes + SYNC_HEADER_NBYTES, 4);
    ck_assert_int_eq(play(b.state, &nbytes), HVD_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "'blob'"));
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

START_TEST(sync_failing_deserialize_is_callback_error)
{
    struct worker a, b;
    uint64_t nbytes;

    worker_init(&a, 1);
    worker_init(&b, 2);
    b.blob.status = (hvd_status_t)-1234;
    ok(state_save(a.state, 3, 5));
    record(a.state);
    ck_assert_int_eq(play(b.state, &nbytes), -1234);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "'blob'"));
    worker_fini(&a);
    worker_fini(&b);
}
END_TEST

START_TEST(sync_without_commit_has_nothing_to_send)
{
    struct worker a;

    worker_init(&a, 1);
    ck_assert_int_eq(state_sync_send(a.state, NULL, 1, false), HVD_ERR_STATE);
    worker_fini(&a);
}
END_TEST

START_TEST(sync_empty_state_works)
{
    hvd_state_t *a = made_state(), *b = made_state();
    uint64_t nbytes = 0;

    ok(state_save(a, 1, 1));
    record(a);
    ok(play(b, &nbytes));
    ck_assert_uint_eq(nbytes, 64);
    ok(state_restore(b));
    hvd_state_destroy(a);
    hvd_state_destroy(b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sync");
    TCase *tc = tcase_create("sync");

    tcase_add_test(tc, S1_elastic_state);
    tcase_add_test(tc, sync_callbacks_run_in_order_behind_the_copy);
    tcase_add_test(tc, sync_receiver_takes_id_and_size_keeps_local);
    tcase_add_test(tc, sync_lost_anywhere_leaves_own_state);
    tcase_add_test(tc, sync_other_size_names_entry_and_both_sizes);
    tcase_add_test(tc, sync_other_layout_is_refused);
    tcase_add_test(tc, sync_of_an_entry_that_has_grown_here);
    tcase_add_test(tc, sync_other_dataset_is_refused_before_live_changes);
    tcase_add_test(tc, sync_damaged_header_is_refused);
    tcase_add_test(tc, sync_of_another_state_is_distrusted);
    tcase_add_test(tc, sync_damaged_entry_is_named);
    tcase_add_test(tc, pieces_go_one_way);
    tcase_add_test(tc, sync_damaged_digests_are_noticed);
    tcase_add_test(tc, sync_object_beyond_limit_is_refused);
    tcase_add_test(tc, sync_failing_deserialize_is_callback_error);
    tcase_add_test(tc, sync_without_commit_has_nothing_to_send);
    tcase_add_test(tc, sync_empty_state_works);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
