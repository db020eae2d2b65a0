/* collectives/reduce/identity.c - see identity.h. */
#include "collectives/reduce/identity.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* One element each, as bytes. */
union element {
    int8_t i8;
    uint8_t u8;
    uint16_t bits16;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
};

static const union element ones[] = {
    [HVD_INT8] = {.i8 = 1},
    [HVD_UINT8] = {.u8 = 1},
    [HVD_INT32] = {.i32 = 1},
    [HVD_INT64] = {.i64 = 1},
    [HVD_FLOAT16] = {.bits16 = 0x3c00},
    [HVD_BFLOAT16] = {.bits16 = 0x3f80},
    [HVD_FLOAT32] = {.f32 = 1},
    [HVD_FLOAT64] = {.f64 = 1},
};

static const union element greatest[] = {
    [HVD_INT8] = {.i8 = INT8_MAX},      [HVD_UINT8] = {.u8 = UINT8_MAX},
    [HVD_INT32] = {.i32 = INT32_MAX},   [HVD_INT64] = {.i64 = INT64_MAX},
    [HVD_FLOAT16] = {.bits16 = 0x7c00}, [HVD_BFLOAT16] = {.bits16 = 0x7f80},
    [HVD_FLOAT32] = {.f32 = INFINITY},  [HVD_FLOAT64] = {.f64 = INFINITY},
};

static const union element least[] = {
    [HVD_INT8] = {.i8 = INT8_MIN},      [HVD_UINT8] = {.u8 = 0},
    [HVD_INT32] = {.i32 = INT32_MIN},   [HVD_INT64] = {.i64 = INT64_MIN},
    [HVD_FLOAT16] = {.bits16 = 0xfc00}, [HVD_BFLOAT16] = {.bits16 = 0xff80},
    [HVD_FLOAT32] = {.f32 = -INFINITY}, [HVD_FLOAT64] = {.f64 = -INFINITY},
};

void reduce_identity(hvd_dtype_t dtype, hvd_op_t op, void *buf, size_t count)
{
    size_t nbytes = hvd_dtype_size(dtype);
    const union element *one = op == HVD_MIN       ? &greatest[dtype]
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
