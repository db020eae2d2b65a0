/* tests/collectives/test_schedule.c - the schedules, run in memory for all
 * ranks at once: every contribution arrives exactly once, in every place. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/comm.h"
#include "collectives/schedule.h"
#include "support.h"

enum { SIZE_MAX_TESTED = 64 };

/* Check writes a message per assertion: inner loops count instead. */
#define ALL(cells, expected, n)                  \
    do {                                         \
        size_t n_wrong = 0;                      \
                                                 \
        for (size_t i = 0; i < (n); i++)         \
            n_wrong += (cells)[i] != (expected); \
        ck_assert_uint_eq(n_wrong, 0);           \
    } while (0)

/* A rank's memory: one 64-bit cell per element. In a reduction a cell is the
 * sum of what distinct powers contribute, so a contribution counted twice or
 * never shows. */
struct machine {
    uint64_t *src, *dst;
    struct schedule_step *steps;
    size_t n_steps, send_i, recv_i;
    bool sent; /* the send of step send_i is on its way */
};

struct world {
    int size;
    struct schedule_call call;
    struct machine ranks[SIZE_MAX_TESTED];
};

/* One message per step is in flight at most: the sender's cells at that time.
 */
struct message {
    uint64_t *cells;
};

static struct message in_flight[SIZE_MAX_TESTED][2 * SIZE_MAX_TESTED + 64];

static bool send_step(struct world *w, int rank)
{
    struct machine *m = &w->ranks[rank];
    const struct schedule_step *s;
    struct message *msg;

    if (m->send_i == m->n_steps)
        return false;
    s = &m->steps[m->send_i];
    if (s->send_peer >= 0) {
        if (s->send_after >= 0 && m->recv_i <= (size_t)s->send_after)
            return false;
        msg = &in_flight[rank][m->send_i];
        if (msg->cells != NULL)
            ck_abort_msg("rank %d step %zu: sent twice", rank, m->send_i);
        msg->cells = malloc(s->send_nbytes + 1);
        memcpy(msg->cells, (const uint8_t *)m->src + s->send_offset,
               s->send_nbytes);
    }
    m->send_i++;
    return true;
}

static bool recv_step(struct world *w, int rank)
{
    struct machine *m = &w->ranks[rank];
    const struct schedule_step *s, *theirs;
    struct message *msg;
    uint64_t *dst;

    if (m->recv_i == m->n_steps)
        return false;
    s = &m->steps[m->recv_i];
    if (s->recv_peer >= 0) {
        msg = &in_flight[s->recv_peer][m->recv_i];
        if (msg->cells == NULL ||
            ((s->flags & SCHEDULE_SENT_FIRST) && m->send_i <= m->recv_i))
            return false;
        theirs = &w->ranks[s->recv_peer].steps[m->recv_i];
        if (theirs->send_peer != rank || theirs->send_nbytes != s->recv_nbytes)
            ck_abort_msg("rank %d step %zu: halves differ", rank, m->recv_i);
        dst = (uint64_t *)(void *)((uint8_t *)m->dst + s->recv_offset);
        for (size_t i = 0; i < s->recv_nbytes / 8; i++)
            dst[i] = s->flags & SCHEDULE_REDUCE ? dst[i] + msg->cells[i]
                                                : msg->cells[i];
        free(msg->cells);
        msg->cells = NULL;
    }
    m->recv_i++;
    return true;
}

static void world_init(struct world *w, int kind, int size, int root,
                       size_t count, size_t cells)
{
    memset(w, 0, sizeof(*w));
    w->size = size;
    w->call = (struct schedule_call){.kind = kind,
                                     .size = size,
                                     .root = root,
                                     .count = count,
                                     .elem_nbytes = 8};
    for (int r = 0; r < size; r++) {
        struct machine *m = &w->ranks[r];

        m->src = m->dst = calloc(cells + 1, 8);
        m->steps = calloc(schedule_steps_max(size), sizeof(*m->steps));
        w->call.rank = r;
        m->n_steps = schedule_build(&w->call, m->steps);
        ck_assert_uint_le(m->n_steps, schedule_steps_max(size));
        ck_assert_uint_eq(m->n_steps, w->ranks[0].n_steps);
    }
}

static void world_run(struct world *w)
{
    bool moved = true;

    while (moved) {
        moved = false;
        for (int r = 0; r < w->size; r++) {
            while (send_step(w, r))
                moved = true;
            while (recv_step(w, r))
                moved = true;
        }
    }
    for (int r = 0; r < w->size; r++)
        ck_assert(w->ranks[r].send_i == w->ranks[r].n_steps &&
                  w->ranks[r].recv_i == w->ranks[r].n_steps);
}

static void world_fini(struct world *w)
{
    for (int r = 0; r < w->size; r++) {
        if (w->ranks[r].src != w->ranks[r].dst)
            free(w->ranks[r].src);
        free(w->ranks[r].dst);
        free(w->ranks[r].steps);
    }
}

/* Rank r contributes (r + 1)^3 * (i + 1): sums of distinct subsets differ. */
static uint64_t contribution(int rank, size_t i)
{
    uint64_t r = (uint64_t)rank + 1;

    return r * r * r * (i + 1);
}

static uint64_t total(int size, size_t i)
{
    uint64_t n = (uint64_t)size * ((uint64_t)size + 1) / 2;

    return n * n * (i + 1);
}

/* How often DIVIDE touches each element on its way to each rank is checked by
 * counting: the flagged regions of all ranks cover the result exactly once, or
 * once per rank that combines (recursive doubling). */
