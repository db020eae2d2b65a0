/* tests/state/test_state.c - registry and snapshots: commit, restore, layout,
 * and what a failing callback leaves behind. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/world.h"
#include "made.h"
#include "state/state.h"
#include "support.h"

#define ok(call) ck_assert_int_eq((call), HVD_OK)

/* An object that is a string, and fails when told to. */
struct text {
    char words[64];
    hvd_status_t serialize_status, deserialize_status;
};

static size_t text_size(void *arg)
{
    return strlen(((struct text *)arg)->words);
}

static hvd_status_t text_serialize(void *buf, size_t nbytes, void *arg)
{
    struct text *text = arg;

    memcpy(buf, text->words, nbytes);
    return text->serialize_status;
}

static hvd_status_t text_deserialize(const void *buf, size_t nbytes, void *arg)
{
    struct text *text = arg;

    memcpy(text->words, buf, nbytes);
    text->words[nbytes] = '\0';
    return text->deserialize_status;
}

static const hvd_state_object_ops_t text_ops = {sizeof(hvd_state_object_ops_t),
                                                text_size, text_serialize,
                                                text_deserialize};

static hvd_status_t (*const adders[])(hvd_state_t *, const char *, void *,
                                      size_t) = {hvd_state_add,
                                                 hvd_state_add_local};

START_TEST(state_add_bad_names_and_memory_are_refused)
{
    hvd_state_t *state = made_state();
    char name[129];
    int x = 0;

    memset(name, 'n', sizeof(name));
    name[128] = '\0';
    ck_assert_int_eq(adders[_i](state, "", &x, 4), HVD_ERR_INVALID);
    ck_assert_int_eq(adders[_i](state, name, &x, 4), HVD_ERR_INVALID);
    name[127] = '\0';
    ok(adders[_i](state, name, &x, 4));
    ck_assert_int_eq(adders[_i](state, name, &x, 4), HVD_ERR_INVALID);
    ck_assert_int_eq(adders[1 - _i](state, name, &x, 4), HVD_ERR_INVALID);
    ck_assert_int_eq(adders[_i](state, "x", NULL, 4), HVD_ERR_INVALID);
    ck_assert_int_eq(adders[_i](NULL, "x", &x, 4), HVD_ERR_INVALID);
    ck_assert_int_eq(adders[_i](state, NULL, &x, 4), HVD_ERR_INVALID);
    hvd_state_destroy(state);
}
END_TEST

