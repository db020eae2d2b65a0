/* bench/cases.c - see cases.h.
 *
 * An element's value is one of at most 64, chosen by bits of a hash of its
 * index. They are encoded once into a table, because filling and checking
 * 256 MB on each rank must not take longer than measuring it. */
#include <string.h>

#include "bench/cases.h"

enum { VALUES = 64 };

/* Consecutive elements whose values follow from (index * HASH >> shift) ^
 * turn. */
struct run {
    uint64_t bits[VALUES];
    unsigned shift, turn;
    uint32_t first; /* index of the first element, modulo 2^32 */
    size_t each, n;
};

static const uint32_t HASH = 0x9e3779b1u;

/* ---- shapes -------------------------------------------------------------- */

static const char *const names[CASE_KINDS] = {
    "allreduce",      "broadcast", "allgather",
    "reduce_scatter", "alltoall",  "barrier",
};

const char *case_name(enum case_kind kind)
{
    return names[kind];
}

bool case_parse(const char *name, enum case_kind *kind_p)
{
    for (int i = 0; i < CASE_KINDS; i++) {
        if (strcmp(name, names[i]) == 0) {
            *kind_p = (enum case_kind)i;
            return true;
        }
    }
    return false;
}

static size_t dtype_nbytes(hvd_dtype_t dtype)
{
    switch (dtype) {
    case HVD_INT32:
    case HVD_FLOAT32:
        return 4;
    case HVD_INT64:
    case HVD_FLOAT64:
        return 8;
    case HVD_FLOAT16:
    case HVD_BFLOAT16:
        return 2;
    default:
        return 1;
    }
}

static size_t blocks(const struct bench_case *c, bool send)
{
    switch (c->kind) {
    case CASE_ALLREDUCE:
        return 1;
    case CASE_BROADCAST:
        return send ? 0 : 1;
    case CASE_ALLGATHER:
        return send ? 1 : (size_t)c->size;
    case CASE_REDUCE_SCATTER:
        return send ? (size_t)c->size : 1;
    case CASE_ALLTOALL:
        return (size_t)c->size;
    default:
        return 0;
    }
}

static size_t blocks_max(const struct bench_case *c)
{
    size_t send = blocks(c, true), recv = blocks(c, false);

    return send > recv ? send : recv;
}

void case_resize(struct bench_case *c, size_t nbytes)
{
    size_t block = dtype_nbytes(c->dtype) * blocks_max(c);

    c->each = dtype_nbytes(c->dtype);
    c->count = block ? (nbytes + block - 1) / block : 0;
}

size_t case_send_nbytes(const struct bench_case *c)
{
    return blocks(c, true) * c->count * c->each;
}

size_t case_recv_nbytes(const struct bench_case *c)
{
    return blocks(c, false) * c->count * c->each;
}

size_t case_nbytes(const struct bench_case *c)
{
    return blocks_max(c) * c->count * c->each;
}

double case_bus_factor(const struct bench_case *c)
{
    double n = c->size;

    switch (c->kind) {
    case CASE_ALLREDUCE:
        return 2 * (n - 1) / n;
    case CASE_BROADCAST:
        return 1;
    default:
        return (n - 1) / n;
    }
}

/* ---- values -------------------------------------------------------------- */

static bool combines(const struct bench_case *c)
{
    return c->kind == CASE_ALLREDUCE || c->kind == CASE_REDUCE_SCATTER;
}

bool case_is_exact(const struct bench_case *c)
{
    bool sums = combines(c) && (c->op == HVD_SUM || c->op == HVD_AVERAGE);
    int sum_max = sums ? 4 * c->size : VALUES;

    switch (c->dtype) {
    case HVD_INT8:
        return sum_max <= INT8_MAX || c->op == HVD_SUM;
    case HVD_UINT8:
        return sum_max <= UINT8_MAX || c->op == HVD_SUM;
    case HVD_FLOAT16:
        return sum_max <= 2048;
    case HVD_BFLOAT16:
        return sum_max <= 256;
    default:
        return true;
    }
}

/* The bits of a small whole number; 8-bit integers wrap by being cut off. */
static uint64_t encode(hvd_dtype_t dtype, uint64_t value)
{
    float single = (float)value;
    double twice = (double)value;
    uint64_t bits64;
    uint32_t bits;
    int exponent;

    memcpy(&bits, &single, sizeof(bits));
    memcpy(&bits64, &twice, sizeof(bits64));
    switch (dtype) {
    case HVD_FLOAT16: /* value <= 2048: no rounding, no subnormal */
        exponent = (int)(bits >> 23) - 127;
        return value == 0
                   ? 0
                   : (uint64_t)(exponent + 15) << 10 | (bits >> 13 & 0x3ff);
    case HVD_BFLOAT16:
        return bits >> 16;
    case HVD_FLOAT32:
        return bits;
    case HVD_FLOAT64:
        return bits64;
    default:
        return value;
    }
}

/* Ranks in pairs add and take one: the sum over all of them is 0. */
static int deviation(const struct bench_case *c, int rank)
{
    if (rank % 2 == 0)
        return rank + 1 < c->size ? 1 : 0;
    return -1;
}

