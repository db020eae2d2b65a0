/* tests/collectives/test_two_level.c - ranks on several hosts, some of which
 * have several: the same bits on every rank, in all shapes; and what happens
 * when one of them is not where the others wait for it, in each phase. */
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "collectives/comm_impl.h"
#include "collectives/reduce/dtype.h"
#include "collectives/reduce/reduce.h"
#include "group.h"

struct shape {
    int size;
    uint32_t hosts[GROUP_MAX];
};

static const struct shape shapes[] = {
    {3, {0, 0, 1}},
    {3, {0, 1, 1}},
    {3, {7, 4, 7}},
    {4, {0, 0, 1, 1}},
    {4, {0, 1, 0, 1}},
    {4, {5, 9, 9, 5}},
    {4, {0, 0, 0, 1}},
    {4, {0, 1, 1, 1}},
    {4, {0, 1, 2, 2}},
    {5, {0, 0, 1, 1, 1}},
    {5, {3, 1, 3, 1, 2}},
    {6, {0, 0, 0, 1, 1, 1}},
    {6, {0, 1, 2, 0, 1, 2}},
    {7, {0, 0, 0, 0, 1, 1, 2}},
    {8, {0, 0, 1, 1, 2, 2, 3, 3}},
    {8, {0, 0, 0, 0, 1, 1, 1, 1}},
    {8, {0, 1, 0, 2, 0, 1, 0, 3}},
};

enum {
    N_SHAPES = sizeof(shapes) / sizeof(shapes[0]),
    LARGE_NBYTES = 1300 << 10 /* several blocks and frames */
};

/* --- results --- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * 0x9e3779b97f4a7c15u + b + 1;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0, 1 and 2 of each dtype: combined exactly, in whatever order. */
static void put_small(uint8_t *at, hvd_dtype_t dtype, unsigned value)
{
    static const uint16_t halves[] = {0, 0x3c00, 0x4000};
    static const uint16_t brains[] = {0, 0x3f80, 0x4000};
    uint64_t whole = value; /* little endian */
    float single = (float)value;
    double twice = value;

    switch (dtype) {
    case HVD_FLOAT16:
        memcpy(at, &halves[value], 2);
        break;
    case HVD_BFLOAT16:
        memcpy(at, &brains[value], 2);
        break;
    case HVD_FLOAT32:
        memcpy(at, &single, 4);
        break;
    case HVD_FLOAT64:
        memcpy(at, &twice, 8);
        break;
    default:
        memcpy(at, &whole, hvd_dtype_size(dtype));
        break;
    }
}

/* What all ranks call. */
struct scene {
    enum collective_kind kind;
    hvd_dtype_t dtype;
    hvd_op_t op;
    size_t count;
    int root;
    bool exact; /* numbers whose order does not matter; else any bits */
    uint64_t seed;
};

/* Memory of one rank alone: the thread sanitizer has nothing to learn there. */
__attribute__((no_sanitize("thread"))) static void fill(const struct scene *s,
                                                        uint8_t *buf, int rank)
{
    size_t e = hvd_dtype_size(s->dtype), n = s->count * e;
    uint64_t seed = mix(s->seed, 1000 + (uint64_t)rank);

    for (size_t i = 0; i < s->count && s->exact; i++)
        put_small(buf + i * e, s->dtype, (unsigned)(mix(seed, i) % 3));
    for (size_t i = 0; i < n && !s->exact; i += 8) {
        uint64_t any = mix(seed, i);

        memcpy(buf + i, &any, n - i < 8 ? n - i : 8);
    }
}

/* [LARGE_NBYTES] each */
struct memory {
    uint8_t *arena[2], *ordinary[2];
    uint8_t *expected, *operands[GROUP_MAX];
};

static uint8_t *allocate(void)
{
    return calloc(1, LARGE_NBYTES);
}

static void memory_create(struct memory *m, int size)
{
    *m = (struct memory){.expected = allocate()};
    for (int i = 0; i < 2; i++) {
        void *ptr = NULL;

        if ((ptr = hvd_alloc(LARGE_NBYTES)) == NULL)
            abort();
        m->arena[i] = ptr;
        m->ordinary[i] = allocate();
    }
    for (int i = 0; i < size; i++)
        m->operands[i] = allocate();
}

