/* tests/gpu/test_device_sets.c - buffers of devices in communicators, and while
 * ranks have joined, by comms of real processes with a driver and a NCCL of
 * host memory (fake/fake.h), by NCCL and staged. */
#include "collectives/process_set.h"
#include "device_named.h"

/* --- while ranks have joined --- */

/* Rank 0 has data for longer than the others, and those must not have a device
 * for that. `met`: they have had some before. */
static int rank_joins(bool met)
{
    struct hvd_request *r[3];
    int last, n = me == 0 ? STEPS : 2;

    begin();
    if (met)
        run_step(comm, 0);
    for (int step = 0; step < n; step++) {
        int n_ranks = step < 2 ? size : 1;
        struct collective_args args = args_of(2, name_of(20));

        post_group(0, 8, step, HVD_AVERAGE, &r[0]);
        put(20, step, args.count);
        args.sendbuf = args.recvbuf = there[20];
        MUST(by_name_post(comm, &args, NULL, &r[1]) == HVD_OK);
        args = args_of(0, name_of(21));
        args.sendbuf = args.recvbuf = there[21];
        args.count = 100;
        args.wire_dtype = HVD_FLOAT16;
        args.op = HVD_AVERAGE;
        put(21, step, args.count);
        MUST(by_name_post(comm, &args, NULL, &r[2]) == HVD_OK);
        for (int i = 0; i < 3; i++)
            MUST(request_wait(r[i]) == HVD_OK);
        look_at_group(0, 8, step, HVD_AVERAGE, n_ranks);
        for (int i = 20; i < 22; i++) {
            copy(here, there[i], 10 * sizeof(float));
            for (size_t k = 0; k < 10; k++) {
                float mean = 0;

                for (int rank = 0; rank < n_ranks; rank++)
                    mean += value(rank, i, step, k) / (float)n_ranks;
                MUST(is_near(here[k], mean));
            }
        }
    }
    MUST(by_name_join(comm, &last) == HVD_OK && last == 0);
    if (met)
        run_step(comm, 1);
    end();
    return 0;
}

static int rank_joins_at_first(void)
{
    return rank_joins(false);
}

static int rank_joins_later(void)
{
    return rank_joins(true);
}

/* --- communicators --- */

static void add_up(struct comm *set, const int *ranks, int n, int i)
{
    struct collective_args args = args_of(0, name_of(i));
    struct hvd_request *r;
    float sum = 0;

    args.sendbuf = args.recvbuf = there[i];
    for (int named = 0; named < 2; named++) {
        put(i, named, args.count);
        sum = 0;
        for (int k = 0; k < n; k++)
            sum += value(ranks[k], i, named, 3);
        MUST((named ? by_name_post(set, &args, NULL, &r)
                    : comm_post(set, &args, &r)) == HVD_OK);
        MUST(request_wait(r) == HVD_OK);
        copy(here, there[i], args.count * sizeof(float));
        MUST(is_near(here[3], sum));
    }
}

static const int pairs[][2] = {{0, 1}, {1, 2}, {2, 0}};

/* In the world and in a set, both on one stream, and then waited for. */
static void queue_on_one_stream(struct comm *set, int i)
{
    struct collective_args args = args_of(0, NULL);
    struct hvd_request *first, *second;

    args.sendbuf = args.recvbuf = there[i];
    args.ordered = true;
    args.op = HVD_MAX;
    for (int k = 0; k < 20; k++) {
        MUST(comm_post(comm, &args, &first) == HVD_OK);
        if (set != NULL)
            MUST(comm_post(set, &args, &second) == HVD_OK);
        MUST(request_wait(first) == HVD_OK);
        if (set != NULL)
            MUST(request_wait(second) == HVD_OK);
    }
}

/* All pairs, in an order of each rank's own, the world before, and all of it
 * left at a boundary. */
static int rank_has_sets(void)
{
    struct comm *sets[ARRAY_SIZE(pairs)] = {NULL}, *own;

    begin();
    if (me % 2 == 0)
        run_step(comm, 0);
    for (int k = 0; k < 3; k++) {
        int i = me == 1 ? 2 - k : k;

        if (process_set_place(me, pairs[i], 2) < 0)
            continue;
        MUST(process_set_create(comm, (uint32_t)i + 1, pairs[i], 2, &sets[i]) ==
             HVD_OK);
    }
    if (me % 2 == 1)
        run_step(comm, 0);
    MUST(process_set_create(comm, (uint32_t)me + 10, &me, 1, &own) == HVD_OK);
    add_up(own, &me, 1, 5);
    queue_on_one_stream(sets[0], 6);
    for (int i = 0; i < 3; i++)
        if (sets[i] != NULL)
            add_up(sets[i], pairs[i], 2, i);
    MUST(comm_drain(comm) == HVD_OK);
    comm_leave(comm, COMM_LEAVE_BOUNDARY, 1);
    end();
    return 0;
}

/* --- the ranks --- */

START_TEST(ranks_that_have_joined)
{
    play(RANKS, _i % 2 == 0 ? rank_joins_later : rank_joins_at_first,
         worlds[_i / 2], -1);
}
END_TEST

START_TEST(sets_of_pairs)
{
    play(RANKS, rank_has_sets, worlds[_i], -1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_sets");
    TCase *tc = tcase_create("sound"); /* scripts/gpu-check plays it for real */
    TCase *faults = tcase_create("faults");

    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, ranks_that_have_joined, 0, 2);
    tcase_add_loop_test(tc, sets_of_pairs, 0, 1);
    suite_add_tcase(suite, tc);
    tcase_set_timeout(faults, 100);
    tcase_add_loop_test(faults, ranks_that_have_joined, 2, 6);
    tcase_add_loop_test(faults, sets_of_pairs, 1, 3);
    suite_add_tcase(suite, faults);
    return support_run(suite);
}
