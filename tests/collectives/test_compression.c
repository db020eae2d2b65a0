/* tests/collectives/test_compression.c - 32 and 64 bits that travel as 16: the
 * conversions against a plain one, and a compressed call against an own call of
 * the dtype that it travels as, bit for bit. */
#include <math.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/array.h"
#include "base/random.h"
#include "collectives/by_name.h"
#include "collectives/reduce/convert.h"
#include "collectives/reduce/dtype.h"
#include "posted.h"

enum { COUNT_MAX = 70000 };

static const hvd_dtype_t wires[] = {HVD_FLOAT16, HVD_BFLOAT16};
static const hvd_dtype_t dtypes[] = {HVD_FLOAT32, HVD_FLOAT64};

static uint16_t plain_narrow(hvd_dtype_t wire, double v)
{
    return wire == HVD_FLOAT16 ? half_of_float((float)v)
                               : bfloat_of_float((float)v);
}

static double plain_widen(hvd_dtype_t wire, uint16_t q)
{
    return (double)(wire == HVD_FLOAT16 ? half_to_float(q)
                                        : bfloat_to_float(q));
}

static double get(hvd_dtype_t dtype, const void *at)
{
    float f;
    double d;

    memcpy(&f, at, sizeof(f));
    if (dtype == HVD_FLOAT32)
        return (double)f;
    memcpy(&d, at, sizeof(d));
    return d;
}

static void put(hvd_dtype_t dtype, void *at, double v)
{
    float f = (float)v;

    if (dtype == HVD_FLOAT32)
        memcpy(at, &f, sizeof(f));
    else
        memcpy(at, &v, sizeof(v));
}

/* --- conversions --- */

static const double edges[] = {0,     -0.0,   1,        -1.5,      65504,
                               65520, 1e-8,   -6e-8,    1e-40,     3.5e38,
                               1e300, 1e-300, INFINITY, -INFINITY, 0.1};

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Elements lie across their alignment, too. */
static void convert_all(hvd_dtype_t wire, hvd_dtype_t dtype, size_t count,
                        double factor)
{
    size_t elem = hvd_dtype_size(dtype);
    uint8_t *src = malloc(count * elem + 1), *back = malloc(count * elem + 1);
    uint8_t *q = malloc(count * 2 + 1);

    for (size_t i = 0; i < count; i++)
        put(dtype, src + 1 + i * elem, edges[i % ARRAY_SIZE(edges)]);
    convert_narrow(wire, q + 1, dtype, src + 1, count, factor, NULL);
    convert_widen(dtype, back + 1, wire, q + 1, count, 2);
    for (size_t i = 0; i < count; i++) {
        uint16_t got, wanted = plain_narrow(
                          wire, get(dtype, src + 1 + i * elem) * factor);

        memcpy(&got, q + 1 + 2 * i, 2);
        ck_assert_uint_eq(got, wanted);
        ck_assert(same(get(dtype, back + 1 + i * elem),
                       dtype == HVD_FLOAT64
                           ? 2 * plain_widen(wire, wanted)
                           : (double)(float)(2 * plain_widen(wire, wanted))));
    }
    free(src);
    free(back);
    free(q);
}

START_TEST(conversions_are_plain_ones)
{
    static const size_t counts[] = {0, 1, 255, 256, 257, 1000};

    for (size_t w = 0; w < ARRAY_SIZE(wires); w++)
        for (size_t t = 0; t < ARRAY_SIZE(dtypes); t++)
            for (size_t c = 0; c < ARRAY_SIZE(counts); c++) {
                convert_all(wires[w], dtypes[t], counts[c], 1);
                convert_all(wires[w], dtypes[t], counts[c], 0.25);
            }
    ck_assert(!convert_applies(HVD_FLOAT16) && !convert_applies(HVD_INT32));
}
END_TEST

