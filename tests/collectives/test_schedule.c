/* tests/collectives/test_schedule.c - the schedules, run in memory for all
 * ranks at once, frame by frame over channels of little room and in random
 * order: every contribution arrives exactly once, in every place, with the same
 * bits, for the number of bytes that the theory names. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/comm.h"
#include "collectives/schedule/schedule.h"
#include "support.h"

enum {
#if defined(__SANITIZE_ADDRESS__)
    SIZE_MAX_TESTED = 24, /* ten times as slow */
#else
    SIZE_MAX_TESTED = 64,
#endif
    CELL = 8,
    FRAME_CELLS = 3,
    ROOM = 2
};

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
 * never shows; or a double, whose bits tell the order of the sum. */
struct machine {
    uint8_t *src, *dst;
    struct schedule_step *steps;
    size_t n_steps, send_i, send_off, recv_i, recv_off;
    bool begun, queued; /* queued: the frame before send_off is not gone */
    size_t queued_nbytes;
};

struct message {
    size_t step, offset, nbytes;
    uint64_t cells[FRAME_CELLS];
};

struct channel {
    struct message messages[ROOM];
    size_t n;
};

static struct channel channels[SIZE_MAX_TESTED][SIZE_MAX_TESTED];

struct world {
    struct schedule_call call;
    int group[SIZE_MAX_TESTED];
    struct machine ranks[SIZE_MAX_TESTED];
    bool doubles;
    size_t sent; /* bytes, by all */
    uint64_t random;
};

static unsigned next_random(struct world *w)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->random >> 40);
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

/* --- the executor: the contract of schedule.h, as stream.c has it --- */

/* Every other world is a group of the odd ranks of a larger comm. */
static int index_of(const struct world *w, int peer)
{
    int index = w->call.group == NULL ? peer : (peer - 1) / 2;

    if (index < 0 || index >= w->call.size ||
        (w->call.group != NULL && w->group[index] != peer))
        ck_abort_msg("peer %d is no member", peer);
    return index;
}

static size_t frame_of(size_t left)
{
    return left < FRAME_CELLS * CELL ? left : FRAME_CELLS * CELL;
}

static bool may_send(const struct machine *m, const struct schedule_step *s,
                     size_t n)
{
    size_t after = (size_t)s->send_after;

    if (s->send_after == SCHEDULE_FREE)
        return true;
    if (m->recv_i != after)
        return m->recv_i > after;
    return n > 0 && m->send_off + n <= m->recv_off &&
           s->send_offset == m->steps[after].recv_offset &&
           s->send_nbytes == m->steps[after].recv_nbytes;
}

/* Into the channel if there is room: only now is memory looked at. */
static bool put(struct world *w, int rank, const struct schedule_step *s)
{
    struct machine *m = &w->ranks[rank];
    struct channel *ch = &channels[rank][index_of(w, s->send_peer)];
    struct message *msg = &ch->messages[ch->n];

    if (ch->n == ROOM)
        return false;
    ch->n++;
    msg->step = m->send_i;
    msg->nbytes = m->queued_nbytes;
    msg->offset = m->send_off - m->queued_nbytes;
    memcpy(msg->cells, m->src + s->send_offset + msg->offset, msg->nbytes);
    w->sent += msg->nbytes;
    m->queued = false;
    return true;
}

static bool send_some(struct world *w, int rank)
{
    struct machine *m = &w->ranks[rank];
    const struct schedule_step *s = &m->steps[m->send_i];

    if (m->send_i == m->n_steps)
        return false;
    if (m->queued)
        return put(w, rank, s);
    if (s->send_peer >= 0 && (!m->begun || m->send_off < s->send_nbytes)) {
        size_t n = frame_of(s->send_nbytes - m->send_off);

        if (!may_send(m, s, n))
            return false;
        m->begun = m->queued = true;
        m->queued_nbytes = n;
        m->send_off += n;
        return true;
    }
    m->send_i++;
    m->send_off = 0;
    m->begun = false;
    return true;
}

static void combine(const struct world *w, uint64_t *acc, const uint64_t *in)
{
    double a, b;

    if (!w->doubles) {
        *acc += *in;
        return;
    }
    memcpy(&a, acc, sizeof(a));
    memcpy(&b, in, sizeof(b));
    a += b;
    memcpy(acc, &a, sizeof(a));
}