static void memory_destroy(struct memory *m)
{
    for (int i = 0; i < 2; i++) {
        hvd_free(m->arena[i]);
        free(m->ordinary[i]);
    }
    for (int i = 0; i < GROUP_MAX; i++)
        free(m->operands[i]);
    free(m->expected);
}

/* Where every rank has its result, while all look. */
static const uint8_t *results[GROUP_MAX];

static bool compare(struct group *g, int rank, const struct scene *s,
                    const struct memory *m)
{
    size_t n = s->count * hvd_dtype_size(s->dtype);

    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    /* byte by byte is slow under sanitizers, and for who has to say it */
    if (memcmp(results[rank], results[0], n) == 0 &&
        (!s->exact || memcmp(results[rank], m->expected, n) == 0))
        n = 0;
    for (size_t i = 0; i < n; i++)
        if (results[rank][i] != results[0][i] ||
            (s->exact && results[rank][i] != m->expected[i])) {
            fprintf(stderr,
                    "seed %llu kind %d %s %s count %zu root %d: rank %d of %d "
                    "byte %zu: %02x, rank 0 %02x, expected %02x\n",
                    (unsigned long long)s->seed, (int)s->kind,
                    dtype_name(s->dtype), op_name(s->op), s->count, s->root,
                    rank, g->size, i, results[rank][i], results[0][i],
                    m->expected[i]);
            return false;
        }
    EXPECT(barrier(g->comms[rank]) == HVD_OK);
    return true;
}

/* Own operand, and what is to come out where it does not depend on the order.
 */
static void expect(const struct scene *s, struct memory *m, int rank, int size)
{
    struct reduce_shape shape = {.dtype = s->dtype, .op = s->op};
    const void *sources[GROUP_MAX];

    if (!s->exact) {
        fill(s, m->operands[rank], rank);
        return;
    }
    for (int i = 0; i < size; i++) {
        fill(s, m->operands[i], i);
        sources[i] = m->operands[i];
    }
    shape.divisor = s->op == HVD_AVERAGE ? size : 0;
    if (s->kind == COLLECTIVE_BROADCAST)
        memcpy(m->expected, m->operands[s->root],
               s->count * hvd_dtype_size(s->dtype));
    else
        reduce_many(&shape, m->expected, sources, size, s->count);
}

static bool play(struct group *g, int rank, const struct scene *s,
                 struct memory *m)
{
    size_t n = s->count * hvd_dtype_size(s->dtype);
    uint64_t habit = mix(s->seed, s->seed % 2 ? 1 : 2 + (uint64_t)rank);
    uint8_t *send = habit & 1 ? m->arena[0] : m->ordinary[0];
    uint8_t *recv = habit & 2 ? m->arena[1] : m->ordinary[1];
    bool in_place = s->kind == COLLECTIVE_BROADCAST || habit & 4;
    struct collective_args args = {.kind = s->kind,
                                   .sendbuf = in_place ? recv : send,
                                   .recvbuf = recv,
                                   .count = s->count,
                                   .dtype = s->dtype,
                                   .op = s->op,
                                   .root = s->root};

    EXPECT(n <= LARGE_NBYTES);
    expect(s, m, rank, g->size);
    memset(recv, 0xee, n);
    if (s->kind != COLLECTIVE_BROADCAST || rank == s->root)
        memcpy(in_place ? recv : send, m->operands[rank], n);
    results[rank] = recv;
    EXPECT_SAY(comm_run(g->comms[rank], &args) == HVD_OK,
               "seed %llu count %zu rank %d", (unsigned long long)s->seed,
               s->count, rank);
    if (!in_place)
        EXPECT(memcmp(send, m->operands[rank], n) == 0);
    return compare(g, rank, s, m);
}

static struct scene scene_of(uint64_t seed, int size)
{
    static const size_t nbytes[] = {1,    8,     24,    100,   1000,  4097,
                                    8192, 8200,  9000,  16384, 40000, 100000,
                                    8191, 65536, 70001, 8193};
    struct scene s = {.seed = seed, .kind = COLLECTIVE_ALLREDUCE};
    size_t e;

