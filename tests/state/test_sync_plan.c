/* tests/state/test_sync_plan.c - who serves whom. */
#include <stdbool.h>

#include "state/state.h"
#include "support.h"

START_TEST(sync_plan_single_source_serves_all)
{
    bool is_source[4] = {false, false, true, false};

    ck_assert_int_eq(sync_plan_source_of(is_source, 4, 0), 2);
    ck_assert_int_eq(sync_plan_source_of(is_source, 4, 1), 2);
    ck_assert_int_eq(sync_plan_source_of(is_source, 4, 2), -1);
    ck_assert_int_eq(sync_plan_source_of(is_source, 4, 3), 2);
}
END_TEST

START_TEST(sync_plan_several_sources_share_the_work)
{
    bool is_source[6] = {true, false, true, false, false, false};

    ck_assert_int_eq(sync_plan_source_of(is_source, 6, 1), 0);
    ck_assert_int_eq(sync_plan_source_of(is_source, 6, 3), 2);
    ck_assert_int_eq(sync_plan_source_of(is_source, 6, 4), 0);
    ck_assert_int_eq(sync_plan_source_of(is_source, 6, 5), 2);
}
END_TEST

static void take_set(int set, int size, bool *is_source)
{
    for (int r = 0; r < size; r++)
        is_source[r] = set >> r & 1;
}

/* Who is served by a rank is who says that it is. */
START_TEST(sync_plan_both_sides_agree)
{
    for (int size = 1; size <= 8; size++)
        for (int set = 1; set < 1 << size; set++) {
            int source_of[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
            bool is_source[8];

            take_set(set, size, is_source);
            for (int s = 0; s < size; s++)
                for (int r = -1; is_source[s];) {
                    r = sync_plan_next(is_source, size, s, r);
                    if (r < 0)
                        break;
                    ck_assert_int_eq(source_of[r], -1);
                    source_of[r] = s;
                }
            for (int r = 0; r < size; r++)
                ck_assert_int_eq(source_of[r],
                                 sync_plan_source_of(is_source, size, r));
        }
}
END_TEST

/* Every set of sources of every world up to 8: served by a source, and no
 * source serves two more than another. */
START_TEST(sync_plan_every_set_is_fair)
{
    for (int size = 1; size <= 8; size++)
        for (int set = 1; set < 1 << size; set++) {
            int served[8] = {0}, least = size, most = 0;
            bool is_source[8];

            take_set(set, size, is_source);
            for (int r = 0; r < size; r++) {
                int source = sync_plan_source_of(is_source, size, r);

                ck_assert(is_source[r] ? source == -1 : is_source[source]);
                if (source >= 0)
                    served[source]++;
            }
            for (int r = 0; r < size; r++) {
                if (!is_source[r])
                    continue;
                least = served[r] < least ? served[r] : least;
                most = served[r] > most ? served[r] : most;
            }
            ck_assert_int_le(most - least, 1);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sync_plan");
    TCase *tc = tcase_create("sync_plan");

    tcase_add_test(tc, sync_plan_single_source_serves_all);
    tcase_add_test(tc, sync_plan_several_sources_share_the_work);
    tcase_add_test(tc, sync_plan_both_sides_agree);
    tcase_add_test(tc, sync_plan_every_set_is_fair);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
