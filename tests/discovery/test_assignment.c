/* tests/discovery/test_assignment.c - who gets which rank. */
#include <string.h>

#include "base/array.h"
#include "base/random.h"
#include "discovery/assignment.h"
#include "support.h"

enum { N_MAX = 64 };

struct fixture {
    struct candidate items[N_MAX];
    uint32_t scratch[N_MAX * 4];
    size_t n;
};

static void add(struct fixture *f, uint64_t worker, uint64_t joined,
                uint32_t host, uint32_t slot)
{
    ck_assert_uint_lt(f->n, N_MAX);
    f->items[f->n++] = (struct candidate){
        .worker = worker, .joined = joined, .host = host, .slot = slot};
}

/* Chosen ones in rank order: "worker:(rank,size,local,local,cross,cross)". */
static const char *compute(struct fixture *f, size_t max)
{
    static char text[N_MAX * 48];
    size_t size = assignment_compute(f->items, f->n, max, f->scratch), n = 0;

    text[0] = '\0';
    for (size_t i = 0; i < size; i++) {
        const struct candidate *c = &f->items[i];

        n += (size_t)snprintf(text + n, sizeof(text) - n,
                              "%s%d:(%u,%zu,%u,%u,%u,%u)", i ? " " : "",
                              (int)c->worker, c->rank, size, c->local_rank,
                              c->local_size, c->cross_rank, c->cross_size);
    }
    return text;
}

START_TEST(assignment_heterogeneous_hosts_as_horovod)
{
    struct fixture f = {0};

    add(&f, 1, 0, 0, 0);
    add(&f, 2, 0, 1, 0);
    add(&f, 3, 0, 1, 1);
    ck_assert_str_eq(compute(&f, 8),
                     "1:(0,3,0,1,0,2) 2:(1,3,0,2,1,2) 3:(2,3,1,2,0,1)");
}
END_TEST

/* Generations are counted in 64 bits, and so are ages. */
START_TEST(assignment_old_hosts_of_long_jobs_stay_first)
{
    struct fixture f = {0};

    add(&f, 1, (UINT64_C(1) << 32) + 5, 0, 0);
    add(&f, 2, 7, 1, 0);
    ck_assert_str_eq(compute(&f, 2), "2:(0,2,0,1,0,2) 1:(1,2,0,1,1,2)");
}
END_TEST

START_TEST(D1_rank_and_size)
{
    struct fixture f = {0};

    add(&f, 1, 0, 0, 0);
    add(&f, 2, 0, 0, 1);
    add(&f, 3, 0, 1, 0);
    add(&f, 4, 0, 1, 1);
    ck_assert_str_eq(compute(&f, 4), "1:(0,4,0,2,0,2) 2:(1,4,1,2,0,2) "
                                     "3:(2,4,0,2,1,2) 4:(3,4,1,2,1,2)");
}
END_TEST

START_TEST(D2_rank_and_size_with_host_failure)
{
    struct fixture f = {0};

    add(&f, 3, 1, 1, 0); /* host 0 and its workers 1 and 2 are gone */
    add(&f, 4, 1, 1, 1);
    ck_assert_str_eq(compute(&f, 4), "3:(0,2,0,2,0,1) 4:(1,2,1,2,0,1)");
}
END_TEST

START_TEST(D3_rank_and_size_with_host_added)
{
    struct fixture f = {0};

    add(&f, 3, 0, 1, 0);
    add(&f, 4, 0, 1, 1);
    add(&f, 1, 1, 0, 0);
    add(&f, 2, 1, 0, 1);
    ck_assert_str_eq(compute(&f, 4), "1:(0,4,0,2,0,2) 2:(1,4,1,2,0,2) "
                                     "3:(2,4,0,2,1,2) 4:(3,4,1,2,1,2)");
}
END_TEST

START_TEST(assignment_replacement_in_slot_0_never_gets_rank_0)
{
    struct fixture f = {0};

    add(&f, 9, 0, 0, 0); /* took the slot of a dead worker */
    add(&f, 2, 1, 0, 1);
    add(&f, 3, 1, 1, 0);
    ck_assert_str_eq(compute(&f, 8),
                     "2:(0,3,0,2,0,2) 9:(1,3,1,2,0,1) 3:(2,3,0,1,1,2)");
}
END_TEST