    if (mix(seed, 1) % 3 == 0)
        s.kind = COLLECTIVE_BROADCAST;
    s.dtype = (hvd_dtype_t)(DTYPE_FIRST + mix(seed, 2) % DTYPE_COUNT);
    s.op = (hvd_op_t)(mix(seed, 3) % OP_COUNT);
    s.root = (int)(mix(seed, 4) % (uint64_t)size);
    s.exact = mix(seed, 5) % 2 == 0;
    e = hvd_dtype_size(s.dtype);
    s.count = nbytes[mix(seed, 6) % 16] / e + mix(seed, 7) % 3;
    if (mix(seed, 8) % 16 == 0)
        s.count = LARGE_NBYTES / e - mix(seed, 7) % 7;
    if (mix(seed, 8) % 16 == 1)
        s.count = mix(seed, 7) % 9;
    return s;
}

#if defined(__SANITIZE_THREAD__)
enum { N_CASES = 8 };
#elif defined(__SANITIZE_ADDRESS__)
enum { N_CASES = 20 };
#else
enum { N_CASES = 60 };
#endif

static bool play_all(struct group *g, int rank, void *arg)
{
    struct memory m;
    bool ok = true;

    (void)arg;
    memory_create(&m, g->size);
    for (int i = 0; ok && i < N_CASES; i++) {
        struct scene s = scene_of(mix((uint64_t)i, (uint64_t)g->size) >> 20,
                                  g->size);

        ok = play(g, rank, &s, &m);
    }
    if (!ok)
        comm_leave(g->comms[rank], COMM_LEAVE_ABORT, 0);
    memory_destroy(&m);
    return ok;
}

static void force(struct group *g, enum algorithm algorithm)
{
    memset(&g->algorithms, 0, sizeof(g->algorithms));
    for (int kind = 1; kind < KINDS_MAX; kind++)
        if (algorithm_fits(kind, algorithm))
            g->algorithms.by_kind[kind] = (uint8_t)algorithm;
}

/* As the group was made, but for what `g` says now. */
static void renew(struct group *g, int rank)
{
    comm_destroy(g->comms[rank]);
    group_comm_create(g, rank);
}

static void init(struct group *g, const struct shape *s, enum algorithm a)
{
    const char *over = getenv("HVD_TEST_OVER");
    enum comm_ordinary ordinary = COMM_ORDINARY_MEASURED;

    if (over != NULL && strcmp(over, "staged") == 0)
        ordinary = COMM_ORDINARY_STAGED;
    if (over != NULL && strcmp(over, "attached") == 0)
        ordinary = COMM_ORDINARY_ATTACHED;
    group_init_hosts(g, s->size, s->hosts, COMM_CAN_ALL, ordinary);
    force(g, a);
    for (int i = 0; i < s->size; i++)
        renew(g, i);
}

START_TEST(all_shapes_same_bits)
{
    struct group g;

    init(&g, &shapes[_i], ALGORITHM_TWO_LEVEL);
    group_run(&g, play_all, NULL);
    group_fini(&g);
}
END_TEST

/* Ranks of this host cannot share memory, and everybody knows. */
static void take_sharing(struct group *g, uint32_t host)
{
    for (int i = 0; i < g->size; i++)
        if (g->peers[i].host == host)
            g->peers[i].abilities &= (uint8_t)~COMM_CAN_SHARE;
    for (int i = 0; i < g->size; i++)
        renew(g, i);
}

START_TEST(host_without_sharing_same_bits)
{
    static const struct shape some[] = {{4, {0, 0, 1, 1}}, {3, {0, 0, 1}}};
    struct group g;

    init(&g, &some[_i], ALGORITHM_AUTO);
    take_sharing(&g, 1);
    for (int i = 0; i < g.size; i++)
        ck_assert_int_eq(g.comms[i]->two_level != NULL, some[_i].size == 3);
    group_run(&g, play_all, NULL);
    group_fini(&g);
}
END_TEST

START_TEST(forced_flat_same_bits)
{
    static const enum algorithm flat[] = {ALGORITHM_RING, ALGORITHM_DOUBLING,
                                          ALGORITHM_HALVING, ALGORITHM_AUTO};
    struct group g;

    init(&g, &shapes[10], flat[_i]);
    group_run(&g, play_all, NULL);
    group_fini(&g);
}
END_TEST

