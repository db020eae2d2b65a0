/* tests/collectives/test_buffers.c - where buffers lie does not matter: from
 * hvd_alloc or not, in place or not, at any address, another mix on every
 * rank. Within a host every way of moving them gives the same bits:
 * those of one reduction in the order of the ranks.
 *
 * Each rank knows what all others have, so it computes its result itself. */
#include "collectives/local/mailbox.h"
#include "collectives/reduce/dtype.h"
#include "collectives/reduce/reduce.h"
#include "group.h"

enum {
    LARGE_NBYTES = 36 << 20, /* most of it never touched */
    SHIFT_MAX = 4096, /* where in its allocation a buffer starts, at most */
    /* of what a call writes; half is enough, of ordinary blocks all from three
     * ranks on */
    NONTEMPORAL_NBYTES = 34 << 20,
#if defined(__SANITIZE_THREAD__)
    SMALL_CASES = 40, /* ten times as slow */
    LARGE_CASES = 4,
    NONTEMPORAL_ROUNDS = 0, /* of all kinds: it does not see such stores */
#elif defined(__SANITIZE_ADDRESS__)
    SMALL_CASES = 60,
    LARGE_CASES = 4,
    NONTEMPORAL_ROUNDS = 1,
#else
    SMALL_CASES = 100,
    LARGE_CASES = 8,
    NONTEMPORAL_ROUNDS = 1,
#endif
    NONTEMPORAL_CASES = NONTEMPORAL_ROUNDS *
                        (COLLECTIVE_BARRIER - COLLECTIVE_ALLREDUCE)
};

/* --- numbers that everybody knows --- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b + 1;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Any bits: NaNs, zeros with signs, infinities and subnormals among them. In
 * memory of one rank alone: the thread sanitizer has nothing to learn from it.
 */
__attribute__((no_sanitize("thread"))) static void
fill(uint8_t *buf, size_t nbytes, uint64_t seed)
{
    static const uint64_t odd[] = {0x8000000080000000u,
                                   0x7fc000017fa00000u,
                                   0xff8000007f800000u,
                                   0x7c00fc0080007e01u,
                                   0,
                                   1};

    for (size_t i = 0; i < nbytes; i += 8) {
        uint64_t word = mix(seed, i);
        size_t n = nbytes - i < 8 ? nbytes - i : 8;

        if (word % 7 < 2)
            word = odd[word / 7 % 6];
        memcpy(buf + i, &word, n);
    }
}

struct sizes {
    const size_t *nbytes;
    size_t n;
};

/* What all ranks call, and what it depends on. */
struct scene {
    enum collective_kind kind;
    hvd_dtype_t dtype;
    hvd_op_t op;
    int root;
    size_t count; /* of the public call; v-forms: the most for a pair */
    uint64_t seed;
};

static struct scene scene_of(uint64_t seed, const struct sizes *sizes, int size)
{
    struct scene s = {.seed = seed};
    size_t e;

    s.kind = (enum collective_kind)(COLLECTIVE_ALLREDUCE + mix(seed, 1) % 8);
    /* the one with the most ways */
    if (mix(seed, 2) % 3 == 0 || s.kind == COLLECTIVE_BARRIER)
        s.kind = COLLECTIVE_ALLREDUCE;
    s.dtype = (hvd_dtype_t)(DTYPE_FIRST + mix(seed, 3) % DTYPE_COUNT);
    s.op = (hvd_op_t)(mix(seed, 4) % OP_COUNT);
    s.root = (int)(mix(seed, 5) % (uint64_t)size);
    e = hvd_dtype_size(s.dtype);
    s.count = sizes->nbytes[mix(seed, 6) % sizes->n] / e + mix(seed, 7) % 3;
    s.count -= s.count > 0 && mix(seed, 8) % 2 ? 1 : 0;
    return s;
}

static bool is_sent_by(const struct scene *s, int rank)
{
    return s->kind != COLLECTIVE_BROADCAST || rank == s->root;
}

/* v-forms: elements from one rank to another, every fourth time none. */
static size_t pair_count(const struct scene *s, int from, int to)
{
    uint64_t any = mix(s->seed,
                       100 + (uint64_t)from * GROUP_MAX + (uint64_t)to);

    return any % 4 == 0 ? 0 : any / 4 % (s->count + 1);
}

