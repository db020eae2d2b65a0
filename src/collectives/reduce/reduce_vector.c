/* collectives/reduce/reduce_vector.c - the kernels in vectors of 64, 32 or 16
 * bytes. meson compiles this file once per instruction set; what the compiler
 * then may use decides the width and the name of the one function that comes of
 * it.
 *
 * One loop for all, run(): a block of some vectors stays in registers while
 * all sources go into it, so each source is read once and each result written
 * once.
 * What is less than a vector, before the first aligned one and at the end, goes
 * through the same code with a part of a vector. run() is compiled per dtype
 * and op: both are constants there, and the switches go.
 *
 * Vectors are written in the compiler's extension, instructions only where it
 * has no word for them. A comparison of vectors is 0 or -1 per element.
 *
 * Pure. No memory of its own. */
#include <stdint.h>
#include <string.h>

#include "base/array.h"
#include "collectives/reduce/dtype.h"
#include "collectives/reduce/reduce_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512BW__)
#define TO_ALL reduce_to_all_avx512
enum { WIDTH = 64 };
#elif defined(__AVX2__)
#define TO_ALL reduce_to_all_avx2
enum { WIDTH = 32 };
#elif defined(__aarch64__)
#define TO_ALL reduce_to_all_neon
enum { WIDTH = 16 };
#else
#error "no vectors here: see meson.build"
#endif

#define INLINE static inline __attribute__((always_inline))
#define VECTOR __attribute__((vector_size(WIDTH)))

typedef int8_t vi8 VECTOR;
typedef uint8_t vu8 VECTOR;
typedef int16_t vi16 VECTOR;
typedef int32_t vi32 VECTOR;
typedef uint32_t vu32 VECTOR;
typedef int64_t vi64 VECTOR;
typedef uint64_t vu64 VECTOR;
typedef float vf32 VECTOR;
typedef double vf64 VECTOR;

/* What run() works on. */
struct job {
    uint8_t *const *dsts;
    const uint8_t *const *srcs;
    int n_dsts, n_srcs;
    size_t nbytes;
    size_t first; /* bytes before the first aligned vector of dsts[0] */
    bool nontemporal;
    int divisor;
    int shift; /* of the divisor if it is a power of two, else -1 */
};

INLINE vi8 load(const uint8_t *src)
{
    vi8 v;

    memcpy(&v, src, sizeof(v));
    return v;
}

/* Nontemporal: dst is aligned to the vector. */
INLINE void store(uint8_t *dst, vi8 v, bool nontemporal)
{
#if defined(__AVX512BW__)
    if (nontemporal)
        _mm512_stream_si512((void *)dst, (__m512i)v);
    else
        memcpy(dst, &v, sizeof(v));
#elif defined(__AVX2__)
    if (nontemporal)
        _mm256_stream_si256((void *)dst, (__m256i)v);
    else
        memcpy(dst, &v, sizeof(v));
#else
    memcpy(dst, &v, sizeof(v));
#endif
}

/* The first nbytes < WIDTH of a vector, the others are 0. */
INLINE vi8 load_part(const uint8_t *src, size_t nbytes)
{
#if defined(__AVX512BW__)
    return (vi8)_mm512_maskz_loadu_epi8(((__mmask64)1 << nbytes) - 1, src);
#else
    vi8 v = {0};

    memcpy(&v, src, nbytes);
    return v;
#endif
}

INLINE void store_part(uint8_t *dst, vi8 v, size_t nbytes)
{
#if defined(__AVX512BW__)
    _mm512_mask_storeu_epi8(dst, ((__mmask64)1 << nbytes) - 1, (__m512i)v);
#else
    memcpy(dst, &v, nbytes);
#endif
}

