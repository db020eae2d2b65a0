/* bench/device_check.c - see device_check.h.
 *
 * What rank a has at element k of what it sends is value_of(a, k). Blocks of
 * calls that move lie `stride` apart, in those with counts with a gap between
 * them, which nobody may write: it is filled, and looked at. */
#include "device_check.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "any_call.h"
#include "base/array.h"
#include "collectives/reduce/dtype.h"
#include "gpu.h"

enum { FILLER = 77, GAP = 3, VARIES = 2, N_COUNTS = 3, ELEM_MAX = 8 };

struct item {
    enum any_kind kind;
    hvd_dtype_t dtype;
    hvd_op_t op;
    size_t count;
    bool in_place, scaled;
};

static struct {
    size_t nbytes;               /* of each buffer */
    uint8_t *here, *send, *recv; /* the last two of the device */
    double *want;
} buffers;

/* --- what is put in --- */

static int value_of(const struct item *c, int rank, size_t k)
{
    static const int factors[] = {1, -1, 2};
    unsigned x = (unsigned)rank * 7 + (unsigned)(k % 1009) * 3 + c->op;
    bool is_unsigned = c->dtype == HVD_UINT8;

    if (c->op == HVD_PRODUCT)
        return is_unsigned ? abs(factors[x % 3]) : factors[x % 3];
    return (int)(x % 5) - (is_unsigned ? 0 : 2);
}

static void put(hvd_dtype_t dtype, void *buffer, size_t k, int value)
{
    switch (dtype) {
    case HVD_INT8:
    case HVD_UINT8:
        ((uint8_t *)buffer)[k] = (uint8_t)value;
        return;
    case HVD_INT32:
        ((int32_t *)buffer)[k] = value;
        return;
    case HVD_INT64:
        ((int64_t *)buffer)[k] = value;
        return;
    case HVD_FLOAT16:
        ((uint16_t *)buffer)[k] = half_of_float((float)value);
        return;
    case HVD_BFLOAT16:
        ((uint16_t *)buffer)[k] = bfloat_of_float((float)value);
        return;
    case HVD_FLOAT32:
        ((float *)buffer)[k] = (float)value;
        return;
    default:
        ((double *)buffer)[k] = value;
    }
}

static double get(hvd_dtype_t dtype, const void *buffer, size_t k)
{
    switch (dtype) {
    case HVD_INT8:
        return ((const int8_t *)buffer)[k];
    case HVD_UINT8:
        return ((const uint8_t *)buffer)[k];
    case HVD_INT32:
        return ((const int32_t *)buffer)[k];
    case HVD_INT64:
        return (double)((const int64_t *)buffer)[k];
    case HVD_FLOAT16:
        return (double)half_to_float(((const uint16_t *)buffer)[k]);
    case HVD_BFLOAT16:
        return (double)bfloat_to_float(((const uint16_t *)buffer)[k]);
    case HVD_FLOAT32:
        return (double)((const float *)buffer)[k];
    default:
        return ((const double *)buffer)[k];
    }
}

/* --- where it lies --- */

static bool is_varied(const struct item *c)
{
    return c->kind == ANY_ALLGATHERV || c->kind == ANY_ALLTOALLV;
}

static bool is_gather(const struct item *c)
{
    return c->kind == ANY_ALLGATHER || c->kind == ANY_ALLGATHERV;
}

static bool is_exchange(const struct item *c)
{
    return c->kind == ANY_ALLTOALL || c->kind == ANY_ALLTOALLV;
}

static bool reduces(enum any_kind kind)
{
    return kind == ANY_ALLREDUCE || kind == ANY_REDUCE_SCATTER;
}

static size_t stride_of(const struct item *c)
{
    return is_varied(c) ? c->count + VARIES + GAP : c->count;
}

/* Elements that rank a has for rank b. */
static size_t n_between(const struct item *c, int a, int b)
{
    int more = is_gather(c) ? a : a + 2 * b;

    return is_varied(c) ? c->count + (size_t)(more % (VARIES + 1)) : c->count;
}

static size_t send_length(const struct item *c)
{
    if (is_exchange(c) || c->kind == ANY_REDUCE_SCATTER)
        return stride_of(c) * (size_t)hvd_size();
    return is_gather(c) ? n_between(c, hvd_rank(), 0) : c->count;
}

static size_t recv_length(const struct item *c)
{
    if (is_gather(c) || is_exchange(c))
        return stride_of(c) * (size_t)hvd_size();
    return c->count;
}