START_TEST(state_bad_arguments_are_refused)
{
    hvd_state_t *state = made_state();
    int x = 0;

    ok(hvd_state_add(state, "x", &x, sizeof(x)));
    ck_assert_int_eq(hvd_state_create(NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_state_rebind(state, "x", NULL, 4), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_state_rebind(state, "none", &x, 4), HVD_ERR_INVALID);
    ok(hvd_state_add_object(state, "text", &text_ops, NULL));
    ck_assert_int_eq(hvd_state_rebind(state, "text", &x, 4), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_state_remove(state, "none"), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_state_add_sampler(state, "s", NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_state_add_object(state, "o", NULL, NULL),
                     HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_state_on_commit(state, NULL, NULL), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_state_on_reset(state, NULL, NULL), HVD_ERR_INVALID);
    hvd_state_destroy(state);
    hvd_state_destroy(NULL);
}
END_TEST

START_TEST(state_object_without_a_function_is_refused)
{
    const hvd_state_object_ops_t all = text_ops;
    hvd_state_object_ops_t lacks[] = {all, all, all, all};
    hvd_state_t *state = made_state();

    lacks[0].size = NULL;
    lacks[1].serialize = NULL;
    lacks[2].deserialize = NULL;
    lacks[3].struct_size = offsetof(hvd_state_object_ops_t, deserialize);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(hvd_state_add_object(state, "o", &lacks[i], NULL),
                         HVD_ERR_INVALID);
    ok(hvd_state_add_object(state, "o", &all, NULL));
    hvd_state_destroy(state);
}
END_TEST

START_TEST(state_object_keeps_its_own_ops)
{
    hvd_state_object_ops_t ops = text_ops;
    struct text text = {.words = "before"};
    hvd_state_t *state = made_state();

    ok(hvd_state_add_object(state, "o", &ops, &text));
    memset(&ops, 0, sizeof(ops));
    ok(state_save(state, 1, 1));
    strcpy(text.words, "after");
    ok(state_restore(state));
    ck_assert_str_eq(text.words, "before");
    hvd_state_destroy(state);
}
END_TEST

/* Each commit asks anew how many bytes there are. */
START_TEST(state_object_has_the_size_of_each_commit)
{
    struct text text = {.words = "one"};
    hvd_state_t *state = made_state();

    ok(hvd_state_add_object(state, "o", &text_ops, &text));
    ok(state_save(state, 1, 1));
    strcpy(text.words, "something longer");
    ok(state_save(state, 1, 1));
    strcpy(text.words, "");
    ok(state_restore(state));
    ck_assert_str_eq(text.words, "something longer");
    hvd_state_destroy(state);
}
END_TEST

static size_t too_large(void *arg)
{
    return ((size_t)1 << 30) + 1;
}

START_TEST(state_object_that_is_too_large_is_named)
{
    hvd_state_object_ops_t ops = text_ops;
    hvd_state_t *state = made_state();

    ops.size = too_large;
    ok(hvd_state_add_object(state, "huge", &ops, NULL));
    ck_assert_int_eq(state_save(state, 1, 1), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "object 'huge' has"));
    hvd_state_destroy(state);
}
END_TEST

START_TEST(state_restore_before_commit_is_refused)
{
    hvd_state_t *state = made_state();

    ck_assert_int_eq(state_restore(state), HVD_ERR_STATE);
    ck_assert(state_id_is_none(state_id_of(state)));
    ck_assert_uint_eq(hvd_state_version(state), 0);
    ck_assert_int_eq(state_committed_size(state), 0);
    hvd_state_destroy(state);
}
END_TEST

START_TEST(state_commits_count_and_name_their_generation)
{
    hvd_state_t *state = made_state();
    struct state_id id;
    int x = 1;

    ok(hvd_state_add(state, "x", &x, sizeof(x)));
    ok(state_save(state, 3, 4));
    ok(state_save(state, 3, 4));
    id = state_id_of(state);
    ck_assert_uint_eq(id.generation, 3);
    ck_assert_uint_eq(id.version, 2);
    ck_assert_int_eq(state_committed_size(state), 4);
    state_stamp(state, (struct state_id){5, 2});
    ok(state_save(state, 5, 2));
    id = state_id_of(state);
    ck_assert_uint_eq(id.generation, 5);
    ck_assert_uint_eq(id.version, 3);
    ck_assert_uint_eq(hvd_state_version(state), 3);
    hvd_state_destroy(state);
}
END_TEST

/* Without a world a snapshot can be restored but equals nobody else's. */
START_TEST(state_save_before_world_has_no_id)
{
    hvd_state_t *state = made_state();
    int x = 1;

    ok(hvd_state_add(state, "x", &x, sizeof(x)));
    ok(state_save(state, 0, 0));
    ck_assert(state_id_is_none(state_id_of(state)));
    x = 2;
    ok(state_restore(state));
    ck_assert_int_eq(x, 1);
    hvd_state_destroy(state);
}
END_TEST

START_TEST(state_restore_brings_all_kinds_back)
{
    hvd_state_t *state = made_state();
    hvd_sampler_t *sampler = made_sampler(100, NULL);
    struct text text = {.words = "before"};
    double weights[3] = {1, 2, 3};
    uint64_t indices[10], rng = 7;
    char nothing[1] = "";
    size_t n;
    bool end;

    world_set(&(struct world){1, 0, 1, 0, 1, 0, 1});
    ok(hvd_state_add_local(state, "rng", &rng, sizeof(rng)));
    ok(hvd_state_add(state, "weights", weights, sizeof(weights)));
    ok(hvd_state_add(state, "nothing", nothing, 0));
    ok(hvd_state_add_object(state, "text", &text_ops, &text));
    ok(hvd_state_add_sampler(state, "data", sampler));
    ok(hvd_sampler_next(sampler, 10, indices, &n, &end));
    ok(state_save(state, 1, 1));
    ok(hvd_sampler_next(sampler, 10, indices, &n, &end));
    weights[1] = 9;
    rng = 8;
    strcpy(text.words, "something longer than before");
    ok(state_restore(state));
    ck_assert(weights[1] == 2);
    ck_assert_uint_eq(rng, 7);
    ck_assert_str_eq(text.words, "before");
    ck_assert_uint_eq(hvd_sampler_position(sampler), 10);
    hvd_state_destroy(state);
    hvd_sampler_destroy(sampler);
}
END_TEST

START_TEST(state_failing_serialize_keeps_older_commit)
{
    hvd_state_t *state = made_state();
    struct text text = {.words = "one"};
    int x = 1;

    ok(hvd_state_add(state, "x", &x, sizeof(x)));
    ok(hvd_state_add_object(state, "text", &text_ops, &text));
    ok(state_save(state, 1, 1));
    x = 2;
    strcpy(text.words, "two");
    text.serialize_status = (hvd_status_t)-1001;
    ck_assert_int_eq(state_save(state, 1, 1), -1001);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "'text'"));
    text.serialize_status = HVD_ERR_SYSTEM;
    ck_assert_int_eq(state_save(state, 1, 1), HVD_ERR_CALLBACK);
    ck_assert_uint_eq(hvd_state_version(state), 1);
    ok(state_restore(state));
    ck_assert_int_eq(x, 1);
    ck_assert_str_eq(text.words, "one");
    hvd_state_destroy(state);
}
END_TEST