static void check_divides(const struct world *w, bool everywhere)
{
    size_t covered = 0, whole = w->call.count * 8;
    size_t times = 1, power = 1;

    while (power * 2 <= (size_t)w->size)
        power *= 2;
    if (everywhere)
        times = power;
    for (int r = 0; r < w->size; r++)
        for (size_t i = 0; i < w->ranks[r].n_steps; i++)
            if (w->ranks[r].steps[i].flags & SCHEDULE_DIVIDE)
                covered += w->ranks[r].steps[i].recv_nbytes;
    ck_assert_uint_eq(covered, whole * times);
}

static void allreduce_case(int size, size_t count)
{
    struct world w;

    world_init(&w, COLLECTIVE_ALLREDUCE, size, 0, count, count);
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < count; i++)
            w.ranks[r].dst[i] = contribution(r, i);
    world_run(&w);
    for (int r = 0; r < size; r++)
        ALL(w.ranks[r].dst, total(size, i), count);
    check_divides(&w, count * 8 <= SCHEDULE_SMALL_MAX);
    world_fini(&w);
}

START_TEST(allreduce_any_size_each_contribution_once)
{
    static const size_t counts[] = {
        1, 2, 7, 65, SCHEDULE_SMALL_MAX / 8, SCHEDULE_SMALL_MAX / 8 + 1, 4999};

    for (int size = 2; size <= SIZE_MAX_TESTED; size++)
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            if (counts[c] < 100 || size < 12 || size % 13 == 0)
                allreduce_case(size, counts[c]);
}
END_TEST

static void broadcast_case(int size, int root, size_t count)
{
    struct world w;

    world_init(&w, COLLECTIVE_BROADCAST, size, root, count, count);
    for (size_t i = 0; i < count; i++)
        w.ranks[root].dst[i] = i + 9;
    world_run(&w);
    for (int r = 0; r < size; r++)
        ALL(w.ranks[r].dst, i + 9, count);
    world_fini(&w);
}

START_TEST(broadcast_any_size_and_root_arrives)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++)
        for (int root = 0; root<size; root += size> 9 ? 7 : 1) {
            broadcast_case(size, root, 5);
            broadcast_case(size, root, SCHEDULE_SMALL_MAX / 8 + 3);
        }
}
END_TEST

START_TEST(allgather_any_size_in_rank_order)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++) {
        size_t count = 3, n = (size_t)size;
        struct world w;

        world_init(&w, COLLECTIVE_ALLGATHER, size, 0, count, n * count);
        for (size_t r = 0; r < n; r++)
            for (size_t i = 0; i < count; i++)
                w.ranks[r].dst[r * count + i] = r * 100 + i;
        world_run(&w);
        for (size_t r = 0; r < n; r++)
            ALL(w.ranks[r].dst, i / count * 100 + i % count, n * count);
        world_fini(&w);
    }
}
END_TEST

START_TEST(reduce_scatter_any_size_own_block_complete)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++) {
        size_t count = 3, n = (size_t)size;
        struct world w;

        world_init(&w, COLLECTIVE_REDUCE_SCATTER, size, 0, count, n * count);
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < n * count; i++)
                w.ranks[r].dst[i] = contribution(r, i);
        world_run(&w);
        for (size_t r = 0; r < n; r++)
            for (size_t i = r * count; i < (r + 1) * count; i++)
                ck_assert_uint_eq(w.ranks[r].dst[i], total(size, i));
        w.call.count = n * count;
        check_divides(&w, false);
        world_fini(&w);
    }
}
END_TEST

START_TEST(alltoall_any_size_blocks_arrive)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++) {
        size_t count = 2, n = (size_t)size;
        struct world w;

        world_init(&w, COLLECTIVE_ALLTOALL, size, 0, count, n * count);
        for (size_t r = 0; r < n; r++) {
            w.ranks[r].src = calloc(n * count, 8);
            for (size_t i = 0; i < n * count; i++)
                w.ranks[r].src[i] = r * 1000 + i;
            memcpy(w.ranks[r].dst + r * count, w.ranks[r].src + r * count,
                   count * 8);
        }
        world_run(&w);
        for (size_t r = 0; r < n; r++)
            ALL(w.ranks[r].dst, i / count * 1000 + r * count + i % count,
                n * count);
        world_fini(&w);
    }
}
END_TEST

/* No rank leaves a barrier before every rank has entered: hold one back. */
START_TEST(barrier_one_late_nobody_leaves)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++)
        for (int late = 0; late<size; late += size> 9 ? 5 : 1) {
            struct world w;
            bool moved = true;

            world_init(&w, COLLECTIVE_BARRIER, size, 0, 0, 0);
            while (moved) {
                moved = false;
                for (int r = 0; r < size; r++)
                    if (r != late) {
                        moved |= send_step(&w, r);
                        moved |= recv_step(&w, r);
                    }
            }
            for (int r = 0; r < size; r++)
                ck_assert(w.ranks[r].recv_i < w.ranks[r].n_steps);
            world_run(&w);
            world_fini(&w);
        }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedule");
    TCase *tc = tcase_create("schedule");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, allreduce_any_size_each_contribution_once);
    tcase_add_test(tc, broadcast_any_size_and_root_arrives);
    tcase_add_test(tc, allgather_any_size_in_rank_order);
    tcase_add_test(tc, reduce_scatter_any_size_own_block_complete);
    tcase_add_test(tc, alltoall_any_size_blocks_arrive);
    tcase_add_test(tc, barrier_one_late_nobody_leaves);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