/* --- which way --- */

/* After the call the operation still shows what it consisted of. */
static bool see_levels(struct group *g, int rank, void *arg)
{
    const int *levels = arg;
    const struct comm *comm = g->comms[rank];
    size_t count = 10000;
    float *buf = calloc(count, sizeof(*buf));

    EXPECT(allreduce(g->comms[rank], buf, buf, count, HVD_FLOAT32, HVD_SUM) ==
           HVD_OK);
    EXPECT_SAY((comm->op.head.algorithm & FRAME_TWO_LEVELS ? 2 : 1) == *levels,
               "rank %d: algorithm %x", rank, comm->op.head.algorithm);
    free(buf);
    return true;
}

static void expect_levels(int size, const uint32_t *hosts, enum algorithm a,
                          int levels)
{
    struct shape s = {.size = size};
    struct group g;

    memcpy(s.hosts, hosts, (size_t)size * sizeof(*hosts));
    init(&g, &s, a);
    group_run(&g, see_levels, &levels);
    group_fini(&g);
}

START_TEST(way_by_algorithm_and_hosts)
{
    static const uint32_t two[] = {0, 0, 1, 1}, apart[] = {0, 1, 2, 3};
    static const uint32_t together[] = {2, 2, 2, 2};

    expect_levels(4, two, ALGORITHM_TWO_LEVEL, 2);
    expect_levels(4, two, ALGORITHM_AUTO, 2);
    expect_levels(4, two, ALGORITHM_RING, 1);
    expect_levels(4, two, ALGORITHM_FLAT, 1);
    expect_levels(4, apart, ALGORITHM_TWO_LEVEL, 1);
    expect_levels(4, together, ALGORITHM_TWO_LEVEL, 1);
}
END_TEST

/* --- what a kind has no use for --- */

static bool leave_rubbish(struct group *g, int rank, void *arg)
{
    float x = 1;
    struct collective_args sum = {.kind = COLLECTIVE_ALLREDUCE,
                                  .sendbuf = &x,
                                  .recvbuf = &x,
                                  .count = 1,
                                  .dtype = HVD_FLOAT32,
                                  .root = *(const int *)arg};
    struct collective_args all = {.kind = COLLECTIVE_BARRIER,
                                  .root = *(const int *)arg,
                                  .dtype = (hvd_dtype_t)77,
                                  .op = (hvd_op_t)78};

    EXPECT(comm_run(g->comms[rank], &sum) == HVD_OK && x == (float)g->size);
    for (all.count = 0; all.count < 40000; all.count += 10000)
        EXPECT(comm_run(g->comms[rank], &all) == HVD_OK);
    all.count = 100;
    EXPECT(comm_run(g->comms[rank], &all) == HVD_OK);
    return true;
}

START_TEST(unused_arguments_not_looked_at)
{
    static const struct shape all[] = {{3, {0, 1, 1}}, {4, {0, 0, 1, 1}}};
    int roots[] = {-1, 1 << 30};
    struct group g;

    for (int i = 0; i < 2; i++) {
        init(&g, &all[_i], ALGORITHM_TWO_LEVEL);
        group_run(&g, leave_rubbish, &roots[i]);
        group_fini(&g);
    }
}
END_TEST

/* --- one is not where it is waited for --- */

enum stray {
    STRAY_ABORT,
    STRAY_DEATH,
    STRAY_DONE,
    STRAY_BOUNDARY,
    STRAY_BARRIER, /* calls something else */
    STRAY_SMALL,
    STRAY_LARGE,
    STRAY_GATHER,
    STRAY_OP,
    STRAY_COUNT
};

struct trouble {
    enum stray stray;
    enum collective_kind kind; /* of the others' call */
    size_t count;
    int root;
    int who;
    bool acquainted; /* there were calls before */
    pthread_barrier_t *begun;
    atomic_int n_done, all_fd;
};

