/* tests/collectives/test_ways.c - which way operands take between the ranks of
 * a host: results are the same whichever it is, so a way that is not taken any
 * more shows nowhere else but in the time. */
#include "collectives/comm_impl.h"
#include "collectives/local/impl.h"
#include "group.h"

enum { RANKS = 3, ROOM = 4 << 20, KIB = 1 << 10, MIB = 1 << 20 };

struct way {
    enum collective_kind kind;
    size_t nbytes; /* of a rank's operand */
    enum { NEITHER, OPERAND, RESULT, BOTH, IN_PLACE } in_arena;
    enum comm_ordinary ordinary;
    enum run_method method;
    uint8_t send_way, recv_way;
};

static const struct way ways[] = {
    /* with the card, up to what fits all cards together */
    {COLLECTIVE_ALLREDUCE, 8, NEITHER, COMM_ORDINARY_MEASURED, RUN_CARDS,
     MAILBOX_INLINE, MAILBOX_INLINE},
    {COLLECTIVE_ALLREDUCE, 8 * KIB, NEITHER, COMM_ORDINARY_MEASURED,
     RUN_OFFERED, MAILBOX_INLINE, MAILBOX_INLINE},
    {COLLECTIVE_ALLREDUCE, 8 * KIB + 8, NEITHER, COMM_ORDINARY_MEASURED,
     RUN_OFFERED, MAILBOX_STAGED, MAILBOX_INLINE},
    {COLLECTIVE_ALLREDUCE, 40 * KIB, NEITHER, COMM_ORDINARY_ATTACHED,
     RUN_OFFERED, MAILBOX_STAGED, MAILBOX_INLINE},
    /* block by block */
    {COLLECTIVE_ALLREDUCE, 48 * KIB, NEITHER, COMM_ORDINARY_STAGED, RUN_BLOCKS,
     MAILBOX_STAGED, MAILBOX_STAGED},
    {COLLECTIVE_ALLREDUCE, MIB, NEITHER, COMM_ORDINARY_ATTACHED, RUN_BLOCKS,
     MAILBOX_ATTACH, MAILBOX_ATTACH},
    {COLLECTIVE_ALLREDUCE, MIB, OPERAND, COMM_ORDINARY_ATTACHED, RUN_BLOCKS,
     MAILBOX_ARENA, MAILBOX_ATTACH},
    {COLLECTIVE_ALLREDUCE, MIB, OPERAND, COMM_ORDINARY_STAGED, RUN_BLOCKS,
     MAILBOX_ARENA, MAILBOX_STAGED},
    /* results that the others write */
    {COLLECTIVE_ALLREDUCE, KIB, BOTH, COMM_ORDINARY_MEASURED, RUN_CARDS,
     MAILBOX_INLINE, MAILBOX_INLINE},
    {COLLECTIVE_ALLREDUCE, 2 * KIB, BOTH, COMM_ORDINARY_MEASURED, RUN_PUSHED,
     MAILBOX_ARENA, MAILBOX_ARENA},
    {COLLECTIVE_ALLREDUCE, 2 * KIB, IN_PLACE, COMM_ORDINARY_MEASURED,
     RUN_PUSHED, MAILBOX_ARENA, MAILBOX_ARENA},
    {COLLECTIVE_ALLREDUCE, 2 * KIB, OPERAND, COMM_ORDINARY_MEASURED,
     RUN_OFFERED, MAILBOX_INLINE, MAILBOX_INLINE},
    {COLLECTIVE_ALLREDUCE, MIB, BOTH, COMM_ORDINARY_MEASURED, RUN_PUSHED,
     MAILBOX_ARENA, MAILBOX_ARENA},
    {COLLECTIVE_ALLREDUCE, MIB, RESULT, COMM_ORDINARY_STAGED, RUN_PUSHED,
     MAILBOX_STAGED, MAILBOX_ARENA},
    /* what is only moved */
    {COLLECTIVE_ALLGATHER, 8 * KIB, BOTH, COMM_ORDINARY_MEASURED, RUN_CARDS,
     MAILBOX_INLINE, MAILBOX_INLINE},
    {COLLECTIVE_ALLGATHER, 40 * KIB, NEITHER, COMM_ORDINARY_MEASURED,
     RUN_OFFERED, MAILBOX_STAGED, MAILBOX_INLINE},
    {COLLECTIVE_ALLGATHER, 40 * KIB, OPERAND, COMM_ORDINARY_MEASURED,
     RUN_OFFERED, MAILBOX_ARENA, MAILBOX_ARENA},
    {COLLECTIVE_ALLGATHER, 48 * KIB, NEITHER, COMM_ORDINARY_STAGED, RUN_BLOCKS,
     MAILBOX_STAGED, MAILBOX_NONE},
    {COLLECTIVE_ALLGATHER, MIB, BOTH, COMM_ORDINARY_STAGED, RUN_BLOCKS,
     MAILBOX_ARENA, MAILBOX_NONE},
    {COLLECTIVE_ALLTOALL, 60 * KIB, NEITHER, COMM_ORDINARY_STAGED, RUN_OFFERED,
     MAILBOX_STAGED, MAILBOX_INLINE},
    {COLLECTIVE_ALLTOALL, 66 * KIB, NEITHER, COMM_ORDINARY_ATTACHED, RUN_BLOCKS,
     MAILBOX_ATTACH, MAILBOX_NONE},
    {COLLECTIVE_ALLTOALL, 60 * KIB, IN_PLACE, COMM_ORDINARY_ATTACHED,
     RUN_OFFERED, MAILBOX_STAGED, MAILBOX_INLINE},
    {COLLECTIVE_ALLTOALL, 66 * KIB, IN_PLACE, COMM_ORDINARY_ATTACHED,
     RUN_BLOCKS, MAILBOX_STAGED, MAILBOX_NONE},
    {COLLECTIVE_REDUCE_SCATTER, 120 * KIB, NEITHER, COMM_ORDINARY_STAGED,
     RUN_OFFERED, MAILBOX_STAGED, MAILBOX_INLINE},
    {COLLECTIVE_REDUCE_SCATTER, 132 * KIB, OPERAND, COMM_ORDINARY_STAGED,
     RUN_BLOCKS, MAILBOX_ARENA, MAILBOX_NONE},
};

