/* tests/collectives/values.h - numbers for calls whose results are known to the
 * last bit, whatever the order in which they are combined: each operand is an
 * integer small enough for the type, another on every rank and at every place,
 * so that a block which is swapped, shifted, missed or counted twice shows.
 *
 * Bytes that are moved are another sequence for each pair of ranks. Buffers
 * begin anywhere, and what is around them is to stay as it is.
 *
 * Threads: any; nothing is shared. */
#ifndef TESTS_COLLECTIVES_VALUES_H
#define TESTS_COLLECTIVES_VALUES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/reduce/dtype.h"

static inline uint64_t values_mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a + 1) * 0x9e3779b97f4a7c15u ^ (b + 1) * 0xbf58476d1ce4e5b9u;

    z = (z ^ z >> 29) * 0x94d049bb133111ebu;
    return z ^ z >> 32;
}

/* All integers up to this are values of the type. */
static inline int64_t values_max(hvd_dtype_t dtype)
{
    static const int64_t max[DTYPE_END] = {
        [HVD_INT8] = INT8_MAX,   [HVD_UINT8] = UINT8_MAX,
        [HVD_INT32] = INT32_MAX, [HVD_INT64] = (int64_t)1 << 60,
        [HVD_FLOAT16] = 1 << 11, [HVD_BFLOAT16] = 1 << 8,
        [HVD_FLOAT32] = 1 << 24, [HVD_FLOAT64] = (int64_t)1 << 53,
    };

    return max[dtype];
}

/* A factor: 1 or 2, negative if it may be; 2 on six ranks at most. */
static inline int64_t values_factor(hvd_dtype_t dtype, int size, int rank,
                                    size_t i, uint64_t any)
{
    bool may_double = ((size_t)rank + i) % (size_t)size < 6;
    int64_t factor = may_double && (any & 1) != 0 ? 2 : 1;

    return dtype != HVD_UINT8 && (any & 2) != 0 ? -factor : factor;
}

/* Element i of a rank's operand. */
static inline int64_t values_operand(hvd_dtype_t dtype, hvd_op_t op, int size,
                                     int rank, size_t i)
{
    uint64_t any = values_mix(i, (uint64_t)rank * 64 + (uint64_t)dtype * 8 +
                                     (uint64_t)op);
    int64_t max = values_max(dtype);

    if (op == HVD_PRODUCT)
        return values_factor(dtype, size, rank, i, any);
    if (op == HVD_SUM || op == HVD_AVERAGE)
        max /= size;
    if (dtype == HVD_UINT8)
        return (int64_t)(any % (uint64_t)(max + 1));
    return (int64_t)(any % (uint64_t)(2 * max + 1)) - max;
}

/* What all of them are together, but for the division. */
static inline int64_t values_result(hvd_dtype_t dtype, hvd_op_t op, int size,
                                    size_t i)
{
    int64_t result = values_operand(dtype, op, size, 0, i);

    for (int r = 1; r < size; r++) {
        int64_t v = values_operand(dtype, op, size, r, i);

        if (op == HVD_SUM || op == HVD_AVERAGE)
            result += v;
        else if (op == HVD_MIN)
            result = v < result ? v : result;
        else if (op == HVD_MAX)
            result = v > result ? v : result;
        else
            result *= v;
    }
    return result;
}

/* Element i := value / divisor: integers toward 0, others rounded once. */
static inline void values_store(hvd_dtype_t dtype, void *buf, size_t i,
                                int64_t value, int divisor)
{
    size_t e = hvd_dtype_size(dtype);
    int64_t whole = value / divisor;
    float f = (float)value / (float)divisor;
    double d = (double)value / divisor;
    uint16_t half = dtype == HVD_FLOAT16 ? half_of_float(f)
                                         : bfloat_of_float(f);
    const void *from = &whole; /* its low bytes come first */

    if (dtype == HVD_FLOAT16 || dtype == HVD_BFLOAT16)
        from = &half;
    else if (dtype == HVD_FLOAT32)
        from = &f;
    else if (dtype == HVD_FLOAT64)
        from = &d;
    memcpy((uint8_t *)buf + i * e, from, e);
}

/* Elements [first, first + count) of a rank's operand. */
static inline void values_fill(hvd_dtype_t dtype, hvd_op_t op, int size,
                               int rank, void *buf, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values_store(dtype, buf, i,
                     values_operand(dtype, op, size, rank, first + i), 1);
}

/* The first of `count` elements that is not what it should be; count: none. */
static inline size_t values_wrong(hvd_dtype_t dtype, hvd_op_t op, int size,
                                  const void *buf, size_t first, size_t count)
{
    size_t e = hvd_dtype_size(dtype);
    int divisor = op == HVD_AVERAGE ? size : 1;
    uint8_t expected[8];

    for (size_t i = 0; i < count; i++) {
        values_store(dtype, expected, 0,
                     values_result(dtype, op, size, first + i), divisor);
        if (memcmp(expected, (const uint8_t *)buf + i * e, e) != 0)
            return i;
    }
    return count;
}

/* --- bytes that are moved --- */

static inline uint64_t moved_word(int from, int to, size_t i)
{
    return values_mix(i, (uint64_t)from * 1024 + (uint64_t)to);
}

/* What `from` has for `to`. */
static inline void moved_fill(void *buf, size_t nbytes, int from, int to)
{
    for (size_t i = 0; i < nbytes; i += 8) {
        uint64_t word = moved_word(from, to, i);

        memcpy((uint8_t *)buf + i, &word, nbytes - i < 8 ? nbytes - i : 8);
    }
}

/* Are they from there, all of them? */
static inline bool moved_right(const void *buf, size_t nbytes, int from, int to)
{
    for (size_t i = 0; i < nbytes; i += 8) {
        uint64_t word = moved_word(from, to, i);

        if (memcmp((const uint8_t *)buf + i, &word,
                   nbytes - i < 8 ? nbytes - i : 8) != 0)
            return false;
    }
    return true;
}

/* --- buffers anywhere --- */

enum { PLACED_MARGIN = 64, PLACED_MARK = 0xe5 };

/* at: [nbytes] from any address on, half the time one that suits all types. */
struct placed {
    uint8_t *memory, *at;
    size_t nbytes;
};

static inline struct placed placed_create(size_t nbytes, uint64_t any)
{
    struct placed p = {.memory = malloc(nbytes + 3 * PLACED_MARGIN),
                       .nbytes = nbytes};

    if (p.memory == NULL)
        abort();
    memset(p.memory, PLACED_MARK, nbytes + 3 * PLACED_MARGIN);
    p.at = p.memory + PLACED_MARGIN;
    if (any % 2 != 0)
        p.at += any / 2 % PLACED_MARGIN;
    return p;
}

/* Is what is around it as it was? */
static inline bool placed_intact(const struct placed *p)
{
    const uint8_t *end = p->memory + p->nbytes + 3 * PLACED_MARGIN;

    for (const uint8_t *b = p->memory; b < end; b++) {
        if (b == p->at)
            b += p->nbytes;
        if (*b != PLACED_MARK)
            return false;
    }
    return true;
}

static inline void placed_destroy(struct placed *p)
{
    free(p->memory);
}

#endif