static void apply(struct world *w, struct machine *m, const struct message *msg)
{
    const struct schedule_step *s = &m->steps[m->recv_i];
    size_t first = (s->recv_offset + m->recv_off) / CELL;
    uint64_t *dst = (uint64_t *)(void *)m->dst + first;

    for (size_t i = 0; i < msg->nbytes / CELL; i++) {
        if (s->flags & SCHEDULE_REDUCE)
            combine(w, &dst[i], &msg->cells[i]);
        else
            dst[i] = msg->cells[i];
        if ((s->flags & SCHEDULE_DIVIDE) && !w->doubles &&
            dst[i] != total(w->call.size, first + i))
            ck_abort_msg("divided before it is complete");
    }
    m->recv_off += msg->nbytes;
    if (m->recv_off < s->recv_nbytes)
        return;
    m->recv_off = 0;
    m->recv_i++;
}

static bool recv_some(struct world *w, int rank)
{
    struct machine *m = &w->ranks[rank];
    const struct schedule_step *s = &m->steps[m->recv_i];
    struct channel *ch;
    const struct message *msg;
    size_t gone, n;

    if (m->recv_i == m->n_steps)
        return false;
    if (s->recv_peer < 0) {
        m->recv_i++;
        return true;
    }
    ch = &channels[index_of(w, s->recv_peer)][rank];
    msg = &ch->messages[0];
    n = frame_of(s->recv_nbytes - m->recv_off);
    if (ch->n == 0)
        return false;
    if (msg->step != m->recv_i || msg->offset != m->recv_off ||
        msg->nbytes != n)
        ck_abort_msg("rank %d step %zu: halves differ", rank, m->recv_i);
    gone = m->send_off - (m->queued ? m->queued_nbytes : 0);
    if ((s->flags & SCHEDULE_SENT_FIRST) &&
        (m->send_i < m->recv_i ||
         (m->send_i == m->recv_i && gone < m->recv_off + n)))
        return false;
    apply(w, m, msg);
    ch->n--;
    memmove(&ch->messages[0], &ch->messages[1], ch->n * sizeof(*msg));
    return true;
}

static bool world_turn(struct world *w, bool all, int but)
{
    bool moved = false;

    for (int r = 0; r < w->call.size; r++) {
        if (r == but)
            continue;
        while ((all || next_random(w) % 3 != 0) && send_some(w, r))
            moved = true;
        while ((all || next_random(w) % 3 != 0) && recv_some(w, r))
            moved = true;
    }
    return moved;
}

/* Until nothing moves, without one rank if but >= 0. */
static void world_move(struct world *w, int but)
{
    bool moved = true;

    while (moved || world_turn(w, true, but))
        moved = world_turn(w, false, but);
}

static void world_run(struct world *w)
{
    world_move(w, -1);
    for (int r = 0; r < w->call.size; r++) {
        ck_assert_uint_eq(w->ranks[r].send_i, w->ranks[r].n_steps);
        ck_assert_uint_eq(w->ranks[r].recv_i, w->ranks[r].n_steps);
    }
}

/* n_cells: of a rank's memory. shape: all but rank, group and elem_nbytes. */
static void world_init(struct world *w, const struct schedule_call *shape,
                       size_t n_cells)
{
    static unsigned n_worlds;

    memset(w, 0, sizeof(*w));
    w->random = ++n_worlds;
    w->call = *shape;
    w->call.elem_nbytes = CELL;
    w->call.group = n_worlds % 2 == 0 ? w->group : NULL;
    for (int r = 0; r < shape->size; r++)
        w->group[r] = 2 * r + 1;
    for (int r = 0; r < shape->size; r++) {
        struct machine *m = &w->ranks[r];

        m->src = m->dst = calloc(n_cells + 1, CELL);
        m->steps = calloc(schedule_steps_max(shape->size), sizeof(*m->steps));
        w->call.rank = r;
        m->n_steps = schedule_build(&w->call, m->steps);
        ck_assert_uint_le(m->n_steps, schedule_steps_max(shape->size));
        ck_assert_uint_eq(m->n_steps, w->ranks[0].n_steps);
        memset(channels[r], 0, sizeof(channels[r]));
    }
}