/* Nontemporal stores are ordered by nothing but this. */
INLINE void nontemporal_end(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

/* a where the mask says so, else b. */
#define SELECT(type, mask, a, b) \
    ((type)(((vi8)(mask) & (vi8)(a)) | (~(vi8)(mask) & (vi8)(b))))

#define LEAST(type, op, a, b) \
    SELECT(type, (op) == HVD_MIN ? (a) < (b) : (a) > (b), a, b)

/* The order of integers is that of floats of the same bits, -0 below +0, once
 * the magnitude of the negative ones is turned round. Its own inverse. */
#define TURN(a, magnitude) ((a) ^ (((a) < 0) & (magnitude)))

/* MIN and MAX of floats by their bits, without arithmetic: what is flushed to
 * zero by a program built with -ffast-math stays what it is. A NaN of either
 * makes `quiet`. */
#define LEAST_FLOATS(name, type, magnitude, infinity, quiet)                  \
    INLINE vi8 least_##name(hvd_op_t op, type a, type b)                      \
    {                                                                         \
        type turned_a = TURN(a, magnitude), turned_b = TURN(b, magnitude);    \
        type least = LEAST(type, op, turned_a, turned_b);                     \
        type nan = ((a & (magnitude)) > (infinity)) |                         \
                   ((b & (magnitude)) > (infinity));                          \
                                                                              \
        return SELECT(vi8, nan, (type){0} + (quiet), TURN(least, magnitude)); \
    }

LEAST_FLOATS(float16, vi16, 0x7fff, 0x7c00, 0x7e00)
LEAST_FLOATS(bfloat16, vi16, 0x7fff, 0x7f80, 0x7fc0)
LEAST_FLOATS(float32, vi32, 0x7fffffff, 0x7f800000, 0x7fc00000)
LEAST_FLOATS(float64, vi64, INT64_MAX, 0x7ff0000000000000, 0x7ff8000000000000)

/* Every NaN becomes the one. */
INLINE vi8 quiet32(vf32 a)
{
    return SELECT(vi8, a != a, (vi32){0} + 0x7fc00000, a);
}

INLINE vi8 quiet64(vf64 a)
{
    return SELECT(vi8, a != a, (vi64){0} + 0x7ff8000000000000, a);
}

INLINE vi8 quiet16(vi16 a)
{
    return SELECT(vi8, (a & 0x7fff) > 0x7c00, (vi16){0} + 0x7e00, a);
}

/* FLOAT16 as two vectors of binary32 and back; the halves of the vector in the
 * order that costs least. Back: nearest, ties to even; a NaN stays one. */
struct pair {
    vf32 low, high;
};

INLINE struct pair half_widen(vi8 a)
{
#if defined(__AVX512BW__)
    return (struct pair){
        (vf32)_mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)a)),
        (vf32)_mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)a, 1))};
#elif defined(__AVX2__)
    return (struct pair){
        (vf32)_mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)a)),
        (vf32)_mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)a, 1))};
#else
    float16x8_t half = vreinterpretq_f16_s8((int8x16_t)a);

    return (struct pair){(vf32)vcvt_f32_f16(vget_low_f16(half)),
                         (vf32)vcvt_high_f32_f16(half)};
#endif
}

INLINE vi8 half_narrow(struct pair a)
{
#if defined(__AVX512BW__)
    __m256i low = _mm512_cvtps_ph((__m512)a.low, _MM_FROUND_TO_NEAREST_INT);
    __m256i high = _mm512_cvtps_ph((__m512)a.high, _MM_FROUND_TO_NEAREST_INT);

    return (vi8)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
#elif defined(__AVX2__)
    __m128i low = _mm256_cvtps_ph((__m256)a.low, _MM_FROUND_TO_NEAREST_INT);
    __m128i high = _mm256_cvtps_ph((__m256)a.high, _MM_FROUND_TO_NEAREST_INT);

    return (vi8)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
#else
    float16x4_t low = vcvt_f16_f32((float32x4_t)a.low);

    return (vi8)vcvt_high_f16_f32(low, (float32x4_t)a.high);
#endif
}

/* BFLOAT16 likewise: the even elements and the odd ones, where they are. */
INLINE struct pair bfloat_widen(vi8 a)
{
    return (struct pair){(vf32)((vu32)a << 16), (vf32)((vu32)a & 0xffff0000u)};
}

/* Rounded in the upper half of each element. */
INLINE vu32 bfloat_round(vf32 a)
{
    vu32 bits = (vu32)a;

    bits += 0x7fffu + ((bits >> 16) & 1u);
    return SELECT(vu32, a != a, (vi32){0} + 0x7fc00000, bits);
}

INLINE vi8 bfloat_narrow(struct pair a)
{
    return (vi8)((bfloat_round(a.low) >> 16) |
                 (bfloat_round(a.high) & 0xffff0000u));
}

INLINE vf32 combine32(hvd_op_t op, vf32 a, vf32 b)
{
    return op == HVD_PRODUCT ? a * b : a + b;
}