struct memory {
    void *arena[2], *ordinary[2]; /* operand, result */
};

static bool memory_create(struct memory *m)
{
    for (int i = 0; i < 2; i++) {
        m->ordinary[i] = calloc(1, ROOM);
        if (m->ordinary[i] == NULL || (m->arena[i] = hvd_alloc(ROOM)) == NULL)
            return false;
    }
    return true;
}

static void memory_destroy(struct memory *m)
{
    for (int i = 0; i < 2; i++) {
        free(m->ordinary[i]);
        hvd_free(m->arena[i]);
    }
}

static struct collective_args args_of(const struct way *w,
                                      const struct memory *m)
{
    bool blocks = w->kind == COLLECTIVE_ALLTOALL ||
                  w->kind == COLLECTIVE_REDUCE_SCATTER;
    bool operand = w->in_arena == OPERAND || w->in_arena == BOTH;
    bool result = w->in_arena == RESULT || w->in_arena >= BOTH;
    struct collective_args args = {
        .kind = w->kind,
        .sendbuf = operand ? m->arena[0] : m->ordinary[0],
        .recvbuf = result ? m->arena[1] : m->ordinary[1],
        .count = w->nbytes / sizeof(int64_t) / (blocks ? RANKS : 1),
        .dtype = HVD_INT64,
    };

    if (w->in_arena == IN_PLACE)
        args.sendbuf = args.recvbuf;
    return args;
}

static bool is_way(const struct local_run *run, const struct way *w)
{
    EXPECT_SAY(run->method == w->method, "%d", run->method);
    EXPECT_SAY(run->send_way == w->send_way && run->recv_way == w->recv_way,
               "%d, %d", run->send_way, run->recv_way);
    return true;
}