/* What a rank's operand holds where the hash says 0 or 1. Only rank 0 has
 * factors other than 1: a product of many small numbers is not small. */
static uint64_t operand(const struct bench_case *c, int rank, int bit)
{
    if (c->op == HVD_PRODUCT)
        return rank == 0 ? (uint64_t)(1 + bit) : 1;
    return (uint64_t)(2 + bit + deviation(c, rank));
}

static uint64_t combined(const struct bench_case *c, int bit)
{
    uint64_t mean = (uint64_t)(2 + bit), size = (uint64_t)c->size;

    switch (c->op) {
    case HVD_SUM:
        return mean * size;
    case HVD_MIN:
        return size > 1 ? mean - 1 : mean;
    case HVD_MAX:
        return size > 1 ? mean + 1 : mean;
    case HVD_PRODUCT:
        return (uint64_t)(1 + bit);
    default:
        return mean;
    }
}

/* rank -1: of the combination of all. */
static struct run run_combined(const struct bench_case *c, int rank,
                               size_t first, size_t n)
{
    struct run r = {
        .shift = 31, .first = (uint32_t)first, .each = c->each, .n = n};

    for (int bit = 0; bit < 2; bit++) {
        uint64_t value = rank < 0 ? combined(c, bit) : operand(c, rank, bit);

        r.bits[bit] = encode(c->dtype, value);
    }
    return r;
}

/* Elements [first, first + n) of what a rank gives away; never 0. */
static struct run run_moved(const struct bench_case *c, int rank, size_t first,
                            size_t n)
{
    struct run r = {.shift = 26,
                    .turn = (unsigned)rank % VALUES,
                    .first = (uint32_t)first,
                    .each = c->each,
                    .n = n};

    for (unsigned i = 0; i < VALUES; i++)
        r.bits[i] = encode(c->dtype, 1 + i);
    return r;
}

#define RUN_BITS(r, i)                                                         \
    ((r)->bits[((uint32_t)((r)->first + (uint32_t)(i)) * HASH >> (r)->shift) ^ \
               (r)->turn])

#define RUN_FILL(type, r, buf)              \
    do {                                    \
        type *at = (buf);                   \
        for (size_t i = 0; i < (r)->n; i++) \
            at[i] = (type)RUN_BITS(r, i);   \
    } while (0)

#define RUN_COUNT(type, r, buf, wrong)                \
    do {                                              \
        const type *at = (buf);                       \
        for (size_t i = 0; i < (r)->n; i++)           \
            (wrong) += at[i] != (type)RUN_BITS(r, i); \
    } while (0)

/* Little-endian: the low bytes of the bits are the element. */
static void run_fill(const struct run *r, void *buf)
{
    switch (r->each) {
    case 1:
        RUN_FILL(uint8_t, r, buf);
        break;
    case 2:
        RUN_FILL(uint16_t, r, buf);
        break;
    case 4:
        RUN_FILL(uint32_t, r, buf);
        break;
    default:
        RUN_FILL(uint64_t, r, buf);
        break;
    }
}

static int64_t run_count_wrong(const struct run *r, const void *buf)
{
    int64_t wrong = 0;

    switch (r->each) {
    case 1:
        RUN_COUNT(uint8_t, r, buf, wrong);
        break;
    case 2:
        RUN_COUNT(uint16_t, r, buf, wrong);
        break;
    case 4:
        RUN_COUNT(uint32_t, r, buf, wrong);
        break;
    default:
        RUN_COUNT(uint64_t, r, buf, wrong);
        break;
    }
    return wrong;
}

/* ---- operands and results ------------------------------------------------ */

void case_fill(const struct bench_case *c, void *send, void *recv)
{
    struct run r;

    if (c->kind == CASE_BROADCAST) {
        memset(recv, 0, case_recv_nbytes(c));
        r = run_moved(c, c->root, 0, c->count);
        if (c->rank == c->root)
            run_fill(&r, recv);
        return;
    }
    if (c->kind == CASE_BARRIER)
        return;
    r = combines(c) ? run_combined(c, c->rank, 0, blocks(c, true) * c->count)
                    : run_moved(c, c->rank, 0, blocks(c, true) * c->count);
    run_fill(&r, send);
}

/* Block i of the result. */
static struct run result_block(const struct bench_case *c, int i)
{
    size_t mine = (size_t)c->rank * c->count;

    switch (c->kind) {
    case CASE_ALLREDUCE:
        return run_combined(c, -1, 0, c->count);
    case CASE_REDUCE_SCATTER:
        return run_combined(c, -1, mine, c->count);
    case CASE_ALLGATHER:
        return run_moved(c, i, 0, c->count);
    case CASE_ALLTOALL:
        return run_moved(c, i, mine, c->count);
    default:
        return run_moved(c, c->root, 0, c->count);
    }
}

int64_t case_count_wrong(const struct bench_case *c, const void *recv)
{
    const uint8_t *at = recv;
    int64_t wrong = 0;

    for (size_t i = 0; i < blocks(c, false); i++) {
        struct run r = result_block(c, (int)i);

        wrong += run_count_wrong(&r, at + i * c->count * c->each);
    }
    return wrong;
}