INLINE struct pair combine_pairs(hvd_op_t op, struct pair a, struct pair b)
{
    return (struct pair){combine32(op, a.low, b.low),
                         combine32(op, a.high, b.high)};
}

#define COMBINE_INTEGERS(type, wide)             \
    if (op == HVD_MIN || op == HVD_MAX)          \
        return LEAST(vi8, op, (type)a, (type)b); \
    if (op == HVD_PRODUCT)                       \
        return (vi8)((wide)a * (wide)b);         \
    return (vi8)((wide)a + (wide)b)

/* Integers wrap: unsigned ones do. */
INLINE vi8 combine_integers(hvd_dtype_t dtype, hvd_op_t op, vi8 a, vi8 b)
{
    switch (dtype) {
    case HVD_INT8:
        COMBINE_INTEGERS(vi8, vu8);
    case HVD_UINT8:
        COMBINE_INTEGERS(vu8, vu8);
    case HVD_INT32:
        COMBINE_INTEGERS(vi32, vu32);
    default:
        COMBINE_INTEGERS(vi64, vu64);
    }
}

INLINE vi8 least_floats(hvd_dtype_t dtype, hvd_op_t op, vi8 a, vi8 b)
{
    switch (dtype) {
    case HVD_FLOAT16:
        return least_float16(op, (vi16)a, (vi16)b);
    case HVD_BFLOAT16:
        return least_bfloat16(op, (vi16)a, (vi16)b);
    case HVD_FLOAT32:
        return least_float32(op, (vi32)a, (vi32)b);
    default:
        return least_float64(op, (vi64)a, (vi64)b);
    }
}

INLINE vi8 combine(hvd_dtype_t dtype, hvd_op_t op, vi8 a, vi8 b)
{
    if (dtype <= HVD_INT64)
        return combine_integers(dtype, op, a, b);
    if (op == HVD_MIN || op == HVD_MAX)
        return least_floats(dtype, op, a, b);
    switch (dtype) {
    case HVD_FLOAT16:
        return quiet16(
            (vi16)half_narrow(combine_pairs(op, half_widen(a), half_widen(b))));
    case HVD_BFLOAT16:
        return bfloat_narrow(
            combine_pairs(op, bfloat_widen(a), bfloat_widen(b)));
    case HVD_FLOAT32:
        return quiet32(combine32(op, (vf32)a, (vf32)b));
    default:
        return quiet64(op == HVD_PRODUCT ? (vf64)a * (vf64)b
                                         : (vf64)a + (vf64)b);
    }
}

#define LIFT(type, a, bits, low) \
    ((type)(a) + (((type)(a) >> ((bits)-1)) & (low)))

/* By a power of two that the type holds: a shift rounds down, toward 0 when the
 * negative ones have been lifted. */
INLINE vi8 shift_integers(hvd_dtype_t dtype, vi8 a, int shift)
{
    int low = (int)((1u << shift) - 1);

    switch (dtype) {
    case HVD_INT8:
        return LIFT(vi8, a, 8, (int8_t)low) >> shift;
    case HVD_UINT8:
        return (vi8)((vu8)a >> shift);
    case HVD_INT32:
        return (vi8)(LIFT(vi32, a, 32, low) >> shift);
    default:
        return (vi8)(LIFT(vi64, a, 64, (int64_t)low) >> shift);
    }
}

union lanes {
    vi8 vector;
    int8_t i8[WIDTH];
    uint8_t u8[WIDTH];
    int32_t i32[WIDTH / 4];
    int64_t i64[WIDTH / 8];
};

#define DIVIDE_LANES(lanes, type, wide)            \
    for (size_t i = 0; i < ARRAY_SIZE(lanes); i++) \
    (lanes)[i] = (type)((wide)(lanes)[i] / (wide)n)

/* Processors have no vectors of integers to divide, but of floats: a quotient
 * that is not whole is further from the next whole number than one with so many
 * more digits than the operands can be off. */
INLINE vi8 divide_lanes(hvd_dtype_t dtype, vi8 a, int n)
{
    union lanes lanes = {.vector = a};

    switch (dtype) {
    case HVD_INT8:
        DIVIDE_LANES(lanes.i8, int8_t, float);
        break;
    case HVD_UINT8:
        DIVIDE_LANES(lanes.u8, uint8_t, float);
        break;
    case HVD_INT32:
        DIVIDE_LANES(lanes.i32, int32_t, double);
        break;
    default:
        DIVIDE_LANES(lanes.i64, int64_t, int64_t);
        break;
    }
    return lanes.vector;
}