/* What went and what is left are what there was; of infinity nothing is. */
START_TEST(residual_is_what_rounding_took)
{
    hvd_dtype_t wire = wires[_i % 2], dtype = dtypes[_i / 2];
    size_t elem = hvd_dtype_size(dtype);
    uint8_t src[ARRAY_SIZE(edges) * 8], residual[sizeof(src)];
    uint16_t q[ARRAY_SIZE(edges)];

    for (size_t i = 0; i < ARRAY_SIZE(edges); i++) {
        put(dtype, src + i * elem, edges[i]);
        put(dtype, residual + i * elem, 0.001);
    }
    convert_narrow(wire, q, dtype, src, ARRAY_SIZE(edges), 1, residual);
    for (size_t i = 0; i < ARRAY_SIZE(edges); i++) {
        double v = get(dtype, src + i * elem) +
                   (dtype == HVD_FLOAT32 ? (double)0.001f : 0.001);
        double went = plain_widen(wire, q[i]);
        double left = get(dtype, residual + i * elem);

        ck_assert_uint_eq(q[i], plain_narrow(wire, v));
        ck_assert(left == (isfinite(went) ? dtype == HVD_FLOAT32
                                                ? (double)(float)(v - went)
                                                : v - went
                                          : 0));
    }
}
END_TEST

/* --- calls --- */

static struct collective_args args_for(hvd_dtype_t wire, hvd_dtype_t dtype,
                                       const void *send, void *recv,
                                       size_t count)
{
    struct collective_args args = sum_args(send, recv, count);

    args.dtype = dtype;
    args.wire_dtype = wire;
    return args;
}

static hvd_status_t run_posted(struct comm *comm,
                               const struct collective_args *args)
{
    struct hvd_request *request;

    HVD_TRY(comm_post(comm, args, &request));
    return request_wait(request);
}

/* What the call has to come to, by a call of 16-bit floats. */
static hvd_status_t reference(struct comm *comm,
                              const struct collective_args *args, uint16_t *q)
{
    hvd_dtype_t wire = args->wire_dtype;
    struct collective_args own = *args;

    convert_narrow(wire, q, args->dtype, args->sendbuf, args->count,
                   args->prescale, NULL);
    own.sendbuf = own.recvbuf = q;
    own.dtype = wire;
    own.wire_dtype = HVD_DTYPE_SAME;
    own.scaled = false;
    return run_posted(comm, &own);
}

struct scene {
    hvd_dtype_t wire, dtype;
    size_t count;
    hvd_op_t op;
    bool in_place;
    double prescale, postscale;
};

static const struct scene scenes[] = {
    {HVD_FLOAT16, HVD_FLOAT32, 1, HVD_SUM, true, 0, 0},
    {HVD_FLOAT16, HVD_FLOAT32, COUNT_MAX, HVD_SUM, false, 0, 0},
    {HVD_BFLOAT16, HVD_FLOAT32, COUNT_MAX, HVD_AVERAGE, true, 0, 0},
    {HVD_FLOAT16, HVD_FLOAT64, 4099, HVD_AVERAGE, false, 0.125, 8},
    {HVD_BFLOAT16, HVD_FLOAT64, 257, HVD_MAX, true, 0, 3},
    {HVD_BFLOAT16, HVD_FLOAT32, 5000, HVD_SUM, false, 0.5, 0},
    {HVD_FLOAT16, HVD_FLOAT32, 0, HVD_SUM, true, 0, 0},
};

static bool plays(struct group *g, int rank, void *arg)
{
    const struct scene *s = arg;
    size_t elem = hvd_dtype_size(s->dtype);
    uint8_t *send = malloc(s->count * elem + 1);
    uint8_t *recv = s->in_place ? send : malloc(s->count * elem + 1);
    uint16_t *q = malloc(s->count * 2 + 2);
    struct random_state r = {77 + (uint64_t)rank};
    struct collective_args args = args_for(s->wire, s->dtype, send, recv,
                                           s->count);
    double behind = s->postscale != 0 ? s->postscale : 1;

    for (size_t i = 0; i < s->count; i++)
        put(s->dtype, send + i * elem,
            (double)random_below(&r, 2000001) / 1e6 - 1);
    args.op = s->op;
    scale_args(&args, s->prescale, s->postscale);
    EXPECT(reference(g->comms[rank], &args, q) == HVD_OK);
    EXPECT(run_posted(g->comms[rank], &args) == HVD_OK);
    for (size_t i = 0; i < s->count; i++) {
        double wanted = plain_widen(s->wire, q[i]) * behind;

        EXPECT(get(s->dtype, recv + i * elem) ==
               (s->dtype == HVD_FLOAT32 ? (double)(float)wanted : wanted));
    }
    free(q);
    if (!s->in_place)
        free(recv);
    free(send);
    return true;
}