static bool take_way(struct group *g, int rank, void *arg)
{
    struct comm *comm = g->comms[rank];
    struct collective_args args;
    struct memory m;
    bool ok;

    EXPECT(memory_create(&m));
    args = args_of(arg, &m);
    EXPECT(barrier(comm) == HVD_OK); /* all know what all can do */
    ok = comm_run(comm, &args) == HVD_OK && is_way(&comm->local->run, arg);
    EXPECT(barrier(comm) == HVD_OK);
    memory_destroy(&m);
    return ok;
}

START_TEST(operands_take_their_way)
{
    const struct way *w = &ways[_i];
    struct group g;

    group_init_over(&g, RANKS, COMM_CAN_ALL, w->ordinary);
    group_run(&g, take_way, (void *)(uintptr_t)w);
    group_fini(&g);
}
END_TEST

/* Whose buffer is in the arena; the root is rank 0. */
struct broadcast {
    int n_ranks;
    size_t nbytes;
    bool in_arena[RANKS];
    enum run_method methods[RANKS]; /* with a core for each rank */
};

static const struct broadcast broadcasts[] = {
    {3, 4 * MIB, {true, true, true}, {RUN_PUSHED, RUN_PUSHED, RUN_PUSHED}},
    {3, 4 * MIB, {true, false, true}, {RUN_PUSHED, RUN_BLOCKS, RUN_PUSHED}},
    {3, 4 * MIB, {true, false, false}, {RUN_BLOCKS, RUN_BLOCKS, RUN_BLOCKS}},
    {3, 4 * MIB, {false, true, true}, {RUN_BLOCKS, RUN_BLOCKS, RUN_BLOCKS}},
    {3, 64 * KIB, {true, true, true}, {RUN_OFFERED, RUN_OFFERED, RUN_OFFERED}},
    {2, 256 * KIB, {true, true}, {RUN_PUSHED, RUN_PUSHED}},
    {2, 256 * KIB, {true, false}, {RUN_OFFERED, RUN_OFFERED}},
    {2, 256 * KIB, {false, true}, {RUN_OFFERED, RUN_OFFERED}},
    {2, 128 * KIB, {true, true}, {RUN_OFFERED, RUN_OFFERED}},
    {2, MIB, {true, true}, {RUN_PUSHED, RUN_PUSHED}},
    {2, MIB, {true, false}, {RUN_BLOCKS, RUN_BLOCKS}},
};

static void fill(int64_t *buf, size_t count, int64_t first)
{
    for (size_t i = 0; i < count; i++)
        buf[i] = first + (int64_t)i;
}

static bool split(struct group *g, int rank, void *arg)
{
    const struct broadcast *b = arg;
    struct comm *comm = g->comms[rank];
    size_t count = b->nbytes / sizeof(int64_t);
    struct memory m;
    int64_t *buf;

    EXPECT(memory_create(&m));
    buf = b->in_arena[rank] ? m.arena[0] : m.ordinary[0];
    EXPECT(barrier(comm) == HVD_OK); /* all know what all can do */
    for (int round = 0; round < 3; round++) {
        fill(buf, count, rank == 0 ? round : -1);
        EXPECT(broadcast(comm, buf, count, HVD_INT64, 0) == HVD_OK);
        EXPECT_SAY(comm->local->run.method == b->methods[rank] ||
                       (comm->local->crowded && b->n_ranks < RANKS),
                   "%d: %d", rank, comm->local->run.method);
        for (size_t i = 0; i < count; i++)
            EXPECT(buf[i] == round + (int64_t)i);
    }
    EXPECT(barrier(comm) == HVD_OK);
    memory_destroy(&m);
    return true;
}

START_TEST(large_broadcast_is_split_with_who_can_be_written_to)
{
    const struct broadcast *b = &broadcasts[_i];
    struct group g;

    group_init_over(&g, b->n_ranks, COMM_CAN_ALL, COMM_ORDINARY_STAGED);
    group_run(&g, split, (void *)(uintptr_t)b);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ways");
    TCase *tc = tcase_create("ways");

    tcase_add_loop_test(tc, operands_take_their_way, 0,
                        sizeof(ways) / sizeof(ways[0]));
    tcase_add_loop_test(tc, large_broadcast_is_split_with_who_can_be_written_to,
                        0, sizeof(broadcasts) / sizeof(broadcasts[0]));
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
