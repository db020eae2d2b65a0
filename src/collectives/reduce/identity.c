/* collectives/reduce/identity.c - see identity.h. */
#include "collectives/reduce/identity.h"

#include <stdint.h>
#include <string.h>

/* The bits of one, in the low bytes: processors are little-endian here. */
static const uint64_t ones[] = {
    [HVD_INT8] = 1,
    [HVD_UINT8] = 1,
    [HVD_INT32] = 1,
    [HVD_INT64] = 1,
    [HVD_FLOAT16] = 0x3c00,
    [HVD_BFLOAT16] = 0x3f80,
    [HVD_FLOAT32] = 0x3f800000,
    [HVD_FLOAT64] = 0x3ff0000000000000,
};

/* Of floats infinity. */
static const uint64_t greatest[] = {
    [HVD_INT8] = INT8_MAX,      [HVD_UINT8] = UINT8_MAX,
    [HVD_INT32] = INT32_MAX,    [HVD_INT64] = INT64_MAX,
    [HVD_FLOAT16] = 0x7c00,     [HVD_BFLOAT16] = 0x7f80,
    [HVD_FLOAT32] = 0x7f800000, [HVD_FLOAT64] = 0x7ff0000000000000,
};

static const uint64_t least[] = {
    [HVD_INT8] = 0x80,          [HVD_UINT8] = 0,
    [HVD_INT32] = 0x80000000,   [HVD_INT64] = 0x8000000000000000,
    [HVD_FLOAT16] = 0xfc00,     [HVD_BFLOAT16] = 0xff80,
    [HVD_FLOAT32] = 0xff800000, [HVD_FLOAT64] = 0xfff0000000000000,
};

void reduce_identity(hvd_dtype_t dtype, hvd_op_t op, void *buf, size_t count)
{
    size_t nbytes = hvd_dtype_size(dtype);
    const uint64_t *one = op == HVD_MIN       ? &greatest[dtype]
                          : op == HVD_MAX     ? &least[dtype]
                          : op == HVD_PRODUCT ? &ones[dtype]
                                              : NULL;

    if (one == NULL) {
        memset(buf, 0, count * nbytes);
        return;
    }
    for (size_t i = 0; i < count; i++)
        memcpy((uint8_t *)buf + i * nbytes, one, nbytes);
}