static hvd_status_t call(struct group *g, int rank, const struct trouble *t,
                         size_t count)
{
    uint8_t *buf = calloc(count + 1, sizeof(float));
    hvd_status_t status;

    if (t->kind == COLLECTIVE_BROADCAST)
        status = broadcast(g->comms[rank], buf, count, HVD_FLOAT32, t->root);
    else if (t->kind == COLLECTIVE_BARRIER)
        status = barrier(g->comms[rank]);
    else
        status = allreduce(g->comms[rank], buf, buf, count, HVD_FLOAT32,
                           rank == t->who && t->stray == STRAY_OP ? HVD_MAX
                                                                  : HVD_SUM);
    free(buf);
    return status;
}

static hvd_status_t gather(struct comm *comm, int size)
{
    float mine[300] = {0}, all[300 * GROUP_MAX];
    struct collective_args args = {.kind = COLLECTIVE_ALLGATHER,
                                   .sendbuf = mine,
                                   .recvbuf = all,
                                   .count = 300,
                                   .dtype = HVD_FLOAT32};

    (void)size;
    return comm_run(comm, &args);
}

static hvd_status_t stray(struct group *g, int rank, const struct trouble *t)
{
    struct comm *comm = g->comms[rank];

    switch (t->stray) {
    case STRAY_ABORT:
        for (int i = 0; i < g->size; i++)
            comm_abort(g->comms[i], HVD_PEER_LOST, "somebody died");
        return comm_status(comm, NULL);
    case STRAY_DEATH:
        group_rank_destroy(g, rank);
        return HVD_PEER_LOST;
    case STRAY_DONE:
        comm_leave(comm, COMM_LEAVE_DONE, 0);
        return HVD_ERR_MISMATCH;
    case STRAY_BOUNDARY:
        comm_leave(comm, COMM_LEAVE_BOUNDARY, 5);
        return HVD_ERR_MISMATCH;
    case STRAY_BARRIER:
        return t->kind == COLLECTIVE_BARRIER ? gather(comm, g->size)
                                             : barrier(comm);
    case STRAY_SMALL:
    case STRAY_LARGE:
    case STRAY_OP:
        return call(g, rank, t,
                    t->stray == STRAY_SMALL   ? 7
                    : t->stray == STRAY_LARGE ? 100001
                                              : t->count);
    default:
        return gather(comm, g->size);
    }
}

static bool meet_trouble(struct group *g, int rank, void *arg)
{
    struct trouble *t = arg;
    bool lost = t->stray == STRAY_ABORT || t->stray == STRAY_DEATH;
    hvd_status_t expected = lost ? HVD_PEER_LOST : HVD_ERR_MISMATCH;
    hvd_status_t status = HVD_OK;

    if (t->acquainted) {
        float x = 1;

        EXPECT(allreduce(g->comms[rank], &x, &x, 1, HVD_FLOAT32, HVD_SUM) ==
               HVD_OK);
        EXPECT(gather(g->comms[rank], g->size) == HVD_OK);
        EXPECT(call(g, rank, &(struct trouble){.who = -1}, 20000) == HVD_OK);
    }
    pthread_barrier_wait(t->begun);
    if (rank == t->who)
        status = stray(g, rank, t);
    if (status == HVD_OK)
        status = call(g, rank, t, t->count);
    /* a broadcast may not have needed it */
    if (status == HVD_OK)
        status = barrier(g->comms[rank]);
    if (atomic_fetch_add(&t->n_done, 1) == g->size - 1)
        eventfd_write(t->all_fd, 1);
    if (g->endpoints[rank] == NULL)
        return true;
    /* who comes late is answered from here */
    EXPECT(endpoint_serve(g->endpoints[rank], t->all_fd, CLOCK_NEVER) ==
           HVD_OK);
    EXPECT_SAY(status == expected,
               "stray %d kind %d count %zu who %d acquainted %d: rank %d of %d "
               "has %d",
               t->stray, (int)t->kind, t->count, t->who, t->acquainted, rank,
               g->size, status);
    return true;
}

static void make_trouble(const struct shape *s, struct trouble t)
{
    pthread_barrier_t begun;
    struct group g;

    pthread_barrier_init(&begun, NULL, (unsigned)s->size);
    t.begun = &begun;
    t.all_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    init(&g, s, ALGORITHM_TWO_LEVEL);
    group_run(&g, meet_trouble, &t);
    group_fini(&g);
    close(t.all_fd);
    pthread_barrier_destroy(&begun);
}

