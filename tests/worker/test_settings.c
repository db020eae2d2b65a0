/* tests/worker/test_settings.c - what has to be equal on all ranks: read from
 * the environment, and taken on from rank 0. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "collectives/comm.h"
#include "elastic/worker/knobs.h"
#include "elastic/worker/settings.h"
#include "support.h"

static const char *const variables[] = {"HVD_ALGORITHM", "HVD_FUSION_THRESHOLD",
                                        "HVD_CACHE_CAPACITY",
                                        "HVD_VERIFY_STATE"};

static void set_up(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
        unsetenv(variables[i]);
}

static struct settings own(void)
{
    struct settings s;

    ck_assert_int_eq(settings_read(&s), HVD_OK);
    return s;
}

START_TEST(nothing_set_is_the_defaults)
{
    struct settings s = own();

    ck_assert_uint_eq(s.fusion_nbytes, 0);
    ck_assert_uint_eq(s.names_known, 0);
    ck_assert_int_eq(s.algorithms.by_kind[COLLECTIVE_ALLREDUCE],
                     ALGORITHM_AUTO);
    ck_assert_str_eq(s.text, "");
}
END_TEST

START_TEST(all_set_are_read)
{
    struct settings s;

    setenv("HVD_ALGORITHM", "allreduce:ring,broadcast:chain", 1);
    setenv("HVD_FUSION_THRESHOLD", "0", 1);
    setenv("HVD_CACHE_CAPACITY", "3", 1);
    setenv("HVD_VERIFY_STATE", "100", 1);
    s = own();
    ck_assert_uint_eq(s.verify.every, 100);
    ck_assert_uint_eq(s.fusion_nbytes, COMM_FUSION_NONE);
    ck_assert_uint_eq(s.names_known, 3);
    ck_assert_int_eq(s.algorithms.by_kind[COLLECTIVE_ALLREDUCE],
                     ALGORITHM_RING);
    ck_assert_int_eq(s.algorithms.by_kind[COLLECTIVE_BROADCAST],
                     ALGORITHM_CHAIN);
    ck_assert_str_eq(s.text, "HVD_ALGORITHM=allreduce:ring,broadcast:chain\n"
                             "HVD_FUSION_THRESHOLD=0\nHVD_CACHE_CAPACITY=3\n"
                             "HVD_VERIFY_STATE=100\n");
}
END_TEST

static const struct {
    const char *value;
    uint64_t nbytes;
} syncs[] = {
    {NULL, 16 << 20}, {"auto", 16 << 20}, {"host", UINT64_MAX}, {"nccl", 0}};

START_TEST(nccl_brings_devices_their_state_from_so_many_bytes_on)
{
    unsetenv("HVD_DEVICE_SYNC");
    if (syncs[_i].value != NULL)
        setenv("HVD_DEVICE_SYNC", syncs[_i].value, 1);
    ck_assert_int_eq(knobs_read(), HVD_OK);
    ck_assert_uint_eq(knobs_device_sync_nbytes(), syncs[_i].nbytes);
}
END_TEST

static const struct {
    const char *variable, *value, *sentence;
} wrong[] = {
    {"HVD_ALGORITHM", "rong", "HVD_ALGORITHM: 'rong' is no algorithm"},
    {"HVD_FUSION_THRESHOLD", "banana",
     "HVD_FUSION_THRESHOLD: \"banana\" is no number of bytes"},
    {"HVD_VERIFY_STATE", "never", "HVD_VERIFY_STATE: \"never\" is none of"},
    {"HVD_CACHE_CAPACITY", "-1", "HVD_CACHE_CAPACITY: \"-1\" is no number"},
};

START_TEST(bad_value_is_named_and_changes_nothing)
{
    struct settings s = own(), before = s;

    setenv(wrong[_i].variable, wrong[_i].value, 1);
    ck_assert_int_eq(settings_read(&s), HVD_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error_text(), wrong[_i].sentence));
    ck_assert_str_eq(s.text, before.text);
}
END_TEST

/* A list that is right in itself. */
START_TEST(more_than_a_message_takes_is_refused)
{
    struct settings s;
    char list[WIRE_SETTINGS_MAX] = "ring";

    while (strlen(list) + sizeof(",ring") < sizeof(list))
        strcat(list, ",ring");
    setenv("HVD_ALGORITHM", list, 1);
    ck_assert_int_eq(settings_read(&s), HVD_ERR_INVALID);
    ck_assert_str_eq(error_text(),
                     "HVD_ALGORITHM and the other job-wide settings exceed 303 "
                     "characters together");
}
END_TEST