static uint64_t *cells_of(struct world *w, int rank)
{
    return (uint64_t *)(void *)w->ranks[rank].dst;
}

static void world_fini(struct world *w)
{
    for (int r = 0; r < w->call.size; r++) {
        if (w->ranks[r].src != w->ranks[r].dst)
            free(w->ranks[r].src);
        free(w->ranks[r].dst);
        free(w->ranks[r].steps);
    }
}

/* --- the cases --- */

static size_t power_below(int size)
{
    size_t power = 1;

    while (power * 2 <= (size_t)size)
        power *= 2;
    return power;
}

static size_t log2_of(size_t power)
{
    return (size_t)__builtin_ctzll(power);
}

static bool thin(int size)
{
    return size < 12 || size % 13 == 0 || size % 16 < 2;
}

/* The flagged regions of all ranks cover the result exactly once, or once per
 * rank that combines all of it. That it is complete then, apply() checks. */
static void check_divides(const struct world *w, size_t n_cells, size_t times)
{
    size_t covered = 0;

    for (int r = 0; r < w->call.size; r++)
        for (size_t i = 0; i < w->ranks[r].n_steps; i++)
            if (w->ranks[r].steps[i].flags & SCHEDULE_DIVIDE)
                covered += w->ranks[r].steps[i].recv_nbytes;
    ck_assert_uint_eq(covered, n_cells * CELL * times);
}

static size_t allreduce_bytes(enum algorithm algorithm, int size, size_t nbytes)
{
    size_t power = power_below(size), extra = (size_t)size - power;

    if (algorithm == ALGORITHM_DOUBLING)
        return (power * log2_of(power) + 2 * extra) * nbytes;
    return 2 * ((size_t)size - 1) * nbytes; /* halving: folds included */
}

static void allreduce_case(enum algorithm algorithm, int size, size_t count)
{
    struct schedule_call shape = {.kind = COLLECTIVE_ALLREDUCE,
                                  .algorithm = algorithm,
                                  .size = size,
                                  .count = count};
    struct world w;

    world_init(&w, &shape, count);
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < count; i++)
            cells_of(&w, r)[i] = contribution(r, i);
    world_run(&w);
    for (int r = 0; r < size; r++)
        ALL(cells_of(&w, r), total(size, i), count);
    algorithm = schedule_algorithm(&shape);
    check_divides(&w, count,
                  algorithm == ALGORITHM_DOUBLING ? power_below(size) : 1);
    ck_assert_uint_eq(w.sent, allreduce_bytes(algorithm, size, count * CELL));
    world_fini(&w);
}

static const enum algorithm allreduces[] = {
    ALGORITHM_AUTO,    ALGORITHM_RING, ALGORITHM_DOUBLING,
    ALGORITHM_HALVING, ALGORITHM_FLAT, ALGORITHM_TWO_LEVEL};

enum { N_ALLREDUCES = sizeof(allreduces) / sizeof(allreduces[0]) };

START_TEST(allreduce_any_size_each_contribution_once)
{
    static const size_t counts[] = {1, 2, 7, 65, 333};

    for (int size = 2; size <= SIZE_MAX_TESTED; size++)
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++)
            if (counts[c] < 100 || thin(size))
                allreduce_case(allreduces[_i], size, counts[c]);
}
END_TEST

/* Sums of numbers of very different size: another order, other bits. */
START_TEST(allreduce_doubles_same_bits_on_every_rank)
{
    enum { COUNT = 131 };

    for (int size = 2; size <= SIZE_MAX_TESTED; size++) {
        struct schedule_call shape = {.kind = COLLECTIVE_ALLREDUCE,
                                      .algorithm = allreduces[_i],
                                      .size = size,
                                      .count = COUNT};
        struct world w;

        world_init(&w, &shape, COUNT);
        w.doubles = true;
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < COUNT; i++) {
                double v = (double)next_random(&w) / 3;

                if (next_random(&w) % 2 == 0)
                    v *= -1e-7;
                memcpy(&cells_of(&w, r)[i], &v, sizeof(v));
            }
        world_run(&w);
        for (int r = 1; r < size; r++)
            ck_assert_mem_eq(cells_of(&w, r), cells_of(&w, 0), COUNT * CELL);
        world_fini(&w);
    }
}
END_TEST