static size_t gather_count(const struct scene *s, int from)
{
    return pair_count(s, from, 0);
}

/* --- one rank's part --- */

struct part {
    const struct scene *s;
    int rank, size;
    size_t e;
    size_t sendcounts[GROUP_MAX], sdispls[GROUP_MAX];
    size_t recvcounts[GROUP_MAX], rdispls[GROUP_MAX];
    size_t send_nbytes, recv_nbytes;
    size_t own_at; /* of a gather's operand, in place */
};

/* Displacements leave gaps: nothing may be written there. */
static size_t lay_out(const size_t *counts, size_t *displs, int n)
{
    size_t at = 0;

    for (int i = 0; i < n; i++) {
        at += (size_t)i % 3;
        displs[i] = at;
        at += counts[i];
    }
    return at;
}

static void measure_v(struct part *p)
{
    const struct scene *s = p->s;
    bool gathers = s->kind == COLLECTIVE_ALLGATHERV;

    for (int i = 0; i < p->size; i++) {
        p->sendcounts[i] = pair_count(s, p->rank, i);
        p->recvcounts[i] = gathers ? gather_count(s, i)
                                   : pair_count(s, i, p->rank);
    }
    p->send_nbytes = lay_out(p->sendcounts, p->sdispls, p->size) * p->e;
    p->recv_nbytes = lay_out(p->recvcounts, p->rdispls, p->size) * p->e;
    if (gathers) {
        p->send_nbytes = p->recvcounts[p->rank] * p->e;
        p->own_at = p->rdispls[p->rank] * p->e;
    }
}

static struct part part_of(const struct scene *s, int rank, int size)
{
    struct part p = {
        .s = s, .rank = rank, .size = size, .e = hvd_dtype_size(s->dtype)};
    size_t n = s->count * p.e;

    p.send_nbytes = p.recv_nbytes = n;
    switch (s->kind) {
    case COLLECTIVE_ALLGATHERV:
    case COLLECTIVE_ALLTOALLV:
        measure_v(&p);
        break;
    case COLLECTIVE_ALLGATHER:
        p.recv_nbytes = n * (size_t)size;
        p.own_at = (size_t)rank * n;
        break;
    case COLLECTIVE_ALLTOALL:
        p.recv_nbytes = n * (size_t)size;
        p.send_nbytes = n * (size_t)size;
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        p.send_nbytes = n * (size_t)size;
        p.own_at = (size_t)rank * n;
        break;
    default:
        break;
    }
    return p;
}

/* --- what is to come out --- */

/* [LARGE_NBYTES] per rank, and as much for the result. */
struct bench {
    uint8_t *operands[GROUP_MAX], *expected;
};

static void expect_reduced(const struct part *p, struct bench *b, size_t at,
                           size_t count)
{
    struct reduce_shape shape = {.dtype = p->s->dtype, .op = p->s->op};
    const void *sources[GROUP_MAX];

    if (p->s->op == HVD_AVERAGE)
        shape.divisor = p->size;
    for (int i = 0; i < p->size; i++)
        sources[i] = b->operands[i] + at;
    reduce_many(&shape, b->expected, sources, p->size, count);
}

static void expect_moved(const struct part *p, struct bench *b)
{
    size_t n = p->s->count * p->e, me = (size_t)p->rank;

    for (int i = 0; i < p->size; i++) {
        struct part from = part_of(p->s, i, p->size);
        size_t at = (size_t)i * n, src = 0, nbytes = n;

        if (p->s->kind == COLLECTIVE_ALLTOALL) {
            src = me * n;
        } else if (p->s->kind == COLLECTIVE_ALLGATHERV ||
                   p->s->kind == COLLECTIVE_ALLTOALLV) {
            at = p->rdispls[i] * p->e;
            nbytes = p->recvcounts[i] * p->e;
            if (p->s->kind == COLLECTIVE_ALLTOALLV)
                src = from.sdispls[me] * p->e;
        }
        memcpy(b->expected + at, b->operands[i] + src, nbytes);
    }
}

