/* collectives/reduce/dtype.h - the element types: sizes, names, and the two
 * 16-bit floats to and from binary32. Pure. Threads: any. */
#ifndef COLLECTIVES_REDUCE_DTYPE_H
#define COLLECTIVES_REDUCE_DTYPE_H

#include <stdint.h>
#include <string.h>

#include <hvd/collectives.h>

/* Dtypes begin at 1. Those before DTYPE_END are combined, those from there on
 * are moved only. Ops of two elements; HVD_ADASUM is one of vectors
 * (adasum.h), and HVD_AVERAGE_OF_ALL is an HVD_AVERAGE. */
enum {
    DTYPE_FIRST = HVD_INT8,
    DTYPE_COUNT = 8,
    DTYPE_END = DTYPE_FIRST + DTYPE_COUNT,
    DTYPE_ALL_COUNT = 12,
    DTYPE_ALL_END = DTYPE_FIRST + DTYPE_ALL_COUNT,
    OP_COUNT = 5
};

/* "float32"; "?" for an unknown one. */
const char *dtype_name(unsigned dtype);

/* "sum"; "?" for an unknown one. */
const char *op_name(unsigned op);

static inline uint32_t float_bits(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Subnormals go through an integer, not through a binary32 subnormal: programs
 * built with -ffast-math run with those flushed to zero. Exact. */
static inline float half_to_float(uint16_t half)
{
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    float small = (float)(int32_t)(half & 0x3ff) * 0x1p-24f;
    uint32_t bits = magnitude + (112u << 23);

    bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : bits;
    bits = magnitude < 0x00800000u ? float_bits(small) : bits;
    return float_of_bits(bits | sign);
}

/* Nearest, ties to even; every NaN becomes 0x7e00. Adding 0.5 to a magnitude
 * below 2^-14 leaves it rounded in units of 2^-24, the subnormal's own. */
static inline uint16_t half_of_float(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t odd = (magnitude >> 13) & 1u;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + odd) >> 13;
    uint32_t small = float_bits(float_of_bits(magnitude) + 0.5f) -
                     float_bits(0.5f);
    uint32_t half = magnitude < 0x38800000u ? small : normal;

    half = magnitude >= 0x477ff000u ? 0x7c00u : half;
    half |= (bits >> 16) & 0x8000u;
    half = magnitude > 0x7f800000u ? 0x7e00u : half;
    return (uint16_t)half;
}

static inline float bfloat_to_float(uint16_t bfloat)
{
    return float_of_bits((uint32_t)bfloat << 16);
}

/* Nearest, ties to even; every NaN becomes 0x7fc0. */
static inline uint16_t bfloat_of_float(float value)
{
    uint32_t bits = float_bits(value);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;

    rounded = (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded;
    return (uint16_t)rounded;
}

#endif