static const enum algorithm broadcasts[] = {ALGORITHM_AUTO,    ALGORITHM_STAR,
                                            ALGORITHM_TREE,    ALGORITHM_CHAIN,
                                            ALGORITHM_SCATTER, ALGORITHM_FLAT};

enum { N_BROADCASTS = sizeof(broadcasts) / sizeof(broadcasts[0]) };

static size_t part_bytes(size_t count, int size, size_t i)
{
    return (count / (size_t)size + (i < count % (size_t)size)) * CELL;
}

/* A block takes as many hops to its rank r as r has ones; then the ring brings
 * it to those who have not handed it on. */
static size_t broadcast_bytes(enum algorithm algorithm, int size, size_t count)
{
    size_t nbytes = 0, n = (size_t)size;

    if (algorithm != ALGORITHM_SCATTER)
        return (n - 1) * count * CELL;
    for (size_t r = 0; r < n; r++) {
        size_t hops = (size_t)__builtin_popcountll(r);
        size_t having = 1 + hops; /* rank 0, each hop's end */

        nbytes += part_bytes(count, size, r) * (hops + n - having);
    }
    return nbytes;
}

static void broadcast_case(enum algorithm algorithm, int size, int root,
                           size_t count)
{
    struct schedule_call shape = {.kind = COLLECTIVE_BROADCAST,
                                  .algorithm = algorithm,
                                  .size = size,
                                  .root = root,
                                  .count = count};
    struct world w;

    world_init(&w, &shape, count);
    for (size_t i = 0; i < count; i++)
        cells_of(&w, root)[i] = i + 9;
    world_run(&w);
    for (int r = 0; r < size; r++)
        ALL(cells_of(&w, r), i + 9, count);
    for (size_t i = 0; i < w.ranks[root].n_steps; i++)
        ck_assert_int_eq(w.ranks[root].steps[i].recv_peer, -1);
    ck_assert_uint_eq(w.sent, broadcast_bytes(algorithm, size, count));
    world_fini(&w);
}

START_TEST(broadcast_any_size_and_root_arrives)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++)
        for (int root = 0; root<size; root += size> 9 ? 7 : 1) {
            broadcast_case(broadcasts[_i], size, root, 5);
            if (thin(size))
                broadcast_case(broadcasts[_i], size, root, 200);
        }
}
END_TEST

static const enum algorithm allgathers[] = {ALGORITHM_AUTO, ALGORITHM_RING,
                                            ALGORITHM_BRUCK, ALGORITHM_FLAT};

enum { N_ALLGATHERS = sizeof(allgathers) / sizeof(allgathers[0]) };

START_TEST(allgather_any_size_in_rank_order)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++) {
        size_t count = 5, n = (size_t)size;
        struct schedule_call shape = {.kind = COLLECTIVE_ALLGATHER,
                                      .algorithm = allgathers[_i],
                                      .size = size,
                                      .count = count};
        struct world w;

        world_init(&w, &shape, n * count);
        for (size_t r = 0; r < n; r++)
            for (size_t i = 0; i < count; i++)
                cells_of(&w, (int)r)[r * count + i] = r * 100 + i;
        world_run(&w);
        for (int r = 0; r < size; r++)
            ALL(cells_of(&w, r), i / count * 100 + i % count, n * count);
        ck_assert_uint_eq(w.sent, n * (n - 1) * count * CELL);
        world_fini(&w);
    }
}
END_TEST