/* `expected` holds what recvbuf held before. */
static void expect(const struct part *p, struct bench *b)
{
    const struct scene *s = p->s;
    size_t n = s->count * p->e;

    for (int i = 0; i < p->size; i++)
        if (is_sent_by(s, i))
            fill(b->operands[i], part_of(s, i, p->size).send_nbytes,
                 mix(s->seed, 1000 + (uint64_t)i));
    switch (s->kind) {
    case COLLECTIVE_ALLREDUCE:
        expect_reduced(p, b, 0, s->count);
        break;
    case COLLECTIVE_REDUCE_SCATTER:
        expect_reduced(p, b, (size_t)p->rank * n, s->count);
        break;
    case COLLECTIVE_BROADCAST:
        memcpy(b->expected, b->operands[s->root], n);
        break;
    default:
        expect_moved(p, b);
        break;
    }
}

/* --- where it lies --- */

struct rank_memory {
    uint8_t *arena[2], *ordinary[2]; /* [SHIFT_MAX + LARGE_NBYTES] each */
    struct bench bench;
};

static bool memory_create(struct rank_memory *m, int size)
{
    size_t nbytes = SHIFT_MAX + LARGE_NBYTES;
    bool ok = true;

    memset(m, 0, sizeof(*m));
    for (int i = 0; i < 2; i++) {
        void *ptr = NULL;

        ok &= (ptr = hvd_alloc(nbytes)) != NULL;
        m->arena[i] = ptr;
        m->ordinary[i] = calloc(1, nbytes);
        ok &= m->ordinary[i] != NULL;
    }
    for (int i = 0; i < size; i++) {
        m->bench.operands[i] = malloc(LARGE_NBYTES);
        ok &= m->bench.operands[i] != NULL;
    }
    m->bench.expected = malloc(LARGE_NBYTES);
    return ok && m->bench.expected != NULL;
}

static void memory_destroy(struct rank_memory *m)
{
    for (int i = 0; i < 2; i++) {
        hvd_free(m->arena[i]);
        free(m->ordinary[i]);
    }
    for (int i = 0; i < GROUP_MAX; i++)
        free(m->bench.operands[i]);
    free(m->bench.expected);
}

struct places {
    uint8_t *send, *recv;
    bool in_place, arena_send, arena_recv;
};

/* The group's habit, or each rank's own. */
static uint64_t habit(const struct part *p, uint64_t what)
{
    bool alike = mix(p->s->seed, 20) % 2 == 0;

    return mix(p->s->seed, what + (alike ? 0 : 50 * (1 + (uint64_t)p->rank)));
}

static struct places places_of(const struct part *p, struct rank_memory *m)
{
    struct places at = {.arena_send = habit(p, 21) % 2 == 0,
                        .arena_recv = habit(p, 22) % 2 == 0};
    size_t shift[2];

    for (int i = 0; i < 2; i++)
        shift[i] = habit(p, 23 + (uint64_t)i) % 3 == 0
                       ? 0
                       : mix(p->s->seed, 25 + (uint64_t)(p->rank * 2 + i)) %
                             SHIFT_MAX;
    at.recv = (at.arena_recv ? m->arena : m->ordinary)[1] + shift[1];
    at.send = (at.arena_send ? m->arena : m->ordinary)[0] + shift[0];
    /* alltoallv has no such form */
    at.in_place = p->s->kind == COLLECTIVE_BROADCAST ||
                  (p->s->kind != COLLECTIVE_ALLTOALLV && habit(p, 26) % 2 == 0);
    if (!at.in_place)
        return at;
    if (p->s->kind == COLLECTIVE_REDUCE_SCATTER)
        at.recv = at.send + p->own_at;
    else
        at.send = at.recv + p->own_at;
    return at;
}

static void say(const struct part *p, const struct places *at, size_t wrong)
{
    fprintf(stderr,
            "seed %llu: kind %d %s %s count %zu, rank %d of %d, send %s, recv "
            "%s%s: byte %zu\n",
            (unsigned long long)p->s->seed, (int)p->s->kind,
            dtype_name(p->s->dtype), op_name(p->s->op), p->s->count, p->rank,
            p->size, at->arena_send ? "arena" : "ordinary",
            at->arena_recv ? "arena" : "ordinary",
            at->in_place ? ", in place" : "", wrong);
}