static int root_of(const struct item *c)
{
    return (int)c->dtype % hvd_size();
}

/* --- what has to come out --- */

static double combine(const struct item *c, size_t k)
{
    double all = value_of(c, 0, k);

    for (int a = 1; a < hvd_size(); a++) {
        double one = value_of(c, a, k);

        if (c->op == HVD_MIN)
            all = fmin(all, one);
        else if (c->op == HVD_MAX)
            all = fmax(all, one);
        else
            all = c->op == HVD_PRODUCT ? all * one : all + one;
    }
    return all;
}

/* As the dtype has it. */
static double finish(const struct item *c, double all)
{
    bool whole = c->dtype < HVD_FLOAT16;

    if (c->op == HVD_AVERAGE)
        all = whole ? trunc(all / hvd_size()) : all / hvd_size();
    if (c->scaled)
        all *= 8;
    if (c->dtype == HVD_INT8)
        return (int8_t)(int)all;
    return c->dtype == HVD_UINT8 ? (uint8_t)(int)all : all;
}

static void want_moved(const struct item *c)
{
    size_t stride = stride_of(c);
    size_t from = is_exchange(c) ? stride * (size_t)hvd_rank() : 0;

    for (int a = 0; a < hvd_size(); a++)
        for (size_t k = 0; k < n_between(c, a, hvd_rank()); k++)
            buffers.want[stride * (size_t)a + k] = value_of(c, a, from + k);
}

static void want(const struct item *c)
{
    size_t from = c->kind == ANY_REDUCE_SCATTER ? c->count * (size_t)hvd_rank()
                                                : 0;

    for (size_t k = 0; k < recv_length(c); k++)
        buffers.want[k] = FILLER;
    if (is_gather(c) || is_exchange(c)) {
        want_moved(c);
        return;
    }
    for (size_t k = 0; k < c->count; k++)
        buffers.want[k] = reduces(c->kind) ? finish(c, combine(c, from + k))
                                           : value_of(c, root_of(c), k);
}

/* --- the call --- */

struct places {
    uint8_t *send, *recv;
};

static struct places places_of(const struct item *c)
{
    struct places p = {buffers.send, buffers.recv};
    size_t mine = stride_of(c) * (size_t)hvd_rank() * hvd_dtype_size(c->dtype);

    if (c->kind == ANY_BROADCAST)
        p.send = p.recv;
    else if (c->in_place && c->kind == ANY_REDUCE_SCATTER)
        p.recv = p.send + mine;
    else if (c->in_place)
        p.send = p.recv + (is_gather(c) ? mine : 0);
    return p;
}

/* Filler where the result will be, then what is sent: they may overlap. */
static void upload(const struct item *c, const struct places *p)
{
    size_t elem = hvd_dtype_size(c->dtype);

    for (size_t k = 0; k < recv_length(c); k++)
        put(c->dtype, buffers.here, k, FILLER);
    gpu_copy(p->recv, buffers.here, recv_length(c) * elem);
    for (size_t k = 0; k < send_length(c); k++)
        put(c->dtype, buffers.here, k, value_of(c, hvd_rank(), k));
    gpu_copy(p->send, buffers.here, send_length(c) * elem);
}

static hvd_status_t call(const struct item *c, const struct places *p)
{
    size_t sendcounts[DEVICE_CHECK_RANKS_MAX];
    size_t recvcounts[DEVICE_CHECK_RANKS_MAX], displs[DEVICE_CHECK_RANKS_MAX];
    hvd_options_t options = HVD_OPTIONS_INIT;
    struct any_call any = {.kind = c->kind,
                           .sendbuf = p->send,
                           .recvbuf = p->recv,
                           .count = c->count,
                           .sendcounts = sendcounts,
                           .sdispls = displs,
                           .recvcounts = recvcounts,
                           .rdispls = displs,
                           .dtype = c->dtype,
                           .op = c->op,
                           .root = root_of(c)};

    for (int i = 0; i < hvd_size(); i++) {
        sendcounts[i] = n_between(c, hvd_rank(), i);
        recvcounts[i] = n_between(c, i, hvd_rank());
        displs[i] = stride_of(c) * (size_t)i;
    }
    if (c->kind == ANY_ALLGATHERV)
        any.count = sendcounts[0];
    if (c->scaled) {
        options.prescale = 2;
        options.postscale = 4;
    }
    return any_call_issue(&any, &options, NULL);
}

/* --- comparing --- */

