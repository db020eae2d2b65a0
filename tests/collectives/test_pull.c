/* tests/collectives/test_pull.c - the machine of pull.h in the model of
 * pull_model.h: every kind, many sizes, orders and habits. */
#include "pull_model.h"

enum { COUNT_MAX = 41, KINDS = PULL_ALLTOALLV + 1 };

/* --- what is to come out --- */

static uint64_t reduced(const struct world *w, size_t i)
{
    uint64_t value = 0;

    for (int k = 0; k < w->size; k++)
        value = combine(value, operand_value(w, k, i));
    return value;
}

static void check_reduced(const struct world *w, int rank)
{
    const struct rank *r = &w->ranks[rank];
    struct span s = {0, w->count};
    size_t at = 0;

    if (w->kind == PULL_SLICES_REDUCE)
        s = slice(w, rank);
    if (w->kind == PULL_REDUCE_SCATTER)
        at = (size_t)rank * w->count;
    for (size_t i = 0; i < w->count; i++)
        if (i >= s.first && i - s.first < s.n)
            MUST(r->result[i].value == reduced(w, at + i));
        else if (r->result == r->operand)
            MUST(r->result[i].value == operand_value(w, rank, i));
        else
            MUST(r->result[i].value == UNTOUCHED);
}

/* Where in the result of `rank` that comes which `from` has for it. */
static size_t place_of(const struct world *w, int rank, int from)
{
    if (w->kind == PULL_BROADCAST)
        return 0;
    if (w->kind == PULL_SLICES_GATHER)
        return slice(w, from).first;
    return is_v(w) ? w->ranks[rank].rdispls[from] : (size_t)from * w->count;
}

static void check_moved(const struct world *w, int rank)
{
    struct rank *r = (struct rank *)&w->ranks[rank];

    for (int from = 0; from < w->size; from++) {
        struct span s = read_of(w, from, rank);
        size_t at = place_of(w, rank, from);

        for (size_t i = 0; i < s.n; i++) {
            MUST(r->result[at + i].value ==
                 operand_value(w, from, s.first + i));
            r->result[at + i].value = UNTOUCHED;
        }
    }
    /* nothing beside it */
    for (size_t i = 0; i < r->n_result; i++)
        MUST(r->result[i].value == UNTOUCHED);
}

static void play(enum pull_kind kind, int size, size_t count, uint64_t seed)
{
    static struct world w;
    bool fewer = kind == PULL_SLICES_REDUCE || kind == PULL_SLICES_GATHER;

    memset(&w, 0, sizeof(w));
    w = (struct world){
        .kind = kind,
        .size = size,
        .count = count,
        .root = (int)(mix(seed, 1) % (uint64_t)size),
        .odd = (int)(mix(seed, 2) % (uint64_t)size),
        .n_slices = fewer ? 1 + (int)(mix(seed, 7) % (uint64_t)size) : size,
        .block_nbytes = ELEM * (1 + mix(seed, 3) % 4),
        .depth = 1 + (unsigned)(mix(seed, 4) % 3),
        .order = (enum order)(mix(seed, 5) % ORDERS),
        .seed = mix(seed, 6),
    };
    snprintf(scene_of_failure, sizeof(scene_of_failure),
             "kind %d, %d ranks, count %zu, order %d, seed %llu", (int)kind,
             size, count, (int)w.order, (unsigned long long)seed);
    world_init(&w);
    run(&w);
    for (int i = 0; i < size; i++)
        if (reduces(&w))
            check_reduced(&w, i);
        else
            check_moved(&w, i);
    world_fini(&w);
}

START_TEST(groups_any_order_right_and_over)
{
    uint64_t seed = (uint64_t)_i * 1000000;

    for (int size = 2; size <= 9; size++)
        for (size_t count = 0; count < COUNT_MAX; count++)
            for (int k = 0; k < 6; k++)
                if (count % 2 == 1 || k == 0)
                    play((enum pull_kind)_i, size, count, ++seed);
}
END_TEST

START_TEST(large_groups_any_order_right_and_over)
{
    static const int sizes[] = {16, 33, 64};
    uint64_t seed = (uint64_t)_i * 1000000 + 500000;

    for (size_t k = 0; k < 3; k++)
        for (size_t count = 1; count < COUNT_MAX; count += 19)
            play((enum pull_kind)_i, sizes[k], count, ++seed);
}
END_TEST

/* As many elements as there are ranks for once, and one more or less. */
START_TEST(slices_of_one_element_right_and_over)
{
    uint64_t seed = 77000000;

    for (int size = 2; size <= 24; size++)
        for (int more = -1; more <= 1; more++)
            for (int kind = 0; kind < KINDS; kind++)
                play((enum pull_kind)kind, size, (size_t)(size + more), ++seed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pull");
    TCase *tc = tcase_create("pull");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, groups_any_order_right_and_over, 0, KINDS);
    tcase_add_loop_test(tc, large_groups_any_order_right_and_over, 0, KINDS);
    tcase_add_test(tc, slices_of_one_element_right_and_over);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