static bool compare(const struct part *p, const struct places *at,
                    const struct bench *b)
{
    /* byte by byte is slow under sanitizers, and for who has to say it */
    if (memcmp(at->recv, b->expected, p->recv_nbytes) == 0)
        return true;
    for (size_t i = 0; i < p->recv_nbytes; i++)
        if (at->recv[i] != b->expected[i]) {
            say(p, at, i);
            return false;
        }
    return true;
}

static bool play(struct group *g, int rank, const struct scene *s,
                 struct rank_memory *m)
{
    struct part p = part_of(s, rank, g->size);
    struct places at = places_of(&p, m);
    struct collective_args args = {.kind = s->kind,
                                   .sendbuf = at.send,
                                   .recvbuf = at.recv,
                                   .count = s->count,
                                   .dtype = s->dtype,
                                   .op = s->op,
                                   .root = s->root,
                                   .sendcounts = p.sendcounts,
                                   .sdispls = p.sdispls,
                                   .recvcounts = p.recvcounts,
                                   .rdispls = p.rdispls};

    if (s->kind == COLLECTIVE_ALLGATHERV)
        args.count = p.recvcounts[rank];
    EXPECT(p.send_nbytes <= LARGE_NBYTES && p.recv_nbytes <= LARGE_NBYTES);
    memset(at.recv, 0xee, p.recv_nbytes);
    memset(m->bench.expected, 0xee, p.recv_nbytes);
    expect(&p, &m->bench);
    if (is_sent_by(s, rank))
        memcpy(at.send, m->bench.operands[rank], p.send_nbytes);
    EXPECT_SAY(comm_run(g->comms[rank], &args) == HVD_OK, "seed %llu rank %d",
               (unsigned long long)s->seed, rank);
    return compare(&p, &at, &m->bench);
}

/* --- the cases --- */

struct run {
    struct sizes sizes; /* none: every kind by turns, with NONTEMPORAL_NBYTES */
    int n_cases;
};

static struct scene nontemporal_scene(int i, int size)
{
    static const size_t any = 0;
    const struct sizes none = {&any, 1};
    int n_kinds = COLLECTIVE_BARRIER - COLLECTIVE_ALLREDUCE;
    struct scene s = scene_of(mix((uint64_t)i, 17), &none, size);
    size_t parts = (size_t)size;

    s.kind = (enum collective_kind)(COLLECTIVE_ALLREDUCE + i % n_kinds);
    if (s.kind == COLLECTIVE_ALLREDUCE || s.kind == COLLECTIVE_BROADCAST)
        parts = 2;
    s.count = NONTEMPORAL_NBYTES / parts / hvd_dtype_size(s.dtype);
    s.count -= (size_t)i % 3;
    return s;
}

static bool play_all(struct group *g, int rank, void *arg)
{
    const struct run *run = arg;
    struct rank_memory m;
    bool ok = memory_create(&m, g->size);

    for (int i = 0; ok && i < run->n_cases; i++) {
        uint64_t seed = mix((uint64_t)i, (uint64_t)g->size) >> 20;
        struct scene s = run->sizes.n > 0 ? scene_of(seed, &run->sizes, g->size)
                                          : nontemporal_scene(i, g->size);

        ok = play(g, rank, &s, &m);
    }
    if (!ok)
        comm_leave(g->comms[rank], COMM_LEAVE_ABORT, 0);
    memory_destroy(&m);
    return ok;
}

static void play_group(int size, const size_t *nbytes, size_t n, int n_cases)
{
    struct run run = {{nbytes, n}, n_cases};
    struct group g;

    group_init(&g, size);
    group_run(&g, play_all, &run);
    group_fini(&g);
}