START_TEST(call_is_one_of_its_wire)
{
    static const int sizes[] = {1, 2, 3, 4};
    struct scene scene = scenes[_i];
    struct group g;

    for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
        group_init(&g, sizes[i]);
        group_run(&g, plays, &scene);
        group_fini(&g);
    }
}
END_TEST

/* The mean of many sums of what 16 bits cannot say: with what was taken away
 * added the next time it is right, without it is off by as much each time. */
static bool feeds_back(struct group *g, int rank, void *arg)
{
    enum { STEPS = 400 };
    const float value = 1.0f + 0.3f / 256; /* between two of bfloat16 */
    double sum[2] = {0, 0}, exact = (double)value * g->size;
    float residual[1] = {0};

    for (int step = 0; step < 2 * STEPS; step++) {
        float x[1] = {value};
        struct collective_args args = args_for(HVD_BFLOAT16, HVD_FLOAT32, x, x,
                                               1);

        args.residual = step < STEPS ? residual : NULL;
        EXPECT(run_posted(g->comms[rank], &args) == HVD_OK);
        sum[step / STEPS] += (double)x[0];
    }
    EXPECT(fabs(sum[0] / STEPS - exact) < 0.0001);
    EXPECT(fabs(sum[1] / STEPS - exact) > 0.001);
    return true;
}

START_TEST(error_feedback_makes_the_mean_right)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, feeds_back, NULL);
    group_fini(&g);
}
END_TEST

/* 40000 is one of float16, 80000 is none. What is left over is of a rank's own
 * contribution, which is whole. */
static bool overflows(struct group *g, int rank, void *arg)
{
    float x[2] = {40000, 1}, residual[2] = {0.25f, 0};
    struct collective_args args = args_for(HVD_FLOAT16, HVD_FLOAT32, x, x, 2);

    args.residual = residual;
    EXPECT(run_posted(g->comms[rank], &args) == HVD_OK);
    EXPECT_SAY(isinf(x[0]) && x[0] > 0 && x[1] == 2, "%g", (double)x[0]);
    EXPECT_SAY(residual[0] == 0.25f, "%g", (double)residual[0]);
    x[0] = 40000;
    args.residual = NULL;
    scale_args(&args, 0.5, 2);
    EXPECT(run_posted(g->comms[rank], &args) == HVD_OK);
    EXPECT_SAY(x[0] == 80000, "%g", (double)x[0]);
    return true;
}

START_TEST(sums_overflow_unless_they_are_scaled_down)
{
    struct group g;

    group_init(&g, 2);
    group_run(&g, overflows, NULL);
    group_fini(&g);
}
END_TEST

/* --- what travels --- */

static atomic_size_t n_sent; /* bytes, over sockets */

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    ssize_t n = __real_sendmsg(fd, msg, flags);

    atomic_fetch_add(&n_sent, n > 0 ? (size_t)n : 0);
    return n;
}

static bool travels(struct group *g, int rank, void *arg)
{
    struct collective_args args = *(const struct collective_args *)arg;
    void *buf = calloc(args.count, hvd_dtype_size(args.dtype));
    hvd_status_t status;

    args.sendbuf = args.recvbuf = buf;
    status = run_posted(g->comms[rank], &args);
    free(buf);
    EXPECT(status == HVD_OK);
    return true;
}

static size_t travelled(struct group *g, hvd_dtype_t wire, hvd_dtype_t dtype)
{
    struct collective_args args = args_for(wire, dtype, NULL, NULL, 100000);

    atomic_store(&n_sent, 0);
    group_run(g, travels, &args);
    return atomic_load(&n_sent);
}