/* Blocks of r % 4 elements, in reverse order, a gap between them. */
START_TEST(allgatherv_any_size_lands_where_told)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++) {
        size_t counts[SIZE_MAX_TESTED], displs[SIZE_MAX_TESTED], end = 0;
        size_t n = (size_t)size;
        struct schedule_call shape = {.kind = COLLECTIVE_ALLGATHERV,
                                      .size = size,
                                      .recvcounts = counts,
                                      .rdispls = displs};
        struct world w;

        for (size_t r = n; r-- > 0; end += counts[r] + 1) {
            counts[r] = r % 4;
            displs[r] = end;
        }
        world_init(&w, &shape, end);
        for (size_t r = 0; r < n; r++)
            for (size_t i = 0; i < counts[r]; i++)
                cells_of(&w, (int)r)[displs[r] + i] = r * 100 + i + 1;
        world_run(&w);
        for (int r = 0; r < size; r++)
            for (size_t b = 0; b < n; b++) {
                const uint64_t *cells = cells_of(&w, r) + displs[b];

                ALL(cells, i < counts[b] ? b * 100 + i + 1 : 0, counts[b] + 1);
            }
        world_fini(&w);
    }
}
END_TEST

static const enum algorithm reduce_scatters[] = {
    ALGORITHM_AUTO, ALGORITHM_RING, ALGORITHM_HALVING, ALGORITHM_PAIRWISE,
    ALGORITHM_FLAT};

enum {
    N_REDUCE_SCATTERS = sizeof(reduce_scatters) / sizeof(reduce_scatters[0])
};

START_TEST(reduce_scatter_any_size_own_block_complete)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++) {
        size_t count = 5, n = (size_t)size;
        struct schedule_call shape = {.kind = COLLECTIVE_REDUCE_SCATTER,
                                      .algorithm = reduce_scatters[_i],
                                      .size = size,
                                      .count = count};
        struct world w;

        world_init(&w, &shape, n * count);
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < n * count; i++)
                cells_of(&w, r)[i] = contribution(r, i);
        world_run(&w);
        for (size_t r = 0; r < n; r++)
            ALL(cells_of(&w, (int)r) + r * count, total(size, r * count + i),
                count);
        check_divides(&w, n * count, 1);
        ck_assert_uint_eq(w.sent, n * (n - 1) * count * CELL);
        world_fini(&w);
    }
}
END_TEST

START_TEST(alltoall_any_size_blocks_arrive)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++) {
        size_t count = 4, n = (size_t)size;
        struct schedule_call shape = {
            .kind = COLLECTIVE_ALLTOALL, .size = size, .count = count};
        struct world w;

        world_init(&w, &shape, n * count);
        for (size_t r = 0; r < n; r++) {
            uint64_t *src = calloc(n * count, CELL);

            for (size_t i = 0; i < n * count; i++)
                src[i] = r * 1000 + i;
            memcpy(cells_of(&w, (int)r) + r * count, src + r * count,
                   count * CELL);
            w.ranks[r].src = (uint8_t *)src;
        }
        world_run(&w);
        for (size_t r = 0; r < n; r++)
            ALL(cells_of(&w, (int)r), i / count * 1000 + r * count + i % count,
                n * count);
        ck_assert_uint_eq(w.sent, n * (n - 1) * count * CELL);
        world_fini(&w);
    }
}
END_TEST

/* No rank leaves a barrier before every rank has entered: hold one back. */
START_TEST(barrier_one_late_nobody_leaves)
{
    for (int size = 2; size <= SIZE_MAX_TESTED; size++)
        for (int late = 0; late<size; late += size> 9 ? 5 : 1) {
            struct schedule_call shape = {.kind = COLLECTIVE_BARRIER,
                                          .size = size};
            struct world w;

            world_init(&w, &shape, 0);
            world_move(&w, late);
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
    tcase_add_loop_test(tc, allreduce_any_size_each_contribution_once, 0,
                        N_ALLREDUCES);
    tcase_add_loop_test(tc, allreduce_doubles_same_bits_on_every_rank, 0,
                        N_ALLREDUCES);
    tcase_add_loop_test(tc, broadcast_any_size_and_root_arrives, 0,
                        N_BROADCASTS);
    tcase_add_loop_test(tc, allgather_any_size_in_rank_order, 0, N_ALLGATHERS);
    tcase_add_test(tc, allgatherv_any_size_lands_where_told);
    tcase_add_loop_test(tc, reduce_scatter_any_size_own_block_complete, 0,
                        N_REDUCE_SCATTERS);
    tcase_add_test(tc, alltoall_any_size_blocks_arrive);
    tcase_add_test(tc, barrier_one_late_nobody_leaves);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