/* A power of two has an exact reciprocal: the product is the quotient. */
INLINE vf32 divide32(vf32 a, const struct job *job)
{
    return job->shift >= 0 ? a * (1 / (float)job->divisor)
                           : a / (float)job->divisor;
}

INLINE vf64 divide64(vf64 a, const struct job *job)
{
    return job->shift >= 0 ? a * (1 / (double)job->divisor)
                           : a / (double)job->divisor;
}

INLINE struct pair divide_pair(struct pair a, const struct job *job)
{
    return (struct pair){divide32(a.low, job), divide32(a.high, job)};
}

INLINE vi8 divide(hvd_dtype_t dtype, const struct job *job, vi8 a)
{
    switch (dtype) {
    case HVD_FLOAT16:
        return quiet16((vi16)half_narrow(divide_pair(half_widen(a), job)));
    case HVD_BFLOAT16:
        return bfloat_narrow(divide_pair(bfloat_widen(a), job));
    case HVD_FLOAT32:
        return quiet32(divide32((vf32)a, job));
    case HVD_FLOAT64:
        return quiet64(divide64((vf64)a, job));
    default:
        return job->shift >= 0 ? shift_integers(dtype, a, job->shift)
                               : divide_lanes(dtype, a, job->divisor);
    }
}

/* `nbytes` < WIDTH of the result at `at`. */
INLINE void run_part(hvd_dtype_t dtype, hvd_op_t op, const struct job *job,
                     size_t at, size_t nbytes)
{
    vi8 a = load_part(job->srcs[0] + at, nbytes);

    for (int s = 1; s < job->n_srcs; s++)
        a = combine(dtype, op, a, load_part(job->srcs[s] + at, nbytes));
    if (op == HVD_AVERAGE)
        a = divide(dtype, job, a);
    for (int d = 0; d < job->n_dsts; d++)
        store_part(job->dsts[d] + at, a, nbytes);
}

INLINE void run_vector(hvd_dtype_t dtype, hvd_op_t op, const struct job *job,
                       size_t at)
{
    vi8 a = load(job->srcs[0] + at);

    for (int s = 1; s < job->n_srcs; s++)
        a = combine(dtype, op, a, load(job->srcs[s] + at));
    if (op == HVD_AVERAGE)
        a = divide(dtype, job, a);
    for (int d = 0; d < job->n_dsts; d++)
        store(job->dsts[d] + at, a, job->nontemporal);
}

/* 256 bytes, of no more than eight vectors. Twice as much is faster by a tenth
 * in the caches, slower by a fifth from memory. */
enum { VECTORS = WIDTH == 64 ? 4 : 8, BLOCK = VECTORS * WIDTH };

/* For each v. Unrolled, or the block would not stay in registers. */
#define EACH(statement) \
    _Pragma("GCC unroll 8") for (int v = 0; v < VECTORS; v++) statement

/* All sources are read before anything is written: results may be among them.
 * What has just been read is near: to write all results now is cheaper than to
 * copy the first one to the others later. */
INLINE void run_block(hvd_dtype_t dtype, hvd_op_t op, const struct job *job,
                      size_t at)
{
    vi8 block[VECTORS];

    EACH(block[v] = load(job->srcs[0] + at + v * WIDTH));
    for (int s = 1; s < job->n_srcs; s++) {
        const uint8_t *src = job->srcs[s] + at;

        EACH(block[v] = combine(dtype, op, block[v], load(src + v * WIDTH)));
    }
    if (op == HVD_AVERAGE)
        EACH(block[v] = divide(dtype, job, block[v]));
    for (int d = 0; d < job->n_dsts; d++) {
        uint8_t *dst = job->dsts[d] + at;

        EACH(store(dst + v * WIDTH, block[v], job->nontemporal));
    }
}

