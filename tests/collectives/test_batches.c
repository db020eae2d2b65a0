/* tests/collectives/test_batches.c - which calls by name run as one. */
#include "base/array.h"
#include "collectives/negotiate/batches.h"
#include "collectives/schedule/kinds.h"
#include "support.h"

static struct signature sum_of(uint64_t count)
{
    return (struct signature){.kind = COLLECTIVE_ALLREDUCE,
                              .dtype = HVD_FLOAT32,
                              .op = HVD_SUM,
                              .count = count};
}

/* The items of each batch, by their calls' numbers; -1 ends one. */
static void check_batches(struct batches *b, const int *want)
{
    while (batches_any(b)) {
        const struct batch *batch = batches_next(b);

        ck_assert_ptr_eq(batches_done(b), batch);
        for (size_t i = batch->first; i != BATCH_END; i = b->items[i].next)
            ck_assert_int_eq((int)(uintptr_t)b->items[i].call, *want++);
        ck_assert_int_eq(*want++, -1);
    }
    ck_assert_int_eq(*want, -2);
}

static void add(struct batches *b, int number, struct signature s)
{
    const struct batch_item item = {.signature = s,
                                    .call = (void *)(uintptr_t)number};

    ck_assert(batches_add(b, &item, 4));
}

static void add_all(struct batches *b)
{
    struct signature max = sum_of(10), scaled = sum_of(10), half = sum_of(10);
    struct signature root = sum_of(10), large = sum_of(1000);
    struct signature adasum = sum_of(10);

    max.op = HVD_MAX;
    scaled.prescale = 0.5;
    half.way = SIGNATURE_COMPRESSED;
    root.kind = COLLECTIVE_BROADCAST;
    adasum.op = HVD_ADASUM;
    add(b, 1, sum_of(10));
    add(b, 2, max);
    add(b, 3, scaled);
    add(b, 4, sum_of(20));
    add(b, 5, half);
    add(b, 6, large);
    add(b, 7, root);
    add(b, 8, max);
    add(b, 9, sum_of(30));
    add(b, 10, adasum);
    add(b, 11, adasum);
    scaled.dtype = HVD_FLOAT64;
    add(b, 12, scaled);
    add(b, 13, scaled);
    scaled.postscale = 2;
    add(b, 14, scaled);
}

START_TEST(what_may_be_fused_is_in_the_order_of_decisions)
{
    static const int all[] = {1, 4,  6,  9,  -1, 2,  8,  -1, 3,  -1, 5,  -1,
                              7, -1, 10, -1, 11, -1, 12, 13, -1, 14, -1, -2};
    static const int small[] = {1,  4,  -1, 2,  8,  -1, 3,  -1, 5,
                                -1, 6,  -1, 7,  -1, 9,  -1, 10, -1,
                                11, -1, 12, 13, -1, 14, -1, -2};
    static const int none[] = {1,  -1, 2,  -1, 3,  -1, 4,  -1, 5,  -1,
                               6,  -1, 7,  -1, 8,  -1, 9,  -1, 10, -1,
                               11, -1, 12, -1, 13, -1, 14, -1, -2};
    struct batches b = {0};

    batches_clear(&b, UINT64_MAX);
    add_all(&b);
    check_batches(&b, all);
    batches_clear(&b, 120); /* bytes: the first and the second sum fill it */
    add_all(&b);
    check_batches(&b, small);
    batches_clear(&b, 1);
    add_all(&b);
    check_batches(&b, none);
    batches_fini(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("batches");
    TCase *tc = tcase_create("batches");

    tcase_add_test(tc, what_may_be_fused_is_in_the_order_of_decisions);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