/* Beside few headers. Of two ranks every schedule has each send all of it. */
START_TEST(half_or_a_quarter_travels)
{
    struct group g;

    group_init_over(&g, 2, 0, COMM_ORDINARY_MEASURED);
    (void)travelled(&g, HVD_DTYPE_SAME, HVD_FLOAT32); /* they connect */
    for (size_t t = 0; t < ARRAY_SIZE(dtypes); t++) {
        size_t whole = travelled(&g, HVD_DTYPE_SAME, dtypes[t]);
        size_t parts = hvd_dtype_size(dtypes[t]) / 2;

        for (size_t w = 0; w < ARRAY_SIZE(wires); w++) {
            size_t n = travelled(&g, wires[w], dtypes[t]);

            ck_assert_uint_gt(n, whole / parts - whole / 100);
            ck_assert_uint_lt(n, whole / parts + whole / 100);
        }
    }
    group_fini(&g);
}
END_TEST

/* --- what is refused, and what ends it --- */

static bool refused(struct comm *comm, const struct collective_args *args,
                    const char *words)
{
    struct hvd_request *request;

    return comm_post(comm, args, &request) == HVD_ERR_INVALID &&
           text_has(words);
}

START_TEST(refused_at_the_door)
{
    struct group g;
    float x[8] = {0};
    struct collective_args args = args_for(HVD_FLOAT16, HVD_INT32, x, x, 4);
    const struct comm_group none = {0, NULL, NULL, NULL};
    struct hvd_request *request;

    group_init(&g, 2);
    ck_assert(refused(g.comms[0], &args, "float32 and float64"));
    args.dtype = HVD_FLOAT16;
    ck_assert(refused(g.comms[0], &args, "float32 and float64"));
    args.dtype = HVD_FLOAT32;
    args.kind = COLLECTIVE_BROADCAST;
    ck_assert(refused(g.comms[0], &args, "broadcast"));
    args.kind = COLLECTIVE_ALLREDUCE;
    args.wire_dtype = HVD_INT8;
    ck_assert(refused(g.comms[0], &args, "float16 or bfloat16"));
    args.wire_dtype = HVD_FLOAT16;
    args.residual = x + 3;
    ck_assert(refused(g.comms[0], &args, "residual overlaps"));
    args.residual = x + 4;
    args.wire_dtype = HVD_DTYPE_SAME;
    ck_assert(refused(g.comms[0], &args, "residual is for wire_dtype"));
    args = args_for(HVD_FLOAT16, HVD_FLOAT32, NULL, NULL, 0);
    ck_assert_int_eq(comm_post_group(g.comms[0], &args, &none, &request),
                     HVD_ERR_INVALID);
    ck_assert(text_has("not for a group"));
    group_fini(&g);
}
END_TEST

/* One rank alone does not have it rounded. They are connected before, so that
 * nobody comes late (test_comm.c has that). */
static bool differs(struct group *g, int rank, void *arg)
{
    float x[4] = {1, 2, 3, 4};
    struct collective_args args = args_for(HVD_FLOAT16, HVD_FLOAT32, x, x, 4);
    hvd_status_t status = HVD_OK;

    for (int i = 0; i < 4 && status == HVD_OK; i++)
        status = barrier(g->comms[rank]);
    if (rank == 1)
        args.wire_dtype = HVD_DTYPE_SAME;
    if (status == HVD_OK)
        status = run_posted(g->comms[rank], &args);
    EXPECT(status == HVD_ERR_MISMATCH);
    EXPECT(text_has("float16") && text_has("float32"));
    return true;
}

START_TEST(ranks_that_differ_are_named)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, differs, NULL);
    group_fini(&g);
}
END_TEST