START_TEST(assignment_host_of_the_oldest_member_comes_first)
{
    struct fixture f = {0};

    add(&f, 5, 4, 0, 0);
    add(&f, 6, 0, 0, 1);
    add(&f, 7, 2, 1, 0);
    add(&f, 8, 0, 2, 0);
    ck_assert_str_eq(compute(&f, 8), "7:(0,4,0,1,0,3) 5:(1,4,0,2,1,3) "
                                     "6:(2,4,1,2,0,1) 8:(3,4,0,1,2,3)");
}
END_TEST

START_TEST(assignment_above_max_drops_the_youngest)
{
    struct fixture f = {0};

    add(&f, 1, 1, 0, 0);
    add(&f, 2, 5, 0, 1);
    add(&f, 3, 3, 1, 0);
    add(&f, 4, 0, 0, 2);
    add(&f, 5, 0, 1, 1);
    ck_assert_str_eq(compute(&f, 4), "1:(0,4,0,3,0,2) 2:(1,4,1,3,0,1) "
                                     "4:(2,4,2,3,0,1) 3:(3,4,0,1,1,2)");
    ck_assert_str_eq(compute(&f, 2), "1:(0,2,0,1,0,2) 3:(1,2,0,1,1,2)");
    ck_assert_str_eq(compute(&f, 0), "");
}
END_TEST

START_TEST(assignment_nobody_is_nothing)
{
    ck_assert_uint_eq(assignment_compute(NULL, 0, 4, NULL), 0);
}
END_TEST

static void shuffle(struct fixture *f, struct random_state *random)
{
    for (size_t i = f->n; i > 1; i--) {
        size_t j = (size_t)random_below(random, i);
        struct candidate t = f->items[i - 1];

        f->items[i - 1] = f->items[j];
        f->items[j] = t;
    }
}

/* Rank 0 is an oldest member, and the order of the input is nothing. */
START_TEST(assignment_any_input_order_gives_the_same_ranks)
{
    struct random_state random = {(uint64_t)_i};
    struct fixture f = {0};
    size_t n = 1 + (size_t)random_below(&random, N_MAX - 1);
    size_t max = 1 + (size_t)random_below(&random, N_MAX);
    char first[N_MAX * 48];
    uint64_t oldest = UINT64_MAX;

    for (size_t i = 0; i < n; i++)
        add(&f, i + 1, random_below(&random, 4), (uint32_t)i % 7,
            (uint32_t)i / 7);
    strcpy(first, compute(&f, max));
    for (size_t i = 0; i < n; i++)
        if (f.items[i].joined && f.items[i].joined < oldest)
            oldest = f.items[i].joined;
    ck_assert(oldest == UINT64_MAX || f.items[0].joined == oldest);
    shuffle(&f, &random);
    ck_assert_str_eq(compute(&f, max), first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assignment");
    TCase *tcase = tcase_create("assignment");

    tcase_add_test(tcase, assignment_heterogeneous_hosts_as_horovod);
    tcase_add_test(tcase, assignment_old_hosts_of_long_jobs_stay_first);
    tcase_add_test(tcase, D1_rank_and_size);
    tcase_add_test(tcase, D2_rank_and_size_with_host_failure);
    tcase_add_test(tcase, D3_rank_and_size_with_host_added);
    tcase_add_test(tcase, assignment_replacement_in_slot_0_never_gets_rank_0);
    tcase_add_test(tcase, assignment_host_of_the_oldest_member_comes_first);
    tcase_add_test(tcase, assignment_above_max_drops_the_youngest);
    tcase_add_test(tcase, assignment_nobody_is_nothing);
    tcase_add_loop_test(tcase, assignment_any_input_order_gives_the_same_ranks,
                        0, 200);
    suite_add_tcase(suite, tcase);
    return support_run(suite);
}