INLINE void run(hvd_dtype_t dtype, hvd_op_t op, const struct job *job)
{
    size_t at = job->first, nbytes = job->nbytes;

    if (at > 0)
        run_part(dtype, op, job, 0, at);
    for (; nbytes - at >= BLOCK; at += BLOCK)
        run_block(dtype, op, job, at);
    for (; nbytes - at >= WIDTH; at += WIDTH)
        run_vector(dtype, op, job, at);
    if (at < nbytes)
        run_part(dtype, op, job, at, nbytes - at);
}

#define RUN(name, dtype, op)                       \
    static void name##_##op(const struct job *job) \
    {                                              \
        run(dtype, HVD_##op, job);                 \
    }

#define RUNS(name, dtype)     \
    RUN(name, dtype, SUM)     \
    RUN(name, dtype, AVERAGE) \
    RUN(name, dtype, MIN)     \
    RUN(name, dtype, MAX)     \
    RUN(name, dtype, PRODUCT)

RUNS(int8, HVD_INT8)
RUNS(uint8, HVD_UINT8)
RUNS(int32, HVD_INT32)
RUNS(int64, HVD_INT64)
RUNS(float16, HVD_FLOAT16)
RUNS(bfloat16, HVD_BFLOAT16)
RUNS(float32, HVD_FLOAT32)
RUNS(float64, HVD_FLOAT64)

typedef void run_fn(const struct job *job);

#define ROW(name)                                                          \
    {                                                                      \
        name##_SUM, name##_AVERAGE, name##_MIN, name##_MAX, name##_PRODUCT \
    }

static run_fn *const runs[DTYPE_END][OP_COUNT] = {
    [HVD_INT8] = ROW(int8),       [HVD_UINT8] = ROW(uint8),
    [HVD_INT32] = ROW(int32),     [HVD_INT64] = ROW(int64),
    [HVD_FLOAT16] = ROW(float16), [HVD_BFLOAT16] = ROW(bfloat16),
    [HVD_FLOAT32] = ROW(float32), [HVD_FLOAT64] = ROW(float64),
};

/* -1: not a power of two, or nothing is left after the shift. */
static int shift_of(hvd_dtype_t dtype, int divisor)
{
    int shift = __builtin_ctz((unsigned)divisor);

    if (divisor != 1 << shift)
        return -1;
    return hvd_dtype_size(dtype) == 1 && shift > 7 ? -1 : shift;
}

/* What has just been read is in the caches: to pass them by means to throw it
 * out first, which takes twice the time. */
static bool among(const void *dst, const void *const *srcs, int n_srcs)
{
    for (int s = 0; s < n_srcs; s++)
        if (srcs[s] == dst)
            return true;
    return false;
}

/* Only what is aligned can pass the caches by. */
static bool can_nontemporal(const struct job *job)
{
    for (int d = 0; d < job->n_dsts; d++)
        if (((uintptr_t)job->dsts[d] + job->first) % WIDTH != 0 ||
            among(job->dsts[d], (const void *const *)job->srcs, job->n_srcs))
            return false;
    return true;
}

/* From here on it pays that no vector written straddles a cache line: the first
 * ones go as a part. */
enum { ALIGN_BYTES_MIN = 1024 };

/* Elements that lie across their own alignment lie across every vector's: then
 * nothing is aligned, and nothing can be nontemporal. */
static void align(struct job *job, const struct reduce_shape *shape)
{
    size_t first = -(uintptr_t)job->dsts[0] % WIDTH;

    if (job->nbytes < ALIGN_BYTES_MIN ||
        first % hvd_dtype_size(shape->dtype) != 0)
        return;
    job->first = first;
    job->nontemporal = shape->nontemporal && can_nontemporal(job);
}

void TO_ALL(const struct reduce_shape *shape, void *const *dsts, int n_dsts,
            const void *const *srcs, int n_srcs, size_t count)
{
    hvd_op_t op = shape->op;
    struct job job = {
        .dsts = (uint8_t *const *)dsts,
        .srcs = (const uint8_t *const *)srcs,
        .n_dsts = n_dsts,
        .n_srcs = n_srcs,
        .nbytes = count * hvd_dtype_size(shape->dtype),
        .divisor = shape->divisor,
    };

    align(&job, shape);
    if (shape->divisor > 0)
        job.shift = shift_of(shape->dtype, shape->divisor);
    else if (op == HVD_AVERAGE)
        op = HVD_SUM; /* divided later, if at all */
    runs[shape->dtype][op](&job);
    if (job.nontemporal)
        nontemporal_end();
}
