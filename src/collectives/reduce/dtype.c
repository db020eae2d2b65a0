/* collectives/reduce/dtype.c - element sizes and names. See dtype.h. Pure. */
#include "collectives/reduce/dtype.h"

#include "base/array.h"

static const struct {
    size_t nbytes;
    const char *name;
} dtypes[DTYPE_ALL_END] = {
    [HVD_DTYPE_SAME] = {0, "?"},      [HVD_INT8] = {1, "int8"},
    [HVD_UINT8] = {1, "uint8"},       [HVD_INT32] = {4, "int32"},
    [HVD_INT64] = {8, "int64"},       [HVD_FLOAT16] = {2, "float16"},
    [HVD_BFLOAT16] = {2, "bfloat16"}, [HVD_FLOAT32] = {4, "float32"},
    [HVD_FLOAT64] = {8, "float64"},   [HVD_INT16] = {2, "int16"},
    [HVD_UINT16] = {2, "uint16"},     [HVD_UINT32] = {4, "uint32"},
    [HVD_BOOL] = {1, "bool"},
};

static const char *const ops[] = {
    [HVD_SUM] = "sum", [HVD_AVERAGE] = "average", [HVD_MIN] = "min",
    [HVD_MAX] = "max", [HVD_PRODUCT] = "product", [HVD_ADASUM] = "adasum",
};

size_t hvd_dtype_size(hvd_dtype_t dtype)
{
    return (unsigned)dtype < ARRAY_SIZE(dtypes) ? dtypes[dtype].nbytes : 0;
}

const char *dtype_name(unsigned dtype)
{
    return dtype < ARRAY_SIZE(dtypes) ? dtypes[dtype].name : "?";
}

const char *op_name(unsigned op)
{
    return op < ARRAY_SIZE(ops) ? ops[op] : "?";
}