START_TEST(small_operands_anywhere_same_bits)
{
    static const size_t nbytes[] = {0,
                                    1,
                                    8,
                                    MAILBOX_TINY_MAX,
                                    40,
                                    1000,
                                    1024,
                                    1100,
                                    4096,
                                    MAILBOX_INLINE_MAX / 4,
                                    5000,
                                    8000,
                                    8100,
                                    8190,
                                    MAILBOX_INLINE_MAX,
                                    8200,
                                    9000,
                                    12345,
                                    20000,
                                    40000,
                                    64 << 10};

    play_group(_i, nbytes, sizeof(nbytes) / sizeof(nbytes[0]), SMALL_CASES);
}
END_TEST

/* Around what goes with the cards, what a rank takes at a time, and a few
 * times that. */
START_TEST(blocks_anywhere_same_bits)
{
    static const size_t nbytes[] = {64 << 10,  65544,  128 << 10, 131080,
                                    200000,    419424, 512 << 10, 520000,
                                    834 << 10, 838000, 1048576,   1100000};

    play_group(_i, nbytes, sizeof(nbytes) / sizeof(nbytes[0]), LARGE_CASES);
}
END_TEST

/* Results that are written past the caches. */
START_TEST(nontemporal_anywhere_same_bits)
{
    play_group(_i, NULL, 0, NONTEMPORAL_CASES);
}
END_TEST

static bool reduce_many_blocks(struct group *g, int rank, void *arg)
{
    const size_t n = 3 << 20;
    float *buf = malloc(n * sizeof(*buf));
    bool ok = buf != NULL;

    (void)arg;
    for (int k = 0; ok && k < 3; k++) {
        for (size_t i = 0; i < n; i++)
            buf[i] = (float)(i % 1000 + (size_t)(rank + k));
        ok = allreduce(g->comms[rank], buf, buf, n, HVD_FLOAT32, HVD_MAX) ==
             HVD_OK;
        for (size_t i = 0; ok && i < n; i++)
            ok = buf[i] == (float)(i % 1000 + (size_t)(g->size - 1 + k));
    }
    free(buf);
    EXPECT(ok);
    return true;
}

/* Who stages its result waits for its takers, they may not wait for it. */
START_TEST(staged_beside_attached_many_blocks)
{
    struct group g;

    group_init(&g, _i);
    for (int i = 0; i < _i; i++) {
        comm_destroy(g.comms[i]);
        g.ordinary = i % 2 ? COMM_ORDINARY_ATTACHED : COMM_ORDINARY_STAGED;
        group_comm_create(&g, i);
    }
    group_run(&g, reduce_many_blocks, NULL);
    group_fini(&g);
}
END_TEST

/* Rank 0 offers its buffer, rank 1 cannot: the result of rank 0 waits until the
 * operand that is in its place has been read. Up to where ranks reduce blocks.
 */
static bool offers(struct group *g, int rank, void *arg)
{
    void *memory = NULL;
    float *buf;
    bool ok = true;

    (void)arg;
    if (rank == 0 && (memory = hvd_alloc(1 << 20)) == NULL)
        return false;
    buf = rank == 0 ? memory : malloc(1 << 20);
    for (size_t nbytes = 1 << 11; ok && nbytes <= 1 << 20; nbytes *= 2) {
        size_t n = nbytes / sizeof(*buf);

        for (size_t i = 0; i < n; i++)
            buf[i] = (float)(i + (size_t)rank);
        ok = allreduce(g->comms[rank], buf, buf, n, HVD_FLOAT32, HVD_SUM) ==
             HVD_OK;
        for (size_t i = 0; ok && i < n; i++)
            ok = buf[i] == (float)(2 * i + 1);
    }
    if (rank == 0)
        hvd_free(memory);
    else
        free(buf);
    EXPECT(ok);
    return true;
}

START_TEST(offered_beside_ordinary_of_every_size)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, offers, NULL);
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("buffers");
    TCase *tc = tcase_create("buffers");

    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, small_operands_anywhere_same_bits, 2, 6);
    tcase_add_loop_test(tc, blocks_anywhere_same_bits, 2, 6);
    tcase_add_loop_test(tc, nontemporal_anywhere_same_bits, 2, 4);
    tcase_add_loop_test(tc, staged_beside_attached_many_blocks, 2, 5);
    tcase_add_test(tc, offered_beside_ordinary_of_every_size);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