START_TEST(state_failing_deserialize_names_entry)
{
    hvd_state_t *state = made_state();
    struct text text = {.words = "one", .deserialize_status = HVD_ERR_NOMEM};

    ok(hvd_state_add_object(state, "text", &text_ops, &text));
    ok(state_save(state, 1, 1));
    ck_assert_int_eq(state_restore(state), HVD_ERR_CALLBACK);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "'text'"));
    text.deserialize_status = HVD_OK;
    ok(state_restore(state));
    hvd_state_destroy(state);
}
END_TEST

START_TEST(state_snapshots_grow_with_entries)
{
    hvd_state_t *state = made_state();
    size_t max = (size_t)5 << 20;
    unsigned char *bytes = malloc(max);

    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 1, max);
    ok(hvd_state_add(state, "bytes", bytes, 1));
    for (size_t nbytes = 1; nbytes < max; nbytes = nbytes * 3 + 1) {
        ok(hvd_state_rebind(state, "bytes", bytes, nbytes));
        ok(state_save(state, 1, 1));
        memset(bytes, 2, nbytes);
        ok(state_restore(state));
        ck_assert_int_eq(bytes[0], 1);
        ck_assert_int_eq(bytes[nbytes - 1], 1);
    }
    hvd_state_destroy(state);
    free(bytes);
}
END_TEST

START_TEST(state_impossible_size_is_no_memory_older_commit_intact)
{
    hvd_state_t *state = made_state();
    int x = 1, y = 2;

    ok(hvd_state_add(state, "x", &x, sizeof(x)));
    ok(hvd_state_add(state, "y", &y, sizeof(y)));
    ok(state_save(state, 1, 1));
    ok(hvd_state_rebind(state, "y", &y, SIZE_MAX));
    ck_assert_int_eq(state_save(state, 1, 1), HVD_ERR_NOMEM);
    ok(hvd_state_rebind(state, "y", &y, SIZE_MAX / 8));
    ck_assert_int_eq(state_save(state, 1, 1), HVD_ERR_NOMEM);
    ok(hvd_state_rebind(state, "y", &y, sizeof(y)));
    x = 5;
    ok(state_restore(state));
    ck_assert_int_eq(x, 1);
    hvd_state_destroy(state);
}
END_TEST

static void layout_of(const char *const *names, size_t n, bool local_last,
                      uint8_t *digest)
{
    hvd_state_t *state = made_state();
    char text[STATE_LAYOUT_TEXT_MAX];
    int x = 0;

    for (size_t i = 0; i < n; i++)
        if (local_last && i == n - 1)
            ok(hvd_state_add_local(state, names[i], &x, sizeof(x)));
        else
            ok(hvd_state_add(state, names[i], &x, sizeof(x)));
    state_layout(state, digest, text, sizeof(text));
    hvd_state_destroy(state);
}

START_TEST(state_layout_depends_on_names_order_and_kinds)
{
    uint8_t ab[16], again[16], ba[16], abl[16], a[16];

    layout_of((const char *[]){"a", "b"}, 2, false, ab);
    layout_of((const char *[]){"a", "b"}, 2, false, again);
    layout_of((const char *[]){"b", "a"}, 2, false, ba);
    layout_of((const char *[]){"a", "b"}, 2, true, abl);
    layout_of((const char *[]){"a"}, 1, false, a);
    ck_assert_mem_eq(ab, again, 16);
    ck_assert_mem_ne(ab, ba, 16);
    ck_assert_mem_ne(ab, abl, 16);
    ck_assert_mem_ne(ab, a, 16);
}
END_TEST