/* What travels is the same, what it is made of is not. */
static bool differs_in_buffers(struct group *g, int rank, void *arg)
{
    double x[4] = {0};
    struct collective_args args = args_for(
        HVD_BFLOAT16, rank == 1 ? HVD_FLOAT64 : HVD_FLOAT32, x, x, 4);
    struct hvd_request *request;
    hvd_status_t status = HVD_OK;

    args.name = "grad";
    for (int i = 0; i < 4 && status == HVD_OK; i++)
        status = barrier(g->comms[rank]);
    EXPECT(status == HVD_OK);
    EXPECT(by_name_post(g->comms[rank], &args, NULL, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_ERR_MISMATCH);
    EXPECT(
        text_has("'grad': rank 0 calls allreduce (float32 as bfloat16, sum") &&
        text_has("rank 1 calls allreduce (float64 as bfloat16, sum, 4"));
    EXPECT(run_posted(g->comms[rank], &args) == HVD_ERR_MISMATCH);
    EXPECT(text_has("float32 as bfloat16") && text_has("float64 as bfloat16"));
    return true;
}

START_TEST(ranks_whose_buffers_differ_are_named)
{
    struct group g;

    group_init(&g, 3);
    group_run(&g, differs_in_buffers, NULL);
    group_fini(&g);
}
END_TEST

/* By name: what travels is all that differs, and the generation goes on. */
static bool differs_on_the_wire(struct group *g, int rank, void *arg)
{
    hvd_dtype_t odd = *(hvd_dtype_t *)arg;
    float x[4] = {1, 2, 3, 4};
    struct collective_args args = args_for(rank == 1 ? odd : HVD_BFLOAT16,
                                           HVD_FLOAT32, x, x, 4);
    struct hvd_request *request;

    args.name = "grad";
    for (int i = 0; i < 2; i++) {
        EXPECT(by_name_post(g->comms[rank], &args, NULL, &request) == HVD_OK);
        EXPECT(request_wait(request) == HVD_ERR_MISMATCH);
        EXPECT(text_has("'grad': rank 0 calls allreduce (float32 as bfloat16, "
                        "sum, 4), rank 1 calls allreduce (float32"));
        EXPECT(text_has(odd == HVD_FLOAT16 ? "(float32 as float16, sum, 4)"
                                           : "(float32, sum, 4)"));
    }
    args.wire_dtype = HVD_FLOAT16;
    EXPECT(by_name_post(g->comms[rank], &args, NULL, &request) == HVD_OK);
    EXPECT(request_wait(request) == HVD_OK);
    EXPECT(x[3] == 4 * (float)g->size);
    return true;
}

START_TEST(ranks_whose_wire_differs_are_named)
{
    static hvd_dtype_t odd[] = {HVD_FLOAT16, HVD_DTYPE_SAME};
    struct group g;

    group_init(&g, 3);
    group_run(&g, differs_on_the_wire, &odd[_i]);
    group_fini(&g);
}
END_TEST

/* Its peer never comes: nothing of the result is written. */
START_TEST(abort_leaves_the_result_alone)
{
    struct group g;
    float x[1000], y[1000];
    struct collective_args args = args_for(HVD_FLOAT16, HVD_FLOAT32, x, y,
                                           1000);
    struct hvd_request *request;

    fill(x, 1000, 1);
    fill(y, 1000, 7);
    group_init(&g, 2);
    ck_assert_int_eq(comm_post(g.comms[0], &args, &request), HVD_OK);
    comm_abort(g.comms[0], HVD_PEER_LOST, "the test says so");
    ck_assert_int_eq(request_wait(request), HVD_PEER_LOST);
    ck_assert(all_are(y, 1000, 7));
    group_fini(&g);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compression");
    TCase *tc = tcase_create("compression");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, conversions_are_plain_ones);
    tcase_add_loop_test(tc, residual_is_what_rounding_took, 0, 4);
    tcase_add_loop_test(tc, call_is_one_of_its_wire, 0, ARRAY_SIZE(scenes));
    tcase_add_test(tc, error_feedback_makes_the_mean_right);
    tcase_add_test(tc, sums_overflow_unless_they_are_scaled_down);
    tcase_add_test(tc, half_or_a_quarter_travels);
    tcase_add_test(tc, refused_at_the_door);
    tcase_add_test(tc, ranks_that_differ_are_named);
    tcase_add_test(tc, ranks_whose_buffers_differ_are_named);
    tcase_add_loop_test(tc, ranks_whose_wire_differs_are_named, 0, 2);
    tcase_add_test(tc, abort_leaves_the_result_alone);
    suite_add_tcase(suite, tc);
    return support_run(suite);
}