/* Has that changed what counts? */
static bool take(struct settings *s, const char *text)
{
    struct settings before = *s;

    ck_assert_int_eq(settings_take(s, text), HVD_OK);
    return memcmp(&before.algorithms, &s->algorithms, sizeof(s->algorithms)) !=
               0 ||
           before.fusion_nbytes != s->fusion_nbytes ||
           before.names_known != s->names_known ||
           before.verify.every != s->verify.every;
}

START_TEST(those_of_rank_0_are_taken_on)
{
    struct settings s;

    setenv("HVD_CACHE_CAPACITY", "3", 1);
    s = own();
    ck_assert(take(&s, "HVD_ALGORITHM=ring\nHVD_FUSION_THRESHOLD=1M\n"));
    ck_assert_uint_eq(s.fusion_nbytes, 1 << 20);
    ck_assert_uint_eq(s.names_known, 0);
    ck_assert_int_eq(s.algorithms.by_kind[COLLECTIVE_ALLREDUCE],
                     ALGORITHM_RING);
    ck_assert_str_eq(s.text, "HVD_ALGORITHM=ring\nHVD_FUSION_THRESHOLD=1M\n");
    ck_assert(take(&s, own().text));
    ck_assert(take(&s, "HVD_CACHE_CAPACITY=3\nHVD_VERIFY_STATE=5,warn\n"));
    ck_assert(s.verify.warns);
    ck_assert(take(&s, own().text));
    ck_assert_uint_eq(s.names_known, 3);
    ck_assert(!take(&s, own().text));
    ck_assert(take(&s, ""));
    ck_assert_uint_eq(s.names_known, 0);
}
END_TEST

START_TEST(other_words_for_the_same_are_no_change)
{
    struct settings s;

    setenv("HVD_FUSION_THRESHOLD", "1M", 1);
    s = own();
    ck_assert(!take(&s, "HVD_ALGORITHM=auto\nHVD_FUSION_THRESHOLD=1048576\n"));
    ck_assert_str_eq(s.text,
                     "HVD_ALGORITHM=auto\nHVD_FUSION_THRESHOLD=1048576\n");
}
END_TEST

/* Rank 0 is of another version, or nobody. */
START_TEST(what_has_no_meaning_is_skipped)
{
    struct settings s = own();

    ck_assert(!take(&s, "HVD_NEWER=1\n\nHVD_ALGORITHMS=ring\n=\nHVD"));
    ck_assert_str_eq(s.text, "");
}
END_TEST

START_TEST(what_is_nothing_here_is_refused)
{
    struct settings s = own(), before = s;

    ck_assert_int_eq(settings_take(&s, "HVD_CACHE_CAPACITY=3\n"
                                       "HVD_ALGORITHM=by-mail\n"),
                     HVD_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(error_text(),
                                 "rank 0's environment: HVD_ALGORITHM: "
                                 "'by-mail' is no algorithm"));
    ck_assert_str_eq(s.text, before.text);
    ck_assert_uint_eq(s.names_known, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker-settings");
    TCase *tcase = tcase_create("settings");

    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_test(tcase, nothing_set_is_the_defaults);
    tcase_add_test(tcase, all_set_are_read);
    tcase_add_loop_test(tcase,
                        nccl_brings_devices_their_state_from_so_many_bytes_on,
                        0, ARRAY_SIZE(syncs));
    tcase_add_loop_test(tcase, bad_value_is_named_and_changes_nothing, 0,
                        ARRAY_SIZE(wrong));
    tcase_add_test(tcase, more_than_a_message_takes_is_refused);
    tcase_add_test(tcase, those_of_rank_0_are_taken_on);
    tcase_add_test(tcase, other_words_for_the_same_are_no_change);
    tcase_add_test(tcase, what_has_no_meaning_is_skipped);
    tcase_add_test(tcase, what_is_nothing_here_is_refused);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
