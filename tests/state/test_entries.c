/* tests/state/test_entries.c - entries that come, go, move and change their
 * size between commits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "made.h"
#include "state/state.h"
#include "support.h"

#define ok(call) ck_assert_int_eq((call), HVD_OK)

START_TEST(state_grown_entry_is_restored_and_its_rest_cleared)
{
    hvd_state_t *state = made_state();
    char small[10] = "small", big[20] = "bigger than it";

    ok(hvd_state_add(state, "buffer", small, sizeof(small)));
    ok(state_save(state, 1, 1));
    ok(hvd_state_rebind(state, "buffer", big, sizeof(big)));
    ok(state_restore(state));
    ck_assert_mem_eq(big, small, sizeof(small));
    for (size_t i = sizeof(small); i < sizeof(big); i++)
        ck_assert_int_eq(big[i], 0);
    big[19] = 'N';
    ok(state_save(state, 1, 1)); /* all of it */
    big[19] = 'n';
    ok(state_restore(state));
    ck_assert_int_eq(big[19], 'N');
    hvd_state_destroy(state);
}
END_TEST

START_TEST(state_resized_entry_restore_names_both_sizes)
{
    hvd_state_t *state = made_state();
    char small[10] = "small", big[20] = "big";

    ok(hvd_state_add(state, "buffer", big, sizeof(big)));
    ok(state_save(state, 1, 1));
    ok(hvd_state_rebind(state, "buffer", small, sizeof(small)));
    ck_assert_int_eq(state_restore(state), HVD_ERR_LAYOUT);
    ck_assert_ptr_nonnull(
        strstr(hvd_last_error(), "'buffer' has 10 bytes, 20 in"));
    ck_assert_str_eq(small, "small");
    ok(state_save(state, 1, 1));
    strcpy(small, "changed");
    ok(state_restore(state));
    ck_assert_str_eq(small, "small");
    hvd_state_destroy(state);
}
END_TEST

START_TEST(state_moved_entry_is_restored_where_it_is_now)
{
    hvd_state_t *state = made_state();
    int before = 1, after = 2;

    ok(hvd_state_add(state, "x", &before, sizeof(before)));
    ok(state_save(state, 1, 1));
    ok(hvd_state_rebind(state, "x", &after, sizeof(after)));
    ok(state_restore(state));
    ck_assert_int_eq(after, 1);
    hvd_state_destroy(state);
}
END_TEST

START_TEST(state_entries_come_and_go_between_commits)
{
    hvd_state_t *state = made_state();
    int a = 1, b = 2, c = 3;

    ok(hvd_state_add(state, "a", &a, sizeof(a)));
    ok(hvd_state_add(state, "b", &b, sizeof(b)));
    ok(state_save(state, 1, 1));
    ok(hvd_state_remove(state, "a"));
    a = b = 0;
    ok(state_restore(state));
    ck_assert_int_eq(a, 0);
    ck_assert_int_eq(b, 2);
    ok(hvd_state_add(state, "c", &c, sizeof(c)));
    b = 0;
    ck_assert_int_eq(state_restore(state), HVD_ERR_LAYOUT);
    ck_assert_ptr_nonnull(strstr(hvd_last_error(), "'c'"));
    ck_assert_int_eq(b, 0);
    ok(state_save(state, 1, 1));
    c = 0;
    ok(state_restore(state));
    ck_assert_int_eq(c, 3);
    hvd_state_destroy(state);
}
END_TEST

enum { MANY = 100000 };

static void add_many(hvd_state_t *state, int *values, int from, int to,
                     int stride)
{
    char name[32];

    for (int i = from; i < to; i += stride) {
        snprintf(name, sizeof(name), "layer%d", i);
        values[i] = i;
        ok(hvd_state_add(state, name, &values[i], sizeof(values[i])));
    }
}

static void remove_many(hvd_state_t *state, int from, int to, int stride)
{
    char name[32];

    for (int i = from; i < to; i += stride) {
        snprintf(name, sizeof(name), "layer%d", i);
        ok(hvd_state_remove(state, name));
    }
}

/* Each of them costs the same, however many there are: where one costs as much
 * as all, this takes minutes. */
START_TEST(state_of_many_entries_that_come_and_go)
{
    hvd_state_t *state = made_state(), *like = made_state();
    int *values = calloc(MANY, sizeof(*values));
    uint8_t digest[2][16];
    char text[64];

    add_many(state, values, 0, MANY, 1);
    ck_assert_int_eq(hvd_state_add(state, "layer7", values, 1),
                     HVD_ERR_INVALID);
    remove_many(state, 1, MANY, 2);
    ck_assert_int_eq(hvd_state_remove(state, "layer1"), HVD_ERR_INVALID);
    ck_assert_int_eq(hvd_state_rebind(state, "layer1", values, 1),
                     HVD_ERR_INVALID);
    add_many(state, values, 1, MANY, 2);
    ok(state_save(state, 1, 1));
    memset(values, 0, MANY * sizeof(*values));
    ok(state_restore(state));
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(values[i], i);

    add_many(like, values, 0, MANY, 2);
    add_many(like, values, 1, MANY, 2);
    state_layout(like, digest[0], text, sizeof(text));
    state_layout(state, digest[1], text, sizeof(text));
    ck_assert_mem_eq(digest[0], digest[1], 16);
    ck_assert(strncmp(text, "layer0 shared, layer2 ", 22) == 0);
    remove_many(state, 0, MANY, 1);
    state_layout(state, digest[1], text, sizeof(text));
    ck_assert_str_eq(text, "");
    hvd_state_destroy(state);
    hvd_state_destroy(like);
    free(values);
}
END_TEST

/* Nothing of a removed one is touched, before the next commit either. */
START_TEST(state_removed_sampler_may_be_destroyed)
{
    hvd_reset_info_t info = {.struct_size = sizeof(info), .size = 1};
    hvd_state_t *state = made_state();
    hvd_sampler_t *sampler;

    sampler = made_sampler(10, NULL);
    ok(hvd_state_add_sampler(state, "samples", sampler));
    ok(state_save(state, 1, 1));
    ok(hvd_state_remove(state, "samples"));
    hvd_sampler_destroy(sampler);
    state_reset(state, &info);
    ok(state_restore(state));
    hvd_state_destroy(state);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("entries");
    TCase *tc = tcase_create("entries");

    tcase_add_test(tc, state_grown_entry_is_restored_and_its_rest_cleared);
    tcase_add_test(tc, state_resized_entry_restore_names_both_sizes);
    tcase_add_test(tc, state_moved_entry_is_restored_where_it_is_now);
    tcase_add_test(tc, state_entries_come_and_go_between_commits);
    tcase_add_test(tc, state_of_many_entries_that_come_and_go);
    tcase_add_test(tc, state_removed_sampler_may_be_destroyed);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