START_TEST(state_layout_text_names_entries_and_is_cut)
{
    hvd_state_t *state = made_state();
    char text[64], name[32];
    uint8_t with[16], without[16];
    int x = 0;

    state_layout(state, without, text, sizeof(text));
    ck_assert_str_eq(text, "");
    ok(hvd_state_add(state, "weights", &x, sizeof(x)));
    ok(hvd_state_add_local(state, "rng", &x, sizeof(x)));
    state_layout(state, with, text, sizeof(text));
    ck_assert_str_eq(text, "weights shared, rng local");
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof(name), "layer%d", i);
        ok(hvd_state_add(state, name, &x, sizeof(x)));
        for (size_t max = 4; max <= sizeof(text); max++) {
            state_layout(state, without, text, max);
            ck_assert_uint_lt(strlen(text), max);
        }
    }
    ck_assert_str_eq(text + strlen(text) - 3, "...");
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof(name), "layer%d", i);
        ok(hvd_state_remove(state, name));
    }
    state_layout(state, without, text, sizeof(text));
    ck_assert_mem_eq(with, without, 16);
    hvd_state_destroy(state);
}
END_TEST

/* A heartbeat reads the id while the training thread commits: it never sees
 * half of one. Generation and version grow together here. */
static void *read_ids(void *arg)
{
    const hvd_state_t *state = arg;
    struct state_id id;

    do {
        id = state_id_of(state);
        if (id.generation != id.version)
            return arg;
    } while (id.version < 20000);
    return NULL;
}

START_TEST(state_id_read_by_other_thread_is_whole)
{
    hvd_state_t *state = made_state();
    void *failed = state;
    pthread_t reader;

    ok(state_save(state, 1, 1));
    ck_assert_int_eq(pthread_create(&reader, NULL, read_ids, state), 0);
    for (uint64_t i = 1; i <= 20000; i++)
        state_stamp(state, (struct state_id){i, i});
    pthread_join(reader, &failed);
    ck_assert_ptr_null(failed);
    hvd_state_destroy(state);
}
END_TEST

/* Pages of this process, resident or not. */
static size_t count_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t n = 0;

    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%zu", &n), 1);
    fclose(file);
    return n;
}

START_TEST(state_destroyed_gives_both_snapshots_back)
{
    enum { STATES = 20, NBYTES = 4 << 20 };
    static uint8_t bytes[NBYTES];
    size_t before = count_pages();

    for (int i = 0; i < STATES; i++) {
        hvd_state_t *state = made_state();

        ok(hvd_state_add(state, "bytes", bytes, sizeof(bytes)));
        ok(state_save(state, 1, 1));
        ok(state_save(state, 1, 1));
        hvd_state_destroy(state);
    }
    ck_assert_uint_lt(count_pages(), before + STATES / 2 * NBYTES / 4096);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("state");
    TCase *tc = tcase_create("state");

    tcase_add_loop_test(tc, state_add_bad_names_and_memory_are_refused, 0,
                        (int)ARRAY_SIZE(adders));
    tcase_add_test(tc, state_bad_arguments_are_refused);
    tcase_add_test(tc, state_object_without_a_function_is_refused);
    tcase_add_test(tc, state_object_keeps_its_own_ops);
    tcase_add_test(tc, state_object_has_the_size_of_each_commit);
    tcase_add_test(tc, state_object_that_is_too_large_is_named);
    tcase_add_test(tc, state_restore_before_commit_is_refused);
    tcase_add_test(tc, state_destroyed_gives_both_snapshots_back);
    tcase_add_test(tc, state_commits_count_and_name_their_generation);
    tcase_add_test(tc, state_save_before_world_has_no_id);
    tcase_add_test(tc, state_restore_brings_all_kinds_back);
    tcase_add_test(tc, state_failing_serialize_keeps_older_commit);
    tcase_add_test(tc, state_failing_deserialize_names_entry);
    tcase_add_test(tc, state_snapshots_grow_with_entries);
    tcase_add_test(tc, state_impossible_size_is_no_memory_older_commit_intact);
    tcase_add_test(tc, state_layout_depends_on_names_order_and_kinds);
    tcase_add_test(tc, state_layout_text_names_entries_and_is_cut);
    tcase_add_test(tc, state_id_read_by_other_thread_is_whole);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
