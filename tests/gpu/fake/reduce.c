/* reduce.c - see reduce.h. */
#include "reduce.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "collectives/reduce/dtype.h"

size_t fake_size_of(ncclDataType_t type)
{
    static const size_t nbytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return nbytes[type];
}

#define REDUCE(T)                                                 \
    do {                                                          \
        T *a = (T *)dst;                                          \
        const T *b = (const T *)src;                              \
                                                                  \
        for (size_t i = 0; i < count; i++)                        \
            a[i] = op == ncclMax    ? (a[i] > b[i] ? a[i] : b[i]) \
                   : op == ncclMin  ? (a[i] < b[i] ? a[i] : b[i]) \
                   : op == ncclProd ? (T)(a[i] * b[i])            \
                                    : (T)(a[i] + b[i]);           \
    } while (0)

/* 16 bits: each by way of a float. */
static void reduce_bits(uint16_t *to, const uint16_t *from, size_t n,
                        ncclRedOp_t op, bool brain)
{
    const size_t count = 1;

    for (size_t k = 0; k < n; k++) {
        float dst[] = {brain ? bfloat_to_float(to[k]) : half_to_float(to[k])};
        float src[] = {brain ? bfloat_to_float(from[k])
                             : half_to_float(from[k])};

        REDUCE(float);
        to[k] = brain ? bfloat_of_float(dst[0]) : half_of_float(dst[0]);
    }
}

void fake_reduce(void *dst, const void *src, size_t count, ncclDataType_t type,
                 ncclRedOp_t op)
{
    switch ((int)type) {
    case ncclInt8:
        REDUCE(int8_t);
        return;
    case ncclUint8:
        REDUCE(uint8_t);
        return;
    case ncclInt32:
        REDUCE(int32_t);
        return;
    case ncclInt64:
        REDUCE(int64_t);
        return;
    case ncclFloat16:
        reduce_bits(dst, src, count, op, false);
        return;
    case ncclFloat32:
        REDUCE(float);
        return;
    case ncclFloat64:
        REDUCE(double);
        return;
    case ncclBfloat16:
        reduce_bits(dst, src, count, op, true);
        return;
    default:
        abort();
    }
}