static bool differs(const struct trouble *t)
{
    switch (t->stray) {
    case STRAY_SMALL:
        return t->count != 7 && t->kind != COLLECTIVE_BARRIER;
    case STRAY_LARGE:
        return t->kind != COLLECTIVE_BARRIER;
    case STRAY_OP:
        return t->kind == COLLECTIVE_ALLREDUCE;
    default:
        return true;
    }
}

/* With the stray rank anywhere, the others wait in each of the phases. */
START_TEST(stray_rank_all_told)
{
    static const struct shape some[] = {
        {4, {0, 0, 1, 1}}, {4, {0, 1, 1, 1}}, {5, {0, 1, 0, 1, 0}}};
    static const size_t counts[] = {7, 3000};
    static const enum collective_kind kinds[] = {
        COLLECTIVE_ALLREDUCE, COLLECTIVE_BROADCAST, COLLECTIVE_BARRIER};
    const struct shape *s = &some[_i % 3];
    struct trouble t = {.stray = (enum stray)(_i / 3)};

    for (int i = 0; i < 3 * 2; i++)
        for (t.who = 0; t.who < s->size; t.who++) {
            t.kind = kinds[i % 3];
            t.count = counts[i / 3];
            /* a stranger's death shows at the connect timeout */
            t.acquainted = t.stray == STRAY_DEATH || (i + t.who) % 2 == 0;
            t.root = (t.who + 1) % s->size;
            if (differs(&t))
                make_trouble(s, t);
        }
}
END_TEST

/* --- one goes another way --- */

static bool go_own_way(struct group *g, int rank, void *arg)
{
    struct trouble *t = arg;
    hvd_status_t status = HVD_OK;

    for (int i = 0; i < 4 && status == HVD_OK; i++)
        status = call(g, rank, t, t->count);
    if (atomic_fetch_add(&t->n_done, 1) == g->size - 1)
        eventfd_write(t->all_fd, 1);
    EXPECT(endpoint_serve(g->endpoints[rank], t->all_fd, CLOCK_NEVER) ==
           HVD_OK);
    EXPECT_SAY(status == HVD_ERR_MISMATCH, "rank %d of %d: %d, who %d", rank,
               g->size, status, t->who);
    EXPECT_SAY(strstr(error_text(), "HVD_ALGORITHM") != NULL ||
                   strstr(error_text(), "abilities") != NULL,
               "rank %d", rank);
    return true;
}

/* Ranks [first, end) do it otherwise. */
static void differ(const struct shape *s, int first, int end, bool abilities,
                   size_t count)
{
    struct trouble t = {.kind = COLLECTIVE_ALLREDUCE,
                        .count = count,
                        .who = first,
                        .stray = STRAY_COUNT,
                        .all_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    struct group g;

    init(&g, s, ALGORITHM_TWO_LEVEL);
    for (int i = first; i < end; i++) {
        if (abilities)
            group_set_abilities(&g, 0);
        else
            force(&g, ALGORITHM_RING);
        renew(&g, i);
    }
    group_run(&g, go_own_way, &t);
    group_fini(&g);
    close(t.all_fd);
}

START_TEST(another_way_all_told)
{
    static const struct shape s = {4, {0, 0, 1, 1}}, one = {3, {0, 1, 1}};
    size_t count = _i % 2 ? 3000 : 7;
    bool abilities = _i / 2;

    for (int i = 0; i < 4; i++)
        differ(&s, i, i + 1, abilities, count);
    for (int i = 0; i < 4; i += 2)
        differ(&s, i, i + 2, abilities, count);
    differ(&one, 0, 1, abilities, count);
    differ(&one, 1, 3, abilities, count);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("two_level");
    TCase *tc = tcase_create("two_level");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, all_shapes_same_bits, 0, N_SHAPES);
    tcase_add_loop_test(tc, host_without_sharing_same_bits, 0, 2);
    tcase_add_loop_test(tc, forced_flat_same_bits, 0, 4);
    tcase_add_test(tc, way_by_algorithm_and_hosts);
    tcase_add_loop_test(tc, unused_arguments_not_looked_at, 0, 2);
    tcase_add_loop_test(tc, stray_rank_all_told, 0, 3 * STRAY_COUNT);
    tcase_add_loop_test(tc, another_way_all_told, 0, 4);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