static bool is_right(const struct item *c, double got, double wanted)
{
    static const double last_bit[] = {[HVD_FLOAT16] = 0x1p-10,
                                      [HVD_BFLOAT16] = 0x1p-7,
                                      [HVD_FLOAT32] = 0x1p-23,
                                      [HVD_FLOAT64] = 0x1p-52};

    if (got == wanted)
        return true;
    return c->op == HVD_AVERAGE && c->dtype >= HVD_FLOAT16 &&
           fabs(got - wanted) <= fabs(wanted) * last_bit[c->dtype];
}

static void compare(const struct item *c, const struct places *p,
                    struct device_check *found)
{
    size_t n = recv_length(c);

    gpu_copy(buffers.here, p->recv, n * hvd_dtype_size(c->dtype));
    for (size_t k = 0; k < n; k++) {
        double got = get(c->dtype, buffers.here, k);

        found->n_elements++;
        if (is_right(c, got, buffers.want[k]))
            continue;
        if (found->n_wrong++ == 0)
            snprintf(found->first, sizeof(found->first),
                     "rank %d, kind %d, %s %s%s, element %zu of %zu: %g, not "
                     "%g",
                     hvd_rank(), (int)c->kind, dtype_name(c->dtype),
                     op_name(c->op), c->in_place ? " in place" : "", k, n, got,
                     buffers.want[k]);
    }
}

static hvd_status_t check(const struct item *c, struct device_check *found)
{
    struct places p = places_of(c);
    hvd_status_t status;

    upload(c, &p);
    want(c);
    status = call(c, &p);
    if (status == HVD_ERR_UNSUPPORTED) {
        found->n_refused++;
        return HVD_OK;
    }
    found->n_cases++;
    if (status == HVD_OK)
        compare(c, &p, found);
    return status;
}

/* --- all of them --- */

static hvd_status_t check_places(struct item *c, struct device_check *found)
{
    bool both = !is_exchange(c) && c->kind != ANY_BROADCAST;

    for (int place = 0; place <= (int)both; place++) {
        c->in_place = place;
        HVD_TRY(check(c, found));
    }
    return HVD_OK;
}

static hvd_status_t check_ops(struct item *c, struct device_check *found)
{
    int last = reduces(c->kind) ? HVD_PRODUCT : HVD_SUM;

    for (int op = HVD_SUM; op <= last; op++) {
        c->op = (hvd_op_t)op;
        HVD_TRY(check_places(c, found));
    }
    c->op = HVD_SUM;
    c->scaled = true;
    if (c->kind == ANY_ALLREDUCE && c->dtype >= HVD_FLOAT16)
        HVD_TRY(check_places(c, found));
    return HVD_OK;
}

static hvd_status_t check_dtypes(enum any_kind kind, size_t count,
                                 struct device_check *found)
{
    for (int dtype = HVD_INT8; dtype <= HVD_FLOAT64; dtype++) {
        struct item c = {
            .kind = kind, .dtype = (hvd_dtype_t)dtype, .count = count};

        HVD_TRY(check_ops(&c, found));
    }
    return HVD_OK;
}

static void reserve(size_t count_max)
{
    size_t n = (count_max + VARIES + GAP) * (size_t)hvd_size();

    buffers.nbytes = n * ELEM_MAX;
    buffers.here = malloc(buffers.nbytes);
    buffers.want = malloc(n * sizeof(*buffers.want));
    if (buffers.here == NULL || buffers.want == NULL)
        abort();
    buffers.send = gpu_alloc(buffers.nbytes);
    buffers.recv = gpu_alloc(buffers.nbytes);
}

hvd_status_t device_check_all(size_t count_max, struct device_check *found)
{
    const size_t counts[N_COUNTS] = {1, count_max / 1000 + 7, count_max};
    hvd_status_t status = HVD_OK;

    *found = (struct device_check){0};
    if (hvd_size() > DEVICE_CHECK_RANKS_MAX)
        return HVD_ERR_INVALID;
    reserve(count_max + 7);
    for (size_t i = 0; i < ARRAY_SIZE(counts) && status == HVD_OK; i++)
        for (int kind = ANY_ALLREDUCE; kind < ANY_BARRIER && status == HVD_OK;
             kind++)
            status = check_dtypes((enum any_kind)kind, counts[i], found);
    gpu_free(buffers.send);
    gpu_free(buffers.recv);
    free(buffers.here);
    free(buffers.want);
    return status;
}
